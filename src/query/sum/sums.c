/* sums.c - the first half of every answer about stacks: values added up by stack number. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "query/select/gauge.h"
#include "query/select/walk.h"
#include "query/sum/frames.h"
#include "query/sum/sum_table.h"

/* ---- sums ---- */

enum { LIST_SHARE = 6 /* of the query's memory, for the list of sums */ };

struct summing {
	struct query *q;
	struct stack_sums *out;
	struct sum_table table; /* what it is not for is in out->ptr */
	struct number_table stacks, groups;
	bool grouped;
	double *average; /* gauges: value, not yet rounded */
	uint32_t average_cap;
	double unsummed;
	struct gauge_weights *weights;
	uint64_t left_out; /* stacks' events that there was no room for */
};

/* The number of a group's value, entered when it is new. */
static bool group_of(struct summing *s, struct str value, uint32_t *out, struct err *err)
{
	struct stack_sums *sums = s->out;

	*out = sums->group_count;
	if (!number_enter(s->q, &s->groups, hash64(value), out, err))
		return false;
	if (*out < sums->group_count)
		return true;
	if (!QUERY_ROOM(s->q, sums->groups, sums->group_cap, sums->group_count + 1u, err))
		return false;
	sums->groups[sums->group_count++] =
		value; /* label_match.c put it into the query's memory */
	return true;
}

enum { STACK_BITS = 40 }; /* of a store's row ids, which are small */

static bool place_of(struct summing *s, uint64_t stack, struct str value, uint32_t *at,
		     struct err *err)
{
	struct query *q = s->q;
	struct stack_sums *out = s->out;
	uint64_t key = stack, both[2];
	uint32_t group = 0;

	if (s->grouped) {
		if (!group_of(s, value, &group, err))
			return false;
		both[0] = stack;
		both[1] = group;
		key = stack >> STACK_BITS || group >> (63 - STACK_BITS)
			      ? hash64(str_from(both, sizeof(both)))
			      : ((uint64_t)group + 1) << STACK_BITS | stack;
	}
	*at = number_find(&s->stacks, key);
	if (*at != UINT32_MAX)
		return true;
	if (!QUERY_ROOM(q, out->ptr, out->cap, out->count + 1u, err) ||
	    (s->weights && !QUERY_ROOM(q, s->average, s->average_cap, out->count + 1u, err)) ||
	    !number_put(q, &s->stacks, key, out->count, err))
		return false;
	*at = out->count;
	out->ptr[out->count] = (struct stack_sum){ .stack = stack, .group = group };
	if (s->weights)
		s->average[out->count] = 0;
	out->count++;
	return true;
}

static bool add_gauge(void *ctx, const struct engine_event *e, struct err *err)
{
	struct summing *s = ctx;
	uint32_t divisor = gauge_divisor(s->weights, s->q, e, 0);
	struct err full;
	uint32_t at;

	(void)err;
	if (!divisor)
		return true;
	if (!place_of(s, e->row->stack, e->group, &at, &full)) {
		s->left_out++;
		s->unsummed += (double)e->value / divisor;
		return true;
	}
	s->average[at] += (double)e->value / divisor;
	return true;
}

static void add_one(struct summing *s, const struct engine_batch *b, uint32_t i)
{
	struct stack_sums *out = s->out;
	struct err full;
	uint32_t at;

	if (place_of(s, b->stacks[i], b->group, &at, &full)) {
		out->ptr[at].value = engine_add(out->ptr[at].value, b->values[i]);
	} else { /* no room: it counts, but has no name */
		s->left_out++;
		out->unsummed = engine_add(out->unsummed, b->values[i]);
	}
}

static bool add_batch(void *ctx, const struct engine_batch *b, struct err *err)
{
	struct summing *s = ctx;
	uint32_t group = 0;
	struct err full;
	bool numbered = !s->grouped || group_of(s, b->group, &group, &full);

	(void)err;
	for (uint32_t i = 0; i < b->count; i++)
		if (!numbered || !sum_table_add(s->q, &s->table, b->stacks[i], group, b->values[i]))
			add_one(s, b, i);
	return true;
}

