/*
 * profiles.h - one OTLP profiles message in memory, in the newest shape (opentelemetry-proto v1.10
 * and later), whatever wire version it came in.
 *
 * Arrays of plain structs, linked by indices and by (first, count) ranges; the dictionary's entry 0
 * of every table is the zero value and means "not set". Every range and index below is valid once
 * the message is sealed: consumers check nothing again. Strings are borrowed from `body` or live in
 * `arena`, as the bytes that came (bad UTF-8 and all).
 *
 * What has no slot in the newest shape (unknown fields, temporality, comments, is_folded, has_*,
 * the labels of v1.3, ...) is kept in `extras`, and an index that was out of range is 0 here with a
 * record in `bad_indices` (lenient decoding).
 *
 * Values and timestamps are kept as they came; what a sample counts is sample_total()'s business.
 *
 * Memory: everything in `arena`, but what is borrowed from `body`, of which the message holds a
 * reference; profiles_free() releases both. Threads: one writer; once sealed, read-only and shared
 * freely.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/blob.h"
#include "base/err.h"
#include "base/str.h"

/* One type per table: an index of one cannot be passed where another's is due. */
struct strindex {
	uint32_t v;
};
struct mapping_index {
	uint32_t v;
};
struct location_index {
	uint32_t v;
};
struct function_index {
	uint32_t v;
};
struct link_index {
	uint32_t v;
};
struct attribute_index {
	uint32_t v;
};
struct stack_index {
	uint32_t v;
};

/* A run of one of the flat arrays of struct profiles or struct dictionary. */
struct range {
	uint32_t first, count;
};

/* OTLP common.proto, AnyValue. */
enum __attribute__((packed)) any_kind {
	ANY_EMPTY,
	ANY_STRING,
	ANY_BOOL,
	ANY_INT,
	ANY_DOUBLE,
	ANY_ARRAY,
	ANY_KVLIST,
	ANY_BYTES,
};

struct key_value;

/*
 * Unknown fields of the messages around one value, raw with their tags, in the order they came.
 * They belong to the value and go where it goes; value_unknown.h copies, compares and finds them.
 */
struct value_unknown {
	struct str value; /* of the AnyValue */
	struct str list;  /* of its ArrayValue or KeyValueList */
	struct str pair;  /* of the KeyValue that the value stands in */
};

struct any_value {
	enum any_kind kind;
	bool zero_reference;      /* ANY_STRING: the sender wrote string_value_strindex 0 */
	struct strindex strindex; /* ANY_STRING: not 0 when the sender wrote string_value_strindex;
				     `string` is resolved */
	union {
		struct str string; /* ANY_STRING, ANY_BYTES */
		bool boolean;
		int64_t integer;
		double real;
		struct {
			const struct any_value *values;
			uint32_t count;
		} array;
		struct {
			const struct key_value *pairs;
			uint32_t count;
		} kvlist;
	};
	const struct value_unknown *unknown; /* NULL: none */
};

/* Whether a writer that can put references puts this ANY_STRING as one. */
static inline bool any_value_is_reference(const struct any_value *v)
{
	return v->strindex.v || (v->zero_reference && v->string.len == 0);
}

struct key_value {
	struct str key;
	struct strindex
		key_strindex; /* not 0 when the sender wrote key_strindex; `key` is resolved */
	struct any_value value;
};

struct key_values {
	const struct key_value *ptr;
	uint32_t count;
};

/* The dictionary's entries: profiles.proto, ProfilesDictionary. */
struct mapping {
	uint64_t memory_start, memory_limit, file_offset;
	struct strindex filename;
	struct range attributes; /* of attribute_refs */
};

struct line {
	int64_t line, column; /* 0 = unset, 1-based */
	struct function_index function;
};

struct location {
	uint64_t address;
	struct mapping_index mapping;
	struct range lines;      /* of dictionary.lines, innermost inlined function first */
	struct range attributes; /* of attribute_refs */
};

struct function {
	struct strindex name, system_name, filename;
	int64_t start_line;
};

struct link {
	uint8_t trace_id[16], span_id[8]; /* all zero = none; ids of another length are in extras */
};

struct attribute { /* KeyValueAndUnit */
	struct strindex key, unit;
	struct any_value value;
};

struct stack {
	struct range locations; /* of stack_locations, leaf first */
};

