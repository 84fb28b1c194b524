/* walk.c - the walk over the events of a selection that lie in its window. */
#include <assert.h>
#include <stdlib.h>

#include "query/select/walk.h"
#include "model/profiles.h"
#include "model/service_name.h"
#include "query/select/label_match.h"
#include "query/select/select.h"
#include "store/id_list.h"

struct walking {
	struct query *q;
	struct walk asked;
	engine_event_fn *fn;
	void *ctx;
	uint32_t empty_match;
	struct engine_series *series; /* of the row before */
};

/* Whether a row has to be looked at for itself: its series does not say all. */
static bool rows_decide(const struct query *q)
{
	return (selector_all(q->selector) & q->selected.open_matchers) || q->selected.group_open;
}

/* What of rows is looked at, beyond what the callback does: what their series do not say is said by
 * their own attributes. */
static unsigned parts_of(const struct query *q, unsigned looked_at)
{
	if (!looked_at)
		return 0;
	return looked_at | (rows_decide(q) ? ROW_ATTRIBUTES : 0) |
	       (q->selected.by_stack ? ROW_STACK : 0);
}

static struct source_scan scan_of(const struct query *q, const struct walk *w)
{
	return (struct source_scan){
		.range = w->range,
		.series = w->series ? w->series : q->selected.series_ids,
		.series_count = w->series ? w->series_count : q->selected.series_count,
		.links = q->links.asked ? q->links.ids : NULL,
		.link_count = q->links.count,
		.asof = q->request.asof,
		.parts = parts_of(q, w->parts),
		.after = q->request.after,
	};
}

/* ---- rows ---- */

