/*
 * Every fixture of every wire version, field by field against its independent decode (*.json.gz,
 * canonical protobuf JSON): what each sample resolves to, not indices, since those move when old
 * versions are upgraded.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/otlp.h"

static const struct {
	const char *name;
	enum wire_version version;
	uint32_t samples, events;
} fixtures[] = {
	{ "v1.3.1-experimental-oncpu-a", WIRE_V1_3, 117, 149 },
	{ "v1.3.1-experimental-oncpu-b", WIRE_V1_3, 131, 160 },
	{ "v1.4.0-oncpu-start", WIRE_V1_4, 93, 103 },
	{ "v1.4.0-oncpu-mixed", WIRE_V1_4, 144, 171 },
	{ "v1.5.0-synthetic-transcoded", WIRE_V1_4, 9, 16 }, /* the same bytes in both versions */
	{ "v1.7.0-oncpu-start", WIRE_V1_7, 52, 56 },
	{ "v1.7.0-oncpu-mixed", WIRE_V1_7, 96, 111 },
	{ "v1.7.0-synthetic-transcoded", WIRE_V1_7, 9, 16 },
	{ "v1.8.0-oncpu-mixed-a", WIRE_V1_8, 102, 109 },
	{ "v1.8.0-oncpu-mixed-b", WIRE_V1_8, 110, 120 },
	{ "v1.8.0-synthetic-transcoded", WIRE_V1_8, 9, 16 },
	{ "v1.9.0-oncpu-mixed-a", WIRE_V1_9, 88, 102 },
	{ "v1.9.0-oncpu-mixed-b", WIRE_V1_9, 93, 102 },
	{ "v1.9.0-synthetic-transcoded", WIRE_V1_9, 9, 16 },
	{ "v1.11.0-oncpu-start", WIRE_V1_10, 29, 29 },
	{ "v1.11.0-oncpu-mixed", WIRE_V1_10, 132, 139 },
	{ "v1.11.0-oncpu-errframes-env", WIRE_V1_10, 80, 84 },
	{ "v1.11.0-synthetic-offcpu-links", WIRE_V1_10, 9, 16 },
	{ "v1.11.0-synthetic-offcpu-links-strindex", WIRE_V1_10, 9, 16 },
	{ "v1.11.0-oncpu-big", WIRE_V1_10, 1200, 1643 },
};

/* Both sides are written as text and the texts compared: a failing row shows what differs. */
struct view {
	json_t *tables; /* where the tables of the profile at hand are */
	enum wire_version version;
};

static char *file_read(const char *path, size_t *len)
{
	gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
	size_t cap = 1 << 22;
	char *data = malloc(cap);
	int n;

	assert_non_null(f);
	assert_non_null(data);
	n = gzread(f, data, (unsigned)cap);
	assert_true(n > 0 && (size_t)n < cap);
	gzclose(f);
	*len = (size_t)n;
	return data;
}

static json_t *get(json_t *object, const char *a, const char *b)
{
	json_t *v = json_object_get(object, a);

	return v || !b ? v : json_object_get(object, b);
}

/* 64-bit integers are strings in protobuf's JSON, enums are names. */
static int64_t number(json_t *v, int64_t absent)
{
	if (!v)
		return absent;
	if (json_is_string(v))
		return (int64_t)strtoull(json_string_value(v), NULL, 10) |
		       (json_string_value(v)[0] == '-'
				? (int64_t)strtoll(json_string_value(v), NULL, 10)
				: 0);
	return json_integer_value(v);
}

static json_t *entry(struct view *v, const char *a, const char *b, int64_t index)
{
	json_t *table = get(v->tables, a, b);

	return table ? json_array_get(table, (size_t)index) : NULL;
}

static const char *string_at(struct view *v, json_t *index)
{
	json_t *s = entry(v, "stringTable", NULL, number(index, 0));

	return s ? json_string_value(s) : "";
}

static void json_any(struct buf *b, struct view *w, json_t *value);

static void json_pairs(struct buf *b, struct view *w, json_t *list)
{
	json_t *kv;
	size_t i;

	json_array_foreach(list, i, kv)
	{
		json_t *key = json_object_get(kv, "key");

		buf_printf(b, "%s%s=", i ? "," : "",
			   key ? json_string_value(key)
			       : string_at(w, json_object_get(kv, "keyStrindex")));
		json_any(b, w, json_object_get(kv, "value"));
	}
}

