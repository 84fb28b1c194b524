/* label_sets.c - which labels come together: of series, of the samples in them, and of the profiles
 * those are of. */
#include <stdlib.h>

#include "base/hash.h"
#include "model/profiles.h"
#include "query/select/walk.h"

/* Texts of one level's attributes, in the query's memory: places in `pairs`. */
struct level {
	uint32_t first, count;
};

struct combination {
	uint64_t series, attributes;
	uint32_t profile; /* of q->known.profiles; UINT32_MAX: none, or they say nothing */
};

struct pairing {
	struct query *q;
	query_label_wanted_fn *wanted;
	query_label_set_fn *fn;
	void *ctx;
	bool of_samples; /* samples or profiles say something that is wanted */
	struct number_table known;
	struct combination *all; /* by series, then the rest */
	uint32_t count, cap;
	struct query_label_pair *pairs;
	uint32_t pair_count, pair_cap;
	struct number_table set_places,
		profile_places;            /* set, first sample of a profile -> levels */
	struct number_table profile_texts; /* profiles that say the same have one level */
	struct level *levels;
	uint32_t level_count, level_cap;
	struct number_set sets;
};

static bool take_key(void *ctx, struct str key, struct err *err)
{
	struct pairing *p = ctx;

	(void)err;
	p->of_samples |= p->wanted(p->ctx, key);
	return true;
}

static bool add_pair(struct pairing *p, const struct source_attribute *a, struct err *err)
{
	struct query_label_pair *pair;
	struct buf scratch = { 0 };
	bool ok;

	if (!QUERY_ROOM(p->q, p->pairs, p->pair_cap, p->pair_count + 1u, err))
		return false;
	pair = &p->pairs[p->pair_count++];
	ok = query_str_dup(p->q, a->key, &pair->key, err) &&
	     query_str_dup(p->q, attribute_text(a, &scratch), &pair->value, err);
	buf_release(&scratch);
	return ok;
}

static bool add_level(struct pairing *p, struct source_attributes list, struct err *err)
{
	struct level *level;
	uint32_t at = p->level_count;

	if (!QUERY_ROOM(p->q, p->levels, p->level_cap, at + 1u, err))
		return false;
	p->level_count++;
	level = &p->levels[at];
	level->first = p->pair_count;
	for (uint32_t i = 0; i < list.count; i++)
		if (p->wanted(p->ctx, list.ptr[i].key) && !add_pair(p, &list.ptr[i], err))
			return false;
	level->count = p->pair_count - level->first;
	return true;
}

/* ---- which ones there are ---- */

static uint64_t combined(const struct combination *c)
{
	uint64_t parts[] = { c->series, c->attributes, c->profile };

	return hash64(str_from(parts, sizeof(parts)));
}

static bool note_combination(void *ctx, const struct engine_event *e, struct err *err)
{
	struct pairing *p = ctx;
	struct query *q = p->q;
	const struct engine_profile *profile = engine_profile_of(q, e->row->sample);
	struct combination c = { e->row->series, e->row->attributes, UINT32_MAX };
	bool added;

	if (!e->first)
		return true;
	if (profile)
		c.profile = number_find(&p->profile_places, profile->first_sample);
	if (!number_note(q, &p->known, combined(&c), &added, err))
		return false;
	if (!added)
		return true;
	if (!QUERY_ROOM(q, p->all, p->cap, p->count + 1u, err))
		return false;
	p->all[p->count++] = c;
	return !c.attributes || number_set_add(q, &p->sets, c.attributes, err);
}

static uint64_t hash_of(const struct pairing *p, const struct level *level)
{
	uint64_t hash = level->count;

	for (uint32_t i = 0; i < level->count; i++) {
		const struct query_label_pair *pair = &p->pairs[level->first + i];
		uint64_t parts[] = { hash, hash64(pair->key), hash64(pair->value) };

		hash = hash64(str_from(parts, sizeof(parts)));
	}
	return hash;
}

