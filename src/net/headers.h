/*
 * headers.h - a list of header fields in one block of text: order kept, names in lower case.
 *
 * Memory: own; header_list_release(). What header_list_find() returns is valid until the next add.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/str.h"

struct header_slot {
	uint32_t name_at, name_len, value_at, value_len;
};

struct header_list {
	struct buf text;
	struct header_slot *slots;
	uint32_t count, cap;
};

void header_list_init(struct header_list *l, size_t limit_bytes); /* 0 = none */
void header_list_release(struct header_list *l);
/* False past the limit; the field is left out then. */
bool header_list_add(struct header_list *l, struct str name, struct str value);
struct str header_list_name(const struct header_list *l, uint32_t i);
struct str header_list_value(const struct header_list *l, uint32_t i);
/* The first of that (lower case) name; ptr NULL when absent. */
struct str header_list_find(const struct header_list *l, struct str name);
