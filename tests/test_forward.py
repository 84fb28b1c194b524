"""The otlp and otlphttp sinks against receivers whose answers a test decides: retry, split, versions, headers, errors."""

import time

import pytest
import yaml

import clients
import fixtures
import handmade
import program
import receivers
import schemas
import view
from ports import free_port
from test_decode import same, same_message

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
FAST_RETRY = {"retry_on_failure": {"initial_interval": "100ms", "max_interval": "300ms", "randomization_factor": 0}}


def source_view(body):
    return view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))


def read(body, version=schemas.NEWEST):
    return view.view(version, schemas.schema(version).Request.FromString(body))


@pytest.fixture
def forward(start, tmp_path):
    """forward(name, settings) runs `flametap collector` with one exporter and returns it."""
    def begin(name, settings, engine=None):
        file = tmp_path / f"forward-{len(list(tmp_path.iterdir()))}.yaml"
        service = {"pipelines": {"profiles": {"receivers": ["otlp"], "exporters": [name]}}}
        if engine:
            service["flametap"] = engine
        file.write_text(yaml.safe_dump({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}},
            "exporters": {name: settings}, "service": service}))
        return start("collector", "--config", file)

    return begin


def grpc_settings(receiver, **more):
    return {"endpoint": receiver.address, "tls": {"insecure": True}, "timeout": "60s"} | FAST_RETRY | more


def send(server, body, **options):
    with clients.channel(server.grpc) as ch:
        return clients.export(ch, body, **options)


# ---- wire versions out: read by Google's protobuf, not by ourselves ----

@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9", "1.10"])
@pytest.mark.parametrize("body", fixtures.one_per_version(), ids=repr)
def test_every_version_out_of_every_version(forward, version, body):
    with receivers.GrpcReceiver() as r:
        server = forward("otlp_grpc", grpc_settings(r, wire_version=version))
        assert send(server, body.bytes, version=body.version) == b""
        program.wait_for(lambda: r.bodies, what="the body at the receiver")
    assert r.paths == [schemas.grpc_path(schemas.NEWEST)]
    got = schemas.schema(version).Request.FromString(r.bodies[0])
    same_message(view.view(version, got), version, source_view(body), body.version)


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9", "1.10"])
@pytest.mark.parametrize("source", ["1.3", "1.5", "1.7", "1.8", "1.9", "1.10"])
def test_hand_made_bodies_out_as_every_version(forward, version, source):
    request = handmade.rich(source)
    with receivers.GrpcReceiver() as r:
        server = forward("otlp_grpc", grpc_settings(r, wire_version=version))
        send(server, request.SerializeToString(), version=source)
        program.wait_for(lambda: r.bodies, what="the body at the receiver")
    got = view.view(version, schemas.schema(version).Request.FromString(r.bodies[0]))
    same_message(got, version, view.view(source, request), source)


def test_temporality_and_comments_go_back_where_there_is_a_field(forward):
    request = handmade.rich("1.8")
    with receivers.GrpcReceiver() as r:
        server = forward("otlp_grpc", grpc_settings(r, wire_version="1.8"))
        send(server, request.SerializeToString())
        program.wait_for(lambda: r.bodies, what="the body")
    assert repr(read(r.bodies[0], "1.8")) == repr(view.view("1.8", request)), "extras too"


def test_unknown_fields_pass_through(forward):
    """A newer sender's field 999 arrives at the other end as it was."""
    unknown = b"\xba\x3e\x05later" + b"\xc0\x3e\x2a"
    with receivers.GrpcReceiver() as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, SMALL.bytes + unknown)
        program.wait_for(lambda: r.bodies, what="the body")
    assert unknown in r.bodies[0]


# ---- retry ----

def test_grpc_retry_until_it_is_taken(forward):
    with receivers.GrpcReceiver(_refuse_first(3, clients.UNAVAILABLE)) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, SMALL.bytes)
        program.wait_for(lambda: r.bodies, what="the fourth attempt")
        assert r.calls == 4 and len(r.bodies) == 1
        assert server.wait_line("Exporting failed. Will retry the request after interval")


def _refuse_first(n, code, delay=None):
    def answer(body, number):
        if number < n:
            raise receivers.Refuse(code, delay=delay)
        return b""
    return answer


@pytest.mark.parametrize("code", [1, 4, 10, 11, 14, 15])
def test_retryable_grpc_codes(forward, code):
    with receivers.GrpcReceiver(_refuse_first(1, code)) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, SMALL.bytes)
        program.wait_for(lambda: r.bodies, what="the second attempt")


@pytest.mark.parametrize("code", [2, 3, 5, 6, 7, 9, 12, 13, 16])
def test_permanent_grpc_codes(forward, code):
    with receivers.GrpcReceiver(_refuse_first(99, code)) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, SMALL.bytes)
        server.wait_line("Exporting failed. Dropping data|Dropping")
        time.sleep(0.5)
        assert r.calls == 1


