/*
 * engine.h - what the parts of the engine share: a query's inside, its memory, the walk over
 * events, sums by stack, stacks as runs of frames, trees of them. Only src/query includes this.
 */
#pragma once
#include "base/buf.h"
#include "query/large_pages.h"
#include "query/query.h"
#include "query/selector.h"

struct regex;

/* ---- memory: an arena for what lives with the query, counted heap blocks for what grows ---- */

/* Room for `need` entries in a heap array; ERR_LIMIT past the query's limit, then nothing changed.
 */
bool query_grow_slow(struct query *q, void *array_ptr, uint32_t *cap, uint64_t need,
		     size_t entry_bytes, struct err *err) MUST_CHECK;
static inline bool query_grow(struct query *q, void *array_ptr, uint32_t *cap, uint64_t need,
			      size_t entry_bytes, struct err *err)
{
	return need <= *cap || query_grow_slow(q, array_ptr, cap, need, entry_bytes, err);
}
void query_drop(struct query *q, void *array_ptr, uint32_t *cap, size_t entry_bytes);
/* Gives back what is not used of an array that grows no more. */
void query_fit(struct query *q, void *array_ptr, uint32_t *cap, uint32_t count, size_t entry_bytes);
/* Hands an array over to an answer: it is there until the query's end. */
bool query_give(struct query *q, void *array_ptr, uint32_t *cap, struct err *err) MUST_CHECK;
void query_free_given(struct query *q, void *array); /* at that end */
/* A heap block of zeros, and how it is given back (NULL is fine); NULL: ERR_LIMIT. */
void *query_take(struct query *q, size_t bytes, struct err *err);
void query_give_back(struct query *q, void *block, size_t bytes);
void *query_alloc(struct query *q, uint64_t count, size_t bytes,
		  struct err *err); /* arena, zeroed */
bool query_str_dup(struct query *q, struct str s, struct str *out, struct err *err) MUST_CHECK;
/* Looks at the deadline and at `cancelled`; query_alive() does so every few thousand calls only. */
bool query_alive_now(struct query *q, struct err *err) MUST_CHECK;
bool query_alive(struct query *q, struct err *err) MUST_CHECK;

/* ---- a table from a 64-bit number to a 32-bit one ---- */

struct number_slot {
	uint64_t number;
	uint32_t value; /* + 1; 0: free */
};
struct number_table {
	struct number_slot *slots;
	uint32_t cap, used; /* cap is a power of two */
	/* Small numbers that lie close together, as rows of a store do: a value + 1 (0: free) each,
	 * NUMBER_PAGE a page. */
	uint32_t **pages;
	uint32_t page_cap, page_count, paged;
};
enum { NUMBER_PAGE = 256 };
static inline uint32_t *number_entry(const struct number_table *t, uint64_t number)
{
	uint64_t page = number / NUMBER_PAGE;

	return page < t->page_cap && t->pages[page] ? &t->pages[page][number % NUMBER_PAGE] : NULL;
}
uint32_t number_find_slow(const struct number_table *t, uint64_t number);
/* The value of a number, UINT32_MAX when it is not there. */
static inline uint32_t number_find(const struct number_table *t, uint64_t number)
{
	const uint32_t *entry = number_entry(t, number);

	return entry && *entry ? *entry - 1 : number_find_slow(t, number);
}
/* As number_find(), but enters `value` where there is none; *added tells. */
bool number_enter(struct query *q, struct number_table *t, uint64_t number, uint32_t value,
		  uint32_t *out, bool *added, struct err *err) MUST_CHECK;
/* All numbers in ascending order, where that costs no sorting: they are all small and close. */
bool number_list(const struct number_table *t, uint64_t *out);
void number_release(struct query *q, struct number_table *t);
/* Forgets all and keeps room for `count`, of at most as many as there were: these can be entered
 * whatever memory there is. */
void number_reset(struct query *q, struct number_table *t, uint32_t count);

/* ---- the query ---- */

/* What a matcher (bit) says of one level's attributes: does it have the attribute, does it match?
 * weak: has only what service.name is made of. */
struct match_bits {
	uint32_t present, match, weak, weak_match;
};

/* What many series have in common: there is one a process, and hundreds of thousands of these. */
struct series_says {
	uint32_t type; /* of q->selected.types */
	bool counted;  /* values count periods of a time */
	bool has_group, group_weak;
	int64_t scale; /* values times this are in the type's unit */
	int64_t period;
	struct match_bits bits;
	struct str group; /* value of the group-by key */
};

struct engine_series {
	uint64_t id, owner;
	uint64_t process; /* hash of host, container and pid; 0: not said */
	const struct series_says *says;
	bool seen; /* by the last walk */
};

struct attribute_match { /* of one attribute set, or profile */
	struct match_bits bits;
	struct str group;
	bool has_group, group_weak;
};

