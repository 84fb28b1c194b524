#include "store/clickhouse/encode_internal.h"

#include <assert.h>
#include <stdlib.h>

/* Only timestamps, of which the first and the last are told by t0 and span. */
static bool has_many_times(const struct put *x, const struct sample *s)
{
	const uint64_t *times = x->p->timestamps + s->timestamps.first;
	uint64_t first, last;

	if (s->values.count || s->timestamps.count < 2)
		return false;
	sample_times(x->p, &x->p->profiles[x->profile], s, &first, &last);
	return times[0] == first && times[s->timestamps.count - 1] == last;
}

static enum ch_shape shape_of(const struct put *x, const struct sample *s, int64_t total)
{
	bool silent = s->values.count == 0 && total == 1;
	bool valued = s->values.count == 1 && x->p->values[s->values.first] == total;

	if (has_many_times(x, s))
		return CH_MANY_TIMES;
	if ((!silent && !valued) || s->timestamps.count > 1)
		return CH_LISTS;
	if (s->timestamps.count)
		return silent ? CH_ONE_TIME : CH_ONE_TIME_VALUE;
	return silent ? CH_NO_TIME : CH_NO_TIME_VALUE;
}

static void note_link(struct put *x, const struct sample *s, uint64_t t0, uint64_t t1)
{
	struct link_span *l = &x->link_spans[s->link.v];

	if (!l->used || t0 < l->t0)
		l->t0 = t0;
	if (!l->used || t1 > l->t1)
		l->t1 = t1;
	if (!l->used)
		l->service = str_dup(&x->e->arena,
				     lifted_service(x->p, x->resource, NULL, 0, &x->e->scratch));
	l->used = true;
}

static bool is_there(struct put *x, uint64_t place)
{
	const struct ch_request *r = x->r;

	while (x->have_at < r->have_count && r->have[x->have_at] < place)
		x->have_at++;
	return x->have_at < r->have_count && r->have[x->have_at] == place;
}

static void note_cut(struct ch_encoder *e)
{
	if (!e->sample_rows || e->sample_rows % CH_PART_ROWS)
		return;
	if (e->cut_count == e->cut_cap) {
		e->cut_cap = e->cut_cap ? e->cut_cap * 2 : 16;
		e->cuts = realloc(e->cuts, e->cut_cap * sizeof(*e->cuts));
		assert(e->cuts);
	}
	e->cuts[e->cut_count++] = e->samples.len;
}

struct sample_ids {
	uint64_t t0, t1, series, stack, attributes, link;
};

static void add_sample(struct put *x, const struct sample *s, uint64_t place,
		       const struct sample_ids *i)
{
	int64_t total = sample_total(x->p, &x->p->profiles[x->profile], s).value;
	enum ch_shape shape = shape_of(x, s, total);
	struct buf *b = &x->e->samples;

	note_cut(x->e);
	row_u16(b, x->day);
	row_u64(b, x->request);
	row_u64(b, x->base);
	row_u32(b, (uint32_t)place);
	row_u64(b, i->t0);
	row_u64(b, i->t1 - i->t0);
	row_u64(b, i->series);
	row_u64(b, i->stack);
	row_u64(b, i->attributes);
	row_u64(b, i->link);
	row_u64(b, (uint64_t)total);
	row_u8(b, (uint8_t)shape);
	if (shape == CH_LISTS) {
		row_count(b, s->values.count);
		buf_append(b, x->p->values + s->values.first,
			   s->values.count * sizeof(*x->p->values));
		row_count(b, s->timestamps.count);
		buf_append(b, x->p->timestamps + s->timestamps.first,
			   s->timestamps.count * sizeof(*x->p->timestamps));
	} else if (shape == CH_MANY_TIMES) {
		row_count(b, 0);
		row_count(b, s->timestamps.count - 2);
		buf_append(b, x->p->timestamps + s->timestamps.first + 1,
			   (s->timestamps.count - 2) * sizeof(*x->p->timestamps));
	} else {
		row_count(b, 0);
		row_count(b, 0);
	}
	x->e->sample_rows++;
}

uint64_t ch_put_sample(struct put *x, uint32_t index, uint64_t place, uint64_t *t0)
{
	const struct sample *s = &x->p->samples[index];
	uint32_t lifted = lifted_of(&x->lifted, x->resource, s, &x->e->arena);
	struct sample_ids i = { 0 };

	sample_times(x->p, &x->p->profiles[x->profile], s, &i.t0, &i.t1);
	i.series = lifted ? ch_put_series(x, x->lifted.at, lifted) : x->series;
	i.stack = ch_put_stack(x, s->stack.v);
	i.attributes = ch_put_list(x, s->attributes);
	i.link = s->link.v ? ch_put_link(x, s->link.v) : 0;
	if (i.link)
		note_link(x, s, i.t0, i.t1);
	ch_put_reach(x, i.t0, i.t1 - i.t0);
	ch_note_of(x, MESSAGE_SAMPLE, index, place);
	if (!is_there(x, place))
		add_sample(x, s, place, &i);
	x->first = i.t0 < x->first ? i.t0 : x->first;
	x->last = i.t1 > x->last ? i.t1 : x->last;
	x->samples++;
	*t0 = i.t0;
	return i.series;
}