static int stack_order(const void *a, const void *b)
{
	const struct stack_sum *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

/* Behind those that were not for the table. */
static bool list_table(struct summing *s, struct err *err)
{
	struct stack_sums *out = s->out;
	struct query *q = s->q;
	uint64_t room = q->memory.limit_bytes / LIST_SHARE / sizeof(*out->ptr) + 1;
	uint32_t most = s->table.count < room ? s->table.count : (uint32_t)room, added;

	while (!QUERY_ROOM(q, out->ptr, out->cap, (uint64_t)out->count + most, err)) {
		if (most < 2)
			return false;
		most = most / 4 * 3;
	}
	sum_table_list(&s->table, most, out->ptr + out->count, &added, &out->unsummed);
	out->count += added;
	out->met += s->table.count - added;
	if (added < s->table.count)
		query_note_partial(q, "the %u heaviest of %u stacks: one query has %zu KiB", added,
				   s->table.count, q->memory.limit_bytes >> 10);
	sum_table_release(q, &s->table);
	QUERY_FIT(q, out->ptr, out->cap, out->count);
	return true;
}

/* A stack may be in both, from before the table had a page for it. */
static void put_in_order(struct stack_sums *out)
{
	uint32_t kept = 0;

	if (out->count)
		qsort(out->ptr, out->count, sizeof(*out->ptr), stack_order);
	for (uint32_t i = 0; i < out->count; i++)
		if (kept && stack_order(&out->ptr[kept - 1], &out->ptr[i]) == 0)
			out->ptr[kept - 1].value =
				engine_add(out->ptr[kept - 1].value, out->ptr[i].value);
		else
			out->ptr[kept++] = out->ptr[i];
	out->count = kept;
}

/* What rounding leaves goes to the next one that is not whole: all together are the total, as they
 * are in an export, and not half a byte more each. */
static int64_t rounded(double exact, double *carry)
{
	int64_t whole = llround(exact);

	if ((double)whole == exact)
		return whole;
	whole = llround(exact + *carry);
	*carry += exact - (double)whole;
	return whole;
}

static void round_averages(struct summing *s)
{
	double carry = 0;

	for (uint32_t i = 0; i < s->out->count; i++)
		s->out->ptr[i].value = rounded(s->average[i], &carry);
	s->out->unsummed = rounded(s->unsummed, &carry);
}

static bool is_at_an_end(int64_t v)
{
	return v == INT64_MAX || v == INT64_MIN;
}

/* Sums stop at the ends of 64 bits: an answer with one that did is not told as if it were right. */
static void add_up(struct query *q, struct stack_sums *out)
{
	bool cut = is_at_an_end(out->unsummed);

	out->total = out->unsummed;
	for (uint32_t i = 0; i < out->count; i++) {
		out->total = engine_add(out->total, out->ptr[i].value);
		cut |= is_at_an_end(out->ptr[i].value) || is_at_an_end(out->total);
	}
	if (cut)
		query_note_partial(q, "sums reach what 64 bits hold, and are cut there");
}

bool stack_sums_make(struct query *q, struct str group_by, struct stack_sums *out, struct err *err)
{
	struct summing s = { .q = q, .out = out, .grouped = group_by.len > 0 };
	struct walk w = walk_of(q, ROW_STACK);
	/* First: gauges' weights know profiles by numbers that another group key takes away. */
	bool ok = !s.grouped || engine_group(q, group_by, err);
	bool gauge = ok && query_of_gauge(q);

	*out = (struct stack_sums){ 0 };
	if (gauge) {
		s.weights = gauge_weights_new(q, &(struct gauge_buckets){ 0 }, err);
		ok = s.weights != NULL;
	}
	w.alike = true;
	ok = ok && (gauge ? engine_events(q, &w, add_gauge, &s, err)
			  : engine_batches(q, &w, add_batch, &s, err));
	if (ok && gauge)
		round_averages(&s);
	number_release(q, &s.stacks);
	if (ok && s.table.count) {
		bool listed = out->count > 0;

		ok = list_table(&s, err);
		if (listed)
			put_in_order(out);
	} else if (ok) {
		put_in_order(out);
	}
	if (ok && s.left_out)
		query_note_partial(q,
				   "%u stacks fit one query's memory; the events of others: %llu",
				   out->count, (unsigned long long)s.left_out);
	out->met += out->count;
	gauge_weights_free(q, s.weights);
	QUERY_DROP(q, s.average, s.average_cap);
	sum_table_release(q, &s.table);
	number_release(q, &s.groups);
	if (!ok) {
		stack_sums_release(q, out);
		return false;
	}
	add_up(q, out);
	return true;
}

void stack_sums_release(struct query *q, struct stack_sums *s)
{
	QUERY_DROP(q, s->ptr, s->cap);
	QUERY_DROP(q, s->groups, s->group_cap);
	s->count = s->met = s->group_count = 0;
}
