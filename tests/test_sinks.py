"""The sinks filesystem, prometheus and nop, and several at once."""

import subprocess
import collections
import concurrent.futures
import json
import re
import shutil

import pytest

import clients
import fixtures
import handmade
import layouts
import program
import receivers
import schemas
import view
from shapes import meant
from test_full import JQ_RESOLVE, check_json, resolve_line

MIXED = fixtures.body("v1.8.0-oncpu-mixed-a")
SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
ALL = [b for b in fixtures.BODIES if b.name != fixtures.BIG]


def view_of(body):
    return view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))


def send(server, *bodies):
    with clients.channel(server.grpc) as ch:
        for b in bodies:
            assert clients.export(ch, b.bytes, b.version) == b""


# ---- filesystem, format json: the layout of the 2026 program ----

def sample_file(container, p, sample):
    """What the lazy backend writes for one sample, as a dict."""
    out = {"container_id": container, "profile_id": p["profile_id"] or "0" * 32, "sample_type": p["sample_type"][0]}
    if sample["timestamps"]:
        out["timestamps_unix_nano"] = sample["timestamps"]
    if sample["attributes"]:
        out["attributes"] = dict(sorted((k, layouts.as_string(v)) for k, v, _ in sample["attributes"]))
    frames = []
    for f in sample["stack"]:
        kind = view.frame_type(f)
        for line in f["lines"]:
            fn = line["function"]
            frames.append({k: v for k, v in (("type", kind), ("function", fn["name"]), ("file", fn["filename"]), ("line", line["line"]),
                                             ("column", line["column"])) if v})
        if not f["lines"]:
            frames.append({"type": kind, "address": f"{f['address']:#x}", "mapping": f["mapping"]["filename"] if f["mapping"] else "<unknown>"})
    out["frames"] = frames or None
    return out


def attribute(r, sample, key):
    """What the sample says of itself, else its resource (up to OTLP 1.4 the host's); "unknown" where neither says anything."""
    own = next((layouts.as_string(v) for k, v, _ in sample["attributes"] if k == key), "")
    return own or layouts.as_string(dict(r["attributes"]).get(key, "")) or "unknown"


def expected_files(body):
    """<container>/<type>/<n>.json -> content."""
    numbers, out = collections.Counter(), {}
    for r, _, p, sample in view.samples(view_of(body)):
        container = attribute(r, sample, "container.id")
        folder = f"{container.replace('/', '%2F')}/{p['sample_type'][0]}"
        out[f"{folder}/{numbers[folder]}.json"] = sample_file(container, p, sample)
        numbers[folder] += 1
    return out


def files_in(directory):
    return {str(f.relative_to(directory)): f for f in directory.rglob("*") if f.is_file()}


@pytest.mark.parametrize("body", [MIXED, SMALL] + [fixtures.body(f"v{v}") for v in ("1.11.0-oncpu-mixed", "1.3.1-experimental-oncpu-a", "1.4.0-oncpu-mixed")], ids=repr)
def test_json_files_of_the_2026_program(backend, tmp_path, body):
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p")
    send(server, body)
    found, want = files_in(tmp_path / "p"), expected_files(body)
    # the reference numbers from 1 or 0: what counts is that names are dense, ordered, and continue
    by_folder = collections.defaultdict(list)
    for name in found:
        folder, file = name.rsplit("/", 1)
        by_folder[folder].append(int(file[: -len(".json")]))
    assert {f: len(n) for f, n in by_folder.items()} == collections.Counter(n.rsplit("/", 1)[0] for n in want)
    for folder, numbers in by_folder.items():
        numbers.sort()
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        wanted = [want[f"{folder}/{i}.json"] for i in range(len(numbers))]
        for number, w in zip(numbers, wanted):
            text = found[f"{folder}/{number}.json"].read_text()
            got = json.loads(text)
            for lenient in ("container_id", "profile_id"):
                if not got.get(lenient):
                    w = w | {lenient: got.get(lenient)}
            assert got == w
            assert list(got) == [k for k in w if k in got], "keys in the reference's order"


def test_numbering_goes_on_after_restart(tmp_path):
    words = ("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p")
    before = {}
    for _ in range(2):
        with program.backend(*words) as server:
            send(server, SMALL)
        now = files_in(tmp_path / "p")
        assert all(now[n].read_bytes() == text for n, text in before.items()), "old files stay"
        assert len(now) == len(before) + 9
        before = {n: f.read_bytes() for n, f in now.items()}


