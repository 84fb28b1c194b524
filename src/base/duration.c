/* duration.c - Go's spelling of durations: time.ParseDuration() and Duration.String(). */
#include "base/clock.h"

#include "base/buf.h"

static bool unit_ns(struct str name, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },           { "us", 1000 },
		{ "\xc2\xb5s", 1000 }, /* U+00B5, micro sign */
		{ "\xce\xbcs", 1000 }, /* U+03BC, Greek mu */
		{ "ms", MILLI_NS },    { "s", SECOND_NS },
		{ "m", MINUTE_NS },    { "h", 60 * MINUTE_NS },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (str_is(name, units[i].name)) {
			*out = units[i].ns;
			return true;
		}
	return false;
}

static size_t digits_len(struct str s)
{
	size_t n = 0;

	while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9')
		n++;
	return n;
}

/* A fraction of a unit; digits too small to count are dropped, as Go does. */
static uint64_t fraction_ns(struct str digits, uint64_t unit)
{
	uint64_t value = 0, scale = 1;

	for (size_t i = 0; i < digits.len && i < 18; i++) {
		value = value * 10 + (uint64_t)(digits.ptr[i] - '0');
		scale *= 10;
	}
	return (uint64_t)((unsigned __int128)value * unit / scale);
}

/* Takes one "1.5h" off *rest and adds it to *sum_ns. */
static bool part_parse(struct str all, struct str *rest, uint64_t *sum_ns, struct err *err)
{
	struct str whole = str_head(*rest, digits_len(*rest)), fraction = { 0 }, name;
	uint64_t number = 0, unit, ns;
	size_t name_len = 0;

	*rest = str_skip(*rest, whole.len);
	if (rest->len && rest->ptr[0] == '.') {
		*rest = str_skip(*rest, 1);
		fraction = str_head(*rest, digits_len(*rest));
		*rest = str_skip(*rest, fraction.len);
	}
	if (whole.len + fraction.len == 0)
		return err_set(err, ERR_INVALID, "invalid duration \"%.*s\"", STR_ARG(all));
	while (name_len < rest->len && rest->ptr[name_len] != '.' &&
	       (rest->ptr[name_len] < '0' || rest->ptr[name_len] > '9'))
		name_len++;
	name = str_head(*rest, name_len);
	*rest = str_skip(*rest, name_len);
	if (name.len == 0)
		return err_set(err, ERR_INVALID,
			       "missing unit in duration \"%.*s\" (write \"%.*ss\")", STR_ARG(all),
			       STR_ARG(all));
	if (!unit_ns(name, &unit))
		return err_set(
			err, ERR_INVALID,
			"unknown unit \"%.*s\" in duration \"%.*s\"; use ns, us, ms, s, m or h",
			STR_ARG(name), STR_ARG(all));
	if ((whole.len && !str_to_u64(whole, &number)) ||
	    __builtin_mul_overflow(number, unit, &ns) ||
	    __builtin_add_overflow(ns, fraction_ns(fraction, unit), &ns) ||
	    __builtin_add_overflow(*sum_ns, ns, sum_ns) || *sum_ns > INT64_MAX)
		return err_set(err, ERR_INVALID, "duration \"%.*s\" is longer than 292 years",
			       STR_ARG(all));
	return true;
}

bool duration_parse(struct str text, uint64_t *out_ns, struct err *err)
{
	struct str rest = text;
	uint64_t sum_ns = 0;

	if (rest.len && rest.ptr[0] == '-')
		return err_set(err, ERR_INVALID, "duration \"%.*s\" is negative", STR_ARG(text));
	if (rest.len && rest.ptr[0] == '+')
		rest = str_skip(rest, 1);
	if (rest.len == 0)
		return err_set(err, ERR_INVALID, "invalid duration \"%.*s\"", STR_ARG(text));
	if (!str_is(rest, "0"))
		while (rest.len)
			if (!part_parse(text, &rest, &sum_ns, err))
				return false;
	*out_ns = sum_ns;
	return true;
}

/* "1.5" of 1500 at a unit of 1000. */
static void append_in_unit(struct buf *b, uint64_t ns, uint64_t unit)
{
	uint64_t rest = ns % unit;

	buf_u64(b, ns / unit);
	if (rest == 0)
		return;
	buf_char(b, '.');
	while (rest) {
		unit /= 10;
		buf_char(b, (char)('0' + rest / unit));
		rest %= unit;
	}
}

void duration_append(struct buf *b, uint64_t ns)
{
	if (ns == 0) {
		buf_lit(b, "0s");
	} else if (ns < 1000) {
		buf_u64(b, ns);
		buf_lit(b, "ns");
	} else if (ns < MILLI_NS) {
		append_in_unit(b, ns, 1000);
		buf_lit(b, "\xc2\xb5s");
	} else if (ns < SECOND_NS) {
		append_in_unit(b, ns, MILLI_NS);
		buf_lit(b, "ms");
	} else {
		uint64_t minutes = ns / MINUTE_NS;

		if (minutes >= 60) {
			buf_u64(b, minutes / 60);
			buf_char(b, 'h');
		}
		if (minutes) {
			buf_u64(b, minutes % 60);
			buf_char(b, 'm');
		}
		append_in_unit(b, ns % MINUTE_NS, SECOND_NS);
		buf_char(b, 's');
	}
}
