"""Stack filters look at frames as they are, whatever `by` shows: against the bodies (query_oracle)."""

import collections
import itertools
import json
import random

import pytest

import fixtures
import program
import query_oracle

KINDS = ("focus", "ignore", "hide", "show-from")
PATTERNS = ("main", "runtime\\.", "\\+\\?", "^fib$", "type:kernel", "type:^go$", "binary:libc", "binary:^$", "file:busy", "file:\\.php$",
            "file:cmp/cmp\\.go$", "file:^$", "(?i)LIBC", "nosuchthing")


@pytest.fixture(scope="module")
def stacks():
    return query_oracle.whole_stacks(query_oracle.Body(fixtures.body(fixtures.BIG).bytes), "cpu")


def files_of_functions_that_have_several(stacks):
    files = collections.defaultdict(set)
    for f in {f for _, stack in stacks for f in stack}:
        files[query_oracle.BY["function"](f)].add(f.file)
    return sorted({file for names in files.values() if len(names) > 1 for file in names if file})


def ask(*words):
    return json.loads(program.run("top", "--json", "-n", "0", "--type", "cpu", *words, fixtures.body(fixtures.BIG).path, check=0).stdout)["top"]


def check(stacks, by, kind, pattern):
    return check_steps(stacks, by, [(kind, pattern)])[0]


def check_steps(stacks, by, steps):
    """The total, and what else tells an answer from another."""
    for kind, pattern in steps:
        stacks = query_oracle.transformed(stacks, kind, pattern)
    values = query_oracle.stack_values_of(stacks, query_oracle.BY[by])
    got = ask("--by", by, *(word for kind, pattern in steps for word in (f"--{kind}", pattern)))
    assert got["total"][0] == sum(values.values()), (by, steps)
    want = sorted(map(tuple, query_oracle.top(values).values()))
    assert sorted((r["self"][0], r["total"][0]) for r in got["rows"]) == want, (by, steps)
    return sum(values.values()), tuple(want)


def test_filters_see_the_frame_whatever_by_shows(stacks):
    tries = list(itertools.product(query_oracle.BY, KINDS, PATTERNS))
    chosen = tries if program.LONG else random.Random(5).sample(tries, 24)
    whole = sum(value for value, _ in stacks)
    assert len({check(stacks, *t) for t in chosen} - {0, whole}) > 5


def test_one_function_in_two_files_is_two_frames_for_filters(stacks):
    """Drawn as one, by function; a filter by file must see both."""
    files = files_of_functions_that_have_several(stacks)
    assert files
    for file, kind in itertools.product(files if program.LONG else files[:2], KINDS):
        check(stacks, "function", kind, "file:^" + file.replace(".", "\\.") + "$")


def test_filters_are_taken_in_the_order_given(stacks):
    """Each sees what those before it left: of two or three at random, in all their orders."""
    chance = random.Random(11)
    for _ in range(40 if program.LONG else 6):
        steps = [(chance.choice(KINDS + ("collapse",)), chance.choice(PATTERNS)) for _ in range(chance.choice((2, 2, 3)))]
        for order in itertools.permutations(steps):
            check_steps(stacks, "function", order)
    focus_first, focus_last = ([("focus", "^fib$"), ("hide", "^fib$")][::step] for step in (1, -1))
    assert check_steps(stacks, "function", focus_first)[0] > 0 == check_steps(stacks, "function", focus_last)[0]


@pytest.mark.parametrize("by", ["line", "address"])
def test_a_whole_name_that_is_shown_may_be_asked_for(by):
    """As the page does it of the frame that is clicked."""
    row = next(r for r in ask("--by", by)["rows"] if r["self"][0] and " " in r["name"] or "+0x" in r["name"])
    escaped = "".join("\\" + c if c in ".+*?()[]{}|^$\\" else c for c in row["name"])
    assert ask("--by", by, "--focus", f"^{escaped}$")["total"][0] >= row["total"][0] > 0
