"""Every wire version of OTLP profiles as protobuf classes, made at run time by Google's protobuf from the tables below.

This is the tests' independent reader and writer: the program's own codec is never asked what a body means. The tables say
per message `name:number:type`; a type is a scalar's name, a message or an enum; `*` repeats it (packed where protobuf packs),
`?` gives it presence. test_schemas.py holds them against the official decodes of all fixtures and, for the newest version,
against the official opentelemetry-proto package.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _F.TYPE_STRING, "bytes": _F.TYPE_BYTES, "bool": _F.TYPE_BOOL, "double": _F.TYPE_DOUBLE,
    "int32": _F.TYPE_INT32, "int64": _F.TYPE_INT64, "uint32": _F.TYPE_UINT32, "uint64": _F.TYPE_UINT64,
    "fixed64": _F.TYPE_FIXED64,
}
_ENUMS = {
    "AggregationTemporality": ["AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA",
                               "AGGREGATION_TEMPORALITY_CUMULATIVE"],
    "BuildIdKind": ["BUILD_ID_LINKER", "BUILD_ID_BINARY_HASH"],
}

_COMMON = {
    "AnyValue": "string_value:1:string| bool_value:2:bool| int_value:3:int64| double_value:4:double| "
                "array_value:5:ArrayValue| kvlist_value:6:KeyValueList| bytes_value:7:bytes|",
    "ArrayValue": "values:1:AnyValue*",
    "KeyValueList": "values:1:KeyValue*",
    "KeyValue": "key:1:string value:2:AnyValue",
    "EntityRef": "schema_url:1:string type:2:string id_keys:3:string* description_keys:4:string*",
    "Resource": "attributes:1:KeyValue* dropped_attributes_count:2:uint32 entity_refs:3:EntityRef*",
    "InstrumentationScope": "name:1:string version:2:string attributes:3:KeyValue* dropped_attributes_count:4:uint32",
    "ResourceProfiles": "resource:1:Resource scope_profiles:2:ScopeProfiles* schema_url:3:string",
    "ScopeProfiles": "scope:1:InstrumentationScope profiles:2:Profile* schema_url:3:string",
    "Link": "trace_id:1:bytes span_id:2:bytes",
    "ExportProfilesServiceResponse": "partial_success:1:ExportProfilesPartialSuccess",
    "ExportProfilesPartialSuccess": "rejected_profiles:1:int64 error_message:2:string",
}

_V1_3 = _COMMON | {
    "Request": "resource_profiles:1:ResourceProfiles*",
    "ScopeProfiles": "scope:1:InstrumentationScope profiles:2:ProfileContainer* schema_url:3:string",
    "ProfileContainer": "profile_id:1:bytes start_time_unix_nano:2:fixed64 end_time_unix_nano:3:fixed64 attributes:4:KeyValue* "
                        "dropped_attributes_count:5:uint32 original_payload_format:6:string original_payload:7:bytes "
                        "profile:8:Profile",
    "Profile": "sample_type:1:ValueType* sample:2:Sample* mapping:3:Mapping* location:4:Location* function:5:Function* "
               "string_table:6:string* drop_frames:7:int64 keep_frames:8:int64 time_nanos:9:int64 duration_nanos:10:int64 "
               "period_type:11:ValueType period:12:int64 comment:13:int64* default_sample_type:14:int64 "
               "location_indices:15:int64* attribute_table:16:KeyValue* attribute_units:17:AttributeUnit* link_table:18:Link*",
    "Sample": "location_index:1:uint64* value:2:int64* label:3:Label* locations_start_index:7:uint64 "
              "locations_length:8:uint64 stacktrace_id_index:9:uint32 attributes:10:uint64* link:12:uint64 "
              "timestamps_unix_nano:13:uint64*",
    "Label": "key:1:int64 str:2:int64 num:3:int64 num_unit:4:int64",
    "ValueType": "type:1:int64 unit:2:int64 aggregation_temporality:3:AggregationTemporality",
    "Mapping": "id:1:uint64 memory_start:2:uint64 memory_limit:3:uint64 file_offset:4:uint64 filename:5:int64 "
               "build_id:6:int64 has_functions:7:bool has_filenames:8:bool has_line_numbers:9:bool "
               "has_inline_frames:10:bool build_id_kind:11:BuildIdKind attributes:12:uint64*",
    "Location": "id:1:uint64 mapping_index:2:uint64 address:3:uint64 line:4:Line* is_folded:5:bool type_index:6:uint32 "
                "attributes:7:uint64*",
    "Line": "function_index:1:uint64 line:2:int64 column:3:int64",
    "Function": "id:1:uint64 name:2:int64 system_name:3:int64 filename:4:int64 start_line:5:int64",
    "AttributeUnit": "attribute_key:1:int64 unit:2:int64",
}

_V1_4 = _COMMON | {
    "Request": "resource_profiles:1:ResourceProfiles*",
    "Profile": "sample_type:1:ValueType* sample:2:Sample* mapping_table:3:Mapping* location_table:4:Location* "
               "location_indices:5:int32* function_table:6:Function* attribute_table:7:KeyValue* "
               "attribute_units:8:AttributeUnit* link_table:9:Link* string_table:10:string* time_nanos:11:int64 "
               "duration_nanos:12:int64 period_type:13:ValueType period:14:int64 comment_strindices:15:int32* "
               "default_sample_type_strindex:16:int32 profile_id:17:bytes attributes:18:KeyValue* "
               "dropped_attributes_count:19:uint32 original_payload_format:20:string original_payload:21:bytes",
    "Sample": "locations_start_index:1:int32 locations_length:2:int32 value:3:int64* attribute_indices:4:int32* "
              "link_index:5:int32? timestamps_unix_nano:6:uint64*",
    "ValueType": "type_strindex:1:int32 unit_strindex:2:int32 aggregation_temporality:3:AggregationTemporality",
    "Mapping": "memory_start:1:uint64 memory_limit:2:uint64 file_offset:3:uint64 filename_strindex:4:int32 "
               "attribute_indices:5:int32* has_functions:6:bool has_filenames:7:bool has_line_numbers:8:bool "
               "has_inline_frames:9:bool",
    "Location": "mapping_index:1:int32? address:2:uint64 line:3:Line* is_folded:4:bool attribute_indices:5:int32*",
    "Line": "function_index:1:int32 line:2:int64 column:3:int64",
    "Function": "name_strindex:1:int32 system_name_strindex:2:int32 filename_strindex:3:int32 start_line:4:int64",
    "AttributeUnit": "attribute_key_strindex:1:int32 unit_strindex:2:int32",
}

_V1_5 = _V1_4 | {
    "Profile": _V1_4["Profile"].replace("attributes:18:KeyValue* ", "") + " attribute_indices:22:int32*",
}

_V1_6_TABLES = "mapping_table:{}:Mapping* location_table:{}:Location* function_table:{}:Function* link_table:{}:Link* " \
               "string_table:{}:string* attribute_table:{}:KeyValue* attribute_units:{}:AttributeUnit*"

_V1_6 = _V1_5 | {
    "Request": "resource_profiles:1:ResourceProfiles* " + _V1_6_TABLES.format(2, 3, 4, 5, 6, 7, 8),
    "Profile": "sample_type:1:ValueType* sample:2:Sample* location_indices:3:int32* time_nanos:4:int64 "
               "duration_nanos:5:int64 period_type:6:ValueType period:7:int64 comment_strindices:8:int32* "
               "default_sample_type_index:9:int32 profile_id:10:bytes dropped_attributes_count:11:uint32 "
               "original_payload_format:12:string original_payload:13:bytes attribute_indices:14:int32*",
}

_V1_7 = _V1_6 | {
    "Request": "resource_profiles:1:ResourceProfiles* dictionary:2:ProfilesDictionary",
    "ProfilesDictionary": _V1_6_TABLES.format(1, 2, 3, 4, 5, 6, 7),
}

_V1_8 = _COMMON | {
    "Request": "resource_profiles:1:ResourceProfiles* dictionary:2:ProfilesDictionary",
    "ProfilesDictionary": "mapping_table:1:Mapping* location_table:2:Location* function_table:3:Function* link_table:4:Link* "
                          "string_table:5:string* attribute_table:6:KeyValueAndUnit* stack_table:7:Stack*",
    "Profile": "sample_type:1:ValueType sample:2:Sample* time_unix_nano:3:fixed64 duration_nano:4:uint64 "
               "period_type:5:ValueType period:6:int64 comment_strindices:7:int32* profile_id:8:bytes "
               "dropped_attributes_count:9:uint32 original_payload_format:10:string original_payload:11:bytes "
               "attribute_indices:12:int32*",
    "Sample": "stack_index:1:int32 values:2:int64* attribute_indices:3:int32* link_index:4:int32 "
              "timestamps_unix_nano:5:fixed64*",
    "ValueType": "type_strindex:1:int32 unit_strindex:2:int32 aggregation_temporality:3:AggregationTemporality",
    "Mapping": "memory_start:1:uint64 memory_limit:2:uint64 file_offset:3:uint64 filename_strindex:4:int32 "
               "attribute_indices:5:int32*",
    "Location": "mapping_index:1:int32 address:2:uint64 line:3:Line* attribute_indices:4:int32*",
    "Line": "function_index:1:int32 line:2:int64 column:3:int64",
    "Function": "name_strindex:1:int32 system_name_strindex:2:int32 filename_strindex:3:int32 start_line:4:int64",
    "Stack": "location_indices:1:int32*",
    "KeyValueAndUnit": "key_strindex:1:int32 value:2:AnyValue unit_strindex:3:int32",
}

_V1_9 = _V1_8 | {
    "Profile": "sample_type:1:ValueType samples:2:Sample* time_unix_nano:3:fixed64 duration_nano:4:uint64 "
               "period_type:5:ValueType period:6:int64 profile_id:7:bytes dropped_attributes_count:8:uint32 "
               "original_payload_format:9:string original_payload:10:bytes attribute_indices:11:int32*",
    "ValueType": "type_strindex:1:int32 unit_strindex:2:int32",
    "Location": "mapping_index:1:int32 address:2:uint64 lines:3:Line* attribute_indices:4:int32*",
}

_V1_10 = _V1_9 | {
    "Sample": "stack_index:1:int32 attribute_indices:2:int32* link_index:3:int32 values:4:int64* "
              "timestamps_unix_nano:5:fixed64*",
    "KeyValue": "key:1:string value:2:AnyValue key_strindex:3:int32",
    "AnyValue": _COMMON["AnyValue"] + " string_value_strindex:8:int32|",
}

VERSIONS = {"1.3": _V1_3, "1.4": _V1_4, "1.5": _V1_5, "1.6": _V1_6, "1.7": _V1_7, "1.8": _V1_8, "1.9": _V1_9, "1.10": _V1_10}
NEWEST = "1.10"

_SERVICES = {"v1experimental": "opentelemetry.proto.collector.profiles.v1experimental.ProfilesService",
             "v1development": "opentelemetry.proto.collector.profiles.v1development.ProfilesService"}


def grpc_path(version):
    """The gRPC method that senders of this version call."""
    return f"/{_SERVICES['v1experimental' if version == '1.3' else 'v1development']}/Export"


def http_path(version):
    return "/v1experimental/profiles" if version == "1.3" else "/v1development/profiles"


def _message(name, text, package):
    out = descriptor_pb2.DescriptorProto(name=name)
    for field in text.split():
        fname, number, kind = field.split(":")
        f = out.field.add(name=fname, number=int(number), label=_F.LABEL_OPTIONAL)
        mark = kind[-1]
        kind = kind.rstrip("*?|")
        if mark == "*":
            f.label = _F.LABEL_REPEATED
        elif mark == "|":
            if not out.oneof_decl:
                out.oneof_decl.add(name="value")
            f.oneof_index = 0
        elif mark == "?":
            f.proto3_optional = True
            f.oneof_index = len(out.oneof_decl)
            out.oneof_decl.add(name="_" + fname)
        if kind in _SCALARS:
            f.type = _SCALARS[kind]
        else:
            f.type = _F.TYPE_ENUM if kind in _ENUMS else _F.TYPE_MESSAGE
            f.type_name = f".{package}.{kind}"
    return out


class Schema:
    """Classes of one version: schema.Request, schema.Profile, ..."""

    def __init__(self, version):
        self.version = version
        package = "flametap.tests.v" + version.replace(".", "_")
        file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package, syntax="proto3")
        for name, values in _ENUMS.items():
            e = file.enum_type.add(name=name)
            for number, value in enumerate(values):
                e.value.add(name=value, number=number)
        for name, text in VERSIONS[version].items():
            file.message_type.append(_message(name, text, package))
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        for name in VERSIONS[version]:
            setattr(self, name, message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")))


_made = {}


def schema(version):
    if version not in _made:
        _made[version] = Schema(version)
    return _made[version]
