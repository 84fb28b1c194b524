/* flags_internal.h - what the readers of flags share. */
#pragma once
#include "flags.h"

/* Checks and sets, and remembers it as given. value NULL: a bool that stands alone. */
bool flags_set(const struct command *c, const struct flag *f, const char *value,
	       struct err *err) MUST_CHECK;
/* Given before the mark? */
bool flags_given_before(const void *target, unsigned mark);
