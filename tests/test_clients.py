"""Real clients against `flametap backend`: grpcio, the official messages, curl, HTTP/2 by hand; every encoding, every version."""

import json
import socket
import subprocess

import grpc
import hpack
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database, reflection_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2, profiles_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

import clients
import fixtures
import handmade
import otlp_json
import program
import schemas
from fixtures import BODIES

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate], ids=str)
def test_official_stub(backend, compression):
    server = backend()
    with clients.channel(server.grpc) as ch:
        stub = profiles_service_pb2_grpc.ProfilesServiceStub(ch)
        request = profiles_service_pb2.ExportProfilesServiceRequest.FromString(SMALL.bytes)
        response = stub.Export(request, compression=compression, timeout=program.HANG)
    assert not response.HasField("partial_success")
    assert server.stdout == SMALL.stdout_text


def test_new_body_on_the_old_path(backend):
    """A proxy that rewrites paths, or a sender that was updated halfway: the dictionary tells that this is no v1.3."""
    server = backend()
    assert clients.post(server.http, SMALL.bytes, path="/v1experimental/profiles").status == 200
    assert server.stdout == SMALL.stdout_text


def test_several_versions_at_once_on_one_listener(backend):
    """Every recorded body of every version, both service names, both transports, interleaved; each shown as decode shows it."""
    server = backend()
    want = [program.run("decode", b.path, check=0).stdout for b in BODIES]
    with clients.channel(server.grpc) as ch:
        for number, body in enumerate(BODIES):
            if number % 2:
                assert clients.export(ch, body.bytes, body.version) == b""
            else:
                a = clients.post(server.http, body.bytes, body.version)
                assert (a.status, a.body) == (200, b"")
                assert a.headers["content-type"] == "application/x-protobuf"
    assert server.stdout == b"".join(want)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate", "snappy", "identity"])
def test_grpc_encodings(backend, encoding):
    server = backend()
    a = clients.grpc_by_hand(server.grpc, SMALL.bytes, encoding=encoding)
    assert a.status == clients.OK, a
    assert clients.partial_success(a.body[5:]) == (0, "")
    assert server.stdout == SMALL.stdout_text


@pytest.mark.parametrize("encoding", [None, "gzip", "zstd", "deflate", "snappy"])
def test_http_encodings(backend, encoding):
    server = backend()
    a = clients.post(server.http, SMALL.bytes, encoding=encoding)
    assert a.status == 200, a
    assert server.stdout == SMALL.stdout_text


@pytest.mark.parametrize("path", ["/v1development/profiles", "/v1experimental/profiles", "/v1/profiles"])
def test_http_paths(backend, path):
    server = backend()
    body = SMALL if path != "/v1experimental/profiles" else fixtures.body("v1.3.1-experimental-oncpu-a")
    assert clients.post(server.http, body.bytes, path=path).status == 200
    assert server.stdout == program.run("decode", body.path).stdout


def test_curl_json(backend):
    server = backend()
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "-w", "%{http_code} %{content_type}", "-H", "Content-Type: application/json; charset=utf-8",
         "--data-binary", f"@{fixtures.OTLP / 'v1.11.0-synthetic-offcpu-links.otlp.json'}",
         f"http://{server.http}/v1development/profiles"], capture_output=True, text=True, timeout=program.HANG, check=True)
    body, _, rest = done.stdout.rpartition("}")
    assert json.loads(body + "}") in ({}, {"partialSuccess": {}})
    assert rest == "200 application/json"
    assert server.stdout == SMALL.stdout_text


def test_curl_speaks_http2_to_the_http_port(backend):
    server = backend()
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code} %{http_version}",
         "-H", "Content-Type: application/x-protobuf", "--data-binary", f"@{SMALL.path}",
         f"http://{server.http}/v1development/profiles"], capture_output=True, text=True, timeout=program.HANG, check=True)
    assert done.stdout == "200 2"
    assert server.stdout == SMALL.stdout_text


