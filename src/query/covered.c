/* covered.c - how much of the window the selection's profilers measured. */
#include <stdlib.h>

#include "query/engine.h"

struct covering {
	struct query *q;
	struct source_range *ranges; /* apart from each other, ascending */
	uint32_t count, cap;
};

/* Takes [from, to) in: what it touches becomes one with it. */
static bool cover(struct covering *c, uint64_t from, uint64_t to, struct err *err)
{
	uint32_t at = c->count, end;

	while (at > 0 && c->ranges[at - 1].to >= from)
		at--;
	end = at;
	while (end < c->count && c->ranges[end].from <= to) {
		from = c->ranges[end].from < from ? c->ranges[end].from : from;
		to = c->ranges[end].to > to ? c->ranges[end].to : to;
		end++;
	}
	if (end == at &&
	    !query_grow(c->q, &c->ranges, &c->cap, c->count + 1u, sizeof(*c->ranges), err))
		return false;
	memmove(&c->ranges[at + 1], &c->ranges[end], (c->count - end) * sizeof(*c->ranges));
	c->count = c->count - (end - at) + 1;
	c->ranges[at] = (struct source_range){ from, to };
	return true;
}

static bool cover_profile(void *ctx, uint64_t from, uint64_t duration, struct err *err)
{
	struct covering *c = ctx;
	struct source_range window = c->q->request.range;
	uint64_t to;

	if (!duration || __builtin_add_overflow(from, duration, &to))
		return true;
	from = from < window.from ? window.from : from;
	to = to > window.to ? window.to : to;
	return from >= to || cover(c, from, to, err);
}

bool query_covered(struct query *q, uint64_t *out_ns, struct err *err)
{
	struct covering c = { .q = q };
	bool ok = engine_profile_times(q, cover_profile, &c, err);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c.count; i++)
		sum += c.ranges[i].to - c.ranges[i].from;
	query_drop(q, &c.ranges, &c.cap, sizeof(*c.ranges));
	if (ok)
		*out_ns = sum;
	return ok;
}
