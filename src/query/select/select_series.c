/* select_series.c - the series of a request, and what each says of its matchers and groups. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "query/select/label_match.h"
#include "query/select/select.h"

/* ---- what many series say alike is kept once ---- */

static bool says_same(const struct series_says *a, const struct series_says *b)
{
	const struct attribute_match *x = &a->match, *y = &b->match;

	return a->type == b->type && a->counted == b->counted && a->scale == b->scale &&
	       a->period == b->period && x->has_group == y->has_group &&
	       x->group_weak == y->group_weak && memcmp(&x->bits, &y->bits, sizeof(x->bits)) == 0 &&
	       str_equal(x->group, y->group);
}

static uint64_t says_hash(const struct series_says *x)
{
	const struct attribute_match *m = &x->match;
	uint64_t parts[] = { x->type,
			     (uint64_t)x->counted << 2 | (uint64_t)m->has_group << 1 |
				     m->group_weak,
			     (uint64_t)x->scale,
			     (uint64_t)x->period,
			     hash64(str_from(&m->bits, sizeof(m->bits))),
			     hash64(m->group) };

	return hash64(str_from(parts, sizeof(parts)));
}

bool series_says_share(struct query *q, const struct series_says *x, const struct series_says **out,
		       struct err *err)
{
	struct series_says *own;
	uint32_t at = q->selected.says_count;
	bool added;

	if (q->selected.series_count &&
	    says_same(q->selected.series[q->selected.series_count - 1].says, x)) {
		*out = q->selected.series[q->selected.series_count - 1].says;
		return true;
	}
	if (!number_enter(q, &q->selected.says_numbers, says_hash(x), &at, err))
		return false;
	added = at == q->selected.says_count;
	if (!added && says_same(q->selected.says[at], x)) {
		*out = q->selected.says[at];
		return true;
	}
	own = query_alloc(q, 1, sizeof(*own), err);
	if (!own)
		return false;
	*own = *x;
	*out = own;
	if (!added)
		return true;
	if (!QUERY_ROOM(q, q->selected.says, q->selected.says_cap, q->selected.says_count + 1u,
			err))
		return false;
	q->selected.says[q->selected.says_count++] = own;
	return true;
}

/* ---- each series ---- */

struct selecting {
	struct query *q;
	uint32_t decided, empty_match; /* decided: matchers that series alone decide */
	struct str keys[SELECTOR_MATCHERS_MOST + 1]; /* that series are to say */
	uint32_t key_count;
	bool by_service;          /* nothing is asked for but one service */
	bool too_brief;           /* a series did not say enough */
	struct first_type before; /* the series before */
};

/* The series' type and what it says; *out NULL: it is none of those that are asked for. */
static bool judge_series(struct selecting *x, const struct source_series *s, uint32_t *type,
			 const struct series_says **out, struct err *err)
{
	struct query *q = x->q;
	/* Nothing of it is matched but, perhaps, its service, which it is of. */
	bool plain =
		(!q->selector->count && !q->selected.group_key.len) || (s->brief && x->by_service);
	struct series_says says = { .period = s->period };

	*out = NULL;
	if (!profile_type_of(q, s, &says, err))
		return false;
	*type = says.type;
	if (!plain) {
		if (!label_match_series(q, s, q->selected.types[says.type].id, &says.match, err))
			return false;
		if (!label_series_matches(&says.match.bits, x->decided, x->empty_match))
			return true;
	}
	return series_says_share(q, &says, out, err);
}

