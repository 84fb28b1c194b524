/*
 * query.h - questions about samples and their answers: the whole interface of the engine.
 *
 *   query_begin() -> query_flamegraph(), query_top(), query_timeline(), ... -> query_end()
 *
 * A struct query is one selection of one source, and holds what several questions about it share:
 * the series that match, and the state of the source. Every request of the HTTP API is one
 * query_request and one answer here; query/json.h writes the answers as JSON.
 *
 * Window: an event counts at its timestamp, with the value of that timestamp; a sample without
 * timestamps is one event at the start of its profile. Adjacent windows add up to their union.
 * Values: a question is about one profile type, so units are never mixed. Counts of a period in
 * nanoseconds are shown as CPU time (count * period). Gauges (query_is_gauge()) are averaged over
 * the profiles of one resource and scope, then summed over resources and scopes. The average is
 * over all profiles that begin in the window (or in the bucket of a timeline), even those without
 * samples of the selection: so the parts of a selection add up to the whole. Other values are
 * summed.
 * Frames: a frame is (frame type, binary, function, inlined or not); `by` changes that. Native code
 * without a name is one frame per binary ("libc.so.6+?"), which by=address splits. Inlined
 * functions are frames of their own.
 * asof: every answer names the state of the source that it describes. Send that state, and absolute
 * times, with the questions that follow, and the numbers add up.
 *
 * Memory: an answer lives until query_end(). A question that needs more than `limit_bytes` gets a
 * coarser answer (`partial`, with a reason: the lightest stacks go unresolved into "other"); if
 * even that does not fit, it is refused (ERR_LIMIT).
 * Threads: a query belongs to one thread; queries of one source run one after another.
 */
#pragma once
#include <stdatomic.h>
#include "base/arena.h"
#include "store/source.h"

enum { QUERY_LIMIT_BYTES = 32 << 20, QUERY_NODES_MOST = 1 << 20, QUERY_FILTERS_MOST = 16 };

/* What distinguishes frames, beyond their type. */
enum query_by {
	QUERY_BY_FUNCTION,
	QUERY_BY_LINE,
	QUERY_BY_ADDRESS,
	QUERY_BY_FILE,
	QUERY_BY_BINARY
};
/* "function", "line", ... */
bool query_by_parse(struct str text, enum query_by *out, struct err *err) MUST_CHECK;

/* Filters of stacks: a regex is searched in the frame's function, file, binary or type, whatever
 * `by` shows in its place. A pattern ^...$ for functions may also match the whole name that is
 * shown. Filters run in the order given, each on the frames that the ones before it left. */
enum query_filter_kind {
	FILTER_FOCUS,     /* keep only stacks with such a frame (all focus filters must match) */
	FILTER_IGNORE,    /* drop stacks with such a frame */
	FILTER_HIDE,      /* remove such frames; their callers take over what they cost */
	FILTER_SHOW_FROM, /* begin stacks at their first such frame; drop stacks without one */
	FILTER_COLLAPSE,  /* merge neighbouring frames of this kind into the first of them */
	FILTER_RECURSION, /* merge such a frame, its innermost repetition and all between them into
			     one frame; an empty pattern means any frame */
};
enum query_filter_field { FIELD_FUNCTION, FIELD_FILE, FIELD_BINARY, FIELD_TYPE };
struct query_filter {
	enum query_filter_kind kind;
	enum query_filter_field field;
	struct str pattern;
};
/* "focus", ..., "show_from" or "show-from". False: unknown kind. */
bool query_filter_kind_parse(struct str name, enum query_filter_kind *out) MUST_CHECK;
/* "regex", "function:regex", "file:regex", "binary:regex", "type:regex". */
void query_filter_parse(struct str text, enum query_filter_kind kind, struct query_filter *out);

/* Has everybody stopped waiting for the answer? */
typedef bool query_given_up_fn(const void *ctx);

