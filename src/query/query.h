/*
 * query.h - questions about samples and their answers: the whole interface of the engine.
 *
 *   query_begin() -> query_flamegraph(), query_top(), query_timeline(), ... -> query_end()
 *
 * One struct query is one selection of one source: what follow-up questions about it share
 * (matched series, the state of the source it looks at). Everything an HTTP handler is asked for
 * maps to one request and one answer here; query/json.h writes the answers.
 *
 * Window: an event counts where its timestamp is, with that timestamp's value; a sample without
 * timestamps is one event at its profile's start. Adjacent windows add up to their union.
 * Values: counts of a period in nanoseconds are CPU time (count * period); units are never mixed:
 * one profile type per question. Gauges (query_is_gauge()) are averages over the profiles that one
 * resource and scope sent, summed over those: over all that begin in the window (or in the bucket
 * of a timeline), whether or not the selection has samples of them, so that its parts add up to the
 * whole. Everything else is summed.
 * Nodes: a frame is (frame type, binary, function, inlined or not); `by` changes that. Native code
 * without a name is one frame a binary ("libc.so.6+?") that by=address opens. Inlined functions
 * are frames of their own.
 * asof: every answer says which state of the source it is of; send it (and absolute times) with
 * follow-ups and their numbers add up.
 *
 * Memory: an answer lives until query_end(). A question that passes `limit_bytes` is answered
 * coarser (`partial` with a reason: the lightest stacks go unresolved into "other"), then refused
 * (ERR_LIMIT). Threads: one query is used by one thread; several queries of one source one after
 * another.
 */
#pragma once
#include <stdatomic.h>
#include "base/arena.h"
#include "store/source.h"

enum { QUERY_LIMIT_BYTES = 32 << 20, QUERY_NODES_MOST = 1 << 20, QUERY_FILTERS_MOST = 16 };

/* What a frame is told apart by, beyond its type. */
enum query_by {
	QUERY_BY_FUNCTION,
	QUERY_BY_LINE,
	QUERY_BY_ADDRESS,
	QUERY_BY_FILE,
	QUERY_BY_BINARY
};
/* "function", "line", ... */
bool query_by_parse(struct str text, enum query_by *out, struct err *err) MUST_CHECK;

/* Stack filters, by a regex within the frame's function, file, binary or type, whatever `by` shows
 * in its place. A ^pattern$ of a function may also be the whole name that is shown. They are taken
 * in the order given: each sees the frames that those before it left. */
enum query_filter_kind {
	FILTER_FOCUS,     /* only stacks that hold such a frame (all focus filters must match) */
	FILTER_IGNORE,    /* no stacks that hold one */
	FILTER_HIDE,      /* such frames are left out of stacks; what they cost is their caller's */
	FILTER_SHOW_FROM, /* stacks begin at their first such frame; without one they are left out
			   */
	FILTER_COLLAPSE,  /* such frames that follow each other are the first of them */
	FILTER_RECURSION, /* from where such a frame stands to where it stands again, innermost, is
			     one; an empty pattern: any frame */
};
enum query_filter_field { FIELD_FUNCTION, FIELD_FILE, FIELD_BINARY, FIELD_TYPE };
struct query_filter {
	enum query_filter_kind kind;
	enum query_filter_field field;
	struct str pattern;
};
/* "focus", ..., "show_from" or "show-from". False: there is no such kind. */
bool query_filter_kind_parse(struct str name, enum query_filter_kind *out) MUST_CHECK;
/* "regex", "function:regex", "file:regex", "binary:regex", "type:regex". */
void query_filter_parse(struct str text, enum query_filter_kind kind, struct query_filter *out);

/* Does nobody wait for the answer any more? */
typedef bool query_given_up_fn(const void *ctx);

