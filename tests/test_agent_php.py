"""PHP: whole chains of functions in order, from the main script to the leaf, through C and back; names, files and lines."""

import collections
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import pytest

import agents
import ports
import program
from agents import needs_bpf  # noqa: F401

SOURCES = pathlib.Path(__file__).resolve().parent / "support" / "languages"
TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "runtimes"
JIT = ["-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=32M", "-d"]
MODES = {
    "plain": [],
    "opcache": ["-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=0"],
    "function": [*JIT, "opcache.jit=function"],
    "tracing": [*JIT, "opcache.jit=tracing"],
}
RECORDED_S = 10


def php_builds():
    """version -> (root folder, program in it)"""
    listed = subprocess.run([TOOL, "--list"], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {version: (pathlib.Path(root), path) for runtime, version, root, path in rows if runtime == "php"}


class Known:
    """The tree of calls that known.php makes: its marks are "#CALLER>CALLEE", at the line of the call."""

    def __init__(self):
        self.lines = collections.defaultdict(set)  # (caller, callee) -> lines
        self.callees = collections.defaultdict(set)
        for name in ("known.php", "known_included.inc"):
            for number, text in enumerate((SOURCES / name).read_text().splitlines(), 1):
                for caller, callee in re.findall(r"#([^\s>]+)>([^\s>]+)", text):
                    self.lines[caller, callee].add(1 if caller == "eval" else number)
                    self.callees[caller].add(callee)

    @staticmethod
    def same(node, name):
        return node == name or (node.startswith("{closure}") and name.startswith("{closure"))

    def path(self, names):
        """The nodes that these frames are, outermost first, callers may be missing; None: there is no such chain of calls."""
        start = [node for node in ("{main}", *self.callees) if names and self.same(node, names[0])]
        if not start:
            return None
        nodes = start[:1]
        for name in names[1:]:
            found = [callee for callee in self.callees[nodes[-1]] if self.same(callee, name)]
            if not found:
                return None
            nodes.append(found[0])
        return nodes

    def wrong_lines(self, nodes, frames):
        """Calls whose frame names another line, by more than one."""
        for node, callee, frame in zip(nodes, nodes[1:], frames):
            (_, line, file), = frame.lines
            if file and not any(abs(line - right) <= 1 for right in self.lines[node, callee]):
                yield f"{node} calls {callee} at line {line} of {file}"


# Called by C, which stands between.
CALLED_BACK = {("usort", "{closure}by_sorting"), ("array_map", "Mapper::one"), ("preg_replace_callback", "{closure}by_pattern")}


def in_order(nodes, frames, php):
    """Does C lie where it called PHP back, and nowhere else between functions that call each other?"""
    at = [frames.index(f) for f in php]
    for i, edge in enumerate(zip(nodes, nodes[1:])):
        between = at[i + 1] - at[i] - 1
        if edge in CALLED_BACK and not between:
            return False
        if edge in {("work", "by_recursion"), ("by_recursion", "Sale::recurse"), ("Sale::total", "burn")} and between:
            return False
    return True


def judge(known, events, lines=True):
    """Shares of all samples, and what is wrong, by kind."""
    wrong = collections.defaultdict(list)
    for e in events:
        frames = list(reversed(e.frames))
        php = [f for f in frames if f.kind == "php"]
        nodes = known.path([f.names[0] for f in php])
        if any(f.kind == "abort-marker" for f in frames):
            wrong["cut"].append(e.names)
        elif not php:
            wrong["no php"].append(e.names)
        elif not nodes:
            wrong["chain"].append([f.names[0] for f in php])
        elif nodes[0] != "{main}":
            wrong["callers missing"].append(e.names)
        elif not in_order(nodes, frames, php):
            wrong["order"].append(e.names)
        elif lines:
            found = list(known.wrong_lines(nodes, php))
            if found:
                wrong["line"].append(found)
    return wrong


def put_known(root):
    """The folder of known.php in its root. opcache does not keep files that were changed a moment ago."""
    folder = root / "tmp" / "flametap-known"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("known.php", "known_included.inc"):
        text = (SOURCES / name).read_text()
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)
    age = time.time() - max(f.stat().st_mtime for f in folder.iterdir())
    time.sleep(max(0, 3 - age))
    return folder


def start_known(root, path, words):
    put_known(root)
    return subprocess.Popen(["chroot", root, path, *words, "/tmp/flametap-known/known.php", "100"], stdout=subprocess.DEVNULL)


def record(pid, out, seconds=RECORDED_S):
    program.run("record", "-p", pid, "-F", "499", "-d", f"{seconds}s", "-o", out, check=0, timeout=seconds + 60)
    return [e for e in agents.Report(out.read_bytes()).events() if e.resource.get("process.pid") == pid]


def check_mode(version, mode, tmp_path):
    root, path = php_builds()[version]
    process = start_known(root, path, MODES[mode])
    try:
        events = record(process.pid, tmp_path / "php.otlp")
    finally:
        process.kill()
        process.wait(program.HANG)
    check_events(f"PHP {version} {mode}", events, mode in ("function", "tracing"))


def check_events(what, events, jit):
    known = Known()
    wrong = judge(known, events, lines=not jit)
    begin_ns = min(e.time_ns for e in events)
    first = [e for e in events if e.time_ns - begin_ns < 10**9]
    first_wrong = sum(map(len, judge(known, first, lines=not jit).values()))
    counts = {kind: len(found) for kind, found in wrong.items()}
    print(f"{what}: {len(events)} samples, wrong {counts}; first second {len(first)}, wrong {first_wrong}")
    examples = "\n".join(f"{kind}: {found[len(found) // 2]}" for kind, found in wrong.items())
    assert len(events) > 100 * RECORDED_S
    burning = sum(any(n == "burn" for n in e.names) for e in events)
    assert burning > 0.4 * len(events), f"{burning} of {len(events)} burn\n{examples}"
    assert sum(counts.values()) <= (0.05 if jit else 0.03) * len(events), examples
    assert first_wrong <= 0.2 * len(first), examples
    assert not wrong["chain"], examples


