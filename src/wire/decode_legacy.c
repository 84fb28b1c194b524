#include "wire/legacy.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"

enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_LOCATION_INDICES,
	PROFILE_FUNCTION,
	PROFILE_ATTRIBUTE,
	PROFILE_ATTRIBUTE_UNIT,
	PROFILE_LINK,
	PROFILE_STRING,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENTS,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	PROFILE_ID,
	PROFILE_ATTRIBUTES, /* KeyValue: v1.4, and the container of v1.3 */
	PROFILE_DROPPED_ATTRIBUTES_COUNT,
	PROFILE_PAYLOAD_FORMAT,
	PROFILE_PAYLOAD,
	PROFILE_ATTRIBUTE_INDICES,
	PROFILE_DROP_FRAMES,
	PROFILE_KEEP_FRAMES,
	PROFILE_START_TIME, /* these three: the container */
	PROFILE_END_TIME,
	PROFILE_INNER,
};

/* The field numbers of v1.4 and v1.5 are the names' own values; only one of 18 and 22 is in use in
 * each. */
static const uint8_t profile_v1_4[] = {
	0,
	PROFILE_SAMPLE_TYPE,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_LOCATION_INDICES,
	PROFILE_FUNCTION,
	PROFILE_ATTRIBUTE,
	PROFILE_ATTRIBUTE_UNIT,
	PROFILE_LINK,
	PROFILE_STRING,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENTS,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	PROFILE_ID,
	PROFILE_ATTRIBUTES,
	PROFILE_DROPPED_ATTRIBUTES_COUNT,
	PROFILE_PAYLOAD_FORMAT,
	PROFILE_PAYLOAD,
	PROFILE_ATTRIBUTE_INDICES,
};
static const uint8_t profile_v1_6[] = {
	/* and v1.7 */
	0,
	PROFILE_SAMPLE_TYPE,
	PROFILE_SAMPLE,
	PROFILE_LOCATION_INDICES,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENTS,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	PROFILE_ID,
	PROFILE_DROPPED_ATTRIBUTES_COUNT,
	PROFILE_PAYLOAD_FORMAT,
	PROFILE_PAYLOAD,
	PROFILE_ATTRIBUTE_INDICES,
};
static const uint8_t container_v1_3[] = {
	0,
	PROFILE_ID,
	PROFILE_START_TIME,
	PROFILE_END_TIME,
	PROFILE_ATTRIBUTES,
	PROFILE_DROPPED_ATTRIBUTES_COUNT,
	PROFILE_PAYLOAD_FORMAT,
	PROFILE_PAYLOAD,
	PROFILE_INNER,
};
static const uint8_t profile_v1_3[] = {
	0,
	PROFILE_SAMPLE_TYPE,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_DROP_FRAMES,
	PROFILE_KEEP_FRAMES,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENTS,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	PROFILE_LOCATION_INDICES,
	PROFILE_ATTRIBUTE,
	PROFILE_ATTRIBUTE_UNIT,
	PROFILE_LINK,
};

struct field_map {
	const uint8_t *map;
	uint32_t fields;
};

static struct field_map profile_fields(enum wire_version v)
{
	switch (v) {
	case WIRE_V1_3:
		return (struct field_map){ profile_v1_3, ARRAY_LEN(profile_v1_3) };
	case WIRE_V1_4:
	case WIRE_V1_5:
		return (struct field_map){ profile_v1_4, ARRAY_LEN(profile_v1_4) };
	default:
		return (struct field_map){ profile_v1_6, ARRAY_LEN(profile_v1_6) };
	}
}

/* ValueType with its temporality, local indices. */
struct local_type {
	uint32_t type, unit;
	int32_t temporality;
	struct raw_fields unknown;
};

/* A Profile while it is read: what becomes struct profile, and what waits for the tables. */
struct draft {
	struct profile out;
	struct owner owner;       /* the first model profile that this becomes */
	struct local_type *types; /* arena */
	uint32_t type_count, type_cap;
	struct local_type period_type;
	uint32_t default_sample_type, drop_frames,
		keep_frames; /* local strings; the first may be an ordinal */
	bool has_default_sample_type;
	uint64_t start_time, end_time;
	struct key_value *attributes; /* by value; arena */
	uint32_t attribute_count, attribute_cap;
	uint32_t extras_first, bad_first; /* notes from here on are this profile's */
};