def test_chunked_and_expect_continue(backend):
    server = backend()
    subprocess.run(
        ["curl", "-sS", "--fail", "--noproxy", "*", "-H", "Content-Type: application/x-protobuf", "-H", "Transfer-Encoding: chunked",
         "-H", "Expect: 100-continue", "--data-binary", f"@{fixtures.body(fixtures.BIG).path}",
         f"http://{server.http}/v1development/profiles"], capture_output=True, timeout=program.HANG, check=True)
    assert server.stdout == fixtures.body(fixtures.BIG).stdout_text


def test_json_hand_made_equals_protobuf(backend):
    """The same message as JSON and as protobuf prints the same."""
    request = handmade.rich(schemas.NEWEST)
    server = backend("-stdout.layout", "full")
    assert clients.post(server.http, request.SerializeToString()).status == 200
    first = server.stdout
    assert first
    assert clients.post(server.http, otlp_json.dumps(request), content_type="application/json").status == 200
    # entity_refs are kept as protobuf bytes, of which there is more than one spelling
    assert _without(server.stdout[len(first):], b"entity_refs") == _without(first, b"entity_refs")


def _without(text, word):
    return [line for line in text.split(b"\n") if word not in line]


# ---- health and reflection ----

def test_health_service(backend):
    server = backend()
    with clients.channel(server.grpc) as ch:
        stub = health_pb2_grpc.HealthStub(ch)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=program.HANG).status == health_pb2.HealthCheckResponse.SERVING
        # the server as a whole, and each service that reflection lists and others that are answered
        names = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(ch).get_services()
        listed = stub.List(health_pb2.HealthListRequest(), timeout=program.HANG).statuses
        assert {"", "opentelemetry.proto.collector.trace.v1.TraceService", *names} <= set(listed)
        for name, answer in listed.items():
            assert answer == stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=program.HANG) == health_pb2.HealthCheckResponse(status=1), name
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=program.HANG)
        assert next(iter(watch)).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
        with pytest.raises(grpc.RpcError) as e:
            stub.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=program.HANG)
        assert e.value.code() == grpc.StatusCode.NOT_FOUND


def test_reflection_describes_the_service(backend):
    """What grpcurl does: list services, fetch descriptors, call with them."""
    server = backend()
    with clients.channel(server.grpc) as ch:
        database = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(ch)
        services = set(database.get_services())
        assert {"opentelemetry.proto.collector.profiles.v1development.ProfilesService", "grpc.health.v1.Health"} <= services
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("opentelemetry.proto.collector.profiles.v1development.ProfilesService")
        export = service.FindMethodByName("Export")
        ours = descriptor_pb2.DescriptorProto()
        export.input_type.CopyToProto(ours)
        assert [(f.name, f.number) for f in ours.field] == [("resource_profiles", 1), ("dictionary", 2)]
        # every message of the newest schema, field by field, equals the official package's
        for name in ("Profile", "Sample", "ProfilesDictionary", "Stack", "Location", "Line", "Function", "Mapping", "Link", "KeyValueAndUnit"):
            full = f"opentelemetry.proto.profiles.v1development.{name}"
            official = profiles_service_pb2.ExportProfilesServiceRequest.DESCRIPTOR.file.pool.FindMessageTypeByName(full)
            mine = pool.FindMessageTypeByName(full)
            assert [(f.name, f.number, f.type) for f in mine.fields] == [(f.name, f.number, f.type) for f in official.fields]


def test_reflection_describes_all_that_it_lists(backend):
    """`grpcurl describe` asks for each listed service; types, methods and streams equal the official packages'."""
    server = backend()
    official = {"grpc.health.v1.Health": health_pb2.DESCRIPTOR.services_by_name["Health"],
                "grpc.reflection.v1alpha.ServerReflection": reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]}
    with clients.channel(server.grpc) as ch:
        database = proto_reflection_descriptor_database.ProtoReflectionDescriptorDatabase(ch)
        services = set(database.get_services())
        assert len(services) == 5 and set(official) <= services
        pool = DescriptorPool(database)
        for name in services:
            assert pool.FindServiceByName(name).full_name == name
        for name, wanted in official.items():
            ours = pool.FindServiceByName(name)
            assert sorted(m.name for m in ours.methods) == sorted(wanted.methods_by_name)
            for method in ours.methods:
                other = wanted.methods_by_name[method.name]
                assert (method.client_streaming, method.server_streaming) == (other.client_streaming, other.server_streaming)
                assert_same_message(method.input_type, other.input_type)
                assert_same_message(method.output_type, other.output_type)


