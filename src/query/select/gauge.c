/*
 * gauge.c - by how much an event of a gauge is divided: levels are averaged over profiles.
 *
 * Of one owner (resource and scope) several processes may be told of by what their samples carry.
 * Either each has profiles of its own, so that their averages add up, or all are in one profile,
 * and one that is not in it has nothing. So processes that any profile has together are averaged
 * over the profiles of them all, others over their own.
 */
#include <assert.h>
#include <stdlib.h>

#include "query/select/gauge.h"
#include "base/hash.h"
#include "query/select/select.h"
#include "query/select/walk.h"

struct gauge_cell { /* of a (bucket, owner, period, processes that have profiles together) */
	uint32_t profiles;
	uint64_t last, last_time; /* the newest profile's first sample, or NO_SAMPLE */
};

struct owned_series {
	uint64_t id, owner, process;
	int64_t period;
	uint32_t together; /* the place of a series that is averaged with this one; its own: of all
			      those it stands for them */
	bool met;          /* in a sample */
};

/* Of an owner with several processes. */
struct owned_profile {
	uint64_t first_sample, time, end;
	uint32_t sample_count, series; /* series: place of one that it has */
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
	bool several;                   /* an owner has several processes */
	struct owned_profile *profiles; /* several: of all, by first_sample */
	uint32_t profile_count, profile_cap;
};

/* A measurement of an owner: what may come in several events, or in none. */
struct measurement {
	const struct owned_series *series;
	uint64_t first_sample, time, end; /* in buckets: of [time, end) */
};
#define NO_SAMPLE UINT64_MAX /* of an empty profile, or where it is not known */

static uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t parts[] = { a, b, c };

	return hash64(str_from(parts, sizeof(parts)));
}

static uint64_t owner_key(uint64_t owner, int64_t period)
{
	return hash_of(0, owner, (uint64_t)period);
}

/* ---- series that are averaged together ---- */

static int id_order(const void *a, const void *b)
{
	uint64_t x = ((const struct owned_series *)a)->id, y = ((const struct owned_series *)b)->id;

	return x < y ? -1 : x > y;
}

static struct owned_series *find_owned(const struct gauge_weights *g, uint64_t id)
{
	const struct owned_series key = { .id = id };

	return bsearch(&key, g->series, g->series_count, sizeof(key), id_order);
}

static uint32_t place_together(const struct gauge_weights *g, uint32_t at)
{
	while (g->series[at].together != at) {
		/* Half of the way is cut off for the next one. */
		g->series[at].together = g->series[g->series[at].together].together;
		at = g->series[at].together;
	}
	return at;
}

static void join_series(struct gauge_weights *g, uint32_t one, uint32_t other)
{
	one = place_together(g, one);
	g->series[place_together(g, other)].together = one;
}

static uint64_t cell_key(const struct gauge_weights *g, const struct owned_series *s,
			 uint64_t bucket)
{
	uint32_t at = g->several ? place_together(g, (uint32_t)(s - g->series)) : 0;

	return hash_of(bucket, owner_key(s->owner, s->period), g->several ? g->series[at].id : 0);
}

/* ---- cells ---- */

static bool cell_of(struct gauge_weights *g, uint64_t key, uint32_t *at, struct err *err)
{
	*at = g->cell_count;
	if (!number_enter(g->q, &g->cells, key, at, err))
		return false;
	if (*at < g->cell_count)
		return true;
	if (!QUERY_ROOM(g->q, g->cell, g->cell_cap, g->cell_count + 1u, err))
		return false;
	g->cell[g->cell_count++] = (struct gauge_cell){ .last = NO_SAMPLE };
	return true;
}

static bool weigh_bucket(struct gauge_weights *g, const struct measurement *m, uint64_t bucket,
			 struct err *err)
{
	uint64_t key = cell_key(g, m->series, bucket);
	struct gauge_cell *cell;
	bool added = true;
	uint32_t at;

