"""flametap agent's flags, its environment and file, the graph they make, and what it refuses. Nothing is sampled here."""


import pytest
import yaml

import program
from agents import needs_bpf  # noqa: F401


def graph(*words, env=None, name=None):
    done = program.run("agent", *words, "--print-config", env=env, check=0) if name is None else \
        program.run(*words, "--print-config", env=env, name=name, check=0)
    return yaml.safe_load(done.stdout)


def profiling(*words, **options):
    return graph("-collection-agent", "h:1", *words, **options)["receivers"]["profiling"]


# ---- flags ----

FLAGS = [
    ("-samples-per-second 7", "samples_per_second", 7), ("-reporter-interval 60s", "reporter_interval", "1m0s"),
    ("-reporter-jitter 0.5", "reporter_jitter", 0.5), ("-monitor-interval 9s", "monitor_interval", "9s"),
    ("-clock-sync-interval 1m", "clock_sync_interval", "1m0s"), ("-t python,go", "tracers", "python,go"),
    ("-tracers=native", "tracers", "native"), ("-probabilistic-interval 2m", "probabilistic_interval", "2m0s"),
    ("-probabilistic-threshold 50", "probabilistic_threshold", 50), ("-map-scale-factor 3", "map_scale_factor", 3),
    ("-no-kernel-version-check", "no_kernel_version_check", True), ("-pin-cpu-ids 0-1", "pin_cpu_ids", "0-1"),
    ("-send-error-frames", "send_error_frames", True), ("-send-idle-frames", "send_idle_frames", True),
    ("-env-vars A,B", "include_env_vars", ["A", "B"]), ("-bpffs-root /x", "bpf_fs_root", "/x"),
    ("-bpf-log-level 2", "bpf_verifier_log_level", 2), ("-filter-min-process-age 3s", "filter_min_process_age", "3s"),
    ("-frame-cache-size 2048", "frame_cache_size", 2048), ("-off-cpu-threshold 0", "off_cpu_threshold", 0),
    ("-process-filter java|python|go", "process_filter", "java|python|go"), ("-pid 1,2", "pids", ["1", "2"]),
    ("-pid 1 -pid 2,3 -pid=4", "pids", ["1", "2", "3", "4"]),
    ("-cgroup /a -cgroup /b", "cgroups", ["/a", "/b"]), ("-native-symbols=false", "native_symbols", False),
    ("-inlines", "inlines", True), ("-symbol-memory 1MiB", "symbol_memory", "1MiB"), ("-unwind-memory 9MiB", "unwind_memory", "9MiB"),
    ("-cache-dir /c", "cache_dir", "/c"), ("-runtime-tables /t", "runtime_tables", "/t"), ("-service-name my-application", "service_name", "my-application"),
    ("-tags environment=production,region=us-east-1", "resource_attributes", {"environment": "production", "region": "us-east-1"}),
]


@pytest.mark.parametrize("words,key,value", FLAGS)
def test_a_flag_becomes_an_option(words, key, value):
    assert profiling(*words.split())[key] == value


def test_the_defaults_are_the_references():
    g = graph("-collection-agent", "h:1")
    p = g["receivers"]["profiling"]
    assert p["samples_per_second"] == 20 and p["reporter_interval"] == "5s" and p["reporter_jitter"] == 0.2
    assert p["probabilistic_threshold"] == 100 and p["frame_cache_size"] == 16384 and p["tracers"] == "all"
    assert p["clock_sync_interval"] == "3m0s" and p["monitor_interval"] == "5s" and p["map_scale_factor"] == 0
    assert not p["send_error_frames"] and not p["send_idle_frames"]
    e = g["exporters"]["otlp_grpc"]
    assert e["endpoint"] == "h:1" and e["tls"]["insecure"] is False  # TLS unless -disable-tls
    assert g["service"]["pipelines"] == {"profiles": {"receivers": ["profiling"], "exporters": ["otlp_grpc"]}}
    assert g["service"]["flametap"]["durable"] is True and g["service"]["flametap"]["spool"]["directory"]


def test_what_runs_is_what_is_printed(tmp_path):
    first = program.run("agent", "-collection-agent", "h:1", "-tags", "a=b", "-cgroup", "/x", "-disable-tls", "--print-config", check=0)
    file = tmp_path / "graph.yaml"
    file.write_bytes(first.stdout)
    assert program.run("collector", "--config", file, "--print-config", check=0).stdout == first.stdout
    program.run("collector", "validate", "--config", file, check=0)


@pytest.mark.parametrize("link", ["ebpf-profiler", "otel-profiling-agent"])
def test_called_as_the_reference(link):
    name = program.existing_path().parent / link
    g = graph("-collection-agent=localhost:4137", "-disable-tls", name=name)
    assert g["exporters"]["otlp_grpc"]["endpoint"] == "localhost:4137"
    assert g["exporters"]["otlp_grpc"]["tls"]["insecure"] is True
    assert program.run("-version", name=name, check=0).stdout.startswith(b"flametap ")
    assert b"Apache" in program.run("-copyright", name=name, check=0).stdout


