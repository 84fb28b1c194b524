/* select.c - from a request to the series, links and profile type that it means. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/hex.h"
#include "model/profiles.h"
#include "query/engine.h"
#include "query/label_match.h"
#include "query/regex.h"
#include "store/id_list.h"

/* ---- profile types ---- */

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

static int64_t time_unit_ns(struct str unit)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = { { "nanoseconds", 1 },        { "ns", 1 },
		      { "microseconds", 1000 },    { "us", 1000 },
		      { "milliseconds", 1000000 }, { "ms", 1000000 },
		      { "seconds", 1000000000 },   { "s", 1000000000 } };

	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_is(unit, units[i].name))
			return units[i].ns;
	return 0;
}

struct shown_type {
	struct str type, unit;
	int64_t scale;
	bool counted;
};

/* Counted samples of a period in time are that much time. */
static struct shown_type show_type(const struct query_series *s)
{
	int64_t period_ns = time_unit_ns(s->period_unit), own_ns = time_unit_ns(s->sample_unit);

	if (str_is(s->sample_unit, "count") && str_is(s->sample_type, "samples") && period_ns &&
	    s->period > 0 && s->period <= INT64_MAX / period_ns)
		return (struct shown_type){ s->period_type, STR("nanoseconds"),
					    s->period * period_ns, true };
	if (own_ns)
		return (struct shown_type){ s->sample_type, STR("nanoseconds"), own_ns, false };
	return (struct shown_type){ s->sample_type, s->sample_unit, 1, false };
}

static bool dup_type(struct query *q, const struct query_series *s, struct shown_type shown,
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

static bool enter_type(struct query *q, const struct query_series *s, struct shown_type shown,
		       struct series_says *series, struct err *err)
{
	struct query_type *t = q->types;
	uint32_t at;

	for (at = 0; at < q->type_count; at++, t++)
		if (str_equal(t->type, shown.type) && str_equal(t->unit, shown.unit) &&
		    str_equal(t->period_type, s->period_type) &&
		    str_equal(t->period_unit, s->period_unit))
			break;
	if (at == q->type_count) {
		if (!query_grow(q, &q->types, &q->type_cap, q->type_count + 1u, sizeof(*q->types),
				err) ||
		    !dup_type(q, s, shown, &q->types[at], err))
			return false;
		q->type_count++;
	}
	q->types[at].series_count++;
	q->types[at].preferred |= s->first_type.len && str_equal(s->first_type, s->sample_type);
	series->type = at;
	series->scale = shown.scale;
	series->counted = shown.counted;
	return true;
}

static bool type_of(struct query *q, const struct query_series *s, struct series_says *series,
		    struct err *err)
{
	return enter_type(q, s, show_type(s), series, err);
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
	return t->preferred ? -1 : str_is(t->type, "cpu") ? 0 : t->gauge ? 2 : 1;
}

/* All of them, as far as there is room. */
static bool no_such_type(const struct query *q, struct str wanted, struct err *err)
{
	char list[sizeof(err->msg) / 2];
	size_t len = 0;

	for (uint32_t i = 0; i < q->type_count; i++) {
		struct str id = q->types[i].id;
		size_t room = sizeof(list) - len - sizeof(", and 4294967295 more");

		if (id.len + 2 > room) {
			snprintf(list + len, sizeof(list) - len, "%s%u%s", len ? " and " : "",
				 q->type_count - i, len ? " more" : " with long names");
			break;
		}
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.*s", len ? ", " : "",
					STR_ARG(id));
	}
	return err_set(err, ERR_NOT_FOUND, "no profile type \"%.*s\" here; there is %s",
		       STR_ARG(str_head(wanted, 60)), list);
}

static bool choose_type(struct query *q, struct err *err)
{
	struct str wanted =
		q->request.profile_type.len ? q->request.profile_type : q->selector->profile_type;
	int best_called = 0;

	q->type = q->type_count;
	for (uint32_t i = 0; i < q->type_count; i++) {
		const struct query_type *t = &q->types[i], *best = &q->types[q->type];
		int called = wanted.len ? type_is_called(t, wanted) : 1;

		if (called < best_called || !called)
			continue;
		if (called > best_called || type_rank(t) < type_rank(best) ||
		    (type_rank(t) == type_rank(best) && t->series_count > best->series_count))
			q->type = i;
		best_called = called;
	}
	return q->type < q->type_count || !wanted.len || !q->type_count ||
	       no_such_type(q, wanted, err);
}

