"""pprof against its own tool: what a profile says of itself as a whole, and which of its frames it does not want to be seen."""

import gzip
import json
import re
import shutil
import subprocess

import pytest

import clients
import program
import pyroscope
import query_bodies


class Pprof:
    def __init__(self, *types, period=0):
        self.p = pyroscope.message("Profile")
        self.p.string_table.append("")
        self.locations = {}
        for name, unit in types:
            self.p.sample_type.add(type=self.text(name), unit=self.text(unit))
        if period:
            self.p.period, self.p.period_type.type, self.p.period_type.unit = period, *map(self.text, types[-1])

    def text(self, s):
        if s not in self.p.string_table:
            self.p.string_table.append(s)
        return list(self.p.string_table).index(s)

    def location(self, names):
        """`names`: a function, and behind commas those inlined into it."""
        if names not in self.locations:
            made = self.p.location.add(id=len(self.locations) + 1)
            self.locations[names] = made.id
            for name in reversed(names.split(",")):
                f = self.p.function.add(id=len(self.p.function) + 1, name=self.text(name), system_name=self.text(name))
                made.line.add(function_id=f.id)
        return self.locations[names]

    def sample(self, stack, *values):
        """`stack`: root first."""
        self.p.sample.add(value=values, location_id=[self.location(names) for names in reversed(stack.split(";"))])

    def write(self, path):
        path.write_bytes(self.p.SerializeToString())
        return path


def go(*words):
    done = subprocess.run(["go", "tool", "pprof", *map(str, words)], capture_output=True, text=True, check=True,
                          env=program.environment(GOTOOLCHAIN="local"))
    return done.stdout


def go_top(path):
    rows = [line.split() for line in go("-top", "-symbolize=none", "-unit=ns", "-nodefraction=0", path).splitlines()]
    return {re.sub(r" \((partial-)?inline\)$", "", " ".join(r[5:])): (int(r[0].removesuffix("ns")), int(r[3].removesuffix("ns"))) for r in rows
            if len(r) > 5 and r[0].removesuffix("ns").isdigit()}


def our_top(path):
    answer = json.loads(program.run("top", "--json", "-n", "0", path, check=0).stdout)
    rows = {}
    for r in answer["top"]["rows"]:  # as inlined and not is one function to go
        was = rows.get(r["name"], (0, 0))
        rows[r["name"]] = (was[0] + r["self"][0], was[1] + r["total"][0])
    return rows


STACKS = [("main;work;alloc;fill", 1), ("main;work;allocNot", 2), ("alloc;alloc;main", 4), ("alloc;fill", 8), ("main;allocKept;fill", 16), ("main;work,alloc;fill", 32),
          ("main;alloc,work;fill", 64), ("main;alloc(int);fill", 128), ("main;.alloc;fill", 256), ("main;x::operator()(int);fill", 512),
          ("main;(anonymous namespace)::gone(int);fill", 1024), ("work,alloc;other", 2048)]


@pytest.mark.skipif(not shutil.which("go"), reason="no go here")
@pytest.mark.parametrize("drop, keep", [("", ""), ("alloc", ""), ("alloc.*", "allocKept"), ("all", "alloc"), (r"x::operator\(\)|\(anonymous namespace\)::gone", ""), ("", "main"), ("main|alloc", "")])
def test_frames_that_are_not_wanted_are_dropped_as_go_does(tmp_path, drop, keep):
    made = Pprof(("cpu", "nanoseconds"))
    made.p.drop_frames, made.p.keep_frames = made.text(drop), made.text(keep)
    for stack, value in STACKS:
        made.sample(stack, value)
    path, out = made.write(tmp_path / "a.pb"), tmp_path / "out.pb.gz"
    assert our_top(path) == go_top(path)
    program.run("export", "--format", "pprof", path, "-o", out, check=0)
    assert go_top(out) == go_top(path) == our_top(out)


def test_a_pattern_that_is_none_is_refused(tmp_path):
    made = Pprof(("cpu", "nanoseconds"))
    made.sample("main", 1)
    made.p.drop_frames = made.text("a(b")
    assert b"pprof: drop_frames: " in program.run("top", made.write(tmp_path / "a.pb"), check=1).stderr


