/*
 * descriptors.c - turns the tables below into FileDescriptorProtos
 * (google/protobuf/descriptor.proto).
 *
 * A message is one line of text: its name, with "|oneof" if it has one, then its fields, each
 * "name number type", separated by ";". A type ends in "*" when repeated and begins with "|" when
 * it is a member of the oneof. Types that are no scalar are messages: "common.X", "resource.X" and
 * "profiles.X" of the OTLP packages, or X of the same file; "enum.X" are enums, "enum.M.X" those
 * that lie in message M. A message "M.E" is the entry of a map in M. A service is its name, then
 * its methods, each "name request answer", with
 * "+" before what is a stream.
 */
#include "wire/descriptors.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "wire/pb_writer.h"

struct file_table {
	const char *name, *package;
	const char *dependencies[4];
	const char *messages[24];
	const char *enums[2]; /* "Name;VALUE 0;VALUE 1", or "Message.Name;..." */
	const char *service;
};

#define COMMON   "opentelemetry/proto/common/v1/common.proto"
#define RESOURCE "opentelemetry/proto/resource/v1/resource.proto"
#define DEV      "opentelemetry/proto/profiles/v1development/profiles.proto"
#define OLD      "opentelemetry/proto/profiles/v1experimental/profiles.proto"
#define OLD_EXT  "opentelemetry/proto/profiles/v1experimental/pprofextended.proto"
#define EXPORT   "ProfilesService;Export ExportProfilesServiceRequest ExportProfilesServiceResponse"

/* Of gRPC itself, in both packages that clients ask for. */
#define REFLECTION_MESSAGES                                                                        \
	"ServerReflectionRequest|message_request;host 1 string;file_by_filename 3 |string;"        \
	"file_containing_symbol 4 |string;file_containing_extension 5 |ExtensionRequest;"          \
	"all_extension_numbers_of_type 6 |string;list_services 7 |string",                         \
		"ExtensionRequest;containing_type 1 string;extension_number 2 int32",              \
		"ServerReflectionResponse|message_response;valid_host 1 string;"                   \
		"original_request 2 ServerReflectionRequest;"                                      \
		"file_descriptor_response 4 |FileDescriptorResponse;"                              \
		"all_extension_numbers_response 5 |ExtensionNumberResponse;"                       \
		"list_services_response 6 |ListServiceResponse;error_response 7 |ErrorResponse",   \
		"FileDescriptorResponse;file_descriptor_proto 1 bytes*",                           \
		"ExtensionNumberResponse;base_type_name 1 string;extension_number 2 int32*",       \
		"ListServiceResponse;service 1 ServiceResponse*", "ServiceResponse;name 1 string", \
		"ErrorResponse;error_code 1 int32;error_message 2 string"
#define REFLECTION_SERVICE \
	"ServerReflection;ServerReflectionInfo +ServerReflectionRequest +ServerReflectionResponse"

