/* Functions that give a value. Names, parameters and results are the Collector's, but for
 * HasFrame(), which it has not. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#include "components/hash_text.h"
#include "components/ottl/expr.h"

#define FUNCTION(name)                                                                             \
	static bool name(struct ottl_run *r, const struct ottl_expr *call, struct ottl_value *out, \
			 struct err *err)

static bool arg(struct ottl_run *r, const struct ottl_expr *call, uint32_t i,
		struct ottl_value *out, struct err *err)
{
	return ottl_eval(r, call->args[i], out, err);
}

/* An argument that must be a string now. */
static bool string_arg(struct ottl_run *r, const struct ottl_expr *call, uint32_t i,
		       struct str *out, struct err *err)
{
	struct ottl_value v;

	if (!arg(r, call, i, &v, err))
		return false;
	if (v.any.kind != ANY_STRING)
		return err_set(err, ERR_INVALID, "%s of %s() is %s, not a string",
			       call->function->parameters[i].name, call->function->name,
			       any_kind_word(v.any.kind));
	*out = v.any.string;
	return true;
}

static bool int_arg(struct ottl_run *r, const struct ottl_expr *call, uint32_t i, int64_t *out,
		    struct err *err)
{
	struct ottl_value v;

	if (!arg(r, call, i, &v, err))
		return false;
	if (v.any.kind != ANY_INT)
		return err_set(err, ERR_INVALID, "%s of %s() is %s, not an int",
			       call->function->parameters[i].name, call->function->name,
			       any_kind_word(v.any.kind));
	*out = v.any.integer;
	return true;
}

static bool give_bool(struct ottl_value *out, bool v)
{
	out->any = (struct any_value){ .kind = ANY_BOOL, .boolean = v };
	return true;
}

static bool give_int(struct ottl_value *out, int64_t v)
{
	out->any = (struct any_value){ .kind = ANY_INT, .integer = v };
	return true;
}

static bool give_string(struct ottl_value *out, struct str s)
{
	out->any = (struct any_value){ .kind = ANY_STRING, .string = s };
	return true;
}

/* A copy of what r->text holds. */
static bool give_text(struct ottl_run *r, struct ottl_value *out, struct err *err)
{
	struct str s = str_dup(&r->scratch, buf_view(&r->text));

	if (r->text.failed || !s.ptr)
		return err_set(err, ERR_LIMIT, "a value is too long");
	return give_string(out, s);
}

FUNCTION(is_match)
{
	struct ottl_value v;
	bool matches = false;
	struct str text;

	if (!arg(r, call, 0, &v, err))
		return false;
	if (v.any.kind == ANY_EMPTY)
		return give_bool(out, false);
	if (v.any.kind != ANY_STRING)
		v.memo = MEMO_NONE;
	if (!ottl_text(r, &v.any, &text, err) ||
	    !ottl_regex_matches(r, call->regexes[1], text, v.memo, &matches, err))
		return false;
	return give_bool(out, matches);
}

FUNCTION(has_prefix)
{
	struct str s = { 0 }, part = { 0 };

	return string_arg(r, call, 0, &s, err) && string_arg(r, call, 1, &part, err) &&
	       give_bool(out, str_has_prefix(s, part));
}

FUNCTION(has_suffix)
{
	struct str s = { 0 }, part = { 0 };

	return string_arg(r, call, 0, &s, err) && string_arg(r, call, 1, &part, err) &&
	       give_bool(out, str_has_suffix(s, part));
}

FUNCTION(has_frame)
{
	bool has = false;

	return ottl_has_frame(r, call, &has, err) && give_bool(out, has);
}

FUNCTION(len)
{
	struct ottl_value v;

	if (!arg(r, call, 0, &v, err))
		return false;
	switch (v.any.kind) {
	case ANY_STRING:
	case ANY_BYTES:
		return give_int(out, (int64_t)v.any.string.len);
	case ANY_ARRAY:
		return give_int(out, v.any.array.count);
	case ANY_KVLIST:
		return give_int(out, v.any.kvlist.count);
	default:
		return err_set(err, ERR_INVALID, "%s has no length", any_kind_word(v.any.kind));
	}
}

static bool kind_is(struct ottl_run *r, const struct ottl_expr *call, enum any_kind kind,
		    struct ottl_value *out, struct err *err)
{
	struct ottl_value v;

	return arg(r, call, 0, &v, err) && give_bool(out, v.any.kind == kind);
}

FUNCTION(is_string)
{
	return kind_is(r, call, ANY_STRING, out, err);
}

FUNCTION(is_int)
{
	return kind_is(r, call, ANY_INT, out, err);
}

FUNCTION(is_double)
{
	return kind_is(r, call, ANY_DOUBLE, out, err);
}

FUNCTION(is_bool)
{
	return kind_is(r, call, ANY_BOOL, out, err);
}

FUNCTION(is_map)
{
	return kind_is(r, call, ANY_KVLIST, out, err);
}

