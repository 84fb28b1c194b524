"""Layout full and format json hold everything: taken apart again and compared field by field with independent decodes.

For layout full that is all of a body, for json what its header promises.
"""

import base64
import json
import re

import pytest

import fixtures
import full_text
import handmade
import program
import schemas
import view
from test_decode import same

# view.py's name of an extra -> the program's
EXTRA_NAMES = {"comments": "comments", "default_sample_type": "default_sample_type", "sample_type_ordinal": "sample_type_ordinal",
               "profile_attributes": "attributes", "drop_frames": "drop_frames", "keep_frames": "keep_frames", "end_time": "end_time_unix_nano",
               "start_time": "start_time_unix_nano", "labels": "labels", "stacktrace_id": "stacktrace_id_index", "location_index": "location_index", "is_folded": "is_folded",
               "type": "type", "build_id": "build_id", "build_id_kind": "build_id_kind", "has_functions": "has_functions",
               "has_filenames": "has_filenames", "has_line_numbers": "has_line_numbers", "has_inline_frames": "has_inline_frames",
               "sample_temporality": "sample_temporality", "period_temporality": "period_temporality"}
# what the program keeps beyond the view: proven by tests of their own below
MORE_EXTRAS = {"entity_refs", "id", "attribute_units"}


def decode(*words):
    return program.run("decode", *words, check=0).stdout.decode()


def as_printed(v):
    """A view in the form that full_text.parse() gives."""
    for r in v["resources"]:
        for s in r["scopes"]:
            for p in s["profiles"]:
                p["extra"] = extras(p["extra"])
                for sample in p["samples"]:
                    sample["extra"] = extras(sample["extra"])
                    sample["stack"] = [frame(f) for f in sample["stack"]]
    return v


def extras(e):
    out = {EXTRA_NAMES[k]: x for k, x in e.items()}
    if "attributes" in out:
        out["attributes"] = {"kvlist": out["attributes"]}
    if "labels" in out:
        out["labels"] = [label(x) for x in out["labels"]]
    return out


def label(x):
    key, text, number, unit = x
    return {"kvlist": [("key", key), ("str", text), ("num", number), ("num_unit", unit)]}


def frame(f):
    """The frame type is a column, so its attribute stands last here; the mapping's and location's extras have the program's names."""
    types = [a for a in f["attributes"] if a[0] == "profile.frame.type" and isinstance(a[1], str) and a[1]]
    rest = [a for a in f["attributes"] if a not in types]
    out = f | {"attributes": rest + [("profile.frame.type", t[1], "") for t in types[:1]], "extra": extras(f["extra"])}
    if f["mapping"]:
        out["mapping"] = f["mapping"] | {"extra": extras(f["mapping"]["extra"])}
    return out


def printed_back(text):
    """The parsed text with only what a view has."""
    (request,) = full_text.parse(text)
    for r in request["resources"]:
        r.pop("extra")
        for s in r["scopes"]:
            s.pop("extra")
            for p in s["profiles"]:
                p["extra"] = known(p["extra"])
                for sample in p["samples"]:
                    assert sample.pop("events") == (len(sample["timestamps"]) or 1)
                    sample.pop("value")
                    sample["extra"] = known(sample["extra"])
                    for f in sample["stack"]:
                        f["extra"] = known(f["extra"])
                        if f["mapping"]:
                            f["mapping"] = f["mapping"] | {"extra": known(f["mapping"]["extra"])}
    return {"resources": request["resources"]}


def known(e):
    out = {}
    for k, x in e.items():
        if k in MORE_EXTRAS or x is False or x == 0 or x == "":
            continue
        if k == "labels":
            x = [{"kvlist": sorted([*((n, y) for n, y in one["kvlist"])], key=lambda p: ["key", "str", "num", "num_unit"].index(p[0]))}
                 for one in x]
            x = [{"kvlist": [(n, dict(one["kvlist"]).get(n, 0 if n == "num" else "")) for n in ("key", "str", "num", "num_unit")]}
                 for one in x]
        out[k] = x
    return out


