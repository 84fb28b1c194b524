#include "store/known.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WAYS = 4 };

/* Each look goes to another page of the cache: with large ones the processor finds them. */
static void prefer_large_pages(void *memory, size_t bytes)
{
	uintptr_t page = 4096, from = ((uintptr_t)memory + page - 1) & ~(page - 1),
		  to = ((uintptr_t)memory + bytes) & ~(page - 1);

	if (to > from)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE); /* or not: it is a wish */
}

void known_init(struct known *k, size_t cache_bytes)
{
	uint32_t sets = 64;

	*k = (struct known){ 0 };
	while ((size_t)sets * 2 * WAYS * sizeof(*k->slots) <= cache_bytes)
		sets *= 2;
	k->slots = calloc((size_t)sets * WAYS, sizeof(*k->slots));
	k->set_mask = sets - 1;
	prefer_large_pages(k->slots, (size_t)sets * WAYS * sizeof(*k->slots));
	k->pending_cap = KNOWN_PENDING_MOST;
	k->pending = calloc(k->pending_cap, sizeof(*k->pending));
	k->pending_slots = calloc((size_t)k->pending_cap * 2, sizeof(*k->pending_slots));
	assert(k->slots && k->pending && k->pending_slots);
}

void known_release(struct known *k)
{
	free(k->slots);
	free(k->pending);
	free(k->pending_slots);
	*k = (struct known){ 0 };
}

static bool same(const struct known_entry *e, enum store_kind kind, struct hash128 hash)
{
	return e->hash.lo == hash.lo && e->hash.hi == hash.hi && e->kind == kind && e->id;
}

static struct known_entry *set_of(const struct known *k, enum store_kind kind, struct hash128 hash)
{
	return &k->slots[((hash.lo + kind * 0x9e3779b9u) & k->set_mask) * WAYS];
}

/* The slot that the pending entry is named by, or the free one where it would be. */
static uint32_t *pending_slot(struct known *k, enum store_kind kind, struct hash128 hash)
{
	uint32_t mask = k->pending_cap * 2 - 1, at = (uint32_t)(hash.lo >> 7) & mask;

	while (k->pending_slots[at] && !same(&k->pending[k->pending_slots[at] - 1], kind, hash))
		at = (at + 1) & mask;
	return &k->pending_slots[at];
}

void known_expect(const struct known *k, enum store_kind kind, struct hash128 hash)
{
	const struct known_entry *set = set_of(k, kind, hash);

	__builtin_prefetch(&set[0], 1); /* a set is two cache lines */
	__builtin_prefetch(&set[2], 1);
}

uint32_t known_find(struct known *k, enum store_kind kind, struct hash128 hash)
{
	struct known_entry *set = set_of(k, kind, hash);
	uint32_t place;

	if (same(&set[0], kind, hash))
		return set[0].id;
	for (int i = 1; i < WAYS; i++) {
		struct known_entry e = set[i];

		if (!same(&e, kind, hash))
			continue;
		set[i] = set[i - 1]; /* a step to the front: what is asked for often stays */
		set[i - 1] = e;
		return e.id;
	}
	place = *pending_slot(k, kind, hash);
	if (!place || !k->pending[place - 1].id)
		return 0;
	known_cache(k, kind, hash, k->pending[place - 1].id);
	return k->pending[place - 1].id;
}

void known_cache(struct known *k, enum store_kind kind, struct hash128 hash, uint32_t id)
{
	struct known_entry *set = set_of(k, kind, hash);

	/* New ones push out the last but one half of the set: a flood of them leaves the first. */
	set[WAYS - 1] = set[WAYS - 2];
	set[WAYS - 2] = set[WAYS / 2 - 1];
	set[WAYS / 2 - 1] = (struct known_entry){ .hash = hash, .id = id, .kind = kind };
}

void known_add(struct known *k, enum store_kind kind, struct hash128 hash, uint32_t id)
{
	assert(k->pending_count < k->pending_cap);
	k->pending[k->pending_count] = (struct known_entry){ .hash = hash, .id = id, .kind = kind };
	*pending_slot(k, kind, hash) = ++k->pending_count;
	known_cache(k, kind, hash, id);
}

void known_forget(struct known *k, enum store_kind kind, struct hash128 hash)
{
	struct known_entry *set = set_of(k, kind, hash);
	uint32_t place = *pending_slot(k, kind, hash);

	for (int i = 0; i < WAYS; i++)
		if (same(&set[i], kind, hash))
			set[i] = (struct known_entry){ 0 };
	if (place)
		k->pending[place - 1].id = 0; /* keeps its place in the chain of slots */
}

static int by_hash(const void *a, const void *b)
{
	const struct known_entry *x = a, *y = b;
	int64_t hx = (int64_t)x->hash.hi, hy = (int64_t)y->hash.hi;

	return (hx > hy) - (hx < hy);
}

static void forget_slots(struct known *k)
{
	memset(k->pending_slots, 0, (size_t)k->pending_cap * 2 * sizeof(*k->pending_slots));
}

void known_sort_pending(struct known *k)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < k->pending_count; i++)
		if (k->pending[i].id)
			k->pending[kept++] = k->pending[i];
	k->pending_count = kept;
	qsort(k->pending, k->pending_count, sizeof(*k->pending), by_hash);
	forget_slots(k);
	for (uint32_t i = 0; i < k->pending_count; i++)
		*pending_slot(k, k->pending[i].kind, k->pending[i].hash) = i + 1;
}

void known_folded(struct known *k)
{
	k->pending_count = 0;
	forget_slots(k);
}

void known_clear(struct known *k)
{
	known_folded(k);
	memset(k->slots, 0, ((size_t)k->set_mask + 1) * WAYS * sizeof(*k->slots));
}

void known_purge(struct known *k, bool (*gone)(void *arg, enum store_kind kind, uint32_t id),
		 void *arg)
{
	size_t slots = ((size_t)k->set_mask + 1) * WAYS;

	for (size_t i = 0; i < slots; i++)
		if (k->slots[i].id && gone(arg, (enum store_kind)k->slots[i].kind, k->slots[i].id))
			k->slots[i] = (struct known_entry){ 0 };
	for (uint32_t i = 0; i < k->pending_count; i++)
		if (k->pending[i].id &&
		    gone(arg, (enum store_kind)k->pending[i].kind, k->pending[i].id))
			k->pending[i].id = 0;
}