/* ---- series ---- */

static bool match_series(struct query *q, const struct query_series *s, struct series_says *out,
			 struct err *err)
{
	struct label_matching m;

	label_matching_init(&m, q);
	return label_match_series(&m, s, q->types[out->type].id, err) &&
	       label_matching_end(&m, &out->bits, &out->group, &out->has_group, &out->group_weak,
				  err);
}

static int hash_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t count_processes(const struct query *q)
{
	uint64_t *hashes = calloc(q->series_count + 1u, sizeof(*hashes));
	uint32_t count = 0, distinct = 0;

	assert(hashes);
	for (uint32_t i = 0; i < q->series_count; i++)
		if (q->series[i].seen && q->series[i].process)
			hashes[count++] = q->series[i].process;
	if (count)
		qsort(hashes, count, sizeof(*hashes), hash_order);
	for (uint32_t i = 0; i < count; i++)
		distinct += i == 0 || hashes[i] != hashes[i - 1];
	free(hashes);
	return distinct;
}

static bool says_same(const struct series_says *a, const struct series_says *b)
{
	return a->type == b->type && a->counted == b->counted && a->has_group == b->has_group &&
	       a->group_weak == b->group_weak && a->scale == b->scale && a->period == b->period &&
	       memcmp(&a->bits, &b->bits, sizeof(a->bits)) == 0 && str_equal(a->group, b->group);
}

static uint64_t says_hash(const struct series_says *x)
{
	uint64_t parts[] = { x->type,
			     (uint64_t)x->counted << 2 | (uint64_t)x->has_group << 1 |
				     x->group_weak,
			     (uint64_t)x->scale,
			     (uint64_t)x->period,
			     (uint64_t)x->bits.present << 32 | x->bits.match,
			     (uint64_t)x->bits.weak << 32 | x->bits.weak_match,
			     hash64(x->group) };

	return hash64(str_from(parts, sizeof(parts)));
}

/* The one that says the same; two of one hash stay apart. */
static bool share_says(struct query *q, const struct series_says *x, const struct series_says **out,
		       struct err *err)
{
	struct series_says *own;
	uint32_t at;
	bool added;

	if (q->series_count && says_same(q->series[q->series_count - 1].says, x)) {
		*out = q->series[q->series_count - 1].says;
		return true;
	}
	if (!number_enter(q, &q->says_numbers, says_hash(x), q->says_count, &at, &added, err))
		return false;
	if (!added && says_same(q->says[at], x)) {
		*out = q->says[at];
		return true;
	}
	own = query_alloc(q, 1, sizeof(*own), err);
	if (!own)
		return false;
	*own = *x;
	*out = own;
	if (!added)
		return true;
	if (!query_grow(q, &q->says, &q->says_cap, q->says_count + 1u, sizeof(*q->says), err))
		return false;
	q->says[q->says_count++] = own;
	return true;
}

/* What series of those types, that period and those labels say; NULL: they are not asked for. */
struct known_says {
	uint32_t texts; /* of selecting.texts, + 1; 0: a free place */
	int64_t period;
	uint64_t labels;
	uint32_t type;
	const struct series_says *says;
};

/* Powers of two. Where there are more, some are looked at again. */
enum { KNOWN_MOST = 256, TEXTS_MOST = 16 };

struct selecting {
	struct query *q;
	struct known_says known[KNOWN_MOST];
	struct str texts[TEXTS_MOST][4]; /* types and units */
	uint32_t text_count;
	uint32_t decided, empty_match; /* decided: matchers that series alone decide */
	struct str keys[SELECTOR_MATCHERS_MOST + 1]; /* that series are to say */
	uint32_t key_count;
	bool by_service; /* nothing is asked for but one service */
	bool too_brief;  /* a series did not say enough */
};