static struct local_type local_type_decode(struct legacy *l, struct pb_reader *r,
					   struct local_type t)
{
	struct pb_reader nested = pb_message(r);

	while (pb_more(&nested)) {
		const uint8_t *at = nested.p;
		uint32_t tag = pb_tag(&nested);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			t.type = local_of(l, pb_varint(&nested));
			break;
		case PB_TAG(2, PB_VARINT):
			t.unit = local_of(l, pb_varint(&nested));
			break;
		case PB_TAG(3, PB_VARINT):
			t.temporality = (int32_t)pb_varint(&nested);
			break;
		default:
			decoder_unknown_add(l->d, &nested, tag, at, &t.unknown);
		}
	}
	decoder_join(l->d, r, &nested, "ValueType");
	return t;
}

static void draft_type_add(struct legacy *l, struct pb_reader *r, struct draft *draft)
{
	struct local_type t = local_type_decode(l, r, (struct local_type){ 0 });

	if (r->fault)
		return;
	if (draft->type_count == draft->type_cap &&
	    !decoder_grow(l->d, &draft->types, &draft->type_cap, draft->type_count, 1,
			  sizeof(*draft->types))) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	draft->types[draft->type_count++] = t;
}

static void draft_attribute_add(struct legacy *l, struct pb_reader *r, struct draft *draft)
{
	struct pb_reader nested = pb_message(r);

	if (draft->attribute_count == draft->attribute_cap &&
	    !decoder_grow(l->d, &draft->attributes, &draft->attribute_cap, draft->attribute_count,
			  1, sizeof(*draft->attributes))) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	key_value_decode(l->d, &nested, draft->owner, 0,
			 &draft->attributes[draft->attribute_count]);
	decoder_join(l->d, r, &nested, "KeyValue");
	if (!r->fault)
		draft->attribute_count++;
}

static void location_indices_add(struct legacy *l, struct pb_reader *r, struct pb_reader packed)
{
	while (pb_more(&packed)) {
		uint32_t v = local_of(l, pb_varint(&packed));

		if (packed.fault || !index_list_add(l, &packed, &l->locations, v))
			break;
	}
	pb_join(r, &packed);
}

/* A field that has the same meaning in all versions (and in the container). False when it is none
 * of those. */
static bool head_field(struct legacy *l, struct pb_reader *r, uint32_t named_tag,
		       struct draft *draft)
{
	struct profile *out = &draft->out;

	switch (named_tag) {
	case PB_TAG(PROFILE_ID, PB_LEN):
		profile_id_set(l->d, r, draft->owner, pb_bytes(r), out);
		return true;
	case PB_TAG(PROFILE_ATTRIBUTES, PB_LEN):
		draft_attribute_add(l, r, draft);
		return true;
	case PB_TAG(PROFILE_DROPPED_ATTRIBUTES_COUNT, PB_VARINT):
		out->dropped_attributes_count = (uint32_t)pb_varint(r);
		return true;
	case PB_TAG(PROFILE_PAYLOAD_FORMAT, PB_LEN):
		out->original_payload_format = pb_bytes(r);
		return true;
	case PB_TAG(PROFILE_PAYLOAD, PB_LEN):
		out->original_payload = pb_bytes(r);
		return true;
	case PB_TAG(PROFILE_TIME, PB_VARINT):
		out->time_unix_nano = pb_varint(r);
		return true;
	case PB_TAG(PROFILE_DURATION, PB_VARINT):
		out->duration_nano = pb_varint(r);
		return true;
	case PB_TAG(PROFILE_PERIOD, PB_VARINT):
		out->period = (int64_t)pb_varint(r);
		return true;
	case PB_TAG(PROFILE_START_TIME, PB_I64):
		draft->start_time = pb_fixed64(r);
		return true;
	case PB_TAG(PROFILE_END_TIME, PB_I64):
		draft->end_time = pb_fixed64(r);
		return true;
	case PB_TAG(PROFILE_DROP_FRAMES, PB_VARINT):
		draft->drop_frames = local_of(l, pb_varint(r));
		return true;
	case PB_TAG(PROFILE_KEEP_FRAMES, PB_VARINT):
		draft->keep_frames = local_of(l, pb_varint(r));
		return true;
	case PB_TAG(PROFILE_DEFAULT_SAMPLE_TYPE, PB_VARINT):
		draft->default_sample_type = local_of(l, pb_varint(r));
		draft->has_default_sample_type = true;
		return true;
	case PB_TAG(PROFILE_PERIOD_TYPE, PB_LEN):
		draft->period_type = local_type_decode(l, r, draft->period_type);
		return true;
	case PB_TAG(PROFILE_SAMPLE_TYPE, PB_LEN):
		draft_type_add(l, r, draft);
		return true;
	}
	return false;
}

