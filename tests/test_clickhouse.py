"""ClickHouse, two generations of it, from OTLP in to OTLP out and to answers: nothing lost, nothing twice.

What comes out is read by Google's protobuf; answers are compared with an independent calculation from the bodies.
"""

import contextlib
import itertools
import os
import random
import re
import socket
import sqlite3
import ssl
import threading
import time

import pytest

import certificates
import clickhouse
import clients
import fixtures
import handmade
import program
import query_bodies
import schemas
import test_pprof
import view
import web_pages
from test_covered import check_covered
from test_decode import same, same_message, source_view
from test_query import ask, check, check_columns, check_selections, events_of, random_selection, resource_of
from test_store import NEWEST, export
from test_symbolize import binaries, body, check_tags, shown, symbolize, wanted  # noqa: F401 (two are fixtures)

pytestmark = pytest.mark.peer
_databases = itertools.count()


@pytest.fixture(scope="module", params=["18.16", "26"])
def server(request):
    folder = clickhouse.Folder()
    try:
        running = clickhouse.KINDS[request.param](folder.path)
        yield running
        running.stop()
    finally:
        folder.remove()


@pytest.fixture(scope="module")
def old():
    folder = clickhouse.Folder()
    try:
        running = clickhouse.Debian(folder.path)
        yield running
        running.stop()
    finally:
        folder.remove()


@pytest.fixture
def database():
    return f"flametap_{next(_databases)}"


class Keeping:
    """A backend that keeps in ClickHouse, and what it has inserted so far."""

    def __init__(self, url, *words, **options):
        self.server = program.backend("-receiver", "clickhouse", "-clickhouse.url", url, "-metrics-address", "127.0.0.1:0", *words,
                                      **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__(None, None, None)

    def metric(self, name):
        return self.server.metrics().get(f'flametap_store_{name}_total{{exporter="clickhouse"}}', 0)

    def send(self, *bodies, version=schemas.NEWEST):
        with clients.channel(self.server.grpc) as ch:
            for b in bodies:
                clients.export(ch, b, version=version)

    def settled(self, requests, duplicates=0):
        program.wait_for(lambda: self.metric("requests") >= requests and self.metric("duplicate_requests") >= duplicates, 90,
                         f"{requests} requests in ClickHouse", every=0.05)
        assert (self.metric("requests"), self.metric("duplicate_requests")) == (requests, duplicates)


def views(bodies):
    """In an order of their own: requests may pass each other on their way."""
    return sorted((view.view(schemas.NEWEST, NEWEST.Request.FromString(b)) for b in bodies), key=repr)


def test_every_recorded_body_comes_back(server, database, tmp_path):
    url = f"{server.url}/{database}"
    bodies = fixtures.BODIES if server.quick or program.LONG else fixtures.BODIES[::5]
    with collecting(tmp_path, url, "compress: zstd") as collector, clients.channel(collector.grpc) as ch:
        for b in bodies:
            clients.export(ch, b.bytes, version=b.version if b.version != "1.6" else schemas.NEWEST)
    out = export(url)
    assert len(out) == len(bodies)
    for b, got in zip(bodies, out):
        same_message(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), schemas.NEWEST, source_view(b), b.version)


def test_hand_made_bodies_lose_nothing(server, database, tmp_path):
    """Bodies with every field of their version set, written by Google's protobuf."""
    url = f"{server.url}/{database}"
    versions = list(schemas.VERSIONS) if server.quick or program.LONG else list(schemas.VERSIONS)[-2:]
    for number, version in enumerate(versions):
        request = handmade.rich(version)
        with Keeping(url, "-wire-version", version, "-spool-dir", tmp_path / version) as keeping:
            answer = clients.http_request(keeping.server.http, "POST", "/v1development/profiles", request.SerializeToString(),
                                          {"content-type": "application/x-protobuf"})
            assert answer.status == 200, answer
            keeping.settled(1)
        if version != versions[-1] and not server.quick:
            continue
        got = export(url)
        assert len(got) == number + 1
        same_message(view.view(schemas.NEWEST, NEWEST.Request.FromString(got[-1])), schemas.NEWEST, view.view(version, request), version)


def test_a_store_answers_as_the_bodies_say(server, database):
    rng = random.Random(78)
    bodies = [query_bodies.random_body(rng) for _ in range(2)] + [fixtures.body(fixtures.BIG).bytes]
    url = f"{server.url}/{database}"
    events = []
    with Keeping(url) as keeping:
        for number, data in enumerate(bodies):
            assert clients.post(keeping.server.http, data).status == 200
            events += [e._replace(series=resource_of(e)) for e in events_of(data, number)]
        keeping.settled(len(bodies))
    if server.quick or program.LONG:
        check_selections(rng, url, events, 10 if program.LONG else 1)
        return
    for type_ in ("cpu", "inuse_space"):
        words, selection = random_selection(rng, [e for e in events if e.series[1] == type_])
        check(url, events, type_, words, **selection)


