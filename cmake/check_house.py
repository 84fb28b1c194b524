#!/usr/bin/env python3
"""Checks what keeps the tree readable, and prints its size: check_house.py ROOT.

Documents: README.md has at most 120 lines, a page of docs/ 150, a folder's README.md 20, and each folder has one; lines of
prose have at most 120 characters. Code: no circle of includes between folders; files that comments name exist.
Then one line a folder: product lines, and the change since the last commit on main."""
import pathlib
import re
import subprocess
import sys

README_LINES, PAGE_LINES, FOLDER_README_LINES, LINE_CHARACTERS = 120, 150, 20, 120
SUFFIXES = {".c", ".h", ".ts", ".tsx"}


def tracked(root):
    out = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False).stdout.split("\n")
    return [root / name for name in out if name and (root / name).is_file()]


def check_documents(root, files):
    for path in (p for p in files if p.suffix == ".md" and "fixtures" not in p.parts):
        lines = path.read_text().splitlines()
        name = path.relative_to(root)
        most = README_LINES if path == root / "README.md" else PAGE_LINES
        if path.name == "README.md" and name.parts[0] not in ("README.md", "docs", "example"):
            most = FOLDER_README_LINES
        if len(lines) > most:
            yield f"{name}: {len(lines)} lines, at most {most}"
        code = False
        for number, line in enumerate(lines, 1):
            code ^= line.lstrip().startswith("```")
            if len(line) > LINE_CHARACTERS and not code and not line.lstrip().startswith(("|", "!")):
                yield f"{name}:{number}: {len(line)} characters, at most {LINE_CHARACTERS}"


def check_folder_readmes(root):
    folders = [*(p for p in (root / "src").iterdir() if p.is_dir()), *(root / n for n in ("bpf", "cmd", "ui", "tests", "fuzz", "bench", "tools"))]
    for folder in sorted(folders):
        if not (folder / "README.md").exists():
            yield f"{folder.relative_to(root)}: no README.md"


def folder_of(root, path):
    """What a circle is looked for between: src/store/write, src/base, bpf."""
    return str(path.relative_to(root).parent)


def includes(root, files):
    """(folder, folder that it includes from) -> one place where."""
    found = {}
    for path in (p for p in files if p.suffix in (".c", ".h") and not p.name.endswith(("_test.c", "_test.h", "for_tests.h"))):
        here = folder_of(root, path)
        if here.split("/")[0] not in ("src", "bpf", "cmd"):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = re.match(r'\s*#\s*include "([^"]+)"', line)
            if not match:
                continue
            for base in (root / "src", root, path.parent):
                target = base / match.group(1)
                if target.is_file():
                    there = folder_of(root, target)
                    if there != here:
                        found.setdefault((here, there), f"{path.relative_to(root)}:{number}")
                    break
    return found


# To be broken; no others may come.
KNOWN_CIRCLES = {("src/agent/process", "src/agent/runtimes"), ("src/agent/process", "src/agent/unwind")}


def check_circles(root, files):
    found = includes(root, files)
    next_of = {}
    for here, there in found:
        next_of.setdefault(here, set()).add(there)
    for (here, there), place in sorted(found.items()):
        seen, todo = set(), [there]
        while todo:
            folder = todo.pop()
            if folder in seen:
                continue
            seen.add(folder)
            todo += next_of.get(folder, ())
        # Of a folder and one inside it, each may use the other: they are one house with rooms.
        if here in next_of.get(there, ()) and not here.startswith(there + "/") and not there.startswith(here + "/") and here < there and (here, there) not in KNOWN_CIRCLES:
            yield f"{place}: {here} and {there} include each other ({found[(there, here)]})"


COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
NAMED = re.compile(r"(?<![\w./<-])((?:[a-z][\w-]*/)*[a-z][\w-]*\.(?:c|h|md|py))\b(?!\()")
# Files of others that comments cite: of the kernel, of gRPC, of CPython, PHP and Ruby, of libbpf, of cmocka. And examples.
FOREIGN = re.compile(r"(include|linux|asm|arch|kernel|grpc|cpython|internal)/|pycore_|zend_|vm_(core|insnhelper)\.|"
                     r"(symbol|class|st|iseq)\.[ch]$|(http-grpc-status-mapping|statuscodes)\.md|"
                     r"(bpf_helpers|perf_event|unicodeobject|cmocka)\.h|(build/)?(src/)?a\.c")


def check_comments(root, files):
    names = {}
    for path in files:
        names.setdefault(path.name, []).append(str(path.relative_to(root)))
    for path in (p for p in files if p.suffix in SUFFIXES and "fixtures" not in p.parts):
        text = path.read_text(errors="replace")
        for comment in COMMENT.finditer(text):
            for match in NAMED.finditer(comment.group()):
                name = match.group(1)
                if FOREIGN.match(name) or any(p.endswith("/" + name) or p == name for p in names.get(name.split("/")[-1], ())):
                    continue
                number = text.count("\n", 0, comment.start() + match.start()) + 1
                yield f"{path.relative_to(root)}:{number}: a comment names {name}, and there is no such file"


def is_product(name):
    return re.match(r"(src|cmd|bpf)/.*\.[ch]$", name) and not re.search(r"_test\.[ch]$|for_tests", name)


def size_group(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "src" else parts[0]


def print_sizes(root, files):
    lines, change = {}, {}
    for path in files:
        name = str(path.relative_to(root))
        if is_product(name):
            group = size_group(name)
            lines[group] = lines.get(group, 0) + path.read_bytes().count(b"\n")
    diff = subprocess.run(["git", "-C", root, "diff", "--numstat", "main"], capture_output=True, text=True, check=False).stdout
    for row in diff.splitlines():
        added, removed, name = row.split("\t", 2)
        if is_product(name) and added != "-":
            change[size_group(name)] = change.get(size_group(name), 0) + int(added) - int(removed)
    for group in sorted(lines, key=lines.get, reverse=True):
        print(f"{group:16} {lines[group]:7}{change.get(group, 0):+7}")
    print(f"{'all':16} {sum(lines.values()):7}{sum(change.values()):+7}")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    files = tracked(root)
    faults = [*check_documents(root, files), *check_folder_readmes(root), *check_circles(root, files), *check_comments(root, files)]
    print("\n".join(faults), file=sys.stderr)
    print_sizes(root, files)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
