/* reader_events.c - the events of chunks (chunk.h), column by column, run by run. */
#include <stdlib.h>

#include "store/schema/chunk.h"
#include "store/id_list.h"
#include "store/read/reader_internal.h"

enum { AT_ONCE = CHUNK_SAMPLES_MOST };

/* Columns of a chunk, unpacked, and of the events that are to be given. What is not asked for stays
 * 0, and its pages untouched. */
struct event_room {
	uint8_t form[CHUNK_SAMPLES_MOST];
	uint64_t dt[CHUNK_SAMPLES_MOST], value[CHUNK_SAMPLES_MOST];
	uint64_t stack[CHUNK_SAMPLES_MOST], attributes[CHUNK_SAMPLES_MOST];
	uint64_t times[AT_ONCE];
	int64_t values[AT_ONCE];
	uint64_t stacks[AT_ONCE], sets[AT_ONCE];
	uint64_t run_series[CHUNK_SAMPLES_MOST]; /* of the runs among them */
	uint32_t run_ends[CHUNK_SAMPLES_MOST];
	struct source_events out;
	uint64_t at_hand; /* series of the events that are put */
	bool want_times, want_stacks, want_sets;
	uint8_t *series; /* a bit each that is wanted; NULL: all */
	uint64_t series_most;
};

bool event_room_make(struct sample_scan *x)
{
	const struct source_scan *w = x->what;
	struct event_room *r = calloc(1, sizeof(*r));

	assert(r);
	r->out = (struct source_events){ .series = r->run_series,
					 .ends = r->run_ends,
					 .times = r->times,
					 .values = r->values,
					 .stacks = r->stacks,
					 .attributes = r->sets };
	r->want_times = !w->parts || w->parts & ROW_TIMES;
	r->want_stacks = !w->parts || w->parts & ROW_STACK;
	r->want_sets = !w->parts || w->parts & ROW_ATTRIBUTES;
	r->series_most = w->series_count ? w->series[w->series_count - 1] : 0;
	if (w->series && r->series_most <= UINT32_MAX) { /* the writer counts in 32 bits */
		r->series = calloc(r->series_most / 8 + 1, 1);
		assert(r->series);
		for (size_t i = 0; i < w->series_count; i++)
			r->series[w->series[i] / 8] |= (uint8_t)(1u << w->series[i] % 8);
	}
	x->room = r;
	return !w->series || r->series ||
	       err_set(x->err, ERR_INVALID, "the series %llu is not in this store",
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
	for (uint32_t i = from; i < to; i++)
		out[i] = cells_number(c, i);
}

static void unpack_ids(const struct cells *c, uint32_t from, uint32_t to, uint64_t *out)
{
	unpack_numbers(c, from, to, out);
	for (uint32_t i = from; i < to; i++)
		out[i] = out[i] == c->base ? 0 : out[i];
}

/* What is no form is CHUNK_MORE + 1 or above. */
static void unpack_forms(const struct cells *c, uint32_t from, uint32_t to, uint8_t *out)
{
	uint8_t base = c->base > CHUNK_MORE ? CHUNK_MORE + 1 : (uint8_t)c->base;

	for (uint32_t i = from; i < to; i++) {
		uint64_t v = c->width == 1 ? c->bytes[i] : cells_get(c, i);

		out[i] = (uint8_t)(base + (v > CHUNK_MORE ? CHUNK_MORE + 1 : v));
	}
}

static void unpack(struct event_room *r, const struct chunk *c, uint32_t from, uint32_t to,
		   bool times)
{
	unpack_forms(&c->form, from, to, r->form);
	unpack_numbers(&c->value, from, to, r->value);
	if (times)
		unpack_numbers(&c->dt, from, to, r->dt);
	if (r->want_stacks)
		unpack_ids(&c->stack, from, to, r->stack);
	if (r->want_sets)
		unpack_ids(&c->attrset, from, to, r->attributes);
}

/* ---- events ---- */

/* Those since the last run's end are of the series at hand. */
static void end_run(struct event_room *r)
{
	struct source_events *e = &r->out;

	if (e->run_count ? r->run_ends[e->run_count - 1] == e->count : !e->count)
		return;
	if (!e->run_count || r->run_series[e->run_count - 1] != r->at_hand)
		r->run_series[e->run_count++] = r->at_hand;
	r->run_ends[e->run_count - 1] = e->count;
}

static void give_events(struct sample_scan *x)
{
	struct event_room *r = x->room;

	end_run(r);
	if (r->out.count && !x->ended)
		x->ended = !x->events(x->arg, &r->out, x->err);
	r->out.count = r->out.run_count = 0;
}

static inline void put_event(struct sample_scan *x, uint32_t i, uint64_t time, int64_t value,
			     bool timed)
{
	struct event_room *r = x->room;
	uint32_t at;

	if (r->out.count == AT_ONCE || (r->out.count && r->out.timed != timed))
		give_events(x);
	r->out.timed = timed;
	at = r->out.count++;
	if (r->want_times)
		r->times[at] = time;
	r->values[at] = value;
	if (r->want_stacks)
		r->stacks[at] = r->stack[i];
	if (r->want_sets)
		r->sets[at] = r->attributes[i];
}

static bool in_window(const struct sample_scan *x, uint64_t time)
{
	return time >= x->what->range.from && time < x->what->range.to;
}

static int64_t add_up(struct codec *c, uint64_t count)
{
	int64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		int64_t v = codec_get_signed(c);

		if (__builtin_add_overflow(sum, v, &sum))
			sum = v < 0 ? INT64_MIN : INT64_MAX;
	}
	return sum;
}

