/* reader_events.c - the events of chunks (chunk.h), column by column, run by run. */
#include <stdlib.h>

#include "store/chunk.h"
#include "store/id_list.h"
#include "store/reader_internal.h"

enum { AT_ONCE = 2 * CHUNK_SAMPLES_MOST };

/* Columns of a chunk, unpacked, and of the events that are to be given. */
struct event_room {
	uint64_t form[CHUNK_SAMPLES_MOST], dt[CHUNK_SAMPLES_MOST], value[CHUNK_SAMPLES_MOST];
	uint64_t stack[CHUNK_SAMPLES_MOST], attributes[CHUNK_SAMPLES_MOST];
	uint64_t times[AT_ONCE];
	int64_t values[AT_ONCE];
	store_id stacks[AT_ONCE], sets[AT_ONCE];
	struct store_events out;
	uint8_t *series; /* a bit each that is wanted; NULL: all */
	uint64_t series_most;
};

bool event_room_make(struct sample_scan *x)
{
	const struct store_scan *w = x->what;
	struct event_room *r = malloc(sizeof(*r));

	assert(r);
	r->out = (struct store_events){
		.times = r->times, .values = r->values, .stacks = r->stacks, .attributes = r->sets
	};
	r->series = NULL;
	r->series_most = w->series_count ? w->series[w->series_count - 1] : 0;
	if (w->series && r->series_most <= UINT32_MAX) { /* the writer counts in 32 bits */
		r->series = calloc(r->series_most / 8 + 1, 1);
		assert(r->series);
		for (size_t i = 0; i < w->series_count; i++)
			r->series[w->series[i] / 8] |= (uint8_t)(1u << w->series[i] % 8);
	}
	x->room = r;
	return !w->series || r->series ||
	       err_set(x->err, ERR_INVALID, "the series %llu is none of this store's",
		       (unsigned long long)r->series_most);
}

void event_room_free(struct sample_scan *x)
{
	if (x->room)
		free(x->room->series);
	free(x->room);
	x->room = NULL;
}

static bool is_wanted(const struct event_room *r, uint64_t series)
{
	return !r->series ||
	       (series <= r->series_most && r->series[series / 8] >> (series % 8) & 1);
}

/* ---- columns ---- */

/* The numbers [from, to), each to its place. */
static void unpack_numbers(const struct cells *c, uint32_t from, uint32_t to, uint64_t *out)
{
	const uint8_t *p = c->bytes + (size_t)from * c->width;
	unsigned width = c->width, drop = 64 - 8 * width;
	uint32_t i = from;

	/* As long as eight bytes can be read at once. */
	for (; width && i < to && c->end - p >= 8; i++, p += width) {
		uint64_t v;

		memcpy(&v, p, 8);
		out[i] = c->base + (be64toh(v) >> drop);
	}
	for (; width && i < to; i++)
		out[i] = cells_number(c, i);
	for (; i < to; i++)
		out[i] = c->base;
}

static void unpack_ids(const struct cells *c, uint32_t from, uint32_t to, uint64_t *out)
{
	unpack_numbers(c, from, to, out);
	for (uint32_t i = from; i < to; i++)
		out[i] = out[i] == c->base ? 0 : out[i];
}

static void unpack(struct event_room *r, const struct chunk *c, uint32_t from, uint32_t to)
{
	unpack_numbers(&c->dt, from, to, r->dt);
	unpack_numbers(&c->value, from, to, r->value);
	unpack_ids(&c->stack, from, to, r->stack);
	unpack_ids(&c->attrset, from, to, r->attributes);
}

/* ---- events ---- */

static void give(struct sample_scan *x)
{
	struct event_room *r = x->room;

	if (r->out.count && !x->ended)
		x->ended = !x->events(x->arg, &r->out);
	r->out.count = 0;
}

static void put(struct sample_scan *x, uint32_t i, uint64_t time, int64_t value, bool timed)
{
	struct event_room *r = x->room;
	uint32_t at;

	if (r->out.count == AT_ONCE || (r->out.count && r->out.timed != timed))
		give(x);
	at = r->out.count++;
	r->out.timed = timed;
	r->times[at] = time;
	r->values[at] = value;
	r->stacks[at] = r->stack[i];
	r->sets[at] = r->attributes[i];
}

static bool in_window(const struct sample_scan *x, uint64_t time)
{
	return time >= x->what->from && time < x->what->to;
}

static int64_t sum_of(const struct store_sample *s)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < s->value_count; i++)
		if (__builtin_add_overflow(sum, s->values[i], &sum))
			sum = s->values[i] < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

/* What each timestamp counts: as sample_value_at() has it. */
static void put_list(struct sample_scan *x, uint32_t i, const struct store_sample *s)
{
	int64_t sum = sum_of(s);
	/* Senders of old versions wrote a 1 beside n timestamps and meant n events. */
	bool ones = s->value_count == 0 ||
		    (s->value_count == 1 && s->timestamp_count > 1 && s->values[0] == 1 &&
		     s->value == (int64_t)s->timestamp_count);

	if (!s->timestamp_count && in_window(x, s->t0))
		put(x, i, s->t0, sum, false);
	for (uint32_t k = 0; k < s->timestamp_count; k++) {
		int64_t v = ones ? 1
			    : s->value_count == s->timestamp_count
				    ? s->values[k]
				    : value_share(sum, s->timestamp_count, k);

		if (in_window(x, s->timestamps[k]))
			put(x, i, s->timestamps[k], v, true);
	}
}

