"""What Pyroscope's clients and OTLP senders send to the page's own address: /ingest, push.v1, OTLP over gRPC and HTTP; acknowledged means kept."""

import gzip
import json
import time
import urllib.parse

import pytest
from google.protobuf import json_format

import clients
import fixtures
import program
import pyroscope
from pyroscope import call
from web_pages import ask, request

BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    db = tmp_path_factory.mktemp("ingest") / "up.db"
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info",
                        "--metrics-address", "127.0.0.1:0", "--db", db) as server:
        yield server


@pytest.fixture(scope="module")
def page(up):
    return up._endpoint("The page is served")


NOW = int(time.time())


def ingest(page, body, status=200, headers=None, **query):
    got = request(page, "POST", "/ingest?" + urllib.parse.urlencode({"from": NOW - 10, "until": NOW} | query), body, headers)
    assert got.status == status, (got.status, got.body)
    return got


def stacks(page, service, type_="cpu", **more):
    selector = "{service_name=" + json.dumps(service) + "".join(f",{k}={json.dumps(v)}" for k, v in more.items()) + "}"
    ids = [t.ID for t in call(page, "ProfileTypes").profile_types if t.sample_type == type_]
    out = {}
    for id_ in ids:
        out |= pyroscope.stacks(call(page, "SelectMergeStacktraces", profile_typeID=id_, label_selector=selector).flamegraph)
    return out


FOLDED = b"main;work;inner 3\nmain;work 2\n\n# a comment\nmain;idle loop 1\n"
WANT = {("main", "work", "inner"): 3, ("main", "work"): 2, ("main", "idle loop"): 1}


def pprof(types=(("samples", "count"), ("cpu", "nanoseconds")), period=10_000_000, time_nanos=0):
    p = pyroscope.message("Profile")
    strings = {"": 0}
    p.string_table.append("")

    def s(text):
        if text not in strings:
            strings[text] = len(p.string_table)
            p.string_table.append(text)
        return strings[text]

    for t, u in types:
        p.sample_type.add(type=s(t), unit=s(u))
    p.period_type.type, p.period_type.unit = s(types[-1][0]), s(types[-1][1])
    p.period, p.time_nanos = period, time_nanos
    ids = {}
    for stack, value in WANT.items():
        sample = p.sample.add(value=[value * period ** (k == len(types) - 1) for k in range(len(types))])
        for name in reversed(stack):
            if name not in ids:
                ids[name] = len(ids) + 1
                p.function.add(id=ids[name], name=s(name), system_name=s(name))
                p.location.add(id=ids[name]).line.add(function_id=ids[name])
            sample.location_id.append(ids[name])
    return p.SerializeToString()


def times(values, by):
    return {k: v * by for k, v in values.items()}


def multipart(**parts):
    boundary = "=-not-in-it-" + str(len(parts))
    body = b""
    for name, content in parts.items():
        body += f"--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n".encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def test_folded(page):
    ingest(page, FOLDED, name="plain")
    assert stacks(page, "plain") == times(WANT, 10_000_000), "100 samples a second when nothing is said"
    ingest(page, FOLDED, name='app.cpu{pod=a b,region="eu",__session_id__=1}', format="folded", sampleRate=50, spyName="pyspy", aggregationType="sum")
    assert stacks(page, "app", pod="a b", region="eu") == times(WANT, 20_000_000) and not stacks(page, "app.cpu")
    ingest(page, FOLDED, name="shop{service_name=named}", units="objects")
    assert stacks(page, "named", "alloc_objects") == WANT
    ingest(page, FOLDED, name="mem.inuse_space")
    assert stacks(page, "mem", "inuse_space") == WANT
    ingest(page, b"main;a\nmain;a\nmain;b\n", name="lines", format="lines", sampleRate=1000)
    assert stacks(page, "lines") == {("main", "a"): 2_000_000, ("main", "b"): 1_000_000}
    ingest(page, gzip.compress(FOLDED), name="packed", headers={"Content-Encoding": "gzip"})
    assert stacks(page, "packed") == times(WANT, 10_000_000)
    first = NOW * 10 ** 9 - 10 * 10 ** 9
    rows = ask(page, "raw", query='{service.name="plain"}').json()["rows"]
    assert {r["time_ns"] for r in rows} == {str(first)}


