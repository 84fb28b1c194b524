#include "store/rebuild.h"

void rebuild_begin(struct rebuild *r, rebuild_entry_fn *entry, struct err *err)
{
	struct builder_options options = { .copy_strings = true };

	r->entry = entry;
	r->b = builder_new(&options);
	arena_init(&r->scratch, 64 << 10, 0);
	r->err = err;
}

struct profiles *rebuild_end(struct rebuild *r)
{
	struct profiles *p = NULL;

	for (int i = 0; i < KIND_COUNT; i++)
		idmap_release(&r->maps[i]);
	if (r->failed)
		builder_free(r->b);
	else
		p = builder_finish(r->b, r->err);
	arena_release(&r->scratch);
	return p;
}

void rebuild_fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id)
{
	if (!wrong || r->failed)
		return;
	r->failed = true;
	err_set(r->err, ERR_INVALID, "%s %llu is damaged", what, (unsigned long long)id);
}

struct str rebuild_copy(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(&r->scratch, s) : (struct str){ 0 };
}

struct str rebuild_owned(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(builder_arena(r->b), s) : (struct str){ 0 };
}

/* ---- entries ---- */

/* False: there is none to be made; *index is then what was made before, or 0. */
static bool get_entry(struct rebuild *r, enum store_kind kind, uint64_t id, uint32_t *index,
		      struct rebuild_entry *out)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[kind], id) : NULL;

	*index = slot ? (uint32_t)slot->number : 0;
	if (!id || slot || r->failed)
		return false;
	*out = (struct rebuild_entry){ 0 };
	r->failed = !r->entry(r, kind, id, out, r->err);
	return !r->failed;
}

static int64_t entry_number(const struct rebuild_entry *e, uint32_t i)
{
	return i < e->number_count ? e->numbers[i] : 0;
}

static uint64_t entry_ref(const struct rebuild_entry *e, uint32_t i)
{
	return i < e->ref_count ? e->refs[i] : 0;
}

void rebuild_notes(struct rebuild *r, struct str notes, enum message_kind message, uint32_t index)
{
	if (notes.len)
		rebuild_fail_when(r, !notes_get(notes, message, r->b, index), "notes of message",
				  index);
}

/* The entry was made: its notes, which are those of one message; and it is remembered. */
static uint32_t end_entry(struct rebuild *r, enum store_kind kind, uint64_t id, uint32_t index)
{
	if (!r->failed)
		idmap_add(&r->maps[kind], id)->number = index;
	return index;
}

/* An entry with notes is one of its own. */
static void keep_apart(struct rebuild *r, struct str notes)
{
	if (notes.len)
		builder_append_next(r->b);
}

static struct any_value value_of(struct rebuild *r, const struct rebuild_attribute *a)
{
	struct any_value v = a->value;

	if (a->notes.len)
		rebuild_fail_when(r, !notes_get_unknown(a->notes, &r->scratch, &v),
				  "notes of attribute", 0);
	any_relink(r->b, &v);
	return v;
}

static struct attribute_index make_attribute(struct rebuild *r, const struct rebuild_attribute *x)
{
	struct attribute a = { .value = value_of(r, x) };
	struct attribute_index index;

	a.key = builder_string(r->b, x->key);
	a.unit = builder_string(r->b, x->unit);
	keep_apart(r, x->notes);
	index = builder_attribute(r->b, &a);
	rebuild_notes(r, x->notes, MESSAGE_ATTRIBUTE, index.v);
	return index;
}

struct refs {
	struct attribute_index *at;
	uint32_t count;
};

static struct refs make_refs(struct rebuild *r, uint64_t id)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[KIND_ATTRSET], id) : NULL;
	struct rebuild_entry e = { 0 };
	struct refs *refs;

	if (slot)
		return *(const struct refs *)slot->ptr;
	if (!id || r->failed || !r->entry(r, KIND_ATTRSET, id, &e, r->err)) {
		r->failed |= id != 0;
		return (struct refs){ 0 };
	}
	refs = arena_zalloc(&r->scratch, sizeof(*refs));
	refs->at = arena_alloc_array(&r->scratch, e.attribute_count, sizeof(*refs->at));
	for (uint32_t i = 0; i < e.attribute_count; i++)
		refs->at[refs->count++] = make_attribute(r, &e.attributes[i]);
	idmap_add(&r->maps[KIND_ATTRSET], id)->ptr = refs;
	return *refs;
}

static struct function_index make_function(struct rebuild *r, uint64_t id)
{
	struct rebuild_entry e;
	struct function f;
	uint32_t index;

