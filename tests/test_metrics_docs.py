"""docs/metrics/ is the list of every counter and every reason, and each row names a test that raises it.

A row of its tables reads | `name` | labels | what it counts | raised by |; a reason's row | `reason` | when | raised by |. "raised by" is
a test function of tests/*.py or a function in a *_test.c, as `file:function`. The test's file must speak of the name or reason itself.
"""

import re
import socket

import pytest

import clients
import fixtures
import program

DOCUMENTS = sorted((fixtures.ROOT / "docs" / "metrics").glob("*.md"))
SOURCES = [p for folder in ("src", "cmd") for p in (fixtures.ROOT / folder).rglob("*.c") if not p.name.endswith("_test.c")]
# Where the code says reasons: tables by enum, and the functions that make one series each.
REASONS = re.compile(r"\w*(?:reasons|refusal_names|late_names|loss_names)\[[^\]]*\]\s*=\s*\{(.*?)\};|\b(?:event|dropped|skipped_series)\([a-z]+, (\"[a-z_]+\")\)", re.S)
OUTCOMES = {"success", "refused", "failure"}  # of otelcol_receiver_requests
SAMPLERS = {"ring_full"}  # named by whatever makes the traces
NAME = re.compile(r'"((?:flametap|otelcol|lazybackend)_[a-z0-9_]+)"')


def rows():
    for line in "\n".join(p.read_text() for p in DOCUMENTS).splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 3 and cells[0].startswith("`"):
            yield cells


def documented():
    return {c[0].strip("`"): c for c in rows() if re.fullmatch(r"`(flametap|otelcol|lazybackend)_[a-z0-9_]+`", c[0])}


def names_in_sources():
    found = {}
    for p in SOURCES:
        for name in NAME.findall(p.read_text()):
            found.setdefault(name, p)
    return found


def test_every_counter_in_the_source_is_documented():
    missing = {n: str(p.relative_to(fixtures.ROOT)) for n, p in names_in_sources().items() if n not in documented()}
    assert not missing


def test_every_documented_counter_is_in_the_source():
    source = "".join(p.read_text() for p in SOURCES)
    parts = names_in_sources()
    for name in documented():
        assert name in parts or name.rsplit("_", 1)[0] in source or name.split("_", 2)[-1] in source, f"{name} is nowhere in the source"


def known_tests():
    """file:function -> the file's text."""
    out = {}
    for p in (fixtures.ROOT / "tests").glob("test_*.py"):
        text = p.read_text()
        out |= {f"{p.name}:{m}": text for m in re.findall(r"^def (test_\w+)\(", text, re.M)}
    for p in (fixtures.ROOT / "src").rglob("*_test.c"):
        text = p.read_text()
        for m in re.findall(r"^static void (\w+)\(void \*\*", text, re.M):
            name = f"{p.name}:{m}" if f"{p.name}:{m}" not in out else f"{p.parent.name}/{p.name}:{m}"
            if f"cmocka_unit_test({m})" in text:
                out[name] = text
    return out


def test_every_row_names_a_test_that_speaks_of_it():
    known = known_tests()
    for cells in rows():
        named = re.findall(r"`([^`]+)`", cells[-1])
        assert named, f"{cells[0]} names no test"
        for n in named:
            assert n in known, f"{cells[0]} names {n}, which is no test"
            said = cells[0].strip("`")
            assert said in known[n] or said.split("_", 2)[-1] in known[n], f"{n} does not speak of {said}"


@pytest.fixture
def busy(backend, tmp_path):
    """A backend with every sink that has counted a little of everything."""
    import receivers
    with receivers.GrpcReceiver() as g, receivers.HttpReceiver() as h:
        server = backend("-receiver", "stdout,filesystem,prometheus,nop,otlp,otlphttp", "-filesystem.dir", tmp_path / "p", "-filesystem.format",
                         "jsonl", "-prometheus.metrics", "127.0.0.1:0", "-otlp.endpoint", g.address, "-otlp.insecure", "-otlphttp.endpoint",
                         h.url, "-spool-dir", tmp_path / "spool", "-metrics-address", "127.0.0.1:0")
        with clients.channel(server.grpc) as ch:
            clients.export(ch, fixtures.body("v1.11.0-oncpu-start").bytes)
            clients.export_status(ch, b"\xff\xff")
        clients.post(server.http, fixtures.body("v1.9.0-oncpu-mixed-a").bytes)
        clients.http_request(server.http, "POST", "/nope", b"")
        program.wait_for(lambda: len(g.bodies) == 2 and len(h.bodies) == 2, what="the bodies at both peers")
        yield server


