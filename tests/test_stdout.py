"""The text on stdout, byte for byte: over gRPC and HTTP as from files, in all layouts, for all wire versions."""

import os
import pty
import re

import pytest

import clients
import fixtures
import layouts
import program
import schemas
import view
from fixtures import BODIES, NEWEST_BODIES


def source_view(body):
    return view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))


def hidden_references(body):
    """Which keys and values of resources came by reference."""
    request = schemas.schema(body.version).Request.FromString(body.bytes)
    if body.version != "1.10":
        return frozenset()
    return frozenset((r, i, what) for r, rp in enumerate(request.resource_profiles)
                     for i, kv in enumerate(rp.resource.attributes)
                     for what, by_reference in (("key", kv.key_strindex), ("value", kv.value.string_value_strindex)) if by_reference)


def expected(body, layout):
    return layouts.render(source_view(body), layout, hidden_references(body) if layout == "2026" else frozenset())


@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_python_layout_is_what_the_lazy_backend_printed(body):
    assert expected(body, "2026") == body.stdout_text


@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_decode_prints_the_recorded_text(body):
    assert program.run("decode", body.path, check=0).stdout == body.stdout_text


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_backend_prints_the_recorded_texts(backend, transport):
    server = backend()
    want = b""
    with clients.channel(server.grpc) as ch:
        for body in NEWEST_BODIES:
            if transport == "grpc":
                assert clients.export(ch, body.bytes) == b""
            else:
                assert clients.post(server.http, body.bytes).status == 200
            want += body.stdout_text
            # acknowledged means written
            assert server.stdout == want


@pytest.mark.parametrize("body", BODIES, ids=repr)
@pytest.mark.parametrize("layout", ["2026", "seed-000", "seed-001", "typed"])
def test_every_layout_of_every_version(body, layout):
    text = program.run("decode", "--layout", layout, body.path, check=0).stdout
    want = expected(body, layout)
    for number, (got, wanted) in enumerate(zip(text.split(b"\n"), want.split(b"\n")), 1):
        assert got == wanted, f"line {number}"
    assert len(text) == len(want)


@pytest.mark.parametrize("layout", ["2026", "seed-000", "seed-001", "typed", "full"])
def test_backend_prints_as_decode_does(backend, layout):
    body = fixtures.body("v1.8.0-synthetic-transcoded")
    server = backend("-stdout.layout", layout)
    with clients.channel(server.grpc) as ch:
        clients.export(ch, body.bytes)
    assert server.stdout == program.run("decode", "--layout", layout, body.path, check=0).stdout


def test_a_sample_type_that_nobody_sends_is_named_once(backend, tmp_path):
    small = fixtures.body("v1.11.0-synthetic-offcpu-links")
    server = backend("-receiver", "stdout,filesystem", "-stdout.sample-types", "samples,nope", "-filesystem.dir", tmp_path / "p")
    with clients.channel(server.grpc) as ch:
        for _ in range(45):
            clients.export(ch, small.bytes)
    line = server.wait_line("sample type that was asked for does not come")
    assert "nope" in line and "off_cpu" in line and "exporter=stdout" in line
    assert server.log.count("does not come") == 1
    done = program.run("decode", "--sample-types", "nope,samples", small.path, check=0)
    assert b'no profile has the sample type "nope"' in done.stderr and b"off_cpu" in done.stderr
    assert not program.run("decode", "--sample-types", "samples", small.path, check=0).stderr


def test_sample_types_are_chosen(backend):
    body = fixtures.body("v1.11.0-synthetic-offcpu-links")
    server = backend("-stdout.sample-types", "off_cpu")
    with clients.channel(server.grpc) as ch:
        clients.export(ch, body.bytes)
    types = re.findall(rb"SampleType: (\w+)", server.stdout)
    assert types == [b"off_cpu"]


def test_local_time_with_zone_names(backend):
    """Timestamps are local, Time: is UTC: as Go prints them, summer and winter."""
    body = fixtures.body("v1.11.0-synthetic-offcpu-links")
    for zone, want in (("Europe/Berlin", "(2026-01-01 01:00:00.4 +0100 CET)"), ("Asia/Kolkata", "(2026-01-01 05:30:00.4 +0530 IST)"),
                       ("America/Sao_Paulo", "(2025-12-31 21:00:00.4 -0300 -03)")):
        server = backend(env=program.environment(TZ=zone))
        with clients.channel(server.grpc) as ch:
            clients.export(ch, body.bytes)
        text = server.stdout.decode()
        assert want in text
        assert "Time: 2026-01-01 00:00:00 +0000 UTC" in text
    summer = fixtures.body("v1.4.0-oncpu-start")
    text = program.run("decode", summer.path, env=program.environment(TZ="Europe/Berlin"), check=0).stdout.decode()
    stamps = re.findall(r"\((\d{4}-\d\d)-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (\+\d{4} \w+)\)", text)
    assert stamps and {z for _, z in stamps} <= {"+0100 CET", "+0200 CEST"}


def terminal_output(env):
    """What decode prints when stdout is a terminal."""
    body = fixtures.body("v1.11.0-synthetic-offcpu-links")
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(program.path(), ["flametap", "decode", str(body.path)], env)
    out = b""
    try:
        while chunk := os.read(fd, 65536):
            out += chunk
    except OSError:
        pass
    assert os.waitpid(pid, 0)[1] == 0
    os.close(fd)
    return out.replace(b"\r\n", b"\n")


def test_colours_on_a_terminal_only():
    want = fixtures.body("v1.11.0-synthetic-offcpu-links").stdout_text
    coloured = terminal_output(program.environment(TERM="xterm-256color"))
    assert b"\x1b[" in coloured
    assert re.sub(rb"\x1b\[[0-9;]*m", b"", coloured) == want
    assert b"\x1b" not in terminal_output(program.environment(TERM="xterm-256color", NO_COLOR="1"))
    assert b"\x1b" not in terminal_output(program.environment(TERM="dumb"))


def test_requests_are_never_interleaved(backend):
    """Eight senders at once: every request's text stands whole."""
    import concurrent.futures
    server = backend()
    chosen = [b for b in NEWEST_BODIES if b.name != fixtures.BIG]

    def send(n):
        with clients.channel(server.grpc) as ch:
            for i in range(6):
                clients.export(ch, chosen[(n + i) % len(chosen)].bytes)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    rest = server.stdout
    texts = sorted((b.stdout_text for b in chosen), key=len, reverse=True)
    count = 0
    while rest:
        text = next((t for t in texts if rest.startswith(t)), None)
        assert text is not None, rest[:300]
        rest = rest[len(text):]
        count += 1
    assert count == 48


def test_unknown_frame_types_are_told_and_taken(backend):
    """The set is open; a mistyped one would show empty stacks and not say why."""
    server = backend("-stdout.frame-types", "native,cpyton,later-runtime")
    assert "type=cpyton" in (line := server.wait_line("no profiler is known to send")) and "similar=cpython" in line, line
    assert "native" in server.wait_line("type=later-runtime")
    assert "type=native" not in server.log
