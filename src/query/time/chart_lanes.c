/* chart_lanes.c - which threads a flame chart's events are of, and what those are called. */
#include <stdlib.h>

#include "base/hash.h"
#include "model/profiles.h"
#include "query/time/chart.h"
#include "store/id_list.h"

/* What attribute sets say of thread.id. */
struct threads {
	struct query *q;
	uint64_t *sets; /* ascending */
	uint64_t *tids; /* by place of the set: the hash of its thread.id, 0: none */
	uint32_t count, sets_cap, tids_cap, at;
	struct buf scratch;
};

static bool take_thread(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	struct threads *t = ctx;

	while (t->at < t->count && t->sets[t->at] < id)
		t->at++;
	for (uint32_t i = 0; i < list.count && t->at < t->count; i++)
		if (str_is(list.ptr[i].key, "thread.id")) {
			buf_reset(&t->scratch);
			t->tids[t->at] = hash64(attribute_text(&list.ptr[i], &t->scratch));
			break;
		}
	return query_alive(t->q, err);
}

static bool find_threads(struct chart *c, struct threads *t, struct err *err)
{
	uint64_t room = c->pair_count + 1u;
	bool ok;

	if (!QUERY_ROOM(c->q, t->sets, t->sets_cap, room, err) ||
	    !QUERY_ROOM(c->q, t->tids, t->tids_cap, room, err))
		return false;
	for (uint32_t i = 0; i < c->pair_count; i++)
		t->sets[t->count++] = c->pairs[i].set;
	t->count = (uint32_t)id_list_sort(t->sets, t->count);
	memset(t->tids, 0, t->tids_cap * sizeof(uint64_t));
	buf_init(&t->scratch, 0);
	ok = source_attributes(c->q->request.source, t->sets, t->count, take_thread, t, err);
	buf_release(&t->scratch);
	return ok;
}

/* The place of each pair's set in t->tids stands where its lane is to stand. */
static void number_threads(struct chart *c, const struct threads *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		uint32_t pair = number_find(&c->pair_numbers, t->sets[i]);

		for (; pair != UINT32_MAX; pair = c->pairs[pair].next)
			c->pairs[pair].lane = i;
	}
}

static bool add_to_lane(struct chart *c, struct number_table *lanes, struct chart_pair *p,
			uint64_t tid, struct err *err)
{
	const struct engine_series *s = &c->q->selected.series[p->series];
	/* Without a pid, whoever sent it stands for the process. */
	uint64_t parts[] = { s->process ? s->process : s->owner, s->process != 0, tid };
	uint64_t key = hash64(str_from(parts, sizeof(parts)));
	struct chart_lane *lane;

	p->lane = c->lane_count;
	if (!number_enter(c->q, lanes, key, &p->lane, err))
		return false;
	if (p->lane == c->lane_count) {
		if (!QUERY_ROOM(c->q, c->lanes, c->lane_cap, c->lane_count + 1u, err))
			return false;
		c->lanes[c->lane_count++] =
			(struct chart_lane){ .key = key, .thread_known = tid != 0 };
	}
	lane = &c->lanes[p->lane];
	lane->events += p->events;
	lane->value = engine_add(lane->value, p->value);
	if (p->latest >= lane->latest) {
		lane->latest = p->latest;
		lane->latest_pair = (uint32_t)(p - c->pairs);
	}
	return true;
}

bool chart_make_lanes(struct chart *c, struct err *err)
{
	struct number_table lanes = { 0 };
	struct threads t = { .q = c->q };
	bool ok = find_threads(c, &t, err);

	c->lane_count = 0;
	if (ok)
		number_threads(c, &t);
	for (uint32_t i = 0; i < c->pair_count && ok; i++)
		ok = add_to_lane(c, &lanes, &c->pairs[i], t.tids[c->pairs[i].lane], err);
	number_release(c->q, &lanes);
	QUERY_DROP(c->q, t.sets, t.sets_cap);
	QUERY_DROP(c->q, t.tids, t.tids_cap);
	return ok;
}

static int heavier_lane(const void *a, const void *b)
{
	const struct chart_lane *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (x->events != y->events)
		return x->events > y->events ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/* Keeps the lanes of the page, heaviest first; pairs find theirs again (UINT32_MAX: another
 * page's). */
static bool keep_lanes(struct chart *c, uint32_t skipped, uint32_t most, struct err *err)
{
	struct number_table at = { 0 };
	uint64_t *keys = NULL;
	uint32_t cap = 0;
	bool ok = QUERY_ROOM(c->q, keys, cap, c->pair_count + 1u, err);

	for (uint32_t i = 0; i < c->pair_count && ok; i++)
		keys[i] = c->lanes[c->pairs[i].lane].key;
	if (ok && c->lane_count)
		qsort(c->lanes, c->lane_count, sizeof(*c->lanes), heavier_lane);
	c->lanes_in_all = c->lane_count;
	c->lane_count = skipped < c->lane_count ? c->lane_count - skipped : 0;
	c->lane_count = c->lane_count < most ? c->lane_count : most;
	for (uint32_t i = 0; i < c->lane_count && ok; i++) {
		c->lanes[i] = c->lanes[skipped + i];
		ok = number_put(c->q, &at, c->lanes[i].key, i, err);
	}
	for (uint32_t i = 0; i < c->pair_count && ok; i++)
		c->pairs[i].lane = number_find(&at, keys[i]);
	number_release(c->q, &at);
	QUERY_DROP(c->q, keys, cap);
	QUERY_FIT(c->q, c->lanes, c->lane_cap, c->lane_count);
	return ok;
}

/* Events of the page alone, with the new places of their pairs. */
static void keep_events(struct chart *c, const uint32_t *places)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->event_count; i++) {
		struct chart_event e = c->events[i];

		if (places[e.pair] == UINT32_MAX)
			continue;
		e.pair = places[e.pair];
		if (c->has_durations)
			c->durations[kept] = c->durations[i];
		c->events[kept++] = e;
	}
	c->event_count = kept;
	QUERY_FIT(c->q, c->events, c->event_cap, kept);
	QUERY_FIT(c->q, c->durations, c->duration_cap, kept);
}

