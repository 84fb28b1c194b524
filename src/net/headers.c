#include "net/headers.h"

#include <assert.h>
#include <stdlib.h>

enum { TEXT_FIRST = 512, SLOTS_FIRST = 16 };

void header_list_init(struct header_list *l, size_t limit_bytes)
{
	*l = (struct header_list){ 0 };
	buf_init(&l->text, limit_bytes);
}

void header_list_release(struct header_list *l)
{
	buf_release(&l->text);
	free(l->slots);
	l->slots = NULL;
	l->count = l->cap = 0;
}

static void slots_grow(struct header_list *l)
{
	struct header_slot *slots;

	l->cap = l->cap ? l->cap * 2 : SLOTS_FIRST;
	slots = realloc(l->slots, l->cap * sizeof(*slots));
	assert(slots);
	l->slots = slots;
}

static void lower(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] >= 'A' && p[i] <= 'Z')
			p[i] = (char)(p[i] | 0x20);
}

bool header_list_add(struct header_list *l, struct str name, struct str value)
{
	size_t at = l->text.len;

	if (!l->text.cap)
		buf_reserve(&l->text, TEXT_FIRST);
	if (!buf_reserve(&l->text, name.len + value.len)) {
		l->text.failed = false;
		return false;
	}
	if (l->count == l->cap)
		slots_grow(l);
	buf_str(&l->text, name);
	lower(l->text.ptr + at, name.len);
	buf_str(&l->text, value);
	l->slots[l->count++] = (struct header_slot){
		.name_at = (uint32_t)at,
		.name_len = (uint32_t)name.len,
		.value_at = (uint32_t)(at + name.len),
		.value_len = (uint32_t)value.len,
	};
	return true;
}

struct str header_list_name(const struct header_list *l, uint32_t i)
{
	return str_from(l->text.ptr + l->slots[i].name_at, l->slots[i].name_len);
}

struct str header_list_value(const struct header_list *l, uint32_t i)
{
	return str_from(l->text.ptr + l->slots[i].value_at, l->slots[i].value_len);
}

struct str header_list_find(const struct header_list *l, struct str name)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (str_equal(header_list_name(l, i), name))
			return header_list_value(l, i);
	return (struct str){ 0 };
}
