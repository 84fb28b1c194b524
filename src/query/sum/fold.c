/* fold.c - equal runs become one; long ones become shorter. */
#include "query/sum/fold.h"

enum { LONGEST = 128 /* what is cut first */, SHORT = 4, PER_SLOT = 2 };

void folding_begin(struct folding *f, struct frame_set *s)
{
	*f = (struct folding){ .set = s,
			       .first = s->run_count,
			       .pool_first = s->pool_count,
			       .heavy = UINT32_MAX,
			       .depth = UINT32_MAX,
			       .heavy_depth = UINT32_MAX };
}

void folding_release(struct folding *f)
{
	QUERY_DROP(f->set->q, f->slots, f->slot_cap);
}

static uint64_t hash_of(const uint32_t *frames, uint32_t count)
{
	uint64_t h = count, two;
	uint32_t i = 0;

	for (; i + 1 < count; i += 2) {
		memcpy(&two, frames + i, sizeof(two));
		h = (h ^ two) * UINT64_C(0x9fb21c651e98df25);
		h ^= h >> 29;
	}
	if (i < count)
		h = (h ^ frames[i]) * UINT64_C(0x9fb21c651e98df25);
	return h ^ h >> 29;
}

/* The run that is equal to run `at`, or the slot where that belongs. */
static uint32_t *slot_of(const struct folding *f, uint32_t at)
{
	const struct frame_set *s = f->set;
	const struct frame_run *r = &s->runs[at];
	const uint32_t *frames = s->pool + r->first;
	uint32_t i = (uint32_t)(hash_of(frames, r->count) & (f->slot_cap - 1));

	for (; f->slots[i]; i = (i + 1) & (f->slot_cap - 1)) {
		const struct frame_run *o = &s->runs[f->slots[i] - 1];

		if (o->count == r->count &&
		    (!r->count || !memcmp(s->pool + o->first, frames, r->count * sizeof(*frames))))
			break;
	}
	return &f->slots[i];
}

static void clear_slots(struct folding *f, uint32_t up_to)
{
	memset(f->slots, 0, f->slot_cap * sizeof(*f->slots));
	for (uint32_t i = f->first; i < up_to; i++)
		*slot_of(f, i) = i + 1;
}

/* Room for all runs; a power of two. */
static bool make_slots(struct folding *f, uint32_t known)
{
	uint64_t need = (uint64_t)(f->set->run_count - f->first) * PER_SLOT + 1, cap = 1024;
	struct err ignored;

	while (cap < need)
		cap *= 2;
	if (cap <= f->slot_cap)
		return true;
	QUERY_DROP(f->set->q, f->slots, f->slot_cap);
	f->slots = query_take(f->set->q, cap * sizeof(*f->slots), &ignored);
	if (!f->slots)
		return false;
	f->slot_cap = (uint32_t)cap;
	clear_slots(f, known);
	return true;
}

static void join_runs(struct frame_run *to, const struct frame_run *from)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		to->value[side] = engine_add(to->value[side], from->value[side]);
}

void folding_add(struct folding *f, uint32_t first, uint32_t pool_first)
{
	struct frame_set *s = f->set;
	uint32_t kept = first, heavy = f->heavy, end = s->run_count;
	bool joins = make_slots(f, first);

	for (uint32_t i = first; i < end; i++) {
		struct frame_run r = s->runs[i];
		uint32_t *slot;

		if (i == heavy)
			f->heavy = kept;
		if (r.count)
			memmove(s->pool + pool_first, s->pool + r.first,
				r.count * sizeof(uint32_t));
		r.first = pool_first;
		s->runs[kept] = r;
		slot = joins ? slot_of(f, kept) : NULL;
		if (slot && *slot) {
			join_runs(&s->runs[*slot - 1], &r);
			continue;
		}
		if (slot)
			*slot = kept + 1;
		pool_first += r.count;
		kept++;
	}
	if (heavy == end)
		f->heavy = kept;
	s->run_count = kept;
	s->pool_count = pool_first;
}

/* Half as much as before: of the light ones first. */
static bool shorten(struct folding *f)
{
	uint32_t *depth = &f->depth;

	if (f->depth <= SHORT && f->heavy_depth > SHORT)
		depth = &f->heavy_depth;
	if (*depth <= 1)
		return false;
	*depth = *depth > LONGEST ? LONGEST / 2 : *depth / 2;
	if (f->heavy_depth <= SHORT && f->heavy_depth > f->depth)
		f->heavy_depth = f->depth;
	return true;
}

static void cut_run(struct frame_set *s, struct frame_run *r, uint32_t depth)
{
	uint32_t *frames = s->pool + r->first;
	uint32_t whole = r->count && frames[r->count - 1] == RUN_CUT ? r->count - 1 : r->count;

	if (whole <= depth)
		return;
	frames[depth] = RUN_CUT;
	r->count = depth + 1;
}

/* Do frames take so much that it pays to look which ones are still there? */
static bool has_many_frames(const struct frame_set *s)
{
	enum { FRAME_BYTES = 200, SHARE = 8 };

	return (size_t)s->frame_count * FRAME_BYTES > s->q->memory.limit_bytes / SHARE;
}

enum folding_result folding_cut(struct folding *f, struct err *err)
{
	struct frame_set *s = f->set;
	struct query *q = s->q;

	if (s->run_count == f->first || !shorten(f))
		return FOLDING_LEAST;
	for (uint32_t i = f->first; i < s->run_count; i++)
		cut_run(s, &s->runs[i], i < f->heavy ? f->heavy_depth : f->depth);
	if (f->slots)
		clear_slots(f, f->first);
	folding_add(f, f->first, f->pool_first);
	QUERY_FIT(q, s->pool, s->pool_cap, s->pool_count);
	QUERY_FIT(q, s->runs, s->run_cap, s->run_count);
	if (!has_many_frames(s))
		return FOLDING_CUT;
	if (!frame_set_drop_unused(s, err))
		return FOLDING_FAILED;
	if (f->slots) /* their hashes are of the old numbers */
		clear_slots(f, s->run_count);
	return FOLDING_RENUMBERED;
}
