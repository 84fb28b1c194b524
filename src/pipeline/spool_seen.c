#include "pipeline/spool_seen.h"

#include <assert.h>
#include <stdlib.h>

enum { SEEN_LEAST = 64 }; /* powers of two, as the places in the tables are masked */

void spool_seen_init(struct spool_seen *s, uint64_t window_ns)
{
	*s = (struct spool_seen){ .window_ns = window_ns };
}

void spool_seen_release(struct spool_seen *s)
{
	free(s->entries);
	free(s->slots);
	*s = (struct spool_seen){ 0 };
}

static uint32_t slot_mask(const struct spool_seen *s)
{
	return s->cap * 2 - 1;
}

static uint32_t place_of(const struct spool_seen *s, uint32_t ordinal)
{
	return (s->first + ordinal) & (s->cap - 1);
}

/* The slot that has this hash, or the free one where it would go. */
static uint32_t slot_find(const struct spool_seen *s, struct hash128 hash)
{
	uint32_t i = (uint32_t)hash.lo & slot_mask(s);

	while (s->slots[i]) {
		const struct spool_seen_entry *e = &s->entries[s->slots[i] - 1];

		if (e->hash.lo == hash.lo && e->hash.hi == hash.hi)
			break;
		i = (i + 1) & slot_mask(s);
	}
	return i;
}

/* Frees a slot and closes the gap: what was put behind it by probing moves up (Knuth, 6.4,
 * algorithm R). */
static void slot_free(struct spool_seen *s, uint32_t hole)
{
	uint32_t mask = slot_mask(s), i = hole;

	s->slots[hole] = 0;
	while (s->slots[i = (i + 1) & mask]) {
		uint32_t home = (uint32_t)s->entries[s->slots[i] - 1].hash.lo & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		s->slots[hole] = s->slots[i];
		s->slots[i] = 0;
		hole = i;
	}
}

static void drop_first(struct spool_seen *s)
{
	slot_free(s, slot_find(s, s->entries[s->first].hash));
	s->first = place_of(s, 1);
	s->count--;
}

static void grow(struct spool_seen *s)
{
	uint32_t cap = s->cap ? s->cap * 2 : SEEN_LEAST;
	struct spool_seen_entry *entries = malloc(cap * sizeof(*entries));
	uint32_t *slots = calloc(cap * 2, sizeof(*slots));

	assert(entries && slots);
	for (uint32_t i = 0; i < s->count; i++)
		entries[i] = s->entries[place_of(s, i)];
	free(s->entries);
	free(s->slots);
	s->entries = entries;
	s->slots = slots;
	s->first = 0;
	s->cap = cap;
	for (uint32_t i = 0; i < s->count; i++)
		slots[slot_find(s, entries[i].hash)] = i + 1;
}

static void forget_old(struct spool_seen *s, uint64_t now_unix_ns)
{
	while (s->count && s->entries[s->first].unix_ns <= now_unix_ns &&
	       now_unix_ns - s->entries[s->first].unix_ns >= s->window_ns)
		drop_first(s);
}

bool spool_seen_has(struct spool_seen *s, struct hash128 hash, uint64_t now_unix_ns)
{
	forget_old(s, now_unix_ns);
	return s->count && s->slots[slot_find(s, hash)];
}

bool spool_seen_add(struct spool_seen *s, struct hash128 hash, uint64_t unix_ns)
{
	uint32_t slot, place;

	if (!s->window_ns || (s->count && s->slots[slot_find(s, hash)]))
		return false;
	if (s->count == SPOOL_SEEN_MOST)
		drop_first(s);
	if (s->count == s->cap)
		grow(s);
	slot = slot_find(s, hash);
	place = place_of(s, s->count++);
	s->entries[place] = (struct spool_seen_entry){ hash, unix_ns };
	s->slots[slot] = place + 1;
	return true;
}

void spool_seen_drop_last(struct spool_seen *s, uint32_t count)
{
	while (count-- && s->count) {
		slot_free(s, slot_find(s, s->entries[place_of(s, s->count - 1)].hash));
		s->count--;
	}
}