def test_windows_cut_through_samples(server, database):
    """Whole buckets are read without times, edges with them; samples of some reach from the one into the other."""
    rng = random.Random(80)
    data = query_bodies.reaching_body(rng)
    url, events = f"{server.url}/{database}", events_of(data)
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, data).status == 200
        keeping.settled(1)
    bucket, times = query_bodies.TEN_MINUTES, sorted(e.time for e in events)
    first = times[0] // bucket * bucket
    assert times[-1] > first + 4 * bucket and check(url, events, "off_cpu") == len(events)
    moments = [first + n * bucket + more for n in range(6) for more in (0, 1, bucket // 2)] + rng.sample(times, 5)
    for _ in range(12 if server.quick else 3):
        a, b = sorted(rng.sample(moments, 2))
        check(url, events, "off_cpu", ["--from", str(a), "--to", str(b)], window=(a, b))
    check(url, events, "off_cpu", ["--select", '{service.name="two"}', "--from", str(first + 1)], window=(first + 1, 1 << 63),
          matchers=[("service.name", "=", "two")])


def test_a_question_is_few_requests(server, database):
    """However many services, processes and stacks there are."""
    rng = random.Random(82)
    with Keeping(f"{server.url}/{database}") as keeping:
        for _ in range(3):
            assert clients.post(keeping.server.http, query_bodies.random_body(rng)).status == 200
        keeping.settled(3)
    proxy = Proxy(server.port, lambda number: False)
    url = f"http://127.0.0.1:{proxy.port}/{database}"
    for most, words in ((11, ["--type", "cpu"]), (11, ["--type", "off_cpu", "--select", '{host.name=~".+"}'])):
        proxy.asked.clear()
        assert ask(url, *words)["events"] > 0
        assert len(proxy.asked) <= most, proxy.asked
    proxy.close()


def test_all_of_a_store_is_few_requests(server, database):
    """Many small requests come by pages, some with a large payload among them by smaller ones; all of them come once."""
    bodies = [handmade.marked(f"mark-page-{i}") for i in range(60)]
    for i in range(20, 35):
        body = NEWEST.Request.FromString(bodies[i])
        profile = body.resource_profiles[0].scope_profiles[0].profiles[0]
        profile.original_payload_format, profile.original_payload = "x", bytes([i]) * 700_000
        bodies[i] = body.SerializeToString()
    with Keeping(f"{server.url}/{database}") as keeping:
        keeping.send(*bodies)
        keeping.settled(len(bodies))
    proxy = Proxy(server.port, lambda number: False)
    assert views(export(f"http://127.0.0.1:{proxy.port}/{database}")) == views(bodies)
    assert len(proxy.asked) <= 120, len(proxy.asked)
    proxy.close()


def test_a_service_has_pages_of_its_own(server, database):
    """Samples lie by them."""
    rng = random.Random(83)
    bodies = [query_bodies.reaching_body(rng), query_bodies.random_body(rng)]
    events = [e._replace(series=resource_of(e)) for number, data in enumerate(bodies) for e in events_of(data, number)]
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        for data in bodies:
            assert clients.post(keeping.server.http, data).status == 200
        keeping.settled(2)
    pages = server.rows("SELECT DISTINCT texts[6], intDiv(id, 65536) FROM flametap_dictionary WHERE kind = 11", database)
    told = server.rows("SELECT DISTINCT texts[1], hash_hi FROM flametap_dictionary WHERE kind = 70", database)
    services = {service.split(":")[0] for service, _ in pages}
    assert {"one", "two", "checkout", "unknown_service"} <= services and len({page for _, page in pages}) == len(services)
    assert {(s.split(":")[0], page) for s, page in told} == {(s.split(":")[0], page) for s, page in pages}
    for service in ("two", "checkout") if server.quick else ("two",):
        check(url, events, "off_cpu", ["--select", f'{{service.name="{service}"}}'], matchers=[("service.name", "=", service)])


def test_sums_that_no_number_holds(server, database):
    """The server adds up what lies within the window; more than 63 bits are the largest number, as where we add."""
    m, bucket = query_bodies.Maker(), query_bodies.TEN_MINUTES
    start = query_bodies.TIME // bucket * bucket
    stack = m.stack([m.location("native", "/bin/x", ("f",), 1)])
    wants = {"large": ((1 << 62, 1 << 62, 1 << 62), (1 << 63) - 1), "small": ((-(1 << 62), -(1 << 62), -(1 << 62)), -(1 << 63)),
             "both": ((1 << 62, 1 << 62, -(1 << 62), -(1 << 62), -3), -3), "most": (((1 << 62) - 1, 1 << 62), (1 << 63) - 1), "none": ((0,), 0)}
    for name, (values, _) in wants.items():
        resource = m.request.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = name
        profile = m.profile(resource.scope_profiles.add(), *query_bodies.TYPES[1], time=start, duration=bucket)
        for n, value in enumerate(values):
            profile.samples.add(stack_index=stack, values=[value], timestamps_unix_nano=[start + n])
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, m.request.SerializeToString()).status == 200
        keeping.settled(1)
    for name, (values, want) in wants.items():
        got = ask(url, "--type", "off_cpu", "--select", f'{{service.name="{name}"}}', "--from", str(start), "--to", str(start + bucket))
        assert (got["events"], got["top"]["total"][0]) == (len(values), want), name


def test_two_columns_of_one_measurement_are_counted_once(server, database):
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, query_bodies.two_columns()).status == 200
        keeping.settled(1)
    check_columns(url)


def test_what_was_measured_is_what_the_agents_measured(server, database):
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, query_bodies.reports_of_agents()).status == 200
        keeping.settled(1)
    check_covered("--db", url)