def assert_same_message(ours, official):
    assert ours.full_name == official.full_name
    assert [o.name for o in ours.oneofs] == [o.name for o in official.oneofs]
    seen, wanted = ([(f.name, f.number, f.type, f.is_repeated, f.containing_oneof and f.containing_oneof.name) for f in m.fields]
                    for m in (ours, official))
    assert seen == wanted
    assert ours.GetOptions().map_entry == official.GetOptions().map_entry
    for f, g in zip(ours.fields, official.fields):
        if f.enum_type:
            assert f.enum_type.full_name == g.enum_type.full_name
            assert {v.name: v.number for v in f.enum_type.values} == {v.name: v.number for v in g.enum_type.values}
        if f.message_type and f.message_type.full_name != ours.full_name:
            assert_same_message(f.message_type, g.message_type)


# ---- other signals ----

SIGNALS = [
    ("trace", "TraceService", trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse,
     "/v1/traces", "rejected_spans", lambda r: r.resource_spans.add().scope_spans.add().spans),
    ("metrics", "MetricsService", metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse,
     "/v1/metrics", "rejected_data_points",
     lambda r: r.resource_metrics.add().scope_metrics.add().metrics.add().sum.data_points),
    ("logs", "LogsService", logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse,
     "/v1/logs", "rejected_log_records", lambda r: r.resource_logs.add().scope_logs.add().log_records),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s[0])
def test_other_signals_are_told_all_rejected(backend, signal):
    package, service, request_class, response_class, path, field, items = signal
    request = request_class()
    many = items(request)
    for _ in range(3):
        many.add()
    server = backend()
    method = f"/opentelemetry.proto.collector.{package}.v1.{service}/Export"
    with clients.channel(server.grpc) as ch:
        response = response_class.FromString(clients.export(ch, request.SerializeToString(), path=method))
    assert getattr(response.partial_success, field) == 3
    assert "profiles" in response.partial_success.error_message
    a = clients.post(server.http, request.SerializeToString(), path=path)
    assert a.status == 200
    assert getattr(response_class.FromString(a.body).partial_success, field) == 3
    from google.protobuf import json_format
    a = clients.post(server.http, json_format.MessageToJson(request).encode(), path=path, content_type="application/json")
    assert a.status == 200
    assert getattr(json_format.Parse(a.body, response_class()).partial_success, field) == 3
    # one notice per interval, however many come
    server.wait_line("not kept here")
    assert server.log.count("not kept here") == 1


def fill(message, depth=0):
    """Something in every field, so that every message of the signal is there once."""
    for f in message.DESCRIPTOR.fields:
        if f.type != f.TYPE_MESSAGE:
            value = {f.CPPTYPE_STRING: "v" if f.type == f.TYPE_STRING else b"\xff", f.CPPTYPE_BOOL: True, f.CPPTYPE_ENUM: 1}.get(f.cpp_type, 1)
            if f.is_repeated:
                getattr(message, f.name).append(value)
            else:
                setattr(message, f.name, value)
        elif depth < 9:
            inner = getattr(message, f.name)
            fill(inner.add() if f.is_repeated else inner, depth + 1)
            if not f.is_repeated:
                inner.SetInParent()
    return message


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s[0])
def test_broken_requests_of_other_signals_are_refused(backend, signal):
    """As Google's parser sees it: a body cut anywhere is refused where it is none any more, and a good one gets success."""
    package, service, request_class, response_class, path, _, items = signal
    from google.protobuf import json_format
    request = request_class()
    one = fill(items(request).add())
    server = backend()
    whole, method = request.SerializeToString(), f"/opentelemetry.proto.collector.{package}.v1.{service}/Export"
    good = 0
    for end in sorted({*range(0, len(whole), 7 if not program.LONG else 1), *range(len(whole) - 9, len(whole) + 1), 1, 2, 3}):
        try:
            request_class.FromString(whole[:end])
            want, good = 200, good + 1
        except Exception:  # noqa: BLE001 (the library's own)
            want = 400
        a = clients.post(server.http, whole[:end], path=path)
        assert a.status == want, end
        if want == 400:
            status = a.rpc_status
            assert status.code == clients.INVALID_ARGUMENT and package in status.message
    assert good >= 2
    one.Clear()
    text = json_format.MessageToJson(request).encode()
    for broken in (text[:-1], text + b"}", b"", b"[]", b"{"):
        a = clients.post(server.http, broken, path=path, content_type="application/json")
        assert a.status == 400 and json.loads(a.body)["code"] == clients.INVALID_ARGUMENT
    with clients.channel(server.grpc) as ch:
        assert clients.export_status(ch, whole[:-1], path=method)[0] == clients.INVALID_ARGUMENT


