#include "wire/json_transcode.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/hex.h"
#include "wire/json_reader.h"
#include "wire/pb_reader.h"
#include "wire/schema.h"

enum { LOOKUPS_OF_UNKNOWN_KEYS_MOST = 256 };

struct transcoder {
	struct json_reader j;
	struct json_transcoded *t;
	struct buf *out;
	struct buf bytes;      /* scratch: decoded base64 or hex */
	unsigned length_bytes; /* of every length prefix: enough for the whole body, so that nothing
				  moves */
	uint32_t lookups;
};

/* ---- protobuf, forwards ---- */

/* A length that is filled in later, padded to a fixed width: a varint may be longer than it need
 * be. */
static size_t open_length(struct transcoder *t, uint32_t number)
{
	buf_varint(t->out, PB_TAG(number, PB_LEN));
	if (buf_reserve(t->out, t->length_bytes))
		buf_advance(t->out, t->length_bytes);
	return t->out->len;
}

static void close_length(struct transcoder *t, size_t mark)
{
	size_t len = t->out->len - mark;
	char *p = t->out->ptr + mark - t->length_bytes;

	for (unsigned i = 0; i + 1 < t->length_bytes; i++, len >>= 7)
		p[i] = (char)(len | 0x80);
	p[t->length_bytes - 1] = (char)(len & 0x7f);
}

/* The protobuf of a JSON text is far from four times as long: "{}," is a tag and a length. */
static unsigned length_width(size_t body_len)
{
	unsigned bytes = 1;

	for (uint64_t most = 127; most < (uint64_t)body_len * 4; most = most << 7 | 127)
		bytes++;
	return bytes;
}

static void put_bytes(struct transcoder *t, uint32_t number, struct str s)
{
	buf_varint(t->out, PB_TAG(number, PB_LEN));
	buf_varint(t->out, s.len);
	buf_str(t->out, s);
}

/* ---- bytes and ids ---- */

static bool from_hex(struct str s, struct buf *out)
{
	buf_reset(out);
	if (s.len % 2)
		return false;
	for (size_t i = 0; i < s.len; i += 2) {
		int high = hex_value(s.ptr[i]), low = hex_value(s.ptr[i + 1]);

		if (high < 0 || low < 0)
			return false;
		buf_char(out, (char)(high << 4 | low));
	}
	return true;
}

static bool from_base64(struct str s, struct buf *out)
{
	buf_reset(out);
	return base64_decode(s, out);
}

/*
 * OTLP/JSON has ids in hex, protojson in base64. The right number of hex digits is hex; else what
 * is the right number of bytes in base64; else an id of an odd length, in hex where it can be.
 */
static bool from_id(struct str s, size_t id_len, struct buf *out)
{
	if (s.len == 2 * id_len && from_hex(s, out))
		return true;
	if (from_base64(s, out) && out->len == id_len)
		return true;
	return from_hex(s, out) || from_base64(s, out);
}

static void put_encoded(struct transcoder *t, const struct schema_field *f)
{
	struct str s = json_string(&t->j);
	bool ok;

	if (t->j.failed)
		return;
	if (f->type == SCHEMA_BYTES)
		ok = from_base64(s, &t->bytes);
	else
		ok = from_id(s, f->type == SCHEMA_ID16 ? 16 : 8, &t->bytes);
	if (!ok)
		json_fail(&t->j, ERR_INVALID, "%s is neither base64 nor hex: \"%.*s\"", f->name,
			  STR_ARG(str_head(s, 40)));
	else
		put_bytes(t, f->number, buf_view(&t->bytes));
}

/* ---- numbers ---- */

/* protojson writes enums by name, OTLP/JSON as integers. */
static int64_t take_enum(struct transcoder *t, enum schema_type type)
{
	static const struct {
		enum schema_type type;
		const char *name;
		int64_t value;
	} names[] = {
		{ SCHEMA_TEMPORALITY, "AGGREGATION_TEMPORALITY_UNSPECIFIED", 0 },
		{ SCHEMA_TEMPORALITY, "AGGREGATION_TEMPORALITY_DELTA", 1 },
		{ SCHEMA_TEMPORALITY, "AGGREGATION_TEMPORALITY_CUMULATIVE", 2 },
		{ SCHEMA_BUILD_ID_KIND, "BUILD_ID_LINKER", 0 },
		{ SCHEMA_BUILD_ID_KIND, "BUILD_ID_BINARY_HASH", 1 },
	};
	struct json_reader at_value = t->j;
	struct str s;

	if (json_peek(&t->j) != JSON_STRING)
		return json_int_within(&t->j, INT32_MIN, INT32_MAX);
	s = json_string(&t->j);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].type == type && str_is(s, names[i].name))
			return names[i].value;
	t->j.at = at_value.at;
	return json_int_within(&t->j, INT32_MIN, INT32_MAX);
}

