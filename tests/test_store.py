"""The SQLite store, from OTLP in to OTLP out: nothing is lost, nothing is kept twice. What comes out is read by Google's protobuf."""

import collections
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import grpc
import pytest

import clients
import fixtures
import handmade
import program
import query_bodies
import schemas
import view
from test_durability import inside, on_small_disk
from shapes import OLD
from test_decode import same, same_message, source_view

NEWEST = schemas.schema(schemas.NEWEST)


def keeping(path, *words, **options):
    return program.backend("-receiver", "sqlite", "-sqlite.path", path, *words, **options)


def send(server, *bodies, version=schemas.NEWEST):
    with clients.channel(server.grpc) as ch:
        for b in bodies:
            clients.export(ch, b, version=version)


def frames(data):
    """The bodies of a length-prefixed file."""
    at, out = 0, []
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        out.append(data[at + 4:at + 4 + length])
        at += 4 + length
    return out


def export(db, *words):
    return frames(program.run("export", "--db", db, *words, check=0).stdout)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A store with every recorded body, received over gRPC as its sender's version has it."""
    db = tmp_path_factory.mktemp("store") / "flametap.db"
    with keeping(db) as server:
        for b in fixtures.BODIES:
            send(server, b.bytes, version=b.version if b.version != "1.6" else schemas.NEWEST)
    return db


def test_every_recorded_body_comes_back(everything):
    out = export(everything)
    assert len(out) == len(fixtures.BODIES)
    for b, got in zip(fixtures.BODIES, out):
        same_message(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), schemas.NEWEST, source_view(b), b.version)


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9"])
def test_what_only_an_older_version_has_comes_back_in_it(everything, version):
    """Temporality, comments, flags of mappings: kept though the newest shape has no place for them."""
    for b, got in zip(fixtures.BODIES, export(everything, "-wire-version", version)):
        if b.version == version:
            same(view.view(version, schemas.schema(version).Request.FromString(got)), source_view(b))


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_hand_made_bodies_lose_nothing(version, tmp_path):
    """Bodies with every field of their version set, written by Google's protobuf."""
    request = handmade.rich(version)
    with keeping(tmp_path / "flametap.db", "-wire-version", version) as server:
        answer = clients.http_request(server.http, "POST", "/v1development/profiles", request.SerializeToString(),
                                      {"content-type": "application/x-protobuf"})
        assert answer.status == 200, answer
    [got] = export(tmp_path / "flametap.db")
    same_message(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), schemas.NEWEST, view.view(version, request), version)
    if version in ("1.7", "1.8", "1.9"):
        [got] = export(tmp_path / "flametap.db", "-wire-version", version)
        want = view.view(version, request)
        same(view.view(version, schemas.schema(version).Request.FromString(got)), want)


# ---- once, and never twice ----

def rows(db, sql, *values):
    c = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    try:
        return c.execute(sql, values).fetchall()
    finally:
        c.close()


def test_counters(tmp_path):
    body = fixtures.body("v1.11.0-oncpu-mixed")
    samples = fixtures.readme_table()[body.name]["samples"]
    with keeping(tmp_path / "flametap.db", "-metrics-address", "127.0.0.1:0") as server:
        send(server, body.bytes, body.bytes)
        m = server.metrics()
        assert m['flametap_store_requests_total{exporter="sqlite"}'] == 1
        assert m['flametap_store_duplicate_requests_total{exporter="sqlite"}'] == 1
        assert m['flametap_store_samples_total{exporter="sqlite"}'] == samples
        assert m['flametap_store_file_bytes{exporter="sqlite"}'] > len(body.bytes)
        added = m['flametap_store_dictionary_rows_total{exporter="sqlite"}']
    tables = ("string", "attribute", "attrset", "function", "mapping", "location", "stack", "link", "resource", "scope", "series")
    assert added == sum(rows(tmp_path / "flametap.db", f"SELECT count(*) FROM {t}")[0][0] for t in tables)


def test_a_repeated_request_is_known_after_a_restart(tmp_path):
    body = fixtures.body("v1.11.0-oncpu-start")
    for _ in range(2):
        with keeping(tmp_path / "flametap.db") as server:
            send(server, body.bytes)
    assert len(export(tmp_path / "flametap.db")) == 1


def test_what_is_kept_already_is_not_written_again(tmp_path):
    """Two different requests that name the same code share all rows but their own."""
    db = tmp_path / "flametap.db"
    a, b = handmade.marked("mark-a"), handmade.marked("mark-b")
    with keeping(db) as server:
        send(server, a)
        before = rows(db, "SELECT count(*) FROM function")[0][0]
        send(server, b)
        assert rows(db, "SELECT count(*) FROM function")[0][0] == before
    assert len(export(db)) == 2


