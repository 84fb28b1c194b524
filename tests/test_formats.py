"""Formats of other tools: what `flametap export` writes is read by those tools (or by what defines them), what they write by `flametap top`."""

import fractions
import gzip
import json
import random
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pydot
import pytest

import fixtures
import program
import query_bodies
import query_oracle

BIG = fixtures.body(fixtures.BIG)
PERIOD = 20408163
LINKS = fixtures.body("v1.11.0-synthetic-offcpu-links")


@pytest.fixture(scope="module")
def events():
    return query_oracle.Body(BIG.bytes).events


def export(*words, check=0, stdin=b""):
    return program.run("export", *words, check=check, stdin=stdin).stdout


def with_types(answer):
    return {(r["type"], r["binary"], r["name"], r["inlined"]): (r["self"][0], r["total"][0]) for r in answer["top"]["rows"]}


def top(path, *words, stdin=b""):
    answer = json.loads(program.run("top", "--json", "-n", "0", *words, path, stdin=stdin, check=0).stdout)
    return answer, {(r["binary"], r["name"], r["inlined"]): (r["self"][0], r["total"][0]) for r in answer["top"]["rows"]}


def without_types(events):
    """Frames by binary, name and inlined: other formats have no frame types, so some become one."""
    stacks = {}
    for stack, value in query_oracle.stack_values(events).items():
        short = tuple((f.binary, f.function or f"{f.binary or '[unknown]'}+?", f.inlined) for f in stack)
        stacks[short] = stacks.get(short, 0) + value
    return {k: tuple(v) for k, v in query_oracle.top(stacks).items()}


# ---- pprof ----

@pytest.fixture
def go_pprof(tmp_path):
    go = shutil.which("go") or shutil.which("go", path="/usr/lib/go/bin:/usr/local/go/bin")
    if not go:
        pytest.skip("SKIPPED ALOUD: no go, which has the independent reader of pprof files")

    def run(*words):
        # A new Go builds its tools on first use: with the user's own cache.
        env = program.environment(PPROF_TMPDIR=str(tmp_path), GOTOOLCHAIN="local")
        done = subprocess.run([go, "tool", "pprof", *map(str, words)], capture_output=True, text=True, timeout=300, env=env, check=False)
        assert done.returncode == 0, done.stderr
        assert not re.search(r"(?i)warn|fail|could not|error|main binary", done.stderr), done.stderr
        return done.stdout
    return run


def test_go_tool_pprof_reads_the_export(tmp_path, go_pprof, events):
    path = tmp_path / "big.pb.gz"
    path.write_bytes(export("--format", "pprof", BIG.path))
    raw = go_pprof("-raw", path)
    assert "samples/count cpu/nanoseconds" in raw
    rows = re.findall(r"^ +(\d+) +(\d+): [\d ]*$", raw, re.M)
    assert len(rows) == len(events)
    assert sum(int(n) for n, _ in rows) == len(events)
    assert sum(int(ns) for _, ns in rows) == len(events) * PERIOD
    times = [int(t) for t in re.findall(r"timestamp:\[(\d+) nanoseconds\]", raw)]
    assert sorted(times) == sorted(e.time for e in events)
    assert re.search(r"process\.executable\.name:\[sleep\]", raw)
    assert "e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1" in raw  # a build id
    table = go_pprof("-top", "-nodecount=1", "-unit=ns", path)
    want = max((v[0], f) for f, v in query_oracle.top(query_oracle.stack_values(events)).items())
    assert f"{want[0]}ns" in table and "php8.2" in table


def test_go_takes_it_for_profile_guided_optimisation(tmp_path, events):
    """Go's own reader (1.23 and later) weighs the same calls in the short profile as in the whole one."""
    go = shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin") or shutil.which("go")
    tools = go and subprocess.run([go, "tool"], capture_output=True, text=True, env=program.environment(GOTOOLCHAIN="local"), check=True).stdout
    if not tools or "preprofile" not in tools:
        pytest.skip("SKIPPED ALOUD: no go of 1.23 or later, whose preprofile reads profiles for its compiler")
    deep = ("main.main", "app.serve", "app.handle", "app.parse", "json.skip", "rec.down", "rec.down", "rec.down")
    body = tmp_path / "go.pb"
    body.write_bytes(query_bodies.go_body({deep: 300, deep[:5]: 200, ("main.main", "app.serve"): 7}))
    weights = []
    for kind in ("pprof", "pgo"):
        path, made = tmp_path / kind, tmp_path / f"{kind}.out"
        path.write_bytes(export("--format", kind, body))
        subprocess.run([go, "tool", "preprofile", "-i", str(path), "-o", str(made)], check=True, env=program.environment(GOTOOLCHAIN="local"))
        rows = made.read_text().splitlines()[1:]  # caller, callee, "line weight"
        weights.append({(*rows[i:i + 2], rows[i + 2].split()[0]): int(rows[i + 2].split()[1]) for i in range(0, len(rows), 3)})
    # The call next to the leaf is what counts, at the line of the call from the function's start.
    want = {("rec.down", "rec.down", "16"): 300, ("app.parse", "json.skip", "13"): 200, ("main.main", "app.serve", "10"): 7}
    assert weights == [want, want]
    sizes = [len(export("--format", kind, BIG.path)) for kind in ("pgo", "pprof")]
    assert sizes[0] < sizes[1] / 2, sizes
    # A real profile: as much value, in fewer stacks.
    assert top("-", stdin=export("--format", "pgo", BIG.path))[0]["top"]["total"][0] == len(events) * PERIOD


def seconds(*words):
    """How long profiles were taken, as `top` says it."""
    return re.search(r" in [\d.]+ (s|ms);", program.run("top", *words, check=0).stdout.decode().splitlines()[0])[0]