/* The number of the series' types and units, + 1; 0: there are too many. */
static bool number_texts(struct selecting *x, const struct query_series *s, uint32_t *out,
			 struct err *err)
{
	const struct str texts[] = { s->sample_type, s->sample_unit, s->period_type,
				     s->period_unit };
	uint32_t at = 0;

	for (; at < x->text_count; at++) {
		const struct str *known = x->texts[at];

		if (str_equal(known[0], texts[0]) && str_equal(known[1], texts[1]) &&
		    str_equal(known[2], texts[2]) && str_equal(known[3], texts[3]))
			break;
	}
	*out = at < TEXTS_MOST ? at + 1 : 0;
	if (at < x->text_count || at == TEXTS_MOST)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (!query_str_dup(x->q, texts[i], &x->texts[at][i], err))
			return false;
	x->text_count++;
	return true;
}

/* Where what they say is, or would be, known: the types, the period and the labels make it. */
static struct known_says *known_place(struct selecting *x, const struct query_series *s,
				      uint32_t texts)
{
	uint64_t parts[] = { texts, (uint64_t)s->period, s->labels };

	return &x->known[hash64(str_from(parts, sizeof(parts))) % KNOWN_MOST];
}

static bool is_known(const struct known_says *k, const struct query_series *s, uint32_t texts)
{
	return texts && k->texts == texts && k->period == s->period && k->labels == s->labels;
}

static bool judge_series(struct selecting *x, const struct query_series *s, bool plain,
			 uint32_t *type, const struct series_says **out, struct err *err)
{
	struct series_says says = { .period = s->period };

	*out = NULL;
	if (!type_of(x->q, s, &says, err))
		return false;
	*type = says.type;
	if (!plain) {
		if (!match_series(x->q, s, &says, err))
			return false;
		if (!label_series_matches(&says.bits, x->decided, x->empty_match))
			return true;
	}
	return share_says(x->q, &says, out, err);
}

/* What a series says; *out NULL: it is none of those that are asked for. */
static bool says_of(struct selecting *x, const struct query_series *s,
		    const struct series_says **out, struct err *err)
{
	struct query *q = x->q;
	/* Nothing of it is matched but, perhaps, its service, which it is of. */
	bool plain = (!q->selector->count && !q->group_key.len) || (s->brief && x->by_service);
	struct known_says *k;
	uint32_t texts, type;

	if (!plain && !s->brief)
		return judge_series(x, s, false, &type, out, err);
	if (!number_texts(x, s, &texts, err))
		return false;
	k = known_place(x, s, texts);
	if (is_known(k, s, texts)) {
		*out = k->says;
		q->types[k->type].series_count++;
		return true;
	}
	if (!judge_series(x, s, plain, &type, out, err))
		return false;
	*k = (struct known_says){ texts, s->period, s->labels, type, *out };
	return true;
}

static bool take_series(void *ctx, const struct query_series *s, struct err *err)
{
	struct selecting *x = ctx;
	struct query *q = x->q;
	struct engine_series series = { .id = s->id, .owner = s->owner, .process = s->process };

	if (!query_alive(q, err))
		return false;
	if (s->brief && x->by_service && !s->of_service) {
		x->too_brief = true;
		return true;
	}
	if (!says_of(x, s, &series.says, err))
		return false;
	if (!series.says)
		return true;
	if (!query_grow(q, &q->series, &q->series_cap, q->series_count + 1u, sizeof(*q->series),
			err))
		return false;
	q->series[q->series_count++] = series;
	return true;
}

/* ---- one measurement in two columns ---- */

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
	for (uint32_t i = 0; i < q->series_count; i++)
		kinds[q->series[i].says->type] |= q->series[i].says->counted ? 1 : 2;
	for (uint32_t i = 0; i < q->type_count; i++)
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

	for (uint32_t i = 0; i < q->series_count; i++) {
		const struct engine_series *s = &q->series[i];

		if (!s->says->counted && kinds[s->says->type] == 3)
			out[count++] = own_time_of(s);
	}
	qsort(out, count, sizeof(*out), own_time_order);
	return count;
}

static bool says_counts(struct query *q, const struct series_says *says,
			const struct series_says **out, struct err *err)
{
	struct query_type *time = &q->types[says->type];
	struct query_series counts = { .period_type = time->period_type,
				       .period_unit = time->period_unit };
	struct shown_type shown = { STR("samples"), STR("count"), 1, false };
	struct series_says own = *says;

	time->series_count--;
	return enter_type(q, &counts, shown, &own, err) && share_says(q, &own, out, err);
}

