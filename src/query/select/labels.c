/* labels.c - which attributes a selection has, with what weight; what agents say was lost. */
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "model/profiles.h"
#include "query/select/gauge.h"
#include "query/select/label_match.h"
#include "query/select/walk.h"

enum { VALUES_DEFAULT = 1000 };

/* ---- names ---- */

struct naming {
	struct query *q;
	struct query_label *labels;
	uint32_t count, cap;
	struct number_table names;
	struct number_set sets;        /* of attributes */
	struct gauge_weights *weights; /* values of a gauge: not yet rounded in `levels` */
	double *levels;
	uint32_t level_cap;
};

static bool add_name(struct naming *n, struct str name, struct err *err)
{
	uint32_t at = n->count;

	if (!number_enter(n->q, &n->names, hash64(name), &at, err))
		return false;
	if (at < n->count)
		return true;
	if (!QUERY_ROOM(n->q, n->labels, n->cap, n->count + 1u, err))
		return false;
	n->labels[n->count] = (struct query_label){ 0 };
	if (!query_str_dup(n->q, name, &n->labels[n->count].text, err))
		return false;
	n->count++;
	return true;
}

static bool add_names(struct naming *n, struct source_attributes list, struct err *err)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (!add_name(n, list.ptr[i].key, err))
			return false;
	return true;
}

static bool note_set(void *ctx, const struct engine_event *e, struct err *err)
{
	struct naming *n = ctx;

	return !e->first || !e->row->attributes ||
	       number_set_add(n->q, &n->sets, e->row->attributes, err);
}

static bool name_set(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	(void)id;
	return add_names(ctx, list, err);
}

static bool is_selected(const struct query *q, uint64_t id)
{
	const struct engine_series *s = engine_find_series(q, id);

	return s && s->seen;
}

static bool name_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct naming *n = ctx;

	return !is_selected(n->q, s->id) ||
	       (add_names(n, s->lifted, err) && add_names(n, s->resource, err) &&
		add_names(n, s->scope, err));
}

static bool name_profile(void *ctx, const struct source_profile *p, struct err *err)
{
	return add_names(ctx, p->attributes, err);
}

struct visiting {
	struct query *q;
	source_series_fn *fn;
	void *ctx;
};

static bool ignore_event(void *ctx, const struct engine_event *e, struct err *err)
{
	(void)ctx, (void)e, (void)err;
	return true;
}

static bool visit_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct visiting *v = ctx;

	return !is_selected(v->q, s->id) || v->fn(v->ctx, s, err);
}

bool query_each_series(struct query *q, source_series_fn *fn, void *ctx, struct err *err)
{
	struct visiting v = { q, fn, ctx };
	const struct walk w = walk_of(q, ROW_TIMES);

	return engine_events(q, &w, ignore_event, NULL, err) &&
	       engine_each_series(q, visit_series, &v, err);
}

static int by_text(const void *a, const void *b)
{
	return str_compare(((const struct query_label *)a)->text,
			   ((const struct query_label *)b)->text);
}

static bool give_labels(struct query *q, struct query_label *labels, uint32_t count,
			struct query_labels *out, struct err *err)
{
	struct query_label *copy = query_alloc(q, count + 1u, sizeof(*copy), err);

	if (!copy)
		return false;
	if (count)
		memcpy(copy, labels, count * sizeof(*copy));
	*out = (struct query_labels){ .ptr = copy, .count = count };
	return true;
}

static bool name_all(struct naming *n, struct err *err)
{
	struct query *q = n->q;
	struct source *s = q->request.source;
	struct source_scan scan = engine_series_scan(q);
	const struct walk w = walk_of(q, ROW_ATTRIBUTES);

	if (!engine_events(q, &w, note_set, n, err))
		return false;
	if (!q->events)
		return true;
	number_set_sort(q, &n->sets);
	return add_name(n, STR("service.name"), err) &&
	       source_attributes(s, n->sets.ptr, n->sets.count, name_set, n, err) &&
	       engine_each_series(q, name_series, n, err) &&
	       s->ops->profiles(s, &scan, name_profile, n, err);
}

bool query_label_names(struct query *q, struct query_labels *out, struct err *err)
{
	struct naming n = { .q = q };
	bool ok = name_all(&n, err);

	if (ok && n.count)
		qsort(n.labels, n.count, sizeof(*n.labels), by_text);
	ok = ok && give_labels(q, n.labels, n.count, out, err);
	QUERY_DROP(q, n.labels, n.cap);
	number_release(q, &n.names);
	number_set_release(q, &n.sets);
	return ok;
}

/* ---- values ---- */

