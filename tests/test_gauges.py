"""Gauges: levels, averaged over every profile that was taken, also over those that do not have what is asked for."""

import json
import urllib.parse

import pytest

import clients
import program
import query_bodies
import web_pages
from query_bodies import TIME

MINUTE = 60 * 10**9
BEGIN = TIME // 10**9


def heap_body():
    """Ten profiles a minute apart: `a` 100 B in nine, `b` 1000 B in the first, nothing in the last."""
    m = query_bodies.Maker()
    resource = m.request.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "heap"
    scope = resource.scope_profiles.add()
    a, b = (m.stack([m.location("native", "/opt/app", (name,), n)]) for n, name in enumerate("ab", 1))
    for n in range(10):
        profile = m.profile(scope, *query_bodies.TYPES[2], time=TIME + n * MINUTE)
        for stack, value, kind in ((a, 100, "v"),) * (n < 9) + ((b, 1000, "w"),) * (n == 0):
            profile.samples.add(stack_index=stack, values=[value], attribute_indices=[m.attribute("kind", kind)])
    return m.request.SerializeToString()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gauges")
    (folder / "heap.pb").write_bytes(heap_body())
    with program.backend("-receiver", "sqlite", "-sqlite.path", folder / "heap.db") as server:
        assert clients.post(server.http, heap_body()).status == 200
    return (folder / "heap.pb",), ("-db", folder / "heap.db")


def totals(source, *words):
    top = json.loads(program.run("top", "-json", *words, *source).stdout)["top"]
    return top["total"][0], {row["name"]: row["self"][0] for row in top["rows"]}


@pytest.mark.parametrize("kind", ["file", "store"])
def test_the_average_is_over_all_profiles(sources, kind):
    source = sources[kind == "store"]
    assert totals(source) == (190, {"b": 100, "a": 90})
    assert totals(source, "-select", '{kind="w"}') == (100, {"b": 100})
    assert totals(source, "-select", '{kind="v"}') == (90, {"a": 90})
    assert totals(source, "-from", str(BEGIN), "-to", str(BEGIN + 120), "-select", '{kind="w"}') == (500, {"b": 500})


@pytest.mark.parametrize("kind", ["file", "store"])
def test_the_last_profile_may_be_empty(sources, kind):
    source = sources[kind == "store"]
    assert totals(source, "-last")[0] == 0
    assert totals(source, "-last", "-to", str(BEGIN + 540)) == (100, {"a": 100})
    assert totals(source, "-last", "-to", str(BEGIN + 540), "-select", '{kind="w"}')[0] == 0


def test_timelines_heat_maps_and_labels(sources):
    """1100 B, eight times 100 and 0, whatever the width of cells."""
    with web_pages.view(*sources[0]) as page:
        def ask(question, **more):
            window = {"from": BEGIN, "to": BEGIN + 600, "type": "inuse_space"}
            return json.loads(web_pages.request(page, "GET", f"/api/v1/{question}?{urllib.parse.urlencode(window | more)}").body)

        assert ask("timeline", width=10)["series"][0]["values"] == [1100] + [100] * 8 + [0]
        assert ask("timeline", width=5)["series"][0]["values"] == [600, 100, 100, 100, 50]
        drawn = ask("timeline", width=5, group="kind")["series"]
        assert {s["labels"]["kind"]: s["values"] for s in drawn} == {"v": [100, 100, 100, 100, 50], "w": [500, 0, 0, 0, 0]}
        heat = ask("heatmap", width=5, rows=2)
        assert (heat["counts"][:4], heat["max"]) == ([600, 100, 100, 100], 600)  # two in the first half of 121 s
        assert {v["value"]: v["sum"] for v in ask("label-values", name="kind")["values"]} == {"v": 90, "w": 100}


def processes_body(together):
    """Two processes of one resource, told apart by their samples: 100 B and 10 B, then 300 B and nothing; in profiles of their own or in one."""
    m = query_bodies.Maker()
    scope = m.request.resource_profiles.add().scope_profiles.add()
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])
    for minute, levels in enumerate([{1: 100, 2: 10}, {1: 300}]):
        for several in ([levels] if together else [{pid: level} for pid, level in levels.items()]):
            profile = m.profile(scope, *query_bodies.TYPES[2], time=TIME + minute * MINUTE)
            for pid, level in several.items():
                profile.samples.add(stack_index=stack, values=[level], attribute_indices=[m.attribute("process.pid", pid)])
    return m.request.SerializeToString()


@pytest.fixture(scope="module", params=[False, True], ids=["apart", "together"])
def processes(request, tmp_path_factory):
    folder, body = tmp_path_factory.mktemp("processes"), processes_body(request.param)
    (folder / "a.pb").write_bytes(body)
    with program.backend("-receiver", "sqlite", "-sqlite.path", folder / "a.db") as server:
        assert clients.post(server.http, body).status == 200
    return request.param, ((folder / "a.pb",), ("-db", folder / "a.db"))


@pytest.mark.parametrize("kind", ["file", "store"])
def test_processes_of_one_resource_are_averaged_each_and_added(processes, kind):
    """Apart: 200 of the one's two profiles and 10 of the other's one. Together: both profiles tell of both."""
    together, sources = processes
    source = sources[kind == "store"]
    both = 205 if together else 210
    assert totals(source)[0] == both
    assert totals(source, "-select", "{process.pid=\"1\"}")[0] == 200
    assert totals(source, "-select", "{process.pid=\"2\"}")[0] == both - 200
    assert totals(source, "-from", str(BEGIN), "-to", str(BEGIN + 60))[0] == 110
    assert totals(source, "-last")[0] == (300 if together else 310)
    head = program.run("top", *source, check=0).stdout.decode().splitlines()[0]
    assert "of 2 processes" in head, head
