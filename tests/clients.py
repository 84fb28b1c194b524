"""Clients that speak the real protocols without the program's own code: grpcio, http.client, and HTTP/2 by hand with h2."""

import base64
import gzip
import http.client
import json
import socket
import ssl
import struct
import time
import urllib.parse
import zlib

import cramjam
import grpc
import h2.config
import h2.connection
import h2.events
import zstandard
from google.rpc import error_details_pb2, status_pb2

import schemas

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 1, 2, 3, 4
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 12, 13, 14

# HTTP's "snappy" is one block, gRPC's a stream of frames: so senders have it.
COMPRESS = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "deflate": zlib.compress,
    "snappy": lambda d: bytes(cramjam.snappy.compress_raw(d)),
}


def split_address(address):
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


# ---- google.rpc.Status and the response, read by Google's protobuf ----

def retry_delay(status):
    """Seconds of the RetryInfo in a google.rpc.Status, or None."""
    for detail in status.details:
        if detail.type_url == "type.googleapis.com/google.rpc.RetryInfo":
            info = error_details_pb2.RetryInfo.FromString(detail.value)
            return info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return None


def status_bytes(code, message, delay=None):
    s = status_pb2.Status(code=code, message=message)
    if delay is not None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.seconds, info.retry_delay.nanos = int(delay), int(delay % 1 * 1e9)
        s.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=info.SerializeToString())
    return s.SerializeToString()


def partial_success(message):
    """(rejected, text) of an ExportProfilesServiceResponse."""
    r = schemas.schema(schemas.NEWEST).ExportProfilesServiceResponse.FromString(message)
    return r.partial_success.rejected_profiles, r.partial_success.error_message


# ---- gRPC by grpcio, bodies as bytes ----

def channel(address, credentials=None, options=()):
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0),
               *options]
    if credentials is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, credentials, options=options)


def export(ch, body, version=schemas.NEWEST, compression=None, timeout=60, metadata=None, path=None):
    """One unary Export of a body as it is; returns the response's bytes or raises grpc.RpcError."""
    call = ch.unary_unary(path or schemas.grpc_path(version), request_serializer=None, response_deserializer=None)
    return call(body, timeout=timeout, compression=compression, metadata=metadata)


def export_later(ch, body, version=schemas.NEWEST, timeout=60):
    """As export(), but what is returned is a future of it."""
    return ch.unary_unary(schemas.grpc_path(version), request_serializer=None, response_deserializer=None).future(body, timeout=timeout)


def export_status(ch, body, **options):
    """(code number, message) of an Export."""
    try:
        export(ch, body, **options)
        return OK, ""
    except grpc.RpcError as e:
        return e.code().value[0], e.details()


# ---- HTTP/1.1 ----

class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"HTTP {self.status} {self.headers} {self.body[:300]!r}"

    @property
    def rpc_status(self):
        """google.rpc.Status of an error's body, in either encoding."""
        if self.headers.get("content-type", "").startswith("application/json"):
            d = json.loads(self.body)
            s = status_pb2.Status(code=d.get("code", 0), message=d.get("message", ""))
            for x in d.get("details", []):
                if x.get("@type", "").endswith("google.rpc.RetryInfo"):
                    info = error_details_pb2.RetryInfo()
                    seconds = float(x["retryDelay"].rstrip("s"))
                    info.retry_delay.seconds, info.retry_delay.nanos = int(seconds), int(seconds % 1 * 1e9)
                    s.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo", value=info.SerializeToString())
            return s
        return status_pb2.Status.FromString(self.body)


def http_request(address, method, path, body=b"", headers=None, timeout=60, tls=None):
    host, port = split_address(address)
    if tls is not None:
        c = http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)
    else:
        c = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
    finally:
        c.close()


def post(address, body, version=schemas.NEWEST, encoding=None, content_type="application/x-protobuf", path=None, headers=None,
         **options):
    """An OTLP/HTTP export."""
    h = {"Content-Type": content_type} | (headers or {})
    if encoding:
        body = COMPRESS[encoding](body)
        h["Content-Encoding"] = encoding
    return http_request(address, "POST", path or schemas.http_path(version), body, h, **options)


# ---- gRPC over HTTP/2 by hand: what grpcio would not send ----

def frame(message, flag=0):
    return struct.pack(">BI", flag, len(message)) + message


