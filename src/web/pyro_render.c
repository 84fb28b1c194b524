/*
 * pyro_render.c - GET /pyroscope/render and /pyroscope/render-diff: Pyroscope's REST twins.
 *
 *   render?query=TYPE{SELECTOR}&from=now-1h&until=now[&format=json|dot][&maxNodes=N][&groupBy=KEY]
 *         [&aggregation=sum|avg]
 *   render-diff?leftQuery=..&leftFrom=..&leftUntil=..&rightQuery=..&rightFrom=..&rightUntil=..
 *
 * Its `flamebearer` has levels as SelectMergeStacktraces has; the timeline's samples are from
 * startTime on, one each durationDelta seconds.
 */
#include "query/time/time_range.h"
#include "web/pyro.h"

enum { TIMELINE_STEPS = 300 };

static const uint64_t SECOND = 1000000000;

/* ---- what is asked ---- */

/* What stands before the brace, or all of it where no matcher is in it. */
static bool leading_type_check(struct str query, struct err *err)
{
	ptrdiff_t brace = str_find(query, '{');
	struct str type = str_trim(brace >= 0 ? str_head(query, (size_t)brace) : query);

	for (size_t i = 0; i < type.len; i++)
		if (strchr("=~\"'`", type.ptr[i]))
			return true;
	return !type.len || pyro_type_id_check(type, err);
}

/* from and until; an hour up to now where they are absent, as Pyroscope has it. */
static struct query *begin_side(struct web_ask *a, const char *query, const char *from,
				const char *until, struct err *err)
{
	struct query_request q = {
		.source = a->source,
		.selector = params_get(&a->params, query),
		.deadline_ns = a->deadline_ns,
		.cancelled = a->cancelled,
		.given_up = a->given_up,
		.given_up_ctx = a->given_up_ctx,
	};
	struct str begin = params_get(&a->params, from), end = params_get(&a->params, until);

	if (!q.selector.len) {
		err_set(err, ERR_INVALID, "%s is missing: which profiles?", query);
		return NULL;
	}
	if (!leading_type_check(q.selector, err) ||
	    !time_range_parse(begin.len ? begin : STR("now-1h"), end.len ? end : STR("now"),
			      a->now_ns, &q.range, err))
		return NULL;
	return query_begin(&q, err);
}

static bool max_nodes(struct web_ask *a, int64_t *out, struct err *err)
{
	uint32_t nodes;

	if (!params_u32(&a->params, params_has(&a->params, "max-nodes") ? "max-nodes" : "maxNodes",
			0, QUERY_NODES_MOST, 0, &nodes, err))
		return false;
	*out = nodes;
	return true;
}

/* ---- the answer ---- */

static void put_numbers(struct buf *b, const struct pyro_level *l)
{
	buf_char(b, '[');
	for (uint32_t i = 0; i < l->count; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, l->values[i]);
	}
	buf_char(b, ']');
}

static void put_flamebearer(struct web_ask *a, const struct pyro_tree *t, int sides)
{
	struct pyro_levels levels;
	struct buf *b = &a->body;
	int64_t total = t->nodes[0].total[0] + (sides == 2 ? t->nodes[0].total[1] : 0);

	pyro_levels_make(t, sides, &a->arena, &levels);
	buf_lit(b, "\"flamebearer\":{\"names\":[");
	for (uint32_t i = 0; i < t->name_count; i++) {
		if (i)
			buf_char(b, ',');
		buf_json_string(b, t->names[i]);
	}
	buf_lit(b, "],\"levels\":[");
	for (uint32_t i = 0; i < levels.count; i++) {
		if (i)
			buf_char(b, ',');
		put_numbers(b, &levels.levels[i]);
	}
	buf_printf(b, "],\"numTicks\":%lld,\"maxSelf\":%lld}", (long long)total,
		   (long long)levels.max_self);
}

/* Values in nanoseconds are "samples" of which a second has 10^9. */
static void put_metadata(struct buf *b, const struct query_type *t, const char *format)
{
	bool time = str_is(t->unit, "nanoseconds");
	struct str units = time ? STR("samples") : t->unit;

	if (str_is(t->unit, "count"))
		units = STR("objects");
	buf_printf(b,
		   ",\"metadata\":{\"format\":\"%s\",\"spyName\":\"\",\"sampleRate\":%d,"
		   "\"units\":",
		   format, time ? 1000000000 : 100);
	buf_json_string(b, units);
	buf_lit(b, ",\"name\":");
	buf_json_string(b, t->type);
	buf_char(b, '}');
}

