#include "wire/encode.h"

/* Up to v1.8 a ValueType has the temporality as its third field. */
void encode_value_type(struct encoder *e, uint32_t number, struct value_type t, uint32_t profile,
		       enum extra_key temporality)
{
	size_t mark = pw_mark(&e->w);

	encode_raw_extra(e, MESSAGE_PROFILE, profile,
			 temporality == EXTRA_SAMPLE_TEMPORALITY ? EXTRA_SAMPLE_TYPE_UNKNOWN
								 : EXTRA_PERIOD_TYPE_UNKNOWN);
	if (e->version <= WIRE_V1_8)
		encode_int_extra(e, 3, MESSAGE_PROFILE, profile, temporality);
	pw_uint(&e->w, 2, t.unit.v);
	pw_uint(&e->w, 1, t.type.v);
	if (pw_mark(&e->w) != mark)
		pw_message(&e->w, number, mark);
}

void encode_comments(struct encoder *e, uint32_t number, uint32_t profile)
{
	const struct extra *x = encode_extra(e, MESSAGE_PROFILE, profile, EXTRA_COMMENTS);
	size_t mark = pw_mark(&e->w);

	if (!x)
		return;
	for (uint32_t i = x->value.array.count; i-- > 0;) {
		uint32_t at = encode_add_string(e, x->value.array.values[i].string);

		pw_put_u32s(&e->w, &at, 1);
	}
	pw_message(&e->w, number, mark);
}

void encode_profile_id(struct encoder *e, uint32_t number, uint32_t profile)
{
	const struct profile *p = &e->p->profiles[profile];
	const struct extra *odd = encode_extra(e, MESSAGE_PROFILE, profile, EXTRA_ODD_PROFILE_ID);

	if (odd)
		pw_bytes(&e->w, number, odd->value.string);
	else if (!id_is_zero(p->profile_id, sizeof(p->profile_id)))
		pw_bytes(&e->w, number, str_from(p->profile_id, sizeof(p->profile_id)));
	else if (e->version == WIRE_V1_8 || e->version == WIRE_V1_9)
		/* Empty, as the Collector puts it: its number tells the two versions apart. */
		pw_bytes_present(&e->w, number, (struct str){ 0 });
}

static void put_values(struct encoder *e, uint32_t number, const struct sample_values *v)
{
	size_t mark = pw_mark(&e->w);

	if (v->given || !v->count) {
		pw_packed_i64(&e->w, number, v->given, v->count);
		return;
	}
	for (uint32_t i = v->count; i-- > 0;) {
		if (!pw_room(&e->w, PW_VARINT_MOST))
			return;
		pw_put_varint(&e->w, (uint64_t)sample_value_to_write(v, i));
	}
	pw_message(&e->w, number, mark);
}

/*
 * Fields 2 to 4 were permuted in v1.10. A profile's first sample says which order it has, even
 * where it has nothing to say: up to v1.9 a link of 0 that is there is what no list could be.
 */
static void encode_sample(struct encoder *e, const struct profile *profile, uint32_t index)
{
	const struct sample *s = &e->p->samples[index];
	struct sample_values values = sample_values_to_write(e->p, profile, s);
	size_t mark = pw_mark(&e->w);

	encode_unknown(e, MESSAGE_SAMPLE, index);
	if (s->timestamps.count)
		pw_packed_fixed64(&e->w, 5, e->p->timestamps + s->timestamps.first,
				  s->timestamps.count);
	if (e->version >= WIRE_V1_10) {
		put_values(e, 4, &values);
		pw_uint(&e->w, 3, s->link.v);
		encode_refs(e, 2, s->attributes);
	} else {
		if (s->link.v || (index == profile->samples.first && !s->attributes.count))
			pw_uint_present(&e->w, 4, s->link.v);
		encode_refs(e, 3, s->attributes);
		put_values(e, 2, &values);
	}
	pw_uint(&e->w, 1, s->stack.v);
	pw_message(&e->w, 2, mark);
}

/* v1.8 has the comments as field 7 and what follows one further. */
void encode_profile(struct encoder *e, uint32_t index)
{
	const struct profile *p = &e->p->profiles[index];
	uint32_t shift = e->version == WIRE_V1_8;
	size_t mark = pw_mark(&e->w);

	encode_unknown(e, MESSAGE_PROFILE, index);
	encode_refs(e, 11 + shift, p->attributes);
	pw_bytes(&e->w, 10 + shift, p->original_payload);
	encode_text(e, 9 + shift, p->original_payload_format);
	pw_uint(&e->w, 8 + shift, p->dropped_attributes_count);
	encode_profile_id(e, 7 + shift, index);
	if (e->version == WIRE_V1_8)
		encode_comments(e, 7, index);
	pw_int(&e->w, 6, p->period);
	encode_value_type(e, 5, p->period_type, index, EXTRA_PERIOD_TEMPORALITY);
	pw_uint(&e->w, 4, p->duration_nano);
	pw_fixed64(&e->w, 3, p->time_unix_nano);
	for (uint32_t i = p->samples.first + p->samples.count; i-- > p->samples.first;)
		encode_sample(e, p, i);
	encode_value_type(e, 1, p->sample_type, index, EXTRA_SAMPLE_TEMPORALITY);
	pw_message(&e->w, 2, mark);
}
