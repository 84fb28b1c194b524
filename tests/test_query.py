"""`flametap top` and `diff` against an independent calculation from the bodies (query_oracle), on files."""

import json
import random
import re

import pytest

import clients
import fixtures
import handmade
import program
import query_bodies
import query_oracle
from fixtures import NEWEST_BODIES


def ask(path, *words, check=0, **options):
    """The answer for a file, a list of files, or for a store."""
    where = path if isinstance(path, list) else ["--db", path] if str(path).endswith(".db") or "://" in str(path) else [path]
    done = program.run("top", "--json", "-n", "0", *words, *where, check=check, **options)
    return json.loads(done.stdout)


def frame(row):
    unnamed = row["name"].endswith("+?")
    return query_oracle.Frame(row["type"], row["binary"], "" if unnamed else row["name"], row.get("inlined", False))


def rows(answer):
    found = {}
    for r in answer["top"]["rows"]:
        assert frame(r) not in found
        found[frame(r)] = [r["self"][0], r["total"][0]]
    return found


def nodes(answer):
    t = answer["tree"]
    found, path = {}, []
    for f, depth, total, self_ in zip(t["frame"], t["depth"], t["nodeTotal"], t["nodeSelf"]):
        assert f != -2, "nothing is pruned here"
        del path[max(depth - 1, 0):]
        if depth:
            path.append(frame(t["frames"][f]))
        assert tuple(path) not in found
        found[tuple(path)] = [total, self_]
    return found


def same_values(got, want):
    assert got.keys() == want.keys()
    for k in want:
        for g, w in zip(got[k], want[k]):
            # Gauges are rounded once a stack.
            assert g == w or (isinstance(w, float) and abs(g - w) <= 1 + len(want)), (k, got[k], want[k])


def check(path, parsed, type_, words=(), **selection):
    events = query_oracle.chosen(parsed, type_, **selection)
    values = query_oracle.stack_values(events, parsed, selection.get("window", (0, 1 << 64)))
    answer = ask(path, "--type", type_, *words)
    assert answer["events"] == len(events)
    same_values(rows(answer), query_oracle.top(values))
    assert abs(answer["top"]["total"][0] - sum(values.values())) <= (len(values) if type_ in query_oracle.GAUGES else 0)
    for inverted in (False, True):
        tree = ask(path, "--type", type_, "--tree", *(["--inverted"] if inverted else []), *words)
        want = query_oracle.tree(values, inverted) if values else {(): [0, 0]}
        same_values(nodes(tree), want)
    return len(events)


def events_of(data, number=0):
    """number: of the request, so that the series of several are told apart."""
    return [e._replace(profile=(number, e.profile), series=(*e.series, number)) for e in query_oracle.Body(data).events]


def types_of(events):
    return sorted({e.series[1] for e in events})


@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_everything_of_a_recorded_body(body):
    events = events_of(body.bytes)
    for type_ in types_of(events):
        assert check(body.path, events, type_) > 0


def random_selection(rng, events):
    """(words, selection) that some events match, mostly."""
    words, selection = [], {}
    times = sorted(e.time for e in events)
    if rng.random() < 0.7:
        a, b = sorted((rng.choice(times), rng.choice(times) + rng.choice((0, 1, 10**9))))
        words += ["--from", str(a), "--to", str(b)]
        selection["window"] = (a, b)
    matchers = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        labels = rng.choice(events).labels
        key = rng.choice(sorted(labels) + ["service.name", "no.such.label"])
        value = query_oracle.label(labels, key) or ""
        op = rng.choice(("=", "=", "!=", "=~", "!~"))
        if "~" in op:
            value = rng.choice((value[:3] + ".*", ".*" + value[-2:], ".+", "")) if not set(value) & set("()[]{}+*?|\\^$") else ".*"
        key = key if rng.random() < 0.5 else key.replace(".", "_")
        matchers.append((key, op, value))
    if matchers:
        quote = lambda s: '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'  # noqa: E731
        words += ["--select", "{" + ", ".join(f"{quote(k)}{op}{quote(v)}" for k, op, v in matchers) + "}"]
        selection["matchers"] = matchers
    return words, selection


