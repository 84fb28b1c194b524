/*
 * reader_request.c - a whole request again, as a message: rows of ClickHouse's back into a
 * dictionary and samples.
 *
 * What a request refers to is known by now (request_page.h): it becomes an entry of a builder when
 * the first that refers to it does.
 */
#include <string.h>

#include "model/builder.h"
#include "store/clickhouse/request_page.h"
#include "store/schema/schema.h"

struct rebuild {
	struct ch_snapshot *snap;
	struct builder *b;
	struct arena scratch;
	struct idmap maps[CH_KIND_SLOTS];
	struct err *err;
	bool failed;

	const struct ch_kept_request *row;
	uint32_t layout_at, note_at;
};

static void fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id)
{
	if (!wrong || r->failed)
		return;
	r->failed = true;
	err_set(r->err, ERR_INVALID, "%s %llu is damaged", what, (unsigned long long)id);
}

static const struct ch_entry *entry_of(struct rebuild *r, unsigned kind, uint64_t id)
{
	const struct ch_entry *e = NULL;

	if (r->failed)
		return NULL;
	e = ch_entry(r->snap, kind, id, r->err);
	r->failed = !e;
	return e;
}

static bool known(struct rebuild *r, unsigned kind, uint64_t id, uint32_t *index)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[kind], id) : NULL;

	*index = slot ? (uint32_t)slot->number : 0;
	return !id || slot || r->failed;
}

static uint32_t remember(struct rebuild *r, unsigned kind, uint64_t id, uint32_t index)
{
	idmap_add(&r->maps[kind], id)->number = index;
	return index;
}

/* ---- dictionary ---- */

static void put_notes(struct rebuild *r, struct str notes, enum message_kind message,
		      uint32_t index)
{
	if (notes.len)
		fail_when(r, !notes_get(notes, message, r->b, index), "notes of message", index);
}

static void get_unknown(struct rebuild *r, struct str notes, struct any_value *v)
{
	if (notes.len)
		fail_when(r, !notes_get_unknown(notes, &r->scratch, v), "notes of attribute", 0);
}

/* An entry with notes is one of its own. */
static void keep_apart(struct rebuild *r, struct str notes)
{
	if (notes.len)
		builder_append_next(r->b);
}

struct refs {
	struct attribute_index *at;
	uint32_t count;
};

static struct attribute_index attribute_of(struct rebuild *r, const struct ch_entry *set,
					   uint32_t i)
{
	struct str notes = ch_list_text(set, i, CH_LIST_NOTES);
	struct attribute a = { 0 };
	uint32_t index;

	r->failed |= !ch_value(set->numbers[i], ch_list_text(set, i, CH_LIST_VALUE), &r->scratch,
			       &a.value, r->err);
	if (r->failed)
		return (struct attribute_index){ 0 };
	get_unknown(r, notes, &a.value);
	a.key = builder_string(r->b, ch_list_text(set, i, CH_LIST_KEY));
	a.unit = builder_string(r->b, ch_list_text(set, i, CH_LIST_UNIT));
	any_relink(r->b, &a.value);
	keep_apart(r, notes);
	index = builder_attribute(r->b, &a).v;
	put_notes(r, notes, MESSAGE_ATTRIBUTE, index);
	return (struct attribute_index){ index };
}

static const struct ch_entry *set_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *set = id ? entry_of(r, KIND_ATTRSET, id) : NULL;

	if (set)
		fail_when(r, set->text_count != (uint64_t)set->number_count * 4, "attribute set",
			  id);
	return r->failed ? NULL : set;
}

static struct refs refs_of(struct rebuild *r, uint64_t id)
{
	struct idmap_slot *slot = id ? idmap_find(&r->maps[KIND_ATTRSET], id) : NULL;
	const struct ch_entry *set;
	struct refs *refs;

	if (slot)
		return *(const struct refs *)slot->ptr;
	set = set_of(r, id);
	refs = arena_zalloc(&r->scratch, sizeof(*refs));
	refs->at = arena_alloc_array(&r->scratch, set ? set->number_count : 0, sizeof(*refs->at));
	for (uint32_t i = 0; set && i < set->number_count; i++)
		refs->at[refs->count++] = attribute_of(r, set, i);
	if (id)
		idmap_add(&r->maps[KIND_ATTRSET], id)->ptr = refs;
	return *refs;
}

