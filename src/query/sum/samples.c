/* samples.c - the raw view: single samples with all that came with them, a page at a time. */
#include <stddef.h>
#include <stdlib.h>

#include "model/copy.h"
#include "query/sum/frames.h"
#include "query/sum/rows.h"

enum { PAGE_DEFAULT = 100, PAGE_MOST = 10000 };

/* Where a sample stands in the view's order. */
struct place {
	uint64_t time, sample;
};

struct paging {
	struct query *q;
	bool newest_first;
	struct place after;
	struct place *heap; /* the last of the page so far on top */
	uint32_t count, cap, most;
	bool more;
	struct kept_rows rows;
	struct query_sample *out;
	struct number_set ids;          /* of a member of the rows */
	struct source_attributes *sets; /* by place of ids */
	struct source_link *links;
	struct source_attributes *resources; /* by place of series */
	struct copier copier;
};

static bool is_before(struct place a, struct place b)
{
	return a.time != b.time ? a.time < b.time : a.sample < b.sample;
}

/* In the order of the page. */
static bool comes_before(const struct paging *p, struct place a, struct place b)
{
	return p->newest_first ? is_before(b, a) : is_before(a, b);
}

static void swap_places(struct place *a, struct place *b)
{
	struct place t = *a;

	*a = *b;
	*b = t;
}

static void sift_up(struct paging *p, uint32_t at)
{
	struct place *heap = p->heap;

	for (; at && comes_before(p, heap[(at - 1) / 2], heap[at]); at = (at - 1) / 2)
		swap_places(&heap[(at - 1) / 2], &heap[at]);
}

static void sift_down(struct paging *p)
{
	struct place *heap = p->heap;
	uint32_t at = 0, count = p->count;

	for (;;) {
		uint32_t last = at, left = at * 2 + 1;

		for (uint32_t c = left; c < left + 2 && c < count; c++)
			if (comes_before(p, heap[last], heap[c]))
				last = c;
		if (last == at)
			return;
		swap_places(&heap[at], &heap[last]);
		at = last;
	}
}

/* First walk: which samples the page has. */
static bool choose_place(void *ctx, const struct engine_event *e, struct err *err)
{
	struct paging *p = ctx;
	struct place here = { e->time, e->row->sample };

	if (!e->first || !comes_before(p, p->after, here))
		return true;
	if (p->count < p->most) {
		if (!QUERY_ROOM(p->q, p->heap, p->cap, p->count + 1u, err))
			return false;
		p->heap[p->count] = here;
		sift_up(p, p->count++);
		return true;
	}
	p->more = true;
	if (comes_before(p, here, p->heap[0])) {
		p->heap[0] = here;
		sift_down(p);
	}
	return true;
}

static int place_order(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return is_before(*x, *y) ? -1 : is_before(*y, *x);
}

/* Second walk: those samples whole; the heap is sorted by now. */
static bool keep_row(void *ctx, const struct engine_event *e, struct err *err)
{
	struct paging *p = ctx;
	struct place here = { e->time, e->row->sample };

	if (!e->first || !p->count || is_before(p->heap[p->count - 1], here) ||
	    is_before(here, p->heap[0]))
		return true;
	if (!bsearch(&here, p->heap, p->count, sizeof(here), place_order))
		return true;
	return kept_rows_add(&p->rows, e, err);
}

static int row_order(const void *a, const void *b)
{
	const struct kept_row *x = a, *y = b;
	struct place p = { x->time, x->sample }, q = { y->time, y->sample };

	return place_order(&p, &q);
}

static int row_order_newest(const void *a, const void *b)
{
	return row_order(b, a);
}

/* ---- what the numbers mean ---- */

static bool copy_attributes(struct paging *p, struct source_attributes from,
			    struct source_attributes *out, struct err *err)
{
	struct source_attribute *a = query_alloc(p->q, from.count + 1u, sizeof(*a), err);

	if (!a)
		return false;
	for (uint32_t i = 0; i < from.count; i++)
		a[i] = (struct source_attribute){
			.key = copy_string(&p->copier, from.ptr[i].key),
			.unit = copy_string(&p->copier, from.ptr[i].unit),
			.value = copy_any(&p->copier, &from.ptr[i].value),
		};
	*out = (struct source_attributes){ a, from.count };
	return !p->copier.failed || err_set(err, ERR_LIMIT,
					    "the page's attributes need more than "
					    "one query's memory");
}

