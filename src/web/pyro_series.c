/*
 * pyro_series.c - SelectSeries: values over time, a line for each set of group_by values.
 *
 * A point stands at the end of its step and is what happened in it. The engine groups by one
 * label; of several, the first ones' values are gone through one by one.
 */
#include <math.h>
#include <stdlib.h>

#include "web/pyro.h"
#include "wire/pb_writer.h"

enum { VALUES_MOST = 100, LINES_MOST = 1000, STEPS_MOST = 11000, MS = 1000000 };

struct curve {
	struct str *values; /* one a label */
	struct buf points;  /* encoded, in order */
	int64_t total;
};

struct lines {
	struct web_ask *ask;
	const struct pyro_request *request;
	struct curve *list;
	uint32_t count, cap;
};

static void put_point(struct buf *out, double value, uint64_t ms)
{
	struct pb_writer w;
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pw_begin(&w, out, 32);
	pw_uint(&w, 2, ms);
	pw_fixed64_present(&w, 1, bits);
	pw_message(&w, 2, 0);
	if (!pw_finish(&w))
		out->failed = true;
}

static void add_line(struct lines *l, const struct str *values, const struct query_timeline *t,
		     const struct query_group *g)
{
	uint32_t labels = l->request->labels.count;
	struct curve *line;

	if (l->count == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : 16;

		l->list = arena_grow(&l->ask->arena, l->list, l->cap * sizeof(*l->list),
				     cap * sizeof(*l->list));
		l->cap = cap;
	}
	line = &l->list[l->count++];
	*line = (struct curve){ .total = g->total };
	line->values = arena_alloc_array(&l->ask->arena, labels + 1, sizeof(*line->values));
	for (uint32_t i = 0; i < labels; i++)
		line->values[i] = str_dup(&l->ask->arena, values[i]);
	for (uint32_t i = 0; i < t->bucket_count; i++)
		if (t->covered[i] || g->values[i])
			put_point(&line->points, (double)g->values[i],
				  (t->from + (i + 1) * t->step_ns) / MS);
}

/* The selector with `label="value"` of the labels so far. */
static struct str narrowed(struct lines *l, const struct str *values, uint32_t count)
{
	struct str selector = str_trim(l->request->selector), out;
	struct buf text = { 0 };

	if (str_has_suffix(selector, STR("}"))) {
		buf_str(&text, str_trim(str_head(selector, selector.len - 1)));
	} else if (str_find(selector, '=') >= 0) {
		buf_char(&text, '{');
		buf_str(&text, selector);
	} else {
		buf_str(&text, selector);
		buf_char(&text, '{');
	}
	for (uint32_t i = 0; i < count; i++) {
		if (text.ptr[text.len - 1] != '{' && text.ptr[text.len - 1] != ',')
			buf_char(&text, ',');
		buf_json_string(&text, l->request->labels.items[i]);
		buf_char(&text, '=');
		buf_json_string(&text, values[i]);
	}
	buf_char(&text, '}');
	out = str_dup(&l->ask->arena, buf_view(&text));
	buf_release(&text);
	return out;
}

static bool steps(const struct pyro_request *r, uint64_t *step_ns, struct err *err)
{
	double span = (double)(r->end - r->start) / 1000;

	if (!(r->step > 0) || r->step > 1e9)
		return err_set(err, ERR_INVALID, "step is %g, wanted are seconds above 0", r->step);
	if (span / r->step > STEPS_MOST)
		return err_set(err, ERR_INVALID,
			       "%.0f steps of %g s; at most %d: a longer step is needed",
			       span / r->step, r->step, STEPS_MOST);
	*step_ns = (uint64_t)(r->step * 1e9 + 0.5);
	if (*step_ns < MS)
		*step_ns = MS;
	return true;
}