/* Of the numbers to the end; false where the last one has none. */
static bool count_numbers(const struct codec *c, uint32_t *out)
{
	uint32_t count = 0;

	for (const uint8_t *p = c->at; p < c->end; p++)
		count += *p < 0x80;
	*out = count;
	return c->at == c->end || c->end[-1] < 0x80;
}

/* A sample of lists: what each timestamp counts is as sample_value_at() has it. */
static bool put_more(struct sample_scan *x, struct chunk *c, uint32_t i, uint64_t time, bool inside)
{
	struct str bytes = codec_get_str(&c->more);
	struct codec times = codec_of(bytes), values;
	uint64_t value_count;
	uint32_t n;
	int64_t sum;
	bool ones;

	codec_get(&times); /* t1 - t0 */
	value_count = codec_get(&times);
	if (c->more.failed || value_count > bytes.len)
		return false;
	values = times;
	sum = add_up(&times, value_count);
	if (times.failed || !count_numbers(&times, &n))
		return false;
	if (!n && (inside || in_window(x, time)))
		put_event(x, i, time, sum, false);
	/* Senders of old versions wrote a 1 beside n timestamps and meant n events. */
	ones = !value_count ||
	       (value_count == 1 && n > 1 && sum == 1 && x->room->value[i] == (uint64_t)n);
	for (uint32_t k = 0; k < n; k++) {
		int64_t v = ones               ? 1
			    : value_count == n ? codec_get_signed(&values)
					       : value_share(sum, n, k);

		if (!inside || x->room->want_times) {
			time += (uint64_t)codec_get_signed(&times);
			if (!in_window(x, time))
				continue;
		}
		put_event(x, i, time, v, true);
	}
	return !times.failed;
}

static void put_one(struct sample_scan *x, uint32_t i, uint64_t time, enum chunk_form form)
{
	bool timed = form == CHUNK_TIME || form == CHUNK_TIME_VALUE;
	int64_t value = (int64_t)x->room->value[i];

	/* Without a value a timestamp counts 1, and no timestamp nothing. */
	if (form == CHUNK_TIME || form == CHUNK_NO_TIME)
		value = timed;
	put_event(x, i, time, value, timed);
}

/* The lists of samples that are not asked for. */
static bool skip_more(struct chunk *c, uint32_t i, uint32_t end)
{
	for (; i < end && !c->more.failed; i++)
		if (cells_number(&c->form, i) == CHUNK_MORE)
			codec_get_str(&c->more);
	return !c->more.failed;
}

