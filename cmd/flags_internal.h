/* flags_internal.h - what the readers of flags share. */
#pragma once
#include "base/str.h"
#include "flags.h"

/* Given before the mark? */
bool flags_given_before(const struct flag *f, unsigned mark);