struct query_request {
	struct source *source;     /* the caller's, outlives the query */
	struct source_range range; /* zero: all */
	struct str selector;       /* selector.h; may name the profile type */
	struct str profile_type;   /* "cpu", "off_cpu", "inuse_space", "alloc_space:bytes" or
				      all five parts of the id; empty: as the selector says, else the
				      most usual one that matches */
	struct str group_by; /* the label that the answer will be grouped by, where that is known:
				series are read once then. May be empty */
	struct query_filter filters[QUERY_FILTERS_MOST];
	uint32_t filter_count;
	bool filters_choose; /* events whose stack the filters leave out do not count: for answers
				about events. Those about stacks filter them in any case */
	enum query_by by;
	const uint8_t *trace_id, *span_id; /* 16 and 8 bytes, or NULL */
	uint32_t trace_count, span_count;  /* ids one after another: any of them; 0: one */
	const uint8_t *profile_ids;        /* 16 bytes each: only samples of these profiles */
	uint32_t profile_id_count;         /* 0: of all */
	const struct str *call_site; /* names of frames (query_frame_append_name), root first: only
					samples whose stack, before any filter, begins so */
	uint32_t call_site_count;    /* 0: all */
	uint64_t asof;               /* 0: the newest */
	uint64_t after;  /* only what came after that state (an `asof`): what is added to an answer
			    of it. 0: all.  Not for gauges, whose averages do not add up */
	bool gauge_last; /* gauges: the last profile, no average */
	bool clip;       /* query_collect: of a sample only the events in the window, not all */
	bool average;    /* query_collect, for formats whose readers add up what they are given:
			    samples of a gauge are what they add to its average, and a type that
			    came in several units, or as counts here and as time there, is in one */
	bool one_scale;  /* with `average`: so are counts of different periods */
	bool by_share;   /* diffs: only shares will be compared, so that one side's values may be
			    numbers of nobody knows what ("samples:count", as of folded stacks) */
	size_t limit_bytes;           /* 0: QUERY_LIMIT_BYTES */
	uint64_t deadline_ns;         /* clock_monotonic_ns(); 0: none. ERR_TIMEOUT */
	const atomic_bool *cancelled; /* may be NULL. ERR_CANCELLED */
	query_given_up_fn *given_up;  /* may be NULL: asked now and then, as `cancelled` is */
	const void *given_up_ctx;
};

/* A profile type as answers show it. */
struct query_type {
	struct str id;   /* "process_cpu:cpu:nanoseconds:cpu:nanoseconds" */
	struct str name; /* "process_cpu" */
	struct str type, unit, period_type, period_unit;
	bool gauge;
	bool preferred;   /* its makers want to see it first */
	uint32_t last_of; /* pprofs that name no such type, whose last it is */
	uint32_t series_count;
};

struct query;

struct query *query_begin(const struct query_request *request, struct err *err) MUST_CHECK;
void query_end(struct query *q); /* NULL is fine */

/* What the selection turned out to be. */
struct query_facts {
	struct source_range range; /* as asked */
	uint64_t asof;
	struct query_type type; /* the one that is answered about; id empty: nothing matches */
	const struct query_type *types;    /* all that match */
	uint32_t type_count, series_count; /* series of the type */
	bool type_asked;                   /* by the request or its selector: not the default */
	int64_t period;                    /* of the first series */
	uint64_t events;                   /* in the window, as the last answer walked them */
	uint32_t processes;                /* of those: distinct (host, container, pid) */
	bool partial;                      /* of the last answer, with why in `reason` */
	const char *reason;
	bool filtered; /* a focus, ignore or show_from may leave stacks out */
};
struct query_facts query_facts(const struct query *q);

/* Nanoseconds of the window in which the selection's profilers took profiles: the union of
 * [time, time + duration). One that sees a whole machine measures a process also while that is
 * idle and in no profile. 0: they do not say. */
bool query_covered(struct query *q, uint64_t *out_ns, struct err *err) MUST_CHECK;

bool query_is_gauge(struct str sample_type);

/* ---- frames ---- */

