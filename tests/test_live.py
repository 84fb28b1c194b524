"""What came after a state, added to an answer of that state, is the answer of the newer one: what the page follows live with."""

import os
import shutil
import subprocess
import time

import pytest

import fixtures
import program
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


def test_the_page_follows(tmp_path):
    for tool in ("node", "chromium"):
        if not shutil.which(tool):
            pytest.skip(f"SKIPPED ALOUD: no {tool} on the PATH")
    if not (UI / "node_modules" / "playwright-core").exists():
        pytest.skip("SKIPPED ALOUD: ui/node_modules is not there; the release build makes it (npm ci)")
    with program.Server("up", *QUIET, "--db", tmp_path / "x.db") as server:
        page = page_of(server)
        push(page, time.time() - 60, b"main;first 20\n")
        shots = os.environ.get("SHOTS") or str(fixtures.ROOT / "build" / "test" / "page")
        os.makedirs(shots, exist_ok=True)
        done = subprocess.run(["node", "--test", "test/live.test.mjs"], cwd=UI, text=True, capture_output=True, timeout=300, check=False,
                              env=os.environ | {"FLAMETAP_LIVE": f"http://{page}", "SHOTS": shots})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