	if (!get_entry(r, KIND_FUNCTION, id, &index, &e))
		return (struct function_index){ index };
	f = (struct function){ .name = builder_string(r->b, e.texts[0]),
			       .system_name = builder_string(r->b, e.texts[1]),
			       .filename = builder_string(r->b, e.texts[2]),
			       .start_line = entry_number(&e, 0) };
	keep_apart(r, e.notes);
	index = builder_function(r->b, &f).v;
	rebuild_notes(r, e.notes, MESSAGE_FUNCTION, index);
	return (struct function_index){ end_entry(r, KIND_FUNCTION, id, index) };
}

static struct mapping_index make_mapping(struct rebuild *r, uint64_t id)
{
	struct rebuild_entry e;
	struct mapping m;
	struct refs refs;
	uint32_t index;

	if (!get_entry(r, KIND_MAPPING, id, &index, &e))
		return (struct mapping_index){ index };
	m = (struct mapping){ .memory_start = (uint64_t)entry_number(&e, 0),
			      .memory_limit = (uint64_t)entry_number(&e, 1),
			      .file_offset = (uint64_t)entry_number(&e, 2),
			      .filename = builder_string(r->b, e.texts[0]) };
	refs = make_refs(r, entry_ref(&e, 0));
	keep_apart(r, e.notes);
	index = builder_mapping(r->b, &m, refs.at, refs.count).v;
	rebuild_notes(r, e.notes, MESSAGE_MAPPING, index);
	return (struct mapping_index){ end_entry(r, KIND_MAPPING, id, index) };
}

static struct location_index make_location(struct rebuild *r, uint64_t id)
{
	struct rebuild_entry e;
	struct location l = { 0 };
	struct line *lines;
	struct refs refs;
	uint32_t index, count;

	if (!get_entry(r, KIND_LOCATION, id, &index, &e))
		return (struct location_index){ index };
	count = e.ref_count > 2 ? e.ref_count - 2 : 0;
	lines = arena_zalloc(&r->scratch, (count + 1) * sizeof(*lines));
	l.address = (uint64_t)entry_number(&e, 0);
	l.mapping = make_mapping(r, entry_ref(&e, 0));
	refs = make_refs(r, entry_ref(&e, 1));
	for (uint32_t i = 0; i < count; i++)
		lines[i] = (struct line){ .line = entry_number(&e, 1 + 2 * i),
					  .column = entry_number(&e, 2 + 2 * i),
					  .function = make_function(r, e.refs[2 + i]) };
	keep_apart(r, e.notes);
	index = builder_location(r->b, &l, lines, count, refs.at, refs.count).v;
	rebuild_notes(r, e.notes, MESSAGE_LOCATION, index);
	rebuild_notes(r, e.notes, MESSAGE_LINE,
		      builder_lines(r->b, (struct location_index){ index }).first);
	return (struct location_index){ end_entry(r, KIND_LOCATION, id, index) };
}

static struct stack_index make_stack(struct rebuild *r, uint64_t id)
{
	struct location_index *locations;
	struct rebuild_entry e;
	uint32_t index;

	if (!get_entry(r, KIND_STACK, id, &index, &e))
		return (struct stack_index){ index };
	locations = arena_alloc_array(&r->scratch, (size_t)e.ref_count + 1, sizeof(*locations));
	for (uint32_t i = 0; i < e.ref_count; i++)
		locations[i] = make_location(r, e.refs[i]);
	keep_apart(r, e.notes);
	index = builder_stack(r->b, locations, e.ref_count).v;
	rebuild_notes(r, e.notes, MESSAGE_STACK, index);
	return (struct stack_index){ end_entry(r, KIND_STACK, id, index) };
}

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

static struct link_index make_link(struct rebuild *r, uint64_t id)
{
	struct rebuild_entry e;
	struct link l = { 0 };
	uint32_t index;

	if (!get_entry(r, KIND_LINK, id, &index, &e))
		return (struct link_index){ index };
	copy_id(l.trace_id, sizeof(l.trace_id), e.texts[0]);
	copy_id(l.span_id, sizeof(l.span_id), e.texts[1]);
	keep_apart(r, e.notes);
	index = builder_link(r->b, &l).v;
	rebuild_notes(r, e.notes, MESSAGE_LINK, index);
	return (struct link_index){ end_entry(r, KIND_LINK, id, index) };
}

/* ---- resources and scopes ---- */

static struct key_values make_key_values(struct rebuild *r, uint64_t attrset)
{
	struct rebuild_entry e = { 0 };
	struct key_value *list;

