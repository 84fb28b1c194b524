# shellcheck shell=bash
# house.sh - what ./run and ./test share: saying and installing what is missing. Sourced by bash, in the root folder.

house_say() {
	printf '== %s\n' "$*" >&2
}

house_die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The packages of some groups of tools/packages.txt.
house_packages_of() {
	local group
	for group in "$@"; do
		sed -n "s/^$group //p" tools/packages.txt
	done | sort -u
}

house_missing_packages() {
	local package
	for package in $(house_packages_of "$@"); do
		dpkg-query -W -f '${db:Status-Status}\n' "$package" 2> /dev/null | grep -qx installed || echo "$package"
	done
}

house_as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

house_apt() {
	house_as_root apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false "$@" < /dev/null
}

# What apt would fetch, in MB; fails where apt's lists do not know a package yet.
house_download_mb() {
	local uris
	uris=$(apt-get -q -y -o APT::Install-Recommends=false --print-uris install "$@" 2> /dev/null) || return 1
	awk '/^\x27/ { sum += $3 } END { printf "%.0f\n", sum / 1000000 + 0.5 }' <<< "$uris"
}

# house_need_packages GROUP...: says what is missing and how much it is, then installs it. No network when all is there.
house_need_packages() {
	local missing mb
	command -v dpkg-query > /dev/null || house_die "needs Debian 12 (dpkg); elsewhere install by hand: $(house_packages_of "$@" | xargs)"
	missing=$(house_missing_packages "$@" | xargs)
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] && ! command -v sudo > /dev/null; then
		house_die "these packages are missing, and there is no sudo; as root: apt-get install $missing"
	fi
	house_say "missing Debian packages: $missing"
	# shellcheck disable=SC2086
	if ! mb=$(house_download_mb $missing); then
		house_say "downloading apt's package lists first (about 10 MB)"
		house_apt update >&2 || house_die "apt-get update failed"
		mb=$(house_download_mb $missing) || house_die "apt knows no candidate for one of: $missing"
	fi
	house_say "apt downloads about $mb MB now"
	# shellcheck disable=SC2086
	if ! house_apt install $missing >&2; then
		house_say "apt's lists may be old: refreshing them (about 10 MB) and trying once more"
		house_apt update >&2 || house_die "apt-get update failed"
		house_apt install $missing >&2 || house_die "apt could not install: $missing"
	fi
}

# node and npm, for the page: those on the PATH, from wherever, or Debian's.
house_need_node() {
	command -v node > /dev/null && command -v npm > /dev/null && return 0
	house_need_packages node
}

# A virtual environment in build/venv with tests/requirements.txt; nothing to do when it has that very list.
house_need_venv() {
	local stamp=build/venv/requirements.stamp
	cmp -s tests/requirements.txt "$stamp" && [ -x build/venv/bin/python ] && return 0
	house_say "missing Python packages for the tests, into build/venv: pip downloads about 25 MB now"
	[ -x build/venv/bin/python ] || python3 -m venv build/venv >&2 || house_die "python3 -m venv failed"
	build/venv/bin/pip -q --disable-pip-version-check install -r tests/requirements.txt >&2 < /dev/null ||
		house_die "pip could not install tests/requirements.txt"
	cp tests/requirements.txt "$stamp"
}

# house_build PRESET [CMAKE-WORD...]: configures where needed and builds everything of the preset.
house_build() {
	local preset=$1
	shift
	cmake --preset "$preset" "$@" > "build/$preset.configure.log" 2>&1 || {
		cat "build/$preset.configure.log" >&2
		return 1
	}
	cmake --build "build/$preset" >&2
}
