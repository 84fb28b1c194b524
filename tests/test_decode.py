"""`flametap decode` against independent decodes: nothing of a body is lost or changed, in any wire version."""

import base64
import gzip
import json
import os
import random
import re
import subprocess

import pytest
import zstandard

import fixtures
import handmade
import otlp_json
import program
import schemas
import shapes
import view
from fixtures import BODIES, NEWEST_BODIES
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

NEWEST = schemas.schema(schemas.NEWEST)


def source_view(body):
    return view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))


def same(got, want):
    """Equality that names the first difference; NaN and the kinds of numbers count."""
    path = first_difference(got, want, "")
    assert path is None, path


def first_difference(a, b, path):
    if type(a) is not type(b):
        return f"{path}: {a!r} is not {b!r}"
    if isinstance(a, dict):
        for k in sorted(set(a) | set(b), key=str):
            if k not in a or k not in b:
                return f"{path}.{k}: only in the {'first' if k in a else 'second'}: {a.get(k, b.get(k))!r}"
            found = first_difference(a[k], b[k], f"{path}.{k}")
            if found:
                return found
        return None
    if isinstance(a, (list, tuple)):
        for i, (x, y) in enumerate(zip(a, b)):
            found = first_difference(x, y, f"{path}[{i}]")
            if found:
                return found
        return None if len(a) == len(b) else f"{path}: {len(a)} elements, not {len(b)}: {a!r:.300} / {b!r:.300}"
    return None if a == b else f"{path}: {a!r} is not {b!r}"


def same_message(got, target, want, source):
    """`got`, which we wrote as wire version `target`, says what `want`, of version `source`, said: what the target has a place for."""
    if target in shapes.OLD and source not in shapes.OLD:
        assert {len(s["values"]) for _, _, _, s in view.samples(got)} <= {1}, "a value for each sample_type"
    same(shapes.comparable(got, target, source), shapes.comparable(want, source, target))


def decode(*words, **options):
    return program.run("decode", *words, **{"check": 0} | options).stdout


# ---- every recorded body, every encoding out ----

@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_otlp_output_says_what_the_body_says(body):
    out = decode("--format", "otlp", body.path)
    official = profiles_service_pb2.ExportProfilesServiceRequest.FromString(out)
    same_message(view.view(schemas.NEWEST, official), schemas.NEWEST, source_view(body), body.version)


@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_newest_bodies_come_out_as_the_same_message(body):
    """Not only the same meaning: the same tables and references, by the official classes."""
    kind = profiles_service_pb2.ExportProfilesServiceRequest
    assert _plain(kind.FromString(decode("--format", "otlp", body.path))) == _plain(kind.FromString(body.bytes))


def _plain(request):
    """Empty submessages that pdata writes and that say nothing: a period_type without type, the zero attribute's empty value."""
    for r in request.resource_profiles:
        for s in r.scope_profiles:
            for p in s.profiles:
                if p.period_type == type(p.period_type)():
                    p.ClearField("period_type")
    zero = request.dictionary.attribute_table[0]
    if zero.value.WhichOneof("value") is None:
        zero.ClearField("value")
    return request


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_otlp_json_output_says_what_the_body_says(body):
    out = decode("--format", "otlp-json", body.path)
    assert out.count(b"\n") == 1
    same_message(view.view(schemas.NEWEST, otlp_json.parse(out)), schemas.NEWEST, source_view(body), body.version)


def test_otlp_json_is_not_read_as_the_version_to_write():
    """-wire-version is what to write wherever OTLP is written."""
    body = str(BODIES[0].path)
    for version in ("1.8", "1.9"):
        done = program.run("decode", "--format", "otlp-json", "--wire-version", version, body)
        assert done.returncode == 2 and not done.stdout
        assert f"newest version only (1.10), not in {version}".encode() in done.stderr
    assert decode("--format", "otlp-json", "--wire-version", "1.10", body) == decode("--format", "otlp-json", body)


@pytest.mark.parametrize("version", schemas.VERSIONS)
@pytest.mark.parametrize("form", ["otlp", "otlp-json"])
def test_hand_made_bodies_lose_nothing(version, form, tmp_path):
    """Bodies with every field of their version set, written by Google's protobuf."""
    request = handmade.rich(version)
    file = tmp_path / "body.pb"
    file.write_bytes(request.SerializeToString())
    out = decode("--format", form, *(["--input-wire-version", version] if version in ("1.4", "1.5") else []), file)
    got = NEWEST.Request.FromString(out) if form == "otlp" else otlp_json.parse(out)
    same_message(view.view(schemas.NEWEST, got), schemas.NEWEST, view.view(version, request), version)


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9"])
@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_older_versions_on_request(version, body):
    """Read back by Google's protobuf with that version's table; between 1.7 and 1.8 only what the schemas changed may differ."""
    out = decode("--format", "otlp", "--wire-version", version, body.path)
    got = view.view(version, schemas.schema(version).Request.FromString(out))
    same_message(got, version, source_view(body), body.version)


