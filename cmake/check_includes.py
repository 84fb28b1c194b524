#!/usr/bin/env python3
"""Fails when an include points against the direction of the tree.

The build runs this over src/ and cmd/ (cmake/flametap.cmake, target check_includes):

    check_includes.py ROOT [--stamp FILE]

Prints one line per finding, `file:line: what`, and exits 1; else touches the stamp.
"""
import argparse
import pathlib
import re
import sys

# A module may include those listed, and itself. This is the whole rule.
MAY_INCLUDE = {
    "base": [],
    "model": ["base"],
    "wire": ["base", "model"],
    "pipeline": ["base", "model", "wire"],
    "net": ["base"],
    "formats": ["base", "model", "wire", "pipeline"],
    "components": ["base", "model", "wire", "pipeline", "formats", "net"],
    "agent": ["base", "model", "wire", "pipeline", "net"],
    "store": ["base", "model", "wire", "pipeline", "net"],
    "query": ["base", "model", "wire", "pipeline", "formats", "store"],
    "web": ["base", "model", "wire", "pipeline", "formats", "components", "net", "query"],
    "cmd": ["base", "model", "wire", "pipeline", "formats", "net", "components", "agent", "store", "query", "web"],
}
# The list of components names those that live elsewhere; the extension `web` opens the store that its options name.
EXCEPTIONS = {"src/components/all.c": ["agent", "store", "web"], "src/web/extension.c": ["store"]}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]')


def module_of(path):
    """'src/wire/x.c' -> 'wire', 'cmd/main.c' -> 'cmd'."""
    parts = path.parts
    return parts[1] if parts[0] == "src" else parts[0]


def check_line(path, module, line):
    """What is wrong with one line, or None."""
    match = INCLUDE.match(line)
    if not match:
        return None
    quote, name = match.groups()
    head = name.split("/")[0]
    if head in ("..", "."):
        return f'#include "{name}": write the path from src/, so that its module can be seen'
    if "/" not in name or head not in MAY_INCLUDE or head == module:
        return None
    allowed = MAY_INCLUDE[module] + EXCEPTIONS.get(path.as_posix(), [])
    if head in allowed:
        return None
    may = ", ".join(allowed) or "nothing but itself"
    return f"{module} must not include {name} (it may include {may})"


def findings(root):
    for top in ("src", "cmd"):
        for file in sorted((root / top).rglob("*.[ch]")):
            path = file.relative_to(root)
            module = module_of(path)
            if module not in MAY_INCLUDE:
                yield f"{path}:1: the folder {module} is not in the list of {pathlib.Path(__file__).name}"
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                problem = check_line(path, module, line)
                if problem:
                    yield f"{path}:{number}: {problem}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--stamp", type=pathlib.Path)
    args = parser.parse_args()
    found = list(findings(args.root))
    for line in found:
        print(line, file=sys.stderr)
    if found:
        print(f"{len(found)} includes point the wrong way (ARCHITECTURE.md, who may include whom)", file=sys.stderr)
        return 1
    if args.stamp:
        args.stamp.write_text("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
