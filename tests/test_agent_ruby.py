"""Ruby: whole chains of methods in order, from the main script to the leaf, through C and back; names, files and lines."""

import collections
import pathlib
import re
import subprocess

import pytest

import agents
import program
from agents import needs_bpf  # noqa: F401

SOURCE = pathlib.Path(__file__).resolve().parent / "support" / "languages" / "known.rb"
TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "runtimes"
RECORDED_S = 10
# What the outermost frames are, instead of <main>.
MODES = {
    "main": ["<main>"],
    "threads": ["block (2 levels) in <main>"],
    "fiber": ["block in <main>", "Kernel#loop", "block (2 levels) in <main>"],
}
# Methods written in C that Ruby calls on the program's behalf, or that are too short to be marked.
SHORT = {"Array.new", "BasicObject#initialize", "Class#new", "Comparable#>", "Enumerator#initialize", "Enumerator::Yielder#<<",
         "Exception#initialize", "Exception.exception", "Exception#exception", "Exception#backtrace", "Integer#==", "Kernel#raise",
         "Kernel#send", "Module#===", "Process.clock_gettime", "String#=~", "Fiber.yield",
         "proc"}  # of RubyVM::FrozenCore, which has no name


def ruby_builds():
    """version -> (root folder, program in it)"""
    listed = subprocess.run([TOOL, "--list"], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {version: (pathlib.Path(root), path) for runtime, version, root, path in rows if runtime == "ruby"}


class Known:
    """The tree of calls that known.rb makes: its marks are "#CALLER|CALLEE", at the line of the call."""

    def __init__(self):
        self.lines = collections.defaultdict(set)  # (caller, callee) -> lines
        for number, text in enumerate(SOURCE.read_text().splitlines(), 1):
            for caller, callee in re.findall(r" #(\S+)\|(\S+)", text):
                self.lines[caller.replace("_in_", " in ").replace("(2_levels)", "(2 levels)").replace("block_(", "block ("),
                           callee.replace("_in_", " in ").replace("(2_levels)", "(2 levels)").replace("block_(", "block (")].add(number)

    def is_chain(self, names):
        """Does the program make these calls, outermost first? Some C functions may end it."""
        while len(names) > 1 and (names[-2], names[-1]) not in self.lines and names[-1] in SHORT:
            names = names[:-1]
        return names[0] == "<main>" and all(edge in self.lines for edge in zip(names, names[1:]))

    def wrong_lines(self, names, frames):
        """Calls whose frame names another line, by more than one."""
        for edge, frame in zip(zip(names, names[1:]), frames):
            (_, line, file), = frame.lines
            if file.endswith("known.rb") and edge in self.lines and not any(abs(line - right) <= 1 for right in self.lines[edge]):
                yield f"{edge[0]} calls {edge[1]} at line {line} of {file}"


# Called by C, which stands between.
CALLED_BACK = {("Array#map", "block in Shop::Mapper#all"), ("Array#each", "block in Object#by_sorting"),
               ("Hash#each", "block in Object#by_hash")}
# Called by Ruby alone.
DIRECT = {("Object#work", "Object#by_recursion"), ("Shop::Sale.recurse", "Shop::Sale.recurse"), ("Shop::Sale#total", "Object#burn")}


def in_order(names, at):
    """Does C lie where it called Ruby back, and nowhere else between methods that call each other?"""
    for i, edge in enumerate(zip(names, names[1:])):
        between = at[i + 1] - at[i] - 1
        if (edge in CALLED_BACK and not between) or (edge in DIRECT and between):
            return False
    return True


def judge(known, events, mode):
    """What is wrong, by kind."""
    wrong = collections.defaultdict(list)
    root = MODES[mode]
    for e in events:
        frames = list(reversed(e.frames))
        at = [i for i, f in enumerate(frames) if f.kind == "ruby"]
        names = [frames[i].names[0] for i in at]
        if names[:1] == ["<internal:gem_prelude>"] or (names and names == root[:len(names)]):  # Ruby, or a thread, starts
            continue
        if names[:len(root)] == root and mode != "main":
            at = at[len(root) - 1:]
            names = ["<main>"] + names[len(root):]
        if any(f.kind == "abort-marker" for f in frames):
            wrong["cut"].append(e.names)
        elif not at:
            wrong["no ruby"].append(e.names)
        elif not known.is_chain(names):
            wrong["chain"].append(names)
        elif not in_order(names, at):
            wrong["order"].append(e.names)
        else:
            found = list(known.wrong_lines(names, [frames[i] for i in at]))
            if found:
                wrong["line"].append(found)
    return wrong


def start_known(root, path, mode):
    folder = root / "tmp" / "flametap-known"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "known.rb").write_text(SOURCE.read_text())
    return subprocess.Popen(["chroot", root, path, "/tmp/flametap-known/known.rb", "100", mode], stdout=subprocess.DEVNULL)


def record(pid, out, seconds=RECORDED_S):
    program.run("record", "-p", pid, "-F", "499", "-d", f"{seconds}s", "-o", out, check=0, timeout=seconds + 60)
    return [e for e in agents.Report(out.read_bytes()).events() if e.resource.get("process.pid") == pid]


def check_events(what, events, mode):
    known = Known()
    wrong = judge(known, events, mode)
    begin_ns = min(e.time_ns for e in events)
    first = [e for e in events if e.time_ns - begin_ns < 10**9]
    first_wrong = sum(map(len, judge(known, first, mode).values()))
    counts = {kind: len(found) for kind, found in wrong.items()}
    print(f"{what}: {len(events)} samples, wrong {counts}; first second {len(first)}, wrong {first_wrong}")
    examples = "\n".join(f"{kind}: {found[len(found) // 2]}" for kind, found in wrong.items())
    assert len(events) > 20 * RECORDED_S
    burning = sum("Object#burn" in e.names for e in events)
    assert burning > 0.4 * len(events), f"{burning} of {len(events)} burn\n{examples}"
    assert sum(counts.values()) <= 0.03 * len(events), examples
    assert first_wrong <= 0.2 * len(first), examples
    assert not wrong["chain"], "\n".join(map(str, wrong["chain"]))


def cases():
    builds = sorted(ruby_builds(), key=lambda v: [int(n) for n in v.split(".")])
    chosen = builds if program.LONG else builds[:1] + builds[-1:]
    for version in dict.fromkeys(chosen):
        for mode in MODES if program.LONG or version == builds[-1] else ["main"]:
            yield version, mode


@pytest.mark.parametrize(("version", "mode"), list(cases()))
def test_known_stacks_of_ruby(needs_bpf, tmp_path, version, mode):
    root, path = ruby_builds()[version]
    process = start_known(root, path, mode)
    try:
        events = record(process.pid, tmp_path / "ruby.otlp")
    finally:
        process.kill()
        process.wait(program.HANG)
    check_events(f"Ruby {version} {mode}", events, mode)


def test_ruby_is_at_hand():
    if not ruby_builds():
        pytest.skip("SKIPPED ALOUD: no Ruby is here; tools/runtimes ruby fetches it")
