"""Debug files from a debuginfod server: a stripped program is named by what Python's HTTP server hands out for its build id."""

import contextlib
import http.server
import re
import subprocess
import threading

import pytest

import agents
import program
import receivers
from agents import needs_bpf  # noqa: F401

ABSENT, GIVE, OTHER, TEXT, HANG, TOO_LARGE = "absent", "give", "other", "text", "hang", "too large"


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """(stripped program, its debug file, its build id, the debug file of another)."""
    folder = tmp_path_factory.mktemp("split")
    spin = agents.compile_spin(folder, "split_spin")
    notes = subprocess.run(["readelf", "-n", spin], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    debug, other = folder / "wanted.debug", folder / "other.debug"
    subprocess.run(["objcopy", "--only-keep-debug", spin, debug], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program.path(), other], check=True)
    subprocess.run(["strip", spin], check=True)
    return spin, debug.read_bytes(), build_id, other.read_bytes()


@contextlib.contextmanager
def server(answers, split):
    """A server that answers the nth question for the program with answers[n] (the last one for ever), and others with 404."""
    asked, over = [], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != f"/buildid/{split[2]}/debuginfo":
                self.send_error(404)
                return
            how = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.path)
            if how == ABSENT:
                self.send_error(404)
                return
            body = {GIVE: split[1], OTHER: split[3], TEXT: b"<html>welcome</html>"}.get(how, b"x" * 4096)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) if how != TOO_LARGE else 1 << 40))
            self.end_headers()
            if how == HANG:
                over.wait(program.HANG)
                return
            with contextlib.suppress(OSError):
                self.wfile.write(body)
                while how == TOO_LARGE and not over.is_set():
                    self.wfile.write(body * 256)

        def log_message(self, *_):
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}", asked
    finally:
        over.set()
        listening.shutdown()
        listening.server_close()
        thread.join(program.HANG)


def record(split, tmp_path, urls, **variables):
    out = tmp_path / "out.folded"
    with agents.Spinning(split[0]) as p:
        program.run("record", "-p", p.pid, "-d", "1s", "-o", out, check=0,
                    env=program.environment() | {"DEBUGINFOD_URLS": urls, "TMPDIR": str(tmp_path)} | variables)
    return out.read_text()


def is_named(text):
    return "main;known_outer;known_middle" in text


def test_a_stripped_program_gets_its_names(needs_bpf, split, tmp_path):
    with server([GIVE], split) as (url, asked):
        text = record(split, tmp_path, url + "/")
    assert is_named(text), text
    assert len(asked) == 1


def test_without_a_server_it_has_addresses(needs_bpf, split, tmp_path):
    text = record(split, tmp_path, "")
    assert not is_named(text) and "split_spin+0x" in text


@pytest.mark.parametrize("answer", [ABSENT, OTHER, TEXT, HANG, TOO_LARGE])
def test_what_a_server_does_wrong_costs_names_and_nothing_else(needs_bpf, split, tmp_path, answer):
    with server([answer], split) as (url, asked):
        text = record(split, tmp_path, url, DEBUGINFOD_TIMEOUT="1", DEBUGINFOD_MAXSIZE="1000000")
    assert not is_named(text) and "split_spin+0x" in text
    assert len(asked) == 1


def test_the_next_server_is_asked(needs_bpf, split, tmp_path):
    with server([ABSENT], split) as (first, asked), server([GIVE], split) as (second, asked_then):
        text = record(split, tmp_path, f"http://127.0.0.1:1 {first} ima:enforcing {second}")
    assert is_named(text), text
    assert (len(asked), len(asked_then)) == (1, 1)


def test_the_cache_folder_keeps_files(needs_bpf, split, tmp_path):
    cache = tmp_path / "cache"  # made by the agent
    with server([GIVE], split) as (url, asked), agents.Spinning(split[0]) as p, receivers.GrpcReceiver() as peer:
        for run in range(2):
            since = agents.now_ns()
            urls = {"DEBUGINFOD_URLS": url if run == 0 else "http://127.0.0.1:1"}
            with agents.agent(peer, tmp_path, "-cache-dir", cache, "-pid", p.pid, env=program.environment() | urls):
                program.wait_for(lambda: [e for e in agents.events(peer, p.pid) if e.time_ns > since and "known_middle" in e.names],
                                 what="names from a debug file")
    assert len(asked) == 1
    assert (cache / f"{split[2]}.debug").read_bytes() == split[1] and cache.stat().st_mode & 0o777 == 0o700
    with receivers.GrpcReceiver() as peer, agents.agent(peer, tmp_path, "-cache-dir", "/no/such/folder/cache") as a:
        a.wait_line("The cache folder cannot be made")
