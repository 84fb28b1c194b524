"""Limits: message size, memory in flight, taken ports; each refusal in the protocol's form, with a hint where a retry may help."""

import concurrent.futures
import gzip
import os
import socket
import time

import pytest

import clients
import fixtures
import handmade
import program
import schemas

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
MIB = 1 << 20


def body_of(size):
    """A valid body a little larger than size."""
    return handmade.resource_body(attributes=size // 100_000 + 1, filler="x" * 100_000).SerializeToString()


def test_message_limit_is_of_the_decompressed_size(backend):
    server = backend("-max-recv-msg-size-mib", "1", "-receiver", "nop")
    small, large = body_of(MIB * 3 // 4), body_of(MIB * 2)
    assert len(small) < MIB < len(large) and len(gzip.compress(large)) < MIB // 10
    for encoding in (None, "gzip", "zstd", "snappy", "deflate"):
        a = clients.grpc_by_hand(server.grpc, large, encoding=encoding)
        assert a.status == clients.RESOURCE_EXHAUSTED, (encoding, a)
        assert clients.retry_delay(a.rpc_status) is None if "grpc-status-details-bin" in a.trailers | a.headers else True
        assert str(MIB) in a.message or "1 MiB" in a.message, a.message
        a = clients.post(server.http, large, encoding=encoding)
        assert a.status == 413, (encoding, a)
        assert clients.grpc_by_hand(server.grpc, small, encoding=encoding).status == clients.OK
        assert clients.post(server.http, small, encoding=encoding).status == 200


def test_default_limit_is_64_mib(backend):
    server = backend("-receiver", "nop")
    assert clients.post(server.http, body_of(60 * MIB)).status == 200
    assert clients.post(server.http, body_of(65 * MIB)).status == 413


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate", "snappy"])
def test_decompression_bomb_is_refused_early(backend, encoding):
    """A small body that would become 1 GiB: refused at the limit, memory stays bounded, the next request works."""
    server = backend("-receiver", "nop", "-max-recv-msg-size-mib", "8")
    bomb = _bomb(encoding)
    assert len(bomb) < 80 * MIB
    a = clients.post(server.http, bomb, headers={"Content-Encoding": encoding})
    assert a.status == 413, a
    if encoding != "snappy":
        with clients.H2(server.grpc) as c:
            a = c.call(schemas.grpc_path(schemas.NEWEST), clients.frame(bomb, 1), [("grpc-encoding", encoding)])
        assert a.status == clients.RESOURCE_EXHAUSTED, a
    if not program.is_sanitized():
        assert server.peak_rss_kib < 128 * 1024
    assert clients.post(server.http, SMALL.bytes).status == 200


def _bomb(encoding, size=1 << 30):
    import zlib

    import zstandard
    if encoding == "snappy":
        # one literal, then copies of it: the header says 1 GiB, and that alone must be enough to refuse
        out, n = bytearray(), size
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes(out) + bytes([n]) + b"\x00a" + b"\xfe\x01\x00" * 1000
    c = {"gzip": lambda: zlib.compressobj(1, wbits=31), "deflate": lambda: zlib.compressobj(1),
         "zstd": lambda: zstandard.ZstdCompressor(write_content_size=False).compressobj()}[encoding]()
    block = bytes(1 << 20)
    return b"".join(c.compress(block) for _ in range(size >> 20)) + c.flush()


def test_memory_in_flight_is_bounded_and_hinted(backend):
    """Senders that never finish hold memory; past -max-inflight-mib others are told to come again, with a hint."""
    server = backend("-receiver", "nop", "-max-inflight-mib", "8", "-max-recv-msg-size-mib", "8")
    large = body_of(4 * MIB)
    path = schemas.grpc_path(schemas.NEWEST)
    held = []
    try:
        refused_grpc = refused_http = None
        for _ in range(6):
            c = clients.H2(server.grpc)
            held.append(c)
            c.unsent, c.stream = memoryview(clients.frame(large)[:-10]), c.begin(path)
        end = time.monotonic() + program.HANG
        while time.monotonic() < end and not (refused_grpc and refused_http):
            for c in held:
                _send_what_is_taken(c)
            a = clients.grpc_by_hand(server.grpc, large)
            if a.status not in (clients.OK, None):
                refused_grpc = a
            h = clients.post(server.http, large)
            if h.status != 200:
                refused_http = h
        assert refused_grpc is not None and refused_grpc.status == clients.UNAVAILABLE, refused_grpc
        assert clients.retry_delay(refused_grpc.rpc_status) > 0
        assert refused_http is not None and refused_http.status == 503, refused_http
        assert int(refused_http.headers["retry-after"]) >= 1
        assert refused_http.rpc_status.message
        if not program.is_sanitized():
            assert server.peak_rss_kib < 64 * 1024
    finally:
        for c in held:
            c.close()
    program.wait_for(lambda: clients.post(server.http, large).status == 200, what="room after the holders left")


def _send_what_is_taken(c):
    """Sends until the peer's window is closed or the call is answered."""
    while c.unsent and not c.answers[c.stream].closed:
        room = min(c.h2.local_flow_control_window(c.stream), c.h2.max_outbound_frame_size, len(c.unsent))
        if room:
            c.h2.send_data(c.stream, bytes(c.unsent[:room]))
            c.unsent = c.unsent[room:]
        try:
            if room:
                c.flush()
                continue
            if not c.pump(0.2):
                return
        except TimeoutError:
            if room:
                c.unsent = b""  # the server does not even read; half a frame is out
            return


def test_peak_memory_under_load_from_many_senders(backend):
    """16 senders, big bodies, a slow machine: what is held never passes the total by much."""
    server = backend("-receiver", "nop", "-max-inflight-mib", "16")
    large = body_of(3 * MIB)
    codes = []

    def send(_):
        with clients.channel(server.grpc) as ch:
            for _ in range(8):
                codes.append(clients.export_status(ch, large)[0])

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(16)))
    assert set(codes) <= {clients.OK, clients.UNAVAILABLE} and clients.OK in codes
    if not program.is_sanitized():
        assert server.peak_rss_kib < 96 * 1024


