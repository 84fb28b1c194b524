/*
 * value_unknown.h - the unknown fields of AnyValue, ArrayValue, KeyValueList and KeyValue, which go
 * with the value (profiles.h, struct value_unknown).
 *
 * Memory: in the caller's arena or builder. Threads: none of its own.
 */
#pragma once
#include "model/profiles.h"

/* NULL stands for none. */
bool value_unknown_equal(const struct value_unknown *a, const struct value_unknown *b);
static inline bool value_unknown_is_none(const struct value_unknown *u)
{
	return !u || !(u->value.len | u->list.len | u->pair.len);
}

/*
 * Each run of unknown fields in a tree of values, outermost first. `place` is the path inside the
 * attribute: "" (its KeyValue), "value", "value.array_value", "value.array_value.values[1]",
 * "value.kvlist_value.values[0]" (a KeyValue again), "value.kvlist_value.values[0].value".
 */
typedef void value_unknown_fn(void *arg, struct str place, struct str fields);
void value_unknown_each(const struct any_value *v, value_unknown_fn *fn, void *arg);
/* Are there any in the tree? */
bool value_unknown_any(const struct any_value *v);