COLLECTOR = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "127.0.0.1:0"}
      http: {endpoint: "127.0.0.1:0"}
exporters:
  nop:
service:
  pipelines:
    profiles: {receivers: [otlp], exporters: [nop]}
"""


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s[0])
def test_collector_refuses_signals_without_pipeline(start, tmp_path, signal):
    package, service, request_class, _, path, _, _ = signal
    config = tmp_path / "collector.yaml"
    config.write_text(COLLECTOR)
    server = start("collector", "--config", config, "--feature-gates=service.profilesSupport")
    with clients.channel(server.grpc) as ch:
        code, text = clients.export_status(ch, b"", path=f"/opentelemetry.proto.collector.{package}.v1.{service}/Export")
        assert code == clients.UNIMPLEMENTED
        assert "unknown service" in text and package in text
        assert clients.export(ch, SMALL.bytes) == b""
    assert clients.post(server.http, b"", path=path).status == 404


# ---- statuses ----

HEAD = b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("kind", ["application/json", "application/x-protobuf"])
@pytest.mark.parametrize("status, head", [
    (400, HEAD + b"%sContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, HEAD + b"%sContent-Length: x\r\n\r\n"),
    (400, HEAD + b"bad header\r\n%s\r\n"),
    (400, b"POST /v1development/profiles HTTP/1.1\r\n%s\r\n"),
    (431, HEAD + b"%sX: " + b"v" * 70_000 + b"\r\n\r\n"),
    (431, HEAD + b"a: b\r\n" * 300 + b"%s\r\n"),
    (501, HEAD + b"%sTransfer-Encoding: gzip\r\n\r\n"),
    (505, b"POST /v1development/profiles HTTP/3.0\r\nHost: x\r\n%s\r\n"),
    (417, HEAD + b"%sExpect: miracles\r\nConnection: close\r\n\r\n"),
], ids=["two lengths", "length", "line", "no host", "large", "many", "coding", "version", "expect"])
def test_bad_heads_are_answered_in_the_encoding_of_the_request(backend, kind, status, head):
    server = backend("-receiver", "nop")
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as s:
        s.sendall(head % (b"content-TYPE: %s; charset=utf-8\r\n" % kind.encode()))
        got = b""
        while chunk := s.recv(65536):
            got += chunk
    fields, _, body = got.partition(b"\r\n\r\n")
    assert fields.startswith(b"HTTP/1.1 %d " % status) and b"content-type: %s" % kind.encode() in fields, fields
    if kind == "application/json":
        assert json.loads(body)["message"] and json.loads(body)["code"]
    else:
        assert status_pb2.Status.FromString(body).message


def test_http_statuses(backend):
    server = backend()
    a = clients.http_request(server.http, "GET", "/v1development/profiles")
    assert a.status == 405 and a.headers["allow"] == "POST"
    assert a.headers["content-type"] == "application/x-protobuf" and "405" in a.rpc_status.message
    a = clients.http_request(server.http, "PUT", "/v1development/profiles", b"{}", {"Content-Type": "application/json; charset=utf-8"})
    assert a.status == 405 and a.headers["allow"] == "POST"
    assert a.headers["content-type"] == "application/json" and "POST" in a.rpc_status.message
    a = clients.http_request(server.http, "POST", "/nope", b"x")
    assert a.status == 404 and a.headers["content-type"] == "application/x-protobuf" and a.rpc_status.message
    a = clients.post(server.http, b"x", content_type="text/plain")
    assert a.status == 415 and "application/x-protobuf" in a.rpc_status.message
    assert a.headers["content-type"] == "application/x-protobuf"
    deep = b'{"resourceProfiles":[{"resource":{"attributes":[{"key":"k","value":' + b'{"arrayValue":{"values":[' * 10_000
    a = clients.post(server.http, deep, content_type="application/json")
    assert a.status == 400 and a.rpc_status.code == clients.INVALID_ARGUMENT and "nested" in a.rpc_status.message
    a = clients.post(server.http, b"\xff\xff\xff")
    assert a.status == 400 and a.headers["content-type"] == "application/x-protobuf"
    assert a.rpc_status.code == clients.INVALID_ARGUMENT and a.rpc_status.message
    a = clients.post(server.http, b'{"resourceProfiles": [', content_type="application/json")
    assert a.status == 400 and a.headers["content-type"] == "application/json" and a.rpc_status.message
    a = clients.post(server.http, SMALL.bytes, headers={"Content-Encoding": "br"})
    assert a.status in (400, 415) and "br" in a.rpc_status.message
    a = clients.post(server.http, b"not gzip at all", headers={"Content-Encoding": "gzip"})
    assert a.status == 400 and a.rpc_status.code == clients.INVALID_ARGUMENT
    assert clients.post(server.http, SMALL.bytes).status == 200


def test_grpc_statuses(backend):
    server = backend()
    path = schemas.grpc_path(schemas.NEWEST)
    with clients.channel(server.grpc) as ch:
        assert clients.export_status(ch, b"\xff\xff\xff")[0] == clients.INVALID_ARGUMENT
        assert clients.export_status(ch, b"", path="/no.such.Service/Export")[0] == clients.UNIMPLEMENTED
        assert clients.export_status(ch, b"", path=path.replace("Export", "Import"))[0] == clients.UNIMPLEMENTED
        assert clients.export(ch, b"") == b"", "an empty request is a success"
    a = clients.grpc_by_hand(server.grpc, SMALL.bytes, encoding="br", flag=1)
    assert a.status == clients.UNIMPLEMENTED and "gzip" in (a.headers | a.trailers)["grpc-accept-encoding"]
    a = clients.grpc_by_hand(server.grpc, SMALL.bytes, flag=1)
    assert a.status == clients.INTERNAL
    a = clients.grpc_by_hand(server.grpc, SMALL.bytes, encoding="gzip", flag=0)
    assert a.status == clients.OK, "an uncompressed message may come although grpc-encoding is set"
    with clients.H2(server.grpc) as c:
        assert c.call(path, clients.frame(SMALL.bytes) * 2).status in (clients.INTERNAL, clients.UNIMPLEMENTED, clients.INVALID_ARGUMENT)
        assert c.call(path, clients.frame(SMALL.bytes)[:-9]).status in (clients.INTERNAL, clients.INVALID_ARGUMENT)
        assert c.call(path, b"").status in (clients.INTERNAL, clients.INVALID_ARGUMENT)
        assert c.call(path, clients.frame(SMALL.bytes)).status == clients.OK


def test_strict_refuses_only_the_bad_profiles(backend):
    """Two profiles, one with a bad index: strict keeps one and says so, lenient keeps both."""
    request = handmade.rich(schemas.NEWEST)
    request.resource_profiles[0].scope_profiles[1].profiles[0].samples[0].stack_index = 99
    body = request.SerializeToString()
    strict, lenient = backend("-strict"), backend()
    with clients.channel(strict.grpc) as ch:
        rejected, text = clients.partial_success(clients.export(ch, body))
    assert rejected == 1 and "stack_index" in text and "99" in text
    a = clients.post(strict.http, otlp_json.dumps(request), content_type="application/json")
    assert json.loads(a.body)["partialSuccess"]["rejectedProfiles"] == "1"
    assert strict.stdout.count(b"New Profile") == 2, "one of two profiles, twice sent"
    with clients.channel(lenient.grpc) as ch:
        rejected, text = clients.partial_success(clients.export(ch, body))
    assert rejected == 0
    assert lenient.stdout.count(b"New Profile") == 2
    assert b"<bad index 99 of 3>" in lenient.stdout


@pytest.mark.parametrize("version", ["1.8", "1.9", "1.10", "v1.11.0"])
def test_wire_version_can_be_forced(backend, version):
    """An ambiguous body reads as told, on both listeners; attributes or values, as the version has field 2."""
    c = schemas.schema("1.10")
    request = handmade.resource_body(samples=0)
    request.resource_profiles[0].scope_profiles[0].profiles[0].samples.add(stack_index=1, attribute_indices=[1], timestamps_unix_nano=[handmade.TIME])
    body = c.Request.FromString(request.SerializeToString()).SerializeToString()
    server = backend("-stdout.layout", "full", "-wire-version", version)
    with clients.channel(server.grpc) as ch:
        clients.export(ch, body)
    one = server.stdout
    clients.post(server.http, body)
    assert server.stdout == one * 2
    samples = one.partition(b"\nunreferenced")[0]  # what no sample names is shown behind that
    assert (b"thread.name" in samples) == (version not in ("1.8", "1.9"))


def test_deadline_of_the_client_is_known(backend):
    """grpc-timeout: a call whose time is over is answered DEADLINE_EXCEEDED, not kept waiting; garbage in it is no reason to die."""
    server = backend()
    path = schemas.grpc_path(schemas.NEWEST)
    with clients.H2(server.grpc) as c:
        stream = c.begin(path, [("grpc-timeout", "200m")])
        c.send(stream, clients.frame(SMALL.bytes)[:10], end_stream=False)
        a = c.finish(stream)
        assert a.status == clients.DEADLINE_EXCEEDED or a.reset is not None, a
        for odd in ("", "1x", "999999999S", "-1S", "S"):
            a = c.call(path, clients.frame(SMALL.bytes), [("grpc-timeout", odd)])
            assert a.status is not None, odd
        assert c.call(path, clients.frame(SMALL.bytes), [("grpc-timeout", "99999999H")]).status == clients.OK


def test_keepalive_pings_and_many_streams(backend):
    server = backend()
    path = schemas.grpc_path(schemas.NEWEST)
    with clients.H2(server.grpc) as c:
        assert c.alive()
        streams = [c.begin(path) for _ in range(50)]
        for s in streams:
            c.send(s, clients.frame(SMALL.bytes))
        assert [c.finish(s).status for s in streams] == [clients.OK] * 50
        assert c.alive()


def test_goaway_and_drain_on_stop():
    """A call under way when SIGTERM comes is still answered; the peer is told to go. Read raw: h2 ends with the first GOAWAY."""
    from test_http2_abuse import ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, connect, frames, raw, request_headers
    data = clients.frame(SMALL.bytes)
    with program.backend() as server:
        with connect(server) as c:
            c.sendall(raw(HEADERS, END_HEADERS, 1, request_headers()) + raw(DATA, 0, 1, data[:100]))
            assert clients.post(server.http, SMALL.bytes).status == 200
            server.signal(15)
            server.wait_line("(?i)shutdown|stopping|stop")
            c.sendall(raw(DATA, END_STREAM, 1, data[100:]))
            # whoever answers the ping has seen the announcement; where nobody does, ten seconds are waited out
            seen = frames(c, until=lambda f: f[0] == PING and not f[1] & ACK and c.sendall(raw(PING, ACK, 0, f[3])))
        assert any(kind == GOAWAY and p[4:8] == b"\0\0\0\0" for kind, _, _, p in seen), seen
        ends = [stream for kind, flags, stream, _ in seen if kind == HEADERS and flags & END_STREAM]
        assert ends == [1], seen
        decoder = hpack.Decoder()
        trailers = [dict(decoder.decode(p)) for kind, _, _, p in seen if kind == HEADERS][-1]
        assert trailers["grpc-status"] == "0", trailers
        assert server.process.wait(program.HANG) == 0
        assert server.stdout == SMALL.stdout_text * 2