@pytest.mark.parametrize("target", ["1.8", "1.9", "1.10"])
@pytest.mark.parametrize("version", shapes.OLD)
def test_upgraded_bodies_pass_the_check(version, target, tmp_path):
    """Off-CPU samples of old versions hold one sum beside several timestamps: what is written again must be valid."""
    file = tmp_path / "body.pb"
    file.write_bytes(handmade.rich(version).SerializeToString())
    known = ["--input-wire-version", version] if version in ("1.4", "1.5") else []
    out = decode("--format", "otlp", "--wire-version", target, *known, file)
    assert rules_of_samples(out, target) <= {"sample-identity", "sample-shape"}
    before = list(view.samples(view.view(version, handmade.rich(version))))
    after = list(view.samples(view.view(target, schemas.schema(target).Request.FromString(out))))
    shared = [(b, a) for (*_, b), (*_, a) in zip(before, after, strict=True) if len(b["values"]) == 1 and len(b["timestamps"]) > 1]
    assert shared
    for b, a in shared:
        shapes.assert_shares(a["values"], b["values"][0])


@pytest.mark.parametrize("body", [b for b in BODIES if b.version in shapes.OLD], ids=repr)
def test_upgraded_recordings_pass_the_check(body):
    """Counts of one event and of several, which old profilers mixed, come out in one shape; what we made up mixes shapes itself."""
    assert rules_of_samples(decode("--format", "otlp", body.path), "1.10") <= {"sample-identity"} | ({"sample-shape"} if "synthetic" in body.name else set())


def rules_of_samples(data, version):
    done = program.run("check", "--json", "--wire-version", version, "-", stdin=data)
    return {f["rule"] for f in map(json.loads, done.stdout.splitlines()) if f["rule"].startswith("sample-")}


@pytest.mark.parametrize("body", [b for b in BODIES if b.version in ("1.7", "1.8", "1.9")], ids=repr)
def test_a_version_written_again_keeps_its_extras(body):
    """Temporality, comments, has_*, is_folded: back in the fields they came from."""
    out = decode("--format", "otlp", "--wire-version", body.version, body.path)
    same(view.view(body.version, schemas.schema(body.version).Request.FromString(out)), source_view(body))


# ---- what comes twice, and index 0 ----

def field(number, payload):
    """A LEN field. Google's own writer would never put one twice."""
    size, length = len(payload), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def test_a_value_sent_twice_is_merged(tmp_path):
    """As protobuf says: the last scalar counts, parts of one list are one list, an empty part changes nothing."""
    c = NEWEST
    nested = c.AnyValue(array_value=c.ArrayValue(values=[c.AnyValue(int_value=5), c.AnyValue(string_value="in")]))
    kinds = [c.AnyValue(), c.AnyValue(string_value="text"), c.AnyValue(bool_value=True), c.AnyValue(int_value=-3), c.AnyValue(double_value=0.5),
             c.AnyValue(bytes_value=b"raw"), c.AnyValue(string_value_strindex=1), c.AnyValue(string_value_strindex=0), nested,
             c.AnyValue(array_value=c.ArrayValue()), c.AnyValue(array_value=c.ArrayValue(values=[nested, c.AnyValue(bool_value=False)])),
             c.AnyValue(kvlist_value=c.KeyValueList()), c.AnyValue(kvlist_value=c.KeyValueList(values=[c.KeyValue(key="k", value=nested)]))]
    parts = [v.SerializeToString() for v in kinds]
    values = [field(2, a) + field(2, b) + last for a in parts for b in parts for last in (b"", field(2, nested.SerializeToString()))]
    values += [field(2, a + b) for a in parts for b in parts]
    dictionary = NEWEST.Request.DESCRIPTOR.fields_by_name["dictionary"].message_type.fields_by_name
    tables = field(dictionary["string_table"].number, b"") + field(dictionary["string_table"].number, b"one")
    tables += b"".join(field(dictionary["attribute_table"].number, v) for v in [b"", *(b"\x08\x01" + v for v in values)])
    resource = b"".join(field(1, field(1, b"key%d" % i) + v) for i, v in enumerate(values))
    body = field(1, field(1, resource)) + field(2, tables)
    file = tmp_path / "twice.pb"
    file.write_bytes(body)
    want = NEWEST.Request.FromString(body)
    got = NEWEST.Request.FromString(decode("--format", "otlp", file))

    def pairs(request):  # an empty value that is there and none say the same
        return ([(a.key, a.value) for a in request.resource_profiles[0].resource.attributes],
                [(a.key_strindex, a.value) for a in request.dictionary.attribute_table])

    assert len(pairs(want)[0]) == 3 * len(parts) ** 2
    assert pairs(got) == pairs(want)
    assert pairs(otlp_json.parse(decode("--format", "otlp-json", file))) == pairs(want)