#define QUERY_FRAME_ROOT  UINT32_MAX       /* frame of a tree's first node */
#define QUERY_FRAME_OTHER (UINT32_MAX - 1) /* pruned siblings together */

struct query_frame {
	uint64_t key; /* hash of what it is told apart by: means the same in every answer */
	struct str type, binary, function, file;
	int64_t line;     /* by=line, else where the first one seen was; by=file, by=binary: 0 */
	uint64_t address; /* by=address, else 0 */
	bool inlined;
	bool group; /* no code: a value of the tree's group_by (its function; "" where there is
		       none) */
	bool found, searched; /* by the answer's search; was it looked at? */
};
struct buf;
/* "malloc", "libc.so.6+?", "libc.so.6+0x27250", "[kernel]+?", "main.c:17" (by=line). */
void query_frame_append_name(struct buf *b, const struct query_frame *f, enum query_by by);

struct query_frames {
	const struct query_frame *ptr;
	uint32_t count;
};

/* Values of one selection, or of the two sides of a diff. */
enum { QUERY_LEFT, QUERY_RIGHT, QUERY_SIDES };

/* ---- flame graph ---- */

struct query_tree_options {
	bool inverted;
	uint32_t nodes_most;  /* 0: 16384 */
	double share_least;   /* of the total: lighter nodes are pruned; 0: none for it */
	const uint64_t *path; /* keys of frames from the root: only what is below them; `partial`
				 says when there is no such path */
	uint32_t path_count;
	struct str search; /* regex within the names; empty: none */
	/* A label: its values are the root's children, outermost frames that no filter sees. Empty:
	 * none. Not for sandwiches. */
	struct str group_by;
};

/* A node in pre-order: a parent stands before its children, heavier children first. */
struct query_node {
	uint32_t frame, depth; /* the root has depth 0 */
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
};

struct query_tree {
	const struct query_node *nodes;
	uint32_t node_count;
	struct query_frames frames;
	int64_t total[QUERY_SIDES];
	int64_t matched[QUERY_SIDES]; /* search: values of stacks that hold a found frame, of the
					 tree's, drawn or not. The paths to the heaviest found ones
					 are there whatever they weigh */
	uint32_t pruned_nodes;        /* children of nodes that are shown; not what is below them */
	int64_t unresolved[QUERY_SIDES]; /* partial: part of the root's `other` */
	uint64_t stacks;                 /* distinct */
};
bool query_flamegraph(struct query *q, const struct query_tree_options *o, struct query_tree *out,
		      struct err *err) MUST_CHECK;
/* Two selections (of one source or of two) in one tree. Both must have the same type. The tree is
 * left's memory. */
bool query_diff(struct query *left, struct query *right, const struct query_tree_options *o,
		struct query_tree *out, struct err *err) MUST_CHECK;

/* Who calls a function and whom it calls, from its outermost occurrence in each stack. */
struct query_sandwich {
	struct query_tree callers,
		callees; /* the function itself is each one's only child of the root */
	bool found;
};
bool query_sandwich(struct query *q, uint64_t frame_key, const struct query_tree_options *o,
		    struct query_sandwich *out, struct err *err) MUST_CHECK;

/* ---- top table: of all stacks, pruned by nothing ---- */

struct query_top_row {
	uint32_t frame;
	int64_t self[QUERY_SIDES],
		total[QUERY_SIDES]; /* a stack counts once however deep it recurses */
};
struct query_top {
	const struct query_top_row *rows; /* by self, then total, descending */
	uint32_t row_count;
	struct query_frames frames;
	int64_t total[QUERY_SIDES], unresolved[QUERY_SIDES];
	uint64_t stacks;
};
bool query_top(struct query *q, struct query_top *out, struct err *err) MUST_CHECK;
bool query_top_diff(struct query *left, struct query *right, struct query_top *out,
		    struct err *err) MUST_CHECK;

/* ---- lines of a source file ---- */