@pytest.mark.parametrize("kind", ["pprof", "folded", "otlp", "otlp-json"])
def test_a_window_is_exported_as_it_is_shown(tmp_path, events, kind):
    """Samples with several timestamps, up to 19 s apart: what is outside of the window is not in the file. Two windows are the whole."""
    times = sorted(e.time for e in events)
    borders = times[0], times[len(times) // 2], times[-1] + 1
    count = 0
    for from_, to in zip(borders, borders[1:]):
        path = tmp_path / kind
        path.write_bytes(export("--format", kind, "--from", from_, "--to", to, BIG.path))
        answer, rows = top(path)
        chosen = query_oracle.chosen(events, "cpu", (from_, to))
        unit = 1 if kind == "folded" else PERIOD
        assert answer["top"]["total"][0] == len(chosen) * unit
        if kind == "pprof":
            assert rows == without_types(chosen)
        if kind != "folded":
            assert seconds(path) == seconds("--from", from_, "--to", to, BIG.path)
        count += len(chosen)
    assert count == len(events)


def test_a_window_shares_out_a_value_for_all_times(tmp_path):
    """One value for three timestamps, as decode and top have it: 4, 3 and 3 of 10."""
    m = query_bodies.Maker()
    profile = m.profile(m.request.resource_profiles.add().scope_profiles.add(), "off_cpu", "nanoseconds")
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])
    start = query_bodies.TIME
    profile.samples.add(stack_index=stack, values=[10], timestamps_unix_nano=[start, start + 5, start + 9])
    body = tmp_path / "body.pb"
    body.write_bytes(m.request.SerializeToString())
    for from_, to, want in ((start, start + 1, 4), (start + 1, start + 10, 6), (start, start + 10, 10)):
        assert top(body, "--from", from_, "--to", to)[0]["top"]["total"][0] == want
        assert export("--format", "folded", "--from", from_, "--to", to, body) == b"f %d\n" % want


@pytest.mark.parametrize("format_", ["pprof", "folded", "speedscope", "firefox"])
def test_a_type_in_several_units_is_written_in_one(tmp_path, format_):
    """One millisecond each, in four units: readers that add up get four milliseconds."""
    m = query_bodies.Maker()
    scope, out, body = m.request.resource_profiles.add().scope_profiles.add(), tmp_path / "out", tmp_path / "body.pb"
    for unit, value in (("nanoseconds", 10**6), ("milliseconds", 1), ("ms", 1), ("us", 1000)):
        m.profile(scope, "wall", unit).samples.add(stack_index=m.stack([m.location("native", "/opt/app", ("f",), 1)]), values=[value],
                                                   timestamps_unix_nano=[query_bodies.TIME + 5])
    body.write_bytes(m.request.SerializeToString())
    assert top(body)[0]["top"]["total"] == [4 * 10**6]
    out.write_bytes(export("--format", format_, body))
    assert top(out)[0]["top"]["total"] == [4 * 10**6]


@pytest.mark.parametrize("version", ["1.7", "1.9", "1.10"])
def test_a_selection_is_written_in_the_version_asked_for(version):
    written = export("--format", "otlp", "--type", "cpu", "--wire-version", version, BIG.path)
    done = program.run("decode", "-evidence", "-", stdin=written, check=0)
    assert f"wire version {version}:".encode() in done.stderr + done.stdout


@pytest.mark.parametrize("words, said", [
    (("--format", "pprof", "--wire-version", "1.10"), "-wire-version is of otlp, not of pprof"),
    (("--format", "otlp-json", "--wire-version", "1.11"), "-wire-version is of otlp, not of otlp-json"),
    (("--format", "folded", "--title", "x"), "-title is of svg, dot, speedscope and firefox, not of folded"),
    (("--inverted",), "-inverted is of svg, not of otlp"),
    (("--format", "dot", "--inverted"), "-inverted is of svg, not of dot")])
def test_a_flag_that_the_format_has_no_use_for_is_refused(words, said):
    done = program.run("export", *words, BIG.path, check=1)
    assert done.stderr.decode() == f"flametap export: {said}\n" and not done.stdout


def test_pprof_comes_back_as_it_went(tmp_path, events):
    path = tmp_path / "big.pb.gz"
    path.write_bytes(export("--format", "pprof", BIG.path))
    answer, rows = top(path)
    assert answer["top"]["total"][0] == len(events) * PERIOD and answer["events"] == len(events)
    assert rows == without_types(events)


def test_links_and_labels_survive_pprof(tmp_path):
    path = tmp_path / "links.pb.gz"
    body = query_oracle.Body(LINKS.bytes)
    type_ = body.events[0].series[1]
    path.write_bytes(export("--format", "pprof", "--type", type_, LINKS.path))
    for trace, span in sorted({e.links for e in body.events if e.series[1] == type_} - {("", "")}):
        want = query_oracle.chosen(body.events, type_, trace=trace, span=span)
        answer, _ = top(path, "--trace", trace, "--span", span)
        assert answer["top"]["total"][0] == sum(e.value for e in want)


def test_a_label_of_two_values_is_matched_by_either(tmp_path):
    """pprof allows a key twice in a sample; -tagfocus of go tool pprof looks at both values, too."""
    strings = ["", "samples", "count", "key", "one", "two", "f"]
    label = [bytes([8, 3, 16, value]) for value in (4, 5)]
    sample = bytes([10, 1, 1, 18, 1, 7]) + b"".join(bytes([26, len(b)]) + b for b in label)
    parts = [(1, bytes([8, 1, 16, 2])), (2, sample), (4, bytes([8, 1, 34, 2, 8, 1])), (5, bytes([8, 1, 16, 6]))]
    data = b"".join(bytes([n << 3 | 2, len(b)]) + b for n, b in parts + [(6, s.encode()) for s in strings])
    for selector, want in (('key="one"', 7), ('key="two"', 7), ('key=~"t.*"', 7), ('key="three"', 0), ('key!="two"', 0), ('key!="three"', 7)):
        assert top("-", "--select", "{%s}" % selector, stdin=data)[0]["top"]["total"] == [want], selector


