#!/usr/bin/env python3
"""CPU and memory of Pyroscope's query API: SelectMergeStacktraces, asked the same of `flametap up` and, where there is one, of Pyroscope.

    build/venv/bin/python bench/pyroscope_api.py            PEER_PYROSCOPE=/path/to/pyroscope: the peer, else 'not run'

The recorded body is sent BODIES times as if sampled one after another within the last minutes, to both over OTLP/HTTP, then asked for CALLS
times; CPU is what /proc/PID/stat says of the server meanwhile. Totals must be equal.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2  # noqa: E402

import clients  # noqa: E402
import fixtures  # noqa: E402
import program  # noqa: E402
import pyroscope  # noqa: E402

BODIES, CALLS, SECOND = 50, 50, 10 ** 9
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid):
    return int(next(x for x in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS")).split()[1]) / 1024


def bodies(now):
    """The recorded body, each time moved to a time of its own."""
    data = (fixtures.OTLP / f"{fixtures.BIG}.pb").read_bytes()
    for n in range(BODIES):
        body = profiles_service_pb2.ExportProfilesServiceRequest.FromString(data)
        profiles = [p for r in body.resource_profiles for s in r.scope_profiles for p in s.profiles]
        shift = now - (BODIES - n) * 5 * SECOND - min(p.time_unix_nano for p in profiles)
        for p in profiles:
            p.time_unix_nano += shift
            p.profile_id = (p.profile_id[:12] or b"bench-bench-") + n.to_bytes(4, "big")
            for s in p.samples:
                for i in range(len(s.timestamps_unix_nano)):
                    s.timestamps_unix_nano[i] += shift
        yield body.SerializeToString()


def measure(name, pid, address, now):
    begun = cpu_seconds(pid)
    for body in bodies(now):
        assert clients.post(address, body).status == 200
    taken = cpu_seconds(pid) - begun
    window = {"start": (now - 900 * SECOND) // 10 ** 6, "end": (now + 60 * SECOND) // 10 ** 6}

    def ask():
        return pyroscope.call(address, "SelectMergeStacktraces", profile_typeID=TYPE, label_selector="{}", max_nodes=16384, **window).flamegraph.total

    total = program.wait_for(ask, what="samples that can be asked for")
    begun, wall = cpu_seconds(pid), time.monotonic()
    for _ in range(CALLS):
        assert ask() == total
    cpu, wall = cpu_seconds(pid) - begun, time.monotonic() - wall
    print(f"{name:10} {1000 * taken / BODIES:8.1f} ms CPU a body  {1000 * cpu / CALLS:8.1f} ms CPU a call  {1000 * wall / CALLS:8.1f} ms a call  "
          f"{rss_mib(pid):7.1f} MiB  total {total}")
    return total


def peer(path, now, folder):
    port = 14040
    words = [path, f"-server.http-listen-port={port}", "-server.http-listen-address=127.0.0.1", "-target=all", "-self-profiling.disable-push=true",
             f"-pyroscopedb.data-path={folder}/data", f"-storage.filesystem.dir={folder}/shared", f"-compactor.data-dir={folder}/compactor"]
    with open(f"{folder}/log", "wb") as log, subprocess.Popen(words, cwd=folder, stdout=log, stderr=log) as process:
        try:
            def ready():
                try:
                    return clients.http_request(f"127.0.0.1:{port}", "GET", "/ready").status == 200
                except OSError:
                    return False
            program.wait_for(ready, what="Pyroscope", every=0.5)
            return measure("pyroscope", process.pid, f"127.0.0.1:{port}", now)
        finally:
            process.terminate()


def main():
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="flametap-bench-") as folder:
        with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info",
                            "--db", f"{folder}/up.db") as server:
            ours = measure("flametap", server.pid, server._endpoint("The page is served"), now)
        if os.environ.get("PEER_PYROSCOPE"):
            theirs = peer(os.environ["PEER_PYROSCOPE"], now, folder)
            print("totals are equal" if ours == theirs else f"TOTALS DIFFER: {ours} and {theirs}")
        else:
            print("pyroscope  not run (PEER_PYROSCOPE is not set)")


if __name__ == "__main__":
    main()