# ---- environment and file ----

def test_flags_come_before_the_environment_and_that_before_the_file(tmp_path):
    file = tmp_path / "conf"
    file.write_text("# a comment\nsamples-per-second 1\nprobabilistic-threshold=2\nreporter-jitter\t0.3\n-send-error-frames\nunknown 5\n")
    env = program.environment(OTEL_PROFILING_AGENT_SAMPLES_PER_SECOND="3", OTEL_PROFILING_AGENT_PROBABILISTIC_THRESHOLD="4",
                              OTEL_PROFILING_AGENT_NO_SUCH="5", OTEL_PROFILING_AGENT_CONFIG=str(file))
    p = profiling("-samples-per-second", "7", env=env)
    assert (p["samples_per_second"], p["probabilistic_threshold"], p["reporter_jitter"], p["send_error_frames"]) == (7, 4, 0.3, True)


def test_a_missing_file_is_no_error(tmp_path):
    assert profiling("-config", tmp_path / "none")["samples_per_second"] == 20


@pytest.mark.parametrize("text,says", [("samples-per-second x", "conf:1: -samples-per-second takes a whole number"),
                                       ("\nlog-level loud", "conf:2: -log-level can't be \"loud\""), ("tags", "conf:1: -tags needs a value")])
def test_a_bad_file_is_told_by_line(tmp_path, text, says):
    file = tmp_path / "conf"
    file.write_text(text)
    done = program.run("agent", "-collection-agent", "h:1", "-config", file, check=2)
    assert says in done.stderr.decode()


def test_a_bad_variable_is_told_by_name():
    env = program.environment(OTEL_PROFILING_AGENT_REPORTER_INTERVAL="soon")
    done = program.run("agent", "-collection-agent", "h:1", env=env, check=2)
    assert "OTEL_PROFILING_AGENT_REPORTER_INTERVAL" in done.stderr.decode()


# ---- who says it, and where it goes ----

@pytest.mark.parametrize("env,words,service,attributes", [
    ({"OTEL_SERVICE_NAME": "a"}, [], "a", None),
    ({"OTEL_SERVICE_NAME": "a"}, ["-service-name", "b"], "b", None),
    ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=c,x=1%2C2,y=%zz,z="}, [], "c", {"x": "1,2", "y": "%zz", "z": ""}),
    ({"OTEL_RESOURCE_ATTRIBUTES": "x=1,x=2"}, ["-tags", "x=3,y=%41"], None, {"x": "3", "y": "%41"}),
])
def test_identity(env, words, service, attributes):
    p = profiling(*words, env=program.environment(**env))
    assert p.get("service_name") == service and p.get("resource_attributes") == attributes


def test_otlp_variables():
    env = program.environment(OTEL_EXPORTER_OTLP_ENDPOINT="http://a:4317", OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT="https://b:4317",
                              OTEL_EXPORTER_OTLP_HEADERS="k=v", OTEL_EXPORTER_OTLP_COMPRESSION="none",
                              OTEL_EXPORTER_OTLP_TIMEOUT="2500", OTEL_EXPORTER_OTLP_CERTIFICATE="/ca.pem",
                              OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="/c.pem", OTEL_EXPORTER_OTLP_CLIENT_KEY="/k.pem")
    e = graph(env=env)["exporters"]["otlp_grpc"]
    assert (e["endpoint"], e["compression"], e["timeout"]) == ("https://b:4317", "none", "2.5s")
    assert (e["tls"]["ca_file"], e["tls"]["cert_file"], e["tls"]["key_file"]) == ("/ca.pem", "/c.pem", "/k.pem")
    assert e["headers"] == {"k": "[REDACTED]"}
    assert graph("-collection-agent", "flag:1", env=env)["exporters"]["otlp_grpc"]["endpoint"] == "flag:1"