static struct function_index function_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *e;
	struct function f;
	uint32_t index;

	if (known(r, KIND_FUNCTION, id, &index))
		return (struct function_index){ index };
	e = entry_of(r, KIND_FUNCTION, id);
	if (!e)
		return (struct function_index){ 0 };
	f = (struct function){ .name = builder_string(r->b, ch_text(e, 0)),
			       .system_name = builder_string(r->b, ch_text(e, 1)),
			       .filename = builder_string(r->b, ch_text(e, 2)),
			       .start_line = ch_number(e, 0) };
	keep_apart(r, e->notes);
	index = builder_function(r->b, &f).v;
	put_notes(r, e->notes, MESSAGE_FUNCTION, index);
	return (struct function_index){ remember(r, KIND_FUNCTION, id, index) };
}

static struct mapping_index mapping_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *e;
	struct mapping m;
	struct refs refs;
	uint32_t index;

	if (known(r, KIND_MAPPING, id, &index))
		return (struct mapping_index){ index };
	e = entry_of(r, KIND_MAPPING, id);
	if (!e)
		return (struct mapping_index){ 0 };
	m = (struct mapping){ .memory_start = (uint64_t)ch_number(e, 0),
			      .memory_limit = (uint64_t)ch_number(e, 1),
			      .file_offset = (uint64_t)ch_number(e, 2),
			      .filename = builder_string(r->b, ch_text(e, 0)) };
	refs = refs_of(r, ch_ref(e, 0));
	keep_apart(r, e->notes);
	index = builder_mapping(r->b, &m, refs.at, refs.count).v;
	put_notes(r, e->notes, MESSAGE_MAPPING, index);
	return (struct mapping_index){ remember(r, KIND_MAPPING, id, index) };
}

static struct location_index location_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *e;
	struct location l = { 0 };
	struct line *lines;
	struct refs refs;
	uint32_t index, count;

	if (known(r, KIND_LOCATION, id, &index))
		return (struct location_index){ index };
	e = entry_of(r, KIND_LOCATION, id);
	if (!e)
		return (struct location_index){ 0 };
	count = e->ref_count > 2 ? e->ref_count - 2 : 0;
	lines = arena_zalloc(&r->scratch, count * sizeof(*lines));
	l.address = (uint64_t)ch_number(e, 0);
	l.mapping = mapping_of(r, ch_ref(e, 0));
	refs = refs_of(r, ch_ref(e, 1));
	for (uint32_t i = 0; i < count; i++)
		lines[i] = (struct line){ .line = ch_number(e, 1 + 2 * i),
					  .column = ch_number(e, 2 + 2 * i),
					  .function = function_of(r, e->refs[2 + i]) };
	if (r->failed)
		return (struct location_index){ 0 };
	keep_apart(r, e->notes);
	index = builder_location(r->b, &l, lines, count, refs.at, refs.count).v;
	put_notes(r, e->notes, MESSAGE_LOCATION, index);
	put_notes(r, e->notes, MESSAGE_LINE,
		  builder_lines(r->b, (struct location_index){ index }).first);
	return (struct location_index){ remember(r, KIND_LOCATION, id, index) };
}

static struct stack_index stack_of(struct rebuild *r, uint64_t id)
{
	struct location_index *locations;
	const struct ch_entry *e;
	const uint64_t *ids;
	uint32_t index, count;

	if (known(r, KIND_STACK, id, &index))
		return (struct stack_index){ index };
	e = entry_of(r, KIND_STACK, id);
	if (!e || !ch_stack_locations(r->snap, e, &r->scratch, &ids, &count, r->err)) {
		r->failed = true;
		return (struct stack_index){ 0 };
	}
	locations = arena_alloc_array(&r->scratch, count, sizeof(*locations));
	for (uint32_t i = 0; i < count; i++)
		locations[i] = location_of(r, ids[i]);
	if (r->failed)
		return (struct stack_index){ 0 };
	keep_apart(r, e->notes);
	index = builder_stack(r->b, locations, count).v;
	put_notes(r, e->notes, MESSAGE_STACK, index);
	return (struct stack_index){ remember(r, KIND_STACK, id, index) };
}

static void copy_id(uint8_t *out, size_t size, struct str bytes)
{
	if (bytes.len == size)
		memcpy(out, bytes.ptr, size);
}