/* One value without its tag. */
static void put_number(struct transcoder *t, const struct schema_field *f)
{
	uint64_t bits;
	double real;

	switch (f->type) {
	case SCHEMA_INT32:
		buf_varint(t->out, (uint64_t)json_int_within(&t->j, INT32_MIN, INT32_MAX));
		break;
	case SCHEMA_UINT32:
		buf_varint(t->out, (uint64_t)json_int_within(&t->j, 0, UINT32_MAX));
		break;
	case SCHEMA_INT64:
		buf_varint(t->out, (uint64_t)json_int64(&t->j));
		break;
	case SCHEMA_UINT64:
		buf_varint(t->out, json_uint64(&t->j));
		break;
	case SCHEMA_BOOL:
		buf_varint(t->out, json_bool(&t->j));
		break;
	case SCHEMA_TEMPORALITY:
	case SCHEMA_BUILD_ID_KIND:
		buf_varint(t->out, (uint64_t)take_enum(t, f->type));
		break;
	case SCHEMA_FIXED64:
		bits = json_uint64(&t->j);
		buf_append(t->out, &bits, sizeof(bits));
		break;
	case SCHEMA_DOUBLE:
		real = json_double(&t->j);
		buf_append(t->out, &real, sizeof(real));
		break;
	case SCHEMA_STRING:
	case SCHEMA_BYTES:
	case SCHEMA_ID16:
	case SCHEMA_ID8:
	case SCHEMA_MESSAGE:
		break; /* not numbers */
	}
}

/* ---- messages ---- */

static void put_message(struct transcoder *t, const struct schema_message *m);

static void put_value(struct transcoder *t, const struct schema_field *f)
{
	size_t mark;

	switch (f->type) {
	case SCHEMA_MESSAGE:
		mark = open_length(t, f->number);
		put_message(t, f->message);
		close_length(t, mark);
		break;
	case SCHEMA_STRING:
		put_bytes(t, f->number, json_string(&t->j));
		break;
	case SCHEMA_BYTES:
	case SCHEMA_ID16:
	case SCHEMA_ID8:
		put_encoded(t, f);
		break;
	default:
		buf_varint(t->out, PB_TAG(f->number, schema_wire_type(f->type)));
		put_number(t, f);
	}
}

static void put_repeated(struct transcoder *t, const struct schema_field *f)
{
	size_t mark;

	if (!json_begin_array(&t->j))
		return;
	if (schema_wire_type(f->type) == PB_LEN) {
		while (json_next_element(&t->j)) {
			t->t->samples += f->role == ROLE_SAMPLES;
			put_value(t, f);
		}
		return;
	}
	mark = open_length(t, f->number);
	while (json_next_element(&t->j))
		put_number(t, f);
	close_length(t, mark);
}

/* What an unknown key's value holds. */
struct passed_over {
	uint64_t values, samples;
};

/* The schemas differ in these: an unknown one is no field of a later version but another version's
 * body. */
