"""Pyroscope's query API: the calls of Grafana's data source and their REST twins, against what the bodies say by the official messages."""

import collections
import json
import random
import re
import urllib.parse

import grpc
import pytest

import clients
import fixtures
import program
import pyroscope
import query_bodies
import query_oracle
import web_pages
from pyroscope import ConnectError, bars, call, stacks

BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"
MS = 1_000_000


@pytest.fixture(scope="module")
def big():
    with web_pages.view(BIG) as address:
        yield address


@pytest.fixture(scope="module")
def oracle():
    return query_oracle.Body(BIG.read_bytes())


@pytest.fixture(scope="module")
def cpu(big):
    types = [t.ID for t in call(big, "ProfileTypes").profile_types]
    (found,) = [t for t in types if t.startswith("process_cpu:cpu:nanoseconds")]
    return found


@pytest.fixture(scope="module")
def window(oracle):
    times = [e.time for e in oracle.events]
    return {"start": min(times) // MS - 1000, "end": max(times) // MS + 1000}


def shown(frame):
    """A frame's name as flame graphs have it."""
    if frame.function:
        return frame.function
    return (frame.binary or "[" + (frame.type or "unknown") + "]") + "+?"


def by_names(values):
    sums = collections.Counter()
    for stack, value in values.items():
        sums[tuple(map(shown, stack))] += value
    return {k: v for k, v in sums.items() if v}


@pytest.mark.parametrize("form", pyroscope.FORMS)
def test_grafanas_five_calls_in_every_form(big, oracle, cpu, window, form):
    types = call(big, "ProfileTypes", form, **window).profile_types
    assert cpu in [t.ID for t in types]
    for t in types:
        assert t.ID.split(":") == [t.name, t.sample_type, t.sample_unit, t.period_type, t.period_unit]
    events = query_oracle.chosen(oracle.events, "cpu")
    names = call(big, "LabelNames", form, matchers=[f'{{__profile_type__="{cpu}"}}'], **window).names
    keys = {re.sub(r"[./ -]", "_", k) for e in events for k in e.labels} | {"service_name"}
    assert {n for n in names if not n.startswith("__")} == keys and list(names) == sorted(names)
    values = call(big, "LabelValues", form, name="thread_name", **window).names
    assert set(values) == {query_oracle.label(e.labels, "thread_name") for e in events} - {""}
    series = call(big, "SelectSeries", form, profile_typeID=cpu, label_selector="{}", group_by=["thread_name"], step=1, **window).series
    want = collections.Counter()
    for e in events:
        want[query_oracle.label(e.labels, "thread_name")] += e.value
    assert {(s.labels[0].value if s.labels else ""): sum(p.value for p in s.points) for s in series} == dict(want)
    graph = call(big, "SelectMergeStacktraces", form, profile_typeID=cpu, label_selector="{}", max_nodes=1 << 20, **window).flamegraph
    want = by_names(query_oracle.stack_values(events))
    assert graph.total == sum(want.values()) and graph.names[0] == "total"
    assert stacks(graph) == want
    assert graph.max_self == max(self_ for level in bars(graph) for (_, _, self_), _ in level)


def test_numbers_are_those_of_our_own_page(big, cpu):
    top = web_pages.ask(big, "top", type=cpu).json()
    graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, start=1, end=4102444800_000).flamegraph
    assert graph.total == top["total"]
    everything = call(big, "SelectMergeStacktraces", profile_typeID=cpu).flamegraph
    assert everything.total == top["total"], "without times: all"


def test_truncated_trees_keep_their_totals(big, cpu, window):
    whole = call(big, "SelectMergeStacktraces", profile_typeID=cpu, max_nodes=1 << 20, **window).flamegraph
    for most in (1, 2, 10, 100):
        graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, max_nodes=most, **window).flamegraph
        assert graph.total == whole.total == sum(stacks(graph).values())
        assert "other" in graph.names and sum(len(level) for level in bars(graph)) < sum(len(level) for level in bars(whole))


def named(names, levels, per):
    """Every name is some bar's."""
    return len(names) > 1 and set(range(len(names))) == {name for values in levels for name in values[per - 1::per]}


