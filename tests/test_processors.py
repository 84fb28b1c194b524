"""Processors of profiles in real pipelines: official bodies in, official protobuf out, compared sample by sample."""

import collections
import re

import grpc
import pytest
import yaml

import clients
import fixtures
import program
import receivers
import schemas
import view

NEWEST = schemas.schema(schemas.NEWEST)
BIG = fixtures.body(fixtures.BIG)
LINKS = fixtures.body("v1.11.0-synthetic-offcpu-links")


def config_of(processors, exporter=None, metrics=False):
    exporter = exporter or {"nop": None}
    config = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}, "http": {"endpoint": "127.0.0.1:0"}}}},
        "processors": processors, "exporters": exporter,
        "service": {"pipelines": {"profiles": {"receivers": ["otlp"], "processors": list(processors), "exporters": list(exporter)}}}}
    if metrics:
        config["service"]["telemetry"] = {"metrics": {"readers": [{"pull": {"exporter": {"prometheus": {"host": "127.0.0.1", "port": 0}}}}]}}
    return config


def written(tmp_path, config):
    file = tmp_path / "c.yaml"
    file.write_text(config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False))
    return file


class Pipeline:
    """otlp -> processors -> otlp_grpc to a receiver of ours; send() gives what came out."""

    def __init__(self, start, tmp_path, processors):
        self.sink = receivers.GrpcReceiver()
        exporter = {"otlp_grpc": {"endpoint": self.sink.address, "tls": {"insecure": True}, "compression": "none",
                                  "sending_queue": {"enabled": False}, "retry_on_failure": {"enabled": False}}}
        self.server = start("collector", "--config", written(tmp_path, config_of(processors, exporter, metrics=True)), own_metrics=True)

    def send(self, *bodies, wait=True):
        before = len(self.sink.bodies)
        with clients.channel(self.server.grpc) as ch:
            for b in bodies:
                clients.export(ch, b)
        if wait:
            program.wait_for(lambda: len(self.sink.bodies) > before, what="what came out")
        return [NEWEST.Request.FromString(b) for b in self.sink.bodies[before:]]

    def metric(self, name, **labels):
        return program.metric_sum(self.server.metrics(), name, **labels)


@pytest.fixture
def pipeline(start, tmp_path):
    made = []

    def make(processors):
        made.append(Pipeline(start, tmp_path, processors))
        return made[-1]

    yield make
    for p in made:
        p.sink.stop()


def seen(request):
    return view.view(schemas.NEWEST, request)


def key_of(r, s, p, sample):
    return repr((sorted(map(repr, r["attributes"])), s["name"], p["sample_type"], sample))


def samples_of(request):
    """Every sample with all that it means, counted."""
    return collections.Counter(key_of(*x) for x in view.samples(seen(request)))


def functions_of(sample):
    return [line["function"]["name"] for location in sample["stack"] for line in location["lines"]]


def source(body):
    return NEWEST.Request.FromString(body.bytes)


def used_strings(request):
    """What a dictionary's tables refer to, from the samples down: nothing else may be in it."""
    d = request.dictionary
    stacks, links, attributes = {0}, {0}, {0}
    for r in request.resource_profiles:
        for s in r.scope_profiles:
            for p in s.profiles:
                attributes.update(p.attribute_indices)
                for sample in p.samples:
                    stacks.add(sample.stack_index)
                    links.add(sample.link_index)
                    attributes.update(sample.attribute_indices)
    locations = {0} | {i for n in stacks for i in d.stack_table[n].location_indices}
    functions = {0} | {line.function_index for n in locations for line in d.location_table[n].lines}
    mappings = {0} | {d.location_table[n].mapping_index for n in locations}
    for n in locations:
        attributes.update(d.location_table[n].attribute_indices)
    for n in mappings:
        attributes.update(d.mapping_table[n].attribute_indices)
    return {"stack_table": stacks, "link_table": links, "location_table": locations, "function_table": functions,
            "mapping_table": mappings, "attribute_table": attributes}


def assert_no_orphans(request):
    for table, used in used_strings(request).items():
        assert used == set(range(len(getattr(request.dictionary, table)))), table


# ---- filter ----