static void json_any(struct buf *b, struct view *w, json_t *value)
{
	json_t *v;
	size_t i;

	if ((v = json_object_get(value, "stringValue")))
		buf_printf(b, "s:%s", json_string_value(v));
	else if ((v = json_object_get(value, "stringValueStrindex")))
		buf_printf(b, "s:%s", string_at(w, v));
	else if ((v = json_object_get(value, "intValue")))
		buf_printf(b, "i:%s", json_string_value(v));
	else if ((v = json_object_get(value, "boolValue")))
		buf_printf(b, "b:%d", json_is_true(v));
	else if ((v = json_object_get(value, "doubleValue")))
		buf_printf(b, "d:%g", json_number_value(v));
	else if ((v = json_object_get(value, "bytesValue")))
		buf_printf(b, "x:%s", json_string_value(v));
	else if ((v = json_object_get(value, "kvlistValue")))
		json_pairs(b, w, json_object_get(v, "values"));
	else if ((value = json_object_get(value, "arrayValue")))
		json_array_foreach(json_object_get(value, "values"), i, v) json_any(b, w, v);
}

static void model_any(struct buf *b, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		return;
	case ANY_STRING:
		buf_printf(b, "s:%.*s", STR_ARG(v->string));
		return;
	case ANY_INT:
		buf_printf(b, "i:%lld", (long long)v->integer);
		return;
	case ANY_BOOL:
		buf_printf(b, "b:%d", v->boolean);
		return;
	case ANY_DOUBLE:
		buf_printf(b, "d:%g", v->real);
		return;
	case ANY_BYTES:
		buf_lit(b, "x:");
		buf_base64(b, v->string.ptr, v->string.len);
		return;
	case ANY_ARRAY:
		for (uint32_t i = 0; i < v->array.count; i++)
			model_any(b, &v->array.values[i]);
		return;
	case ANY_KVLIST:
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			buf_printf(b, "%s%.*s=", i ? "," : "", STR_ARG(v->kvlist.pairs[i].key));
			model_any(b, &v->kvlist.pairs[i].value);
		}
		return;
	}
}

static void model_pairs(struct buf *b, struct key_values list)
{
	struct any_value v = { .kind = ANY_KVLIST, .kvlist = { list.ptr, list.count } };

	model_any(b, &v);
}

static void json_attributes(struct buf *b, struct view *v, json_t *indices)
{
	json_t *index;
	size_t i;

	json_array_foreach(indices, i, index)
	{
		json_t *a = entry(v, "attributeTable", NULL, number(index, 0));
		json_t *key = json_object_get(a, "key");

		buf_printf(b, "[%s=",
			   key ? json_string_value(key)
			       : string_at(v, json_object_get(a, "keyStrindex")));
		json_any(b, v, json_object_get(a, "value"));
		buf_printf(b, " %s]", string_at(v, json_object_get(a, "unitStrindex")));
	}
}

static void model_attributes(struct buf *b, const struct profiles *p, struct range list)
{
	for (uint32_t i = 0; i < list.count; i++) {
		const struct attribute *a =
			&p->dict.attributes[p->attribute_refs[list.first + i].v];

		buf_printf(b, "[%.*s=", STR_ARG(profiles_string(p, a->key)));
		model_any(b, &a->value);
		buf_printf(b, " %.*s]", STR_ARG(profiles_string(p, a->unit)));
	}
}

static void json_location(struct buf *b, struct view *v, int64_t index)
{
	json_t *l = entry(v, "locationTable", "location", index), *line, *m = NULL;
	json_t *mapping = json_object_get(l, "mappingIndex");
	size_t i;

	/* v1.8: 0 is none; v1.4 to v1.7: absence is none; v1.3: absence is 0. */
	if (mapping || v->version == WIRE_V1_3)
		m = entry(v, "mappingTable", "mapping", number(mapping, 0));
	buf_printf(b, "\n    %llx map %llx-%llx@%llx %s ",
		   (unsigned long long)number(json_object_get(l, "address"), 0),
		   (unsigned long long)number(json_object_get(m, "memoryStart"), 0),
		   (unsigned long long)number(json_object_get(m, "memoryLimit"), 0),
		   (unsigned long long)number(json_object_get(m, "fileOffset"), 0),
		   string_at(v, get(m, "filenameStrindex", "filename")));
	json_attributes(b, v, get(m, "attributeIndices", "attributes"));
	buf_lit(b, " ");
	json_attributes(b, v, get(l, "attributeIndices", "attributes"));
	json_array_foreach(get(l, "lines", "line"), i, line)
	{
		json_t *f = entry(v, "functionTable", "function",
				  number(json_object_get(line, "functionIndex"), 0));

		buf_printf(b, " (%s|%s|%s:%lld at %lld:%lld)",
			   string_at(v, get(f, "nameStrindex", "name")),
			   string_at(v, get(f, "systemNameStrindex", "systemName")),
			   string_at(v, get(f, "filenameStrindex", "filename")),
			   (long long)number(json_object_get(f, "startLine"), 0),
			   (long long)number(json_object_get(line, "line"), 0),
			   (long long)number(json_object_get(line, "column"), 0));
	}
}

