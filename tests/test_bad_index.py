"""References out of range in every older wire version: the bodies are made by Google's protobuf, the place named is the message's
own (the one that `check` names), and what cannot be resolved is marked, never shown as an ordinary entry."""

import re

import pytest

import fixtures
import program
import schemas

V17, V15, V13 = "v1.7.0-synthetic-transcoded", "v1.5.0-synthetic-transcoded", "v1.3.1-experimental-oncpu-a"
V18 = "v1.8.0-synthetic-transcoded"
FIRST, SECOND = (f"resource_profiles[{i}].scope_profiles[0].profiles[0]." for i in (0, 1))


def profile_of(request, resource=0):
    return request.resource_profiles[resource].scope_profiles[0].profiles[0]


def set_in(field, index, value):
    return lambda holder: getattr(holder, field).__setitem__(index, value)


def location_index(p):
    del p.sample[0].location_index[:]
    p.sample[0].locations_length = 0
    p.sample[0].location_index.extend([1, 4321, 2])


# version, body, what is broken, the message's own path, the value, a row of layout full
CASES = [
    ("1.7", V17, lambda q, p: set_in("location_indices", 0, 4321)(p), FIRST + "location_indices[0]", 4321, "  0  -  "),
    ("1.7", V17, lambda q, p: setattr(p.sample[0], "locations_start_index", -1), FIRST + "sample[0].locations_start_index", -1, "frames  "),
    ("1.7", V17, lambda q, p: setattr(p.sample[0], "locations_start_index", 4321), FIRST + "sample[0].locations_start_index", 4321,
     "frames  "),
    ("1.7", V17, lambda q, p: setattr(p.sample[0], "locations_length", 2**31 - 1), FIRST + "sample[0].locations_length", 2**31 - 1,
     "frames  "),
    ("1.7", V17, lambda q, p: p.comment_strindices.extend([1, 4321]), FIRST + "comment_strindices[1]", 4321, "comment_strindices[1]  "),
    ("1.7", V17, lambda q, p: setattr(p, "default_sample_type_index", 4321), FIRST + "default_sample_type_index", 4321,
     "default_sample_type_index  "),
    ("1.7", V17, lambda q, p: setattr(q.dictionary.location_table[3], "mapping_index", 4321), "dictionary.location_table[3].mapping_index",
     4321, "  in "),
    ("1.7", V17, lambda q, p: setattr(q.dictionary.location_table[3].line[0], "function_index", 4321),
     "dictionary.location_table[3].line[0].function_index", 4321, ""),
    ("1.7", V17, lambda q, p: q.dictionary.attribute_units.add(attribute_key_strindex=1, unit_strindex=-7), None, -7, "unit_strindex  "),
    ("1.5", V15, lambda q, p: set_in("location_indices", 0, 4321)(p), FIRST + "location_indices[0]", 4321, "  0  -  "),
    ("1.5", V15, lambda q, p: setattr(profile_of(q, 1).location_table[3], "mapping_index", 4321), SECOND + "location_table[3].mapping_index",
     4321, ""),
    ("1.5", V15, lambda q, p: p.attribute_units.add(attribute_key_strindex=4321, unit_strindex=1),
     FIRST + "attribute_units[0].attribute_key_strindex", 4321, "attribute_units[0].attribute_key_strindex  "),
    ("1.5", V15, lambda q, p: setattr(p.sample_type[0], "unit_strindex", 4321), FIRST + "sample_type[0].unit_strindex", 4321,
     "sample_type  "),
    ("1.3", V13, lambda q, p: p.profile.sample[0].label.add(key=1, str=99999), FIRST + "profile.sample[0].label[0].str", 99999,
     "label[0].str  "),
    ("1.3", V13, lambda q, p: setattr(p.profile.period_type, "type", 4321), FIRST + "profile.period_type.type", 4321, "period_type  "),
    ("1.3", V13, lambda q, p: p.profile.comment.append(4321), FIRST + "profile.comment[0]", 4321, "comment[0]  "),
    ("1.3", V13, lambda q, p: setattr(p.profile.function[2], "filename", 4321), FIRST + "profile.function[2].filename", 4321, ""),
    ("1.3", V13, lambda q, p: location_index(p.profile), FIRST + "profile.sample[0].location_index[1]", 4321, "  1  -  "),
    ("1.8", V18, lambda q, p: p.comment_strindices.extend([1, 4321]), FIRST + "comment_strindices[1]", 4321, "comment_strindices[1]  "),
]


@pytest.mark.parametrize("version,body,broken,path,value,row", CASES, ids=lambda v: v if isinstance(v, str) and len(v) < 70 else "")
def test_marked_counted_and_named(version, body, broken, path, value, row):
    request = schemas.schema(version).Request.FromString(fixtures.body(body).bytes)
    if path is None:
        path = f"dictionary.attribute_units[{len(request.dictionary.attribute_units)}].unit_strindex"
    broken(request, profile_of(request))
    raw = request.SerializeToString()
    done = program.run("decode", "--layout", "full", "-input-wire-version", version, "-", stdin=raw)
    said = re.search(r"1 bad indices: (\S+) is (-?\d+), \w+ has (\d+)", done.stderr.decode())
    assert said, done.stderr
    assert (said[1], int(said[2])) == (path, value)
    mark = f"<bad index {value} of {said[3]}>"
    rows = [line for line in done.stdout.decode().splitlines() if mark in line]
    if row:
        assert rows and all(row in line for line in rows), done.stdout.decode()
    checked = program.run("check", "-wire-version", version, "-", stdin=raw).stdout.decode()
    errors = [line for line in checked.splitlines() if ": error: " in line and str(value) in line]
    assert len(errors) == 1, checked
    holder, field = path.rsplit(".", 1)
    assert path in errors[0] or (holder in errors[0] and field in errors[0])


def test_of_several_sample_types_the_message_has_one_profile():
    request = schemas.schema("1.7").Request.FromString(fixtures.body(V17).bytes)
    scope = request.resource_profiles[0].scope_profiles[0]
    scope.profiles.add().CopyFrom(scope.profiles[0])
    scope.profiles[0].sample_type.add(type_strindex=1)
    scope.profiles[1].location_indices.append(4321)
    path = f"resource_profiles[0].scope_profiles[0].profiles[1].location_indices[{len(scope.profiles[1].location_indices) - 1}]"
    done = program.run("decode", "-input-wire-version", "1.7", "-", stdin=request.SerializeToString())
    assert f"1 bad indices: {path} is 4321".encode() in done.stderr


def test_a_bad_location_that_no_sample_has_is_counted():
    request = schemas.schema("1.7").Request.FromString(fixtures.body(V17).bytes)
    p = profile_of(request)
    p.location_indices.append(4321)
    done = program.run("decode", "-input-wire-version", "1.7", "-", stdin=request.SerializeToString())
    assert f"1 bad indices: {FIRST}location_indices[{len(p.location_indices) - 1}] is 4321".encode() in done.stderr
