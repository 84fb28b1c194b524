/*
 * measured.c - the series that the selection's profilers measured.
 *
 * An agent of a whole machine reports a process only when it ran. Its other reports measured the
 * process, too, and found nothing. So a selection is measured by all series of its profilers. A
 * profiler is one host, scope and profile type; a process that profiles itself, or that names no
 * host or scope, is a profiler of its own.
 */
#include <stdlib.h>

#include "base/hash.h"
#include "model/profiles.h"
#include "query/select/walk.h"
#include "store/id_list.h"

struct told {
	uint64_t series, profiler;
};

struct measuring {
	struct query *q;
	const struct query *of; /* whose series are the selection */
	struct told *told;      /* of every series of the window */
	uint32_t count, cap;
	struct number_table profilers; /* of the selection */
	bool open; /* only samples tell which of q->selected.series are selected */
};

static struct str text_of(struct source_attributes list, struct str key)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (str_equal(list.ptr[i].key, key) && list.ptr[i].value.kind == ANY_STRING)
			return list.ptr[i].value.string;
	return (struct str){ 0 };
}

static uint64_t profiler_of(const struct source_series *s)
{
	struct str host = text_of(s->resource, STR("host.id"));
	uint64_t parts[6] = { s->owner };

	if (!host.len)
		host = text_of(s->resource, STR("host.name"));
	/* telemetry.sdk.*: the resource is what the process's own SDK says of itself. */
	if (host.len && s->scope_name.len && !text_of(s->resource, STR("telemetry.sdk.name")).len) {
		parts[0] = hash64(host);
		parts[1] = hash64(s->scope_name);
	}
	parts[2] = hash64(s->sample_type);
	parts[3] = hash64(s->sample_unit);
	parts[4] = hash64(s->period_type);
	parts[5] = hash64(s->period_unit);
	return hash64(str_from(parts, sizeof(parts)));
}

static bool is_selected(const struct measuring *m, uint64_t id)
{
	const struct engine_series *s = engine_find_series(m->of, id);

	return s && (s->seen || !m->open);
}

static bool take_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct measuring *m = ctx;
	struct query *q = m->q;
	struct told told = { s->id, profiler_of(s) };

	if (!query_alive(q, err) || !QUERY_ROOM(q, m->told, m->cap, m->count + 1u, err))
		return false;
	m->told[m->count++] = told;
	return !is_selected(m, s->id) || number_put(q, &m->profilers, told.profiler, 0, err);
}

static bool keep_measured(struct measuring *m, struct err *err)
{
	struct query *q = m->q;

	if (!QUERY_ROOM(q, q->known.measured, q->known.measured_cap, m->count + 1u, err))
		return false;
	for (uint32_t i = 0; i < m->count; i++)
		if (number_find(&m->profilers, m->told[i].profiler) != UINT32_MAX)
			q->known.measured[q->known.measured_count++] = m->told[i].series;
	qsort(q->known.measured, q->known.measured_count, sizeof(uint64_t), id_list_order);
	QUERY_FIT(q, q->known.measured, q->known.measured_cap, q->known.measured_count);
	return true;
}

static bool find_measured(struct measuring *m, struct err *err)
{
	struct query *q = m->q;
	struct source *s = q->request.source;
	struct source_series_ask ask = {
		.range = q->request.range, .asof = q->request.asof, .brief = true, .profiler = true
	};
	bool ok = source_series(s, &ask, take_series, m, err) && keep_measured(m, err);

	QUERY_DROP(q, m->told, m->cap);
	number_release(q, &m->profilers);
	return ok;
}

/* What came after a state need not have a sample of the selection to say who measures it. */
static bool measure_since(struct measuring *m, struct err *err)
{
	struct query_request whole = m->q->request;
	struct query *q;
	bool ok;

	if (!whole.after || m->open)
		return find_measured(m, err);
	whole.after = 0;
	q = query_begin(&whole, err);
	m->of = q;
	ok = q && find_measured(m, err);
	query_end(q);
	return ok;
}

bool measured_series(struct query *q, const uint64_t **ids, uint32_t *count, struct err *err)
{
	struct measuring m = { .q = q,
			       .of = q,
			       .open = q->selected.open_matchers & selector_all(q->selector) };

	*ids = q->selected.series_ids;
	*count = q->selected.series_count;
	/* All are selected; or what a trace has, whose time is that around its samples. */
	if (!q->selector->count || q->links.asked ||
	    (!q->selected.series_count && !q->request.after))
		return true;
	if (!q->known.measured_count && !measure_since(&m, err))
		return false;
	*ids = q->known.measured;
	*count = q->known.measured_count;
	return true;
}
