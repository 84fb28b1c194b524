"""Fields of no schema, in every message of a body: kept in their place, counted, written back.

The bodies are written and read by Google's protobuf (schemas.py, and the official package for the newest version); every
message of a body, whatever its type, has field 999 in each wire type, with a number that only this message has.
"""

import collections
import struct

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

import clients
import full_text
import handmade
import program
import receivers
import schemas

WRITTEN = ["1.7", "1.8", "1.9", "1.10"]
FIELD = 999


def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def tag(wire_type, number=FIELD):
    return varint(number << 3 | wire_type)


def fields_of(mark):
    """Field 999 as varint, fixed64, bytes, group and fixed32."""
    text = b"mark %d" % mark
    return (tag(0) + varint(mark) + tag(1) + struct.pack("<Q", mark) + tag(2) + varint(len(text)) + text
            + tag(3) + tag(0, 1) + varint(mark) + tag(4) + tag(5) + struct.pack("<I", mark))


FIELDS_EACH = 5


def messages(message, path="", parent=None):
    """(path, message, parent) of all of them, outermost first."""
    yield path, message, parent
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for i, sub in enumerate(value) if field.is_repeated else [(None, value)]:
            yield from messages(sub, f"{path}.{field.name}" + ("" if i is None else f"[{i}]"), message)


def marked(request):
    """A copy with the unknown fields in every message; how many there are."""
    request = type(request).FromString(request.SerializeToString())
    count = 0
    for count, (_, message, _) in enumerate(messages(request), 1):
        message.MergeFromString(fields_of(count))
    return request, count


def unknown(message):
    def plain(fields):
        return [(f.field_number, f.wire_type, plain(f.data) if f.wire_type == 3 else f.data) for f in fields]
    return plain(UnknownFieldSet(message))


def mark_of(message):
    """The message's number; all of its unknown fields agree on it."""
    fields = unknown(message)
    if not fields:
        return None
    mark = fields[0][2]
    assert fields == unknown(type(message).FromString(fields_of(mark))), message.DESCRIPTOR.name
    return mark


def places(request):
    """mark -> (type, path)"""
    return {mark_of(m): (m.DESCRIPTOR.name, path) for path, m, _ in messages(request) if unknown(m)}


def families(request):
    """mark -> (type, the mark of the message around it): where it is, whatever its index."""
    return {mark_of(m): (m.DESCRIPTOR.name, mark_of(parent) if parent else None)
            for _, m, parent in messages(request) if unknown(m)}


@pytest.fixture(scope="module", params=WRITTEN)
def body(request):
    version = request.param
    message, count = marked(handmade.rich(version))
    types = {m.DESCRIPTOR.name for _, m, _ in messages(message)}
    known = set(schemas.VERSIONS[version]) - {"ExportProfilesServiceResponse", "ExportProfilesPartialSuccess"}
    assert types == known, "a message of every type of the schema"
    return version, message, count


def written(version, data, *words):
    out = program.run("decode", "--format", "otlp", *words, "-", stdin=data, check=0).stdout
    return schemas.schema(version).Request.FromString(out)


def test_every_message_keeps_its_unknown_fields(body):
    version, message, count = body
    got = written(version, message.SerializeToString(), "--wire-version", version)
    if version == "1.7":  # tables begin with a zero entry in what we write: indices move by one
        assert families(got) == families(message)
    else:
        assert places(got) == places(message)
    assert len(places(got)) == count


def test_the_official_package_reads_them():
    message, _ = marked(handmade.rich(schemas.NEWEST))
    official = profiles_service_pb2.ExportProfilesServiceRequest
    out = program.run("decode", "--format", "otlp", "-", stdin=message.SerializeToString(), check=0).stdout
    assert places(official.FromString(out)) == places(official.FromString(message.SerializeToString()))


def test_decode_counts_and_names_them(body):
    version, message, count = body
    parsed = decoded_full(version, message.SerializeToString())
    whole = sum(m.DESCRIPTOR.name == "EntityRef" for _, m, _ in messages(message))  # kept as they came, not looked into
    assert parsed["unknown_fields"] == FIELDS_EACH * (count - whole)


def decoded_full(version, data):
    out = program.run("decode", "--layout", "full", "--wire-version", version, "-", stdin=data, check=0).stdout
    [parsed] = full_text.parse(out.decode())
    return parsed


