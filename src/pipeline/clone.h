/* clone.h - a deep copy of a message, extras and bad indices included; what is borrowed from the
 * body stays borrowed. */
#pragma once
#include "model/profiles.h"

/* Sealed as the original was; aborts only when the system is out of memory. */
struct profiles *profiles_clone(const struct profiles *p);