def test_sums_past_64_bits_are_cut():
    """In top and tree alike, whatever is subtracted from them."""
    text = f"a;b {2**63 - 1}\na;c {-2**63}\na;d {2**63 - 1}\na {-2**63}\n".encode()
    tree = json.loads(program.run("top", "--json", "--tree", "-n", "2", "-", stdin=text, check=0).stdout)["tree"]
    assert all(-2**63 <= int(v) < 2**63 for v in tree["nodeTotal"])
    assert tree["frame"].count(-2) <= 2 and top("-", stdin=text)[1][("", "d", False)][0] == 2**63 - 1


def test_sums_past_64_bits_are_said(tmp_path):
    """What fits is not: 2^63 - 1 by itself may be either."""
    whole, past = tmp_path / "whole", tmp_path / "past"
    whole.write_bytes(f"a;b {2**62}\na;c {2**62 - 2}\n".encode())
    past.write_bytes(f"a;b {2**62}\na;c {2**62}\n".encode())
    assert not top(whole)[0]["partial"] and top(whole)[0]["top"]["total"] == [2**63 - 2]
    assert top(past)[0]["partial"] and "64 bits" in top(past)[0]["reason"]
    assert "\npartial: sums reach what 64 bits hold, and are cut there\n" in program.run("top", past, check=0).stdout.decode()
    sides = program.run("diff", whole, past, check=0).stdout.decode().splitlines()
    assert sides[1].endswith("; partial: sums reach what 64 bits hold, and are cut there")


def test_what_is_left_out_is_said(tmp_path):
    """A file of another type, samples that filters leave out, and a format that decode does not read."""
    folded, pprof = tmp_path / "a.folded", tmp_path / "b.pprof"
    folded.write_bytes(b"a;b 3\n")
    pprof.write_bytes(export("--format", "pprof", BIG.path))
    both = program.run("top", BIG.path, folded, check=0)
    assert f"{folded}: left out, it has nothing of process_cpu:cpu:nanoseconds:cpu:nanoseconds but samples:" in both.stderr.decode()
    assert not program.run("top", BIG.path, BIG.path, check=0).stderr
    head = program.run("top", "--focus", "libc", BIG.path, check=0).stdout.decode().splitlines()[0]
    assert " cpu after the filters, of " in head
    for path, name in ((pprof, "pprof"), (folded, "folded stacks")):
        done = program.run("decode", path, check=1)
        assert f"this is {name}, not OTLP" in done.stderr.decode() and not done.stdout


# ---- folded, speedscope ----

def test_folded_counts_and_comes_back(events):
    text = export("--format", "folded", BIG.path)
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines()]
    assert sum(int(n) for _, n in lines) == len(events)
    answer, rows = top("-", stdin=text)
    assert answer["top"]["total"][0] == len(events)
    leaves = {}
    for stack, n in lines:
        leaf = stack.split(";")[-1]
        leaves[leaf] = leaves.get(leaf, 0) + int(n)
    assert {name: v[0] for (_, name, _), v in rows.items() if v[0]} == leaves


@pytest.mark.parametrize("format_", ["folded", "speedscope"])
def test_code_without_a_name_is_one_frame_a_binary_in_other_tools(format_, events):
    """As in our own tables; `--by address` tells it apart."""
    def names(*words):
        text = export("--format", format_, *words, BIG.path)
        if format_ == "folded":
            return {n for line in text.decode().splitlines() for n in line.rsplit(" ", 1)[0].split(";")}
        frames = json.loads(text)["shared"]["frames"]
        assert len({json.dumps(f) for f in frames}) == len(frames), "speedscope tells frames apart by their numbers"
        return {f["name"] for f in frames} - {"(no stack)"}

    unnamed = {f"{f.binary or '[' + (f.type or 'unknown') + ']'}+?" for e in events for f in e.stack if not f.function}
    assert {n for n in names() if n.endswith("+?")} - {"[unknown]+?"} == unnamed and len(unnamed) > 5
    assert not any("+0x" in n for n in names()) and sum("+0x" in n for n in names("--by", "address")) > 100


def test_speedscope_has_every_thread_in_time(events):
    data = json.loads(export("--format", "speedscope", BIG.path))
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    threads = {(e.labels.get("process.pid"), e.labels.get("thread.id")) for e in events}
    assert len(data["profiles"]) >= len(threads)
    busy = 0
    for p in data["profiles"]:
        assert p["type"] == "sampled" and p["unit"] == "nanoseconds"
        assert len(p["samples"]) == len(p["weights"]) and p["startValue"] + sum(p["weights"]) == p["endValue"]
        assert all(0 <= f < len(frames) for stack in p["samples"] for f in stack)
        busy += sum(1 for stack in p["samples"] if stack)
    assert busy == len(events)
    answer, _ = top("-", stdin=json.dumps(data).encode())
    assert answer["events"] == len(events)
    again = export("--format", "otlp", "-", stdin=json.dumps(data).encode())
    read = query_oracle.Body(again).events
    assert {(e.labels["process.pid"], e.labels["thread.id"]) for e in read if "process.pid" in e.labels} == {t for t in threads if None not in t}
    for thread in threads - {(None, None)}:
        was = min(e.time for e in events if (e.labels.get("process.pid"), e.labels.get("thread.id")) == thread)
        assert min(e.time - e.value for e in read if (e.labels.get("process.pid"), e.labels.get("thread.id")) == thread) == was


