/*
 * decode_zero.c - entry 0 of every table is the zero value (profiles.proto since v1.8). A sender
 * that starts its tables with real entries means index 0 as a reference wherever a list or a stack
 * names it; such an entry is moved to the table's end, and those references follow. Where 0 can
 * mean "none" (mapping, link) it stays "none". Of strings, what names a thing follows (the 2026
 * program shows string 0 there, too); what few senders fill (system names, units of attributes)
 * stays "none".
 */
#include "wire/decode.h"

enum { TABLE_STRINGS_BIT = 0 };

static bool mapping_is_zero(const struct mapping *m)
{
	return !(m->memory_start | m->memory_limit | m->file_offset) && !m->filename.v &&
	       !m->attributes.count;
}

static bool location_is_zero(const struct location *l)
{
	return !l->address && !l->mapping.v && !l->lines.count && !l->attributes.count;
}

static bool function_is_zero(const struct function *f)
{
	return !(f->name.v | f->system_name.v | f->filename.v) && !f->start_line;
}

static bool link_is_zero(const struct link *l)
{
	return id_is_zero(l->trace_id, sizeof(l->trace_id)) &&
	       id_is_zero(l->span_id, sizeof(l->span_id));
}

/* `12 00`, a value that is there but empty, is what most senders write. */
static bool attribute_is_zero(const struct attribute *a)
{
	return !a->key.v && !a->unit.v && a->value.kind == ANY_EMPTY;
}

static void owners_move(struct profiles *p, enum message_kind message, uint32_t to)
{
	for (uint32_t i = 0; i < p->extra_count; i++)
		if (p->extras[i].message == message && p->extras[i].index == 0)
			p->extras[i].index = to;
	for (uint32_t i = 0; i < p->bad_index_count; i++)
		if (p->bad_indices[i].message == message && p->bad_indices[i].index == 0)
			p->bad_indices[i].index = to;
}

static void note_move(struct profiles *p, enum message_kind message, uint32_t to)
{
	p->moved_entries |= (uint8_t)(1u << (message - MESSAGE_DICTIONARY));
	owners_move(p, message, to);
}

/*
 * A zero entry where there is none. True when a real entry 0 was moved to `*to`: there is room for
 * it, since tables are made one larger than surveyed.
 */
#define TABLE_ENSURE_ZERO(d, array, n, is_zero, to)                       \
	__extension__({                                                   \
		struct dictionary *dict_ = &(d)->p->dict;                 \
		bool moved_ = dict_->n > 0 && !is_zero(&dict_->array[0]); \
                                                                          \
		if (moved_) {                                             \
			*(to) = dict_->n;                                 \
			dict_->array[dict_->n++] = dict_->array[0];       \
		} else if (dict_->n == 0) {                               \
			dict_->n = 1;                                     \
		}                                                         \
		memset(&dict_->array[0], 0, sizeof(dict_->array[0]));     \
		moved_;                                                   \
	})

static bool string_is_zero(const struct str *s)
{
	return s->len == 0;
}

static bool stack_is_zero(const struct stack *s)
{
	return s->locations.count == 0;
}

static void follow(uint32_t *refs, uint32_t count, uint32_t to)
{
	for (uint32_t i = 0; i < count; i++)
		if (refs[i] == 0)
			refs[i] = to;
		else if (refs[i] == to) /* one past the sender's table stays one past it */
			refs[i]++;
}

static void names_follow(struct profiles *p, uint32_t to)
{
	struct dictionary *dict = &p->dict;

	for (uint32_t i = 1; i < dict->function_count; i++) {
		follow(&dict->functions[i].name.v, 1, to);
		follow(&dict->functions[i].filename.v, 1, to);
	}
	for (uint32_t i = 1; i < dict->mapping_count; i++)
		follow(&dict->mappings[i].filename.v, 1, to);
	for (uint32_t i = 1; i < dict->attribute_count; i++)
		follow(&dict->attributes[i].key.v, 1, to);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		follow(&p->profiles[i].sample_type.type.v, 1, to);
		follow(&p->profiles[i].sample_type.unit.v, 1, to);
		follow(&p->profiles[i].period_type.type.v, 1, to);
		follow(&p->profiles[i].period_type.unit.v, 1, to);
	}
}

void zero_entries_ensure(struct decoder *d)
{
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	const struct value_unknown *unknown;
	uint32_t to, string_to = 0;

	if (TABLE_ENSURE_ZERO(d, strings, string_count, string_is_zero, &string_to))
		p->moved_entries |= 1u << TABLE_STRINGS_BIT;
	if (TABLE_ENSURE_ZERO(d, mappings, mapping_count, mapping_is_zero, &to))
		note_move(p, MESSAGE_MAPPING, to);
	if (TABLE_ENSURE_ZERO(d, links, link_count, link_is_zero, &to))
		note_move(p, MESSAGE_LINK, to);
	if (TABLE_ENSURE_ZERO(d, functions, function_count, function_is_zero, &to)) {
		note_move(p, MESSAGE_FUNCTION, to);
		for (uint32_t i = 0; i < dict->line_count; i++)
			follow(&dict->lines[i].function.v, 1, to);
	}
	unknown = dict->attribute_count ? dict->attributes[0].value.unknown : NULL;
	if (TABLE_ENSURE_ZERO(d, attributes, attribute_count, attribute_is_zero, &to)) {
		note_move(p, MESSAGE_ATTRIBUTE, to);
		follow((uint32_t *)p->attribute_refs, p->attribute_ref_count, to);
	} else {
		dict->attributes[0].value.unknown = unknown;
	}
	if (TABLE_ENSURE_ZERO(d, locations, location_count, location_is_zero, &to)) {
		note_move(p, MESSAGE_LOCATION, to);
		follow((uint32_t *)dict->stack_locations, dict->stack_location_count, to);
	}
	if (TABLE_ENSURE_ZERO(d, stacks, stack_count, stack_is_zero, &to)) {
		note_move(p, MESSAGE_STACK, to);
		for (uint32_t i = 0; i < p->sample_count; i++)
			follow(&p->samples[i].stack.v, 1, to);
	}
	if (string_to)
		names_follow(p, string_to);
}
