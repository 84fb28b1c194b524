"""The official collector as a peer, in both directions, on both transports, with every compression that it has."""

import time

import pytest

import clients
import fixtures
import otlp_json
import peers_otelcol
import program
import receivers
import schemas
import view
from fixtures import NEWEST_BODIES
from test_decode import same_message

pytestmark = pytest.mark.peer
SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")


def source_view(body):
    return view.view(schemas.NEWEST, schemas.schema(schemas.NEWEST).Request.FromString(body.bytes))




def tls_off(compression):
    return {"tls": {"insecure": True}, "compression": compression, "sending_queue": {"enabled": False},
            "retry_on_failure": {"enabled": False}}


@pytest.mark.parametrize("transport, compression", [
    ("grpc", "none"), ("grpc", "gzip"), ("grpc", "zstd"), ("grpc", "snappy"),
    ("http", "none"), ("http", "gzip"), ("http", "zstd"), ("http", "deflate"), ("http", "snappy"), ("http", "zlib"), ("http-json", "gzip")])
def test_collector_sends_to_us(collector_peer, backend, tmp_path, transport, compression):
    server = backend("-stdout.layout", "2026")
    if transport == "grpc":
        exporter = {"otlp_grpc": {"endpoint": server.grpc} | tls_off(compression)}
    else:
        exporter = {"otlp_http": {"endpoint": f"http://{server.http}", "encoding": "json" if "json" in transport else "proto"}
                    | tls_off(compression)}
    with peers_otelcol.Collector(collector_peer, tmp_path, exporter) as collector, clients.channel(collector.grpc_address) as ch:
        want = b""
        for body in NEWEST_BODIES:
            clients.export(ch, body.bytes)
            # the collector hands references on as text, so the body with references prints as its twin without
            want += body.stdout_text if "strindex" not in body.name else SMALL.stdout_text
        got = server.stdout
    assert _without_references(got) == _without_references(want)


def _without_references(text):
    """Layout 2026 shows what came by reference as empty; whether it did is the collector's choice, per hop."""
    keep, in_resource = [], False
    for line in text.split(b"\n"):
        if b"New Resource Profile" in line:
            in_resource = True
        elif b"New Profile" in line:
            in_resource = False
        if not (in_resource and line.startswith(b"  ")):
            keep.append(line)
    return keep


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_collector_sends_resources_by_reference_or_not(collector_peer, backend, tmp_path, transport):
    """Whatever form it chooses, our full layout resolves the resource's attributes."""
    server = backend("-stdout.layout", "full")
    exporter = ({"otlp_grpc": {"endpoint": server.grpc} | tls_off("gzip")} if transport == "grpc"
                else {"otlp_http": {"endpoint": f"http://{server.http}"} | tls_off("gzip")})
    with peers_otelcol.Collector(collector_peer, tmp_path, exporter) as collector, clients.channel(collector.grpc_address) as ch:
        clients.export(ch, SMALL.bytes)
    for key, value in source_view(SMALL)["resources"][0]["attributes"]:
        assert key.encode() in server.stdout and str(value).encode() in server.stdout


def forward_config(tmp_path, exporter):
    import yaml
    file = tmp_path / "forward.yaml"
    file.write_text(yaml.safe_dump({
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}},
        "exporters": exporter,
        "service": {"pipelines": {"profiles": {"receivers": ["otlp"], "exporters": list(exporter)}}}}))
    return file


@pytest.mark.parametrize("name, compression, extra", [
    ("otlp_grpc", "none", {}), ("otlp_grpc", "gzip", {}), ("otlp_grpc", "zstd", {}), ("otlp_grpc", "snappy", {}),
    ("otlp_http", "none", {}), ("otlp_http", "gzip", {}), ("otlp_http", "zstd", {}), ("otlp_http", "gzip", {"encoding": "json"}),
    ("otlp_http", "deflate", {}), ("otlp_http", "snappy", {})])