@pytest.mark.parametrize("most", [1, 5, 100, 1 << 20])
def test_names_are_those_that_are_drawn(big, cpu, window, most):
    side = dict(profile_typeID=cpu, max_nodes=most, **window)
    graph = call(big, "SelectMergeStacktraces", **side).flamegraph
    assert named(graph.names, [level.values for level in graph.levels], 4)
    message = pyroscope.message("SelectMergeStacktracesRequest", **side)
    diff = call(big, "Diff", left=message, right=message).flamegraph
    assert named(diff.names, [level.values for level in diff.levels], 7)
    one = rest(big, "render", query=cpu, maxNodes=most, **{"from": window["start"], "until": window["end"]}).json()["flamebearer"]
    assert named(one["names"], one["levels"], 4)
    two = rest(big, "render-diff", leftQuery=cpu, rightQuery=cpu, maxNodes=most, leftFrom=window["start"], leftUntil=window["end"],
               rightFrom=window["start"], rightUntil=window["end"]).json()["flamebearer"]
    assert named(two["names"], two["levels"], 7)


def test_other_shapes_of_the_same_tree(big, cpu, window):
    graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, max_nodes=1 << 20, **window).flamegraph
    tree = call(big, "SelectMergeStacktraces", profile_typeID=cpu, max_nodes=1 << 20, format=pyroscope.TREE, **window)
    assert not tree.HasField("flamegraph") and pyroscope.read_tree(tree.tree) == stacks(graph)
    dot = call(big, "SelectMergeStacktraces", profile_typeID=cpu, format=pyroscope.DOT, max_nodes=30, **window).dot
    nodes = re.findall(r'^(N\d+) \[label="(?:[^"\\]|\\.)*" shape=box fontsize=\d+ style=filled fillcolor="0\.08 [01]\.\d\d 1\.0"\]$', dot, re.M)
    edges = re.findall(r'^(N\d+) -> (N\d+) \[label="[^"]+" penwidth=\d+\.\d\]$', dot, re.M)
    assert len(set(nodes)) == len(nodes) == 30 and edges and {n for e in edges for n in e} <= set(nodes)
    assert len(dot.splitlines()) == len(nodes) + len(edges) + 3 and dot.endswith("}\n")
    merged = call(big, "SelectMergeProfile", profile_typeID=cpu, **window)
    assert [merged.string_table[t.type] for t in merged.sample_type] == ["cpu"]
    assert sum(s.value[0] for s in merged.sample) == graph.total
    assert len({tuple(s.location_id) for s in merged.sample}) == len(merged.sample), "one sample a stack"
    in_answer = call(big, "SelectMergeStacktraces", profile_typeID=cpu, format=pyroscope.PPROF, **window).pprof
    assert in_answer == merged
    assert call(big, "SelectMergeProfile", "json", profile_typeID=cpu, **window) == merged


def test_selectors_and_windows(big, oracle, cpu, window):
    threads = call(big, "LabelValues", name="thread_name", **window).names
    middle = (window["start"] + window["end"]) // 2
    for key, op, value in (("thread_name", "=", threads[0]), ("thread.name", "!=", threads[0]), ("thread_name", "=~", f"{re.escape(threads[-1])}|x"),
                           ("thread_name", "=", "no such thread")):
        selector = "{" + f"{key}{op}{json.dumps(value)}" + "}"
        for start, end in ((window["start"], middle), (middle, window["end"])):
            events = query_oracle.chosen(oracle.events, "cpu", (start * MS, end * MS), [(key, op, value)])
            graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, label_selector=selector, start=start, end=end, max_nodes=1 << 20).flamegraph
            assert stacks(graph) == by_names(query_oracle.stack_values(events))
            merged = call(big, "SelectMergeProfile", profile_typeID=cpu, label_selector=selector, start=start, end=end)
            assert sum(s.value[0] for s in merged.sample) == graph.total
    nothing = call(big, "SelectMergeStacktraces", profile_typeID="no:such:type:at:all", **window).flamegraph
    assert list(nothing.names) == ["total"] and [list(level.values) for level in nothing.levels] == [[0, 0, 0, 0]]
    assert not call(big, "SelectSeries", profile_typeID="no:such:type:at:all", step=1, **window).series


