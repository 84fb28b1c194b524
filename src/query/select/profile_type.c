/* profile_type.c - the types of profiles that series have, and the one that is asked for. */
#include <stdio.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "formats/pprof_said.h"
#include "query/select/label_match.h"
#include "query/select/select.h"

bool query_is_gauge(struct str type)
{
	static const char *const gauges[] = { "inuse_space",   "inuse_objects", "inuse_bytes",
					      "goroutine",     "goroutines",    "threads",
					      "threadcreate",  "thread",        "live_heap",
					      "heap_live_size" };

	for (size_t i = 0; i < ARRAY_LEN(gauges); i++)
		if (str_is(type, gauges[i]))
			return true;
	return false;
}

/* The names that Pyroscope and its clients use for the usual types. */
static struct str type_name(struct str type, struct str period_type)
{
	static const struct {
		const char *type, *name;
	} names[] = { { "cpu", "process_cpu" },        { "inuse_space", "memory" },
		      { "inuse_objects", "memory" },   { "alloc_space", "memory" },
		      { "alloc_objects", "memory" },   { "goroutine", "goroutines" },
		      { "contentions", "contention" }, { "delay", "contention" } };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_is(type, names[i].type))
			return str_cstr(names[i].name);
	if (str_is(type, "samples") && str_is(period_type, "cpu"))
		return STR("process_cpu");
	return type.len ? type : period_type;
}

/* Counted samples of a period in time are that much time. */
static struct shown_type show_type(const struct source_series *s)
{
	int64_t period_ns = unit_in_ns(s->period_unit), own_ns = unit_in_ns(s->sample_unit);
	int64_t own_bytes = unit_in_bytes(s->sample_unit);

	if (str_is(s->sample_unit, "count") && str_is(s->sample_type, "samples") && period_ns &&
	    s->period > 0 && s->period <= INT64_MAX / period_ns)
		return (struct shown_type){ s->period_type, STR("nanoseconds"),
					    s->period * period_ns, true };
	if (own_ns)
		return (struct shown_type){ s->sample_type, STR("nanoseconds"), own_ns, false };
	if (own_bytes)
		return (struct shown_type){ s->sample_type, STR("bytes"), own_bytes, false };
	return (struct shown_type){ s->sample_type, s->sample_unit, 1, false };
}

static bool dup_type(struct query *q, const struct source_series *s, struct shown_type shown,
		     struct query_type *out, struct err *err)
{
	struct str name = type_name(shown.type, s->period_type);
	char *id;
	size_t room = name.len + shown.type.len + shown.unit.len + s->period_type.len +
		      s->period_unit.len + 5;

	*out = (struct query_type){ .gauge = query_is_gauge(shown.type) };
	id = query_alloc(q, room, 1, err);
	if (!id || !query_str_dup(q, name, &out->name, err) ||
	    !query_str_dup(q, shown.type, &out->type, err) ||
	    !query_str_dup(q, shown.unit, &out->unit, err) ||
	    !query_str_dup(q, s->period_type, &out->period_type, err) ||
	    !query_str_dup(q, s->period_unit, &out->period_unit, err))
		return false;
	snprintf(id, room, "%.*s:%.*s:%.*s:%.*s:%.*s", STR_ARG(name), STR_ARG(shown.type),
		 STR_ARG(shown.unit), STR_ARG(s->period_type), STR_ARG(s->period_unit));
	out->id = str_from(id, room - 1);
	return true;
}

static bool is_shown_as(const struct source_series *s, struct shown_type shown,
			const struct query_type *t)
{
	return str_equal(t->type, shown.type) && str_equal(t->unit, shown.unit) &&
	       str_equal(t->period_type, s->period_type) &&
	       str_equal(t->period_unit, s->period_unit);
}

bool profile_type_is_chosen(const struct query *q, const struct source_series *s)
{
	const struct query_type *type = query_type_of(q);

	return type && is_shown_as(s, show_type(s), type);
}

bool profile_type_enter(struct query *q, const struct source_series *s, struct shown_type shown,
			struct series_says *series, struct err *err)
{
	uint32_t at;

	for (at = 0; at < q->selected.type_count; at++)
		if (is_shown_as(s, shown, &q->selected.types[at]))
			break;
	if (at == q->selected.type_count) {
		if (!QUERY_ROOM(q, q->selected.types, q->selected.type_cap,
				q->selected.type_count + 1u, err) ||
		    !dup_type(q, s, shown, &q->selected.types[at], err))
			return false;
		q->selected.type_count++;
	}
	q->selected.types[at].series_count++;
	series->type = at;
	series->scale = shown.scale;
	series->counted = shown.counted;
	return true;
}

bool profile_type_of(struct query *q, const struct source_series *s, struct series_says *series,
		     struct err *err)
{
	return profile_type_enter(q, s, show_type(s), series, err);
}

/* How well a type answers to a name; 0: not at all. */
static int type_is_called(const struct query_type *t, struct str wanted)
{
	ptrdiff_t colon = str_find(wanted, ':');

	if (str_equal(t->id, wanted) || str_equal(t->type, wanted) || str_equal(t->name, wanted))
		return 2;
	if (colon > 0 && str_equal(t->type, str_head(wanted, (size_t)colon)) &&
	    str_equal(t->unit, str_skip(wanted, (size_t)colon + 1)))
		return 2;
	/* Ids of others carry counted samples in the second part. */
	return str_is(wanted, "samples") && str_is(t->unit, "nanoseconds") &&
	       str_equal(t->type, t->period_type);
}

