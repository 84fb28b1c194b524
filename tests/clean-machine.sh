#!/bin/bash
# clean-machine.sh - ./run and ./test on a bare Debian 12, from nothing. Needs root, debootstrap and about 3 GB in build/.
#
# Makes a minimal root file system from the mirror this machine's apt uses, puts HEAD into it as a fresh clone would be, and
# in a chroot with its own mounts and process ids:
#   1. ./run --build-only and ./test --quick, which install what is missing
#   2. both again (of the tests: the unit tests) in a network namespace with nothing but loopback: no download
#   3. ./run alone for a while: its page answers with a flame graph of this machine, a second ./run finds it, and SIGTERM
#      ends it cleanly
# --as-user does all that as an ordinary user with sudo. --run does only ./run, from nothing to the flame graph, some minutes
# in all. --keep leaves the file system for a look.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build/clean-machine
root=$work/root
keep=false as_user=false only_run=false
for word in "$@"; do
	case $word in
	--keep) keep=true ;;
	--as-user) as_user=true ;;
	--run) only_run=true ;;
	*) echo "usage: tests/clean-machine.sh [--as-user] [--run] [--keep]" >&2 && exit 2 ;;
	esac
done
[ "$(id -u)" = 0 ] || { echo "clean-machine.sh: needs root (chroot and namespaces)" >&2 && exit 3; }
command -v debootstrap > /dev/null || { echo "clean-machine.sh: needs debootstrap" >&2 && exit 3; }

say() {
	echo "clean-machine: $*" >&2
}

make_root() {
	local mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Codename: bookworm' | head -n 1)
	[ -n "$mirror" ] || { say "apt here has no source for bookworm" && exit 3; }
	rm -rf "$root"
	mkdir -p "$work"
	say "debootstrap (about 60 MB)"
	debootstrap --variant=minbase bookworm "$root" "$mirror" > "$work/debootstrap.log" 2>&1 || {
		tail "$work/debootstrap.log" >&2
		exit 1
	}
	# The way to the packages is this machine's: its apt sources, proxies, certificates and pip settings.
	rm -f "$root/etc/apt/sources.list"
	cp -r /etc/apt/. "$root/etc/apt/"
	[ ! -d /usr/share/keyrings ] || cp -rn /usr/share/keyrings/. "$root/usr/share/keyrings/"
	[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
	mkdir -p "$root/etc/ssl/certs" "$root/usr/local/share/ca-certificates"
	cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2> /dev/null || true
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	if $as_user; then
		chroot_run root apt-get -q -y update > "$work/user.log" 2>&1
		chroot_run root apt-get -q -y install --no-install-recommends sudo >> "$work/user.log" 2>&1
		chroot_run root useradd --create-home builder
		echo 'builder ALL=(root) NOPASSWD: ALL' > "$root/etc/sudoers.d/builder"
	fi
}

# chroot_run USER COMMAND...: own mounts and process ids, so that whatever is left over ends with it. NETWORK=none: loopback only.
chroot_run() {
	local user=$1 name words=() net=()
	shift
	[ "${NETWORK-}" != none ] || net=(--net)
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_DEFAULT_TIMEOUT PIP_CERT; do
		[ -z "${!name-}" ] || words+=("$name=${!name}")
	done
	unshare --mount --pid --fork --kill-child ${net[@]+"${net[@]}"} bash -c '
		set -eu
		root=$1 user=$2
		shift 2
		mount --bind "$root" "$root" # a root that is a mount: tests make namespaces in it
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys" # types of the kernel, without which nothing is profiled
		mount --bind /dev "$root/dev"
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" && mount --bind "$root/dev/pts/ptmx" "$root/dev/ptmx"
		[ "${NETWORK-}" != none ] || ip link set lo up
		exec chroot --userspec="$user" "$root" "$@"' chroot_run "$root" "$user" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8 ${words[@]+"${words[@]}"} "$@"
}

in_tree() {
	chroot_run "$user" bash -c 'cd /src/flametap && exec "$@"' in_tree "$@" < /dev/null
}

step() { # NAME COMMAND...
	local name=$1
	shift
	say "$name"
	"$@" > "$work/$step_number-log" 2>&1 || {
		tail -n 60 "$work/$step_number-log" >&2
		say "FAILED: $name"
		exit 1
	}
	tail -n 3 "$work/$step_number-log"
	step_number=$((step_number + 1))
}

expect_program() {
	local name
	in_tree build/release/flametap --version || return 1
	for name in ebpf-profiler otel-profiling-agent opentelemetry-lazybackend \
		opentelemetry-profiles-lazybackend otelcol-ebpf-profiler; do
		[ "$(in_tree readlink -f "build/release/$name")" = /src/flametap/build/release/flametap ] || return 1
	done
}

expect_no_download() {
	if grep -iE 'apt downloads|pip downloads|package lists' "$work/$((step_number - 1))-log"; then
		say "FAILED: something was downloaded again"
		exit 1
	fi
}

# ./run, until its page has a flame graph of this machine. Where 4040 is taken it needs a network namespace of its own.
page() {
	in_tree timeout -k 10 2700 bash -c '
		./run & first=$!
		for _ in {1..24000}; do # python3 comes with what ./run installs
			(: < /dev/tcp/127.0.0.1/4040) 2> /dev/null && break
			kill -0 $first || exit 1
			sleep 0.1
		done
		python3 - << END || { kill $first; exit 1; }
import json, time, urllib.request

def ask(path):
    return urllib.request.urlopen("http://127.0.0.1:4040" + path, timeout=5).read()

def wait_for(what, seconds, answer):
    for _ in range(10 * seconds):
        try:
            got = answer()
            if got:
                return got
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"not within {seconds} s: {what}")

print("page:", wait_for("the page", 30, lambda: ask("/api/v1/status")).decode())
assert b"<html" in ask("/")

def flame_graph(): # docs/api.md: "FTT1", the length of a JSON header, the header, columns
    body = ask("/api/v1/flamegraph?from=now-5m&to=now")
    assert body[:4] == b"FTT1", body[:40]
    header = json.loads(body[8:8 + int.from_bytes(body[4:8], "little")])
    return header if header["samples"] >= 20 else None

header = wait_for("a flame graph of 20 samples", 60, flame_graph)
rows = json.loads(ask("/api/v1/top?from=now-5m&to=now&n=0"))["rows"]
print("flame graph:", header["samples"], "samples of", header["processes"], "processes; top:",
      ", ".join(f"{row[0]} ({row[3]})" for row in rows[:5]))
assert any(row[3:5] == ["vmlinux", "kernel"] for row in rows), "no kernel function"
assert any(row[4] == "native" for row in rows), "no native function"
END
		./run 2>&1 | grep "it is already running: http://127.0.0.1:4040/" || { kill $first; exit 1; }
		kill $first
		wait $first'
}

step_number=1
user=root
make_root
mkdir -p "$root/src/flametap"
git archive HEAD | tar -x -C "$root/src/flametap"
if $as_user; then
	user=builder
	chroot "$root" chown -R builder: /src
fi

if $only_run; then
	step "./run, from nothing to a flame graph" page
	$keep || rm -rf "$root"
	say "all well"
	exit
fi

step "./run --build-only, from nothing" in_tree ./run --build-only
step "the program and its five other names" expect_program
step "./test --quick, from nothing" in_tree ./test --quick
export NETWORK=none
step "./run --build-only, without a network" in_tree ./run --build-only
expect_no_download
step "./test --quick build_dev unit, without a network" in_tree ./test --quick build_dev unit
expect_no_download
step "./run and its page" page
unset NETWORK
$keep || rm -rf "$root"
say "all well"