/* The first walk over a Profile: everything but what refers to tables. */
static void profile_tables_walk(struct legacy *l, struct pb_reader *r, struct field_map f,
				struct draft *draft)
{
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r), named = legacy_tag(tag, f.map, f.fields);

		switch (named) {
		case PB_TAG(PROFILE_MAPPING, PB_LEN):
			legacy_table_entry(l, r, LEGACY_MAPPING);
			break;
		case PB_TAG(PROFILE_LOCATION, PB_LEN):
			legacy_table_entry(l, r, LEGACY_LOCATION);
			break;
		case PB_TAG(PROFILE_FUNCTION, PB_LEN):
			legacy_table_entry(l, r, LEGACY_FUNCTION);
			break;
		case PB_TAG(PROFILE_LINK, PB_LEN):
			legacy_table_entry(l, r, LEGACY_LINK);
			break;
		case PB_TAG(PROFILE_STRING, PB_LEN):
			legacy_table_entry(l, r, LEGACY_STRING);
			break;
		case PB_TAG(PROFILE_ATTRIBUTE, PB_LEN):
			legacy_table_entry(l, r, LEGACY_ATTRIBUTE);
			break;
		case PB_TAG(PROFILE_ATTRIBUTE_UNIT, PB_LEN):
			legacy_table_entry(l, r, LEGACY_ATTRIBUTE_UNIT);
			break;
		case PB_TAG(PROFILE_LOCATION_INDICES, PB_LEN):
			location_indices_add(l, r, pb_message(r));
			break;
		case PB_TAG(PROFILE_LOCATION_INDICES, PB_VARINT):
			index_list_add(l, r, &l->locations, local_of(l, pb_varint(r)));
			break;
		case PB_TAG(PROFILE_SAMPLE, PB_LEN):
		case PB_TAG(PROFILE_COMMENTS, PB_LEN):
		case PB_TAG(PROFILE_COMMENTS, PB_VARINT):
		case PB_TAG(PROFILE_ATTRIBUTE_INDICES, PB_LEN):
		case PB_TAG(PROFILE_ATTRIBUTE_INDICES, PB_VARINT):
			pb_skip(r, tag);
			break;
		default:
			if (!head_field(l, r, named, draft))
				decoder_unknown(l->d, r, tag, at, draft->owner);
		}
	}
}

static void translate_location_indices(struct legacy *l, struct pb_reader *r, struct owner owner)
{
	for (uint32_t i = 0; i < l->locations.count; i++) {
		struct ref_place place = ref_at(owner, "location_indices", "location_table", i);

		l->locations.v[i] = legacy_location(l, r, l->locations.v[i], &place);
	}
}

static void comment_index_add(struct legacy *l, struct pb_reader *r, struct owner owner,
			      struct comment_list *list, uint64_t v)
{
	struct ref_place place = { .owner = owner,
				   .field = "comment_strindices",
				   .table = "string_table",
				   .element = list->count,
				   .apart = true };

	comment_add(l->d, r, list, legacy_string(l, r, local_of(l, v), &place));
}