def test_series_over_time(big, oracle, cpu, window):
    """Each point is what happened in the step before it, by two labels at once."""
    events = query_oracle.chosen(oracle.events, "cpu")
    keys = ["service_name", "thread_name"]
    step = 2
    want = collections.defaultdict(collections.Counter)
    for e in events:
        bucket = (e.time - window["start"] * MS) // (step * 1000 * MS)
        want[tuple(query_oracle.label(e.labels, k) for k in keys)][window["start"] + (bucket + 1) * step * 1000] += e.value
    got = call(big, "SelectSeries", profile_typeID=cpu, label_selector="{}", group_by=keys, step=step, **window).series
    assert {tuple({p.name: p.value for p in s.labels}.get(k, "") for k in keys): {p.timestamp: p.value for p in s.points if p.value}
            for s in got} == {k: dict(v) for k, v in want.items()}
    totals = [sum(p.value for p in s.points) for s in got]
    assert totals == sorted(totals, reverse=True)
    assert len(call(big, "SelectSeries", profile_typeID=cpu, group_by=keys, step=step, limit=2, **window).series) == 2
    (average,) = call(big, "SelectSeries", profile_typeID=cpu, step=3600 * 24, aggregation=1, **window).series
    profiles = len({(e.series, e.profile) for e in events})
    assert [p.value for p in average.points if p.value] == [pytest.approx(sum(e.value for e in events) / profiles, abs=1)]


def test_series_lists_label_sets(big, oracle, cpu, window):
    sets = call(big, "Series", label_names=["service_name", "__profile_type__"], **window).labels_set
    got = {tuple((p.name, p.value) for p in s.labels) for s in sets}
    services = {query_oracle.service_name(e.labels) for e in query_oracle.chosen(oracle.events, "cpu")}
    assert len(got) == len(sets)
    assert {dict(s)["service_name"] for s in got if dict(s)["__profile_type__"] == cpu} == services
    one = sorted(services)[0]
    found = call(big, "Series", matchers=["{service_name=" + json.dumps(one) + "}"], label_names=["service_name"], **window).labels_set
    assert [[(p.name, p.value) for p in s.labels] for s in found] == [[("service_name", one)]]
    assert not call(big, "Series", matchers=['{service_name="nobody"}'], **window).labels_set
    assert all(len(s.labels) > 5 for s in call(big, "Series", **window).labels_set)
    values = call(big, "LabelValues", name="__profile_type__", **window).names
    assert list(values) == sorted(t.ID for t in call(big, "ProfileTypes", **window).profile_types)
    stats = call(big, "GetProfileStats")
    assert stats.data_ingested and window["start"] <= stats.oldest_profile_time <= stats.newest_profile_time <= window["end"]


@pytest.mark.parametrize("keys", [["thread_name"], ["service_name", "thread_name"], ["process_executable_name", "thread_id", "service_name"]], ids=str)
def test_series_have_the_labels_of_their_samples(big, oracle, cpu, window, keys):
    """What LabelNames names is in the sets, each combination once, and selects what it says."""
    events = query_oracle.chosen(oracle.events, "cpu")
    want = {tuple(query_oracle.label(e.labels, k) for k in keys) for e in events}
    assert len(want) > 1
    for matchers in ([], [f'{{__profile_type__="{cpu}"}}']):
        sets = [{p.name: p.value for p in s.labels} for s in call(big, "Series", matchers=matchers, label_names=[*keys, "__profile_type__"], **window).labels_set]
        got = [tuple(s.get(k, "") for k in keys) for s in sets if s["__profile_type__"] == cpu]
        assert len(got) == len(set(got)) and set(got) == want
    one = sorted(want)[-1]
    matcher = "{" + ",".join(f"{k}={json.dumps(v)}" for k, v in zip(keys, one)) + "}"
    whole = [dict((p.name, p.value) for p in s.labels) for s in call(big, "Series", matchers=[matcher], **window).labels_set]
    assert whole and all(tuple(s.get(k, "") for k in keys) == one for s in whole)


def site(names, **more):
    return pyroscope.message("StackTraceSelector", call_site=[pyroscope.message("Location", name=n) for n in names], **more)


