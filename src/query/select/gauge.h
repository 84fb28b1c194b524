/*
 * gauge.h - weights of profiles, which make averages of gauges. Only src/query includes this.
 */
#pragma once
#include "query/select/walk.h"

/* By (bucket, owner of series, processes of it that have profiles together): how many profiles, and
 * which was the last. A profile of the selected series' owners counts where it begins, whether or
 * not the selection has samples of it: that a stack or a label is not in it means 0. One with
 * timestamps counts where the selection has events of it, too.
 */
struct gauge_weights;
/* hold: a profile without timestamps counts in all buckets of its duration, up to `end`. */
struct gauge_buckets {
	uint64_t from, step_ns, end; /* step_ns 0: one for all times */
	bool hold;
	uint32_t rows; /* buckets per step; 0: one. Not with hold */
};
/* The bucket of a time after `from`. */
static inline uint64_t engine_cell_of(uint64_t after, uint64_t step_ns, uint32_t rows)
{
	uint64_t step = after / step_ns;

	/* A step may last long: no product of 64 bits by the rows. */
	return step * rows + (uint32_t)((double)(after - step * step_ns) / (double)step_ns * rows);
}
struct gauge_weights *gauge_weights_new(struct query *q, const struct gauge_buckets *buckets,
					struct err *err) MUST_CHECK;
void gauge_weights_free(struct query *q, struct gauge_weights *g); /* NULL is fine */
/* The profiles that the event's owner has in the bucket, as a divisor; 0: leave the event out. */
uint32_t gauge_divisor(const struct gauge_weights *g, const struct query *q,
		       const struct engine_event *event, uint64_t bucket);