static void model_location(struct buf *b, const struct profiles *p, struct location_index index)
{
	const struct dictionary *d = &p->dict;
	const struct location *l = &d->locations[index.v];
	const struct mapping *m = &d->mappings[l->mapping.v];

	buf_printf(b, "\n    %llx map %llx-%llx@%llx %.*s ", (unsigned long long)l->address,
		   (unsigned long long)m->memory_start, (unsigned long long)m->memory_limit,
		   (unsigned long long)m->file_offset, STR_ARG(profiles_string(p, m->filename)));
	model_attributes(b, p, m->attributes);
	buf_lit(b, " ");
	model_attributes(b, p, l->attributes);
	for (uint32_t i = 0; i < l->lines.count; i++) {
		const struct line *line = &d->lines[l->lines.first + i];
		const struct function *f = &d->functions[line->function.v];

		buf_printf(b, " (%.*s|%.*s|%.*s:%lld at %lld:%lld)",
			   STR_ARG(profiles_string(p, f->name)),
			   STR_ARG(profiles_string(p, f->system_name)),
			   STR_ARG(profiles_string(p, f->filename)), (long long)f->start_line,
			   (long long)line->line, (long long)line->column);
	}
}

static void json_ids(struct buf *b, json_t *link)
{
	json_t *trace = json_object_get(link, "traceId"), *span = json_object_get(link, "spanId");

	buf_printf(b, "\n  link %s %s", trace ? json_string_value(trace) : "",
		   span ? json_string_value(span) : "");
}

static void model_ids(struct buf *b, const struct link *l)
{
	buf_lit(b, "\n  link ");
	if (!id_is_zero(l->trace_id, sizeof(l->trace_id)))
		buf_base64(b, l->trace_id, sizeof(l->trace_id));
	buf_char(b, ' ');
	if (!id_is_zero(l->span_id, sizeof(l->span_id)))
		buf_base64(b, l->span_id, sizeof(l->span_id));
}

static void json_numbers(struct buf *b, const char *name, json_t *list)
{
	json_t *n;
	size_t i;

	buf_printf(b, "\n  %s", name);
	json_array_foreach(list, i, n) buf_printf(b, " %lld", (long long)number(n, 0));
}

static void json_sample(struct buf *b, struct view *v, json_t *profile, json_t *s)
{
	json_t *link = get(s, "linkIndex", "link");
	json_t *locations = json_object_get(profile, "locationIndices");
	int64_t start = number(json_object_get(s, "locationsStartIndex"), 0);
	int64_t count = number(json_object_get(s, "locationsLength"), 0);

	if (v->version >= WIRE_V1_8) {
		json_t *stack =
			entry(v, "stackTable", NULL, number(json_object_get(s, "stackIndex"), 0));

		locations = json_object_get(stack, "locationIndices");
		count = (int64_t)json_array_size(locations);
	}
	buf_lit(b, "\n sample ");
	json_attributes(b, v, get(s, "attributeIndices", "attributes"));
	for (int64_t i = 0; i < count; i++)
		json_location(b, v, number(json_array_get(locations, (size_t)(start + i)), 0));
	json_ids(b, link ? entry(v, "linkTable", NULL, number(link, 0)) : NULL);
	json_numbers(b, "values", get(s, "values", "value"));
	json_numbers(b, "timestamps", json_object_get(s, "timestampsUnixNano"));
}