def test_full_layout_shows_those_inside_attributes():
    """Each with its place in the attribute, in resources, scopes and the attribute table."""
    message, _ = marked(handmade.rich("1.10"))
    shown = {(key, place, raw) for key, place, raw in decoded_full("1.10", message.SerializeToString())["unknown"]}
    [attribute] = [a for a in message.resource_profiles[0].resource.attributes if a.key == "map"]
    deep = attribute.value.kvlist_value.values[1].value.array_value
    for place, m in ((".", attribute), ("value", attribute.value), ("value.kvlist_value", attribute.value.kvlist_value),
                     ("value.kvlist_value.values[1]", attribute.value.kvlist_value.values[1]),
                     ("value.kvlist_value.values[1].value.array_value", deep),
                     ("value.kvlist_value.values[1].value.array_value.values[2]", deep.values[2])):
        assert ("map", place, fields_of(mark_of(m))) in shown
    assert ("thread.name", "value", fields_of(mark_of(message.dictionary.attribute_table[1].value))) in shown


def test_in_pieces_and_between_known_fields():
    """Singular messages that come in parts are one; what stood between known fields is kept as well."""
    c = schemas.schema("1.10")
    value = c.AnyValue(int_value=7).SerializeToString()
    first, second = fields_of(1), fields_of(2)

    def field(number, data):
        return tag(2, number) + varint(len(data)) + data

    key_value = first + field(1, b"key") + field(2, first + value) + second + field(2, second) + first
    listed = field(1, b"list") + field(2, first + field(5, first + field(1, b"") + second) + field(5, second) + second)
    replaced = field(1, b"other") + field(2, field(5, first) + field(1, b"text"))  # a string in the end: the list is gone
    resource = field(1, key_value) + field(1, listed) + field(1, replaced)
    profile = field(1, first) + field(1, second + tag(0, 1) + b"\x01") + field(5, first) + tag(1, 3) + bytes(8)
    body = field(1, field(1, resource) + field(2, field(2, profile))) + field(2, field(5, b"") + field(5, b"cpu"))
    official = c.Request.FromString(body)
    got = c.Request.FromString(program.run("decode", "--format", "otlp", "-", stdin=body, check=0).stdout)
    for want, m in zip(official.resource_profiles[0].resource.attributes, got.resource_profiles[0].resource.attributes, strict=True):
        assert unknown(m) == unknown(want) and unknown(m.value) == unknown(want.value)
        assert m.key == want.key and m.value.WhichOneof("value") == want.value.WhichOneof("value")
        assert unknown(m.value.array_value) == unknown(want.value.array_value)
    a, b = (r.resource_profiles[0].scope_profiles[0].profiles[0] for r in (official, got))
    assert unknown(a.sample_type) == unknown(b.sample_type) != [] and unknown(a.period_type) == unknown(b.period_type) != []


def test_a_forwarder_passes_them_on():
    version = schemas.NEWEST
    message, _ = marked(handmade.rich(version))
    with receivers.GrpcReceiver() as r, program.backend("-receiver", "otlp", "-otlp.endpoint", f"http://{r.address}") as server:
        with clients.channel(server.grpc) as ch:
            clients.export(ch, message.SerializeToString())
        program.wait_for(lambda: r.bodies, what="the body")
    assert places(schemas.schema(version).Request.FromString(r.bodies[0])) == places(message)


def reachable(version, message):
    """The marks of what samples and profiles lead to: entries that nobody refers to are no part of what a store keeps."""
    got = families(message)
    d = message.dictionary
    unused = [d.mapping_table[0], d.location_table[0], d.function_table[0], d.link_table[0], d.attribute_table[0], d.stack_table[0]]
    gone = {mark_of(m) for m in unused} | {mark_of(d.attribute_table[0].value)}
    return {m: place for m, place in got.items() if m not in gone}


@pytest.mark.parametrize("version", ["1.8", "1.9", "1.10"])
def test_out_of_the_store_as_in(version, tmp_path):
    message, count = marked(handmade.rich(version))
    db = tmp_path / "flametap.db"
    with program.backend("-receiver", "sqlite", "-sqlite.path", db, "-wire-version", version) as server:
        answer = clients.http_request(server.http, "POST", "/v1development/profiles", message.SerializeToString(),
                                      {"content-type": "application/x-protobuf"})
        assert answer.status == 200, answer
    out = program.run("export", "--db", db, "-wire-version", version, check=0).stdout
    assert int.from_bytes(out[:4], "big") == len(out) - 4
    got = schemas.schema(version).Request.FromString(out[4:])
    kept = families(got)
    assert {m: kept.get(m) for m in reachable(version, message)} == reachable(version, message)
    counts = collections.Counter(name for name, _ in families(got).values())
    assert counts["AnyValue"] > 20 and counts["KeyValue"] > 15 and counts["ValueType"] >= 2
