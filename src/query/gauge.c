/* gauge.c - by how much an event of a gauge is divided: levels are averaged over profiles. */
#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "query/engine.h"
#include "query/select.h"

struct gauge_cell { /* of a (bucket, owner, period) */
	uint32_t profiles;
	uint64_t last, last_time; /* the newest profile's first sample, or NO_SAMPLE */
};

struct owned_series {
	uint64_t id, owner;
	int64_t period;
};

struct gauge_weights {
	struct query *q;
	struct gauge_buckets buckets;
	struct number_table cells, seen; /* seen: (cell, profile) */
	struct gauge_cell *cell;
	uint32_t cell_count, cell_cap;
	struct number_table owners;  /* of the selection */
	struct owned_series *series; /* theirs, by id: also those that are not selected */
	uint64_t *ids;
	uint32_t series_count, series_cap, ids_cap;
};

/* A measurement of an owner: what may come in several events, or in none. */
struct measurement {
	uint64_t owner;
	int64_t period;
	uint64_t first_sample, time, end; /* in buckets: of [time, end) */
};
#define NO_SAMPLE UINT64_MAX /* of an empty profile, or where it is not known */

static uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t parts[] = { a, b, c };

	return hash64(str_from(parts, sizeof(parts)));
}

static uint64_t cell_key(uint64_t owner, int64_t period, uint64_t bucket)
{
	return hash_of(bucket, owner, (uint64_t)period);
}

static bool cell_of(struct gauge_weights *g, uint64_t key, uint32_t *at, struct err *err)
{
	bool added;

	if (!number_enter(g->q, &g->cells, key, g->cell_count, at, &added, err))
		return false;
	if (!added)
		return true;
	if (!query_grow(g->q, &g->cell, &g->cell_cap, g->cell_count + 1u, sizeof(*g->cell), err))
		return false;
	g->cell[g->cell_count++] = (struct gauge_cell){ .last = NO_SAMPLE };
	return true;
}

static bool weigh_bucket(struct gauge_weights *g, const struct measurement *m, uint64_t bucket,
			 struct err *err)
{
	uint64_t key = cell_key(m->owner, m->period, bucket);
	struct gauge_cell *cell;
	uint32_t at, ignored;
	bool added = true;

	if (!cell_of(g, key, &at, err))
		return false;
	if (m->first_sample != NO_SAMPLE &&
	    !number_enter(g->q, &g->seen, hash_of(key, m->first_sample, 2), 0, &ignored, &added,
			  err))
		return false;
	if (!added)
		return true;
	cell = &g->cell[at];
	if (!cell->profiles++ || m->time >= cell->last_time) {
		cell->last = m->first_sample;
		cell->last_time = m->time;
	}
	return true;
}

static bool weigh(struct gauge_weights *g, const struct measurement *m, struct err *err)
{
	const struct gauge_buckets *b = &g->buckets;
	uint64_t end = m->end < b->end ? m->end : b->end;

	if (!b->step_ns)
		return weigh_bucket(g, m, 0, err);
	if (m->time < b->from)
		return true;
	if (b->rows)
		return weigh_bucket(g, m, engine_cell_of(m->time - b->from, b->step_ns, b->rows),
				    err);
	for (uint64_t i = (m->time - b->from) / b->step_ns; b->from + i * b->step_ns < end; i++)
		if (!weigh_bucket(g, m, i, err))
			return false;
	return true;
}

static int id_order(const void *a, const void *b)
{
	uint64_t x = ((const struct owned_series *)a)->id, y = ((const struct owned_series *)b)->id;

	return x < y ? -1 : x > y;
}

static bool weigh_profile(void *ctx, const struct query_profile *p, struct err *err)
{
	struct gauge_weights *g = ctx;
	struct query *q = g->q;
	struct query_range window = q->request.range;
	uint64_t length = g->buckets.hold && p->duration ? p->duration : 1;
	const struct owned_series key = { .id = p->series };
	const struct owned_series *series =
		bsearch(&key, g->series, g->series_count, sizeof(*series), id_order);
	struct measurement m = { .first_sample = p->sample_count ? p->first_sample : NO_SAMPLE,
				 .time = p->time };

	if (!query_alive(q, err))
		return false;
	if (!series || p->time < window.from || p->time >= window.to ||
	    !engine_profile_wanted(q, p))
		return true;
	m.owner = series->owner;
	m.period = series->period;
	if (__builtin_add_overflow(p->time, length, &m.end))
		m.end = UINT64_MAX;
	return weigh(g, &m, err);
}

