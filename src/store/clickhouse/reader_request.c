/*
 * reader_request.c - a whole request again, as a message: rows of ClickHouse's back into a
 * dictionary and samples.
 *
 * All dictionary entries that the request needs are fetched first, kind by kind from the samples
 * down; then they become entries of a builder when the first that refers to them does.
 */
#include <stdio.h>

#include "model/builder.h"
#include "store/clickhouse/snapshot.h"
#include "store/schema.h"

enum { SAMPLES_MOST = 1 << 26 /* of a request: more is damage, no request is that large */ };

struct kept_sample {
	bool there;
	uint64_t stack, attributes, link;
	const int64_t *values;
	const uint64_t *times;
	uint32_t value_count, time_count;
};

struct profile_columns {
	const uint64_t *seq, *time, *duration, *attributes;
	const uint32_t *samples, *dropped;
	const uint8_t *uid;
	const struct str *payload_format, *payload;
	const uint64_t *series; /* the first one of each */
	uint32_t count;
};

struct rebuild {
	struct ch_snapshot *snap;
	struct builder *b;
	struct arena scratch;
	struct idmap maps[CH_KIND_SLOTS];
	struct err *err;
	bool failed;

	/* The request's row. */
	uint64_t seq, last_seq, request, date, t_first, t_last;
	uint32_t unknown_fields;
	uint8_t version, moved;
	const uint64_t *layout;
	uint32_t layout_count, layout_at;
	struct str notes;
	const uint64_t *note_seq;
	const struct str *note;
	uint32_t note_count, note_at;
	struct profile_columns profiles;
	struct kept_sample *samples; /* by place */
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
	struct str notes = ch_list_text(r->snap, set, i, CH_LIST_NOTES);
	struct attribute a = { 0 };
	uint32_t index;

