"""Fixtures of the whole-program tests. The program is $FLAMETAP, else build/release/flametap."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fixtures  # noqa: E402
import program  # noqa: E402


@pytest.fixture
def start():
    """start(*words) runs a server until the end of the test and checks that it ends well."""
    running = []

    def begin(*words, **options):
        server = program.Server(*words, **options)
        running.append(server)
        return server

    yield begin
    for server in reversed(running):
        server.__exit__(None, None, None)


@pytest.fixture
def backend():
    """backend(*words) runs `flametap backend` on free ports until the end of the test and checks that it ends well."""
    running = []

    def begin(*words, **options):
        server = program.backend(*words, **options)
        running.append(server)
        return server

    yield begin
    for server in reversed(running):
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def collector_peer():
    """The official collector's program."""
    peer = pathlib.Path(os.environ.get("PEER_COLLECTOR") or fixtures.ROOT / "build" / "peers" / "otelcol-peer")
    if not peer.exists():
        pytest.skip(f"SKIPPED ALOUD: no official collector at {peer}; tests/peers/build-collector.sh makes it")
    return peer


@pytest.fixture
def as_root():
    if os.geteuid() != 0:
        pytest.skip("SKIPPED ALOUD: needs root for mounts and namespaces")
    done = subprocess.run(["unshare", "-mn", "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"SKIPPED ALOUD: no namespaces here: {done.stderr.strip()}")