static bool draw(struct lines *l, struct query *q, struct str *values, struct err *err)
{
	const struct pyro_request *r = l->request;
	struct query_timeline_options o = { .groups_most = LINES_MOST, .average = r->average };
	struct query_timeline t;
	uint32_t last = r->labels.count ? r->labels.count - 1 : 0;

	if (r->labels.count)
		o.group_by = r->labels.items[last];
	if (!steps(r, &o.step_ns, err) || !query_timeline(q, &o, &t, err))
		return false;
	for (uint32_t i = 0; i < t.group_count; i++) {
		if (l->count == LINES_MOST)
			return err_set(err, ERR_LIMIT,
				       "more than %d lines; group_by has too many values",
				       LINES_MOST);
		values[last] = t.groups[i].other ? STR("other") : t.groups[i].label;
		add_line(l, values, &t, &t.groups[i]);
	}
	return true;
}

/* Goes through the values of label `at` and of those behind it. */
static bool descend(struct lines *l, uint32_t at, struct str *values, struct err *err)
{
	const struct pyro_request *r = l->request;
	struct str selector = at ? narrowed(l, values, at) : r->selector;
	struct query *q = pyro_begin(l->ask, r, selector, r->profile_type, err);
	struct query_labels found;
	struct str *texts;
	uint32_t count;
	bool ok;

	if (!q)
		return err->kind == ERR_NOT_FOUND;
	if (at + 1 >= r->labels.count) {
		ok = draw(l, q, values, err);
		query_end(q);
		return ok;
	}
	ok = query_label_values(
		q,
		&(struct query_values_options){ .key = r->labels.items[at], .most = VALUES_MOST },
		&found, err);
	count = ok ? found.count : 0;
	texts = arena_alloc_array(&l->ask->arena, count + 1, sizeof(*texts));
	for (uint32_t i = 0; i < count; i++)
		texts[i] = str_dup(&l->ask->arena, found.ptr[i].text);
	texts[count] = (struct str){ 0 }; /* those without the label */
	query_end(q);
	for (uint32_t i = 0; i <= count && ok; i++) {
		values[at] = texts[i];
		ok = descend(l, at + 1, values, err);
	}
	return ok;
}

/* ---- the answer ---- */

static int heavier(const void *a, const void *b)
{
	const struct curve *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x < y ? -1 : 1;
}

static void put_line(struct pb_writer *w, const struct pyro_request *r, const struct curve *line)
{
	size_t mark = pw_mark(w);

	pw_raw(w, buf_view(&line->points));
	for (uint32_t i = r->labels.count; i-- > 0;) {
		size_t label = pw_mark(w);

		if (!line->values[i].len)
			continue;
		pw_bytes(w, 2, line->values[i]);
		pw_bytes(w, 1, r->labels.items[i]);
		pw_message(w, 1, label);
	}
	pw_message(w, 1, mark);
}

static bool put_lines(struct lines *l, struct err *err)
{
	uint32_t count = l->count;
	struct pb_writer w;

	if (l->count)
		qsort(l->list, l->count, sizeof(*l->list), heavier);
	if (l->request->limit > 0 && l->request->limit < count)
		count = (uint32_t)l->request->limit;
	pw_begin(&w, &l->ask->body, 4096);
	for (uint32_t i = count; i-- > 0;)
		put_line(&w, l->request, &l->list[i]);
	return pw_finish(&w) || err_set(err, ERR_LIMIT, "the answer is too large");
}

bool pyro_answer_select_series(struct web_ask *a, struct err *err)
{
	struct str values[PYRO_LIST_MOST];
	struct pyro_request r;
	struct lines l = { .ask = a, .request = &r };
	bool ok;

	if (!pyro_request_read(pyro_methods[PYRO_SELECT_SERIES].request, a->message, &r, err))
		return false;
	if (!str_trim(r.selector).len)
		r.selector = STR("{}");
	ok = descend(&l, 0, values, err) && put_lines(&l, err);
	for (uint32_t i = 0; i < l.count; i++)
		buf_release(&l.list[i].points);
	return ok;
}
