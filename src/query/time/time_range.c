#include "query/time/time_range.h"

#include <stdlib.h>

#include "base/clock.h"

struct cursor {
	const char *at, *end;
};

static bool number(struct cursor *c, unsigned digits, unsigned *out)
{
	unsigned v = 0;

	if ((size_t)(c->end - c->at) < digits)
		return false;
	for (unsigned i = 0; i < digits; i++) {
		if (c->at[i] < '0' || c->at[i] > '9')
			return false;
		v = v * 10 + (unsigned)(c->at[i] - '0');
	}
	c->at += digits;
	*out = v;
	return true;
}

static bool literal(struct cursor *c, char a, char b)
{
	if (c->at == c->end || (*c->at != a && *c->at != b))
		return false;
	c->at++;
	return true;
}

/* Days since 1970-01-01 of the proleptic Gregorian calendar: years are counted from March. */
static int64_t days_of(unsigned year, unsigned month, unsigned day)
{
	int64_t y = (int64_t)year - (month <= 2 ? 1 : 0);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	unsigned of_era = (unsigned)(y - era * 400);
	unsigned of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool fraction(struct cursor *c, uint64_t *ns)
{
	uint64_t unit = SECOND_NS;
	unsigned digit, count = 0;

	*ns = 0;
	if (!literal(c, '.', ','))
		return true;
	while (number(c, 1, &digit)) {
		unit /= 10;
		*ns += digit * unit;
		count++;
	}
	return count > 0;
}

static bool zone(struct cursor *c, int64_t *offset_s)
{
	unsigned h, m;
	bool west;

	*offset_s = 0;
	if (c->at == c->end || literal(c, 'Z', 'z'))
		return true;
	west = *c->at == '-';
	if (!literal(c, '+', '-') || !number(c, 2, &h))
		return false;
	literal(c, ':', ':');
	if (!number(c, 2, &m) || h > 23 || m > 59)
		return false;
	*offset_s = (west ? -1 : 1) * (int64_t)(h * 3600 + m * 60);
	return true;
}

static bool days_fit(unsigned y, unsigned m, unsigned d)
{
	static const unsigned char most[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	return m >= 1 && m <= 12 && d >= 1 && d <= most[m - 1] && (m != 2 || d <= 28 || leap);
}

static bool rfc3339(struct str text, uint64_t *out)
{
	struct cursor c = { text.ptr, text.ptr + text.len };
	unsigned year, month, day, h = 0, m = 0, s = 0;
	uint64_t ns = 0;
	int64_t offset = 0, seconds;

	if (!number(&c, 4, &year) || !literal(&c, '-', '-') || !number(&c, 2, &month) ||
	    !literal(&c, '-', '-') || !number(&c, 2, &day) || !days_fit(year, month, day))
		return false;
	if (c.at < c.end) {
		if ((!literal(&c, 'T', 't') && !literal(&c, ' ', '_')) || !number(&c, 2, &h) ||
		    !literal(&c, ':', ':') || !number(&c, 2, &m))
			return false;
		if (literal(&c, ':', ':') && (!number(&c, 2, &s) || !fraction(&c, &ns)))
			return false;
		if (h > 23 || m > 59 || s > 60 || !zone(&c, &offset))
			return false;
	}
	seconds = days_of(year, month, day) * 86400 + h * 3600 + m * 60 + s - offset;
	if (c.at != c.end || seconds < 0 || (uint64_t)seconds > UINT64_MAX / SECOND_NS - 1)
		return false;
	*out = (uint64_t)seconds * SECOND_NS + ns;
	return true;
}

/* "1h30m", "7d": a sum of numbers with units. */
static bool span(struct str text, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { /* longer names before their beginnings */
		      { "ns", 1 },
		      { "us", 1000 },
		      { "ms", MILLI_NS },
		      { "s", SECOND_NS },
		      { "m", MINUTE_NS },
		      { "h", 60 * MINUTE_NS },
		      { "d", 1440 * MINUTE_NS },
		      { "w", 7 * 1440 * MINUTE_NS }
	};
	uint64_t sum = 0;

	while (text.len) {
		size_t digits = 0, u = 0;
		uint64_t n, part;

		while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
			digits++;
		if (!str_to_u64(str_head(text, digits), &n))
			return false;
		text = str_skip(text, digits);
		while (u < sizeof(units) / sizeof(units[0]) &&
		       !str_has_prefix(text, str_cstr(units[u].name)))
			u++;
		if (u == sizeof(units) / sizeof(units[0]) ||
		    __builtin_mul_overflow(n, units[u].ns, &part) ||
		    __builtin_add_overflow(sum, part, &sum))
			return false;
		text = str_skip(text, strlen(units[u].name));
	}
	*out = sum;
	return true;
}

static bool relative(struct str text, uint64_t now, uint64_t *out)
{
	struct str rest = str_skip(text, 3);
	uint64_t ns;

	if (!str_has_prefix(text, STR("now")))
		return false;
	if (rest.len == 0) {
		*out = now;
		return true;
	}
	if ((rest.ptr[0] != '-' && rest.ptr[0] != '+') || rest.len < 2 ||
	    !span(str_skip(rest, 1), &ns))
		return false;
	if (rest.ptr[0] == '-')
		*out = ns > now ? 0 : now - ns;
	else
		*out = ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
	return true;
}

/* Seconds until the year 5138, then milliseconds, ...: no two readings are both plausible. */
static bool unix_time(struct str text, uint64_t *out)
{
	ptrdiff_t dot = str_find(text, '.');
	uint64_t v, ns = 0;

	if (dot > 0) {
		struct cursor c = { text.ptr + dot, text.ptr + text.len };

		if (!fraction(&c, &ns) || c.at != c.end)
			return false;
		text = str_head(text, (size_t)dot);
	}
	if (!str_to_u64(text, &v))
		return false;
	if (v < UINT64_C(100000000000)) {
		if (__builtin_mul_overflow(v, SECOND_NS, &v))
			return false;
		*out = v + ns; /* below 2^63 + 10^9 */
		return true;
	}
	if (ns)
		return false;
	*out = v < UINT64_C(100000000000000)      ? v * MILLI_NS
	       : v < UINT64_C(100000000000000000) ? v * 1000
						  : v;
	return true;
}

bool time_parse(struct str text, uint64_t now_ns, uint64_t *out_ns, struct err *err)
{
	struct str t = str_trim(text);

	if (t.len && t.len <= 64 &&
	    (relative(t, now_ns, out_ns) || unix_time(t, out_ns) || rfc3339(t, out_ns)))
		return true;
	return err_set(err, ERR_INVALID,
		       "bad time \"%.*s\": like now-15m, 2026-11-21T03:17:28Z or a unix time",
		       (int)(t.len < 64 ? t.len : 64), t.ptr ? t.ptr : "");
}

bool time_range_parse(struct str from, struct str to, uint64_t now_ns, struct source_range *out,
		      struct err *err)
{
	struct source_range r = SOURCE_ALWAYS;

	if (from.len && !time_parse(from, now_ns, &r.from, err))
		return err_prefix(err, "from");
	if (to.len && !time_parse(to, now_ns, &r.to, err))
		return err_prefix(err, "to");
	if (r.from > r.to)
		return err_set(err, ERR_INVALID, "the range ends (%.*s) before it begins (%.*s)",
			       STR_ARG(to), STR_ARG(from));
	*out = r;
	return true;
}