def test_only_one_container(backend, tmp_path):
    container = next(dict(r["attributes"])["container.id"] for r in view_of(SMALL)["resources"] if "container.id" in dict(r["attributes"]))
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.container-id", container)
    send(server, SMALL, MIXED)
    assert {n.split("/")[0] for n in files_in(tmp_path / "p")} == {container}


@pytest.mark.parametrize("form", ["json", "jsonl", "otlp"])
@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "..", ".", "", "a/b/c", "x\x00y", "\n", "a" * 5000, "%2e%2e", "\xff\xfe", "con:aux|*?", "-rf"])
def test_names_are_made_safe(backend, tmp_path, form, name):
    request = handmade.resource_body()
    request.resource_profiles[0].resource.attributes[0].value.string_value = "SAFE" + name if name == "\xff\xfe" else name
    body = request.SerializeToString().replace("SAFE\xff\xfe".encode(), b"SAFE\xff\xfe\xff\xfe")
    inner = tmp_path / "deep" / "er" / "p"
    server = backend("-receiver", "filesystem", "-filesystem.dir", inner, "-filesystem.format", form)
    with clients.channel(server.grpc) as ch:
        assert clients.export_status(ch, body)[0] == clients.OK
    files = [f for f in tmp_path.rglob("*") if f.is_file() and "flametap-test" not in str(f)]
    assert files and all(inner in f.parents for f in files)
    for f in files:
        for part in f.relative_to(inner).parts:
            assert part not in (".", "..") and "/" not in part and len(part.encode()) <= 255 and part.isprintable()


# ---- jsonl and otlp: append-only ----

def jsonl_lines(backend, tmp_path, *bodies):
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", "jsonl")
    send(server, *bodies)
    return [x for f in sorted((tmp_path / "p").rglob("*.jsonl")) for x in f.read_text().splitlines()]


@pytest.mark.parametrize("body", fixtures.BODIES, ids=repr)
def test_jsonl_lines_resolve_to_all_that_came(backend, tmp_path, body):
    """A line a profile; its samples, resolved, say what the independent decode of the body says, in its order."""
    v = view_of(body)
    lines = jsonl_lines(backend, tmp_path, body)
    assert [len(json.loads(x)["samples"]) for x in lines] == [len(p["samples"]) for r in v["resources"] for s in r["scopes"] for p in s["profiles"]]
    check_json("\n".join(x for line in lines for x in resolve_line(line)), v)
    for line in map(json.loads, lines):
        used = [i for s in line["samples"] for i in s["frames"]]
        assert set(used) == set(range(len(line["frames"]))), "each frame stands in the line once, and because a sample has it"
        assert {s["attributes"] for s in line["samples"]} == set(range(len(line["attributes"])))


def test_jsonl_of_a_hand_made_body(backend, tmp_path):
    request = handmade.rich(schemas.NEWEST)
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", "jsonl")
    with clients.channel(server.grpc) as ch:
        assert clients.export(ch, request.SerializeToString()) == b""
    text = (tmp_path / "p" / "profiles.jsonl").read_text()
    check_json("\n".join(x for line in text.splitlines() for x in resolve_line(line)), view.view(schemas.NEWEST, request))


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed (apt-get install jq)")
def test_jq_resolves_jsonl_as_documented(backend, tmp_path):
    assert JQ_RESOLVE in (fixtures.ROOT / "docs" / "quickstart" / "lazy-backend.md").read_text()
    lines = jsonl_lines(backend, tmp_path, SMALL)
    done = subprocess.run(["jq", "-c", JQ_RESOLVE], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=True)
    shown = [json.loads(x, parse_int=float) for x in done.stdout.splitlines()]  # jq before 1.7 rounds integers to 53 bits
    wanted = [json.loads(x, parse_int=float) for line in lines for x in resolve_line(line)]
    assert len(shown) == len(wanted)
    for got, want in zip(shown, wanted):
        assert got == {k: want[k] for k in got} and {"frames", "attributes", "value"} <= set(got)


