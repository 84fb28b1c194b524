"""The command line and the configuration: --print-config, errors with their place and a suggestion, environment, help, link names."""

import re
import subprocess

import pytest
import yaml

import clients
import fixtures
import program

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
MINIMAL = """\
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: "127.0.0.1:0"
exporters:
  nop:
service:
  pipelines:
    profiles:
      receivers: [otlp]
      exporters: [nop]
"""


# ---- --print-config ----

BACKENDS = [
    [],
    ["-receiver", "stdout,filesystem,prometheus,nop", "-filesystem.dir", "/tmp/x y", "-filesystem.format", "jsonl"],
    ["-receiver", "otlp,otlphttp", "-otlp.endpoint", "localhost:4317", "-otlp.insecure", "-otlphttp.endpoint", "http://localhost:4318",
     "-spool-dir", "/tmp/spool", "-spool-max-mib", "7", "-otlp.headers", "a=b,c=d", "-otlp.wire-version", "1.9"],
    ["-grpc-address", "[::1]:14317", "-http-address", "", "-max-recv-msg-size-mib", "3", "-max-inflight-mib", "32", "-strict"],
    ["-tls-cert", "c.pem", "-tls-key", "k.pem", "-tls-client-ca", "ca.pem", "-wire-version", "1.8", "-metrics-address", "127.0.0.1:8888"],
    ["-stdout.layout", "typed", "-stdout.sample-types", "samples,off_cpu", "-stdout.frame-types", "native,kernel", "--stdout.color=never"],
]


def printed(*words, **options):
    return program.run(*words, "--print-config", check=0, **options).stdout


@pytest.mark.parametrize("flags", BACKENDS, ids=lambda f: " ".join(f) or "defaults")
def test_print_config_of_backend_is_a_fixed_point_in_collector(flags, tmp_path):
    first = printed("backend", *flags)
    config = yaml.safe_load(first)
    assert config["service"]["pipelines"]["profiles"]["receivers"] == ["otlp"]
    file = tmp_path / "printed.yaml"
    file.write_bytes(first)
    assert printed("collector", "--config", file) == first


def test_print_config_of_collector_is_a_fixed_point(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL)
    first = printed("collector", "--config", file)
    file.write_bytes(first)
    assert printed("collector", "--config", file) == first
    assert printed("collector", "--config", f"file:{file}") == first


def test_printed_backend_runs_the_same_in_collector(start, tmp_path):
    """The YAML is not only the same text: it does the same."""
    file = tmp_path / "printed.yaml"
    file.write_bytes(printed("backend", "-grpc-address", "127.0.0.1:0", "-http-address", "127.0.0.1:0", "-stdout.layout", "seed-001"))
    server = start("collector", "--config", file)
    with clients.channel(server.grpc) as ch:
        clients.export(ch, SMALL.bytes)
    assert server.stdout == program.run("decode", "--layout", "seed-001", SMALL.path).stdout


def test_secrets_are_not_printed(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace("  nop:", "  otlp_http:\n    endpoint: http://localhost:1\n    headers:\n      Authorization: \"Bearer ${env:TOKEN}\"\n"
                                    "      X-Plain: hunter2\n").replace("[nop]", "[otlp_http]"))
    out = printed("collector", "--config", file, env=program.environment(TOKEN="s3cret")).decode()
    assert "s3cret" not in out and "hunter2" not in out
    assert "${env:TOKEN}" in out and "[REDACTED]" in out
    # fed back it prints the same, but is not run with a wrong secret
    file.write_text(out)
    assert printed("collector", "--config", file, env=program.environment(TOKEN="s3cret")).decode() == out
    for words in (["collector"], ["validate"]):
        done = program.run(*words, "--config", file, env=program.environment(TOKEN="s3cret"), check=1)
        err = done.stderr.decode()
        where = place(out, "'[REDACTED]'")
        assert f"{file}:{where}" in err and "write it again, best as ${env:NAME}" in err and '"X-Plain"' in err, err