def test_names_found_later(server, database, binaries, body):  # noqa: F811
    """symbolize, twice: answers have the names, what was sent comes back as it was, the newest names count."""
    url, (first, second) = f"{server.url}/{database}", binaries
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, body).status == 200
        keeping.settled(1)
    before = export(url)
    assert shown(url) == wanted(bare=binaries)
    everything = len(first.addresses) + len(second.addresses)
    assert f"{len(first.addresses)} of {everything} addresses named, in 1 of 2 files" in symbolize(url, "--files", first.path)
    assert shown(url) == wanted(first, bare=[second])
    out = symbolize(url, "--files", first.path.parent)
    assert f"{len(second.addresses)} of {len(second.addresses)} addresses named, in 1 of 1 files" in out, "what has names is not asked again"
    assert shown(url) == wanted(*binaries) and export(url) == before
    if server.quick or program.LONG:
        assert f"{everything} of {everything} addresses named" in symbolize(url, "--again", "--no-lines", "--files", first.path.parent)
        assert {name for name, _ in shown(url)} >= {"outer", "plain", "main"} and not any(inlined for _, inlined in shown(url))


def test_names_found_later_are_in_the_tag(server, database, binaries, body, tmp_path):  # noqa: F811
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        assert clients.post(keeping.server.http, body).status == 200
        keeping.settled(1)
    check_tags(url, tmp_path, binaries)


def test_a_repeated_request_is_known_again(server, database):
    url = f"{server.url}/{database}"
    a, b = handmade.marked("ch-a"), handmade.marked("ch-b")
    with Keeping(url) as keeping:
        keeping.send(a)
        keeping.settled(1)
    with Keeping(url) as keeping:  # another exporter, which remembers nothing
        keeping.send(a, b)
        keeping.settled(1, duplicates=1)
    assert len(export(url)) == 2


def test_names_are_only_text(server, database):
    evil = "x'; DROP TABLE flametap_samples; -- \\' ` \n"
    request = NEWEST.Request.FromString(fixtures.body("v1.11.0-synthetic-offcpu-links").bytes)
    for i, s in enumerate(request.dictionary.string_table):
        if s:
            request.dictionary.string_table[i] = evil + s + '"\u0000;'
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        keeping.send(request.SerializeToString())
        keeping.settled(1)
    [got] = export(url)
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(got)), view.view(schemas.NEWEST, request))
    done = program.run("top", "--db", url, "--select", "{service.name=\"" + "a'); DROP TABLE flametap_samples; --" + "\"}")
    assert done.returncode in (0, 1)
    assert int(server.ask("SELECT count() FROM flametap_samples", database)) > 0


def test_ddl_makes_what_the_exporter_writes(server, database):
    """With create_schema off, by hand: `store ddl` for this version, piece by piece."""
    server.ask(f"CREATE DATABASE {database}")
    version = server.ask("SELECT version()")
    for statement in program.run("store", "ddl", "-clickhouse", version, "-ttl", "720h", check=0).stdout.decode().split(";\n"):
        if statement.strip():
            server.ask(statement, database)
    url = f"{server.url}/{database}"
    with Keeping(url) as keeping:
        keeping.send(handmade.marked("ddl"))
        keeping.settled(1)
    assert len(export(url)) == 1
    assert int(server.ask("SELECT count() FROM flametap_functions", database)) > 0
    for name in ("functions", "mappings", "locations", "stacks", "attributes", "series"):
        server.ask(f"SELECT * FROM flametap_{name} LIMIT 3", database)


def test_views_for_people_say_what_those_of_sqlite_say(server, database, tmp_path):
    bodies = [fixtures.body(n) for n in ("v1.11.0-synthetic-offcpu-links", "v1.11.0-oncpu-start", "v1.9.0-oncpu-mixed-a")]
    url, db = f"{server.url}/{database}", tmp_path / "flametap.db"
    with Keeping(url) as keeping, program.backend("-receiver", "sqlite", "-sqlite.path", db) as file:
        for b in bodies:
            keeping.send(b.bytes, version=b.version)
            with clients.channel(file.grpc) as ch:
                clients.export(ch, b.bytes, version=b.version)
        keeping.settled(len(bodies))

    def both(here, there):
        """Rows of the one and the other as lines of text, sorted; what is NULL in SQLite is 0 or "" in ClickHouse."""
        with contextlib.closing(sqlite3.connect(db)) as c:
            kept = sorted("\t".join("" if v is None else str(v) for v in row) for row in c.execute(there))
        return sorted(server.ask(here + " FORMAT TSVRaw", database).split("\n")), kept

    for columns in ("time_unix_nano, service, type, unit, value, period, period_type, period_unit", "count(DISTINCT stack_id)"):
        got, want = both(f"SELECT {columns} FROM flametap_samples_text", f"SELECT {columns} FROM samples")
        assert got == want
    columns = "function, file, {} AS line, type, binary, build_id, count(*) AS n"
    got, want = both(f"SELECT {columns.format('line')} FROM flametap_frames GROUP BY function, file, line, type, binary, build_id",
                     f"SELECT {columns.format('coalesce(line, 0)')} FROM frames GROUP BY 1, 2, 3, 4, 5, 6")
    assert got == want and len(got) > 100
    got, want = both("SELECT depth, text FROM flametap_stacks_text", "SELECT depth, text FROM stacks_text")
    assert got == want and max(int(line.split("\t")[0]) for line in got) > 16, "some are of stems"
    shown = re.findall(r"^SELECT .*flametap_(?:samples_text|stacks_text|frames).*(?=;$)", (fixtures.ROOT / "docs" / "clickhouse.md").read_text(), re.M)
    assert len(shown) == 3
    for sql in shown:
        server.ask(sql, database)