static struct link_index link_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *e;
	struct link l = { 0 };
	uint32_t index;

	if (known(r, KIND_LINK, id, &index))
		return (struct link_index){ index };
	e = entry_of(r, KIND_LINK, id);
	if (!e)
		return (struct link_index){ 0 };
	copy_id(l.trace_id, sizeof(l.trace_id), ch_text(e, 0));
	copy_id(l.span_id, sizeof(l.span_id), ch_text(e, 1));
	keep_apart(r, e->notes);
	index = builder_link(r->b, &l).v;
	put_notes(r, e->notes, MESSAGE_LINK, index);
	return (struct link_index){ remember(r, KIND_LINK, id, index) };
}

/* ---- resources and scopes ---- */

static struct key_values key_values_of(struct rebuild *r, uint64_t id)
{
	const struct ch_entry *set = set_of(r, id);
	uint32_t count = set ? set->number_count : 0;
	struct key_value *list = arena_zalloc(&r->scratch, ((size_t)count + 1) * sizeof(*list));

	for (uint32_t i = 0; i < count; i++) {
		r->failed |= !ch_value(set->numbers[i], ch_list_text(set, i, CH_LIST_VALUE),
				       &r->scratch, &list[i].value, r->err);
		if (r->failed)
			break;
		get_unknown(r, ch_list_text(set, i, CH_LIST_NOTES), &list[i].value);
		list[i].key = ch_list_text(set, i, CH_LIST_KEY);
		if (set->numbers[i] & 256)
			list[i].key_strindex = builder_string(r->b, list[i].key);
		any_relink(r->b, &list[i].value);
	}
	return r->failed ? (struct key_values){ 0 } : builder_key_values(r->b, list, count);
}

static struct str owned(struct rebuild *r, struct str s)
{
	return s.len ? str_dup(builder_arena(r->b), s) : (struct str){ 0 };
}

static void put_resource(struct rebuild *r, uint64_t id)
{
	struct resource_profiles *to = builder_begin_resource(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_RESOURCE);
	const struct ch_entry *e = id ? entry_of(r, KIND_RESOURCE, id) : NULL;

	if (!e)
		return;
	to->dropped_attributes_count = (uint32_t)ch_number(e, 0);
	to->attributes = key_values_of(r, ch_ref(e, 0));
	to->schema_url = owned(r, ch_text(e, 0));
	put_notes(r, e->notes, MESSAGE_RESOURCE_PROFILES, place);
	put_notes(r, e->notes, MESSAGE_RESOURCE, place);
}

static void put_scope(struct rebuild *r, uint64_t id)
{
	struct scope_profiles *to = builder_begin_scope(r->b);
	uint32_t place = builder_newest(r->b, MESSAGE_SCOPE);
	const struct ch_entry *e = id ? entry_of(r, KIND_SCOPE, id) : NULL;

	if (!e)
		return;
	to->dropped_attributes_count = (uint32_t)ch_number(e, 0);
	to->name = owned(r, ch_text(e, 0));
	to->version = owned(r, ch_text(e, 1));
	to->attributes = key_values_of(r, ch_ref(e, 0));
	to->schema_url = owned(r, ch_text(e, 2));
	put_notes(r, e->notes, MESSAGE_SCOPE_PROFILES, place);
	put_notes(r, e->notes, MESSAGE_SCOPE, place);
}

/* ---- profiles ---- */

/* The notes of a number on the line. Both the notes and the calls are in its order. */
static struct str note_of(struct rebuild *r, uint64_t seq)
{
	while (r->note_at < r->row->note_count && r->row->note_seq[r->note_at] < seq)
		r->note_at++;
	return r->note_at < r->row->note_count && r->row->note_seq[r->note_at] == seq
		       ? r->row->note[r->note_at]
		       : (struct str){ 0 };
}

static void put_samples(struct rebuild *r, uint64_t seq, uint32_t count)
{
	for (uint32_t i = 0; i < count && !r->failed; i++) {
		const struct ch_kept_sample *k = &r->row->samples[seq - r->row->seq + 1 + i];
		struct stack_index stack;
		struct link_index link;
		struct refs refs;
		uint32_t place;

		if (!k->there) {
			r->failed = !err_set(r->err, ERR_NOT_FOUND,
					     "sample %u of profile %llu is not there", i,
					     (unsigned long long)seq);
			return;
		}
		refs = refs_of(r, k->attributes);
		stack = stack_of(r, k->stack);
		link = link_of(r, k->link);
		if (r->failed)
			return;
		place = builder_sample(r->b, stack, link, refs.at, refs.count, k->values,
				       k->value_count, k->times, k->time_count);
		put_notes(r, note_of(r, seq + 1 + i), MESSAGE_SAMPLE, place);
	}
}