def cases():
    builds = sorted(php_builds(), key=lambda v: [int(n) for n in v.split(".")])
    chosen = builds if program.LONG else builds[:1] + builds[-1:]
    for version in dict.fromkeys(chosen):
        for mode in MODES:
            if mode in ("plain", "opcache") or version != "7.4":
                yield version, mode


@pytest.mark.parametrize(("version", "mode"), list(cases()))
def test_known_stacks_of_php(needs_bpf, tmp_path, version, mode):
    check_mode(version, mode, tmp_path)


@pytest.mark.parametrize("mode", ["plain", "tracing"])
def test_php_with_threads(needs_bpf, tmp_path, mode):
    """ZTS: each thread has its globals in its own resources."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "flametap" / "runtimes"
    folder = pathlib.Path(os.environ.get("FLAMETAP_RUNTIMES", cache)) / "php" / "8.2-zts"
    if not (folder / "bin" / "php").exists():
        pytest.skip("SKIPPED ALOUD: no PHP with threads is here; tools/php-zts builds it")
    opcache, = folder.glob("lib/php/extensions/*/opcache.so")
    process = start_known(pathlib.Path("/"), folder / "bin" / "php", ["-n", "-d", f"zend_extension={opcache}", *MODES[mode]])
    try:
        events = record(process.pid, tmp_path / "php.otlp")
    finally:
        process.kill()
        process.wait(program.HANG)
    check_events(f"PHP 8.2 with threads, {mode}", events, mode == "tracing")


def need(root, path, package):
    if not (root / path.lstrip("/")).exists():
        pytest.skip(f"SKIPPED ALOUD: no {path}: chroot {root} apt-get install {package}")


def fastcgi(number, content, kind=1):
    return struct.pack(">BBHHBB", 1, kind, number, len(content), 0, 0) + content


def ask_fpm(path, script):
    """A request by FastCGI, which is not waited for."""
    names = {"SCRIPT_FILENAME": script, "REQUEST_METHOD": "GET"}
    pairs = b"".join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in names.items())
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    connection.sendall(fastcgi(1, struct.pack(">HB5x", 1, 0)) + fastcgi(1, pairs, 4) + fastcgi(1, b"", 4) + fastcgi(1, b"", 5))
    return connection


def test_fpm(needs_bpf, tmp_path):
    if "8.4" not in php_builds():
        pytest.skip("SKIPPED ALOUD: no PHP 8.4 is here; tools/runtimes php 8.4 fetches it")
    root, _ = php_builds()["8.4"]
    need(root, "/usr/sbin/php-fpm8.4", "php8.4-fpm")
    folder = put_known(root)
    listen = folder / "fpm.socket"
    (folder / "fpm.conf").write_text("[global]\nerror_log = /dev/null\n[www]\nuser = root\ngroup = root\npm = static\n"
                                     "pm.max_children = 1\nlisten = /tmp/flametap-known/fpm.socket\n")
    server = subprocess.Popen(["chroot", root, "/usr/sbin/php-fpm8.4", "-F", "-R", "-y", "/tmp/flametap-known/fpm.conf"])
    try:
        worker, = program.wait_for(lambda: listen.exists() and agents.children(server.pid), what="the worker of PHP-FPM")
        connection = program.wait_for(lambda: ask_fpm(listen, "/tmp/flametap-known/known.php"), what="an answer")
        events = record(worker, tmp_path / "php.otlp")
        connection.close()
    finally:
        server.terminate()
        server.wait(program.HANG)
        listen.unlink(missing_ok=True)
    check_events("PHP-FPM 8.4", events, False)


def test_apache(needs_bpf, tmp_path):
    if "8.2" not in php_builds():
        pytest.skip("SKIPPED ALOUD: no PHP 8.2 is here; tools/runtimes php 8.2 fetches it")
    root, _ = php_builds()["8.2"]
    need(root, "/usr/lib/apache2/modules/libphp8.2.so", "libapache2-mod-php8.2")
    folder = put_known(root)
    port = ports.free_port()
    modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/{file}.so\n" for name, file in (
        ("mpm_prefork", "mod_mpm_prefork"), ("authz_core", "mod_authz_core"), ("php", "libphp8.2")))
    (folder / "apache.conf").write_text(
        f"{modules}Listen 127.0.0.1:{port}\nServerName localhost\nDocumentRoot /tmp/flametap-known\nErrorLog /dev/null\n"
        "PidFile /tmp/flametap-known/apache.pid\nDefaultRuntimeDir /tmp/flametap-known\n"
        "<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n")
    server = subprocess.Popen(["chroot", root, "/usr/sbin/apache2", "-X", "-f", "/tmp/flametap-known/apache.conf"])
    try:
        connection = program.wait_for(lambda: ask_http(port, "/known.php"), what="Apache")
        events = record(server.pid, tmp_path / "php.otlp")
        connection.close()
    finally:
        server.kill()
        server.wait(program.HANG)
    check_events("PHP 8.2 in Apache", events, False)


def ask_http(port, path):
    """A connection with a request on it; None: nobody listens yet."""
    try:
        connection = socket.create_connection(("127.0.0.1", port), 5)
    except ConnectionRefusedError:
        return None
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return connection


def test_php_is_at_hand():
    if not php_builds():
        pytest.skip("SKIPPED ALOUD: no PHP is here; tools/runtimes php fetches it")