# ---- the way there ----

class Proxy:
    """TCP to a server. `cut(number)` of a connection that carries an INSERT says whether its answer is cut off: the body has gone
    to the server, whole, and the sender hears nothing but the end of the connection. cut() may say more: "late", the insert lies
    here until come(); "part", its last byte does. Only inserts of `table` are asked about.
    While `go` is not set nothing more is passed on."""

    def __init__(self, port, cut, tls=None, table=""):
        self.insert = f"INSERT%20INTO%20flametap_{table}".encode()
        self.go = threading.Event()
        self.go.set()
        self.port_to, self.cut, self.cuts, self.number = port, cut, 0, itertools.count()
        self.forget = b""
        self.held = []  # of each insert that was held back: its connection to the server, and what is still to be sent
        self.packed = []  # of each insert: its Content-Encoding
        self.asked = []  # of each call: its first line, and how its body begins
        self.tls = tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    @staticmethod
    def _request(near):
        """One whole request, or what there is of it."""
        data = b""
        while b"\r\n\r\n" not in data:
            got = near.recv(65536)
            if not got:
                return data
            data += got
        head, _, body = data.partition(b"\r\n\r\n")
        length = int((re.search(rb"(?i)content-length: (\d+)", head) or [0, 0])[1])
        while len(body) < length:
            got = near.recv(1 << 20)
            if not got:
                break
            body += got
        return head + b"\r\n\r\n" + body

    def _serve(self, near):
        if self.tls:
            try:
                near = self.tls.wrap_socket(near, server_side=True)
            except OSError:
                return
        with near:
            while True:
                try:
                    request = self._request(near)
                    if not request:
                        return
                    self.go.wait(300)
                    with socket.create_connection(("127.0.0.1", self.port_to)) as far:
                        how = False
                        if self.forget:  # each call in a session of its own
                            request = request.replace(self.forget, self.forget + str(next(self.number)).encode(), 1)
                        head, _, body = request.partition(b"\r\n\r\n")
                        self.asked.append((head.split(b"\r\n")[0].decode(), body[:200].decode(errors="replace")))
                        if b"INSERT" in head.split(b"\r\n")[0]:
                            self.packed.append((re.search(rb"(?i)\r\ncontent-encoding: (\w+)", head) or [0, b""])[1].decode())
                        if self.insert in head.split(b"\r\n")[0]:
                            how = self.cut(next(self.number))
                        request = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head) + b"\r\nConnection: close\r\n\r\n" + body
                        if how in ("late", "part"):
                            sent = {"late": 0, "part": len(request) - 1}[how]
                            self.held.append((far.dup(), request[sent:]))
                            far.sendall(request[:sent])
                            return
                        far.sendall(request)
                        if how:
                            self.cuts += 1
                            if self.cuts % 2:  # what the server does then it finds out by itself, or it is done by now
                                far.recv(1)
                            return
                        answer = b""
                        while True:
                            got = far.recv(1 << 20)
                            if not got:
                                break
                            answer += got
                    near.sendall(answer)
                    if b"connection: close" in answer.lower():
                        return
                except OSError:
                    return

    def come(self):
        """What was held back now comes, each to its end."""
        for far, rest in self.held:
            self.send_rest(far, rest)

    @staticmethod
    def send_rest(far, rest):
        with far:
            try:
                far.sendall(rest)
                while far.recv(65536):
                    pass
            except OSError:  # the server did not wait for it
                pass

    def close(self):
        self.listener.close()


YAML = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: 127.0.0.1:0}}}}}}}}
exporters:
  clickhouse:
    endpoint: {url}
    flush_interval: 1ms
    {more}
    retry_on_failure: {{initial_interval: 5ms, max_interval: 20ms, max_elapsed_time: 0}}
    sending_queue: {{enabled: false}}
service:
  telemetry: {{metrics: {{level: normal, readers: [{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: 0}}}}}}}}]}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [clickhouse]}}}}
