"""Node.js: whole chains of functions in order, through V8's builtins and back; inlined ones too; names, files and lines."""

import collections
import pathlib
import re
import subprocess

import pytest

import agents
import program
import runtimes
from agents import needs_bpf  # noqa: F401

SOURCE = pathlib.Path(__file__).resolve().parent / "support" / "languages" / "known.js"
RECORDED_S = 10
# How V8 runs, the words of the command line, and the share of whole stacks that is asked for.
MODES = {
    "all tiers": ([], [], 0.95),
    "interpreter": (["--jitless"], [], 0.97),
    "worker": ([], ["worker"], 0.95),
}
# What stands for a function that was not read.
NAMELESS = {"[anon]", "[v8]", "Builtins_InterpreterEntryTrampoline"}
ROOTS = {"turn", "asynchronous"}  # what Node.js calls


class Known:
    """The tree of calls that known.js makes: its marks are "//CALLER|CALLEE", at the line of the call."""

    def __init__(self):
        self.lines = collections.defaultdict(set)  # (caller, callee) -> lines
        for number, text in enumerate(SOURCE.read_text().splitlines(), 1):
            for caller, callee in re.findall(r"//(\S+)\|(\S+)", text):
                self.lines[caller.replace("_", " "), callee.replace("_", " ")].add(number)
        # A statement over several lines is called at its first one.
        self.lines["bySorting", "compare"].add(41)

    def is_chain(self, names):
        return names[0] in ROOTS | {"(anonymous)"} and all(edge in self.lines for edge in zip(names, names[1:]))

    def leads_to(self, caller, callee):
        """Does it call it, maybe through others?"""
        seen, todo = set(), [caller]
        while todo:
            at = todo.pop()
            following = {b for a, b in self.lines if a == at}
            if callee in following:
                return True
            todo += following - seen
            seen |= following
        return False

    def has_gap(self, names):
        """Frames are missing, and those that are there stand in order."""
        return names[0] in ROOTS and all(self.leads_to(*edge) for edge in zip(names, names[1:]))

    def wrong_lines(self, functions):
        for (caller, line, _), (callee, _, _) in zip(functions, functions[1:]):
            if not any(abs(line - right) <= 1 for right in self.lines[caller, callee]):
                yield f"{caller} calls {callee} at line {line}"


def judge(known, events):
    """What is wrong, by kind, and how many samples show the program."""
    wrong, shown = collections.defaultdict(list), 0
    for e in events:
        javascript = [f for f in reversed(e.frames) if f.kind == "v8js"]
        functions = [line for f in javascript for line in reversed(f.lines) if line[2].endswith("known.js")]
        names = [name for name, _, _ in functions]
        if any(f.kind == "abort-marker" for f in e.frames):
            wrong["cut"].append(e.names)
        elif NAMELESS & set(e.names):
            wrong["no name"].append(e.names)
        elif names and names[0] not in ROOTS:
            if names != ["(anonymous)"] and not known.is_chain(["turn", *names[2:]]):  # the program starts
                wrong["chain"].append(names)
        elif names and not known.is_chain(names):
            wrong["gap" if known.has_gap(names) else "chain"].append(names)
        else:
            found = list(known.wrong_lines(functions))
            if found:
                wrong["line"].append(found)
        shown += bool(names)
    return wrong, shown


def record(pid, out, seconds=RECORDED_S):
    program.run("record", "-p", pid, "-F", "499", "-d", f"{seconds}s", "-o", out, check=0, timeout=seconds + 60)
    return [e for e in agents.Report(out.read_bytes()).events() if e.resource.get("process.pid") == pid]


def check_events(what, events, share):
    known = Known()
    wrong, shown = judge(known, events)
    begin_ns = min(e.time_ns for e in events)
    first = [e for e in events if e.time_ns - begin_ns < 10**9]
    first_wrong = sum(len(found) for kind, found in judge(known, first)[0].items() if kind != "line")
    counts = {kind: len(found) for kind, found in wrong.items()}
    print(f"{what}: {len(events)} samples, {shown} of the program, wrong {counts}; first second {len(first)}, wrong {first_wrong}")
    examples = "\n".join(f"{kind}: {found[len(found) // 2]}" for kind, found in wrong.items())
    assert len(events) > 20 * RECORDED_S
    assert shown > 0.7 * len(events), examples
    assert sum(counts.values()) <= (1 - share) * len(events), examples
    assert first_wrong <= 0.2 * len(first), examples
    assert not wrong["chain"], "\n".join(map(str, wrong["chain"][:20]))


def builds():
    return [r for r in runtimes.here() if r.name == "node"]


def cases():
    newest = builds()[-1:]
    chosen = builds() if program.LONG else [r for r in builds() if r.version in ("12", "20-debian")] + newest
    for runtime in chosen:
        for mode in MODES if program.LONG or runtime in newest else ["all tiers"]:
            if mode == "interpreter" and runtime.version.startswith("12"):  # it has no --jitless that works
                continue
            yield pytest.param(runtime, mode, id=f"{runtime.version}-{mode}")


@pytest.mark.parametrize(("runtime", "mode"), list(cases()))
def test_known_stacks_of_node(needs_bpf, tmp_path, runtime, mode):
    options, words, share = MODES[mode]
    source = runtime.put(SOURCE, "known.js")
    with runtimes.with_proc(runtime):
        process = subprocess.Popen(runtime.command(*options, source, "100", *words), stdout=subprocess.DEVNULL)
        try:
            events = record(process.pid, tmp_path / "node.otlp")
        finally:
            process.kill()
            process.wait(program.HANG)
    check_events(f"Node.js {runtime.version} {mode}", events, share)


def test_node_is_at_hand():
    if not builds():
        pytest.skip("SKIPPED ALOUD: no Node.js is here; tools/runtimes node fetches it")
