/*
 * decode_profile.c - Profile and Sample of v1.8, v1.9 and v1.10.
 *
 * The three differ in numbers only: a table per version leads from the tag (number and wire type,
 * all below 128) to the field's name, so that one decoder serves all. A tag that is in no table is
 * an unknown field.
 */
#include "wire/decode_fast.h"

enum { TAGS = 128 };

enum sample_field {
	SAMPLE_UNKNOWN,
	SAMPLE_STACK,
	SAMPLE_ATTRIBUTES, /* packed */
	SAMPLE_ATTRIBUTE,  /* one, unpacked */
	SAMPLE_LINK,
	SAMPLE_VALUES,
	SAMPLE_VALUE,
	SAMPLE_TIMESTAMPS,
	SAMPLE_TIMESTAMP,
};

static const uint8_t sample_v1_10[TAGS] = {
	[PB_TAG(1, PB_VARINT)] = SAMPLE_STACK,     [PB_TAG(2, PB_LEN)] = SAMPLE_ATTRIBUTES,
	[PB_TAG(2, PB_VARINT)] = SAMPLE_ATTRIBUTE, [PB_TAG(3, PB_VARINT)] = SAMPLE_LINK,
	[PB_TAG(4, PB_LEN)] = SAMPLE_VALUES,       [PB_TAG(4, PB_VARINT)] = SAMPLE_VALUE,
	[PB_TAG(5, PB_LEN)] = SAMPLE_TIMESTAMPS,   [PB_TAG(5, PB_I64)] = SAMPLE_TIMESTAMP,
};

static const uint8_t sample_v1_8[TAGS] = {
	/* and v1.9 */
	[PB_TAG(1, PB_VARINT)] = SAMPLE_STACK,     [PB_TAG(2, PB_LEN)] = SAMPLE_VALUES,
	[PB_TAG(2, PB_VARINT)] = SAMPLE_VALUE,     [PB_TAG(3, PB_LEN)] = SAMPLE_ATTRIBUTES,
	[PB_TAG(3, PB_VARINT)] = SAMPLE_ATTRIBUTE, [PB_TAG(4, PB_VARINT)] = SAMPLE_LINK,
	[PB_TAG(5, PB_LEN)] = SAMPLE_TIMESTAMPS,   [PB_TAG(5, PB_I64)] = SAMPLE_TIMESTAMP,
};

enum profile_field {
	PROFILE_UNKNOWN,
	PROFILE_SAMPLE_TYPE,
	PROFILE_SAMPLE,
	PROFILE_TIME,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENTS,
	PROFILE_COMMENT,
	PROFILE_ID,
	PROFILE_DROPPED_ATTRIBUTES_COUNT,
	PROFILE_PAYLOAD_FORMAT,
	PROFILE_PAYLOAD,
	PROFILE_ATTRIBUTES,
	PROFILE_ATTRIBUTE,
};

#define PROFILE_FIELDS_1_TO_6                                                                     \
	[PB_TAG(1, PB_LEN)] = PROFILE_SAMPLE_TYPE, [PB_TAG(2, PB_LEN)] = PROFILE_SAMPLE,          \
		   [PB_TAG(3, PB_I64)] = PROFILE_TIME, [PB_TAG(4, PB_VARINT)] = PROFILE_DURATION, \
		   [PB_TAG(5, PB_LEN)] = PROFILE_PERIOD_TYPE,                                     \
		   [PB_TAG(6, PB_VARINT)] = PROFILE_PERIOD

static const uint8_t profile_v1_9[TAGS] = {
	/* and v1.10 */
	PROFILE_FIELDS_1_TO_6,
	[PB_TAG(7, PB_LEN)] = PROFILE_ID,
	[PB_TAG(8, PB_VARINT)] = PROFILE_DROPPED_ATTRIBUTES_COUNT,
	[PB_TAG(9, PB_LEN)] = PROFILE_PAYLOAD_FORMAT,
	[PB_TAG(10, PB_LEN)] = PROFILE_PAYLOAD,
	[PB_TAG(11, PB_LEN)] = PROFILE_ATTRIBUTES,
	[PB_TAG(11, PB_VARINT)] = PROFILE_ATTRIBUTE,
};

static const uint8_t profile_v1_8[TAGS] = {
	PROFILE_FIELDS_1_TO_6,
	[PB_TAG(7, PB_LEN)] = PROFILE_COMMENTS,
	[PB_TAG(7, PB_VARINT)] = PROFILE_COMMENT,
	[PB_TAG(8, PB_LEN)] = PROFILE_ID,
	[PB_TAG(9, PB_VARINT)] = PROFILE_DROPPED_ATTRIBUTES_COUNT,
	[PB_TAG(10, PB_LEN)] = PROFILE_PAYLOAD_FORMAT,
	[PB_TAG(11, PB_LEN)] = PROFILE_PAYLOAD,
	[PB_TAG(12, PB_LEN)] = PROFILE_ATTRIBUTES,
	[PB_TAG(12, PB_VARINT)] = PROFILE_ATTRIBUTE,
};