def test_retry_info_is_obeyed(forward):
    with receivers.GrpcReceiver(_refuse_first(1, clients.RESOURCE_EXHAUSTED, delay=1.2)) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        started = time.monotonic()
        send(server, SMALL.bytes)
        program.wait_for(lambda: r.bodies, what="the second attempt")
        assert time.monotonic() - started >= 1.1


def test_too_large_is_split_with_minimal_dictionaries(forward):
    """RESOURCE_EXHAUSTED without RetryInfo: halves are tried; together they say what the whole said."""
    big = fixtures.body(fixtures.BIG)
    limit = 40_000

    def answer(body, number):
        if len(body) > limit:
            raise receivers.Refuse(clients.RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({len(body)} vs. {limit})")
        return b""

    with receivers.GrpcReceiver(answer) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, big.bytes)
        want = [(dict(res["attributes"])["process.pid"], s) for res, _, _, s in view.samples(source_view(big))]

        def got():
            return [(dict(res["attributes"])["process.pid"], s) for b in list(r.bodies) for res, _, _, s in view.samples(read(b))]

        program.wait_for(lambda: len(got()) >= len(want), what="all samples")
        assert sorted(map(repr, got())) == sorted(map(repr, want))
        assert max(map(len, r.bodies)) <= limit
        for b in r.bodies:
            _no_orphans(schemas.schema(schemas.NEWEST).Request.FromString(b))


def _no_orphans(request):
    used = {s.stack_index for r in request.resource_profiles for sc in r.scope_profiles for p in sc.profiles for s in p.samples}
    assert len(request.dictionary.stack_table) <= len(used | {0})


def test_partial_success_is_no_failure(forward):
    response = schemas.schema(schemas.NEWEST).ExportProfilesServiceResponse()
    response.partial_success.rejected_profiles, response.partial_success.error_message = 2, "two were odd"
    with receivers.GrpcReceiver(lambda b, n: response.SerializeToString()) as r:
        server = forward("otlp_grpc", grpc_settings(r))
        send(server, SMALL.bytes)
        assert "two were odd" in server.wait_line("Partial success")
        time.sleep(0.5)
        assert r.calls == 1


def test_peer_that_comes_late_and_goes_away(forward):
    """Nobody there at first, then there, then restarted on the same port: everything arrives."""
    address = f"127.0.0.1:{free_port()}"
    server = forward("otlp_grpc", {"endpoint": address, "tls": {"insecure": True}, "timeout": "60s"} | FAST_RETRY)
    marks = [f"mark-late-{i}" for i in range(6)]
    for m in marks[:2]:
        send(server, handmade.marked(m))
    time.sleep(0.5)
    with receivers.GrpcReceiver(address=address) as r:
        program.wait_for(lambda: len(r.bodies) == 2, what="what waited")
        for m in marks[2:4]:
            send(server, handmade.marked(m))
        program.wait_for(lambda: len(r.bodies) == 4, what="more")
        seen = list(r.bodies)
    for m in marks[4:]:
        send(server, handmade.marked(m))
    with receivers.GrpcReceiver(address=address) as r:
        program.wait_for(lambda: len(r.bodies) == 2, what="after the restart")
        seen += r.bodies
    found = [m for b in seen for m in handmade.marks_in(b.decode("latin-1"))]
    assert sorted(found) == marks


# ---- OTLP/HTTP ----

@pytest.mark.parametrize("compression", ["gzip", "zstd", "deflate", "snappy", "none"])
def test_http_sink(forward, compression):
    with receivers.HttpReceiver() as r:
        server = forward("otlp_http", {"endpoint": r.url, "compression": compression, "headers": {"X-Scope-OrgID": "tenant-1"}, "timeout": "60s"} | FAST_RETRY)
        send(server, SMALL.bytes)
        program.wait_for(lambda: r.bodies, what="the body")
    assert r.paths == ["/v1development/profiles"]
    assert r.headers[0]["x-scope-orgid"] == "tenant-1"
    assert r.headers[0].get("content-encoding", "none") == compression
    assert read(r.bodies[0]) == source_view(SMALL)


@pytest.mark.parametrize("status, delay, tries", [(429, 1, 2), (503, 1, 2), (502, None, 2), (504, None, 2), (500, None, 1), (400, None, 1), (404, None, 1), (413, None, 1)])
def test_http_statuses_decide_about_retry(forward, status, delay, tries):
    with receivers.HttpReceiver(_refuse_first(1, status, delay)) as r:
        server = forward("otlp_http", {"endpoint": r.url, "timeout": "60s"} | FAST_RETRY)
        started = time.monotonic()
        send(server, handmade.marked("mark-http-0"))
        if tries == 2:
            program.wait_for(lambda: r.bodies, what="the second attempt")
            assert delay is None or time.monotonic() - started >= delay
        elif status != 413:
            line = server.wait_line("Dropping data")
            assert str(status) in line
            assert r.calls == 1