static bool take_set(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	struct paging *p = ctx;
	uint32_t at = id_place(p->ids.ptr, p->ids.count, id);

	return at == UINT32_MAX || copy_attributes(p, list, &p->sets[at], err);
}

static bool take_link(void *ctx, const struct source_link *link, struct err *err)
{
	struct paging *p = ctx;
	uint32_t at = id_place(p->ids.ptr, p->ids.count, link->id);

	(void)err;
	if (at != UINT32_MAX)
		p->links[at] = *link;
	return true;
}

static bool take_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct paging *p = ctx;
	uint32_t at = id_place(p->ids.ptr, p->ids.count, s->id);

	return at == UINT32_MAX || copy_attributes(p, s->resource, &p->resources[at], err);
}

/* Calls `walk` with the distinct ids of a member and then `put` for each row that has one. */
static bool each_member(struct paging *p, size_t offset,
			bool (*walk)(struct paging *, struct err *),
			void (*put)(struct paging *, uint32_t row, uint32_t at), struct err *err)
{
	bool ok = kept_rows_distinct(&p->rows, offset, &p->ids, err) && walk(p, err);

	for (uint32_t i = 0; i < p->rows.count && ok; i++) {
		uint64_t id;
		uint32_t at;

		memcpy(&id, (const char *)&p->rows.ptr[i] + offset, sizeof(id));
		at = id_place(p->ids.ptr, p->ids.count, id);
		if (at != UINT32_MAX)
			put(p, i, at);
	}
	number_set_release(p->q, &p->ids);
	return ok;
}

static bool walk_sets(struct paging *p, struct err *err)
{
	struct source *s = p->q->request.source;

	p->sets = query_alloc(p->q, p->ids.count + 1u, sizeof(*p->sets), err);
	return p->sets && source_attributes(s, p->ids.ptr, p->ids.count, take_set, p, err);
}

static void put_set(struct paging *p, uint32_t row, uint32_t at)
{
	p->out[row].attributes = p->sets[at];
}

static bool walk_links(struct paging *p, struct err *err)
{
	struct source *s = p->q->request.source;

	p->links = query_alloc(p->q, p->ids.count + 1u, sizeof(*p->links), err);
	return p->links && source_links(s, p->ids.ptr, p->ids.count, take_link, p, err);
}

static void put_link(struct paging *p, uint32_t row, uint32_t at)
{
	memcpy(p->out[row].trace_id, p->links[at].trace_id, sizeof(p->out[row].trace_id));
	memcpy(p->out[row].span_id, p->links[at].span_id, sizeof(p->out[row].span_id));
}

static bool walk_series(struct paging *p, struct err *err)
{
	struct source *s = p->q->request.source;

	struct source_series_ask ask = { .range = p->q->request.range,
					 .ids = p->ids.ptr,
					 .id_count = p->ids.count };

	p->resources = query_alloc(p->q, p->ids.count + 1u, sizeof(*p->resources), err);
	return p->resources && source_series(s, &ask, take_series, p, err);
}

static void put_series(struct paging *p, uint32_t row, uint32_t at)
{
	p->out[row].resource = p->resources[at];
}

static bool take_profile(void *ctx, const struct source_profile *profile, struct err *err)
{
	struct paging *p = ctx;
	bool copied = false;
	struct source_attributes attributes = { 0 };

	for (uint32_t i = 0; i < p->rows.count; i++) {
		struct query_sample *out = &p->out[i];

		if (p->rows.ptr[i].sample < profile->first_sample ||
		    p->rows.ptr[i].sample - profile->first_sample >= profile->sample_count)
			continue;
		if (!copied && !copy_attributes(p, profile->attributes, &attributes, err))
			return false;
		copied = true;
		out->profile_attributes = attributes;
		out->profile_time = profile->time;
		out->profile_duration = profile->duration;
		memcpy(out->profile_id, profile->id, sizeof(out->profile_id));
	}
	return query_alive(p->q, err);
}

static bool put_profiles(struct paging *p, struct err *err)
{
	struct query *q = p->q;
	struct source *s = q->request.source;
	struct source_scan scan = engine_series_scan(q);

	return s->ops->profiles(s, &scan, take_profile, p, err);
}

