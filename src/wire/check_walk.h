/*
 * check_walk.h - inside of otlp_check(): a walk over the raw bytes by the schema of their version.
 *
 * The model would not do: decoding merges, adds zero entries and drops what is not set, which is
 * just what some rules are about. So each message is walked as it came, its path kept beside it;
 * what a field means is its role (schema.h), so that one rule serves all versions.
 */
#pragma once
#include "wire/check.h"
#include "wire/pb_reader.h"
#include "wire/schema.h"

enum { ROLE_COUNT = ROLE_LABELS + 1, CHECK_FIELDS_MOST = 24, CHECK_NESTING_MOST = 64 };

/* In the order of the roles that begin with ROLE_MAPPING_TABLE. */
enum check_table_kind {
	TABLE_MAPPING,
	TABLE_LOCATION,
	TABLE_FUNCTION,
	TABLE_LINK,
	TABLE_STRING,
	TABLE_ATTRIBUTE,
	TABLE_STACK,
	TABLE_UNITS,
	TABLE_COUNT,
};

struct check_table {
	const struct schema_field *field; /* NULL: the version has no such table */
	struct str *entries; /* as they came, over all occurrences of what holds them */
	bool *used;
	uint32_t count, cap;
	uint32_t walked; /* entries that the walk has been through */
};

/* The tables that indices refer to: of the request, or up to v1.5 of the profile. */
struct check_tables {
	struct check_table t[TABLE_COUNT];
	uint64_t *attribute_keys; /* hash of each attribute's key */
	bool present;             /* what holds them was there */
};

struct u64_list {
	uint64_t *at;
	uint32_t count, cap;
};

/* What a message's own fields said. */
struct check_fields {
	uint32_t count[ROLE_COUNT];
	uint64_t value[ROLE_COUNT];   /* the last scalar */
	struct str bytes[ROLE_COUNT]; /* the last string, bytes or message */
};

/* The profile that samples are checked against. */
struct check_profile {
	uint64_t time, duration;
	bool has_window;
	struct u64_list location_indices; /* up to v1.7 */
	uint32_t sample_types;
	int shape; /* of its first sample: enum sample_shape; 0 none yet */
};

struct check {
	struct check_result *out;
	uint32_t findings_cap, findings_limit;
	enum wire_version version;
	struct str body;
	struct buf path;
	struct buf text; /* scratch: the message of a finding */
	struct check_tables *tables;
	struct check_profile profile;
	struct u64_list list;       /* scratch: one list of the message at hand */
	struct u64_list identities; /* of the profile's samples: hash and index, alternating */
	uint32_t depth;             /* of nested AnyValues */
	bool references_allowed;    /* in Resource and InstrumentationScope */
};

static inline bool check_is_new(const struct check *c)
{
	return c->version >= WIRE_V1_8;
}

/* The walk over one message's fields. */
struct check_step {
	const struct schema_field *field;
	uint32_t element; /* which one of a repeated field */
	uint32_t type;    /* wire type that came */
	struct str bytes; /* PB_LEN */
	uint64_t value;   /* else */
};

struct check_walk {
	struct pb_reader r;
	const struct schema_message *message;
	uint32_t seen[CHECK_FIELDS_MOST]; /* elements so far, by place in the schema */
};

/* check_walk.c */
/* The next known field; false at the end or at a fault. `unknown`, when not NULL, is called for
 * those that are not. */
bool check_next(struct check *c, struct check_walk *w, struct check_step *step,
		bool report_unknown);
/* Do the message's own fields end where it ends? */
bool check_is_whole(const struct schema_message *m, struct str bytes);
struct check_walk check_walk_of(const struct schema_message *m, struct str bytes);
/* The scalars of one role, packed or not; quiet. */
void check_list(struct check *c, const struct schema_message *m, struct str bytes,
		enum schema_role role, struct u64_list *out);
/* Own fields only; quiet. */
void check_collect(struct check *c, const struct schema_message *m, struct str bytes,
		   struct check_fields *out);
bool check_is_zero(const struct schema_message *m, struct str bytes);
int64_t check_signed(const struct schema_field *f, uint64_t v);
void u64_push(struct u64_list *l, uint64_t v);

/* Paths: "a.b[3]"; what is put is taken off again by its mark. */
size_t check_path_push(struct check *c, const struct schema_field *f, uint32_t element);
void check_path_pop(struct check *c, size_t mark);

void check_find(struct check *c, enum check_severity severity, const char *rule, const char *format,
		...) __attribute__((format(printf, 4, 5)));
/* A finding at a field of the message at hand. */
void check_find_at(struct check *c, enum check_severity severity, const char *rule,
		   const char *field, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* check_message.c: the rules that hold for each field by its role, and the descent */
void check_message(struct check *c, const struct schema_message *m, struct str bytes,
		   struct check_fields *fields);

/* check_tables.c */
void check_tables_gather(struct check *c, struct check_tables *t, const struct schema_message *m,
			 struct str bytes);
void check_tables_release(struct check_tables *t);
/* Are all there, is entry 0 zero; afterwards, is each entry used and only once there. */
void check_tables_shape(struct check *c);
void check_tables_use(struct check *c);
void check_entry(struct check *c, const struct schema_field *f, struct str bytes, uint32_t index);
void check_index(struct check *c, const struct schema_field *f, uint64_t value);
void check_attribute_keys(struct check *c, const struct schema_message *m, struct str bytes);

/* check_profile.c */
void check_profile(struct check *c, const struct schema_message *m, struct str bytes);
void check_contained_profile(struct check *c, const struct schema_message *m, struct str bytes);
void check_sample(struct check *c, const struct schema_message *m, struct str bytes,
		  uint32_t index);
