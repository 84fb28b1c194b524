"""HTTP/2 and HTTP/1.1 as an attacker speaks them. The process lives, memory and CPU stay bounded, a good request works after."""

import concurrent.futures
import os
import re
import socket
import struct
import time

import hpack
import pytest

import clients
import fixtures
import program
import schemas

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATH = schemas.grpc_path(schemas.NEWEST)
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11


def raw(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def request_headers(extra=()):
    return hpack.Encoder().encode([(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", PATH),
                                   ("content-type", "application/grpc"), ("te", "trailers"), *extra])


def cpu_seconds(server):
    fields = open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def server(backend):
    s = backend("-receiver", "nop", "-metrics-address", "127.0.0.1:0")
    assert clients.post(s.http, SMALL.bytes).status == 200
    yield s
    assert s.alive(), s.log[-4000:]
    with clients.channel(s.grpc) as ch:
        assert clients.export(ch, SMALL.bytes) == b""
    if not program.is_sanitized():
        assert s.peak_rss_kib < 64 * 1024, s.peak_rss_kib


def connect(server):
    c = socket.create_connection(clients.split_address(server.grpc), timeout=program.HANG)
    c.sendall(PREFACE + raw(SETTINGS, 0, 0))
    return c


def flood(c, data, rounds, seconds=15):
    """Sends until the peer has had enough; returns the number of rounds that went out."""
    end = time.monotonic() + seconds
    for n in range(rounds):
        try:
            c.sendall(data)
        except OSError:
            return n
        if time.monotonic() > end:
            return n
    return rounds


def frames(c, seconds=program.HANG, until=None):
    """All frames until the peer closes or is quiet, or until(frame): (kind, flags, stream, payload)."""
    c.settimeout(seconds)
    buffered, out = b"", []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(buffered) >= 9 and len(buffered) >= 9 + (size := int.from_bytes(buffered[:3], "big")):
            out.append((buffered[3], buffered[4], int.from_bytes(buffered[5:9], "big"), buffered[9:9 + size]))
            buffered = buffered[9 + size:]
            if until and until(out[-1]):
                return out
        try:
            data = c.recv(65536)
        except OSError:
            break
        if not data:
            break
        buffered += data
    return out


def goaway_code(seen):
    return next((int.from_bytes(p[4:8], "big") for kind, _, _, p in seen if kind == GOAWAY), None)


def fields_of(name, value_bytes, count=1):
    return [(f"{name}-{i}", "v" * value_bytes) for i in range(count)]


def huffman_field(value_bytes):
    """A field "x" that is not indexed, its value so many "v" in Huffman's code: seven bits each, 1110111."""
    assert value_bytes % 8 == 0
    code = int("1110111" * 8, 2).to_bytes(7, "big") * (value_bytes // 8)
    rest, length = len(code) - 127, b"\xff"
    while rest > 127:
        rest, length = rest >> 7, length + bytes([rest & 127 | 128])
    return b"\x00\x01x" + length + bytes([rest]) + code


class Wire:
    """One HTTP/2 connection with its own HPACK state, so that blocks are cut and coded as a test says."""

    def __init__(self, server):
        self.socket, self.encoder, self.decoder, self.stream = connect(server), hpack.Encoder(), hpack.Decoder(), 1

    def request(self, extra=(), content_type="application/grpc", path=PATH, first=16384, literal=b"", flags=0, body=b""):
        head = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", path), ("te", "trailers"), *extra,
                ("content-type", content_type)]
        block = self.encoder.encode(head, huffman=False) + literal
        stream, self.stream = self.stream, self.stream + 2
        end = 0 if body else END_STREAM
        pieces = [block[:first], *(block[n:n + 16384] for n in range(first, len(block), 16384))]
        for n, piece in enumerate(pieces):
            last = END_HEADERS if n == len(pieces) - 1 else 0
            if n == 0 and flags & PADDED:
                piece = b"\x07" + piece[:-20] + bytes(7)
                pieces[1:] = [block[first - 20:first], *pieces[1:]]
                last = 0
            self.socket.sendall(raw(CONTINUATION if n else HEADERS, last | (0 if n else end | flags), stream, piece))
        if body:
            self.socket.sendall(raw(DATA, END_STREAM, stream, body))
        return stream


def answer_of(wire, stream):
    """(fields of headers and trailers, code of the reset, GOAWAY's code and text) of a stream."""
    fields, reset = {}, None

    def over(frame):
        return frame[0] == GOAWAY or frame[2] == stream and (frame[0] == RST_STREAM or frame[1] & END_STREAM)

    for kind, _, number, payload in frames(wire.socket, until=over):
        if kind == GOAWAY:
            return fields, reset, (int.from_bytes(payload[4:8], "big"), payload[8:].decode())
        if kind == HEADERS:
            block = dict(wire.decoder.decode(payload))
            fields |= block if number == stream else {}
        if kind == RST_STREAM and number == stream:
            reset = int.from_bytes(payload[:4], "big")
    return fields, reset, None


@pytest.mark.parametrize("extra, options", [
    pytest.param(fields_of("x", 1000, 200), {}, id="many"),
    pytest.param(fields_of("x", 65_536), {}, id="65536"),
    pytest.param(fields_of("x", 65_000) + fields_of("y", 1000, 10), {"flags": PADDED}, id="padded"),
    pytest.param(fields_of("x", 1000, 100), {"first": 60}, id="short-first-frame"),
])
def test_oversized_headers_are_refused(server, extra, options):
    """More than 64 KiB of headers: a status for this request; the connection and its calls go on."""
    before = program.metric_sum(server.metrics(), "flametap_net_refused_total", reason="headers_too_large")
    wire = Wire(server)
    with wire.socket:
        for _ in range(2):
            fields, _, goaway = answer_of(wire, wire.request(extra, **options))
            assert goaway is None and fields.get("grpc-status") == str(clients.RESOURCE_EXHAUSTED), (fields, goaway)
            assert "64 KiB" in fields["grpc-message"]
            small = wire.request([("x-0", "v")], body=clients.frame(SMALL.bytes))
            fields, _, goaway = answer_of(wire, small)
            assert goaway is None and fields.get("grpc-status") == "0", (fields, goaway)
        for kind in ("application/x-protobuf", "application/json"):
            refused = wire.request(extra, content_type=kind, path="/v1development/profiles", **options)
            fields, _, goaway = answer_of(wire, refused)
            assert goaway is None and fields.get(":status") == "431" and fields["content-type"] == kind, (fields, goaway)
    after = program.metric_sum(server.metrics(), "flametap_net_refused_total", reason="headers_too_large")
    assert after - before == 4


@pytest.mark.parametrize("extra, options", [
    pytest.param(fields_of("x", 65_537), {}, id="65537"),
    pytest.param(fields_of("x", 2_000_000), {}, id="2000000"),
    pytest.param([], {"literal": huffman_field(76_000)}, id="huffman"),
    pytest.param([("x" * 70_000, "v")], {}, id="name"),
])
def test_a_field_past_64_kib_ends_the_connection(server, extra, options):
    """nghttp2 takes no longer name or value (NGHTTP2_HD_MAX_NV): the peer is told by GOAWAY, and others are served."""
    wire = Wire(server)
    with wire.socket:
        try:
            stream = wire.request(extra, **options)
        except OSError:
            stream = 1
        _, _, goaway = answer_of(wire, stream)
    assert goaway and goaway[0] in (COMPRESSION_ERROR, ENHANCE_YOUR_CALM), goaway
    assert clients.post(server.http, SMALL.bytes).status == 200


def test_endless_headers_end_the_connection(server):
    """Past 256 KiB of fields nobody reads on, and the peer is told."""
    wire = Wire(server)
    with wire.socket:
        try:
            wire.request(fields_of("x", 65_000, 5))
        except OSError:
            pass
        _, _, goaway = answer_of(wire, 1)
    assert goaway[0] == ENHANCE_YOUR_CALM and re.search("more than 262144 bytes|too many CONTINUATION", goaway[1]), goaway


def test_headers_within_the_limit(server):
    a = clients.http_request(server.http, "POST", "/v1development/profiles", SMALL.bytes,
                             {"Content-Type": "application/x-protobuf"} | {f"X-{i}": "v" * 1000 for i in range(40)})
    assert a.status == 200, "40 kB of headers are within the limit"
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as s:
        flood(s, b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 1000) for i in range(200)), 1)
        assert s.recv(4096).startswith(b"HTTP/1.1 431")