static void put_timeline(struct buf *b, const struct query_timeline *t, const struct query_group *g)
{
	buf_printf(b, "{\"startTime\":%llu,\"samples\":[", (unsigned long long)(t->from / SECOND));
	for (uint32_t i = 0; i < t->bucket_count; i++) {
		if (i)
			buf_char(b, ',');
		buf_i64(b, g ? g->values[i] : 0);
	}
	buf_printf(b, "],\"durationDelta\":%llu,\"watermarks\":null}",
		   (unsigned long long)(t->step_ns / SECOND));
}

/* Whole seconds, so that startTime and durationDelta say it. */
static uint64_t step_of(struct source_range r)
{
	uint64_t seconds = (r.to - r.from) / SECOND / TIMELINE_STEPS + 1;

	return seconds * SECOND;
}

static bool put_times(struct web_ask *a, struct query *q, struct err *err)
{
	struct str group = params_get(&a->params, "groupBy");
	struct query_timeline_options o = {
		.step_ns = step_of(query_facts(q).range),
		.average = str_is(params_get(&a->params, "aggregation"), "avg"),
	};
	struct query_timeline t;

	if (!query_timeline(q, &o, &t, err))
		return false;
	buf_lit(&a->body, ",\"timeline\":");
	put_timeline(&a->body, &t, t.group_count ? &t.groups[0] : NULL);
	buf_lit(&a->body, ",\"groups\":");
	if (!group.len) {
		buf_lit(&a->body, "null");
		return true;
	}
	o.group_by = group;
	if (!query_timeline(q, &o, &t, err))
		return false;
	buf_char(&a->body, '{');
	for (uint32_t i = 0; i < t.group_count; i++) {
		if (i)
			buf_char(&a->body, ',');
		buf_json_string(&a->body, t.groups[i].label);
		buf_char(&a->body, ':');
		put_timeline(&a->body, &t, &t.groups[i]);
	}
	buf_char(&a->body, '}');
	return true;
}

static bool answer_dot(struct web_ask *a, struct query *q, int64_t most, struct err *err)
{
	if (!pyro_dot(q, most, &a->body, err))
		return false;
	a->content_type = "text/vnd.graphviz; charset=utf-8";
	return true;
}

static bool answer_json(struct web_ask *a, struct query *q, int64_t most, struct err *err)
{
	struct query_type type = query_facts(q).type;
	struct pyro_tree t;

	if (!pyro_flamegraph(a, q, most, &t, err))
		return false;
	buf_lit(&a->body, "{\"version\":1,");
	put_flamebearer(a, &t, 1);
	put_metadata(&a->body, &type, "single");
	if (!put_times(a, q, err))
		return false;
	buf_lit(&a->body, ",\"heatmap\":null}\n");
	return true;
}

bool pyro_answer_render(struct web_ask *a, struct err *err)
{
	struct str format = params_get(&a->params, "format");
	bool dot = str_is(format, "dot"), ok;
	struct query *q;
	int64_t most;

	if (format.len && !dot && !str_is(format, "json"))
		return err_set(err, ERR_INVALID, "format is \"%.*s\"; expected json or dot",
			       STR_ARG(str_head(format, 40)));
	if (!max_nodes(a, &most, err))
		return false;
	q = begin_side(a, "query", "from", params_has(&a->params, "to") ? "to" : "until", err);
	if (!q)
		return false;
	ok = dot ? answer_dot(a, q, most, err) : answer_json(a, q, most, err);
	query_end(q);
	return ok;
}

bool pyro_answer_render_diff(struct web_ask *a, struct err *err)
{
	struct query *left = NULL, *right = NULL;
	struct query_type type;
	struct pyro_tree t;
	int64_t most;
	bool ok;

	ok = max_nodes(a, &most, err) &&
	     (left = begin_side(a, "leftQuery", "leftFrom", "leftUntil", err)) &&
	     (right = begin_side(a, "rightQuery", "rightFrom", "rightUntil", err)) &&
	     pyro_diff(a, left, right, most, &t, err);
	if (ok) {
		type = query_facts(left).type;
		buf_lit(&a->body, "{\"version\":1,");
		put_flamebearer(a, &t, 2);
		put_metadata(&a->body, &type, "double");
		buf_printf(&a->body, ",\"leftTicks\":%lld,\"rightTicks\":%lld}\n",
			   (long long)t.nodes[0].total[0], (long long)t.nodes[0].total[1]);
	}
	query_end(right);
	query_end(left);
	return ok;
}
