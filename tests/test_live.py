"""What came after a state, added to an answer of that state, is the answer of the newer one: what the page follows live with."""

import itertools
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse

import pytest

import fixtures
import program
from agents import Spinning, compile_spin, needs_bpf  # noqa: F401
from test_durability import on_small_disk
from web_pages import ask, page_of, request, tree

UI = fixtures.ROOT / "ui"
QUIET = ("--grpc-address", "", "--http-address", "", "--log-level", "info", "--no-agent", "--listen", "127.0.0.1:0")


def push(page, seconds, folded, name="a"):
    got = request(page, "POST", f"/ingest?name={name}&from={int(seconds)}&until={int(seconds) + 5}", folded)
    assert got.status == 200, got.body


def sums(address, **pairs):
    """Self by path of names."""
    header, a, strings = tree(ask(address, "flamegraph", max_nodes=1 << 20, **pairs).body)
    paths = [()]
    out = {}
    for i in range(1, len(a["parent"])):
        paths.append(paths[a["parent"][i]] + (strings[a["name"][a["frame"][i]]],))
        if a["self"][i]:
            out[paths[i]] = out.get(paths[i], 0) + a["self"][i]
    return header["asof"], header["total"][0], out


def added(a, b, sign=1):
    out = {k: a.get(k, 0) + sign * b.get(k, 0) for k in a.keys() | b.keys()}
    return {k: v for k, v in out.items() if v}


def test_what_is_added_adds_up(tmp_path):
    begin = 1767225600
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        push(page, begin, b"main;a 5\nmain;b 7\n")
        at, total, whole = sums(page)
        for i in range(1, 6):
            # later, and, as some senders do, also much earlier
            push(page, begin + 600 * i, b"main;a 3\nmain;c;d 2\n" * i)
            push(page, begin - 5000 * i, b"old;e %d\n" % i)
            now, _, more = sums(page, since=at)
            newer, new_total, new_whole = sums(page, asof=now)
            assert newer == now and added(whole, more) == new_whole and sum(new_whole.values()) == new_total > total
            assert sums(page, since=now)[1] == 0
            at, total, whole = now, new_total, new_whole
        # a slice of time that is taken away leaves what is behind it
        edge = (begin + 900) * 1_000_000_000
        gone = sums(page, asof=at, **{"from": "2000-01-01T00:00:00Z", "to": edge})[2]
        left = sums(page, asof=at, **{"from": edge})[2]
        assert gone and left and added(whole, gone, -1) == left
        top = ask(page, "top", since=0).json()
        assert top["total"] == total
        for bad in ("x", "-1", "1e3", "99999999999999999999999"):
            ask(page, "flamegraph", status=400, since=bad)


