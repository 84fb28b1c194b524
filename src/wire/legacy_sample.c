#include "base/cleanup.h"
#include "base/hash.h"
#include "wire/legacy.h"

static bool stack_equals(const struct dictionary *dict, uint32_t stack, const uint32_t *locations,
			 uint32_t count)
{
	struct range r = dict->stacks[stack].locations;

	return r.count == count &&
	       memcmp(&dict->stack_locations[r.first], locations, count * sizeof(*locations)) == 0;
}

struct stack_index legacy_stack(struct legacy *l, struct pb_reader *r, const uint32_t *locations,
				uint32_t count)
{
	struct decoder *d = l->d;
	struct dictionary *dict = &d->p->dict;
	struct slots *s = &l->stacks;
	uint32_t hash, at;

	if (count == 0)
		return (struct stack_index){ 0 };
	for (uint32_t i = 0; l->bad_locations.count && i < count; i++)
		if (locations[i] & BAD_LOCATION)
			l->bad_locations.v[locations[i] & ~BAD_LOCATION].shown = true;
	l->work += count;
	if (l->work > l->work_limit) {
		pb_fail(r, PB_LIMIT, r->p);
		return (struct stack_index){ 0 };
	}
	slots_reserve(s);
	hash = (uint32_t)hash64(str_from(locations, count * sizeof(*locations)));
	for (at = hash & (s->cap - 1); s->v[at].index; at = (at + 1) & (s->cap - 1))
		if (s->v[at].hash == hash && stack_equals(dict, s->v[at].index, locations, count))
			return (struct stack_index){ s->v[at].index };
	if (!ROOM(d, r, dict->stacks, dict->stack_count, stacks, 1) ||
	    !ROOM(d, r, dict->stack_locations, dict->stack_location_count, stack_locations, count))
		return (struct stack_index){ 0 };
	memcpy(&dict->stack_locations[dict->stack_location_count], locations,
	       count * sizeof(*locations));
	dict->stacks[dict->stack_count].locations =
		(struct range){ dict->stack_location_count, count };
	dict->stack_location_count += count;
	s->v[at] = (struct slot){ hash, dict->stack_count };
	s->count++;
	return (struct stack_index){ dict->stack_count++ };
}

enum sample_field {
	SAMPLE_START = 1,
	SAMPLE_LENGTH,
	SAMPLE_VALUE,
	SAMPLE_ATTRIBUTES,
	SAMPLE_LINK,
	SAMPLE_TIMESTAMPS,
	SAMPLE_LOCATIONS,
	SAMPLE_LABEL,
	SAMPLE_STACKTRACE_ID,
};

static const uint8_t sample_v1_3[] = {
	[1] = SAMPLE_LOCATIONS,   [2] = SAMPLE_VALUE,  [3] = SAMPLE_LABEL,
	[7] = SAMPLE_START,       [8] = SAMPLE_LENGTH, [9] = SAMPLE_STACKTRACE_ID,
	[10] = SAMPLE_ATTRIBUTES, [12] = SAMPLE_LINK,  [13] = SAMPLE_TIMESTAMPS,
};
static const uint8_t sample_v1_4[] = {
	0,           SAMPLE_START,     SAMPLE_LENGTH, SAMPLE_VALUE, SAMPLE_ATTRIBUTES,
	SAMPLE_LINK, SAMPLE_TIMESTAMPS
};

/* What one sample said, until its references are translated. */
struct sample_parts {
	uint64_t start, length;
	uint32_t link;
	bool own_locations; /* v1.3: the sample names its locations itself */
	struct any_value *labels;
	uint32_t label_count, label_cap;
};

static void varints_add(struct legacy *l, struct pb_reader *r, struct pb_reader packed,
			void (*add)(struct legacy *l, struct pb_reader *r, uint64_t v))
{
	while (pb_more(&packed)) {
		uint64_t v = pb_varint(&packed);

		if (!packed.fault)
			add(l, &packed, v);
	}
	pb_join(r, &packed);
}

static void value_add(struct legacy *l, struct pb_reader *r, uint64_t v)
{
	struct profiles *p = l->d->p;

	if (ROOM(l->d, r, p->values, p->value_count, values, 1))
		p->values[p->value_count++] = (int64_t)v;
}

static void timestamp_add(struct legacy *l, struct pb_reader *r, uint64_t v)
{
	struct profiles *p = l->d->p;

	if (ROOM(l->d, r, p->timestamps, p->timestamp_count, timestamps, 1))
		p->timestamps[p->timestamp_count++] = v;
}

static void location_add(struct legacy *l, struct pb_reader *r, uint64_t v)
{
	index_list_add(l, r, &l->scratch, local_index_64(v));
}