"""


def collecting(tmp_path, url, more=""):
    config = tmp_path / "config.yaml"
    config.write_text(YAML.format(url=url, more=more))
    return program.Server("collector", "--config", str(config), own_metrics=True)


def samples_of(body):
    return sum(len(p.samples) for r in NEWEST.Request.FromString(body).resource_profiles for s in r.scope_profiles for p in s.profiles)


def send_until(server, proxy, cuts, senders=6, most=20000, hook=lambda cuts: None):
    """Marked bodies, several at a time, until so many inserts were cut off; the marks of those that were acknowledged: all."""
    numbers, marks, faults = itertools.count(), [], []

    def send():
        try:
            with clients.channel(server.grpc) as ch:
                while proxy.cuts < cuts and not faults:
                    number = next(numbers)
                    assert number < most, "too few inserts are cut"
                    clients.export(ch, handmade.marked(f"mark-cut-{number}"), timeout=300)
                    marks.append(f"mark-cut-{number}")
                    hook(proxy.cuts)
        except Exception as fault:  # pylint: disable=broad-except
            faults.append(fault)

    threads = [threading.Thread(target=send) for _ in range(senders)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults, faults
    return marks


def cuts_wanted(ordinary):
    """How many inserts are cut off: FLAMETAP_CUTS, or a thousand with FLAMETAP_LONG."""
    return int(os.environ.get("FLAMETAP_CUTS") or (1000 if program.LONG else ordinary))


def cutting(rng):
    """Half of all inserts are cut off, but those that make the store."""
    return lambda number: number > 3 and rng.random() < 0.5


def all_once(server, url, database, marks):
    per_body = samples_of(handmade.marked("x"))
    assert int(server.ask("SELECT count() FROM flametap_samples", database)) == per_body * len(marks)
    assert int(server.ask("SELECT uniqExact(request, place) FROM flametap_samples", database)) == per_body * len(marks)
    assert int(server.ask("SELECT count() FROM flametap_requests", database)) == len(marks)
    got = [m for b in export(url) for m in handmade.marks_in(b.decode(errors="replace"))]
    assert sorted(got) == sorted(marks)


@pytest.mark.timeout(1800)
def test_the_connection_cut_after_the_body(old, database, tmp_path):
    """Inserts that are not answered; what is acknowledged is there, once."""
    proxy = Proxy(old.port, cutting(random.Random(5)))
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}") as server:
        marks = send_until(server, proxy, cuts_wanted(100))
    proxy.close()
    all_once(old, f"{old.url}/{database}", database, marks)


class Killing(Proxy):
    """Kills the sender of an insert in its midst. `ways`, of which one is chosen: True, the server has all of it; "part" or "late",
    the rest comes a while later."""

    def __init__(self, port, rng, ways):
        super().__init__(port, self.kill_one)
        self.rng, self.ways, self.sender = rng, ways, None

    def kill_one(self, number):
        sender, how = self.sender, self.rng.choice(self.ways)
        if not sender or sender.process.poll() is not None or self.rng.random() < 0.5:
            return False
        sender.process.kill()
        threading.Timer(self.rng.random(), self.come).start()
        return how

    def come(self):
        with contextlib.suppress(IndexError):
            while True:
                self.send_rest(*self.held.pop())


def keep_sending(server, marks, mark_of):
    """What was not acknowledged is sent again, to the end of this life. A spool would take thousands before the first insert is killed."""
    with clients.channel(server.grpc) as ch:
        while server.alive():
            time.sleep(0.02)
            waiting = [m for m, done in marks.items() if not done]
            mark = waiting[0] if waiting else mark_of()
            marks.setdefault(mark, False)
            if clients.export_status(ch, handmade.marked(mark), timeout=60)[0] == clients.OK:
                marks[mark] = True


def sent_over_kills(life, proxy, rounds):
    """The marks of what was sent by senders that repeat what was not answered: life() begins each life of the program."""
    numbers, marks = itertools.count(), {}
    for _ in range(rounds):
        with life() as server:
            proxy.sender = server
            keep_sending(server, marks, lambda: f"mark-killed-{next(numbers)}")
            server.kill()
    proxy.sender = None
    with life() as server, clients.channel(server.grpc) as ch:
        for m in [m for m, done in marks.items() if not done]:
            clients.export(ch, handmade.marked(m), timeout=300)
        last = f"mark-killed-{next(numbers)}"
        clients.export(ch, handmade.marked(last), timeout=300)
        yield [*marks, last]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("spooled", [True, False])
def test_killed_in_the_middle_of_an_insert(server, database, tmp_path, spooled):
    """kill -9 while an insert is on its way, again and again, the client repeating what was not answered: all of it is there, once.
    Without a spool nobody remembers an insert that lies on its way."""
    proxy = Killing(server.port, random.Random(9), [True, "part", "late"] if spooled else [True])
    url = f"http://127.0.0.1:{proxy.port}/{database}"

    def life():
        if spooled:
            return program.backend("-receiver", "clickhouse", "-clickhouse.url", url, "-spool-dir", tmp_path / "spool")
        return collecting(tmp_path, url)

    for marks in sent_over_kills(life, proxy, 200 if program.LONG else 15 if server.quick else 5):
        program.wait_for(lambda: int(server.ask("SELECT count() FROM flametap_requests", database)) >= len(marks), 60, "what lay in the spool")
    proxy.close()
    all_once(server, f"{server.url}/{database}", database, marks)


@pytest.mark.parametrize("table", ["samples", "requests"])
def test_an_insert_that_comes_late(server, database, tmp_path, table):
    """Its sender has long heard that the connection is gone, and has sent it again. A new server knows the block again, an old one
    refuses what comes in a session that has been closed."""
    proxy = Proxy(server.port, lambda number: number == 0 and "late", table=f"{table}%20")
    marks = [f"mark-late-{i}" for i in range(2)]
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}") as keeping, clients.channel(keeping.grpc) as ch:
        for m in marks:
            clients.export(ch, handmade.marked(m), timeout=300)
        assert len(proxy.held) == 1
        proxy.come()
    proxy.close()
    all_once(server, f"{server.url}/{database}", database, marks)


@pytest.mark.parametrize("table", ["samples", "requests"])
def test_an_insert_that_is_still_coming(old, database, tmp_path, table):
    """Its last byte is missing: system.processes does not name it yet. It is waited for, then counted."""
    proxy = Proxy(old.port, lambda number: number == 0 and "part", table=f"{table}%20")
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}") as keeping, clients.channel(keeping.grpc) as ch:
        waits = clients.export_later(ch, handmade.marked("mark-part-0"), timeout=300)
        program.wait_for(lambda: sum(body == "SET readonly = 1" for _, body in proxy.asked) > 10, 60, "questions whether it has ended")
        assert not waits.done()
        proxy.come()
        waits.result(timeout=300)
        assert sum(f"flametap_{table}%20" in line for line, _ in proxy.asked) == 1, "sent a second time"
    proxy.close()
    all_once(old, f"{old.url}/{database}", database, ["mark-part-0"])


def test_without_sessions(old, database, tmp_path):
    """Behind a balancer each call may find another server, which knows no session: inserts are made without."""
    proxy = Proxy(old.port, lambda number: False)
    proxy.forget = b"&session_id="
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}") as keeping, clients.channel(keeping.grpc) as ch:
        clients.export(ch, handmade.marked("mark-balanced-0"), timeout=300)
        assert "ClickHouse keeps no HTTP sessions" in keeping.log
    proxy.close()
    all_once(old, f"{old.url}/{database}", database, ["mark-balanced-0"])


@pytest.mark.parametrize("compress, packed", [("", ""), ("compress: auto", ""), ("compress: zstd", "gzip"), ("compress: none", "")])
def test_what_is_sent_to_this_machine_is_not_packed(old, database, tmp_path, compress, packed):
    proxy = Proxy(old.port, lambda number: False)
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}", compress) as server, clients.channel(server.grpc) as ch:
        clients.export(ch, handmade.marked("mark-packed-0"))
    proxy.close()
    assert set(proxy.packed) == {packed}
    assert len(export(f"{old.url}/{database}")) == 1


def test_a_quorum_is_asked_for_and_read_back(old, database, tmp_path):
    """insert_quorum: each insert waits for so many replicas, and what counts them reads what a quorum has."""
    proxy = Proxy(old.port, lambda number: False)
    with collecting(tmp_path, f"http://127.0.0.1:{proxy.port}/{database}", "insert_quorum: 2") as server, clients.channel(server.grpc) as ch:
        clients.export(ch, handmade.marked("mark-quorum-0"))
    proxy.close()
    inserts = [line for line, _ in proxy.asked if "INSERT" in line]
    assert len(inserts) >= 3 and all("&insert_quorum=2&" in line for line in inserts)
    counts = [line for line, body in proxy.asked if "FROM flametap_requests WHERE" in body]
    assert counts and all("&select_sequential_consistency=1" in line for line in counts)
    assert len(export(f"{old.url}/{database}")) == 1


@pytest.mark.parametrize("options, client, says", [
    ("ca_file: {ca}", False, None), ("insecure_skip_verify: true", False, None), ("ca_file: {ca}, cert_file: {cert}, key_file: {key}", True, None),
    ("ca_file: {ca}, server_name_override: localhost", False, None),
    ("", False, "ertificate"), ("ca_file: {other}", False, "ertificate"), ("ca_file: {ca}", True, "ClickHouse is not ready"),
    ("ca_file: {ca}, server_name_override: elsewhere", False, "elsewhere"),
])
def test_tls_to_the_server(old, database, tmp_path, options, client, says):
    """https:// with the server's authority, without it, with a certificate of ours; what is not trusted gets nothing."""
    ours, other = certificates.Authority(tmp_path / "ca", "ours"), certificates.Authority(tmp_path / "ca", "other")
    cert, key = ours.issue("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ours.issue("server"))
    if client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ours.file)
    proxy = Proxy(old.port, lambda number: False, tls=context)
    more = f"tls: {{{options.format(ca=ours.file, other=other.file, cert=cert, key=key)}}}"
    with collecting(tmp_path, f"https://127.0.0.1:{proxy.port}/{database}", more) as server, clients.channel(server.grpc) as ch:
        if says:
            program.wait_for(lambda: "ClickHouse is not ready" in server.log and says in server.log, 60, f"a refusal that says {says}")
        else:
            clients.export(ch, handmade.marked("mark-tls-0"), timeout=120)
    proxy.close()
    if says:
        assert not proxy.asked
    else:
        assert len(export(f"{old.url}/{database}")) == 1