struct engine_series *engine_find_series(const struct query *q, uint64_t id)
{
	uint32_t low = 0, high = q->selected.series_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (q->selected.series[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < q->selected.series_count && q->selected.series[low].id == id
		       ? &q->selected.series[low]
		       : NULL;
}

static struct engine_series *series_of(struct walking *w, uint64_t id)
{
	const struct query *q = w->q;

	if (!w->series || w->series->id != id)
		w->series = engine_find_series(q, id);
	return w->series;
}

/* Where rows have no say. */
static struct str series_group(const struct query *q, const struct engine_series *series)
{
	const struct row_levels l = { .of[LEVEL_SERIES] = &series->says->match };

	return label_levels_group(q, &l);
}

/* Finds the event's group; *matches: is its row one of the selection? */
static bool judge_row(struct walking *w, struct engine_event *e, bool *matches, struct err *err)
{
	struct query *q = w->q;
	struct row_levels l = { .of[LEVEL_SERIES] = &e->series->says->match };
	const struct engine_profile *profile = NULL;
	bool by_profile = q->request.profile_id_count;

	*matches = true;
	if (!by_profile && !rows_decide(q)) {
		e->group = series_group(q, e->series);
		return true;
	}
	if (rows_decide(q) && !known_set(q, e->row->attributes, &l.of[LEVEL_SET], err))
		return false;
	if (by_profile || known_sets_ask_profile(q, l.of[LEVEL_SERIES], l.of[LEVEL_SET])) {
		if (!engine_load_profiles(q, err))
			return false;
		profile = engine_profile_of(q, e->row->sample);
	}
	if (by_profile && !(profile && profile->wanted)) {
		*matches = false;
		return true;
	}
	if (rows_decide(q)) {
		l.of[LEVEL_PROFILE] = profile ? &profile->match : NULL;
		*matches = label_levels_match(q, &l, w->empty_match);
	}
	e->group = label_levels_group(q, &l);
	return true;
}

static bool in_window(const struct walking *w, uint64_t time)
{
	return time >= w->asked.range.from && time < w->asked.range.to;
}

static bool walk_row(void *ctx, const struct source_row *row, struct err *err)
{
	struct walking *w = ctx;
	struct engine_event e = { .row = row, .first = true, .series = series_of(w, row->series) };
	bool matches;
	int64_t sum;

	if (!query_alive(w->q, err))
		return false;
	if (!e.series || (w->q->selected.by_stack &&
			  number_find(&w->q->selected.wanted_stacks, row->stack) == UINT32_MAX))
		return true;
	if (!judge_row(w, &e, &matches, err))
		return false;
	if (!matches)
		return true;
	if (row->timestamp_count == 0) {
		if (!in_window(w, row->time))
			return true;
		w->q->events++;
		w->series->seen = true;
		e.time = row->time;
		e.value = engine_scaled(source_row_sum(row), e.series->says->scale);
		return w->fn(w->ctx, &e, err);
	}
	sum = row->value_count != row->timestamp_count ? source_row_sum(row) : 0;
	for (uint32_t i = 0; i < row->timestamp_count; i++) {
		e.time = row->timestamps[i];
		if (!in_window(w, e.time))
			continue;
		w->q->events++;
		w->series->seen = true;
		e.value = engine_scaled(source_row_value(row, sum, i), e.series->says->scale);
		if (!w->fn(w->ctx, &e, err))
			return false;
		e.first = false;
	}
	return true;
}

bool engine_each_series(struct query *q, source_series_fn *fn, void *ctx, struct err *err)
{
	struct source *s = q->request.source;
	struct source_series_ask ask = { .range = q->request.range };
	uint64_t *ids = NULL;
	uint32_t cap = 0;
	bool ok = QUERY_ROOM(q, ids, cap, q->selected.series_count + 1u, err);

	for (uint32_t i = 0; ok && i < q->selected.series_count; i++)
		if (q->selected.series[i].seen)
			ids[ask.id_count++] = q->selected.series[i].id;
	if (ask.id_count)
		qsort(ids, ask.id_count, sizeof(*ids), id_list_order);
	ask.ids = ids;
	ok = ok && source_series(s, &ask, fn, ctx, err);
	QUERY_DROP(q, ids, cap);
	return ok;
}

static void forget_groups(struct query *q)
{
	number_release(q, &q->known.set_numbers);
	q->known.set_count = 0;
	q->known.sets_known = (struct source_range){ 0 };
	q->known.met_no_set = false;
	q->known.profiles_loaded = false;
	q->known.profile_count = 0;
}

bool engine_group(struct query *q, struct str group_key, struct err *err)
{
	if (str_equal(group_key, q->selected.group_key))
		return true;
	forget_groups(q);
	return select_series(q, group_key, err);
}

/* False in *any: there can be no event. */
static bool begin_walk(struct walking *w, struct source_scan *scan, bool *any, struct err *err)
{
	struct query *q = w->q;

	*scan = scan_of(q, &w->asked);
	for (uint32_t i = 0; i < q->selected.series_count && !w->asked.series; i++)
		q->selected.series[i].seen = false;
	q->events = 0;
	*any = q->selected.series_count && (!q->links.asked || q->links.count) &&
	       w->asked.range.from < w->asked.range.to;
	return label_empty_match(q, &w->empty_match, err) &&
	       (!*any || !rows_decide(q) || known_sets_load(q, scan, err));
}

bool engine_events(struct query *q, const struct walk *asked, engine_event_fn *fn, void *ctx,
		   struct err *err)
{
	struct source *s = q->request.source;
	struct walking w = { .q = q, .asked = *asked, .fn = fn, .ctx = ctx };
	struct source_scan scan;
	bool any;

	return begin_walk(&w, &scan, &any, err) &&
	       (!any || source_scan(s, &scan, walk_row, &w, err));
}

/* ---- many at a time ---- */

enum { BATCH = 1024 };

struct batching {
	struct walking walk;
	engine_batch_fn *fn;
	void *ctx;
	struct engine_batch batch;
	struct engine_series *batch_series; /* the batch's */
	bool judged;                        /* by their attribute sets: each for itself */
	uint64_t times[BATCH], stacks[BATCH], attributes[BATCH];
	int64_t values[BATCH];
};

static bool give_batch(struct batching *b, struct err *err)
{
	bool ok = !b->batch.count || b->fn(b->ctx, &b->batch, err);

	b->batch.count = 0;
	return ok;
}

/* What only rows can say: event by event. */
static bool gather_event(void *ctx, const struct engine_event *e, struct err *err)
{
	struct batching *b = ctx;
	bool timed = e->row->timestamp_count > 0;
	uint32_t at;

	if ((b->batch.count == BATCH || b->batch.series != e->series || b->batch.timed != timed ||
	     b->batch.group.ptr != e->group.ptr || b->batch.group.len != e->group.len) &&
	    !give_batch(b, err))
		return false;
	at = b->batch.count++;
	b->batch.series = e->series;
	b->batch.group = e->group;
	b->batch.timed = timed;
	b->times[at] = e->time;
	b->values[at] = e->value;
	b->stacks[at] = e->row->stack;
	b->attributes[at] = e->row->attributes;
	return true;
}

/* How many events there are, which may be more than numbers. */
static uint64_t count_events(const struct source_events *e, uint32_t from, uint32_t to)
{
	uint64_t count = 0;

	if (!e->counts)
		return to - from;
	for (uint32_t i = from; i < to; i++)
		count += e->counts[i];
	return count;
}

/* Of a stack that is not wanted there is nothing to be seen. */
static uint32_t keep_wanted(struct batching *b, const struct source_events *e, uint32_t from,
			    uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++) {
		if (number_find(&b->walk.q->selected.wanted_stacks, e->stacks[i]) == UINT32_MAX)
			continue;
		b->walk.q->events += count_events(e, i, i + 1);
		b->times[n] = e->times[i];
		b->stacks[n] = e->stacks[i];
		b->attributes[n] = e->attributes ? e->attributes[i] : 0;
		b->values[n++] = engine_scaled(e->values[i], b->batch.series->says->scale);
	}
	return n;
}

static bool take_some(struct batching *b, const struct source_events *e, uint32_t from, uint32_t to,
		      struct err *err)
{
	const int64_t scale = b->batch.series->says->scale;
	struct query *q = b->walk.q;
	struct engine_batch some = b->batch;