static void attribute_add(struct legacy *l, struct pb_reader *r, uint64_t v)
{
	struct profiles *p = l->d->p;

	if (ROOM(l->d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs, 1))
		p->attribute_refs[p->attribute_ref_count++].v = local_of(l, v);
}

/* Label {key, str, num, num_unit} of v1.3 with its texts. */
static void label_decode(struct legacy *l, struct pb_reader *r, struct sample_parts *parts)
{
	static const char *const fields[] = { "key", "str", "num", "num_unit" };
	struct decoder *d = l->d;
	struct owner owner = { MESSAGE_SAMPLE, d->p->sample_count };
	struct pb_reader nested = pb_message(r);
	uint64_t v[4] = { 0 };
	struct key_value *pairs;
	uint32_t n = 0;

	while (pb_more(&nested)) {
		const uint8_t *at = nested.p;
		uint32_t tag = pb_tag(&nested), number = tag >> 3;

		if ((tag & 7) == PB_VARINT && number >= 1 && number <= 4)
			v[number - 1] = pb_varint(&nested);
		else
			decoder_unknown_nested(d, &nested, tag, at, owner);
	}
	decoder_join(d, r, &nested, "Label");
	if (r->fault)
		return;
	pairs = arena_alloc_array(&d->p->arena, ARRAY_LEN(fields), sizeof(*pairs));
	if (!pairs || (parts->label_count == parts->label_cap &&
		       !decoder_grow(d, &parts->labels, &parts->label_cap, parts->label_count, 1,
				     sizeof(*parts->labels)))) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	for (uint32_t i = 0; i < ARRAY_LEN(fields); i++) {
		struct ref_place place = { .owner = owner,
					   .field = fields[i],
					   .table = "string_table",
					   .element = parts->label_count,
					   .apart = true,
					   .part_in = "label",
					   .part = parts->label_count };
		struct any_value value = { .kind = ANY_INT, .integer = (int64_t)v[i] };

		if (v[i] == 0 && i > 0)
			continue;
		if (i != 2)
			value = (struct any_value){ .kind = ANY_STRING,
						    .string = legacy_string(
							    l, r, local_index_64(v[i]), &place) };
		pairs[n++] = (struct key_value){ .key = str_cstr(fields[i]), .value = value };
	}
	parts->labels[parts->label_count++] =
		(struct any_value){ .kind = ANY_KVLIST, .kvlist = { pairs, n } };
}

static struct stack_index own_stack(struct legacy *l, struct pb_reader *r, struct owner owner)
{
	for (uint32_t i = 0; i < l->scratch.count; i++) {
		struct ref_place place = ref_at(owner, "location_index", "location_table", i);

		l->scratch.v[i] = legacy_location(l, r, l->scratch.v[i], &place);
	}
	return legacy_stack(l, r, l->scratch.v, l->scratch.count);
}

static bool run_has_locations(const struct legacy *l, const struct sample_parts *parts)
{
	const struct span *s = &l->tables.locations;
	uint64_t count = l->locations.count;

	if (parts->start > count || parts->length > count - parts->start ||
	    parts->length != l->scratch.count)
		return false;
	for (uint32_t i = 0; i < l->scratch.count; i++)
		if (l->scratch.v[i] >= s->count ||
		    l->locations.v[parts->start + i] != s->first + l->scratch.v[i] - s->zero_first)
			return false;
	return true;
}

/* location_index beside a run: the run is the stack; what else the list says is kept apart. */
static void keep_own_locations(struct legacy *l, struct pb_reader *r,
			       const struct sample_parts *parts, struct owner owner)
{
	uint32_t count = l->scratch.count;
	struct any_value *values;

	if (run_has_locations(l, parts))
		return;
	values = arena_alloc_array(&l->d->p->arena, count, sizeof(*values));
	if (!values) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct ref_place place = ref_at(owner, "location_index", "location_table", i);
		int32_t v = (int32_t)l->scratch.v[i];
		struct bad_index bad;

		place.apart = true;
		values[i] = (struct any_value){ .kind = ANY_INT, .integer = v };
		if (l->scratch.v[i] < l->tables.locations.count)
			continue;
		bad = legacy_bad(l, &place, v, l->tables.locations.count);
		decoder_bad_index(l->d, r, &bad);
	}
	decoder_extra(l->d, r, owner, EXTRA_LOCATION_INDEX,
		      &(struct any_value){ .kind = ANY_ARRAY, .array = { values, count } });
}

/* start and length name a run of Profile.location_indices: 64-bit arithmetic, both may be anything.
 */
