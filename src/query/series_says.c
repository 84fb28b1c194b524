/* series_says.c - what many series say alike is kept once. */
#include <string.h>

#include "base/hash.h"
#include "query/select.h"

static bool says_same(const struct series_says *a, const struct series_says *b)
{
	return a->type == b->type && a->counted == b->counted && a->has_group == b->has_group &&
	       a->group_weak == b->group_weak && a->scale == b->scale && a->period == b->period &&
	       memcmp(&a->bits, &b->bits, sizeof(a->bits)) == 0 && str_equal(a->group, b->group);
}

static uint64_t says_hash(const struct series_says *x)
{
	uint64_t parts[] = { x->type,
			     (uint64_t)x->counted << 2 | (uint64_t)x->has_group << 1 |
				     x->group_weak,
			     (uint64_t)x->scale,
			     (uint64_t)x->period,
			     (uint64_t)x->bits.present << 32 | x->bits.match,
			     (uint64_t)x->bits.weak << 32 | x->bits.weak_match,
			     hash64(x->group) };

	return hash64(str_from(parts, sizeof(parts)));
}

bool series_says_share(struct query *q, const struct series_says *x, const struct series_says **out,
		       struct err *err)
{
	struct series_says *own;
	uint32_t at;
	bool added;

	if (q->selected.series_count &&
	    says_same(q->selected.series[q->selected.series_count - 1].says, x)) {
		*out = q->selected.series[q->selected.series_count - 1].says;
		return true;
	}
	if (!number_enter(q, &q->selected.says_numbers, says_hash(x), q->selected.says_count, &at,
			  &added, err))
		return false;
	if (!added && says_same(q->selected.says[at], x)) {
		*out = q->selected.says[at];
		return true;
	}
	own = query_alloc(q, 1, sizeof(*own), err);
	if (!own)
		return false;
	*own = *x;
	*out = own;
	if (!added)
		return true;
	if (!query_grow(q, &q->selected.says, &q->selected.says_cap, q->selected.says_count + 1u,
			sizeof(*q->selected.says), err))
		return false;
	q->selected.says[q->selected.says_count++] = own;
	return true;
}
