#include <string.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "wire/json_reader.h"
#include "wire/json_transcode.h"
#include "wire/otlp_json.h"

/* Longer than the shortest message that looks like JSON at its start: 0x0a 0x7b, field 1 with 123
 * bytes, is a line feed and a brace. */
enum { LOOK_AHEAD_BYTES = 128 };

/* JSON has no control bytes but these; a message has its tags and lengths. */
static bool is_text(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
			return false;
	}
	return true;
}

/* A message does not begin with either: 0x7b and 0x5b are starts of groups. */
static bool begins_json(struct str text)
{
	if (str_has_prefix(text, STR("[")))
		return text.len == 1 || strchr("{[]\" \t\r\n", text.ptr[1]);
	return str_has_prefix(text, STR("{"));
}

const char *otlp_json_encoding(struct str body)
{
	static const struct {
		struct str start;
		const char *name;
	} starts[] = {
		{ STR("\xff\xfe\0\0"), "UTF-32" }, { STR("\0\0\xfe\xff"), "UTF-32" },
		{ STR("{\0\0\0"), "UTF-32" },      { STR("\0\0\0{"), "UTF-32" },
		{ STR("\xff\xfe"), "UTF-16" },     { STR("\xfe\xff"), "UTF-16" },
		{ STR("{\0"), "UTF-16" },          { STR("\0{"), "UTF-16" },
	};

	for (size_t i = 0; i < ARRAY_LEN(starts); i++)
		if (str_has_prefix(body, starts[i].start))
			return starts[i].name;
	return NULL;
}

/* The byte order marks of UTF-16 and UTF-32: no message begins with 0xff or 0xfe, whose wire types
 * do not exist. */
static bool begins_with_foreign_mark(struct str body)
{
	return str_has_prefix(body, STR("\xff\xfe")) || str_has_prefix(body, STR("\xfe\xff"));
}

bool otlp_json_check_encoding(struct str body, struct err *err)
{
	const char *name = otlp_json_encoding(body);

	return !name ||
	       err_set(err, ERR_INVALID,
		       "this JSON is in %s; it has to be UTF-8 (iconv -f %s -t UTF-8)", name, name);
}

bool otlp_looks_like_json(struct str body)
{
	if (begins_with_foreign_mark(body))
		return true;
	if (str_has_prefix(body, STR("\xef\xbb\xbf")))
		body = str_skip(body, 3);
	if (!begins_json(str_trim(body)))
		return false;
	return body.ptr[0] != '\n' || is_text(str_head(body, LOOK_AHEAD_BYTES));
}

/* The transcoded body is what the message borrows from; it is charged to the budget of the one that
 * came. */
static struct blob *adopt_body(const struct blob *from, struct buf *bytes, struct err *err)
{
	struct blob *b;
	size_t len;
	char *heap;

	if (from->budget && !budget_take(from->budget, bytes->len)) {
		err_set(err, ERR_BUSY, "no room now for %zu bytes of a JSON body", bytes->len);
		return NULL;
	}
	heap = buf_take(bytes, &len);
	b = blob_adopt(heap, len);
	b->budget = from->budget;
	b->charged_bytes = from->budget ? len : 0;
	return b;
}

/* Unknown keys are passed over, but not all that a body is about. */
static bool has_its_samples(const struct json_transcoded *json, enum wire_version version,
			    struct err *err)
{
	if (json->samples || !json->unknown_samples)
		return true;
	return err_set(err, ERR_INVALID,
		       "no sample of this JSON body is where v%s has them; first unknown key: %s",
		       wire_version_name(version), json->first_unknown);
}

bool otlp_json_decode(struct blob *body, const struct otlp_decode_options *options,
		      struct profiles **out, struct otlp_decode_report *report, struct err *err)
{
	uint32_t depth_limit = json_depth_limit(options->nesting_limit);
	struct otlp_decode_options as_protobuf = *options;
	struct json_transcoded json;
	struct blob *protobuf;
	enum wire_version version = options->version;
	bool ok;

	if (!otlp_json_check_encoding(blob_view(body), err))
		return false;
	if (version == WIRE_AUTO)
		ok = json_transcode_by_keys(blob_view(body), depth_limit, &json, &version, err);
	else
		ok = json_transcode(blob_view(body), version, depth_limit, &json, err);
	ok = ok && has_its_samples(&json, version, err);
	protobuf = ok ? adopt_body(body, &json.protobuf, err) : NULL;
	buf_release(&json.protobuf);
	if (!protobuf)
		return false;
	as_protobuf.version = version;
	ok = otlp_decode(protobuf, &as_protobuf, out, report, NULL, err);
	blob_unref(protobuf);
	if (!ok)
		return false;
	(*out)->unknown_field_count += json.unknown_keys;
	report->unknown_field_count += json.unknown_keys;
	report->version = version;
	report->version_forced = options->version != WIRE_AUTO;
	report->version_ambiguous = false;
	snprintf(report->evidence, sizeof(report->evidence), "JSON with the keys of %s%s%s",
		 wire_version_name(version), json.unknown_keys ? ", first unknown one: " : "",
		 json.first_unknown);
	return true;
}

static bool is_key_of_profiles(struct str key)
{
	static const char *const keys[] = {
		"resource_profiles", "dictionary",      "mapping_table",
		"location_table",    "function_table",  "link_table",
		"string_table",      "attribute_table", "attribute_units",
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (json_key_is(key, keys[i]))
			return true;
	return false;
}

bool otlp_json_is_foreign(struct str body, struct err *err)
{
	struct json_reader j;
	struct str key;
	char first[64] = "";
	bool known = false;

	json_reader_init(&j, body, 0);
	if (json_peek(&j) == JSON_OBJECT && json_begin_object(&j))
		while (!known && json_next_key(&j, &key)) {
			known = is_key_of_profiles(key);
			if (!first[0])
				snprintf(first, sizeof(first), "%.*s", STR_ARG(key));
			json_skip(&j);
		}
	known |= j.failed || !first[0];
	json_reader_release(&j);
	if (known)
		return false;
	err_set(err, ERR_INVALID,
		"JSON, but no key of OTLP profiles is in it (its first is \"%s\"); OTLP/JSON has "
		"resourceProfiles and dictionary, as decode --format otlp-json writes it",
		first);
	return true;
}
