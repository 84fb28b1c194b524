/*
 * stacks.h - stacks of a source on their way into runs of frames, some at a time.
 *
 * Memory: the query's whose the frame set is. Threads: its query's.
 */
#pragma once
#include "query/sum/frames.h"

/* Once for all stacks of a side; what locations are is remembered from one stacks_load() to the
 * next. First the locations of stacks stand in the set's pool, leaf first, as places in the list of
 * distinct ones; once those have names, the same memory takes the frames. */
struct loading {
	struct frame_set *set;
	struct query *from; /* whose source */
	const struct stack_sums *sums;
	unsigned side;
	bool keep_all;          /* stacks that the filters leave out have a run too */
	const uint32_t *wanted; /* which sums come next, ascending by stack */
	uint32_t wanted_count;
	uint32_t at; /* distinct stacks that were read for these */
	struct number_table locations;
	uint64_t *location_ids; /* of those that have no frames yet */
	uint32_t location_count, location_cap, locations_known;
	uint32_t pool_first;                      /* of ours */
	uint32_t place_count;                     /* in the pool, from there on */
	uint32_t most_lines;                      /* frames that a location has */
	uint32_t *place_first, place_first_cap;   /* of each distinct stack; one more at the end */
	uint32_t *stack, stack_cap;               /* places of the one at hand */
	uint32_t *groups, group_cap;              /* frames of sums->groups */
	uint32_t *frames, frame_count, frame_cap; /* of locations, innermost first */
	uint32_t *frame_first, frame_first_cap;   /* by location place: first, count */
};

/* Appends a run for each of the wanted ones, as far as the filters leave any; a failure leaves runs
 * and pool as they were, and loading_release() is due. */
bool stacks_load(struct loading *l, struct err *err) MUST_CHECK;
void loading_release(struct loading *l);
/* What is remembered of locations, in bytes. */
size_t loading_bytes(const struct loading *l);