/* Of pairs and events those of the page. */
static bool keep_pairs(struct chart *c, struct err *err)
{
	uint32_t *places = NULL, cap = 0, kept = 0;
	bool ok = QUERY_ROOM(c->q, places, cap, c->pair_count + 1u, err);

	number_release(c->q, &c->stack_numbers);
	for (uint32_t i = 0; i < c->pair_count && ok; i++) {
		const struct chart_pair p = c->pairs[i];
		struct chart_lane *lane;

		places[i] = UINT32_MAX;
		if (p.lane == UINT32_MAX)
			continue;
		lane = &c->lanes[p.lane];
		if (lane->latest_pair == i)
			lane->latest_pair = kept;
		c->pairs[kept] = p;
		places[i] = kept++;
	}
	if (ok) {
		keep_events(c, places);
		c->pair_count = kept;
		QUERY_FIT(c->q, c->pairs, c->pair_cap, kept);
	}
	QUERY_DROP(c->q, places, cap);
	return ok && chart_number_pairs(c, err);
}

bool chart_keep_page(struct chart *c, uint32_t skipped, uint32_t most, struct err *err)
{
	return keep_lanes(c, skipped, most, err) && keep_pairs(c, err);
}

/* ---- what lanes are called ---- */

struct naming {
	struct chart *c;
	struct query_lane *out; /* of each lane */
};

static bool keep_text(struct query *q, const struct source_attribute *a, struct str *out,
		      struct err *err)
{
	struct buf scratch;
	bool ok;

	buf_init(&scratch, 0);
	ok = query_str_dup(q, attribute_text(a, &scratch), out, err);
	buf_release(&scratch);
	return ok;
}

static bool take_names(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	const struct naming *n = ctx;
	const struct chart *c = n->c;

	for (uint32_t i = 0; i < c->lane_count; i++) {
		const struct chart_lane *lane = &c->lanes[i];

		if (c->pairs[lane->latest_pair].set != id)
			continue;
		for (uint32_t k = 0; k < list.count; k++) {
			struct query_lane *out = &n->out[i];

			if (str_is(list.ptr[k].key, "thread.id") &&
			    !keep_text(c->q, &list.ptr[k], &out->tid, err))
				return false;
			if (str_is(list.ptr[k].key, "thread.name") &&
			    !keep_text(c->q, &list.ptr[k], &out->thread, err))
				return false;
		}
	}
	return true;
}

/* The first of `keys` that a list has. */
static bool name_from(struct query *q, struct source_attributes list, const char *const *keys,
		      struct str *out, struct err *err)
{
	for (; *keys && !out->len; keys++)
		for (uint32_t i = 0; i < list.count; i++)
			if (str_is(list.ptr[i].key, *keys)) {
				if (!keep_text(q, &list.ptr[i], out, err))
					return false;
				break;
			}
	return true;
}

static bool name_of_series(struct query *q, const struct source_series *s, struct query_lane *out,
			   struct err *err)
{
	static const char *const hosts[] = { "host.name", "k8s.node.name", "host.id", NULL };
	static const char *const containers[] = { "container.id", NULL };
	static const char *const pids[] = { "process.pid", NULL };
	static const char *const processes[] = { "process.executable.name", "service.name", NULL };
	const struct {
		const char *const *keys;
		struct str *out;
	} names[] = { { hosts, &out->host },
		      { containers, &out->container },
		      { pids, &out->pid },
		      { processes, &out->process } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!name_from(q, s->resource, names[i].keys, names[i].out, err) ||
		    !name_from(q, s->lifted, names[i].keys, names[i].out, err))
			return false;
	return true;
}

static bool take_series(void *ctx, const struct source_series *s, struct err *err)
{
	const struct naming *n = ctx;
	const struct chart *c = n->c;

	for (uint32_t i = 0; i < c->lane_count; i++) {
		const struct chart_lane *lane = &c->lanes[i];

		if (c->q->selected.series[c->pairs[lane->latest_pair].series].id == s->id &&
		    !name_of_series(c->q, s, &n->out[i], err))
			return false;
	}
	return query_alive(c->q, err);
}

bool chart_name_lanes(struct chart *c, struct query_lane *out, struct err *err)
{
	struct naming n = { c, out };
	struct source *s = c->q->request.source;
	struct source_series_ask ask = { .range = c->q->request.range };
	uint64_t *ids = query_alloc(c->q, c->lane_count + 1u, sizeof(*ids), err);
	uint64_t *sets = query_alloc(c->q, c->lane_count + 1u, sizeof(*sets), err);
	uint32_t count = 0;

	if (!sets || !ids)
		return false;
	for (uint32_t i = 0; i < c->lane_count; i++)
		ids[i] = c->q->selected.series[c->pairs[c->lanes[i].latest_pair].series].id;
	ask.ids = ids;
	ask.id_count = (uint32_t)id_list_sort(ids, c->lane_count);
	for (uint32_t i = 0; i < c->lane_count; i++)
		if (c->pairs[c->lanes[i].latest_pair].set)
			sets[count++] = c->pairs[c->lanes[i].latest_pair].set;
	count = (uint32_t)id_list_sort(sets, count);
	return source_attributes(s, sets, count, take_names, &n, err) &&
	       source_series(s, &ask, take_series, &n, err);
}
