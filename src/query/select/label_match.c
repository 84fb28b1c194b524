#include "query/select/label_match.h"

#include "model/profiles.h"
#include "model/service_name.h"

static bool is_service_key(struct str key)
{
	return label_key_is(STR("service.name"), key) || str_is(key, "service.name");
}

static bool key_is(struct str label, struct str wanted)
{
	return str_equal(label, wanted) || label_key_is(label, wanted);
}

struct str attribute_text(const struct source_attribute *a, struct buf *scratch)
{
	if (a->value.kind == ANY_STRING)
		return a->value.string;
	buf_reset(scratch);
	any_value_append_text(scratch, &a->value);
	return buf_view(scratch);
}

struct label_matching {
	struct query *q;
	struct attribute_match *out;
	uint32_t exact; /* matchers whose key was met byte for byte: punctuation twins do not count
			   then */
	uint32_t of_list; /* matchers met so in the list at hand: a key may stand in it twice */
	bool group_exact;
	struct buf scratch, group_text;
};

/* An attribute that a matcher is about. */
struct met_label {
	const struct matcher *matcher;
	uint32_t bit;
	bool exact; /* its key is the matcher's byte for byte */
};

static bool note_match(struct label_matching *m, const struct met_label *l, struct str value,
		       struct err *err)
{
	struct match_bits *bits = &m->out->bits;
	bool again = l->exact && (m->of_list & l->bit), matches;

	if (!again && (bits->present & l->bit) && (!l->exact || (m->exact & l->bit)))
		return true;
	if (!matcher_match(l->matcher, value, &matches, err))
		return false;
	/* Several values of one key, as labels of pprof: one of them is it, or none is. */
	if (again && (l->matcher->op == MATCH_EQUAL || l->matcher->op == MATCH_REGEX))
		matches |= (bits->match & l->bit) != 0;
	else if (again)
		matches &= (bits->match & l->bit) != 0;
	bits->present |= l->bit;
	bits->match = matches ? bits->match | l->bit : bits->match & ~l->bit;
	if (l->exact) {
		m->exact |= l->bit;
		m->of_list |= l->bit;
	}
	return true;
}

static bool note_weak(struct label_matching *m, const struct met_label *l, struct str value,
		      struct err *err)
{
	bool matches;

	if (!matcher_match(l->matcher, value, &matches, err))
		return false;
	m->out->bits.weak |= l->bit;
	if (matches)
		m->out->bits.weak_match |= l->bit;
	return true;
}

static void note_group(struct label_matching *m, struct str value, bool exact)
{
	if (m->out->has_group && !m->out->group_weak && (!exact || m->group_exact))
		return;
	buf_reset(&m->group_text);
	buf_str(&m->group_text, value);
	m->out->has_group = true;
	m->out->group_weak = false;
	m->group_exact = exact;
}

static bool match_plain(struct label_matching *m, struct str key, struct str value, struct err *err)
{
	const struct selector *s = m->q->selector;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct matcher *matcher = &s->matchers[i];
		const struct met_label l = { matcher, 1u << i, str_equal(key, matcher->key) };

		if (key_is(key, matcher->key) && !note_match(m, &l, value, err))
			return false;
	}
	if (m->q->selected.group_key.len && key_is(key, m->q->selected.group_key))
		note_group(m, value, str_equal(key, m->q->selected.group_key));
	return true;
}

/* Where nobody says service.name, the program's name makes one. */
static bool match_service(struct label_matching *m, struct str executable, struct err *err)
{
	const struct selector *s = m->q->selector;
	struct buf made;
	bool ok = true;

	buf_init(&made, 0);
	buf_lit(&made, UNKNOWN_SERVICE ":");
	buf_str(&made, executable);
	for (uint32_t i = 0; i < s->count && ok; i++) {
		const struct met_label l = { &s->matchers[i], 1u << i, false };

		if (is_service_key(l.matcher->key))
			ok = note_weak(m, &l, buf_view(&made), err);
	}
	if (ok && m->q->selected.group_key.len && is_service_key(m->q->selected.group_key) &&
	    !m->out->has_group) {
		note_group(m, buf_view(&made), false);
		m->out->group_weak = true;
	}
	buf_release(&made);
	return ok;
}

static bool match_one(struct label_matching *m, struct str key, struct str value, struct err *err)
{
	if (str_is(key, "process.executable.name") && !match_service(m, value, err))
		return false;
	return match_plain(m, key, value, err);
}

static bool match_list(struct label_matching *m, struct source_attributes list, struct err *err)
{
	for (uint32_t i = 0; i < list.count; i++)
		if (!match_one(m, list.ptr[i].key, attribute_text(&list.ptr[i], &m->scratch), err))
			return false;
	m->of_list = 0;
	return true;
}

