"""Bad bodies over the sockets: cuts, mutations, hostile lengths, deep nesting. A status each, the process lives, memory stays
bounded, and the next good request works."""

import gzip
import json
import os
import random
import subprocess

import pytest

import clients
import fixtures
import program
import schemas
from fixtures import BODIES

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")
GRPC_ANSWERS = {clients.OK, clients.INVALID_ARGUMENT, clients.RESOURCE_EXHAUSTED}
HTTP_ANSWERS = {200, 400, 413}
RSS_LIMIT_KIB = 64 * 1024


class Target:
    """One backend that must live through everything; prints to nowhere, layout full so that every renderer path runs."""

    def __init__(self):
        self.server = program.backend("-stdout.layout", "full", stdout="/dev/null")
        self.channel = clients.channel(self.server.grpc)
        self.statuses = {}

    def grpc(self, body, version=schemas.NEWEST):
        code, _ = clients.export_status(self.channel, body, version=version)
        assert code in GRPC_ANSWERS, (code, body[:40])
        self.statuses[code] = self.statuses.get(code, 0) + 1
        return code

    def http(self, body, version=schemas.NEWEST, **options):
        a = clients.post(self.server.http, body, version, **options)
        assert a.status in HTTP_ANSWERS, a
        if a.status != 200:
            assert a.rpc_status.message
        return a.status

    def check_health(self):
        assert self.server.alive(), self.server.log[-5000:]
        assert self.grpc(SMALL.bytes) == clients.OK
        assert self.http(SMALL.bytes) == 200
        if not program.is_sanitized():
            assert self.server.peak_rss_kib < RSS_LIMIT_KIB, f"{self.server.peak_rss_kib} KiB"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.channel.close()
        self.server.__exit__(*error)


@pytest.fixture
def target():
    with Target() as t:
        yield t
        t.check_health()


@pytest.mark.long
@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_cut_at_every_97th_byte(target, body):
    cuts = range(0, len(body.bytes), 97 if program.LONG else 970)
    for number, at in enumerate(cuts):
        code = target.grpc(body.bytes[:at], body.version)
        if number % 5 == 0:
            status = target.http(body.bytes[:at], body.version)
            assert (status == 200) == (code == clients.OK), (at, status, code)
    assert target.statuses.get(clients.INVALID_ARGUMENT, 0) > len(cuts) * 0.7, "most cuts cannot be whole messages"


