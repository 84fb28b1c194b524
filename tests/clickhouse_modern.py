"""A modern ClickHouse over HTTP: chdb-core, the engine as a library, behind http.server.

clickhouse_modern.py PORT FOLDER. One session a process; queries come one after another. Speaks what flametap needs: the query in
the URL, in the body, or an INSERT in the URL whose rows are the body; gzip and zstd bodies; errors as ClickHouse words them.
"""

import gzip
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from chdb import session as chdb_session

LOCK = threading.Lock()
INSERT = re.compile(r"^\s*INSERT\s+INTO\s+(.*)\s+FORMAT\s+(\w+)\s*$", re.S | re.I)
IGNORED = {"database", "query", "query_id", "wait_end_of_query", "buffer_size", "default_format", "user", "password", "session_id", "session_timeout", "session_check"}


def unpack(body, encoding):
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        import zstandard
        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    return body


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = unpack(self.rfile.read(int(self.headers.get("Content-Length") or 0)), self.headers.get("Content-Encoding"))
        url = urllib.parse.urlsplit(self.path)
        values = {k: v[-1] for k, v in urllib.parse.parse_qs(url.query).items()}
        settings = {k: v for k, v in values.items() if k not in IGNORED}
        query = values.get("query") or body.decode(errors="replace")
        try:
            with LOCK:
                name = values.get("session_id")
                done = name and in_session(name, "session_check" in values, query)
                answer = b"" if done else run(values.get("database", "default"), values.get("query"), body, settings)
            self.reply(200, answer)
        except Exception as failure:  # pylint: disable=broad-except
            self.reply(500, (str(failure) + "\n").encode())

    do_GET = do_POST

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


CLOSED = {}  # sessions, by id: has one been made read-only? The engine has but one, which must not be.


def in_session(name, must_exist, query):
    """What a server does in a session of the client's; is that all?"""
    if must_exist and name not in CLOSED:
        raise ValueError("Code: 372. DB::Exception: Session not found. (SESSION_NOT_FOUND)")
    closing = query == "SET readonly = 1"
    CLOSED[name] = CLOSED.get(name) or closing
    if CLOSED[name] and not closing:
        raise ValueError("Code: 164. DB::Exception: Cannot execute query in readonly mode. (READONLY)")
    return closing


def literal(value):
    return value if re.fullmatch(r"-?\d+", value) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def run(database, query, body, settings):
    SESSION.query(f"USE `{database}`")
    query = query if query is not None else body.decode("utf-8", "surrogateescape")
    insert = INSERT.match(query)
    if not insert and not query.strip():
        raise ValueError("Code: 62. DB::Exception: Syntax error: empty query. (SYNTAX_ERROR)")
    with_settings = ", ".join(f"{k} = {literal(v)}" for k, v in settings.items())
    if insert:
        with tempfile.NamedTemporaryFile(dir=FOLDER) as rows:
            rows.write(body)
            rows.flush()
            words = f" SETTINGS {with_settings}" if with_settings else ""
            SESSION.query(f"INSERT INTO {insert.group(1)} FROM INFILE '{rows.name}'{words} FORMAT {insert.group(2)}")
        return b""
    form = re.search(r"\bFORMAT\s+(\w+)\s*$", query, re.I)
    if form:
        query = query[:form.start()]
    if with_settings and re.match(r"\s*SELECT", query, re.I):
        query += f" SETTINGS {with_settings}"
    result = SESSION.query(query, form.group(1) if form else "TabSeparated")
    return bytes(result.bytes()) if result is not None else b""


if __name__ == "__main__":
    FOLDER = sys.argv[2]
    os.makedirs(FOLDER, exist_ok=True)
    SESSION = chdb_session.Session(FOLDER)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()
