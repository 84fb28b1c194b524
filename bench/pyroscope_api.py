#!/usr/bin/env python3
"""CPU, memory and meaning of Pyroscope's query API: the same questions, asked of `flametap up` and, where there is one, of Pyroscope.

    build/venv/bin/python bench/pyroscope_api.py            PEER_PYROSCOPE=/path/to/pyroscope: the peer, else 'not run'

The recorded body is sent BODIES times as if sampled one after another within the last minutes, to both over OTLP/HTTP. Then
SelectMergeStacktraces is asked CALLS times, CPU is what /proc/PID/stat says of the server meanwhile; and once each: the whole flame graph,
that of one thread, SelectSeries, LabelValues. What the two answer is compared by meaning: values by stack of names, sums of points, sets of
values. Goal: equal, with a tenth of the CPU. Yardstick: a fixed loop of this interpreter in the same minute. Exit status 1: they differ.
"""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import house  # noqa: E402

house.begin(__doc__, ["grpc", "opentelemetry"])

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


def yardstick():
    began = time.process_time()
    sum(i * i for i in range(3_000_000))
    return (time.process_time() - began) * 1000


def meaning(address, window):
    """What each question's answer says, in a form that does not depend on the order or the numbering of the one who answers."""
    asked = {"profile_typeID": TYPE, "label_selector": "{}"} | window
    values = sorted(pyroscope.call(address, "LabelValues", name="service_name", **window).names)
    series = pyroscope.call(address, "SelectSeries", step=15, group_by=["service_name"], **asked).series
    out = {
        "stacks": pyroscope.stacks(pyroscope.call(address, "SelectMergeStacktraces", max_nodes=1 << 20, **asked).flamegraph),
        "series": {tuple(sorted((p.name, p.value) for p in s.labels)): sum(p.value for p in s.points) for s in series},
        "services": values,
    }
    for service in values[:3]:
        one = asked | {"label_selector": f'{{service_name="{service}"}}'}
        out[f"stacks of {service}"] = pyroscope.stacks(pyroscope.call(address, "SelectMergeStacktraces", max_nodes=1 << 20, **one).flamegraph)
    return out


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
    figures = {"body": 1000 * taken / BODIES, "call": 1000 * cpu / CALLS}
    print(f"{name:10} {figures['body']:8.1f} ms CPU a body  {figures['call']:8.1f} ms CPU a call  {1000 * wall / CALLS:8.1f} ms a call  "
          f"{rss_mib(pid):7.1f} MiB  total {total}  (yardstick {yardstick():.0f} ms)", flush=True)
    return figures, meaning(address, window)


def free_port():
    """The peer cannot say which port it took: one that was free a moment ago, another when it was gone by then."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def peer(path, now, folder):
    port, grpc_port, gossip_port = free_port(), free_port(), free_port()
    words = [path, f"-server.http-listen-port={port}", "-server.http-listen-address=127.0.0.1",
             f"-server.grpc-listen-port={grpc_port}", "-server.grpc-listen-address=127.0.0.1", f"-memberlist.bind-port={gossip_port}", "-target=all", "-self-profiling.disable-push=true",
             f"-pyroscopedb.data-path={folder}/data", f"-storage.filesystem.dir={folder}/shared", f"-compactor.data-dir={folder}/compactor"]
    with open(f"{folder}/log", "wb") as log, subprocess.Popen(words, cwd=folder, stdout=log, stderr=log) as process:
        try:
            def ready():
                assert process.poll() is None, f"Pyroscope ended with {process.returncode}: {folder}/log"
                try:
                    return clients.http_request(f"127.0.0.1:{port}", "GET", "/ready").status == 200
                except OSError:
                    return False
            program.wait_for(ready, what="Pyroscope", every=0.5)
            return measure("pyroscope", process.pid, f"127.0.0.1:{port}", now)
        finally:
            process.terminate()


def differences(ours, theirs):
    for what in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(what), theirs.get(what)
        if mine != other:
            few = sorted(set(map(str, mine.items() if isinstance(mine, dict) else mine or [])) ^
                         set(map(str, other.items() if isinstance(other, dict) else other or [])))[:4]
            yield f"{what}: {len(mine or [])} and {len(other or [])} entries; for instance {'; '.join(few)}"


def main():
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="flametap-bench-") as folder:
        with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info",
                            "--db", f"{folder}/up.db") as server:
            ours, mine = measure("flametap", server.pid, server._endpoint("The page is served"), now)
        if not os.environ.get("PEER_PYROSCOPE"):
            print("pyroscope  not run (PEER_PYROSCOPE is not set)")
            return 0
        theirs, other = peer(os.environ["PEER_PYROSCOPE"], now, folder)
        for what in ("body", "call"):
            share = ours[what] / theirs[what] if theirs[what] else 0
            print(f"CPU a {what}: {share:.3f} of Pyroscope's")
        found = list(differences(mine, other))
        print("the answers mean the same" if not found else "THE ANSWERS DIFFER\n  " + "\n  ".join(found))
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
