"""What an OTLP profiles body says, with every index resolved: one shape for all wire versions, so that bodies can be compared.

view(version, request) -> {"resources": [...]}; attributes are lists of (key, value[, unit]) in the order they came. What only
older versions have stands under "extra" of its profile, sample, mapping, location or function, zero values left out. Written from
the .proto files' words and the facts about their senders, without looking at the program.
"""

import math


def view(version, request):
    return {"resources": [_resource(version, request, r) for r in request.resource_profiles]}


def samples(v):
    """All samples of a view, each with its resource, scope and profile."""
    for r in v["resources"]:
        for s in r["scopes"]:
            for p in s["profiles"]:
                for sample in p["samples"]:
                    yield r, s, p, sample


def without_extras(v):
    if isinstance(v, dict):
        return {k: without_extras(x) for k, x in v.items() if k != "extra"}
    if isinstance(v, list):
        return [without_extras(x) for x in v]
    return v


def frame_type(location):
    for key, value, _ in location["attributes"]:
        if key == "profile.frame.type":
            return value
    return ""


def event_count(sample):
    return len(sample["timestamps"]) or 1


# ---- common.proto ----

def any_value(v, strings=()):
    """An AnyValue as a Python value: bytes stay bytes, maps become lists of pairs, a float that is NaN becomes "NaN"."""
    kind = v.WhichOneof("value")
    if kind is None:
        return None
    x = getattr(v, kind)
    if kind == "string_value_strindex":
        return strings[x]
    if kind == "array_value":
        return [any_value(e, strings) for e in x.values]
    if kind == "kvlist_value":
        return {"kvlist": key_values(x.values, strings)}
    if kind == "bytes_value":
        return bytes(x)
    if kind == "double_value":
        return ("double", "NaN" if math.isnan(x) else x)
    return x


def key_values(pairs, strings=()):
    out = []
    for p in pairs:
        key = p.key
        if not key and getattr(p, "key_strindex", 0):
            key = strings[p.key_strindex]
        out.append((key, any_value(p.value, strings)))
    return out


# ---- the tree ----

def _resource(version, request, r):
    strings = request.dictionary.string_table if hasattr(request, "dictionary") else ()
    return {
        "attributes": key_values(r.resource.attributes, strings),
        "dropped": r.resource.dropped_attributes_count,
        "schema_url": r.schema_url,
        "scopes": [{
            "name": s.scope.name, "version": s.scope.version, "schema_url": s.schema_url,
            "attributes": key_values(s.scope.attributes, strings),
            "dropped": s.scope.dropped_attributes_count,
            "profiles": [p for x in s.profiles for p in _PROFILE[version](version, request, x)],
        } for s in r.scope_profiles],
    }


def _id(b):
    return "" if not any(b) else bytes(b).hex()


def _extra(**pairs):
    return {k: v for k, v in pairs.items() if v}


def _link(table, index):
    """None for an index of nothing, and for a link whose ids are empty or zero (facts: no link)."""
    if index is None or index >= len(table):
        return None
    pair = (_id(table[index].trace_id), _id(table[index].span_id))
    return pair if any(pair) else None


class _Old:
    """Versions up to 1.7: tables in the profile, in the file's top or in a dictionary; sample_type is a list."""

    def __init__(self, version, request, profile):
        tables = profile if version in ("1.4", "1.5") else request if version == "1.6" else getattr(request, "dictionary", None)
        self.strings = tables.string_table
        self.mapping_table, self.location_table = tables.mapping_table, tables.location_table
        self.function_table, self.link_table = tables.function_table, tables.link_table
        self.attribute_table = tables.attribute_table
        self.units = {self.string(u.attribute_key_strindex): self.string(u.unit_strindex) for u in tables.attribute_units}

    def string(self, i):
        return self.strings[i] if self.strings else ""

    def attributes(self, indices):
        return [(*pair, self.units.get(pair[0], ""))
                for pair in key_values([self.attribute_table[i] for i in indices])]

    def mapping(self, m):
        return {"start": m.memory_start, "limit": m.memory_limit, "offset": m.file_offset,
                "filename": self.string(m.filename_strindex), "attributes": self.attributes(m.attribute_indices),
                "extra": _extra(has_functions=m.has_functions, has_filenames=m.has_filenames,
                                has_line_numbers=m.has_line_numbers, has_inline_frames=m.has_inline_frames)}

    def function(self, i):
        if not self.function_table:
            return {"name": "", "system_name": "", "filename": "", "start_line": 0}
        f = self.function_table[i]
        return {"name": self.string(f.name_strindex), "system_name": self.string(f.system_name_strindex),
                "filename": self.string(f.filename_strindex), "start_line": f.start_line}

    def location(self, i):
        loc = self.location_table[i]
        has = loc.HasField("mapping_index") and self.mapping_table
        return {"address": loc.address, "mapping": _used(self.mapping(self.mapping_table[loc.mapping_index]) if has else None),
                "lines": [{"function": self.function(x.function_index), "line": x.line, "column": x.column} for x in loc.line],
                "attributes": self.attributes(loc.attribute_indices), "extra": _extra(is_folded=loc.is_folded)}

    def types(self, p):
        return [(self.string(t.type_strindex), self.string(t.unit_strindex), t.aggregation_temporality) for t in p.sample_type]


