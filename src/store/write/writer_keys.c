/*
 * writer_keys.c - the table sample_key: which keys samples and profiles have beyond their series.
 *
 * What a sample says of itself wins over its resource. A question that matches on keys of which
 * none is in this table is decided series by series; no row need be looked at for it. It holds
 * "service.name", too, as soon as one series' service_id is not what a query would find in its
 * attributes. And the column series.labels.
 */
#include "store/schema/codec.h"
#include "store/schema/labels.h"
#include "store/schema/lifted.h"
#include "store/write/writer_internal.h"

enum { KEYS_MOST = 64 }; /* of one request: which are not told apart above, the table does */

struct keys {
	struct store_writer *w;
	uint32_t seen[KEYS_MOST], count;
};

static void note_key(struct store_writer *w, struct str key)
{
	if (w->failed)
		return;
	db_bind_text(statement(w, ADD_SAMPLE_KEY), 1, key);
	writer_run(w, ADD_SAMPLE_KEY, "noting a key");
}

static void note_once(struct keys *k, uint32_t strindex)
{
	for (uint32_t i = 0; i < k->count; i++)
		if (k->seen[i] == strindex)
			return;
	if (k->count < KEYS_MOST)
		k->seen[k->count++] = strindex;
	note_key(k->w, k->w->p->dict.strings[strindex]);
}

void writer_put_sample_keys(struct store_writer *w, const struct lifted *l)
{
	const struct profiles *p = w->p;
	struct keys k = { .w = w };

	for (uint32_t i = 0; i < p->dict.attribute_count; i++)
		if (lifted_is_own(l, i))
			note_once(&k, p->dict.attributes[i].key.v);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		struct range r = p->profiles[i].attributes;

		for (uint32_t n = 0; n < r.count; n++)
			note_once(&k, p->dict.attributes[p->attribute_refs[r.first + n].v].key.v);
	}
}

/* ---- the column series.labels ---- */

/* The key's place; odd where the row alone cannot say it. */
static enum label_key place_of(struct str key, const uint32_t *ids, bool *odd)
{
	bool exact;
	enum label_key k = label_key_of(key, &exact);

	*odd |= k != LABEL_NONE && (!exact || ids[k]);
	return k;
}

bool writer_labels(struct store_writer *w, const struct resource_profiles *r,
		   const struct scope_profiles *c, const struct attribute_index *lifted,
		   uint32_t lifted_count)
{
	const struct dictionary *d = &w->p->dict;
	const struct key_value *profiler = label_profiler(r->attributes);
	uint32_t ids[LABEL_KEYS + 1] = { 0 };
	bool odd = false;

	for (uint32_t i = 0; i < c->attributes.count; i++) {
		bool exact;

		odd |= label_key_of(c->attributes.ptr[i].key, &exact) != LABEL_NONE;
	}
	for (uint32_t i = 0; i < r->attributes.count && !odd; i++) {
		const struct key_value *kv = &r->attributes.ptr[i];
		enum label_key k = place_of(kv->key, ids, &odd);

		if (k != LABEL_NONE && !odd)
			ids[k] = writer_key_value(w, kv, ident_key_value(&w->n, kv));
	}
	for (uint32_t i = 0; i < lifted_count && !odd; i++) {
		uint32_t at = lifted[i].v;
		enum label_key k = place_of(d->strings[d->attributes[at].key.v], ids, &odd);

		if (k != LABEL_NONE && !odd)
			ids[k] = writer_attribute(w, at);
	}
	if (profiler && !odd)
		ids[LABEL_PROFILER] =
			writer_key_value(w, profiler, ident_key_value(&w->n, profiler));
	buf_reset(&w->bytes);
	for (uint32_t i = 0; i < LABEL_KEYS; i++)
		codec_put(&w->bytes, ids[i]);
	return !odd;
}

/* ---- services that attributes say otherwise ---- */

/* "service-name", "service_name": queries take them for service.name. */
static bool is_service_like(struct str key)
{
	static const struct str name = { "service_name", 12 };

	if (key.len != name.len)
		return false;
	for (size_t i = 0; i < key.len; i++) {
		char c = key.ptr[i];
		bool letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if ((letter ? c : '_') != name.ptr[i])
			return false;
	}
	return true;
}

/* An attribute of a resource, or a lifted one, that lifted_service() does not read as queries do.
 */
static bool is_odd(struct str key, const struct any_value *v)
{
	if (str_equal(key, STR("service.name")) || str_equal(key, STR("process.executable.name")))
		return v->kind != ANY_STRING || !v->string.len;
	return is_service_like(key);
}

static bool scope_is_odd(struct str key)
{
	return is_service_like(key) || str_equal(key, STR("process.executable.name"));
}

void writer_put_odd_service(struct store_writer *w, const struct resource_profiles *r,
			    const struct scope_profiles *c, const struct attribute_index *lifted,
			    uint32_t lifted_count)
{
	const struct dictionary *d = &w->p->dict;
	bool odd = false;

	for (uint32_t i = 0; i < r->attributes.count; i++)
		odd |= is_odd(r->attributes.ptr[i].key, &r->attributes.ptr[i].value);
	for (uint32_t i = 0; i < c->attributes.count; i++)
		odd |= scope_is_odd(c->attributes.ptr[i].key);
	for (uint32_t i = 0; i < lifted_count; i++)
		odd |= is_odd(d->strings[d->attributes[lifted[i].v].key.v],
			      &d->attributes[lifted[i].v].value);
	if (odd)
		note_key(w, STR("service.name"));
}