def test_endless_continuation(server):
    """CVE-2024-27316 and its kin: CONTINUATION frames without END_HEADERS."""
    with connect(server) as c:
        c.sendall(raw(HEADERS, END_STREAM, 1, request_headers()))
        piece = hpack.Encoder().encode([("x-filler", "v" * 8000)], huffman=False)
        before = cpu_seconds(server)
        flood(c, raw(CONTINUATION, 0, 1, piece), 20_000)
        assert goaway_code(frames(c, until=lambda f: f[0] == GOAWAY)) == ENHANCE_YOUR_CALM
        assert cpu_seconds(server) - before < 2, "what comes behind the GOAWAY is thrown away unread"


def test_empty_continuations(server):
    with connect(server) as c:
        c.sendall(raw(HEADERS, END_STREAM, 1, request_headers()))
        before = cpu_seconds(server)
        flood(c, raw(CONTINUATION, 0, 1) * 100, 20_000)
        assert goaway_code(frames(c, until=lambda f: f[0] == GOAWAY)) == ENHANCE_YOUR_CALM
        assert cpu_seconds(server) - before < 2


def test_rapid_reset(server):
    """CVE-2023-44487: open and reset streams as fast as the wire takes them."""
    block = request_headers()
    before = cpu_seconds(server)
    with connect(server) as c:
        stream, done = 1, 0
        end = time.monotonic() + 10
        try:
            while stream < 100_001 and time.monotonic() < end:
                batch = b"".join(raw(HEADERS, END_HEADERS, s, block) + raw(RST_STREAM, 0, s, struct.pack(">I", 8))
                                 for s in range(stream, stream + 200, 2))
                c.sendall(batch)
                stream += 200
                done += 100
        except OSError:
            pass
        # what was sent may wait long for a busy server to read it
        seen = frames(c, program.HANG if done >= 50_000 else 2, until=lambda f: f[0] == GOAWAY)
    assert goaway_code(seen) is not None or done < 50_000, "50,000 resets without a GOAWAY"
    assert cpu_seconds(server) - before < 8


