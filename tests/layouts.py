"""The stdout layouts written once more, in Python, from a view: what the text must be for bodies that no recorded text exists of.

test_stdout.py first holds this against the texts that the lazy backend of 2026 really printed, then the program against this.
"""

import base64
import datetime
import json

RESOURCE, END_RESOURCE = "--------------- New Resource Profile --------------", "-------------- End Resource Profile ---------------"
PROFILE, END_PROFILE = "------------------- New Profile -------------------", "------------------- End Profile -------------------"
SAMPLE, END_SAMPLE = "------------------- New Sample --------------------", "------------------- End Sample --------------------"
_TEMPORALITY = ["Unspecified", "Delta", "Cumulative"]


def go_time(nanos):
    """Go's time.Time.String() in UTC: the fraction without trailing zeros."""
    when = datetime.datetime.fromtimestamp(nanos // 10**9, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    fraction = f".{nanos % 10**9:09d}".rstrip("0").rstrip(".")
    return f"{when}{fraction} +0000 UTC"


def as_string(v):
    """pdata's Value.AsString() of the plain kinds."""
    if v is None:
        return ""
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, bytes):
        return base64.b64encode(v).decode()
    if isinstance(v, list):
        return json.dumps(v, ensure_ascii=False, separators=(",", ":"))
    return str(v)


def kind(v):
    return {bool: "Bool", bytes: "Bytes", list: "Slice", int: "Int", str: "Str", type(None): "Empty", tuple: "Double",
            dict: "Map"}[type(v)]


def render(v, layout="2026", hidden=frozenset()):
    """The text of a view. hidden: (resource number, attribute number) pairs that came by reference, which 2026 shows empty."""
    out = []

    def attribute(key, value):
        out.append(f"  {key}: {as_string(value)}" + (f" ({kind(value)})" if layout == "typed" else ""))

    for number, r in enumerate(v["resources"]):
        out.append(RESOURCE)
        for i, (key, value) in enumerate(r["attributes"]):
            key_hidden, value_hidden = (number, i, "key") in hidden, (number, i, "value") in hidden
            attribute("" if key_hidden else key, "" if value_hidden else value)
        for p in (p for s in r["scopes"] for p in s["profiles"]):
            out.append(PROFILE)
            out.append(f"  ProfileID: {p['profile_id'] or '0' * 32}")
            if layout in ("2026", "seed-001"):
                out.append(f"  Time: {go_time(p['time'])}")
                out.append(f"  Duration: {p['duration'] if layout == '2026' else go_time(p['duration'])}")
                third = f", {_TEMPORALITY[p['extra'].get('period_temporality', 0)]}" if layout == "seed-001" else ""
                out.append(f"  PeriodType: [{p['period_type'][0]}, {p['period_type'][1]}{third}]")
                out.append(f"  Period: {p['period']}")
            out.append(f"  Dropped attributes count: {p['dropped']}")
            out.append(f"  SampleType: {p['sample_type'][0]}")
            for key, value, _ in p["attributes"]:
                attribute(key, value)
            if p["attributes"]:
                out.append("~" * 48)
            for s in p["samples"]:
                _sample(out, s, layout, attribute)
            out.append(END_PROFILE)
        out += [END_RESOURCE, ""]
    return "".join(line + "\n" for line in out).encode()


def _sample(out, s, layout, attribute):
    out.append(SAMPLE)
    if layout != "typed":
        word = "timestamp" if layout == "seed-000" else "Timestamp"
        for i, t in enumerate(s["timestamps"]):
            out.append(f"  {word}[{i}]: {t} ({go_time(t)})")
    for key, value, _ in s["attributes"]:
        attribute(key, value)
    out.append("-" * 51)
    for location in s["stack"]:
        frame_type = next((v for k, v, _ in location["attributes"] if k == "profile.frame.type"), "")
        if not location["lines"]:
            mapping = location["mapping"]["filename"] if location["mapping"] else "<unknown>"
            out.append(f"Instrumentation: {frame_type}: Function: {location['address']:#06x}, File: {mapping}")
        for line in location["lines"]:
            text = f"Instrumentation: {frame_type}, Function: {line['function']['name']}"
            if layout != "typed":
                text += f", File: {line['function']['filename']}, Line: {line['line']}, Column: {line['column']}"
            out.append(text)
    out.append(END_SAMPLE)
