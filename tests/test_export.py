"""What `flametap export` does with the file it is to write: it is whole or as it was, and never what is read."""

import sqlite3

import clients
import fixtures
import program
import schemas


def fill(path):
    body = fixtures.body(fixtures.BIG).bytes
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