def test_stacks_below_a_call_site(big, oracle, cpu, window):
    events = query_oracle.chosen(oracle.events, "cpu")
    whole = by_names(query_oracle.stack_values(events))
    deep = max((s for s in whole if s), key=lambda s: (len(s), whole[s]))
    for path in (deep[:1], deep[:2], deep[:len(deep) // 2], deep, (*deep, "nothing is below it"), ("no", "such", "function"), ()):
        want = {s: v for s, v in whole.items() if s[:len(path)] == path}
        asked = dict(profile_typeID=cpu, label_selector="{}", stack_trace_selector=site(path), **window)
        for form in ("proto", "json", "grpc"):
            graph = call(big, "SelectMergeStacktraces", form, max_nodes=1 << 20, **asked).flamegraph
            assert stacks(graph) == want, path
        tree = call(big, "SelectMergeStacktraces", format=pyroscope.TREE, max_nodes=1 << 20, **asked).tree
        assert pyroscope.read_tree(tree) == want
        merged = call(big, "SelectMergeProfile", **asked)
        assert sum(pyroscope.pprof_stacks(merged).values()) == sum(want.values())
        lines = call(big, "SelectSeries", step=1, **asked).series
        assert sum(p.value for s in lines for p in s.points) == sum(want.values())
    with pytest.raises(ConnectError) as e:
        call(big, "SelectMergeStacktraces", profile_typeID=cpu, stack_trace_selector=site(["x"] * 4097))
    assert e.value.error["code"] == "resource_exhausted"
    # With a selector beside it: both hold.
    thread = query_oracle.label(events[0].labels, "thread_name")
    first = tuple(map(shown, events[0].stack))[:1]
    want = by_names(query_oracle.stack_values([e for e in events if query_oracle.label(e.labels, "thread_name") == thread]))
    graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, label_selector="{thread_name=" + json.dumps(thread) + "}", max_nodes=1 << 20,
                 stack_trace_selector=site(first), **window).flamegraph
    assert stacks(graph) == {s: v for s, v in want.items() if s[:1] == first}


def test_a_store_knows_call_sites_and_labels_as_memory_does(big, cpu, window, tmp_path):
    whole = stacks(call(big, "SelectMergeStacktraces", profile_typeID=cpu, max_nodes=1 << 20, **window).flamegraph)
    path = max(whole, key=len)[:2]
    want = sum(v for s, v in whole.items() if s[:2] == path)

    def said(address):
        asked = dict(profile_typeID=cpu, label_selector="{}", stack_trace_selector=site(path), **window)
        sets = call(address, "Series", label_names=["thread_name", "service_name"], **window).labels_set
        lines = call(address, "SelectSeries", step=1, group_by=["thread_name"], **asked).series
        return (call(address, "SelectMergeStacktraces", **asked).flamegraph.total, sum(p.value for s in lines for p in s.points),
                sorted(tuple((p.name, p.value) for p in s.labels) for s in sets))

    with program.Server("up", "--grpc-address", "", "--http-address", "", "--log-level", "info", "--no-agent", "--listen", "127.0.0.1:0",
                        "--db", tmp_path / "x.db") as server:
        page = web_pages.page_of(server)
        assert clients.post(page, BIG.read_bytes()).status == 200
        assert said(page) == said(big)
        assert said(page)[:2] == (want, want)


def test_diff(big, oracle, cpu, window):
    threads = call(big, "LabelValues", name="thread_name", **window).names
    side = dict(profile_typeID=cpu, max_nodes=1 << 20, **window)
    sides = [side | {"label_selector": "{thread_name=" + json.dumps(t) + "}"} for t in threads[:2]]
    left, right = (call(big, "SelectMergeStacktraces", **s).flamegraph for s in sides)
    for form in ("proto", "json"):
        diff = call(big, "Diff", form, left=pyroscope.message("SelectMergeStacktracesRequest", **sides[0]),
                    right=pyroscope.message("SelectMergeStacktracesRequest", **sides[1])).flamegraph
        assert (diff.leftTicks, diff.rightTicks, diff.total) == (left.total, right.total, left.total + right.total)
        levels = bars(diff, 7)
        for s, one in enumerate((left, right)):
            for mine, theirs in zip(levels, bars(one)):
                assert sum(bar[s][1] for bar in mine) == sum(bar[0][1] for bar in theirs)
            assert sum(bar[s][2] for level in levels for bar in level) == one.total
    # A type that is not there has nothing; the other side is what it is.
    message = [pyroscope.message("SelectMergeStacktracesRequest", **s) for s in (sides[0], side | {"profile_typeID": "memory:alloc_space:bytes:space:bytes"})]
    for (a, b), want in (((0, 1), (left.total, 0)), ((1, 0), (0, left.total)), ((1, 1), (0, 0))):
        diff = call(big, "Diff", left=message[a], right=message[b]).flamegraph
        assert (diff.leftTicks, diff.rightTicks) == want


def test_spans_and_traces(tmp_path):
    """Of several spans, or of spans and traces: what any of them has."""
    data = query_bodies.random_body(random.Random(7))
    (tmp_path / "x.pb").write_bytes(data)
    events = query_oracle.Body(data).events
    by_type = collections.Counter(e.series[1] for e in events if any(e.links) and e.series[1] not in query_oracle.GAUGES)
    type_ = by_type.most_common(1)[0][0]
    linked = [e for e in events if e.series[1] == type_ and any(e.links)]
    spans = sorted({e.links[1] for e in linked})
    with web_pages.view(tmp_path / "x.pb") as address:
        (id_,) = [t.ID for t in call(address, "ProfileTypes").profile_types if t.sample_type == type_]
        for chosen in (spans[:1], spans[:2], spans, ["ab" * 8], [spans[0], spans[0]]):
            want = sum(e.value for e in linked if e.links[1] in chosen)
            for form in ("proto", "json"):
                got = call(address, "SelectMergeSpanProfile", form, profile_typeID=id_, span_selector=chosen).flamegraph
                assert got.total == want, chosen
            assert call(address, "SelectMergeStacktraces", profile_typeID=id_, span_selector=chosen).flamegraph.total == want
            tree = call(address, "SelectMergeSpanProfile", profile_typeID=id_, span_selector=chosen, format=pyroscope.TREE).tree
            if all(e.value >= 0 for e in linked):
                assert sum(pyroscope.read_tree(tree).values()) == want
        traces = sorted({e.links[0] for e in linked})[:2]
        want = sum(e.value for e in linked if e.links[0] in traces)
        assert call(address, "SelectMergeStacktraces", profile_typeID=id_, trace_id_selector=traces).flamegraph.total == want


def stacks_of(profile, once=True):
    """{((address, *(function, line, column) of each inlined frame) of each location, leaf first): value}."""
    names = {f.id: tuple(profile.string_table[i] for i in (f.name, f.system_name, f.filename)) for f in profile.function}
    files = {m.id: profile.string_table[m.filename] for m in profile.mapping}
    lines = {x.id: (files.get(x.mapping_id), x.address, *((names[n.function_id], n.line, n.column) for n in x.line)) for x in profile.location}
    out = {}
    for sample in profile.sample:
        stack = tuple(lines[i] for i in sample.location_id)
        assert not (once and stack in out), "one sample a stack"
        out[stack] = out.get(stack, 0) + sample.value[0]
    return out


@pytest.mark.parametrize("keep, anywhere", [(5, True), (5, False), (2, True), (1, True), (0, False), (0, True)])
def test_profiles_for_go_pgo(big, cpu, window, keep, anywhere):
    """GoPGO: the locations next to the leaf, whose own line does not count where aggregate_callees says so."""
    asked = dict(profile_typeID=cpu, **window)
    want = {}
    for stack, value in stacks_of(call(big, "SelectMergeProfile", **asked), once=False).items():
        short = stack[:keep or None]
        if anywhere and short and short[0][2:]:
            file, _, (function, _, _), *outer = short[0]
            short = ((file, 0, (function, 0, 0), *outer), *short[1:])
        want[short] = want.get(short, 0) + value
    go_pgo = pyroscope.message("GoPGO", keep_locations=keep, aggregate_callees=anywhere)
    for form in ("proto", "json"):
        assert stacks_of(call(big, "SelectMergeProfile", form, stack_trace_selector=site([], go_pgo=go_pgo), **asked)) == want
    inside = call(big, "SelectMergeStacktraces", stack_trace_selector=site([], go_pgo=go_pgo), format=4, **asked)
    assert stacks_of(inside.pprof) == want


WRONG = [
    ("SelectMergeStacktraces", {"label_selector": "{a=}"}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"start": 5, "end": 4}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"start": -5, "end": 4}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"span_selector": ["xyz"]}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"profile_id_selector": ["12"]}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"trace_id_selector": ["a" * 32] * 65}, 429, "resource_exhausted"),
    ("SelectMergeStacktraces", {"profile_typeID": "a:b"}, 400, "invalid_argument"),
    ("SelectMergeStacktraces", {"profile_typeID": "cpu"}, 400, "invalid_argument"),
    ("SelectMergeProfile", {"profile_typeID": "a:b:c:d"}, 400, "invalid_argument"),
    ("SelectSeries", {"profile_typeID": "a:b", "step": 1}, 400, "invalid_argument"),
    ("SelectMergeSpanProfile", {}, 400, "invalid_argument"),
    ("SelectSeries", {}, 400, "invalid_argument"), ("SelectSeries", {"step": -1}, 400, "invalid_argument"),
    ("SelectSeries", {"step": 0.001, "start": 1, "end": 10 ** 12}, 400, "invalid_argument"),
    ("LabelValues", {}, 400, "invalid_argument"), ("LabelNames", {"matchers": ["{"]}, 400, "invalid_argument"),
    ("LabelNames", {"matchers": ["x" * 20000]}, 429, "resource_exhausted"),
]