FUNCTION(is_list)
{
	return kind_is(r, call, ANY_ARRAY, out, err);
}

/* What is no number gives nil. */
static void text_to_double(struct str s, struct any_value *out)
{
	char text[64], *end;
	double v;

	if (s.len == 0 || s.len >= sizeof(text))
		return;
	memcpy(text, s.ptr, s.len);
	text[s.len] = 0;
	v = strtod(text, &end);
	if (!*end)
		*out = (struct any_value){ .kind = ANY_DOUBLE, .real = v };
}

static bool double_fits(double v)
{
	return v >= -9223372036854775808.0 && v < 9223372036854775808.0;
}

FUNCTION(to_int)
{
	struct ottl_value v;
	int64_t n;

	if (!arg(r, call, 0, &v, err))
		return false;
	if (v.any.kind == ANY_INT)
		*out = v;
	else if (v.any.kind == ANY_DOUBLE && double_fits(v.any.real))
		give_int(out, (int64_t)v.any.real);
	else if (v.any.kind == ANY_BOOL)
		give_int(out, v.any.boolean);
	else if (v.any.kind == ANY_STRING && str_to_i64(v.any.string, &n))
		give_int(out, n);
	return true;
}

FUNCTION(to_double)
{
	struct ottl_value v;

	if (!arg(r, call, 0, &v, err))
		return false;
	if (v.any.kind == ANY_DOUBLE)
		*out = v;
	else if (v.any.kind == ANY_INT)
		out->any = (struct any_value){ .kind = ANY_DOUBLE, .real = (double)v.any.integer };
	else if (v.any.kind == ANY_BOOL)
		out->any = (struct any_value){ .kind = ANY_DOUBLE, .real = v.any.boolean };
	else if (v.any.kind == ANY_STRING)
		text_to_double(v.any.string, &out->any);
	return true;
}

FUNCTION(to_string)
{
	struct ottl_value v;
	struct str text;

	if (!arg(r, call, 0, &v, err))
		return false;
	if (v.any.kind == ANY_EMPTY)
		return true;
	return ottl_text(r, &v.any, &text, err) && give_string(out, text);
}

FUNCTION(concat)
{
	struct ottl_value list;
	struct str delimiter = { 0 };
	struct buf b;

	if (!arg(r, call, 0, &list, err) || !string_arg(r, call, 1, &delimiter, err))
		return false;
	if (list.any.kind != ANY_ARRAY)
		return err_set(err, ERR_INVALID, "Concat() joins a list, not %s",
			       any_kind_word(list.any.kind));
	buf_init(&b, REGEX_REPLACED_MOST);
	for (uint32_t i = 0; i < list.any.array.count; i++) {
		if (i)
			buf_str(&b, delimiter);
		if (list.any.array.values[i].kind == ANY_EMPTY)
			buf_lit(&b, "<nil>"); /* the Collector's word */
		else
			any_value_append_text(&b, &list.any.array.values[i]);
	}
	buf_reset(&r->text);
	buf_str(&r->text, buf_view(&b));
	r->text.failed |= b.failed;
	buf_release(&b);
	return give_text(r, out, err);
}

FUNCTION(split)
{
	struct any_value *parts;
	struct str s = { 0 }, delimiter = { 0 };
	uint32_t count = 1;
	ptrdiff_t at;

	if (!string_arg(r, call, 0, &s, err) || !string_arg(r, call, 1, &delimiter, err))
		return false;
	if (!delimiter.len)
		return err_set(err, ERR_INVALID, "Split() needs a delimiter");
	for (struct str rest = s; (at = str_search(rest, delimiter)) >= 0; count++)
		rest = str_skip(rest, (size_t)at + delimiter.len);
	parts = arena_alloc_array(&r->scratch, count, sizeof(*parts));
	if (!parts)
		return err_set(err, ERR_LIMIT, "a value is too long");
	for (uint32_t i = 0; i < count; i++) {
		at = str_search(s, delimiter);
		parts[i] = (struct any_value){ .kind = ANY_STRING,
					       .string = at < 0 ? s : str_head(s, (size_t)at) };
		s = at < 0 ? s : str_skip(s, (size_t)at + delimiter.len);
	}
	out->any = (struct any_value){ .kind = ANY_ARRAY, .array = { parts, count } };
	return true;
}

FUNCTION(substring)
{
	int64_t start = 0, length = 0;
	struct str s = { 0 };

	if (!string_arg(r, call, 0, &s, err) || !int_arg(r, call, 1, &start, err) ||
	    !int_arg(r, call, 2, &length, err))
		return false;
	if (start < 0 || length < 0 || (uint64_t)start > s.len ||
	    (uint64_t)length > s.len - (uint64_t)start)
		return err_set(err, ERR_INVALID,
			       "Substring() from %" PRId64 " of %" PRId64 " bytes, of %zu", start,
			       length, s.len);
	return give_string(out, str_from(s.ptr + start, (size_t)length));
}