static const struct file_table tables[] = {
	{ COMMON,
	  "opentelemetry.proto.common.v1",
	  { NULL },
	  { "AnyValue|value;string_value 1 |string;bool_value 2 |bool;int_value 3 "
	    "|int64;double_value 4 "
	    "|double;"
	    "array_value 5 |ArrayValue;kvlist_value 6 |KeyValueList;bytes_value 7 "
	    "|bytes;string_value_strindex 8 |int32",
	    "ArrayValue;values 1 AnyValue*", "KeyValueList;values 1 KeyValue*",
	    "KeyValue;key 1 string;value 2 AnyValue;key_strindex 3 int32",
	    "InstrumentationScope;name 1 string;version 2 string;attributes 3 "
	    "KeyValue*;dropped_attributes_count 4 uint32",
	    "EntityRef;schema_url 1 string;type 2 string;id_keys 3 string*;description_keys 4 "
	    "string*" },
	  { NULL },
	  NULL },
	{ RESOURCE,
	  "opentelemetry.proto.resource.v1",
	  { COMMON },
	  { "Resource;attributes 1 common.KeyValue*;dropped_attributes_count 2 uint32;entity_refs "
	    "3 common.EntityRef*" },
	  { NULL },
	  NULL },
	{ DEV,
	  "opentelemetry.proto.profiles.v1development",
	  { COMMON, RESOURCE },
	  { "ProfilesDictionary;mapping_table 1 Mapping*;location_table 2 Location*;function_table "
	    "3 Function*;"
	    "link_table 4 Link*;string_table 5 string*;attribute_table 6 "
	    "KeyValueAndUnit*;stack_table 7 Stack*",
	    "ProfilesData;resource_profiles 1 ResourceProfiles*;dictionary 2 ProfilesDictionary",
	    "ResourceProfiles;resource 1 resource.Resource;scope_profiles 2 "
	    "ScopeProfiles*;schema_url 3 string",
	    "ScopeProfiles;scope 1 common.InstrumentationScope;profiles 2 Profile*;schema_url 3 "
	    "string",
	    "Profile;sample_type 1 ValueType;samples 2 Sample*;time_unix_nano 3 "
	    "fixed64;duration_nano 4 uint64;"
	    "period_type 5 ValueType;period 6 int64;profile_id 7 bytes;dropped_attributes_count 8 "
	    "uint32;"
	    "original_payload_format 9 string;original_payload 10 bytes;attribute_indices 11 "
	    "int32*",
	    "Link;trace_id 1 bytes;span_id 2 bytes",
	    "ValueType;type_strindex 1 int32;unit_strindex 2 int32",
	    "Sample;stack_index 1 int32;attribute_indices 2 int32*;link_index 3 int32;values 4 "
	    "int64*;"
	    "timestamps_unix_nano 5 fixed64*",
	    "Mapping;memory_start 1 uint64;memory_limit 2 uint64;file_offset 3 "
	    "uint64;filename_strindex 4 int32;"
	    "attribute_indices 5 int32*",
	    "Stack;location_indices 1 int32*",
	    "Location;mapping_index 1 int32;address 2 uint64;lines 3 Line*;attribute_indices 4 "
	    "int32*",
	    "Line;function_index 1 int32;line 2 int64;column 3 int64",
	    "Function;name_strindex 1 int32;system_name_strindex 2 int32;filename_strindex 3 "
	    "int32;start_line 4 int64",
	    "KeyValueAndUnit;key_strindex 1 int32;value 2 common.AnyValue;unit_strindex 3 int32" },
	  { NULL },
	  NULL },
	{ "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto",
	  "opentelemetry.proto.collector.profiles.v1development",
	  { DEV },
	  { "ExportProfilesServiceRequest;resource_profiles 1 profiles.ResourceProfiles*;"
	    "dictionary 2 profiles.ProfilesDictionary",
	    "ExportProfilesServiceResponse;partial_success 1 ExportProfilesPartialSuccess",
	    "ExportProfilesPartialSuccess;rejected_profiles 1 int64;error_message 2 string" },
	  { NULL },
	  EXPORT },
	{ OLD_EXT,
	  "opentelemetry.proto.profiles.v1experimental",
	  { COMMON },
	  { "Profile;sample_type 1 ValueType*;sample 2 Sample*;mapping 3 Mapping*;location 4 "
	    "Location*;"
	    "function 5 Function*;string_table 6 string*;drop_frames 7 int64;keep_frames 8 "
	    "int64;time_nanos 9 int64;"
	    "duration_nanos 10 int64;period_type 11 ValueType;period 12 int64;comment 13 int64*;"
	    "default_sample_type 14 int64;location_indices 15 int64*;attribute_table 16 "
	    "common.KeyValue*;"
	    "attribute_units 17 AttributeUnit*;link_table 18 Link*",
	    "AttributeUnit;attribute_key 1 int64;unit 2 int64",
	    "Link;trace_id 1 bytes;span_id 2 bytes",
	    "ValueType;type 1 int64;unit 2 int64;aggregation_temporality 3 "
	    "enum.AggregationTemporality",
	    "Sample;location_index 1 uint64*;value 2 int64*;label 3 Label*;locations_start_index 7 "
	    "uint64;"
	    "locations_length 8 uint64;stacktrace_id_index 9 uint32;attributes 10 uint64*;link 12 "
	    "uint64;"
	    "timestamps_unix_nano 13 uint64*",
	    "Label;key 1 int64;str 2 int64;num 3 int64;num_unit 4 int64",
	    "Mapping;id 1 uint64;memory_start 2 uint64;memory_limit 3 uint64;file_offset 4 "
	    "uint64;filename 5 int64;"
	    "build_id 6 int64;has_functions 7 bool;has_filenames 8 bool;has_line_numbers 9 bool;"
	    "has_inline_frames 10 bool;build_id_kind 11 enum.BuildIdKind;attributes 12 uint64*",
	    "Location;id 1 uint64;mapping_index 2 uint64;address 3 uint64;line 4 Line*;is_folded 5 "
	    "bool;"
	    "type_index 6 uint32;attributes 7 uint64*",
	    "Line;function_index 1 uint64;line 2 int64;column 3 int64",
	    "Function;id 1 uint64;name 2 int64;system_name 3 int64;filename 4 int64;start_line 5 "
	    "int64" },
	  { "AggregationTemporality;AGGREGATION_TEMPORALITY_UNSPECIFIED "
	    "0;AGGREGATION_TEMPORALITY_DELTA 1;"
	    "AGGREGATION_TEMPORALITY_CUMULATIVE 2",
	    "BuildIdKind;BUILD_ID_LINKER 0;BUILD_ID_BINARY_HASH 1" },
	  NULL },
	{ OLD,
	  "opentelemetry.proto.profiles.v1experimental",
	  { COMMON, RESOURCE, OLD_EXT },
	  { "ProfilesData;resource_profiles 1 ResourceProfiles*",
	    "ResourceProfiles;resource 1 resource.Resource;scope_profiles 2 "
	    "ScopeProfiles*;schema_url 3 string",
	    "ScopeProfiles;scope 1 common.InstrumentationScope;profiles 2 "
	    "ProfileContainer*;schema_url 3 string",
	    "ProfileContainer;profile_id 1 bytes;start_time_unix_nano 2 fixed64;end_time_unix_nano "
	    "3 fixed64;"
	    "attributes 4 common.KeyValue*;dropped_attributes_count 5 "
	    "uint32;original_payload_format 6 string;"
	    "original_payload 7 bytes;profile 8 Profile" },
	  { NULL },
	  NULL },
	{ "opentelemetry/proto/collector/profiles/v1experimental/profiles_service.proto",
	  "opentelemetry.proto.collector.profiles.v1experimental",
	  { OLD },
	  { "ExportProfilesServiceRequest;resource_profiles 1 profiles.ResourceProfiles*",
	    "ExportProfilesServiceResponse;partial_success 1 ExportProfilesPartialSuccess",
	    "ExportProfilesPartialSuccess;rejected_profiles 1 int64;error_message 2 string" },
	  { NULL },
	  EXPORT },
	{ "grpc/health/v1/health.proto",
	  "grpc.health.v1",
	  { NULL },
	  { "HealthCheckRequest;service 1 string",
	    "HealthCheckResponse;status 1 enum.HealthCheckResponse.ServingStatus",
	    "HealthListRequest", "HealthListResponse;statuses 1 HealthListResponse.StatusesEntry*",
	    "HealthListResponse.StatusesEntry;key 1 string;value 2 HealthCheckResponse" },
	  { "HealthCheckResponse.ServingStatus;UNKNOWN 0;SERVING 1;NOT_SERVING 2;SERVICE_UNKNOWN "
	    "3" },
	  "Health;Check HealthCheckRequest HealthCheckResponse;"
	  "List HealthListRequest HealthListResponse;"
	  "Watch HealthCheckRequest +HealthCheckResponse" },
	{ "grpc/reflection/v1/reflection.proto",
	  "grpc.reflection.v1",
	  { NULL },
	  { REFLECTION_MESSAGES },
	  { NULL },
	  REFLECTION_SERVICE },
	{ "grpc/reflection/v1alpha/reflection.proto",
	  "grpc.reflection.v1alpha",
	  { NULL },
	  { REFLECTION_MESSAGES },
	  { NULL },
	  REFLECTION_SERVICE },
};

