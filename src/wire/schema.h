/*
 * schema.h - the messages of OTLP profiles in every wire version, as data: names, numbers, types.
 *
 * For what goes by name rather than by speed: JSON keys, and the checker's paths. The protobuf
 * decoder and encoder have their own code. Memory: static. Threads: any. Source:
 * opentelemetry-proto v1.3.0 to v1.11.0: profiles.proto, profiles_service.proto, common.proto,
 * resource.proto.
 */
#pragma once
#include "wire/otlp.h"

enum schema_type {
	SCHEMA_INT32, /* a negative one takes ten bytes */
	SCHEMA_INT64,
	SCHEMA_UINT32,
	SCHEMA_UINT64,
	SCHEMA_FIXED64,
	SCHEMA_DOUBLE,
	SCHEMA_BOOL,
	SCHEMA_TEMPORALITY,   /* enum AggregationTemporality */
	SCHEMA_BUILD_ID_KIND, /* enum BuildIdKind (1.3) */
	SCHEMA_STRING,
	SCHEMA_BYTES,
	SCHEMA_ID16, /* bytes that OTLP/JSON writes in hex: trace_id, profile_id */
	SCHEMA_ID8,  /* span_id */
	SCHEMA_MESSAGE,
};

/* What a field means, whatever its number and spelling: for those that have a rule. */
enum schema_role {
	ROLE_NONE,
	ROLE_RESOURCE_PROFILES,
	ROLE_DICTIONARY,
	ROLE_RESOURCE,
	ROLE_SCOPE_PROFILES,
	ROLE_SCOPE,
	ROLE_PROFILES,
	ROLE_CONTAINED_PROFILE, /* ProfileContainer.profile (1.3) */
	ROLE_ATTRIBUTES,        /* repeated KeyValue */
	ROLE_ENTITY_REFS,
	ROLE_SCHEMA_URL,
	ROLE_MAPPING_TABLE,
	ROLE_LOCATION_TABLE,
	ROLE_FUNCTION_TABLE,
	ROLE_LINK_TABLE,
	ROLE_STRING_TABLE,
	ROLE_ATTRIBUTE_TABLE,
	ROLE_STACK_TABLE,
	ROLE_ATTRIBUTE_UNITS,
	ROLE_SAMPLE_TYPE,
	ROLE_SAMPLES,
	ROLE_TIME,
	ROLE_END_TIME,
	ROLE_DURATION,
	ROLE_PERIOD_TYPE,
	ROLE_PERIOD,
	ROLE_PROFILE_ID,
	ROLE_PAYLOAD_FORMAT,
	ROLE_PAYLOAD,
	ROLE_TEMPORALITY,
	ROLE_DEFAULT_SAMPLE_TYPE_INDEX, /* of sample_type (1.6, 1.7) */
	ROLE_STACK_INDEX,
	ROLE_LINK_INDEX,
	ROLE_VALUES,
	ROLE_TIMESTAMPS,
	ROLE_LOCATION_INDICES,
	ROLE_LOCATIONS_START,
	ROLE_LOCATIONS_LENGTH,
	ROLE_ATTRIBUTE_INDICES,
	ROLE_MAPPING_INDEX,
	ROLE_FUNCTION_INDEX,
	ROLE_STRING_INDEX, /* of the string table; 0 = "" */
	ROLE_MEMORY_START,
	ROLE_MEMORY_LIMIT,
	ROLE_LINES,
	ROLE_LINE_NUMBER, /* line, column and start_line: never negative */
	ROLE_TRACE_ID,
	ROLE_SPAN_ID,
	ROLE_KEY,          /* KeyValue.key */
	ROLE_KEY_STRINDEX, /* KeyValue.key_strindex, KeyValueAndUnit.key_strindex */
	ROLE_VALUE,        /* the AnyValue of either */
	ROLE_UNIT_STRINDEX,
	ROLE_LABELS, /* Sample.label (1.3) */
};

struct schema_message;

struct schema_field {
	const char *name;  /* as in the .proto file: "stack_index" */
	const char *alias; /* another version's name that JSON may use, or NULL */
	uint8_t number;
	enum schema_type type;
	bool repeated;
	bool optional; /* has presence: 0 is not absence */
	enum schema_role role;
	const struct schema_message *message;
};

struct schema_message {
	const char *name;
	const struct schema_field *fields;
	uint8_t field_count;
};

/* ExportProfilesServiceRequest of a version; for 1.6, whose request lacks the tables, ProfilesData.
 */
const struct schema_message *schema_request(enum wire_version version);
/* NULL when the message has no such field. */
const struct schema_field *schema_field_by_number(const struct schema_message *m, uint32_t number);
/* By JSON key: lowerCamelCase or as in the .proto file, the alias, too. */
const struct schema_field *schema_field_by_key(const struct schema_message *m, struct str key);
/* Is it a key of some message in some version? */
bool schema_key_exists(struct str key);
/* Is `key` the lowerCamelCase or the snake_case form of `name`? */
bool schema_key_matches(struct str key, const char *name);
/* The wire type its values come in one by one. */
uint32_t schema_wire_type(enum schema_type type);