@pytest.mark.parametrize("index", [0, 1])
def test_a_reference_inside_an_array_is_null_in_layout_2026(index, tmp_path):
    """The 2026 program knows no references; number 0, the empty string, is one as well when the sender wrote it."""
    request = NEWEST.Request()
    request.dictionary.string_table.extend(["", "one"])
    resource = request.resource_profiles.add()
    values = [NEWEST.AnyValue(string_value_strindex=index), NEWEST.AnyValue(string_value=""), NEWEST.AnyValue(int_value=1)]
    resource.resource.attributes.add(key="list").value.array_value.values.extend(values)
    profile = resource.scope_profiles.add().profiles.add()
    profile.samples.add(values=[1])
    file = tmp_path / "array.pb"
    file.write_bytes(request.SerializeToString())
    assert b'  list: [null,"",1]\n' in decode(file)
    assert (b'["one","",1]' if index else b'["","",1]') in decode("--layout", "full", file)


# ---- what comes in ----

def test_otlp_json_of_the_collectors_library_is_read():
    name = "v1.11.0-synthetic-offcpu-links"
    out = decode("--format", "otlp", fixtures.OTLP / f"{name}.otlp.json")
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(out)), source_view(fixtures.body(name)))


@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_protojson_with_base64_ids_is_read(body):
    out = decode("--format", "otlp", body.path.with_name(body.name + ".json.gz"))
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(out)), source_view(body))


@pytest.mark.parametrize("version", ["1.8", "1.9", "1.10"])
def test_json_of_hand_made_bodies_is_read(version, tmp_path):
    file = tmp_path / "body.json"
    file.write_bytes(otlp_json.dumps(handmade.rich(version)))
    out = decode("--format", "otlp", file)
    same(view.view(schemas.NEWEST, NEWEST.Request.FromString(out)), shapes.bare(view.view(version, handmade.rich(version))))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("how", ["file", "stdin"])
def test_compressed_input(pack, how, tmp_path):
    body = fixtures.body("v1.9.0-oncpu-mixed-a")
    file = tmp_path / "packed"
    file.write_bytes(pack(body.bytes))
    want = decode(body.path)
    assert want
    assert (decode(file) if how == "file" else decode("-", stdin=file.read_bytes())) == want


def test_several_files_in_order():
    a, b = fixtures.body("v1.8.0-oncpu-mixed-a"), fixtures.body("v1.3.1-experimental-oncpu-a")
    assert decode(a.path, b.path) == decode(a.path) + decode(b.path)


def test_length_prefixed_bodies_of_the_file_exporter(tmp_path):
    bodies = [fixtures.body("v1.11.0-oncpu-start"), fixtures.body("v1.11.0-oncpu-mixed")]
    file = tmp_path / "export.bin"
    file.write_bytes(b"".join(len(b.bytes).to_bytes(4, "big") + b.bytes for b in bodies))
    assert decode(file) == b"".join(decode(b.path) for b in bodies)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_joined_bodies_are_read_one_after_another(pack, tmp_path):
    """cat a.pb b.pb c.pb: as one protobuf message their tables would run together and every stack of b and c be wrong."""
    names = "v1.11.0-oncpu-start", "v1.11.0-oncpu-mixed", "v1.9.0-oncpu-mixed-a", "v1.7.0-oncpu-mixed"
    bodies = [fixtures.body(name) for name in names]
    file = tmp_path / "joined"
    file.write_bytes(b"".join(pack(b.bytes) for b in bodies))
    want = b"".join(decode("--layout", "full", b.path) for b in bodies)
    assert decode("--layout", "full", file) == want
    assert decode("--layout", "full", "-", stdin=file.read_bytes()) == want


def json_samples(body):
    """Samples of a body in the official decode that was recorded with it."""
    if body.version == "1.6":
        request = schemas.schema("1.6").Request.FromString(body.bytes)
        return sum(len(p.sample) * len(p.sample_type) for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles)
    count = 0
    for r in body.official_json["resourceProfiles"]:
        for s in r["scopeProfiles"]:
            for p in s["profiles"]:
                p = p.get("profile", p)
                types = p["sampleType"] if isinstance(p.get("sampleType"), list) else [None]
                count += len(p.get("samples", p.get("sample", []))) * len(types)
    return count


class MadeBody:
    """No profiler was recorded with 1.6, whose tables only a ProfilesData file can carry."""
    version = "1.6"
    bytes = handmade.rich("1.6").SerializeToString()