@pytest.mark.parametrize("body", [b for b in fixtures.BODIES if "oncpu" in b.name], ids=repr)
def test_speedscope_sums_are_those_of_the_body(body):
    """However events of one thread collide: every sample weighs its count of periods."""
    want = top(body.path)[0]["top"]["total"][0]
    if body in fixtures.NEWEST_BODIES:
        assert want == sum(e.value for e in query_oracle.Body(body.bytes).events)
    data = json.loads(export("--format", "speedscope", body.path))
    assert sum(w for p in data["profiles"] for s, w in zip(p["samples"], p["weights"], strict=True) if s) == want > 0
    for p in data["profiles"]:
        assert min(p["weights"]) > 0 and p["startValue"] + sum(p["weights"]) == p["endValue"]


@pytest.mark.parametrize("command", ["top", "diff", "export"])
def test_a_pipe_is_read_whole_by_its_path(command):
    """As from `<(...)`: who looks at the first bytes must not take them."""
    text = export("--format", "folded", BIG.path)
    words = ["--format", "folded"] if command == "export" else []
    other = [BIG.path] if command == "diff" else []
    want, got = (program.run(command, *words, path, *other, stdin=text, check=0).stdout for path in ("-", "/dev/stdin"))
    assert got == want != b""


# ---- Firefox Profiler ----

def firefox_stacks(data):
    """What the processed format says, read by its description: {(pid, tid): [(time in ns, weight, frames root first)]}."""
    threads = {}
    start = data["meta"]["startTime"]
    for t in data["threads"]:
        frames, funcs, stacks, strings = t["frameTable"], t["funcTable"], t["stackTable"], t["stringArray"]
        for table in (frames, funcs, stacks, t["resourceTable"], t["nativeSymbols"], t["samples"], t["markers"]):
            assert {len(c) for c in table.values() if isinstance(c, list)} <= {table["length"]}, "columns of one table have one length"
        assert len(set(strings)) == len(strings)
        categories = data["meta"]["categories"]
        assert max(stacks["category"], default=0) < len(categories) and categories[0] == {"name": "Other", "color": "grey", "subcategories": ["Other"]}

        def frame(i):
            func = frames["func"][i]
            lib = funcs["resource"][func]
            binary = data["libs"][t["resourceTable"]["lib"][lib]]["name"] if lib >= 0 else ""
            name = strings[funcs["name"][func]]
            return query_oracle.Frame("", binary, "" if name == hex(max(0, frames["address"][i])) else name, frames["inlineDepth"][i] > 0)

        def stack(i, frame=frame, stacks=stacks):
            if i is None:
                return ()
            parent = stacks["prefix"][i]
            assert parent is None or parent < i, "parents come first"
            return stack(parent) + (frame(stacks["frame"][i]),)

        samples = t["samples"]
        assert samples["time"] == sorted(samples["time"])
        threads.setdefault((t["pid"], str(t["tid"])), []).extend(
            (round(start * 10**6 + ms * 10**6), w, stack(s)) for ms, w, s in zip(samples["time"], samples["weight"], samples["stack"]))
    return threads