def test_pprof(page):
    ingest(page, pprof(), name="raw", format="pprof")
    ingest(page, gzip.compress(pprof()), name="zipped", format="pprof")
    assert stacks(page, "raw") == stacks(page, "zipped") == times(WANT, 10_000_000)
    body, headers = multipart(profile=gzip.compress(pprof()), prev_profile=b"ignored")
    ingest(page, body, name="parts{a=b}", headers=headers)
    assert stacks(page, "parts", a="b") == times(WANT, 10_000_000)
    config = {"contentions": {"display-name": "mutex_count", "units": "lock_samples"}, "delay": {"display-name": "mutex_duration", "x": [1]}}
    body, headers = multipart(profile=pprof((("contentions", "count"), ("delay", "nanoseconds")), 5), sample_type_config=json.dumps(config).encode())
    ingest(page, body, name="locks", headers=headers, format="pprof")
    assert stacks(page, "locks", "mutex_count") == WANT and stacks(page, "locks", "mutex_duration") == times(WANT, 5)


@pytest.mark.parametrize("form", ["proto", "json", "gzip", "grpc"])
def test_push(page, form):
    service = f"pushed by {form}"
    labels = [pyroscope.message("LabelPair", name=k, value=v) for k, v in
              (("__name__", "process_cpu"), ("service_name", service), ("pod", "p1"), ("empty", ""))]
    samples = [pyroscope.message("RawSample", raw_profile=p, ID="x") for p in (gzip.compress(pprof()), pprof(time_nanos=NOW * 10 ** 9))]
    series = [pyroscope.message("RawProfileSeries", labels=labels, samples=samples)]
    push = pyroscope.message("PushRequest", series=series)
    path = "/push.v1.PusherService/Push"
    if form == "grpc":
        with clients.channel(page) as ch:
            stub = ch.unary_unary(path, response_deserializer=pyroscope.CLASSES["PushResponse"].FromString)
            stub(push.SerializeToString(), timeout=60)
    elif form == "json":
        assert json.loads(pyroscope.post(page, path, json_format.MessageToJson(push).encode(), "application/json")) == {}
    elif form == "gzip":
        assert pyroscope.post(page, path, gzip.compress(push.SerializeToString()), "application/proto", {"Content-Encoding": "gzip"}) == b""
    else:
        assert pyroscope.post(page, path, push.SerializeToString(), "application/proto") == b""
        assert pyroscope.post(page, path, b"", "application/proto") == b"", "nothing pushed is no error"
    assert stacks(page, service, pod="p1") == times(WANT, 20_000_000)