static void model_sample(struct buf *b, const struct profiles *p, const struct sample *s)
{
	struct range stack = p->dict.stacks[s->stack.v].locations;

	buf_lit(b, "\n sample ");
	model_attributes(b, p, s->attributes);
	for (uint32_t i = 0; i < stack.count; i++)
		model_location(b, p, p->dict.stack_locations[stack.first + i]);
	model_ids(b, &p->dict.links[s->link.v]);
	buf_lit(b, "\n  values");
	for (uint32_t i = 0; i < s->values.count; i++)
		buf_printf(b, " %lld", (long long)p->values[s->values.first + i]);
	buf_lit(b, "\n  timestamps");
	for (uint32_t i = 0; i < s->timestamps.count; i++)
		buf_printf(b, " %llu", (unsigned long long)p->timestamps[s->timestamps.first + i]);
}

static int temporality_number(json_t *type)
{
	const char *name = json_string_value(json_object_get(type, "aggregationTemporality"));

	if (!name)
		return 0;
	return strstr(name, "DELTA") ? 1 : strstr(name, "CUMULATIVE") ? 2 : 0;
}

static void json_profile(struct buf *b, struct view *v, json_t *profile)
{
	json_t *container = profile, *type, *id, *sample;
	size_t i;

	if (v->version == WIRE_V1_3)
		profile = json_object_get(container, "profile");
	if (v->version <= WIRE_V1_5)
		v->tables = profile;
	type = json_object_get(profile, "sampleType");
	if (json_is_array(type))
		type = json_array_get(type, 0);
	buf_printf(b, "\nprofile %s/%s t%d", string_at(v, get(type, "typeStrindex", "type")),
		   string_at(v, get(type, "unitStrindex", "unit")), temporality_number(type));
	type = json_object_get(profile, "periodType");
	id = json_object_get(container, "profileId");
	buf_printf(b, " period %s/%s %lld time %lld + %lld id %s ",
		   string_at(v, get(type, "typeStrindex", "type")),
		   string_at(v, get(type, "unitStrindex", "unit")),
		   (long long)number(json_object_get(profile, "period"), 0),
		   (long long)number(get(profile, "timeUnixNano", "timeNanos"), 0),
		   (long long)number(get(profile, "durationNano", "durationNanos"), 0),
		   id ? json_string_value(id) : "");
	json_attributes(b, v, json_object_get(profile, "attributeIndices"));
	json_array_foreach(get(profile, "samples", "sample"), i, sample)
		json_sample(b, v, profile, sample);
}

static void model_profile(struct buf *b, const struct profiles *p, uint32_t index)
{
	const struct profile *profile = &p->profiles[index];
	const struct extra *t = profiles_extra(p, MESSAGE_PROFILE, index, EXTRA_SAMPLE_TEMPORALITY);

	buf_printf(b, "\nprofile %.*s/%.*s t%d",
		   STR_ARG(profiles_string(p, profile->sample_type.type)),
		   STR_ARG(profiles_string(p, profile->sample_type.unit)),
		   t ? (int)t->value.integer : 0);
	buf_printf(b, " period %.*s/%.*s %lld time %lld + %lld id ",
		   STR_ARG(profiles_string(p, profile->period_type.type)),
		   STR_ARG(profiles_string(p, profile->period_type.unit)),
		   (long long)profile->period, (long long)profile->time_unix_nano,
		   (long long)profile->duration_nano);
	if (!id_is_zero(profile->profile_id, sizeof(profile->profile_id)))
		buf_base64(b, profile->profile_id, sizeof(profile->profile_id));
	buf_lit(b, " ");
	model_attributes(b, p, profile->attributes);
	for (uint32_t i = 0; i < profile->samples.count; i++)
		model_sample(b, p, &p->samples[profile->samples.first + i]);
}

static const char *text_of(json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);

	return v ? json_string_value(v) : "";
}

static void json_message(struct buf *b, struct view *v, json_t *root)
{
	json_t *resource, *scope, *profile;
	size_t r, s, i;

	v->tables = json_object_get(root, "dictionary");
	json_array_foreach(json_object_get(root, "resourceProfiles"), r, resource)
	{
		buf_printf(b, "\nresource %s ", text_of(resource, "schemaUrl"));
		json_pairs(b, v,
			   json_object_get(json_object_get(resource, "resource"), "attributes"));
		json_array_foreach(json_object_get(resource, "scopeProfiles"), s, scope)
		{
			json_t *name = json_object_get(scope, "scope");

			buf_printf(b, "\nscope %s %s %s ", text_of(scope, "schemaUrl"),
				   text_of(name, "name"), text_of(name, "version"));
			json_pairs(b, v, json_object_get(name, "attributes"));
			json_array_foreach(json_object_get(scope, "profiles"), i, profile)
				json_profile(b, v, profile);
		}
	}
}

