#include "wire/check.h"

#include <stdlib.h>

#include "wire/check_walk.h"
#include "wire/json_transcode.h"
#include "wire/otlp_json.h"

/* Receivers that were not configured otherwise refuse more (grpc-go's default; the limit that
 * OTLP 1.11 recommends). */
enum { USUAL_LIMIT_BYTES = 4 << 20, RECOMMENDED_LIMIT_BYTES = 64 << 20 };

static void check_size(struct check *c, size_t len)
{
	if (len > RECOMMENDED_LIMIT_BYTES)
		check_find(c, CHECK_ERROR, "message-size",
			   "has %zu bytes; receivers should take up to %u", len,
			   (unsigned)RECOMMENDED_LIMIT_BYTES);
	else if (len > USUAL_LIMIT_BYTES)
		check_find(c, CHECK_WARNING, "message-size",
			   "has %zu bytes; many receivers refuse more than %u", len,
			   (unsigned)USUAL_LIMIT_BYTES);
}

/* The tables of the request, over all occurrences of its dictionary; v1.6 has them beside the
 * resources. */
static void gather_tables(struct check *c, struct check_tables *t,
			  const struct schema_message *request, struct str bytes)
{
	struct check_walk w = check_walk_of(request, bytes);
	struct check_step step;

	if (c->version == WIRE_V1_6)
		check_tables_gather(c, t, request, bytes);
	while (check_next(c, &w, &step, false))
		if (step.field->role == ROLE_DICTIONARY)
			check_tables_gather(c, t, step.field->message, step.bytes);
}

static const struct schema_field *dictionary_field(const struct schema_message *request)
{
	for (uint8_t i = 0; i < request->field_count; i++)
		if (request->fields[i].role == ROLE_DICTIONARY)
			return &request->fields[i];
	return NULL;
}

/* The rules about tables are told at the dictionary. */
static void at_dictionary(struct check *c, const struct schema_field *dictionary,
			  void (*rules)(struct check *))
{
	size_t mark = c->path.len;

	if (dictionary)
		mark = check_path_push(c, dictionary, 0);
	rules(c);
	check_path_pop(c, mark);
}

static void check_request(struct check *c)
{
	const struct schema_message *request = schema_request(c->version);
	const struct schema_field *dictionary = dictionary_field(request);
	struct check_tables tables = { 0 };
	struct check_fields f;
	/* Of a broken one nobody knows what else there was. */
	bool whole = check_is_whole(request, c->body);

	c->tables = &tables;
	gather_tables(c, &tables, request, c->body);
	if (dictionary && !tables.present && whole)
		check_find_at(c, CHECK_ERROR, "dictionary-missing", "dictionary", "is not there");
	if (tables.present)
		at_dictionary(c, dictionary, check_tables_shape);
	else
		for (uint32_t i = 0; i < TABLE_COUNT; i++)
			tables.t[i].used = calloc(1, sizeof(bool));
	check_message(c, request, c->body, &f);
	if (!f.count[ROLE_RESOURCE_PROFILES] && whole)
		check_find_at(c, CHECK_ERROR, "resource-profiles-empty", "resource_profiles",
			      "has no entry");
	if (tables.present)
		at_dictionary(c, dictionary, check_tables_use);
	check_tables_release(&tables);
}

static void check_body(struct str body, enum wire_version version, uint32_t findings_limit,
		       struct check_result *out)
{
	struct check c = { .out = out,
			   .findings_cap = 0,
			   .findings_limit = findings_limit ? findings_limit : UINT32_MAX,
			   .version = version,
			   .body = body };

	buf_init(&c.path, 0);
	buf_init(&c.text, 0);
	check_size(&c, body.len);
	check_request(&c);
	free(c.list.at);
	free(c.identities.at);
	free(c.profile.location_indices.at);
	buf_release(&c.path);
	buf_release(&c.text);
}

static bool check_protobuf(struct str body, enum wire_version version, uint32_t findings_limit,
			   struct check_result *out, struct err *err)
{
	bool ambiguous;

	out->version = version;
	if (version == WIRE_AUTO &&
	    !otlp_detect(body, WIRE_HINT_NONE, &out->version, &ambiguous, out->evidence, err))
		return false;
	check_body(body, out->version, findings_limit, out);
	return true;
}

/* JSON is checked as the protobuf that it means; its unknown keys are one finding. */
static bool check_json(struct str body, enum wire_version version, uint32_t findings_limit,
		       struct check_result *out, struct err *err)
{
	struct json_transcoded json;
	bool ok;

	out->version = version;
	if (!otlp_json_check_encoding(body, err))
		return false;
	if (version == WIRE_AUTO)
		ok = json_transcode_by_keys(body, json_depth_limit(0), &json, &out->version, err);
	else
		ok = json_transcode(body, version, json_depth_limit(0), &json, err);
	if (ok) {
		snprintf(out->evidence, sizeof(out->evidence), "JSON with the keys of %s",
			 wire_version_name(out->version));
		check_body(buf_view(&json.protobuf), out->version, findings_limit, out);
	}
	if (ok && json.unknown_keys) {
		struct check c = { .out = out,
				   .findings_cap = out->count,
				   .findings_limit = out->count + 1 };

		buf_init(&c.path, 0);
		buf_init(&c.text, 0);
		check_find(&c, CHECK_WARNING, "unknown-key", "has %u unknown keys, the first is %s",
			   json.unknown_keys, json.first_unknown);
		buf_release(&c.path);
		buf_release(&c.text);
	}
	buf_release(&json.protobuf);
	return ok;
}

bool otlp_check(struct blob *body, enum wire_version version, uint32_t findings_limit,
		struct check_result *out, struct err *err)
{
	struct str bytes = blob_view(body);
	bool ok;

	*out = (struct check_result){ 0 };
	arena_init(&out->arena, 4096, 0);
	if (otlp_looks_like_json(bytes))
		ok = check_json(bytes, version, findings_limit, out, err);
	else
		ok = check_protobuf(bytes, version, findings_limit, out, err);
	if (!ok)
		check_result_release(out);
	return ok;
}

void check_result_release(struct check_result *r)
{
	arena_release(&r->arena);
	*r = (struct check_result){ 0 };
}