def _used(mapping):
    """A mapping that says nothing at all is the zero entry that stands for "none"."""
    if mapping is None or not any(mapping.values()):
        return None
    return mapping


def _profile_old(version, request, p):
    """1.4 to 1.7. One profile of the newest shape per sample_type: value i of every sample belongs to type i."""
    t = _Old(version, request, p)
    types = t.types(p)
    if version in ("1.4", "1.5"):
        default = t.string(p.default_sample_type_strindex)
    else:
        default = p.default_sample_type_index
    period = (t.string(p.period_type.type_strindex), t.string(p.period_type.unit_strindex))
    by_value = key_values(p.attributes) if version == "1.4" else []
    attributes = t.attributes(p.attribute_indices) if version != "1.4" else [(k, x, t.units.get(k, "")) for k, x in by_value]
    for ordinal, kind in enumerate(types or [("", "", 0)]):
        yield {
            "sample_type": kind[:2], "period_type": period, "period": p.period, "time": p.time_nanos,
            "duration": p.duration_nanos, "profile_id": _id(p.profile_id), "dropped": p.dropped_attributes_count,
            "payload_format": p.original_payload_format, "payload": p.original_payload, "attributes": attributes,
            "samples": [{
                "stack": [t.location(i) for i in
                          p.location_indices[s.locations_start_index:s.locations_start_index + s.locations_length]],
                "attributes": t.attributes(s.attribute_indices),
                "link": _link(t.link_table, s.link_index if s.HasField("link_index") else None),
                "values": _value_of(s.value, ordinal, len(types)), "timestamps": list(s.timestamps_unix_nano), "extra": {},
            } for s in p.sample],
            "extra": _extra(sample_temporality=kind[2], period_temporality=p.period_type.aggregation_temporality,
                            comments=[t.string(i) for i in p.comment_strindices], default_sample_type=default,
                            sample_type_ordinal=ordinal, profile_attributes=by_value),
        }


def _value_of(values, ordinal, type_count):
    """<= 1.7: one value per sample_type. With one type all there is."""
    if type_count <= 1:
        return list(values)
    return [values[ordinal]] if ordinal < len(values) else []


def _profile_1_3(version, request, container):
    p = container.profile

    def string(i):
        return p.string_table[i] if p.string_table else ""

    units = {string(u.attribute_key): string(u.unit) for u in p.attribute_units}

    def attributes(indices):
        return [(*pair, units.get(pair[0], "")) for pair in key_values([p.attribute_table[i] for i in indices])]

    def mapping(i, m):
        made = attributes(m.attributes)
        build_id = string(m.build_id)
        if build_id:
            made.append(("process.executable.build_id." + ("gnu" if m.build_id_kind == 0 else "htlhash"), build_id, ""))
        return {"start": m.memory_start, "limit": m.memory_limit, "offset": m.file_offset, "filename": string(m.filename),
                "attributes": made,
                "extra": _extra(build_id=build_id, build_id_kind=m.build_id_kind, has_functions=m.has_functions,
                                has_filenames=m.has_filenames, has_line_numbers=m.has_line_numbers,
                                has_inline_frames=m.has_inline_frames)}

    def function(i):
        if not p.function:
            return {"name": "", "system_name": "", "filename": "", "start_line": 0}
        f = p.function[i]
        return {"name": string(f.name), "system_name": string(f.system_name), "filename": string(f.filename),
                "start_line": f.start_line}

    def location(i):
        loc = p.location[i]
        made = attributes(loc.attributes)
        kind = string(loc.type_index)
        if kind and not any(k == "profile.frame.type" for k, _, _ in made):
            made.append(("profile.frame.type", kind, ""))
        has = loc.mapping_index < len(p.mapping)
        return {"address": loc.address, "mapping": _used(mapping(loc.mapping_index, p.mapping[loc.mapping_index]) if has else None),
                "lines": [{"function": function(x.function_index), "line": x.line, "column": x.column} for x in loc.line],
                "attributes": made, "extra": _extra(is_folded=loc.is_folded, type=kind)}

    def stack(s):
        if s.locations_length:
            start = s.locations_start_index
            return [location(i) for i in p.location_indices[start:start + s.locations_length]]
        return [location(i) for i in s.location_index]

    def beside_run(s):
        run = p.location_indices[s.locations_start_index:s.locations_start_index + s.locations_length]
        return list(s.location_index) if s.locations_length and list(run) != list(s.location_index) else []

    for ordinal, t in enumerate(p.sample_type or [None]):
        kind = (string(t.type), string(t.unit), t.aggregation_temporality) if t else ("", "", 0)
        time = p.time_nanos or container.start_time_unix_nano
        yield {
            "sample_type": kind[:2], "period_type": (string(p.period_type.type), string(p.period_type.unit)),
            "period": p.period, "time": time, "duration": p.duration_nanos, "profile_id": _id(container.profile_id),
            "dropped": container.dropped_attributes_count, "payload_format": container.original_payload_format,
            "payload": container.original_payload,
            "attributes": [(k, x, units.get(k, "")) for k, x in key_values(container.attributes)],
            "samples": [{
                "stack": stack(s), "attributes": attributes(s.attributes),
                "link": _link(p.link_table, s.link if s.link else None),
                "values": _value_of(s.value, ordinal, len(p.sample_type)), "timestamps": list(s.timestamps_unix_nano),
                "extra": _extra(labels=[(string(x.key), string(x.str), x.num, string(x.num_unit)) for x in s.label],
                                stacktrace_id=s.stacktrace_id_index, location_index=beside_run(s)),
            } for s in p.sample],
            "extra": _extra(sample_temporality=kind[2], period_temporality=p.period_type.aggregation_temporality,
                            comments=[string(i) for i in p.comment], default_sample_type=string(p.default_sample_type),
                            sample_type_ordinal=ordinal, drop_frames=string(p.drop_frames), keep_frames=string(p.keep_frames),
                            profile_attributes=key_values(container.attributes),
                            end_time=container.end_time_unix_nano,
                            start_time=container.start_time_unix_nano if container.start_time_unix_nano != time else 0),
        }


