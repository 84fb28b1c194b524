/*
 * copy.h - deep copies: of values for another message, and of a whole message.
 *
 * Memory: a copy lies in the given arena. Strings that lie in the shared body stay borrowed from
 * it; all others are copied.
 */
#pragma once
#include "model/profiles.h"

struct copier {
	struct arena *arena;
	const struct blob *shared_body; /* may be NULL: all strings are copied */
	const uint32_t
		*string_numbers; /* old strindex -> new; NULL: references are kept as they are */
	bool failed;             /* the arena reached its limit */
};

struct str copy_string(struct copier *c, struct str s);
struct any_value copy_any(struct copier *c, const struct any_value *v);
struct key_values copy_key_values(struct copier *c, struct key_values kv);

/* A message with the same tables, extras and bad indices; sealed if the original is. Free it with
 * profiles_free(). Aborts only when the system is out of memory. */
struct profiles *profiles_copy(const struct profiles *p);