/* Types and period are the same in all series of a profile. */
static void put_types(struct rebuild *r, uint64_t series, struct profile *to)
{
	const struct ch_entry *e = entry_of(r, KIND_SERIES, series);

	if (!e)
		return;
	to->period = ch_number(e, 0);
	to->sample_type = (struct value_type){ builder_string(r->b, ch_text(e, 1)),
					       builder_string(r->b, ch_text(e, 2)) };
	to->period_type = (struct value_type){ builder_string(r->b, ch_text(e, 3)),
					       builder_string(r->b, ch_text(e, 4)) };
}

static void put_profile(struct rebuild *r, uint32_t i)
{
	const struct ch_profile_columns *p = &r->row->profiles;
	struct profile *to = builder_begin_profile(r->b);
	struct refs refs;

	put_types(r, p->series[i], to);
	to->time_unix_nano = p->time[i];
	to->duration_nano = p->duration[i];
	to->dropped_attributes_count = p->dropped[i];
	memcpy(to->profile_id, p->uid + (size_t)i * 16, 16);
	to->original_payload_format = owned(r, p->payload_format[i]);
	to->original_payload = owned(r, p->payload[i]);
	refs = refs_of(r, p->attributes[i]);
	if (r->failed)
		return;
	builder_profile_attributes(r->b, refs.at, refs.count);
	put_notes(r, note_of(r, p->seq[i]), MESSAGE_PROFILE, builder_newest(r->b, MESSAGE_PROFILE));
	fail_when(r, p->seq[i] <= r->row->seq || p->seq[i] + p->samples[i] > r->row->last_seq,
		  "profile", p->seq[i]);
	if (!r->failed)
		put_samples(r, p->seq[i], p->samples[i]);
}

/* ---- the whole ---- */

static uint64_t next_of_layout(struct rebuild *r)
{
	fail_when(r, r->layout_at >= r->row->layout_count, "request", r->row->seq);
	return r->failed ? 0 : r->row->layout[r->layout_at++];
}

static void put_layout(struct rebuild *r)
{
	uint64_t resources = next_of_layout(r);
	uint32_t profile = 0;

	for (uint64_t i = 0; i < resources && !r->failed; i++) {
		uint64_t scopes;

		put_resource(r, next_of_layout(r));
		scopes = next_of_layout(r);
		for (uint64_t k = 0; k < scopes && !r->failed; k++) {
			uint64_t profiles;

			put_scope(r, next_of_layout(r));
			profiles = next_of_layout(r);
			for (uint64_t j = 0; j < profiles && !r->failed; j++) {
				fail_when(r, profile >= r->row->profiles.count, "request",
					  r->row->seq);
				if (!r->failed)
					put_profile(r, profile++);
			}
		}
	}
}

static struct profiles *build(struct rebuild *r)
{
	struct builder_options options = { .copy_strings = true };
	struct profiles *p;

	r->b = builder_new(&options);
	put_layout(r);
	put_notes(r, r->row->notes, MESSAGE_REQUEST, 0);
	put_notes(r, r->row->notes, MESSAGE_DICTIONARY, 0);
	if (r->failed) {
		builder_free(r->b);
		return NULL;
	}
	p = builder_finish(r->b, r->err);
	if (!p)
		return NULL;
	p->source_version = r->row->version;
	p->unknown_field_count = r->row->unknown_fields;
	return p;
}

bool ch_next_request(struct source *source, uint64_t after, uint64_t *seq, struct profiles **out,
		     struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	struct rebuild r = { .snap = snap, .err = err };

	*out = NULL;
	if (!ch_request_after(snap, after, &r.row, err))
		return false;
	if (!r.row)
		return true;
	*seq = r.row->seq;
	fail_when(&r, r.row->damaged, "request", *seq);
	if (!r.failed) {
		arena_init(&r.scratch, 64 << 10, 0);
		*out = build(&r);
		arena_release(&r.scratch);
	}
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_release(&r.maps[i]);
	return *out || err_prefix(err, "request %llu", (unsigned long long)*seq);
}