struct query_request {
	struct source *source;     /* borrowed; outlives the query */
	struct source_range range; /* zero: all */
	struct str selector;       /* selector.h; may name the profile type */
	struct str profile_type;   /* "cpu", "off_cpu", "inuse_space", "alloc_space:bytes" or
				      all five parts of the id; empty: as the selector says, else the
				      most usual one that matches */
	struct str group_by; /* the label that the answer will be grouped by, if known: it saves
				reading the series again. May be empty */
	struct query_filter filters[QUERY_FILTERS_MOST];
	uint32_t filter_count;
	bool filters_choose; /* for answers about events: ignore those whose stack the filters drop.
				Answers about stacks always do */
	enum query_by by;
	const uint8_t *trace_id, *span_id; /* 16 and 8 bytes, or NULL */
	uint32_t trace_count,
		span_count;          /* ids one after another, any of which may match; 0: one */
	const uint8_t *profile_ids;  /* 16 bytes each: only samples of these profiles */
	uint32_t profile_id_count;   /* 0: of all */
	const struct str *call_site; /* names of frames (query_frame_append_name), root first: only
					samples whose stack starts with these, before any filter */
	uint32_t call_site_count;    /* 0: all */
	uint64_t asof;               /* 0: the newest */
	uint64_t after;  /* only what arrived after that state (an earlier `asof`), to be added to
			    its answer; 0: all. Not for gauges: averages do not add up */
	bool gauge_last; /* gauges: the last profile instead of the average */
	bool clip;       /* query_collect: of a sample keep only the events in the window */
	bool average;    /* query_collect, for formats whose readers add up all samples: samples of
			    a gauge hold their part of the average, and a type that came in
			    several units, or as counts here and as time there, gets one unit */
	bool one_scale;  /* with `average`: counts of different periods get one unit, too */
	bool by_share;   /* diffs: only shares will be compared, so one side may have plain numbers
			    without a unit ("samples:count", as folded stacks have) */
	size_t limit_bytes;           /* 0: QUERY_LIMIT_BYTES */
	uint64_t deadline_ns;         /* clock_monotonic_ns(); 0: none. ERR_TIMEOUT */
	const atomic_bool *cancelled; /* may be NULL. ERR_CANCELLED */
	query_given_up_fn *given_up;  /* may be NULL; called now and then, as `cancelled` is read */
	const void *given_up_ctx;
};

/* A profile type as answers show it. */
struct query_type {
	struct str id;   /* "process_cpu:cpu:nanoseconds:cpu:nanoseconds" */
	struct str name; /* "process_cpu" */
	struct str type, unit, period_type, period_unit;
	bool gauge;
	bool preferred;   /* its sender wants it to be shown first */
	uint32_t last_of; /* number of pprofs that prefer no type and have this one last */
	uint32_t series_count;
};

struct query;

struct query *query_begin(const struct query_request *request, struct err *err) MUST_CHECK;
void query_end(struct query *q); /* NULL is fine */

/* What the selection has. */
struct query_facts {
	struct source_range range; /* as asked */
	uint64_t asof;
	struct query_type type; /* the one that answers are about; empty id: nothing matches */
	const struct query_type *types;    /* all that match */
	uint32_t type_count, series_count; /* series of the type */
	bool type_asked;    /* chosen by the request or its selector, not by default */
	int64_t period;     /* of the first series */
	uint64_t events;    /* in the window, as counted by the last answer */
	uint32_t processes; /* distinct (host, container, pid) of these events */
	bool partial;       /* of the last answer; `reason` says why */
	const char *reason;
	bool filtered; /* a focus, ignore or show_from filter may drop stacks */
};
struct query_facts query_facts(const struct query *q);

/* Nanoseconds of the window that the profilers of the selection covered: the union of
 * [time, time + duration) of their profiles. A profiler of a whole machine also covers a process
 * while it is idle and in no profile. 0: unknown. */
bool query_covered(struct query *q, uint64_t *out_ns, struct err *err) MUST_CHECK;

bool query_is_gauge(struct str sample_type);

/* ---- frames ---- */

