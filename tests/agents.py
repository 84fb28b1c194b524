"""What tests of the agent share: programs with known stacks, the agent as a process, and its reports taken apart by Google's protobuf."""

import functools
import json
import os
import pathlib
import subprocess
import time

import pytest

import program
import schemas

SPIN = r"""
#include <stdio.h>
static volatile unsigned long count;
__attribute__((noinline)) void known_leaf(void) { for (int i = 0; i < 100000; i++) count += i; }
__attribute__((noinline)) void known_middle(void) { known_leaf(); count++; }
__attribute__((noinline)) void known_outer(void) { known_middle(); count++; }
int main(void) { puts("spinning"); fflush(stdout); for (;;) known_outer(); }
"""


def can_profile():
    """Why not, or None."""
    done = program.run("doctor", "--json")
    report = json.loads(done.stdout)
    missing = [f"{f['name']}: {f['found']}" for f in report["findings"] if f["state"] == "missing"]
    assert report["can_profile"] == (not missing) == (done.returncode == 0)
    return "; ".join(missing) or None


def compile_spin(folder, name="known_spin"):
    source, out = folder / f"{name}.c", folder / name
    source.write_text(SPIN)
    subprocess.run(["gcc", "-O1", "-g", "-o", out, source], check=True)
    return out


class Spinning:
    """The program with the known stack, running."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"spinning\n"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(program.HANG)
        self.process.stdout.close()


def agent(receiver, tmp_path, *words, **options):
    """The agent, sending to a GrpcReceiver (or an address), its spool in tmp_path; reports twice a second unless told otherwise."""
    address = getattr(receiver, "address", receiver)
    interval = () if any("reporter-interval" in str(w) for w in words) else ("-reporter-interval", "500ms")
    return program.Server("agent", "-collection-agent", address, "-disable-tls", "-spool-dir", tmp_path / "spool", *interval, *words,
                          **options)


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}


def parts(server):
    """{'flametap-worker': pid, 'flametap-sample': pid} once both run."""
    def find():
        found = {status(p)["Name"]: p for p in children(server.pid) if pathlib.Path(f"/proc/{p}").exists()}
        return found if {"flametap-worker", "flametap-sample"} <= set(found) else None
    return program.wait_for(find, what="worker and sampler")


# ---- reports ----

def value_of(v):
    return getattr(v, v.WhichOneof("value")) if v.WhichOneof("value") else None


class Frame:
    def __init__(self, report, location):
        d, self.location = report.dictionary, location
        self.kind = report.attributes(location.attribute_indices).get("profile.frame.type")
        self.lines = [(report.text(d.function_table[l.function_index].name_strindex), l.line,
                       report.text(d.function_table[l.function_index].filename_strindex)) for l in location.lines]
        self.names = [n for n, _, _ in self.lines]
        mapping = d.mapping_table[location.mapping_index]
        self.mapping, self.file = mapping, report.text(mapping.filename_strindex)
        self.mapping_attributes = report.attributes(mapping.attribute_indices)

    def __repr__(self):
        return f"{self.kind}:{'/'.join(self.names)}@{self.file}+{self.location.address:#x}"


class Event:
    def __init__(self, resource, attributes, time_ns, frames):
        self.resource, self.attributes, self.time_ns, self.frames = resource, attributes, time_ns, frames

    @property
    def names(self):
        return [n for f in self.frames for n in f.names]


class Report:
    """One Export request."""

    def __init__(self, body):
        self.message = schemas.schema(schemas.NEWEST).Request.FromString(body)
        self.dictionary = self.message.dictionary
        self.resources = [{a.key: value_of(a.value) for a in r.resource.attributes} for r in self.message.resource_profiles]

    def text(self, index):
        return self.dictionary.string_table[index]

    def attributes(self, indices):
        table = self.dictionary.attribute_table
        return {self.text(table[i].key_strindex): value_of(table[i].value) for i in indices}

    def profiles(self):
        for resource, r in zip(self.resources, self.message.resource_profiles):
            for scope in r.scope_profiles:
                for p in scope.profiles:
                    yield resource, p

    @functools.cached_property
    def _events(self):
        d = self.dictionary
        frames = [Frame(self, location) for location in d.location_table]
        out = []
        for resource, p in self.profiles():
            for s in p.samples:
                stack = [frames[i] for i in d.stack_table[s.stack_index].location_indices]
                attributes = self.attributes(s.attribute_indices)
                out += [Event(resource, attributes, t, stack) for t in s.timestamps_unix_nano]
        return out

    def events(self):
        return self._events

    @property
    def host(self):
        """The account of what was seen and lost, with begin and end of the window."""
        resource, p = list(self.profiles())[-1]
        assert "process.pid" not in resource and not p.samples
        return self.attributes(p.attribute_indices) | {"begin": p.time_unix_nano, "end": p.time_unix_nano + p.duration_nano}


def reports(receiver):
    """All that came so far; each is read once."""
    known = receiver.__dict__.setdefault("reports", [])
    known += [Report(b) for b in list(receiver.bodies)[len(known):]]
    return list(known)


def events(receiver, pid=None):
    return [e for r in reports(receiver) for e in r.events() if pid is None or e.resource.get("process.pid") == pid]


def wait_events(receiver, pid, count=5, after_ns=0):
    """Events of a process, once there are so many after a time."""
    def come():
        found = [e for e in events(receiver, pid) if e.time_ns > after_ns]
        return found if len(found) >= count else None
    return program.wait_for(come, what=f"{count} samples of process {pid}", every=0.1)


def now_ns():
    return time.time_ns()


@pytest.fixture
def needs_bpf():
    if os.environ.get("FLAMETAP_NO_BPF"):
        pytest.skip("SKIPPED ALOUD: FLAMETAP_NO_BPF is set")
    why = can_profile()
    if why:
        pytest.skip(f"SKIPPED ALOUD: no profiling here: {why}")
