#!/bin/sh
# build-collector.sh - builds the official OpenTelemetry Collector with its own builder, as a peer for tests and bench/run.
#
# The result is build/peers/otelcol-peer; a second run finds it and does nothing. Needs Go (any since 1.21: it fetches the
# toolchain that the modules ask for) and, the first time, the Go module proxy: about 150 MB. Prints the program's path.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
peers=$root/build/peers
manifest=$root/tests/peers/collector-manifest.yaml
version=0.159.0
program=$peers/otelcol-peer
stamp=$peers/otelcol-peer.manifest

if [ -x "$program" ] && cmp -s "$manifest" "$stamp"; then
	echo "$program"
	exit 0
fi
command -v go > /dev/null || { echo "build-collector.sh: no Go here, so no official collector" >&2; exit 3; }

mkdir -p "$peers"
cd "$peers"
export GOFLAGS="-p=2 -buildvcs=false" GOTOOLCHAIN=auto CGO_ENABLED=0
[ -x "$peers/bin/builder" ] || GOBIN=$peers/bin go install "go.opentelemetry.io/collector/cmd/builder@v$version" >&2
"$peers/bin/builder" --config "$manifest" >&2
cp "$peers/otelcol-peer-src/otelcol-peer" "$program.tmp"
mv "$program.tmp" "$program"
cp "$manifest" "$stamp"
echo "$program"