def test_random_selections_of_the_big_body():
    body = fixtures.body(fixtures.BIG)
    events = events_of(body.bytes)
    rng = random.Random(7)
    seen = [check(body.path, events, "cpu", words, **selection)
            for words, selection in (random_selection(rng, events) for _ in range(150 if program.LONG else 8))]
    assert sum(n > 0 for n in seen) >= len(seen) // 3


@pytest.mark.parametrize("seed", range(40 if program.LONG else 3))
def test_random_selections_of_made_up_bodies(tmp_path, seed):
    rng = random.Random(seed)
    data = query_bodies.random_body(rng)
    path = tmp_path / "body.pb"
    path.write_bytes(data)
    check_selections(rng, path, events_of(data), 3)


def check_selections(rng, path, events, times):
    for type_ in types_of(events):
        check(path, events, type_)
        of_type = [e for e in events if e.series[1] == type_]
        for _ in range(times):
            words, selection = random_selection(rng, of_type)
            check(path, events, type_, words, **selection)


def test_a_store_answers_as_the_bodies_say(tmp_path, backend):
    """Several requests in SQLite: equal content of theirs is one row there, and the same series where resources are equal."""
    rng = random.Random(77)
    bodies = [query_bodies.random_body(rng) for _ in range(3)] + [fixtures.body(fixtures.BIG).bytes]
    path = tmp_path / "flametap.db"
    server = backend("-receiver", "sqlite", "-sqlite.path", path)
    events = []
    for number, data in enumerate(bodies):
        assert clients.post(server.http, data).status == 200
        events += [e._replace(series=resource_of(e)) for e in events_of(data, number)]
    check_selections(rng, path, events, 10 if program.LONG else 2)
    assert server.stop() == 0
    check_selections(rng, path, events, 1)


def check_columns(path):
    """CPU time that is told twice, as samples and as time, is there once; the samples are a type of their own."""
    events = events_of(query_bodies.two_columns())
    assert sum(e.value for e in query_oracle.chosen(events, "cpu")) == 3 * 7 * 10**7
    check(path, events, "cpu")
    check(path, events, "samples")
    for service, want in (("both", 7 * 10**7), ("counts", 7 * 10**7), ("times", 7 * 10**7)):
        assert ask(path, "--select", '{service.name="%s"}' % service)["top"]["total"] == [want]
    assert ask(path, "--type", "samples:count")["top"]["total"] == [7]


def test_two_columns_of_one_measurement_are_counted_once(tmp_path, backend):
    body, db = tmp_path / "body.pb", tmp_path / "flametap.db"
    body.write_bytes(query_bodies.two_columns())
    check_columns(body)
    server = backend("-receiver", "sqlite", "-sqlite.path", db)
    assert clients.post(server.http, body.read_bytes()).status == 200
    check_columns(db)
    assert server.stop() == 0
    whole = program.run("export", "--format", "folded", "--db", db, "--type", "cpu", check=0).stdout
    assert sorted(whole.splitlines()) == [b"f 90000000", b"g 120000000"]


def test_files_of_one_program_are_one(tmp_path):
    """Gauges in several files: equal resources are one program, whose profiles are averaged, not added up."""
    rng = random.Random(78)
    paths, events = [], []
    for number in range(3):
        data = query_bodies.random_body(rng)
        paths.append(tmp_path / f"{number}.pb")
        paths[-1].write_bytes(data)
        events += [e._replace(series=resource_of(e)) for e in events_of(data, number)]
    assert set(types_of(events)) & query_oracle.GAUGES
    for type_ in types_of(events):
        check(paths, events, type_)


def resource_of(event):
    """Series of a store have no place in a request: here each resource has a pid of its own."""
    return event.series[:1] + event.series[1:4] if "process.pid" not in event.labels else (event.labels["process.pid"], *event.series[1:4])


