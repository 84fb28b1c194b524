#include "store/source.h"

static bool take_earliest(void *ctx, const struct source_profile *p, struct err *err)
{
	uint64_t *earliest = ctx;

	(void)err;
	*earliest = p->earliest < *earliest ? p->earliest : *earliest;
	return true;
}

/* Only profiles say where in time those begin that came after a state: the range up to there need
 * not be walked. */
static bool narrow(struct source *s, struct source_scan *scan, struct err *err)
{
	uint64_t earliest = UINT64_MAX;

	if (!scan->after)
		return true;
	if (!s->ops->profiles(s, scan, take_earliest, &earliest, err))
		return false;
	if (earliest > scan->range.from)
		scan->range.from = earliest;
	return true;
}

bool source_series(struct source *s, const struct source_series_ask *ask, source_series_fn *fn,
		   void *ctx, struct err *err)
{
	struct source_scan since = { .range = ask->range, .asof = ask->asof, .after = ask->after };
	struct source_series_ask narrowed = *ask;

	if (!narrow(s, &since, err))
		return false;
	narrowed.range = since.range;
	return narrowed.range.from >= narrowed.range.to ||
	       s->ops->series(s, &narrowed, fn, ctx, err);
}

/* ---- rows ---- */

void source_row_as_meant(struct source_row *row)
{
	if (row->value_count == 1 && row->timestamp_count > 1 && row->values[0] == 1 &&
	    row->total == (int64_t)row->timestamp_count)
		row->value_count = 0;
}

int64_t source_row_sum(const struct source_row *row)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < row->value_count; i++)
		if (__builtin_add_overflow(sum, row->values[i], &sum))
			sum = row->values[i] < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

int64_t source_row_value(const struct source_row *row, int64_t sum, uint32_t i)
{
	if (row->value_count == 0)
		return 1;
	if (row->value_count == row->timestamp_count)
		return row->values[i];
	return value_share(sum, row->timestamp_count, i);
}

struct row_walk_as_meant {
	source_row_fn *fn;
	void *ctx;
};

static bool give_as_meant(void *ctx, const struct source_row *row, struct err *err)
{
	const struct row_walk_as_meant *w = ctx;
	struct source_row meant = *row;

	source_row_as_meant(&meant);
	return w->fn(w->ctx, &meant, err);
}

bool source_scan(struct source *s, const struct source_scan *scan, source_row_fn *fn, void *ctx,
		 struct err *err)
{
	struct row_walk_as_meant w = { fn, ctx };
	struct source_scan narrowed = *scan;

	if (!narrow(s, &narrowed, err))
		return false;
	return narrowed.range.from >= narrowed.range.to ||
	       s->ops->scan(s, &narrowed, give_as_meant, &w, err);
}

bool source_events(struct source *s, const struct source_scan *scan, source_events_fn *fn,
		   void *ctx, struct err *err)
{
	struct source_scan narrowed = *scan;

	if (!narrow(s, &narrowed, err))
		return false;
	return narrowed.range.from >= narrowed.range.to ||
	       s->ops->events(s, &narrowed, fn, ctx, err);
}

/* ---- what numbers mean: 0, which would stand first, is never looked for ---- */

bool source_stacks(struct source *s, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		   void *ctx, struct err *err)
{
	uint32_t empty = count && !ids[0];

	return (!empty || fn(ctx, 0, NULL, 0, err)) &&
	       s->ops->stacks(s, ids + empty, count - empty, fn, ctx, err);
}

bool source_locations(struct source *s, const uint64_t *ids, uint32_t count, source_location_fn *fn,
		      void *ctx, struct err *err)
{
	uint32_t empty = count && !ids[0];

	return (!empty || fn(ctx, &(struct source_location){ 0 }, err)) &&
	       s->ops->locations(s, ids + empty, count - empty, fn, ctx, err);
}

bool source_attributes(struct source *s, const uint64_t *ids, uint32_t count,
		       source_attributes_fn *fn, void *ctx, struct err *err)
{
	uint32_t empty = count && !ids[0];

	return (!empty || fn(ctx, 0, (struct source_attributes){ 0 }, err)) &&
	       s->ops->attributes(s, ids + empty, count - empty, fn, ctx, err);
}

bool source_links(struct source *s, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		  void *ctx, struct err *err)
{
	uint32_t empty = count && !ids[0];

	return (!empty || fn(ctx, &(struct source_link){ 0 }, err)) &&
	       s->ops->links(s, ids + empty, count - empty, fn, ctx, err);
}