/* Frames stand root first in runs, leaf first in the view. */
static bool put_frames(struct paging *p, struct query_frames *frames, struct err *err)
{
	struct frame_set s;
	struct number_set ids;
	bool ok;

	if (!frame_set_init(&s, p->q, err))
		return false;
	ok = kept_rows_distinct(&p->rows, offsetof(struct kept_row, stack), &ids, err) &&
	     frame_set_resolve(&s, ids.ptr, ids.count, FILTERS_OFF, err);
	for (uint32_t i = 0; i < p->rows.count && ok; i++) {
		uint32_t at = id_place(ids.ptr, ids.count, p->rows.ptr[i].stack), *copy;
		struct frame_run r = { 0 };

		if (at != UINT32_MAX)
			r = s.runs[at];
		copy = query_alloc(p->q, r.count + 1u, sizeof(*copy), err);
		ok = copy != NULL;
		for (uint32_t k = 0; k < r.count && ok; k++)
			copy[k] = s.pool[r.first + r.count - 1 - k];
		p->out[i].frames = copy;
		p->out[i].frame_count = r.count;
	}
	ok = ok && frame_set_give(&s, frames, err);
	number_set_release(p->q, &ids);
	frame_set_release(&s);
	return ok;
}

static bool put_numbers(struct paging *p, struct err *err)
{
	for (uint32_t i = 0; i < p->rows.count; i++) {
		const struct kept_row *r = &p->rows.ptr[i];
		struct query_sample *out = &p->out[i];
		uint64_t *times = query_alloc(p->q, r->timestamp_count + 1u, sizeof(uint64_t), err);
		int64_t *values = query_alloc(p->q, r->value_count + 1u, sizeof(int64_t), err);

		if (!times || !values)
			return false;
		if (r->timestamp_count)
			memcpy(times, p->rows.timestamps + r->first_timestamp,
			       r->timestamp_count * sizeof(uint64_t));
		if (r->value_count)
			memcpy(values, p->rows.values + r->first_value,
			       r->value_count * sizeof(int64_t));
		*out = (struct query_sample){ .time = r->time,
					      .sample = r->sample,
					      .value = r->value,
					      .timestamps = times,
					      .values = values,
					      .timestamp_count = r->timestamp_count,
					      .value_count = r->value_count };
	}
	return true;
}

static bool fill_page(struct paging *p, struct query_frames *frames, struct err *err)
{
	p->out = query_alloc(p->q, p->rows.count + 1u, sizeof(*p->out), err);
	if (!p->out)
		return false;
	if (p->rows.count)
		qsort(p->rows.ptr, p->rows.count, sizeof(*p->rows.ptr),
		      p->newest_first ? row_order_newest : row_order);
	return put_numbers(p, err) &&
	       each_member(p, offsetof(struct kept_row, attributes), walk_sets, put_set, err) &&
	       each_member(p, offsetof(struct kept_row, link), walk_links, put_link, err) &&
	       each_member(p, offsetof(struct kept_row, series), walk_series, put_series, err) &&
	       put_profiles(p, err) && put_frames(p, frames, err);
}

bool query_samples(struct query *q, const struct query_samples_options *o,
		   struct query_samples *out, struct err *err)
{
	static const struct query_samples_options defaults;
	struct query_frames frames = { 0 };
	struct paging p = { .q = q,
			    .newest_first = o && o->newest_first,
			    .rows.q = q,
			    .copier.arena = &q->memory.arena };
	const struct walk w = walk_of(q, 0);
	bool ok;

	o = o ? o : &defaults;
	q->partial = false;
	p.after = (struct place){ o->after_time, o->after_sample };
	if (o->newest_first && !o->after_time && !o->after_sample)
		p.after = (struct place){ UINT64_MAX, UINT64_MAX };
	p.most = o->page ? o->page : PAGE_DEFAULT;
	if (p.most > PAGE_MOST)
		return err_set(err, ERR_LIMIT, "a page of %u samples; at most %d", o->page,
			       PAGE_MOST);
	ok = engine_events(q, &w, choose_place, &p, err);
	if (ok && p.count)
		qsort(p.heap, p.count, sizeof(*p.heap), place_order);
	ok = ok && engine_events(q, &w, keep_row, &p, err) && fill_page(&p, &frames, err);
	if (ok)
		*out = (struct query_samples){ p.out, p.rows.count, p.more, frames };
	QUERY_DROP(q, p.heap, p.cap);
	kept_rows_release(&p.rows);
	return ok;
}