def test_firefox_profiles_say_what_was_sampled(events):
    data = json.loads(export("--format", "firefox", "--title", 'a "b"', BIG.path), parse_float=lambda t: fractions.Fraction(t))
    assert data["meta"]["product"] == 'a "b"' and data["meta"]["preprocessedProfileVersion"] == 48
    assert data["meta"]["interval"] * 10**6 == PERIOD
    want = {}
    for e in events:
        stack = tuple(f._replace(type="") for f in e.stack)
        want.setdefault((e.labels.get("process.pid", "0"), e.labels.get("thread.id", "0")), []).append((e.time, e.value // PERIOD, stack))
    got = firefox_stacks(data)
    assert set(got) == set(want)
    for thread, samples in want.items():
        assert sorted(got[thread]) == sorted(samples)
    libc = next(lib for lib in data["libs"] if lib["name"] == "libc.so.6")
    assert re.fullmatch("[0-9a-f]{40}", libc["codeId"])
    b = bytes.fromhex(libc["codeId"])
    assert libc["breakpadId"] == (b[3::-1] + b[5:3:-1] + b[7:5:-1] + b[8:16]).hex().upper() + "0"


def test_firefox_profiles_come_back_as_they_went(events):
    data = export("--format", "firefox", BIG.path)
    answer, _ = top("-", stdin=data)
    assert answer["top"]["total"][0] == len(events) * PERIOD and answer["events"] == len(events)
    assert with_types(answer) == with_types(top(BIG.path)[0])
    again = export("--format", "firefox", "-", stdin=data)
    assert firefox_stacks(json.loads(again)) == firefox_stacks(json.loads(data))
    labels = {(e.labels["process.executable.name"], e.labels["thread.name"]) for e in events if "process.executable.name" in e.labels}
    for process, thread in sorted(labels)[:3]:
        selector = "{process.executable.name=%s, thread.name=%s}" % (json.dumps(process), json.dumps(thread))
        assert top("-", "--select", selector, stdin=data)[0]["top"]["total"] == top(BIG.path, "--select", selector)[0]["top"]["total"]


def test_samples_of_two_periods_are_one_type_again(tmp_path):
    """And so are times that are no samples at all, as pprof has them beside those."""
    m = query_bodies.Maker()
    stack, out, body = m.stack([m.location("native", "/opt/app", ("f",), 1)]), tmp_path / "out", tmp_path / "body.pb"
    total = 0
    for type_, unit, period, value in (("samples", "count", 10**7, 2), ("samples", "count", 2 * 10**6, 2), ("cpu", "nanoseconds", 0, 3 * 10**6)):
        resource = m.request.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = f"{type_} {period}"
        profile = m.profile(resource.scope_profiles.add(), type_, unit, "cpu", "nanoseconds", period)
        profile.samples.add(stack_index=stack, values=[value], timestamps_unix_nano=[query_bodies.TIME])
        total += value * (period or 1)
        body.write_bytes(m.request.SerializeToString())
        out.write_bytes(export("--format", "firefox", body))
        assert top(body)[0]["top"]["total"] == top(out)[0]["top"]["total"] == [total]
        assert len({t["samples"]["weightType"] for t in json.loads(out.read_bytes())["threads"]}) == 1


def test_times_and_sizes_have_their_weights():
    data = json.loads(export("--format", "firefox", "--type", "off_cpu", LINKS.path), parse_float=lambda t: fractions.Fraction(t))
    want = sum(e.value for e in query_oracle.chosen(query_oracle.Body(LINKS.bytes).events, "off_cpu"))
    assert {t["samples"]["weightType"] for t in data["threads"]} == {"tracing-ms"}
    assert sum(sum(t["samples"]["weight"]) for t in data["threads"]) * 10**6 == want


def test_a_profile_of_the_format_s_own_library_is_read():
    """fxprof-0.8.1.json was written by fxprof.rs with the crate that samply uses."""
    path = fixtures.OTLP.parent / "firefox" / "fxprof-0.8.1.json"
    answer, rows = top(path, "--type", "cpu")
    assert {(b, n): v for (b, n, _), v in rows.items()} == {
        ("libdemo.so", "inner"): (4000000, 4000000), ("libdemo.so", "libdemo.so+?"): (2000000, 2000000), ("libdemo.so", "outer"): (0, 6000000)}
    assert answer["events"] == 3
    otlp = program.run("export", "--format", "otlp", "--type", "cpu", path, check=0).stdout
    read = query_oracle.Body(otlp)
    times = sorted((e.time, e.labels["thread.name"], e.stack[0].function) for e in read.events)
    start = 1700000000123 * 10**6
    assert times == [(start + 1500000, "worker", "outer"), (start + 3250000, "worker", "outer"), (start + 5000001, "worker", "outer")]
    answer, rows = top(path, "--type", "process_cpu:cpu:nanoseconds::")
    assert {n: v for (_, n, _), v in rows.items()} == {"sys_read": (7000000, 7000000), "run": (0, 7000000)}


# ---- Graphviz ----

def dot_numbers(text):
    graph, = pydot.graph_from_dot_data(text)
    nodes = {n.get_name(): n.get("label").strip('"') for n in graph.get_nodes() if n.get_name() != "node"}
    return graph, nodes


def in_seconds(text):
    value, unit = re.fullmatch(r"(-?[\d,.]+) (s|ms|us|ns)", text).groups()
    return float(value.replace(",", "")) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def test_dot_has_every_function_and_call(events):
    graph, nodes = dot_numbers(export("--format", "dot", "--title", 'a "q" \\ b', BIG.path).decode())
    names, calls = {}, {}
    for stack, value in query_oracle.stack_values(events).items():
        short = [f.function or f"{f.binary or '[unknown]'}+?" for f in stack]
        for name in set(short):
            names.setdefault(name, [0, 0])[1] += value
        names[short[-1]][0] += value
        for call in set(zip(short, short[1:])):
            calls[call] = calls.get(call, 0) + value
    heaviest = sorted(names.values(), key=lambda v: -v[1])[:80]
    assert len(nodes) == 80
    shown = {}
    for number, label in nodes.items():
        name, own, share, total, of = re.fullmatch(r"(.*)\\n(.*) \((.*)%\) of (.*) \((.*)%\)", label).groups()
        name = name.replace('\\"', '"').replace("\\\\", "\\")
        assert abs(in_seconds(own) - names[name][0] / 1e9) < 0.006 and abs(in_seconds(total) - names[name][1] / 1e9) < 0.006
        assert abs(float(of) - 100 * names[name][1] / (len(events) * PERIOD)) < 0.006 and float(share) <= float(of)
        shown[number] = name
        assert names[name][1] >= heaviest[-1][1]
    edges = {(shown[e.get_source()], shown[e.get_destination()]): e.get("label").strip('"') for e in graph.get_edges()}
    assert set(edges) == {c for c in calls if set(c) <= set(shown.values())}
    for call, label in edges.items():
        assert abs(in_seconds(label) - calls[call] / 1e9) < 0.006


# ---- transforms ----

@pytest.mark.parametrize("words", [
    ("--focus", "libc"), ("--ignore", "libc"), ("--hide", "binary:vmlinux"), ("--show-from", "main"), ("--collapse", "binary:^libc"),
    ("--recursion", "."), ("--focus", "libc", "--hide", "type:kernel", "--recursion", "."), ("--by", "line", "--ignore", "php"),
])
@pytest.mark.parametrize("format_", ["otlp", "firefox"])
def test_what_is_exported_is_what_is_shown(tmp_path, words, format_):
    """Transforms (and another `by`) are in the file: asking it without them gives the same table."""
    path = tmp_path / "out"
    path.write_bytes(export("--format", format_, *words, BIG.path))
    want, _ = top(BIG.path, *words)
    answer, _ = top(path, *(("--by", "line") if "line" in words else ()))
    assert answer["top"]["total"] == want["top"]["total"]
    assert with_types(answer) == with_types(want) != {}


def test_bad_utf8_is_matched_as_it_is_shown(tmp_path):
    """Each bad byte is one character, U+FFFD: for the patterns of a person, and in a file for Graphviz."""
    body = tmp_path / "body.folded"
    body.write_bytes(b"main;fn\xe9 30\nmain;f\xff\xfe 12\nmain 5\n")
    for words, want in ((("--focus", "fn."), 30), (("--focus", "^f[^x]{2}$"), 42), (("--ignore", "fn.+"), 17), (("--focus", "fn\N{REPLACEMENT CHARACTER}"), 30)):
        assert top(body, *words)[0]["top"]["total"] == [want], words
    assert "fn\N{REPLACEMENT CHARACTER}\\n" in export("--format", "dot", body).decode()


@pytest.mark.parametrize("format_", ["pprof", "folded", "speedscope", "firefox"])
def test_a_gauge_is_exported_as_its_average(tmp_path, format_):
    """Readers of these formats add up what they are given: several profiles of one heap are no larger heap."""
    body, out = tmp_path / "body.pb", tmp_path / "out"
    data = query_bodies.random_body(random.Random(78))
    body.write_bytes(data)
    events = query_oracle.Body(data).events
    chosen = query_oracle.chosen(events, "inuse_space")
    values = query_oracle.stack_values(chosen, events)
    assert abs(sum(values.values()) - sum(e.value for e in chosen)) > 1000, "averaging makes a difference"
    out.write_bytes(export("--format", format_, "--type", "inuse_space", body))
    want = sum(values.values())
    assert abs(top(out)[0]["top"]["total"][0] - want) <= 4


@pytest.mark.parametrize("format_", ["pprof", "folded", "speedscope", "firefox"])
def test_averages_of_a_gauge_add_up(tmp_path, format_):
    """Twenty stacks of three and a half bytes are 70 in every answer, not 80: halves are not all rounded up."""
    m = query_bodies.Maker()
    scope, out, body = m.request.resource_profiles.add().scope_profiles.add(), tmp_path / "out", tmp_path / "body.pb"
    for n in range(2):
        profile = m.profile(scope, "inuse_space", "bytes", "space", "bytes", 1, time=query_bodies.TIME + n * 10**10)
        for i in range(20):
            profile.samples.add(stack_index=m.stack([m.location("native", "/opt/app", (f"f{i}",), i + 1)]), values=[3 + n])
    body.write_bytes(m.request.SerializeToString())
    out.write_bytes(export("--format", format_, body))
    assert top(body)[0]["top"]["total"] == top(out)[0]["top"]["total"] == [70]


@pytest.mark.parametrize("format_", ["pprof", "folded", "speedscope", "firefox"])
def test_a_profile_and_its_export_do_not_differ(tmp_path, format_):
    """Formats without frame types, binaries or inlined functions: what they cannot say tells no functions apart."""
    out = tmp_path / "out"
    out.write_bytes(export("--format", format_, BIG.path))
    for sides in ((BIG.path, out), (out, BIG.path)):
        for sort in ("self", "total"):
            table = program.run("diff", "-n", "0", "--sort", sort, "--fail-above", "0.001%", *sides, check=0).stdout.decode().splitlines()[3:]
            assert len(table) > 100 and all(line.split()[2:4] == ["+0.00%", "1.00x"] for line in table)


# ---- the picture ----

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_stands_alone(tmp_path, events):
    text = export("--format", "svg", "--title", "<a & \"b\">", BIG.path)
    root = xml.etree.ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == '<a & "b">'
    boxes = root.find(f"{SVG}g[@id='frames']").findall(f"{SVG}g")
    titles = [b.find(f"{SVG}title").text for b in boxes]
    assert titles[0].startswith("all\n33.53 s, 100.00%")
    rects = [b.find(f"{SVG}rect").attrib for b in boxes]
    by_row = {}
    for r in rects:
        by_row.setdefault(float(r["y"]), []).append((float(r["x"]), float(r["width"])))
    for row in by_row.values():  # boxes of a row do not overlap, and lie within the picture
        row.sort()
        assert row[0][0] >= 9.9 and row[-1][0] + row[-1][1] <= 1190.1
        assert all(a + w <= b + 0.03 for (a, w), (b, _) in zip(row, row[1:]))
    assert not re.search(rb"(src|href)=|https?://(?!www\.w3\.org)|@import", text)
    path = tmp_path / "flames.svg"
    path.write_bytes(text)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        pytest.skip("SKIPPED ALOUD: no chromium to run the picture's script in")
    # A page that asks the picture's own functions, and says what they answered in its title.
    page = tmp_path / "ask.html"
    page.write_text("""<!doctype html><iframe id=f src=flames.svg width=900 height=700></iframe><pre id=out></pre><script>
      f.onload = () => { const s = f.contentWindow.__state, found = s.search("libc"); s.zoom(3);
        out.textContent = JSON.stringify({frames: s.frames, found, zoomed: s.zoomed}); }</script>""")
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={tmp_path}/c",
                           "--virtual-time-budget=8000", "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    answer = json.loads(re.search(r'<pre id="out">(\{.*?\})</pre>', done.stdout).group(1))
    assert answer["frames"] == len(boxes)
    assert answer["zoomed"] == titles[3].split("\n")[0]
    matched = sum(v for s, v in query_oracle.stack_values(events).items()
                  if any("libc" in (f.function or f.binary) for f in s))
    assert abs(float(answer["found"].rstrip("%")) - 100 * matched / (len(events) * PERIOD)) < 0.3  # tiny boxes are not drawn


# ---- what other tools write ----

PERF = """# ========
swapper     0/0     [000] 12345.100000:          7   cycles:
\tffffffff8100aa10 native_safe_halt+0x10 ([kernel.kallsyms])
\tffffffff8100bb10 default_idle+0x20 ([kernel.kallsyms])

my prog 2 1234/1235 [001] 12345.200000:     250000 cycles:u:
\t    55d0a0b1c2d3 operator new(unsigned long)+0x13 (/usr/bin/prog)
\t    7f00a0b1c2d3 [unknown] (/usr/lib/libc.so.6)

"""
# perf record without -g: an event a line, commands that read as addresses; -e cycles:ppp; a tracepoint's fields are no frame.
PERF_FLAT = """            dd  4321 [002]  1234.567800:         10 cycles:ppp:  ffffffff9a0 foo+0x3 ([kernel.kallsyms])
            cc  4321 [002]  1234.577800:          7 cycles:ppp:  ffffffff9a1 foo+0x4 ([kernel.kallsyms])
            cc  4321 [002]  1234.587800:          4 cycles:ppp:  7f12 [unknown] ([unknown])
            cc  4321 [002]  1234.597800: sched:sched_switch: prev_comm=cc prev_pid=4321
"""
PERF_INLINED = """nginx 10 [000] 5.0: 5 cpu-clock:u:
\t    55d0aaaa1234 inner (inlined)
\t    55d0aaaa1234 middle (inlined)
\t    55d0aaaa1234 outer(int)+0x14 (/usr/sbin/nginx (deleted))
\t    55d0aaaa5679 odd)+0x1 (
\t                 alone (inlined)
"""
PERF_PLAIN = "".join(f"x 1/1 5.{n}00000: cpu-clock:\n\t10 {f}+0x1 (a)\n\n" for n, f in enumerate("fgf"))
CPUPROFILE = {"nodes": [
    {"id": 1, "callFrame": {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1}, "children": [2, 3]},
    {"id": 2, "callFrame": {"functionName": "work", "scriptId": "1", "url": "a.js", "lineNumber": 3, "columnNumber": 1}, "children": [4]},
    {"id": 3, "callFrame": {"functionName": "", "scriptId": "1", "url": "a.js", "lineNumber": 9, "columnNumber": 1}},
    {"id": 4, "callFrame": {"functionName": "inner", "scriptId": "1", "url": "a.js", "lineNumber": 5, "columnNumber": 1}}],
    "startTime": 1000, "endTime": 9000, "samples": [2, 4, 3, 4], "timeDeltas": [100, 1000, 1500, 2000]}
EVENTED = {"shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [{
    "type": "evented", "name": "t", "unit": "milliseconds", "startValue": 0, "endValue": 9,
    "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 2}, {"type": "C", "frame": 1, "at": 5},
               {"type": "C", "frame": 0, "at": 9}]}]}


