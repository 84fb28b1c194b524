/*
 * frames.h - sums by stack, and the stacks as runs of frames, root first: what trees and tables are
 * made of. Only src/query includes this.
 */
#pragma once
#include "query/engine.h"

struct regex;

/* ---- sums by stack ---- */

struct stack_sum {
	uint64_t stack;
	int64_t value;
	uint32_t group; /* of stack_sums.groups; 0 without groups */
};
struct stack_sums {
	struct stack_sum *ptr; /* by stack, then group, ascending */
	uint32_t count, cap;
	uint32_t met;       /* all stacks; if more than count, the lighter ones did not fit */
	struct str *groups; /* the query's memory; NULL: not grouped */
	uint32_t group_count, group_cap;
	int64_t total;    /* of everything */
	int64_t unsummed; /* of stacks that did not fit */
};
/* group_by: a label whose values are kept apart; empty: none. */
bool stack_sums_make(struct query *q, struct str group_by, struct stack_sums *out,
		     struct err *err) MUST_CHECK;
void stack_sums_release(struct query *q, struct stack_sums *s);

/* May a filter drop stacks? The other kinds only change what is shown of a stack. */
bool engine_filters_choose(const struct query_request *r);
/* Finds q->selected.wanted_stacks, where the request's call site or its filters choose some. */
bool wanted_stacks_select(struct query *q, struct err *err) MUST_CHECK;

/* ---- stacks as runs of frames, root first ---- */

struct frame_run {
	uint32_t first, count; /* of frame_set.pool; its last frame may be RUN_CUT (fold.h) */
	int64_t value[QUERY_SIDES];
};

/* A frame as filters see it: functions of one name in two files are one frame, but two of these. */
struct marked_frame {
	uint32_t frame;
	uint32_t marks; /* bit 1 << i of each filter that it satisfies */
};

struct frame_set {
	struct query *q; /* whose memory it is */
	struct query_frame *frames;
	uint32_t frame_count, frame_cap;
	struct number_table frame_keys;
	struct marked_frame *marked; /* with filters; else there are none */
	uint32_t marked_count, marked_cap;
	struct number_table marked_keys;
	struct str *texts; /* interned */
	struct number_table text_keys;
	uint32_t text_count, text_cap;
	struct regex *filter_regexes[QUERY_FILTERS_MOST];
	uint32_t *last_at; /* per frame: room for recursion's looking ahead */
	uint32_t last_cap;
	uint32_t *pool;
	uint32_t pool_count, pool_cap;
	struct frame_run *runs;
	uint32_t run_count, run_cap;
	uint32_t stack_count; /* that are in runs, or were */
	/* Of the side that came before the one at hand: frame_set_drop_unused() keeps count. */
	uint32_t kept_frames, kept_texts;
	int64_t total[QUERY_SIDES]; /* of runs and unresolved, after the filters */
	int64_t unresolved[QUERY_SIDES];
	const struct number_table *kept_paths; /* path_step()s of the nodes that trees have, however
						  light; NULL: none */
};
#define RUN_CUT UINT32_MAX /* instead of a frame: further ones were left out */

/* What an answer does with runs when they come, before they are kept or cut: there may be more than
 * memory holds. */
struct frame_use {
	/* Called at the start, and again when it starts anew with fewer stacks. May be NULL. */
	void (*begin)(void *ctx);
	/* Turns runs from `first` on around, say: what is to be cut where memory is short stands at
	 * their ends afterwards. NULL: nothing. */
	void (*orient)(void *ctx, struct frame_set *s, uint32_t first);
	/* Looks at the runs from `first` on, changes or drops them; they and the pool stay in
	 * order, and what is dropped is taken from s->total where the answer is not about it. Of
	 * one side: called for some at a time, all of them whole. Of two: once they are aligned,
	 * for all, and these may be cut. Without an effect where it fails. NULL: nothing. */
	bool (*use)(void *ctx, struct frame_set *s, uint32_t first, struct err *err);
	void *ctx;
	bool tabulates; /* it keeps what it needs by frame: no room has to be left for an answer */
};

/* A selection on its way into a set. */
struct frame_side {
	struct query *from;
	struct str group_by; /* a label, whose values become outermost frames; empty: none */
	unsigned number;     /* QUERY_LEFT, QUERY_RIGHT */
	const struct frame_use *use; /* may be NULL */
};

bool frame_set_init(struct frame_set *s, struct query *q, struct err *err) MUST_CHECK;
void frame_set_release(struct frame_set *s);
/* The frames of one location, innermost inlined first, as numbers of s->frames (with filters, of
 * s->marked): one a line, or one. */
bool frame_set_location(struct frame_set *s, const struct source_location *l, uint32_t *out,
			struct err *err) MUST_CHECK;
/* The frame of a group's value, no code. */
bool frame_set_group(struct frame_set *s, struct str value, uint32_t *out,
		     struct err *err) MUST_CHECK;
/* The request's filters, in their order, on marked frames [0, count), root first, which become
 * frames. False: the stack is left out. */
bool run_filter(struct frame_set *s, uint32_t *frames, uint32_t *count);
/* Frames that only tell files or binaries apart repeat for each call within one. */
uint32_t frames_without_repeats(const struct frame_set *s, uint32_t *frames, uint32_t count);
/* Runs of stacks without values: runs[k] is the one of ids[k] (ascending). Without filters, or with
 * them: then runs that they leave out have first == RUN_LEFT_OUT. */
enum frame_filters { FILTERS_OFF, FILTERS_ON };
#define RUN_LEFT_OUT UINT32_MAX
bool frame_set_resolve(struct frame_set *s, const uint64_t *ids, uint32_t count,
		       enum frame_filters filters, struct err *err) MUST_CHECK;
/* Sums, resolves and filters. */
bool frame_set_add(struct frame_set *s, const struct frame_side *side, struct err *err) MUST_CHECK;
/* Of an answer about some frames: what has no names is not of it. */
void frame_set_drop_unresolved(struct frame_set *s);
/* Frames that no run in the pool has go, the others get new numbers. Fails for want of memory: then
 * nothing is right but release. */
bool frame_set_drop_unused(struct frame_set *s, struct err *err) MUST_CHECK;
/* Takes back what a failed attempt added behind those. */
bool frame_set_forget(struct frame_set *s, uint32_t frame_count, uint32_t text_count,
		      struct err *err) MUST_CHECK;
/* Hands the frames over to an answer: they are the query's until its end, and the set's no more. */
bool frame_set_give(struct frame_set *s, struct query_frames *out, struct err *err) MUST_CHECK;

/* ---- stacks for a message of its own ---- */

struct builder;
/* Stacks on their way into a message. */
struct stack_list {
	const uint64_t *ids; /* ascending */
	uint32_t count;
	struct stack_index *out; /* of each */
	bool *left_out;          /* of each: the transforms leave nothing of it */
};
/* As the query's transforms and `by` leave them, of locations that say what frames say. */
bool collect_frames(struct query *q, struct builder *b, const struct stack_list *stacks,
		    struct err *err) MUST_CHECK;
