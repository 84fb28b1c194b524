"""What the running program counts at its receivers: each counter before and after one request that should move it, and no other."""

import pytest

import clients
import fixtures
import handmade
import otlp_json
import program
import receivers
import schemas
from test_clients import SIGNALS

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
SAMPLES = 9
NAMES = {"1.5": "1.4"}  # nothing in the bytes tells these two apart, or need be told
SPARE = "127.0.0.1:0"


@pytest.fixture
def counted(backend):
    """counted(*words) runs a backend that keeps nothing and serves its counters."""
    return lambda *words: backend("-metrics-address", SPARE, *(words or ("-receiver", "nop")))


class Moved:
    """The series that a block of code moved, without those of the connections and the process, which move by themselves."""

    def __init__(self, server):
        self.server, self.by = server, {}

    def _read(self):
        return {k: v for k, v in self.server.metrics().items() if not k.startswith(("flametap_net_", "otelcol_process_"))}

    def __enter__(self):
        self.before = self._read()
        return self.by

    def __exit__(self, *_):
        self.by.update({k: v - self.before.get(k, 0) for k, v in self._read().items() if v != self.before.get(k, 0)})


def name(family, **labels):
    return family + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"


def receiver(family, transport="http", **more):
    return name(f"otelcol_receiver_{family}", receiver="otlp", transport=transport, **more)


def otlp(family, **more):
    return name(f"flametap_otlp_{family}", receiver="otlp", **more)


def test_accepted_samples_and_requests_by_version(counted):
    server = counted()
    for body in fixtures.one_per_version():
        samples = fixtures.readme_table()[body.name]["samples"]
        for transport in ("grpc", "http"):
            with Moved(server) as moved:
                if transport == "grpc":
                    with clients.channel(server.grpc) as ch:
                        clients.export(ch, body.bytes, version=body.version)
                else:
                    assert clients.post(server.http, body.bytes, version=body.version).status == 200
            version = next(k for k in moved if k.startswith("flametap_otlp_requests_total"))
            assert f'version="{NAMES.get(body.version, body.version)}"' in version, (body, version)
            moved.pop(otlp("ambiguous_version_requests_total"), None)
            assert moved == {
                version: 1, receiver("requests", transport, outcome="success"): 1,
                receiver("accepted_profile_samples", transport): samples,
                name("otelcol_exporter_sent_profile_samples", exporter="nop"): samples}, body


def test_an_empty_request_is_a_success_of_no_samples(counted):
    server = counted()
    with Moved(server) as moved:
        assert clients.post(server.http, b"").status == 200
    assert moved.pop(receiver("requests", outcome="success")) == 1
    assert {k.partition("{")[0] for k in moved} <= {"flametap_otlp_requests_total", "flametap_otlp_ambiguous_version_requests_total"}


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_undecodable_requests(counted, transport):
    server = counted()
    with Moved(server) as moved:
        if transport == "grpc":
            with clients.channel(server.grpc) as ch:
                assert clients.export_status(ch, b"\xff\xff")[0] == clients.INVALID_ARGUMENT
        else:
            assert clients.post(server.http, b"\xff\xff").status == 400
    assert moved == {otlp("undecodable_requests_total"): 1, receiver("requests", transport, outcome="failure"): 1}


def test_no_room_to_read_json_is_no_failure(counted):
    """JSON is transcoded first; a body for which there is no room now may come again."""
    request = handmade.resource_body(attributes=200, filler="x" * 10_000)
    server = counted("-receiver", "nop", "-max-inflight-mib", "3", "-max-recv-msg-size-mib", "3")
    with Moved(server) as moved:
        a = clients.post(server.http, otlp_json.dumps(request), content_type="application/json")
    assert a.status == 503 and moved == {receiver("requests", outcome="refused"): 1}


def bad_body(all_bad=False):
    """Two profiles; the first sample of one of them, or of both, points behind the stacks."""
    request = handmade.rich(schemas.NEWEST)
    bad = [p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles]
    for p in bad if all_bad else bad[:1]:
        p.samples[0].stack_index = 99
    return request, [len(p.samples) for p in bad]


def test_bad_indices_and_refused_profiles(counted):
    request, samples = bad_body()
    body = request.SerializeToString()
    strict, lenient = counted("-receiver", "nop", "-strict"), counted()
    for encode, kind in ((lambda r: body, "application/x-protobuf"), (otlp_json.dumps, "application/json")):
        with Moved(lenient) as moved:
            assert clients.post(lenient.http, encode(request), content_type=kind).status == 200
        assert moved[otlp("bad_indices_total")] == 1
        assert moved[receiver("accepted_profile_samples")] == sum(samples)
        assert otlp("rejected_profiles_total") not in moved
        with Moved(strict) as moved:
            assert clients.post(strict.http, encode(request), content_type=kind).status == 200
        assert moved[otlp("rejected_profiles_total")] == 1
        assert moved[receiver("accepted_profile_samples")] == sum(samples) - samples[0]
        assert moved[receiver("refused_profile_samples")] == samples[0]
        assert moved[receiver("requests", outcome="success")] == 1, "a success in part"
        assert otlp("bad_indices_total") not in moved
    with Moved(strict) as moved:
        assert clients.post(strict.http, bad_body(all_bad=True)[0].SerializeToString()).status == 200
    assert moved[otlp("rejected_profiles_total")] == 2 == len(samples)
    assert moved[receiver("refused_profile_samples")] == sum(samples)
    assert moved[receiver("requests", outcome="success")] == 1


