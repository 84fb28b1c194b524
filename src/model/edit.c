#include "model/edit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/vec.h"
#include "model/copy.h"
#include "model/intern.h"

struct edit {
	struct profiles *p;
	struct intern_table strings, attributes;
	bool strings_known, attributes_known; /* the tables hold what the message came with */
	bool dictionary_changed;
	uint32_t string_cap, attribute_cap, ref_cap;
	struct buf key;
};

struct edit *edit_new(struct profiles *p)
{
	struct edit *e = calloc(1, sizeof(*e));

	assert(e);
	e->p = p;
	e->string_cap = p->dict.string_count;
	e->attribute_cap = p->dict.attribute_count;
	e->ref_cap = p->attribute_ref_count;
	buf_init(&e->key, 0);
	intern_init(&e->strings);
	intern_init(&e->attributes);
	return e;
}

void edit_free(struct edit *e)
{
	if (!e)
		return;
	intern_release(&e->strings);
	intern_release(&e->attributes);
	buf_release(&e->key);
	free(e);
}

bool edit_dictionary_changed(const struct edit *e)
{
	return e->dictionary_changed;
}

static bool no_room(const struct edit *e, struct err *err)
{
	return err_set(err, ERR_LIMIT, "the changed message passes %zu bytes",
		       e->p->arena.limit_bytes);
}

/* Room for `more` entries in an array that lies in the message's arena. */
static bool make_room(struct edit *e, void **array, uint32_t count, uint32_t *cap, uint32_t more,
		      size_t size, struct err *err)
{
	uint32_t want = *cap ? *cap : 16;
	void *grown;

	if (more <= *cap - count)
		return true;
	if (more > UINT32_MAX / 4 - count)
		return err_set(err, ERR_LIMIT, "the changed message has too many entries");
	while (want - count < more)
		want *= 2;
	grown = arena_grow(&e->p->arena, *array, count * size, want * size);
	if (!grown)
		return no_room(e, err);
	*array = grown;
	*cap = want;
	return true;
}

#define ROOM(e, array, count, cap, more, err) \
	make_room(e, (void **)&(array), count, &(cap), more, sizeof(*(array)), err)

/* ---- strings ---- */

static bool string_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles *p = ctx;

	return str_equal(p->dict.strings[index], *(const struct str *)key);
}

static void learn_strings(struct edit *e)
{
	struct dictionary *d = &e->p->dict;

	for (uint32_t i = 0; !e->strings_known && i < d->string_count; i++)
		intern_find_or_add(&e->strings, hash64(d->strings[i]), string_same, e->p,
				   &d->strings[i], i);
	e->strings_known = true;
}

bool edit_text(struct edit *e, struct str s, struct str *out, struct err *err)
{
	struct copier c = { .arena = &e->p->arena, .shared_body = e->p->body };
	struct str copy = copy_string(&c, s);

	if (c.failed)
		return no_room(e, err);
	*out = copy;
	return true;
}

bool edit_string(struct edit *e, struct str s, struct strindex *out, struct err *err)
{
	struct dictionary *d = &e->p->dict;
	uint32_t found;

	learn_strings(e);
	if (!ROOM(e, d->strings, d->string_count, e->string_cap, 1, err))
		return false;
	found = intern_find_or_add(&e->strings, hash64(s), string_same, e->p, &s, d->string_count);
	out->v = found;
	if (found != UINT32_MAX)
		return true;
	e->dictionary_changed = true;
	out->v = d->string_count++;
	d->strings[out->v] = (struct str){ 0 }; /* the table has its number: it must be there */
	return edit_text(e, s, &d->strings[out->v], err);
}

/* ---- attributes of the dictionary ---- */

static bool attribute_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles *p = ctx;
	const struct attribute *a = &p->dict.attributes[index], *b = key;

	return a->key.v == b->key.v && a->unit.v == b->unit.v &&
	       any_value_equal(&a->value, &b->value);
}

static uint64_t attribute_hash(struct edit *e, const struct attribute *a)
{
	buf_reset(&e->key);
	buf_append(&e->key, &a->key, sizeof(a->key));
	buf_append(&e->key, &a->unit, sizeof(a->unit));
	any_value_append_text(&e->key, &a->value);
	return hash64(buf_view(&e->key));
}

static void learn_attributes(struct edit *e)
{
	struct dictionary *d = &e->p->dict;

	for (uint32_t i = 0; !e->attributes_known && i < d->attribute_count; i++)
		intern_find_or_add(&e->attributes, attribute_hash(e, &d->attributes[i]),
				   attribute_same, e->p, &d->attributes[i], i);
	e->attributes_known = true;
}

static bool intern_attribute(struct edit *e, const struct edit_attribute *from, uint32_t *out,
			     struct err *err)
{
	struct copier c = { .arena = &e->p->arena, .shared_body = e->p->body };
	struct dictionary *d = &e->p->dict;
	struct attribute a = { .unit = from->unit, .value = from->value };
	uint32_t found;