/* How much of a chunk is asked for. */
struct extent_asked {
	bool inside; /* all its samples lie in the window */
	bool whole;  /* and all came in the time that is asked about */
};

/* Its columns are unpacked. */
static bool put_run(struct sample_scan *x, struct chunk *c, uint32_t run, struct extent_asked asked)
{
	struct event_room *r = x->room;
	uint32_t end = chunk_run_end(c, run), i = (uint32_t)cells_get(&c->run_first, run);
	uint64_t begin = c->bucket * STORE_BUCKET_NS,
		 seq = c->seq + cells_get(&c->run_seq, run) - i;
	const struct source_scan *w = x->what;

	end_run(r);
	r->at_hand = cells_id(&c->series, run);
	while (i < end && !x->ended) {
		uint64_t number = seq + i;
		bool now = asked.whole || (number > w->after && number <= w->asof);
		uint8_t form = r->form[i];

		if (form > CHUNK_MORE)
			return false;
		if (form == CHUNK_MORE && !now)
			codec_get_str(&c->more);
		if (c->more.failed || (form == CHUNK_MORE && now &&
				       !put_more(x, c, i, begin + r->dt[i], asked.inside)))
			return false;
		if (form != CHUNK_MORE && now && (asked.inside || in_window(x, begin + r->dt[i])))
			put_one(x, i, begin + r->dt[i], (enum chunk_form)form);
		i++;
	}
	return true;
}

static bool run_wanted(const struct event_room *r, const struct chunk *c, uint32_t run)
{
	return !r->series || is_wanted(r, cells_id(&c->series, run));
}

/* The runs from `*run` on until one that is not wanted. */
static bool put_runs(struct sample_scan *x, struct chunk *c, uint32_t *run,
		     struct extent_asked asked)
{
	uint32_t end = *run, first = (uint32_t)cells_get(&c->run_first, *run);

	while (end < c->runs && run_wanted(x->room, c, end))
		end++;
	unpack(x->room, c, first, chunk_run_end(c, end - 1), x->room->want_times || !asked.whole);
	for (; *run < end && !x->ended; ++*run)
		if (!put_run(x, c, *run, asked))
			return false;
	return true;
}

static bool skip_run(struct chunk *c, uint32_t run)
{
	return c->more.at == c->more.end ||
	       skip_more(c, (uint32_t)cells_get(&c->run_first, run), chunk_run_end(c, run));
}

static bool has_wanted(const struct event_room *r, const struct chunk *c)
{
	uint32_t run = 0;

	while (run < c->runs && !run_wanted(r, c, run))
		run++;
	return run < c->runs;
}

/* The number on the line of a run's last sample. */
static uint64_t last_number(const struct chunk *c, uint32_t run)
{
	return c->seq + cells_get(&c->run_seq, run) +
	       (chunk_run_end(c, run) - 1 - cells_get(&c->run_first, run));
}

static struct extent_asked extent_of(const struct sample_scan *x, const struct chunk *c)
{
	uint64_t begin = c->bucket * STORE_BUCKET_NS;
	const struct source_scan *w = x->what;
	struct extent_asked a = { .inside = c->dt.width < 8 &&
					    begin + c->dt.base >= w->range.from &&
					    begin + c->last < w->range.to };

	a.whole = a.inside && c->seq + cells_get(&c->run_seq, 0) > w->after &&
		  last_number(c, c->runs - 1) <= w->asof;
	return a;
}

bool reader_give_events(struct sample_scan *x, struct chunk *c)
{
	struct event_room *r = x->room;
	struct extent_asked asked = extent_of(x, c);
	bool ok = true;

	if (!has_wanted(r, c))
		return true;
	for (uint32_t run = 0; ok && run < c->runs && !x->ended;) {
		if (run_wanted(r, c, run))
			ok = put_runs(x, c, &run, asked);
		else
			ok = skip_run(c, run++);
	}
	give_events(x);
	return ok || err_set(x->err, ERR_INVALID, "the samples from %llu on are damaged",
			     (unsigned long long)c->seq);
}
