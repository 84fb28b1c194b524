"""A client of Pyroscope's query and push API: messages built from the tables below by Google's protobuf, calls over Connect (protobuf,
JSON, GET) and gRPC. Names and numbers are those of the public API (querier/v1, push/v1, types/v1); nothing is the program's own."""

import base64
import gzip
import json
import urllib.parse

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

import clients
import web_pages

# message -> "field number type", a trailing * for repeated ones
MESSAGES = {
    "ProfileTypesRequest": ["start 1 int64", "end 2 int64"],
    "ProfileType": ["ID 1 string", "name 2 string", "sample_type 4 string", "sample_unit 5 string", "period_type 6 string", "period_unit 7 string"],
    "ProfileTypesResponse": ["profile_types 1 ProfileType*"],
    "LabelNamesRequest": ["matchers 1 string*", "start 2 int64", "end 3 int64"],
    "LabelNamesResponse": ["names 1 string*"],
    "LabelValuesRequest": ["name 1 string", "matchers 2 string*", "start 3 int64", "end 4 int64"],
    "LabelValuesResponse": ["names 1 string*"],
    "SeriesRequest": ["matchers 1 string*", "label_names 2 string*", "start 3 int64", "end 4 int64"],
    "LabelPair": ["name 1 string", "value 2 string"],
    "Labels": ["labels 1 LabelPair*"],
    "SeriesResponse": ["labels_set 1 Labels*"],
    "Location": ["name 1 string"],
    "GoPGO": ["keep_locations 1 uint32", "aggregate_callees 2 bool"],
    "StackTraceSelector": ["call_site 1 Location*", "go_pgo 2 GoPGO"],
    "SelectMergeStacktracesRequest": ["profile_typeID 1 string", "label_selector 2 string", "start 3 int64", "end 4 int64", "max_nodes 5 int64",
                                      "format 6 ProfileFormat", "stack_trace_selector 7 StackTraceSelector", "profile_id_selector 8 string*",
                                      "trace_id_selector 10 string*", "span_selector 11 string*"],
    "Level": ["values 1 int64*"],
    "FlameGraph": ["names 1 string*", "levels 2 Level*", "total 3 int64", "max_self 4 int64"],
    "SelectMergeStacktracesResponse": ["flamegraph 1 FlameGraph", "tree 2 bytes", "dot 3 string", "pprof 5 Profile"],
    "SelectMergeSpanProfileRequest": ["profile_typeID 1 string", "label_selector 2 string", "span_selector 3 string*", "start 4 int64", "end 5 int64",
                                      "max_nodes 6 int64", "format 7 ProfileFormat"],
    "SelectMergeSpanProfileResponse": ["flamegraph 1 FlameGraph", "tree 2 bytes"],
    "SelectMergeProfileRequest": ["profile_typeID 1 string", "label_selector 2 string", "start 3 int64", "end 4 int64", "max_nodes 5 int64",
                                  "stack_trace_selector 6 StackTraceSelector"],
    "SelectSeriesRequest": ["profile_typeID 1 string", "label_selector 2 string", "start 3 int64", "end 4 int64", "group_by 5 string*",
                            "step 6 double", "aggregation 7 Aggregation", "stack_trace_selector 8 StackTraceSelector", "limit 9 int64"],
    "Point": ["value 1 double", "timestamp 2 int64"],
    "PointSeries": ["labels 1 LabelPair*", "points 2 Point*"],
    "SelectSeriesResponse": ["series 1 PointSeries*"],
    "DiffRequest": ["left 1 SelectMergeStacktracesRequest", "right 2 SelectMergeStacktracesRequest"],
    "FlameGraphDiff": ["names 1 string*", "levels 2 Level*", "total 3 int64", "max_self 4 int64", "leftTicks 5 int64", "rightTicks 6 int64"],
    "DiffResponse": ["flamegraph 1 FlameGraphDiff"],
    "GetProfileStatsRequest": [],
    "GetProfileStatsResponse": ["data_ingested 1 bool", "oldest_profile_time 2 int64", "newest_profile_time 3 int64"],
    # profile.proto
    "ValueType": ["type 1 int64", "unit 2 int64"],
    "Label": ["key 1 int64", "str 2 int64", "num 3 int64", "num_unit 4 int64"],
    "Sample": ["location_id 1 uint64*", "value 2 int64*", "label 3 Label*"],
    "Mapping": ["id 1 uint64", "memory_start 2 uint64", "memory_limit 3 uint64", "file_offset 4 uint64", "filename 5 int64", "build_id 6 int64",
                "has_functions 7 bool", "has_filenames 8 bool", "has_line_numbers 9 bool", "has_inline_frames 10 bool"],
    "Line": ["function_id 1 uint64", "line 2 int64", "column 3 int64"],
    "PprofLocation": ["id 1 uint64", "mapping_id 2 uint64", "address 3 uint64", "line 4 Line*", "is_folded 5 bool"],
    "Function": ["id 1 uint64", "name 2 int64", "system_name 3 int64", "filename 4 int64", "start_line 5 int64"],
    "Profile": ["sample_type 1 ValueType*", "sample 2 Sample*", "mapping 3 Mapping*", "location 4 PprofLocation*", "function 5 Function*",
                "string_table 6 string*", "drop_frames 7 int64", "keep_frames 8 int64", "time_nanos 9 int64", "duration_nanos 10 int64",
                "period_type 11 ValueType", "period 12 int64", "comment 13 int64*", "default_sample_type 14 int64"],
    # push/v1
    "RawSample": ["raw_profile 1 bytes", "ID 2 string"],
    "RawProfileSeries": ["labels 1 LabelPair*", "samples 2 RawSample*"],
    "PushRequest": ["series 1 RawProfileSeries*"],
    "PushResponse": [],
}
ENUMS = {
    "ProfileFormat": ["PROFILE_FORMAT_UNSPECIFIED", "PROFILE_FORMAT_FLAMEGRAPH", "PROFILE_FORMAT_TREE", "PROFILE_FORMAT_DOT", "PROFILE_FORMAT_PPROF"],
    "Aggregation": ["TIME_SERIES_AGGREGATION_TYPE_SUM", "TIME_SERIES_AGGREGATION_TYPE_AVERAGE"],
}
FLAMEGRAPH, TREE, DOT, PPROF = 1, 2, 3, 4


