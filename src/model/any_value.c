/*
 * any_value.c - equality and text of AnyValue. The text is that of Go's pcommon.Value.AsString(),
 * which the lazy backends print: scalars plainly, arrays and maps as encoding/json writes them
 * (keys sorted, < > & as they are).
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/go_json.h"
#include "model/value_unknown.h"

static bool key_value_equal(const struct key_value *a, const struct key_value *b)
{
	return str_equal(a->key, b->key) && any_value_equal(&a->value, &b->value);
}

static bool pairs_equal(const struct any_value *a, const struct any_value *b)
{
	if (a->kvlist.count != b->kvlist.count)
		return false;
	for (uint32_t i = 0; i < a->kvlist.count; i++)
		if (!key_value_equal(&a->kvlist.pairs[i], &b->kvlist.pairs[i]))
			return false;
	return true;
}

static bool arrays_equal(const struct any_value *a, const struct any_value *b)
{
	if (a->array.count != b->array.count)
		return false;
	for (uint32_t i = 0; i < a->array.count; i++)
		if (!any_value_equal(&a->array.values[i], &b->array.values[i]))
			return false;
	return true;
}

bool any_value_equal(const struct any_value *a, const struct any_value *b)
{
	if (a->kind != b->kind || !value_unknown_equal(a->unknown, b->unknown))
		return false;
	switch (a->kind) {
	case ANY_EMPTY:
		return true;
	case ANY_STRING:
	case ANY_BYTES:
		return str_equal(a->string, b->string);
	case ANY_BOOL:
		return a->boolean == b->boolean;
	case ANY_INT:
		return a->integer == b->integer;
	case ANY_DOUBLE: /* by bits: a NaN equals itself, 0 and -0 differ */
		/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
		return memcmp(&a->real, &b->real, sizeof(a->real)) == 0;
	case ANY_ARRAY:
		return arrays_equal(a, b);
	case ANY_KVLIST:
		return pairs_equal(a, b);
	}
	return false;
}

enum { DIGITS_MOST = 17, DOUBLE_TEXT_MOST = 64 };

/* The fewest significant digits that read back as the same number: "d.ddde+XX" taken apart. */
static int shortest_digits(double abs, char digits[DIGITS_MOST + 1], int *exponent)
{
	char text[DOUBLE_TEXT_MOST];
	int n = 0;

	for (int precision = 0; precision < DIGITS_MOST; precision++) {
		snprintf(text, sizeof(text), "%.*e", precision, abs);
		if (strtod(text, NULL) == abs)
			break;
	}
	for (const char *p = text; *p != 'e'; p++)
		if (*p >= '0' && *p <= '9')
			digits[n++] = *p;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	*exponent = atoi(strchr(text, 'e') + 1);
	return n;
}

static void append_zeros(struct buf *b, int count)
{
	for (int i = 0; i < count; i++)
		buf_char(b, '0');
}

static void append_plain(struct buf *b, const char *digits, int n, int exponent)
{
	if (exponent < 0) {
		buf_lit(b, "0.");
		append_zeros(b, -exponent - 1);
		buf_append(b, digits, (size_t)n);
	} else if (n <= exponent + 1) {
		buf_append(b, digits, (size_t)n);
		append_zeros(b, exponent + 1 - n);
	} else {
		buf_append(b, digits, (size_t)exponent + 1);
		buf_char(b, '.');
		buf_append(b, digits + exponent + 1, (size_t)(n - exponent - 1));
	}
}

/* encoding/json's number: plain between 1e-6 and 1e21, else d.ddde-7, d.ddde+21. */
static void append_double(struct buf *b, double v)
{
	char digits[DIGITS_MOST + 1];
	double abs = fabs(v);
	int exponent, n;

	if (signbit(v))
		buf_char(b, '-');
	n = shortest_digits(abs, digits, &exponent);
	if (abs == 0 || (abs >= 1e-6 && abs < 1e21)) {
		append_plain(b, digits, n, exponent);
		return;
	}
	buf_append(b, digits, 1);
	if (n > 1) {
		buf_char(b, '.');
		buf_append(b, digits + 1, (size_t)n - 1);
	}
	buf_printf(b, "e%+d", exponent);
}

static const char *non_finite_name(double v)
{
	return isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
}

static void append_json(struct buf *b, const struct any_value *v);

static int pairs_compare(const void *a, const void *b)
{
	const struct key_value *const *x = a, *const *y = b;
	int order = str_compare((*x)->key, (*y)->key);

	/* Equal keys keep their order: the later one counts. */
	return order ? order : (*x > *y) - (*x < *y);
}

static void append_json_map(struct buf *b, const struct any_value *v)
{
	uint32_t n = v->kvlist.count;
	const struct key_value **sorted = malloc((n ? n : 1) * sizeof(*sorted));
	bool first = true;

	assert(sorted);
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = &v->kvlist.pairs[i];
	qsort(sorted, n, sizeof(*sorted), pairs_compare);
	buf_char(b, '{');
	for (uint32_t i = 0; i < n; i++) {
		if (i + 1 < n && str_equal(sorted[i]->key, sorted[i + 1]->key))
			continue; /* a Go map holds the last of equal keys */
		if (!first)
			buf_char(b, ',');
		first = false;
		go_json_string_plain(b, sorted[i]->key);
		buf_char(b, ':');
		append_json(b, &sorted[i]->value);
	}
	buf_char(b, '}');
	free(sorted);
}

static void append_json_array(struct buf *b, const struct any_value *v)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < v->array.count; i++) {
		if (i)
			buf_char(b, ',');
		append_json(b, &v->array.values[i]);
	}
	buf_char(b, ']');
}

static void append_json(struct buf *b, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		buf_lit(b, "null");
		return;
	case ANY_STRING:
		go_json_string_plain(b, v->string);
		return;
	case ANY_BYTES:
		if (v->string.len == 0) {
			buf_lit(b, "null"); /* a nil slice to Go's encoder */
			return;
		}
		buf_char(b, '"');
		buf_base64(b, v->string.ptr, v->string.len);
		buf_char(b, '"');
		return;
	case ANY_DOUBLE:
		/* Go's encoder gives up on the whole value here and prints nothing; we show it, as
		 * OTLP/JSON does. */
		if (!isfinite(v->real)) {
			buf_printf(b, "\"%s\"", non_finite_name(v->real));
			return;
		}
		append_double(b, v->real);
		return;
	case ANY_BOOL:
	case ANY_INT:
		any_value_append_text(b, v);
		return;
	case ANY_ARRAY:
		append_json_array(b, v);
		return;
	case ANY_KVLIST:
		append_json_map(b, v);
		return;
	}
}

void any_value_append_text(struct buf *b, const struct any_value *v)
{
	switch (v->kind) {
	case ANY_EMPTY:
		return;
	case ANY_STRING:
		buf_str(b, v->string);
		return;
	case ANY_BYTES:
		buf_base64(b, v->string.ptr, v->string.len);
		return;
	case ANY_BOOL:
		buf_str(b, v->boolean ? STR("true") : STR("false"));
		return;
	case ANY_INT:
		buf_i64(b, v->integer);
		return;
	case ANY_DOUBLE:
		if (isfinite(v->real))
			append_double(b, v->real);
		else
			buf_str(b, str_cstr(non_finite_name(v->real)));
		return;
	case ANY_ARRAY:
	case ANY_KVLIST:
		append_json(b, v);
		return;
	}
}
