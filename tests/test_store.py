"""The SQLite store, from OTLP in to OTLP out: nothing is lost, nothing is kept twice. What comes out is read by Google's protobuf."""

import pathlib
import sqlite3

import pytest

import clients
import fixtures
import handmade
import program
import schemas
import view
from test_decode import OLD, same, source_view, written_as

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
        same(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), written_as(source_view(b), b.version, schemas.NEWEST))


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
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)),
         written_as(view.view(version, request), version, schemas.NEWEST))
    if version in ("1.7", "1.8", "1.9"):
        [got] = export(tmp_path / "flametap.db", "-wire-version", version)
        want = view.view(version, request)
        same(view.view(version, schemas.schema(version).Request.FromString(got)), want)


# ---- once, and never twice ----

def rows(db, sql, *values):
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as c:
        return c.execute(sql, values).fetchall()


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
    for path in (text, other, tmp_path):
        before = path.read_bytes() if path.is_file() else None
        s = keeping(path, ready=False)
        assert s.process.wait(30) != 0
        s.kill()
        assert before is None or path.read_bytes() == before
        assert program.run("export", "--db", path).returncode == 1


def test_a_newer_store_is_refused(tmp_path):
    db = tmp_path / "flametap.db"
    with keeping(db) as server:
        send(server, fixtures.body("v1.11.0-oncpu-start").bytes)
    with sqlite3.connect(db) as c:
        c.execute("PRAGMA user_version=1000")
    s = keeping(db, ready=False)
    assert s.process.wait(30) != 0
    s.kill()
    assert "newer flametap" in s.log
    done = program.run("export", "--db", db)
    assert done.returncode == 1 and b"newer flametap" in done.stderr


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