def _classes():
    file = descriptor_pb2.FileDescriptorProto(name="pyroscope_for_tests.proto", package="t", syntax="proto3")
    kinds = {k.lower(): v for k, v in ((n[len("TYPE_"):], v) for n, v in descriptor_pb2.FieldDescriptorProto.Type.items())}
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for n, value in enumerate(values):
            enum.value.add(name=value, number=n)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            field_name, number, kind = text.split()
            f = message.field.add(name=field_name, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            if kind in kinds:
                f.type = kinds[kind]
            else:
                f.type, f.type_name = kinds["enum" if kind in ENUMS else "message"], f".t.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in MESSAGES}


CLASSES = _classes()


def message(name, /, **fields):
    return CLASSES[name](**fields)


QUERIER = "/querier.v1.QuerierService/"


def answer_class(method):
    return CLASSES["Profile" if method == "SelectMergeProfile" else method + "Response"]


class ConnectError(Exception):
    def __init__(self, status, body):
        self.status = status
        self.error = json.loads(body)
        super().__init__(f"HTTP {status}: {self.error}")


def post(address, path, body, content_type, headers=None):
    more = {"Content-Type": content_type, "Connect-Protocol-Version": "1"} | (headers or {})
    got = web_pages.request(address, "POST", path, body, more)
    data = gzip.decompress(got.body) if got.headers.get("content-encoding") == "gzip" else got.body
    if got.status != 200:
        assert got.headers["content-type"] == "application/json"
        raise ConnectError(got.status, data)
    assert got.headers["content-type"] == content_type, got.headers
    return data


def call(address, method, form="proto", headers=None, /, **fields):
    """One call; form: proto, json, get-json, get-proto, gzip, grpc."""
    request, answer = message(method + "Request", **fields), answer_class(method)
    path = QUERIER + method
    if form == "proto":
        return answer.FromString(post(address, path, request.SerializeToString(), "application/proto", headers))
    if form == "gzip":
        more = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"} | (headers or {})
        return answer.FromString(post(address, path, gzip.compress(request.SerializeToString()), "application/proto", more))
    if form == "json":
        body = json_format.MessageToJson(request).encode()
        return json_format.Parse(post(address, path, body, "application/json", headers), answer())
    if form == "grpc":
        with clients.channel(address) as ch:
            stub = ch.unary_unary(path, request_serializer=None, response_deserializer=answer.FromString)
            return stub(request.SerializeToString(), timeout=60)
    if form == "get-json":
        pairs = {"connect": "v1", "encoding": "json", "message": json_format.MessageToJson(request, preserving_proto_field_name=True)}
    else:
        packed = base64.urlsafe_b64encode(gzip.compress(request.SerializeToString())).decode().rstrip("=")
        pairs = {"connect": "v1", "encoding": "proto", "base64": "1", "compression": "gzip", "message": packed}
    got = web_pages.request(address, "GET", path + "?" + urllib.parse.urlencode(pairs), headers=headers)
    if got.status != 200:
        raise ConnectError(got.status, got.body)
    return json_format.Parse(got.body, answer()) if form == "get-json" else answer.FromString(got.body)


FORMS = ["proto", "json", "gzip", "get-json", "get-proto", "grpc"]


def bars(graph, per=4):
    """Levels -> a list of levels of (x, total, self, name), one such x, total, self for each side; checks what Grafana relies on."""
    levels, sides = [], (per - 1) // 3
    for n, level in enumerate(graph.levels):
        values, ends, out = list(level.values), [0] * sides, []
        assert len(values) % per == 0
        for i in range(0, len(values), per):
            bar = []
            for s in range(sides):
                offset, total, self_ = values[i + 3 * s:i + 3 * s + 3]
                assert offset >= 0 and total >= self_ >= 0
                bar.append((ends[s] + offset, total, self_))
                ends[s] += offset + total
            out.append((*bar, graph.names[values[i + per - 1]]))
        if n:
            for *bar, _ in out:
                assert any(all(p[s][0] <= bar[s][0] and bar[s][0] + bar[s][1] <= p[s][0] + p[s][1] for s in range(sides))
                           for p in levels[-1]), "a bar lies within one of the level above"
        levels.append(out)
    return levels


def stacks(graph):
    """FlameGraph -> stack of names -> self."""
    levels, out = bars(graph), {}
    paths = {}
    for n, level in enumerate(levels):
        at = 0
        for i, ((x, total, self_), name) in enumerate(level):
            if n == 0:
                paths[0, 0] = ()
            else:
                above = levels[n - 1]
                while not (above[at][0][0] <= x and x + total <= above[at][0][0] + above[at][0][1]):
                    at += 1
                paths[n, i] = (*paths[n - 1, at], name)
            if self_:
                out[paths[n, i]] = out.get(paths[n, i], 0) + self_
    return out


def read_tree(data):
    """The tree format: pre-order of (name, self, number of children) -> stack of names -> self."""
    at, out = 0, {}

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def node(path):
        nonlocal at
        n = number()
        name = data[at:at + n].decode()
        at += n
        self_, children = number(), number()
        here = (*path, name) if path or name else ()
        if self_:
            assert here not in out
            out[here] = self_
        for _ in range(children):
            node(here)

    if data:
        node(())
        assert at == len(data)
    return out


def pprof_stacks(profile, value=0):
    """A pprof -> stack of names, root first -> value."""
    s = profile.string_table
    functions = {f.id: s[f.name] for f in profile.function}
    locations = {x.id: [functions[line.function_id] for line in x.line] for x in profile.location}
    out = {}
    for sample in profile.sample:
        stack = tuple(reversed([n for i in sample.location_id for n in (locations[i] or ["?"])]))
        out[stack] = out.get(stack, 0) + sample.value[value]
    return out