	learn_attributes(e);
	if (!edit_string(e, from->key, &a.key, err) ||
	    !ROOM(e, d->attributes, d->attribute_count, e->attribute_cap, 1, err))
		return false;
	found = intern_find_or_add(&e->attributes, attribute_hash(e, &a), attribute_same, e->p, &a,
				   d->attribute_count);
	*out = found;
	if (found != UINT32_MAX)
		return true;
	*out = d->attribute_count++;
	a.value = copy_any(&c, &from->value);
	d->attributes[*out] = a;
	return !c.failed || no_room(e, err);
}

/* ---- lists ---- */

static struct edit_attribute *append(struct edit_list *l)
{
	VEC_ROOM(l->items, l->count, l->cap);
	l->items[l->count] = (struct edit_attribute){ .entry = EDIT_NEW };
	return &l->items[l->count++];
}

static void load_pairs(struct edit_list *l, struct key_values kv)
{
	for (uint32_t i = 0; i < kv.count; i++) {
		struct edit_attribute *a = append(l);

		a->key = kv.ptr[i].key;
		a->key_strindex = kv.ptr[i].key_strindex;
		a->value = kv.ptr[i].value;
	}
}

static void load_refs(const struct profiles *p, struct edit_list *l, struct range refs)
{
	for (uint32_t i = 0; i < refs.count; i++) {
		uint32_t entry = p->attribute_refs[refs.first + i].v;
		const struct attribute *from = &p->dict.attributes[entry];
		struct edit_attribute *a = append(l);

		a->key = profiles_string(p, from->key);
		a->unit = from->unit;
		a->value = from->value;
		a->entry = entry;
	}
}

void edit_load(const struct profiles *p, enum message_kind owner, uint32_t index,
	       struct edit_list *l)
{
	l->owner = owner;
	l->index = index;
	l->count = 0;
	if (owner == MESSAGE_RESOURCE)
		load_pairs(l, p->resources[index].attributes);
	else if (owner == MESSAGE_SCOPE)
		load_pairs(l, p->scopes[index].attributes);
	else if (owner == MESSAGE_PROFILE)
		load_refs(p, l, p->profiles[index].attributes);
	else
		load_refs(p, l, p->samples[index].attributes);
}

void edit_list_release(struct edit_list *l)
{
	free(l->items);
	*l = (struct edit_list){ 0 };
}

struct edit_attribute *edit_find(const struct edit_list *l, struct str key)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (str_equal(l->items[i].key, key))
			return &l->items[i];
	return NULL;
}

void edit_set(struct edit_list *l, struct str key, const struct any_value *v)
{
	struct edit_attribute *a = edit_find(l, key);

	if (!a) {
		a = append(l);
		a->key = key;
	}
	a->value = *v;
	a->entry = EDIT_NEW;
}

void edit_remove(struct edit_list *l, uint32_t at)
{
	l->count--;
	memmove(l->items + at, l->items + at + 1, (l->count - at) * sizeof(*l->items));
}

static bool store_pairs(struct edit *e, const struct edit_list *l, struct key_values *out,
			struct err *err)
{
	struct copier c = { .arena = &e->p->arena, .shared_body = e->p->body };
	struct key_value *pairs = arena_alloc_array(&e->p->arena, l->count, sizeof(*pairs));

	if (!pairs)
		return no_room(e, err);
	for (uint32_t i = 0; i < l->count; i++)
		pairs[i] = (struct key_value){ .key = copy_string(&c, l->items[i].key),
					       .key_strindex = l->items[i].key_strindex,
					       .value = copy_any(&c, &l->items[i].value) };
	if (c.failed)
		return no_room(e, err);
	*out = (struct key_values){ pairs, l->count };
	return true;
}

/* Behind all others: two lists may share a run. */
static bool store_refs(struct edit *e, const struct edit_list *l, struct range *out,
		       struct err *err)
{
	struct profiles *p = e->p;
	struct range refs = { p->attribute_ref_count, l->count };

	if (!ROOM(e, p->attribute_refs, p->attribute_ref_count, e->ref_cap, l->count, err))
		return false;
	for (uint32_t i = 0; i < l->count; i++) {
		uint32_t entry = l->items[i].entry;

		if (entry == EDIT_NEW && !intern_attribute(e, &l->items[i], &entry, err))
			return false;
		p->attribute_refs[refs.first + i].v = entry;
	}
	p->attribute_ref_count += l->count;
	e->dictionary_changed = true;
	*out = refs;
	return true;
}

bool edit_store(struct edit *e, const struct edit_list *l, struct err *err)
{
	struct profiles *p = e->p;

	if (l->owner == MESSAGE_RESOURCE)
		return store_pairs(e, l, &p->resources[l->index].attributes, err);
	if (l->owner == MESSAGE_SCOPE)
		return store_pairs(e, l, &p->scopes[l->index].attributes, err);
	if (l->owner == MESSAGE_PROFILE)
		return store_refs(e, l, &p->profiles[l->index].attributes, err);
	return store_refs(e, l, &p->samples[l->index].attributes, err);
}
