/*
 * decode_dictionary.c - ProfilesDictionary of v1.8 and later, straight into the model's tables: the
 * wire's indices are the model's, and are checked when the message is sealed.
 */
#include "wire/decode_fast.h"

#define TABLE_NEW(d, array, cap, n) \
	((d)->room.cap = decoder_array((d), &(array), (n), sizeof(*(array))))

/*
 * Tables are as large as surveyed and one more, for a zero entry that the sender left out. The list
 * of all stacks comes last: it is sized by its bytes, of which most indices take two, and its
 * unused end is given back.
 */
void dictionary_begin(struct decoder *d)
{
	const struct field_tally *t = d->survey->dictionary;
	struct dictionary *dict = &d->p->dict;

	/* The zero entries that profiles_new() made stay where there is no memory for a table. */
	dict->string_count = dict->mapping_count = dict->location_count = dict->function_count =
		dict->link_count = dict->attribute_count = dict->stack_count = 0;
	TABLE_NEW(d, dict->mappings, mappings, (size_t)t[1].len_count + 1);
	TABLE_NEW(d, dict->locations, locations, (size_t)t[2].len_count + 1);
	TABLE_NEW(d, dict->functions, functions, (size_t)t[3].len_count + 1);
	TABLE_NEW(d, dict->links, links, (size_t)t[4].len_count + 1);
	TABLE_NEW(d, dict->strings, strings, (size_t)t[5].len_count + 1);
	TABLE_NEW(d, dict->attributes, attributes, (size_t)t[6].len_count + 1);
	TABLE_NEW(d, dict->stacks, stacks, (size_t)t[7].len_count + 1);
	TABLE_NEW(d, dict->lines, lines, t[2].len_count / 2);
	TABLE_NEW(d, dict->stack_locations, stack_locations, t[7].len_bytes);
}

void dictionary_end(struct decoder *d)
{
	struct dictionary *dict = &d->p->dict;
	size_t size = sizeof(*dict->stack_locations);

	arena_shrink(&d->p->arena, dict->stack_locations, d->room.stack_locations * size,
		     dict->stack_location_count * size);
	d->room.stack_locations = dict->stack_location_count;
}

static void mapping_decode(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	struct mapping m = { .attributes.first = p->attribute_ref_count };

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			m.memory_start = pb_varint(r);
			break;
		case PB_TAG(2, PB_VARINT):
			m.memory_limit = pb_varint(r);
			break;
		case PB_TAG(3, PB_VARINT):
			m.file_offset = pb_varint(r);
			break;
		case PB_TAG(4, PB_VARINT):
			m.filename.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(5, PB_LEN):
			attribute_refs_add(d, r, pb_bytes(r));
			break;
		case PB_TAG(5, PB_VARINT):
			attribute_ref_add(d, r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_MAPPING, dict->mapping_count });
		}
	}
	m.attributes.count = p->attribute_ref_count - m.attributes.first;
	if (!r->fault)
		dict->mappings[dict->mapping_count++] = m;
}

static void location_line(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct pb_reader nested = pb_message(r);
	struct line l = { 0 };

	if (!ROOM(d, r, dict->lines, dict->line_count, lines, 1))
		return;
	line_decode(d, &nested, (struct owner){ MESSAGE_LINE, dict->line_count }, &l);
	decoder_join(d, r, &nested, "Line");
	if (!r->fault)
		dict->lines[dict->line_count++] = l;
}

static void location_decode(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	struct dictionary *dict = &p->dict;
	struct location l = {
		.lines.first = dict->line_count,
		.attributes.first = p->attribute_ref_count,
	};

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			l.mapping.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_VARINT):
			l.address = pb_varint(r);
			break;
		case PB_TAG(3, PB_LEN):
			location_line(d, r);
			break;
		case PB_TAG(4, PB_LEN):
			attribute_refs_add(d, r, pb_bytes(r));
			break;
		case PB_TAG(4, PB_VARINT):
			attribute_ref_add(d, r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_LOCATION, dict->location_count });
		}
	}
	l.lines.count = dict->line_count - l.lines.first;
	l.attributes.count = p->attribute_ref_count - l.attributes.first;
	if (!r->fault)
		dict->locations[dict->location_count++] = l;
}

static void function_decode(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct function f = { 0 };

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			f.name.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_VARINT):
			f.system_name.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(3, PB_VARINT):
			f.filename.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(4, PB_VARINT):
			f.start_line = (int64_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_FUNCTION, dict->function_count });
		}
	}
	if (!r->fault)
		dict->functions[dict->function_count++] = f;
}

static void dictionary_link(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct link l = { 0 };

	link_decode(d, r, (struct owner){ MESSAGE_LINK, dict->link_count }, &l);
	if (!r->fault)
		dict->links[dict->link_count++] = l;
}

