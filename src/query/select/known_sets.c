/*
 * known_sets.c - what attribute sets of rows mean for the question, each looked at once.
 *
 * Most sets of a window occur only there: a thread on a CPU. Read one by one they cost more than
 * the rest of the question. So a first walk over the column of their ids finds them, and they are
 * read together, unless the source fetches a row's set with the row.
 */
#include "query/select/label_match.h"
#include "query/select/walk.h"

static bool take_set(void *ctx, uint64_t id, struct source_attributes attributes, struct err *err)
{
	struct query *q = ctx;
	struct query_known *known = &q->known;
	uint32_t place = known->set_count;

	if (!query_alive(q, err) ||
	    !QUERY_ROOM(q, known->sets, known->set_cap, known->set_count + 1u, err) ||
	    !label_match_attributes(q, attributes, &known->sets[known->set_count], err) ||
	    !number_enter(q, &known->set_numbers, id, &place, err))
		return false;
	known->set_count += place == known->set_count;
	return true;
}

bool known_set(struct query *q, uint64_t id, const struct attribute_match **out, struct err *err)
{
	struct source *s = q->request.source;
	uint32_t at;

	*out = NULL;
	if (!id)
		return true;
	at = number_find(&q->known.set_numbers, id);
	if (at == UINT32_MAX) {
		if (!source_attributes(s, &id, 1, take_set, q, err))
			return false;
		at = number_find(&q->known.set_numbers, id);
	}
	if (at == UINT32_MAX)
		return err_set(err, ERR_INTERNAL, "nothing is said of the attribute set %llu",
			       (unsigned long long)id);
	*out = &q->known.sets[at];
	return true;
}

/* ---- where profiles have a say ---- */

static bool says_group(const struct attribute_match *level)
{
	return level && level->has_group && !level->group_weak;
}

bool known_sets_ask_profile(const struct query *q, const struct attribute_match *series,
			    const struct attribute_match *set)
{
	uint32_t present = series->bits.present | (set ? set->bits.present : 0);

	return (selector_all(q->selector) & q->selected.open_matchers & ~present) ||
	       (q->selected.group_open && !says_group(set) && !says_group(series));
}

bool known_sets_suffice(const struct query *q, struct source_range range)
{
	struct attribute_match all = { .has_group = true, .bits.present = UINT32_MAX };

	if (range.from < q->known.sets_known.from || range.to > q->known.sets_known.to)
		return false;
	for (uint32_t i = 0; i < q->selected.series_count; i++) {
		const struct attribute_match *series = &q->selected.series[i].says->match;

		all.bits.present &= series->bits.present;
		all.has_group = all.has_group && says_group(series);
	}
	if (q->known.met_no_set && known_sets_ask_profile(q, &all, NULL))
		return false;
	for (uint32_t i = 0; i < q->known.set_count; i++)
		if (known_sets_ask_profile(q, &all, &q->known.sets[i]))
			return false;
	return true;
}

/* ---- all that a walk will meet ---- */

struct meeting {
	struct query *q;
	struct number_set sets; /* that are not known yet */
	uint64_t before;
};

static bool note_set(struct meeting *m, uint64_t id, struct err *err)
{
	m->before = id;
	return number_find(&m->q->known.set_numbers, id) != UINT32_MAX ||
	       number_set_add(m->q, &m->sets, id, err);
}

static bool meet_events(void *ctx, const struct source_events *e, struct err *err)
{
	struct meeting *m = ctx;
	struct query *q = m->q;
	uint32_t count = e->run_count ? e->ends[e->run_count - 1] : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = e->attributes[i];

		if (id == m->before)
			continue;
		if (q->selected.by_stack &&
		    number_find(&q->selected.wanted_stacks, e->stacks[i]) == UINT32_MAX)
			continue;
		q->known.met_no_set |= !id;
		if (id && !note_set(m, id, err))
			return false;
	}
	return query_alive_now(q, err);
}

static bool find_and_read(struct meeting *m, const struct source_scan *scan, struct err *err)
{
	struct query *q = m->q;
	struct source *s = q->request.source;
	bool ok = source_events(s, scan, meet_events, m, err);

	number_set_sort(q, &m->sets);
	ok = ok &&
	     (!m->sets.count || source_attributes(s, m->sets.ptr, m->sets.count, take_set, q, err));
	number_set_release(q, &m->sets);
	return ok;
}

bool known_sets_load(struct query *q, const struct source_scan *scan, struct err *err)
{
	const struct source_ops *ops = q->request.source->ops;
	struct meeting m = { .q = q, .before = UINT64_MAX };
	struct source_scan columns = *scan;

	if (!ops->events || ops->sets_with_rows || scan->links || q->request.profile_id_count)
		return true;
	if (q->known.sets_known.from <= scan->range.from &&
	    scan->range.to <= q->known.sets_known.to)
		return true;
	columns.parts = ROW_ATTRIBUTES | (q->selected.by_stack ? ROW_STACK : 0);
	/* Sets that do not fit are read one by one when they are met. */
	if (!find_and_read(&m, &columns, err))
		return err->kind == ERR_LIMIT;
	if (scan->series == q->selected.series_ids)
		q->known.sets_known = scan->range;
	return true;
}
