/*
 * pyro.h - the query API of Pyroscope: what its messages say, and the parts its answers share.
 *
 * querier.v1.QuerierService over Connect (connect.h) and gRPC; GET /pyroscope/render,
 * /render-diff, /label-values. Times are milliseconds, steps seconds. A profile type or selector
 * that nothing matches has an empty answer; what is no type's id is refused. Source: the query API
 * as Grafana's data source uses it (docs/api.md).
 */
#pragma once
#include "web/connect.h"

enum { PYRO_LIST_MOST = 64, PYRO_NODES_DEFAULT = 8192 };

struct pyro_list {
	struct str items[PYRO_LIST_MOST];
	uint32_t count;
};

enum pyro_format { PYRO_UNSPECIFIED, PYRO_FLAMEGRAPH, PYRO_TREE, PYRO_DOT, PYRO_PPROF };

/* One shape for all requests: what a message has not is zero. */
struct pyro_request {
	struct str profile_type, selector, name;
	struct pyro_list matchers, labels, spans, traces, profile_ids;
	int64_t start, end, max_nodes, limit; /* ms */
	double step;                          /* s */
	enum pyro_format format;
	bool average;
	struct str left, right, stack_traces; /* messages */
};

/* pyro_messages.c */
enum pyro_method {
	PYRO_PROFILE_TYPES,
	PYRO_LABEL_NAMES,
	PYRO_LABEL_VALUES,
	PYRO_SERIES,
	PYRO_SELECT_SERIES,
	PYRO_MERGE_STACKTRACES,
	PYRO_MERGE_SPAN_PROFILE,
	PYRO_MERGE_PROFILE,
	PYRO_DIFF,
	PYRO_PROFILE_STATS,
	PYRO_METHODS
};
extern const struct connect_method pyro_methods[PYRO_METHODS];
bool pyro_request_read(const struct proto_message *m, struct str message, struct pyro_request *out,
		       struct err *err) MUST_CHECK;

/* pyro_select.c: is it an id such as ProfileTypes answers? Whether there is such a type is another
 * question. */
bool pyro_type_id_check(struct str id, struct err *err) MUST_CHECK;
/* The selection of a request. ERR_NOT_FOUND: no such profile type. */
struct query *pyro_begin(struct web_ask *a, const struct pyro_request *r, struct str selector,
			 struct str profile_type, struct err *err) MUST_CHECK;
struct go_pgo_options; /* formats/go_pgo.h */
/* What its stack_trace_selector.go_pgo says; *asked: it has one. */
bool pyro_pgo_read(const struct pyro_request *r, struct go_pgo_options *out, bool *asked,
		   struct err *err) MUST_CHECK;
/* Each selection that a request without a profile type means: of each selector, or of all, each
 * profile type. */
typedef bool pyro_each_fn(void *ctx, struct query *q, struct err *err);
bool pyro_each(struct web_ask *a, const struct pyro_request *r, pyro_each_fn *fn, void *ctx,
	       struct err *err) MUST_CHECK;

/* pyro_tree.c: a tree in which brothers have different names, as Pyroscope's have. */
struct pyro_node {
	uint32_t name, parent;      /* of names, of nodes */
	uint32_t first, last, next; /* children; 0: none */
	int64_t total[QUERY_SIDES], self[QUERY_SIDES];
};
struct pyro_tree {
	struct pyro_node *nodes; /* 0 is the root */
	struct str *names;       /* 0 is "total" */
	uint32_t node_count, name_count;
};
void pyro_tree_make(const struct query_tree *t, struct arena *arena, struct pyro_tree *out);
/* Bars by level, `per` numbers each: (offset from the end of the bar before, total, self) once or,
 * with two sides, twice, then the name. */
struct pyro_level {
	int64_t *values;
	uint32_t count, cap;
};
struct pyro_levels {
	struct pyro_level *levels;
	uint32_t count;
	int64_t max_self;
};
void pyro_levels_make(const struct pyro_tree *t, int sides, struct arena *arena,
		      struct pyro_levels *out);
/* The bytes that Pyroscope's tree format is. */
void pyro_tree_bytes(const struct pyro_tree *t, struct buf *out);

/* A request's tree, pprof or difference: answers 1 to n of pyro_stacks.c share them with render. */
bool pyro_flamegraph(struct web_ask *a, struct query *q, int64_t max_nodes, struct pyro_tree *out,
		     struct err *err) MUST_CHECK;
/* As Graphviz's DOT, the heaviest functions of the whole tree; max_nodes <= 0: as many as a page
 * holds. */
bool pyro_dot(struct query *q, int64_t max_nodes, struct buf *out, struct err *err) MUST_CHECK;
bool pyro_diff(struct web_ask *a, struct query *left, struct query *right, int64_t max_nodes,
	       struct pyro_tree *out, struct err *err) MUST_CHECK;

web_answer_fn pyro_answer_profile_types, pyro_answer_label_names, pyro_answer_label_values,
	pyro_answer_series, pyro_answer_select_series, pyro_answer_merge_stacktraces,
	pyro_answer_merge_span_profile, pyro_answer_merge_profile, pyro_answer_diff,
	pyro_answer_profile_stats;
/* REST: pyro_render.c */
web_answer_fn pyro_answer_render, pyro_answer_render_diff, pyro_answer_rest_label_values;

/* "service.name" as Grafana can name it: service_name. */
struct str pyro_label_name(struct arena *arena, struct str key);
