"""A server as the person sees it who runs it: standard descriptors, what is logged, words, reload of what is not the graph."""

import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

import certificates
import clients
import fixtures
import program
import receivers
from test_config import MINIMAL

STANDING = """
receivers: {otlp: {protocols: {http: {endpoint: 127.0.0.1:0}}}}
exporters: {stdout: {}}
service:
  pipelines: {profiles: {receivers: [otlp], exporters: [stdout]}}
  flametap: {shutdown_timeout: 4s}
"""
SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")


def post(server, body=SMALL.bytes):
    return clients.http_request(server.http, "POST", "/v1development/profiles", body, {"content-type": "application/x-protobuf"})


def pipe_bytes(fd):
    """How many bytes wait in it."""
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_closed_standard_descriptors_are_not_given_to_others(backend, tmp_path, closed):
    """Else a file or a socket gets number 1, and the text of stdout goes there."""
    shell = ("sh", "-c", f'exec "$0" "$@" {closed}')
    server = backend("-receiver", "stdout,filesystem", "-filesystem.format", "jsonl", "-filesystem.dir", tmp_path / "files", wrapper=shell)
    status = post(server).status
    links = {fd: os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in "012"}
    assert status == (503 if ">&-" in closed else 200)
    assert links["0"] == "/dev/null"
    if ">&-" in closed:
        assert links["1"] == "/dev/null"
        server.wait_line("Exporting failed.*exporter=stdout.*Bad file descriptor")
    assert b"New Sample" not in b"".join(f.read_bytes() for f in (tmp_path / "files").iterdir())


def test_a_failing_local_sink_is_logged(backend):
    """Not only its sender, also who runs the program is told."""
    server = backend("-receiver", "stdout,nop", stdout="/dev/full")
    began = time.monotonic()
    for _ in range(20):
        assert post(server).status == 503
    seconds = time.monotonic() - began
    line = server.wait_line("Exporting failed")
    assert "exporter=stdout" in line and "No space left on device" in line
    assert len([line for line in server.lines if "Exporting failed" in line]) <= 2 + seconds, "one line a second at most"


def test_wrong_choice_names_all():
    done = program.run("backend", "-log-level", "noisy", check=2)
    assert b"it takes debug, info, warn, error" in done.stderr


def test_help_of_the_backend_fits_a_screen():
    page = program.run("backend", "--help", check=0).stdout.decode()
    assert len(page.splitlines()) <= 40
    assert re.search(r"-receiver LIST .*\bnop\b", page)


def test_flags_of_sinks_that_are_not_chosen_are_told():
    done = program.run("backend", "--print-config", "-receiver", "stdout, filesystem", "-otlp.endpoint", "x:1", "-filesystem.dir", "d",
                       "-stdout.function-file", "-sqlite.path", "f", check=0)
    told = [line for line in done.stderr.decode().splitlines() if "does nothing" in line]
    assert len(told) == 2 and any("-otlp.endpoint" in t for t in told) and any("-sqlite.path" in t for t in told), done.stderr


@pytest.mark.parametrize("spelling, printed", [("1.11", "1.11"), ("v1.11.0", "1.11"), ("1.9.0", "1.9")])
def test_wire_versions_of_every_spelling(spelling, printed):
    done = program.run("backend", "--print-config", "-receiver", "otlp", "-otlp.endpoint", "x:1", "-wire-version", spelling,
                       "-otlp.wire-version", spelling, check=0)
    assert re.findall("wire_version: '?([0-9.]+)", done.stdout.decode()) == [printed] * 2, done.stdout


@pytest.mark.parametrize("spelling", ["auto", "1.3", "v1.3.2", "1.9", "1.10", "1.10.0", "1.11", "v1.11", "v1.11.0", "V1.7.0"])
def test_wire_versions_of_every_spelling_in_yaml(spelling, tmp_path):
    """As the flags, and as check and decode; a version that is written is one from 1.7 on."""
    file, out = tmp_path / "c.yaml", "1.10" if spelling in ("auto", "1.3", "v1.3.2") else spelling
    file.write_text("receivers: {otlp: {protocols: {grpc: }, wire_version: %s}}\nexporters: {otlp_grpc: {endpoint: 'x:1', wire_version: %s}}\n"
                    "service: {pipelines: {profiles: {receivers: [otlp], exporters: [otlp_grpc]}}}\n" % (spelling, out))
    assert program.run("validate", "--config", file, check=0).stderr == b""
    body = tmp_path / "empty.pb"
    body.write_bytes(b"")
    assert b"is not an OTLP profiles version" not in program.run("check", "--wire-version", spelling, body).stderr


