/* stacks.c - from stack numbers to runs of frames: resolve, expand inlines, filter. */
#include "query/sum/stacks.h"

#include <stdlib.h>

#include "store/id_list.h"

enum { LINES_MOST = 4096 };

void loading_release(struct loading *l)
{
	struct query *q = l->set->q;

	number_release(q, &l->locations);
	QUERY_DROP(q, l->location_ids, l->location_cap);
	QUERY_DROP(q, l->stack, l->stack_cap);
	QUERY_DROP(q, l->groups, l->group_cap);
	QUERY_DROP(q, l->place_first, l->place_first_cap);
	QUERY_DROP(q, l->frames, l->frame_cap);
	QUERY_DROP(q, l->frame_first, l->frame_first_cap);
	l->location_count = l->locations_known = l->place_count = l->frame_count = l->at = 0;
}

size_t loading_bytes(const struct loading *l)
{
	return l->locations.cap * sizeof(*l->locations.slots) +
	       (size_t)l->locations.page_count * NUMBER_PAGE * sizeof(uint32_t) +
	       l->location_cap * sizeof(uint64_t) +
	       ((size_t)l->frame_cap + l->frame_first_cap) * sizeof(uint32_t);
}

static bool enter_location(struct loading *l, uint64_t id, uint32_t *place, struct err *err)
{
	struct query *q = l->set->q;

	*place = l->location_count;
	if (!number_enter(q, &l->locations, id, place, err))
		return false;
	if (*place < l->location_count)
		return true;
	if (!QUERY_ROOM(q, l->location_ids, l->location_cap,
			l->location_count - l->locations_known + 1u, err))
		return false;
	l->location_ids[l->location_count++ - l->locations_known] = id;
	return true;
}

static bool take_stack(void *ctx, uint64_t id, const uint64_t *locations, uint32_t count,
		       struct err *err)
{
	struct loading *l = ctx;
	struct query *q = l->set->q;
	uint32_t *out;

	(void)id;
	if (!query_alive(q, err) ||
	    !QUERY_ROOM(q, l->set->pool, l->set->pool_cap,
			(uint64_t)l->pool_first + l->place_count + count + 1u, err))
		return false;
	out = l->set->pool + l->pool_first + l->place_count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = number_find(&l->locations, locations[i]);

		if (place == UINT32_MAX && !enter_location(l, locations[i], &place, err))
			return false;
		out[i] = place;
	}
	l->place_count += count;
	l->place_first[++l->at] = l->place_count;
	return true;
}

/* The same stack as the one before, in another group. */
static bool repeats(const struct loading *l, uint32_t k)
{
	return k > 0 && l->sums->ptr[l->wanted[k]].stack == l->sums->ptr[l->wanted[k - 1]].stack;
}

static bool load_stacks(struct loading *l, struct err *err)
{
	struct source *s = l->from->request.source;
	struct query *q = l->set->q;
	uint64_t *ids = NULL;
	uint32_t cap = 0, count = 0;
	bool ok;

	if (!QUERY_ROOM(q, ids, cap, l->wanted_count + 1u, err) ||
	    !QUERY_ROOM(q, l->place_first, l->place_first_cap, l->wanted_count + 1u, err)) {
		QUERY_DROP(q, ids, cap);
		return false;
	}
	for (uint32_t i = 0; i < l->wanted_count; i++)
		if (!repeats(l, i))
			ids[count++] = l->sums->ptr[l->wanted[i]].stack;
	l->place_first[0] = 0;
	ok = source_stacks(s, ids, count, take_stack, l, err);
	QUERY_DROP(q, ids, cap);
	return ok;
}

static bool take_location(void *ctx, const struct source_location *location, struct err *err)
{
	struct loading *l = ctx;
	struct query *q = l->set->q;
	uint32_t place = number_find(&l->locations, location->id);
	uint32_t count = location->line_count ? location->line_count : 1;

	if (place == UINT32_MAX)
		return true;
	if (count > LINES_MOST)
		return err_set(err, ERR_LIMIT, "a location of %u inlined functions; at most %d",
			       count, LINES_MOST);
	if (!QUERY_ROOM(q, l->frames, l->frame_cap, (uint64_t)l->frame_count + count, err) ||
	    !frame_set_location(l->set, location, l->frames + l->frame_count, err))
		return false;
	l->frame_first[place * 2] = l->frame_count;
	l->frame_first[place * 2 + 1] = count;
	l->frame_count += count;
	l->most_lines = count > l->most_lines ? count : l->most_lines;
	return query_alive(q, err);
}

static bool load_locations(struct loading *l, struct err *err)
{
	struct source *s = l->from->request.source;
	uint32_t known = l->locations_known, count = l->location_count - known;

	if (!QUERY_ROOM(l->set->q, l->frame_first, l->frame_first_cap,
			(uint64_t)l->location_count * 2 + 2, err))
		return false;
	memset(l->frame_first + (size_t)known * 2, 0, (size_t)count * 2 * sizeof(uint32_t));
	if (count && (known || !number_list(&l->locations, l->location_ids)))
		qsort(l->location_ids, count, sizeof(uint64_t), id_list_order);
	if (count && !source_locations(s, l->location_ids, count, take_location, l, err))
		return false;
	for (uint32_t i = known; i < l->location_count; i++)
		if (!l->frame_first[i * 2 + 1])
			return err_set(err, ERR_INTERNAL, "a location of a stack has no frame");
	l->locations_known = l->location_count;
	return true;
}

