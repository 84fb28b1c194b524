#include "wire/json_reader.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include "wire/schema.h"
#include "base/text.h"
#include "base/hex.h"

void json_reader_init(struct json_reader *j, struct str text, uint32_t depth_limit)
{
	const char *begin = text.len ? text.ptr : "";

	*j = (struct json_reader){ .begin = begin,
				   .at = begin,
				   .end = begin + text.len,
				   .depth_limit = depth_limit ? depth_limit : JSON_DEPTH_DEFAULT };
	buf_init(&j->text, 0);
	buf_init(&j->key, 0);
	if (text.len >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0)
		j->at += 3; /* a byte order mark: RFC 8259, 8.1 lets a reader pass over it */
}

void json_reader_release(struct json_reader *j)
{
	buf_release(&j->text);
	buf_release(&j->key);
}

static bool fail_at(struct json_reader *j, const char *at, const char *what)
{
	if (!j->failed) {
		j->failed = true;
		j->fault_kind = ERR_INVALID;
		j->fault_at = at;
		snprintf(j->fault, sizeof(j->fault), "%s", what);
	}
	j->at = j->end;
	return false;
}

bool json_fail(struct json_reader *j, enum err_kind kind, const char *format, ...)
{
	va_list ap;

	if (j->failed)
		return false;
	j->failed = true;
	j->fault_kind = kind;
	j->fault_at = j->at;
	j->at = j->end;
	va_start(ap, format);
	vsnprintf(j->fault, sizeof(j->fault), format, ap);
	va_end(ap);
	return false;
}

