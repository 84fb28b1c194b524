/*
 * chart.h - shared by the parts of the flame chart: chart_events.c collects events, chart_lanes.c
 * assigns them to threads, chart.c sorts them, chart_boxes.c draws a lane. Only src/query includes
 * this.
 *
 * Memory: the query's counted heap, until chart_release(); lanes and boxes are the answer's.
 */
#pragma once
#include "query/select/walk.h"
#include "query/sum/frames.h"

struct chart_event { /* on its way into a box */
	uint64_t start;
	uint32_t stack, pair; /* places in chart.stacks, chart.pairs */
};

/* A series with an attribute set: all its events are one thread's. */
struct chart_pair {
	uint64_t set;
	uint64_t events, latest;
	int64_t value;
	uint32_t series, lane; /* places in q->selected.series, chart.lanes */
	uint32_t next;         /* the pair of the same set and another series; UINT32_MAX: none */
};

/* Where the frames of a stack are in set.pool. */
struct chart_run {
	uint32_t first, count; /* first: RUN_LEFT_OUT: filters leave nothing of it */
};

struct chart_lane {
	uint64_t key, latest; /* latest: its newest event */
	uint64_t events;
	int64_t value;
	uint32_t latest_pair;
	bool thread_known;
};

struct chart {
	struct query *q;
	struct source_range range;
	uint64_t bin_ns;
	uint32_t bins;
	bool timed; /* values are nanoseconds */

	struct chart_event *events;
	uint64_t *durations; /* of each event; NULL: all last as their pairs' usually do */
	uint32_t event_count, event_cap, duration_cap;
	bool has_durations;
	uint32_t *order; /* events of the page: lane by lane, by start */
	uint32_t order_cap;
	uint32_t *lane_first; /* of each lane in `order`; one more at the end */
	uint32_t lane_first_cap;

	struct chart_pair *pairs;
	uint32_t pair_count, pair_cap;
	bool forgot;                                     /* light pairs: there were too many */
	struct number_table pair_numbers, stack_numbers; /* pair_numbers: the first of each set */
	uint64_t *stacks;                                /* their ids */
	uint32_t stack_count, stack_cap;
	struct chart_run *runs; /* of each stack that the lanes at hand have */
	uint32_t run_cap;
	uint32_t resolved_from, resolved_to; /* lanes whose stacks `runs` has */
	struct frame_set set;

	struct chart_lane *lanes; /* once they are ranked: the page's, heaviest first */
	uint32_t lane_count, lane_cap, lanes_in_all;

	struct query_box *boxes;
	uint32_t box_count, box_cap;
	uint64_t *scratch; /* of chart_boxes.c */
	uint32_t scratch_cap;
};

struct taking {
	struct chart *c;
	bool ranked;       /* only the page's events come */
	bool full;         /* there was no room for all: they are only counted */
	uint32_t stride;   /* keep one of so many events of the page */
	size_t bytes_most; /* for events */
	uint64_t latest;   /* time of an event */
};

/* What the events of the series last unless chart.durations says more. */
static inline uint64_t chart_usual(const struct chart *c, const struct series_says *says)
{
	return says->counted ? (uint64_t)says->scale : c->timed ? 0 : 1;
}
static inline const struct series_says *chart_says(const struct chart *c,
						   const struct chart_pair *p)
{
	return c->q->selected.series[p->series].says;
}

/* chart_events.c: walks over events (engine_batch_fn, ctx: struct taking). The first one counts all
 * and keeps events as long as there is room, which is usually enough; further ones keep those of
 * the page alone. */
bool chart_take_all(void *ctx, const struct engine_batch *b, struct err *err) MUST_CHECK;
bool chart_take_page(void *ctx, const struct engine_batch *b, struct err *err) MUST_CHECK;
void chart_drop_events(struct chart *c);
/* Where there is no room left: first the events are forgotten, which further walks bring again,
 * then the lighter half of the pairs. False: there is nothing left to forget. */
bool chart_make_room(struct taking *t, struct err *err) MUST_CHECK;

/* Every pair's lane; c->lanes as they come. */
bool chart_make_lanes(struct chart *c, struct err *err) MUST_CHECK;
/* Keeps `most` lanes behind the `skipped` heaviest ones; of pairs and events theirs. */
bool chart_keep_page(struct chart *c, uint32_t skipped, uint32_t most, struct err *err) MUST_CHECK;
/* Fills the names of out[i], which is c->lanes[i]. */
bool chart_name_lanes(struct chart *c, struct query_lane *out, struct err *err) MUST_CHECK;
/* The pairs find each other again by their sets, after their places changed. */
bool chart_number_pairs(struct chart *c, struct err *err) MUST_CHECK;

/* Appends the boxes of a lane; ERR_LIMIT past CHART_BOXES_MOST. */
enum { CHART_BOXES_MOST = 100000 };
bool chart_draw_lane(struct chart *c, uint32_t lane, struct err *err) MUST_CHECK;