static void values_add(struct decoder *d, struct pb_reader *r, struct str packed)
{
	struct profiles *p = d->p;
	size_t n;

	if (packed.len == 0)
		return;
	if (packed.len > d->room.values - p->value_count &&
	    !ROOM(d, r, p->values, p->value_count, values, pb_packed_count(packed)))
		return;
	n = pb_packed_u64(packed, (uint64_t *)p->values + p->value_count);
	if (n == PB_PACKED_BAD)
		pb_fail(r, PB_CUT, (const uint8_t *)packed.ptr);
	else
		p->value_count += (uint32_t)n;
}

static void value_add(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	int64_t v = (int64_t)pb_varint(r);

	if (ROOM(d, r, p->values, p->value_count, values, 1))
		p->values[p->value_count++] = v;
}

static void timestamps_add(struct decoder *d, struct pb_reader *r, struct str packed)
{
	struct profiles *p = d->p;
	size_t n = packed.len / sizeof(uint64_t);

	if (packed.len % sizeof(uint64_t)) {
		pb_fail(r, PB_CUT, (const uint8_t *)packed.ptr);
		return;
	}
	if (n == 0 || !ROOM(d, r, p->timestamps, p->timestamp_count, timestamps, n))
		return;
	memcpy(p->timestamps + p->timestamp_count, packed.ptr, packed.len);
	p->timestamp_count += (uint32_t)n;
}

static void timestamp_add(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	uint64_t t = pb_fixed64(r);

	if (ROOM(d, r, p->timestamps, p->timestamp_count, timestamps, 1))
		p->timestamps[p->timestamp_count++] = t;
}

static void sample_decode(struct decoder *d, struct pb_reader *r, const uint8_t fields[TAGS])
{
	struct profiles *p = d->p;
	struct sample s = {
		.attributes.first = p->attribute_ref_count,
		.values.first = p->value_count,
		.timestamps.first = p->timestamp_count,
	};

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag < TAGS ? fields[tag] : SAMPLE_UNKNOWN) {
		case SAMPLE_STACK:
			s.stack.v = (uint32_t)pb_varint(r);
			break;
		case SAMPLE_ATTRIBUTES:
			attribute_refs_add(d, r, pb_bytes(r));
			break;
		case SAMPLE_ATTRIBUTE:
			attribute_ref_add(d, r);
			break;
		case SAMPLE_LINK:
			s.link.v = (uint32_t)pb_varint(r);
			break;
		case SAMPLE_VALUES:
			values_add(d, r, pb_bytes(r));
			break;
		case SAMPLE_VALUE:
			value_add(d, r);
			break;
		case SAMPLE_TIMESTAMPS:
			timestamps_add(d, r, pb_bytes(r));
			break;
		case SAMPLE_TIMESTAMP:
			timestamp_add(d, r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_SAMPLE, p->sample_count });
		}
	}
	s.attributes.count = p->attribute_ref_count - s.attributes.first;
	s.values.count = p->value_count - s.values.first;
	s.timestamps.count = p->timestamp_count - s.timestamps.first;
	if (!r->fault)
		p->samples[p->sample_count++] = s;
}

/*
 * attribute_indices of the Profile itself: its samples put theirs into the same array, and fields
 * come in any order, so that the profile's own are read in a walk of their own, after the samples.
 */
static void profile_attributes(struct decoder *d, struct pb_reader *r, struct pb_reader whole,
			       const uint8_t fields[TAGS], struct profile *out)
{
	out->attributes.first = d->p->attribute_ref_count;
	while (pb_more(&whole) && !r->fault) {
		uint32_t tag = pb_tag(&whole);

		switch (tag < TAGS ? fields[tag] : PROFILE_UNKNOWN) {
		case PROFILE_ATTRIBUTES:
			attribute_refs_add(d, r, pb_bytes(&whole));
			break;
		case PROFILE_ATTRIBUTE:
			attribute_ref_add(d, &whole);
			break;
		default:
			pb_skip(&whole, tag);
		}
	}
	decoder_join(d, r, &whole, "Profile");
	out->attributes.count = d->p->attribute_ref_count - out->attributes.first;
}

static void comment_index_add(struct decoder *d, struct pb_reader *r, struct owner owner,
			      struct comment_list *list, uint32_t index)
{
	struct dictionary *dict = &d->p->dict;
	struct str text = { 0 };