struct query_line_cost {
	int64_t line, self, total; /* a stack counts once however often it is in the line */
};
struct query_lines {
	struct str file;
	const struct query_line_cost *lines; /* ascending; those without a cost are not in it */
	uint32_t line_count;
	int64_t total; /* of everything in the selection */
};
/* Of `file`, or, where that is empty, of the file that `function` costs most in ("": no frame of it
 * says). Transforms act as they do with the query's own `by`. */
bool query_lines(struct query *q, struct str function, struct str file, struct query_lines *out,
		 struct err *err) MUST_CHECK;

/* ---- time ---- */

struct query_timeline_options {
	uint64_t step_ns;           /* 0: the range in `steps` */
	uint32_t steps;             /* 0: 200. An open end of the range is where the samples end */
	struct source_range within; /* zero: the query's */
	struct str group_by;        /* an attribute; empty: one group */
	uint32_t groups_most;       /* 0: 20; the lightest go together into `other` */
	bool average; /* of the profiles with events in the bucket and group, no sum */
	/* What has no timestamps lasts as long as its profile: sums are spread over that time (all
	 * of it within the range), gauges hold their level. Else it is where its profile begins. */
	bool spread;
};
struct query_group {
	struct str label; /* "" also where there is no such attribute */
	bool other;
	const int64_t *values; /* bucket_count */
	int64_t total;
};
struct query_timeline {
	uint64_t from, step_ns; /* bucket i is [from + i * step, + step), cut by the range */
	uint32_t bucket_count, group_count;
	const struct query_group *groups; /* heaviest first */
	const bool *covered;              /* a bucket that some profile was being taken in */
	bool gauge;                       /* values are levels, no sums of their time */
};
bool query_timeline(struct query *q, const struct query_timeline_options *o,
		    struct query_timeline *out, struct err *err) MUST_CHECK;

/* Columns of time, each cut into rows: the finer time within a column. */
struct query_heatmap_options {
	uint64_t column_ns; /* 0: one second, or as many as make `columns` of the range */
	uint32_t columns;   /* 0: any number */
	uint32_t rows;      /* 0: 50 */
};
struct query_heatmap {
	uint64_t from, column_ns;
	uint32_t columns, rows;
	const int64_t *values; /* columns * rows, column by column */
	int64_t most;
};
bool query_heatmap(struct query *q, const struct query_heatmap_options *o,
		   struct query_heatmap *out, struct err *err) MUST_CHECK;

/*
 * Flame chart: what each thread did when. A lane is one thread (host, container, pid, thread.id),
 * whatever the cpu. Counted samples (on-CPU) begin at their timestamp and last one period; where
 * the next one of the lane follows within 1.5 periods they last until it begins. What carries its
 * time (off-CPU) ends at its timestamp and lasts its value; without timestamps it begins with the
 * profile. Everything else is a moment.
 * Binned to pixels: in each pixel's time, from the root, the frame that was on the stack longest;
 * equal paths of neighbouring pixels are one box. `busy` is how long a box's path was seen within
 * its time: less than to - from where it rested in between.
 */
struct query_chart_options {
	uint32_t width;         /* pixels the window is drawn on; 0: 1200, at most 4000 */
	uint32_t lanes_most;    /* 0: 50, at most 200 */
	uint32_t lanes_skipped; /* the busiest ones, of pages before */
};
struct query_box {
	uint64_t from, to, busy;
	uint32_t frame, depth; /* the root's callee has depth 0 */
};
struct query_lane {
	struct str host, container, pid, process, tid, thread; /* "" where it is not said */
	int64_t value;
	uint64_t events;
	const struct query_box *boxes; /* by from, then depth */
	uint32_t box_count;
};
struct query_chart {
	struct source_range range;
	uint64_t bin_ns;
	const struct query_lane *lanes; /* heaviest first */
	uint32_t lane_count, lanes_in_all;
	struct query_frames frames;
};
bool query_chart(struct query *q, const struct query_chart_options *o, struct query_chart *out,
		 struct err *err) MUST_CHECK;

