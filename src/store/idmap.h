/*
 * idmap.h - row id -> whatever it became: open addressing, grown at 3/4. Memory: one heap block.
 * Threads: one.
 */
#pragma once
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct idmap_slot {
	uint64_t id; /* 0 = free */
	union {
		const void *ptr;
		uint64_t number;
	};
};

struct idmap {
	struct idmap_slot *slots;
	uint32_t mask, used;
};

static inline void idmap_release(struct idmap *m)
{
	free(m->slots);
	*m = (struct idmap){ 0 };
}

static inline void idmap_clear(struct idmap *m)
{
	if (m->slots)
		memset(m->slots, 0, ((size_t)m->mask + 1) * sizeof(*m->slots));
	m->used = 0;
}

static inline struct idmap_slot *idmap_place(const struct idmap *m, uint64_t id)
{
	uint32_t at = (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & m->mask;

	while (m->slots[at].id && m->slots[at].id != id)
		at = (at + 1) & m->mask;
	return &m->slots[at];
}

/* The slot of an id, or NULL. */
static inline struct idmap_slot *idmap_find(const struct idmap *m, uint64_t id)
{
	struct idmap_slot *s = m->slots ? idmap_place(m, id) : NULL;

	return s && s->id ? s : NULL;
}

/* The slot of an id that was not there; the caller fills it. */
static inline struct idmap_slot *idmap_add(struct idmap *m, uint64_t id)
{
	struct idmap_slot *s;

	if (!m->slots || m->used * 4 >= m->mask * 3u) {
		struct idmap old = *m;

		m->mask = old.slots ? old.mask * 2 + 1 : 63;
		m->slots = calloc((size_t)m->mask + 1, sizeof(*m->slots));
		assert(m->slots);
		for (uint32_t i = 0; old.slots && i <= old.mask; i++)
			if (old.slots[i].id)
				*idmap_place(m, old.slots[i].id) = old.slots[i];
		free(old.slots);
	}
	m->used++;
	s = idmap_place(m, id);
	s->id = id;
	return s;
}
