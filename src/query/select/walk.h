/*
 * walk.h - the walk over the events of a selection that lie in its window, and what attribute sets
 * and profiles say of them. Only src/query includes this.
 */
#pragma once
#include "query/engine.h"

/* ---- what attribute sets say (known_sets.c) ---- */

/* For the current matchers and group; *out is NULL for set 0. Valid until the next call. */
bool known_set(struct query *q, uint64_t id, const struct attribute_match **out,
	       struct err *err) MUST_CHECK;
/* Reads all sets that a scan will meet at once, if that is cheaper than one by one. */
bool known_sets_load(struct query *q, const struct source_scan *scan, struct err *err) MUST_CHECK;

/* Does the profile of a sample matter, too? Its set (NULL: none) and its series leave something
 * open. */
bool known_sets_ask_profile(const struct query *q, const struct attribute_match *series,
			    const struct attribute_match *set);
/* No profile of this range matters. */
bool known_sets_suffice(const struct query *q, struct source_range range);

/* ---- events ---- */

struct engine_event {
	uint64_t time;
	int64_t value; /* in the type's unit */
	const struct source_row *row;
	const struct engine_series *series;
	struct str group; /* of q->selected.group_key */
	bool first;       /* of its row's events in the window */
};
typedef bool engine_event_fn(void *ctx, const struct engine_event *event, struct err *err);

/* Which events of the selection a walk gives, and what of them is looked at. */
struct walk {
	struct source_range range;
	unsigned parts;         /* of rows: ROW_STACK, ...; 0: all */
	const uint64_t *series; /* of the selected ones, sorted; NULL: all of them */
	uint32_t series_count;
	bool alike; /* engine_batches(): the callback looks at no series, so that a source may
		       give events of several that say the same together */
};
/* The window of the request. */
static inline struct walk walk_of(const struct query *q, unsigned parts)
{
	return (struct walk){ .range = q->request.range, .parts = parts };
}
/* Every such event, with its group of q->selected.group_key. */
bool engine_events(struct query *q, const struct walk *w, engine_event_fn *fn, void *ctx,
		   struct err *err) MUST_CHECK;
/* Sets the group-by key: from now on events have their group of this key. Forgets what earlier
 * walks noted of another key. */
bool engine_group(struct query *q, struct str group_key, struct err *err) MUST_CHECK;
/* Events of one series (with walk.alike: of several, the first of which is named) and group, side
 * by side; times, stacks and attributes as far as walk.parts says. */
struct engine_batch {
	const struct engine_series *series;
	struct str group;
	uint32_t count;
	bool timed; /* they have timestamps of their own */
	const uint64_t *times, *stacks, *attributes;
	const int64_t *values; /* in the type's unit */
};
typedef bool engine_batch_fn(void *ctx, const struct engine_batch *batch, struct err *err);
/* The same events many at a time, which is several times faster where the source has columns. */
bool engine_batches(struct query *q, const struct walk *w, engine_batch_fn *fn, void *ctx,
		    struct err *err) MUST_CHECK;
/* The window; an open end is where the source's samples end. Empty if there are none. */
bool engine_bounds(struct query *q, struct source_range *out, struct err *err) MUST_CHECK;
/* The series that the last walk met, with all their attributes. */
bool engine_each_series(struct query *q, source_series_fn *fn, void *ctx,
			struct err *err) MUST_CHECK;
/* A scan of the window and the selected series. */
static inline struct source_scan engine_series_scan(const struct query *q)
{
	return (struct source_scan){ .range = q->request.range,
				     .series = q->selected.series_ids,
				     .series_count = q->selected.series_count,
				     .asof = q->request.asof };
}
struct engine_series *engine_find_series(const struct query *q, uint64_t id);
/* Is it one of request.profile_ids? */
bool engine_profile_wanted(const struct query *q, const struct source_profile *p);
/* Loads q->known.profiles; the profile a sample is of, or NULL. */
bool engine_load_profiles(struct query *q, struct err *err) MUST_CHECK;
/* When the selection's profilers took profiles, be they of what is selected or of something else
 * beside it, without keeping them. */
bool engine_profile_times(struct query *q,
			  bool (*fn)(void *ctx, uint64_t time, uint64_t duration, struct err *err),
			  void *ctx, struct err *err) MUST_CHECK;
/* The series that the profilers of the selection measured, ascending: more than are selected where
 * there is a selector (measured.c). After a walk, which tells what a selector that only samples
 * decide has selected. They are the query's. */
bool measured_series(struct query *q, const uint64_t **ids, uint32_t *count,
		     struct err *err) MUST_CHECK;
const struct engine_profile *engine_profile_of(const struct query *q, uint64_t sample);
/* Where what an event tells of ends: without timestamps it was the whole profile long. At least
 * event->time + 1. */
bool engine_event_end(struct query *q, const struct engine_event *event, uint64_t *out,
		      struct err *err) MUST_CHECK;
