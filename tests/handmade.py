"""Bodies that no recording holds: every field of every version filled, written by Google's protobuf from the tables in schemas.py."""

import schemas

TRACE = bytes(range(1, 17))
SPAN = bytes(range(17, 25))
PROFILE_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
TIME = 1767225600_000000000
STRINGS = ["", "cpu", "nanoseconds", "samples", "count", "leaf", "caller", "inlined", "app.c", "libapp.so", "thread.name",
           "bytes", "a comment", "another comment", "profile.frame.type", "native", "_leaf_mangled", "process.executable.build_id.gnu"]


def s(text):
    return STRINGS.index(text)


def rich(version):
    """One body with all that a version can say: two resources, several sample shapes, links, units, inlining, payload, oddities."""
    return _MAKERS[version](schemas.schema(version))


def _any_values(c):
    """Attributes of every AnyValue kind, nested ones too."""
    def kv(key, **value):
        return c.KeyValue(key=key, value=c.AnyValue(**value))

    nested = c.ArrayValue(values=[c.AnyValue(string_value="x"), c.AnyValue(int_value=-1), c.AnyValue(),
                                  c.AnyValue(array_value=c.ArrayValue(values=[c.AnyValue(bool_value=False)]))])
    return [
        kv("service.name", string_value="checkout"), kv("empty.string", string_value=""), c.KeyValue(key="nothing"),
        kv("is.on", bool_value=True), kv("is.off", bool_value=False), kv("least", int_value=-(1 << 63)),
        kv("most", int_value=(1 << 63) - 1), kv("zero", int_value=0), kv("pi", double_value=3.141592653589793),
        kv("tiny", double_value=5e-324), kv("nan", double_value=float("nan")), kv("inf", double_value=float("-inf")),
        kv("raw", bytes_value=b"\x00\xff\x80raw"), kv("list", array_value=nested),
        kv("map", kvlist_value=c.KeyValueList(values=[kv("inner", int_value=7), kv("deep", array_value=nested)])),
        kv("ünïcode.ключ", string_value="значение \"quoted\"\n\ttab"),
    ]


def _tree(c, profiles):
    """Two resources; the profiles lie in the second scope of the first one and in the second one."""
    request = c.Request()
    first = request.resource_profiles.add(schema_url="https://opentelemetry.io/schemas/1.37.0")
    first.resource.attributes.extend(_any_values(c))
    first.resource.dropped_attributes_count = 3
    first.resource.entity_refs.add(schema_url="urn:e", type="service", id_keys=["service.name"], description_keys=["is.on"])
    first.scope_profiles.add().scope.name = "scope without profiles"
    scope = first.scope_profiles.add(schema_url="urn:scope")
    scope.scope.name, scope.scope.version, scope.scope.dropped_attributes_count = "profiler", "1.2.3", 4
    scope.scope.attributes.extend(_any_values(c)[3:8])
    scope.profiles.append(profiles[0])
    second = request.resource_profiles.add()
    second.resource.attributes.add(key="container.id").value.string_value = "c" * 64
    second.scope_profiles.add().profiles.extend(profiles[1:])
    return request


