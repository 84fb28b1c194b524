"""flametap symbolize: addresses in a store get the names that binutils' addr2line has for them, and what was sent stays as it was."""

import http.server
import json
import re
import shutil
import sqlite3
import subprocess
import threading

import pytest

import clients
import program
import query_bodies
import web_pages

SOURCE = """
static inline __attribute__((always_inline)) int innermost(int v) { return v * v %% 7; }
static inline __attribute__((always_inline)) int middle(int v) { return innermost(v) + innermost(v + %d); }
__attribute__((noinline)) int outer(int v) { return middle(v) ^ v; }
__attribute__((noinline)) int plain(int v) { return outer(v) + 1; }
int main(int argc, char **argv) { (void)argv; return plain(argc); }
"""


class Binary:
    """A program built here: its build id, and some addresses of its functions."""

    def __init__(self, folder, name, number):
        self.path = folder / name
        source = folder / f"{name}.c"
        source.write_text(SOURCE % number)
        subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", self.path, source], check=True)
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", self.ask("readelf", "-n", self.path))[1]
        symbols = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) T (outer|plain|main)$", self.ask("nm", "-S", self.path), re.M)
        self.addresses = [a for start, size, _ in symbols for a in range(int(start, 16), int(start, 16) + int(size, 16), 3)]
        self.names = {a: self.lines(a) for a in self.addresses}

    @staticmethod
    def ask(*words):
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout

    def lines(self, address):
        """[(function, line)], innermost first, by addr2line."""
        words = self.ask("addr2line", "-f", "-i", "-e", self.path, hex(address)).splitlines()
        return [(f, int(re.match(r"\d+", at.rsplit(":", 1)[1])[0])) for f, at in zip(words[::2], words[1::2])]


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binaries")
    return [Binary(folder, "first", 1), Binary(folder, "second", 2)]


@pytest.fixture(scope="module")
def body(binaries):
    m = query_bodies.Maker()
    profile = m.request.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=query_bodies.TIME, period=1)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = m.string("cpu"), m.string("nanoseconds")
    for b in binaries:
        mapping = m.mapping(b.path.name)
        m.d.mapping_table[mapping].attribute_indices.append(m.attribute("process.executable.build_id.gnu", b.build_id))
        for address in b.addresses:
            m.d.stack_table.add(location_indices=[m.location("native", b.path.name, (), address)])
            profile.samples.add(stack_index=len(m.d.stack_table) - 1, values=[1])
    sent = m.d.location_table.add(mapping_index=m.mapping("first"), address=binaries[0].addresses[0] + 1)  # this one came with a name
    sent.lines.add(function_index=m.function("as_sent", "sent.c"), line=3)
    m.d.stack_table.add(location_indices=[len(m.d.location_table) - 1])
    profile.samples.add(stack_index=len(m.d.stack_table) - 1, values=[1])
    return m.request.SerializeToString()


@pytest.fixture
def store(tmp_path, body):
    db = tmp_path / "flametap.db"
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as server:
        assert clients.post(server.http, body).status == 200
    return db


def symbolize(db, *words, check=0, **variables):
    env = program.environment() | {"DEBUGINFOD_URLS": ""} | {k: str(v) for k, v in variables.items()}
    return program.run("symbolize", "--db", db, *words, check=check, env=env).stdout.decode()


def shown(db, by="line"):
    """{name: self} of the store's top table, told apart by line."""
    answer = json.loads(program.run("top", "--json", "-n", "0", "--by", by, "--db", db, check=0).stdout)
    return {(r["name"], r["inlined"]): r["self"][0] for r in answer["top"]["rows"] if r["self"][0]}


def wanted(*binaries, bare=()):
    rows = {("as_sent sent.c:3", False): 1}
    for b in binaries:
        for lines in b.names.values():
            key = (f"{lines[0][0]} {b.path.name}.c:{lines[0][1]}", len(lines) > 1)
            rows[key] = rows.get(key, 0) + 1
    for b in bare:
        rows[(f"{b.path.name}+?", False)] = len(b.addresses)
    return rows


def test_names_are_those_of_addr2line(store, binaries):
    first, second = binaries
    before = program.run("export", "--db", store, check=0).stdout
    assert shown(store) == wanted(bare=binaries)
    out = symbolize(store, "--files", first.path)
    everything = len(first.addresses) + len(second.addresses)
    assert f"{len(first.addresses)} of {everything} addresses named, in 1 of 2 files" in out and f"second (build id {second.build_id})" in out
    assert shown(store) == wanted(first, bare=[second])
    out = symbolize(store, "--files", first.path.parent)
    assert f"{len(second.addresses)} of {len(second.addresses)} addresses named, in 1 of 1 files" in out, "what has names is not asked again"
    assert shown(store) == wanted(*binaries)
    assert program.run("export", "--db", store, check=0).stdout == before, "what was sent comes back as it was"
    assert symbolize(store) == "0 of 0 addresses named, in 0 of 0 files\n"
    assert f"{everything} of {everything} addresses named" in symbolize(store, "--again", "--no-lines", "--files", first.path.parent)
    assert {name for name, _ in shown(store)} >= {"outer", "plain", "main"} and not any(inlined for _, inlined in shown(store))


PAGE = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
exporters: {nop: {}}
extensions: {web: {endpoint: "127.0.0.1:0", store: "%s", uploads: "%s"}}
service:
  extensions: [web]
  pipelines: {profiles: {receivers: [otlp], exporters: [nop]}}