#define QUERY_FRAME_ROOT  UINT32_MAX       /* the frame of a tree's first node */
#define QUERY_FRAME_OTHER (UINT32_MAX - 1) /* all pruned siblings */

struct query_frame {
	uint64_t key; /* hash of what distinguishes it; the same in every answer */
	struct str type, binary, function, file;
	int64_t line;     /* by=line; else the first line seen; by=file, by=binary: 0 */
	uint64_t address; /* by=address, else 0 */
	bool inlined;
	bool group; /* not code but a value of the tree's group_by, in `function`; "": it has none
		     */
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
	double share_least;   /* of the total: lighter nodes are pruned; 0: no such limit */
	const uint64_t *path; /* keys of frames from the root: only what is below; `partial` says
				 if there is no such path */
	uint32_t path_count;
	struct str search; /* regex searched in names; empty: none */
	/* A label whose values become the root's children; filters do not see these. Empty: none.
	 * Not for sandwiches. */
	struct str group_by;
};

/* Nodes are in pre-order, heavier children first. */
struct query_node {
	uint32_t frame, depth; /* the root has depth 0 */
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
};

struct query_tree {
	const struct query_node *nodes;
	uint32_t node_count;
	struct query_frames frames;
	int64_t total[QUERY_SIDES];
	int64_t matched[QUERY_SIDES]; /* search: what the stacks with a found frame add up to, drawn
					 or not. Paths to the heaviest found frames are always kept
				      */
	uint32_t pruned_nodes; /* children of shown nodes; what is below them is not counted */
	int64_t unresolved[QUERY_SIDES]; /* if partial: part of the root's `other` */
	uint64_t stacks;                 /* distinct */
};
bool query_flamegraph(struct query *q, const struct query_tree_options *o, struct query_tree *out,
		      struct err *err) MUST_CHECK;
/* Two selections, of one source or of two, in one tree. Both must have the same type. The tree
 * lives as long as `left`. */
bool query_diff(struct query *left, struct query *right, const struct query_tree_options *o,
		struct query_tree *out, struct err *err) MUST_CHECK;

/* Callers and callees of a function, seen from its outermost occurrence in each stack. */
struct query_sandwich {
	struct query_tree callers,
		callees; /* in both, the function is the only child of the root */
	bool found;
};
bool query_sandwich(struct query *q, uint64_t frame_key, const struct query_tree_options *o,
		    struct query_sandwich *out, struct err *err) MUST_CHECK;

/* ---- top table: of all stacks, not pruned ---- */

struct query_top_row {
	uint32_t frame;
	int64_t self[QUERY_SIDES], total[QUERY_SIDES]; /* a recursive stack counts once */
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
	int64_t line, self, total; /* a stack that is in the line several times counts once */
};
struct query_lines {
	struct str file;
	const struct query_line_cost *lines; /* sorted; only lines with a cost */
	uint32_t line_count;
	int64_t total; /* of everything in the selection */
};
/* Of `file` or, if that is empty, of the file in which `function` costs most ("": no frame of it
 * names a file). Filters see frames as the query's own `by` shows them. */
bool query_lines(struct query *q, struct str function, struct str file, struct query_lines *out,
		 struct err *err) MUST_CHECK;

/* ---- time ---- */

struct query_timeline_options {
	uint64_t step_ns;           /* 0: the range divided by `steps` */
	uint32_t steps;             /* 0: 200. An open range ends where the samples do */
	struct source_range within; /* zero: the query's */
	struct str group_by;        /* an attribute; empty: one group */
	uint32_t groups_most;       /* 0: 20; the lightest are joined into `other` */
	bool average; /* average over the profiles with events in the bucket and group, not sum */
	/* Samples without timestamps last as long as their profile: sums are spread over that time
	 * (all of it within the range), gauges keep their level. Otherwise they count where the
	 * profile begins. */
	bool spread;
};
struct query_group {
	struct str label; /* "" if there is no such attribute, too */
	bool other;
	const int64_t *values; /* bucket_count */
	int64_t total;
};
struct query_timeline {
	uint64_t from, step_ns; /* bucket i is [from + i * step, + step), cut by the range */
	uint32_t bucket_count, group_count;
	const struct query_group *groups; /* heaviest first */
	const bool *covered;              /* by bucket: was a profile being taken then? */
	bool gauge;                       /* values are levels, not sums */
};
bool query_timeline(struct query *q, const struct query_timeline_options *o,
		    struct query_timeline *out, struct err *err) MUST_CHECK;