enum { FILE_COUNT = ARRAY_LEN(tables) };

/* FieldDescriptorProto.Type */
static const struct {
	const char *name;
	uint8_t type;
} scalars[] = {
	{ "double", 1 }, { "int64", 3 },  { "uint64", 4 }, { "int32", 5 },   { "fixed64", 6 },
	{ "bool", 8 },   { "string", 9 }, { "bytes", 12 }, { "uint32", 13 },
};
enum { TYPE_MESSAGE = 11, TYPE_ENUM = 14, LABEL_OPTIONAL = 1, LABEL_REPEATED = 3 };

static struct otlp_descriptor descriptors[FILE_COUNT];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static uint8_t scalar_type(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(scalars); i++)
		if (str_is(name, scalars[i].name))
			return scalars[i].type;
	return 0;
}

/* ".opentelemetry.proto.common.v1.KeyValue" for "common.KeyValue". */
static struct str qualified_name(const struct file_table *f, struct str type, char *out, size_t cap)
{
	const char *package = f->package;
	bool prefixed = true;
	int n;

	if (str_has_prefix(type, STR("common.")))
		package = "opentelemetry.proto.common.v1";
	else if (str_has_prefix(type, STR("resource.")))
		package = "opentelemetry.proto.resource.v1";
	else if (str_has_prefix(type, STR("profiles.")))
		package = strstr(f->package, "v1experimental")
				  ? "opentelemetry.proto.profiles.v1experimental"
				  : "opentelemetry.proto.profiles.v1development";
	else
		prefixed = str_has_prefix(type, STR("enum."));
	if (prefixed)
		type = str_skip(type, (size_t)str_find(type, '.') + 1);
	n = snprintf(out, cap, ".%s.%.*s", package, STR_ARG(type));
	return str_from(out, (size_t)n);
}

