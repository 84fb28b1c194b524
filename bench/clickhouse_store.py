"""ClickHouse servers with bench/gen's samples, for the benches: what bench/clickhouse and bench/queries share."""

import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import clients  # noqa: E402
import program  # noqa: E402

REQUESTS = 'flametap_store_requests_total{exporter="clickhouse"}'


def bodies(samples, folder):
    path = pathlib.Path(folder) / "gen.otlp"
    subprocess.run([ROOT / "build" / "release" / "bench" / "gen", "--samples", str(samples), "-o", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        while head := f.read(4):
            yield f.read(int.from_bytes(head, "big"))
    path.unlink()


def merge(server, database):
    """One part of each table, as a store has it that has been there for a while."""
    for table in ("samples", "requests", "dictionary", "links"):
        server.ask(f"OPTIMIZE TABLE flametap_{table} FINAL", database)


def keep(server, database, samples, folder):
    """Gives the samples to a backend that keeps them in the database; its URL."""
    with tempfile.TemporaryDirectory() as spool:
        backend = program.backend("-receiver", "clickhouse", "-clickhouse.url", f"{server.url}/{database}", "-spool-dir", spool,
                                  "-metrics-address", "127.0.0.1:0")
        sent = 0
        with clients.channel(backend.grpc) as ch:
            for body in bodies(samples, folder):
                clients.export(ch, body)
                sent += 1
        program.wait_for(lambda: backend.metrics().get(REQUESTS, 0) >= sent, 600, "the last insert", every=0.2)
        backend.__exit__(None, None, None)
    merge(server, database)
    return f"{server.url}/{database}"


class Counter:
    """Stands before a server and counts what goes through: requests, and bytes each way."""

    def __init__(self, port):
        self.port, self.requests, self.sent, self.got = port, 0, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, False), daemon=True).start()

    def pump(self, near, far, asks):
        try:
            while data := near.recv(1 << 20):
                if asks:
                    self.requests += len(re.findall(rb"POST /\S* HTTP/1", data))
                    self.sent += len(data)
                else:
                    self.got += len(data)
                far.sendall(data)
        except OSError:
            pass
        for s in (near, far):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
