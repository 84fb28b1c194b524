/*
 * encode.h - inside of otlp_encode(): what its files share.
 *
 * Every function puts fields backwards (pb_writer.h): the last field and the last element first.
 */
#pragma once
#include "base/text.h"
#include "model/intern.h"
#include "wire/otlp.h"
#include "wire/pb_writer.h"

struct encoder {
	struct pb_writer w;
	const struct profiles *p;
	enum wire_version version;
	bool same_version; /* unknown fields go back */
	bool has_extras[MESSAGE_STACK + 1];
	struct arena scratch;
	struct err *err;
	bool failed; /* err tells */

	/* Strings that extras hold and the versions' tables want by index: put behind the string
	 * table. */
	struct str *added_strings;
	uint32_t added_string_count, added_string_cap;
	struct intern_table string_ids; /* of the table's and these; slots NULL: not made yet */

	/* v1.7: where each stack's locations begin in the open profile's location_indices. */
	struct stack_place *stack_places; /* by stack index */
	struct stack_index *stack_order;  /* as first met in the open profile */
	uint32_t profile_stamp;

	/* v1.7: which of EXTRA_UNIT_UNKNOWN's elements (+ 1) is a string's, and which are put. */
	uint32_t *unit_fields_of;
	bool *unit_fields_put;
};

struct stack_place {
	uint32_t stamp; /* of the profile it was placed for */
	uint32_t start;
};

/* The extra of one message, or NULL; cheap when no message of that kind has any. */
static inline const struct extra *encode_extra(const struct encoder *e, enum message_kind message,
					       uint32_t index, enum extra_key key)
{
	return e->has_extras[message] ? profiles_extra(e->p, message, index, key) : NULL;
}

/* Up to v1.7 timestamps and values were independent. A message that was built here has no source
 * version. */
static inline bool encode_source_is_old(const struct encoder *e)
{
	return e->p->source_version != WIRE_AUTO && e->p->source_version <= WIRE_V1_7;
}

/* Text for a peer: protobuf's strings are UTF-8, and strict readers refuse a whole message for one
 * bad byte, so these are replaced by U+FFFD. */
struct str encode_clean(struct encoder *e, struct str s);

static inline void encode_text_present(struct encoder *e, uint32_t number, struct str s)
{
	pw_bytes_present(&e->w, number, utf8_valid(s) ? s : encode_clean(e, s));
}

static inline void encode_text(struct encoder *e, uint32_t number, struct str s)
{
	if (s.len)
		encode_text_present(e, number, s);
}

static inline void encode_unknown(struct encoder *e, enum message_kind message, uint32_t index)
{
	const struct extra *x;

	if (!e->same_version)
		return;
	x = encode_extra(e, message, index, EXTRA_UNKNOWN_FIELDS);
	if (x)
		pw_raw(&e->w, x->value.string);
}

/* The unknown fields of a value type, as encode_unknown(). */
static inline void encode_raw_extra(struct encoder *e, enum message_kind message, uint32_t index,
				    enum extra_key key)
{
	const struct extra *x = e->same_version ? encode_extra(e, message, index, key) : NULL;

	if (x)
		pw_raw(&e->w, x->value.string);
}

static inline void encode_refs(struct encoder *e, uint32_t number, struct range refs)
{
	_Static_assert(sizeof(struct attribute_index) == sizeof(uint32_t),
		       "refs are put as plain integers");
	if (refs.count == 1 && pw_room(&e->w, 2 * PW_FIELD_MOST)) {
		uint8_t *end = e->w.at;

		/* One is what most lists have. */
		e->w.at = pw_at_varint(end, e->p->attribute_refs[refs.first].v);
		e->w.at = pw_at_message(e->w.at, (uint8_t)number, end);
	} else if (refs.count)
		pw_packed_u32(&e->w, number, (const uint32_t *)(e->p->attribute_refs + refs.first),
			      refs.count);
}

static inline void encode_values(struct encoder *e, uint32_t number, struct range at)
{
	if (at.count)
		pw_packed_i64(&e->w, number, e->p->values + at.first, at.count);
}

static inline void encode_int_extra(struct encoder *e, uint32_t number, enum message_kind message,
				    uint32_t index, enum extra_key key)
{
	const struct extra *x = encode_extra(e, message, index, key);

	if (x)
		pw_int(&e->w, number, x->value.integer);
}

static inline void encode_bool_extra(struct encoder *e, uint32_t number, enum message_kind message,
				     uint32_t index, enum extra_key key)
{
	const struct extra *x = encode_extra(e, message, index, key);

	if (x)
		pw_uint(&e->w, number, x->value.boolean);
}

/* A scope or resource of which only refused profiles are left goes with them. */
bool encode_leaves_out_scope(const struct profiles *p, const struct scope_profiles *s);
bool encode_leaves_out_resource(const struct profiles *p, const struct resource_profiles *r);

/* encode.c */
/* A field that is an AnyValue; nothing when it is empty. */
void encode_any(struct encoder *e, uint32_t number, const struct any_value *v);
/* The unknown fields of the KeyValue around a value. */
void encode_pair_unknown(struct encoder *e, const struct any_value *v);
void encode_any_fields(struct encoder *e,
		       const struct any_value *v); /* the fields of an AnyValue */
void encode_key_values(struct encoder *e, uint32_t number,
		       struct key_values kv); /* a repeated KeyValue field */
/* The index of a string that may be in the table already. */
uint32_t encode_add_string(struct encoder *e, struct str s);

/* encode_dictionary.c: ProfilesDictionary of v1.8 and later, and the entries that never changed */
void encode_dictionary(struct encoder *e);
void encode_strings(struct encoder *e, uint32_t number);
void encode_links(struct encoder *e, uint32_t number);
void encode_functions(struct encoder *e, uint32_t number);
void encode_lines(struct encoder *e, struct range lines); /* Location's field 3 */

/* encode_profile.c: Profile of v1.8 and later */
void encode_profile(struct encoder *e, uint32_t index);
void encode_value_type(struct encoder *e, uint32_t number, struct value_type t, uint32_t profile,
		       enum extra_key temporality);
void encode_comments(struct encoder *e, uint32_t number, uint32_t profile);
void encode_profile_id(struct encoder *e, uint32_t number, uint32_t profile);

/* encode_v1_7.c */
void encode_v1_7_dictionary(struct encoder *e);
void encode_v1_7_prepare(struct encoder *e);
/* The profile at `index` with those before it, from `first` on, that were one with it; gives the
 * first one's index. */
uint32_t encode_v1_7_profile(struct encoder *e, uint32_t first, uint32_t index);