@pytest.mark.parametrize("form", ["proto", "json", "get-json"])
@pytest.mark.parametrize("method, fields, status, code", WRONG, ids=lambda v: str(v)[:30])
def test_what_is_wrong_is_said_connects_way(big, method, fields, status, code, form):
    with pytest.raises(ConnectError) as e:
        call(big, method, form, **fields)
    assert (e.value.status, e.value.error["code"]) == (status, code) and e.value.error["message"]
    with pytest.raises(grpc.RpcError) as e:
        call(big, method, "grpc", **fields)
    assert e.value.code().name.lower() == code


def test_a_type_id_that_is_none(big, cpu, window):
    with pytest.raises(ConnectError) as e:
        call(big, "SelectMergeStacktraces", profile_typeID="a:b", **window)
    assert e.value.error["message"] == 'profile type id "a:b" has 2 of 5 parts; expected NAME:SAMPLE_TYPE:SAMPLE_UNIT:PERIOD_TYPE:PERIOD_UNIT'
    times = {"from": window["start"], "until": window["end"]}
    for query in ("a:b{}", "a:b", "cpu", ' a:b {thread_name="x"}'):
        assert f'"{query.split("{")[0].strip()}" has' in rest(big, "render", 400, query=query, **times).json()["error"]["what"], query
    rest(big, "render-diff", 400, leftQuery=cpu, rightQuery="a:b{}")
    for query in (cpu + "{}", "{}", 'thread_name=~"a{1}:b"', '{__profile_type__="%s"}' % cpu):
        rest(big, "render", query=query, **times)


