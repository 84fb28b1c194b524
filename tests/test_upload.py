"""Files dropped onto the page: any form the readers read, looked at in the store's place, in no other answer."""

import gzip
import json
import pathlib
import urllib.parse

import pytest

import fixtures
import program
import web_pages
from web_pages import ask, page_of, request, tree

ALL = {"from": 0, "to": "2100-01-01T00:00:00Z"}  # folded stacks have no time: 1970

QUIET = ("--grpc-address", "", "--http-address", "", "--log-level", "info", "--no-agent", "--listen", "127.0.0.1:0")
BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"


def upload(address, body, name="x", status=200, headers=None):
    got = request(address, "POST", "/api/v1/upload?" + urllib.parse.urlencode({"name": name}), body, headers)
    assert got.status == status, (got.status, got.body[:300])
    return got.json()


def exported(format_):
    with web_pages.view(BIG) as address:
        return ask(address, "export", format=format_).body


@pytest.mark.parametrize("kind", ["otlp", "otlp-gzip", "pprof", "folded", "speedscope"])
def test_any_form_is_looked_at(tmp_path, kind):
    body = BIG.read_bytes() if kind == "otlp" else gzip.compress(BIG.read_bytes()) if kind == "otlp-gzip" else exported(kind)
    with web_pages.view(fixtures.OTLP / "v1.11.0-oncpu-mixed.pb") as address:
        own = ask(address, "top").json()["total"]
        one = upload(address, body, f"my {kind}.file")
        got = ask(address, "status", query=one["query"]).json()
        assert got["types"] and all(int(t["last"]) >= int(t["first"]) for t in got["types"])
        top = ask(address, "top", query=one["query"], **{"from": 0, "to": got["to"]}).json()
        header, _, _ = tree(ask(address, "flamegraph", query=one["query"], **{"from": 0, "to": got["to"]}).body)
        assert top["total"] == header["total"][0] > 0
        with web_pages.view(BIG) as whole:
            if kind.startswith("otlp"):
                assert top["total"] == ask(whole, "top").json()["total"]
        assert ask(address, "top").json()["total"] == own, "the other answers know nothing of it"
        assert [u["name"] for u in ask(address, "uploads").json()] == [f"my_{kind}.file"]


def test_they_outlive_up_and_stand_beside_the_store(tmp_path):
    words = ("up", *QUIET, "--db", tmp_path / "x.db")
    with program.Server(*words) as server:
        page = page_of(server)
        one = upload(page, b"main;work 7\nmain;rest 3\n", "a.folded")
        assert ask(page, "status").json()["types"] == []
        total = ask(page, "top", query=one["query"], **ALL).json()["total"]
    assert [p.name for p in (tmp_path / "x.db.uploads").iterdir()] == [f"{one['id']}_a.folded"]
    with program.Server(*words) as server:
        page = page_of(server)
        assert ask(page, "top", query=one["query"], **ALL).json()["total"] == total > 0
        mine = request(page, "POST", "/ingest?name=a&from=1767225600&until=1767225610&format=folded", b"main;x 30\n")
        assert mine.status == 200
        cpu = upload(page, BIG.read_bytes())
        both, _, _ = tree(ask(page, "diff", query="{service.name=\"a\"}", query2=cpu["query"], **ALL).body)
        assert min(both["total"]) > 0 and both["sides"] == 2, "a diff of the store and an upload"


def test_what_is_no_profile_is_told_which_formats_are_read(tmp_path):
    elf = pathlib.Path("/proc/self/exe").read_bytes()[:100000]
    with web_pages.view(BIG) as address:
        for body in (elf, b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"PK\x03\x04" + bytes(range(256)), b"hello\n"):
            what = upload(address, body, status=400)["error"]["what"]
            assert all(w in what for w in ("OTLP", "pprof", "speedscope", "folded stacks", "perf script")), what
        assert "known format" not in upload(address, BIG.read_bytes()[:5000], status=400)["error"]["what"], "a body that is cut is OTLP still"


def test_what_is_hostile_is_refused(tmp_path):
    bomb = gzip.compress(bytes(600 << 20), 9)
    with web_pages.view(BIG) as address:
        before = ask(address, "top").json()
        for body in (b"", b"\x00" * 1000, b"\x1f\x8b\x08\x00", b"{\"resourceProfiles\":", bomb, BIG.read_bytes()[:5000], b"a;b\n" * 3):
            assert upload(address, body, status=422 if body is bomb else 400)["error"]["what"]
        for headers, status in ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "evil.example"}, 421):
            upload(address, b"a;b 1\n", status=status, headers=headers)
        assert ask(address, "uploads").json() == []
        for id_ in ("0123456789abcdef", "../../../../etc/passwd", "x" * 5000):
            got = request(address, "GET", "/api/v1/top?" + urllib.parse.urlencode({"query": json.dumps({"x": 1}) and '{upload.id="%s"}' % id_}))
            assert got.status == 404 and "upload" in got.json()["error"]["what"]
        assert ask(address, "top").json() == before