def test_a_second_writer_is_refused(tmp_path):
    with keeping(tmp_path / "flametap.db"):
        second = keeping(tmp_path / "flametap.db", ready=False)
        assert second.process.wait(30) != 0
        second.kill()
        assert "being written by another" in second.log


@pytest.mark.parametrize("first", ["flametap.db", "link.db"])
def test_a_second_writer_by_another_name_is_refused(tmp_path, first):
    """Links to the file, also one that is there before it; SQLite would have two logs of one file behind a hard one."""
    (tmp_path / "link.db").symlink_to("flametap.db")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "far.db").symlink_to("../link.db")
    with keeping(tmp_path / first) as server:
        send(server, fixtures.body(fixtures.BIG).bytes)
        (tmp_path / "hard.db").hardlink_to(tmp_path / "flametap.db")
        for name in ("flametap.db", "link.db", "sub/far.db", "hard.db"):
            second = keeping(tmp_path / name, ready=False)
            assert second.process.wait(30) != 0
            second.kill()
            assert "being written by another" in second.log
        send(server, fixtures.body(fixtures.BIG).bytes)
    with keeping(tmp_path / "hard.db") as server:
        send(server, fixtures.body(fixtures.BIG).bytes)


def test_free_pages_that_a_writer_left_are_given_back_by_the_next(tmp_path):
    """Killed between deleting and giving back, say: the file must not stay that large for ever."""
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, fixtures.body(fixtures.BIG).bytes)
    used = db.stat().st_size
    with contextlib.closing(sqlite3.connect(db)) as other:
        other.executescript("CREATE TABLE filler(v); INSERT INTO filler SELECT zeroblob(1 << 20) FROM generate_series(1, 12); DROP TABLE filler;"
                            .replace("generate_series(1, 12)", "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) SELECT i FROM n)"))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert db.stat().st_size > used + (10 << 20)
    with keeping(db):
        program.wait_for(lambda: db.stat().st_size < used + (1 << 20), what="a smaller file")


def test_a_damaged_file_is_set_aside(tmp_path):
    """Never overwritten: the noise is still there, under another name."""
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, fixtures.body(fixtures.BIG).bytes)
    noise = bytes((i * 37 + 11) % 251 for i in range(8192))
    data = bytearray(db.read_bytes())
    data[0:8192] = noise
    db.write_bytes(data)
    with keeping(db, "-metrics-address", "127.0.0.1:0") as server:
        assert server.metrics()['flametap_store_damaged_files_total{exporter="sqlite"}'] == 1
        send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
    assert len(export(db)) == 1
    [aside] = [p for p in tmp_path.iterdir() if ".damaged-" in p.name]
    assert aside.read_bytes() == bytes(data)


def test_foreign_files_are_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, but somebody's work\n" * 400)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as c:
        c.execute("CREATE TABLE t(x)")
    none = tmp_path / "nowhere" / "x.db"
    for path, why in (text, "file is not a database"), (other, "not a store of flametap"), (tmp_path, "no regular file"), (none, "No such file"):
        before = path.read_bytes() if path.is_file() else None
        s = keeping(path, ready=False)
        assert s.process.wait(30) != 0
        s.kill()
        assert s.find_line(why) and f"{path}" in s.find_line(why) and "PRAGMA" not in s.log
        assert before is None or path.read_bytes() == before
        assert program.run("export", "--db", path).returncode == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "other.db"], "no lock stays beside what is not ours"


def test_a_store_of_another_version_is_refused(tmp_path):
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
    with sqlite3.connect(db) as c:
        c.execute("PRAGMA user_version=1000")
    s = keeping(db, ready=False)
    assert s.process.wait(30) != 0
    s.kill()
    assert "has schema version 1000, this program reads version 1" in s.log
    done = program.run("export", "--db", db)
    assert done.returncode == 1 and b"has schema version 1000, this program reads version 1" in done.stderr


def test_hostile_names_are_only_text(tmp_path):
    """SQL in attribute names and values, function names and everywhere else stays what it is."""
    evil = "x'; DROP TABLE sample; --"
    request = NEWEST.Request.FromString(fixtures.body("v1.11.0-synthetic-offcpu-links").bytes)
    for i, s in enumerate(request.dictionary.string_table):
        if s:
            request.dictionary.string_table[i] = evil + s + '"\u0000;'
    for r in request.resource_profiles:
        r.schema_url = evil
        for a in r.resource.attributes:
            a.key = evil + a.key
            if a.value.WhichOneof("value") == "string_value":
                a.value.string_value += evil
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, request.SerializeToString())
        send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
    got, _ = export(db)
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), view.view(schemas.NEWEST, request))


