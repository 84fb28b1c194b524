"""What the tests of the web server share: servers on free ports, plain HTTP questions to them, and trees decoded from docs/api.md."""

import contextlib
import http.client
import json
import re
import struct
import subprocess
import urllib.parse

import program

ALWAYS = {"from": "2000-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}


@contextlib.contextmanager
def view(*files):
    """`flametap view` on a free port: gives "host:port"; its end must be clean (a sanitizer's report is none)."""
    server = subprocess.Popen([str(program.existing_path()), "view", "--listen", "127.0.0.1:0", "--quiet", *map(str, files)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=program.environment())
    try:
        url = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), url
        yield url[len("http://"):].rstrip("/")
    finally:
        server.terminate()
        said = server.communicate(timeout=program.HANG)[1]
    assert server.returncode == 0, said


def page_of(server):
    """Where a program.Server has its page."""
    return server._endpoint("The page is served")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def request(address, method, target, body=None, headers=None, timeout=program.HANG):
    """`target` goes out as it is; headers replace http.client's own (Host)."""
    host, port = address.rsplit(":", 1)
    c = http.client.HTTPConnection(host, int(port), timeout=timeout)
    try:
        headers = dict(headers or {})
        c.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
        if body is not None:
            c.putheader("Content-Length", str(len(body)))
        for name, value in headers.items():
            c.putheader(name, value)
        c.endheaders(body)
        r = c.getresponse()
        return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
    finally:
        c.close()


def target(question, pairs):
    return f"/api/v1/{question}?" + urllib.parse.urlencode(pairs, doseq=True)


def ask(address, question, status=200, **pairs):
    got = request(address, "GET", target(question, ALWAYS | pairs))
    assert got.status == status, (got.status, got.body[:500])
    return got


_TYPES = {"u8": "B", "u32": "I", "u64": "Q", "f64": "d"}


def tree(body):
    """docs/api.md, "The tree": the header, with each array by its name."""
    assert body[:4] == b"FTT1"
    (n,) = struct.unpack_from("<I", body, 4)
    header = json.loads(body[8:8 + n])
    at = 8 + n + -n % 8
    assert not body[8 + n:at].strip(b" ")
    arrays = {}
    for name, type_, count in header["arrays"]:
        code = "<" + str(count) + _TYPES[type_]
        arrays[name] = struct.unpack_from(code, body, at)
        at += struct.calcsize(code)
        at += -at % 8
    assert at == len(body)
    text, offsets = bytes(arrays["string_bytes"]), arrays["string_offset"]
    strings = [text[a:b].decode() for a, b in zip(offsets, offsets[1:])]
    return header, arrays, strings