def _new_dictionary(c, d):
    line = "line" if c.version == "1.8" else "lines"
    d.string_table.extend(STRINGS)
    d.mapping_table.add()
    d.mapping_table.add(memory_start=0x400000, memory_limit=0x500000, file_offset=0x1000, filename_strindex=s("libapp.so"),
                        attribute_indices=[3])
    d.function_table.add()
    d.function_table.add(name_strindex=s("leaf"), system_name_strindex=s("_leaf_mangled"), filename_strindex=s("app.c"), start_line=10)
    d.function_table.add(name_strindex=s("caller"), filename_strindex=s("app.c"), start_line=50)
    d.function_table.add(name_strindex=s("inlined"))
    d.link_table.add()
    d.link_table.add(trace_id=TRACE, span_id=SPAN)
    a = d.attribute_table
    a.add()
    a.add(key_strindex=s("thread.name")).value.string_value = "worker"
    a.add(key_strindex=s("bytes"), unit_strindex=s("count")).value.int_value = 4096
    a.add(key_strindex=s("process.executable.build_id.gnu")).value.string_value = "abcdef0123"
    a.add(key_strindex=s("profile.frame.type")).value.string_value = "native"
    a.add(key_strindex=s("a comment")).value.CopyFrom(_any_values(c)[14].value)
    d.location_table.add()
    loc = d.location_table.add(mapping_index=1, address=0x401234, attribute_indices=[4])
    getattr(loc, line).add(function_index=3, line=12, column=5)
    getattr(loc, line).add(function_index=1, line=20)
    loc = d.location_table.add(address=0xFFFFFFFFFFFFFFFE)
    getattr(loc, line).add(function_index=2, line=55, column=1)
    d.location_table.add(mapping_index=1, address=0x401999)
    d.stack_table.add()
    d.stack_table.add(location_indices=[1, 2])
    d.stack_table.add(location_indices=[3, 1, 2])


def _new_profiles(c):
    a = c.Profile(time_unix_nano=TIME, duration_nano=10**9, period=50_000_000, profile_id=PROFILE_ID, dropped_attributes_count=9,
                  original_payload_format="pprof", original_payload=b"\x1f\x8b\x00payload\xff", attribute_indices=[2, 5])
    a.sample_type.type_strindex, a.sample_type.unit_strindex = s("cpu"), s("nanoseconds")
    a.period_type.type_strindex, a.period_type.unit_strindex = s("cpu"), s("nanoseconds")
    samples = a.sample if c.version == "1.8" else a.samples
    samples.add(stack_index=1, values=[5, -7], timestamps_unix_nano=[TIME + 900, TIME + 100], attribute_indices=[1, 2], link_index=1)
    samples.add(stack_index=2, values=[123456789012], attribute_indices=[1])
    samples.add(stack_index=1, timestamps_unix_nano=[TIME + 5])
    samples.add(values=[1])
    b = c.Profile(time_unix_nano=TIME, duration_nano=10**9)
    b.sample_type.type_strindex, b.sample_type.unit_strindex = s("samples"), s("count")
    samples = b.sample if c.version == "1.8" else b.samples
    samples.add(stack_index=2, values=[3], attribute_indices=[1])
    if c.version == "1.8":
        a.sample_type.aggregation_temporality, a.period_type.aggregation_temporality = 2, 1
        a.comment_strindices.extend([s("a comment"), s("another comment")])
    return [a, b]


def _make_new(c):
    request = _tree(c, _new_profiles(c))
    _new_dictionary(c, request.dictionary)
    if c.version == "1.10":
        # references in the resource's attributes, nested too
        r = request.resource_profiles[1].resource
        kv = r.attributes.add(key_strindex=s("thread.name"))
        kv.value.string_value_strindex = s("libapp.so")
        kv = r.attributes.add(key="of references").value.array_value
        kv.values.add().string_value_strindex = s("leaf")
    return request


def _old_tables(c, t):
    t.string_table.extend(STRINGS)
    t.mapping_table.add(memory_start=0x400000, memory_limit=0x500000, file_offset=0x1000, filename_strindex=s("libapp.so"),
                        attribute_indices=[2], has_functions=True, has_filenames=True, has_line_numbers=True,
                        has_inline_frames=True)
    t.mapping_table.add(memory_start=0x600000, memory_limit=0x700000, filename_strindex=s("app.c"))
    t.function_table.add(name_strindex=s("leaf"), system_name_strindex=s("_leaf_mangled"), filename_strindex=s("app.c"), start_line=10)
    t.function_table.add(name_strindex=s("caller"), filename_strindex=s("app.c"), start_line=50)
    t.function_table.add(name_strindex=s("inlined"))
    t.link_table.add(trace_id=TRACE, span_id=SPAN)
    t.attribute_table.add(key="thread.name").value.string_value = "worker"
    t.attribute_table.add(key="bytes").value.int_value = 4096
    t.attribute_table.add(key="process.executable.build_id.gnu").value.string_value = "abcdef0123"
    t.attribute_table.add(key="profile.frame.type").value.string_value = "native"
    t.attribute_table.add(key="map").value.CopyFrom(_any_values(c)[14].value)
    t.attribute_units.add(attribute_key_strindex=s("bytes"), unit_strindex=s("count"))
    loc = t.location_table.add(mapping_index=0, address=0x401234, attribute_indices=[3], is_folded=True)  # explicit 0: a reference
    loc.line.add(function_index=2, line=12, column=5)
    loc.line.add(function_index=0, line=20)
    loc = t.location_table.add(address=0xFFFFFFFFFFFFFFFE)  # no mapping
    loc.line.add(function_index=1, line=55, column=1)
    t.location_table.add(mapping_index=1, address=0x601999)