static bool part_columns(struct query *q, struct err *err)
{
	uint8_t *kinds = query_take(q, q->type_count + 1u, err);
	struct own_time *times = NULL;
	uint32_t count = 0, types = q->type_count, all = q->series_count;
	bool ok = kinds != NULL;

	if (ok && has_both(q, kinds)) {
		times = query_take(q, all * sizeof(*times), err);
		ok = times != NULL;
		count = ok ? list_own_times(q, kinds, times) : 0;
	}
	for (uint32_t i = 0; ok && count && i < all; i++) {
		struct engine_series *s = &q->series[i];
		struct own_time key = own_time_of(s);

		if (s->says->counted && bsearch(&key, times, count, sizeof(key), own_time_order))
			ok = says_counts(q, s->says, &s->says, err);
	}
	query_give_back(q, times, all * sizeof(*times));
	query_give_back(q, kinds, types + 1u);
	return ok;
}

static int series_order(const void *a, const void *b)
{
	uint64_t x = ((const struct engine_series *)a)->id,
		 y = ((const struct engine_series *)b)->id;

	return x < y ? -1 : x > y;
}

static bool keep_chosen(struct query *q, struct err *err)
{
	uint32_t kept = 0;
	bool ordered = true; /* stores give them so */

	for (uint32_t i = 0; i < q->series_count; i++) {
		if (q->series[i].says->type != q->type)
			continue;
		ordered = ordered && (!kept || q->series[kept - 1].id < q->series[i].id);
		q->series[kept++] = q->series[i];
	}
	q->series_count = kept;
	query_fit(q, &q->series, &q->series_cap, kept, sizeof(*q->series));
	if (!ordered)
		qsort(q->series, kept, sizeof(*q->series), series_order);
	if (!query_grow(q, &q->series_ids, &q->series_ids_cap, kept + 1u, sizeof(uint64_t), err))
		return false;
	for (uint32_t i = 0; i < kept; i++)
		q->series_ids[i] = q->series[i].id;
	return true;
}

static bool take_key(void *ctx, struct str key, struct err *err)
{
	struct query *q = ctx;
	bool group;

	(void)err;
	q->open_matchers |= label_key_concerns(q, key, &group);
	q->group_open |= group;
	return true;
}

/* What samples themselves may say of what is asked; the rest their series decide. */
static bool find_open(struct query *q, struct err *err)
{
	struct query_source *s = q->request.source;
	bool known = false;

	q->open_matchers = 0;
	q->group_open = false;
	if (s->ops->sample_keys && !s->ops->sample_keys(s, take_key, q, &known, err))
		return false;
	if (!known) {
		q->open_matchers = UINT32_MAX;
		q->group_open = q->group_key.len > 0;
	}
	return true;
}

/* The one service that is asked for, where series know it. */
static struct str one_service(const struct query *q)
{
	for (uint32_t i = 0; i < q->selector->count; i++) {
		const struct matcher *m = &q->selector->matchers[i];

		if (m->op == MATCH_EQUAL && m->value.len && label_is_service(m->key) &&
		    !(q->open_matchers & 1u << i))
			return m->value;
	}
	return (struct str){ 0 };
}

static void forget_series(struct selecting *x)
{
	struct query *q = x->q;

	q->series_count = q->type_count = q->says_count = 0;
	number_release(q, &q->says_numbers);
	memset(x->known, 0, sizeof(x->known));
}

/* What series say whatever their attributes are. */
static bool is_of_type(struct str key)
{
	static const char *const keys[] = { "__profile_type__", "__type__", "__unit__",
					    "__period_type__", "__period_unit__" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_is(key, keys[i]))
			return true;
	return false;
}

/* Of which keys the attributes are looked at. */
static void note_keys(struct selecting *x)
{
	const struct query *q = x->q;

	for (uint32_t i = 0; i < q->selector->count; i++)
		if (!is_of_type(q->selector->matchers[i].key))
			x->keys[x->key_count++] = q->selector->matchers[i].key;
	if (q->group_key.len && !is_of_type(q->group_key))
		x->keys[x->key_count++] = q->group_key;
}

