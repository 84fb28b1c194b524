#include "agent/unwind/extents.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

void extents_init(struct extents *e, uint32_t first, uint32_t count)
{
	*e = (struct extents){ 0 };
	VEC_ROOM(e->free, 0, e->free_cap);
	if (count)
		e->free[e->free_count++] = (struct extent){ first, count };
}

void extents_release(struct extents *e)
{
	free(e->free);
	free(e->retired);
	*e = (struct extents){ 0 };
}

bool extents_take(struct extents *e, uint32_t count, uint32_t *first)
{
	for (uint32_t i = 0; count && i < e->free_count; i++) {
		struct extent *f = &e->free[i];

		if (f->count < count)
			continue;
		*first = f->first;
		f->first += count;
		f->count -= count;
		if (!f->count)
			memmove(f, f + 1, (--e->free_count - i) * sizeof(*f));
		e->used += count;
		return true;
	}
	return false;
}

void extents_retire(struct extents *e, uint32_t first, uint32_t count, uint64_t now_ns)
{
	if (!count)
		return;
	VEC_ROOM(e->retired, e->retired_count, e->retired_cap);
	e->retired[e->retired_count++] = (struct retired){ { first, count }, now_ns };
}

static void give_back(struct extents *e, struct extent x)
{
	uint32_t i = 0;

	while (i < e->free_count && e->free[i].first < x.first)
		i++;
	e->used -= x.count;
	if (i && e->free[i - 1].first + e->free[i - 1].count == x.first) {
		e->free[i - 1].count += x.count;
		if (i < e->free_count && x.first + x.count == e->free[i].first) {
			e->free[i - 1].count += e->free[i].count;
			memmove(&e->free[i], &e->free[i + 1],
				(--e->free_count - i) * sizeof(*e->free));
		}
	} else if (i < e->free_count && x.first + x.count == e->free[i].first) {
		e->free[i].first = x.first;
		e->free[i].count += x.count;
	} else {
		VEC_ROOM(e->free, e->free_count, e->free_cap);
		memmove(&e->free[i + 1], &e->free[i], (e->free_count - i) * sizeof(*e->free));
		e->free[i] = x;
		e->free_count++;
	}
}

void extents_reclaim(struct extents *e, uint64_t now_ns, uint64_t grace_ns)
{
	uint32_t n = 0;

	while (n < e->retired_count && now_ns - e->retired[n].since_ns >= grace_ns)
		give_back(e, e->retired[n++].extent);
	if (!n)
		return;
	e->retired_count -= n;
	memmove(e->retired, e->retired + n, e->retired_count * sizeof(*e->retired));
}