@pytest.mark.skipif(not shutil.which("go"), reason="no go here")
def test_what_a_profile_says_of_itself_survives(tmp_path):
    made = Pprof(("cpu", "nanoseconds"))
    made.sample("main;gone", 1)
    made.p.drop_frames, made.p.keep_frames = made.text("gone"), made.text("main")
    made.p.comment.extend([made.text("first"), made.text("second")])
    doc_url = made.text("https://doc.example/x")  # field 15, which the Profile of Pyroscope's API has not
    path, out, otlp = made.write(tmp_path / "a.pb"), tmp_path / "out.pb.gz", tmp_path / "a.otlp"
    path.write_bytes(path.read_bytes() + bytes([15 << 3, doc_url]))
    program.run("export", "--format", "otlp", path, "-o", otlp, check=0)
    for original in (path, otlp):
        program.run("export", "--format", "pprof", original, "-o", out, check=0)
        head = go("-raw", out).split("Locations")[0]
        assert "Comment: first\nComment: second\nDoc: https://doc.example/x\n" in head and "pprof.profile" not in head
        again = pyroscope.message("Profile")
        again.ParseFromString(gzip.decompress(out.read_bytes()))
        assert [again.string_table[i] for i in (again.drop_frames, again.keep_frames)] == ["gone", "main"]


def test_counts_that_say_something_else_than_the_time_are_there(tmp_path):
    """Left out only where they are the time in whole periods, in every row."""
    for values, counts in (((3, 30), False), ((3, 77), True)):
        made = Pprof(("samples", "count"), ("cpu", "nanoseconds"), period=10)
        made.sample("main;a", *values)
        made.sample("main;b", 4, 40 if not counts else 0)
        path = made.write(tmp_path / "a.pb")
        answer = json.loads(program.run("top", "--json", path, check=0).stdout)
        assert answer["profileType"]["type"] == "cpu" and answer["top"]["total"] == [77 if counts else 70]
        found = program.run("top", "--json", "--type", "process_cpu:samples:count:cpu:nanoseconds", path)
        assert (found.returncode == 0) == counts
        assert not counts or json.loads(found.stdout)["top"]["total"] == [7]


HEAP = (("alloc_space", "bytes"), ("cpu_like", "count"), ("inuse_space", "bytes"))


def heap(path, default=""):
    made = Pprof(*HEAP)
    made.p.default_sample_type = made.text(default)
    made.sample("f", 7, 2, 5)
    return made.write(path)


def type_shown(*words):
    return json.loads(program.run("top", "--json", *words, check=0).stdout)["profileType"]["type"]


def profile(path):
    return pyroscope.message("Profile").FromString(gzip.decompress(path.read_bytes()))


def read_pprof(path):
    """Its sample types, and the one that it says is to be seen first."""
    p = profile(path)
    return tuple((p.string_table[t.type], p.string_table[t.unit]) for t in p.sample_type), p.string_table[p.default_sample_type]


@pytest.mark.skipif(not shutil.which("go"), reason="no go here")
@pytest.mark.parametrize("said, shown", [("", "inuse_space"), ("alloc_space", "alloc_space")])
def test_the_type_that_its_maker_wants_first_is_shown_first(tmp_path, said, shown):
    """default_sample_type, and where it is not set the last one, as go has it: through OTLP, a store and pprof again."""
    path, otlp, db = heap(tmp_path / "heap.pb", said), tmp_path / "otlp", tmp_path / "a.db"
    program.run("export", "--format", "otlp", path, "-o", otlp, check=0)
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as backend:
        assert clients.post(backend.http, otlp.read_bytes()).status == 200
    assert f"Type: {shown}" in go("-top", path)
    for source in ([path], [otlp], ["--db", db]):
        assert type_shown(*source) == shown, source
        assert type_shown(*source, "--select", '{service.name=~".*"}') == shown, source
        out = tmp_path / "again.pb.gz"
        program.run("export", "--format", "pprof", *source, "-o", out, check=0)
        assert read_pprof(out) == (HEAP, said)
        assert f"Type: {shown}" in go("-top", out) and b"pprof.scope" not in gzip.decompress(out.read_bytes())