@pytest.fixture(scope="module")
def each_version(tmp_path_factory):
    """A body of each of the eight versions, its samples, and what decode prints of it alone."""
    folder = tmp_path_factory.mktemp("versions")
    found = {}
    for body in [*fixtures.one_per_version(), MadeBody]:
        file = folder / body.version
        file.write_bytes(body.bytes)
        found[body.version] = (body.bytes, json_samples(body), decode("--layout", "2026", file))
    assert len(found) == 8
    return found


@pytest.mark.parametrize("first", schemas.VERSIONS)
def test_joined_bodies_of_different_versions(first, each_version, tmp_path):
    """Where the shape of resource_profiles changes, another body begins: with and without dictionaries between."""
    for second in each_version:
        file = tmp_path / f"{first}+{second}"
        file.write_bytes(each_version[first][0] + each_version[second][0])
        want = each_version[first][1] + each_version[second][1]
        assert want == len(decode("--format", "json", file).splitlines()), file.name
        done = program.run("decode", "--layout", "2026", file, check=0)
        assert done.stdout == each_version[first][2] + each_version[second][2], file.name
        assert done.returncode == 0 and b"body at byte" not in done.stderr, (file.name, done.stderr)


@pytest.mark.parametrize("names", [("v1.3.1-experimental-oncpu-a", "v1.3.1-experimental-oncpu-b"), ("v1.4.0-oncpu-start", "v1.4.0-oncpu-mixed")], ids=str)
@pytest.mark.parametrize("form", ["json", "folded"])
def test_joined_bodies_with_tables_of_their_own_show_what_they_show_apart(names, form, tmp_path):
    """Up to 1.5 nothing tells where the second begins, nor does it matter: equal mappings of both are one to the reader."""
    bodies = [fixtures.body(n) for n in names]
    joined = tmp_path / "joined"
    joined.write_bytes(b"".join(b.bytes for b in bodies))
    lines = lambda *files: sorted(line for f in files for line in decode("--format", form, f).splitlines())  # noqa: E731
    if form == "json":
        assert lines(joined) == lines(*(b.path for b in bodies))
    else:  # sums of equal stacks
        total = lambda found: sum(int(x.rsplit(b" ", 1)[1]) for x in found)  # noqa: E731
        assert total(lines(joined)) == total(lines(*(b.path for b in bodies)))


def test_joined_bodies_of_all_versions(each_version):
    order = ["1.3", "1.5", "1.10", "1.4", "1.6", "1.8", "1.3", "1.7", "1.6", "1.5", "1.9"]
    got = decode("--layout", "2026", "-", stdin=b"".join(each_version[v][0] for v in order))
    assert got == b"".join(each_version[v][2] for v in order)


@pytest.mark.parametrize("seed", range(3))
def test_kinds_take_turns_in_one_file(seed):
    """gzip, zstd, plain protobuf and JSON in one stream, in any order."""
    names = ["v1.11.0-synthetic-offcpu-links", "v1.9.0-oncpu-mixed-a", "v1.3.1-experimental-oncpu-a", "v1.4.0-oncpu-start",
             "v1.8.0-synthetic-transcoded"]
    newest = fixtures.body(names[0])
    as_json = otlp_json.dumps(NEWEST.Request.FromString(newest.bytes))
    pack = [bytes, gzip.compress, zstandard.ZstdCompressor().compress]
    parts = [(p(fixtures.body(n).bytes), fixtures.body(n)) for p in pack for n in names]
    parts += [(as_json, newest), (as_json + b"\n", newest), (gzip.compress(as_json), newest)]
    random.Random(seed).shuffle(parts)
    done = program.run("decode", "-", stdin=b"".join(p for p, _ in parts), check=0)
    assert done.stdout == b"".join(decode(b.path) for _, b in parts)
    assert done.stderr == b""


def test_something_behind_compressed_data_is_told():
    body = fixtures.body("v1.11.0-synthetic-offcpu-links")
    packed = gzip.compress(body.bytes)
    done = program.run("decode", "-", stdin=packed + b"\0" * 512, check=1)
    assert done.stdout == decode(body.path)
    assert f"body at byte {len(packed)}: ".encode() in done.stderr


# ---- what is no OTLP ----

def test_zeros_are_no_bodies():
    done = program.run("decode", "-", stdin=bytes(3_000_000), check=1)
    assert done.stdout == b"" and b"no protobuf" in done.stderr
    assert program.run("check", "-", stdin=bytes(3_000_000), check=1).stderr


@pytest.mark.parametrize("text, says", [
    (b'{"foo":1}', b'no key of OTLP profiles is in it (its first is "foo")'), (b"[]", b"found an array"), (b' [{"a":1}]', b"found an array")])
@pytest.mark.parametrize("command", ["decode", "check"])
def test_json_of_something_else_is_told(command, text, says):
    done = program.run(command, "-", stdin=text, check=1)
    assert says in done.stdout + done.stderr
    assert program.run("decode", "-", stdin=b"{}", check=0).stdout == b""