# One table for all threads, parents by offset, time by deltas, files by source, an inlined function: as from version 56 on.
SHARED = {"meta": {"preprocessedProfileVersion": 69, "interval": 4, "startTime": 1000, "categories": [{"name": "Other"}]},
          "libs": [{"name": "a.out", "path": "/bin/a.out", "codeId": "0011223344556677"}],
          "shared": {"stringArray": ["a.out", "outer", "inlined", "a.c", "leaf"],
                     "sources": {"length": 1, "uuid": [None], "filename": [3]},
                     "stackTable": {"length": 3, "prefixOffset": [0, 1, 1], "frame": [0, 1, 2]},
                     "frameTable": {"length": 3, "address": [16, 16, 32], "inlineDepth": [0, 1, 0], "func": [0, 1, 2], "line": [7, 9, None]},
                     "funcTable": {"length": 3, "name": [1, 2, 4], "resource": [0, 0, 0], "source": [0, 0, None], "isJS": [False] * 3},
                     "resourceTable": {"length": 1, "lib": [0], "name": [0], "type": [1]}},
          "threads": [{"name": "t", "pid": "9", "tid": 9, "samples": {"length": 2, "weightType": "samples", "weight": None, "stack": [2, 1],
                                                                       "timeDeltas": [1, 2]}},
                      {"name": "u", "pid": "9", "tid": 10, "samples": {"length": 1, "weightType": "samples", "weight": [3], "stack": [0], "time": [1]}}]}