# ---- errors with a place ----

def broken(tmp_path, text, *words, name="c.yaml"):
    file = tmp_path / name
    file.write_text(text)
    done = program.run("collector", "--config", file, *words)
    assert done.returncode == 1, done.stderr
    return file, done.stderr.decode()


def place(text, needle):
    """line:column of a word in a YAML text."""
    at = text.index(needle)
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


@pytest.mark.parametrize("wrong, right, needle, words", [
    ("endpoint:", "endpont:", "endpont", ["endpont", "endpoint"]),
    ("exporters:\n  nop:", "exporters:\n  nopp:", "nopp", ["unknown type", "nopp", "nop"]),
    ("receivers: [otlp]", "receivers: [otpl]", "otpl", ["references receiver", "otpl", "not configured"]),
    ("exporters: [nop]", "exporters: []", None, ["must have at least one exporter"]),
    ("    profiles:\n", "    profile:\n", "profile:", ["profile", "profiles"]),
    ("service:", "servcie:", "servcie", ["servcie", "service"]),
    ('"127.0.0.1:0"', "[1, 2]", "[1, 2]", ["endpoint"]),
    ("      grpc:\n        endpoint: \"127.0.0.1:0\"\n", "      {}\n", None, ["must specify at least one protocol"]),
])
def test_errors_name_the_place_and_suggest(tmp_path, wrong, right, needle, words):
    text = MINIMAL.replace(wrong, right)
    assert text != MINIMAL
    file, err = broken(tmp_path, text)
    if needle:
        assert f"{file}:{place(text, needle)}" in err, err
    for w in words:
        assert w in err, err


def test_collector_texts_that_people_search_for(tmp_path):
    _, err = broken(tmp_path, MINIMAL.replace("endpoint:", "endpont:"))
    assert "has invalid keys: endpont" in err
    _, err = broken(tmp_path, MINIMAL.replace("  nop:", "  nosuch:").replace("[nop]", "[nosuch]"))
    assert 'unknown type: "nosuch" for id: "nosuch"' in err
    _, err = broken(tmp_path, MINIMAL.replace("[nop]", "[debug]"))
    assert 'references exporter "debug" which is not configured' in err
    done = program.run("collector")
    assert done.returncode == 1 and b"at least one config flag must be provided" in done.stderr
    done = program.run("collector", "--config", tmp_path / "nope.yaml")
    assert done.returncode == 1 and b"no such file or directory" in done.stderr.lower() and b"nope.yaml" in done.stderr
    done = program.run("collector", "--config", tmp_path / "c.yaml", "--feature-gates=foo")
    assert done.returncode == 1 and b'no such feature gate "foo"' in done.stderr


def test_all_errors_at_once(tmp_path):
    text = MINIMAL.replace("endpoint:", "endpont:").replace("  nop:", "  nop:\n    colour: red")
    _, err = broken(tmp_path, text)
    assert "endpont" in err and "colour" in err


def test_yaml_syntax_error_has_its_place(tmp_path):
    file, err = broken(tmp_path, MINIMAL + "  bad: [unclosed\n")
    assert re.search(re.escape(str(file)) + r":1[3-4]", err), err