# ---- ports ----

@pytest.mark.parametrize("flag", ["-grpc-address", "-http-address"])
def test_taken_port_names_port_and_holder(flag):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        other = "-http-address" if flag == "-grpc-address" else "-grpc-address"
        done = program.run("backend", flag, f"127.0.0.1:{port}", other, "127.0.0.1:0")
    text = done.stderr.decode()
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in text and "in use" in text
    assert str(os.getpid()) in text, "the holder's pid"
    assert "python" in text or "pytest" in text, "the holder's name"


def test_two_programs_do_not_share_a_port(backend):
    server = backend()
    done = program.run("backend", "-grpc-address", server.grpc, "-http-address", "127.0.0.1:0")
    assert done.returncode == 1 and str(server.pid) in done.stderr.decode() and b"flametap" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:99999", "no such host:1", "127.0.0.1:x", "[::1:0"])
def test_bad_addresses_are_named(address):
    done = program.run("backend", "-grpc-address", address, "-http-address", "127.0.0.1:0")
    assert done.returncode in (1, 2) and address.encode() in done.stderr


def test_unix_socket(backend, tmp_path):
    server = backend("-grpc-address", f"unix://{tmp_path}/otlp.sock")
    with clients.channel(f"unix:{tmp_path}/otlp.sock") as ch:
        assert clients.export(ch, SMALL.bytes) == b""
    assert server.stdout == SMALL.stdout_text


def test_ipv6_loopback(backend):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("SKIPPED ALOUD: no IPv6 loopback here")
    server = backend("-grpc-address", "[::1]:0")
    with clients.channel(server.grpc) as ch:
        assert clients.export(ch, SMALL.bytes) == b""
