"""The HTTP API beside the command line: the same numbers, and plain answers to whatever is wrong."""

import collections
import concurrent.futures
import gzip
import json
import random
import re
import socket
import urllib.parse

import pytest

import clients
import fixtures
import program
import query_bodies
import query_oracle
import web_pages
from web_pages import ask, page_of, request, target, tree

BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"


@pytest.fixture(scope="module")
def big():
    with web_pages.view(BIG) as address:
        yield address


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The same in a store."""
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", tmp_path_factory.mktemp("kept") / "up.db") as server:
        assert clients.post(server.http, BIG.read_bytes()).status == 200
        yield page_of(server)


def command_top(path, type_):
    done = program.run("top", "--json", "-n", "0", "--type", type_, path, check=0)
    return json.loads(done.stdout)


@pytest.mark.parametrize("body", fixtures.NEWEST_BODIES, ids=repr)
def test_same_numbers_as_the_command(body):
    with web_pages.view(body.path) as address:
        types = ask(address, "status").json()["types"]
        assert types
        for t in types:
            want = command_top(body.path, t["id"])["top"]
            got = ask(address, "top", type=t["id"], limit=100000).json()
            assert got["total"] == want["total"][0] and got["count"] == len(got["rows"]) == len(want["rows"])
            assert sorted((r[0], r[3], r[4], r[5], r[6]) for r in got["rows"]) == \
                sorted((r["name"], r["binary"], r["type"], r["self"][0], r["total"][0]) for r in want["rows"])
            header, arrays, _ = tree(ask(address, "flamegraph", type=t["id"], max_nodes=1 << 20).body)
            assert header["total"] == want["total"] == [sum(arrays["self"])]
            assert header["pruned"] == 0 and header["type"] == t["id"]


def test_a_type_that_the_last_minutes_have_not():
    """Without times, and with a type that ended long before the others: its own last 15 minutes."""
    with web_pages.view(BIG, fixtures.OTLP / "v1.11.0-synthetic-offcpu-links.pb") as address:
        for path in ("flamegraph", "top"):
            answer = request(address, "GET", target(path, {"type": "off_cpu"}))
            assert answer.status == 200, answer.body
        total = answer.json()["total"]
        assert total == ask(address, "top", type="off_cpu").json()["total"] > 0
        assert request(address, "GET", target("top", {"type": "nothing"})).status == 404


def test_without_type_and_times_the_window_is_of_the_type_shown(tmp_path):
    path = tmp_path / "apart.pb"
    path.write_bytes(query_bodies.types_days_apart())
    with web_pages.view(path) as address:
        def bare(question, **more):
            return request(address, "GET", target(question, more))

        shown = bare("status").json()["types"][0]["id"]
        assert shown.startswith("process_cpu:")
        top = bare("top").json()
        assert top["total"] == 7 == bare("top", type=shown).json()["total"] and top["unit"] == "nanoseconds"
        assert tree(bare("flamegraph").body)[0]["total"] == [7]
        assert [r["value"] for r in bare("raw").json()["rows"]] == [7]
        assert bare("top", type="alloc_space").json()["total"] == 7
        assert bare("top", query="alloc_space{}").json()["total"] == 7
        assert bare("top", query="{").status == 400


def test_tree_holds_together(big):
    for more in ({}, {"max_nodes": 100}, {"inverted": 1}, {"by": "line"}):
        header, a, strings = tree(ask(big, "flamegraph", **more).body)
        count = len(a["parent"])
        below = [0.0] * count
        assert a["parent"][0] == a["frame"][0] == 0 and a["total"][0] == header["total"][0] > 0
        for i in range(1, count):
            assert a["parent"][i] < i and a["parent"][i] >= a["parent"][i - 1], "children lie side by side, level by level"
            if a["parent"][i] == a["parent"][i - 1] and i > 1 and a["frame"][i] != 1 and a["frame"][i - 1] != 1:
                assert a["total"][i] <= a["total"][i - 1], "the heaviest first"
            below[a["parent"][i]] += a["total"][i]
        assert all(a["total"][i] == a["self"][i] + below[i] for i in range(count))
        assert max(a["frame"]) < len(a["name"]) and max(a["name"]) < len(strings)
        assert ("max_nodes" in more) == (header["pruned"] > 0)


def keyed(arrays, strings):
    """{path of names: (key, total)} of a tree, `other` by that name."""
    paths, found = [], {}
    for i, (parent, frame) in enumerate(zip(arrays["parent"], arrays["frame"])):
        paths.append(paths[parent] + ("other" if frame == 1 else strings[arrays["name"][frame]],) if i else ())
        found[paths[-1]] = (f'{arrays["key"][frame]:x}', arrays["total"][i])
    return found


def test_a_root_that_is_none_says_so(big):
    """A key of nothing, the key of an `other`, and one more frame than any stack has."""
    header, arrays, strings = tree(ask(big, "flamegraph", max_nodes=50).body)
    first = max((t, k) for path, (k, t) in keyed(arrays, strings).items() if len(path) == 1 and path != ("other",))[1]
    for root, frame in (("abc", 1), (f"{first}.abc", 2), (f'{first}.{arrays["key"][1]:x}', 2)):
        none = tree(ask(big, "flamegraph", root=root).body)[0]
        assert none["total"] == [0] and f"frame {frame}, {int(root.split('.')[-1], 16):016x}, is not where root says" in none["partial"]
    assert tree(ask(big, "flamegraph", root=first).body)[0]["partial"] == header["partial"] == ""
    nothing = tree(ask(big, "flamegraph", root="abc", query='{service.name="none"}').body)[0]
    assert nothing["partial"] == "", "nothing is selected, whatever root says"


@pytest.mark.parametrize("question", ["flamegraph", "diff"])
def test_what_adds_up_to_nothing_opens(tmp_path, question):
    """Two stacks of a difference whose values cancel are too light for the tree: they are in an `other` of 0, and come with its root."""
    path = tmp_path / "difference.folded"
    path.write_text("main;a;x 50\nmain;a;y -50\nmain;b 30\n")
    with web_pages.view(path) as address:
        pairs = {"from": "1970-01-01T00:00:00Z"} | ({"query2": "{}"} if question == "diff" else {})
        few = keyed(*tree(ask(address, question, max_nodes=5, **pairs).body)[1:])
        assert {p: t for p, (_, t) in few.items()} == {(): 30, ("main",): 30, ("main", "b"): 30, ("main", "other"): 0}
        below = keyed(*tree(ask(address, question, root=few["main",][0], **pairs).body)[1:])
        assert {p: t for p, (_, t) in below.items()} == {(): 30, ("b",): 30, ("a",): 0, ("a", "x"): 50, ("a", "y"): -50}


def test_diff_of_a_selection_with_itself(big):
    header, a, _ = tree(ask(big, "diff", query="{}", query2="{}").body)
    assert header["sides"] == 2 and header["total"][0] == header["total"][1]
    assert a["total"] == a["total2"] and a["self"] == a["self2"]


FIXED = {"flamegraph": {}, "diff": {"query2": "{}"}, "search": {"search": "a"}, "top": {}, "timeline": {}, "heatmap": {}, "chart": {}, "raw": {}, "labels": {},
         "label-values": {"name": "thread.name"}}


def test_what_a_client_has_is_not_sent_again(tmp_path):
    """An entity tag stands for the store's state and the question: it holds until either changes."""
    def tag(page, question, have=None, **pairs):
        got = request(page, "GET", target(question, pairs), headers={"If-None-Match": have} if have else {})
        assert got.status in (200, 304), got.body[:300]
        if "etag" not in got.headers:
            assert got.headers["cache-control"] == "no-store"
        return got.status, got.headers.get("etag")

    with program.Server("up", "--grpc-address", "", "--http-address", "", "--log-level", "info", "--no-agent", "--listen", "127.0.0.1:0",
                        "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        assert clients.post(page, BIG.read_bytes()).status == 200
        tags = {}
        for question, more in FIXED.items():
            for window in (web_pages.ALWAYS, {}):
                status, tags[question, *window] = tag(page, question, **window, **more)
                assert status == 200 and tags[question, *window]
                assert tag(page, question, tags[question, *window], **window, **more) == (304, tags[question, *window])
                assert tag(page, question, f'"x", {tags[question, *window].removeprefix("W/")}', **window, **more)[0] == 304
                assert tag(page, question, tags[question, *window], **window, **more, by="line")[0] == 200, "another question"
        assert len(set(tags.values())) == len(tags)
        for question, pairs in (("top", {"from": "now-15m"}), ("top", {"from": "now-15m", "to": "now"}), ("top", {"from": "0"}), ("status", {}),
                                ("source", {"name": "x", **web_pages.ALWAYS}), ("uploads", {}), ("export", {"format": "folded", **web_pages.ALWAYS})):
            assert tag(page, question, "*", **pairs) == (200, None), "what time or a file decides has no tag"
        before = ask(page, "top").json()
        assert clients.post(page, (fixtures.OTLP / "v1.11.0-oncpu-mixed.pb").read_bytes()).status == 200
        for question, more in FIXED.items():
            for window in (web_pages.ALWAYS, {}):
                status, new = tag(page, question, tags[question, *window], **window, **more)
                assert status == 200 and new != tags[question, *window], "samples came"
        assert ask(page, "top").json()["total"] > before["total"]
        wrong = request(page, "GET", target("top", {"query": "{", **web_pages.ALWAYS}), headers={"If-None-Match": '"x"'})
        assert wrong.status == 400 and "etag" not in wrong.headers


def test_instants_are_texts_and_keep_every_digit(big):
    """A double has 53 bits: an instant of 19 digits would come out of JSON as another one."""
    first = min(e.time for e in query_oracle.chosen(query_oracle.Body(BIG.read_bytes()).events, "cpu"))
    row = ask(big, "raw", limit=1).json()["rows"][0]
    assert int(row["time_ns"]) == first and isinstance(row["time_ns"], str)
    window = {"from": str(first + 1), "to": str(first + 10 ** 9 + 1)}
    for question in ("timeline", "heatmap", "chart"):
        start = ask(big, question, **window).json()["start_ns"]
        assert isinstance(start, str) and abs(int(start) - first - 1) <= (0 if question == "chart" else 10 ** 9)
    assert isinstance(ask(big, "status").json()["now_ns"], str)


def test_sandwich_search_and_export_agree_with_top(big):
    top = ask(big, "top", sort="total", limit=5).json()
    for name, _, _, _, _, self_, total, _, _, key in top["rows"]:
        callees, a, strings = tree(ask(big, "sandwich", key=key, side="callees").body)
        assert callees["total"] == [total] and strings[a["name"][a["frame"][1]]] == name
        assert a["self"][1] == self_ or self_ < total, name
        callers, _, _ = tree(ask(big, "sandwich", key=key, side="callers").body)
        assert callers["total"] == [total]
    found = ask(big, "search", search=".*").json()
    assert found["matched"] == found["total"] == top["total"] and found["partial"] == ""
    folded = ask(big, "export", format="folded").body.decode()
    assert folded and all(line.rsplit(" ", 1)[1].isdigit() for line in folded.splitlines())
    packed = ask(big, "export", format="pprof")
    assert gzip.decompress(packed.body) and "attachment" in packed.headers["content-disposition"]


def test_frame_keys_have_all_their_digits(big):
    """One frame has one key in every answer, as `top --json` and files have it."""
    rows = ask(big, "top", limit=10000).json()["rows"]
    keys = {r[9] for r in rows}
    assert all(re.fullmatch("[0-9a-f]{16}", k) for k in keys) and any(k[0] == "0" for k in keys)
    assert keys == {r["key"] for r in command_top(BIG, "cpu")["top"]["rows"]}


@pytest.mark.parametrize("by", ["file", "binary"])
def test_a_whole_file_has_no_line(big, by):
    """A row for a file, or a binary, is not where one of its frames is."""
    rows = ask(big, "top", by=by, limit=10000).json()["rows"]
    assert rows and not any(line for _, _, line, *_ in rows)
    files = {file for _, file, *_ in rows}
    assert files == {""} if by == "binary" else len(files) > 1
    _, arrays, strings = tree(ask(big, "flamegraph", by=by).body)
    assert not any(arrays["line"]) and {strings[f] for f in arrays["file"]} == files | {""}


def test_a_search_counts_all_stacks_and_keeps_what_it_finds(big):
    """Of flame graph, sandwich and both sides of a diff, against a calculation from the messages; the pruned tree has what is found."""
    events = query_oracle.chosen(query_oracle.Body(BIG.read_bytes()).events, "cpu")
    times = sorted(e.time for e in events)
    values, later = query_oracle.stack_values(events), query_oracle.stack_values([e for e in events if e.time >= times[len(times) // 2]])
    whole, _, _ = tree(ask(big, "flamegraph").body)
    assert "matched" not in whole
    scale, found_bit = whole["total"][0] // sum(values.values()), 1 << 11
    frames = collections.defaultdict(set)
    for stack in values:
        for frame in stack:
            frames[frame.function].add(frame)
    names = sorted((n for n, of in frames.items() if n and len(of) == 1),
                   key=lambda n: (sum(v for s, v in values.items() if frames[n] & set(s)), n))

    def having(values, name, part=lambda stack: stack):
        return scale * sum(v for s, v in values.items() if frames[name] & set(part(s)))

    rows = ask(big, "top", sort="total", limit=200).json()["rows"]
    heavy, key = next((r[0], r[-1]) for r in rows if r[0] in names and max(map(len, (s for s in values if frames[r[0]] & set(s)))) > 5)
    (middle,) = frames[heavy]
    halves = {"callers": lambda s: s[:s.index(middle) + 1] if middle in s else (), "callees": lambda s: s[s.index(middle):] if middle in s else ()}
    drawn = 0
    for name in [*names[:8], *names[len(names) // 2:][:4], heavy]:
        more = {"search": f"^{re.escape(name)}$", "max_nodes": 100}
        header, a, strings = tree(ask(big, "flamegraph", **more).body)
        assert header["matched"] == [having(values, name)], name
        found = [strings[a["name"][f]] for f in a["frame"] if a["flags"][f] & found_bit]
        assert set(found) <= {name}
        drawn += len(found) > 0
        header, _, _ = tree(ask(big, "diff", query2="{}", from2=str(times[len(times) // 2]), **more).body)
        assert header["matched"] == [having(values, name), having(later, name)], name
        for side, part in halves.items():
            header, _, _ = tree(ask(big, "sandwich", key=key, side=side, **more).body)
            assert header["matched"] == [having(values, name, part)], (name, side)
    assert drawn > 8  # a path of more than 25 frames is not kept among so few


@pytest.mark.parametrize("format_, type_, begins", [
    ("pprof", "application/octet-stream", b"\x1f\x8b"), ("folded", "text/plain", None), ("speedscope", "application/json", b"{"),
    ("firefox", "application/json", b"{"), ("dot", "text/vnd.graphviz", b"digraph"), ("svg", "image/svg+xml", b"<"), ("otlp", "application/x-protobuf", None),
    ("pgo", "application/octet-stream", b"\x1f\x8b")])
def test_every_export(big, format_, type_, begins):
    got = ask(big, "export", format=format_)
    assert got.headers["content-type"].startswith(type_) and "attachment; filename=" in got.headers["content-disposition"]
    assert len(got.body) > 1000 and (begins is None or got.body.startswith(begins))
    if format_ == "otlp":
        events = query_oracle.Body(BIG.read_bytes()).events
        back = query_oracle.Body(got.body).events
        assert sorted((e.time, e.value, e.stack) for e in back) == sorted((e.time, e.value, e.stack) for e in events)
    if format_ == "speedscope":
        assert got.json()["$schema"].endswith("file-format-schema.json")


def test_the_page_opens_on_what_there_is(tmp_path):
    """Without times: the last 15 minutes that have data, to the nanosecond, from files and from a store."""
    times = [e.time for e in query_oracle.Body(BIG.read_bytes()).events]
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", tmp_path / "up.db") as server, web_pages.view(BIG) as files:
        assert clients.post(server.http, BIG.read_bytes()).status == 200
        for where in (page_of(server), files):
            status = ask(where, "status").json()
            assert int(status["from"]) == min(times) and max(times) < int(status["to"]) <= max(times) + 2
            assert request(where, "GET", "/api/v1/top").json()["total"] == ask(where, "top").json()["total"]


def test_a_clock_that_is_years_ahead_hides_nothing(tmp_path):
    """The page opens on the newest samples up to now; those of times to come are there for who asks for them."""
    times = [e.time for e in query_oracle.Body(BIG.read_bytes()).events]
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", tmp_path / "up.db") as server:
        page = page_of(server)
        assert request(page, "POST", "/ingest?name=later&from=4102444800&until=4102444810", b"main;x 3\n").status == 200
        status = ask(page, "status").json()
        assert int(status["to"]) > 4102444800 * 10**9, "there is nothing else"
        assert clients.post(server.http, BIG.read_bytes()).status == 200
        status = ask(page, "status").json()
        assert max(times) < int(status["to"]) <= max(times) + 10**9 and int(status["from"]) <= min(times)
        assert request(page, "GET", "/api/v1/top").json()["total"] == ask(page, "top", **{"from": min(times), "to": max(times) + 1}).json()["total"]


def without_recursion(stack, matches):
    out, i = [], 0
    while i < len(stack):
        out.append(stack[i])
        i = len(stack) - stack[::-1].index(stack[i]) if matches(stack[i]) else i + 1
    return tuple(out)


def collapsed(stack, *filters):
    out = []
    for f in stack:
        if not (out and any(matches(out[-1]) and matches(f) for matches in filters)):
            out.append(f)
    return tuple(out)


COLLAPSE = [
    (["recursion"], lambda s: without_recursion(s, lambda f: True)),
    (["recursion:^f[01]$"], lambda s: without_recursion(s, lambda f: re.search("^f[01]$", f.function))),
    (["collapse:binary:app"], lambda s: collapsed(s, lambda f: "app" in f.binary)),
    (["collapse:^f[0-2]$", "collapse:^sys"], lambda s: collapsed(s, lambda f: re.search("^f[0-2]$", f.function), lambda f: f.function.startswith("sys"))),
    (["hide:^f3$", "recursion:^f", "collapse:type:native"],
     lambda s: collapsed(without_recursion([f for f in s if f.function != "f3"], lambda f: f.function.startswith("f")), lambda f: f.type == "native")),
    (["collapse:type:native", "recursion:^f", "hide:^f3$"],
     lambda s: tuple(f for f in without_recursion(collapsed(s, lambda f: f.type == "native"), lambda f: f.function.startswith("f")) if f.function != "f3")),
]


def test_transforms_that_collapse(tmp_path):
    """Stacks that recurse, also in turns and through inlined functions, against the same done to the bodies' stacks."""
    body = query_bodies.random_body(random.Random(11))
    (tmp_path / "body.pb").write_bytes(body)
    events = query_oracle.chosen(query_oracle.Body(body).events, "cpu")
    values, changed = query_oracle.stack_values(events), 0
    with web_pages.view(tmp_path / "body.pb") as address:
        for words, change in COLLAPSE:
            want = collections.Counter()
            for stack, value in values.items():
                want[change(stack)] += value
                changed += change(stack) != stack
            rows = ask(address, "top", type="cpu", limit=10000, x=words).json()["rows"]
            got = sorted((r[4], r[3], "" if r[0].endswith("+?") else r[0], r[5], r[6]) for r in rows)
            table = query_oracle.top(want)
            assert got == sorted((f.type, f.binary, f.function, *v) for f, v in table.items()), words
    assert changed > 20


def test_lines_of_source(big):
    body = query_oracle.Body(BIG.read_bytes())
    total = ask(big, "top").json()["total"]
    names = ["runtime.selectgo", "runtime.systemstack", "runtime.goexit"]
    names += [r[0] for r in ask(big, "top", limit=400).json()["rows"] if r[1] and r[2] > 0][:6]
    looked_at = 0
    for name in names:
        file, costs = query_oracle.line_costs(body, "cpu", name)
        got = ask(big, "source", name=name).json()
        assert got["file"] == file and got["total"] == total
        assert [[n, *costs[n]] for n in sorted(costs)] == got["lines"], name
        assert ask(big, "source", file=file).json()["lines"] == got["lines"]
        looked_at += len(costs)
    assert looked_at > 20
    assert ask(big, "source", name="there is none").json() == {"file": "", "unit": "nanoseconds", "total": total, "lines": []}
    line = next(r[0] for r in ask(big, "top", by="line", limit=5000).json()["rows"] if r[0].startswith("runtime.selectgo "))
    assert ask(big, "source", name=line, by="line").json()["lines"]
    focused = ask(big, "source", name="runtime.goexit", x="focus:^runtime\\.selectgo$").json()
    assert 0 < focused["total"] < total and max(t for _, _, t in focused["lines"]) <= focused["total"]


def test_time_adds_up(big):
    total = ask(big, "top").json()["total"]
    line = ask(big, "timeline", width=37).json()
    assert sum(v or 0 for s in line["series"] for v in s["values"]) == total
    for question, of in (("timeline", "series"), ("heatmap", "counts")):
        window = {"from": web_pages.ALWAYS["from"], "to": ""}
        open_end = ask(big, question, width=37, **window).json()
        values = open_end[of] if of == "counts" else open_end[of][0]["values"]
        assert sum(v or 0 for v in values) == total, "to the last sample"
        assert sum(bool(v) for v in values) > 5, "and the end is theirs, not that of time"
    by = ask(big, "timeline", width=5, group="thread.name").json()
    assert len(by["series"]) > 1 and sum(v or 0 for s in by["series"] for v in s["values"]) == total
    values = ask(big, "label-values", name="thread.name", limit=10000).json()["values"]
    assert sum(v["sum"] for v in values) == total
    assert {"name": "thread.name"} in ask(big, "labels").json()


FILTERS = [["focus:^main"], ["ignore:type:kernel"], ["show_from:binary:libc"], ["focus:main", "ignore:runtime"], ["focus:^nosuchthing$"], ["hide:."]]


def check_events(address, **pairs):
    """Answers about events count those whose stack the transforms leave: as many as the table's. Gives that."""
    want = ask(address, "top", **pairs).json()["total"]
    line = ask(address, "timeline", width=37, **pairs).json()
    assert sum(v or 0 for s in line["series"] for v in s["values"]) == want
    assert sum(ask(address, "heatmap", width=37, **pairs).json()["counts"]) == want
    assert sum(v["sum"] for v in ask(address, "label-values", name="thread.name", limit=10000, **pairs).json()["values"]) == want
    assert sum(r["value"] for r in ask(address, "raw", limit=10000, **pairs).json()["rows"]) == want
    assert sum(lane["value"] for lane in ask(address, "chart", lanes=200, **pairs).json()["lanes"]) == want
    return want


@pytest.mark.parametrize("x", FILTERS, ids=lambda x: "&".join(x))
def test_transforms_choose_events(big, kept, x):
    whole = ask(big, "top").json()["total"]
    got = check_events(big, x=x)
    assert got == check_events(kept, x=x) <= whole
    assert (got == whole) == (x == ["hide:."]) and (got == 0) == (x == ["focus:^nosuchthing$"])


def test_raw_pages_without_doubles(big):
    def pages(order):
        seen, after = [], ""
        while True:
            page = ask(big, "raw", limit=400, after=after, order=order).json()
            seen += [json.dumps(r, sort_keys=True) for r in page["rows"]]
            after = page["next"]
            if not after:
                return seen
    seen = pages("asc")
    whole = ask(big, "raw", limit=10000).json()
    assert [json.dumps(r, sort_keys=True) for r in whole["rows"]] == seen and len(seen) > 400
    assert pages("desc") == seen[::-1]
    assert "order" in ask(big, "raw", 400, order="up").json()["error"]["what"]


WRONG = [
    ("top", {"query": "{a=}"}, 400), ("top", {"query": '{a="b"'}, 400), ("top", {"query": '{a=~"("}'}, 400),
    ("top", {"query": "x" * 20000}, 422), ("flamegraph", {"from": "yesterday"}, 400), ("flamegraph", {"from": "now", "to": "now-1h"}, 400),
    ("flamegraph", {"max_nodes": "0"}, 400), ("flamegraph", {"max_nodes": "9" * 30}, 400), ("flamegraph", {"root": "zz"}, 400),
    ("flamegraph", {"root": ".".join(["1"] * 5000)}, 422), ("flamegraph", {"by": "colour"}, 400), ("flamegraph", {"x": "nothing:y"}, 400),
    ("flamegraph", {"x": "focus:("}, 400), ("flamegraph", {"x": ["focus:a"] * 17}, 422), ("flamegraph", {"search": "["}, 400),
    ("top", {"sort": "zz"}, 400), ("top", {"sort": "change"}, 400), ("flamegraph", {"trace": "12"}, 400), ("flamegraph", {"span": "g" * 16}, 400), ("flamegraph", {"asof": "-1"}, 400),
    ("sandwich", {}, 400), ("sandwich", {"side": "callers"}, 400), ("sandwich", {"side": "callers", "key": "xyz"}, 400),
    ("sandwich", {"side": "callers", "key": "1" * 17}, 400), ("sandwich", {"side": "callees", "key": "1"}, 404),
    ("label-values", {}, 400), ("label-values", {"name": "a", "limit": "0"}, 400), ("raw", {"after": "x"}, 400),
    ("raw", {"limit": "10001"}, 400), ("timeline", {"width": "0"}, 400), ("heatmap", {"rows": "201"}, 400), ("export", {}, 400), ("source", {}, 400), ("source", {"name": "x", "x": "focus:("}, 400),
    ("export", {"format": "exe"}, 400), ("nothing", {}, 404), ("", {}, 404), ("status/", {}, 404),
]


@pytest.mark.parametrize("question, pairs, status", WRONG, ids=lambda v: str(v)[:40])
def test_what_is_wrong_is_said(big, question, pairs, status):
    error = ask(big, question, status, **pairs).json()["error"]
    assert error["what"] and set(error) == {"what", "hint"}


def test_a_bare_word_is_no_filter_that_goes_unheard(big):
    """It names a type; where another is asked for, as the page always does, that is said, with how a label is selected."""
    types = ask(big, "status").json()["types"]
    for question in ("top", "flamegraph", "timeline"):
        for word in ("main", "busy_c", 'busy_c{thread.name="x"}'):
            error = ask(big, question, 400, query=word, type=types[0]["id"]).json()["error"]["what"]
            assert f'="{word.split("{")[0]}"' in error and types[0]["id"][:20] in error, error
        assert "KEY=" in ask(big, question, 404, query="busy_c").json()["error"]["what"]
    for same in (types[0]["id"], types[0]["name"], types[0]["id"] + '{thread.name=~".*"}'):
        assert ask(big, "top", query=same, type=types[0]["id"]).json()["total"] == ask(big, "top", type=types[0]["id"]).json()["total"]


HOSTILE = ["/api/v1/top?from=%", "/api/v1/top?%zz=1", "/api/v1/top?query=%00%ff", "/api/v1/top?" + "&".join(["a=b"] * 200),
           "/api/v1/top?query=" + "%41" * 15000, "/api/v1/../../etc/passwd", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//",
           "/app.js/../..", "/api/v1/top%00", "/api/v1/flamegraph?search=(a*)*$&x=hide:(a|a)*b", "/span/", "/?" + "x" * 70000, "*"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda v: v[:30])
def test_hostile_urls(big, hostile):
    got = request(big, "GET", hostile)
    assert got.status < 500 and b"root:" not in got.body
    assert ask(big, "status").json()["types"]


def test_foreign_hosts_and_methods(big):
    for host in ("evil.example", "evil.example:4040", "127.0.0.1.evil.example", "localhost.evil.example", ""):
        for where in ("/", "/api/v1/status", "/api/v1/live"):
            assert request(big, "GET", where, headers={"Host": host}).status in (400, 421), host
    for host in ("localhost", "LOCALHOST:1", "[::1]:4040", big):
        assert request(big, "GET", "/api/v1/status", headers={"Host": host}).status == 200
    for method, where, allow in (("PUT", "/api/v1/status", "GET, HEAD"), ("POST", "/api/v1/status", "GET, HEAD"), ("GET", "/api/v1/upload", "POST"),
                                 ("DELETE", "/querier.v1.QuerierService/Diff", "GET, HEAD, POST"), ("GET", "/ingest", "POST")):
        got = request(big, method, where, b"")
        assert got.status == 405 and got.headers["allow"] == allow and got.json()["error"]["what"], (method, where)


def test_a_page_of_our_own_host_may_send(big):
    """Whatever the name it was opened at; a page of another port is another's."""
    port = big.rsplit(":", 1)[1]
    for host, origin, status in ((big, f"http://{big}", 200), (f"localhost:{port}", f"http://localhost:{port}", 200),
                                 (big, "http://127.0.0.1:9", 403), (big, f"https://{big}", 403), (big, f"http://localhost:{port}", 403)):
        got = request(big, "POST", "/api/v1/upload?name=x", b"a;b 1\n", {"Host": host, "Origin": origin})
        assert got.status == status, (host, origin, got.body)
    assert request(big, "GET", f"http://evil.example:{port}/api/v1/status", headers={"Host": big}).status == 421


def test_what_follows_live_is_bounded_and_told(big):
    for from_, status in (("now-1s", 400), ("now-9000d", 400), ("now-x", 400)):
        error = request(big, "GET", target("live", {"from": from_})).json()["error"]["what"]
        assert "from" in error or from_ in error
    assert "10 s" in request(big, "GET", target("live", {"from": "now-1s"})).json()["error"]["what"]
    head = request(big, "HEAD", target("live", {"from": "now-15m"}))
    assert head.status == 200 and head.headers["content-type"] == "text/event-stream"


def test_the_page(big):
    zipped = request(big, "GET", "/", headers={"Accept-Encoding": "gzip"})
    plain = request(big, "GET", "/")
    assert zipped.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert gzip.decompress(zipped.body) == plain.body and b"<html" in plain.body
    assert request(big, "GET", "/", headers={"Accept-Encoding": "gzip;q=0"}).body == plain.body
    policy = plain.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert plain.headers["x-content-type-options"] == "nosniff" and "access-control-allow-origin" not in plain.headers
    same = request(big, "GET", "/", headers={"If-None-Match": plain.headers["etag"]})
    assert same.status == 304 and same.body == b"" and same.headers["etag"] == plain.headers["etag"]
    assert request(big, "GET", "/", headers={"If-None-Match": '"other"'}).status == 200
    span = request(big, "GET", "/span/" + "a" * 32 + "/" + "b" * 16)
    assert span.status == 200 and span.body == plain.body
    missing = request(big, "GET", "/favicon.exe")
    assert missing.status == 404 and missing.headers["content-security-policy"] == policy
    assert "content-security-policy" in ask(big, "nothing", 404).headers


def test_a_hundred_questions_at_once(big):
    total = ask(big, "top").json()["total"]

    def one(n):
        got = request(big, "GET", target(("top", "flamegraph", "timeline", "raw")[n % 4], web_pages.ALWAYS))
        assert got.status in (200, 503), got.body
        if got.status == 200 and n % 4 == 0:
            assert got.json()["total"] == total
        return got.status

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        statuses = list(pool.map(one, range(100)))
    assert statuses.count(200) >= 2
    assert ask(big, "top").json()["total"] == total


def test_a_hundred_equal_questions_are_all_answered(big):
    """They wait together, in one place of the queue, which holds 64."""
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda n: request(big, "GET", target("chart", web_pages.ALWAYS | {"width": "4000"})), range(100)))
    assert {a.status for a in answers} == {200} and len({a.body for a in answers}) == 1 and len({a.headers["etag"] for a in answers}) == 1
    have = [request(big, "GET", target("chart", web_pages.ALWAYS | {"width": "4000"}), headers={"If-None-Match": answers[0].headers["etag"]}) for _ in range(2)]
    assert [(a.status, a.body) for a in have] == [(304, b"")] * 2


def test_clients_that_go_away(big):
    host, port = big.rsplit(":", 1)
    for n in range(20):
        with socket.create_connection((host, int(port)), timeout=program.HANG) as s:
            where = "/api/v1/live" if n % 2 else target("flamegraph", web_pages.ALWAYS)
            s.sendall(f"GET {where} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            if n % 4 == 1:
                assert s.recv(12) == b"HTTP/1.1 200"
    assert ask(big, "top").json()["rows"]


CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
exporters: {sqlite: {path: "%s"}}
extensions: {web: {endpoint: "127.0.0.1:0", store: "%s", token: sesame, allowed_hosts: "tap.example"}}
service:
  extensions: [web]
  pipelines: {profiles: {receivers: [otlp], exporters: [sqlite]}}
"""


def test_a_token_and_further_hosts(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG % (tmp_path / "x.db", tmp_path / "x.db"))
    with program.Server("collector", "--config", config) as server:
        where, body = page_of(server), BIG.read_bytes()
        assert clients.post(server.http, body).status == 200
        for given in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "Bearer sesamesesame"}, {"Authorization": "Basic sesame"},
                      {"Authorization": "Bearer "}, {"Cookie": "flametap_0=open; x=sesame"}):
            got = request(where, "GET", "/api/v1/status", headers=given)
            assert got.status == 401 and got.headers["www-authenticate"] == 'Bearer realm="flametap"', given
        for given in ({"Authorization": "Bearer sesame"}, {"authorization": "bearer sesame"}, {"Cookie": "a=b; flametap_0=sesame"}):
            assert request(where, "GET", "/api/v1/status", headers=given).status == 200
        told = {"Authorization": "Bearer sesame", "Host": "Tap.Example:80"}
        assert request(where, "GET", "/api/v1/status", headers=told).status == 200
        assert request(where, "GET", "/api/v1/status", headers=told | {"Host": "other.example"}).status == 421
        assert request(where, "POST", "/api/v1/status", b"", told | {"Origin": "http://evil.example"}).status in (403, 405)


def live_events(address):
    """Lines of /api/v1/live (and of its chunks), as they come."""
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=program.HANG)
    s.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s, s.makefile("r", encoding="utf-8", newline="\n")


def next_asof(lines):
    for line in lines:
        if line.startswith("data:"):
            return int(json.loads(line[5:])["asof"])
    raise AssertionError("live ended")


def test_up_from_a_post_to_the_page(tmp_path):
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", tmp_path / "up.db") as server:
        where = page_of(server)
        empty = ask(where, "status").json()
        assert empty["types"] == [] and ask(where, "top").json()["rows"] == []
        connection, lines = live_events(where)
        assert any(line.startswith(": still here") for line in lines)
        assert clients.post(server.http, BIG.read_bytes()).status == 200
        assert next_asof(lines) > 0
        connection.close()
        type_ = ask(where, "status").json()["types"][0]["id"]
        want = command_top(BIG, type_)["top"]
        got = ask(where, "top", type=type_, limit=100000).json()
        assert got["total"] == want["total"][0] and len(got["rows"]) == len(want["rows"])
        assert (tmp_path / "up.db").stat().st_mode & 0o077 == 0


def test_a_value_is_found_behind_many_heavier_ones(tmp_path):
    """All are looked through for what was typed, whatever the limit; that there are more is told."""
    path = tmp_path / "many.pb"
    path.write_bytes(query_bodies.many_values(404))
    with web_pages.view(path) as address:
        def values(**more):
            got = ask(address, "label-values", name="thread.name", **more).json()
            return [v["value"] for v in got["values"]], got["more"]

        first, more = values()
        assert len(first) == 200 and more and "Thread-397" not in first
        assert values(match="READ-397") == (["Thread-397"], False)
        few, more = values(match="-3", limit=5)
        assert len(few) == 5 and more and all("-3" in v for v in few)
        assert len(values(match="-3")[0]) == sum("-3" in f"Thread-{n}" for n in range(404))
        assert values(match="thread-4040") == values(match="x" * 5000) == ([], False)
        assert values(limit=404) == (values(limit=10000)[0], False)
        assert values(match="") == values()


def test_urls_carry_any_label(big):
    """What a selector says comes back by what it selects, whatever escapes the URL has."""
    values = ask(big, "label-values", name="thread.name").json()["values"]
    for v in values[:5]:
        selector = "{thread.name=" + json.dumps(v["value"]) + "}"
        for quoted in (urllib.parse.quote_plus(selector), urllib.parse.quote(selector), "".join(f"%{b:02x}" for b in selector.encode())):
            got = request(big, "GET", target("top", web_pages.ALWAYS) + "&query=" + quoted)
            assert got.status == 200 and got.json()["total"] == v["sum"]