@pytest.mark.parametrize("spelling", ["1.2", "1.12", "1.10.x", "2.0", "newest", "1.10.0.0"])
def test_wire_versions_that_are_none(spelling, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("receivers: {otlp: {protocols: {grpc: }, wire_version: %s}}\nexporters: {nop: }\n"
                    "service: {pipelines: {profiles: {receivers: [otlp], exporters: [nop]}}}\n" % spelling)
    err = program.run("validate", "--config", file, check=1).stderr.decode()
    assert f'wire_version: "{spelling}" is not an OTLP profiles version: auto, 1.3 to 1.11' in err, err
    program.run("backend", "-wire-version", spelling, "--print-config", check=2)


def test_help_of_a_command():
    assert program.run("help", "backend", check=0).stdout == program.run("backend", "--help", check=0).stdout
    assert b'did you mean "backend"' in program.run("help", "bakend", check=2).stderr


def test_collector_words_without_collector(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL)
    assert program.run("validate", "--config", file, check=0).stdout == b""
    assert program.run("print-config", "--config", file, check=0).stdout == program.run("collector", "--config", file, "--print-config").stdout


def test_one_mistake_gives_one_error(tmp_path):
    """A pipeline that names a component of an unknown type: the type is wrong, the name is there."""
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace("  nop:", "  nosuch:").replace("[nop]", "[nosuch]"))
    err = program.run("collector", "--config", file, check=1).stderr.decode()
    assert 'unknown type: "nosuch"' in err and "not configured" not in err and err.count("c.yaml") == 1, err


def test_link_name_shows_its_addresses(tmp_path):
    link = tmp_path / "opentelemetry-lazybackend"
    link.symlink_to(program.existing_path())
    shown = program.run("--help", name=link, check=0).stdout
    assert b"(0.0.0.0:4317)" in shown and b"(0.0.0.0:4318)" in shown and b"127.0.0.1:431" not in shown, shown
    assert b"0.0.0.0:4317" not in program.run("backend", "--help", check=0).stdout


def test_references_to_the_environment_are_no_secrets_on_the_command_line():
    words = ["backend", "-receiver", "otlp", "-otlp.endpoint", "h:1", "-print-config", "-otlp.headers"]
    assert b"can be read" in program.run(*words, "a=b", check=0).stderr
    assert program.run(*words, "a=${env:TOKEN}", check=0).stderr == b""


def test_own_metrics_move_on_reload(start, tmp_path):
    file = tmp_path / "c.yaml"

    def configure(host):
        reader = f"{{pull: {{exporter: {{prometheus: {{host: {host}, port: 0}}}}}}}}"
        file.write_text(MINIMAL + f"  telemetry: {{metrics: {{readers: [{reader}]}}}}\n")

    def endpoint(host):
        found = re.compile(r"Serving own metrics +endpoint=(" + re.escape(host) + r":\d+)")
        return program.wait_for(lambda: found.search(server.log), what="the endpoint of own metrics")[1]

    configure("127.0.0.1")
    server = start("collector", "--config", file, own_metrics=True)
    first = endpoint("127.0.0.1")
    assert clients.http_request(first, "GET", "/metrics").status == 200
    configure("127.0.0.2")
    server.signal(1)
    server.wait_line(re.escape("Configuration and certificates were read again"))
    assert clients.http_request(endpoint("127.0.0.2"), "GET", "/metrics").status == 200
    with pytest.raises(ConnectionError):
        clients.http_request(first, "GET", "/metrics")


CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@pytest.mark.parametrize("port", ["grpc", "http"])
def test_tls_to_a_plain_port_ends_at_once(backend, port):
    """A profiler without -disable-tls: it must not wait, and who runs the backend is told why nothing comes."""
    server = backend("-receiver", "nop", "-metrics-address", "127.0.0.1:0")
    with socket.create_connection(clients.split_address(getattr(server, port)), 5) as s:
        s.settimeout(5)
        s.sendall(CLIENT_HELLO)
        assert s.recv(1) == b""
    line = server.wait_line("Refused a connection")
    assert "speaks TLS, this address does not" in line and "127.0.0.1:" in line
    assert program.metric_sum(server.metrics(), "flametap_net_refused_total", reason="tls") == 1