def test_every_counter_on_the_wire_is_documented(busy):
    families = {s.partition("{")[0] for s in busy.metrics()}
    assert families
    unknown = families - set(documented()) - {"target_info"}
    assert not unknown, unknown


def test_counts_are_right(busy):
    everything = 6 * (29 + 88)  # a peer has a body a moment before its answer is counted here
    program.wait_for(lambda: program.metric_sum(busy.metrics(), "otelcol_exporter_sent_profile_samples") >= everything, what="the answers")
    m = busy.metrics()
    assert program.metric_sum(m, "otelcol_receiver_accepted_profile_samples", receiver="otlp", transport="grpc") == 29
    assert program.metric_sum(m, "otelcol_receiver_accepted_profile_samples", receiver="otlp", transport="http") == 88
    assert program.metric_sum(m, "otelcol_exporter_sent_profile_samples") == everything


def _raw(server, text):
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as c:
        c.sendall(text)
        return c.recv(4096)


def _cut(server):
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as c:
        c.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99\r\n\r\nabc")


HEAD = b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
REFUSALS = {
    "bad_request": lambda s: _raw(s, b"POST /v1development/profiles HTTP/1.1\r\nHost x\r\n\r\n"),
    "http_version": lambda s: _raw(s, b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"),
    "headers_too_large": lambda s: _raw(s, HEAD + b"X: " + b"v" * 100_000 + b"\r\n\r\n"),
    "body_cut": _cut,
    "not_found": lambda s: clients.http_request(s.http, "POST", "/nope", b""),
    "method": lambda s: clients.http_request(s.http, "GET", "/v1development/profiles"),
    "media_type": lambda s: clients.post(s.http, b"x", content_type="text/plain"),
    "encoding": lambda s: clients.post(s.http, b"x", headers={"Content-Encoding": "br"}),
    "expectation": lambda s: _raw(s, HEAD + b"Expect: a-miracle\r\nContent-Length: 1\r\n\r\nx"),
    "too_large": lambda s: clients.post(s.http, bytes(3 << 20)),
    "bad_compression": lambda s: clients.post(s.http, b"no gzip", headers={"Content-Encoding": "gzip"}),
    "unknown_method": lambda s: clients.grpc_by_hand(s.grpc, b"", path="/some.Service/Method"),
    "bad_frame": lambda s: clients.grpc_by_hand(s.grpc, b"x", flag=7),
}


def test_each_refusal_counts_its_reason(backend):
    """One action, one reason: its counter and no other moves."""
    server = backend("-receiver", "nop", "-max-recv-msg-size-mib", "2", "-metrics-address", "127.0.0.1:0")

    def refused():
        return {re.search(r'reason="(\w+)"', k).group(1): v for k, v in server.metrics().items() if k.startswith("flametap_net_refused_total{")}

    for reason, act in REFUSALS.items():
        before = refused()
        act(server)
        program.wait_for(lambda r=reason, b=before: refused()[r] == b[r] + 1, what=f"{reason} to count")
        moved = {k for k, v in refused().items() if v != before[k]}
        assert moved == {reason}, moved


def test_help_and_type_stand_before_every_family(busy):
    text = clients.http_request(busy.metrics_address, "GET", "/metrics").body.decode()
    typed = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.M))
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.M))
    families = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}
    assert families <= typed and families <= helped, families - (typed & helped)


def test_reasons_in_the_source_are_documented():
    """Every reason label that the code can give has its row."""
    found = {}
    for p in SOURCES:
        for table, one in REASONS.findall(p.read_text()):
            for reason in re.findall(r'"([a-z][a-z0-9_ ]+)"', table or one):
                found[reason] = str(p.relative_to(fixtures.ROOT))
    assert len(found) >= 35, "the tables of reasons have moved: look for them where they are now"
    named = {c[0].strip("`") for c in rows()} - set(documented())
    assert not {r: p for r, p in found.items() if r not in named}
    assert not named - set(found) - OUTCOMES - SAMPLERS, "reasons that the code does not give any more"
