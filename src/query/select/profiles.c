/* profiles.c - the profiles that samples of the selection are of, and the time that they cover. */
#include <string.h>

#include "query/select/label_match.h"
#include "query/select/walk.h"

bool engine_profile_wanted(const struct query *q, const struct source_profile *p)
{
	for (uint32_t i = 0; i < q->request.profile_id_count; i++)
		if (memcmp(q->request.profile_ids + (size_t)16 * i, p->id, sizeof(p->id)) == 0)
			return true;
	return q->request.profile_id_count == 0;
}

static bool take_profile(void *ctx, const struct source_profile *p, struct err *err)
{
	struct query *q = ctx;
	struct engine_profile out = { .first_sample = p->first_sample,
				      .sample_count = p->sample_count,
				      .time = p->time,
				      .duration = p->duration,
				      .wanted = engine_profile_wanted(q, p) };

	if (!label_match_attributes(q, p->attributes, &out.match, err))
		return false;
	if (!QUERY_ROOM(q, q->known.profiles, q->known.profile_cap, q->known.profile_count + 1u,
			err))
		return false;
	q->known.profiles[q->known.profile_count++] = out;
	return query_alive(q, err);
}

/* Profiles that may have samples of what is selected. */
static struct source_scan profiles_scan(const struct query *q)
{
	struct source_scan scan = engine_series_scan(q);

	scan.links = q->links.asked ? q->links.ids : NULL;
	scan.link_count = q->links.count;
	scan.after = q->request.after;
	if (q->links.range.to) {
		if (q->links.range.from > scan.range.from)
			scan.range.from = q->links.range.from;
		if (q->links.range.to < scan.range.to)
			scan.range.to = q->links.range.to;
	}
	return scan;
}

bool engine_load_profiles(struct query *q, struct err *err)
{
	struct source *s = q->request.source;
	struct source_scan scan = profiles_scan(q);

	if (q->known.profiles_loaded)
		return true;
	q->known.profile_count = 0;
	q->known.profiles_loaded = true;
	return s->ops->profiles(s, &scan, take_profile, q, err);
}

struct time_walk {
	struct query *q;
	bool (*fn)(void *ctx, uint64_t time, uint64_t duration, struct err *err);
	void *ctx;
};

static bool pass_times(void *ctx, const struct source_profile *p, struct err *err)
{
	const struct time_walk *w = ctx;

	return query_alive(w->q, err) && w->fn(w->ctx, p->time, p->duration, err);
}

bool engine_profile_times(struct query *q,
			  bool (*fn)(void *ctx, uint64_t time, uint64_t duration, struct err *err),
			  void *ctx, struct err *err)
{
	struct source *s = q->request.source;
	struct source_scan scan = profiles_scan(q);
	struct time_walk w = { q, fn, ctx };
	bool ok = true;

	scan.parts = ROW_TIMES;
	if (!measured_series(q, &scan.series, &scan.series_count, err))
		return false;
	if (!q->known.profiles_loaded || scan.series != q->selected.series_ids)
		return s->ops->profiles(s, &scan, pass_times, &w, err);
	for (uint32_t i = 0; i < q->known.profile_count && ok; i++)
		ok = query_alive(q, err) &&
		     fn(ctx, q->known.profiles[i].time, q->known.profiles[i].duration, err);
	return ok;
}

const struct engine_profile *engine_profile_of(const struct query *q, uint64_t sample)
{
	uint32_t low = 0, high = q->known.profile_count;

	while (low < high) { /* the first that begins behind it */
		uint32_t mid = low + (high - low) / 2;

		if (q->known.profiles[mid].first_sample <= sample)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || sample - q->known.profiles[low - 1].first_sample >=
				q->known.profiles[low - 1].sample_count)
		return NULL;
	return &q->known.profiles[low - 1];
}

bool engine_event_end(struct query *q, const struct engine_event *e, uint64_t *out, struct err *err)
{
	const struct engine_profile *p = NULL;

	if (!e->row->timestamp_count) {
		if (!engine_load_profiles(q, err))
			return false;
		p = engine_profile_of(q, e->row->sample);
	}
	if (__builtin_add_overflow(e->time, p && p->duration ? p->duration : 1, out))
		*out = UINT64_MAX;
	return true;
}

/* ---- how much of the window the selection's profilers measured ---- */

struct covering {
	struct query *q;
	struct source_range *ranges; /* apart from each other, ascending */
	uint32_t count, cap;
};

/* Takes [from, to) in: what it touches becomes one with it. */
static bool cover_time(struct covering *c, uint64_t from, uint64_t to, struct err *err)
{
	uint32_t at = c->count, end;

	while (at > 0 && c->ranges[at - 1].to >= from)
		at--;
	end = at;
	while (end < c->count && c->ranges[end].from <= to) {
		from = c->ranges[end].from < from ? c->ranges[end].from : from;
		to = c->ranges[end].to > to ? c->ranges[end].to : to;
		end++;
	}
	if (end == at && !QUERY_ROOM(c->q, c->ranges, c->cap, c->count + 1u, err))
		return false;
	memmove(&c->ranges[at + 1], &c->ranges[end], (c->count - end) * sizeof(*c->ranges));
	c->count = c->count - (end - at) + 1;
	c->ranges[at] = (struct source_range){ from, to };
	return true;
}

static bool cover_profile(void *ctx, uint64_t from, uint64_t duration, struct err *err)
{
	struct covering *c = ctx;
	struct source_range window = c->q->request.range;
	uint64_t to;

	if (!duration || __builtin_add_overflow(from, duration, &to))
		return true;
	from = from < window.from ? window.from : from;
	to = to > window.to ? window.to : to;
	return from >= to || cover_time(c, from, to, err);
}

bool query_covered(struct query *q, uint64_t *out_ns, struct err *err)
{
	struct covering c = { .q = q };
	bool ok = engine_profile_times(q, cover_profile, &c, err);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c.count; i++)
		sum += c.ranges[i].to - c.ranges[i].from;
	QUERY_DROP(q, c.ranges, c.cap);
	if (ok)
		*out_ns = sum;
	return ok;
}
