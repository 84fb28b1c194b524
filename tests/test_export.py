"""`flametap export`: the file it writes is whole or as it was, and never what is read; all types are in it, or it is said which are not."""

import json
import shutil
import sqlite3
import subprocess

import pytest

import clients
import fixtures
import program
import schemas


def fill(path, body=fixtures.body(fixtures.BIG).bytes):
    with program.backend("-receiver", "sqlite", "-sqlite.path", path) as server, clients.channel(server.grpc) as channel:
        clients.export(channel, body, version=schemas.NEWEST)


def test_an_export_never_destroys_what_it_reads(tmp_path):
    """Onto a store, what lies beside it, a link to it, a file that is read: refused, and they stay as they were."""
    store = tmp_path / "s.db"
    fill(store)
    (tmp_path / "s.db-lock").touch()
    (tmp_path / "link.db").symlink_to(store)
    (tmp_path / "hard.db").hardlink_to(store)
    body = tmp_path / "in.pb"
    body.write_bytes(fixtures.body(fixtures.BIG).bytes)
    before = store.read_bytes()
    for words in (["--db", store], ["--db", store, "--format", "pprof"], ["--db", tmp_path / "link.db"], [store, "--format", "folded"]):
        for target in ("s.db", "s.db-lock", "link.db", "hard.db"):
            assert b"it is what is read" in program.run("export", *words, "-o", tmp_path / target, check=1).stderr
    assert b"it is what is read" in program.run("export", "--format", "pprof", body, "-o", body, check=1).stderr
    assert store.read_bytes() == before and body.read_bytes() == fixtures.body(fixtures.BIG).bytes


def test_an_export_that_fails_leaves_the_file_that_was_there(tmp_path):
    store, out = tmp_path / "s.db", tmp_path / "out.otlp"
    fill(store)
    out.write_bytes(b"earlier")
    out.chmod(0o640)
    with sqlite3.connect(store) as db:
        db.execute("UPDATE stack SET locations=x'ff'")
    program.run("export", "--db", store, "-o", out, check=1)
    assert out.read_bytes() == b"earlier" and sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.otlp"]
    program.run("export", fixtures.body(fixtures.BIG).path, "-o", out)
    assert len(out.read_bytes()) > 1000 and out.stat().st_mode & 0o777 == 0o640


def test_an_export_goes_into_pipes_and_devices():
    whole = program.run("export", "--format", "folded", fixtures.body(fixtures.BIG).path).stdout
    assert program.run("export", "--format", "folded", fixtures.body(fixtures.BIG).path, "-o", "/dev/stdout").stdout == whole
    program.run("export", "--format", "folded", fixtures.body(fixtures.BIG).path, "-o", "/dev/null")


def types_of(path):
    return [t["id"] for t in json.loads(program.run("top", "--json", path).stdout)["profileTypes"]]


def totals(*words):
    """By type, what there is."""
    ids = [t["id"] for t in json.loads(program.run("top", "--json", *words).stdout)["profileTypes"]]
    answers = {i: json.loads(program.run("top", "--json", "--type", i, *words).stdout) for i in ids}
    return {i: (a["top"]["total"], a["events"], [(r["name"], r["self"], r["total"]) for r in a["top"]["rows"]]) for i, a in answers.items()}


LINKS = fixtures.body("v1.11.0-synthetic-offcpu-links")


@pytest.mark.parametrize("format_", ["otlp", "otlp-json"])
def test_all_types_of_a_selection_are_exported(tmp_path, format_):
    """Of a file and of a store, with a window or without: not only the most usual one."""
    out, store = tmp_path / "out", tmp_path / "s.db"
    fill(store, LINKS.bytes)
    want = totals(LINKS.path)
    assert len(want) >= 3
    for words in ([LINKS.path], ["--db", store, "--from", "0"]):
        assert program.run("export", "--format", format_, *words, "-o", out, check=0).stderr == b""
        assert totals(out) == want
    one = sorted(want)[0]
    program.run("export", "--format", format_, "--type", one, LINKS.path, "-o", out, check=0)
    assert types_of(out) == [one]


