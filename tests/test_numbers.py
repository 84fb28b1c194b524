"""Numbers on the command line: every flag that takes one refuses what is none, and zero where zero means nothing."""

import functools
import re

import pytest

import fixtures
import program

BODY = fixtures.body("v1.11.0-oncpu-mixed").path

# What each command needs beside the flag, so that nothing else is wrong and nothing starts.
COMMANDS = {
    "backend": ["-print-config", "-receiver", "filesystem,sqlite,clickhouse,otlp", "-otlp.endpoint", "h:1"],
    "agent": ["-print-config", "-collection-agent", "h:1"],
    "up": ["--print-config"],
    "record": ["-o", "/nowhere/at/all.pb.gz", "true"],
    "top": [BODY],
    "diff": [BODY, BODY],
    "check": [BODY],
}
NUMBERS = "N HZ SIZE TIME DURATION ROWS PERCENT".split()
INSTANTS = {"-from", "-to", "-base-from", "-base-to"}  # a unix time of 0 is a time

# Zero is taken: what it means is in the flag's help, or plain.
ZERO_IS_MEANT = {
    ("backend", "-filesystem.max-mib"): "never", ("backend", "-sqlite.retention"): "forever",
    ("backend", "-clickhouse.ttl"): "forever",
    ("backend", "-sqlite.max-size"): "no limit", ("up", "-max-size"): "no limit", ("up", "-retention"): "forever",
    ("agent", "-filter-min-process-age"): "none is too young", ("agent", "-map-scale-factor"): "2^0",
    ("agent", "-monitor-interval"): "without effect", ("agent", "-clock-sync-interval"): "at start only",
    ("agent", "-bpf-log-level"): "silent", ("top", "-n"): "all", ("diff", "-n"): "all", ("diff", "-fail-above"): "any",
    ("check", "-most"): "all",
}


@functools.cache
def number_flags():
    return list(_number_flags())


def _number_flags():
    for command in COMMANDS:
        text = program.run(command, "--help-all", check=0).stdout.decode()
        for flag, value in re.findall(r"^  (-[\w.-]+) ([A-Z]+)\b", text, re.M):
            if value in NUMBERS and flag not in INSTANTS:
                yield command, flag


def refused(command, flag, value):
    done = program.run(command, f"{flag}={value}", *COMMANDS[command])
    name = flag.lstrip("-").rpartition(".")[2]
    said = done.stderr.decode()
    words = [name, name.replace("-", "_"), {"F": "frequency", "samples-per-second": "frequency", "map-scale-factor": "scaling factor",
                                            "bpf-log-level": "log level"}.get(name, name)]
    assert done.returncode in (1, 2) and any(w in said for w in words), f"{command} {flag}={value}: exit {done.returncode}, {said}"
    return said


def test_the_sweep_sees_flags():
    found = set(number_flags())
    assert len(found) >= 25 and ("agent", "-spool-max-mib") in found
    assert set(ZERO_IS_MEANT) <= found, set(ZERO_IS_MEANT) - found


@pytest.mark.parametrize("value", ["-1", "-1s", "abc", "", "99999999999999999999999", "0x10", "nan"])
def test_what_is_no_number_is_refused(value):
    for command, flag in number_flags():
        if flag != "-fail-above" or value in ("-1", "-1s", "abc", "", "nan"):  # any other is a number to it
            refused(command, flag, value)


def test_zero_where_it_means_nothing_is_refused():
    for command, flag in number_flags():
        if (command, flag) not in ZERO_IS_MEANT:
            said = refused(command, flag, 0)
            assert "0" in said or "zero" in said or "less than" in said or "between" in said, (command, flag, said)


def test_zero_that_has_a_meaning_is_taken():
    for (command, flag), meaning in ZERO_IS_MEANT.items():
        done = program.run(command, f"{flag}=0", *COMMANDS[command])
        assert done.returncode == 0 or (flag == "-fail-above" and done.returncode == 1), (command, flag, meaning, done.stderr)