"""


def check_tags(store, folder, binaries):
    """An answer's entity tag holds until names are found: then the answer is another, although no sample came."""
    config, first = folder / "page.yaml", binaries[0]
    config.write_text(PAGE % (store, folder / "uploads"))

    def ask(page, have=None):
        got = web_pages.request(page, "GET", web_pages.target("top", web_pages.ALWAYS), headers={"If-None-Match": have} if have else {})
        return got.status, got.headers["etag"], got.body

    with program.Server("collector", "--config", config) as server:
        page = web_pages.page_of(server)
        _, tag, before = ask(page)
        assert ask(page, tag)[:2] == (304, tag)
        for words in (["--files", first.path], ["--files", first.path, "--again", "--no-lines"]):
            symbolize(store, *words)
            status, new, after = ask(page, tag)
            assert status == 200 and new != tag and after != before and b'"outer"' in after
            assert ask(page, new)[0] == 304
            tag, before = new, b""


def test_what_a_client_has_is_sent_again_with_its_names(store, tmp_path, binaries):
    check_tags(store, tmp_path, binaries)


def test_the_sqlite3_shell_sees_the_names(store, binaries):
    first, second = binaries
    symbolize(store, "--files", first.path)
    with sqlite3.connect(store) as c:
        frames, texts = {}, {}
        for build_id, address, place, function, file, line in c.execute("SELECT build_id, address, place, function, file, line FROM frames ORDER BY place"):
            frames.setdefault((build_id, int(address, 16)), []).append((function, line))
            assert (place is None) == (build_id == second.build_id) == (file is None)
        for build_id, address, text in c.execute("SELECT build_id, address, text FROM stacks_text JOIN stack s ON s.id=stack_id JOIN location l ON "
                                                 "hex(s.locations)=printf('%02X', l.id) OR l.id>127 AND hex(s.locations)=printf('%02X%02X', l.id & 127 | 128, l.id >> 7) "
                                                 "JOIN mapping m ON m.id=l.mapping_id"):
            texts[build_id, address] = text
    c.close()
    sent = first.addresses[0] + 1
    assert frames.pop((first.build_id, sent)) == [("as_sent", 3)] and texts.pop((first.build_id, sent)) == "as_sent"
    want = {(first.build_id, a): lines for a, lines in first.names.items()}
    want |= {(second.build_id, a): [(f"second+{a:#x}", None)] for a in second.addresses}
    assert frames == want
    assert texts == {k: ";".join(f for f, _ in reversed(lines)) for k, lines in want.items()}


def test_a_stripped_program_is_named_by_its_debug_file(tmp_path, store, binaries):
    first, second = binaries
    debug = tmp_path / "debug" / ".build-id" / first.build_id[:2] / f"{first.build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    Binary.ask("objcopy", "--only-keep-debug", first.path, debug)
    lying = tmp_path / "debug" / ".build-id" / second.build_id[:2] / f"{second.build_id[2:]}.debug"
    lying.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(debug, lying)  # another program's
    folder = tmp_path / "bin"
    folder.mkdir()
    Binary.ask("strip", "-o", folder / "first", first.path)
    (folder / "noise").write_bytes(b"\x7fELF" + bytes(100))
    symbolize(store, "--files", folder, "--debug-dir", tmp_path / "debug")
    assert shown(store) == wanted(first, bare=[second])


def test_a_debug_file_alone_is_enough(tmp_path, store, binaries):
    first, second = binaries
    debug = tmp_path / "debug" / ".build-id" / first.build_id[:2] / f"{first.build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    Binary.ask("objcopy", "--only-keep-debug", first.path, debug)
    symbolize(store, "--debug-dir", tmp_path / "debug")
    assert shown(store) == wanted(first, bare=[second])


def test_servers_of_debug_files_are_asked(tmp_path, store, binaries):
    first, second = binaries
    debug = tmp_path / "first.debug"
    Binary.ask("objcopy", "--only-keep-debug", first.path, debug)
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path != f"/buildid/{first.build_id}/debuginfo":
                self.send_error(404)
                return
            body = debug.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        symbolize(store, DEBUGINFOD_URLS=f"http://127.0.0.1:{server.server_address[1]}/")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(program.HANG)
    assert set(asked) == {f"/buildid/{b.build_id}/debuginfo" for b in binaries}
    assert shown(store) == wanted(first, bare=[second])


def test_beside_a_writer(tmp_path, body, binaries):
    db = tmp_path / "live.db"
    with program.backend("-receiver", "sqlite", "-sqlite.path", db) as server:
        assert clients.post(server.http, body).status == 200
        symbolize(db, "--files", binaries[0].path.parent)
        assert shown(db) == wanted(*binaries)
        more = query_bodies.Maker()
        profile = more.request.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=query_bodies.TIME + 1, period=1)
        profile.sample_type.type_strindex, profile.sample_type.unit_strindex = more.string("cpu"), more.string("nanoseconds")
        more.d.stack_table.add(location_indices=[more.location("native", "x", ("later",), 7)])
        profile.samples.add(stack_index=1, values=[5])
        assert clients.post(server.http, more.request.SerializeToString()).status == 200
    assert sum(shown(db).values()) == sum(wanted(*binaries).values()) + 5


@pytest.mark.parametrize("make, message", [
    (lambda p: None, "cannot open the store"),
    (lambda p: p.write_text("hello, this is no database, however long it may be" * 40), "x.db"),
    (lambda p: sqlite3.connect(p).executescript("CREATE TABLE t(x)").close(), "not a store of flametap"),
    (lambda p: p.mkdir(), "cannot open the store"),
])
def test_what_is_no_store_is_refused(tmp_path, make, message):
    path = tmp_path / "x.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    done = program.run("symbolize", "--db", path, check=1)
    assert message in done.stderr.decode()
    assert (path.read_bytes() if path.is_file() else None) == before
    assert b"ClickHouse does not answer" in program.run("symbolize", "--db", "http://127.0.0.1:1/", check=1).stderr
