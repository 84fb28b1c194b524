/* units.h - what units of profiles mean, and values with them for people: "3.69 s", "12.5 MiB",
 * "1,234". */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/str.h"

/* A unit of time ("ms", "milliseconds") in nanoseconds, one of memory ("kilobytes", as pprof has
 * it, "KiBy") in bytes; 0: it is none. */
int64_t unit_in_ns(struct str unit);
int64_t unit_in_bytes(struct str unit);

/* One scale for a column of values, so that they can be compared at a glance. */
struct unit_scale {
	double divisor;
	const char *name; /* "s", "MiB"; "" for counts */
	int digits;       /* behind the point */
};
/* The scale that suits the largest value of the column. */
struct unit_scale unit_scale_for(struct str unit, int64_t largest);
/* "3.690 s"; counts with thousands separators. */
void unit_append(struct buf *b, const struct unit_scale *s, int64_t value);
/* With a scale of its own. */
void unit_append_alone(struct buf *b, struct str unit, int64_t value);