/* The second walk: samples and the lists that refer to tables. */
static void profile_samples_walk(struct legacy *l, struct pb_reader *r, struct field_map f,
				 struct draft *draft)
{
	struct comment_list comments = { 0 };
	struct profiles *p = l->d->p;
	struct pb_reader nested;

	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, f.map, f.fields)) {
		case PB_TAG(PROFILE_SAMPLE, PB_LEN):
			nested = pb_message(r);
			nested.fault = r->fault; /* a sample that is cut short is none */
			if (ROOM(l->d, r, p->samples, p->sample_count, samples, 1))
				legacy_sample_decode(l, &nested);
			decoder_join(l->d, r, &nested, "Sample");
			break;
		case PB_TAG(PROFILE_COMMENTS, PB_VARINT):
			comment_index_add(l, r, draft->owner, &comments, pb_varint(r));
			break;
		case PB_TAG(PROFILE_COMMENTS, PB_LEN):
			nested = pb_message(r);
			while (pb_more(&nested))
				comment_index_add(l, &nested, draft->owner, &comments,
						  pb_varint(&nested));
			decoder_join(l->d, r, &nested, "Profile");
			break;
		default:
			pb_skip(r, tag);
		}
	}
	comments_keep(l->d, r, draft->owner, &comments);
}

/* Attributes of the profile: indices (from v1.5 on) and those that came by value. In a walk of
 * their own: one run. */
static void profile_attributes_walk(struct legacy *l, struct pb_reader *r, struct field_map f,
				    struct draft *draft)
{
	struct profiles *p = l->d->p;
	struct range *list = &draft->out.attributes;
	struct pb_reader one;

	list->first = p->attribute_ref_count;
	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);

		switch (legacy_tag(tag, f.map, f.fields)) {
		case PB_TAG(PROFILE_ATTRIBUTE_INDICES, PB_LEN):
			legacy_refs_add(l, r, pb_message(r));
			break;
		case PB_TAG(PROFILE_ATTRIBUTE_INDICES, PB_VARINT):
			one = *r;
			pb_varint(r);
			one.end = r->p;
			legacy_refs_add(l, r, one);
			break;
		default:
			pb_skip(r, tag);
		}
	}
	list->count = p->attribute_ref_count - list->first;
	for (uint32_t i = 0; i < list->count; i++) {
		struct ref_place place =
			ref_at(draft->owner, "attribute_indices", "attribute_table", i);
		struct attribute_index *ref = &p->attribute_refs[list->first + i];

		ref->v = span_translate(l, r, &l->tables.attributes, ref->v, &place);
	}
	for (uint32_t i = 0; i < draft->attribute_count && !r->fault; i++) {
		struct attribute_index made = legacy_attribute(l, r, &draft->attributes[i]);

		if (!ROOM(l->d, r, p->attribute_refs, p->attribute_ref_count, attribute_refs, 1))
			return;
		p->attribute_refs[p->attribute_ref_count++] = made;
		list->count++;
	}
}

static struct value_type type_translate(struct legacy *l, struct pb_reader *r,
					const struct local_type *t, struct ref_place place,
					const char *type_slot, const char *unit_slot)
{
	struct ref_place type = place, unit = place;

	type.field = "type_strindex";
	type.slot = type_slot;
	unit.field = "unit_strindex";
	unit.slot = unit_slot;

	return (struct value_type){
		.type.v = span_translate_plain(l, r, &l->tables.strings, t->type, &type),
		.unit.v = span_translate_plain(l, r, &l->tables.strings, t->unit, &unit),
	};
}

static void extra_raw(struct legacy *l, struct pb_reader *r, struct owner owner, enum extra_key key,
		      const struct raw_fields *raw)
{
	if (raw->bytes.len)
		decoder_extra(l->d, r, owner, key,
			      &(struct any_value){ .kind = ANY_BYTES, .string = raw->bytes });
}

static void extra_string(struct legacy *l, struct pb_reader *r, struct owner owner,
			 enum extra_key key, const char *field, uint32_t local)
{
	const struct ref_place place = {
		.owner = owner, .field = field, .table = "string_table", .apart = true
	};
	struct any_value v = { .kind = ANY_STRING };

	if (local == 0)
		return;
	v.string = legacy_string(l, r, local, &place);
	decoder_extra(l->d, r, owner, key, &v);
}