	if (q->selected.by_stack) {
		some.count = keep_wanted(b, e, from, to);
	} else {
		some.count = to - from;
		q->events += count_events(e, from, to);
		some.times = e->times + from;
		some.stacks = e->stacks + from;
		some.attributes = e->attributes + from;
		for (uint32_t i = from; i < to; i++)
			b->values[i - from] = engine_scaled(e->values[i], scale);
	}
	if (some.count)
		b->batch_series->seen = true;
	return query_alive(q, err) && (!some.count || b->fn(b->ctx, &some, err));
}

/* Of each event its set decides, and maybe its group, too. */
static bool take_judged(struct batching *b, const struct source_events *e, uint32_t from,
			uint32_t to, struct err *err)
{
	const struct series_says *says = b->batch_series->says;
	struct query *q = b->walk.q;

	for (uint32_t i = from; i < to; i++) {
		struct row_levels l = { .of[LEVEL_SERIES] = &says->match };
		struct str group;
		uint32_t at;

		if (q->selected.by_stack &&
		    number_find(&q->selected.wanted_stacks, e->stacks[i]) == UINT32_MAX)
			continue;
		if (!known_set(q, e->attributes[i], &l.of[LEVEL_SET], err))
			return false;
		if (!label_levels_match(q, &l, b->walk.empty_match))
			continue;
		group = label_levels_group(q, &l);
		if ((b->batch.count == BATCH || !str_equal(group, b->batch.group)) &&
		    !give_batch(b, err))
			return false;
		b->batch.group = group;
		at = b->batch.count++;
		b->times[at] = e->times ? e->times[i] : 0;
		b->stacks[at] = e->stacks ? e->stacks[i] : 0;
		b->attributes[at] = e->attributes[i];
		b->values[at] = engine_scaled(e->values[i], says->scale);
		b->batch_series->seen = true;
		q->events += count_events(e, i, i + 1);
	}
	return query_alive(q, err) && give_batch(b, err);
}

static bool take_run(struct batching *b, const struct source_events *e, uint32_t from, uint32_t to,
		     struct err *err)
{
	if (b->judged)
		return take_judged(b, e, from, to, err);
	for (; from < to; from += BATCH)
		if (!take_some(b, e, from, to - from < BATCH ? to : from + BATCH, err))
			return false;
	return true;
}

static void see_shared(struct batching *b, const struct source_events *e)
{
	for (size_t i = 0; i < e->shared_count; i++) {
		struct engine_series *series = series_of(&b->walk, e->shared[i]);

		if (series)
			series->seen = true;
	}
}

/* Whether they say the same, so that nobody needs to know which of them an event is of. */
static bool are_alike(const struct query *q)
{
	for (uint32_t i = 1; i < q->selected.series_count; i++)
		if (q->selected.series[i].says != q->selected.series[0].says)
			return false;
	return true;
}

static bool take_events(void *ctx, const struct source_events *e, struct err *err)
{
	struct batching *b = ctx;
	uint32_t from = 0;

	see_shared(b, e);
	for (uint32_t run = 0; run < e->run_count; from = e->ends[run++]) {
		struct engine_series *series = series_of(&b->walk, e->series[run]);

		if (!series)
			continue;
		b->batch_series = series;
		b->batch.series = series;
		b->batch.group = series_group(b->walk.q, series);
		b->batch.timed = e->timed;
		if (!take_run(b, e, from, e->ends[run], err))
			return false;
	}
	return true;
}

static bool can_take_columns(const struct batching *b, const struct source_scan *scan)
{
	const struct query *q = b->walk.q;

	return q->request.source->ops->events && !scan->links && !q->request.profile_id_count &&
	       (!b->judged || known_sets_suffice(q, b->walk.asked.range));
}

static bool walk_batches(struct batching *b, struct err *err)
{
	struct query *q = b->walk.q;
	struct source *s = q->request.source;
	struct source_scan scan;
	bool any;

	if (!begin_walk(&b->walk, &scan, &any, err))
		return false;
	b->judged = rows_decide(q);
	scan.alike = b->walk.asked.alike && !q->selected.by_stack && !b->judged && are_alike(q);
	if (!any)
		return true;
	if (can_take_columns(b, &scan))
		return source_events(s, &scan, take_events, b, err);
	return source_scan(s, &scan, walk_row, &b->walk, err) && give_batch(b, err);
}

bool engine_batches(struct query *q, const struct walk *asked, engine_batch_fn *fn, void *ctx,
		    struct err *err)
{
	struct batching *b = calloc(1, sizeof(*b));
	bool ok;

	assert(b);
	b->walk = (struct walking){ .q = q, .asked = *asked, .fn = gather_event, .ctx = b };
	b->fn = fn;
	b->ctx = ctx;
	b->batch.times = b->times;
	b->batch.values = b->values;
	b->batch.stacks = b->stacks;
	b->batch.attributes = b->attributes;
	ok = walk_batches(b, err);
	free(b);
	return ok;
}

bool engine_bounds(struct query *q, struct source_range *out, struct err *err)
{
	struct source *s = q->request.source;
	struct source_range extent;

	*out = q->request.range;
	if (out->from && out->to != UINT64_MAX)
		return true;
	if (!s->ops->extent(s, &extent, err)) {
		if (err->kind != ERR_NOT_FOUND)
			return false;
		*out = (struct source_range){ 0 };
		return true;
	}
	if (extent.from > out->from)
		out->from = extent.from;
	if (extent.to < UINT64_MAX && extent.to + 1 < out->to)
		out->to = extent.to + 1; /* the last moment is one of them */
	if (out->from > out->to)
		out->to = out->from;
	return true;
}