@pytest.mark.parametrize("body", fixtures.BODIES, ids=repr)
def test_full_layout_of_every_body(body):
    text = decode("--layout", "full", body.path)
    version = "1.4" if body.version == "1.5" else body.version  # equal but for profile attributes, which the fixture lacks
    assert f"request  wire {version}  " in text
    same(printed_back(text), as_printed(view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))))


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_full_layout_of_hand_made_bodies(version, tmp_path):
    request = handmade.rich(version)
    file = tmp_path / "body.pb"
    file.write_bytes(request.SerializeToString())
    text = decode("--layout", "full", "--wire-version", version, file)
    same(printed_back(text), as_printed(view.view(version, request)))


def test_full_layout_shows_entity_refs_ids_and_unknown_fields(tmp_path):
    request = handmade.rich("1.3")
    file = tmp_path / "body.pb"
    file.write_bytes(request.SerializeToString() + b"\xba\x3e\x05later")
    (parsed,) = full_text.parse(decode("--layout", "full", "--wire-version", "1.3", file))
    assert parsed["unknown_fields"] == 1 and parsed["extra"]["unknown_fields"] == b"\xba\x3e\x05later"
    reference = request.resource_profiles[0].resource.entity_refs[0].SerializeToString()
    assert parsed["resources"][0]["extra"]["entity_refs"].endswith(reference)
    ids = [f["extra"]["id"] for _, _, _, s in view.samples(parsed) for f in s["stack"] if "id" in f["extra"]]
    assert 11 in ids, "Location.id where it is not the place in the table"


# ---- json: one resolved object a sample ----

def json_value(v):
    if isinstance(v, bytes):
        import base64
        return {"$bytes": base64.b64encode(v).decode()}
    if isinstance(v, tuple):
        special = {"NaN": "NaN", float("inf"): "Infinity", float("-inf"): "-Infinity"}
        return {"$double": special[v[1]]} if v[1] in special else v[1]
    if isinstance(v, dict):
        return {k: json_value(x) for k, x in v["kvlist"]}
    if isinstance(v, list):
        return [json_value(x) for x in v]
    return v


def set_only(**members):
    return {k: v for k, v in members.items() if v not in ("", 0, [], {}, None, b"") or v is False}


def json_frames(stack):
    for f in stack:
        frame_type = view.frame_type(f) or "unknown"
        place = {}
        if f["address"] or not f["lines"]:
            place["address"] = hex(f["address"])
        if f["mapping"]:
            place |= set_only(mapping=f["mapping"]["filename"])
            build_id = next((v for k, v, _ in f["mapping"]["attributes"] if "build_id" in k), "")
            place |= set_only(build_id=build_id)
        for number, line in enumerate(f["lines"]):
            fn = line["function"]
            yield ({"type": frame_type} | set_only(function=fn["name"], system_name=fn["system_name"], file=fn["filename"],
                                                   line=line["line"], column=line["column"], start_line=fn["start_line"],
                                                   inline=number < len(f["lines"]) - 1 or None) | place)
        if not f["lines"]:
            yield {"type": frame_type} | place


# view.py's name of an extra -> the one in JSON, where that differs from layout full's
JSON_EXTRAS = EXTRA_NAMES | {"sample_temporality": "aggregation_temporality", "period_temporality": "period_aggregation_temporality"}


def json_extra(e):
    """Attributes by value are among the profile's attributes."""
    out = {JSON_EXTRAS[k]: x for k, x in e.items() if k != "profile_attributes"}
    if "labels" in out:
        out["labels"] = [{"key": x[0]} | set_only(str=x[1], num=x[2], num_unit=x[3]) for x in out["labels"]]
    return out