	if (!cell_of(g, key, &at, err))
		return false;
	if (m->first_sample != NO_SAMPLE &&
	    !number_note(g->q, &g->seen, hash_of(key, m->first_sample, 2), &added, err))
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

static bool weigh_measurement(struct gauge_weights *g, const struct measurement *m, struct err *err)
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

/* It is weighed when it is known which processes it has. */
static bool keep_profile(struct gauge_weights *g, const struct measurement *m,
			 uint32_t sample_count, struct err *err)
{
	if (!QUERY_ROOM(g->q, g->profiles, g->profile_cap, g->profile_count + 1u, err))
		return false;
	g->profiles[g->profile_count++] =
		(struct owned_profile){ .first_sample = m->first_sample,
					.time = m->time,
					.end = m->end,
					.sample_count = sample_count,
					.series = (uint32_t)(m->series - g->series) };
	return true;
}

static bool weigh_profile(void *ctx, const struct source_profile *p, struct err *err)
{
	struct gauge_weights *g = ctx;
	struct query *q = g->q;
	struct source_range window = q->request.range;
	uint64_t length = g->buckets.hold && p->duration ? p->duration : 1;
	struct measurement m = { .series = find_owned(g, p->series),
				 .first_sample = p->sample_count ? p->first_sample : NO_SAMPLE,
				 .time = p->time };

	if (!query_alive(q, err))
		return false;
	if (!m.series || p->time < window.from || p->time >= window.to ||
	    !engine_profile_wanted(q, p))
		return true;
	if (__builtin_add_overflow(p->time, length, &m.end))
		m.end = UINT64_MAX;
	return g->several ? keep_profile(g, &m, p->sample_count, err)
			  : weigh_measurement(g, &m, err);
}

/* What has timestamps may lie elsewhere than its profile begins. */
static bool weigh_event(void *ctx, const struct engine_event *e, struct err *err)
{
	struct gauge_weights *g = ctx;
	const struct engine_profile *p = engine_profile_of(g->q, e->row->sample);
	struct measurement m = { find_owned(g, e->series->id), p ? p->first_sample : NO_SAMPLE - 1,
				 e->time, e->time + 1 };

	if (p && !e->row->timestamp_count)
		return true;
	if (p) /* of one profile, the last event is no later than the others */
		m.time = g->buckets.step_ns ? e->time : p->time;
	return weigh_measurement(g, &m, err);
}

/* ---- whose profiles ---- */

static bool add_series(struct gauge_weights *g, const struct owned_series *series, struct err *err)
{
	if (!QUERY_ROOM(g->q, g->series, g->series_cap, g->series_count + 1u, err))
		return false;
	g->series[g->series_count++] = *series;
	return true;
}

static bool take_series(void *ctx, const struct source_series *s, struct err *err)
{
	const struct owned_series series = {
		.id = s->id, .owner = s->owner, .process = s->process, .period = s->period
	};
	struct gauge_weights *g = ctx;

	if (!query_alive(g->q, err))
		return false;
	return !profile_type_is_chosen(g->q, s) ||
	       number_find(&g->owners, owner_key(s->owner, s->period)) == UINT32_MAX ||
	       add_series(g, &series, err);
}

/* The selection may have some of an owner's series only: where keys were lifted from samples. */
static bool find_series(struct gauge_weights *g, struct err *err)
{
	struct query *q = g->q;
	const struct source_series_ask ask = { .range = q->request.range,
					       .asof = q->request.asof,
					       .brief = true };
	bool all = !q->selector->count && !q->links.series_count, ok = true;

	for (uint32_t i = 0; ok && i < q->selected.series_count; i++) {
		const struct engine_series *s = &q->selected.series[i];
		const struct owned_series own = { .id = s->id,
						  .owner = s->owner,
						  .process = s->process,
						  .period = s->says->period };

		ok = all ? add_series(g, &own, err)
			 : number_put(q, &g->owners, owner_key(own.owner, own.period), 0, err);
	}
	ok = ok && (all || source_series(q->request.source, &ask, take_series, g, err)) &&
	     QUERY_ROOM(q, g->ids, g->ids_cap, g->series_count + 1u, err);
	if (!ok)
		return false;
	if (g->series_count)
		qsort(g->series, g->series_count, sizeof(*g->series), id_order);
	for (uint32_t i = 0; i < g->series_count; i++)
		g->ids[i] = g->series[i].id;
	return true;
}

/* ---- processes ---- */

/* Joins the series of each process, and notes whether an owner has several. */
static bool join_processes(struct gauge_weights *g, struct err *err)
{
	struct number_table processes = { 0 }, owners = { 0 };
	bool ok = true;

	for (uint32_t i = 0; ok && i < g->series_count; i++) {
		struct owned_series *s = &g->series[i];
		uint64_t owner = owner_key(s->owner, s->period);
		uint32_t first = i, of_owner = i;

		s->together = i;
		ok = number_enter(g->q, &processes, hash_of(1, owner, s->process), &first, err) &&
		     number_enter(g->q, &owners, owner, &of_owner, err);
		if (!ok)
			break;
		join_series(g, first, i);
		g->several |= g->series[of_owner].process != s->process;
	}
	number_release(g->q, &processes);
	number_release(g->q, &owners);
	return ok;
}

/* The last one that begins at the sample or before it. */
static const struct owned_profile *kept_profile_of(const struct gauge_weights *g, uint64_t sample)
{
	const struct owned_profile *p;
	uint32_t low = 0, high = g->profile_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (g->profiles[mid].first_sample <= sample)
			low = mid + 1;
		else
			high = mid;
	}
	p = low ? &g->profiles[low - 1] : NULL;
	return p && sample - p->first_sample < p->sample_count ? p : NULL;
}