def test_our_own_resolved_json_is_no_input():
    ours = decode("--format", "json", fixtures.body("v1.11.0-synthetic-offcpu-links").path)
    done = program.run("decode", "-", stdin=ours, check=1)
    assert done.stdout == b"" and b"decode --format otlp-json" in done.stderr


def test_a_joined_body_that_is_cut_does_not_read_the_tables_before_it(tmp_path):
    first, second = fixtures.body("v1.11.0-oncpu-start"), fixtures.body("v1.11.0-oncpu-mixed")
    cut = second.bytes[:500]
    file = tmp_path / "joined"
    file.write_bytes(first.bytes + cut)
    (tmp_path / "cut").write_bytes(cut)
    alone = decode(tmp_path / "cut", check=1)
    done = program.run("decode", file, check=1)
    assert done.stdout == decode(first.path) + alone
    assert f"body at byte {len(first.bytes)}: " in done.stderr.decode()


def test_json_lines_of_several_bodies(tmp_path):
    bodies = [fixtures.body("v1.11.0-synthetic-offcpu-links"), fixtures.body("v1.11.0-oncpu-start")]
    file = tmp_path / "export.jsonl"
    file.write_bytes(b"".join(otlp_json.dumps(NEWEST.Request.FromString(b.bytes)) + b"\n" for b in bodies))
    assert decode(file) == b"".join(decode(b.path) for b in bodies)


# ---- what is wrong ----

def test_a_broken_file_is_named_and_the_next_one_is_read(tmp_path):
    good = fixtures.body("v1.11.0-synthetic-offcpu-links")
    broken = tmp_path / "broken.pb"
    broken.write_bytes(good.bytes[:-200])
    done = program.run("decode", broken, good.path)
    assert done.returncode == 1
    assert b"broken.pb" in done.stderr
    assert done.stdout.endswith(decode(good.path))


def nested(*fields):
    """Messages in each other, the innermost last; and where the innermost begins."""
    data, before = fields[-1], 0
    for number in reversed(fields[:-1]):
        outer = field(number, data)
        before += len(outer) - len(data)
        data = outer
    return data, before


@pytest.mark.parametrize("path, fields, keep", [
    ("resource_profiles[1].scope_profiles[0].profiles[0].samples[0]", (1, 2, 2, 2, b"\x08\x01\x18\x02"), 2),
    ("resource_profiles[1].resource.attributes[0].value", (1, 1, 1, 2, b"\x18\x05\x18\x06"), 2),
    ("dictionary.location_table[0].lines[0]", (2, 2, 3, b"\x08\x00\x10\x07"), 2),
    ("dictionary.string_table[0]", (2, 5, b"text"), 2),
    ("resource_profiles[1].scope_profiles[0].scope.name", (1, 2, 1, 1, b"text"), 3)])
def test_a_cut_message_is_named_with_its_place(path, fields, keep, tmp_path):
    first = field(1, b"")
    data, begin = nested(*fields)
    begin += len(first)
    file = tmp_path / "cut.pb"
    file.write_bytes((first + data)[:begin + keep])
    said = program.run("decode", "--input-wire-version", "1.10", file, check=1).stderr.decode()
    if fields[-1] == b"text":  # no message: its length runs past the end
        assert f"{path}: a value runs past the end of its message at byte {begin - 1}" in said, said
    else:
        assert f"{path}: is cut short: 4 bytes from byte {begin} on, {keep} are there" in said, said
    found = [json.loads(x) for x in program.run("check", "--json", "--wire-version", "1.10", file, check=1).stdout.splitlines()]
    assert [f"{f['path']}: {f['message']}" in said for f in found if f.get("rule") == "broken"] == [True]