def test_away_and_back(database, tmp_path):
    """While the server is away everything lies in the spool, over a restart of ours; then it comes, once."""
    folder = clickhouse.Folder()
    try:
        running = clickhouse.Debian(folder.path)
        url = f"{running.url}/{database}"
        words = ("-spool-dir", tmp_path / "spool")
        with Keeping(url, *words) as keeping:
            keeping.send(handmade.marked("mark-before-0"))
            keeping.settled(1)
            running.stop()
            keeping.send(*(handmade.marked(f"mark-away-{i}") for i in range(5)))
            program.wait_for(lambda: "cannot be written" in keeping.server.log, 60, "the server missed")
        with Keeping(url, *words) as keeping:
            keeping.send(handmade.marked("mark-later-0"))
            running.start()
            keeping.settled(6)
        marks = sorted(m for b in export(url) for m in handmade.marks_in(b.decode(errors="replace")))
        assert marks == sorted(["mark-before-0", "mark-later-0", *(f"mark-away-{i}" for i in range(5))])
        running.stop()
    finally:
        folder.remove()


FAILING = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}}}}}}}
exporters:
  clickhouse:
    endpoint: {url}
    database: {database}
    retry_on_failure: {{initial_interval: 50ms, max_interval: 100ms}}
extensions: {{web: {{endpoint: "127.0.0.1:0", store: "{url}/{database}"}}}}
service:
  extensions: [web]
  pipelines: {{profiles: {{receivers: [otlp], exporters: [clickhouse]}}}}