/* FieldDescriptorProto: name 1, number 3, label 4, type 5, type_name 6, oneof_index 9. */
static void put_field(struct pb_writer *w, const struct file_table *f, struct str text)
{
	struct str name = { 0 }, number = { 0 }, type = { 0 };
	bool repeated, member, is_enum;
	size_t mark = pw_mark(w);
	uint64_t n = 0;
	uint8_t scalar;
	char full[128];

	str_split(&text, ' ', &name);
	str_split(&text, ' ', &number);
	str_split(&text, ' ', &type);
	str_to_u64(number, &n);
	member = str_has_prefix(type, STR("|"));
	type = str_skip(type, member);
	repeated = str_has_suffix(type, STR("*"));
	type.len -= repeated;
	is_enum = str_has_prefix(type, STR("enum."));
	scalar = scalar_type(type);
	if (member)
		pw_uint_present(w, 9, 0);
	if (!scalar)
		pw_bytes(w, 6, qualified_name(f, type, full, sizeof(full)));
	pw_uint(w, 5, scalar ? scalar : is_enum ? TYPE_ENUM : TYPE_MESSAGE);
	pw_uint(w, 4, repeated ? LABEL_REPEATED : LABEL_OPTIONAL);
	pw_uint(w, 3, n);
	pw_bytes(w, 1, name);
	pw_message(w, 2, mark); /* DescriptorProto.field */
}

/* Splits "Name;a;b" and returns the number of parts after the name. */
static size_t split_parts(const char *text, struct str *name, struct str *parts, size_t most)
{
	struct str rest = str_cstr(text);
	size_t count = 0;

	str_split(&rest, ';', name);
	while (count < most && str_split(&rest, ';', &parts[count]))
		count++;
	return count;
}

static size_t count_texts(const char *const *texts, size_t most)
{
	size_t n = 0;

	while (n < most && texts[n])
		n++;
	return n;
}

/* EnumDescriptorProto: name 1, value 2 {name 1, number 2}; `field` is its place in its parent. */
static void put_enum(struct pb_writer *w, uint32_t field, struct str name, const struct str *values,
		     size_t count)
{
	size_t mark = pw_mark(w);

	while (count) {
		struct str number = values[--count], value;
		size_t inner = pw_mark(w);
		uint64_t n = 0;

		str_split(&number, ' ', &value);
		str_to_u64(number, &n);
		pw_uint_present(w, 2, n);
		pw_bytes(w, 1, value);
		pw_message(w, 2, inner);
	}
	pw_bytes(w, 1, name);
	pw_message(w, field, mark);
}

/* What lies before the dot of "M.E", or empty; *name is what is left. */
static struct str split_parent(struct str *name)
{
	struct str parent = { 0 };

	if (str_find(*name, '.') >= 0)
		str_split(name, '.', &parent);
	return parent;
}

/* Those of the file itself (message empty), or those that lie in a message. */
static void put_enums(struct pb_writer *w, uint32_t field, const struct file_table *f,
		      struct str message)
{
	for (size_t i = count_texts(f->enums, ARRAY_LEN(f->enums)); i--;) {
		struct str name, parts[8];
		size_t count = split_parts(f->enums[i], &name, parts, ARRAY_LEN(parts));

		if (str_equal(split_parent(&name), message))
			put_enum(w, field, name, parts, count);
	}
}