def _old_profiles(c):
    a = c.Profile(time_nanos=TIME, duration_nanos=10**9, period=50_000_000, profile_id=PROFILE_ID, dropped_attributes_count=9,
                  original_payload_format="pprof", original_payload=b"\x1f\x8b\x00payload\xff",
                  location_indices=[0, 1, 2, 0, 1], comment_strindices=[s("a comment"), s("another comment")])
    a.sample_type.add(type_strindex=s("cpu"), unit_strindex=s("nanoseconds"), aggregation_temporality=1)
    a.sample_type.add(type_strindex=s("samples"), unit_strindex=s("count"), aggregation_temporality=2)
    a.period_type.type_strindex, a.period_type.unit_strindex = s("cpu"), s("nanoseconds")
    a.period_type.aggregation_temporality = 2
    a.sample.add(locations_start_index=0, locations_length=2, value=[50_000_000, 2], attribute_indices=[0, 1], link_index=0,
                 timestamps_unix_nano=[TIME + 900, TIME + 100])
    a.sample.add(locations_start_index=2, locations_length=3, value=[-7, 1], attribute_indices=[0])
    a.sample.add(value=[1, 1])
    b = c.Profile(time_nanos=TIME, location_indices=[2])
    b.sample_type.add(type_strindex=s("samples"), unit_strindex=s("count"))
    b.sample.add(locations_start_index=0, locations_length=1, value=[3], attribute_indices=[0])
    if c.version == "1.4":
        a.attributes.extend(_any_values(c))
    else:
        a.attribute_indices.extend([1, 4])
    if c.version in ("1.4", "1.5"):
        a.default_sample_type_strindex = s("samples")
    else:
        a.default_sample_type_index = 1
    return [a, b]


def _make_old(c):
    profiles = _old_profiles(c)
    request = _tree(c, profiles)
    if c.version in ("1.4", "1.5"):
        for r in request.resource_profiles:
            for scope in r.scope_profiles:
                for p in scope.profiles:
                    _old_tables(c, p)
    else:
        _old_tables(c, request if c.version == "1.6" else request.dictionary)
    return request