def test_broken_requests(big):
    path = pyroscope.QUERIER + "ProfileTypes"

    def send(method="POST", target=path, body=b"", **headers):
        return web_pages.request(big, method, target, body if method != "GET" else None, {k.replace("_", "-"): v for k, v in headers.items()})

    proto = {"Content_Type": "application/proto"}
    assert send(**proto).status == 200, "an empty message is a message, Connect-Protocol-Version is optional"
    for body in (b"\xff", b"\x0a\x05ab", b"\x08"):
        got = send(body=body, **proto)
        assert (got.status, got.json()["code"]) == (400, "invalid_argument")
    for body in (b"", b"{", b"[]", b'{"start": "x"}', b'{"start": 1.5}', b"{} {}", b'{"a":' * 5000):
        got = send(body=body, Content_Type="application/json")
        assert (got.status, got.json()["code"]) == (400, "invalid_argument"), body[:20]
    assert send(body=b'{"start": 1, "end": "2", "unheard": {"of": [1]}}', Content_Type="application/json; charset=utf-8").status == 200
    assert send(Content_Type="text/plain").status == 415 and send(Content_Type="application/connect+proto").status == 415
    assert send(Connect_Protocol_Version="2", **proto).json()["code"] == "invalid_argument"
    assert send(Connect_Timeout_Ms="x", **proto).json()["code"] == "invalid_argument"
    assert send(Connect_Timeout_Ms="0", **proto).status == 504
    assert send(Content_Encoding="gzip", body=b"no gzip", **proto).status == 400
    assert send("PUT", **proto).status == 405
    unknown = send(target=pyroscope.QUERIER + "Nothing", **proto)
    assert (unknown.status, unknown.json()["code"]) == (501, "unimplemented")
    assert send(target="/settings.v1.SettingsService/Get", **proto).json()["code"] == "unimplemented"
    for query in ("", "?connect=v1", "?connect=v1&encoding=xml&message=", "?connect=v1&encoding=proto&base64=1&message=%21",
                  "?connect=v1&encoding=proto&compression=lzma&message=", "?connect=v1&encoding=json&message={&x"):
        got = send("GET", path + query)
        assert got.status in (400, 501) and got.json()["code"] in ("invalid_argument", "unimplemented"), query
    evil = send(Host="evil.example", **proto)
    assert (evil.status, evil.json()["code"]) == (403, "permission_denied")
    assert send(Origin="http://evil.example", **proto).status == 403
    assert send(Origin=f"http://{big}", **proto).status == 200