def firefox(**changes):
    """SHARED with {table__column: values} of `shared` or {samples: ...} of the first thread changed."""
    data = json.loads(json.dumps(SHARED))
    for key, value in changes.items():
        table, _, column = key.partition("__")
        where = data["threads"][0] if table == "samples" else data if table == "meta" else data["shared"]
        where[table] = {**where.get(table, {}), column: value} if column else value
    return json.dumps(data)


def scope(**profile):
    return json.dumps({"shared": {"frames": [{"name": "a"}, {"name": "b"}]},
                       "profiles": [{"type": "sampled", "name": "t", "startValue": 0, "endValue": 10, **profile}]})


@pytest.mark.parametrize("text", ["a 1.5\nb 2\nc 1.25\n", scope(unit="bytes", samples=[[0], [1], [0]], weights=[1.5, 2, 1.25])])
def test_what_is_rounded_is_counted(text):
    """A whole number is all the model has: two of three were none, and the sum is the nearest one."""
    read = program.run("export", "--format", "otlp", "-", stdin=text.encode(), check=0).stdout
    events = query_oracle.Body(read).events
    assert sum(e.value for e in events) == 5
    assert {e.labels.get("flametap.import.rounded_values") for e in events} == {"2"}


def test_speedscope_keeps_samples_without_a_stack(tmp_path):
    m, body = query_bodies.Maker(), tmp_path / "body.pb"
    profile = m.profile(m.request.resource_profiles.add().scope_profiles.add(), "wall", "nanoseconds")
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])
    for at, index in enumerate((stack, 0, stack)):
        profile.samples.add(stack_index=index, values=[10 + at], timestamps_unix_nano=[query_bodies.TIME + 100 * at])
    body.write_bytes(m.request.SerializeToString())
    want, _ = top(body)
    written = export("--format", "speedscope", body)
    assert sorted(sum((p["weights"] for p in json.loads(written)["profiles"]), [])) == [10, 11, 12]
    read, rows = top("-", stdin=written)
    assert (read["events"], read["top"]["total"]) == (want["events"], want["top"]["total"]) == (3, [33])
    assert {n: v for (_, n, _), v in rows.items()} == {"f": (22, 22)}