@pytest.mark.parametrize("body", fixtures.one_per_version(), ids=repr)
def test_a_cut_body_shows_what_can_be_read(body, tmp_path):
    """Cut near the end, most samples are still there; the fault is told, with its place."""
    cut = tmp_path / "cut.pb"
    cut.write_bytes(body.bytes[: len(body.bytes) * 9 // 10])
    done = program.run("decode", "--layout", "full", cut)
    assert done.returncode == 1
    assert b"cut.pb" in done.stderr
    assert done.stdout, "nothing of 90 % of a body was shown"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_a_cut_compressed_file_shows_what_can_be_read(pack, tmp_path):
    """The plain bytes before the cut, shown as the same bytes of a plain file are."""
    content = b"".join(b.bytes for b in BODIES if b.version not in ("1.3", "1.4", "1.5"))
    assert len(content) > 2 * 128 * 1024, "several of zstd's blocks of 128 KiB, which come whole or not at all"
    packed = pack(content)
    cut = tmp_path / "cut.packed"
    cut.write_bytes(packed[: len(packed) * 9 // 10])
    done = program.run("decode", cut, check=1)
    assert b"data is cut short" in done.stderr
    out = int(re.search(rb"first (\d+) bytes of output", done.stderr).group(1))
    assert len(content) // 2 < out < len(content)
    plain = tmp_path / "plain.pb"
    plain.write_bytes(content[:out])
    assert done.stdout == program.run("decode", plain).stdout and done.stdout


def test_a_cut_compressed_file_of_whole_bodies_fails(tmp_path):
    """Only its check sum is missing: everything is shown, and it still counts as broken."""
    body = fixtures.body("v1.11.0-oncpu-start")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(body.bytes)[:-4])
    assert decode(cut, check=1) == decode(body.path)
    assert program.run("check", cut).returncode == 1


def test_cut_json_says_where_it_ends(tmp_path):
    text = otlp_json.dumps(NEWEST.Request.FromString(fixtures.body("v1.11.0-synthetic-offcpu-links").bytes))
    cut = tmp_path / "cut.json"
    for at in range(len(text) // 2, len(text), len(text) // 8):
        cut.write_bytes(text[:at])
        done = program.run("decode", "--format", "json", cut, check=1)
        assert b"line 1, column" in done.stderr and not done.stdout, done.stderr


def test_missing_file_and_directory(tmp_path):
    done = program.run("decode", tmp_path / "nope.pb")
    assert done.returncode == 1 and b"nope.pb" in done.stderr and b"No such file" in done.stderr
    done = program.run("decode", tmp_path)
    assert done.returncode == 1 and str(tmp_path).encode() in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["decode"], ["decode", "--format", "json"], ["check"], ["check", "--json", "--most", "0"]], ids=" ".join)
def test_what_could_not_be_written_is_no_success(words):
    body = fixtures.body("v1.8.0-oncpu-mixed-a")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program.path(), *words, body.path], stdout=full, stderr=subprocess.PIPE, env=program.environment(),
                              timeout=program.HANG, check=False)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr


def test_bad_indices_are_shown_not_dropped(tmp_path):
    request = handmade.rich("1.10")
    sample = request.resource_profiles[0].scope_profiles[1].profiles[0].samples[0]
    sample.stack_index, sample.link_index = 7, -3
    file = tmp_path / "bad.pb"
    file.write_bytes(request.SerializeToString())
    text = decode("--layout", "full", file).decode()
    assert f"<bad index 7 of {len(request.dictionary.stack_table)}>" in text
    assert f"<bad index -3 of {len(request.dictionary.link_table)}>" in text


def test_no_file_is_a_usage_error():
    done = program.run("decode")
    assert done.returncode == 2 and b"--help" in done.stderr


# ---- folded ----

@pytest.mark.parametrize("body", NEWEST_BODIES, ids=repr)
def test_folded_counts_add_up(body):
    samples = list(view.samples(source_view(body)))
    for kind in {p["sample_type"][0] for _, _, p, _ in samples}:
        lines = decode("--format", "folded", "--sample-types", kind, body.path).decode().splitlines()
        assert len(set(lines)) == len(lines), "a stack stands twice"
        depths = [(line.rsplit(" ", 1)[0].count(";") + 1, int(line.rsplit(" ", 1)[1])) for line in lines]
        of_kind = [s for _, _, p, s in samples if p["sample_type"][0] == kind]
        assert sum(n for _, n in depths) == sum(sum(s["values"]) if s["values"] else len(s["timestamps"]) for s in of_kind)
        assert max(d for d, _ in depths) >= max(len(s["stack"]) for s in of_kind)


def test_folded_shows_one_sample_type_and_says_so(tmp_path):
    """Nanoseconds beside counts are no graph."""
    first, second = handmade.resource_body(samples=2), handmade.resource_body(samples=3)
    tables = second.dictionary.string_table
    type_of_second = second.resource_profiles[0].scope_profiles[0].profiles[0].sample_type
    type_of_second.type_strindex = len(tables)
    tables.append("off_cpu")
    a, b, both = tmp_path / "a", tmp_path / "b", tmp_path / "both"
    a.write_bytes(first.SerializeToString())
    b.write_bytes(second.SerializeToString())
    both.write_bytes(a.read_bytes() + b.read_bytes())
    done = program.run("decode", "--format", "folded", both, check=0)
    assert done.stdout == decode("--format", "folded", a) and done.stdout
    assert done.stderr.count(b"not \"off_cpu\"; --sample-types chooses") == 1, done.stderr
    done = program.run("decode", "--format", "folded", "--sample-types", "off_cpu", both, check=0)
    assert done.stdout == decode("--format", "folded", b) and done.stdout
    assert not done.stderr
    done = program.run("decode", "--format", "folded", "--sample-types", "all", both, check=0)
    assert done.stdout == decode("--format", "folded", a) + decode("--format", "folded", b) and not done.stderr


