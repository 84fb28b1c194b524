"""What was measured is what the profilers of a selection measured: a process that an agent found idle was measured, too."""

import pytest

import clients
import program
import query_bodies
from web_pages import page_of, request, target, tree

BEGIN = query_bodies.TIME // 10**9
SECONDS = {"": 10, "busy": 10, "rare": 10, "far": 1, "sdk": 1, "alone": 1}


def selector(service):
    return "{service.name=" + f'"{service}"' + "}" if service else ""


def check_covered(*words):
    """words: where the command line finds query_bodies.reports_of_agents()."""
    for service, seconds in SECONDS.items():
        said = program.run("top", "--type", "cpu", "--select", selector(service), *words, check=0).stdout.decode().splitlines()[0]
        assert f" in {'10.00' if seconds == 10 else '1.000'} s;" in said, (service, said)
    assert " in 1.000 s;" in program.run("top", "--type", "inuse_space", *words, check=0).stdout.decode().splitlines()[0]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    db = tmp_path_factory.mktemp("covered") / "up.db"
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", db) as server:
        assert clients.post(server.http, query_bodies.reports_of_agents()).status == 200
        server.db = db
        yield server


def test_of_a_file(tmp_path):
    path = tmp_path / "agents.pb"
    path.write_bytes(query_bodies.reports_of_agents())
    check_covered(path)


def test_of_a_store(up):
    check_covered("--db", up.db)


def ask(up, question, service, **pairs):
    pairs = {"from": BEGIN - 1, "to": BEGIN + 11, "type": "cpu", "query": selector(service)} | pairs
    got = request(page_of(up), "GET", target(question, pairs))
    assert got.status == 200, got.body
    return got


@pytest.mark.parametrize("service", SECONDS)
def test_of_the_page(up, service):
    header, _, _ = tree(ask(up, "flamegraph", service).body)
    assert header["seconds"] == [SECONDS[service]]
    line = ask(up, "timeline", service, width=12).json()
    assert sum(line["covered"]) == SECONDS[service]
    values = line["series"][0]["values"]
    assert [v is not None for v in values] == [bool(c) for c in line["covered"]]
    if service == "rare":
        assert values == [None] + [50_000_000 if s in (3, 7) else 0 for s in range(10)] + [None]


def test_of_what_came_since(tmp_path):
    """A live page adds up deltas: in one without a sample of the selection its agent measured it all the same."""
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", tmp_path / "up.db") as server:
        assert clients.post(server.http, query_bodies.reports_of_agents()).status == 200
        asof = request(page_of(server), "GET", "/api/v1/status").json()["asof"]
        assert clients.post(server.http, query_bodies.reports_of_agents(first=10, rare=())).status == 200
        for service, seconds in (("rare", 10), ("busy", 10), ("far", 1)):
            header, _, _ = tree(ask(server, "flamegraph", service, to=BEGIN + 30, since=asof).body)
            assert header["seconds"] == [seconds] and header["total"] == [0 if service == "rare" else 50_000_000 * seconds]
