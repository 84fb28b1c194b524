/*
 * copy.h - values of one message for another one: deep, with string references renumbered.
 *
 * Memory: the arena; strings that lie in `shared_body` are borrowed on, others copied. The copier
 * remembers that the arena's limit was passed (`failed`).
 */
#pragma once
#include "model/profiles.h"

struct copier {
	struct arena *arena;
	const struct blob *shared_body; /* may be NULL: all strings are copied */
	const uint32_t
		*string_numbers; /* old strindex -> new; NULL: references are kept as they are */
	bool failed;
};

struct str copy_string(struct copier *c, struct str s);
struct any_value copy_any(struct copier *c, const struct any_value *v);
struct key_values copy_key_values(struct copier *c, struct key_values kv);
