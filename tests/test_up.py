"""`flametap up`: the demo, a second one, a port that is taken, a machine that may not be profiled."""

import contextlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess

import pytest

import program
from agents import needs_bpf  # noqa: F401
from web_pages import ALWAYS, ask, request

QUIET = ("--grpc-address", "", "--http-address", "", "--log-level", "info")


def page_of(server):
    return server._endpoint("The page is served")


def test_demo_shows_recorded_profiles(tmp_path):
    with program.Server("up", "--demo", "--listen", "127.0.0.1:0", *QUIET, "--auth", "token",
                        env=program.environment(XDG_STATE_HOME=str(tmp_path), HOME=str(tmp_path), FLAMETAP_TOKEN="sesame"),
                        wrapper=unprivileged(tmp_path)) as server:
        page, told = page_of(server), {"Authorization": "Bearer sesame"}

        def types():
            return json.loads(request(page, "GET", "/api/v1/status", headers=told).body)["types"]

        found = program.wait_for(lambda: len(types()) >= 2 and types(), what="the demo's profile types")
        assert any("cpu" in t["id"] for t in found) and any("off" in t["id"] for t in found)
        total = json.loads(request(page, "GET", "/api/v1/top?from=2000-01-01&to=2100-01-01", headers=told).body)["total"]
        assert total > 0
        assert server.wait_line("not profiling this machine")
    if os.geteuid() != 0:
        assert (tmp_path / "flametap" / "demo.db").exists()


def unprivileged(folder):
    """As root: as another user, so that nothing is written beside this machine's own store."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("SKIPPED ALOUD: no setpriv")
    for p in (folder, *folder.parents[:2]):
        p.chmod(0o755)
    shutil.chown(folder, 65534, 65534)
    return ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all")


def elsewhere(folder):
    """So that no test looks at this machine's own store."""
    return program.environment(XDG_STATE_HOME=str(folder), HOME=str(folder))


def test_flags_that_are_said_start_one_beside_it(tmp_path):
    """Where the first one takes OTLP, too, its ports are named with the page's."""
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "127.0.0.1:0", "--http-address", "", "--log-level", "info",
                        "--db", tmp_path / "x.db") as server:
        words = ("up", "--no-agent", "--db", tmp_path / "y.db", "--grpc-address", server.grpc, "--http-address", "")
        said = program.run(*words, "--listen", page_of(server), check=1).stderr.decode()
        assert "beside it: flametap up --listen 127.0.0.1:0 --grpc-address '' ...\n" in said
        with program.Server(*words, "--listen", "127.0.0.1:0", "--grpc-address", "", "--log-level", "info") as beside:
            assert page_of(beside) != page_of(server)


def test_a_second_one_shows_the_page_of_the_first(tmp_path):
    words = ("up", "--no-agent", *QUIET, "--auth", "token", "--db", tmp_path / "x.db", "--listen")
    with program.Server(*words, "127.0.0.1:0") as server:
        url = server.wait_line(r"flametap up: http://").split()[-1]
        address = re.search(r"//([^/]+)/", url).group(1)
        second = program.run(*words, address, check=0)
        assert re.search(rb"it is already running: " + re.escape(url.encode()) + rb"\n", second.stderr) and b"--listen" in second.stderr
        assert (tmp_path / "x.db.url").stat().st_mode & 0o077 == 0
        for other in (("--db", tmp_path / "y.db"), ("--demo",)):
            third = program.run("up", "--no-agent", "--listen", address, *QUIET, *other, check=1, env=elsewhere(tmp_path))
            said = third.stderr.decode()
            assert f"{address} is in use by pid {server.process.pid} (flametap), which keeps {tmp_path / 'x.db'}: http://{address}/\n" in said
            assert "beside it: flametap up --listen 127.0.0.1:0 ...\n" in said and url not in said, "no token of another store's is told"
        assert not (tmp_path / "y.db").exists()
        fourth = program.run("up", "--no-agent", "--listen", "127.0.0.1:0", *QUIET, "--db", tmp_path / "x.db", check=1)
        assert b"being written by another flametap" in fourth.stderr and f"its page: {url}\n".encode() in fourth.stderr
        assert (tmp_path / "x.db.url").read_text() == url + "\n", "a start that fails leaves the address of the one that runs"
        assert server.alive()
    assert not (tmp_path / "x.db.url").exists(), "a page that has gone has no address"
    with program.Server(*words, "127.0.0.1:0") as again:
        assert again.wait_line(r"flametap up: http://").split()[-1] != url