struct dictionary {
	struct str *strings;
	struct mapping *mappings;
	struct location *locations;
	struct function *functions;
	struct link *links;
	struct attribute *attributes;
	struct stack *stacks;
	struct line *lines;
	struct location_index *stack_locations;
	uint32_t string_count, mapping_count, location_count, function_count, link_count,
		attribute_count, stack_count;
	uint32_t line_count, stack_location_count;
};

struct value_type {
	struct strindex type, unit;
};

struct sample {
	struct stack_index stack;
	struct link_index link;
	struct range attributes; /* of attribute_refs */
	struct range values;     /* of values */
	struct range timestamps; /* of timestamps, in the order they came */
};

struct profile {
	struct value_type sample_type, period_type;
	uint64_t time_unix_nano, duration_nano;
	int64_t period;
	struct range samples;
	struct range attributes; /* of attribute_refs */
	uint8_t profile_id[16];  /* all zero = none */
	uint32_t dropped_attributes_count;
	struct str original_payload_format, original_payload;
	bool refused; /* strict decoding: holds a bad index; consumers skip it, the receiver counts
			 it */
};

struct scope_profiles {
	struct str name, version, schema_url;
	struct key_values attributes;
	uint32_t dropped_attributes_count;
	struct range profiles;
};

struct resource_profiles {
	struct key_values attributes;
	struct str schema_url;
	uint32_t dropped_attributes_count;
	struct range scopes;
};

/* Which message an extra or a bad index belongs to; `index` beside it counts in the flat array of
 * that message. */
enum message_kind {
	MESSAGE_REQUEST,
	MESSAGE_RESOURCE_PROFILES,
	MESSAGE_RESOURCE,
	MESSAGE_SCOPE_PROFILES,
	MESSAGE_SCOPE,
	MESSAGE_PROFILE,
	MESSAGE_SAMPLE,
	MESSAGE_DICTIONARY,
	MESSAGE_MAPPING,
	MESSAGE_LOCATION,
	MESSAGE_LINE,
	MESSAGE_FUNCTION,
	MESSAGE_LINK,
	MESSAGE_ATTRIBUTE,
	MESSAGE_STACK,
};

/* What an extra holds. The comment names its value's kind and the versions that sent it. */
enum extra_key {
	EXTRA_UNKNOWN_FIELDS,      /* bytes: the raw fields, tags and all, in the order they came */
	EXTRA_ENTITY_REFS,         /* bytes: Resource.entity_refs, each as its field came */
	EXTRA_SAMPLE_TEMPORALITY,  /* int: ValueType.aggregation_temporality of sample_type (<= 1.8)
				    */
	EXTRA_PERIOD_TEMPORALITY,  /* int: the same of period_type */
	EXTRA_COMMENTS,            /* array of string (<= 1.8) */
	EXTRA_DEFAULT_SAMPLE_TYPE, /* string: the type's name (<= 1.5); int: index (1.6, 1.7) */
	EXTRA_SAMPLE_TYPE_ORDINAL, /* int: which of several sample_types of one profile this was
				      (<= 1.7) */
	EXTRA_PROFILE_ATTRIBUTES,  /* kvlist: Profile.attributes by value (1.3 container, 1.4) */
	EXTRA_DROP_FRAMES,         /* string (1.3) */
	EXTRA_KEEP_FRAMES,         /* string (1.3) */
	EXTRA_END_TIME,            /* int: ProfileContainer.end_time_unix_nano (1.3) */
	EXTRA_START_TIME, /* int: ProfileContainer.start_time_unix_nano where it differs from time
			     (1.3) */
	EXTRA_LABELS,     /* array of kvlist {key, str, num, num_unit}: Sample.label (1.3) */
	EXTRA_STACKTRACE_ID, /* int: Sample.stacktrace_id_index (1.3) */
	EXTRA_IS_FOLDED,     /* bool (<= 1.7) */
	EXTRA_LOCATION_TYPE, /* string: Location.type_index (1.3); also an attribute
				profile.frame.type is made */
	EXTRA_HAS_FUNCTIONS, /* bool (<= 1.7), as the next three */
	EXTRA_HAS_FILENAMES,
	EXTRA_HAS_LINE_NUMBERS,
	EXTRA_HAS_INLINE_FRAMES,
	EXTRA_BUILD_ID, /* string (1.3); also an attribute process.executable.build_id.* is made */
	EXTRA_BUILD_ID_KIND,         /* int: 0 linker, 1 binary hash (1.3) */
	EXTRA_ID,                    /* int: Mapping.id, Location.id, Function.id where set (1.3) */
	EXTRA_ODD_TRACE_ID,          /* bytes: a trace_id that is not 16 bytes */
	EXTRA_ODD_SPAN_ID,           /* bytes: a span_id that is not 8 bytes */
	EXTRA_ODD_PROFILE_ID,        /* bytes: a profile_id that is neither empty nor 16 bytes */
	EXTRA_NESTED_UNKNOWN_FIELDS, /* bytes: raw fields that have no place in the model: of a
					Label (1.3), a key_strindex beside another key; not written
					back */
	EXTRA_ATTRIBUTE_UNITS, /* array of kvlist {key, unit}: attribute_units that no attribute has
				  (<= 1.7) */
	EXTRA_LOCATION_INDEX,  /* array of int: Sample.location_index, of the sender's table, where
				  a run beside it names other locations (1.3) */
	EXTRA_SAMPLE_TYPE_UNKNOWN, /* bytes: unknown fields of the profile's sample_type */
	EXTRA_PERIOD_TYPE_UNKNOWN, /* bytes: the same of its period_type */
	EXTRA_UNIT_UNKNOWN, /* array of kvlist {key, fields}: unknown fields of attribute_units
			       (<= 1.7) */
};