/* Columns of time, cut into rows: finer time within the column. */
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
 * on whatever CPU. A counted sample (on-CPU) begins at its timestamp and lasts one period, or until
 * the next sample of the lane if that follows within 1.5 periods. A sample that measures time
 * (off-CPU) ends at its timestamp and lasts its value; without timestamps it begins with the
 * profile. Everything else is a moment.
 * Time is cut into pixels. A pixel shows, level by level from the root, the frame that was longest
 * on the stack; neighbouring pixels with equal paths are one box. `busy` is how long the path of a
 * box was really on the stack: less than to - from if it paused in between.
 */
struct query_chart_options {
	uint32_t width;         /* pixels the window is drawn on; 0: 1200, at most 4000 */
	uint32_t lanes_most;    /* 0: 50, at most 200 */
	uint32_t lanes_skipped; /* the busiest ones, which earlier pages showed */
};
struct query_box {
	uint64_t from, to, busy;
	uint32_t frame, depth; /* the root's callee has depth 0 */
};
struct query_lane {
	struct str host, container, pid, process, tid, thread; /* "": not known */
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

/* What agents reported about the window: sums by reason ("sampled", "dropped:<why>", "cut",
 * "unnamed"). An empty list means that nobody reported, not that nothing was lost. */
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
		after_sample; /* the last one of the previous page; 0, 0: the first page */
	bool newest_first;
};
struct query_sample {
	uint64_t time, sample; /* of its first event; its place in order of arrival */
	uint64_t profile_time, profile_duration;
	uint8_t profile_id[16], trace_id[16], span_id[8];                  /* zero: none */
	struct source_attributes attributes, profile_attributes, resource; /* as they came */
	int64_t value; /* of all its events, in the type's unit */
	const uint64_t *timestamps;
	const int64_t *values; /* as they came */
	uint32_t timestamp_count, value_count;
	const uint32_t *frames; /* leaf first */
	uint32_t frame_count;
};
struct query_samples {
	const struct query_sample *ptr; /* by (time, sample), or in reverse */
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
	int64_t value;   /* of the chosen type */
};
struct query_labels {
	const struct query_label *ptr; /* keys by name; values by weight */
	uint32_t count;
	bool cut; /* more than `most` values */
};
struct query_values_options {
	struct str key;
	struct str match; /* only values that contain it, ignoring ASCII case; "": all */
	uint32_t most;    /* 0: 1000 */
};
bool query_label_names(struct query *q, struct query_labels *out, struct err *err) MUST_CHECK;
bool query_label_values(struct query *q, const struct query_values_options *o,
			struct query_labels *out, struct err *err) MUST_CHECK;

/* ---- whole samples ---- */

struct profiles;
/* The selection as a message of its own, for the writers of formats/: all samples with an event in
 * the window, whole or, with `clip`, only with those events. Filters and `by` apply to the stacks.
 * The caller frees. */
bool query_collect(struct query *q, struct profiles **out, struct err *err) MUST_CHECK;
/* As one profile of the selection's type: a sample per stack, with the value that the flame graph
 * shows for it, without attributes, links and timestamps. */
bool query_collect_merged(struct query *q, struct profiles **out, struct err *err) MUST_CHECK;

/* The series of the chosen type that have events in the window. A callback that fails ends the
 * walk. */
bool query_each_series(struct query *q, source_series_fn *fn, void *ctx,
		       struct err *err) MUST_CHECK;

/* Which labels occur together: those of a series, of its samples, and of the profiles of these.
 * `wanted` chooses the keys of samples and profiles that matter; if none occurs, each series is
 * given once. Equal sets may be given several times. */
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