def test_we_send_to_the_collector(collector_peer, start, tmp_path, name, compression, extra):
    """Bodies go through us to the collector, which writes them as JSON: nothing changed on the way."""
    out = tmp_path / "out.jsonl"
    with peers_otelcol.Collector(collector_peer, tmp_path / "peer", peers_otelcol.file_exporter(out)) as collector:
        if name == "otlp_grpc":
            exporter = {name: {"endpoint": collector.grpc_address, "compression": compression, "tls": {"insecure": True}} | extra}
        else:
            exporter = {name: {"endpoint": f"http://{collector.http_address}", "compression": compression} | extra}
        server = start("collector", "--config", forward_config(tmp_path, exporter))
        with clients.channel(server.grpc) as ch:
            for number, body in enumerate(NEWEST_BODIES, 1):
                assert clients.export(ch, body.bytes) == b""
                # one at a time: the queue has ten senders, so order is nobody's promise
                program.wait_for(lambda n=number: len(peers_otelcol.exported_lines(out)) >= n, what="the collector's file")
        time.sleep(0.2)
    lines = peers_otelcol.exported_lines(out)
    assert len(lines) == len(NEWEST_BODIES), "each once"
    for line, body in zip(lines, NEWEST_BODIES):
        assert view.view(schemas.NEWEST, otlp_json.parse(line)) == source_view(body), body


@pytest.mark.parametrize("version", ["1.3", "1.4", "1.5", "1.7", "1.8", "1.9"])
def test_old_senders_reach_a_new_collector_through_us(collector_peer, backend, tmp_path, version):
    """What the collector itself cannot read - every older wire version - arrives there in its own form."""
    body = next(b for b in fixtures.one_per_version() if b.version == version)
    out = tmp_path / "out.jsonl"
    with peers_otelcol.Collector(collector_peer, tmp_path / "peer", peers_otelcol.file_exporter(out)) as collector:
        server = backend("-receiver", "otlp", "-otlp.endpoint", collector.grpc_address, "-otlp.insecure", "-spool-dir", tmp_path / "spool")
        with clients.channel(server.grpc) as ch:
            assert clients.export(ch, body.bytes, version) == b""
        program.wait_for(lambda: peers_otelcol.exported_lines(out), what="the collector's file")
    (line,) = peers_otelcol.exported_lines(out)
    want = view.view(version, schemas.schema(version).Request.FromString(body.bytes))
    same_message(view.view(schemas.NEWEST, otlp_json.parse(line)), schemas.NEWEST, want, version)


def test_collector_retries_what_we_refuse_for_now(collector_peer, start, tmp_path):
    """Our UNAVAILABLE is understood by the official exporter: it comes again, and nothing is lost or doubled."""
    def answer(body, number):
        if number < 3:
            raise receivers.Refuse(clients.UNAVAILABLE, "not now")
        return b""

    with receivers.GrpcReceiver(answer) as last:
        config = forward_config(tmp_path, {"otlp_grpc": {
            "endpoint": last.address, "tls": {"insecure": True}, "compression": "none",
            "sending_queue": {"enabled": False}, "retry_on_failure": {"enabled": False}}})
        server = start("collector", "--config", config)
        exporter = {"otlp_grpc": {"endpoint": server.grpc, "tls": {"insecure": True},
                                  "retry_on_failure": {"initial_interval": "200ms", "max_interval": "500ms"}}}
        with peers_otelcol.Collector(collector_peer, tmp_path / "peer", exporter) as collector, \
                clients.channel(collector.grpc_address) as ch:
            clients.export(ch, SMALL.bytes)
            program.wait_for(lambda: last.bodies, what="the body behind both")
        assert len(last.bodies) == 1 and last.calls == 4
        request = schemas.schema(schemas.NEWEST).Request.FromString(last.bodies[0])
        assert view.view(schemas.NEWEST, request) == source_view(SMALL)