	if (index < dict->string_count)
		text = dict->strings[index];
	else
		decoder_bad_index(d, r,
				  &(struct bad_index){ .message = owner.message,
						       .index = owner.index,
						       .element = list->count,
						       .field = "comment_strindices",
						       .table = "string_table",
						       .value = (int32_t)index,
						       .table_count = dict->string_count,
						       .apart = true });
	comment_add(d, r, list, text);
}

/* comment_strindices of v1.8, kept as texts. */
static void profile_comments(struct decoder *d, struct pb_reader *r, struct pb_reader whole,
			     struct owner owner)
{
	struct comment_list list = { 0 };

	while (pb_more(&whole)) {
		uint32_t tag = pb_tag(&whole);
		struct pb_reader packed;

		if (tag == PB_TAG(7, PB_VARINT)) {
			comment_index_add(d, &whole, owner, &list, (uint32_t)pb_varint(&whole));
		} else if (tag == PB_TAG(7, PB_LEN)) {
			packed = pb_message(&whole);
			while (pb_more(&packed))
				comment_index_add(d, &packed, owner, &list,
						  (uint32_t)pb_varint(&packed));
			decoder_join(d, &whole, &packed, "Profile");
		} else {
			pb_skip(&whole, tag);
		}
	}
	decoder_join(d, r, &whole, "Profile");
	comments_keep(d, r, owner, &list);
}

void profile_decode(struct decoder *d, struct pb_reader *r)
{
	const uint8_t *fields = d->version >= WIRE_V1_9 ? profile_v1_9 : profile_v1_8;
	const uint8_t *sample_fields = d->version >= WIRE_V1_10 ? sample_v1_10 : sample_v1_8;
	struct profiles *p = d->p;
	struct pb_reader whole = *r, nested;
	struct owner owner = { MESSAGE_PROFILE, p->profile_count };
	struct profile out = { .samples.first = p->sample_count };
	bool attributes = false, comments = false;

	if (!ROOM(d, r, p->profiles, p->profile_count, profiles, 1))
		return;
	p->profile_count++; /* known from now on: of a broken one, its whole samples are kept */
	while (pb_more(r)) {
		const uint8_t *at;
		uint32_t tag;

		if (*r->p == PB_TAG(2, PB_LEN) && !d->no_fast_path) {
			fast_samples(d, r);
			if (!pb_more(r))
				break;
		}
		at = r->p;
		tag = pb_tag(r);

		switch (tag < TAGS ? fields[tag] : PROFILE_UNKNOWN) {
		case PROFILE_SAMPLE:
			if (!ROOM(d, r, p->samples, p->sample_count, samples, 1))
				break;
			nested = pb_message(r);
			nested.fault = r->fault; /* a sample that is cut short is none */
			sample_decode(d, &nested, sample_fields);
			decoder_join(d, r, &nested, "Sample");
			break;
		case PROFILE_SAMPLE_TYPE:
			nested = pb_message(r);
			value_type_decode(d, &nested, owner, EXTRA_SAMPLE_TEMPORALITY,
					  &out.sample_type);
			decoder_join(d, r, &nested, "ValueType");
			break;
		case PROFILE_TIME:
			out.time_unix_nano = pb_fixed64(r);
			break;
		case PROFILE_DURATION:
			out.duration_nano = pb_varint(r);
			break;
		case PROFILE_PERIOD_TYPE:
			nested = pb_message(r);
			value_type_decode(d, &nested, owner, EXTRA_PERIOD_TEMPORALITY,
					  &out.period_type);
			decoder_join(d, r, &nested, "ValueType");
			break;
		case PROFILE_PERIOD:
			out.period = (int64_t)pb_varint(r);
			break;
		case PROFILE_COMMENTS:
		case PROFILE_COMMENT:
			comments = true;
			pb_skip(r, tag);
			break;
		case PROFILE_ID:
			profile_id_set(d, r, owner, pb_bytes(r), &out);
			break;
		case PROFILE_DROPPED_ATTRIBUTES_COUNT:
			out.dropped_attributes_count = (uint32_t)pb_varint(r);
			break;
		case PROFILE_PAYLOAD_FORMAT:
			out.original_payload_format = pb_bytes(r);
			break;
		case PROFILE_PAYLOAD:
			out.original_payload = pb_bytes(r);
			break;
		case PROFILE_ATTRIBUTES:
		case PROFILE_ATTRIBUTE:
			attributes = true;
			pb_skip(r, tag);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
	out.samples.count = p->sample_count - out.samples.first;
	if (attributes)
		profile_attributes(d, r, whole, fields, &out);
	if (comments)
		profile_comments(d, r, whole, owner);
	p->profiles[owner.index] = out;
}