def json_object(r, s, p, sample):
    scope = set_only(name=s["name"], version=s["version"], dropped_attributes_count=s["dropped"],
                     attributes={k: json_value(v) for k, v in s["attributes"]})
    profile = set_only(profile_id=p["profile_id"], time_unix_nano=p["time"], duration_nano=p["duration"], period_type=p["period_type"][0],
                       period_unit=p["period_type"][1], period=p["period"], dropped_attributes_count=p["dropped"],
                       original_payload_format=p["payload_format"], extra=json_extra(p["extra"]),
                       attributes={k: json_value(v) for k, v, _ in p["attributes"]})
    trace, span = sample["link"] or ("", "")
    return set_only(
        resource={k: json_value(v) for k, v in r["attributes"]}, resource_dropped_attributes_count=r["dropped"], scope=scope, profile=profile, sample_type=p["sample_type"][0],
        sample_unit=p["sample_type"][1], values=sample["values"], timestamps_unix_nano=sample["timestamps"], trace_id=trace, span_id=span,
        attributes={k: json_value(v) for k, v, _ in sample["attributes"]},
        extra=json_extra(sample["extra"]),
        attribute_units={k: u for k, _, u in sample["attributes"] if u}, frames=list(json_frames(sample["stack"])))


# As resolved_json.h and the README have it, and resolve_line() in Python's words.
JQ_RESOLVE = ". as $p | .samples[] | .attributes |= $p.attributes[.] | .frames[] |= $p.frames[.]"


def resolve_line(text):
    """One line of the files' format jsonl as the lines that `decode --format json` prints of its samples."""
    line = json.loads(text)
    samples, frames, attributes, build_ids = (line.pop(k, None) for k in ("samples", "frames", "attributes", "build_ids"))
    for s in samples:
        s["attributes"] = attributes[s["attributes"]]
        s["frames"] = [frames[i] for i in s["frames"]]
        named = {f.get("mapping") for f in s["frames"]}
        yield json.dumps(line | s | {"build_ids": {k: v for k, v in (build_ids or {}).items() if k in named}})


def check_json(text, v):
    lines = [json.loads(x) for x in text.splitlines()]
    wanted = [json_object(*x) for x in view.samples(v)]
    assert len(lines) == len(wanted)
    for got, want, (_, _, profile, sample) in zip(lines, wanted, view.samples(v)):
        for part in (got, got["profile"]):  # a view leaves out what is zero
            part["extra"] = {k: x for k, x in part.get("extra", {}).items() if x not in (0, "")}
        payload = got.pop("original_payload", None)
        assert payload is None or base64.b64decode(payload) == profile["payload"]
        assert got.pop("events") == view.event_count(sample)
        got.pop("value")
        for part in (got, got.get("profile", {}), got.get("scope", {})):
            for k in [k for k, x in part.items() if x in ({}, [], "")]:
                part.pop(k)
        build_ids = got.pop("build_ids", {})
        assert set(build_ids) <= {f.get("mapping") for f in got.get("frames", [])}
        for f in got.get("frames", []):
            if f.get("mapping") in build_ids:
                f.setdefault("build_id", build_ids[f["mapping"]])
            if f.get("build_id") == "":  # none, where an earlier mapping of that name has one
                f.pop("build_id")
            if f.get("mapping") == "":  # a mapping without a name, as old senders have it for kernel and interpreted frames
                f.pop("mapping")
        profile_units = got.get("profile", {}).pop("attribute_units", None)
        assert profile_units is None or all(profile_units.values())
        same(got, want)


@pytest.mark.parametrize("body", fixtures.BODIES, ids=repr)
def test_json_of_every_body(body):
    check_json(decode("--format", "json", body.path), view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes)))


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_json_of_hand_made_bodies(version, tmp_path):
    request = handmade.rich(version)
    file = tmp_path / "body.pb"
    file.write_bytes(request.SerializeToString())
    check_json(decode("--format", "json", "--wire-version", version, file), view.view(version, request))


def test_json_value_is_what_the_sample_counts_for():
    body = fixtures.body("v1.11.0-synthetic-offcpu-links")
    v = view.view("1.10", schemas.schema("1.10").Request.FromString(body.bytes))
    for line, (_, _, _, sample) in zip(decode("--format", "json", body.path).splitlines(), view.samples(v)):
        assert json.loads(line)["value"] == (sum(sample["values"]) if sample["values"] else len(sample["timestamps"]))


