/*
 * equal.h - do two messages say the same? By content, never by index: dictionaries may differ in
 * order, duplicates and orphans. The order of resources, scopes, profiles and samples counts.
 */
#pragma once
#include "model/profiles.h"

enum equal_flags {
	EQUAL_IGNORE_EXTRAS = 1,     /* extras and bad indices */
	EQUAL_IGNORE_REFERENCES = 2, /* whether a string was written by reference */
	EQUAL_TOTALS = 4,            /* sample_total() rather than the list of values */
};

/* False with the path of the first difference and both sides in `why`. */
bool profiles_equal(const struct profiles *a, const struct profiles *b, unsigned flags,
		    struct err *why) MUST_CHECK;