def test_folded_shows_the_most_usual_type_of_a_body(tmp_path):
    """One off-CPU sample before many others does not make the graph of a file."""
    request = handmade.resource_body(samples=2)
    profiles = request.resource_profiles[0].scope_profiles[0].profiles
    rare, usual = profiles[0], profiles.add()
    usual.CopyFrom(rare)
    for i in range(3):
        usual.samples.add().CopyFrom(rare.samples[0])
    rare.sample_type.type_strindex = len(request.dictionary.string_table)
    request.dictionary.string_table.append("off_cpu")
    file, alone = tmp_path / "a.pb", tmp_path / "usual.pb"
    file.write_bytes(request.SerializeToString())
    done = program.run("decode", "--format", "folded", file, check=0)
    assert b"not \"off_cpu\"; --sample-types chooses" in done.stderr
    del profiles[0]
    alone.write_bytes(request.SerializeToString())
    assert done.stdout == decode("--format", "folded", alone) and done.stdout


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_check_says_of_a_cut_compressed_file_that_it_was_not_checked(pack, tmp_path):
    packed = pack(b"".join(b.bytes for b in BODIES))
    file = tmp_path / "cut.packed"
    file.write_bytes(packed[:len(packed) // 2])
    said = program.run("check", file, check=1).stderr.decode()
    assert said.startswith(f"{file}: FAILED, can't be checked: ") and "cut short" in said and said.count("\n") == 1 and said.count(str(file)) == 1, said
    assert said.count("gzip" if pack is gzip.compress else "zstd") == 1, said
    line = json.loads(program.run("check", "--json", file, check=1).stdout)
    assert (line["file"], line["severity"], line["rule"]) == (str(file), "error", "unreadable") and "cut short" in line["message"]


@pytest.mark.parametrize("body", fixtures.one_per_version(), ids=repr)
def test_check_in_json_ends_with_a_summary(body, tmp_path):
    two = tmp_path / "two.pb"
    two.write_bytes(body.bytes * 2)
    lines = [json.loads(x) for x in program.run("check", "--json", two).stdout.splitlines()]
    summaries = [x for x in lines if x["severity"] == "summary"]
    bodies = 1 if body.version in ("1.3", "1.4", "1.5") else 2  # where each profile has its own tables nothing tells them apart
    assert [x["offset"] for x in summaries] == [0, len(body.bytes)][:bodies] and lines[-1] in summaries
    for s in summaries:
        found = [x["severity"] for x in lines if x["offset"] == s["offset"]]
        assert (s["errors"], s["warnings"], s["not_shown"]) == (found.count("error"), found.count("warning"), 0)
        assert s["wire_version"] == ("1.4" if body.version == "1.5" else body.version) and s["evidence"]


@pytest.mark.parametrize("words", [["decode"], ["check"]], ids=" ".join)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_json_in_other_encodings_is_named(words, encoding, tmp_path):
    """PowerShell's '>' writes UTF-16."""
    file = tmp_path / "body.json"
    file.write_bytes(decode("--format", "otlp-json", fixtures.body("v1.9.0-oncpu-mixed-a").path).decode().encode(encoding))
    said = program.run(*words, file, check=1).stderr.decode()
    assert encoding[:6].upper() in said and "UTF-8" in said and said.count("\n") == 1, said


def test_version_is_found_for_every_body():
    """`decode --evidence` and `check` tell which version they found and why."""
    for body in BODIES:
        version = "1.4" if body.version == "1.5" else body.version  # equal but for profile attributes, which the fixture lacks
        text = program.run("decode", "--evidence", body.path).stderr.decode()
        assert f"wire version {version}: " in text or f"wire version {version} (ambiguous): " in text, text
        text = program.run("check", body.path).stdout.decode()
        assert f"wire version {version} (" in text, text[-300:]
        assert not text.endswith("()"), text


@pytest.mark.parametrize("version", ["1.3", "1.7", "1.8"])
def test_json_has_what_only_older_versions_say(version, tmp_path):
    """Temporality, comments, labels, the payload once a profile."""
    file = tmp_path / "body.pb"
    file.write_bytes(handmade.rich(version).SerializeToString())
    lines = [json.loads(x) for x in decode("--format", "json", file).splitlines()]
    first = [x for x in lines if x["profile"].get("profile_id")]
    extra = first[0]["profile"]["extra"]
    assert extra["comments"] == ["a comment", "another comment"]
    temporality = {"1.3": (1, 2), "1.7": (1, 2), "1.8": (2, 1)}[version]
    assert (extra["aggregation_temporality"], extra["period_aggregation_temporality"]) == temporality
    assert all(x["profile"]["original_payload_format"] == "pprof" for x in first)
    payloads = [x["original_payload"] for x in lines if "original_payload" in x]
    assert payloads == [base64.b64encode(b"\x1f\x8b\x00payload\xff").decode()] * (1 if version == "1.8" else 2), "once a profile"
    if version == "1.3":
        assert first[0]["extra"] == {"stacktrace_id_index": 42, "labels": [
            {"key": "thread.name", "str": "cpu"}, {"key": "bytes", "num": -99, "num_unit": "count"}]}
        assert extra["drop_frames"] == "leaf" and extra["keep_frames"] == "caller"


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9", "1.10"])
def test_what_is_written_is_found_to_be_of_that_version(version):
    """Every recording in every version that is written: read back without a word on its version."""
    for body in BODIES:
        written = decode("--format", "otlp", "--wire-version", version, body.path)
        found = program.run("decode", "--evidence", "-", stdin=written).stderr.decode()
        assert f"wire version {version}: " in found, (body.name, found)


@pytest.mark.parametrize("version", ["1.7", "1.8", "1.9"])
@pytest.mark.parametrize("attributes", [[], [1]])
@pytest.mark.parametrize("shape", [{"values": [3]}, {"values": [3, 4], "timestamps_unix_nano": [1, 2]}, {"timestamps_unix_nano": [1]}])
def test_a_small_body_in_an_older_version_is_found_to_be_of_it(version, attributes, shape):
    """No profile id, no comments, no links: what the versions differ in is hardly there."""
    request = NEWEST.Request()
    request.dictionary.string_table.extend(["", "cpu", "k"])
    for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
        getattr(request.dictionary, table).add()
    request.dictionary.attribute_table.add(key_strindex=2).value.int_value = 5
    profile = request.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=5, duration_nano=6)
    profile.samples.add(attribute_indices=attributes, **shape)
    written = decode("--format", "otlp", "--wire-version", version, "--input-wire-version", "1.10", "-", stdin=request.SerializeToString())
    found = program.run("decode", "--evidence", "-", stdin=written).stderr.decode()
    assert f"wire version {version}: " in found, found


@pytest.mark.parametrize("comments", [[1], [1, 2, 3], list(range(1, 18)), [200] * 3])
def test_comments_of_an_odd_length_are_of_v1_8(comments):
    """No profile id is 1, 3 or 17 bytes long; attribute indices alone do not tell v1.8 from v1.10."""
    c = schemas.schema("1.8")
    request = c.Request()
    request.dictionary.string_table.extend([""] + [f"comment {i}" for i in range(1, 300)])
    for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
        getattr(request.dictionary, table).add()
    profile = request.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=5, comment_strindices=comments)
    profile.sample.add(timestamps_unix_nano=[7])
    found = decode("--layout", "full", "-", stdin=request.SerializeToString()).decode()
    assert found.startswith("request  wire 1.8 "), found
    assert json.dumps([f"comment {i}" for i in comments], separators=(",", ":")) in found