struct engine_profile {
	uint64_t first_sample, time, duration;
	uint32_t sample_count;
	bool wanted; /* by request.profile_ids */
	struct attribute_match match;
};

/* What a question may use, and what of it is in use. */
struct query_memory {
	struct arena arena; /* for what lives as long as the query */
	size_t heap_bytes, limit_bytes;
	struct large_pages pages; /* for what of the heap is not small, once there is much */
	void **given;             /* arrays of answers, until the end */
	uint32_t given_count, given_cap;
	uint32_t ticks; /* of query_alive() */
};

/* Links of the trace and span that are asked for, and where their samples are. */
struct query_links {
	bool asked;
	uint64_t *ids;
	uint32_t count, cap;
	uint64_t *series; /* that have such samples, sorted; none: it may be any */
	uint32_t series_count, series_cap;
	struct source_range range; /* of these samples' events; to 0: not known */
};

/* What the request means in this source. */
struct query_selected {
	struct query_type *types;
	uint32_t type_count, type_cap, type; /* type: the one answered about; type_count: none */
	struct engine_series *series;        /* by id; of the chosen type */
	uint64_t *series_ids;
	uint32_t series_count, series_cap, series_ids_cap;
	const struct series_says **says; /* each once; says_numbers: place by hash */
	uint32_t says_count, says_cap;
	struct number_table says_numbers;
	struct number_table wanted_stacks; /* by_stack: only rows of these */
	bool by_stack;
	uint32_t open_matchers; /* bits: those that a sample or a profile may decide */
	bool group_open;        /* a sample or a profile may say the group */
	struct str group_key;   /* of the answer at hand; empty: none */
};

/* What walks have read so far, for those that follow. */
struct query_known {
	struct attribute_match *sets;
	uint32_t set_count, set_cap;
	struct number_table set_numbers; /* known_sets.c: place in `sets` by id */
	struct source_range sets_known;  /* all sets of this time are among them; to 0: of none */
	bool met_no_set;                 /* there are samples without attributes there */
	struct engine_profile *profiles; /* by first_sample */
	uint32_t profile_count, profile_cap;
	bool profiles_loaded;
	uint64_t *measured; /* sorted: series of the same profilers; none: not asked for yet */
	uint32_t measured_count, measured_cap;
};

struct query {
	struct query_request request;
	struct selector *selector;
	enum query_by filter_by; /* what the frames that are shown are called */
	struct query_memory memory;
	struct query_links links;
	struct query_selected selected;
	struct query_known known;
	uint64_t events; /* of the last walk */
	bool partial;
	char reason[400];
};

/* The type that is answered about; NULL: nothing matches. */
static inline const struct query_type *query_type_of(const struct query *q)
{
	const struct query_selected *s = &q->selected;

	return s->type < s->type_count ? &s->types[s->type] : NULL;
}
static inline bool query_of_gauge(const struct query *q)
{
	const struct query_type *type = query_type_of(q);

	return type && type->gauge;
}

