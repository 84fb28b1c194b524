"""Real language runtimes that tools/runtimes fetched: where they are, and how a program runs in them."""

import contextlib
import dataclasses
import functools
import pathlib
import shutil
import subprocess

import pytest

import fixtures


@dataclasses.dataclass(frozen=True)
class Runtime:
    name: str
    version: str
    root: pathlib.Path  # of a Debian suite, or of an npm package
    program: str  # below root

    @property
    def in_chroot(self):
        return (self.root / "etc/debian_version").exists()

    def command(self, *words):
        """The command that runs the runtime with these words. In a chroot, paths among them are paths there."""
        if self.in_chroot:
            return ["chroot", str(self.root), self.program, *map(str, words)]
        return [str(self.root) + self.program, *map(str, words)]

    def put(self, source, name):
        """Puts a program's file where the runtime sees it; the path to give to command()."""
        if not self.in_chroot:
            return pathlib.Path(source)
        folder = self.root / "srv/flametap-tests"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / name)
        return pathlib.Path("/srv/flametap-tests") / name


@functools.cache
def here():
    """Those that were fetched, as the list of tools/runtimes has them: older versions first."""
    text = subprocess.run([fixtures.ROOT / "tools/runtimes", "--list"], capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [line.split(" ", 3) for line in text.splitlines()]
    return [Runtime(name, version, pathlib.Path(root), program) for name, version, root, program in rows]


def want(name, version):
    """The runtime, or a skip that names the command which fetches it."""
    for runtime in here():
        if (runtime.name, runtime.version) == (name, version):
            return runtime
    pytest.skip(f"no {name} {version} here: tools/runtimes {name} {version}")


@contextlib.contextmanager
def with_proc(runtime):
    """A chroot has /proc as long as this lasts."""
    proc = runtime.root / "proc"
    mount = runtime.in_chroot and not (proc / "self").exists()
    if mount:
        subprocess.run(["mount", "-t", "proc", "proc", proc], check=True)
    try:
        yield
    finally:
        if mount:
            subprocess.run(["umount", "--lazy", proc], check=False)
