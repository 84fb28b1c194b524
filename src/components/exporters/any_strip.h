/*
 * any_strip.h - a value as a reader sees it who knows no dictionary references: what came as
 * string_value_strindex is empty, what came as key_strindex has an empty key. Layout 2026 shows
 * values so (see text.h).
 */
#pragma once
#include "base/arena.h"
#include "model/profiles.h"

/* Whether the value or anything in it came by reference. */
bool any_has_reference(const struct any_value *v);

struct any_strip {
	struct arena arena;
};

/* The stripped copy; lives until any_strip_release(). */
const struct any_value *any_strip_references(struct any_strip *s, const struct any_value *v);
void any_strip_release(struct any_strip *s);