static bool put_more(struct sample_scan *x, struct chunk *c, uint32_t i, bool wanted)
{
	struct event_room *r = x->room;
	struct str more = codec_get_str(&c->more);
	struct store_sample s = { 0 };

	if (!wanted)
		return !c->more.failed;
	s.t0 = c->bucket * STORE_BUCKET_NS + r->dt[i];
	s.value = (int64_t)r->value[i];
	if (c->more.failed || !reader_more(x->snap, more, &s))
		return false;
	s.values = x->snap->values;
	s.timestamps = x->snap->times;
	put_list(x, i, &s);
	return true;
}

static void put_one(struct sample_scan *x, uint32_t i, uint64_t time, enum chunk_form form)
{
	bool timed = form == CHUNK_TIME || form == CHUNK_TIME_VALUE;
	int64_t value = (int64_t)x->room->value[i];

	/* Without a value a timestamp counts 1, and no timestamp nothing. */
	if (form == CHUNK_TIME || form == CHUNK_NO_TIME)
		value = timed;
	put(x, i, time, value, timed);
}

/* The lists of samples that are not asked for. */
static bool skip_more(struct chunk *c, uint32_t i, uint32_t end)
{
	const struct cells *f = &c->form;
	uint32_t lists = 0;

	if (f->width == 1) {
		const uint8_t *forms = f->bytes;

		for (; i < end; i++)
			lists += f->base + forms[i] == CHUNK_MORE;
	}
	for (; i < end; i++)
		lists += cells_number(f, i) == CHUNK_MORE;
	for (; lists && !c->more.failed; lists--)
		codec_get_str(&c->more);
	return !c->more.failed;
}

/* Samples of one timestamp, which most are, from `i` on: until the end, or one that is otherwise.
 */
static uint32_t put_timed(struct sample_scan *x, uint32_t i, uint32_t end, uint64_t begin)
{
	struct event_room *r = x->room;
	uint32_t at;

	if (r->out.count && (!r->out.timed || r->out.count == AT_ONCE))
		give(x);
	r->out.timed = true;
	at = r->out.count;
	for (; i < end && r->form[i] <= CHUNK_TIME_VALUE && at < AT_ONCE; i++, at++) {
		r->times[at] = begin + r->dt[i];
		r->values[at] = r->form[i] == CHUNK_TIME ? 1 : (int64_t)r->value[i];
		r->stacks[at] = r->stack[i];
		r->sets[at] = r->attributes[i];
	}
	r->out.count = at;
	return i;
}

static bool put_run(struct sample_scan *x, struct chunk *c, uint32_t run, bool inside)
{
	struct event_room *r = x->room;
	uint32_t end = chunk_run_end(c, run), i = (uint32_t)cells_get(&c->run_first, run);
	uint64_t begin = c->bucket * STORE_BUCKET_NS, seq = c->seq + cells_get(&c->run_seq, run);
	const struct store_scan *w = x->what;
	uint32_t first = i;
	bool whole;

	r->out.series = cells_id(&c->series, run);
	if (!is_wanted(r, r->out.series))
		return c->more.at == c->more.end || skip_more(c, i, end);
	unpack_numbers(&c->form, i, end, r->form);
	unpack(r, c, i, end);
	/* All of the run is asked for. */
	whole = inside && seq > w->after && (!w->asof || seq + (end - i) <= w->asof + 1);
	while (i < end && !x->ended) {
		uint64_t form = r->form[i], number = seq + (i - first);
		bool now = number > w->after && (!w->asof || number <= w->asof);

		if (whole && form <= CHUNK_TIME_VALUE) {
			i = put_timed(x, i, end, begin);
			continue;
		}
		if (form == CHUNK_MORE ? !put_more(x, c, i, now) : form > CHUNK_MORE)
			return false;
		if (form != CHUNK_MORE && now && (inside || in_window(x, begin + r->dt[i])))
			put_one(x, i, begin + r->dt[i], (enum chunk_form)form);
		i++;
	}
	give(x);
	return true;
}

static bool has_wanted(const struct event_room *r, const struct chunk *c)
{
	uint32_t run = 0;

	while (run < c->runs && !is_wanted(r, cells_id(&c->series, run)))
		run++;
	return run < c->runs;
}

bool reader_give_events(struct sample_scan *x, struct chunk *c)
{
	uint64_t begin = c->bucket * STORE_BUCKET_NS;
	struct event_room *r = x->room;
	/* Only what every sample is in: lists may reach further and are looked at each. */
	bool inside = c->dt.width < 8 && begin + c->dt.base >= x->what->from &&
		      begin + c->last < x->what->to;

	if (!has_wanted(r, c))
		return true;
	reader_room(x->snap);
	r->out.count = 0;
	for (uint32_t run = 0; run < c->runs && !x->ended; run++)
		if (!put_run(x, c, run, inside))
			return err_set(x->err, ERR_INVALID, "the samples from %llu on are damaged",
				       (unsigned long long)c->seq);
	return true;
}