def test_read_while_written(tmp_path):
    """Exports beside a busy writer: each sees whole requests only, and never fewer than the one before."""
    db = tmp_path / "flametap.db"
    seen = 0
    with keeping(db, "-sqlite.durability", "process") as server, clients.channel(server.grpc) as ch:
        for i in range(40):
            clients.export(ch, handmade.marked(f"mark-w-{i}"))
            if i % 8 == 7:
                marks = {m for b in export(db) for m in handmade.marks_in(b.decode(errors="replace"))}
                assert marks >= {f"mark-w-{k}" for k in range(i + 1)} and len(marks) >= seen
                seen = len(marks)


def test_retention(tmp_path):
    """What arrived too long ago goes, without a stop; the file gets smaller."""
    db = tmp_path / "flametap.db"
    body = fixtures.body(fixtures.BIG)
    with keeping(db, "-sqlite.retention", "1ms", "-metrics-address", "127.0.0.1:0") as server:
        send(server, body.bytes)
        wanted = fixtures.readme_table()[body.name]["samples"]
        program.wait_for(lambda: server.metrics()['flametap_store_expired_samples_total{exporter="sqlite"}'] >= wanted, 60, "retention")
        program.wait_for(lambda: server.metrics()['flametap_store_expired_rows_total{exporter="sqlite"}'] > 1000, 60, "the sweep")
        program.wait_for(lambda: rows(db, "SELECT count(*) FROM stack")[0][0] == 0, 60, "no stack is left")
        program.wait_for(lambda: db.stat().st_size < 400_000, 60, "the file has given its pages back")
    assert export(db) == []
    assert program.run("store", "check", db, check=0).stdout.endswith(b": whole\n")


def test_max_size(tmp_path):
    """Ever more distinct processes: the file and its log stay below the limit, the newest are there."""
    db, limit = tmp_path / "flametap.db", 16 << 20
    with keeping(db, "-sqlite.max-size", "16MiB", "-sqlite.durability", "process", "-metrics-address", "127.0.0.1:0") as server, \
            clients.channel(server.grpc) as ch:
        for i in range(60):
            body = handmade.resource_body(resources=20, samples=20, attributes=1)
            for k, r in enumerate(body.resource_profiles):
                r.resource.attributes.add(key="filler").value.string_value = f"{i}-{k}-" + "x" * 20_000
                p = r.scope_profiles[0].profiles[0]
                p.time_unix_nano += i * 3600 * 10**9
                for x in p.samples:
                    x.timestamps_unix_nano[0] = p.time_unix_nano + 1
            clients.export(ch, body.SerializeToString())
        last = view.view(schemas.NEWEST, body)
        program.wait_for(lambda: server.metrics()['flametap_store_expired_samples_total{exporter="sqlite"}'] > 0, 60, "retention by size")
        program.wait_for(lambda: server.metrics()['flametap_store_file_bytes{exporter="sqlite"}'] <= limit * 1.1, 60, "size")
    assert db.stat().st_size <= limit * 1.1
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(export(db)[-1])), last)
    assert program.run("store", "check", db, check=0).stdout.endswith(b": whole\n")


def test_views(tmp_path):
    """The documented views, by the sqlite3 library, against the official decode of the bodies."""
    bodies = [fixtures.body(n) for n in ("v1.11.0-synthetic-offcpu-links", "v1.11.0-oncpu-start", "v1.9.0-oncpu-mixed-a")]
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        for b in bodies:
            send(server, b.bytes, version=b.version)
    counts = {}
    for b in bodies:
        for _, _, p, s in view.samples(source_view(b)):
            kind = tuple(p["sample_type"][:2])
            counts[kind] = counts.get(kind, 0) + 1
    got = rows(db, "SELECT type, unit, count(*) FROM samples GROUP BY 1, 2")
    assert {(t, u): n for t, u, n in got} == counts
    cpu = sum(sum(s["values"]) * p["period"] if s["values"] else len(s["timestamps"]) * p["period"] for b in bodies
              for _, _, p, s in view.samples(source_view(b)) if tuple(p["period_type"][:2]) == ("cpu", "nanoseconds"))
    [(told,)] = rows(db, "SELECT sum(value * period) FROM samples WHERE unit='count' AND period_type='cpu' AND period_unit='nanoseconds'")
    assert told == cpu > 0
    names = {l["function"]["name"] for b in bodies for _, _, _, s in view.samples(source_view(b)) for f in s["stack"] for l in f["lines"]}
    shown = {r[0] for r in rows(db, "SELECT function FROM frames WHERE place IS NOT NULL")}
    assert {n for n in names if n} <= shown
    deepest = max(len(s["stack"]) for b in bodies for _, _, _, s in view.samples(source_view(b)))
    assert rows(db, "SELECT max(depth) FROM stacks_text") == [(deepest,)]
    [(text,)] = rows(db, "SELECT text FROM stacks_text WHERE depth=3 LIMIT 1")
    assert text.count(";") >= 2
    assert rows(db, "SELECT count(*) FROM samples WHERE resource->>'$.\"service.name\"' IS NOT NULL")[0][0] > 0