def test_validate_word(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL)
    done = program.run("collector", "validate", "--config", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    file.write_text(MINIMAL.replace("[nop]", "[nip]"))
    assert program.run("collector", "validate", "--config", file).returncode == 1


# ---- several sources, environment ----

def test_sources_merge_and_set_wins(tmp_path):
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    a.write_text(MINIMAL)
    b.write_text("receivers:\n  otlp:\n    protocols:\n      grpc:\n        max_recv_msg_size_mib: 5\n")
    out = yaml.safe_load(printed("collector", "--config", a, "--config", b, "--set", "receivers.otlp.protocols.grpc.max_recv_msg_size_mib=9"))
    grpc = out["receivers"]["otlp"]["protocols"]["grpc"]
    assert (grpc["endpoint"], grpc["max_recv_msg_size_mib"]) == ("127.0.0.1:0", 9)
    out = yaml.safe_load(printed("collector", "--config", f"file:{a}", "--config=yaml:receivers::otlp::protocols::grpc::max_recv_msg_size_mib: 6"))
    assert out["receivers"]["otlp"]["protocols"]["grpc"]["max_recv_msg_size_mib"] == 6
    out = printed("collector", "--config", "env:WHOLE", env=program.environment(WHOLE=MINIMAL))
    assert out == printed("collector", "--config", a)


@pytest.mark.parametrize("text, env, want", [
    ("${env:E}", {"E": "127.0.0.1:7"}, "127.0.0.1:7"),
    ("${E}", {"E": "127.0.0.1:7"}, "127.0.0.1:7"),
    ("127.0.0.1:${env:P}", {"P": "77"}, "127.0.0.1:77"),
    ("${env:E:-127.0.0.1:8}", {}, "127.0.0.1:8"),
    ("${env:E:-127.0.0.1:8}", {"E": "127.0.0.1:9"}, "127.0.0.1:9"),
    ("$$x", {}, "$x"),
    ("$x", {}, "$x"),
    ("$${env:E}", {"E": "no"}, "${env:E}"),
])
def test_environment_expansion(tmp_path, text, env, want):
    """What is expanded shows in the error that names the address."""
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace('"127.0.0.1:0"', f'"{text}"').replace("  nop:", "  debug_none:").replace("debug_none", "nop"))
    out = printed("collector", "--config", file, env=program.environment(**env)).decode()
    again = tmp_path / "again.yaml"
    again.write_text(out)
    # printed as it was written where it is a reference; the value itself shows with the references resolved by a second environment
    assert printed("collector", "--config", again, env=program.environment(**env)).decode() == out
    shown = yaml.safe_load(out)["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]
    assert shown == want or shown == text, (shown, want)


def test_environment_reaches_the_listener(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace('"127.0.0.1:0"', '"127.0.0.1:${env:PORT:-0}"'))
    server = start("collector", "--config", file, env=program.environment())
    with clients.channel(server.grpc) as ch:
        assert clients.export(ch, SMALL.bytes) == b""


def test_unset_variable_warns_and_bad_names_are_errors(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace('"127.0.0.1:0"', '"127.0.0.1:0${env:NOT_SET_AT_ALL}"'))
    assert "NOT_SET_AT_ALL" in start("collector", "--config", file).wait_line("unset environment variable")
    _, err = broken(tmp_path, MINIMAL.replace('"127.0.0.1:0"', '"${env:1X}"'))
    assert 'environment variable "1X" has invalid name' in err
    _, err = broken(tmp_path, MINIMAL.replace('"127.0.0.1:0"', '"${foo:bar}"'))
    assert 'scheme "foo" is not supported' in err


def test_sighup_with_a_bad_configuration_keeps_the_old_one(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL.replace("  nop:", "  nop:\n  stdout:"))
    server = start("collector", "--config", file)
    with clients.channel(server.grpc) as ch:
        clients.export(ch, SMALL.bytes)
        file.write_text(MINIMAL.replace("endpoint:", "endpont:"))
        seen = len(server.lines)
        server.signal(1)
        server.wait_line("endpont", after=seen)
        clients.export(ch, SMALL.bytes)
    address = server.grpc
    file.write_text(MINIMAL.replace("127.0.0.1:0", address).replace("  nop:", "  stdout:").replace("[nop]", "[stdout]"))
    seen = len(server.lines)
    server.signal(1)

    def answered():
        with clients.channel(address) as again:
            return clients.export_status(again, SMALL.bytes)[0] == clients.OK and server.stdout == SMALL.stdout_text

    program.wait_for(answered, what="the new pipeline")


# ---- flags and help ----

@pytest.mark.parametrize("words, expected", [
    (["backend", "-grcp-address", "x"], "did you mean -grpc-address"),
    (["backend", "--recever", "stdout"], "did you mean -receiver"),
    (["backend", "-receiver", "stdotu"], 'did you mean "stdout"'),
    (["backend", "-stdout.layout", "2025"], '"2026"'),
    (["decode", "--fromat", "json", "x"], "did you mean -format"),
    (["decode", "--format", "jsn", "x"], '"json"'),
    (["bakend"], 'did you mean "backend"'),
    (["--verson"], "did you mean --version?"),
    (["-hepl"], "did you mean --help?"),
    (["collector", "validat"], 'did you mean "validate"?'),
    (["check", "--jsn"], "did you mean -json"),
    (["collector", "--confg", "x"], "did you mean -config"),
    (["backend", "-max-inflight-mib", "many"], "whole number"),
    (["backend", "-grpc-address"], "needs a value"),
    (["backend", "stray"], "stray"),
    (["backend", "-strict", "-lenient"], "exclude each other"),
    (["version", "-x"], "unknown flag -x"),
    (["version", "--hlep"], "did you mean -help"),
    (["version", "stray"], "stray"),
    (["--version", "-x"], "unknown flag -x"),
    (["components", "-jsno"], "unknown flag -jsno"),
    (["components", "stray"], "stray"),
    (["help", "-x"], "unknown flag -x"),
    (["help", "bakend"], 'did you mean "backend"'),
])
def test_mistyped_words_get_a_suggestion(words, expected):
    done = program.run(*words)
    assert done.returncode == 2 and expected in done.stderr.decode(), done.stderr


def commands():
    text = program.run("--help", check=0).stdout.decode()
    return [line.split()[0] for line in text.partition("Start here")[0].splitlines() if re.match(r"  [a-z]+  ", line)]


def test_every_command_refuses_a_flag_it_does_not_know():
    assert len(commands()) >= 16
    for command in commands():
        done = program.run(command, "--no-such-flag")
        assert done.returncode == 2 and b"no-such-flag" in done.stderr and not done.stdout, (command, done)


def test_no_success_when_standard_output_takes_nothing(tmp_path):
    """A full disk below standard output fails every command that prints; the reader that goes away early does not."""
    file = fixtures.ROOT / "tests/fixtures/otlp/v1.11.0-oncpu-start.pb"
    words = [[c, "--help"] for c in commands() if c != "help"] + [
        ["--help"], ["--help-all"], ["help"], ["help", "backend"], ["version"], ["--version"], ["components"], ["agent", "-version"],
        ["collector", "components"], ["collector", "featuregate"], ["backend", "--print-config"], ["check", file],
        ["decode", file], ["decode", "--format", "otlp-json", file], ["top", file], ["top", "--json", file], ["export", "-format", "svg", file]]
    for w in words:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program.existing_path(), *map(str, w)], stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  env=program.environment(), timeout=program.HANG, check=False)
        assert done.returncode == 1 and re.search(b"No space left on device|could not be written", done.stderr), (w, done)
    with subprocess.Popen([program.existing_path(), "--help-all"], stdout=subprocess.PIPE, env=program.environment()) as early:
        early.stdout.close()
        assert early.wait(program.HANG) in (0, -13)