static void model_message(struct buf *b, const struct profiles *p)
{
	for (uint32_t r = 0; r < p->resource_count; r++) {
		const struct resource_profiles *resource = &p->resources[r];

		buf_printf(b, "\nresource %.*s ", STR_ARG(resource->schema_url));
		model_pairs(b, resource->attributes);
		for (uint32_t s = 0; s < resource->scopes.count; s++) {
			const struct scope_profiles *scope = &p->scopes[resource->scopes.first + s];

			buf_printf(b, "\nscope %.*s %.*s %.*s ", STR_ARG(scope->schema_url),
				   STR_ARG(scope->name), STR_ARG(scope->version));
			model_pairs(b, scope->attributes);
			for (uint32_t i = 0; i < scope->profiles.count; i++)
				model_profile(b, p, scope->profiles.first + i);
		}
	}
}

/* The first line where the two differ, with what the fixture says. */
static void assert_same_text(const char *fixture, struct str got, struct str want)
{
	size_t at = 0, line = 0;

	while (at < got.len && at < want.len && got.ptr[at] == want.ptr[at]) {
		if (got.ptr[at] == '\n')
			line = at + 1;
		at++;
	}
	if (at == got.len && at == want.len)
		return;
	fail_msg("%s: byte %zu\n got: %.*s\nwant: %.*s", fixture, at,
		 STR_ARG(str_head(str_skip(got, line), 400)),
		 STR_ARG(str_head(str_skip(want, line), 400)));
}

static void compare_fixture(const char *name, enum wire_version version, enum wire_version forced,
			    uint32_t samples, uint32_t events)
{
	struct otlp_decode_options options = { .version = forced };
	struct otlp_decode_report report;
	struct view v = { .version = version };
	struct buf got, want;
	struct profiles *p = NULL;
	uint64_t counted = 0;
	char path[256];
	struct blob *body;
	struct err err = { 0 };
	json_error_t json_err;
	json_t *root;
	char *data;
	size_t len;

	snprintf(path, sizeof(path), "tests/fixtures/otlp/%s.pb", name);
	data = file_read(path, &len);
	body = blob_adopt(data, len);
	snprintf(path, sizeof(path), "tests/fixtures/otlp/%s.json.gz", name);
	data = file_read(path, &len);
	root = json_loadb(data, len, 0, &json_err);
	assert_non_null(root);
	free(data);

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	assert_string_equal(wire_version_name(report.version), wire_version_name(version));
	assert_int_equal(report.unknown_field_count, 0);
	assert_int_equal(report.bad_index_count, 0);
	assert_int_equal(report.version_ambiguous, false);
	assert_string_equal(report.first_problem, "");
	assert_int_equal(p->sample_count, samples);
	for (uint32_t i = 0; i < p->profile_count; i++)
		for (uint32_t k = 0; k < p->profiles[i].samples.count; k++)
			counted += sample_total(p, &p->profiles[i],
						&p->samples[p->profiles[i].samples.first + k])
					   .events;
	assert_int_equal(counted, events);

	buf_init(&got, 0);
	buf_init(&want, 0);
	model_message(&got, p);
	json_message(&want, &v, root);
	assert_same_text(name, buf_view(&got), buf_view(&want));
	buf_release(&got);
	buf_release(&want);
	json_decref(root);
	profiles_free(p);
	blob_unref(body);
}

static void test_fixtures_equal_their_json(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fixtures); i++)
		compare_fixture(fixtures[i].name, fixtures[i].version, WIRE_AUTO,
				fixtures[i].samples, fixtures[i].events);
}

/* An operator who knows better: the version is not asked of the bytes. */
static void test_forced_version_gives_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fixtures); i++)
		compare_fixture(fixtures[i].name, fixtures[i].version, fixtures[i].version,
				fixtures[i].samples, fixtures[i].events);
	compare_fixture("v1.5.0-synthetic-transcoded", WIRE_V1_5, WIRE_V1_5, 9, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_equal_their_json),
		cmocka_unit_test(test_forced_version_gives_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