def test_the_documented_sql_adds_up(tmp_path):
    """docs/store.md: what has no stack is a row, too, and all rows are all samples."""
    m = query_bodies.Maker()
    resource = m.request.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "api"
    profile = m.profile(resource.scope_profiles.add(), "samples", "count")
    for stack, value in ((0, 7), (m.stack([m.location("native", "/opt/app", ("f",), 1)]), 2)):
        profile.samples.add(stack_index=stack, values=[value], timestamps_unix_nano=[query_bodies.TIME])
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, m.request.SerializeToString())
    documented = [line for line in (fixtures.ROOT / "docs" / "store.md").read_text().splitlines() if line.startswith("SELECT text, sum(value) FROM samples ")]
    assert [rows(db, sql.split(";")[0]) for sql in documented] == [[(None, 7), ("f", 2)]]


def test_ids_in_views_are_those_that_are_shown(tmp_path):
    """In lower case, as in the page, in exports and in --trace."""
    b = fixtures.body("v1.11.0-synthetic-offcpu-links")
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, b.bytes, version=b.version)
    ids = rows(db, "SELECT DISTINCT trace_id, span_id FROM samples WHERE trace_id<>''")
    assert ids and all(re.fullmatch("[0-9a-f]{32}", t) and re.fullmatch("[0-9a-f]{16}", s) for t, s in ids)
    assert any(c in "abcdef" for c in ids[0][0])
    before = rows(db, "PRAGMA schema_version")
    with keeping(db):
        pass
    assert rows(db, "PRAGMA schema_version") == before