static bool join_row(void *ctx, const struct source_row *row, struct err *err)
{
	struct gauge_weights *g = ctx;
	const struct owned_profile *p = kept_profile_of(g, row->sample);
	const struct owned_series *s = find_owned(g, row->series);

	if (p && s) {
		join_series(g, p->series, (uint32_t)(s - g->series));
		g->series[s - g->series].met = true;
	}
	return query_alive(g->q, err);
}

static int first_sample_order(const void *a, const void *b)
{
	uint64_t x = ((const struct owned_profile *)a)->first_sample,
		 y = ((const struct owned_profile *)b)->first_sample;

	return x < y ? -1 : x > y;
}

/* An empty profile does not say whose it is: it is theirs where all of an owner's processes are
 * together, else nobody's. */
static bool join_empty(struct gauge_weights *g, struct err *err)
{
	struct number_table owners = { 0 }, apart = { 0 };
	bool ok = true;
	uint32_t first;

	for (uint32_t i = 0; ok && i < g->series_count; i++) {
		uint64_t owner = owner_key(g->series[i].owner, g->series[i].period);

		if (!g->series[i].met)
			continue;
		first = i;
		ok = number_enter(g->q, &owners, owner, &first, err);
		if (ok && place_together(g, first) != place_together(g, i))
			ok = number_put(g->q, &apart, owner, 0, err);
	}
	for (uint32_t i = 0; ok && i < g->series_count; i++) {
		uint64_t owner = owner_key(g->series[i].owner, g->series[i].period);

		first = number_find(&owners, owner);
		if (first != UINT32_MAX && number_find(&apart, owner) == UINT32_MAX)
			join_series(g, first, i);
	}
	number_release(g->q, &owners);
	number_release(g->q, &apart);
	return ok;
}

static bool weigh_kept(struct gauge_weights *g, const struct source_scan *scan, struct err *err)
{
	struct source *s = g->q->request.source;
	bool ok;

	if (g->profile_count)
		qsort(g->profiles, g->profile_count, sizeof(*g->profiles), first_sample_order);
	ok = source_scan(s, scan, join_row, g, err) && join_empty(g, err);
	for (uint32_t i = 0; ok && i < g->profile_count; i++) {
		const struct owned_profile *p = &g->profiles[i];
		const struct measurement m = { &g->series[p->series], p->first_sample, p->time,
					       p->end };

		ok = weigh_measurement(g, &m, err);
	}
	return ok;
}

static bool weigh_profiles(struct gauge_weights *g, struct err *err)
{
	struct source *s = g->q->request.source;
	struct source_scan scan = engine_series_scan(g->q);

	if (!find_series(g, err) || !join_processes(g, err))
		return false;
	scan.series = g->ids;
	scan.series_count = g->series_count;
	scan.parts = g->q->request.profile_id_count ? 0 : ROW_TIMES;
	return !g->series_count || (s->ops->profiles(s, &scan, weigh_profile, g, err) &&
				    (!g->several || weigh_kept(g, &scan, err)));
}

struct gauge_weights *gauge_weights_new(struct query *q, const struct gauge_buckets *buckets,
					struct err *err)
{
	struct gauge_weights *g = calloc(1, sizeof(*g));
	const struct walk w = walk_of(q, ROW_TIMES);

	assert(g);
	*g = (struct gauge_weights){ .q = q, .buckets = *buckets };
	/* The weights of an answer without groups: group keys change no profile's number. */
	if (!weigh_profiles(g, err) || !engine_load_profiles(q, err) ||
	    !engine_events(q, &w, weigh_event, g, err)) {
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
	QUERY_DROP(q, g->profiles, g->profile_cap);
	QUERY_DROP(q, g->series, g->series_cap);
	QUERY_DROP(q, g->ids, g->ids_cap);
	QUERY_DROP(q, g->cell, g->cell_cap);
	free(g);
}

uint32_t gauge_divisor(const struct gauge_weights *g, const struct query *q,
		       const struct engine_event *e, uint64_t bucket)
{
	uint32_t at = number_find(&g->cells, cell_key(g, find_owned(g, e->series->id), bucket));
	const struct engine_profile *p;

	if (at == UINT32_MAX)
		return 0;
	if (!q->request.gauge_last)
		return g->cell[at].profiles;
	p = engine_profile_of(q, e->row->sample);
	return p && p->first_sample == g->cell[at].last ? 1 : 0;
}