/* Raw fields, tags and all: runs of them are joined when the message is sealed. */
static inline bool extra_is_raw(enum extra_key k)
{
	return k == EXTRA_UNKNOWN_FIELDS || k == EXTRA_NESTED_UNKNOWN_FIELDS ||
	       k == EXTRA_ENTITY_REFS || k == EXTRA_SAMPLE_TYPE_UNKNOWN ||
	       k == EXTRA_PERIOD_TYPE_UNKNOWN;
}

struct extra {
	enum message_kind message;
	enum extra_key key;
	uint32_t index;
	struct any_value value;
};

/*
 * Where a bad index of wire versions up to 1.7 stood: their tables and names are not the model's.
 * The path is [profile's path] root [entry_in[entry].] [part_in[part].] field [element].
 */
struct bad_origin {
	const char *root;  /* static: ".", ".profile.", "dictionary." or ""; NULL: the model's path
			      is the message's */
	const char *field; /* all names are static */
	const char *entry_in, *part_in; /* NULL: none */
	uint32_t entry, part, element;  /* part UINT32_MAX: there is but one */
	uint32_t profile;               /* of the model; UINT32_MAX: none, root begins the path */
	bool list;                      /* the field is repeated */
};

/* An index that pointed past its table (or was negative): 0 in the model. */
struct bad_index {
	enum message_kind message;
	uint32_t index;
	uint32_t element;  /* which element of a repeated field, else 0 */
	const char *field; /* the newest schema's name, static: "stack_index", "attribute_indices",
			      ... */
	const char *table; /* "stack_table", ... */
	int64_t value;
	uint32_t table_count;
	bool apart; /* the model has no slot for it: comments, labels, units without attribute, ...
		     */
	struct bad_origin origin;
};

struct profiles {
	struct arena arena;
	struct blob *body; /* what strings are borrowed from; NULL when nothing is */
	struct dictionary dict;

	struct resource_profiles *resources;
	struct scope_profiles *scopes;
	struct profile *profiles;
	struct sample *samples;
	uint32_t resource_count, scope_count, profile_count, sample_count;

	struct attribute_index *attribute_refs; /* all attribute_indices lists */
	int64_t *values;
	uint64_t *timestamps;
	uint32_t attribute_ref_count, value_count, timestamp_count;

	struct extra *extras; /* by (message, index) once sealed */
	uint32_t extra_count;
	struct bad_index *bad_indices; /* by (message, index, element) once sealed */
	uint32_t bad_index_count;
	uint32_t unknown_field_count;
	uint8_t moved_entries; /* bit 1 << (kind - MESSAGE_DICTIONARY), strings bit 0: entry 0 on
				  the wire was no zero value; it is the table's last */
	uint32_t refused_profile_count;

	uint8_t source_version; /* enum wire_version of wire/otlp.h */
	bool sealed;
};

/* An empty message with the zero entries of all seven tables. arena_limit_bytes 0 = none. */
struct profiles *profiles_new(size_t first_block_bytes, size_t arena_limit_bytes);
void profiles_free(struct profiles *p); /* NULL is fine */

static inline struct str profiles_string(const struct profiles *p, struct strindex i)
{
	return p->dict.strings[i.v];
}

