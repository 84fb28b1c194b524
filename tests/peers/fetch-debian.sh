#!/bin/bash
# fetch-debian.sh [--only] DIR PACKAGE... - unpacks Debian packages, and what they need that is not installed, into DIR.
#
# --only: just these, where much of what they depend on is never loaded.
# For test peers that are daemons: nothing is installed, no service exists, no root is needed. Programs are then run with
# LD_LIBRARY_PATH=DIR/usr/lib/x86_64-linux-gnu.
set -eu
only=
[ "${1-}" = --only ] && only=1 && shift
[ $# -ge 2 ] || { echo "usage: $0 [--only] DIR PACKAGE..." >&2; exit 2; }
dir=$1
shift
[ -e "$dir/.complete" ] && exit 0
mkdir -p "$dir.debs"
packages=
[ -n "$only" ] || packages=$(apt-get install --simulate --no-install-recommends "$@" 2> /dev/null | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
# What is installed already is not listed: the wanted ones always are.
packages=$(printf '%s\n' $packages "$@" | sort -u)
(cd "$dir.debs" && apt-get download $packages)
rm -rf "$dir.tmp"
for deb in "$dir.debs"/*.deb; do
	dpkg-deb -x "$deb" "$dir.tmp"
done
touch "$dir.tmp/.complete"
rm -rf "$dir" "$dir.debs"
mv "$dir.tmp" "$dir"
