#include "wire/schema.h"
#include "base/cleanup.h"

/* The number, the type and what hangs on it; a table row each, in the order of the .proto files. */
#define F(number_, name_, type_, ...)                                                 \
	{                                                                             \
		.name = name_, .number = number_, .type = SCHEMA_##type_, __VA_ARGS__ \
	}
#define R(number_, name_, type_, ...) F(number_, name_, type_, .repeated = true, ##__VA_ARGS__)
#define M(number_, name_, message_, ...) \
	F(number_, name_, MESSAGE, .message = &message_, ##__VA_ARGS__)
#define RM(number_, name_, message_, ...) \
	M(number_, name_, message_, .repeated = true, ##__VA_ARGS__)
#define STRINDEX(number_, name_) F(number_, name_, INT32, .role = ROLE_STRING_INDEX)
#define ATTRIBUTE_INDICES(number_) \
	R(number_, "attribute_indices", INT32, .role = ROLE_ATTRIBUTE_INDICES)
#define MESSAGE(variable, name_, fields_) \
	static const struct schema_message variable = { name_, fields_, ARRAY_LEN(fields_) }

/* ---- common.proto, resource.proto ---- */

/* v1.10 added the references (key_strindex, string_value_strindex); who reads older data meets
 * none. */

static const struct schema_message any_value;
static const struct schema_message key_value;

static const struct schema_field array_fields[] = { RM(1, "values", any_value) };
MESSAGE(array_value, "ArrayValue", array_fields);

static const struct schema_field kvlist_fields[] = { RM(1, "values", key_value) };
MESSAGE(kvlist, "KeyValueList", kvlist_fields);

static const struct schema_field any_value_fields[] = {
	F(1, "string_value", STRING, .optional = true),
	F(2, "bool_value", BOOL, .optional = true),
	F(3, "int_value", INT64, .optional = true),
	F(4, "double_value", DOUBLE, .optional = true),
	M(5, "array_value", array_value, .optional = true),
	M(6, "kvlist_value", kvlist, .optional = true),
	F(7, "bytes_value", BYTES, .optional = true),
	F(8, "string_value_strindex", INT32, .optional = true, .role = ROLE_STRING_INDEX),
};
MESSAGE(any_value, "AnyValue", any_value_fields);

static const struct schema_field key_value_fields[] = {
	F(1, "key", STRING, .role = ROLE_KEY),
	M(2, "value", any_value, .role = ROLE_VALUE),
	F(3, "key_strindex", INT32, .role = ROLE_KEY_STRINDEX),
};
MESSAGE(key_value, "KeyValue", key_value_fields);

static const struct schema_field entity_ref_fields[] = {
	F(1, "schema_url", STRING),
	F(2, "type", STRING),
	R(3, "id_keys", STRING),
	R(4, "description_keys", STRING),
};
MESSAGE(entity_ref, "EntityRef", entity_ref_fields);

static const struct schema_field resource_fields[] = {
	RM(1, "attributes", key_value, .role = ROLE_ATTRIBUTES),
	F(2, "dropped_attributes_count", UINT32),
	RM(3, "entity_refs", entity_ref, .role = ROLE_ENTITY_REFS),
};
MESSAGE(resource, "Resource", resource_fields);

static const struct schema_field scope_fields[] = {
	F(1, "name", STRING),
	F(2, "version", STRING),
	RM(3, "attributes", key_value, .role = ROLE_ATTRIBUTES),
	F(4, "dropped_attributes_count", UINT32),
};
MESSAGE(scope, "InstrumentationScope", scope_fields);

/* ---- what did not change between several versions ---- */

static const struct schema_field link_fields[] = {
	F(1, "trace_id", ID16, .role = ROLE_TRACE_ID),
	F(2, "span_id", ID8, .role = ROLE_SPAN_ID),
};
MESSAGE(link_message, "Link", link_fields);

static const struct schema_field line_fields[] = {
	F(1, "function_index", INT32, .role = ROLE_FUNCTION_INDEX),
	F(2, "line", INT64, .role = ROLE_LINE_NUMBER),
	F(3, "column", INT64, .role = ROLE_LINE_NUMBER),
};
MESSAGE(line, "Line", line_fields);

static const struct schema_field function_fields[] = {
	STRINDEX(1, "name_strindex"),
	STRINDEX(2, "system_name_strindex"),
	STRINDEX(3, "filename_strindex"),
	F(4, "start_line", INT64, .role = ROLE_LINE_NUMBER),
};
MESSAGE(function, "Function", function_fields);

static const struct schema_field value_type_1_9_fields[] = {
	STRINDEX(1, "type_strindex"),
	STRINDEX(2, "unit_strindex"),
};
MESSAGE(value_type_1_9, "ValueType", value_type_1_9_fields);

static const struct schema_field value_type_1_4_fields[] = {
	STRINDEX(1, "type_strindex"),
	STRINDEX(2, "unit_strindex"),
	F(3, "aggregation_temporality", TEMPORALITY, .role = ROLE_TEMPORALITY),
};
MESSAGE(value_type_1_4, "ValueType", value_type_1_4_fields);

static const struct schema_field mapping_1_8_fields[] = {
	F(1, "memory_start", UINT64, .role = ROLE_MEMORY_START),
	F(2, "memory_limit", UINT64, .role = ROLE_MEMORY_LIMIT),
	F(3, "file_offset", UINT64),
	STRINDEX(4, "filename_strindex"),
	ATTRIBUTE_INDICES(5),
};
MESSAGE(mapping_1_8, "Mapping", mapping_1_8_fields);

static const struct schema_field stack_fields[] = {
	R(1, "location_indices", INT32, .role = ROLE_LOCATION_INDICES),
};
MESSAGE(stack, "Stack", stack_fields);

static const struct schema_field key_value_and_unit_fields[] = {
	F(1, "key_strindex", INT32, .role = ROLE_KEY_STRINDEX),
	M(2, "value", any_value, .role = ROLE_VALUE),
	F(3, "unit_strindex", INT32, .role = ROLE_UNIT_STRINDEX),
};
MESSAGE(key_value_and_unit, "KeyValueAndUnit", key_value_and_unit_fields);

/* ResourceProfiles, ScopeProfiles and the request over a version's Profile. */
#define ENVELOPE(v, profile_message)                                                      \
	static const struct schema_field scope_profiles_##v##_fields[] = {                \
		M(1, "scope", scope, .role = ROLE_SCOPE),                                 \
		RM(2, "profiles", profile_message, .role = ROLE_PROFILES),                \
		F(3, "schema_url", STRING, .role = ROLE_SCHEMA_URL),                      \
	};                                                                                \
	MESSAGE(scope_profiles_##v, "ScopeProfiles", scope_profiles_##v##_fields);        \
	static const struct schema_field resource_profiles_##v##_fields[] = {             \
		M(1, "resource", resource, .role = ROLE_RESOURCE),                        \
		RM(2, "scope_profiles", scope_profiles_##v, .role = ROLE_SCOPE_PROFILES), \
		F(3, "schema_url", STRING, .role = ROLE_SCHEMA_URL),                      \
	};                                                                                \
	MESSAGE(resource_profiles_##v, "ResourceProfiles", resource_profiles_##v##_fields)

#define REQUEST(v, ...)                                                                            \
	static const struct schema_field request_##v##_fields[] = {                                \
		RM(1, "resource_profiles", resource_profiles_##v, .role = ROLE_RESOURCE_PROFILES), \
		##__VA_ARGS__                                                                      \
	};                                                                                         \
	MESSAGE(request_##v, "ExportProfilesServiceRequest", request_##v##_fields)

/* ---- v1.8, v1.9, v1.10 ---- */

static const struct schema_field location_1_9_fields[] = {
	F(1, "mapping_index", INT32, .role = ROLE_MAPPING_INDEX),
	F(2, "address", UINT64),
	RM(3, "lines", line, .alias = "line", .role = ROLE_LINES),
	ATTRIBUTE_INDICES(4),
};
MESSAGE(location_1_9, "Location", location_1_9_fields);

static const struct schema_field location_1_8_fields[] = {
	F(1, "mapping_index", INT32, .role = ROLE_MAPPING_INDEX),
	F(2, "address", UINT64),
	RM(3, "line", line, .alias = "lines", .role = ROLE_LINES),
	ATTRIBUTE_INDICES(4),
};
MESSAGE(location_1_8, "Location", location_1_8_fields);

#define DICTIONARY_1_8(v, location)                                                         \
	static const struct schema_field dictionary_##v##_fields[] = {                      \
		RM(1, "mapping_table", mapping_1_8, .role = ROLE_MAPPING_TABLE),            \
		RM(2, "location_table", location, .role = ROLE_LOCATION_TABLE),             \
		RM(3, "function_table", function, .role = ROLE_FUNCTION_TABLE),             \
		RM(4, "link_table", link_message, .role = ROLE_LINK_TABLE),                 \
		R(5, "string_table", STRING, .role = ROLE_STRING_TABLE),                    \
		RM(6, "attribute_table", key_value_and_unit, .role = ROLE_ATTRIBUTE_TABLE), \
		RM(7, "stack_table", stack, .role = ROLE_STACK_TABLE),                      \
	};                                                                                  \
	MESSAGE(dictionary_##v, "ProfilesDictionary", dictionary_##v##_fields)

DICTIONARY_1_8(1_9, location_1_9);
DICTIONARY_1_8(1_8, location_1_8);

static const struct schema_field sample_1_10_fields[] = {
	F(1, "stack_index", INT32, .role = ROLE_STACK_INDEX),
	ATTRIBUTE_INDICES(2),
	F(3, "link_index", INT32, .role = ROLE_LINK_INDEX),
	R(4, "values", INT64, .alias = "value", .role = ROLE_VALUES),
	R(5, "timestamps_unix_nano", FIXED64, .role = ROLE_TIMESTAMPS),
};
MESSAGE(sample_1_10, "Sample", sample_1_10_fields);

static const struct schema_field sample_1_8_fields[] = {
	F(1, "stack_index", INT32, .role = ROLE_STACK_INDEX),
	R(2, "values", INT64, .alias = "value", .role = ROLE_VALUES),
	ATTRIBUTE_INDICES(3),
	F(4, "link_index", INT32, .role = ROLE_LINK_INDEX),
	R(5, "timestamps_unix_nano", FIXED64, .role = ROLE_TIMESTAMPS),
};
MESSAGE(sample_1_8, "Sample", sample_1_8_fields);

#define PROFILE_1_9(v, sample)                                                                   \
	static const struct schema_field profile_##v##_fields[] = {                              \
		M(1, "sample_type", value_type_1_9, .role = ROLE_SAMPLE_TYPE),                   \
		RM(2, "samples", sample, .alias = "sample", .role = ROLE_SAMPLES),               \
		F(3, "time_unix_nano", FIXED64, .alias = "time_nanos", .role = ROLE_TIME),       \
		F(4, "duration_nano", UINT64, .alias = "duration_nanos", .role = ROLE_DURATION), \
		M(5, "period_type", value_type_1_9, .role = ROLE_PERIOD_TYPE),                   \
		F(6, "period", INT64, .role = ROLE_PERIOD),                                      \
		F(7, "profile_id", ID16, .role = ROLE_PROFILE_ID),                               \
		F(8, "dropped_attributes_count", UINT32),                                        \
		F(9, "original_payload_format", STRING, .role = ROLE_PAYLOAD_FORMAT),            \
		F(10, "original_payload", BYTES, .role = ROLE_PAYLOAD),                          \
		ATTRIBUTE_INDICES(11),                                                           \
	};                                                                                       \
	MESSAGE(profile_##v, "Profile", profile_##v##_fields)

PROFILE_1_9(1_10, sample_1_10);
PROFILE_1_9(1_9, sample_1_8);

static const struct schema_field profile_1_8_fields[] = {
	M(1, "sample_type", value_type_1_4, .role = ROLE_SAMPLE_TYPE),
	RM(2, "sample", sample_1_8, .alias = "samples", .role = ROLE_SAMPLES),
	F(3, "time_unix_nano", FIXED64, .alias = "time_nanos", .role = ROLE_TIME),
	F(4, "duration_nano", UINT64, .alias = "duration_nanos", .role = ROLE_DURATION),
	M(5, "period_type", value_type_1_4, .role = ROLE_PERIOD_TYPE),
	F(6, "period", INT64, .role = ROLE_PERIOD),
	R(7, "comment_strindices", INT32, .role = ROLE_STRING_INDEX),
	F(8, "profile_id", ID16, .role = ROLE_PROFILE_ID),
	F(9, "dropped_attributes_count", UINT32),
	F(10, "original_payload_format", STRING, .role = ROLE_PAYLOAD_FORMAT),
	F(11, "original_payload", BYTES, .role = ROLE_PAYLOAD),
	ATTRIBUTE_INDICES(12),
};
MESSAGE(profile_1_8, "Profile", profile_1_8_fields);

ENVELOPE(1_10, profile_1_10);
REQUEST(1_10, M(2, "dictionary", dictionary_1_9, .role = ROLE_DICTIONARY));
ENVELOPE(1_9, profile_1_9);
REQUEST(1_9, M(2, "dictionary", dictionary_1_9, .role = ROLE_DICTIONARY));
ENVELOPE(1_8, profile_1_8);
REQUEST(1_8, M(2, "dictionary", dictionary_1_8, .role = ROLE_DICTIONARY));

/* ---- v1.4 to v1.7 ---- */

static const struct schema_field attribute_unit_fields[] = {
	STRINDEX(1, "attribute_key_strindex"),
	STRINDEX(2, "unit_strindex"),
};
MESSAGE(attribute_unit, "AttributeUnit", attribute_unit_fields);

static const struct schema_field mapping_1_4_fields[] = {
	F(1, "memory_start", UINT64, .role = ROLE_MEMORY_START),
	F(2, "memory_limit", UINT64, .role = ROLE_MEMORY_LIMIT),
	F(3, "file_offset", UINT64),
	STRINDEX(4, "filename_strindex"),
	ATTRIBUTE_INDICES(5),
	F(6, "has_functions", BOOL),
	F(7, "has_filenames", BOOL),
	F(8, "has_line_numbers", BOOL),
	F(9, "has_inline_frames", BOOL),
};
MESSAGE(mapping_1_4, "Mapping", mapping_1_4_fields);

static const struct schema_field location_1_4_fields[] = {
	F(1, "mapping_index", INT32, .optional = true, .role = ROLE_MAPPING_INDEX),
	F(2, "address", UINT64),
	RM(3, "line", line, .role = ROLE_LINES),
	F(4, "is_folded", BOOL),
	ATTRIBUTE_INDICES(5),
};
MESSAGE(location_1_4, "Location", location_1_4_fields);

static const struct schema_field sample_1_4_fields[] = {
	F(1, "locations_start_index", INT32, .role = ROLE_LOCATIONS_START),
	F(2, "locations_length", INT32, .role = ROLE_LOCATIONS_LENGTH),
	R(3, "value", INT64, .role = ROLE_VALUES),
	ATTRIBUTE_INDICES(4),
	F(5, "link_index", INT32, .optional = true, .role = ROLE_LINK_INDEX),
	R(6, "timestamps_unix_nano", UINT64, .role = ROLE_TIMESTAMPS),
};
MESSAGE(sample_1_4, "Sample", sample_1_4_fields);

static const struct schema_field profile_1_7_fields[] = {
	RM(1, "sample_type", value_type_1_4, .role = ROLE_SAMPLE_TYPE),
	RM(2, "sample", sample_1_4, .role = ROLE_SAMPLES),
	R(3, "location_indices", INT32, .role = ROLE_LOCATION_INDICES),
	F(4, "time_nanos", INT64, .role = ROLE_TIME),
	F(5, "duration_nanos", INT64, .role = ROLE_DURATION),
	M(6, "period_type", value_type_1_4, .role = ROLE_PERIOD_TYPE),
	F(7, "period", INT64, .role = ROLE_PERIOD),
	R(8, "comment_strindices", INT32, .role = ROLE_STRING_INDEX),
	F(9, "default_sample_type_index", INT32, .role = ROLE_DEFAULT_SAMPLE_TYPE_INDEX),
	F(10, "profile_id", ID16, .role = ROLE_PROFILE_ID),
	F(11, "dropped_attributes_count", UINT32),
	F(12, "original_payload_format", STRING, .role = ROLE_PAYLOAD_FORMAT),
	F(13, "original_payload", BYTES, .role = ROLE_PAYLOAD),
	ATTRIBUTE_INDICES(14),
};
MESSAGE(profile_1_7, "Profile", profile_1_7_fields);

static const struct schema_field dictionary_1_7_fields[] = {
	RM(1, "mapping_table", mapping_1_4, .role = ROLE_MAPPING_TABLE),
	RM(2, "location_table", location_1_4, .role = ROLE_LOCATION_TABLE),
	RM(3, "function_table", function, .role = ROLE_FUNCTION_TABLE),
	RM(4, "link_table", link_message, .role = ROLE_LINK_TABLE),
	R(5, "string_table", STRING, .role = ROLE_STRING_TABLE),
	RM(6, "attribute_table", key_value, .role = ROLE_ATTRIBUTE_TABLE),
	RM(7, "attribute_units", attribute_unit, .role = ROLE_ATTRIBUTE_UNITS),
};
MESSAGE(dictionary_1_7, "ProfilesDictionary", dictionary_1_7_fields);

ENVELOPE(1_7, profile_1_7);
REQUEST(1_7, M(2, "dictionary", dictionary_1_7, .role = ROLE_DICTIONARY));

static const struct schema_field data_1_6_fields[] = {
	RM(1, "resource_profiles", resource_profiles_1_7, .role = ROLE_RESOURCE_PROFILES),
	RM(2, "mapping_table", mapping_1_4, .role = ROLE_MAPPING_TABLE),
	RM(3, "location_table", location_1_4, .role = ROLE_LOCATION_TABLE),
	RM(4, "function_table", function, .role = ROLE_FUNCTION_TABLE),
	RM(5, "link_table", link_message, .role = ROLE_LINK_TABLE),
	R(6, "string_table", STRING, .role = ROLE_STRING_TABLE),
	RM(7, "attribute_table", key_value, .role = ROLE_ATTRIBUTE_TABLE),
	RM(8, "attribute_units", attribute_unit, .role = ROLE_ATTRIBUTE_UNITS),
};
MESSAGE(data_1_6, "ProfilesData", data_1_6_fields);

/* v1.4 has the attributes by value (18), v1.5 by index (22); neither number means anything else in
 * the other. */
static const struct schema_field profile_1_4_fields[] = {
	RM(1, "sample_type", value_type_1_4, .role = ROLE_SAMPLE_TYPE),
	RM(2, "sample", sample_1_4, .role = ROLE_SAMPLES),
	RM(3, "mapping_table", mapping_1_4, .role = ROLE_MAPPING_TABLE),
	RM(4, "location_table", location_1_4, .role = ROLE_LOCATION_TABLE),
	R(5, "location_indices", INT32, .role = ROLE_LOCATION_INDICES),
	RM(6, "function_table", function, .role = ROLE_FUNCTION_TABLE),
	RM(7, "attribute_table", key_value, .role = ROLE_ATTRIBUTE_TABLE),
	RM(8, "attribute_units", attribute_unit, .role = ROLE_ATTRIBUTE_UNITS),
	RM(9, "link_table", link_message, .role = ROLE_LINK_TABLE),
	R(10, "string_table", STRING, .role = ROLE_STRING_TABLE),
	F(11, "time_nanos", INT64, .role = ROLE_TIME),
	F(12, "duration_nanos", INT64, .role = ROLE_DURATION),
	M(13, "period_type", value_type_1_4, .role = ROLE_PERIOD_TYPE),
	F(14, "period", INT64, .role = ROLE_PERIOD),
	R(15, "comment_strindices", INT32, .role = ROLE_STRING_INDEX),
	STRINDEX(16, "default_sample_type_strindex"),
	F(17, "profile_id", ID16, .role = ROLE_PROFILE_ID),
	RM(18, "attributes", key_value, .role = ROLE_ATTRIBUTES),
	F(19, "dropped_attributes_count", UINT32),
	F(20, "original_payload_format", STRING, .role = ROLE_PAYLOAD_FORMAT),
	F(21, "original_payload", BYTES, .role = ROLE_PAYLOAD),
	ATTRIBUTE_INDICES(22),
};
MESSAGE(profile_1_4, "Profile", profile_1_4_fields);

ENVELOPE(1_4, profile_1_4);
REQUEST(1_4);

/* ---- v1.3 (v1experimental): pprof's messages within a container ---- */

#define STRING64(number_, name_) F(number_, name_, INT64, .role = ROLE_STRING_INDEX)
#define ATTRIBUTES64(number_)    R(number_, "attributes", UINT64, .role = ROLE_ATTRIBUTE_INDICES)

static const struct schema_field value_type_1_3_fields[] = {
	STRING64(1, "type"),
	STRING64(2, "unit"),
	F(3, "aggregation_temporality", TEMPORALITY, .role = ROLE_TEMPORALITY),
};
MESSAGE(value_type_1_3, "ValueType", value_type_1_3_fields);

static const struct schema_field label_fields[] = {
	STRING64(1, "key"),
	STRING64(2, "str"),
	F(3, "num", INT64),
	STRING64(4, "num_unit"),
};
MESSAGE(label, "Label", label_fields);

static const struct schema_field sample_1_3_fields[] = {
	R(1, "location_index", UINT64, .role = ROLE_LOCATION_INDICES),
	R(2, "value", INT64, .role = ROLE_VALUES),
	RM(3, "label", label, .role = ROLE_LABELS),
	F(7, "locations_start_index", UINT64, .role = ROLE_LOCATIONS_START),
	F(8, "locations_length", UINT64, .role = ROLE_LOCATIONS_LENGTH),
	F(9, "stacktrace_id_index", UINT32),
	ATTRIBUTES64(10),
	F(12, "link", UINT64, .role = ROLE_LINK_INDEX),
	R(13, "timestamps_unix_nano", UINT64, .role = ROLE_TIMESTAMPS),
};
MESSAGE(sample_1_3, "Sample", sample_1_3_fields);

static const struct schema_field mapping_1_3_fields[] = {
	F(1, "id", UINT64),
	F(2, "memory_start", UINT64, .role = ROLE_MEMORY_START),
	F(3, "memory_limit", UINT64, .role = ROLE_MEMORY_LIMIT),
	F(4, "file_offset", UINT64),
	STRING64(5, "filename"),
	STRING64(6, "build_id"),
	F(7, "has_functions", BOOL),
	F(8, "has_filenames", BOOL),
	F(9, "has_line_numbers", BOOL),
	F(10, "has_inline_frames", BOOL),
	F(11, "build_id_kind", BUILD_ID_KIND),
	ATTRIBUTES64(12),
};
MESSAGE(mapping_1_3, "Mapping", mapping_1_3_fields);

static const struct schema_field line_1_3_fields[] = {
	F(1, "function_index", UINT64, .role = ROLE_FUNCTION_INDEX),
	F(2, "line", INT64, .role = ROLE_LINE_NUMBER),
	F(3, "column", INT64, .role = ROLE_LINE_NUMBER),
};
MESSAGE(line_1_3, "Line", line_1_3_fields);

static const struct schema_field location_1_3_fields[] = {
	F(1, "id", UINT64),      F(2, "mapping_index", UINT64, .role = ROLE_MAPPING_INDEX),
	F(3, "address", UINT64), RM(4, "line", line_1_3, .role = ROLE_LINES),
	F(5, "is_folded", BOOL), F(6, "type_index", UINT32, .role = ROLE_STRING_INDEX),
	ATTRIBUTES64(7),
};
MESSAGE(location_1_3, "Location", location_1_3_fields);

static const struct schema_field function_1_3_fields[] = {
	F(1, "id", UINT64),
	STRING64(2, "name"),
	STRING64(3, "system_name"),
	STRING64(4, "filename"),
	F(5, "start_line", INT64, .role = ROLE_LINE_NUMBER),
};
MESSAGE(function_1_3, "Function", function_1_3_fields);

static const struct schema_field attribute_unit_1_3_fields[] = {
	STRING64(1, "attribute_key"),
	STRING64(2, "unit"),
};
MESSAGE(attribute_unit_1_3, "AttributeUnit", attribute_unit_1_3_fields);

static const struct schema_field profile_1_3_fields[] = {
	RM(1, "sample_type", value_type_1_3, .role = ROLE_SAMPLE_TYPE),
	RM(2, "sample", sample_1_3, .role = ROLE_SAMPLES),
	RM(3, "mapping", mapping_1_3, .role = ROLE_MAPPING_TABLE),
	RM(4, "location", location_1_3, .role = ROLE_LOCATION_TABLE),
	RM(5, "function", function_1_3, .role = ROLE_FUNCTION_TABLE),
	R(6, "string_table", STRING, .role = ROLE_STRING_TABLE),
	STRING64(7, "drop_frames"),
	STRING64(8, "keep_frames"),
	F(9, "time_nanos", INT64, .role = ROLE_TIME),
	F(10, "duration_nanos", INT64, .role = ROLE_DURATION),
	M(11, "period_type", value_type_1_3, .role = ROLE_PERIOD_TYPE),
	F(12, "period", INT64, .role = ROLE_PERIOD),
	R(13, "comment", INT64, .role = ROLE_STRING_INDEX),
	STRING64(14, "default_sample_type"),
	R(15, "location_indices", INT64, .role = ROLE_LOCATION_INDICES),
	RM(16, "attribute_table", key_value, .role = ROLE_ATTRIBUTE_TABLE),
	RM(17, "attribute_units", attribute_unit_1_3, .role = ROLE_ATTRIBUTE_UNITS),
	RM(18, "link_table", link_message, .role = ROLE_LINK_TABLE),
};
MESSAGE(profile_1_3, "Profile", profile_1_3_fields);

static const struct schema_field container_fields[] = {
	F(1, "profile_id", ID16, .role = ROLE_PROFILE_ID),
	F(2, "start_time_unix_nano", FIXED64, .role = ROLE_TIME),
	F(3, "end_time_unix_nano", FIXED64, .role = ROLE_END_TIME),
	RM(4, "attributes", key_value, .role = ROLE_ATTRIBUTES),
	F(5, "dropped_attributes_count", UINT32),
	F(6, "original_payload_format", STRING, .role = ROLE_PAYLOAD_FORMAT),
	F(7, "original_payload", BYTES, .role = ROLE_PAYLOAD),
	M(8, "profile", profile_1_3, .role = ROLE_CONTAINED_PROFILE),
};
MESSAGE(container, "ProfileContainer", container_fields);

ENVELOPE(1_3, container);
REQUEST(1_3);

/* ---- look-up ---- */

static const struct schema_message *const requests[] = {
	[WIRE_V1_3] = &request_1_3, [WIRE_V1_4] = &request_1_4,   [WIRE_V1_5] = &request_1_4,
	[WIRE_V1_6] = &data_1_6,    [WIRE_V1_7] = &request_1_7,   [WIRE_V1_8] = &request_1_8,
	[WIRE_V1_9] = &request_1_9, [WIRE_V1_10] = &request_1_10,
};

const struct schema_message *schema_request(enum wire_version version)
{
	return requests[version == WIRE_AUTO ? WIRE_NEWEST : version];
}

const struct schema_field *schema_field_by_number(const struct schema_message *m, uint32_t number)
{
	for (uint8_t i = 0; i < m->field_count; i++)
		if (m->fields[i].number == number)
			return &m->fields[i];
	return NULL;
}

bool schema_key_matches(struct str key, const char *name)
{
	bool camel = true, snake = true; /* which spelling the key may still have */
	size_t at = 0;

	for (const char *n = name; *n; n++) {
		char want = *n;

		if (at == key.len)
			return false;
		if (*n == '_' && n[1]) {
			char upper = (char)(n[1] >= 'a' && n[1] <= 'z' ? n[1] - 'a' + 'A' : n[1]);

			if (camel && key.ptr[at] == upper) {
				snake = false;
				n++;
				want = upper;
			} else if (snake && key.ptr[at] == '_') {
				camel = false;
			}
		}
		if (key.ptr[at++] != want)
			return false;
	}
	return at == key.len;
}

const struct schema_field *schema_field_by_key(const struct schema_message *m, struct str key)
{
	for (uint8_t i = 0; i < m->field_count; i++) {
		const struct schema_field *f = &m->fields[i];

		if (schema_key_matches(key, f->name) ||
		    (f->alias && schema_key_matches(key, f->alias)))
			return f;
	}
	return NULL;
}

/* The messages form a graph with a cycle (AnyValue): only forward to those not among its ancestors'
 * kinds. */
static bool key_below(const struct schema_message *m, struct str key, int depth)
{
	if (schema_field_by_key(m, key))
		return true;
	if (depth == 0 || m == &any_value)
		return false;
	for (uint8_t i = 0; i < m->field_count; i++)
		if (m->fields[i].message && key_below(m->fields[i].message, key, depth - 1))
			return true;
	return false;
}

bool schema_key_exists(struct str key)
{
	enum { DEEPEST = 8 };

	for (enum wire_version v = WIRE_V1_3; v <= WIRE_NEWEST; v++)
		if (key_below(requests[v], key, DEEPEST))
			return true;
	return false;
}

uint32_t schema_wire_type(enum schema_type type)
{
	switch (type) {
	case SCHEMA_FIXED64:
	case SCHEMA_DOUBLE:
		return 1;
	case SCHEMA_STRING:
	case SCHEMA_BYTES:
	case SCHEMA_ID16:
	case SCHEMA_ID8:
	case SCHEMA_MESSAGE:
		return 2;
	case SCHEMA_INT32:
	case SCHEMA_INT64:
	case SCHEMA_UINT32:
	case SCHEMA_UINT64:
	case SCHEMA_BOOL:
	case SCHEMA_TEMPORALITY:
	case SCHEMA_BUILD_ID_KIND:
		return 0;
	}
	return 0;
}