def mutate(rng, data):
    """One of several ways to spoil a body, a few bytes at a time."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out))
        how = rng.randrange(7)
        if how == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[at] = rng.choice((0, 0x7F, 0x80, 0xFF, 0x0A, 0x12))
        elif how == 2:
            del out[at:at + rng.randrange(1, 9)]
        elif how == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif how == 4:
            end = min(len(out), at + rng.randrange(1, 64))
            out[at:at] = out[at:end]
        elif how == 5:
            out[at:at + 5] = b"\xff\xff\xff\xff\x0f"
        else:
            out[at:at + 10] = b"\x80" * 9 + b"\x01"
        if not out:
            out = bytearray(b"\x00")
    return bytes(out)


@pytest.mark.long
def test_seeded_mutations(target):
    """10,000 of them (a tenth in the daily run), seeded: the same every time, each over the socket."""
    total = 10_000 if program.LONG else 1_000
    small = [b for b in BODIES if len(b.bytes) < 25_000]
    for seed in range(total):
        rng = random.Random(seed)
        body = small[seed % len(small)]
        data = mutate(rng, body.bytes)
        if seed % 4 == 3:
            target.http(data, body.version)
        else:
            target.grpc(data, body.version)
        if seed % 1000 == 999:
            target.check_health()


@pytest.mark.long
def test_seeded_json_mutations(target):
    total = 2_000 if program.LONG else 200
    text = (fixtures.OTLP / "v1.11.0-synthetic-offcpu-links.otlp.json").read_bytes()
    for seed in range(total):
        target.http(mutate(random.Random(seed), text), content_type="application/json")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


HOSTILE = {
    "length past the end": b"\x0a\xff\xff\xff\xff\x0f",
    "length of 2^63": b"\x0a" + varint(1 << 63),
    "length of 2^64-1": b"\x0a" + varint((1 << 64) - 1),
    "varint of eleven bytes": b"\x0a" + b"\xff" * 11,
    "varint without end": b"\x08" + b"\x80" * 9,
    "field number 0": b"\x02\x00",
    "wire type 6": b"\x0e\x00",
    "wire type 7": b"\x0f\x00",
    "end group alone": b"\x0c",
    "group without end": b"\x0b",
    "deep groups": b"\x0b" * 20_000 + b"\x0c" * 20_000,
    "field number 2^29-1": varint((1 << 29) - 1 << 3 | 2) + b"\x01a",
    "packed indices that are cut": field(2, field(7, field(1, b"\x80"))),
    "a fixed64 of seven bytes": field(1, field(2, field(2, b"\x19" + b"\x01" * 7))),
    "a table of a million empty entries": field(2, b"\x0a\x00" * 1_000_000),
    "a million empty resources": b"\x0a\x00" * 1_000_000,
    "a stack of a million frames": field(2, field(7, field(1, b"\x00" * 1_000_000))),
    "text as a body": b"this is not protobuf",
    "zeros": b"\x00" * 100_000,
    "ones": b"\xff" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lengths(target, name):
    for version in ("1.10", "1.3"):
        target.grpc(HOSTILE[name], version)
        target.http(HOSTILE[name], version)


def nested_any(depth):
    """AnyValue { array_value { values { array_value ... } } }, so many levels deep."""
    sizes, inner = [], 0
    for _ in range(depth):
        inner = 1 + len(varint(inner)) + inner      # ArrayValue.values
        sizes.append(inner)
        inner = 1 + len(varint(inner)) + inner      # AnyValue.array_value
        sizes.append(inner)
    out = b""
    for i in range(len(sizes) - 1, 0, -2):
        out += b"\x2a" + varint(sizes[i - 1]) + b"\x0a" + varint(sizes[i - 2] if i >= 2 else 0)
    return out


def in_resource(any_value):
    return field(1, field(1, field(1, field(1, b"k") + field(2, any_value))))


def test_nesting_is_what_protobuf_reads():
    c = schemas.schema(schemas.NEWEST)
    v = c.Request.FromString(in_resource(nested_any(20))).resource_profiles[0].resource.attributes[0].value
    depth = 0
    while v.HasField("array_value") and v.array_value.values:
        v, depth = v.array_value.values[0], depth + 1
    assert depth == 20


def test_nesting_ten_thousand_deep(target):
    body = in_resource(nested_any(10_000))
    assert target.grpc(body) == clients.INVALID_ARGUMENT or target.grpc(body) == clients.RESOURCE_EXHAUSTED
    assert target.http(body) in (400, 413)
    assert target.grpc(in_resource(nested_any(20))) == clients.OK
    deep_kvlist = b""
    for _ in range(500):
        deep_kvlist = field(6, field(1, field(1, b"k") + field(2, deep_kvlist)))
    assert target.grpc(in_resource(deep_kvlist)) != clients.OK


@pytest.mark.parametrize("text", [
    b"[" * 10_000 + b"]" * 10_000,
    b'{"resourceProfiles":' * 5_000,
    b'{"resourceProfiles":[{"resource":{"attributes":[{"key":"k","value":' + b'{"arrayValue":{"values":[' * 10_000 + b"]}}" * 10_000 + b"}]}}]}",
    b'{"unknown":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
], ids=["arrays", "objects", "values", "unknown"])
def test_json_nesting_ten_thousand_deep(target, text):
    assert target.http(text, content_type="application/json") in (400, 413)


@pytest.mark.parametrize("text", [
    b"", b"{", b"null", b"[]", b'"x"', b"{}{}", b'{"resourceProfiles":3}', b'{"resourceProfiles":[null]}',
    b'{"dictionary":{"stringTable":["",1]}}', b'{"dictionary":{"stringTable":["\xff\xfe"]}}', b'{"dictionary":{"stringTable":["\\ud800"]}}',
    b'{"dictionary":{"linkTable":[{"traceId":"zz"}]}}', b'{"dictionary":{"locationTable":[{"address":"18446744073709551616"}]}}',
    b'{"dictionary":{"locationTable":[{"address":1e300}]}}', b'{"dictionary":{"locationTable":[{"address":-1}]}}',
    b'{"resourceProfiles":[{"resource":{"attributes":[{"key":"k","value":{"intValue":"x"}}]}}]}',
    b'{"a":1,}', b'{"a":01}', b'{"a":nul}', b"\xef\xbb\xbf{}", b'{"resourceProfiles":[' + b"{}," * 100_000 + b"{}]}",
])
def test_odd_json(target, text):
    """Each gets an answer that is one of the allowed ones; what is no JSON at all gets 400."""
    status = target.http(text, content_type="application/json")
    try:
        json.loads(text.decode(errors="replace"))  # bad UTF-8 inside of a string is kept, not refused
    except ValueError:
        if not text.startswith(b"\xef\xbb\xbf") and text:
            assert status == 400, text[:60]


def test_valid_index_abuse_does_not_multiply(target):
    """One deep stack, used by many samples, in many lines: a small body must not become unbounded text or memory."""
    c = schemas.schema(schemas.NEWEST)
    request = c.Request()
    d = request.dictionary
    d.string_table.extend(["", "f" * 100])
    d.mapping_table.add(), d.link_table.add(), d.attribute_table.add(), d.stack_table.add()
    d.function_table.add(), d.function_table.add(name_strindex=1, filename_strindex=1)
    d.location_table.add()
    loc = d.location_table.add()
    for _ in range(1000):
        loc.lines.add(function_index=1)
    d.stack_table.add(location_indices=[1] * 1000)
    p = request.resource_profiles.add().scope_profiles.add().profiles.add()
    p.samples.add(stack_index=1, timestamps_unix_nano=[1])
    body = request.SerializeToString()
    assert len(body) < 20_000  # one sample of it is 250 MB of text
    code, _ = clients.export_status(target.channel, body, timeout=300)
    assert code in (clients.OK, clients.RESOURCE_EXHAUSTED, clients.INVALID_ARGUMENT), code


@pytest.mark.parametrize("body", fixtures.one_per_version(), ids=repr)
def test_files_cut_and_mutated_never_crash_decode_and_check(body, tmp_path):
    """The file commands take the same punishment: exit 0 or 1, never a signal."""
    rounds = 60 if program.LONG else 12
    file = tmp_path / "bad.pb"
    for seed in range(rounds):
        rng = random.Random(seed)
        file.write_bytes(mutate(rng, body.bytes) if seed % 2 else body.bytes[: rng.randrange(len(body.bytes))])
        words = [["decode", "--layout", "full"], ["decode", "--format", "json"], ["decode", "--format", "folded"], ["check", "--json"],
                 ["decode", "--format", "otlp-json"], ["decode", "--format", "otlp"]][seed % 6]
        done = program.run(*words, file)
        assert done.returncode in (0, 1), (seed, done.returncode, done.stderr[-2000:])
        if done.returncode == 1 and words[0] == "decode":
            assert done.stderr.strip(), "a refusal without a reason"


@pytest.mark.parametrize("command", ["top", "check"])
def test_a_small_file_that_unpacks_to_gigabytes_is_counted_not_unpacked(command, tmp_path):
    """1.1 GiB in gzip members of 16 MiB each: 5 MB as they come."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(16 << 20), 1) * 70)
    with subprocess.Popen([program.existing_path(), command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=program.environment()) as p:
        said = p.stderr.read().decode()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 1 and "larger than the limit of 1073741824 bytes" in said, said
    assert program.is_sanitized() or usage.ru_maxrss < 200 * 1024, f"{usage.ru_maxrss} KiB"