def read_otlp(directory):
    """Bodies from length-prefixed files, by Google's protobuf."""
    out = []
    for f in sorted(p for p in directory.rglob("*") if p.is_file()):
        data = f.read_bytes()
        while data:
            size = int.from_bytes(data[:4], "big")
            out.append(schemas.schema(schemas.NEWEST).Request.FromString(data[4:4 + size]))
            data = data[4 + size:]
    return out


def test_otlp_files_hold_the_messages(backend, tmp_path):
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", "otlp")
    send(server, MIXED, SMALL, fixtures.body("v1.3.1-experimental-oncpu-a"))
    got = [meant(view.view(schemas.NEWEST, m), schemas.NEWEST) for m in read_otlp(tmp_path / "p")]
    want = [meant(view_of(b), b.version) for b in (MIXED, SMALL, fixtures.body("v1.3.1-experimental-oncpu-a"))]
    assert sorted(map(repr, got)) == sorted(map(repr, want))
    files = [f for f in (tmp_path / "p").rglob("*") if f.is_file()]
    shown = program.run("decode", *sorted(files)).stdout
    assert shown.count(b"New Sample") == sum(len(list(view.samples(w))) for w in want), "decode reads them back"


@pytest.mark.parametrize("form", ["jsonl", "otlp"])
def test_files_rotate_by_size(backend, tmp_path, form):
    server = backend("-receiver", "filesystem", "-filesystem.dir", tmp_path / "p", "-filesystem.format", form, "-filesystem.max-mib", "1")
    big = fixtures.body(fixtures.BIG)
    send(server, *[big] * 30)
    files = [f for f in (tmp_path / "p").rglob("*") if f.is_file()]
    assert len(files) >= 3
    assert max(f.stat().st_size for f in files) < 3 << 20
    if form == "otlp":
        assert len(read_otlp(tmp_path / "p")) == 30
    else:
        assert sum(len(json.loads(x)["samples"]) for f in files for x in f.read_text().splitlines()) == 30 * 1200
        for f in files:
            for line in f.read_text().splitlines():
                json.loads(line)


# ---- prometheus ----

def prometheus(server):
    line = server.wait_line(r"(?i)prometheus.*endpoint=")
    address = re.search(r"endpoint=\"?([^\s\"]+)", line).group(1)
    a = clients.http_request(address, "GET", "/metrics")
    assert a.status == 200 and a.headers["content-type"].startswith("text/plain")
    return program.parse_metrics(a.body.decode())


def expected_counters(body):
    """(container), (container, process) and (container, process, language) -> what the three metrics say of one body."""
    profiles, samples, locations = collections.Counter(), collections.Counter(), collections.Counter()
    for r in view_of(body)["resources"]:
        for p in (p for s in r["scopes"] for p in s["profiles"]):
            containers = {attribute(r, sample, "container.id") for sample in p["samples"]}
            profiles[containers.pop() if len(containers) == 1 else attribute(r, {"attributes": []}, "container.id")] += 1
            for sample in p["samples"]:
                key = attribute(r, sample, "container.id"), attribute(r, sample, "process.executable.name")
                samples[key] += 1
                for f in sample["stack"]:
                    locations[(*key, view.frame_type(f))] += len(f["lines"]) or 1
    return profiles, samples, locations


@pytest.mark.parametrize("body", ALL, ids=repr)
def test_prometheus_counters(backend, body):
    server = backend("-receiver", "prometheus", "-prometheus.metrics", "127.0.0.1:0")
    send(server, body, body)
    got, unescape = collections.defaultdict(dict), {r"\\": "\\", r"\"": '"', r"\n": "\n"}
    for key, value in prometheus(server).items():
        if key.startswith("lazybackend_"):
            labels = [re.sub(r'\\[\\"n]', lambda m: unescape[m[0]], v) for v in re.findall(r'="((?:[^"\\]|\\.)*)"', key)]
            got[key.partition("{")[0]][tuple(labels) if len(labels) > 1 else labels[0]] = value
    names = "lazybackend_received_profiles_total", "lazybackend_received_samples_total", "lazybackend_received_locations_total"
    for name, want in zip(names, expected_counters(body)):
        assert got[name] == {k: 2 * n for k, n in want.items()}, name