static int type_rank(const struct query_type *t)
{
	if (t->preferred)
		return 0;
	if (str_is(t->type, "cpu"))
		return 1;
	if (t->last_of)
		return 2;
	return t->gauge ? 4 : 3;
}

/* All of them, as far as there is room. */
static bool no_such_type(const struct query *q, struct str wanted, struct err *err)
{
	char list[sizeof(err->msg) / 2];
	size_t len = 0;

	for (uint32_t i = 0; i < q->selected.type_count; i++) {
		struct str id = q->selected.types[i].id;
		size_t room = sizeof(list) - len - sizeof(", and 4294967295 more");

		if (id.len + 2 > room) {
			snprintf(list + len, sizeof(list) - len, "%s%u%s", len ? " and " : "",
				 q->selected.type_count - i, len ? " more" : " with long names");
			break;
		}
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.*s", len ? ", " : "",
					STR_ARG(id));
	}
	return err_set(err, ERR_NOT_FOUND, "no profile type \"%.*s\" here; there is %s%s",
		       STR_ARG(str_head(wanted, 40)), list,
		       q->request.profile_type.len ? ""
						   : " (a label is asked for as KEY=\"VALUE\")");
}

/* Among types that answer alike to the name: those that the selection has come first. */
static bool is_better(const struct query *q, const uint32_t *selected, uint32_t one, uint32_t other)
{
	int rank = type_rank(&q->selected.types[one]),
	    other_rank = type_rank(&q->selected.types[other]);

	if (!selected[one] != !selected[other])
		return selected[one];
	if (rank != other_rank)
		return rank < other_rank;
	if (selected[one] != selected[other])
		return selected[one] > selected[other];
	return q->selected.types[one].series_count > q->selected.types[other].series_count;
}

static void choose_type(struct query *q, struct str wanted, const uint32_t *selected)
{
	int best_called = 0;

	q->selected.type = q->selected.type_count;
	for (uint32_t i = 0; i < q->selected.type_count; i++) {
		int called = wanted.len ? type_is_called(&q->selected.types[i], wanted) : 1;

		if (called < best_called || !called)
			continue;
		if (called > best_called || is_better(q, selected, i, q->selected.type))
			q->selected.type = i;
		best_called = called;
	}
}

/* For each type how many series match, as far as their samples do not say otherwise. */
static bool count_selected(struct query *q, uint32_t *selected, struct err *err)
{
	uint32_t all = selector_all(q->selector), empty_match;

	if (!label_empty_match(q, &empty_match, err))
		return false;
	for (uint32_t i = 0; i < q->selected.series_count; i++) {
		const struct series_says *says = q->selected.series[i].says;

		selected[says->type] += label_series_matches(&says->match.bits, all, empty_match);
	}
	return true;
}

/* What stands before a selector's brace, or alone, is a type: a word that was meant as something
 * else must not go unheard because the question has its type from elsewhere. */
static bool selector_agrees(const struct query *q, struct err *err)
{
	struct str said = q->selector->profile_type;
	const struct query_type *t = &q->selected.types[q->selected.type];

	if (!said.len || type_is_called(t, said))
		return true;
	said = str_head(said, 40);
	return err_set(err, ERR_INVALID,
		       "selector: \"%.*s\" names a profile type, but %.*s is asked for; to select "
		       "by a label write e.g. process.executable.name=\"%.*s\"",
		       STR_ARG(said), STR_ARG(str_head(t->id, 60)), STR_ARG(said));
}

bool profile_type_choose(struct query *q, struct err *err)
{
	struct str wanted =
		q->request.profile_type.len ? q->request.profile_type : q->selector->profile_type;
	size_t bytes = (q->selected.type_count + 1u) * sizeof(uint32_t);
	uint32_t *selected = query_take(q, bytes, err);
	bool ok = selected && count_selected(q, selected, err);

	if (ok)
		choose_type(q, wanted, selected);
	query_give_back(q, selected, bytes);
	if (!ok || q->selected.type < q->selected.type_count)
		return ok && selector_agrees(q, err);
	return !wanted.len || !q->selected.type_count || no_such_type(q, wanted, err);
}

/*
 * ---- which type the maker of a profile wants to be seen first ----
 *
 * pprof says it in default_sample_type, and where that is not set, it is the last sample type
 * (profile.proto). Scopes keep both (OpenTelemetry's conventions for pprof); the types are the
 * series of one owner, one after another.
 */

static const struct any_value *said(const struct source_series *s, const char *key)
{
	for (uint32_t i = 0; i < s->scope.count; i++)
		if (str_is(s->scope.ptr[i].key, key))
			return &s->scope.ptr[i].value;
	return NULL;
}

/* A type by itself is the last of nothing. */
static void note_last(struct query *q, struct first_type *before, uint64_t owner, uint32_t type)
{
	if (owner != before->owner) {
		*before = (struct first_type){ .owner = owner, .type = type };
		return;
	}
	if (type == before->type)
		return;
	if (before->counted)
		q->selected.types[before->type].last_of--;
	q->selected.types[type].last_of++;
	before->type = type;
	before->counted = true;
}

void first_type_note(struct query *q, struct first_type *before, const struct source_series *s,
		     uint32_t type)
{
	const struct any_value *first = said(s, PPROF_DEFAULT_SAMPLE_TYPE);

	if (first && first->kind == ANY_STRING && first->string.len)
		q->selected.types[type].preferred |= str_equal(first->string, s->sample_type);
	else if (said(s, PPROF_SAMPLE_TYPE_ORDER))
		note_last(q, before, s->owner, type);
	else
		before->owner = 0;
}