def rest(address, what, status=200, **pairs):
    got = web_pages.request(address, "GET", f"/pyroscope/{what}?" + urllib.parse.urlencode(pairs))
    assert got.status == status, got.body[:300]
    return got


def test_render(big, cpu, window):
    start, end = window["start"] // 1000, window["end"] // 1000 + 1
    graph = call(big, "SelectMergeStacktraces", profile_typeID=cpu, start=start * 1000, end=end * 1000).flamegraph
    for begin, until in ((start, end), (start * 1000, end * 1000), (start * 10 ** 9, end * 10 ** 9)):
        d = rest(big, "render", query=cpu + "{}", **{"from": begin, "until": until}).json()
        assert d["version"] == 1 and d["metadata"]["format"] == "single" and d["metadata"]["name"] == "cpu"
        assert d["flamebearer"]["names"] == list(graph.names) and d["flamebearer"]["numTicks"] == graph.total
        assert d["flamebearer"]["levels"] == [list(level.values) for level in graph.levels] and d["flamebearer"]["maxSelf"] == graph.max_self
        assert d["timeline"]["startTime"] == start and sum(d["timeline"]["samples"]) == graph.total and d["groups"] is None
    grouped = rest(big, "render", query=cpu, groupBy="thread_name", maxNodes=10, **{"from": start, "until": end}).json()
    assert sum(sum(g["samples"]) for g in grouped["groups"].values()) == graph.total and len(grouped["groups"]) > 1
    assert rest(big, "render", query=cpu, format="dot", **{"from": start, "until": end}).body.startswith(b"digraph")
    both = rest(big, "render-diff", leftQuery=cpu, rightQuery=cpu, leftFrom=start, leftUntil=end, rightFrom=start, rightUntil=end).json()
    assert both["leftTicks"] == both["rightTicks"] == graph.total and both["metadata"]["format"] == "double"
    assert sum(len(level) for level in both["flamebearer"]["levels"]) % 7 == 0
    assert cpu in rest(big, "label-values", label="__name__").json()
    assert rest(big, "label-values", label="thread_name").json() == list(call(big, "LabelValues", name="thread_name").names)
    empty = rest(big, "render", query=cpu, **{"from": "now-1h", "until": "now"}).json()
    assert empty["flamebearer"]["levels"] == [[0, 0, 0, 0]]
    rest(big, "render", 400)
    rest(big, "render", 400, query="{", **{"from": start})
    rest(big, "render", 400, query=cpu, format="svg")
    rest(big, "render-diff", 400, leftQuery=cpu)
    rest(big, "label-values", 400)
    rest(big, "nothing", 404)


def test_what_a_pyroscope_is_asked_besides(big):
    assert web_pages.request(big, "GET", "/ready").body == b"ready\n"
    assert web_pages.request(big, "GET", "/api/v1/status/buildinfo").json()["status"] == "success"