/* ---- runs ---- */

/* The frames of a wanted one, root first, to the pool's end; `places` are its locations. */
static void put_run(struct loading *l, uint32_t k, const uint32_t *places, uint32_t place_count)
{
	struct frame_set *s = l->set;
	const struct stack_sum *sum = &l->sums->ptr[l->wanted[k]];
	int64_t value = sum->value;
	uint32_t count = 0, *out = s->pool + s->pool_count;

	if (l->sums->groups)
		*out++ = l->groups[sum->group]; /* before all, out of the filters' sight */
	for (uint32_t i = place_count; i > 0; i--) {
		const uint32_t *of = &l->frame_first[places[i - 1] * 2];

		for (uint32_t n = of[1]; n > 0; n--)
			out[count++] = l->frames[of[0] + n - 1];
	}
	if (s->q->request.filter_count && !run_filter(s, out, &count)) {
		if (l->keep_all)
			s->runs[s->run_count++] = (struct frame_run){ .first = RUN_LEFT_OUT };
		return;
	}
	count = frames_without_repeats(s, out, count) + (l->sums->groups ? 1 : 0);
	s->runs[s->run_count] = (struct frame_run){ .first = s->pool_count, .count = count };
	s->runs[s->run_count++].value[l->side] = value;
	s->pool_count += count;
	s->total[l->side] = engine_add(s->total[l->side], value);
}

static bool group_frames(struct loading *l, struct err *err)
{
	const struct stack_sums *sums = l->sums;

	if (!QUERY_ROOM(l->set->q, l->groups, l->group_cap, sums->group_count + 1u, err))
		return false;
	for (uint32_t i = 0; sums->groups && i < sums->group_count; i++)
		if (!frame_set_group(l->set, sums->groups[i], &l->groups[i], err))
			return false;
	return true;
}

static uint32_t deepest_stack(const struct loading *l)
{
	uint32_t deepest = 0;

	for (uint32_t i = 0; i < l->at; i++)
		if (l->place_first[i + 1] - l->place_first[i] > deepest)
			deepest = l->place_first[i + 1] - l->place_first[i];
	return deepest;
}

/* How many frames the stack at hand has. */
static uint64_t count_frames(const struct loading *l, uint32_t place_count)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < place_count; i++)
		count += l->frame_first[l->stack[i] * 2 + 1];
	return count;
}

/* A location becomes one frame or more, so the places of stacks that are still to come stand at the
 * pool's very end, the frames grow towards them, and the pool where these would meet. `left` places
 * are to come. */
static bool make_room(struct loading *l, uint32_t place_count, uint32_t left, struct err *err)
{
	struct frame_set *s = l->set;
	uint64_t need = (uint64_t)s->pool_count + left + 1 +
			(uint64_t)place_count * (l->most_lines ? l->most_lines : 1);
	uint32_t before = s->pool_cap;

	if (need <= s->pool_cap)
		return true;
	need = s->pool_count + (uint64_t)left + 1 + count_frames(l, place_count);
	if (!QUERY_ROOM(s->q, s->pool, s->pool_cap, need, err))
		return false;
	if (s->pool_cap != before)
		memmove(s->pool + s->pool_cap - left, s->pool + before - left,
			left * sizeof(uint32_t));
	return true;
}

static bool begin_runs(struct loading *l, struct err *err)
{
	struct frame_set *s = l->set;

	if (!group_frames(l, err) ||
	    !QUERY_ROOM(s->q, s->last_at, s->last_cap, s->frame_count, err) ||
	    !QUERY_ROOM(s->q, l->stack, l->stack_cap, deepest_stack(l) + 1u, err) ||
	    !QUERY_ROOM(s->q, s->runs, s->run_cap, s->run_count + l->wanted_count + 1u, err))
		return false;
	if (l->place_count)
		memmove(s->pool + s->pool_cap - l->place_count, s->pool + l->pool_first,
			l->place_count * sizeof(uint32_t));
	return true;
}

static bool put_runs(struct loading *l, struct err *err)
{
	uint32_t place = 0, count = 0, left = l->place_count;

	if (!begin_runs(l, err))
		return false;
	for (uint32_t k = 0; k < l->wanted_count; k++) {
		if (!query_alive(l->set->q, err))
			return false;
		if (!repeats(l, k)) {
			count = l->place_first[place + 1] - l->place_first[place];
			place++;
			if (count)
				memcpy(l->stack, l->set->pool + l->set->pool_cap - left,
				       count * sizeof(uint32_t));
			left -= count;
		}
		if (!make_room(l, count, left, err))
			return false;
		put_run(l, k, l->stack, count);
	}
	return true;
}

bool stacks_load(struct loading *l, struct err *err)
{
	struct frame_set *s = l->set;
	uint32_t runs = s->run_count;
	int64_t total = s->total[l->side];

	l->pool_first = s->pool_count;
	l->place_count = l->at = 0;
	if (load_stacks(l, err) && load_locations(l, err) && put_runs(l, err))
		return true;
	s->run_count = runs;
	s->pool_count = l->pool_first;
	s->total[l->side] = total;
	return false;
}