def _profile_new(version, request, p):
    """1.8 and later: everything by index into the dictionary, 0 = not set."""
    d = request.dictionary

    def attributes(indices):
        out = []
        for i in indices:
            if i == 0:
                continue
            a = d.attribute_table[i]
            out.append((d.string_table[a.key_strindex], any_value(a.value, d.string_table), d.string_table[a.unit_strindex]))
        return out

    def string(i):
        return d.string_table[i] if d.string_table else ""

    def mapping(i):
        if i == 0:
            return None
        m = d.mapping_table[i]
        return {"start": m.memory_start, "limit": m.memory_limit, "offset": m.file_offset,
                "filename": string(m.filename_strindex), "attributes": attributes(m.attribute_indices), "extra": {}}

    def function(i):
        if i == 0:
            return {"name": "", "system_name": "", "filename": "", "start_line": 0}
        f = d.function_table[i]
        return {"name": string(f.name_strindex), "system_name": string(f.system_name_strindex),
                "filename": string(f.filename_strindex), "start_line": f.start_line}

    def location(i):
        loc = d.location_table[i]
        lines = loc.line if version == "1.8" else loc.lines
        return {"address": loc.address, "mapping": _used(mapping(loc.mapping_index)),
                "lines": [{"function": function(x.function_index), "line": x.line, "column": x.column} for x in lines],
                "attributes": attributes(loc.attribute_indices), "extra": {}}

    stacks = {}

    def stack(i):
        if i == 0:
            return []
        if i not in stacks:
            stacks[i] = [location(x) for x in d.stack_table[i].location_indices]
        return stacks[i]

    def temporality(t):
        return t.aggregation_temporality if version == "1.8" else 0

    yield {
        "sample_type": (string(p.sample_type.type_strindex), string(p.sample_type.unit_strindex)),
        "period_type": (string(p.period_type.type_strindex), string(p.period_type.unit_strindex)),
        "period": p.period, "time": p.time_unix_nano, "duration": p.duration_nano, "profile_id": _id(p.profile_id),
        "dropped": p.dropped_attributes_count, "payload_format": p.original_payload_format, "payload": p.original_payload,
        "attributes": attributes(p.attribute_indices),
        "samples": [{
            "stack": stack(s.stack_index), "attributes": attributes(s.attribute_indices),
            "link": _link(d.link_table, s.link_index) if s.link_index else None,
            "values": list(s.values), "timestamps": list(s.timestamps_unix_nano), "extra": {},
        } for s in (p.sample if version == "1.8" else p.samples)],
        "extra": _extra(sample_temporality=temporality(p.sample_type), period_temporality=temporality(p.period_type),
                        comments=[string(i) for i in p.comment_strindices] if version == "1.8" else []),
    }


_PROFILE = {"1.3": _profile_1_3, "1.4": _profile_old, "1.5": _profile_old, "1.6": _profile_old, "1.7": _profile_old,
            "1.8": _profile_new, "1.9": _profile_new, "1.10": _profile_new}
