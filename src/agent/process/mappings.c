#include "agent/process/mappings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/modules.h"

static struct mapping_set *set_alloc(struct mapping_sets *all, uint32_t cap)
{
	struct mapping_set *s = calloc(1, sizeof(*s));

	assert(s);
	s->refs = 1;
	s->cap = cap;
	s->list = cap ? malloc(cap * sizeof(*s->list)) : NULL;
	assert(s->list || !cap);
	s->next = all->first;
	if (s->next)
		s->next->prev = s;
	all->first = s;
	return s;
}

struct mapping_set *mapping_set_new(struct mapping_sets *all)
{
	return set_alloc(all, 0);
}

struct mapping_set *mapping_set_ref(struct mapping_set *s)
{
	s->refs++;
	return s;
}

void mapping_set_unref(struct mapping_sets *all, struct mapping_set *s)
{
	if (!s || --s->refs)
		return;
	if (s->next)
		s->next->prev = s->prev;
	if (s->prev)
		s->prev->next = s->next;
	else
		all->first = s->next;
	if (s->run_count && all->run_free)
		all->run_free(all->ctx, s->run_first, s->run_count);
	for (uint32_t i = 0; i < s->count; i++)
		module_unref(s->list[i].module);
	free(s->list);
	free(s);
}

/* Index of the first mapping that ends above pc. */
static uint32_t first_above(const struct mapping_set *s, uint64_t pc)
{
	uint32_t lo = 0, hi = s->count;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (s->list[mid].end > pc)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

const struct mapping *mapping_set_find(const struct mapping_set *s, uint64_t pc)
{
	uint32_t i = first_above(s, pc);

	return i < s->count && s->list[i].start <= pc ? &s->list[i] : NULL;
}

/* A set that only the caller has, with room for two more (laying one inside another makes three).
 */
static struct mapping_set *make_own(struct mapping_sets *all, struct mapping_set *s)
{
	struct mapping_set *own = s;

	if (s->refs > 1) {
		own = set_alloc(all, s->count + 8);
		own->count = s->count;
		memcpy(own->list, s->list, s->count * sizeof(*s->list));
		for (uint32_t i = 0; i < own->count; i++)
			module_ref(own->list[i].module);
		s->refs--;
	} else if (s->count + 2 > s->cap) {
		s->cap = s->cap ? s->cap * 2 : 8;
		s->list = realloc(s->list, s->cap * sizeof(*s->list));
		assert(s->list);
	}
	own->stale = true;
	return own;
}

static struct mapping tail_of(const struct mapping *m, uint64_t from)
{
	struct mapping tail = *m;

	tail.file_offset += m->module ? from - m->start : 0;
	tail.start = from;
	return tail;
}

/* Does b go on where a ends? JIT compilers map region beside region. */
static bool continues(const struct mapping *a, const struct mapping *b)
{
	return a->end == b->start && a->module == b->module && a->step == b->step &&
	       (!a->module || a->file_offset + (a->end - a->start) == b->file_offset);
}

/* Replaces list[at..at+old) by `items`. */
static void splice(struct mapping_set *s, uint32_t at, uint32_t old, const struct mapping *items,
		   uint32_t count)
{
	memmove(&s->list[at + count], &s->list[at + old], (s->count - at - old) * sizeof(*items));
	if (count)
		memcpy(&s->list[at], items, count * sizeof(*items));
	s->count = s->count - old + count;
}

enum { LOOK_BACK_MOST = 4096 }; /* for one that gives way */

static bool is_nameless(const struct mapping *m)
{
	return !m->module && !m->step;
}

/* Of a full set, one anonymous mapping goes: a file's code has names, and comes last in /proc. */
static bool make_room(struct mapping_set *s)
{
	uint32_t least = s->count > LOOK_BACK_MOST ? s->count - LOOK_BACK_MOST : 0;

	for (uint32_t i = s->count; i-- > least;) {
		if (!is_nameless(&s->list[i]))
			continue;
		splice(s, i, 1, NULL, 0);
		return true;
	}
	return false;
}

struct mapping_set *mapping_set_add(struct mapping_sets *all, struct mapping_set *s,
				    const struct mapping *m)
{
	bool full = s->count + 2 > MAPPINGS_MOST;
	struct mapping items[3];
	uint32_t at, end, count = 0;
	const struct mapping *same = mapping_set_find(s, m->start);

	if (m->end <= m->start)
		return s;
	if (same && same->end >= m->end && same->module == m->module && same->step == m->step &&
	    (!m->module || same->file_offset + (m->start - same->start) == m->file_offset))
		return s; /* told twice, or mprotect() of a part */
	all->refused += full;
	if (full && is_nameless(m))
		return s;
	s = make_own(all, s);
	if (full && !make_room(s))
		return s;
	at = first_above(s, m->start);
	for (end = at; end < s->count && s->list[end].start < m->end; end++)
		;
	if (at < end && s->list[at].start < m->start) {
		items[count] = s->list[at];
		items[count++].end = m->start;
	}
	items[count++] = *m;
	if (at < end && s->list[end - 1].end > m->end)
		items[count++] = tail_of(&s->list[end - 1], m->end);
	for (uint32_t i = 0; i < count; i++)
		module_ref(items[i].module);
	for (uint32_t i = at; i < end; i++)
		module_unref(s->list[i].module);
	splice(s, at, end - at, items, count);
	/* One mapping of what now lies side by side. */
	for (uint32_t i = at ? at - 1 : 0; i + 1 < s->count && i <= at + count;) {
		if (!continues(&s->list[i], &s->list[i + 1])) {
			i++;
			continue;
		}
		s->list[i].end = s->list[i + 1].end;
		module_unref(s->list[i + 1].module);
		splice(s, i + 1, 1, NULL, 0);
	}
	return s;
}
