"""GET /debug/pprof/profile: waits, and answers what was sampled meanwhile, as Go's pprof reads it."""

import gzip
import http.client
import re
import select
import shutil
import subprocess
import threading
import time

import pytest
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

import clients
import fixtures
import program
import pyroscope
from web_pages import request

BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"
SECOND = 10**9
SERVICE = 'a "quoted" service'
SELECTED = "service=a+%22quoted%22+service"
SPAN = 600  # seconds around now that the body below has a timestamp for every 50 ms of: no machine is slower than that


@pytest.fixture
def up(tmp_path):
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0",
                        "--log-level", "info", "--db", tmp_path / "up.db") as server:
        yield server, server._endpoint("The page is served")


def around(t0):
    """Samples of the recorded body as if taken from now on, several timestamps to a sample, far apart. Gives it and all times."""
    body = profiles_service_pb2.ExportProfilesServiceRequest.FromString(BIG.read_bytes())
    del body.resource_profiles[1:]
    resource = body.resource_profiles[0]
    del resource.resource.attributes[:]
    resource.resource.attributes.add(key="service.name").value.string_value = SERVICE
    del resource.scope_profiles[1:]
    del resource.scope_profiles[0].profiles[1:]
    profile = resource.scope_profiles[0].profiles[0]
    del profile.samples[60:]
    profile.time_unix_nano, profile.duration_nano = t0 - 20 * SECOND, (SPAN + 40) * SECOND
    count, times = len(profile.samples), []
    for n, sample in enumerate(profile.samples):
        mine = [t0 - 10 * SECOND + i * SECOND // 20 + n for i in range(n, (SPAN + 20) * 20, count)]
        del sample.timestamps_unix_nano[:]
        del sample.values[:]
        sample.timestamps_unix_nano.extend(mine)
        times += mine
    return body.SerializeToString(), sorted(times)


def check_window(got, times, sent, answered, seconds):
    """`got` is all there was in one stretch of that many seconds between the two moments."""
    assert got and sent <= got[0] and got[-1] <= answered and got[-1] - got[0] < seconds * SECOND
    assert got == [t for t in times if got[0] <= t <= got[-1]], "none is missing, none doubled"
    assert got[-1] - got[0] > (seconds - 1) * SECOND, "the whole stretch"


def test_the_seconds_to_come(up):
    server, page = up
    body, times = around(time.time_ns())
    assert clients.post(server.http, body).status == 200
    sent = time.time_ns()
    answer = request(page, "GET", f"/debug/pprof/profile?seconds=2&{SELECTED}")
    answered = time.time_ns()
    assert answer.status == 200 and "attachment" in answer.headers["content-disposition"]
    profile = pyroscope.CLASSES["Profile"].FromString(gzip.decompress(answer.body))
    keys = profile.string_table
    check_window(sorted(x.num for s in profile.sample for x in s.label if keys[x.key] == "timestamp"), times, sent, answered, 2)
    other = request(page, "GET", "/debug/pprof/profile?seconds=1&service=b")
    assert other.status == 200 and not pyroscope.CLASSES["Profile"].FromString(gzip.decompress(other.body)).sample


def test_go_tool_pprof_over_http(up, tmp_path):
    go = shutil.which("go") or shutil.which("go", path="/usr/lib/go/bin:/usr/local/go/bin")
    if not go:
        pytest.skip("SKIPPED ALOUD: no go, which has the independent reader of pprof files")
    server, page = up
    env = program.environment(PPROF_TMPDIR=str(tmp_path), GOTOOLCHAIN="local")
    subprocess.run([go, "tool", "pprof", "-h"], capture_output=True, env=env, timeout=300, check=False)  # a new Go builds it now
    body, times = around(time.time_ns())
    assert clients.post(server.http, body).status == 200
    sent = time.time_ns()
    url = f"http://{page}/debug/pprof/profile?seconds=2&{SELECTED}"
    done = subprocess.run([go, "tool", "pprof", "-raw", url], capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "samples/count cpu/nanoseconds" in done.stdout
    check_window(sorted(int(t) for t in re.findall(r"timestamp:\[(\d+) nanoseconds\]", done.stdout)), times, sent, time.time_ns(), 2)
    kept = next(p for p in tmp_path.glob("pprof.*") if p.stat().st_size > 500)
    top = subprocess.run([go, "tool", "pprof", "-top", str(kept)], capture_output=True, text=True, env=env, timeout=300, check=True).stdout
    assert re.search(r"100% of .* total|Showing nodes accounting for", top), top


def test_wrong_words(up):
    _, page = up
    for words in ("seconds=0", "seconds=301", "seconds=-1", "seconds=1.5", "service=a&query={a=%22b%22}", "seconds=%"):
        got = request(page, "GET", "/debug/pprof/profile?" + words)
        assert got.status == 400 and got.json()["error"]["what"], words
    assert request(page, "GET", "/debug/pprof/profile?seconds=1&query=%7B").status == 400
    assert request(page, "GET", "/debug/pprof/profile", headers={"Host": "evil.example"}).status == 421
    assert request(page, "POST", "/debug/pprof/profile", b"").status == 405
    assert request(page, "GET", "/debug/pprof/heap").status == 404


def test_places_are_bounded_and_freed(up):
    """64 wait; more are refused; who hangs up gives the place back; the end answers who still waits."""
    server, page = up
    host, port = page.rsplit(":", 1)

    def waiting():
        c = http.client.HTTPConnection(host, int(port), timeout=2 * program.HANG)
        c.request("GET", "/debug/pprof/profile?seconds=300")
        return c

    def refused():
        return [c for c in held if select.select([c.sock], [], [], 0)[0]]

    held = [waiting() for _ in range(80)]
    program.wait_for(lambda: len(refused()) == 16, what="16 more than there are places refused")
    full = refused()
    assert {c.getresponse().status for c in full} == {503}
    waiters = [c for c in held if c not in full]
    assert len(waiters) == 64
    for c in waiters[1:]:
        c.close()
    program.wait_for(lambda: request(page, "GET", "/debug/pprof/profile?seconds=1").status != 503, what="places given back", every=0.1)
    statuses = []
    reader = threading.Thread(target=lambda: statuses.append(waiters[0].getresponse().status))
    reader.start()
    server.process.terminate()
    reader.join(2 * program.HANG)
    assert statuses == [503]
    for c in held:
        c.close()