static bool take_all(struct query *q, struct selecting *x, struct query_series_ask *ask,
		     struct err *err)
{
	struct query_source *s = q->request.source;

	forget_series(x);
	x->too_brief = false;
	if (!s->ops->series(s, ask, take_series, x, err))
		return false;
	if (!x->too_brief)
		return part_columns(q, err) && choose_type(q, err);
	forget_series(x);
	ask->brief = false;
	return s->ops->series(s, ask, take_series, x, err) && part_columns(q, err) &&
	       choose_type(q, err);
}

/* Series again, with the values of a group-by key. */
bool select_series(struct query *q, struct str group_key, struct err *err)
{
	struct query_series_ask ask = { .range = q->request.range,
					.after = q->request.after,
					.asof = q->request.asof };
	struct selecting x = { .q = q };
	bool ok;

	ask.brief = true;
	ask.keys = x.keys;
	q->group_key = group_key;
	if (!find_open(q, err) || !label_empty_match(q, &x.empty_match, err))
		return false;
	x.decided = (uint32_t)((UINT64_C(1) << q->selector->count) - 1) & ~q->open_matchers;
	ask.service = one_service(q);
	x.by_service = ask.service.len && q->selector->count == 1 && !group_key.len;
	if (!x.by_service)
		note_keys(&x);
	ask.key_count = x.key_count;
	ask.ids = q->linked_count ? q->linked : NULL;
	ask.id_count = q->linked_count;
	ok = take_all(q, &x, &ask, err);
	/* A type that the trace has no samples of is there all the same. */
	if (!ok && ask.ids && err->kind == ERR_NOT_FOUND) {
		ask.ids = NULL;
		ok = take_all(q, &x, &ask, err);
	}
	return ok && keep_chosen(q, err);
}

/* ---- links ---- */

static bool take_link(void *ctx, const struct query_link *link, struct err *err)
{
	struct query *q = ctx;

	if (!query_grow(q, &q->links, &q->link_cap, q->link_count + 1u, sizeof(*q->links), err))
		return false;
	q->links[q->link_count++] = link->id;
	return true;
}

static bool hex_id(struct str text, uint8_t *out, size_t len, struct err *err)
{
	return hex_decode(text, out, len) ||
	       err_set(err, ERR_INVALID, "an id has %zu hex digits, not \"%.*s\"", len * 2,
		       STR_ARG(str_head(text, 64)));
}

/* {trace_id="...", span_id="..."}: through the links, so that a store need not look at all. */
static bool ids_of_selector(struct query *q, struct err *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->selector->count; i++) {
		struct matcher *m = &q->selector->matchers[i];
		bool trace = str_is(m->key, "trace_id"), span = str_is(m->key, "span_id");
		uint8_t *id;

		if ((!trace && !span) || m->op != MATCH_EQUAL) {
			q->selector->matchers[kept++] = *m;
			continue;
		}
		id = query_alloc(q, 1, 16, err);
		if (!id || !hex_id(m->value, id, trace ? 16 : 8, err))
			return false;
		if (trace) {
			q->request.trace_id = id;
			q->request.trace_count = 1;
		} else {
			q->request.span_id = id;
			q->request.span_count = 1;
		}
	}
	q->selector->count = kept;
	return true;
}

static const uint8_t *id_at(const uint8_t *ids, size_t bytes, uint32_t i)
{
	return ids ? ids + bytes * i : NULL;
}

static void drop_doubles(struct query *q)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->link_count; i++)
		if (i == 0 || q->links[i] != q->links[kept - 1])
			q->links[kept++] = q->links[i];
	q->link_count = kept;
}

static bool select_links(struct query *q, struct err *err)
{
	struct query_source *s = q->request.source;

	q->by_link = q->request.trace_id || q->request.span_id;
	if (!q->by_link)
		return true;
	if (!query_grow(q, &q->links, &q->link_cap, 1, sizeof(*q->links), err))
		return false;
	for (uint32_t t = 0; t == 0 || t < q->request.trace_count; t++)
		for (uint32_t n = 0; n == 0 || n < q->request.span_count; n++)
			if (!s->ops->find_links(s, id_at(q->request.trace_id, 16, t),
						id_at(q->request.span_id, 8, n), take_link, q, err))
				return false;
	if (q->link_count)
		qsort(q->links, q->link_count, sizeof(*q->links), id_list_order);
	drop_doubles(q);
	return true;
}