static struct stack_index run_stack(struct legacy *l, struct pb_reader *r,
				    const struct sample_parts *parts, struct owner owner)
{
	uint64_t count = l->locations.count;
	bool bad_start = parts->start > count;
	const struct ref_place place = {
		.owner = owner,
		.field = bad_start ? "locations_start_index" : "locations_length",
		.table = "location_indices",
		.slot = "stack_index",
	};
	struct bad_index bad;

	if (!bad_start && parts->length == 0)
		return (struct stack_index){ 0 };
	if (!bad_start && parts->length <= count - parts->start)
		return legacy_stack(l, r, l->locations.v + parts->start, (uint32_t)parts->length);
	bad = legacy_bad(l, &place, (int64_t)(bad_start ? parts->start : parts->length),
			 l->locations.count);
	decoder_bad_index(l->d, r, &bad);
	return (struct stack_index){ 0 };
}

static void sample_finish(struct legacy *l, struct pb_reader *r, const struct sample_parts *parts,
			  struct sample s)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;
	struct owner owner = { MESSAGE_SAMPLE, p->sample_count };

	s.attributes.count = p->attribute_ref_count - s.attributes.first;
	s.values.count = p->value_count - s.values.first;
	s.timestamps.count = p->timestamp_count - s.timestamps.first;
	for (uint32_t i = 0; i < s.attributes.count; i++) {
		struct ref_place place = ref_at(owner, "attribute_indices", "attribute_table", i);
		struct attribute_index *ref = &p->attribute_refs[s.attributes.first + i];

		ref->v = span_translate(l, r, &l->tables.attributes, ref->v, &place);
	}
	if (parts->link != LOCAL_NONE)
		s.link.v = span_translate(l, r, &l->tables.links, parts->link,
					  &(struct ref_place){ .owner = owner,
							       .field = "link_index",
							       .table = "link_table" });
	s.stack = parts->own_locations && parts->length == 0 ? own_stack(l, r, owner)
							     : run_stack(l, r, parts, owner);
	if (l->scratch.count && parts->length)
		keep_own_locations(l, r, parts, owner);
	if (parts->label_count)
		decoder_extra(
			d, r, owner, EXTRA_LABELS,
			&(struct any_value){ .kind = ANY_ARRAY,
					     .array = { parts->labels, parts->label_count } });
	if (!r->fault)
		p->samples[p->sample_count++] = s;
}

void legacy_sample_decode(struct legacy *l, struct pb_reader *r)
{
	struct decoder *d = l->d;
	struct profiles *p = d->p;
	bool v1_3 = d->version == WIRE_V1_3;
	const uint8_t *map = v1_3 ? sample_v1_3 : sample_v1_4;
	uint32_t fields = v1_3 ? ARRAY_LEN(sample_v1_3) : ARRAY_LEN(sample_v1_4);
	struct owner owner = { MESSAGE_SAMPLE, p->sample_count };
	struct sample_parts parts = { .link = LOCAL_NONE };
	struct sample s = {
		.attributes.first = p->attribute_ref_count,
		.values.first = p->value_count,
		.timestamps.first = p->timestamp_count,
	};

	l->scratch.count = 0;
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, map, fields)) {
		case PB_TAG(SAMPLE_START, PB_VARINT):
			parts.start = pb_varint(r);
			break;
		case PB_TAG(SAMPLE_LENGTH, PB_VARINT):
			parts.length = pb_varint(r);
			break;
		case PB_TAG(SAMPLE_VALUE, PB_LEN):
			varints_add(l, r, pb_message(r), value_add);
			break;
		case PB_TAG(SAMPLE_VALUE, PB_VARINT):
			value_add(l, r, pb_varint(r));
			break;
		case PB_TAG(SAMPLE_ATTRIBUTES, PB_LEN):
			varints_add(l, r, pb_message(r), attribute_add);
			break;
		case PB_TAG(SAMPLE_ATTRIBUTES, PB_VARINT):
			attribute_add(l, r, pb_varint(r));
			break;
		case PB_TAG(SAMPLE_LINK, PB_VARINT):
			parts.link = local_of(l, pb_varint(r));
			break;
		case PB_TAG(SAMPLE_TIMESTAMPS, PB_LEN):
			varints_add(l, r, pb_message(r), timestamp_add);
			break;
		case PB_TAG(SAMPLE_TIMESTAMPS, PB_VARINT):
			timestamp_add(l, r, pb_varint(r));
			break;
		case PB_TAG(SAMPLE_LOCATIONS, PB_LEN):
			parts.own_locations = true;
			varints_add(l, r, pb_message(r), location_add);
			break;
		case PB_TAG(SAMPLE_LOCATIONS, PB_VARINT):
			parts.own_locations = true;
			location_add(l, r, pb_varint(r));
			break;
		case PB_TAG(SAMPLE_LABEL, PB_LEN):
			label_decode(l, r, &parts);
			break;
		case PB_TAG(SAMPLE_STACKTRACE_ID, PB_VARINT):
			decoder_extra_int(d, r, owner, EXTRA_STACKTRACE_ID, (int64_t)pb_varint(r));
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	if (!r->fault)
		sample_finish(l, r, &parts, s);
}
