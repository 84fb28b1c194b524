"""The recorded bodies of tests/fixtures, with their official decodes."""

import gzip
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
OTLP = HERE / "fixtures" / "otlp"
STDOUT = HERE / "fixtures" / "stdout"
BIG = "v1.11.0-oncpu-big"


class Body:
    def __init__(self, path):
        self.path = path
        self.name = path.name[: -len(".pb")]
        release = re.match(r"v(1\.\d+)\.", self.name).group(1)
        self.version = "1.10" if release == "1.11" else release

    @property
    def bytes(self):
        return self.path.read_bytes()

    @property
    def official_json(self):
        """The canonical protobuf JSON of the official descriptors of that release (ids in base64: not OTLP/JSON)."""
        return json.loads(gzip.decompress(self.path.with_name(self.name + ".json.gz").read_bytes()))

    @property
    def stdout_text(self):
        return gzip.decompress((STDOUT / (self.name + ".txt.gz")).read_bytes())

    def __repr__(self):
        return self.name


BODIES = [Body(p) for p in sorted(OTLP.glob("*.pb"))]
NEWEST_BODIES = [b for b in BODIES if b.version == "1.10"]
BY_NAME = {b.name: b for b in BODIES}


def body(name):
    return BY_NAME[name]


def one_per_version():
    """A smallish body of each version, newest last."""
    best = {}
    for b in BODIES:
        if b.version not in best or len(b.bytes) < len(best[b.version].bytes):
            best[b.version] = b
    return sorted(best.values(), key=lambda b: [int(x) for x in b.version.split(".")])


def readme_table():
    """name -> row of the table in fixtures/otlp/README.md (samples, events, frames by type), counted when they were recorded."""
    rows = {}
    for line in (OTLP / "README.md").read_text().splitlines():
        m = re.match(r"\| `(v[^`]+)\.pb` \|", line)
        if m:
            cells = [c.strip() for c in line.strip("|").split("|")]
            rows[m.group(1)] = {
                "samples": int(cells[5]), "events": int(cells[6]),
                "frames": {k: int(v) for k, v in (f.rsplit(" ", 1) for f in cells[8].split(", "))},
            }
    return rows