/* The entries of the maps in a message: DescriptorProtos with options 7 {map_entry 7}. */
static void put_map_entries(struct pb_writer *w, const struct file_table *f, struct str message)
{
	for (size_t i = count_texts(f->messages, ARRAY_LEN(f->messages)); i--;) {
		struct str name, parts[2];
		size_t count = split_parts(f->messages[i], &name, parts, ARRAY_LEN(parts)),
		       mark = pw_mark(w), inner;

		if (!str_equal(split_parent(&name), message))
			continue;
		inner = pw_mark(w);
		pw_uint(w, 7, 1);
		pw_message(w, 7, inner);
		while (count)
			put_field(w, f, parts[--count]);
		pw_bytes(w, 1, name);
		pw_message(w, 3, mark); /* DescriptorProto.nested_type */
	}
}

/* DescriptorProto: name 1, field 2, nested_type 3, enum_type 4, oneof_decl 8 {name 1}. */
static void put_message(struct pb_writer *w, const struct file_table *f, const char *text)
{
	struct str oneof, name, parts[24];
	size_t count = split_parts(text, &oneof, parts, ARRAY_LEN(parts)), mark = pw_mark(w), inner;

	str_split(&oneof, '|', &name);
	if (str_find(name, '.') >= 0)
		return; /* lies in another */
	if (oneof.len) {
		inner = pw_mark(w);
		pw_bytes(w, 1, oneof);
		pw_message(w, 8, inner);
	}
	put_enums(w, 4, f, name);
	put_map_entries(w, f, name);
	while (count)
		put_field(w, f, parts[--count]);
	pw_bytes(w, 1, name);
	pw_message(w, 4, mark); /* FileDescriptorProto.message_type */
}

/* MethodDescriptorProto: name 1, input_type 2, output_type 3, client_streaming 5,
 * server_streaming 6. */
static void put_method(struct pb_writer *w, const struct file_table *f, struct str text)
{
	struct str name = { 0 }, in = { 0 }, out = { 0 };
	size_t mark = pw_mark(w);
	char full[128];

	str_split(&text, ' ', &name);
	str_split(&text, ' ', &in);
	str_split(&text, ' ', &out);
	pw_uint(w, 6, str_has_prefix(out, STR("+")));
	pw_uint(w, 5, str_has_prefix(in, STR("+")));
	out = str_skip(out, str_has_prefix(out, STR("+")));
	in = str_skip(in, str_has_prefix(in, STR("+")));
	pw_bytes(w, 3, qualified_name(f, out, full, sizeof(full)));
	pw_bytes(w, 2, qualified_name(f, in, full, sizeof(full)));
	pw_bytes(w, 1, name);
	pw_message(w, 2, mark);
}

/* ServiceDescriptorProto: name 1, method 2. */
static void put_service(struct pb_writer *w, const struct file_table *f)
{
	struct str name, methods[4];
	size_t count = split_parts(f->service, &name, methods, ARRAY_LEN(methods)),
	       mark = pw_mark(w);

	while (count)
		put_method(w, f, methods[--count]);
	pw_bytes(w, 1, name);
	pw_message(w, 6, mark);
}

/* FileDescriptorProto: name 1, package 2, dependency 3, message_type 4, enum_type 5, service 6,
 * syntax 12. */
static struct str make_file(const struct file_table *f)
{
	struct buf out;
	struct pb_writer w;
	size_t n;
	char *heap;

	buf_init(&out, 0);
	pw_begin(&w, &out, 4096);
	pw_bytes(&w, 12, STR("proto3"));
	if (f->service)
		put_service(&w, f);
	put_enums(&w, 5, f, STR(""));
	for (n = count_texts(f->messages, ARRAY_LEN(f->messages)); n;)
		put_message(&w, f, f->messages[--n]);
	for (n = count_texts(f->dependencies, ARRAY_LEN(f->dependencies)); n;)
		pw_bytes(&w, 3, str_cstr(f->dependencies[--n]));
	pw_bytes(&w, 2, str_cstr(f->package));
	pw_bytes(&w, 1, str_cstr(f->name));
	if (!pw_finish(&w))
		abort(); /* no limit was set */
	heap = buf_take(&out, &n);
	return str_from(heap, n);
}

static void make_all(void)
{
	for (size_t i = 0; i < FILE_COUNT; i++)
		descriptors[i] = (struct otlp_descriptor){ tables[i].name, make_file(&tables[i]) };
}

size_t otlp_descriptors(const struct otlp_descriptor **files)
{
	pthread_once(&made, make_all);
	*files = descriptors;
	return FILE_COUNT;
}