/* What agents reported of the window: sums by reason ("sampled", "dropped:<why>", "cut",
 * "unnamed"). None: they do not report, which is not 0. */
struct query_loss {
	struct str reason;
	uint64_t n;
};
struct query_losses {
	const struct query_loss *ptr; /* by reason */
	uint32_t count;
};
bool query_losses(struct query *q, struct query_losses *out, struct err *err) MUST_CHECK;

/* ---- samples and labels ---- */

struct query_samples_options {
	uint32_t page; /* samples; 0: 100, at most 10,000 */
	uint64_t after_time,
		after_sample; /* the last one of the page before; 0, 0: the first page */
	bool newest_first;
};
struct query_sample {
	uint64_t time, sample; /* the first event's; place in order of arrival */
	uint64_t profile_time, profile_duration;
	uint8_t profile_id[16], trace_id[16], span_id[8];                  /* zero: none */
	struct source_attributes attributes, profile_attributes, resource; /* as they came */
	int64_t value; /* all its events', converted as everywhere */
	const uint64_t *timestamps;
	const int64_t *values; /* as they came */
	uint32_t timestamp_count, value_count;
	const uint32_t *frames; /* leaf first */
	uint32_t frame_count;
};
struct query_samples {
	const struct query_sample *ptr; /* by (time, sample), or the other way round */
	uint32_t count;
	bool more;
	struct query_frames frames;
};
bool query_samples(struct query *q, const struct query_samples_options *o,
		   struct query_samples *out, struct err *err) MUST_CHECK;

/* Attributes of the selection: keys, and the values of one. */
struct query_label {
	struct str text;
	uint64_t events; /* in the window */
	int64_t value;   /* of the type at hand */
};
struct query_labels {
	const struct query_label *ptr; /* keys by name; values by weight */
	uint32_t count;
	bool cut; /* more than `most` values */
};
struct query_values_options {
	struct str key;
	struct str match; /* in it, ASCII letters in either case; "": all */
	uint32_t most;    /* 0: 1000 */
};
bool query_label_names(struct query *q, struct query_labels *out, struct err *err) MUST_CHECK;
bool query_label_values(struct query *q, const struct query_values_options *o,
			struct query_labels *out, struct err *err) MUST_CHECK;

/* ---- whole samples ---- */

struct profiles;
/* The selection as a message of its own, for the writers of formats/: samples with an event
 * in the window, whole or, with `clip`, as far as they are in it; where there are filters or
 * another `by`, with stacks of the frames that these leave. The caller frees. */
bool query_collect(struct query *q, struct profiles **out, struct err *err) MUST_CHECK;
/* As one profile of the selection's type: a sample a stack, with the value that the flame graph has
 * for it, and no attributes, links or timestamps. */
bool query_collect_merged(struct query *q, struct profiles **out, struct err *err) MUST_CHECK;

/* The series that have events in the window, as their attributes of resource, scope and profile
 * type say; of the chosen type. The callback may end the walk with its own err. */
bool query_each_series(struct query *q, source_series_fn *fn, void *ctx,
		       struct err *err) MUST_CHECK;

/* What labels come together: of a series, of samples in it (their own attributes), and of the
 * profiles those are of. `wanted` says which keys of samples and profiles it is about; where
 * samples have none of them, each series comes once. Equal sets may come several times. */
struct query_label_pair {
	struct str key, value;
};
struct query_label_pairs {
	const struct query_label_pair *ptr;
	uint32_t count;
};
struct query_label_set {
	const struct source_series *series;
	struct query_label_pairs sample, profile; /* where both say something, the sample's holds */
};
typedef bool query_label_wanted_fn(void *ctx, struct str key);
typedef bool query_label_set_fn(void *ctx, const struct query_label_set *set, struct err *err);
bool query_each_label_set(struct query *q, query_label_wanted_fn *wanted, query_label_set_fn *fn,
			  void *ctx, struct err *err) MUST_CHECK;