def first_function():
    """A function that some but not all samples of the big body have in their stacks."""
    counts = collections.Counter(f for *_, s in view.samples(seen(source(BIG))) for f in set(functions_of(s)) if f)
    total = sum(1 for _ in view.samples(seen(source(BIG))))
    return next(f for f, n in counts.most_common() if n < total * 2 // 3)


def test_filter_drops_samples_by_frame_and_nothing_else(pipeline):
    name = first_function()
    p = pipeline({"filter": {"profile_conditions": [f'HasFrame(function="^{re.escape(name)}$")'.replace("\\", "\\\\")]}})
    [got] = p.send(BIG.bytes)
    want = collections.Counter(key_of(*x) for x in view.samples(seen(source(BIG))) if name not in functions_of(x[3]))
    assert samples_of(got) == want
    assert_no_orphans(got)
    dropped = sum(samples_of(source(BIG)).values()) - sum(want.values())
    assert dropped > 0
    assert p.metric("flametap_filter_dropped_samples_total", reason="sample") == dropped
    assert p.metric("otelcol_processor_outgoing_items", processor="filter") == sum(want.values())


def test_what_no_condition_matches_goes_on_as_it_came(pipeline):
    p = pipeline({"filter": {"profile_conditions": ['HasFrame("^no such function$$")', 'scope.name == "nobody"']}})
    for body in fixtures.NEWEST_BODIES:
        [got] = p.send(body.bytes)
        assert samples_of(got) == samples_of(source(body)), body
    assert p.metric("flametap_filter_dropped_samples_total") == 0


@pytest.mark.parametrize("processor, reason", [
    ({"profile_conditions": ['resource.attributes["container.id"] != nil or resource.attributes["container.id"] == nil']}, "resource"),
    ({"profiles": {"scope": ["name == name"]}}, "scope"),
    ({"profile_conditions": [{"context": "profile", "conditions": ["period >= 0"]}]}, "profile"),
    ({"profiles": {"sample": ["depth >= 0"]}}, "sample"),
])
def test_filter_of_each_context_drops_all_and_answers_ok(pipeline, processor, reason):
    p = pipeline({"filter": processor})
    assert p.send(BIG.bytes, wait=False) == []
    assert p.metric("flametap_filter_dropped_samples_total", reason=reason) == sum(samples_of(source(BIG)).values())
    assert p.metric("otelcol_receiver_accepted_profile_samples") == sum(samples_of(source(BIG)).values())


def test_filter_and_batch_leave_no_orphans(pipeline):
    name = first_function()
    condition = f'HasFrame("{re.escape(name)}")'.replace("\\", "\\\\")
    p = pipeline({"filter": {"profile_conditions": [condition]}, "batch": {"timeout": "100ms", "send_batch_size": 1000000}})
    p.send(BIG.bytes, LINKS.bytes, wait=False)
    program.wait_for(lambda: p.sink.bodies, what="a batch")
    got = NEWEST.Request.FromString(p.sink.bodies[0])
    assert_no_orphans(got)
    assert name not in got.dictionary.string_table


def test_filter_error_modes(pipeline):
    broken = 'HasPrefix(resource.attributes["absent"], "a")'
    p = pipeline({"filter": {"profile_conditions": [broken]}})
    [got] = p.send(LINKS.bytes)
    assert samples_of(got) == samples_of(source(LINKS))
    assert p.metric("flametap_ottl_errors_total", processor="filter") == len(source(LINKS).resource_profiles)
    assert p.server.find_line("value of HasPrefix.* is nil, not a string")
    q = pipeline({"filter": {"error_mode": "propagate", "profile_conditions": [broken]}})
    with clients.channel(q.server.grpc) as ch, pytest.raises(grpc.RpcError) as e:
        clients.export(ch, LINKS.bytes)
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "processor filter" in e.value.details()
    silent = pipeline({"filter": {"error_mode": "silent", "profile_conditions": [broken]}})
    silent.send(LINKS.bytes)
    assert not silent.server.find_line("Condition or statement failed")


# ---- configurations ----

GOOD = {
    "filter": {"error_mode": "silent", "profile_conditions": [
        'IsMatch(resource.attributes["k8s.pod.name"], "^test-.*$$")', {"context": "sample", "conditions": ["value < 2"], "error_mode": "propagate"}]},
    "filter/old": {"profiles": {"resource": ['attributes["a"] == "b"'], "profile": ["period == 0"]}, "trace_conditions": ["span.name == 1"]},
}


@pytest.mark.parametrize("id", GOOD)
def test_print_config_is_a_fixed_point(tmp_path, id):
    first = program.run("collector", "--config", written(tmp_path, config_of({id: GOOD[id]})), "--print-config", check=0).stdout
    file = tmp_path / "again.yaml"
    file.write_bytes(first)
    assert program.run("collector", "--config", file, "--print-config", check=0).stdout == first
    assert GOOD[id].items() <= yaml.safe_load(first)["processors"][id].items()


BAD = [
    ("filter: {profile_condition: []}", r"c\.yaml:7:12: .*unknown key \"profile_condition\" \(did you mean \"profile_conditions\"\?\)"),
    ("filter: {profile_conditions: 'a == b'}", r"c\.yaml:7:32: .*profile_conditions must be a list, not 'string'"),
    ("filter: {profile_conditions: [\"sample.valu == 1\"]}", r"c\.yaml:7:34: .*sample has no \"valu\" \(did you mean \"value\"\?\)"),
    ("filter: {profile_conditions: [\"sample.value == 1 or x\"]}", r"c\.yaml:7:55: .*\"x\" does not begin with its context"),
    ("filter: {profile_conditions: [{context: sampl, conditions: []}]}", r"c\.yaml:7:43: .*context"),
    ("filter: {profile_conditions: [{contxt: sample}]}", r"c\.yaml:7:34: .*unknown key \"contxt\" \(did you mean \"context\"\?\)"),
    ("filter: {error_mode: loud}", r"c\.yaml:7:24: .*error_mode"),
    ("filter: {profile_conditions: [], profiles: {sample: []}}", r"cannot be used together"),
    ("filter: {profile_conditions: ['a'", r"c\.yaml:"),
    ("filter:\n      profile_conditions:\n        - |\n          sample.value == 1\n          and sample.valu == 2", r"c\.yaml:11:1: .*has no \"valu\""),
]


@pytest.mark.parametrize("text, want", BAD)
def test_bad_options_are_refused_with_their_place(tmp_path, text, want):
    processors = text.partition(":")[0]
    file = written(tmp_path, f"receivers:\n  otlp: {{protocols: {{grpc: }}}}\nexporters: {{nop: }}\nservice:\n"
                             f"  pipelines: {{profiles: {{receivers: [otlp], processors: [{processors}], exporters: [nop]}}}}\nprocessors:\n  {text}\n")
    done = program.run("collector", "--config", file, "--print-config")
    assert done.returncode == 1 and re.search(want, done.stderr.decode()), done.stderr.decode()


# ---- load ----

LOADS = {
    "filter": {"filter": {"profile_conditions": ['HasFrame("a")', 'IsMatch(sample.attributes["thread.name"], "x")']}},
}


@pytest.mark.parametrize("name", LOADS)
def test_load_by_four_connections_is_bounded(pipeline, name):
    """Four senders at once, 100 bodies each: everything is answered OK, and memory stays where it was after the first ones."""
    import concurrent.futures
    p = pipeline(LOADS[name])
    body = BIG.bytes

    def send(count):
        with clients.channel(p.server.grpc) as ch:
            for _ in range(count):
                clients.export(ch, body)

    def all_of(count):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for f in [pool.submit(send, count) for _ in range(4)]:
                f.result()

    all_of(25)
    before = p.server.rss_kib
    all_of(75)
    assert p.metric("otelcol_receiver_accepted_profile_samples") == 400 * sum(samples_of(source(BIG)).values())
    if not program.is_sanitized():
        assert p.server.rss_kib < before + 16 * 1024


# ---- documents ----

DOCUMENT = fixtures.ROOT / "docs" / "components.md"


@pytest.mark.parametrize("name", re.findall(r"^```options (\S+)$", DOCUMENT.read_text(), re.M))
def test_the_page_says_the_options_that_there_are(name):
    block = re.search(rf"^```options {name}\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S).group(1)
    assert block == program.run("components", name, check=0).stdout.decode()


def test_every_processor_is_on_the_page():
    listed = yaml.safe_load(program.run("components", check=0).stdout)["processors"]
    assert {p["name"] for p in listed} == set(re.findall(r"^```options (\S+)$", DOCUMENT.read_text(), re.M))