def an_odd_profile(id=b"", payload=True, references=False):
    """Of today's schema, with an id that is none and a payload without its format."""
    request = profiles_service_pb2.ExportProfilesServiceRequest()
    request.dictionary.string_table.extend(["", "key", "a text"])
    for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
        getattr(request.dictionary, table).add()
    value = request.dictionary.attribute_table.add(key_strindex=1).value
    if references:
        value.string_value_strindex = 2
    else:
        value.string_value = "a text"
    profile = request.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=5, profile_id=id, attribute_indices=[1])
    if payload:
        profile.original_payload = b"payload"
    profile.samples.add(timestamps_unix_nano=[7])
    return request.SerializeToString()


@pytest.mark.parametrize("id", [b"", b"\1\2", bytes(range(1, 8))])
def test_references_into_the_strings_outweigh_an_odd_profile(id):
    found = decode("--layout", "full", "-", stdin=an_odd_profile(id, references=True)).decode()
    assert found.startswith("request  wire 1.10 ") and "a text" in found, found


@pytest.mark.parametrize("id", [bytes(range(1, 8)), b"\x80", b"\3"])
def test_an_odd_id_that_names_no_text_is_no_comments(id):
    found = decode("--layout", "full", "-", stdin=an_odd_profile(id)).decode()
    assert found.startswith("request  wire 1.10 "), found


def test_check_accepts_what_real_profilers_send():
    for body in BODIES:
        done = program.run("check", "--json", body.path)
        findings = [json.loads(x) for x in done.stdout.splitlines()]
        assert findings.pop()["severity"] == "summary"
        errors = [f for f in findings if f["severity"] == "error"]
        assert done.returncode == (1 if errors else 0), body
        assert all(f["path"] and f["rule"] and f["message"] for f in findings)
        if body.version in ("1.8", "1.9", "1.10"):
            # what is sent since the index-0 rule: times outside of the window are the emitters' known fault
            assert {f["rule"] for f in errors} <= {"timestamp-range", "sample-timestamp-range"}, (body, errors[:3])