@pytest.mark.parametrize("table, kind", [("stack", "leaf"), ("stack", "internal"), ("chunk", "overflow")])
def test_salvage(tmp_path, table, kind):
    """A page of stacks, their root (test_salvage.py has more of such) or a page of samples under noise: the rest is saved, samples with an
    empty stack where need be, and what is not is counted."""
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        for name in ("v1.11.0-oncpu-start", fixtures.BIG, "v1.11.0-oncpu-mixed"):
            send(server, fixtures.body(name).bytes)
    before = rows(db, "SELECT count(*) FROM samples")[0][0]
    with sqlite3.connect(db) as c:
        try:
            pages = [p for (p,) in c.execute("SELECT pageno FROM dbstat WHERE name=? AND pagetype=? ORDER BY pageno", (table, kind))]
        except sqlite3.OperationalError:
            pytest.skip("this Python's sqlite3 has no dbstat")
    data = bytearray(db.read_bytes())
    page = pages[len(pages) // 2]
    data[(page - 1) * 8192:page * 8192] = bytes((i * 31 + 7) % 251 for i in range(8192))
    db.write_bytes(data)
    done = program.run("store", "check", db)
    assert done.returncode == 1 and done.stdout
    done = program.run("store", "salvage", db, "-o", tmp_path / "saved.db", check=0)
    saved = tmp_path / "saved.db"
    after, without = rows(saved, "SELECT count(*), sum(stack_id IN (SELECT id FROM stack WHERE locations IS NULL)) FROM samples")[0]
    empty = rows(saved, "SELECT count(*) FROM stack WHERE locations IS NULL")[0][0]
    assert f"{before - after} samples of those saved".encode() in done.stdout
    if table == "chunk":
        assert 0 < before - after < before
    else:
        assert after == before and (f"what could not be read is empty: {empty} of stack\n".encode() in done.stdout) == (empty > 0)
        assert without == empty == 0 if kind == "internal" else 0 < without < before / 2
    assert len(export(saved)) == 3
    assert program.run("store", "check", tmp_path / "saved.db", check=0).stdout.endswith(b": whole\n")
    assert db.read_bytes() == bytes(data)


THREE = ("v1.11.0-oncpu-start", fixtures.BIG, "v1.11.0-oncpu-mixed")
ORIGINS = "SELECT arrived, hash FROM request ORDER BY seq"
NAMES = "SELECT build_id, address, lines FROM symbol ORDER BY 1, 2"


@pytest.fixture(scope="module")
def with_later_names(tmp_path_factory):
    """A store of three requests whose nameless locations got names later, as many other addresses did that lie around them."""
    db = tmp_path_factory.mktemp("named") / "flametap.db"
    with keeping(db) as server:
        for name in THREE:
            send(server, fixtures.body(name).bytes)
    asked = set(rows(db, "SELECT m.build_id, coalesce(l.address, 0) FROM location l JOIN mapping m ON m.id=l.mapping_id "
                         "WHERE coalesce(length(l.lines), 0)=0 AND length(m.build_id)>0"))
    others = {(f"{c}{i:04}", i) for c in "!~" for i in range(1500)}
    c = sqlite3.connect(db)
    c.executemany("INSERT INTO symbol VALUES(?, ?, ?)", [(*at, json.dumps([["found_later", "", "x" * 60, 1, 0, 0]])) for at in sorted(asked | others)])
    c.commit()
    try:
        pages = c.execute("SELECT pageno, pagetype, ncell FROM dbstat WHERE name='symbol' ORDER BY path").fetchall()
    except sqlite3.OperationalError:
        pages = []
    copy = db.with_name("copy.db")  # in one file, whoever else has the first one open
    with contextlib.closing(sqlite3.connect(copy)) as to:
        c.backup(to)
    c.close()
    assert asked
    return copy, asked, pages


def test_salvage_keeps_names_times_and_hashes(with_later_names, tmp_path):
    """Retention goes on from when a request came, its client's repetition is known again, and names found later are there."""
    db, saved = with_later_names[0], tmp_path / "saved.db"
    done = program.run("store", "salvage", db, "-o", saved, check=0)
    assert done.stderr == b"" and f"names found later of {len(rows(db, NAMES))} addresses saved; not readable: of 0\n".encode() in done.stdout
    assert rows(saved, ORIGINS) == rows(db, ORIGINS) and rows(saved, NAMES) == rows(db, NAMES)
    assert b"found_later" in program.run("top", "--db", saved, check=0).stdout
    with keeping(saved) as server:
        send(server, fixtures.body(THREE[0]).bytes)
    assert rows(saved, ORIGINS) == rows(db, ORIGINS)


TENANT = """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters: {sqlite: {path: "%s", tenant: "%s"}}
service: {pipelines: {profiles: {receivers: [otlp], exporters: [sqlite]}}}
"""


def test_salvage_keeps_whose_requests_are(tmp_path):
    """One store of two tenants and of none."""
    db, saved, config = tmp_path / "flametap.db", tmp_path / "saved.db", tmp_path / "config.yaml"
    for tenant, name in zip(("one", "", "two"), THREE):
        config.write_text(TENANT % (db, tenant))
        with program.Server("collector", "--config", config) as server:
            send(server, fixtures.body(name).bytes)
    done = program.run("store", "salvage", db, "-o", saved, check=0)
    tenants = "SELECT p.seq, t.v FROM profile p JOIN series s ON s.id=p.series LEFT JOIN string t ON t.id=s.tenant_id ORDER BY p.seq"
    assert rows(saved, tenants) == rows(db, tenants) and {t or "" for _, t in rows(db, tenants)} == {"one", "", "two"}
    assert done.stderr == b"" and b"tenant" not in done.stdout


def test_salvage_of_damaged_notes(with_later_names, tmp_path):
    """Notes are the least of a request: it is saved without them, and counted."""
    db, damaged, saved = with_later_names[0], tmp_path / "damaged.db", tmp_path / "saved.db"
    page, = rows(db, "SELECT rootpage FROM sqlite_schema WHERE name='note'")[0]
    data = bytearray(db.read_bytes())
    data[(page - 1) * 8192:page * 8192] = bytes((i * 31 + 7) % 251 for i in range(8192))
    damaged.write_bytes(data)
    done = program.run("store", "salvage", damaged, "-o", saved, check=0)
    assert rows(saved, ORIGINS) == rows(db, ORIGINS)
    samples = rows(db, "SELECT count(*), count(stack_id) FROM samples")
    assert rows(saved, "SELECT count(*), count(stack_id) FROM samples") == samples
    assert b"not readable: 1 page of note\n" in done.stdout
    assert program.run("store", "check", saved, check=0).stdout.endswith(b": whole\n")


TEXTS = "SELECT x.seq, t.text FROM samples x JOIN stacks_text t ON t.stack_id=x.stack_id ORDER BY 1"


@pytest.mark.parametrize("table", ["function", "location", "mapping", "attribute", "series"])
def test_salvage_of_damaged_code_and_series(tmp_path, table):
    """All of a table is lost: samples are saved all the same, and what they lack is counted."""
    db, damaged, saved = tmp_path / "flametap.db", tmp_path / "damaged.db", tmp_path / "saved.db"
    with keeping(db) as server:
        send(server, fixtures.body(fixtures.BIG).bytes)
    try:
        pages = rows(db, "SELECT pageno FROM dbstat WHERE name=?", table)
    except sqlite3.OperationalError:
        pytest.skip("this Python's sqlite3 has no dbstat")
    data = bytearray(db.read_bytes())
    for page, in pages:
        data[(page - 1) * 8192:page * 8192] = bytes((i * 31 + 7) % 251 for i in range(8192))
    damaged.write_bytes(data)
    done = program.run("store", "salvage", damaged, "-o", saved, check=0)
    samples = "SELECT count(*), count(stack_id), sum(value) FROM samples"
    assert rows(saved, samples) == rows(db, samples)
    if table in ("attribute", "series"):
        assert rows(saved, TEXTS) == rows(db, TEXTS)
    said, = re.findall(rf"what could not be read is empty: (\d+) of {table}\n", done.stdout.decode())
    assert int(said) == rows(db, f"SELECT count(*) FROM {table}")[0][0]
    if table == "series":
        assert all(t.startswith("type not readable (series ") for t, in rows(saved, "SELECT DISTINCT type FROM samples"))
    assert len(export(saved)) == 1 and program.run("top", "--db", saved, check=0).stdout
    assert program.run("store", "check", saved, check=0).stdout.endswith(b": whole\n")


@pytest.mark.parametrize("lost", ["a leaf", "both ends", "the root"])
def test_salvage_of_damaged_names(with_later_names, tmp_path, lost):
    """All names but those of the pages; samples always."""
    db, asked, pages = with_later_names
    if not pages:
        pytest.skip("this Python's sqlite3 has no dbstat")
    damaged, saved = tmp_path / "damaged.db", tmp_path / "saved.db"
    leaves = [p for p in pages if p[1] == "leaf"]
    hit = {"a leaf": leaves[len(leaves) // 4:][:1], "both ends": [leaves[0], leaves[-1]], "the root": [p for p in pages if p[1] == "internal"]}[lost]
    data = bytearray(db.read_bytes())
    for page, _, _ in hit:
        data[(page - 1) * 8192:page * 8192] = bytes((i * 31 + 7) % 251 for i in range(8192))
    damaged.write_bytes(data)
    done = program.run("store", "salvage", damaged, "-o", saved, check=0)
    assert rows(saved, ORIGINS) == rows(db, ORIGINS)
    assert rows(saved, "SELECT count(*) FROM samples") == rows(db, "SELECT count(*) FROM samples")
    before, after = set(rows(db, NAMES)), set(rows(saved, NAMES))
    assert after <= before and len(after) == len(before) - sum(cells for _, _, cells in hit)
    assert f"names found later of {len(after)} addresses saved; not readable: of 0\n".encode() in done.stdout
    assert f"not readable: {len(hit)} page{'s' if len(hit) > 1 else ''} of symbol\n".encode() in done.stdout
    assert program.run("store", "check", saved, check=0).stdout.endswith(b": whole\n")


def read_terminal(terminal):
    """What is there; nothing once the other side is closed, which Linux tells by EIO."""
    try:
        return terminal.read(4096)
    except OSError:
        return b""


def test_salvage_shows_how_far_it_is(with_later_names, tmp_path):
    """On a terminal, in one line; elsewhere (above) nothing."""
    ours, its = pty.openpty()
    subprocess.run([program.existing_path(), "store", "salvage", with_later_names[0], "-o", tmp_path / "saved.db"], stderr=its,
                   stdout=subprocess.DEVNULL, timeout=program.HANG, env=program.environment(), check=True)
    os.close(its)
    with open(ours, "rb", buffering=0) as terminal:
        shown = b"".join(iter(lambda: read_terminal(terminal), b""))
    pages = rows(with_later_names[0], "PRAGMA page_count")[0][0]
    assert shown.startswith(f"\rSalvaging: 2 of {pages} pages ".encode())
    assert shown.endswith(f"\rSalvaging: {pages} of {pages} pages \r\n".encode())


def test_a_file_that_is_cut(tmp_path):
    """Both sizes are said; what is there is saved; a start sets it aside, whether or not its lock file came along."""
    db, cut, saved = tmp_path / "flametap.db", tmp_path / "cut.db", tmp_path / "saved.db"
    with keeping(db) as server:
        for name in ("v1.11.0-oncpu-start", fixtures.BIG):
            send(server, fixtures.body(name).bytes)
    whole = db.read_bytes()
    for size in (len(whole) - 3 * 8192, 5000):
        cut.write_bytes(whole[:size])
        for words in (["top", "--db", cut], ["store", "check", cut]):
            done = program.run(*words, check=1)
            assert f"is cut short: it has {size} of its {len(whole)} bytes".encode() in done.stderr + done.stdout
        if size > 8192:
            program.run("store", "salvage", cut, "-o", saved, check=0)
            assert rows(saved, "SELECT count(*) FROM samples")[0][0] > 0
        with keeping(cut) as server:
            send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
        assert len(export(cut)) == 1
        [aside] = tmp_path.glob("cut.db.damaged-*")
        assert aside.read_bytes() == whole[:size]
        for path in tmp_path.glob("cut.db*"):
            path.unlink()


def newest_page(log, number):
    """Of an SQLite log: the bytes of the last frame of that page."""
    size = int.from_bytes(log[8:12], "big")
    frames_ = [log[at:at + 24 + size] for at in range(32, len(log), 24 + size)]
    return [f[24:] for f in frames_ if f[:4] == number.to_bytes(4, "big") and f[8:16] == log[16:24]][-1]


def test_what_only_the_log_has_is_there(tmp_path):
    """A disk that was full: the first page was folded in, the others are in the log alone. SQLite is content, and so is the check."""
    db, log = tmp_path / "flametap.db", tmp_path / "flametap.db-wal"
    with keeping(db) as server:
        send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
        server.kill()
    db.write_bytes(newest_page(log.read_bytes(), 1))
    due = int.from_bytes(db.read_bytes()[28:32], "big") * 8192
    assert due > db.stat().st_size == 8192
    kept = log.read_bytes()
    assert program.run("store", "check", db, check=0).stdout.endswith(b": whole\n")
    log.write_bytes(kept[:len(kept) // 2])
    lacks = program.run("store", "check", db, check=1)
    assert f"is cut short: it has 8192 of its {due} bytes".encode() in lacks.stdout


def test_where_nothing_can_be_written(as_root, tmp_path):
    """On a read-only file system a store is read and checked; what its log holds is not passed over."""
    for folder in ("whole", "logged", "unreadable"):
        (tmp_path / folder).mkdir()
        with keeping(tmp_path / folder / "flametap.db") as server:
            send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
            if folder != "whole":
                server.kill()
    (tmp_path / "unreadable" / "flametap.db-shm").unlink()
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'

    def read_only(folder, *words, check):
        return program.run("-m", "sh", "-c", script, tmp_path / folder, program.existing_path(), *words, tmp_path / folder / "flametap.db",
                           check=check, name="unshare")

    want = program.run("top", "--json", "--db", tmp_path / "whole" / "flametap.db", check=0).stdout
    for folder in ("whole", "logged"):
        assert read_only(folder, "store", "check", check=0).stdout.endswith(b": whole\n")
        assert json.loads(read_only(folder, "top", "--json", "--db", check=0).stdout)["top"] == json.loads(want)["top"]
    for words in (("store", "check"), ("top", "--db")):
        assert b"its newest part is in" in read_only("unreadable", *words, check=1).stderr


def test_ddl_makes_the_same_tables(tmp_path):
    ddl = program.run("store", "ddl", check=0).stdout.decode()
    with sqlite3.connect(tmp_path / "a.db") as c:
        c.executescript(ddl)
        tables = {r[0] for r in c.execute("SELECT name FROM sqlite_schema")}
    assert {"chunk", "samples", "frames", "stacks_text"} <= tables
    refused = program.run("store", "ddl", "-clickhouse", "18.16", "-database", "x")
    assert refused.returncode == 2 and b"-database goes with -cluster" in refused.stderr


# ---- acknowledged means kept ----

def test_every_acknowledged_request_is_kept_once_over_kills(tmp_path):
    """kill -9 in the middle of load, again and again, the client repeating what was not answered."""
    db, rounds = tmp_path / "flametap.db", 200 if program.LONG else 20
    acknowledged, waiting, number = set(), [], 0
    for _ in range(rounds):
        server = keeping(db)
        sent = threading.Event()

        def load(mine):
            nonlocal number
            with clients.channel(server.grpc) as ch:
                while mine or number < 10**6:
                    if mine:
                        mark = mine.pop()
                    else:
                        with lock:
                            number += 1
                            mark = f"mark-k-{number}"
                    try:
                        clients.export(ch, handmade.marked(mark), timeout=20)
                        acknowledged.add(mark)
                        sent.set()
                    except grpc.RpcError:
                        unanswered.append(mark)
                        return

        lock, unanswered = threading.Lock(), []
        threads = [threading.Thread(target=load, args=(waiting[i::4],)) for i in range(4)]
        left = list(waiting)
        for t in threads:
            t.start()
        assert sent.wait(30)
        time.sleep(random.random() * 0.05)
        server.kill()
        for t in threads:
            t.join(60)
        waiting = [m for m in dict.fromkeys(left + unanswered) if m not in acknowledged]
        server.process.stderr.close()
    with keeping(db) as server:
        send(server, *[handmade.marked(m) for m in waiting])
        acknowledged |= set(waiting)
    kept = collections.Counter(m for b in export(db) for m in handmade.marks_in(b.decode(errors="replace")))
    assert set(kept) == acknowledged, (len(kept), len(acknowledged))
    assert set(kept.values()) == {1}
    assert program.run("store", "check", db, check=0).stdout.endswith(b": whole\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount of its own")
def test_a_full_disk_is_told_and_recovers(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    with keeping(disk / "flametap.db", wrapper=on_small_disk(disk, "3m")) as server, clients.channel(server.grpc) as ch:
        acknowledged, code = [], 0
        for i in range(200):
            mark = f"mark-d-{i}"
            body = handmade.resource_body(resources=8, attributes=1)
            for k, r in enumerate(body.resource_profiles):
                r.resource.attributes.add(key="mark").value.string_value = mark
                r.resource.attributes.add(key="f").value.string_value = f"{i}.{k}" + "y" * 9000
            code, message = clients.export_status(ch, body.SerializeToString())
            if code:
                break
            acknowledged.append(mark)
        assert code in (clients.UNAVAILABLE, clients.RESOURCE_EXHAUSTED) and acknowledged, (code, message)
        subprocess.run(["nsenter", "-t", str(server.pid), "-m", "-r", "mount", "-o", "remount,size=64m", str(disk)], check=True)
        program.wait_for(lambda: clients.export_status(ch, handmade.marked("mark-d-1000"))[0] == 0, 30, "room")
        copy = tmp_path / "copy"
        copy.mkdir()
        for f in inside(server, disk).iterdir():
            if not f.name.endswith("-shm"):
                (copy / f.name).write_bytes(f.read_bytes())
    kept = {m for b in export(copy / "flametap.db") for m in handmade.marks_in(b.decode(errors="replace"))}
    assert kept == {*acknowledged, "mark-d-1000"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
@pytest.mark.parametrize("durability", ["full", "process"])
def test_the_disk_has_it_before_the_answer(durability, tmp_path):
    """Durability full: between a request's arrival and the first byte of its answer the log is flushed; process: it is not."""
    trace = tmp_path / "trace"
    with keeping(tmp_path / "flametap.db", "-sqlite.durability", durability,
                 wrapper=("strace", "-f", "-y", "-e", "trace=fsync,fdatasync,recvfrom,read,sendto,sendmsg,write,writev", "-o", str(trace))) as server:
        for i in range(3):
            answer = clients.http_request(server.http, "POST", "/v1development/profiles", handmade.marked(f"mark-s-{i}"),
                                          {"content-type": "application/x-protobuf"})
            assert answer.status == 200
        tracee = int(pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0])
        os.kill(tracee, signal.SIGTERM)  # strace keeps the signal to itself
        server.process.wait(60)
    flushed, answers = 0, []
    for line in trace.read_text(errors="replace").splitlines():
        if "sync(" in line and "-wal" in line:
            flushed += 1
        elif "HTTP/1.1 200" in line:
            answers.append(flushed)
            flushed = 0
    assert len(answers) == 3
    assert all(n >= 1 for n in answers) if durability == "full" else not any(answers[1:])
