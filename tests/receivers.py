"""OTLP receivers made of grpcio and http.server: what the program sends to, with answers that a test decides."""

import concurrent.futures
import gzip
import http.server
import threading
import zlib

import cramjam
import grpc
import zstandard

import clients
import schemas


class Refuse(Exception):
    """A status for the sender: code and text, with an optional RetryInfo delay in seconds."""

    def __init__(self, code, text="refused by the test", delay=None):
        super().__init__(text)
        self.code, self.text, self.delay = code, text, delay


class Hangup(Exception):
    """The HTTP receiver has read the request, and closes the connection without an answer."""


_CODES = {c.value[0]: c for c in grpc.StatusCode}


class GrpcReceiver:
    """Takes Export calls of both service names. `answer(body, number)` returns response bytes or raises Refuse."""

    def __init__(self, answer=None, address="127.0.0.1:0", credentials=None):
        self.bodies, self.metadata, self.paths, self.refused = [], [], [], []
        self.answer = answer or (lambda body, number: b"")
        self.calls = 0
        self._lock = threading.Lock()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8),
                                   options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        if credentials is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, credentials)
        assert port, f"cannot listen on {address}"
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def service(self, details):
        if details.method not in (schemas.grpc_path("1.3"), schemas.grpc_path(schemas.NEWEST)):
            return None
        method = details.method

        def export(body, context):
            with self._lock:
                number = self.calls
                self.calls += 1
                self.metadata.append(dict(context.invocation_metadata()))
            try:
                response = self.answer(body, number)
            except Refuse as r:
                with self._lock:
                    self.refused.append(body)
                if r.delay is not None:
                    context.set_trailing_metadata((
                        ("grpc-status-details-bin", clients.status_bytes(r.code, r.text, r.delay)),))
                context.abort(_CODES[r.code], r.text)
            with self._lock:
                self.bodies.append(body)
                self.paths.append(method)
            return response

        return grpc.unary_unary_rpc_method_handler(export, request_deserializer=None, response_serializer=None)

    def stop(self):
        self._server.stop(0).wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def decompress(data, encoding):
    if encoding in (None, "", "identity"):
        return data
    return {"gzip": gzip.decompress, "deflate": zlib.decompress, "zlib": zlib.decompress, "snappy": lambda d: bytes(cramjam.snappy.decompress_raw(d)),
            "zstd": lambda d: zstandard.ZstdDecompressor().decompressobj().decompress(d)}[encoding](data)


class HttpReceiver:
    """Takes OTLP/HTTP posts. `answer(body, number)` returns response bytes or raises Refuse (its code is an HTTP status) or Hangup."""

    def __init__(self, answer=None, ssl_context=None):
        self.bodies, self.headers, self.paths = [], [], []
        self.answer = answer or (lambda body, number: b"")
        self.calls = 0
        lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def body(self):
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                data = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data

            def do_POST(self):
                body = decompress(self.body(), self.headers.get("Content-Encoding"))
                with lock:
                    number = outer.calls
                    outer.calls += 1
                    outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                    outer.paths.append(self.path)
                try:
                    response, status, delay = outer.answer(body, number), 200, None
                    with lock:
                        outer.bodies.append(body)
                except Refuse as r:
                    response, status, delay = clients.status_bytes(13, r.text), r.code, r.delay
                except Hangup:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", self.headers.get("Content-Type", "application/x-protobuf"))
                self.send_header("Content-Length", str(len(response)))
                if delay is not None:
                    self.send_header("Retry-After", str(int(delay)))
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if ssl_context is not None:
            self._server.socket = ssl_context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.address = "127.0.0.1:%d" % self._server.server_address[1]
        self.url = f"{scheme}://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
