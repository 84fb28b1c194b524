#!/bin/bash
# fetch-chdb.sh - the engine of a modern ClickHouse as a Python library, into build/peers/chdb: 180 MB from PyPI, 530 MB unpacked.
#
# For tests/test_clickhouse.py; without it the tests with a modern server skip. In a folder of its own, not in build/venv: it is
# large, and only those tests import it.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -d build/peers/chdb/chdb ] && exit 0
mkdir -p build/peers
rm -rf build/peers/chdb.tmp
build/venv/bin/pip -q --disable-pip-version-check install --no-deps --target build/peers/chdb.tmp chdb-core==26.9.0
mv build/peers/chdb.tmp build/peers/chdb