static bool take_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct selecting *x = ctx;
	struct query *q = x->q;
	struct engine_series series = { .id = s->id, .owner = s->owner, .process = s->process };
	uint32_t type;

	if (!query_alive(q, err))
		return false;
	if (s->brief && x->by_service && !s->of_service) {
		x->too_brief = true;
		return true;
	}
	if (!judge_series(x, s, &type, &series.says, err))
		return false;
	first_type_note(q, &x->before, s, type);
	if (!series.says)
		return true;
	if (!QUERY_ROOM(q, q->selected.series, q->selected.series_cap,
			q->selected.series_count + 1u, err))
		return false;
	q->selected.series[q->selected.series_count++] = series;
	return true;
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

	for (uint32_t i = 0; i < q->selected.series_count; i++) {
		if (q->selected.series[i].says->type != q->selected.type)
			continue;
		ordered = ordered &&
			  (!kept || q->selected.series[kept - 1].id < q->selected.series[i].id);
		q->selected.series[kept++] = q->selected.series[i];
	}
	q->selected.series_count = kept;
	QUERY_FIT(q, q->selected.series, q->selected.series_cap, kept);
	if (!ordered)
		qsort(q->selected.series, kept, sizeof(*q->selected.series), series_order);
	if (!QUERY_ROOM(q, q->selected.series_ids, q->selected.series_ids_cap, kept + 1u, err))
		return false;
	for (uint32_t i = 0; i < kept; i++)
		q->selected.series_ids[i] = q->selected.series[i].id;
	return true;
}

static bool take_key(void *ctx, struct str key, struct err *err)
{
	struct query *q = ctx;
	bool group;

	(void)err;
	q->selected.open_matchers |= label_key_concerns(q, key, &group);
	q->selected.group_open |= group;
	return true;
}

/* What samples themselves may say of what is asked; the rest their series decide. */
static bool find_open(struct query *q, struct err *err)
{
	struct source *s = q->request.source;
	bool known = false;

	q->selected.open_matchers = 0;
	q->selected.group_open = false;
	if (s->ops->sample_keys && !s->ops->sample_keys(s, take_key, q, &known, err))
		return false;
	if (!known) {
		q->selected.open_matchers = UINT32_MAX;
		q->selected.group_open = q->selected.group_key.len > 0;
	}
	return true;
}

/* The one service that is asked for, where series know it. */
static struct str one_service(const struct query *q)
{
	for (uint32_t i = 0; i < q->selector->count; i++) {
		const struct matcher *m = &q->selector->matchers[i];

		if (m->op == MATCH_EQUAL && m->value.len && label_is_service(m->key) &&
		    !(q->selected.open_matchers & 1u << i))
			return m->value;
	}
	return (struct str){ 0 };
}

static void forget_series(struct selecting *x)
{
	struct query *q = x->q;

	q->selected.series_count = q->selected.type_count = q->selected.says_count = 0;
	number_release(q, &q->selected.says_numbers);
	x->before = (struct first_type){ 0 };
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
	if (q->selected.group_key.len && !is_of_type(q->selected.group_key))
		x->keys[x->key_count++] = q->selected.group_key;
}

static bool take_all(struct query *q, struct selecting *x, struct source_series_ask *ask,
		     struct err *err)
{
	struct source *s = q->request.source;

	forget_series(x);
	x->too_brief = false;
	if (!source_series(s, ask, take_series, x, err))
		return false;
	if (!x->too_brief)
		return part_columns(q, err) && profile_type_choose(q, err);
	forget_series(x);
	ask->brief = false;
	return source_series(s, ask, take_series, x, err) && part_columns(q, err) &&
	       profile_type_choose(q, err);
}

bool select_series(struct query *q, struct str group_key, struct err *err)
{
	struct source_series_ask ask = { .range = q->request.range,
					 .after = q->request.after,
					 .asof = q->request.asof };
	struct selecting x = { .q = q };
	bool ok;

	ask.brief = true;
	ask.keys = x.keys;
	ask.scopes = !q->request.profile_type.len && !q->selector->profile_type.len;
	q->selected.group_key = group_key;
	if (!find_open(q, err) || !label_empty_match(q, &x.empty_match, err))
		return false;
	x.decided = selector_all(q->selector) & ~q->selected.open_matchers;
	ask.service = one_service(q);
	x.by_service = ask.service.len && q->selector->count == 1 && !group_key.len;
	if (!x.by_service)
		note_keys(&x);
	ask.key_count = x.key_count;
	ask.ids = q->links.series_count ? q->links.series : NULL;
	ask.id_count = q->links.series_count;
	ok = take_all(q, &x, &ask, err);
	/* A type that the trace has no samples of is there all the same. */
	if (!ok && ask.ids && err->kind == ERR_NOT_FOUND) {
		ask.ids = NULL;
		ok = take_all(q, &x, &ask, err);
	}
	return ok && keep_chosen(q, err);
}