def _make_1_3(c):
    p = c.Profile(time_nanos=TIME, duration_nanos=10**9, period=50_000_000, drop_frames=s("leaf"), keep_frames=s("caller"),
                  comment=[s("a comment"), s("another comment")], default_sample_type=s("samples"), location_indices=[0, 1, 2, 0, 1],
                  string_table=STRINGS)
    p.sample_type.add(type=s("cpu"), unit=s("nanoseconds"), aggregation_temporality=1)
    p.sample_type.add(type=s("samples"), unit=s("count"), aggregation_temporality=2)
    p.period_type.type, p.period_type.unit, p.period_type.aggregation_temporality = s("cpu"), s("nanoseconds"), 2
    p.mapping.add(id=77, memory_start=0x400000, memory_limit=0x500000, file_offset=0x1000, filename=s("libapp.so"),
                  build_id=s("bytes"), build_id_kind=1, has_functions=True, has_filenames=True, has_line_numbers=True,
                  has_inline_frames=True, attributes=[2])
    p.mapping.add(id=78, memory_start=0x600000, memory_limit=0x700000, filename=s("app.c"), build_id=s("cpu"))
    p.function.add(id=5, name=s("leaf"), system_name=s("_leaf_mangled"), filename=s("app.c"), start_line=10)
    p.function.add(id=6, name=s("caller"), filename=s("app.c"), start_line=50)
    p.function.add(id=7, name=s("inlined"))
    p.link_table.add(trace_id=b"\x01" * 16, span_id=b"\x02" * 8)
    p.link_table.add(trace_id=TRACE, span_id=SPAN)
    p.attribute_table.add(key="thread.name").value.string_value = "worker"
    p.attribute_table.add(key="bytes").value.int_value = 4096
    p.attribute_table.add(key="module").value.CopyFrom(_any_values(c)[14].value)
    p.attribute_units.add(attribute_key=s("bytes"), unit=s("count"))
    loc = p.location.add(id=11, mapping_index=0, address=0x401234, type_index=s("native"), is_folded=True, attributes=[1])
    loc.line.add(function_index=2, line=12, column=5)
    loc.line.add(function_index=0, line=20)
    loc = p.location.add(id=12, mapping_index=1, address=0xFFFFFFFFFFFFFFFE)
    loc.line.add(function_index=1, line=55, column=1)
    p.location.add(id=13, mapping_index=1, address=0x601999)
    sample = p.sample.add(locations_start_index=0, locations_length=2, value=[50_000_000, 2], attributes=[0, 1], link=1,
                          timestamps_unix_nano=[TIME + 900, TIME + 100], stacktrace_id_index=42)
    sample.label.add(key=s("thread.name"), str=s("cpu"))
    sample.label.add(key=s("bytes"), num=-99, num_unit=s("count"))
    p.sample.add(location_index=[2, 0], value=[-7, 1], attributes=[0])
    p.sample.add(location_index=[2, 0, 1], locations_start_index=2, locations_length=2, value=[4, 1])
    p.sample.add(location_index=[0, 1], locations_start_index=0, locations_length=2, value=[5, 1])  # the run's own
    p.sample.add(value=[1, 1])
    container = c.ProfileContainer(profile_id=PROFILE_ID, start_time_unix_nano=TIME - 5, end_time_unix_nano=TIME + 10**9,
                                   attributes=_any_values(c), dropped_attributes_count=9, original_payload_format="pprof",
                                   original_payload=b"\x1f\x8b\x00payload\xff", profile=p)
    small = c.Profile(string_table=STRINGS)
    small.sample_type.add(type=s("samples"), unit=s("count"))
    small.location.add(id=1, address=0x1000)
    small.sample.add(location_index=[0], value=[3])
    return _tree(c, [container, c.ProfileContainer(start_time_unix_nano=TIME, end_time_unix_nano=TIME + 1, profile=small)])


_MAKERS = {"1.3": _make_1_3, "1.4": _make_old, "1.5": _make_old, "1.6": _make_old, "1.7": _make_old, "1.8": _make_new,
           "1.9": _make_new, "1.10": _make_new}


def resource_body(resources=1, samples=1, attributes=0, filler=""):
    """A plain newest body of a wanted size, for limits and loads."""
    c = schemas.schema(schemas.NEWEST)
    request = c.Request()
    for r in range(resources):
        rp = request.resource_profiles.add()
        rp.resource.attributes.add(key="container.id").value.string_value = f"{r:064x}"
        for i in range(attributes):
            rp.resource.attributes.add(key=f"k{i}").value.string_value = filler
        p = rp.scope_profiles.add().profiles.add(time_unix_nano=TIME, duration_nano=10**9)
        p.sample_type.type_strindex, p.sample_type.unit_strindex = s("samples"), s("count")
        for _ in range(samples):
            p.samples.add(stack_index=1, timestamps_unix_nano=[TIME + 1])
    _new_dictionary(c, request.dictionary)
    return request


def marked(mark):
    """A small valid body that carries a text to find it again."""
    request = resource_body()
    request.resource_profiles[0].resource.attributes.add(key="mark").value.string_value = mark
    return request.SerializeToString()


def marks_in(text):
    import re
    return re.findall(r"mark-[0-9a-z]+-[0-9]+", text)