static bool weigh_level(struct naming *n, uint32_t at, const struct engine_event *e,
			struct err *err)
{
	uint32_t divisor = gauge_divisor(n->weights, n->q, e, 0), known = n->level_cap;

	if (!QUERY_ROOM(n->q, n->levels, n->level_cap, at + 1u, err))
		return false;
	if (n->level_cap > known)
		memset(n->levels + known, 0, (n->level_cap - known) * sizeof(*n->levels));
	n->levels[at] += divisor ? (double)e->value / divisor : 0;
	return true;
}

static bool weigh_value(void *ctx, const struct engine_event *e, struct err *err)
{
	struct naming *n = ctx;
	uint32_t at, before = n->count;

	if (!e->group.len)
		return true;
	at = number_find(&n->names, hash64(e->group));
	if (at == UINT32_MAX) {
		if (!add_name(n, e->group, err))
			return false;
		at = before;
	}
	n->labels[at].events++;
	if (n->weights)
		return weigh_level(n, at, e, err);
	n->labels[at].value = engine_add(n->labels[at].value, e->value);
	return true;
}

static bool weigh_values(struct naming *n, struct str key, struct err *err)
{
	struct query *q = n->q;
	const struct walk w = walk_of(q, ROW_TIMES); /* the group comes beside them */

	/* First: weights know profiles by numbers that another group key takes away. */
	if (!engine_group(q, key, err))
		return false;
	if (query_of_gauge(q)) {
		n->weights = gauge_weights_new(q, &(struct gauge_buckets){ 0 }, err);
		if (!n->weights)
			return false;
	}
	if (!engine_events(q, &w, weigh_value, n, err))
		return false;
	for (uint32_t i = 0; n->weights && i < n->count; i++)
		n->labels[i].value = llround(n->levels[i]);
	return true;
}

static int by_events(const void *a, const void *b)
{
	const struct query_label *x = a, *y = b;

	if (x->events != y->events)
		return x->events > y->events ? -1 : 1;
	return str_compare(x->text, y->text);
}

static bool has_nocase(struct str text, struct str part)
{
	for (size_t at = 0; text.len >= part.len && at <= text.len - part.len; at++)
		if (str_equal_nocase(str_head(str_skip(text, at), part.len), part))
			return true;
	return false;
}

static void keep_matching(struct naming *n, struct str match)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n->count; i++)
		if (has_nocase(n->labels[i].text, match))
			n->labels[kept++] = n->labels[i];
	n->count = kept;
}

bool query_label_values(struct query *q, const struct query_values_options *o,
			struct query_labels *out, struct err *err)
{
	uint32_t keep, most = o->most ? o->most : VALUES_DEFAULT;
	struct naming n = { .q = q };
	bool ok;

	if (!o->key.len)
		return err_set(err, ERR_INVALID, "label values: of which label?");
	ok = weigh_values(&n, o->key, err);
	if (ok && o->match.len)
		keep_matching(&n, o->match);
	if (ok && n.count)
		qsort(n.labels, n.count, sizeof(*n.labels), by_events);
	keep = n.count < most ? n.count : most;
	ok = ok && give_labels(q, n.labels, keep, out, err);
	if (ok)
		out->cut = keep < n.count;
	gauge_weights_free(q, n.weights);
	QUERY_DROP(q, n.levels, n.level_cap);
	QUERY_DROP(q, n.labels, n.cap);
	number_release(q, &n.names);
	return ok;
}

/* ---- losses ---- */

static bool add_loss(void *ctx, const struct source_coverage *c, struct err *err)
{
	struct naming *n = ctx;
	uint32_t at = number_find(&n->names, hash64(c->reason));

	if (at == UINT32_MAX) {
		at = n->count;
		if (!add_name(n, c->reason, err))
			return false;
	}
	n->labels[at].events += c->n;
	return query_alive(n->q, err);
}

bool query_losses(struct query *q, struct query_losses *out, struct err *err)
{
	struct source *s = q->request.source;
	struct naming n = { .q = q };
	struct query_loss *losses = NULL;
	bool ok = s->ops->coverage(s, q->request.range, add_loss, &n, err);

	if (ok && n.count)
		qsort(n.labels, n.count, sizeof(*n.labels), by_text);
	if (ok)
		losses = query_alloc(q, n.count + 1u, sizeof(*losses), err);
	for (uint32_t i = 0; losses && i < n.count; i++)
		losses[i] = (struct query_loss){ n.labels[i].text, n.labels[i].events };
	if (losses)
		*out = (struct query_losses){ losses, n.count };
	QUERY_DROP(q, n.labels, n.cap);
	number_release(q, &n.names);
	return ok && losses;
}