class GrpcAnswer:
    def __init__(self):
        self.headers, self.trailers, self.body = {}, {}, b""
        self.reset = None
        self.goaway = None
        self.closed = False

    @property
    def status(self):
        text = self.trailers.get("grpc-status", self.headers.get("grpc-status"))
        return None if text is None else int(text)

    @property
    def message(self):
        return urllib.parse.unquote(self.trailers.get("grpc-message", self.headers.get("grpc-message", "")))

    @property
    def rpc_status(self):
        text = self.trailers.get("grpc-status-details-bin", self.headers.get("grpc-status-details-bin", ""))
        return status_pb2.Status.FromString(base64.b64decode(text + "=" * (-len(text) % 4)))

    def __repr__(self):
        return f"gRPC {self.status} {self.message!r} headers={self.headers} trailers={self.trailers} reset={self.reset} " \
               f"goaway={self.goaway} closed={self.closed}"


class H2:
    """One HTTP/2 connection; requests one at a time or several, blocking."""

    def __init__(self, address, timeout=60, validate=True, tls=None):
        self.sock = socket.create_connection(split_address(address), timeout=timeout)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname=split_address(address)[0])
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=validate, normalize_outbound_headers=validate))
        self.h2.initiate_connection()
        self.answers = {}
        self.pings = 0
        self.goaway = None
        self.closed = False
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def pump(self, wait=None):
        """Reads once; False at the end of the connection."""
        self.sock.settimeout(self.timeout if wait is None else wait)
        try:
            data = self.sock.recv(65536)
        except (ConnectionError, ssl.SSLError):
            data = b""
        if not data:
            self.closed = True
            return False
        for e in self.h2.receive_data(data):
            self._event(e)
        self.flush()
        return True

    def _event(self, e):
        a = self.answers.get(getattr(e, "stream_id", None))
        if isinstance(e, h2.events.ConnectionTerminated):
            self.goaway, self.goaway_text = e.error_code, e.additional_data
        elif isinstance(e, h2.events.PingAckReceived):
            self.pings += 1
        elif a is None:
            return
        elif isinstance(e, h2.events.ResponseReceived):
            a.headers = dict(e.headers)
        elif isinstance(e, h2.events.TrailersReceived):
            a.trailers = dict(e.headers)
        elif isinstance(e, h2.events.DataReceived):
            a.body += e.data
            self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
        elif isinstance(e, h2.events.StreamEnded):
            a.closed = True
        elif isinstance(e, h2.events.StreamReset):
            a.reset = e.error_code
            a.closed = True

    def begin(self, path, headers=(), end_stream=False, method="POST", grpc_headers=True):
        stream = self.h2.get_next_available_stream_id()
        base = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        if grpc_headers:
            base += [("content-type", "application/grpc"), ("te", "trailers")]
        self.answers[stream] = GrpcAnswer()
        self.h2.send_headers(stream, base + list(headers), end_stream=end_stream)
        self.flush()
        return stream

    def send(self, stream, data, end_stream=True):
        """Sends with flow control; stops when the peer has answered already."""
        view = memoryview(data)
        while view:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(view))
            if room <= 0:
                if not self.pump() or self.answers[stream].closed:
                    return
                continue
            self.h2.send_data(stream, bytes(view[:room]))
            view = view[room:]
            self.flush()
        if end_stream and not self.answers[stream].closed:
            self.h2.end_stream(stream)
            self.flush()

    def finish(self, stream):
        """Waits for the answer."""
        a = self.answers[stream]
        end = time.monotonic() + self.timeout
        while not a.closed and time.monotonic() < end:
            if not self.pump():
                break
        a.goaway = self.goaway
        return a

    def call(self, path, data, headers=()):
        """A whole gRPC call with already framed data."""
        stream = self.begin(path, headers)
        try:
            self.send(stream, data)
        except (ConnectionError, h2.exceptions.ProtocolError):
            pass
        return self.finish(stream)

    def alive(self):
        """A ping comes back."""
        before = self.pings
        try:
            self.h2.ping(b"flametap")
            self.flush()
            end = time.monotonic() + self.timeout
            while self.pings == before and time.monotonic() < end:
                if not self.pump():
                    return False
        except (ConnectionError, h2.exceptions.ProtocolError):
            return False
        return self.pings > before


def grpc_by_hand(address, message, version=schemas.NEWEST, encoding=None, flag=None, headers=(), path=None):
    """One Export with any grpc-encoding."""
    headers = list(headers)
    if encoding:
        headers.append(("grpc-encoding", encoding))
        if encoding == "snappy" and flag != 0:
            message = bytes(cramjam.snappy.compress(message))
        elif encoding in COMPRESS and flag != 0:
            message = COMPRESS[encoding](message)
    flag = (1 if encoding and encoding != "identity" else 0) if flag is None else flag
    with H2(address) as c:
        return c.call(path or schemas.grpc_path(version), frame(message, flag), headers)
