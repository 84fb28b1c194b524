#include "store/clickhouse/encode_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"

struct sample_ids {
	uint64_t t0, t1, series, stack, attributes, link;
};

static enum ch_shape shape_of(const struct put *x, const struct sample *s, int64_t total,
			      const struct sample_ids *i)
{
	bool silent = s->values.count == 0 && total == 1;
	bool valued = s->values.count == 1 && x->p->values[s->values.first] == total;

	if ((!silent && !valued) || s->timestamps.count > 1)
		return i->t1 - i->t0 > UINT32_MAX ? CH_LISTS : CH_OFFSETS;
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
	VEC_ROOM(e->cuts, e->cut_count, e->cut_cap);
	e->cuts[e->cut_count++] = e->samples.len;
}

static void put_values(struct put *x, const struct sample *s)
{
	row_count(&x->e->samples, s->values.count);
	buf_append(&x->e->samples, x->p->values + s->values.first,
		   s->values.count * sizeof(*x->p->values));
}

static void put_times(struct put *x, const struct sample *s, bool some)
{
	uint32_t count = some ? s->timestamps.count : 0;

	row_count(&x->e->samples, count);
	buf_append(&x->e->samples, x->p->timestamps + s->timestamps.first,
		   count * sizeof(*x->p->timestamps));
}

static void put_offsets(struct put *x, const struct sample *s, bool some, uint64_t t0)
{
	uint32_t count = some ? s->timestamps.count : 0;

	row_count(&x->e->samples, count);
	for (uint32_t i = 0; i < count; i++)
		row_u32(&x->e->samples, (uint32_t)(x->p->timestamps[s->timestamps.first + i] - t0));
}

/* Most rows are of numbers alone, which are written without a look at the buffer's end. */
enum { ROW_BYTES = 2 + 8 + 8 + 4 + 11 + 8 + 10 + 10 + 8 + 9 + 1, NO_LISTS_BYTES = 3 };

#define NUMBER(at, type, v)                              \
	do {                                             \
		type number_ = (type)(v);                \
		memcpy((at), &number_, sizeof(number_)); \
		(at) += sizeof(number_);                 \
	} while (0)

/* The ten minutes, and what is left of them in 8 and 32 bits; the span in milliseconds. */
static char *add_times(char *at, const struct sample_ids *i)
{
	uint64_t bucket = i->t0 / STORE_BUCKET_NS, rest = i->t0 % STORE_BUCKET_NS,
		 span = i->t1 - i->t0;
	uint64_t span_ms = span / MILLI_NS + (span % MILLI_NS != 0);

	NUMBER(at, uint32_t, bucket);
	NUMBER(at, uint8_t, rest >> 32);
	NUMBER(at, uint32_t, rest);
	NUMBER(at, uint16_t, span_ms > UINT16_MAX ? UINT16_MAX : span_ms);
	return at;
}

static char *add_id(char *at, uint64_t id)
{
	NUMBER(at, uint64_t, id >> 16);
	NUMBER(at, uint16_t, id);
	return at;
}

static void add_sample(struct put *x, const struct sample *s, uint64_t place,
		       const struct sample_ids *i)
{
	int64_t total = sample_total(x->p, &x->p->profiles[x->profile], s).value;
	enum ch_shape shape = shape_of(x, s, total, i);
	struct buf *b = &x->e->samples;
	char *at, *from;

	note_cut(x->e);
	x->e->sample_rows++;
	at = from = buf_reserve(b, ROW_BYTES + NO_LISTS_BYTES);
	assert(at);
	NUMBER(at, uint16_t, x->day);
	NUMBER(at, uint64_t, x->request);
	NUMBER(at, uint64_t, x->base);
	NUMBER(at, uint32_t, place);
	at = add_times(at, i);
	NUMBER(at, uint64_t, i->series);
	at = add_id(at, i->stack);
	at = add_id(at, i->attributes);
	NUMBER(at, uint64_t, i->link);
	NUMBER(at, uint64_t, total >> 8);
	NUMBER(at, uint8_t, total);
	NUMBER(at, uint8_t, shape);
	if (shape != CH_LISTS && shape != CH_OFFSETS) {
		memset(at, 0, NO_LISTS_BYTES);
		buf_advance(b, (size_t)(at - from) + NO_LISTS_BYTES);
		return;
	}
	buf_advance(b, (size_t)(at - from));
	put_values(x, s);
	put_offsets(x, s, shape == CH_OFFSETS, i->t0);
	put_times(x, s, shape == CH_LISTS);
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
