#include "wire/encode.h"

void encode_strings(struct encoder *e, uint32_t number)
{
	for (uint32_t i = e->added_string_count; i-- > 0;)
		encode_text_present(e, number, e->added_strings[i]);
	for (uint32_t i = e->p->dict.string_count; i-- > 0;)
		encode_text_present(e, number, e->p->dict.strings[i]);
}

/* An id of another length came so and goes so; entry 0 is empty, later entries have both ids in
 * full. */
static void encode_link_id(struct encoder *e, uint32_t number, const void *id, size_t len,
			   uint32_t index, enum extra_key odd)
{
	const struct extra *x = encode_extra(e, MESSAGE_LINK, index, odd);

	if (x)
		pw_bytes(&e->w, number, x->value.string);
	else if (index > 0 || !id_is_zero(id, len))
		pw_bytes_present(&e->w, number, str_from(id, len));
}

void encode_links(struct encoder *e, uint32_t number)
{
	for (uint32_t i = e->p->dict.link_count; i-- > 0;) {
		const struct link *l = &e->p->dict.links[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_LINK, i);
		encode_link_id(e, 2, l->span_id, sizeof(l->span_id), i, EXTRA_ODD_SPAN_ID);
		encode_link_id(e, 1, l->trace_id, sizeof(l->trace_id), i, EXTRA_ODD_TRACE_ID);
		pw_message(&e->w, number, mark);
	}
}

void encode_functions(struct encoder *e, uint32_t number)
{
	for (uint32_t i = e->p->dict.function_count; i-- > 0;) {
		const struct function *f = &e->p->dict.functions[i];
		size_t mark = pw_mark(&e->w);
		uint8_t *at;

		encode_unknown(e, MESSAGE_FUNCTION, i);
		if (!pw_room(&e->w, 5 * PW_FIELD_MOST))
			return;
		at = pw_at_uint(e->w.at, 4, (uint64_t)f->start_line);
		at = pw_at_uint(at, 3, f->filename.v);
		at = pw_at_uint(at, 2, f->system_name.v);
		at = pw_at_uint(at, 1, f->name.v);
		e->w.at = pw_at_message(at, (uint8_t)number, e->w.end - mark);
	}
}

void encode_lines(struct encoder *e, struct range lines)
{
	for (uint32_t i = lines.first + lines.count; i-- > lines.first;) {
		const struct line *l = &e->p->dict.lines[i];
		size_t mark = pw_mark(&e->w);
		uint8_t *at;

		encode_unknown(e, MESSAGE_LINE, i);
		if (!pw_room(&e->w, 4 * PW_FIELD_MOST))
			return;
		at = pw_at_uint(e->w.at, 3, (uint64_t)l->column);
		at = pw_at_uint(at, 2, (uint64_t)l->line);
		at = pw_at_uint(at, 1, l->function.v);
		e->w.at = pw_at_message(at, 3, e->w.end - mark);
	}
}

static void encode_stacks(struct encoder *e)
{
	const struct dictionary *d = &e->p->dict;

	_Static_assert(sizeof(struct location_index) == sizeof(uint32_t),
		       "indices are put as plain integers");
	for (uint32_t i = d->stack_count; i-- > 0;) {
		struct range at = d->stacks[i].locations;
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_STACK, i);
		if (at.count)
			pw_packed_u32(&e->w, 1, (const uint32_t *)(d->stack_locations + at.first),
				      at.count);
		pw_message(&e->w, 7, mark);
	}
}

static void encode_attributes(struct encoder *e)
{
	for (uint32_t i = e->p->dict.attribute_count; i-- > 0;) {
		const struct attribute *a = &e->p->dict.attributes[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_ATTRIBUTE, i);
		pw_uint(&e->w, 3, a->unit.v);
		encode_any(e, 2, &a->value);
		pw_uint(&e->w, 1, a->key.v);
		pw_message(&e->w, 6, mark);
	}
}

static void encode_locations(struct encoder *e)
{
	for (uint32_t i = e->p->dict.location_count; i-- > 0;) {
		const struct location *l = &e->p->dict.locations[i];
		size_t mark = pw_mark(&e->w);
		uint8_t *at;

		encode_unknown(e, MESSAGE_LOCATION, i);
		encode_refs(e, 4, l->attributes);
		encode_lines(e, l->lines);
		if (!pw_room(&e->w, 3 * PW_FIELD_MOST))
			return;
		at = pw_at_uint(e->w.at, 2, l->address);
		at = pw_at_uint(at, 1, l->mapping.v);
		e->w.at = pw_at_message(at, 2, e->w.end - mark);
	}
}

static void encode_mappings(struct encoder *e)
{
	for (uint32_t i = e->p->dict.mapping_count; i-- > 0;) {
		const struct mapping *m = &e->p->dict.mappings[i];
		size_t mark = pw_mark(&e->w);

		encode_unknown(e, MESSAGE_MAPPING, i);
		encode_refs(e, 5, m->attributes);
		pw_uint(&e->w, 4, m->filename.v);
		pw_uint(&e->w, 3, m->file_offset);
		pw_uint(&e->w, 2, m->memory_limit);
		pw_uint(&e->w, 1, m->memory_start);
		pw_message(&e->w, 1, mark);
	}
}

void encode_dictionary(struct encoder *e)
{
	encode_unknown(e, MESSAGE_DICTIONARY, 0);
	encode_stacks(e);
	encode_attributes(e);
	encode_strings(e, 5);
	encode_links(e, 4);
	encode_functions(e, 3);
	encode_locations(e);
	encode_mappings(e);
}
