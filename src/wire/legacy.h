/*
 * legacy.h - wire versions up to v1.7, upgraded to the newest shape while they are read. Private to
 * src/wire.
 *
 * What is different there: tables may start with a real entry and "not set" is absence, each
 * Profile of v1.3 to v1.5 has tables of its own, stacks are runs of one list, and a Profile may
 * have several sample types. So entries are appended behind the model's zero entries, with the
 * sender's local indices at first; once a set of tables is whole, its indices are translated.
 */
#pragma once
#include "wire/decode.h"

/* A sender's table: local index i is the model's entry first + i (less one when its zero entry is
 * the model's). */
struct span {
	uint32_t first, count; /* count: local entries */
	bool zero_first;       /* local entry 0 was a zero value; it is the model's entry 0 */
};

struct legacy_tables {
	struct span strings, mappings, locations, functions, links, attributes;
	uint32_t lines_first;
};

struct index_list { /* heap, kept for the next profile */
	uint32_t *v;
	uint32_t count, cap;
};

/* Local indices that belong to an entry but have no slot in the model until tables are whole. */
struct pending {
	uint32_t entry, value, kind;
};
struct pending_list { /* heap */
	struct pending *v;
	uint32_t count, cap;
};

/* What an attribute_unit had beside its two fields. */
struct unit_fields {
	uint32_t unit; /* which of legacy.units */
	struct str raw;
};
struct unit_fields_list { /* heap */
	struct unit_fields *v;
	uint32_t count, cap;
};

struct str_list { /* heap */
	struct str *v;
	uint32_t count, cap;
};

struct slot {
	uint32_t hash, index; /* index 0: free */
};
struct slots { /* open addressing, a power of two; heap */
	struct slot *v;
	uint32_t count, cap;
};

/* Such locations of a list stand in it as BAD_LOCATION | index until all stacks are made: stacks
 * are the same only if what they refer to is. */
#define BAD_LOCATION UINT32_C(0x80000000)
struct bad_location {
	struct bad_index bad;
	bool shown; /* some stack has it */
};
struct bad_location_list { /* heap */
	struct bad_location *v;
	uint32_t count, cap;
};

struct legacy {
	struct decoder *d;
	uint32_t profile, first_sample; /* at hand: the model's */
	struct bad_location_list bad_locations;
	struct legacy_tables
		tables; /* of the profile at hand, or of the whole message (v1.6, v1.7) */
	struct index_list
		locations; /* Profile.location_indices, the model's indices once translated */
	struct index_list scratch; /* one sample's stack (v1.3 location_index) */
	struct pending_list units; /* attribute_units: entry key, value unit */
	struct unit_fields_list unit_fields;
	struct pending_list build_ids; /* v1.3: entry mapping, value string, kind build_id_kind */
	struct pending_list types;     /* v1.3: entry location, value string */
	struct str_list keys; /* of the attribute table's entries, until they are interned */
	struct slots strings, stacks;
	uint64_t work,
		work_limit; /* locations hashed: a few bytes can name a long run again and again */
};

/* An optional index that the sender left out; no int32 on the wire becomes it (local_index()). */
#define LOCAL_NONE UINT32_C(0x80000000)

/* A local index as it is kept until it is translated. */
static inline uint32_t local_index(uint64_t v)
{
	return (uint32_t)v == LOCAL_NONE ? UINT32_MAX : (uint32_t)v;
}

/* v1.3 has 64-bit indices: what fits no int32 becomes the largest one, or -1. */
static inline uint32_t local_index_64(uint64_t v)
{
	if (v <= INT32_MAX)
		return (uint32_t)v;
	return v >> 63 ? UINT32_MAX : INT32_MAX;
}

static inline uint32_t local_of(const struct legacy *l, uint64_t v)
{
	return l->d->version == WIRE_V1_3 ? local_index_64(v) : local_index(v);
}

#define NO_PART UINT32_MAX

/* Where a local reference stands, for the record of a bad one. */
struct ref_place {
	struct owner owner;
	const char *field, *table; /* v1.4's names */
	uint32_t element;
	const char *slot;    /* the model's field where that has another name, else NULL */
	bool apart;          /* the model has no slot for it */
	const char *part_in; /* the owner's (or its entry's) inner message, else NULL */
	uint32_t part;       /* which of them; NO_PART: there is but one */
};

static inline struct ref_place ref_at(struct owner owner, const char *field, const char *table,
				      uint32_t element)
{
	return (struct ref_place){
		.owner = owner, .field = field, .table = table, .element = element
	};
}

/* legacy_tables.c */
void legacy_tables_begin(struct legacy *l);
/* One table entry, its tag's number already led to `table`. */
enum legacy_table {
	LEGACY_MAPPING = 1,
	LEGACY_LOCATION,
	LEGACY_FUNCTION,
	LEGACY_LINK,
	LEGACY_STRING,
	LEGACY_ATTRIBUTE,
	LEGACY_ATTRIBUTE_UNIT,
};
void legacy_table_entry(struct legacy *l, struct pb_reader *r, enum legacy_table table);
/* Translates the indices of all entries since legacy_tables_begin(). */
void legacy_tables_end(struct legacy *l, struct pb_reader *r, struct owner owner);
/* The record of a reference that is out of range. */
struct bad_index legacy_bad(const struct legacy *l, const struct ref_place *place, int64_t value,
			    uint32_t table_count);
/* A reference to a location out of a list. */
uint32_t legacy_location(struct legacy *l, struct pb_reader *r, uint32_t local,
			 const struct ref_place *place);
/* Bad locations from bad_locations.v[first] on that no stack has, once the profile's stacks are
 * made. */
void legacy_locations_unused(struct legacy *l, struct pb_reader *r, uint32_t first);
/* Bad locations of the stacks, once all are made: 0, and a record each. */
void legacy_locations_end(struct legacy *l, struct pb_reader *r);
uint32_t span_translate(struct legacy *l, struct pb_reader *r, const struct span *s, uint32_t local,
			const struct ref_place *place);
/* The same for a field that has no presence: index 0 of an empty table is "not set". */
uint32_t span_translate_plain(struct legacy *l, struct pb_reader *r, const struct span *s,
			      uint32_t local, const struct ref_place *place);
struct str legacy_string(struct legacy *l, struct pb_reader *r, uint32_t local,
			 const struct ref_place *place);
/* A string of the model that equals `s`. */
struct strindex legacy_intern(struct legacy *l, struct pb_reader *r, struct str s);
/* A new entry of the attribute table. */
struct attribute_index legacy_attribute(struct legacy *l, struct pb_reader *r,
					const struct key_value *kv);
void legacy_refs_add(struct legacy *l, struct pb_reader *r, struct pb_reader packed);
bool index_list_add(struct legacy *l, struct pb_reader *r, struct index_list *list, uint32_t v);

void slots_reserve(struct slots *s); /* at least half of the slots free */

/* legacy_sample.c */
void legacy_sample_decode(struct legacy *l, struct pb_reader *r);
struct stack_index legacy_stack(struct legacy *l, struct pb_reader *r, const uint32_t *locations,
				uint32_t count);

/* Field numbers of one message in two versions: `map` leads from the older number to the newer
 * name; 0 is unknown. */
static inline uint32_t legacy_tag(uint32_t tag, const uint8_t *map, uint32_t fields)
{
	uint32_t number = tag >> 3;

	return number < fields ? PB_TAG(map[number], tag & 7) : 0;
}