def test_the_unit_of_a_frame_type_is_shown(tmp_path):
    """The column of types has no room for it: such an attribute stands among the others."""
    request = schemas.schema(schemas.NEWEST).Request.FromString(fixtures.body("v1.11.0-synthetic-offcpu-links").bytes)
    d = request.dictionary
    key = list(d.string_table).index("profile.frame.type")
    file = tmp_path / "body.p"
    file.write_bytes(request.SerializeToString())
    before = decode("--layout", "full", file)
    assert "odd-unit" not in before and "profile.frame.type" not in before
    d.string_table.append("odd-unit")
    for a in d.attribute_table:
        if a.key_strindex == key:
            a.unit_strindex = len(d.string_table) - 1
    file.write_bytes(request.SerializeToString())
    after = decode("--layout", "full", file)
    assert all("odd-unit" in line for line in after.splitlines() if "profile.frame.type" in line) and "odd-unit" in after


def test_full_layout_shows_what_nothing_refers_to(tmp_path):
    """Entries of every table that neither a sample nor another entry names, with what hangs on them."""
    request = handmade.rich("1.10")
    d = request.dictionary
    first = len(d.string_table)
    d.string_table.extend(["of an orphan", "an orphan", "orphan.c", "cpu"])
    d.link_table.add(trace_id=b"\x07" * 16, span_id=b"\x08" * 8)
    d.attribute_table.add(key_strindex=first, unit_strindex=handmade.s("count")).value.int_value = 5
    d.function_table.add(name_strindex=handmade.s("caller"), filename_strindex=first + 2, start_line=3)
    d.location_table.add(address=0x77, attribute_indices=[4]).lines.add(function_index=1, line=9)
    stacked = len(d.location_table)
    d.location_table.add(address=0x78)
    d.stack_table.add(location_indices=[stacked, 1])
    file = tmp_path / "body.pb"
    file.write_bytes(request.SerializeToString())
    [parsed] = full_text.parse(program.run("decode", "--layout", "full", file, check=0).stdout.decode())
    heads = [re.sub(" +", " ", e[0]) for e in parsed["unreferenced"]]
    unused = {f"string #{handmade.s(x)} {x}" for x in handmade.STRINGS}
    assert [h for h in heads if h not in unused] == [f"link #2 trace {'07' * 16} span {'08' * 8}", "stack #3 frames 2", "location #4",
                     "function #4 caller at orphan.c start 3", "attribute #6 of an orphan int 5 unit count",
                     f"string #{first + 1} an orphan", f"string #{first + 3} cpu"]
    [stack] = [e for e in parsed["unreferenced"] if e[0].startswith("stack")]
    assert "addr 0x78" in stack[1] and "addr 0x401234" in stack[2]
    [location] = [e for e in parsed["unreferenced"] if e[0].startswith("location")]
    assert "leaf" in location[1] and "addr 0x77" in location[1] and "native" in location[1]


def test_full_layout_of_recordings_shows_no_false_orphans():
    """Texts that only comments, labels or attribute units of old versions name are no orphans; the profilers of v1.3 did send some."""
    for body in fixtures.BODIES:
        if "synthetic" in body.name:
            continue  # those have orphans in every table
        out = program.run("decode", "--layout", "full", body.path, check=0).stdout.decode()
        [parsed] = full_text.parse(out)
        assert len(parsed["unreferenced"]) == orphan_texts_of_v1_3(body), (body.name, parsed["unreferenced"][:5])


def orphan_texts_of_v1_3(body):
    if body.version != "1.3":
        return 0
    [p] = [c.profile for r in schemas.schema("1.3").Request.FromString(body.bytes).resource_profiles
           for s in r.scope_profiles for c in s.profiles]
    used = {0, p.default_sample_type, p.drop_frames, p.keep_frames, *p.comment}
    for t in [*p.sample_type, p.period_type]:
        used |= {t.type, t.unit}
    for m in p.mapping:
        used |= {m.filename, m.build_id}
    for f in p.function:
        used |= {f.name, f.system_name, f.filename}
    for u in p.attribute_units:
        used |= {u.attribute_key, u.unit}
    for label in (x for sample in p.sample for x in sample.label):
        used |= {label.key, label.str, label.num_unit}
    return len(set(range(len(p.string_table))) - used - {x.type_index for x in p.location})
