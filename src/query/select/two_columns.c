/* two_columns.c - one measurement that came in two columns, as counts and as time. */
#include <stdlib.h>

#include "query/select/select.h"

/*
 * pprof's CPU profiles have two columns of the same samples: how many there were, and the time that
 * is. Its translations to OTLP make two profiles of them, samples/count with a period in time and
 * cpu/nanoseconds, of one resource and scope. As both are shown as CPU time they would be added up.
 * So of an owner and process that says the time itself, the counts are what they are called: a type
 * of their own. Everybody else's counts are time.
 */
struct own_time {
	uint64_t owner, process;
	uint32_t type;
};

static int own_time_order(const void *a, const void *b)
{
	const struct own_time *x = a, *y = b;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

/* Which types have both: 1: counts, 2: times. */
static bool has_both(const struct query *q, uint8_t *kinds)
{
	for (uint32_t i = 0; i < q->selected.series_count; i++)
		kinds[q->selected.series[i].says->type] |=
			q->selected.series[i].says->counted ? 1 : 2;
	for (uint32_t i = 0; i < q->selected.type_count; i++)
		if (kinds[i] == 3)
			return true;
	return false;
}

static struct own_time own_time_of(const struct engine_series *s)
{
	return (struct own_time){ s->owner, s->process, s->says->type };
}

static uint32_t list_own_times(const struct query *q, const uint8_t *kinds, struct own_time *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < q->selected.series_count; i++) {
		const struct engine_series *s = &q->selected.series[i];

		if (!s->says->counted && kinds[s->says->type] == 3)
			out[count++] = own_time_of(s);
	}
	qsort(out, count, sizeof(*out), own_time_order);
	return count;
}

static bool says_counts(struct query *q, const struct series_says *says,
			const struct series_says **out, struct err *err)
{
	struct query_type *time = &q->selected.types[says->type];
	struct source_series counts = { .period_type = time->period_type,
					.period_unit = time->period_unit };
	struct shown_type shown = { STR("samples"), STR("count"), 1, false };
	struct series_says own = *says;

	time->series_count--;
	return profile_type_enter(q, &counts, shown, &own, err) &&
	       series_says_share(q, &own, out, err);
}

bool part_columns(struct query *q, struct err *err)
{
	uint8_t *kinds = query_take(q, q->selected.type_count + 1u, err);
	struct own_time *times = NULL;
	uint32_t count = 0, types = q->selected.type_count, all = q->selected.series_count;
	bool ok = kinds != NULL;

	if (ok && has_both(q, kinds)) {
		times = query_take(q, all * sizeof(*times), err);
		ok = times != NULL;
		count = ok ? list_own_times(q, kinds, times) : 0;
	}
	for (uint32_t i = 0; ok && count && i < all; i++) {
		struct engine_series *s = &q->selected.series[i];
		struct own_time key = own_time_of(s);

		if (s->says->counted && bsearch(&key, times, count, sizeof(key), own_time_order))
			ok = says_counts(q, s->says, &s->says, err);
	}
	query_give_back(q, times, all * sizeof(*times));
	query_give_back(q, kinds, types + 1u);
	return ok;
}
