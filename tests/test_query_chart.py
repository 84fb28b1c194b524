"""The flame chart of /api/v1/chart against an independent calculation from the bodies (query_chart_oracle): files and a store."""

import random

import pytest

import clients
import fixtures
import program
import query_bodies
import query_chart_oracle as oracle
import query_oracle
import web_pages
from web_pages import ask, page_of

BODIES = ["v1.11.0-oncpu-big", "v1.11.0-oncpu-mixed", "v1.11.0-synthetic-offcpu-links"]


def frame(f):
    name, _, _, binary, type_ = f[:5]
    return query_oracle.Frame(type_, binary, "" if name.endswith("+?") else name, None)


def plain(stack):
    """The chart's frames do not say whether they are inlined."""
    return tuple(f._replace(inlined=None) for f in stack)


def check(address, events, type_, window, width, lanes=200):
    """events: of query_chart_oracle.events_with_shape(). Gives how many boxes were looked at."""
    answer = ask(address, "chart", **{"type": type_, "from": str(window[0]), "to": str(window[1]), "width": width, "lanes": lanes}).json()
    assert answer["partial"] == ""
    shape = {id(e): (times, counted) for e, times, counted in events}
    spans, sums = oracle.lanes([e for e, _, _ in events], type_, answer["unit"], lambda e: shape[id(e)][1], window, lambda e: shape[id(e)][0])
    assert answer["lanes_total"] == len(spans)
    assert int(answer["start_ns"]) == window[0] and answer["length_ns"] == window[1] - window[0]
    assert answer["bin_ns"] == -(-(window[1] - window[0]) // width)
    looked_at, seen = 0, set()
    for lane in answer["lanes"]:
        key = oracle.Lane(lane["pid"], lane["thread_id"])
        assert key not in seen
        seen.add(key)
        assert [lane["value"], lane["events"]] == sums[key]
        boxes = [(depth, window[0] + start, window[0] + start + length, frame(answer["frames"][f]), busy)
                 for depth, start, length, f, busy in lane["boxes"]]
        oracle.check_lane(boxes, [(a, b, plain(s)) for a, b, s in spans[key]], window, answer["bin_ns"])
        looked_at += len(boxes)
    assert [lane["value"] for lane in answer["lanes"]] == sorted((v for v, _ in sums.values()), reverse=True)[:lanes]
    return looked_at


def whole(events, type_):
    times = [e.time for e, _, _ in events if e.series[1] == type_]
    return min(times) - 1, max(times) + 10**9


def apart(events):
    """No two events of a lane at one moment: which of them is first no chart can know."""
    keys = [(e.series[1], oracle.lane_of(e), e.time) for e, _, _ in events]
    return len(keys) == len(set(keys))


@pytest.mark.parametrize("name", BODIES)
def test_recorded_bodies(name):
    body = fixtures.body(name)
    events = oracle.events_with_shape(query_oracle.Body(body.bytes))
    assert apart(events)
    with web_pages.view(body.path) as address:
        for type_ in {e.series[1] for e, _, _ in events}:
            window = whole(events, type_)
            for width in (40, 1200, 4000):
                assert check(address, events, type_, window, width) > 0
            middle = (window[0] + window[1]) // 2
            check(address, events, type_, (middle, middle + 10**9), 300)  # one second: wide boxes, cut at both ends
            check(address, events, type_, (middle, window[1]), 7)


def test_pages_are_the_whole():
    with web_pages.view(fixtures.body(fixtures.BIG).path) as address:
        every = ask(address, "chart", lanes=200, width=100).json()
        paged = [lane for skip in range(0, every["lanes_total"], 7) for lane in ask(address, "chart", lanes=7, skip=skip, width=100).json()["lanes"]]
        names = [(x["pid"], x["thread_id"], x["thread"], x["process"], x["events"], len(x["boxes"])) for x in every["lanes"]]
        assert names == [(x["pid"], x["thread_id"], x["thread"], x["process"], x["events"], len(x["boxes"])) for x in paged]
        assert len(names) == every["lanes_total"] > 7
        assert ask(address, "chart", lanes=7, skip=every["lanes_total"]).json()["lanes"] == []


def test_transforms_leave_stacks_out():
    with web_pages.view(fixtures.body(fixtures.BIG).path) as address:
        answer = ask(address, "chart", x="focus:type:^php$", width=200).json()
        boxes = [b for lane in answer["lanes"] for b in lane["boxes"]]
        assert boxes and {lane["process"][:3] for lane in answer["lanes"] if lane["boxes"]} == {"php"}
        hidden = ask(address, "chart", x=["focus:type:^php$", "hide:type:^php$"], width=200).json()
        assert all(hidden["frames"][b[3]][4] != "php" for lane in hidden["lanes"] for b in lane["boxes"])


@pytest.mark.parametrize("pairs", [{"width": "0"}, {"width": "4001"}, {"lanes": "0"}, {"lanes": "201"}, {"skip": "-1"}])
def test_bad_questions(pairs):
    with web_pages.view(fixtures.body(fixtures.BIG).path) as address:
        assert ask(address, "chart", 400, **pairs).json()["error"]["what"]


def body_apart(rng):
    """A made-up body whose events have their own moments: of samples without timestamps one a profile."""
    while True:
        body = query_oracle.Body(query_bodies.random_body(rng))
        for resource in body.request.resource_profiles:
            for profile in resource.scope_profiles[0].profiles:
                without = [i for i, s in enumerate(profile.samples) if not s.timestamps_unix_nano]
                for i in reversed(without[1:]):
                    del profile.samples[i]
        body = query_oracle.Body(body.request.SerializeToString())
        events = oracle.events_with_shape(body)
        if apart(events):
            return body.request.SerializeToString(), events


def test_a_store_and_made_up_bodies(tmp_path):
    """Recursion, inlines, gauges, odd values, samples without timestamps; and the same numbers from SQLite."""
    rng = random.Random(5)
    path = tmp_path / "flametap.db"
    data = fixtures.body(fixtures.BIG).bytes
    made, events = body_apart(rng)
    (tmp_path / "made.pb").write_bytes(made)
    with web_pages.view(tmp_path / "made.pb") as address:
        for type_ in {e.series[1] for e, _, _ in events}:
            assert check(address, events, type_, whole(events, type_), 500) > 0
    with program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "127.0.0.1:0", "--log-level", "info",
                        "--db", path) as server:
        assert clients.post(server.http, data).status == 200
        events = oracle.events_with_shape(query_oracle.Body(data))
        window = whole(events, "cpu")
        for width in (100, 1500):
            assert check(page_of(server), events, "cpu", window, width) > 0
        assert check(page_of(server), events, "cpu", (window[0] + 3 * 10**9, window[0] + 7 * 10**9), 900) > 0