/* default_sample_type_index of v1.6 and v1.7; 0 without sample types is "not set". */
static void default_type_keep(struct legacy *l, struct pb_reader *r, const struct draft *draft)
{
	int32_t v = (int32_t)draft->default_sample_type;
	const struct ref_place place = { .owner = draft->owner,
					 .field = "default_sample_type_index",
					 .table = "sample_type",
					 .apart = true };
	struct bad_index bad = legacy_bad(l, &place, v, draft->type_count);

	decoder_extra_int(l->d, r, draft->owner, EXTRA_DEFAULT_SAMPLE_TYPE, v);
	if (v && (v < 0 || (uint32_t)v >= draft->type_count))
		decoder_bad_index(l->d, r, &bad);
}

/* What the newest Profile has no field for. */
static void draft_extras(struct legacy *l, struct pb_reader *r, struct draft *draft)
{
	struct owner owner = draft->owner;
	struct profile *out = &draft->out;

	if (draft->period_type.temporality)
		decoder_extra_int(l->d, r, owner, EXTRA_PERIOD_TEMPORALITY,
				  draft->period_type.temporality);
	extra_raw(l, r, owner, EXTRA_PERIOD_TYPE_UNKNOWN, &draft->period_type.unknown);
	extra_string(l, r, owner, EXTRA_DROP_FRAMES, "drop_frames", draft->drop_frames);
	extra_string(l, r, owner, EXTRA_KEEP_FRAMES, "keep_frames", draft->keep_frames);
	if (l->d->version <= WIRE_V1_5)
		extra_string(l, r, owner, EXTRA_DEFAULT_SAMPLE_TYPE, "default_sample_type_strindex",
			     draft->default_sample_type);
	else if (draft->has_default_sample_type)
		default_type_keep(l, r, draft);
	if (draft->attribute_count)
		decoder_extra(l->d, r, owner, EXTRA_PROFILE_ATTRIBUTES,
			      &(struct any_value){
				      .kind = ANY_KVLIST,
				      .kvlist = { draft->attributes, draft->attribute_count } });
	/* Profile.time_nanos is when collecting began, as later versions have it; the container's
	 * start where that is missing. */
	if (out->time_unix_nano == 0)
		out->time_unix_nano = draft->start_time;
	else if (draft->start_time && draft->start_time != out->time_unix_nano)
		decoder_extra_int(l->d, r, owner, EXTRA_START_TIME, (int64_t)draft->start_time);
	if (draft->end_time)
		decoder_extra_int(l->d, r, owner, EXTRA_END_TIME, (int64_t)draft->end_time);
}

/* Notes on this profile and its samples hold for each of the profiles that it becomes; raw fields
 * only for the first. */
static void copy_notes(struct legacy *l, struct pb_reader *r, const struct draft *draft,
		       uint32_t extras_end, uint32_t bad_end, uint32_t type)
{
	struct profiles *p = l->d->p;
	uint32_t step[2] = { type, type * draft->out.samples.count };

	/* Many types times many notes that are none of theirs: bounded work, as for stacks. */
	l->work += (extras_end - draft->extras_first) + (bad_end - draft->bad_first);
	if (l->work > l->work_limit) {
		pb_fail(r, PB_LIMIT, r->p);
		return;
	}
	for (uint32_t i = draft->extras_first; i < extras_end && !r->fault; i++) {
		struct extra e = p->extras[i];
		struct owner owner = { e.message, e.index + step[e.message == MESSAGE_SAMPLE] };

		if ((e.message != MESSAGE_PROFILE && e.message != MESSAGE_SAMPLE) ||
		    extra_is_raw(e.key))
			continue;
		decoder_extra(l->d, r, owner, e.key, &e.value);
	}
	for (uint32_t i = draft->bad_first; i < bad_end && !r->fault; i++) {
		struct bad_index b = p->bad_indices[i];

		if (b.message != MESSAGE_PROFILE && b.message != MESSAGE_SAMPLE)
			continue;
		b.index += step[b.message == MESSAGE_SAMPLE];
		decoder_bad_index(l->d, r, &b);
	}
}