static void attribute_decode(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct owner owner = { MESSAGE_ATTRIBUTE, dict->attribute_count };
	struct attribute a = { 0 };
	struct pb_reader nested;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			a.key.v = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_LEN):
			nested = pb_message(r);
			any_value_decode(d, &nested, owner, 0, &a.value);
			decoder_join(d, r, &nested, "AnyValue");
			break;
		case PB_TAG(3, PB_VARINT):
			a.unit.v = (uint32_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	if (!r->fault)
		dict->attributes[dict->attribute_count++] = a;
}

static void stack_locations_add(struct decoder *d, struct pb_reader *r, struct str packed)
{
	struct dictionary *dict = &d->p->dict;
	size_t n;

	if (packed.len == 0)
		return;
	/* As many entries as bytes is the most; counted exactly only where that does not fit. */
	if (packed.len > d->room.stack_locations - dict->stack_location_count &&
	    !ROOM(d, r, dict->stack_locations, dict->stack_location_count, stack_locations,
		  pb_packed_count(packed)))
		return;
	n = pb_packed_u32(packed, &dict->stack_locations[dict->stack_location_count].v);
	if (n == PB_PACKED_BAD)
		pb_fail(r, PB_CUT, (const uint8_t *)packed.ptr);
	else
		dict->stack_location_count += (uint32_t)n;
}

static void stack_decode(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct stack s = { .locations.first = dict->stack_location_count };

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			stack_locations_add(d, r, pb_bytes(r));
			break;
		case PB_TAG(1, PB_VARINT):
			if (ROOM(d, r, dict->stack_locations, dict->stack_location_count,
				 stack_locations, 1))
				dict->stack_locations[dict->stack_location_count++].v =
					(uint32_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_STACK, dict->stack_count });
		}
	}
	s.locations.count = dict->stack_location_count - s.locations.first;
	if (!r->fault)
		dict->stacks[dict->stack_count++] = s;
}

static void string_add(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct str s = pb_bytes(r);

	if (!r->fault && ROOM(d, r, dict->strings, dict->string_count, strings, 1))
		dict->strings[dict->string_count++] = s;
}

/* One entry: its content is read by `decode`, which adds it when whole. */
#define ENTRY(array, count, cap, decode, name)                                   \
	do {                                                                     \
		struct pb_reader entry = pb_message(r);                          \
                                                                                 \
		entry.fault = r->fault; /* an entry that is cut short is none */ \
		if (ROOM(d, r, array, count, cap, 1))                            \
			decode(d, &entry);                                       \
		decoder_join(d, r, &entry, name);                                \
	} while (0)

/* Entries of one kind stand in runs: the usual ones of it go the quick way, what stops that goes
 * the general one. */
static void run_decode(struct decoder *d, struct pb_reader *r)
{
	if (d->no_fast_path)
		return;
	switch (*r->p) {
	case PB_TAG(2, PB_LEN):
		fast_locations(d, r);
		break;
	case PB_TAG(3, PB_LEN):
		fast_functions(d, r);
		break;
	case PB_TAG(5, PB_LEN):
		fast_strings(d, r);
		break;
	case PB_TAG(7, PB_LEN):
		fast_stacks(d, r);
		break;
	}
}

void dictionary_decode(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;

	while (pb_more(r)) {
		const uint8_t *at;
		uint32_t tag;

		run_decode(d, r);
		if (!pb_more(r))
			break;
		at = r->p;
		tag = pb_tag(r);
		switch (tag) {
		case PB_TAG(1, PB_LEN):
			ENTRY(dict->mappings, dict->mapping_count, mappings, mapping_decode,
			      "Mapping");
			break;
		case PB_TAG(2, PB_LEN):
			ENTRY(dict->locations, dict->location_count, locations, location_decode,
			      "Location");
			break;
		case PB_TAG(3, PB_LEN):
			ENTRY(dict->functions, dict->function_count, functions, function_decode,
			      "Function");
			break;
		case PB_TAG(4, PB_LEN):
			ENTRY(dict->links, dict->link_count, links, dictionary_link, "Link");
			break;
		case PB_TAG(5, PB_LEN):
			string_add(d, r);
			break;
		case PB_TAG(6, PB_LEN):
			ENTRY(dict->attributes, dict->attribute_count, attributes, attribute_decode,
			      "KeyValueAndUnit");
			break;
		case PB_TAG(7, PB_LEN):
			ENTRY(dict->stacks, dict->stack_count, stacks, stack_decode, "Stack");
			break;
		default:
			decoder_unknown(d, r, tag, at, (struct owner){ MESSAGE_DICTIONARY, 0 });
		}
	}
}