"""


def test_a_server_that_takes_nothing_is_told(old, database, tmp_path):
    """The page of the same process says since when and why; what comes meanwhile is kept, and inserted later."""
    config = tmp_path / "c.yaml"
    config.write_text(FAILING.format(url=old.url, database=database))
    with program.Server("collector", "--config", config) as server, clients.channel(server.grpc) as ch:
        def store():
            return web_pages.request(web_pages.page_of(server), "GET", "/api/v1/status").json()["store"]

        def requests():
            parts = f"SELECT sum(rows) FROM system.parts WHERE active AND database = '{database}' AND table = 'flametap_requests'"
            return int(old.ask(parts))

        clients.export(ch, handmade.marked("mark-before-0"))
        program.wait_for(lambda: requests() == 1, 60, "the first request")
        said = store()
        assert said["kind"] == "clickhouse" and said["path"] == f"{old.url}/{database}" and "failing" not in said
        old.ask("ALTER TABLE flametap_samples DROP COLUMN offsets", database)
        clients.export(ch, handmade.marked("mark-later-0"))
        program.wait_for(lambda: "failing" in store(), 60, "what fails")
        failing = store()["failing"]
        assert "offsets" in failing["error"] and int(failing["since_ns"]) > 10**18
        assert failing["refused"] == 0
        old.ask("ALTER TABLE flametap_samples ADD COLUMN offsets Array(UInt32)", database)
        program.wait_for(lambda: "failing" not in store(), 60, "all well again")
        program.wait_for(lambda: requests() == 2, 60, "the second request")
    assert len(export(f"{old.url}/{database}")) == 2


def test_a_part_that_is_there_is_completed(old, database, tmp_path):
    """Of a request only some samples are there, as after the loss of a shard or a killed exporter: only the rest is sent, and
    flametap_store_completed_requests_total counts it."""
    url, other = f"{old.url}/{database}", f"{old.url}/{database}_other"
    body = fixtures.body("v1.11.0-oncpu-mixed").bytes
    samples = fixtures.readme_table()["v1.11.0-oncpu-mixed"]["samples"]
    with Keeping(other) as keeping:
        keeping.send(body)
        keeping.settled(1)
    proxy = Proxy(old.port, lambda number: True)
    words = ("-spool-dir", tmp_path / "spool")
    with Keeping(f"http://127.0.0.1:{proxy.port}/{database}", *words) as keeping:
        keeping.send(body)  # into the spool: no insert of this exporter is ever answered
        program.wait_for(lambda: "cannot be written" in keeping.server.log, 60, "a cut connection")
    proxy.close()
    old.ask("TRUNCATE TABLE flametap_samples", database)
    old.ask(f"INSERT INTO flametap_samples SELECT * FROM {database}_other.flametap_samples WHERE place % 3 = 1", database)
    old.ask(f"INSERT INTO flametap_dictionary SELECT * FROM {database}_other.flametap_dictionary", database)  # what their numbers mean
    there = int(old.ask("SELECT count() FROM flametap_samples", database))
    assert 0 < there < samples
    with Keeping(url, *words) as keeping:
        keeping.settled(1)
        assert keeping.metric("completed_requests") == 1 and keeping.metric("samples") == samples - there
    assert int(old.ask("SELECT count() FROM flametap_samples", database)) == samples
    assert views(export(url)) == views(export(other))


# ---- options ----

@pytest.mark.parametrize("url, says", [
    ("tcp://127.0.0.1:9000/db", "8123"),
    ("clickhouse://127.0.0.1:9000", "8123"),
    ("127.0.0.1:8123", "http://"),
    ("http://user:secret@127.0.0.1:8123/db", "password"),
    ("http:///db", "no host"),
])
def test_wrong_endpoints(url, says):
    done = program.run("backend", "-receiver", "clickhouse", "-clickhouse.url", url, "-grpc-address", "127.0.0.1:0",
                       "-http-address", "")
    assert done.returncode != 0
    assert says in done.stderr.decode() and "secret" not in done.stderr.decode()


@pytest.mark.parametrize("compress", ["lz4", "zstd", "gzip", "deflate", "br", "none", "true", "false"])
def test_keys_of_the_contrib_exporter(tmp_path, compress):
    """A section that people have for it is taken as it is."""
    config = tmp_path / "config.yaml"
    config.write_text("""
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters:
  clickhouse:
    endpoint: http://127.0.0.1:1
    username: u
    password: p
    database: d
    tls: {insecure: true, insecure_skip_verify: false}
    ttl: 72h
    cluster_name: c
    table_engine: {name: ReplicatedMergeTree}
    create_schema: false
    async_insert: true
    wait_for_async_insert: true
    compress: %s
    timeout: 5s
    retry_on_failure: {enabled: true, initial_interval: 1s, max_interval: 5s, max_elapsed_time: 60s}
    sending_queue: {enabled: true, queue_size: 100}