	r->failed |= !ch_value(set->numbers[i], ch_list_text(r->snap, set, i, CH_LIST_VALUE),
			       &r->scratch, &a.value, r->err);
	if (r->failed)
		return (struct attribute_index){ 0 };
	get_unknown(r, notes, &a.value);
	a.key = builder_string(r->b, ch_list_text(r->snap, set, i, CH_LIST_KEY));
	a.unit = builder_string(r->b, ch_list_text(r->snap, set, i, CH_LIST_UNIT));
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
		r->failed |=
			!ch_value(set->numbers[i], ch_list_text(r->snap, set, i, CH_LIST_VALUE),
				  &r->scratch, &list[i].value, r->err);
		if (r->failed)
			break;
		get_unknown(r, ch_list_text(r->snap, set, i, CH_LIST_NOTES), &list[i].value);
		list[i].key = ch_list_text(r->snap, set, i, CH_LIST_KEY);
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

/* The notes of a number on the line: they come in its order, as those who ask do. */
static struct str note_of(struct rebuild *r, uint64_t seq)
{
	while (r->note_at < r->note_count && r->note_seq[r->note_at] < seq)
		r->note_at++;
	return r->note_at < r->note_count && r->note_seq[r->note_at] == seq ? r->note[r->note_at]
									    : (struct str){ 0 };
}

static void put_samples(struct rebuild *r, uint64_t seq, uint32_t count)
{
	for (uint32_t i = 0; i < count && !r->failed; i++) {
		const struct kept_sample *k = &r->samples[seq - r->seq + 1 + i];
		struct stack_index stack;
		struct link_index link;
		struct refs refs;
		uint32_t place;

		if (!k->there) {
			if (r->snap->lost)
				++*r->snap->lost;
			else
				r->failed = !err_set(r->err, ERR_NOT_FOUND,
						     "sample %u of profile %llu is not there", i,
						     (unsigned long long)seq);
			continue;
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
	const struct profile_columns *p = &r->profiles;
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
	fail_when(r, p->seq[i] <= r->seq || p->seq[i] + p->samples[i] > r->last_seq, "profile",
		  p->seq[i]);
	if (!r->failed)
		put_samples(r, p->seq[i], p->samples[i]);
}

/* ---- what a request needs, fetched ---- */

static bool fetch_locations(struct rebuild *r, const struct id_list *stacks, struct id_list *sets)
{
	struct id_list locations = { 0 }, mappings = { 0 }, functions = { 0 };
	struct ch_snapshot *snap = r->snap;
	bool ok = true;

	for (size_t i = 0; ok && i < stacks->count; i++) {
		const struct ch_entry *e =
			stacks->ids[i] ? ch_entry(snap, KIND_STACK, stacks->ids[i], r->err) : NULL;
		int64_t leaf = e ? (int64_t)e->ref_count - ch_number(e, 1) : 0;

		ok = e || !stacks->ids[i];
		for (int64_t k = 0; e && k < leaf && k < e->ref_count; k++)
			id_list_add(&locations, e->refs[k]);
		for (int64_t k = leaf < 0 ? 0 : leaf; ok && e && k < e->ref_count; k++) {
			const struct ch_entry *stem =
				ch_entry(snap, CH_KIND_STEM, e->refs[k], r->err);

			ok = stem != NULL;
			for (uint32_t j = 0; stem && j < stem->ref_count; j++)
				id_list_add(&locations, stem->refs[j]);
		}
	}
	ok = ok && ch_fetch(snap, KIND_LOCATION, locations.ids, locations.count, r->err);
	for (size_t i = 0; ok && i < locations.count; i++) {
		const struct idmap_slot *slot =
			idmap_find(&snap->entries[KIND_LOCATION], locations.ids[i]);
		const struct ch_entry *e = slot ? slot->ptr : NULL;

		id_list_add(&mappings, ch_ref(e, 0));
		id_list_add(sets, ch_ref(e, 1));
		for (uint32_t k = 2; e && k < e->ref_count; k++)
			id_list_add(&functions, e->refs[k]);
	}
	ok = ok && ch_fetch(snap, KIND_FUNCTION, functions.ids, functions.count, r->err) &&
	     ch_fetch(snap, KIND_MAPPING, mappings.ids, mappings.count, r->err);
	for (size_t i = 0; ok && i < mappings.count; i++) {
		const struct idmap_slot *slot =
			idmap_find(&snap->entries[KIND_MAPPING], mappings.ids[i]);

		id_list_add(sets, slot ? ch_ref(slot->ptr, 0) : 0);
	}
	free(locations.ids);
	free(mappings.ids);
	free(functions.ids);
	return ok;
}

static bool fetch_stacks(struct rebuild *r, uint64_t places, struct id_list *sets)
{
	struct id_list stacks = { 0 }, links = { 0 };
	bool ok;

	for (uint64_t i = 0; i < places; i++) {
		const struct kept_sample *k = &r->samples[i];

		if (!k->there)
			continue;
		id_list_add(&stacks, k->stack);
		id_list_add(&links, k->link);
		id_list_add(sets, k->attributes);
	}
	ok = ch_fetch(r->snap, KIND_STACK, stacks.ids, stacks.count, r->err) &&
	     ch_fetch_stems(r->snap, stacks.ids, stacks.count, r->err) &&
	     ch_fetch(r->snap, KIND_LINK, links.ids, links.count, r->err) &&
	     fetch_locations(r, &stacks, sets);
	free(stacks.ids);
	free(links.ids);
	return ok;
}

/* Resources and scopes stand in the layout; where is told by the numbers between them. */
static bool fetch_layout(struct rebuild *r, struct id_list *sets)
{
	static const unsigned kinds[] = { KIND_RESOURCE, KIND_SCOPE };
	bool ok = true;

	for (size_t i = 0; ok && i < 2; i++) {
		ok = ch_fetch(r->snap, kinds[i], r->layout, r->layout_count, r->err);
		for (uint32_t k = 0; ok && k < r->layout_count; k++) {
			const struct idmap_slot *slot =
				r->layout[k] ? idmap_find(&r->snap->entries[kinds[i]], r->layout[k])
					     : NULL;

			if (slot)
				id_list_add(sets, ch_ref(slot->ptr, 0));
		}
	}
	return ok;
}

static bool fetch_all(struct rebuild *r, uint64_t places)
{
	struct id_list sets = { 0 };
	bool ok = fetch_stacks(r, places, &sets) && fetch_layout(r, &sets) &&
		  ch_fetch(r->snap, KIND_SERIES, r->profiles.series, r->profiles.count, r->err);

	for (uint32_t i = 0; ok && i < r->profiles.count; i++)
		id_list_add(&sets, r->profiles.attributes[i]);
	ok = ok && ch_fetch(r->snap, KIND_ATTRSET, sets.ids, sets.count, r->err);
	free(sets.ids);
	return ok;
}

/* ---- samples of a request ---- */

static void keep_sample(struct rebuild *r, const struct store_sample *x)
{
	struct kept_sample *k = &r->samples[x->seq - r->seq];
	int64_t *values = arena_alloc_array(&r->scratch, x->value_count, sizeof(*values));
	uint64_t *times = arena_alloc_array(&r->scratch, x->timestamp_count, sizeof(*times));

	if (x->value_count)
		memcpy(values, x->values, x->value_count * sizeof(*values));
	if (x->timestamp_count)
		memcpy(times, x->timestamps, x->timestamp_count * sizeof(*times));
	*k = (struct kept_sample){ true,   x->stack, x->attributes,  x->link,
				   values, times,    x->value_count, x->timestamp_count };
}

static bool read_samples(struct rebuild *r, uint64_t places)
{
	const char *bucket = ch_schema_bucket(r->snap->split);
	struct buf *sql = &r->snap->sql;

	r->samples = arena_zalloc(&r->scratch, places * sizeof(*r->samples));
	for (uint64_t from = 0; from < places; from += CH_PAGE_ROWS) {
		uint64_t to = from + CH_PAGE_ROWS;
		struct store_sample x;
		struct codec c;

		buf_reset(sql);
		buf_printf(sql,
			   "SELECT %s FROM flametap_samples WHERE date = toDate(%llu) AND %s >= "
			   "%llu AND %s <= %llu AND request = %llu AND base = %llu AND place >= "
			   "%llu AND place < %llu FORMAT RowBinary",
			   ch_sample_columns(r->snap), (unsigned long long)r->date, bucket,
			   (unsigned long long)(r->t_first / STORE_BUCKET_NS), bucket,
			   (unsigned long long)(r->t_last / STORE_BUCKET_NS),
			   (unsigned long long)r->request, (unsigned long long)r->seq,
			   (unsigned long long)from, (unsigned long long)to);
		if (!ch_ask(r->snap, &c, r->err))
			return false;
		while (codec_more(&c) && ch_read_sample(r->snap, &c, &x))
			if (x.seq > r->seq && x.seq <= r->last_seq)
				keep_sample(r, &x);
		if (!ch_answer_ended(&c, "samples", r->err))
			return false;
	}
	return true;
}

/* ---- the request's row ---- */

static const void *read_array(struct rebuild *r, struct codec *c, size_t size, uint32_t *count)
{
	uint32_t n = row_get_count(c, size);
	struct str bytes = row_get_fixed(c, (size_t)n * size);
	void *copy = arena_alloc_array(&r->scratch, (size_t)n + 1, size);

	if (bytes.len)
		memcpy(copy, bytes.ptr, bytes.len);
	*count = n;
	return copy;
}

static const struct str *read_texts(struct rebuild *r, struct codec *c, uint32_t *count)
{
	uint32_t n = row_get_count(c, 1);
	struct str *texts = arena_alloc_array(&r->scratch, (size_t)n + 1, sizeof(*texts));

	for (uint32_t i = 0; i < n; i++)
		texts[i] = str_dup(&r->scratch, row_get_str(c));
	*count = n;
	return texts;
}

static const uint64_t *read_series(struct rebuild *r, struct codec *c, uint32_t *count)
{
	uint32_t n = row_get_count(c, 1);
	uint64_t *first = arena_zalloc(&r->scratch, ((size_t)n + 1) * sizeof(*first));

	for (uint32_t i = 0; i < n && !c->failed; i++) {
		uint32_t each = row_get_count(c, 8);
		struct codec ids = codec_of(row_get_fixed(c, (size_t)each * 8));

		first[i] = each ? row_get(&ids, 8) : 0;
	}
	*count = n;
	return first;
}

#define REQUEST_COLUMNS                                                                      \
	"seq, last_seq, toUInt16(date), request, t_first, t_last, version, unknown_fields, " \
	"moved, layout, notes, "                                                             \
	"note_seq, note, %s, `profile.samples`, `profile.time`, `profile.duration`, "        \
	"`profile.series`, "                                                                 \
	"`profile.attributes`, `profile.dropped`, `profile.uid`, `profile.payload_format`, " \
	"`profile.payload`"

static bool read_request(struct rebuild *r, struct codec *c)
{
	struct profile_columns *p = &r->profiles;
	uint32_t n[12];

	r->seq = row_get(c, 8);
	r->last_seq = row_get(c, 8);
	r->date = row_get(c, 2);
	r->request = row_get(c, 8);
	r->t_first = row_get(c, 8);
	r->t_last = row_get(c, 8);
	r->version = (uint8_t)row_get(c, 1);
	r->unknown_fields = (uint32_t)row_get(c, 4);
	r->moved = (uint8_t)row_get(c, 1);
	r->layout = read_array(r, c, 8, &r->layout_count);
	r->notes = str_dup(&r->scratch, row_get_str(c));
	r->note_seq = read_array(r, c, 8, &r->note_count);
	r->note = read_texts(r, c, &n[0]);
	p->seq = read_array(r, c, 8, &p->count);
	p->samples = read_array(r, c, 4, &n[1]);
	p->time = read_array(r, c, 8, &n[2]);
	p->duration = read_array(r, c, 8, &n[3]);
	p->series = read_series(r, c, &n[4]);
	p->attributes = read_array(r, c, 8, &n[5]);
	p->dropped = read_array(r, c, 4, &n[6]);
	p->uid = read_array(r, c, 16, &n[7]);
	p->payload_format = read_texts(r, c, &n[8]);
	p->payload = read_texts(r, c, &n[9]);
	if (!ch_answer_ended(c, "requests", r->err))
		return false;
	for (unsigned i = 1; i < 10; i++)
		fail_when(r, n[i] != p->count, "request", r->seq);
	fail_when(r,
		  n[0] != r->note_count || r->last_seq < r->seq ||
			  r->last_seq - r->seq > SAMPLES_MOST,
		  "request", r->seq);
	return !r->failed;
}

static uint64_t next_of_layout(struct rebuild *r)
{
	fail_when(r, r->layout_at >= r->layout_count, "request", r->seq);
	return r->failed ? 0 : r->layout[r->layout_at++];
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
				fail_when(r, profile >= r->profiles.count, "request", r->seq);
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
	put_notes(r, r->notes, MESSAGE_REQUEST, 0);
	put_notes(r, r->notes, MESSAGE_DICTIONARY, 0);
	if (r->failed) {
		builder_free(r->b);
		return NULL;
	}
	p = builder_finish(r->b, r->err);
	if (!p)
		return NULL;
	p->source_version = r->version;
	p->unknown_field_count = r->unknown_fields;
	return p;
}

static bool ask_request(struct ch_snapshot *snap, uint64_t after, uint64_t asof, struct codec *c,
			struct err *err)
{
	buf_reset(&snap->sql);
	buf_printf(&snap->sql, "SELECT " REQUEST_COLUMNS " FROM flametap_requests WHERE (seq > ",
		   snap->split ? "arrayMap(x -> seq + x, `profile.place`)" : "`profile.seq`");
	buf_u64(&snap->sql, after);
	if (after &&
	    after == snap->last_seq) /* two exporters may have given the same number, if rarely */
		buf_printf(&snap->sql, " OR (seq = %llu AND request > %llu)",
			   (unsigned long long)after, (unsigned long long)snap->last_request);
	buf_printf(&snap->sql,
		   ") AND last_seq <= %llu ORDER BY seq, request LIMIT 1 FORMAT RowBinary",
		   (unsigned long long)asof);
	return ch_ask(snap, c, err);
}

bool ch_next_request(struct ch_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
		     struct profiles **out, struct err *err)
{
	struct rebuild r = { .snap = snap, .err = err };
	uint64_t places;
	struct codec c;
	bool ok;

	*out = NULL;
	ch_want_whole(snap);
	ch_trim(snap);
	if (!ask_request(snap, after, asof && asof < snap->asof ? asof : snap->asof, &c, err))
		return false;
	if (!codec_more(&c))
		return true;
	arena_init(&r.scratch, 64 << 10, 0);
	ok = read_request(&r, &c);
	*seq = snap->last_seq = r.seq;
	snap->last_request = r.request;
	places = r.last_seq - r.seq + 1;
	ok = ok && read_samples(&r, places) && fetch_all(&r, places);
	if (ok)
		*out = build(&r);
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_release(&r.maps[i]);
	arena_release(&r.scratch);
	return *out || err_prefix(err, "request %llu", (unsigned long long)*seq);
}
