/*
 * live_delta.c - a window that moves, from one state to the next: the stacks that came, those that
 * left, and their places in the timeline.
 *
 * What came is asked for by `after`: only new samples are walked, however long the window is. What
 * left is a slice of time at its beginning. How many processes are in it can't be added up so.
 */
#include "base/clock.h"
#include "web/internal.h"
#include "web/json_write.h"

enum {
	NODES_MOST = 100000,
	GROUPS_MOST = 1000,
	TEXT_BYTES_MOST = 2 << 20,
	BUCKETS_MOST = 2000,
	AHEAD_S = 60, /* clocks differ */
	FRAME_INLINED = 1,
	FRAME_GROUP = 2,
};

struct part {
	const struct live_selection *selection;
	struct query_request request;
	enum query_by by;
	struct buf *out;
	bool newest; /* what came, else what left */
	bool coverage;
};

static void put_frames(struct buf *b, const struct query_frames *frames, enum query_by by)
{
	buf_lit(b, ",\"frames\":[");
	for (uint32_t i = 0; i < frames->count; i++) {
		const struct query_frame *f = &frames->ptr[i];

		buf_str(b, i ? STR(",[") : STR("["));
		json_frame(b, f, by);
		buf_printf(b, ",%d,\"%016llx\"]",
			   (f->inlined ? FRAME_INLINED : 0) | (f->group ? FRAME_GROUP : 0),
			   (unsigned long long)f->key);
	}
	buf_char(b, ']');
}

/* Depth, frame (-1: none, the root's or `other`) and self of each, a parent before its children. */
static void put_nodes(struct buf *b, const struct query_tree *tree)
{
	buf_lit(b, ",\"nodes\":[");
	for (uint32_t i = 0; i < tree->node_count; i++) {
		const struct query_node *n = &tree->nodes[i];

		if (i)
			buf_char(b, ',');
		buf_u64(b, n->depth);
		buf_char(b, ',');
		buf_i64(b, n->frame < tree->frames.count ? (int64_t)n->frame : -1);
		buf_char(b, ',');
		buf_i64(b, n->self[QUERY_LEFT]);
	}
	buf_char(b, ']');
}

static bool put_tree(struct part *p, struct query *q, struct err *err)
{
	const struct query_tree_options o = {
		.nodes_most = NODES_MOST,
		.group_by = params_get(&p->selection->params, "group"),
	};
	struct query_tree tree;
	struct query_facts f;
	uint64_t covered;

	if (!query_flamegraph(q, &o, &tree, err))
		return false;
	f = query_facts(q);
	if (tree.pruned_nodes || f.partial)
		return err_set(err, ERR_LIMIT, "more than %d nodes at once", NODES_MOST);
	if (!query_covered(q, &covered, err))
		return false;
	buf_printf(p->out, "{\"total\":%lld,\"samples\":%llu,\"stacks\":%llu,\"seconds\":%.9g",
		   (long long)tree.total[QUERY_LEFT], (unsigned long long)f.events,
		   (unsigned long long)tree.stacks, (double)covered / 1e9);
	put_frames(p->out, &tree.frames, p->by);
	put_nodes(p->out, &tree);
	return true;
}

/* The buckets from the first to the last that has something. */
static void put_timeline(struct buf *b, const struct query_timeline *t, struct str key)
{
	uint32_t first = 0, end = t->bucket_count;

	while (first < end && !t->covered[first])
		first++;
	while (end > first && !t->covered[end - 1])
		end--;
	buf_lit(b, ",\"timeline\":{\"start_ns\":\"");
	buf_u64(b, t->from + first * t->step_ns);
	buf_lit(b, "\",\"step_ns\":");
	buf_u64(b, t->step_ns);
	buf_lit(b, ",\"series\":[");
	for (uint32_t i = 0; i < t->group_count; i++) {
		buf_str(b, i ? STR(",{\"labels\":{") : STR("{\"labels\":{"));
		if (key.len) {
			buf_json_string(b, key);
			buf_char(b, ':');
			buf_json_string(b, t->groups[i].other ? STR("other") : t->groups[i].label);
		}
		buf_lit(b, "},\"values\":[");
		for (uint32_t at = first; at < end; at++) {
			if (at > first)
				buf_char(b, ',');
			buf_i64(b, t->groups[i].values[at]);
		}
		buf_lit(b, "]}");
	}
	buf_lit(b, "],\"covered\":[");
	for (uint32_t at = first; at < end; at++)
		buf_printf(b, "%s%d", at > first ? "," : "", t->covered[at]);
	buf_lit(b, "]}");
}

/* The timeline may be told apart by another label than the graph. */
static struct str timeline_group(const struct params *p)
{
	return params_get(p, params_has(p, "timeline_group") ? "timeline_group" : "group");
}