def test_prometheus_of_deep_stacks_ends(backend):
    """A hundred kilobytes that name 640 million frames; how little work they make is frame_counts_test.c's matter."""
    request = schemas.schema(schemas.NEWEST).Request()
    d = request.dictionary
    d.string_table.extend(["", "profile.frame.type", "samples", "count"])
    for table in ("mapping", "function", "link", "attribute", "location", "stack"):
        getattr(d, f"{table}_table").add()
    for i in range(20):
        d.attribute_table.add(key_strindex=1).value.string_value = f"t{i}"
        d.location_table.add(address=1, attribute_indices=[i + 1])
    d.stack_table.add(location_indices=[1 + i % 20 for i in range(40_000)])
    profile = request.resource_profiles.add().scope_profiles.add().profiles.add()
    for _ in range(16_000):
        profile.samples.add(stack_index=1)
    server = backend("-receiver", "prometheus", "-prometheus.metrics", "127.0.0.1:0")
    with clients.channel(server.grpc) as ch:
        assert clients.export_status(ch, request.SerializeToString())[0] == clients.OK
    m = prometheus(server)
    for i in range(20):
        assert program.metric_sum(m, "lazybackend_received_locations_total", language=f"t{i}") == 16_000 * 2_000


def test_prometheus_cardinality_is_bounded(backend):
    """Ten thousand container ids: the series stop growing, the sums stay right."""
    server = backend("-receiver", "prometheus", "-prometheus.metrics", "127.0.0.1:0")
    with clients.channel(server.grpc) as ch:
        clients.export(ch, handmade.resource_body(resources=10_000).SerializeToString())
    m = prometheus(server)
    series = [k for k in m if k.startswith("lazybackend_received_profiles_total")]
    assert len(series) <= 2000
    assert sum(m[k] for k in series) == 10_000


def test_label_values_are_escaped(backend):
    request = handmade.resource_body()
    request.resource_profiles[0].resource.attributes[0].value.string_value = 'quote " back \\ line\nend'
    server = backend("-receiver", "prometheus", "-prometheus.metrics", "127.0.0.1:0")
    with clients.channel(server.grpc) as ch:
        clients.export(ch, request.SerializeToString())
    assert any('container_id="quote \\" back \\\\ line\\nend"' in k for k in prometheus(server))


# ---- several at once ----

def test_all_sinks_at_once(backend, tmp_path):
    with receivers.GrpcReceiver() as g, receivers.HttpReceiver() as h:
        server = backend("-receiver", "stdout,filesystem,prometheus,nop,otlp,otlphttp", "-filesystem.dir", tmp_path / "p", "-filesystem.format",
                         "otlp", "-prometheus.metrics", "127.0.0.1:0", "-otlp.endpoint", g.address, "-otlp.insecure", "-otlphttp.endpoint", h.url,
                         "-spool-dir", tmp_path / "spool")

        def one(body):
            with clients.channel(server.grpc) as ch:
                clients.export(ch, body.bytes, body.version)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(one, ALL))
        want = sorted(repr(meant(view_of(b), b.version)) for b in ALL)
        program.wait_for(lambda: len(g.bodies) == len(h.bodies) == len(want), what="all at both peers")
        for bodies in (g.bodies, h.bodies):
            assert sorted(repr(meant(view.view("1.10", schemas.schema("1.10").Request.FromString(b)), "1.10")) for b in bodies) == want
        assert sorted(repr(meant(view.view("1.10", m), "1.10")) for m in read_otlp(tmp_path / "p")) == want
        assert server.stdout.count(b"New Sample") == sum(len(list(view.samples(view_of(b)))) for b in ALL)


def test_otlphttp_json_encoding(backend, tmp_path):
    import otlp_json
    with receivers.HttpReceiver(lambda b, n: b"{}") as h:
        server = backend("-receiver", "otlphttp", "-otlphttp.endpoint", h.url, "-otlphttp.encoding", "json", "-spool-dir", tmp_path / "spool")
        send(server, SMALL)
        program.wait_for(lambda: h.bodies, what="the body")
    assert h.headers[0]["content-type"] == "application/json"
    assert view.view("1.10", otlp_json.parse(h.bodies[0])) == view_of(SMALL)


def test_a_directory_that_cannot_be_made_ends_the_start(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    done = subprocess.run([program.path(), "backend", "-grpc-address", "127.0.0.1:0", "-http-address", "", "-receiver", "filesystem",
                           "-filesystem.dir", tmp_path / "file" / "x"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr and "failed to start" in done.stderr