@pytest.mark.parametrize("words", [[], *([word] for word in ("agent backend check collector decode diff doctor export record "
                                                              "store symbolize top up view").split())], ids=" ".join)
def test_help_fits_a_screen(words):
    for flag in ("--help", "-help", "-h"):
        done = program.run(*words, flag)
        assert done.returncode == 0 and not done.stderr
        lines = done.stdout.decode().splitlines()
        assert 5 <= len(lines) <= 50 and max(map(len, lines)) <= 100, (len(lines), max(lines, key=len))


def test_help_all_is_complete():
    """Every flag that a command's table holds is in --help-all."""
    text = program.run("--help-all", check=0).stdout.decode()
    for source in ("backend", "collector", "decode", "check"):
        code = (fixtures.ROOT / "cmd" / f"{source}.c").read_text()
        names = [n for n in re.findall(r'(?:\w+|"[^"]+"), "([a-z0-9.-]+)", FLAG_', code)]
        assert names, source
        own = program.run(source, "--help-all", check=0).stdout.decode()
        for name in names:
            assert f"-{name}" in own and f"-{name}" in text, (source, name)


def test_single_and_double_dashes_and_equals():
    want = printed("backend", "-stdout.layout", "full")
    for words in (["--stdout.layout", "full"], ["-stdout.layout=full"], ["--stdout.layout=full"]):
        assert printed("backend", *words) == want
    assert program.run("version").stdout == program.run("--version").stdout