@pytest.mark.parametrize("text, words, want", [
    (json.dumps(SHARED), (), {("a.out", "leaf"): (4000000, 4000000), ("a.out", "inlined"): (4000000, 8000000), ("a.out", "outer"): (12000000, 20000000)}),
    (PERF, ("--type", "cycles"), {("[kernel.kallsyms]", "native_safe_halt"): (7, 7), ("[kernel.kallsyms]", "default_idle"): (0, 7),
                                  ("prog", "operator new(unsigned long)"): (250000, 250000), ("libc.so.6", "libc.so.6+?"): (0, 250000)}),
    ("a;b;c_[k] 3\r\n\na;b 4\n# x\na b;c d 5\n", (), {("", "c"): (3, 3), ("", "b"): (4, 7), ("", "a"): (0, 7), ("", "a b"): (0, 5), ("", "c d"): (5, 5)}),
    (PERF_FLAT, ("--type", "cycles"), {("[kernel.kallsyms]", "foo"): (17, 17), ("", "[native]+?"): (4, 4)}),
    (PERF_INLINED, (), {("nginx", "inner"): (5, 5), ("nginx", "middle"): (0, 5), ("nginx", "outer(int)"): (0, 5), ("", "odd)"): (0, 5), ("", "alone"): (0, 5)}),
    ("\ufeffa;b\t3\n", (), {("", "b"): (3, 3), ("", "a"): (0, 3)}),
    (json.dumps(CPUPROFILE), (), {("", "work"): (1000000, 5900000), ("", "inner"): (4900000, 4900000), ("", "(anonymous)"): (2000000, 2000000),
                                  ("", "(root)"): (0, 7900000)}),
    (json.dumps(CPUPROFILE).replace('"work"', '"(idle)"'), (), {("", "inner"): (4900000, 4900000), ("", "(anonymous)"): (2000000, 2000000),
                                                               ("", "(idle)"): (0, 4900000), ("", "(root)"): (0, 6900000)}),
    (json.dumps(CPUPROFILE).replace('"work"', '"(idle)"'), ("--type", "idle"), {("", "(idle)"): (1000000, 1000000), ("", "(root)"): (0, 1000000)}),
    ("#x;y 3\n# 5 of them 5\n#no count\n", (), {("", "#x"): (0, 3), ("", "y"): (3, 3)}),
    (PERF_PLAIN, ("--type", "samples"), {("a", "f"): (2, 2), ("a", "g"): (1, 1)}),
    (json.dumps(EVENTED), (), {("", "a"): (6000000, 9000000), ("", "b"): (3000000, 3000000)}),
    (scope(type="evented", unit="microseconds", events=[{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 2}]), (),
     {("", "a"): (2000, 10000), ("", "b"): (8000, 8000)}),  # both are open at the end
    (scope(unit="none", samples=[[0, 1], [0], [1], [0]], weights=[1.4, 1.4, 1.4, 2]), (), {("", "a"): (4, 5), ("", "b"): (2, 2)}),
    ("a;b 2.5\na 0.5\na;c 3\n-x;y 4.25\n", (), {("", "b"): (3, 3), ("", "a"): (0, 6), ("", "c"): (3, 3), ("", "-x"): (0, 4), ("", "y"): (4, 4)}),
])
def test_formats_of_others_are_read(text, words, want):
    if "cycles:u" in text:
        text = text.replace("cycles:u", "cycles")
    _, rows = top("-", *words, stdin=text.encode())
    assert {(b, n): v for (b, n, _), v in rows.items()} == want


@pytest.mark.parametrize("text, message", [
    (firefox(meta={}), "raw Gecko profile"),
    (firefox(samples__stack=[5, 1]), "a sample has stack 5, there are 3"),
    (firefox(stackTable={"prefix": [1, None], "frame": [0, 1]}, samples__stack=[0]), "stack 0 has the parent 1"),
    (firefox(stackTable={"prefix": [None], "frame": [7]}, samples__stack=[0]), "stack 0 has frame 7, there are 3"),
    (json.dumps(SHARED)[:-9], "firefox profile"),
    ("a;b 3\nno number\n", "line 2 has no count behind its last space, but 'number'"),
    ("a;b 1.5.2\n", "line 1 has no count behind its last space, but '1.5.2'"), ("a;b\n", "folded stacks: line 1"),
    ("hello world\n", "no profile of a known format"), ("what: is this\n", "no profile of a known format"), ("{ 1", "JSON"),
    (json.dumps(EVENTED)[:-20], "speedscope"),
    (scope(type="evented", unit="none", events=[{"type": t, "frame": f, "at": 1} for t, f in ("O0", "O1", "C0", "C1")]),
     "frame 0 is closed where frame 1 is the innermost"),
    (scope(type="evented", unit="none", events=[{"type": "C", "frame": 1, "at": 0}]), "frame 1 is closed, none is open"),
    (scope(unit="none", samples=[[0], [1]], weights=[1]), "2 samples with 1 weights"),
    ("a 1\n" + "f;" * 65537 + "g 1\n", "folded stacks: line 2: a stack of more than 65536 frames"),
    (json.dumps(EVENTED).replace('"frame": 1', '"frame": 9'), "frame 9, there are 2"),
    ("x 1/1 [000] 1.000000: 1 cycles:\n\tffff a+0x1 (b)\nnonsense\n", "line 3"),
])
def test_broken_files_say_where(text, message):
    done = program.run("top", "-", stdin=text.encode(), check=1)
    assert message in done.stderr.decode()