/* What a sample stands for, by the rules of profiles.proto (Sample) and, for wire versions up
 * to 1.7, by what their senders meant. */
struct sample_total {
	uint64_t events; /* timestamps, else 1 */
	int64_t value;   /* sum of values; without values the number of timestamps. Saturates. */
};
struct sample_total sample_total(const struct profiles *p, const struct profile *profile,
				 const struct sample *s);
/*
 * Share i (< n) of a sum of which nobody said how it lies over n events: whole numbers that add up
 * to it and differ by 1 at most, the larger ones first.
 */
static inline int64_t value_share(int64_t sum, uint32_t n, uint32_t i)
{
	int64_t rest = sum % n;

	return sum / n + (rest > 0 && i < rest) - (rest < 0 && i < -rest);
}
/*
 * The values of a sample as v1.8 and later want them: one for each timestamp, none beside
 * timestamps that count 1 each, or a single one without timestamps. What came in v1.8 or later, or
 * was built here, goes as it is. Up to v1.7 a sample had one value for each sample_type whatever
 * its timestamps:
 * - the value 1 of a count beside n timestamps meant n events: the timestamps stand alone;
 * - another sum beside n timestamps, of which no sender said more: n shares of it. Sum, timestamps
 *   and number of events stay, and v1.7 is written with the sum again.
 */
struct sample_values {
	const int64_t *given; /* NULL: shares of `sum` */
	uint32_t count;
	int64_t sum; /* of shares */
};
struct sample_values sample_values_to_write(const struct profiles *p, const struct profile *profile,
					    const struct sample *s);
/* i < v->count */
static inline int64_t sample_value_to_write(const struct sample_values *v, uint32_t i)
{
	return v->given ? v->given[i] : value_share(v->sum, v->count, i);
}
/* What each of a sample's n timestamps counts: its value, 1 where there are none, else a share of
 * the sum. */
static inline int64_t sample_value_at(const struct sample_values *v, int64_t total, uint32_t n,
				      uint32_t i)
{
	if (v->count == 0)
		return 1;
	return v->count == n ? sample_value_to_write(v, i) : value_share(total, n, i);
}

/* The extras of one message: a run of p->extras. */
struct range profiles_extras(const struct profiles *p, enum message_kind message, uint32_t index);
const struct extra *profiles_extra(const struct profiles *p, enum message_kind message,
				   uint32_t index, enum extra_key key);
/* The bad indices of one message: a run of p->bad_indices. */
struct range profiles_bad_indices(const struct profiles *p, enum message_kind message,
				  uint32_t index);
/* The bad index of one field and element, or NULL. */
const struct bad_index *profiles_bad_index(const struct profiles *p, enum message_kind message,
					   uint32_t index, const char *field, uint32_t element);

/* The value of an attribute by key: in a resource's or scope's list, or in a list of
 * attribute_refs; NULL when not there. */
const struct any_value *key_values_find(struct key_values list, struct str key);
const struct any_value *profiles_attribute(const struct profiles *p, struct range attributes,
					   struct str key);

/* As Go's pcommon.Value.AsString(): text as it is, numbers in decimal, bytes in base64, arrays and
 * maps as JSON. */
struct buf;
void any_value_append_text(struct buf *b, const struct any_value *v);
bool any_value_equal(const struct any_value *a, const struct any_value *b);

/* The frame type of a location ("native", "kernel", "cpython", ...; profile.frame.type), "" when it
 * says none. */
struct str location_frame_type(const struct profiles *p, const struct location *l);

bool id_is_zero(const uint8_t *id, size_t len);
const char *message_kind_name(enum message_kind k); /* "Sample" */
const char *extra_key_name(enum extra_key k);       /* "aggregation_temporality" ... */

/*
 * The path of an entry for people:
 * "resource_profiles[3].scope_profiles[0].profiles[0].samples[17]", "dictionary.location_table[5]".
 * Field names are the newest schema's.
 */
void profiles_append_path(struct buf *b, const struct profiles *p, enum message_kind message,
			  uint32_t index);
/*
 * "<path>.stack_index is 7, stack_table has 5"; of a list: "<path>.attribute_indices[2] is 9,
 * attribute_table has 5". The path is the message's own, in its version's names.
 */
/* Where in its message: "stack_index", "comment_strindices[2]", "label[0].key". */
void bad_index_append_place(struct buf *b, const struct bad_index *bad);
void bad_index_append_text(struct buf *b, const struct profiles *p, const struct bad_index *bad);
