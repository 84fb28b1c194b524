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

void label_matching_init(struct label_matching *m, struct query *q)
{
	*m = (struct label_matching){ .q = q };
	buf_init(&m->scratch, 0);
	buf_init(&m->group_text, 0);
}

static bool note_match(struct label_matching *m, uint32_t bit, const struct matcher *matcher,
		       struct str value, bool exact, struct err *err)
{
	bool again = exact && (m->of_list & bit), matches;

	if (!again && (m->bits.present & bit) && (!exact || (m->exact & bit)))
		return true;
	if (!matcher_match(matcher, value, &matches, err))
		return false;
	/* Several values of one key, as labels of pprof: one of them is it, or none is. */
	if (again && (matcher->op == MATCH_EQUAL || matcher->op == MATCH_REGEX))
		matches |= (m->bits.match & bit) != 0;
	else if (again)
		matches &= (m->bits.match & bit) != 0;
	m->bits.present |= bit;
	m->bits.match = matches ? m->bits.match | bit : m->bits.match & ~bit;
	if (exact) {
		m->exact |= bit;
		m->of_list |= bit;
	}
	return true;
}

static bool note_weak(struct label_matching *m, uint32_t bit, const struct matcher *matcher,
		      struct str value, struct err *err)
{
	bool matches;

	if (!matcher_match(matcher, value, &matches, err))
		return false;
	m->bits.weak |= bit;
	if (matches)
		m->bits.weak_match |= bit;
	return true;
}

static void note_group(struct label_matching *m, struct str value, bool exact)
{
	if (m->has_group && !m->group_weak && (!exact || m->group_exact))
		return;
	buf_reset(&m->group_text);
	buf_str(&m->group_text, value);
	m->has_group = true;
	m->group_weak = false;
	m->group_exact = exact;
}

static bool match_plain(struct label_matching *m, struct str key, struct str value, struct err *err)
{
	const struct selector *s = m->q->selector;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct matcher *matcher = &s->matchers[i];

		if (key_is(key, matcher->key) &&
		    !note_match(m, 1u << i, matcher, value, str_equal(key, matcher->key), err))
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
	for (uint32_t i = 0; i < s->count && ok; i++)
		if (is_service_key(s->matchers[i].key))
			ok = note_weak(m, 1u << i, &s->matchers[i], buf_view(&made), err);
	if (ok && m->q->selected.group_key.len && is_service_key(m->q->selected.group_key) &&
	    !m->has_group) {
		note_group(m, buf_view(&made), false);
		m->group_weak = true;
	}
	buf_release(&made);
	return ok;
}

bool label_match_one(struct label_matching *m, struct str key, struct str value, struct err *err)
{
	if (str_is(key, "process.executable.name") && !match_service(m, value, err))
		return false;
	return match_plain(m, key, value, err);
}

bool label_match_attributes(struct label_matching *m, struct source_attributes attributes,
			    struct err *err)
{
	for (uint32_t i = 0; i < attributes.count; i++)
		if (!label_match_one(m, attributes.ptr[i].key,
				     attribute_text(&attributes.ptr[i], &m->scratch), err))
			return false;
	m->of_list = 0;
	return true;
}

bool label_match_series(struct label_matching *m, const struct source_series *s, struct str type_id,
			struct err *err)
{
	return label_match_one(m, STR("__profile_type__"), type_id, err) &&
	       label_match_one(m, STR("__type__"), s->sample_type, err) &&
	       label_match_one(m, STR("__unit__"), s->sample_unit, err) &&
	       label_match_one(m, STR("__period_type__"), s->period_type, err) &&
	       label_match_one(m, STR("__period_unit__"), s->period_unit, err) &&
	       label_match_attributes(m, s->lifted, err) &&
	       label_match_attributes(m, s->resource, err) &&
	       label_match_attributes(m, s->scope, err) &&
	       (!s->scope_name.len ||
		label_match_one(m, STR("otel.scope.name"), s->scope_name, err)) &&
	       (!s->scope_version.len ||
		label_match_one(m, STR("otel.scope.version"), s->scope_version, err));
}

bool label_matching_end(struct label_matching *m, struct match_bits *bits, struct str *group,
			bool *has_group, bool *group_weak, struct err *err)
{
	bool ok = true;

	*bits = m->bits;
	*has_group = m->has_group;
	*group_weak = m->group_weak;
	if (m->has_group)
		ok = query_str_dup(m->q, buf_view(&m->group_text), group, err);
	buf_release(&m->scratch);
	buf_release(&m->group_text);
	return ok;
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

bool label_bits_match(const struct query *q, const struct match_bits *sample,
		      const struct match_bits *series, const struct match_bits *profile,
		      uint32_t empty_match)
{
	static const struct match_bits nothing;
	const struct match_bits *levels[] = { sample ? sample : &nothing, series,
					      profile ? profile : &nothing };
	uint32_t all = (uint32_t)((UINT64_C(1) << q->selector->count) - 1);
	uint32_t open = all, match = 0;

	for (unsigned i = 0; i < 3; i++) {
		match |= open & levels[i]->present & levels[i]->match;
		open &= ~levels[i]->present;
	}
	for (unsigned i = 0; i < 3; i++) {
		match |= open & levels[i]->weak & levels[i]->weak_match;
		open &= ~levels[i]->weak;
	}
	return (match | (open & empty_match)) == all;
}