def test_components_are_listed():
    listed = yaml.safe_load(program.run("components", check=0).stdout)
    assert "otlp" in [x["name"] for x in listed["receivers"]]
    assert {"stdout", "filesystem", "prometheus", "nop"} <= {x["name"] for x in listed["exporters"]}


# ---- names the program is called by ----

LINKS = ["ebpf-profiler", "otel-profiling-agent", "opentelemetry-lazybackend", "opentelemetry-profiles-lazybackend", "otelcol-ebpf-profiler"]


def test_link_names_lie_beside_the_program():
    if program.path().parent.name != "release":
        pytest.skip("SKIPPED ALOUD: not a release build")
    for name in LINKS:
        assert (program.path().parent / name).resolve() == program.path()


def as_link(tmp_path, name):
    link = tmp_path / name
    link.symlink_to(program.path())
    return link


def test_collector_link_takes_the_collectors_words(start, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(MINIMAL)
    server = start("--config", file, "--feature-gates=service.profilesSupport", name=as_link(tmp_path, "otelcol-ebpf-profiler"))
    with clients.channel(server.grpc) as ch:
        assert clients.export(ch, SMALL.bytes) == b""


@pytest.mark.root
@pytest.mark.parametrize("name, addresses", [
    ("flametap backend", ["127.0.0.1:4317", "127.0.0.1:4137", "127.0.0.1:4318"]),
    ("opentelemetry-lazybackend", ["0.0.0.0:4317", "0.0.0.0:4318"]),
    ("opentelemetry-profiles-lazybackend", ["0.0.0.0:4317", "0.0.0.0:4318"])])
def test_default_addresses(as_root, tmp_path, name, addresses):
    """In a network of its own, so that nothing of the machine is touched: what each name listens on, and the warning."""
    link, *words = name.split()
    link = as_link(tmp_path, link)
    wrapper = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"')
    with program.Server(*words, name=link, wrapper=wrapper) as server:
        listening = subprocess.run(["nsenter", "-t", str(server.pid), "-n", "ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
        found = {line.split()[3] for line in listening.splitlines()}
        assert set(addresses) <= found, found
        assert ("0.0.0.0" in server.log and "all addresses" in server.log) == (link.name != "flametap")
        if link.name == "flametap":
            assert not any(a.startswith(("0.0.0.0", "*")) for a in found)


@pytest.mark.root
def test_port_4137_is_taken_only_where_free(as_root, tmp_path):
    # holds the port as long as the program lives, which takes over the shell's process
    holder = 'import os, socket, time\ns, parent = socket.create_server(("127.0.0.1", 4137)), os.getppid()\nwhile os.getppid() == parent: time.sleep(0.1)'
    wrapper = ("unshare", "-n", "sh", "-c", f"ip link set lo up; python3 -c '{holder}' > /dev/null 2>&1 & until ss -Hltn | grep -q :4137; do sleep 0.05; done; exec \"$0\" \"$@\"")
    with program.Server("backend", wrapper=wrapper) as server:
        server.wait_line("4317")
        listening = subprocess.run(["nsenter", "-t", str(server.pid), "-n", "ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
        assert any("4137" in x and "python" in x for x in listening.splitlines())