static bool map_text(struct ottl_run *r, const struct ottl_expr *call, int (*to)(int),
		     struct ottl_value *out, struct err *err)
{
	struct str s = { 0 };

	if (!string_arg(r, call, 0, &s, err))
		return false;
	buf_reset(&r->text);
	for (size_t i = 0; i < s.len; i++)
		buf_char(&r->text, (char)((unsigned char)s.ptr[i] < 128 ? to(s.ptr[i]) : s.ptr[i]));
	return give_text(r, out, err);
}

FUNCTION(to_lower)
{
	return map_text(r, call, tolower, out, err);
}

FUNCTION(to_upper)
{
	return map_text(r, call, toupper, out, err);
}

FUNCTION(trim)
{
	struct str s = { 0 };

	return string_arg(r, call, 0, &s, err) && give_string(out, str_trim(s));
}

FUNCTION(sha256)
{
	struct str s = { 0 };

	if (!string_arg(r, call, 0, &s, err))
		return false;
	buf_reset(&r->text);
	hash_text_sha256(&r->text, s);
	return give_text(r, out, err);
}

FUNCTION(contains_value)
{
	struct ottl_value list, item;

	if (!arg(r, call, 0, &list, err) || !arg(r, call, 1, &item, err))
		return false;
	if (list.any.kind != ANY_ARRAY)
		return err_set(err, ERR_INVALID, "ContainsValue() wants a list, not %s",
			       any_kind_word(list.any.kind));
	for (uint32_t i = 0; i < list.any.array.count; i++)
		if (any_value_equal(&list.any.array.values[i], &item.any))
			return give_bool(out, true);
	return give_bool(out, false);
}

#define VALUE(n, t)                                                \
	{                                                          \
		.name = (n), .kind = PARAMETER_VALUE, .types = (t) \
	}
#define REGEX(n, o)                                                                         \
	{                                                                                   \
		.name = (n), .kind = PARAMETER_REGEX, .types = TYPE_STRING, .optional = (o) \
	}

/* clang-format off */
const struct ottl_function ottl_converters[] = {
	{ .name = "IsMatch", .eval = is_match, .result = TYPE_BOOL, .parameters = { VALUE("target", TYPE_ANY), REGEX("pattern", false) } },
	{ .name = "HasFrame", .eval = has_frame, .result = TYPE_BOOL, .parameters = { REGEX("function", true), REGEX("file", true), REGEX("binary", true), REGEX("kind", true) }, .context = OTTL_SAMPLE },
	{ .name = "HasPrefix", .eval = has_prefix, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_STRING), VALUE("prefix", TYPE_STRING) } },
	{ .name = "HasSuffix", .eval = has_suffix, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_STRING), VALUE("suffix", TYPE_STRING) } },
	{ .name = "ContainsValue", .eval = contains_value, .result = TYPE_BOOL, .parameters = { VALUE("target", TYPE_LIST), VALUE("item", TYPE_ANY) } },
	{ .name = "IsString", .eval = is_string, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "IsInt", .eval = is_int, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "IsDouble", .eval = is_double, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "IsBool", .eval = is_bool, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "IsMap", .eval = is_map, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "IsList", .eval = is_list, .result = TYPE_BOOL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "Len", .eval = len, .result = TYPE_INT, .parameters = { VALUE("target", TYPE_STRING | TYPE_BYTES | TYPE_LIST | TYPE_MAP) } },
	{ .name = "Int", .eval = to_int, .result = TYPE_INT | TYPE_NIL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "Double", .eval = to_double, .result = TYPE_FLOAT | TYPE_NIL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "String", .eval = to_string, .result = TYPE_STRING | TYPE_NIL, .parameters = { VALUE("value", TYPE_ANY) } },
	{ .name = "Concat", .eval = concat, .result = TYPE_STRING, .parameters = { VALUE("values", TYPE_LIST), VALUE("delimiter", TYPE_STRING) } },
	{ .name = "Split", .eval = split, .result = TYPE_LIST, .parameters = { VALUE("target", TYPE_STRING), VALUE("delimiter", TYPE_STRING) } },
	{ .name = "Substring", .eval = substring, .result = TYPE_STRING, .parameters = { VALUE("target", TYPE_STRING), VALUE("start", TYPE_INT), VALUE("length", TYPE_INT) } },
	{ .name = "ToLowerCase", .eval = to_lower, .result = TYPE_STRING, .parameters = { VALUE("target", TYPE_STRING) } },
	{ .name = "ToUpperCase", .eval = to_upper, .result = TYPE_STRING, .parameters = { VALUE("target", TYPE_STRING) } },
	{ .name = "Trim", .eval = trim, .result = TYPE_STRING, .parameters = { VALUE("target", TYPE_STRING) } },
	{ .name = "SHA256", .eval = sha256, .result = TYPE_STRING, .parameters = { VALUE("value", TYPE_STRING) } },
	{ 0 },
};
/* clang-format on */
