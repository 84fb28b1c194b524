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
import query_bodies

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


def odd_labels():
    """A body whose samples' labels have names and values with everything in them that a selector's syntax uses."""
    m = query_bodies.Maker()
    scope = m.request.resource_profiles.add().scope_profiles.add()
    profile = m.profile(scope, "samples", "count", "cpu", "nanoseconds", 50_000_000)
    values = ["plain", 'with "quotes" and \\ back\\slashes\\', "brace } comma , and = sign", "größer ≥ 7 🙂", "two\nlines"]
    keys = ["odd name", 'quoted "name"', "back\\slash", "größe/é", "a=b{c},d"]
    for n in range(len(values)):
        sample = profile.samples.add(stack_index=m.stack([m.location("native", "/opt/app", (f"f{n}",), 16 + n)]), values=[4 ** n])
        sample.attribute_indices.extend(m.attribute(key, values[(n + k) % len(values)]) for k, key in enumerate(keys))
        sample.timestamps_unix_nano.append(query_bodies.TIME + n)
    return m.request.SerializeToString()


def drive(url, spans, odd):
    shots = os.environ.get("SHOTS") or str(fixtures.ROOT / "build" / "test" / "page")
    os.makedirs(shots, exist_ok=True)
    return subprocess.run(["node", "--test", "--test-concurrency=2", "test/"], cwd=UI, text=True, capture_output=True, timeout=900, check=False,
                          env=os.environ | {"FLAMETAP_URL": url, "FLAMETAP_SPANS": spans, "FLAMETAP_ODD": odd, "FLAMETAP_PROGRAM": str(program.existing_path()), "SHOTS": shots})


@pytest.mark.timeout(1000)  # a hundred seconds of two cores that do nothing else
def test_every_view(page_tools, tmp_path):
    odd = tmp_path / "odd.pb"
    odd.write_bytes(odd_labels())
    servers = [view(path) for path in (*(fixtures.OTLP / f"{name}.pb" for name in ("v1.11.0-oncpu-big", "v1.11.0-synthetic-offcpu-links")), odd)]
    try:
        done = drive(*(url for _, url in servers))
    finally:
        for server, _ in servers:
            server.terminate()
            assert server.wait(timeout=program.HANG) == 0
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