/* The samples once more, each with its value for another type. */
static void copy_samples(struct legacy *l, struct pb_reader *r, const struct draft *draft,
			 uint32_t type)
{
	struct profiles *p = l->d->p;
	struct range samples = draft->out.samples;
	bool last = type + 1 == draft->type_count;

	if (!ROOM(l->d, r, p->samples, p->sample_count, samples, samples.count))
		return;
	for (uint32_t i = 0; i < samples.count; i++) {
		struct sample s = p->samples[samples.first + i];
		struct range all = s.values;

		s.values.first += type < all.count ? type : all.count;
		s.values.count = type < all.count ? 1 : 0;
		if (last && all.count > type)
			s.values.count =
				all.count - type; /* more values than types: nothing is lost */
		p->samples[p->sample_count++] = s;
	}
}

/* One model profile per sample type. The first has the samples that were read; the others get
 * copies. */
static void draft_emit(struct legacy *l, struct pb_reader *r, struct draft *draft)
{
	struct profiles *p = l->d->p;
	uint32_t types = draft->type_count ? draft->type_count : 1;
	uint32_t extras_end = p->extra_count, bad_end = p->bad_index_count;
	uint32_t first = draft->owner.index;

	if (!ROOM(l->d, r, p->profiles, p->profile_count, profiles, types - 1))
		types = 1;
	for (uint32_t t = 0; t < types && (t == 0 || !r->fault); t++) {
		struct owner owner = { MESSAGE_PROFILE, first + t };
		struct profile out = draft->out;

		if (t > 0) {
			p->profile_count++;
			out.samples.first = p->sample_count;
			copy_samples(l, r, draft, t);
			out.samples.count = p->sample_count - out.samples.first;
			copy_notes(l, r, draft, extras_end, bad_end, t);
		}
		if (draft->type_count) {
			const struct local_type *type = &draft->types[t];

			out.sample_type = type_translate(
				l, r, type,
				(struct ref_place){ .owner = owner,
						    .table = "string_table",
						    .part_in = "sample_type",
						    .part = t },
				"sample_type.type_strindex", "sample_type.unit_strindex");
			if (type->temporality)
				decoder_extra_int(l->d, r, owner, EXTRA_SAMPLE_TEMPORALITY,
						  type->temporality);
			extra_raw(l, r, owner, EXTRA_SAMPLE_TYPE_UNKNOWN, &type->unknown);
		}
		if (types > 1)
			decoder_extra_int(l->d, r, owner, EXTRA_SAMPLE_TYPE_ORDINAL, t);
		p->profiles[first + t] = out;
	}
	if (types > 1)
		for (uint32_t i = 0; i < draft->out.samples.count; i++)
			if (p->samples[draft->out.samples.first + i].values.count > 1)
				p->samples[draft->out.samples.first + i].values.count = 1;
}

/* ProfileContainer (v1.3): its own fields; the Profile inside comes back, merged should it come in
 * several parts. */
static struct pb_reader container_walk(struct legacy *l, struct pb_reader *r, struct draft *draft)
{
	struct arena *arena = &l->d->p->arena;
	struct pb_reader inner = pb_reader_of(STR(""));
	size_t cap = 0;
	char *merged = NULL;

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r),
			 named = legacy_tag(tag, container_v1_3, ARRAY_LEN(container_v1_3));
		struct pb_reader part;
		size_t have, more;

		if (named != PB_TAG(PROFILE_INNER, PB_LEN)) {
			if (!head_field(l, r, named, draft))
				decoder_unknown(l->d, r, tag, at, draft->owner);
			continue;
		}
		part = pb_message(r);
		have = pb_left(&inner);
		more = pb_left(&part);
		if (have == 0) {
			inner = part;
			continue;
		}
		/* Protobuf: parts of a singular message add up as if their bytes were joined. */
		if (!merged || cap - have < more) {
			char *bigger = arena_grow(arena, merged, cap, 2 * (have + more));

			if (!bigger) {
				pb_fail(r, PB_LIMIT, at);
				break;
			}
			if (!merged)
				memcpy(bigger, inner.p, have);
			merged = bigger;
			cap = 2 * (have + more);
		}
		if (more)
			memcpy(merged + have, part.p, more);
		inner = pb_reader_of(str_from(merged, have + more));
	}
	return inner;
}

