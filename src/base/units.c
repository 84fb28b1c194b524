#include "base/units.h"

#include <math.h>
#include <stdio.h>

#include "base/cleanup.h"

static const struct {
	const char *name;
	double ns;
} times[] = { { "h", 3600e9 }, { "min", 60e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 } };
static const struct {
	const char *name;
	double bytes;
} sizes[] = {
	{ "EiB", 1152921504606846976.0 }, { "PiB", 1125899906842624.0 }, { "TiB", 1099511627776.0 },
	{ "GiB", 1073741824.0 },          { "MiB", 1048576.0 },          { "KiB", 1024.0 }
};

struct named_unit {
	const char *name;
	int64_t value;
};

static int64_t named_value(const struct named_unit *units, size_t count, struct str name)
{
	for (size_t i = 0; i < count; i++)
		if (str_is(name, units[i].name))
			return units[i].value;
	return 0;
}

int64_t unit_in_ns(struct str unit)
{
	static const struct named_unit units[] = {
		{ "nanoseconds", 1 },        { "ns", 1 },
		{ "microseconds", 1000 },    { "us", 1000 },
		{ "milliseconds", 1000000 }, { "ms", 1000000 },
		{ "seconds", 1000000000 },   { "s", 1000000000 },
	};

	return named_value(units, ARRAY_LEN(units), unit);
}

int64_t unit_in_bytes(struct str unit)
{
	static const struct named_unit units[] = {
		{ "bytes", 1 },
		{ "byte", 1 },
		{ "By", 1 },
		{ "B", 1 },
		{ "kilobytes", 1 << 10 },
		{ "KiBy", 1 << 10 },
		{ "KiB", 1 << 10 },
		{ "megabytes", 1 << 20 },
		{ "MiBy", 1 << 20 },
		{ "MiB", 1 << 20 },
		{ "gigabytes", 1 << 30 },
		{ "GiBy", 1 << 30 },
		{ "GiB", 1 << 30 },
	};

	return named_value(units, ARRAY_LEN(units), unit);
}

/* Three digits where the largest has one or two before the point. */
static int digits_for(double largest)
{
	return largest >= 1000 ? 1 : largest >= 10 ? 2 : 3;
}

struct unit_scale unit_scale_for(struct str unit, int64_t largest)
{
	double v = fabs((double)largest);

	if (str_is(unit, "nanoseconds")) {
		/* Hours and minutes only where they are many: "90 s" reads better than "1.5 min".
		 */
		for (size_t i = 0; i < ARRAY_LEN(times); i++)
			if (v >= times[i].ns * (i < 2 ? 10 : 1))
				return (struct unit_scale){ times[i].ns, times[i].name,
							    digits_for(v / times[i].ns) };
		return (struct unit_scale){ 1, "ns", 0 };
	}
	if (str_is(unit, "bytes")) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
			if (v >= sizes[i].bytes)
				return (struct unit_scale){ sizes[i].bytes, sizes[i].name,
							    digits_for(v / sizes[i].bytes) };
		return (struct unit_scale){ 1, "B", 0 };
	}
	return (struct unit_scale){ 1, "", 0 };
}

static void append_grouped(struct buf *b, int64_t value)
{
	char digits[32];
	int n = snprintf(digits, sizeof(digits), "%lld", (long long)value);
	int first = digits[0] == '-';

	for (int i = 0; i < n; i++) {
		if (i > first && (n - i) % 3 == 0)
			buf_char(b, ',');
		buf_char(b, digits[i]);
	}
}

void unit_append(struct buf *b, const struct unit_scale *s, int64_t value)
{
	double shown = (double)value / s->divisor;

	if (fabs(shown) < 0.5 * pow(10, -s->digits))
		shown = 0; /* no -0.00 */
	if (s->digits == 0)
		append_grouped(b, value);
	else
		buf_printf(b, "%.*f", s->digits, shown);
	if (s->name[0]) {
		buf_char(b, ' ');
		buf_str(b, str_cstr(s->name));
	}
}

void unit_append_alone(struct buf *b, struct str unit, int64_t value)
{
	struct unit_scale s = unit_scale_for(unit, value);

	unit_append(b, &s, value);
}