/* ---- begin and end ---- */

static bool begin(struct query *q, struct err *err)
{
	struct query_source *s = q->request.source;

	q->selector = selector_parse(q->request.selector, err);
	if (!q->selector)
		return false;
	if (q->request.range.from == 0 && q->request.range.to == 0)
		q->request.range = QUERY_ALWAYS;
	if (q->request.asof == 0 && !s->ops->asof(s, &q->request.asof, err))
		return false;
	return ids_of_selector(q, err) && select_links(q, err) && linked_series(q, err) &&
	       select_series(q, q->request.group_by, err) && call_site_select(q, err);
}

struct query *query_begin(const struct query_request *request, struct err *err)
{
	struct query *q = calloc(1, sizeof(*q));

	assert(q);
	q->request = *request;
	q->filter_by = request->by;
	q->limit_bytes = request->limit_bytes ? request->limit_bytes : QUERY_LIMIT_BYTES;
	arena_init(&q->arena, 16384, q->limit_bytes);
	if (!begin(q, err)) {
		query_end(q);
		return NULL;
	}
	return q;
}

void query_end(struct query *q)
{
	if (!q)
		return;
	selector_free(q->selector);
	query_drop(q, &q->types, &q->type_cap, sizeof(*q->types));
	query_drop(q, &q->series, &q->series_cap, sizeof(*q->series));
	query_drop(q, &q->series_ids, &q->series_ids_cap, sizeof(*q->series_ids));
	query_drop(q, &q->says, &q->says_cap, sizeof(*q->says));
	number_release(q, &q->says_numbers);
	query_drop(q, &q->links, &q->link_cap, sizeof(*q->links));
	query_drop(q, &q->linked, &q->linked_cap, sizeof(*q->linked));
	query_drop(q, &q->sets, &q->set_cap, sizeof(*q->sets));
	query_drop(q, &q->profiles, &q->profile_cap, sizeof(*q->profiles));
	number_release(q, &q->set_numbers);
	number_release(q, &q->site_stacks);
	for (uint32_t i = 0; i < q->given_count; i++)
		free(q->given[i]);
	query_drop(q, &q->given, &q->given_cap, sizeof(*q->given));
	arena_release(&q->arena);
	free(q);
}

struct query_facts query_facts(const struct query *q)
{
	struct query_facts f = {
		.range = q->request.range,
		.asof = q->request.asof,
		.types = q->types,
		.type_count = q->type_count,
		.series_count = q->series_count,
		.period = q->series_count ? q->series[0].says->period : 0,
		.events = q->events,
		.processes = count_processes(q),
		.partial = q->partial,
		.reason = q->reason,
	};

	if (q->type < q->type_count)
		f.type = q->types[q->type];
	return f;
}

bool query_by_parse(struct str text, enum query_by *out, struct err *err)
{
	static const char *const names[] = { "function", "line", "address", "file", "binary" };

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (str_is(text, names[i])) {
			*out = (enum query_by)i;
			return true;
		}
	}
	return err_set(err, ERR_INVALID,
		       "by=\"%.*s\": one of function, line, address, file, binary",
		       (int)(text.len < 40 ? text.len : 40), text.ptr ? text.ptr : "");
}

void query_filter_parse(struct str text, enum query_filter_kind kind, struct query_filter *out)
{
	static const struct str fields[] = {
		[FIELD_FUNCTION] = { "function:", 9 },
		[FIELD_FILE] = { "file:", 5 },
		[FIELD_BINARY] = { "binary:", 7 },
		[FIELD_TYPE] = { "type:", 5 },
	};

	*out = (struct query_filter){ kind, FIELD_FUNCTION, text };
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		if (str_has_prefix(text, fields[i])) {
			out->field = (enum query_filter_field)i;
			out->pattern = str_skip(text, fields[i].len);
		}
	}
}