/* What has timestamps may lie elsewhere than its profile begins. */
static bool weigh_event(void *ctx, const struct engine_event *e, struct err *err)
{
	struct gauge_weights *g = ctx;
	const struct engine_profile *p = engine_profile_of(g->q, e->row->sample);
	struct measurement m = { e->series->owner, e->series->says->period,
				 p ? p->first_sample : NO_SAMPLE - 1, e->time, e->time + 1 };

	if (p && !e->row->timestamp_count)
		return true;
	if (p) /* of one profile, the last event is no later than the others */
		m.time = g->buckets.step_ns ? e->time : p->time;
	return weigh(g, &m, err);
}

/* ---- whose profiles ---- */

static bool add_series(struct gauge_weights *g, const struct owned_series *series, struct err *err)
{
	if (!query_grow(g->q, &g->series, &g->series_cap, g->series_count + 1u, sizeof(*g->series),
			err))
		return false;
	g->series[g->series_count++] = *series;
	return true;
}

static bool take_series(void *ctx, const struct query_series *s, struct err *err)
{
	const struct owned_series series = { s->id, s->owner, s->period };
	struct gauge_weights *g = ctx;

	if (!query_alive(g->q, err))
		return false;
	return !profile_type_is_chosen(g->q, s) ||
	       number_find(&g->owners, cell_key(s->owner, s->period, 0)) == UINT32_MAX ||
	       add_series(g, &series, err);
}

/* The selection may have some of an owner's series only: where keys were lifted from samples. */
static bool find_series(struct gauge_weights *g, struct err *err)
{
	struct query *q = g->q;
	const struct query_series_ask ask = { .range = q->request.range,
					      .asof = q->request.asof,
					      .brief = true };
	bool all = !q->selector->count && !q->linked_count, ok = true, added;
	uint32_t ignored;

	for (uint32_t i = 0; ok && i < q->series_count; i++) {
		const struct engine_series *s = &q->series[i];
		const struct owned_series own = { s->id, s->owner, s->says->period };

		ok = all ? add_series(g, &own, err)
			 : number_enter(q, &g->owners, cell_key(own.owner, own.period, 0), 0,
					&ignored, &added, err);
	}
	ok = ok &&
	     (all ||
	      q->request.source->ops->series(q->request.source, &ask, take_series, g, err)) &&
	     query_grow(q, &g->ids, &g->ids_cap, g->series_count + 1u, sizeof(*g->ids), err);
	if (!ok)
		return false;
	if (g->series_count)
		qsort(g->series, g->series_count, sizeof(*g->series), id_order);
	for (uint32_t i = 0; i < g->series_count; i++)
		g->ids[i] = g->series[i].id;
	return true;
}

static bool weigh_profiles(struct gauge_weights *g, struct err *err)
{
	struct query_source *s = g->q->request.source;
	struct query_scan scan = engine_series_scan(g->q);

	if (!find_series(g, err))
		return false;
	scan.series = g->ids;
	scan.series_count = g->series_count;
	scan.parts = g->q->request.profile_id_count ? 0 : ROW_TIMES;
	return !g->series_count || s->ops->profiles(s, &scan, weigh_profile, g, err);
}

struct gauge_weights *gauge_weights_new(struct query *q, const struct gauge_buckets *buckets,
					struct err *err)
{
	struct gauge_weights *g = calloc(1, sizeof(*g));

	assert(g);
	*g = (struct gauge_weights){ .q = q, .buckets = *buckets };
	q->parts = ROW_TIMES;
	/* The weights of an answer without groups: group keys change no profile's number. */
	if (!weigh_profiles(g, err) || !engine_load_profiles(q, err) ||
	    !engine_events(q, q->group_key, weigh_event, g, err)) {
		gauge_weights_free(q, g);
		return NULL;
	}
	number_release(q, &g->seen);
	return g;
}

void gauge_weights_free(struct query *q, struct gauge_weights *g)
{
	if (!g)
		return;
	number_release(q, &g->cells);
	number_release(q, &g->seen);
	number_release(q, &g->owners);
	query_drop(q, &g->series, &g->series_cap, sizeof(*g->series));
	query_drop(q, &g->ids, &g->ids_cap, sizeof(*g->ids));
	query_drop(q, &g->cell, &g->cell_cap, sizeof(*g->cell));
	free(g);
}

uint32_t gauge_divisor(const struct gauge_weights *g, const struct query *q,
		       const struct engine_event *e, uint64_t bucket)
{
	uint32_t at =
		number_find(&g->cells, cell_key(e->series->owner, e->series->says->period, bucket));
	const struct engine_profile *p;

	if (at == UINT32_MAX)
		return 0;
	if (!q->request.gauge_last)
		return g->cell[at].profiles;
	p = engine_profile_of(q, e->row->sample);
	return p && p->first_sample == g->cell[at].last ? 1 : 0;
}