void legacy_profile_decode(struct decoder *d, struct pb_reader *r)
{
	struct legacy *l = d->legacy;
	struct profiles *p = d->p;
	struct field_map f = profile_fields(d->version);
	bool own_tables = d->version <= WIRE_V1_5;
	struct draft draft = {
		.owner = { MESSAGE_PROFILE, p->profile_count },
		.out.samples.first = p->sample_count,
		.extras_first = p->extra_count,
		.bad_first = p->bad_index_count,
	};
	struct pb_reader body, walk;
	uint32_t bad_locations = l->bad_locations.count;

	if (!ROOM(d, r, p->profiles, p->profile_count, profiles, 1))
		return;
	p->profiles[p->profile_count++] =
		draft.out; /* known from now on: of a broken one, its whole samples are kept */
	body = *r;
	if (d->version == WIRE_V1_3)
		body = container_walk(l, r, &draft);
	if (own_tables)
		legacy_tables_begin(l);
	l->locations.count = 0;
	l->profile = draft.owner.index;
	l->first_sample = p->sample_count;
	walk = body;
	profile_tables_walk(l, &walk, f, &draft);
	/* The later walks read what they can of a broken profile, too: each has its own reader, the
	 * first fault counts. */
	pb_join(r, &walk);
	walk.fault = PB_OK;
	if (own_tables)
		legacy_tables_end(l, &walk, draft.owner);
	translate_location_indices(l, &walk, draft.owner);
	pb_join(r, &walk);
	walk = body;
	profile_samples_walk(l, &walk, f, &draft);
	legacy_locations_unused(l, &walk, bad_locations);
	pb_join(r, &walk);
	walk = body;
	profile_attributes_walk(l, &walk, f, &draft);
	draft.out.samples.count = p->sample_count - draft.out.samples.first;
	draft.out.period_type =
		type_translate(l, &walk, &draft.period_type,
			       (struct ref_place){ .owner = draft.owner,
						   .table = "string_table",
						   .part_in = "period_type",
						   .part = NO_PART },
			       "period_type.type_strindex", "period_type.unit_strindex");
	draft_extras(l, &walk, &draft);
	draft_emit(l, &walk, &draft);
	pb_join(r, &walk);
	r->p = r->end;
}

/* The shared tables: ProfilesDictionary of v1.7, or the top-level fields of a v1.6 file, whose
 * numbers are one higher. */
static void shared_tables_walk(struct legacy *l, struct pb_reader *r, uint32_t first_number,
			       struct owner owner)
{
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r), table = (tag >> 3) - first_number + 1;

		if ((tag & 7) == PB_LEN && table >= LEGACY_MAPPING &&
		    table <= LEGACY_ATTRIBUTE_UNIT)
			legacy_table_entry(l, r, (enum legacy_table)table);
		else if (owner.message == MESSAGE_REQUEST && tag == PB_TAG(1, PB_LEN))
			pb_skip(r, tag);
		else
			decoder_unknown(l->d, r, tag, at, owner);
	}
}

static void shared_tables(struct legacy *l, struct pb_reader *body)
{
	struct owner owner = { MESSAGE_DICTIONARY, 0 };

	legacy_tables_begin(l);
	if (l->d->version == WIRE_V1_6) {
		shared_tables_walk(l, body, 2, (struct owner){ MESSAGE_REQUEST, 0 });
	} else {
		while (pb_more(body)) {
			const uint8_t *at = body->p;
			uint32_t tag = pb_tag(body);
			struct pb_reader nested;

			if (tag == PB_TAG(2, PB_LEN)) {
				nested = pb_message(body);
				shared_tables_walk(l, &nested, 1, owner);
				decoder_join(l->d, body, &nested, "ProfilesDictionary");
			} else if (tag == PB_TAG(1, PB_LEN)) {
				pb_skip(body, tag);
			} else {
				decoder_unknown(l->d, body, tag, at,
						(struct owner){ MESSAGE_REQUEST, 0 });
			}
		}
	}
}