def test_adjacent_windows_add_up():
    body = fixtures.body(fixtures.BIG)
    times = sorted(e.time for e in query_oracle.Body(body.bytes).events)
    whole = ask(body.path)["top"]["total"][0]
    cuts = [0, *times[:: len(times) // 7], 1 << 63]
    assert sum(ask(body.path, "--from", str(a), "--to", str(b))["top"]["total"][0] for a, b in zip(cuts, cuts[1:]) if a < b) == whole


@pytest.mark.parametrize("version", ["1.3", "1.7"])
def test_a_sum_beside_several_timestamps(version, tmp_path):
    """Old bodies: a window counts each timestamp with its share, be it of the body, of what it becomes in 1.10, or of a store."""
    db, old, new = tmp_path / "flametap.db", tmp_path / "old.pb", tmp_path / "new.pb"
    old.write_bytes(handmade.rich(version).SerializeToString())
    new.write_bytes(program.run("decode", "--format", "otlp", old, check=0).stdout)
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as server, clients.channel(server.grpc) as ch:
        clients.export(ch, old.read_bytes(), version=version)
    parsed = query_oracle.Body(new.read_bytes())
    [type_] = {e.series[1] for e in parsed.events if e.value == 25_000_000}
    windows = [(handmade.TIME, handmade.TIME + 500), (handmade.TIME + 500, handmade.TIME + 1000), (handmade.TIME, handmade.TIME + 1000)]
    for start, end in windows:
        want = sum(e.value for e in parsed.events if e.series[1] == type_ and start <= e.time < end)
        for path in (old, new, db):
            got = ask(path, "--type", type_, "--from", str(start), "--to", str(end))["top"]["total"][0]
            assert got == want, (path, start, end)


def test_spans_and_traces(tmp_path):
    """In a file and in a store, which has more series than theirs; also of types that a span has no samples of, and of no span at all."""
    body, other = fixtures.body("v1.11.0-synthetic-offcpu-links"), fixtures.body("v1.11.0-oncpu-start")
    db = tmp_path / "flametap.db"
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as server, clients.channel(server.grpc) as ch:
        clients.export(ch, other.bytes, version="1.11")
        clients.export(ch, body.bytes, version="1.11")
    parsed = query_oracle.Body(body.bytes)
    found = {e.links for e in parsed.events} - {("", "")}
    assert found
    for path in (body.path, db):
        for trace, span in sorted(found):
            for type_ in types_of(parsed.events):
                events = query_oracle.chosen(parsed.events, type_, trace=trace, span=span)
                want = query_oracle.top(query_oracle.stack_values(events, parsed.events))
                assert rows(ask(path, "--type", type_, "--trace", trace, "--span", span)) == want
                assert rows(ask(path, "--type", type_, "--select", f'{{span_id="{span}"}}')) == query_oracle.top(
                    query_oracle.stack_values(query_oracle.chosen(parsed.events, type_, span=span), parsed.events))
        assert rows(ask(path, "--span", "00000000000000aa")) == {}


# ---- diff ----

def shares(path, type_="cpu"):
    values = query_oracle.stack_values(query_oracle.chosen(query_oracle.Body(path.read_bytes()).events, type_))
    return {f: 100 * v[0] / sum(values.values()) for f, v in query_oracle.top(values).items()}


def test_diff_holds_both_sides():
    old, new = fixtures.body("v1.11.0-oncpu-mixed"), fixtures.body(fixtures.BIG)
    answer = json.loads(program.run("diff", "--json", "-n", "0", old.path, new.path, check=0).stdout)
    want = [query_oracle.top(query_oracle.stack_values(query_oracle.chosen(query_oracle.Body(b.bytes).events, "cpu"))) for b in (old, new)]
    got = {frame(r): (r["self"], r["total"]) for r in answer["top"]["rows"]}
    assert got.keys() == want[0].keys() | want[1].keys()
    for f, (self_, total) in got.items():
        assert [self_, total] == [[w.get(f, [0, 0])[i] for w in want] for i in (0, 1)]


def test_the_gate_names_what_became_dearer():
    old, new = fixtures.body("v1.11.0-oncpu-mixed").path, fixtures.body(fixtures.BIG).path
    before, after = shares(old), shares(new)
    growth = {f: after.get(f, 0) - before.get(f, 0) for f in before.keys() | after.keys()}
    dearer = sorted((g for g in growth.values() if g > 2), reverse=True)
    assert dearer
    done = program.run("diff", "--fail-above", "2%", old, new, check=1)
    named = [line for line in done.stderr.decode().splitlines() if line.startswith("dearer by")]
    assert [f"{g:.2f}" for g in dearer] == [line.split()[2] for line in named]
    program.run("diff", "--fail-above", f"{dearer[0] + 0.01}", old, new, check=0)
    program.run("diff", "--fail-above", "0", old, old, check=0)


@pytest.mark.parametrize("base", ["no-such-file", "/dev/null"])
def test_a_gate_tells_an_error_from_what_became_dearer(base):
    words = (base, fixtures.body(fixtures.BIG).path)
    program.run("diff", "--fail-above", "2%", *words, check=2)


def test_the_diff_tells_types_of_frames_apart(tmp_path):
    """A kernel's and a program's function of one name."""
    sides = [tmp_path / "a.folded", tmp_path / "b.folded"]
    for path, counts in zip(sides, ((1, 3), (2, 2))):
        path.write_text("main;read_[k] %d\nmain;read %d\n" % counts)
    lines = program.run("diff", *sides, check=0).stdout.decode().splitlines()
    assert lines[2].split()[4:] == ["type", "binary", "function"]
    assert {(line.split()[1], *line.split()[4:]) for line in lines[3:]} >= {("50.00%", "kernel", "-", "read"), ("50.00%", "-", "-", "read")}


def test_absolute_costs_are_of_a_second():
    old, new = fixtures.body("v1.11.0-oncpu-mixed").path, fixtures.body(fixtures.BIG).path
    facts = json.loads(program.run("diff", "--json", "-n", "0", old, new, check=0).stdout)
    seconds = [facts[side]["covered"] / 1e9 for side in ("base", "now")]
    want = [(r["name"], [f"{v / 1e6 / s:.2f} ms/s" for v, s in zip(r["self"], seconds)]) for r in facts["top"]["rows"]]
    lines = program.run("diff", "--absolute", old, new, check=0).stdout.decode().splitlines()[3:]
    assert len(lines) == 30
    for line in lines:
        base, now, _ = re.findall(r"[+-]?[\d.]+ ms/s", line)
        assert any(name in line and [base, now] == costs for name, costs in want), line


def test_a_store_beside_a_file(tmp_path):
    body, db = fixtures.body(fixtures.BIG), tmp_path / "flametap.db"
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as server:
        assert clients.post(server.http, body.bytes).status == 200
    for words in (["--db", db, body.path], ["--base-db", db, body.path], [db, body.path]):
        assert program.run("diff", "--fail-above", "0", *words, check=0).stdout.splitlines()[0].startswith(b"base 33.53 s cpu")


@pytest.mark.parametrize("words, message", [
    (["x.pb"], "no --db to compare it with"), (["--db", "x.db"], "both sides are the same"), (["--db", "x.db", "a", "b"], "two sides"),
    (["--fail-above", "inf", "a", "b"], "like 5%"), (["--fail-above", "200%", "a", "b"], "more than 100 points"),
    (["http://127.0.0.1:1/db", "b"], "127.0.0.1"), (["-", "-"], "stdin can be one side only"),
])
def test_diffs_without_two_sides_are_refused(words, message):
    assert message in program.run("diff", *words, check=2 if "--fail-above" in words else 1).stderr.decode()


@pytest.mark.parametrize("words, message", [
    (["--select", "{a=}"], "a quoted value is missing"),
    (["--select", '{a="b"'], "'}' is missing"),
    (["--select", '{a=~"("}'], "bad regex"),
    (["--select", "{" + ",".join(f'l{i}="x"' for i in range(40)) + "}"], "more than 32 matchers"),
    (["--select", '{thread.name=~"(.*)*(.*)*(.*)*(.*)*x"}'], None),
    (["--focus", "(a+)+$"], None),
    (["--from", "2026-02-30"], "bad time"),
    (["--from", "now", "--to", "now-1h"], "ends"),
    (["--from", "99999999999999999999"], "bad time"),
    (["--type", "nonsense"], "no profile type"),
    (["--by", "nonsense"], "one of function"),
    (["--trace", "12"], "32 hex digits"), (["--inverted"], "add -tree"), (["--search", "x"], "add -tree"), (["--sort", "zz"], "self, total"),
    (["--db", "/nonexistent/x.db"], "not both"),
    (["--select", "{x=\"'; DROP TABLE sample; --\"}"], "no samples match"),
])
def test_bad_questions_are_refused_in_time(words, message):
    done = program.run("top", *words, fixtures.body(fixtures.BIG).path)
    if message:
        assert done.returncode in (1, 2)
        assert message in done.stderr.decode()


def test_a_diff_is_of_a_type_that_both_sides_have(tmp_path):
    """Each file's own most usual type is another one; the base's goes for both, and the other one's where that is not there."""
    m = query_bodies.Maker()
    files = {}
    for name, types in (("a", ("wall", "wall", "alloc")), ("b", ("alloc", "alloc", "wall")), ("c", ("alloc",))):
        m = query_bodies.Maker()
        for type_ in types:
            scope = m.request.resource_profiles.add().scope_profiles.add()
            m.profile(scope, type_, "count").samples.add(stack_index=m.stack([m.location("native", "/opt/app", ("f",), 1)]), values=[7],
                                                         timestamps_unix_nano=[query_bodies.TIME + 5])
        files[name] = tmp_path / name
        files[name].write_bytes(m.request.SerializeToString())
    for base, now, want in (("a", "b", "wall"), ("b", "a", "alloc"), ("a", "c", "alloc"), ("c", "a", "alloc")):
        answer = json.loads(program.run("diff", "--json", files[base], files[now], check=0).stdout)
        assert {answer[side]["profileType"]["type"] for side in ("base", "now")} == {want}
    assert "different types" in program.run("diff", "--base-type", "wall", "--type", "alloc", files["a"], files["b"], check=1).stderr.decode()


def test_a_pattern_that_is_dear_on_one_name_leaves_no_stack_out(tmp_path):
    """A C++ name of 1 kB against three ".*": it is matched all the same, and the other names of its file count."""
    name = "std::vector<std::pair<std::basic_string<char, std::char_traits<char> >, std::map<int, int> > >::push_back" * 11
    body = tmp_path / "cpp.folded"
    body.write_text("".join(f"main;work{i};emplace{i} 5\n" for i in range(3000)) + f"main;{name};{name}::emplace 7\n")
    for pattern, events in (("std.*<.*char.*emplace", 7), (".*<.*>.*::emplace", 7), ("emplace", 15007)):
        top = json.loads(program.run("top", "--json", "--focus", pattern, body).stdout)
        assert top["top"]["total"] == [events] and top["partial"] is False


def test_a_pattern_that_passes_every_limit_is_to_blame_not_memory():
    done = program.run("top", "--focus", r"(?<x>.+)+(?<y>.+)+\k<x>\k<y>\k<y>q$", fixtures.body(fixtures.BIG).path, check=1)
    assert "steps on a text of" in done.stderr.decode() and "KiB" not in done.stderr.decode()


def test_a_type_that_is_not_there_names_those_that_are(tmp_path):
    body = tmp_path / "body.pb"
    body.write_bytes(query_bodies.random_body(random.Random(1)))
    said = program.run("top", "--type", "inuse", body, check=1).stderr.decode()
    for id_ in ("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "memory:inuse_space:bytes:space:bytes", "memory:alloc_space:bytes:space:bytes",
                "off_cpu:off_cpu:nanoseconds::"):
        assert id_ in said


def test_the_type_is_one_that_the_selection_has(tmp_path):
    """Without --type it is the most usual one of what is selected, not of everything that is there."""
    m = query_bodies.Maker()
    for service, columns in (("cpu", ("cpu", "nanoseconds")), ("heap", ("inuse_space", "bytes"))):
        resource = m.request.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = service
        profile = m.profile(resource.scope_profiles.add(), *columns, "cpu", "nanoseconds", 1)
        profile.samples.add(stack_index=m.stack([m.location("native", "/opt/app", ("f",), 16)]), values=[7])
    body = tmp_path / "body.pb"
    body.write_bytes(m.request.SerializeToString())
    assert ask(body)["profileType"]["id"] == "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
    answer = ask(body, "--select", '{service.name="heap"}')
    assert (answer["profileType"]["id"], answer["top"]["total"]) == ("memory:inuse_space:bytes:cpu:nanoseconds", [7])


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "cut.pb").write_bytes(fixtures.body(fixtures.BIG).bytes[:5000])
    for name in ("directory", "cut.pb", "missing"):
        done = program.run("top", tmp_path / name, check=1)
        assert name in done.stderr.decode()
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(200))
    assert b"perf script -i" in program.run("top", tmp_path / "perf.data", check=1).stderr
    done = program.run("top", "--db", fixtures.body(fixtures.BIG).path, check=1)
    assert "it is not a store" in done.stderr.decode()