def pprof_of_heap(samples, types=(("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")), period=None):
    """Profile of Go's shape; samples: (function, values, label number or 0)."""
    strings = ["", "bytes"]

    def text(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    def varint(v):
        out = bytearray()
        while v > 127:
            out.append(v & 127 | 128)
            v >>= 7
        return bytes(out) + bytes([v])

    def number(field, v):
        return varint(field << 3) + varint(v) if v else b""

    def part(field, b):
        return varint(field << 3 | 2) + varint(len(b)) + b

    body = b"".join(part(1, number(1, text(t)) + number(2, text(u))) for t, u in types)
    names = sorted({s[0] for s in samples})
    for name, values, label in samples:
        labels = part(3, number(1, text("bytes")) + number(3, label) + number(4, text("bytes"))) if label else b""
        body += part(2, part(1, varint(names.index(name) + 1)) + part(2, b"".join(map(varint, values))) + labels)
    for i, name in enumerate(names, 1):
        body += part(4, number(1, i) + part(4, number(1, i))) + part(5, number(1, i) + number(2, text(name)))
    if period:
        body += part(11, number(1, text(period[0])) + number(2, text(period[1]))) + number(12, period[2])
    return body + b"".join(part(6, s.encode()) for s in strings) + number(9, 1795385233761702149)


HEAP = [("f", (1, 100, 1, 100), 100), ("g", (2, 70, 0, 0), 35), ("f", (4, 4096, 3, 3072), 1024), ("f", (1, 50, 0, 0), 100), ("h", (0, 0, 5, 10), 2)]
CPU = [("f", (2, 20000000), 0), ("g", (1, 10000000), 0)]


def raw(path):
    """What `go tool pprof -raw` says: sample types, time, samples."""
    text = subprocess.run(["go", "tool", "pprof", "-raw", str(path)], capture_output=True, check=True).stdout.decode()
    head, rest = text.split("Samples:\n")
    types, rest = rest.split("\n", 1)
    return [line for line in head.splitlines() if line.startswith("Time")], types, rest.split("Locations")[0].count("\n"), rest


@pytest.mark.skipif(not shutil.which("go"), reason="no go here")
def test_go_reads_of_an_exported_pprof_what_it_reads_of_the_original(tmp_path):
    """Sample types in their order, a row each with all values, the time of an instant, counts beside the time of CPU."""
    for name, body in (("heap", pprof_of_heap(HEAP)),
                       ("cpu", pprof_of_heap(CPU, (("samples", "count"), ("cpu", "nanoseconds")), ("cpu", "nanoseconds", 10000000)))):
        original, out = tmp_path / f"{name}.pb", tmp_path / f"{name}.out.pb.gz"
        original.write_bytes(body)
        program.run("export", "--format", "pprof", original, "-o", out, check=0)
        assert raw(out)[:3] == raw(original)[:3]
        for type_ in raw(original)[1].split():
            tops = [subprocess.run(["go", "tool", "pprof", "-top", "-sample_index", type_.split("/")[0], str(p)], capture_output=True, check=True).stdout
                    .decode().split("flat%", 1)[1] for p in (original, out)]
            assert tops[0] == tops[1]


def test_what_a_format_of_one_type_leaves_out_is_said(tmp_path):
    body = tmp_path / "heap.pb"
    body.write_bytes(pprof_of_heap(HEAP))
    for format_ in ("folded", "speedscope", "firefox", "svg", "dot"):
        said = program.run("export", "--format", format_, body, check=0).stderr.decode()
        assert said.count("\n") == 1 and "left out" in said and "memory:inuse_objects:count" in said and "-type" in said
        assert program.run("export", "--format", format_, "--type", "inuse_space", body, check=0).stderr == b""
    assert program.run("export", "--format", "pprof", body, check=0).stderr == b""


def test_a_file_that_is_left_out_is_told_with_all_its_types(tmp_path):
    heap, cpu = tmp_path / "heap.pb", tmp_path / "cpu.pb"
    heap.write_bytes(pprof_of_heap(HEAP))
    cpu.write_bytes(pprof_of_heap(CPU, (("samples", "count"), ("cpu", "nanoseconds")), ("cpu", "nanoseconds", 10000000)))
    said = program.run("top", "--type", "cpu", heap, cpu, check=0).stderr.decode()
    assert said == (f"{heap}: left out, it has nothing of process_cpu:cpu:nanoseconds:cpu:nanoseconds but memory:alloc_objects:count::, "
                    "memory:alloc_space:bytes::, memory:inuse_objects:count::, memory:inuse_space:bytes::\n")