@pytest.mark.parametrize("protocol,encoding", [("http/protobuf", "proto"), ("http/json", "json")])
def test_over_http(protocol, encoding):
    env = program.environment(OTEL_EXPORTER_OTLP_ENDPOINT="http://a:4318", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    g = graph(env=env)
    assert g["exporters"]["otlp_http"]["endpoint"] == "http://a:4318" and g["exporters"]["otlp_http"]["encoding"] == encoding
    assert g["service"]["pipelines"]["profiles"]["exporters"] == ["otlp_http"]


# ---- refusals ----

@pytest.mark.parametrize("words,says", [
    ("", "no collection agent to send to"),
    ("-collection-agent h:1 -off-cpu-threshold 0.1", "off-CPU profiling is not offered yet"),
    ("-collection-agent h:1 -off-cpu-threshold 2", "it is a probability"),
    ("-collection-agent h:1 -probe-link kprobe:x -probe-link uprobe:/a:b", "probes are not offered yet"),
    ("-collection-agent h:1 -load-probe", "load_probe: probes are not offered yet"),
    ("-collection-agent h:1 -obi-process-ctx", "OBI"),
    ("-collection-agent h:1 -t cobol", "unknown tracer: cobol"),
    ("-collection-agent h:1 -samples-per-second 0", "-samples-per-second is 1 to 10000, not 0"),
    ("-collection-agent h:1 -map-scale-factor 9", "-map-scale-factor is 0 to 8, not 9"),
    ("-collection-agent h:1 -probabilistic-interval 10m", "between 1m and 5m"),
    ("-collection-agent h:1 -probabilistic-threshold 101", "-probabilistic-threshold is 1 to 100, not 101"),
    ("-collection-agent h:1 -frame-cache-size 12", "-frame-cache-size is 1024 to 1048576, not 12"),
    ("-collection-agent h:1 -reporter-jitter 1.5", "0 to 1"),
    ("-collection-agent h:1 -pin-cpu-ids 3-1", "pin_cpu_ids"),
    ("-collection-agent h:1 -process-filter [", "is no regular expression"),
    ("-collection-agent h:1 -pid x", "is no process id"),
    ("-collection-agent h:1 -tags x", "\"x\" is not of the form name=value"),
    ("-collection-agent h:1 -user no-such-user-here", "there is no user"),
    ("-collection-agnet h:1", "did you mean -collection-agent?"),
])
def test_refused_with_the_reason(words, says):
    done = program.run("agent", *words.split())
    assert done.returncode in (1, 2) and says in done.stderr.decode(), done.stderr.decode()


# ---- the receiver in YAML: three generations of names ----

GENERATIONS = {
    "no key tags (2025-08)": "{Tracers: \"python,go\", SamplesPerSecond: 31, ReporterInterval: 7s, SendErrorFrames: true, MapScaleFactor: 1}",
    "tracers (2025-10)": "{tracers: \"python,go\", samples_per_second: 31, reporter_interval: 7s, send_error_frames: true, "
                         "map_scale_factor: 1, u_probe_links: [], load_probe: false}",
    "interpreters (2026)": "{samples_per_second: 31, reporter_interval: 7s, send_error_frames: true, map_scale_factor: 1, probes: [], "
                           "interpreters: {ruby: {disabled: true}, go: {labels: {disabled: true}}}}",
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_three_generations_of_names(tmp_path, generation):
    file = tmp_path / "c.yaml"
    file.write_text(f"receivers: {{profiling: {GENERATIONS[generation]}}}\nexporters: {{nop: }}\n"
                    "service: {pipelines: {profiles: {receivers: [profiling], exporters: [nop]}}}\n")
    done = program.run("collector", "--config", file, "--print-config", check=0)
    p = yaml.safe_load(done.stdout)["receivers"]["profiling"]
    assert (p["samples_per_second"], p["reporter_interval"], p["send_error_frames"], p["map_scale_factor"]) == (31, "7s", True, 1)


@pytest.mark.parametrize("settings,says", [("{samples_per_secnd: 1}", "samples_per_second"), ("{probes: [{type: kprobe}]}", "probes are not"),
                                           ("{u_probe_links: [\"a:b\"]}", "probes are not"), ("{error_mode: never}", "propagate"),
                                           ("{interpreters: {cobol: {disabled: true}}}", "cobol"), ("{SamplesPerSecond: x}", "amples")])
def test_bad_settings_are_told(tmp_path, settings, says):
    file = tmp_path / "c.yaml"
    file.write_text(f"receivers: {{profiling: {settings}}}\nexporters: {{nop: }}\n"
                    "service: {pipelines: {profiles: {receivers: [profiling], exporters: [nop]}}}\n")
    done = program.run("collector", "validate", "--config", file, check=1)
    assert says in done.stderr.decode()


def test_a_backend_with_the_agent():
    g = yaml.safe_load(program.run("backend", "-with-agent", "--print-config", check=0).stdout)
    assert g["service"]["pipelines"]["profiles"]["receivers"] == ["otlp", "profiling"]


def test_inlined_functions_where_a_person_looks(needs_bpf):
    """On for up and record, at most 200 ms of CPU per report; the agent is asked for them."""
    def profiling(*words):
        return yaml.safe_load(program.run(*words, "--print-config", check=0).stdout)["receivers"]["profiling"]
    up = profiling("up")
    assert up["inlines"] is True and up["naming_budget"] == "200ms"
    assert profiling("agent", "-collection-agent", "h:1")["inlines"] is False
    assert profiling("agent", "-collection-agent", "h:1", "-inlines")["inlines"] is True