static bool name_profile(void *ctx, const struct source_profile *profile, struct err *err)
{
	struct pairing *p = ctx;
	uint32_t level = p->level_count, at = level, first = p->pair_count;

	if (!profile->attributes.count)
		return true;
	if (!add_level(p, profile->attributes, err) ||
	    !number_enter(p->q, &p->profile_texts, hash_of(p, &p->levels[level]), &at, err))
		return false;
	if (at != level) { /* says what one before said */
		p->level_count--;
		p->pair_count = first;
	}
	return number_put(p->q, &p->profile_places, profile->first_sample, at, err);
}

static bool name_set(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	struct pairing *p = ctx;

	return add_level(p, list, err) &&
	       number_put(p->q, &p->set_places, id, p->level_count - 1, err);
}

static bool find_combinations(struct pairing *p, struct err *err)
{
	struct query *q = p->q;
	struct source *s = q->request.source;
	struct source_scan scan = engine_series_scan(q);
	const struct walk w = walk_of(q, ROW_ATTRIBUTES);

	if (!engine_load_profiles(q, err) || !s->ops->profiles(s, &scan, name_profile, p, err))
		return false;
	if (!engine_events(q, &w, note_combination, p, err))
		return false;
	number_set_sort(q, &p->sets);
	return source_attributes(s, p->sets.ptr, p->sets.count, name_set, p, err);
}

/* ---- series by series ---- */

static int by_series(const void *a, const void *b)
{
	const struct combination *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	if (x->attributes != y->attributes)
		return x->attributes < y->attributes ? -1 : 1;
	return x->profile < y->profile ? -1 : x->profile > y->profile;
}

static uint32_t first_of(const struct pairing *p, uint64_t series)
{
	uint32_t low = 0, high = p->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (p->all[mid].series < series)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct query_label_pairs level_at(const struct pairing *p, uint32_t at)
{
	if (at == UINT32_MAX)
		return (struct query_label_pairs){ 0 };
	return (struct query_label_pairs){ p->pairs + p->levels[at].first, p->levels[at].count };
}

static bool give_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct pairing *p = ctx;

	if (!p->of_samples) {
		const struct query_label_set set = { .series = s };

		return p->fn(p->ctx, &set, err);
	}
	for (uint32_t i = first_of(p, s->id); i < p->count && p->all[i].series == s->id; i++) {
		const struct combination *c = &p->all[i];
		uint32_t at =
			c->attributes ? number_find(&p->set_places, c->attributes) : UINT32_MAX;
		const struct query_label_set set = { .series = s,
						     .sample = level_at(p, at),
						     .profile = level_at(p, c->profile) };

		if (!query_alive(p->q, err) || !p->fn(p->ctx, &set, err))
			return false;
	}
	return true;
}

static void pairing_release(struct pairing *p)
{
	struct query *q = p->q;

	number_release(q, &p->known);
	number_set_release(q, &p->sets);
	number_release(q, &p->set_places);
	number_release(q, &p->profile_places);
	number_release(q, &p->profile_texts);
	QUERY_DROP(q, p->all, p->cap);
	QUERY_DROP(q, p->pairs, p->pair_cap);
	QUERY_DROP(q, p->levels, p->level_cap);
}

bool query_each_label_set(struct query *q, query_label_wanted_fn *wanted, query_label_set_fn *fn,
			  void *ctx, struct err *err)
{
	struct source *s = q->request.source;
	struct pairing p = { .q = q, .wanted = wanted, .fn = fn, .ctx = ctx };
	bool known = false, ok = true;

	if (s->ops->sample_keys)
		ok = s->ops->sample_keys(s, take_key, &p, &known, err);
	p.of_samples |= !known;
	if (ok && !p.of_samples)
		return query_each_series(q, give_series, &p, err);
	ok = ok && find_combinations(&p, err);
	if (ok && p.count)
		qsort(p.all, p.count, sizeof(*p.all), by_series);
	ok = ok && engine_each_series(q, give_series, &p, err);
	pairing_release(&p);
	return ok;
}