	if (!attrset || r->failed || !r->entry(r, KIND_ATTRSET, attrset, &e, r->err)) {
		r->failed |= attrset != 0;
		return (struct key_values){ 0 };
	}
	list = arena_zalloc(&r->scratch, ((size_t)e.attribute_count + 1) * sizeof(*list));
	for (uint32_t i = 0; i < e.attribute_count; i++) {
		const struct rebuild_attribute *a = &e.attributes[i];

		list[i] = (struct key_value){ .key = a->key, .value = value_of(r, a) };
		if (a->key_by_reference)
			list[i].key_strindex = builder_string(r->b, a->key);
	}
	return builder_key_values(r->b, list, e.attribute_count);
}

static bool get_owner(struct rebuild *r, enum store_kind kind, uint64_t id, struct rebuild_entry *e)
{
	if (!id || r->failed)
		return false;
	r->failed = !r->entry(r, kind, id, e, r->err);
	return !r->failed;
}

static void put_resource(struct rebuild *r, uint64_t id)
{
	struct resource_profiles *to = builder_begin_resource(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_RESOURCE);
	struct rebuild_entry e = { 0 };

	if (!get_owner(r, KIND_RESOURCE, id, &e))
		return;
	to->dropped_attributes_count = (uint32_t)entry_number(&e, 0);
	to->attributes = make_key_values(r, entry_ref(&e, 0));
	to->schema_url = rebuild_owned(r, e.texts[0]);
	rebuild_notes(r, e.notes, MESSAGE_RESOURCE_PROFILES, place);
	rebuild_notes(r, e.notes, MESSAGE_RESOURCE, place);
}

static void put_scope(struct rebuild *r, uint64_t id)
{
	struct scope_profiles *to = builder_begin_scope(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_SCOPE);
	struct rebuild_entry e = { 0 };

	if (!get_owner(r, KIND_SCOPE, id, &e))
		return;
	to->dropped_attributes_count = (uint32_t)entry_number(&e, 0);
	to->name = rebuild_owned(r, e.texts[0]);
	to->version = rebuild_owned(r, e.texts[1]);
	to->attributes = make_key_values(r, entry_ref(&e, 0));
	to->schema_url = rebuild_owned(r, e.texts[2]);
	rebuild_notes(r, e.notes, MESSAGE_SCOPE_PROFILES, place);
	rebuild_notes(r, e.notes, MESSAGE_SCOPE, place);
}

/* ---- profiles and samples ---- */

void rebuild_types(struct rebuild *r, uint64_t series, struct profile *to)
{
	struct rebuild_entry e = { 0 };

	if (!get_owner(r, KIND_SERIES, series, &e))
		return;
	to->period = entry_number(&e, 0);
	to->sample_type = (struct value_type){ builder_string(r->b, e.texts[0]),
					       builder_string(r->b, e.texts[1]) };
	to->period_type = (struct value_type){ builder_string(r->b, e.texts[2]),
					       builder_string(r->b, e.texts[3]) };
}

void rebuild_profile_attributes(struct rebuild *r, uint64_t attrset)
{
	struct refs refs = make_refs(r, attrset);

	if (!r->failed)
		builder_profile_attributes(r->b, refs.at, refs.count);
}

void rebuild_sample(struct rebuild *r, const struct rebuild_sample *x, struct str notes)
{
	struct refs refs = make_refs(r, x->attributes);
	struct stack_index stack = make_stack(r, x->stack);
	struct link_index link = make_link(r, x->link);
	uint32_t place;

	if (r->failed)
		return;
	place = builder_sample(r->b, stack, link, refs.at, refs.count, x->values, x->value_count,
			       x->times, x->time_count);
	rebuild_notes(r, notes, MESSAGE_SAMPLE, place);
}

struct layout {
	const uint64_t *at, *end;
	uint64_t request;
};

static uint64_t next_of_layout(struct rebuild *r, struct layout *l)
{
	rebuild_fail_when(r, l->at == l->end, "request", l->request);
	return r->failed ? 0 : *l->at++;
}

void rebuild_layout(struct rebuild *r, const uint64_t *layout, size_t count, uint64_t request,
		    void (*put_profile)(struct rebuild *r))
{
	struct layout l = { layout, layout + count, request };
	uint64_t resources = next_of_layout(r, &l);

	for (uint64_t i = 0; i < resources && !r->failed; i++) {
		uint64_t scopes;

		put_resource(r, next_of_layout(r, &l));
		scopes = next_of_layout(r, &l);
		for (uint64_t k = 0; k < scopes && !r->failed; k++) {
			uint64_t profiles;

			put_scope(r, next_of_layout(r, &l));
			profiles = next_of_layout(r, &l);
			for (uint64_t j = 0; j < profiles && !r->failed; j++)
				put_profile(r);
		}
	}
	rebuild_fail_when(r, l.at != l.end, "request", request);
}