def test_only_our_own_retries(start, tmp_path):
    """A peer that reads a request and closes a connection used before: repeated once, by us, and counted; libcurl would repeat it unseen."""
    def answer(_, number):
        if number in (1, 4):
            raise receivers.Hangup
        return b""

    with receivers.HttpReceiver(answer) as r:
        file = tmp_path / "c.yaml"
        file.write_text(yaml.safe_dump({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
            "exporters": {"otlp_http": {"endpoint": r.url, "timeout": "60s"} | FAST_RETRY},
            "service": {"telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0}}}}]}},
                        "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["otlp_http"]}}}}))
        server = start("collector", "--config", file, own_metrics=True)
        for n in range(4):
            send(server, handmade.marked(f"mark-once-{n}"))
            program.wait_for(lambda n=n: len(r.bodies) == n + 1, what=f"body {n}")
        program.wait_for(lambda: program.metric_sum(server.metrics(), "otelcol_exporter_sent_profile_samples") == 4, what="the last answer")
        assert program.metric_sum(server.metrics(), "flametap_exporter_retries_total") == 2
        assert r.calls == 6
        assert [handmade.marks_in(b.decode("latin-1")) for b in r.bodies] == [[f"mark-once-{n}"] for n in range(4)]


def test_grpc_headers_and_user_agent(forward):
    with receivers.GrpcReceiver() as r:
        server = forward("otlp_grpc", grpc_settings(r, headers={"authorization": "Bearer s3cret"}))
        send(server, SMALL.bytes)
        program.wait_for(lambda: r.bodies, what="the body")
    assert r.metadata[0]["authorization"] == "Bearer s3cret"
    assert r.metadata[0]["user-agent"].startswith("flametap/")
    assert "s3cret" not in server.log


def test_metrics_name_the_destination(start, tmp_path):
    """server_address, server_port and url_path as the Collector 0.159 has them: on what is sent, not on the queue."""
    with receivers.GrpcReceiver() as g, receivers.HttpReceiver() as h:
        file = tmp_path / "c.yaml"
        file.write_text(yaml.safe_dump({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
            "exporters": {"nop": {}, "otlp_grpc": {"endpoint": g.address, "tls": {"insecure": True}}, "otlp_http": {"endpoint": h.url + "/base"}},
            "service": {"telemetry": {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0}}}}]}},
                        "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["nop", "otlp_grpc", "otlp_http"]}}}}))
        server = start("collector", "--config", file, own_metrics=True)
        send(server, SMALL.bytes)
        sent = "otelcol_exporter_sent_profile_samples"
        program.wait_for(lambda: program.metric_sum(server.metrics(), sent) == 27, what="all three")
        port = {"g": g.address.split(":")[1], "h": h.url.split(":")[2]}
        m = server.metrics()
    want = {'{exporter="nop"}', '{exporter="otlp_grpc",server_address="127.0.0.1",server_port="%s"}' % port["g"],
            '{exporter="otlp_http",server_address="127.0.0.1",server_port="%s",url_path="/base/v1development/profiles"}' % port["h"]}
    assert {k.removeprefix(sent) for k in m if k.startswith(sent)} == want
    failed = "otelcol_exporter_send_failed_profile_samples"
    assert {k.removeprefix(failed) for k in m if k.startswith(failed)} == want
    assert 'otelcol_exporter_queue_size{data_type="profiles",exporter="otlp_grpc"}' in m
    assert m["otelcol_process_cpu_seconds"] % 1 > 0, "a fraction"


def test_full_queue_pushes_back(forward):
    """A peer that never answers: the queue fills, and then senders are told UNAVAILABLE rather than memory growing."""
    import threading
    hold = threading.Event()
    with receivers.GrpcReceiver(lambda b, n: (hold.wait(4 * program.HANG), b"")[1]) as r:
        server = forward("otlp_grpc", grpc_settings(r, timeout="300s", sending_queue={"queue_size": 5, "num_consumers": 1}))
        codes = []
        with clients.channel(server.grpc) as ch:
            for _ in range(20):
                codes.append(clients.export_status(ch, SMALL.bytes))
        assert codes[0][0] == clients.OK
        assert codes[-1][0] == clients.UNAVAILABLE and "queue is full" in codes[-1][1], codes[-1]
        hold.set()
        taken = [c for c, _ in codes].count(clients.OK)
        program.wait_for(lambda: len(r.bodies) == taken, what="what was taken")
