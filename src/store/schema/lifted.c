#include "store/schema/lifted.h"

#include <assert.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "model/service_name.h"
#include "store/schema/codec.h"

void lifted_begin(struct lifted *l, const struct profiles *p, struct arena *arena)
{
	*l = (struct lifted){ .p = p, .known = arena_zalloc(arena, p->dict.attribute_count) };
	assert(l->known);
}

/* Labels that code puts on what it does (process.context.label.*) are the sample's own: a
 * request's, say. */
static bool is_lifted_key(struct str key)
{
	if (str_has_prefix(key, STR("process.")))
		return !str_has_prefix(key, STR("process.context."));
	return str_has_prefix(key, STR("service.")) || str_has_prefix(key, STR("container."));
}

static bool is_liftable(struct lifted *l, uint32_t attribute)
{
	const struct dictionary *d = &l->p->dict;

	if (!l->known[attribute])
		l->known[attribute] =
			is_lifted_key(d->strings[d->attributes[attribute].key.v]) ? 2 : 1;
	return l->known[attribute] & 2;
}

uint32_t lifted_of(struct lifted *l, const struct resource_profiles *r, const struct sample *s,
		   struct arena *arena)
{
	const struct attribute_index *at = l->p->attribute_refs + s->attributes.first;
	const struct dictionary *d = &l->p->dict;
	uint32_t count = 0;

	if (s->attributes.count > l->cap) {
		l->cap = s->attributes.count * 2;
		l->at = arena_alloc_array(arena, l->cap, sizeof(*l->at));
		assert(l->at);
	}
	for (uint32_t i = 0; i < s->attributes.count; i++) {
		if (is_liftable(l, at[i].v) &&
		    !key_values_find(r->attributes, d->strings[d->attributes[at[i].v].key.v]))
			l->at[count++] = at[i];
		else
			l->known[at[i].v] |= 4;
	}
	return count;
}

static struct str text_value(const struct any_value *v)
{
	return v && v->kind == ANY_STRING ? v->string : (struct str){ 0 };
}

/* The sample's own attributes win. */
static struct str label(const struct profiles *p, const struct resource_profiles *r,
			const struct attribute_index *at, uint32_t count, struct str key)
{
	const struct dictionary *d = &p->dict;

	for (uint32_t i = 0; i < count; i++)
		if (str_equal(d->strings[d->attributes[at[i].v].key.v], key))
			return text_value(&d->attributes[at[i].v].value);
	return text_value(key_values_find(r->attributes, key));
}

struct str lifted_service(const struct profiles *p, const struct resource_profiles *r,
			  const struct attribute_index *at, uint32_t count, struct buf *scratch)
{
	struct str name = label(p, r, at, count, STR("service.name"));
	struct str executable;

	if (name.len)
		return name;
	executable = label(p, r, at, count, STR("process.executable.name"));
	buf_reset(scratch);
	buf_lit(scratch, UNKNOWN_SERVICE);
	if (executable.len) {
		buf_char(scratch, ':');
		buf_str(scratch, executable);
	}
	return buf_view(scratch);
}

struct hash128 series_hash(struct ident *n, const struct series_key *k)
{
	const struct profile *f = k->profile;
	struct {
		struct hash128 parts[8];
		int64_t period;
	} key = { .parts = { k->tenant, k->resource, k->scope,
			     ident_string(n, f->sample_type.type.v),
			     ident_string(n, f->sample_type.unit.v),
			     ident_string(n, f->period_type.type.v),
			     ident_string(n, f->period_type.unit.v),
			     ident_refs(n, k->lifted, k->lifted_count) },
		  .period = f->period };

	return ident_bytes(KIND_SERIES, str_from(&key, sizeof(key)));
}

struct str report_host(const struct resource_profiles *r)
{
	static const char *const keys[] = { "host.name", "host.id", "host.ip" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct str host = text_value(key_values_find(r->attributes, str_cstr(keys[i])));

		if (host.len)
			return host;
	}
	return (struct str){ 0 };
}

bool report_of(const struct profiles *p, const struct attribute *a, struct str *reason, int64_t *n)
{
	static const struct str prefix = { "flametap.", 9 };
	struct str key = p->dict.strings[a->key.v];

	if (!str_has_prefix(key, prefix) || a->value.kind != ANY_INT)
		return false;
	*reason = str_skip(key, prefix.len);
	*n = a->value.integer;
	return true;
}

void sample_times(const struct profiles *p, const struct profile *f, const struct sample *s,
		  uint64_t *t0, uint64_t *t1)
{
	const uint64_t *times = p->timestamps + s->timestamps.first;

	*t0 = *t1 = s->timestamps.count ? times[0] : f->time_unix_nano;
	for (uint32_t i = 1; i < s->timestamps.count; i++) {
		if (times[i] < *t0)
			*t0 = times[i];
		if (times[i] > *t1)
			*t1 = times[i];
	}
}

struct str mapping_build_id(const struct profiles *p, const struct mapping *m)
{
	static const char *const keys[] = { "process.executable.build_id.gnu",
					    "process.executable.build_id.go",
					    "process.executable.build_id.htlhash" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct str id = text_value(profiles_attribute(p, m->attributes, str_cstr(keys[i])));

		if (id.len)
			return id;
	}
	return (struct str){ 0 };
}

void process_note(struct process_parts *p, struct str key, const struct any_value *v)
{
	static const struct str keys[PROCESS_PARTS] = { { "host.id", 7 },
							{ "host.name", 9 },
							{ "k8s.node.name", 13 },
							{ "container.id", 12 },
							{ "process.pid", 11 } };

	for (size_t i = 0; i < PROCESS_PARTS; i++) {
		if (p->of[i] || !str_equal(key, keys[i]))
			continue;
		if (v->kind == ANY_INT)
			p->of[i] = hash64(str_from(&v->integer, sizeof(v->integer)));
		else if (v->kind == ANY_STRING)
			p->of[i] = hash64(v->string);
	}
}

uint64_t process_hash(const struct process_parts *p)
{
	return p->of[PROCESS_PARTS - 1] ? hash64(str_from(p->of, sizeof(p->of))) : 0;
}

uint64_t lifted_process(const struct profiles *p, const struct resource_profiles *r,
			const struct attribute_index *at, uint32_t count)
{
	const struct dictionary *d = &p->dict;
	struct process_parts parts = { 0 };

	for (uint32_t i = 0; i < r->attributes.count; i++)
		process_note(&parts, r->attributes.ptr[i].key, &r->attributes.ptr[i].value);
	for (uint32_t i = 0; i < count; i++) {
		const struct attribute *a = &d->attributes[at[i].v];

		process_note(&parts, d->strings[a->key.v], &a->value);
	}
	return process_hash(&parts);
}