service: {pipelines: {profiles: {receivers: [otlp], exporters: [clickhouse]}}}
""" % compress)
    program.run("collector", "validate", "--config", config, check=0)


def test_password_from_a_file(old, database, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    url = f"http://keeper@127.0.0.1:{old.port}/{database}"
    with Keeping(url, "-clickhouse.password-file", secret) as keeping:
        keeping.send(handmade.marked("secret"))
        keeping.settled(1)
        words = open(f"/proc/{keeping.server.pid}/cmdline", "rb").read()
        assert b"sesame" not in words
    done = program.run("export", "--db", url)
    assert done.returncode == 1 and b"assword" in done.stderr and b"e.what()" not in done.stderr
    for name, value in (("FLAMETAP_CLICKHOUSE_PASSWORD", "open sesame"), ("FLAMETAP_CLICKHOUSE_PASSWORD_FILE", str(secret))):
        assert program.run("export", "--db", url, env=program.environment(**{name: value}), check=0).stdout


def test_retention_without_the_servers_help(old, database):
    """18.16 has no TTL: days of arrival that are over go as whole partitions; what lately arrived stays, however old it is."""
    url = f"{old.url}/{database}"
    with Keeping(url) as keeping:
        keeping.send(fixtures.body("v1.11.0-oncpu-start").bytes)
        keeping.settled(1)
    day = int(old.ask("SELECT toUInt16(min(date)) FROM flametap_samples", database))
    columns = old.ask("SELECT arrayStringConcat(groupArray(name), ',') FROM system.columns WHERE table='flametap_samples' AND "
                      f"database='{database}' AND default_kind != 'ALIAS'").replace("values", "`values`")
    assert columns.startswith("date,")
    old.ask(f"INSERT INTO flametap_samples SELECT toDate({day - 40}),{columns.partition(',')[2]} FROM flametap_samples", database)
    assert len(old.rows("SELECT DISTINCT date FROM flametap_samples", database)) == 2
    with Keeping(url, "-clickhouse.ttl", "720h"):
        program.wait_for(lambda: len(old.rows("SELECT DISTINCT date FROM flametap_samples", database)) == 1, 60, "the old day gone")
    assert len(export(url)) == 1


def test_sql_in_plain_words(server, database):
    """What docs/clickhouse.md says can be asked in SQL: samples beside the views of the dictionary."""
    body = fixtures.body("v1.11.0-oncpu-mixed").bytes
    with Keeping(f"{server.url}/{database}") as keeping:
        keeping.send(body)
        keeping.settled(1)
    request = NEWEST.Request.FromString(body)
    profiles = [p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles]
    value = sum(sum(x.values) if x.values else max(len(x.timestamps_unix_nano), 1) for p in profiles for x in p.samples)
    documented = re.search(r"^SELECT .* FROM flametap_samples ANY[^;]*", (fixtures.ROOT / "docs" / "clickhouse.md").read_text(), re.M).group(0)
    assert sum(int(total) for _, total in server.rows(documented, database)) == value
    strings = request.dictionary.string_table
    wanted = {(strings[request.dictionary.attribute_table[a].key_strindex],
               request.dictionary.attribute_table[a].value.string_value or str(request.dictionary.attribute_table[a].value.int_value))
              for p in profiles for x in p.samples for a in x.attribute_indices}
    rows = server.rows("SELECT k, v FROM (SELECT DISTINCT keys, values_of FROM flametap_attributes WHERE id IN (SELECT attributes FROM "
                       "flametap_samples)) ARRAY JOIN keys AS k, values_of AS v", database)
    assert {tuple(r) for r in rows} == wanted


def test_one_insert_is_one_part(old, database):
    url = f"{old.url}/{database}"
    with Keeping(url) as keeping:
        keeping.send(fixtures.body(fixtures.BIG).bytes)
        keeping.settled(1)
    assert old.ask("SELECT count() FROM system.parts WHERE table='flametap_samples' AND active AND database="
                   f"'{database}'") == "1"


def test_a_store_of_another_version_is_refused(old, database):
    url = f"{old.url}/{database}"
    with Keeping(url) as keeping:
        keeping.send(handmade.marked("x"))
        keeping.settled(1)
    old.ask("INSERT INTO flametap_dictionary (kind, seen, numbers) VALUES (66, '2100-01-01', [1000])", database)
    done = program.run("export", "--db", url)
    assert done.returncode == 1 and b"version 1000, this flametap reads and writes only version 1" in done.stderr
    done = program.run("top", "--db", f"{old.url}/nobody_made_it")
    assert done.returncode == 1 and b"nobody_made_it" in done.stderr


@pytest.mark.parametrize("said, first", [("", "inuse_space"), ("alloc_space", "alloc_space")])
def test_the_type_that_its_maker_wants_first_is_shown_first(server, database, tmp_path, said, first):
    url, otlp = f"{server.url}/{database}", tmp_path / "otlp"
    program.run("export", "--format", "otlp", test_pprof.heap(tmp_path / "heap.pb", said), "-o", otlp, check=0)
    with Keeping(url) as keeping:
        keeping.send(otlp.read_bytes())
        keeping.settled(1)
    assert test_pprof.type_shown("--db", url) == first