def test_no_tls_to_a_tls_port_is_logged(backend, tmp_path):
    cert, key = certificates.Authority(tmp_path, "CA").issue("localhost")
    server = backend("-receiver", "nop", "-tls-cert", cert, "-tls-key", key)
    with socket.create_connection(clients.split_address(server.http), 5) as s:
        s.settimeout(5)
        s.sendall(b"POST /v1/profiles HTTP/1.1\r\n\r\n")
        while s.recv(100):
            pass
    assert "http request" in server.wait_line("Refused a connection")


@pytest.mark.parametrize("words, said", [
    (["-max-inflight-mib", "0"], "-max-inflight-mib is 1 to 1073741824, not 0"),
    (["-max-recv-msg-size-mib", "2048"], "-max-recv-msg-size-mib is 1 to 2047, not 2048"),
    (["-spool-max-mib", "0"], "-spool-max-mib is 1 to 1073741824, not 0"),
    (["-receiver", "sqlite", "-sqlite.max-size", "9x"], '-sqlite.max-size: size "9x" has the unknown unit "x"'),
    (["-receiver", "otlphttp", "-otlphttp.endpoint", "h:4318"], 'endpoint is "h:4318", it must begin with http://'),
    (["-receiver", "otlp", "-otlp.endpoint", "localhost"], 'endpoint "localhost" has no port'),
])
def test_bad_values_of_flags_have_no_lines(words, said):
    """The YAML behind the flags is not the user's."""
    done = program.run("backend", *words)
    err = done.stderr.decode()
    assert done.returncode in (1, 2) and said in err and not re.search(r":\d+:\d+:", err), err


@pytest.fixture
def draining(tmp_path):
    """A backend that waits for its peer, with SIGTERM and SIGINT sent at once; open the gate to let the peer answer."""
    gate = threading.Event()
    with receivers.HttpReceiver(lambda body, number: (gate.wait(4 * program.HANG), b"")[1]) as peer:
        words = ("-receiver", "otlphttp", "-otlphttp.endpoint", f"http://{peer.address}", "-spool-dir", tmp_path / "spool")
        server = program.backend(*words)
        sender = threading.Thread(target=post, args=(server,), daemon=True)
        sender.start()
        program.wait_for(lambda: peer.calls, what="the peer has the request")
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGINT)
        server.wait_line("Starting shutdown")
        yield server, gate, peer, words
        gate.set()
        server.kill()
        sender.join(program.HANG)


def test_two_signals_at_once_are_one(draining):
    """timeout(1) and Ctrl-C in a script send two: what was taken must still be sent, once, and never again after a restart."""
    server, gate, peer, words = draining
    gate.set()
    server.process.wait(program.HANG)
    assert server.process.returncode == 0 and len(peer.bodies) == 1
    assert server.find_line("Shutdown complete")
    with program.backend(*words) as again:
        assert post(again, fixtures.body("v1.9.0-oncpu-mixed-a").bytes).status == 200
        program.wait_for(lambda: len(peer.bodies) > 1, what="the next request")
    assert len(peer.bodies) == 2 and peer.bodies[0] != peer.bodies[1]
    assert not again.find_line("wait in the spool from before")


def test_a_later_second_signal_ends_the_drain(draining):
    server = draining[0]
    began = time.monotonic()
    while server.alive() and time.monotonic() - began < program.HANG:
        server.signal(signal.SIGINT)
        try:
            server.process.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
    assert server.process.returncode == -signal.SIGINT
    assert not server.find_line("Shutdown complete")
    gate, peer, words = draining[1:]
    gate.set()
    with program.backend(*words) as again:  # nobody heard the peer's answer: what was acknowledged is sent at the next start
        assert again.find_line("wait in the spool from before")
        program.wait_for(lambda: len(peer.bodies) == 2, what="what the drain left")


def test_a_reader_that_stands_still_does_not_hold_the_shutdown(tmp_path):
    """`backend | less`: what cannot be shown in time is given up, and its sender told so."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    config = tmp_path / "config.yaml"
    config.write_text(STANDING)
    answers = []
    with program.Server("collector", "--config", config, stdout=pipe) as server:
        big = fixtures.body("v1.11.0-oncpu-big").bytes  # its text is longer than any pipe
        sender = threading.Thread(target=lambda: answers.append(post(server, big).status), daemon=True)
        sender.start()
        program.wait_for(lambda: pipe_bytes(reader), what="the text begins")
        assert server.stop() == 0
        sender.join(program.HANG)
    os.close(reader)
    assert answers == [503]
    assert server.find_line("Shutdown complete")