@pytest.mark.parametrize("name, data", [
    ("ping", raw(PING, 0, 0, b"12345678") * 100),
    ("settings", raw(SETTINGS, 0, 0, struct.pack(">HI", 1, 4096)) * 100),
    ("priority", raw(2, 0, 1, struct.pack(">IB", 0, 16)) * 100),
    ("window update", raw(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 100),
    ("empty data", None),
])
def test_floods_of_control_frames(server, name, data):
    """Nobody reads the answers: the queue of acknowledgements must not grow without end."""
    with connect(server) as c:
        if data is None:
            c.sendall(raw(HEADERS, END_HEADERS, 1, request_headers()))
            data = raw(DATA, 0, 1) * 100
        flood(c, data, 5_000, seconds=6)


BAD_FRAMES = {
    "data on stream 0": raw(DATA, 0, 0, b"x"),
    "headers on an even stream": raw(HEADERS, END_HEADERS | END_STREAM, 2, request_headers()),
    "continuation alone": raw(CONTINUATION, END_HEADERS, 1, b"x"),
    "a frame of 16 MiB - 1": b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    "settings of odd length": raw(SETTINGS, 0, 0, b"12345"),
    "settings with a window past 2^31": raw(SETTINGS, 0, 0, struct.pack(">HI", 4, 0xFFFFFFFF)),
    "window update of zero": raw(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x00"),
    "window update past 2^31": raw(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
    "garbage header block": raw(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff" * 100),
    "header table size past the limit": raw(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xff\xff\xff\xff\x07"),
    "padding longer than the frame": raw(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + request_headers()),
    "an unknown frame": raw(0x77, 0xFF, 1, b"ignored"),
    "push promise from a client": raw(5, END_HEADERS, 1, struct.pack(">I", 2) + request_headers()),
    "goaway from the client": raw(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
    "ping of five bytes": raw(PING, 0, 0, b"12345"),
    "reset of an idle stream": raw(RST_STREAM, 0, 7, struct.pack(">I", 8)),
    "no preface but garbage": None,
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames(server, name):
    """Each is answered as RFC 9113 has it or the connection is closed; an unknown frame is ignored."""
    if BAD_FRAMES[name] is None:
        with socket.create_connection(clients.split_address(server.grpc), timeout=10) as c:
            c.sendall(os.urandom(4096))
            frames(c, 1)
        return
    with connect(server) as c:
        c.sendall(BAD_FRAMES[name])
        try:
            c.sendall(raw(PING, 0, 0, b"flametap"))
        except OSError:
            pass
        seen = frames(c, program.HANG if name == "an unknown frame" else 3, until=lambda f: f[0] == PING)
        pinged = any(kind == PING and flags & 1 and p == b"flametap" for kind, flags, _, p in seen)
        if name == "an unknown frame":
            assert pinged
        elif name not in ("goaway from the client",):
            stream_error = any(kind == RST_STREAM for kind, _, _, _ in seen)
            assert goaway_code(seen) not in (None, 0) or stream_error or not pinged, seen


def test_bad_pseudo_headers(server):
    for headers in ([(":method", "POST"), (":scheme", "http")],
                    [(":path", PATH), (":path", PATH), (":method", "POST"), (":scheme", "http")],
                    [(":method", "POST"), (":scheme", "http"), (":path", PATH), ("UPPER", "x")],
                    [(":method", "POST"), (":scheme", "http"), (":path", PATH), ("connection", "close")],
                    [(":method", "POST"), (":scheme", "http"), (":path", "")],
                    [(":method", "POST"), (":scheme", "http"), (":path", PATH), (":unknown", "x")],
                    [("a", "b"), (":method", "POST"), (":scheme", "http"), (":path", PATH)],
                    [(":method", "P\x00ST"), (":scheme", "http"), (":path", PATH)]):
        with connect(server) as c:
            c.sendall(raw(HEADERS, END_HEADERS | END_STREAM, 1, hpack.Encoder().encode(headers)) + raw(PING, 0, 0, b"flametap"))
            seen = frames(c, until=lambda f: f[0] in (RST_STREAM, GOAWAY, HEADERS))
            assert any(kind == RST_STREAM for kind, _, _, _ in seen) or goaway_code(seen) is not None or any(
                kind == HEADERS for kind, _, _, _ in seen), headers


def test_content_length_that_lies(server):
    for length in ("5", "99999999999999999999", "-1", "abc"):
        with clients.H2(server.grpc, timeout=5, validate=False) as c:
            stream = c.begin(PATH, [("content-length", length)])
            try:
                c.h2.send_data(stream, clients.frame(SMALL.bytes), end_stream=True)
                c.flush()
                a = c.finish(stream)
                assert a.status != clients.OK or length == str(len(clients.frame(SMALL.bytes)))
            except (OSError, AssertionError):
                pass


def test_slow_senders_do_not_stop_others(server):
    """100 connections that send a byte now and then; others are served meanwhile, and the slow ones are let go or kept cheaply."""
    def seconds_of_posts():
        started = time.monotonic()
        for _ in range(20):
            assert clients.post(server.http, SMALL.bytes).status == 200
        return time.monotonic() - started

    alone = seconds_of_posts()
    slow = [socket.create_connection(clients.split_address(server.http), timeout=program.HANG) for _ in range(50)]
    slow += [connect(server) for _ in range(50)]
    for s in slow:
        s.sendall(b"POST /v1dev"[:1])
    assert seconds_of_posts() < 10 + 20 * alone
    for s in slow:
        s.close()


def test_readers_that_never_read(server):
    """Answers that nobody fetches: 2,000 requests on a connection whose receive window is shut."""
    with connect(server) as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(raw(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
        block = request_headers()
        body = clients.frame(SMALL.bytes)
        c.settimeout(5)
        try:
            for i in range(60):
                c.sendall(raw(HEADERS, END_HEADERS, 1 + 2 * i, block) + raw(DATA, END_STREAM, 1 + 2 * i, body))
        except OSError:
            pass


def test_many_connections_at_once(server):
    def one(_):
        with clients.channel(server.grpc) as ch:
            return clients.export_status(ch, SMALL.bytes)[0]

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert set(pool.map(one, range(200))) == {clients.OK}


HTTP1 = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two content-lengths": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "length and chunked": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "huge content-length": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "negative content-length": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "bad chunk": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "endless chunk size": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000,
    "chunk of 2^64": b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "nul in a header": b"GET / HTTP/1.1\r\nHost: x\x00y\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: x\n\n",
    "version 9.9": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "a long path": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "no such method": b"FROBNICATE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    "upgrade to h2c": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
}


@pytest.mark.parametrize("name", HTTP1)
def test_bad_http1(server, name):
    """An error status or a closed connection; never a 2xx, never silence while the sender waits."""
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as c:
        try:
            c.sendall(HTTP1[name])
        except OSError:
            return
        try:
            answer = c.recv(4096)
        except ConnectionError:
            return
        assert answer == b"" or (answer.startswith(b"HTTP/1.") and int(answer.split()[1]) >= 400), answer[:200]


def test_pipelined_requests_are_answered_in_order(server):
    one = (b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n"
           % len(SMALL.bytes)) + SMALL.bytes
    with socket.create_connection(clients.split_address(server.http), timeout=program.HANG) as c:
        c.sendall(one * 5 + b"GET /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        data = b""
        while chunk := c.recv(65536):
            data += chunk
    statuses = [int(x.split()[0]) for x in data.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200] * 5 + [404]
