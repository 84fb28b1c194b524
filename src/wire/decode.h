/*
 * decode.h - what the decoders of all wire versions share. Private to src/wire.
 *
 * Faults (broken bytes, limits) live in the readers: a function that meets one fails its reader,
 * the caller joins it to its own, and so the walk unwinds without a return code at each step. An
 * entry is counted in the model once it is whole; of a broken body, what is whole up to the fault
 * is there.
 */
#pragma once
#include "wire/otlp.h"
#include "wire/pb_reader.h"
#include "wire/survey.h"

struct legacy;

/* Room in the model's arrays, in entries. */
struct room {
	uint32_t strings, mappings, locations, functions, links, attributes, stacks, lines,
		stack_locations;
	uint32_t resources, scopes, profiles, samples, attribute_refs, values, timestamps;
	uint32_t extras, bad_indices;
};

struct decoder {
	struct profiles *p;
	const struct survey *survey;
	enum wire_version version;
	uint32_t nesting_limit;
	struct room room;
	bool dictionary_complete;    /* string references can be resolved */
	bool unresolved_references;  /* the dictionary's own attributes have some */
	const uint8_t *readable_end; /* the body's: a load may reach past a message's own end */
	bool no_fast_path;           /* tests compare */
	const char *fault_in;        /* innermost message that the first fault was met in */
	struct legacy *legacy;       /* up to v1.7 */
};

/* The message that unknown fields and bad references are noted for. */
struct owner {
	enum message_kind message;
	uint32_t index;
};

/* The model's array of `count` entries; 0 of them when the limit does not allow it, which the first
 * to need room reports. */
uint32_t decoder_array(struct decoder *d, void *array, size_t count, size_t size);
bool decoder_grow(struct decoder *d, void *array, uint32_t *cap, uint32_t count, size_t extra,
		  size_t size);

/* Room for `extra` more entries behind `count`; fails the reader when there is none to be had. */
static inline bool decoder_room(struct decoder *d, struct pb_reader *r, void *array, uint32_t *cap,
				uint32_t count, size_t extra, size_t size)
{
	if (extra <= *cap - count || decoder_grow(d, array, cap, count, extra, size))
		return true;
	pb_fail(r, PB_LIMIT, r->p);
	return false;
}
#define ROOM(d, r, array, count, cap, extra) \
	decoder_room((d), (r), &(array), &(d)->room.cap, (count), (extra), sizeof(*(array)))

static inline void decoder_join(struct decoder *d, struct pb_reader *outer,
				const struct pb_reader *nested, const char *message)
{
	if (!nested->fault)
		return;
	if (!d->fault_in)
		d->fault_in = message;
	pb_join(outer, nested);
}

/* Steps over the field whose tag began at `at` and was just read, and keeps its bytes. */
void decoder_unknown(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
		     struct owner owner);
/* The same for a field that has no place of its own in the model. */
void decoder_unknown_nested(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			    struct owner owner);
/* The same under another key: extra_is_raw(). */
void decoder_unknown_as(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			struct owner owner, enum extra_key key);

/* Raw fields that grow by runs: borrowed from the body while they are one. */
struct raw_fields {
	struct str bytes;
	size_t cap; /* of a copy in the arena; 0: borrowed */
};
void decoder_unknown_add(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
			 struct raw_fields *to);
/* Which of struct value_unknown's a field belongs to. */
enum value_part { PART_VALUE, PART_LIST, PART_PAIR };
void decoder_unknown_of_value(struct decoder *d, struct pb_reader *r, uint32_t tag,
			      const uint8_t *at, struct any_value *v, enum value_part part);
void decoder_extra(struct decoder *d, struct pb_reader *r, struct owner owner, enum extra_key key,
		   const struct any_value *v);
void decoder_extra_int(struct decoder *d, struct pb_reader *r, struct owner owner,
		       enum extra_key key, int64_t v);
void decoder_bad_index(struct decoder *d, struct pb_reader *r, const struct bad_index *bad);

/* attribute_indices of any message: to the end of the one flat array. */
void attribute_refs_add(struct decoder *d, struct pb_reader *r, struct str packed);
void attribute_ref_add(struct decoder *d, struct pb_reader *r);

/* Comments (string indices up to v1.8), which become an extra. */
struct comment_list {
	struct any_value *ptr;
	uint32_t count, cap;
};
void comment_add(struct decoder *d, struct pb_reader *r, struct comment_list *list,
		 struct str text);
void comments_keep(struct decoder *d, struct pb_reader *r, struct owner owner,
		   const struct comment_list *list);

/* decode_value.c: KeyValue, AnyValue, Resource, InstrumentationScope, ValueType, Link: nearly the
 * same in all versions. */
/* Merges into *v, as protobuf does with a field that comes twice; empty before the first time. */
void any_value_decode(struct decoder *d, struct pb_reader *r, struct owner owner, uint32_t depth,
		      struct any_value *v);
void key_value_decode(struct decoder *d, struct pb_reader *r, struct owner owner, uint32_t depth,
		      struct key_value *out);
void link_decode(struct decoder *d, struct pb_reader *r, struct owner owner, struct link *out);
void value_type_decode(struct decoder *d, struct pb_reader *r, struct owner owner,
		       enum extra_key temporality, struct value_type *out);
void line_decode(struct decoder *d, struct pb_reader *r, struct owner owner, struct line *out);
void profile_id_set(struct decoder *d, struct pb_reader *r, struct owner owner, struct str id,
		    struct profile *out);
/* Looks up what the attribute table's own values refer to, once all strings are there. */
void references_resolve(struct decoder *d, struct pb_reader *r);

/* decode_resource.c: ResourceProfiles down to the profiles, which it hands to the version's
 * decoder. */
void resource_profiles_decode(struct decoder *d, struct pb_reader *r);

/* decode_dictionary.c: ProfilesDictionary of v1.8 and later. */
void dictionary_begin(struct decoder *d);
void dictionary_decode(struct decoder *d, struct pb_reader *r);
void dictionary_end(struct decoder *d);

/* decode_zero.c: gives every table its zero entry, once the whole message is read. */
void zero_entries_ensure(struct decoder *d);

/* decode_profile.c: Profile and Sample of v1.8 and later. `samples_map` is the version's. */
void profile_decode(struct decoder *d, struct pb_reader *r);

/* decode_legacy.c: up to v1.7. The first fault comes back. */
struct pb_reader legacy_request_decode(struct decoder *d, struct str body);
void legacy_profile_decode(struct decoder *d, struct pb_reader *r);