static void resources_walk(struct decoder *d, struct pb_reader *body, bool own_tables)
{
	while (pb_more(body)) {
		const uint8_t *at = body->p;
		uint32_t tag = pb_tag(body);
		struct pb_reader nested;

		if (tag == PB_TAG(1, PB_LEN)) {
			nested = pb_message(body);
			resource_profiles_decode(d, &nested);
			decoder_join(d, body, &nested, "ResourceProfiles");
		} else if (own_tables) {
			decoder_unknown(d, body, tag, at, (struct owner){ MESSAGE_REQUEST, 0 });
		} else {
			pb_skip(body, tag); /* shared_tables() has seen it */
		}
	}
}

static void legacy_release(struct legacy *l)
{
	free(l->locations.v);
	free(l->scratch.v);
	free(l->units.v);
	free(l->unit_fields.v);
	free(l->build_ids.v);
	free(l->types.v);
	free(l->keys.v);
	free(l->bad_locations.v);
	free(l->strings.v);
	free(l->stacks.v);
}

/* Tables begin as the model's zero entries; they grow at once to what was surveyed. */
static void legacy_room(struct decoder *d)
{
	/* Field numbers of mapping, location, function, link, string, attribute. */
	static const uint8_t v1_3[] = { 3, 4, 5, 18, 6, 16 }, v1_4[] = { 3, 4, 6, 9, 10, 7 },
			     v1_6[] = { 2, 3, 4, 5, 6, 7 }, v1_7[] = { 1, 2, 3, 4, 5, 6 };
	const struct survey *s = d->survey;
	const struct field_tally *t = s->dictionary;
	const uint8_t *n = v1_7;
	struct dictionary *dict = &d->p->dict;
	struct room *room = &d->room;
	bool ok;

	if (d->version == WIRE_V1_3) {
		t = s->inner_profile;
		n = v1_3;
	} else if (d->version <= WIRE_V1_5) {
		t = s->profile;
		n = v1_4;
	} else if (d->version == WIRE_V1_6) {
		t = s->top;
		n = v1_6;
	}
	room->mappings = room->locations = room->functions = room->links = room->strings =
		room->attributes = room->stacks = 1;
	ok = decoder_grow(d, &dict->mappings, &room->mappings, 1, t[n[0]].len_count,
			  sizeof(*dict->mappings)) &&
	     decoder_grow(d, &dict->locations, &room->locations, 1, t[n[1]].len_count,
			  sizeof(*dict->locations)) &&
	     decoder_grow(d, &dict->functions, &room->functions, 1, t[n[2]].len_count,
			  sizeof(*dict->functions)) &&
	     decoder_grow(d, &dict->links, &room->links, 1, t[n[3]].len_count,
			  sizeof(*dict->links)) &&
	     decoder_grow(d, &dict->strings, &room->strings, 1, t[n[4]].len_count,
			  sizeof(*dict->strings)) &&
	     decoder_grow(d, &dict->attributes, &room->attributes, 1, t[n[5]].len_count,
			  sizeof(*dict->attributes));
	(void)ok; /* the first entry that finds no room reports it */
}

struct pb_reader legacy_request_decode(struct decoder *d, struct str body)
{
	struct pb_reader whole = pb_reader_of(body), first = whole, r = whole;
	bool own_tables = d->version <= WIRE_V1_5;
	struct legacy l = { .d = d, .work_limit = 64 * (uint64_t)body.len + (1 << 20) };

	d->legacy = &l;
	legacy_room(d);
	d->dictionary_complete = true; /* no version here has references into the string table */
	if (!own_tables) {
		shared_tables(&l, &first);
		r.fault = PB_OK;
		legacy_tables_end(&l, &r, (struct owner){ MESSAGE_DICTIONARY, 0 });
		pb_join(&first, &r);
		r = whole;
	}
	resources_walk(d, &r, own_tables);
	pb_join(&first, &r);
	r.fault = PB_OK;
	legacy_locations_end(&l, &r);
	pb_join(&first, &r);
	legacy_release(&l);
	d->legacy = NULL;
	return first;
}