static bool is_structure(struct str key)
{
	static const char *const names[] = {
		"dictionary",       "samples",        "sample",
		"profile",          "mapping",        "location",
		"function",         "mapping_table",  "location_table",
		"function_table",   "link_table",     "string_table",
		"stack_table",      "stack_index",    "attribute_table",
		"location_indices", "location_index", "locations_start_index",
		"locations_length",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (schema_key_matches(key, names[i]))
			return true;
	return false;
}

static bool is_sample_list(struct str key)
{
	return str_is(key, "samples") || str_is(key, "sample");
}

/* Reads the value, too. Its depth is bounded by the reader's. */
static void pass_over(struct json_reader *j, struct passed_over *sum)
{
	struct str key;

	switch (json_peek(j)) {
	case JSON_OBJECT:
		if (!json_begin_object(j))
			return;
		while (json_next_key(j, &key)) {
			bool samples = is_sample_list(key) && json_peek(j) == JSON_ARRAY;
			uint64_t before = sum->values;

			sum->values += json_peek(j) != JSON_NULL;
			pass_over(j, sum);
			sum->samples += samples && sum->values > before + 1;
		}
		return;
	case JSON_ARRAY:
		if (!json_begin_array(j))
			return;
		while (json_next_element(j)) {
			sum->values += json_peek(j) != JSON_NULL;
			pass_over(j, sum);
		}
		return;
	default:
		json_skip(j);
	}
}

static void take_unknown(struct transcoder *t, const struct schema_message *m, struct str key)
{
	struct json_transcoded *out = t->t;
	struct passed_over sum = { .values = 1 };
	bool structure, samples;

	if (json_peek(&t->j) == JSON_NULL) {
		json_skip(&t->j);
		return;
	}
	if (out->unknown_keys++ == 0)
		snprintf(out->first_unknown, sizeof(out->first_unknown), "%.*s in %s",
			 STR_ARG(str_head(key, 32)), m->name);
	if (!out->keys_of_another_version && t->lookups++ < LOOKUPS_OF_UNKNOWN_KEYS_MOST)
		out->keys_of_another_version = schema_key_exists(key);
	structure = is_structure(key);
	samples = is_sample_list(key) && json_peek(&t->j) == JSON_ARRAY;
	pass_over(&t->j, &sum);
	out->unknown_values += sum.values;
	out->unknown_structure += structure ? sum.values : 0;
	out->unknown_samples += sum.samples + (samples && sum.values > 1);
}

static void put_message(struct transcoder *t, const struct schema_message *m)
{
	struct str key;

	if (!json_begin_object(&t->j))
		return;
	while (json_next_key(&t->j, &key)) {
		const struct schema_field *f = schema_field_by_key(m, key);

		if (f && f->alias && !schema_key_matches(key, f->name))
			t->t->renamed_keys++;
		if (!f)
			take_unknown(t, m, key);
		else if (json_peek(&t->j) == JSON_NULL)
			json_skip(&t->j);
		else if (f->repeated)
			put_repeated(t, f);
		else
			put_value(t, f);
	}
}

bool json_transcode(struct str body, enum wire_version version, uint32_t depth_limit,
		    struct json_transcoded *out, struct err *err)
{
	struct transcoder t = { .t = out,
				.out = &out->protobuf,
				.length_bytes = length_width(body.len) };
	bool ok;

	*out = (struct json_transcoded){ 0 };
	buf_init(&out->protobuf, 0);
	if (!buf_reserve(&out->protobuf,
			 body.len / 4 + 64)) /* an empty message has an address, too */
		return err_set(err, ERR_LIMIT, "no room for a JSON body of %zu bytes", body.len);
	buf_init(&t.bytes, 0);
	json_reader_init(&t.j, body, depth_limit);
	if (json_peek(&t.j) == JSON_NULL)
		json_fail(&t.j, ERR_INVALID, "expected an object, found null");
	put_message(&t, schema_request(version));
	ok = json_finish(&t.j, err);
	out->other_shape = !ok && t.j.shape_fault;
	json_reader_release(&t.j);
	buf_release(&t.bytes);
	return ok;
}

/*
 * Names rather than numbers tell the versions apart in JSON: 1.9 and 1.10 have the same, 1.4
 * and 1.5 share a schema. Most bodies are of the newest; only one with keys that another version
 * knows or names so, or of another shape, is read again.
 */
static const enum wire_version candidates[] = { WIRE_V1_10, WIRE_V1_8, WIRE_V1_7,
						WIRE_V1_6,  WIRE_V1_5, WIRE_V1_3 };

enum { NESTING_DEFAULT = 64, LEVELS_OF_ENVELOPE = 32, LEVELS_PER_ANY_VALUE = 4 };

uint32_t json_depth_limit(uint32_t any_values)
{
	return LEVELS_OF_ENVELOPE +
	       LEVELS_PER_ANY_VALUE * (any_values ? any_values : NESTING_DEFAULT);
}

static bool fits_better(const struct json_transcoded *a, const struct json_transcoded *b)
{
	if (a->unknown_structure != b->unknown_structure)
		return a->unknown_structure < b->unknown_structure;
	if (a->unknown_values != b->unknown_values)
		return a->unknown_values < b->unknown_values;
	return a->renamed_keys < b->renamed_keys;
}

static bool may_be_another_version(const struct json_transcoded *t)
{
	return t->unknown_structure || t->keys_of_another_version || t->renamed_keys;
}

/* The newest cannot read the body: does this one only because it passes over what is wrong? */
static bool passes_over_faults(const struct json_transcoded *t)
{
	return t->unknown_structure || (t->keys_of_another_version && !t->samples);
}

bool json_transcode_by_keys(struct str body, uint32_t depth_limit, struct json_transcoded *out,
			    enum wire_version *version, struct err *err)
{
	bool found = json_transcode(body, WIRE_NEWEST, depth_limit, out, err);

	*version = WIRE_NEWEST;
	if (found ? !may_be_another_version(out) : !out->other_shape)
		return found;
	for (size_t i = 1; i < ARRAY_LEN(candidates); i++) {
		struct json_transcoded other;
		struct err ignored;

		if (!json_transcode(body, candidates[i], depth_limit, &other, &ignored) ||
		    (found ? !fits_better(&other, out) : passes_over_faults(&other))) {
			buf_release(&other.protobuf);
			continue;
		}
		buf_release(&out->protobuf);
		*out = other;
		*version = candidates[i];
		found = true;
		if (!out->unknown_values && !out->renamed_keys)
			break;
	}
	return found;
}