def test_what_is_wrong_is_refused(up, page):
    before = ask(page, "status").json()["asof"]
    for body, query, status in ((FOLDED, {}, 400), (FOLDED, {"name": "{a=b}"}, 400), (FOLDED, {"name": "a{b=c"}, 400), (FOLDED, {"name": "a{b}"}, 400),
                                (b"no count here", {"name": "a"}, 400), (b"\xff\xff", {"name": "a", "format": "pprof"}, 400),
                                (b"", {"name": "a", "format": "pprof"}, 400), (gzip.compress(FOLDED)[:-9], {"name": "a", "format": "pprof"}, 400),
                                (b"x", {"name": "a", "format": "jfr"}, 501), (FOLDED, {"name": "a", "sampleRate": "0"}, 400),
                                (FOLDED, {"name": "a", "from": "yesterday"}, 400), (FOLDED, {"name": "a", "from": NOW + 5}, 400),
                                (FOLDED, {"name": "a", "units": "bananas"}, 400), (FOLDED, {"name": "a{" + ",".join(f"k{i}=v" for i in range(200)) + "}"}, 422)):
        assert ingest(page, body, status, **query).json()["error"]["what"], query
    for content_type, body in (("multipart/form-data", b""), ("multipart/form-data; boundary=", b"--"), ("multipart/form-data; boundary=x", b"--x\r\n"),
                               ("multipart/form-data; boundary=x", b"--x\r\n\r\nabc\r\n--x--"), ("multipart/form-data; boundary=" + "x" * 71, b""),
                               ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nabc\r\n--x--')):
        ingest(page, body, 400, headers={"Content-Type": content_type}, name="a")
    for body in (b"\x0a", pyroscope.message("PushRequest", series=[pyroscope.message("RawProfileSeries", samples=[
            pyroscope.message("RawSample", raw_profile=b"junk")])]).SerializeToString()):
        with pytest.raises(pyroscope.ConnectError) as e:
            pyroscope.post(page, "/push.v1.PusherService/Push", body, "application/proto")
        assert e.value.error["code"] == "invalid_argument"
    ingest(page, FOLDED, 403, name="a", headers={"Origin": "http://evil.example"})
    ingest(page, FOLDED, 403, name="a", headers={"Host": "evil.example"})
    assert request(page, "GET", "/ingest?name=a").status in (404, 405)
    assert ask(page, "status").json()["asof"] == before, "nothing of it was kept"
    assert program.metric_sum(up.metrics(), "otelcol_receiver_failed_requests_total") >= 0


def drawn(page, begin, end, **more):
    return ask(page, "timeline", **{"from": begin, "to": end, "width": end - begin} | more).json()


def test_a_profile_is_drawn_as_long_as_it_was(page):
    """One core for ten seconds is one core in each; a level stays; a moment is there; what counts in a window is all in it."""
    begin = 1_700_000_000
    ingest(page, b"main;work 1000\n", name="line.cpu", **{"from": begin, "until": begin + 10})
    cpu = {"query": '{service.name="line"}', "type": "cpu"}
    line = drawn(page, begin - 5, begin + 15, **cpu)
    assert line["series"][0]["values"] == [None] * 5 + [10**9] * 10 + [None] * 5 and line["covered"] == [0] * 5 + [1] * 10 + [0] * 5
    assert not line["gauge"]
    for width in (3, 7, 20, 1000):
        assert sum(v or 0 for v in drawn(page, begin - 5, begin + 15, **cpu | {"width": width})["series"][0]["values"]) == 10**10, width
    cut = drawn(page, begin - 5, begin + 5, **cpu)["series"][0]["values"]
    assert cut == [None] * 5 + [2 * 10**9] * 5, "what counts in the window is drawn in it"
    assert not any(s["values"] for s in drawn(page, begin + 5, begin + 15, **cpu)["series"]), "it began before"
    for n, level in enumerate((600, 400)):
        ingest(page, b"main;keep %d\nmain;more 1\n" % level, name="line.inuse_space", **{"from": begin + 10 * n, "until": begin + 10 * n + 10})
    heap = drawn(page, begin - 5, begin + 25, query='{service.name="line"}', type="inuse_space")
    assert heap["gauge"] and heap["series"][0]["values"] == [None] * 5 + [601] * 10 + [401] * 10 + [None] * 5
    ingest(page, b"main;once 3\n", name="moment.cpu", **{"from": begin, "until": begin})
    moment = drawn(page, begin - 2, begin + 2, query='{service.name="moment"}')
    assert moment["covered"] == [0, 0, 1, 0] and moment["series"][0]["values"] == [None, None, 30_000_000, None]


def test_otlp_on_the_same_port(page):
    body = fixtures.BY_NAME[fixtures.BIG]
    data = body.path.read_bytes()
    with clients.channel(page) as ch:
        clients.export(ch, data, version=body.version)
        assert clients.export_status(ch, b"\xff")[0] == clients.INVALID_ARGUMENT
    over_grpc = ask(page, "top", type="process_cpu:cpu:nanoseconds:cpu:nanoseconds", query='{host.name=~".*"}').json()["total"]
    assert clients.post(page, data).status == 200, "the same again: known, kept once"
    assert ask(page, "top", type="process_cpu:cpu:nanoseconds:cpu:nanoseconds", query='{host.name=~".*"}').json()["total"] == over_grpc
    assert clients.post(page, b"\xff").status == 400
    evil = clients.http_request(page, "POST", "/v1development/profiles", data, {"Content-Type": "application/x-protobuf", "Origin": "https://evil.example"})
    assert evil.status == 403 and evil.rpc_status.code == 7
    assert clients.post(page, data, headers={"Host": "evil.example"}).status == 403


def test_what_only_shows_takes_nothing():
    import web_pages
    with web_pages.view(BIG) as address:
        assert ingest(address, FOLDED, 501, name="a").json()["error"]["what"].startswith("nothing is taken here")
        assert clients.post(address, BIG.read_bytes()).status == 404
        with pytest.raises(pyroscope.ConnectError) as e:
            pyroscope.post(address, "/push.v1.PusherService/Push", b"", "application/proto")
        assert e.value.error["code"] == "unimplemented"


def test_acknowledged_is_kept_over_a_kill(tmp_path):
    words = ("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info", "--db", tmp_path / "k.db")
    with program.Server(*words) as server:
        page = server._endpoint("The page is served")
        for n in range(20):
            ingest(page, FOLDED, name=f"n{n}")
        server.kill()
    with program.Server(*words) as server:
        page = server._endpoint("The page is served")
        kept = call(page, "LabelValues", name="service_name").names
        assert set(kept) == {f"n{n}" for n in range(20)}