class Events:
    """A follower: what it is told, each as (event, data), in order."""

    def __init__(self, page, receive_bytes=0, **pairs):
        host, port = page.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(program.HANG)
        self.socket.connect((host, int(port)))
        self.socket.sendall(f"GET /api/v1/live?{urllib.parse.urlencode(pairs)} HTTP/1.0\r\nHost: {page}\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        assert b" 200 " in self.file.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def next(self):
        event = None
        for line in self.file:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                return event, json.loads(line[6:])
        raise AssertionError("the events ended")

    def until(self, wanted):
        """The data of the next such event."""
        return next(data for event, data in iter(self.next, None) if event == wanted)


def part_sums(part):
    """Self by path of names, of what was pushed."""
    path, out = [], {}
    assert all(len(frame[6]) == 16 for frame in part["frames"]), "keys, as in every answer"
    numbers = iter(part["nodes"])
    for depth, frame, self in zip(numbers, numbers, numbers):
        path[max(0, depth - 1):] = [part["frames"][frame][0]] if depth and frame >= 0 else []
        if self:
            out[tuple(path)] = out.get(tuple(path), 0) + self
    assert sum(out.values()) == part["total"]
    return out


def test_processes_are_counted_now_and_then(tmp_path):
    """Of the whole window: also of those that no delta brought."""
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        now = time.time() - 60
        for pid in (1, 2, 3):
            push(page, now, b"main;a 5\n", name="p%%7Bhost.name%%3Dx%%2Cprocess.pid%%3D%d%%7D" % pid)
        w = Window(page, **{"from": "now-15m"})
        push(page, now, b"main;b 5\n", name="p%7Bhost.name%3Dx%2Cprocess.pid%3D3%7D")
        said = []
        while not said:
            said = [data["processes"] for data in [w.turn()] if "processes" in data]
        assert said == [3]
        push(page, now, b"main;c 5\n", name="p%7Bhost.name%3Dx%2Cprocess.pid%3D4%7D")
        assert "processes" not in w.turn(), "a minute later again"
        w.events.__exit__()


class Window:
    """What a page has of one: the whole at a state, then what is pushed."""

    def __init__(self, page, **pairs):
        self.page, self.pairs = page, pairs
        self.events = Events(page, **pairs)
        self.begin(*self.events.next())

    def begin(self, event, data):
        assert event == "state", (event, data)
        self.asof, self.edge = data["asof"], data["from"]
        self.sums = self.asked()

    def asked(self):
        query = self.pairs | {"from": self.edge, "to": "7258118400000000000", "asof": self.asof}
        return {path: v for path, v in sums(self.page, **query)[2].items()}

    def turn(self):
        event, data = self.events.next()
        if event == "state":
            self.begin(event, data)
            return {}
        self.asof, self.edge = data["asof"], data["from"]
        self.sums = added(self.sums, part_sums(data["add"]))
        if "drop" in data:
            self.sums = added(self.sums, part_sums(data["drop"]), -1)
        return data

    def until(self, asof):
        while int(self.asof) < int(asof):
            self.turn()
        assert self.sums == self.asked()


def newest(page):
    return ask(page, "status").json()["asof"]


def test_what_is_pushed_adds_up(tmp_path):
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        now = time.time()
        push(page, now - 200, b"main;a 5\nmain;b 7\n")
        windows = [Window(page, **{"from": "now-10m", "to": "now"}), Window(page, **{"from": "now-10m", "group": "service.name"}),
                   Window(page, **{"from": "now-10m", "query": '{service.name="other"}', "x": "hide:main"}), Window(page, **{"from": "now-1h", "by": "binary"})]
        for i in range(1, 5):
            push(page, now - 100 - i, b"main;a 3\nmain;c;d %d\n" % i, name=("a", "other")[i % 2])
            push(page, now - 7000 * i, b"old;e %d\n" % i)  # before the windows
            for w in windows:
                w.until(newest(page))
        assert windows[0].sums == {("main", "a"): 170_000_000, ("main", "b"): 70_000_000, ("main", "c", "d"): 100_000_000}
        assert {path[0] for path in windows[1].sums} == {"a", "other"}
        assert windows[2].sums == {("a",): 60_000_000, ("c", "d"): 40_000_000}
        for w in windows:
            w.events.__exit__()
        assert request(page, "GET", "/api/v1/live?query=%zz").status == 400


def test_what_leaves_the_window_is_taken_away(tmp_path):
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        push(page, time.time() - 14, b"main;a 5\n")
        w = Window(page, **{"from": "now-15s"})
        dropped = False
        while not dropped:  # on a busy machine the first one may have left before
            push(page, time.time() - 10, b"main;b 7\n")
            dropped = "drop" in w.turn()
        while ("main", "a") in w.sums:
            push(page, time.time() - 10, b"main;b 7\n")
            w.turn()
        assert w.sums == w.asked()


def test_a_slow_page_begins_anew(tmp_path):
    """It reads nothing while megabytes come, and has the newest state in the end."""
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        push(page, time.time() - 60, b"main;a 5\n")
        quick, slow = Window(page, **{"from": "now-15m"}), Events(page, receive_bytes=4096, **{"from": "now-15m"})
        large = b"".join(b"main;f%d-%s 1\n" % (n, b"x" * 200) for n in range(3000))
        for i in range(14):  # 0.7 MB each: more than sockets take
            push(page, time.time() - 60 + i, large)
            quick.until(newest(page))
        told = [slow.next()]
        while int(told[-1][1]["asof"]) < int(quick.asof):
            told.append(slow.next())
        states = [i for i, (event, _) in enumerate(told) if event == "state"]
        assert states[0] == 0 and len(states) > 1, [event for event, _ in told]
        asof = 0
        for event, data in told:
            assert int(data["asof"]) >= asof
            asof = int(data["asof"])
        slow.__exit__()
        quick.events.__exit__()


def drive(script, **env):
    for tool in ("node", "chromium"):
        if not shutil.which(tool):
            pytest.skip(f"SKIPPED ALOUD: no {tool} on the PATH")
    if not (UI / "node_modules" / "playwright-core").exists():
        pytest.skip("SKIPPED ALOUD: ui/node_modules is not there; the release build makes it (npm ci)")
    shots = os.environ.get("SHOTS") or str(fixtures.ROOT / "build" / "test" / "page")
    os.makedirs(shots, exist_ok=True)
    done = subprocess.run(["node", "--test", f"test/{script}"], cwd=UI, text=True, capture_output=True, timeout=300, check=False,
                          env=os.environ | env | {"SHOTS": shots})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]


def test_the_page_follows(tmp_path):
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        push(page, time.time() - 60, b"main;first 20\n")
        drive("live.test.mjs", FLAMETAP_LIVE=f"http://{page}")


def test_the_page_of_a_live_agent(needs_bpf, tmp_path):
    spin = compile_spin(tmp_path)
    words = [w for w in QUIET if w != "--no-agent"]
    with Spinning(spin), program.Server("up", *words, "--db", tmp_path / "x.db") as server:
        drive("walk.test.mjs", FLAMETAP_AGENT=f"http://{page_of(server)}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount of its own")
def test_a_store_that_takes_nothing_is_told(tmp_path):
    """A full disk: the sender shall try again, who looks is told so, and told again when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info",
                        "--db", disk / "up.db", wrapper=on_small_disk(disk, "2m")) as server:
        page = page_of(server)
        with Events(page) as follower:
            def send(n):
                body = "".join(f"main;{n}_{k}_{'x' * 200} 1\n" for k in range(500)).encode()
                return request(page, "POST", "/ingest?name=a", body)

            assert "failing" not in ask(page, "status").json()["store"]
            answers = list(itertools.takewhile(lambda got: got.status == 200, map(send, range(100))))
            assert 0 < len(answers) < 100
            got = send(1000)
            assert got.status == 503 and "full" in got.json()["error"]["what"], (got.status, got.body)
            assert got.headers["retry-after"]
            said = ask(page, "status").json()["store"]["failing"]
            assert "full" in said["error"] and said["refused"] >= 2 and int(said["since_ns"]) > 10**18
            told = follower.until("store")["failing"]
            assert told["since_ns"] == said["since_ns"] and "full" in told["error"]
            subprocess.run(["nsenter", "-t", str(server.pid), "-m", "-r", "mount", "-o", "remount,size=64m", str(disk)], check=True)
            program.wait_for(lambda: send(2000).status == 200, 30, "room")
            assert "failing" not in ask(page, "status").json()["store"]
            while follower.until("store"):
                pass
