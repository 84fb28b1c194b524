"""The page in a real Chromium: `flametap view` on a recorded body, driven by ui/test/ (node, playwright-core, axe-core).

Screenshots of every view go to $SHOTS, or to build/test/page.
"""

import os
import re
import shutil
import subprocess

import pytest

import fixtures
import program

UI = fixtures.ROOT / "ui"


@pytest.fixture(scope="module")
def page_tools():
    for tool in ("node", "chromium"):
        if not shutil.which(tool):
            pytest.skip(f"SKIPPED ALOUD: no {tool} on the PATH")
    if not (UI / "node_modules" / "playwright-core").exists():
        pytest.skip("SKIPPED ALOUD: ui/node_modules is not there; the release build makes it (npm ci)")


def view(*files):
    """`flametap view` on a free port; gives the process and its URL."""
    server = subprocess.Popen([str(program.existing_path()), "view", "--listen", "127.0.0.1:0", "--quiet", *map(str, files)],
                              stdout=subprocess.PIPE, text=True, env=program.environment())
    url = server.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), url
    return server, url.rstrip("/")


def drive(url, spans):
    shots = os.environ.get("SHOTS") or str(fixtures.ROOT / "build" / "test" / "page")
    os.makedirs(shots, exist_ok=True)
    return subprocess.run(["node", "--test", "--test-concurrency=1", "test/"], cwd=UI, text=True, capture_output=True, timeout=900, check=False,
                          env=os.environ | {"FLAMETAP_URL": url, "FLAMETAP_SPANS": spans, "SHOTS": shots})


def test_every_view(page_tools):
    servers = [view(fixtures.OTLP / f"{name}.pb") for name in ("v1.11.0-oncpu-big", "v1.11.0-synthetic-offcpu-links")]
    try:
        done = drive(*(url for _, url in servers))
    finally:
        for server, _ in servers:
            server.terminate()
            assert server.wait(timeout=30) == 0
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
