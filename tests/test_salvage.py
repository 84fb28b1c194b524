"""`store salvage` of a store with any one page under noise, or cut short: SQLite alone reaches nothing behind most of them."""

import contextlib
import random
import sqlite3

import pytest

import fixtures
import program
from test_store import keeping, rows, send

PAGE = 8192


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of many requests and profiles in one file: tables of several pages. Its bytes, what each page is, and its samples."""
    db = tmp_path_factory.mktemp("salvage") / "flametap.db"
    bodies = [b.bytes for b in fixtures.NEWEST_BODIES if len(b.bytes) < 60_000]
    with keeping(db) as server:
        for i in range(60):
            send(server, bodies[i % len(bodies)] + b"\x9a\x06\x02" + f"{i:02}".encode())  # an unknown field: another request each
        send(server, fixtures.body(fixtures.BIG).bytes)
    with contextlib.closing(sqlite3.connect(db)) as c:
        try:
            pages = {page: (name, kind) for page, name, kind in c.execute("SELECT pageno, name, pagetype FROM dbstat")}
        except sqlite3.OperationalError:
            pytest.skip("this Python's sqlite3 has no dbstat")
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return db.read_bytes(), pages, what_is_there(db)


def what_is_there(db):
    """What samples say."""
    return rows(db, "SELECT count(*), sum(value), count(stack_id), count(DISTINCT service) FROM samples")[0]


def salvage(tmp_path, data):
    damaged, saved = tmp_path / "damaged.db", tmp_path / "saved.db"
    for path in tmp_path.glob("saved.db*"):
        path.unlink()
    damaged.write_bytes(data)
    done = program.run("store", "salvage", damaged, "-o", saved, check=0)
    assert damaged.read_bytes() == bytes(data)
    assert not list(tmp_path.glob("saved.db.recovered*"))
    assert program.run("store", "check", saved, check=0).stdout.endswith(b": whole\n")
    return saved, done.stdout.decode()


def with_noise(data, page):
    noisy = bytearray(data)
    noisy[(page - 1) * PAGE:page * PAGE] = random.Random(page).randbytes(PAGE)
    return noisy


def chosen(pages, name, kind):
    return [page for page, of in sorted(pages.items()) if of == (name, kind)]


def test_pages_that_hold_no_samples_cost_none(store, tmp_path):
    """The schema's, and those above a table's leaves; of the schema the first page too, which says what the file is."""
    data, pages, all_of_it = store
    inner = [page for page, (name, kind) in sorted(pages.items()) if kind == "internal" or name == "sqlite_schema"]
    assert {"chunk", "profile", "stack", "sqlite_schema"} <= {pages[page][0] for page in inner} and 1 in inner
    for page in inner if program.LONG else [1] + random.Random(3).sample(inner, 6) + [chosen(pages, t, "internal")[0] for t in ("chunk", "profile", "stack")]:
        saved, said = salvage(tmp_path, with_noise(data, page))
        assert what_is_there(saved) == all_of_it, (page, pages[page], said)
        assert "not readable: 0 requests, and 0 samples" in said


def test_samples_stay_without_their_requests_and_profiles(store, tmp_path):
    """A request that lacks its row or a profile's is not exported; its samples answer questions."""
    data, pages, all_of_it = store
    for table in ("request", "profile"):
        leaves = chosen(pages, table, "leaf")
        saved, said = salvage(tmp_path, with_noise(data, leaves[len(leaves) // 2]))
        assert what_is_there(saved) == all_of_it, said
        assert f"not readable: 1 page of {table}\n" in said
        requests = rows(saved, "SELECT count(*) FROM request")[0][0]
        assert requests < 61 and f" {requests} requests with {all_of_it[0]} samples saved" in said
        whole = tmp_path / "whole.db"
        whole.write_bytes(data)
        shown, wanted = (program.run("top", "--db", db, check=0).stdout.splitlines() for db in (saved, whole))
        assert len(shown) > 5 and shown[1:] == wanted[1:], "but for the time that was measured, which profiles say"


def test_what_a_page_of_samples_loses_is_counted(store, tmp_path):
    data, pages, all_of_it = store
    leaves = chosen(pages, "chunk", "leaf")
    saved, said = salvage(tmp_path, with_noise(data, leaves[len(leaves) // 2]))
    count, was = what_is_there(saved)[0], all_of_it[0]
    assert was * 0.8 < count < was
    assert f"and {was - count} samples of those saved" in said


def test_a_file_that_is_cut_gives_the_samples_of_all_its_pages(store, tmp_path):
    data, pages, all_of_it = store
    leaves = chosen(pages, "chunk", "leaf")
    saved, said = salvage(tmp_path, data[:leaves[len(leaves) * 2 // 3] * PAGE])
    assert "is cut short" in said and what_is_there(saved)[0] > all_of_it[0] / 3


def test_what_only_the_log_has_is_saved_too(store, tmp_path):
    """The damaged file's log is read, and neither of them is written to."""
    data, pages, all_of_it = store
    db = tmp_path / "damaged.db"
    db.write_bytes(data)
    with contextlib.closing(sqlite3.connect(db)) as c:
        c.execute("PRAGMA wal_autocheckpoint=0")
        c.execute("UPDATE request SET arrived=arrived+1")
        c.commit()
        log = db.with_name("damaged.db-wal").read_bytes()
        arrived = rows(db, "SELECT arrived FROM request ORDER BY seq")
        lost = tmp_path / "aside"
        lost.mkdir()
        (lost / "damaged.db").write_bytes(with_noise(data, chosen(pages, "profile", "internal")[0]))
        (lost / "damaged.db-wal").write_bytes(log)
    saved = lost / "saved.db"
    program.run("store", "salvage", lost / "damaged.db", "-o", saved, check=0)
    assert what_is_there(saved) == all_of_it
    assert rows(saved, "SELECT arrived FROM request ORDER BY seq") == arrived


def test_check_of_a_file_cut_anywhere_ends(store, tmp_path):
    """Rows past what max() sees once made it write behind its room."""
    data = store[0]
    chance = random.Random(9)
    for _ in range(200 if program.LONG else 12):
        cut = tmp_path / "cut.db"
        cut.write_bytes(data[:chance.randrange(20_000, len(data))])
        done = program.run("store", "check", cut)
        assert done.returncode == 1 and done.stdout, done
