"""Formats of other tools: what `flametap export` writes is read by those tools (or by what defines them), what they write by `flametap top`."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest

import fixtures
import program
import query_oracle

BIG = fixtures.body(fixtures.BIG)
PERIOD = 20408163
LINKS = fixtures.body("v1.11.0-synthetic-offcpu-links")


@pytest.fixture(scope="module")
def events():
    return query_oracle.Body(BIG.bytes).events


def export(*words, check=0):
    return program.run("export", *words, check=check).stdout


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


def test_speedscope_has_every_thread_in_time(events):
    data = json.loads(export("--format", "speedscope", BIG.path))
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    threads = {(e.labels.get("process.pid"), e.labels.get("thread.id")) for e in events}
    assert len(data["profiles"]) >= len(threads)
    busy = 0
    for p in data["profiles"]:
        assert p["type"] == "sampled" and p["unit"] == "nanoseconds"
        assert len(p["samples"]) == len(p["weights"]) and sum(p["weights"]) == p["endValue"]
        assert all(0 <= f < len(frames) for stack in p["samples"] for f in stack)
        busy += sum(1 for stack in p["samples"] if stack)
    assert busy == len(events)
    answer, _ = top("-", stdin=json.dumps(data).encode())
    assert answer["events"] == len(events)


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


@pytest.mark.parametrize("text, words, want", [
    (PERF, ("--type", "cycles"), {("[kernel.kallsyms]", "native_safe_halt"): (7, 7), ("[kernel.kallsyms]", "default_idle"): (0, 7),
                                  ("prog", "operator new(unsigned long)"): (250000, 250000), ("libc.so.6", "libc.so.6+?"): (0, 250000)}),
    ("a;b;c_[k] 3\r\n\na;b 4\n# x\na b;c d 5\n", (), {("", "c"): (3, 3), ("", "b"): (4, 7), ("", "a"): (0, 7), ("", "a b"): (0, 5), ("", "c d"): (5, 5)}),
    (json.dumps(CPUPROFILE), (), {("", "work"): (1000000, 2500000), ("", "inner"): (1500000, 1500000), ("", "(anonymous)"): (2000000, 2000000),
                                  ("", "(root)"): (0, 4500000)}),
    (json.dumps(EVENTED), (), {("", "a"): (6000000, 9000000), ("", "b"): (3000000, 3000000)}),
])
def test_formats_of_others_are_read(text, words, want):
    if "cycles:u" in text:
        text = text.replace("cycles:u", "cycles")
    _, rows = top("-", *words, stdin=text.encode())
    assert {(b, n): v for (b, n, _), v in rows.items()} == want


@pytest.mark.parametrize("text, message", [
    ("a;b 3\nno number\n", "line 2"),
    (json.dumps(EVENTED)[:-20], "speedscope"),
    (json.dumps(EVENTED).replace('"frame": 1', '"frame": 9'), "frame 9, there are 2"),
    ("x 1/1 [000] 1.000000: 1 cycles:\n\tffff a+0x1 (b)\nnonsense\n", "line 3"),
])
def test_broken_files_say_where(text, message):
    done = program.run("top", "-", stdin=text.encode(), check=1)
    assert message in done.stderr.decode()
