"""A machine with another kernel: QEMU without acceleration, the program and a few others in an initial RAM disk, no disk, no network."""

import pathlib
import re
import stat
import subprocess

import fixtures
import program

KERNELS = fixtures.ROOT / "build" / "kernels"
BOOT_SECONDS = 600  # an emulated CPU is slow, and slower where others work

INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir -p /tmp /run
chmod 1777 /tmp
run() { # NAME COMMAND...: between two lines that tell its output from the rest of the console
	name=$1
	shift
	echo
	echo "<<< $name"
	"$@"
	code=$?
	echo
	echo ">>> $name $code"
}
stty -onlcr < /dev/console 2> /dev/null
%s
poweroff -f
"""


def _entry(out, name, mode, content=b""):
    """One file of a cpio archive, format newc (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst)."""
    path = name.encode() + b"\0"
    numbers = (len(out), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % n for n in numbers) + path
    for part in (head, content):
        out.append(part + b"\0" * (-len(part) % 4))


def _ram_disk(files, to):
    """files: path in the guest -> (mode, bytes). Folders make themselves."""
    out, folders = [], set()
    for name in sorted(files):
        for parent in reversed(pathlib.PurePosixPath(name).parents):
            if str(parent) not in folders and str(parent) != ".":
                folders.add(str(parent))
                _entry(out, str(parent), stat.S_IFDIR | 0o755)
        mode, content = files[name]
        _entry(out, name, mode, content)
    for name in ("proc", "sys", "dev"):
        _entry(out, name, stat.S_IFDIR | 0o755)
    _entry(out, "TRAILER!!!", 0)
    to.write_bytes(b"".join(out))


def _libraries(binary):
    done = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    return re.findall(r"/\S+\.so\S*", done.stdout)


def kernels():
    return sorted(path.parent.name for path in KERNELS.glob("*/vmlinuz"))


def run(kernel, binaries, script, folder):
    """Boots `kernel`, runs `script` (lines of `run NAME COMMAND...`) and switches off. NAME -> (output, exit code)."""
    files = {"init": (stat.S_IFREG | 0o755, (INIT % script).encode())}
    for binary in map(pathlib.Path, ["/bin/busybox", program.path(), *binaries]):
        files[f"bin/{binary.name}"] = (stat.S_IFREG | 0o755, binary.read_bytes())
        for library in _libraries(binary):
            files[library.lstrip("/")] = (stat.S_IFREG | 0o755, pathlib.Path(library).read_bytes())
    for name in ("sh", "mount", "mkdir", "cat", "poweroff", "stty", "sysctl", "chmod"):
        files[f"bin/{name}"] = (stat.S_IFLNK | 0o777, b"busybox")
    _ram_disk(files, folder / "ram-disk")
    words = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024", "-display", "none", "-monitor", "none"]
    words += ["-serial", f"file:{folder / 'console'}", "-no-reboot", "-net", "none", "-append", "console=ttyS0 panic=-1 quiet"]
    words += ["-kernel", str(KERNELS / kernel / "vmlinuz"), "-initrd", str(folder / "ram-disk")]
    subprocess.run(["qemu-system-x86_64", *words], check=True, timeout=BOOT_SECONDS)
    console = (folder / "console").read_text(errors="replace").replace("\r", "")
    found = re.findall(r"^<<< (\S+)\n(.*?)\n?^>>> \1 (\d+)$", console, re.MULTILINE | re.DOTALL)
    assert found, console[-4000:]
    return {name: (output, int(code)) for name, output, code in found}