def test_the_last_type_comes_after_cpu_and_what_others_say(tmp_path):
    last, cpu, said = heap(tmp_path / "last.pb"), Pprof(("cpu", "nanoseconds")), heap(tmp_path / "said.pb", "alloc_space")
    cpu.sample("f", 3)
    cpu = cpu.write(tmp_path / "cpu.pb")
    assert type_shown(last, last) == "inuse_space"
    for files in ((last, cpu), (cpu, last)):
        assert type_shown(*files) == "cpu"
    assert type_shown(last, cpu, said) == "alloc_space"


@pytest.mark.parametrize("rows", [[(3, 77), (4, 0)], [(3, 30), (4, 40)], [(0, 30), (4, 40)]])
def test_counts_that_say_something_else_than_the_time_are_kept(tmp_path, rows):
    """Through OTLP, too; the counts stand first, so that go shows the time."""
    made, otlp = Pprof(("samples", "count"), ("cpu", "nanoseconds"), period=10), tmp_path / "otlp"
    for number, row in enumerate(rows):
        made.sample(f"main;f{number}", *row)
    path = made.write(tmp_path / "a.pb")
    program.run("export", "--format", "otlp", path, "-o", otlp, check=0)
    for source in (path, otlp):
        out = tmp_path / "again.pb.gz"
        program.run("export", "--format", "pprof", source, "-o", out, check=0)
        assert read_pprof(out)[0] == (("samples", "count"), ("cpu", "nanoseconds"))
        assert sorted(tuple(s.value) for s in profile(out).sample) == sorted(rows), source
        assert type_shown(out) == "cpu"


@pytest.mark.parametrize("unit, scale", [("kilobytes", 1024), ("megabytes", 1 << 20), ("bytes", 1), ("By", 1), ("MiBy", 1 << 20)])
def test_memory_in_other_units_is_shown_in_bytes(tmp_path, unit, scale):
    made = Pprof(("alloc_space", unit))
    made.sample("f", 5)
    path, out = made.write(tmp_path / "a.pb"), tmp_path / "again.pb.gz"
    answer = json.loads(program.run("top", "--json", path, check=0).stdout)
    assert (answer["profileType"]["unit"], answer["top"]["total"]) == ("bytes", [5 * scale])
    program.run("export", "--format", "pprof", path, "-o", out, check=0)
    assert json.loads(program.run("top", "--json", out, check=0).stdout)["top"]["total"] == [5 * scale]


def test_counts_of_a_period_in_milliseconds_have_their_time_in_pprof(tmp_path):
    made, otlp, out = Pprof(("samples", "count"), period=10), tmp_path / "otlp", tmp_path / "again.pb.gz"
    made.p.period_type.type, made.p.period_type.unit = made.text("cpu"), made.text("milliseconds")
    made.sample("f", 5)
    program.run("export", "--format", "otlp", made.write(tmp_path / "a.pb"), "-o", otlp, check=0)
    program.run("export", "--format", "pprof", otlp, "-o", out, check=0)
    assert read_pprof(out)[0] == (("samples", "count"), ("cpu", "milliseconds"))
    assert [list(s.value) for s in profile(out).sample] == [[5, 50]]
    assert json.loads(program.run("top", "--json", out, check=0).stdout)["top"]["total"] == [50 * 10**6]


def test_the_duration_is_what_was_measured(tmp_path):
    """Two profiles of 20 s that overlap by 10, and one an hour later: 50 s, not an hour; the time is the first one's."""
    m = query_bodies.Maker()
    scope, path, out = m.request.resource_profiles.add().scope_profiles.add(), tmp_path / "a.pb", tmp_path / "again.pb.gz"
    for second in (3600, 10, 0):
        taken = m.profile(scope, "cpu", "nanoseconds", time=query_bodies.TIME + second * 10**9)
        taken.duration_nano = 20 * 10**9
        taken.samples.add(stack_index=m.stack([m.location("native", "/opt/app", ("f",), 1)]), values=[5])
    path.write_bytes(m.request.SerializeToString())
    program.run("export", "--format", "pprof", path, "-o", out, check=0)
    assert (profile(out).time_nanos, profile(out).duration_nanos) == (query_bodies.TIME, 50 * 10**9)
    heads = [program.run("top", p, check=0).stdout.decode().splitlines()[0] for p in (path, out)]
    assert all(" in 50.00 s;" in head for head in heads), heads
