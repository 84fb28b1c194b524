#include "store/known.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WAYS = 4, KIND_BITS = 5, KIND_MASK = 31 };
static_assert((int)KIND_COUNT < KIND_MASK, "also the writer's own kinds");
static_assert(WAYS * sizeof(struct known_place) == 64, "a set is a cache line");

static size_t cache_bytes_of(const struct known *k)
{
	return ((size_t)k->set_mask + 1) * WAYS * sizeof(*k->places);
}

void known_init(struct known *k, size_t cache_bytes)
{
	uint32_t sets = 64;

	*k = (struct known){ 0 };
	while ((size_t)sets * 2 * WAYS * sizeof(*k->places) <= cache_bytes)
		sets *= 2;
	k->set_mask = sets - 1;
	k->places = mmap(NULL, cache_bytes_of(k), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(k->places != MAP_FAILED);
	(void)madvise(k->places, cache_bytes_of(k), MADV_HUGEPAGE); /* every look is another page */
	k->pending_cap = KNOWN_PENDING_MOST;
	k->pending = calloc(k->pending_cap, sizeof(*k->pending));
	k->pending_slots = calloc((size_t)k->pending_cap * 2, sizeof(*k->pending_slots));
	assert(k->pending && k->pending_slots);
}

void known_release(struct known *k)
{
	if (k->places)
		munmap(k->places, cache_bytes_of(k));
	free(k->pending);
	free(k->pending_slots);
	*k = (struct known){ 0 };
}

static bool same(const struct known_entry *e, enum store_kind kind, struct hash128 hash)
{
	return e->hash.lo == hash.lo && e->hash.hi == hash.hi && e->kind == kind && e->id;
}

static struct known_place *set_of(const struct known *k, enum store_kind kind, struct hash128 hash)
{
	return &k->places[((hash.lo + kind * 0x9e3779b9u) & k->set_mask) * WAYS];
}

/* What a kind is beyond its lower digits, a day in ClickHouse's, changes the hash. */
static uint64_t upper_of(enum store_kind kind, struct hash128 hash)
{
	return hash.hi ^ (uint64_t)(kind >> KIND_BITS) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint32_t mark_of(enum store_kind kind, struct hash128 hash)
{
	return (uint32_t)(hash.lo >> 32) << KIND_BITS | (kind & KIND_MASK);
}

static enum store_kind kind_of_mark(uint32_t mark)
{
	return (enum store_kind)(mark & KIND_MASK);
}

/* The slot that the pending entry is named by, or the free one where it would be. */
static uint32_t *pending_slot(struct known *k, enum store_kind kind, struct hash128 hash)
{
	uint32_t mask = k->pending_cap * 2 - 1, at = (uint32_t)(hash.lo >> 7) & mask;

	while (k->pending_slots[at] && !same(&k->pending[k->pending_slots[at] - 1], kind, hash))
		at = (at + 1) & mask;
	return &k->pending_slots[at];
}

uint32_t known_cached(struct known *k, enum store_kind kind, struct hash128 hash)
{
	struct known_place *set = set_of(k, kind, hash);
	uint64_t upper = upper_of(kind, hash);
	uint32_t mark = mark_of(kind, hash);

	for (int i = 0; i < WAYS; i++) {
		struct known_place e = set[i];

		if (e.hash != upper || e.mark != mark || !e.id)
			continue;
		if (i) { /* a step to the front: what is asked for often stays */
			set[i] = set[i - 1];
			set[i - 1] = e;
		}
		return e.id;
	}
	return 0;
}

uint32_t known_find(struct known *k, enum store_kind kind, struct hash128 hash)
{
	uint32_t id = known_cached(k, kind, hash), place;

	if (id)
		return id;
	place = *pending_slot(k, kind, hash);
	if (!place || !k->pending[place - 1].id)
		return 0;
	known_cache(k, kind, hash, k->pending[place - 1].id);
	return k->pending[place - 1].id;
}

void known_cache(struct known *k, enum store_kind kind, struct hash128 hash, uint32_t id)
{
	struct known_place *set = set_of(k, kind, hash);

	/* New ones push out the last but one half of the set: a flood of them leaves the first. */
	set[WAYS - 1] = set[WAYS - 2];
	set[WAYS - 2] = set[WAYS / 2 - 1];
	set[WAYS / 2 - 1] = (struct known_place){ upper_of(kind, hash), mark_of(kind, hash), id };
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
	struct known_place *set = set_of(k, kind, hash);
	uint32_t place = *pending_slot(k, kind, hash), mark = mark_of(kind, hash);

	for (int i = 0; i < WAYS; i++)
		if (set[i].hash == upper_of(kind, hash) && set[i].mark == mark)
			set[i] = (struct known_place){ 0 };
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
	/* Which the kernel gives back as zeros. */
	if (madvise(k->places, cache_bytes_of(k), MADV_DONTNEED) != 0)
		memset(k->places, 0, cache_bytes_of(k));
}

void known_purge(struct known *k, bool (*gone)(void *arg, enum store_kind kind, uint32_t id),
		 void *arg)
{
	size_t places = ((size_t)k->set_mask + 1) * WAYS;

	for (size_t i = 0; i < places; i++)
		if (k->places[i].id && gone(arg, kind_of_mark(k->places[i].mark), k->places[i].id))
			k->places[i] = (struct known_place){ 0 };
	for (uint32_t i = 0; i < k->pending_count; i++)
		if (k->pending[i].id &&
		    gone(arg, (enum store_kind)k->pending[i].kind, k->pending[i].id))
			k->pending[i].id = 0;
}