static bool put_time(struct part *p, struct query *q, struct err *err)
{
	uint64_t step = p->selection->step_ns, now = clock_realtime_ns();
	struct query_timeline_options o = {
		.step_ns = step,
		.group_by = timeline_group(&p->selection->params),
		.groups_most = GROUPS_MOST,
		.spread = true,
	};
	struct query_timeline t;

	o.within.from = p->request.range.from / step * step;
	o.within.to = (now / step + 1) * step + AHEAD_S * UINT64_C(1000000000);
	if (o.within.to <= o.within.from || (o.within.to - o.within.from) / step > BUCKETS_MOST)
		return err_set(err, ERR_LIMIT, "more than %d steps in the window", BUCKETS_MOST);
	if (!query_timeline(q, &o, &t, err))
		return false;
	put_timeline(p->out, &t, o.group_by);
	return true;
}

/* What the tree filters by itself leaves no events to a timeline of it, either. */
static bool put_filtered_time(struct part *p, struct query *q, struct err *err)
{
	struct query_request by_stack = p->request;
	bool ok;

	if (!by_stack.filter_count)
		return put_time(p, q, err);
	by_stack.filters_choose = true;
	q = query_begin(&by_stack, err);
	ok = q && put_time(p, q, err);
	query_end(q);
	return ok;
}

static bool put_coverage(struct part *p, struct query *q, struct err *err)
{
	struct query_losses losses;

	if (!query_losses(q, &losses, err))
		return false;
	buf_lit(p->out, ",\"coverage\":{");
	for (uint32_t i = 0; i < losses.count; i++) {
		if (i)
			buf_char(p->out, ',');
		buf_json_string(p->out, losses.ptr[i].reason);
		buf_printf(p->out, ":%llu", (unsigned long long)losses.ptr[i].n);
	}
	buf_char(p->out, '}');
	return true;
}

static bool put_part(struct part *p, struct err *err)
{
	struct query *q = query_begin(&p->request, err);
	bool ok = q != NULL;

	if (ok && query_facts(q).type.gauge)
		ok = err_set(err, ERR_UNSUPPORTED, "averages do not add up");
	ok = ok && put_tree(p, q, err) && (!p->newest || put_filtered_time(p, q, err)) &&
	     (!p->coverage || put_coverage(p, q, err));
	if (ok)
		buf_char(p->out, '}');
	query_end(q);
	return ok;
}

static bool any_series(void *ctx, const struct source_series *s, struct err *err)
{
	(void)ctx;
	(void)s;
	(void)err;
	return true;
}

/* Of the whole window. Where that can't be said in time, nothing is. */
static void put_processes(struct part *p, struct live_state is)
{
	struct query_request whole = p->request;
	struct err ignored;
	struct query *q;

	whole.after = 0;
	whole.range = (struct source_range){ is.from, UINT64_MAX };
	q = query_begin(&whole, &ignored);
	if (q && query_each_series(q, any_series, NULL, &ignored))
		buf_printf(p->out, ",\"processes\":%u", query_facts(q).processes);
	query_end(q);
}

bool live_delta(struct source *source, const struct live_selection *s, struct live_state was,
		struct live_state is, struct live_also also, struct buf *out, struct err *err)
{
	struct web_ask a = { .options = s->options,
			     .params = s->params,
			     .source = source,
			     .now_ns = clock_realtime_ns(),
			     .deadline_ns = clock_monotonic_ns() + s->options->timeout_ns,
			     .cancelled = s->cancelled };
	struct part p = { .selection = s, .by = web_by(&a), .out = out };
	size_t limit = out->limit_bytes;
	bool ok;

	arena_init(&a.arena, 4096, 0);
	out->limit_bytes = out->len + TEXT_BYTES_MOST;
	buf_printf(out,
		   "{\"asof\":\"%llu\",\"from\":\"%llu\",\"add\":", (unsigned long long)is.asof,
		   (unsigned long long)is.from);
	ok = web_request(&a, 0, &p.request, err);
	p.request.asof = is.asof;
	if (ok) {
		p.newest = true;
		p.coverage = also.coverage;
		p.request.after = was.asof;
		p.request.range = (struct source_range){ was.from, UINT64_MAX };
		ok = put_part(&p, err);
	}
	if (ok && is.from > was.from) {
		p.newest = p.coverage = false;
		p.request.after = 0;
		p.request.range = (struct source_range){ was.from, is.from };
		buf_lit(out, ",\"drop\":");
		ok = put_part(&p, err);
	}
	if (ok && also.processes)
		put_processes(&p, is);
	buf_char(out, '}');
	if (ok && out->failed)
		ok = err_set(err, ERR_LIMIT, "more than %d bytes at once", TEXT_BYTES_MOST);
	out->limit_bytes = limit;
	arena_release(&a.arena);
	return ok;
}