static void skip_space(struct json_reader *j)
{
	while (j->at < j->end &&
	       (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
		j->at++;
}

bool json_finish(struct json_reader *j, struct err *err)
{
	const char *line = j->begin;
	unsigned number = 1;

	skip_space(j);
	if (!j->failed && j->at < j->end)
		fail_at(j, j->at, "something follows the value");
	if (!j->failed)
		return true;
	for (const char *p = j->begin; p < j->fault_at; p++)
		if (*p == '\n') {
			line = p + 1;
			number++;
		}
	return err_set(err, j->fault_kind, "JSON at byte %zu (line %u, column %zu): %s",
		       (size_t)(j->fault_at - j->begin), number, (size_t)(j->fault_at - line) + 1,
		       j->fault);
}

enum json_kind json_peek(struct json_reader *j)
{
	skip_space(j);
	if (j->at == j->end)
		return JSON_END;
	switch (*j->at) {
	case '{':
		return JSON_OBJECT;
	case '[':
		return JSON_ARRAY;
	case '"':
		return JSON_STRING;
	case 't':
	case 'f':
		return JSON_BOOL;
	case 'n':
		return JSON_NULL;
	case '-':
	case '0' ... '9':
		return JSON_NUMBER;
	default:
		return JSON_BAD;
	}
}

static const char *kind_name(enum json_kind k)
{
	static const char *const names[] = { "the end",  "an object", "an array", "a string",
					     "a number", "a bool",    "null",     "no value" };

	return names[k];
}

static bool expected(struct json_reader *j, const char *what)
{
	enum json_kind have = json_peek(j);

	j->shape_fault |= !j->failed;
	return json_fail(j, ERR_INVALID, "expected %s, found %s", what, kind_name(have));
}

static bool take_word(struct json_reader *j, struct str word)
{
	if (!str_has_prefix(str_from(j->at, (size_t)(j->end - j->at)), word))
		return fail_at(j, j->at, "expected true, false or null");
	j->at += word.len;
	j->first = false;
	return true;
}

static bool take_null(struct json_reader *j)
{
	return json_peek(j) == JSON_NULL && take_word(j, STR("null"));
}

/* ---- objects and arrays ---- */

static bool begin(struct json_reader *j, enum json_kind kind, const char *what)
{
	if (json_peek(j) != kind)
		return take_null(j) || j->failed ? false : expected(j, what);
	if (j->depth == j->depth_limit)
		return json_fail(j, ERR_INVALID, "nested deeper than %u", j->depth_limit);
	j->depth++;
	j->at++;
	j->first = true;
	return true;
}

bool json_begin_object(struct json_reader *j)
{
	return begin(j, JSON_OBJECT, "an object");
}

bool json_begin_array(struct json_reader *j)
{
	return begin(j, JSON_ARRAY, "an array");
}

/* The comma before a further member, or the closing bracket: true when there is a member. */
static bool next_member(struct json_reader *j, char close)
{
	skip_space(j);
	if (j->at == j->end)
		return fail_at(j, j->at,
			       close == '}' ? "the object is not closed"
					    : "the array is not closed");
	if (*j->at == close) {
		j->at++;
		j->depth--;
		j->first = false;
		return false;
	}
	if (j->first) {
		j->first = false;
		return true;
	}
	if (*j->at != ',')
		return fail_at(j, j->at,
			       close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
	j->at++;
	skip_space(j);
	if (j->at < j->end && *j->at == close)
		return fail_at(j, j->at, "a comma before the end");
	return true;
}

bool json_next_element(struct json_reader *j)
{
	return next_member(j, ']');
}

bool json_key_is(struct str key, const char *name)
{
	return schema_key_matches(key, name);
}

/* ---- strings ---- */

/* Four hex digits at j->at, or -1. */
static int32_t take_hex4(struct json_reader *j)
{
	int32_t v = 0;

	if (j->end - j->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_value(j->at[i]);

		if (digit < 0)
			return -1;
		v = v << 4 | digit;
	}
	j->at += 4;
	return v;
}

/* \uXXXX, and a second one when the first is the upper half of a pair; a half alone becomes U+FFFD.
 */
static bool take_unicode_escape(struct json_reader *j, struct buf *out)
{
	const char *from = j->at - 2;
	int32_t c = take_hex4(j);

	if (c < 0)
		return fail_at(j, from, "\\u wants four hex digits");
	while (c >= 0xd800 && c < 0xdc00 && j->end - j->at >= 2 && j->at[0] == '\\' &&
	       j->at[1] == 'u') {
		int32_t low;

		from = j->at;
		j->at += 2;
		low = take_hex4(j);
		if (low < 0)
			return fail_at(j, from, "\\u wants four hex digits");
		if (low >= 0xdc00 && low < 0xe000) {
			utf8_append(out, 0x10000 + ((uint32_t)(c - 0xd800) << 10) +
						 (uint32_t)(low - 0xdc00));
			return true;
		}
		utf8_append(out, 0xfffd);
		c = low; /* may be the upper half of the next pair */
	}
	utf8_append(out, (uint32_t)c);
	return true;
}

static bool take_escape(struct json_reader *j, struct buf *out)
{
	static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";

	j->at++;
	if (j->at == j->end)
		return fail_at(j, j->at, "the string is not closed");
	if (*j->at == 'u') {
		j->at++;
		return take_unicode_escape(j, out);
	}
	for (const char *p = plain; *p; p += 2)
		if (*p == *j->at) {
			buf_char(out, p[1]);
			j->at++;
			return true;
		}
	return fail_at(j, j->at - 1, "no such escape");
}

/* Bytes of a string that stand for themselves, eight at a time while none is '"', '\' or a control
 * character. */
static const char *plain_end(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101, high = 0x8080808080808080;

	while (end - p >= 8) {
		uint64_t w, quote, backslash;

		memcpy(&w, p, sizeof(w));
		quote = w ^ (ones * '"');
		backslash = w ^ (ones * '\\');
		if ((((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) |
		     ((w - ones * 0x20) & ~w)) &
		    high)
			break;
		p += 8;
	}
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
		p++;
	return p;
}

static bool take_string(struct json_reader *j, struct buf *scratch, struct str *out)
{
	const char *open = j->at, *from = ++j->at;
	bool escaped = false;

	for (;;) {
		const char *p = plain_end(j->at, j->end);

		if (p == j->end)
			return fail_at(j, open, "the string is not closed");
		if (*p == '"') {
			if (escaped)
				buf_append(scratch, j->at, (size_t)(p - j->at));
			j->at = p + 1;
			j->first = false;
			*out = escaped ? buf_view(scratch) : str_from(from, (size_t)(p - from));
			return true;
		}
		if (*p != '\\')
			return fail_at(j, p, "a control character in a string");
		if (!escaped)
			buf_reset(scratch);
		escaped = true;
		buf_append(scratch, j->at, (size_t)(p - j->at));
		j->at = p;
		if (!take_escape(j, scratch))
			return false;
	}
}

bool json_next_key(struct json_reader *j, struct str *key)
{
	if (!next_member(j, '}'))
		return false;
	if (json_peek(j) != JSON_STRING)
		return fail_at(j, j->at, "expected a key in double quotes");
	if (!take_string(j, &j->key, key))
		return false;
	skip_space(j);
	if (j->at == j->end || *j->at != ':')
		return fail_at(j, j->at, "expected ':' after a key");
	j->at++;
	return true;
}

struct str json_string(struct json_reader *j)
{
	struct str s = { 0 };

	if (json_peek(j) == JSON_STRING)
		take_string(j, &j->text, &s);
	else if (!take_null(j))
		expected(j, "a string");
	return s;
}

bool json_bool(struct json_reader *j)
{
	struct str s;

	switch (json_peek(j)) {
	case JSON_BOOL:
		return *j->at == 't' ? take_word(j, STR("true"))
				     : !take_word(j, STR("false")) && false;
	case JSON_STRING:
		s = json_string(j);
		if (!j->failed && !str_equal(s, STR("true")) && !str_equal(s, STR("false")))
			json_fail(j, ERR_INVALID, "expected true or false, found \"%.*s\"",
				  STR_ARG(str_head(s, 40)));
		return str_equal(s, STR("true"));
	default:
		return take_null(j) ? false : expected(j, "a bool");
	}
}

/* ---- numbers ---- */

static const char *digits_end(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

/* JSON's grammar: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?, or NULL. */
static const char *number_end(const char *p, const char *end)
{
	const char *from;

	if (p < end && *p == '-')
		p++;
	from = p;
	p = digits_end(p, end);
	if (p == from || (*from == '0' && p - from > 1))
		return NULL;
	if (p < end && *p == '.') {
		from = ++p;
		p = digits_end(p, end);
		if (p == from)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		from = p;
		p = digits_end(p, end);
		if (p == from)
			return NULL;
	}
	return p;
}

/* The number as text, whether it stands bare or in a string; false for null and on failure. */
static bool take_number(struct json_reader *j, struct str *out)
{
	const char *from, *end;

	switch (json_peek(j)) {
	case JSON_NUMBER:
		from = j->at;
		end = number_end(from, j->end);
		if (!end)
			return fail_at(j, from, "not a number");
		*out = str_from(from, (size_t)(end - from));
		j->at = end;
		j->first = false;
		return true;
	case JSON_STRING:
		*out = json_string(j);
		return !j->failed;
	default:
		return take_null(j) ? false : expected(j, "a number");
	}
}

/* An integer's digits and power of ten, exactly: 1.50e3 is 15 and 2. False when the value has a
 * fraction or is huge. */
static bool integer_of(struct str text, bool *negative, uint64_t *magnitude)
{
	const char *p = text.ptr,
		   *end = text.len ? number_end(text.ptr, text.ptr + text.len) : NULL;
	int64_t power = 0;
	uint64_t v = 0;
	uint32_t zeros = 0; /* held back: zeros at the end cost no digits */
	bool fraction = false;

	if (!end || end != text.ptr + text.len)
		return false;
	*negative = *p == '-';
	for (p += *negative; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			fraction = true;
			continue;
		}
		power -= fraction;
		if (*p == '0') {
			zeros++;
			continue;
		}
		for (zeros++; zeros > 0; zeros--)
			if (__builtin_mul_overflow(v, 10, &v))
				return false;
		if (__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	}
	power += zeros;
	if (p < end) {
		struct str exponent = str_from(p + 1, (size_t)(end - p) - 1);
		int64_t e;

		if (*exponent.ptr == '+')
			exponent = str_skip(exponent, 1);
		if (!str_to_i64(exponent, &e) || e > 1000000 || e < -1000000)
			return v == 0 && (*magnitude = 0, true);
		power += e;
	}
	if (v == 0 || power == 0) {
		*magnitude = v;
		return true;
	}
	if (power < 0)
		return false; /* v ends in no zero */
	for (; power > 0; power--)
		if (__builtin_mul_overflow(v, 10, &v))
			return false;
	*magnitude = v;
	return true;
}

static bool bad_integer(struct json_reader *j, const char *at, struct str text)
{
	json_fail(j, ERR_INVALID, "\"%.*s\" is no integer of this field's range",
		  STR_ARG(str_head(text, 40)));
	j->fault_at = at;
	return false;
}

static int64_t int_within(struct json_reader *j, int64_t least, int64_t most)
{
	const char *at = j->at;
	struct str text;
	bool negative;
	uint64_t magnitude;
	int64_t v;

	if (!take_number(j, &text))
		return 0;
	if (!integer_of(text, &negative, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
		return bad_integer(j, at, text);
	v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	if (v < least || v > most)
		return bad_integer(j, at, text);
	return v;
}

int64_t json_int64(struct json_reader *j)
{
	return int_within(j, INT64_MIN, INT64_MAX);
}

int64_t json_int_within(struct json_reader *j, int64_t least, int64_t most)
{
	return int_within(j, least, most);
}

uint64_t json_uint64(struct json_reader *j)
{
	const char *at = j->at;
	struct str text;
	bool negative;
	uint64_t magnitude;

	if (!take_number(j, &text))
		return 0;
	if (!integer_of(text, &negative, &magnitude) || (negative && magnitude))
		return bad_integer(j, at, text);
	return magnitude;
}

double json_double(struct json_reader *j)
{
	const char *at = j->at;
	struct str text;
	char copy[64], *end;
	double v;

	if (!take_number(j, &text))
		return 0;
	if (str_equal(text, STR("NaN")))
		return (double)NAN;
	if (str_equal(text, STR("Infinity")))
		return (double)INFINITY;
	if (str_equal(text, STR("-Infinity")))
		return -(double)INFINITY;
	if (text.len && number_end(text.ptr, text.ptr + text.len) == text.ptr + text.len &&
	    text.len < sizeof(copy)) {
		memcpy(copy, text.ptr, text.len);
		copy[text.len] = '\0';
		v = strtod(copy, &end);
		if (*end == '\0' && isfinite(v))
			return v;
	}
	json_fail(j, ERR_INVALID, "\"%.*s\" is no double", STR_ARG(str_head(text, 40)));
	j->fault_at = at;
	return 0;
}

/* ---- skipping ---- */

void json_skip(struct json_reader *j)
{
	uint32_t depth = j->depth;
	uint8_t objects[JSON_DEPTH_DEFAULT / 8]; /* which of the open ones are objects */
	struct str ignored;

	do {
		uint32_t level = j->depth - depth;

		if (level > 0) {
			bool object = objects[(level - 1) / 8] >> ((level - 1) % 8) & 1;

			if (object ? !json_next_key(j, &ignored) : !json_next_element(j))
				continue;
		}
		switch (json_peek(j)) {
		case JSON_OBJECT:
		case JSON_ARRAY:
			if (level == sizeof(objects) * 8) {
				json_fail(j, ERR_INVALID, "nested deeper than %u", j->depth_limit);
				break;
			}
			if (*j->at == '{') {
				objects[level / 8] |= (uint8_t)(1u << level % 8);
				json_begin_object(j);
			} else {
				objects[level / 8] &= (uint8_t) ~(1u << level % 8);
				json_begin_array(j);
			}
			break;
		case JSON_STRING:
			take_string(j, &j->text, &ignored);
			break;
		case JSON_NUMBER:
			take_number(j, &ignored);
			break;
		case JSON_BOOL:
			json_bool(j);
			break;
		case JSON_NULL:
			take_null(j);
			break;
		case JSON_END:
		case JSON_BAD:
			expected(j, "a value");
			break;
		}
	} while (!j->failed && j->depth > depth);
}