def test_unknown_fields(counted):
    server = counted()
    with Moved(server) as moved:
        clients.post(server.http, SMALL.bytes + b"\xba\x3e\x05later" + b"\xc0\x3e\x2a")
    assert moved[otlp("unknown_fields_total")] == 2


def test_ambiguous_versions(counted):
    """Field 2 of a sample as attribute or as value: nothing in such a body tells 1.10 from what came before."""
    server = counted()
    request = handmade.resource_body(samples=0)
    request.resource_profiles[0].scope_profiles[0].profiles[0].samples.add(stack_index=1, attribute_indices=[1],
                                                                           timestamps_unix_nano=[handmade.TIME])
    with Moved(server) as moved:
        clients.post(server.http, request.SerializeToString())
    assert moved[otlp("ambiguous_version_requests_total")] == 1
    with Moved(server) as moved:
        clients.post(server.http, SMALL.bytes)
    assert otlp("ambiguous_version_requests_total") not in moved


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s[0])
def test_items_of_other_signals(counted, signal):
    _, _, request_class, _, path, _, items = signal
    server, request = counted(), request_class()
    for _ in range(3):
        items(request).add()
    with Moved(server) as moved:
        assert clients.post(server.http, request.SerializeToString(), path=path).status == 200
    assert [v for k, v in moved.items() if k.startswith("flametap_otlp_other_signal_items_total") and signal[0] in k] == [3.0]
    assert len(moved) == 1


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: s[0])
def test_broken_requests_of_other_signals(counted, signal):
    server = counted()
    with Moved(server) as moved:
        assert clients.post(server.http, b"\x0a\x7f\x12", path=signal[4]).status == 400
    assert moved == {otlp("undecodable_requests_total"): 1}


@pytest.mark.parametrize("code,family,outcome,reason", [
    (clients.INVALID_ARGUMENT, "failed_profile_samples", "failure", "refused"),
    (clients.UNAVAILABLE, "refused_profile_samples", "refused", "no_retry")])
def test_what_the_exporter_says_is_counted_at_both_ends(start, tmp_path, code, family, outcome, reason):
    """Without a queue the peer's answer is the pipeline's: refused for good, or not taken now."""
    def refuse(body, number):
        raise receivers.Refuse(code)

    with receivers.GrpcReceiver(refuse) as peer:
        file = tmp_path / "c.yaml"
        file.write_text(f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "{SPARE}"}}, http: {{endpoint: "{SPARE}"}}}}}}}}
exporters:
  otlp_grpc: {{endpoint: "{peer.address}", tls: {{insecure: true}}, sending_queue: {{enabled: false}}, retry_on_failure: {{enabled: false}}}}
service:
  telemetry: {{metrics: {{readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: 0}}}}}}}}]}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [otlp_grpc]}}}}
""")
        server = start("collector", "--config", file, own_metrics=True)
        with Moved(server) as moved:
            clients.post(server.http, SMALL.bytes)
    assert moved[receiver(family)] == SAMPLES
    assert moved[receiver("requests", outcome=outcome)] == 1
    host, _, port = peer.address.partition(":")
    assert moved[name("otelcol_exporter_send_failed_profile_samples", exporter="otlp_grpc", server_address=host, server_port=port)] == SAMPLES
    assert moved[name("flametap_exporter_dropped_requests_total", exporter="otlp_grpc", reason=reason)] == 1
    assert receiver("accepted_profile_samples") not in moved


def test_connections_and_requests_by_transport(counted):
    server = counted()
    before = server.metrics()
    with clients.channel(server.grpc) as ch:
        clients.export(ch, SMALL.bytes)
        during = server.metrics()
    clients.post(server.http, SMALL.bytes)
    assert clients.http_request(server.http, "POST", "/nope").status == 404
    after = server.metrics()

    def grew(a, b, series):
        return b.get(series, 0) - a.get(series, 0)

    requests = "flametap_net_requests_total"
    assert grew(before, during, name(requests, transport="grpc")) == 1
    assert grew(during, after, name(requests, transport="http1")) == 3, "two requests, and the scrape between"
    assert grew(before, during, "flametap_net_connections_total") == 2, "the call's and the scrape's"
    assert grew(during, after, name("flametap_net_refused_total", reason="not_found")) == 1
    assert during["flametap_net_connections"] >= 2
    program.wait_for(lambda: server.metrics()["flametap_net_connections"] == 1, what="only the scrape's own connection")