/* Keeps the group's text, and frees. */
static bool end_matching(struct label_matching *m, bool ok, struct err *err)
{
	if (ok && m->out->has_group)
		ok = query_str_dup(m->q, buf_view(&m->group_text), &m->out->group, err);
	buf_release(&m->scratch);
	buf_release(&m->group_text);
	return ok;
}

bool label_match_attributes(struct query *q, struct source_attributes attributes,
			    struct attribute_match *out, struct err *err)
{
	struct label_matching m = { .q = q, .out = out };

	*out = (struct attribute_match){ 0 };
	return end_matching(&m, match_list(&m, attributes, err), err);
}

bool label_match_series(struct query *q, const struct source_series *s, struct str type_id,
			struct attribute_match *out, struct err *err)
{
	struct label_matching m = { .q = q, .out = out };
	bool ok;

	*out = (struct attribute_match){ 0 };
	ok = match_one(&m, STR("__profile_type__"), type_id, err) &&
	     match_one(&m, STR("__type__"), s->sample_type, err) &&
	     match_one(&m, STR("__unit__"), s->sample_unit, err) &&
	     match_one(&m, STR("__period_type__"), s->period_type, err) &&
	     match_one(&m, STR("__period_unit__"), s->period_unit, err) &&
	     match_list(&m, s->lifted, err) && match_list(&m, s->resource, err) &&
	     match_list(&m, s->scope, err) &&
	     (!s->scope_name.len || match_one(&m, STR("otel.scope.name"), s->scope_name, err)) &&
	     (!s->scope_version.len ||
	      match_one(&m, STR("otel.scope.version"), s->scope_version, err));
	return end_matching(&m, ok, err);
}

bool label_empty_match(const struct query *q, uint32_t *out, struct err *err)
{
	*out = 0;
	for (uint32_t i = 0; i < q->selector->count; i++) {
		const struct matcher *m = &q->selector->matchers[i];
		bool matches;

		/* Every sample has a service name (OpenTelemetry, service.name). */
		if (!matcher_match(
			    m, is_service_key(m->key) ? STR(UNKNOWN_SERVICE) : (struct str){ 0 },
			    &matches, err))
			return false;
		*out |= matches ? 1u << i : 0;
	}
	return true;
}

static bool concerns(struct str key, struct str wanted)
{
	return key_is(key, wanted) ||
	       (is_service_key(wanted) && str_is(key, "process.executable.name"));
}

uint32_t label_key_concerns(const struct query *q, struct str key, bool *group)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; i < q->selector->count; i++)
		if (concerns(key, q->selector->matchers[i].key))
			bits |= 1u << i;
	*group = q->selected.group_key.len && concerns(key, q->selected.group_key);
	return bits;
}

bool label_series_matches(const struct match_bits *s, uint32_t bits, uint32_t empty_match)
{
	uint32_t weak = ~s->present & s->weak;
	uint32_t match = (s->present & s->match) | (weak & s->weak_match) |
			 (~s->present & ~s->weak & empty_match);

	return (match & bits) == bits;
}

bool label_is_service(struct str key)
{
	return is_service_key(key);
}

bool label_levels_match(const struct query *q, const struct row_levels *l, uint32_t empty_match)
{
	uint32_t all = (uint32_t)((UINT64_C(1) << q->selector->count) - 1);
	uint32_t open = all, match = 0;

	for (unsigned i = 0; i < LEVELS; i++) {
		if (!l->of[i])
			continue;
		match |= open & l->of[i]->bits.present & l->of[i]->bits.match;
		open &= ~l->of[i]->bits.present;
	}
	for (unsigned i = 0; i < LEVELS; i++) {
		if (!l->of[i])
			continue;
		match |= open & l->of[i]->bits.weak & l->of[i]->bits.weak_match;
		open &= ~l->of[i]->bits.weak;
	}
	return (match | (open & empty_match)) == all;
}

struct str label_levels_group(const struct query *q, const struct row_levels *l)
{
	const struct attribute_match *weak = NULL;

	for (unsigned i = 0; i < LEVELS; i++) {
		if (!l->of[i] || !l->of[i]->has_group)
			continue;
		if (!l->of[i]->group_weak)
			return l->of[i]->group;
		weak = weak ? weak : l->of[i];
	}
	if (weak)
		return weak->group;
	if (q->selected.group_key.len && label_key_is(STR("service.name"), q->selected.group_key))
		return STR(UNKNOWN_SERVICE); /* every sample has a service name */
	return (struct str){ 0 };
}