def test_a_taken_port_names_its_holder_and_the_flag(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = "127.0.0.1:%d" % holder.getsockname()[1]
        done = program.run("up", "--no-agent", "--listen", address, *QUIET, "--db", tmp_path / "x.db", check=1)
        assert address.encode() in done.stderr and b"--listen" in done.stderr and f"pid {os.getpid()}".encode() in done.stderr
        assert not (tmp_path / "x.db.url").exists()
        for flag in ("--grpc-address", "--http-address"):
            done = program.run("up", "--no-agent", "--listen", "127.0.0.1:0", *QUIET, flag, address, "--db", tmp_path / "x.db", check=1)
            said = done.stderr.decode()
            assert f"cannot listen on {address}" in said and f"pid {os.getpid()}" in said and f"{flag} ADDRESS" in said
            assert "http://" not in said and not (tmp_path / "x.db.url").exists(), "no address is told of what does not start"


def test_without_privileges_it_receives_and_says_what_is_missing(tmp_path):
    words = ("up", "--listen", "127.0.0.1:0", *QUIET, "--db", tmp_path / "x.db")
    with program.Server(*words, wrapper=unprivileged(tmp_path)) as server:
        assert server.find_line("missing: CAP_") and server.find_line("not profiled, the rest runs") and server.wait_line("receiving only")
        page = page_of(server)
        assert ask(page, "status").json()["types"] == []
        got = request(page, "POST", "/ingest?name=a&from=1767225600&until=1767225610", b"main;x 3\n")
        assert got.status == 200 and ask(page, "top", **ALWAYS).json()["total"] > 0
    if os.geteuid() == 0:
        assert subprocess.run(["stat", "-c", "%a", str(tmp_path / "x.db")], capture_output=True, text=True, check=True).stdout == "600\n"


def test_the_first_flame_graph_comes_soon(needs_bpf, tmp_path):
    """Seconds after the start; the bound is for a machine that does other work."""
    with program.Server("up", "--listen", "127.0.0.1:0", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        program.wait_for(lambda: ask(page, "top").json()["rows"], what="samples of this machine")
        assert server.wait_line("profiling every process") and server.find_line("missing: ") is None


def test_what_cannot_begin_is_said_before_anything_else(tmp_path):
    """In the words of its own flags; nothing that looks like a start, and nothing left behind."""
    text, other, store = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "x.db"
    text.write_text("somebody's work\n" * 400)
    with contextlib.closing(sqlite3.connect(other)) as c:
        c.execute("CREATE TABLE t(x)")
    for words, why in ((("--db", tmp_path / "none" / "x.db"), "none: No such file or directory"),
                       (("--db", text), f"--db: {text} is somebody else's file"),
                       (("--db", other), f"--db: {other} is somebody else's file"),
                       (("--db", tmp_path), f"--db: {tmp_path} is no regular file"),
                       (("--db", store, "--tls-cert", "nofile", "--tls-key", "nofile"), "nofile: No such file or directory"),
                       (("--db", store, "--auth", "basic:/nonexist"), "--auth: cannot read /nonexist: No such file or directory"),
                       (("--db", store, "--listen", "4140"), '--listen: address "4140": missing host, e.g. 127.0.0.1:4140'),
                       (("--db", store, "--listen", "300.1.1.1:99999"), '"99999" is not a port'),
                       (("--db", store, "--http-address", "nohost"), '--http-address: address "nohost": missing port')):
        done = program.run("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", *words, check=1)
        said = done.stderr.decode()
        assert said.startswith("flametap up: ") and why in said and said.count("\n") == 1, said
        assert not any(w in said for w in ("PRAGMA", "extension", "exporter")), said
    done = program.run("up", "--no-agent", "--retention", "abc", "--db", store, check=2)
    assert b"-retention" in done.stderr and b"abc" in done.stderr and b"http://" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "other.db"]