void query_note_partial(struct query *q, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The value of an attribute as text: borrowed when it is a string, else in `scratch`. */
struct str attribute_text(const struct source_attribute *a, struct buf *scratch);

/* ---- what attribute sets say (known_sets.c) ---- */

/* Of the matchers and the group at hand; *out NULL: the set 0 says nothing. Until the next one. */
bool known_set(struct query *q, uint64_t id, const struct attribute_match **out,
	       struct err *err) MUST_CHECK;
/* Reads those that a scan will meet together, where that is cheaper than one by one. */
bool known_sets_load(struct query *q, const struct source_scan *scan, struct err *err) MUST_CHECK;

/* Whether a sample's profile has a say, too: its set (NULL: none) and its series do not say all. */
bool known_sets_ask_profile(const struct query *q, const struct series_says *says,
			    const struct attribute_match *set);
/* That no profile of this time has a say. */
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
/* From here on events have their group of this key; what the walks before noted of others is gone.
 */
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
/* The window, or, where it is open at an end, what the source has. Empty when there is nothing. */
bool engine_bounds(struct query *q, struct source_range *out, struct err *err) MUST_CHECK;
/* Series that the last walk met, with all their attributes. */
bool engine_each_series(struct query *q, source_series_fn *fn, void *ctx,
			struct err *err) MUST_CHECK;
/* What to scan for the window and the series that were selected. */
static inline struct source_scan engine_series_scan(const struct query *q)
{
	return (struct source_scan){ .range = q->request.range,
				     .series = q->selected.series_ids,
				     .series_count = q->selected.series_count,
				     .asof = q->request.asof };
}
struct engine_series *engine_find_series(const struct query *q, uint64_t id);
/* Is it one of those that request.profile_ids is about? */
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
static inline int64_t engine_add(int64_t a, int64_t b) /* saturates */
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t engine_scaled(int64_t value, int64_t scale) /* scales are positive */
{
	int64_t v;

	if (!__builtin_mul_overflow(value, scale, &v))
		return v;
	return value < 0 ? INT64_MIN : INT64_MAX;
}

/* Finds q->links.series (linked.c). */
bool linked_series(struct query *q, struct err *err) MUST_CHECK;
/* May a filter leave stacks out? The other kinds change what is shown of a stack. */
bool engine_filters_choose(const struct query_request *r);
/* Finds q->selected.wanted_stacks, where the request's call site or its filters choose some. */
bool wanted_stacks_select(struct query *q, struct err *err) MUST_CHECK;

/* ---- gauges: averages over profiles (gauge.c) ---- */

/* By (bucket, owner of series, processes of it that have profiles together): how many profiles, and
 * which was the last. A profile of the selected series' owners counts where it begins, whether or
 * not the selection has samples of it: that a stack or a label is not in it means 0. One with
 * timestamps counts where the selection has events of it, too.
 */
struct gauge_weights;
/* hold: what a profile without timestamps says holds in all buckets of its length, up to `end`. */
struct gauge_buckets {
	uint64_t from, step_ns, end; /* step_ns 0: one for all times */
	bool hold;
	uint32_t rows; /* each step is cut into so many buckets; 0: one. Not with hold */
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

/* ---- sums by stack ---- */

struct stack_sum {
	uint64_t stack;
	int64_t value;
	uint32_t group; /* of stack_sums.groups; 0 without groups */
};
struct stack_sums {
	struct stack_sum *ptr; /* by stack, then group, ascending */
	uint32_t count, cap;
	uint32_t met;       /* stacks in all; more than count: the lighter ones had no room */
	struct str *groups; /* the query's memory; NULL: not grouped */
	uint32_t group_count, group_cap;
	int64_t total;    /* of everything */
	int64_t unsummed; /* of those that there was no room for */
};
/* group_by: a label, whose values are told apart; empty: none. */
bool stack_sums_make(struct query *q, struct str group_by, struct stack_sums *out,
		     struct err *err) MUST_CHECK;
void stack_sums_release(struct query *q, struct stack_sums *s);

/* ---- stacks as runs of frames, root first ---- */

struct frame_run {
	uint32_t first, count; /* of frame_set.pool; its last frame may be RUN_CUT (fold.h) */
	int64_t value[QUERY_SIDES];
};

/* A frame as filters see it: functions of one name in two files are one frame, and two of these. */
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

/* What an answer does with runs before they are kept: there may be more of them than there is
 * memory for, and what it needs of whole ones, it takes here. */
struct frame_use {
	/* All begins, or begins again with fewer stacks. NULL: nothing. */
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
	bool tabulates; /* has what it needs by frame: there is no answer still to make room for */
};

bool frame_set_init(struct frame_set *s, struct query *q, struct err *err) MUST_CHECK;
void frame_set_release(struct frame_set *s);
/* The frames of one location, innermost inlined first, as numbers of s->frames; with filters, of
 * s->marked. */
bool frame_set_location(struct frame_set *s, const struct source_location *l, uint32_t *out,
			uint32_t cap, uint32_t *count, struct err *err) MUST_CHECK;
/* The frame of a group's value, no code. */
bool frame_set_group(struct frame_set *s, struct str value, uint32_t *out,
		     struct err *err) MUST_CHECK;
/* Sums, resolves and filters: the first half of most answers. `use` may be NULL. */
bool frame_set_of(struct frame_set *s, struct query *left, struct query *right, struct str group_by,
		  const struct frame_use *use, struct err *err) MUST_CHECK;
/* Of a diff, whose left side has the first `left_runs` runs: frames that one side cannot tell apart
 * as the other does are one (align.c). */
bool frame_set_align(struct frame_set *s, uint32_t left_runs, struct err *err) MUST_CHECK;
static inline int64_t engine_minus(int64_t a, int64_t b) /* saturates */
{
	int64_t v;

	if (!__builtin_sub_overflow(a, b, &v))
		return v;
	return a < 0 ? INT64_MIN : INT64_MAX;
}
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
struct stack_index;
/* The stacks `ids` (ascending) as the query's transforms and `by` leave them, of locations that say
 * what frames say. left_out[k]: the transforms leave stack k out. */
bool collect_frames(struct query *q, struct builder *b, const uint64_t *ids, uint32_t count,
		    struct stack_index *out, bool *left_out, struct err *err) MUST_CHECK;

/* ---- trees ---- */

enum { TREE_NODES_USUAL = 16384 };
/* A path from a tree's root (0) and one frame more, by its key: the same for the same frames. */
static inline uint64_t path_step(uint64_t path, uint64_t key)
{
	uint64_t v = (path + key) * UINT64_C(0xff51afd7ed558ccd);

	return v ^ v >> 33;
}

bool tree_build(struct frame_set *s, const struct frame_run *runs, uint32_t count,
		const uint32_t *pool, const struct query_tree_options *o, struct query_tree *out,
		struct err *err) MUST_CHECK;
