"""Bodies for the query engine, by the official messages: recursion, inlining, gauges, odd shapes of samples."""

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

TIME = 1767225600_000000000


class Maker:
    def __init__(self):
        self.request = profiles_service_pb2.ExportProfilesServiceRequest()
        self.d = self.request.dictionary
        self.strings, self.attributes, self.known = {}, {}, {}
        self.string("")
        for table in (self.d.mapping_table, self.d.location_table, self.d.function_table, self.d.link_table, self.d.attribute_table,
                      self.d.stack_table):
            table.add()

    def string(self, s):
        if s not in self.strings:
            self.strings[s] = len(self.d.string_table)
            self.d.string_table.append(s)
        return self.strings[s]

    def attribute(self, key, value):
        if (key, value) not in self.attributes:
            a = self.d.attribute_table.add(key_strindex=self.string(key))
            if isinstance(value, int):
                a.value.int_value = value
            else:
                a.value.string_value = value
            self.attributes[key, value] = len(self.d.attribute_table) - 1
        return self.attributes[key, value]

    def once(self, key, make):
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def mapping(self, name):
        def make():
            self.d.mapping_table.add(filename_strindex=self.string(name), memory_limit=1 << 20)
            return len(self.d.mapping_table) - 1
        return self.once(("mapping", name), make) if name else 0

    def function(self, name, file):
        def make():
            self.d.function_table.add(name_strindex=self.string(name), filename_strindex=self.string(file), start_line=1)
            return len(self.d.function_table) - 1
        return self.once(("function", name, file), make)

    def location(self, type_, binary, functions, address):
        """functions: innermost inlined first; none: an address without a name."""
        def make():
            location = self.d.location_table.add(mapping_index=self.mapping(binary), address=address)
            if type_:
                location.attribute_indices.append(self.attribute("profile.frame.type", type_))
            for name in functions:
                location.lines.add(function_index=self.function(name, name + ".c"), line=address % 97 + 1)
            return len(self.d.location_table) - 1
        return self.once(("location", type_, binary, functions, address), make)

    def stack(self, locations):
        def make():
            self.d.stack_table.add(location_indices=locations)
            return len(self.d.stack_table) - 1
        return self.once(("stack", tuple(locations)), make) if locations else 0

    def link(self, rng):
        self.d.link_table.add(trace_id=rng.randbytes(16), span_id=rng.randbytes(8))
        return len(self.d.link_table) - 1

    def profile(self, scope, type_, unit, period_type="", period_unit="", period=0, time=TIME, duration=10**10):
        p = scope.profiles.add(time_unix_nano=time, duration_nano=duration, period=period)
        p.sample_type.type_strindex, p.sample_type.unit_strindex = self.string(type_), self.string(unit)
        p.period_type.type_strindex, p.period_type.unit_strindex = self.string(period_type), self.string(period_unit)
        return p


def two_columns():
    """Both columns of a pprof as two profiles of one program (10 ms a sample), beside one that counts only and one that times only."""
    m = Maker()
    stacks = [m.stack([m.location("native", "/opt/app", (name,), n + 1)]) for n, name in enumerate(("f", "g"))]
    for name, columns in (("both", "ct"), ("counts", "c"), ("times", "t")):
        resource = m.request.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = name
        scope = resource.scope_profiles.add()
        for column in columns:
            type_, scale = (("samples", "count"), 1) if column == "c" else (("cpu", "nanoseconds"), 10**7)
            profile = m.profile(scope, *type_, "cpu", "nanoseconds", 10**7)
            for n, stack in enumerate(stacks):
                profile.samples.add(stack_index=stack, values=[(n + 3) * scale])
    return m.request.SerializeToString()


def many_values(count):
    """One stack of `count` threads, "Thread-0" the heaviest."""
    m = Maker()
    scope = m.request.resource_profiles.add().scope_profiles.add()
    profile = m.profile(scope, "samples", "count", "cpu", "nanoseconds", 10**7)
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])
    for n in range(count):
        sample = profile.samples.add(stack_index=stack, timestamps_unix_nano=[TIME + i for i in range(1 + (n < 300))])
        sample.attribute_indices.append(m.attribute("thread.name", f"Thread-{n}"))
    return m.request.SerializeToString()


def types_days_apart():
    """CPU time, which is shown where no type is asked for, ten days before two other types."""
    m = Maker()
    scope = m.request.resource_profiles.add().scope_profiles.add()
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])
    for type_, unit, time in (("cpu", "nanoseconds", TIME - 10 * 86400 * 10**9), ("alloc_space", "bytes", TIME), ("delay", "nanoseconds", TIME)):
        m.profile(scope, type_, unit, time=time).samples.add(stack_index=stack, values=[7], timestamps_unix_nano=[time + 1])
    return m.request.SerializeToString()


def reports_of_agents(first=0, rare=(3, 7)):
    """Ten seconds of a machine's agent, a second a report: "busy" is in each, "rare" in two, once a gauge of it; another machine's agent has "far" in one;
    an SDK of the same machine and a profiler that says no host have "sdk" and "alone" for a second."""
    m = Maker()
    stack = m.stack([m.location("native", "/opt/app", ("f",), 1)])

    def put(name, second, host="", scope="agent", sdk="", type_=("samples", "count", "cpu", "nanoseconds", 50_000_000)):
        resource = m.request.resource_profiles.add()
        for key, value in (("service.name", name), ("host.name", host), ("telemetry.sdk.name", sdk)):
            if value:
                resource.resource.attributes.add(key=key).value.string_value = value
        scope = resource.scope_profiles.add(scope={"name": scope})
        profile = m.profile(scope, *type_, time=TIME + (first + second) * 10**9, duration=10**9)
        profile.samples.add(stack_index=stack, timestamps_unix_nano=[profile.time_unix_nano + 5 * 10**8])

    for second in range(10):
        put("busy", second, "here")
    for second in rare:
        put("rare", second, "here")
    put("rare", 3, "here", type_=("inuse_space", "bytes", "space", "bytes", 524288))
    put("far", 5, "there")
    put("sdk", 1, "here", sdk="opentelemetry")
    put("alone", 2)
    return m.request.SerializeToString()


TEN_MINUTES = 600 * 10**9
TYPES = [("samples", "count", "cpu", "nanoseconds", 50_000_000), ("off_cpu", "nanoseconds", "", "", 0),
         ("inuse_space", "bytes", "space", "bytes", 524288), ("alloc_space", "bytes", "space", "bytes", 524288)]


def random_location(rng, m):
    kind = rng.random()
    if kind < 0.15:
        return m.location("native", f"/usr/lib/lib{rng.randrange(3)}.so", (), rng.randrange(1, 1 << 16))
    if kind < 0.3:
        names = tuple(f"inline{rng.randrange(4)}" for _ in range(rng.randrange(1, 4)))
        return m.location("native", "/opt/app", (*names, f"f{rng.randrange(5)}"), rng.randrange(1, 500))
    if kind < 0.4:
        return m.location("kernel", "vmlinux", (f"sys_{rng.randrange(3)}",), rng.randrange(1, 500))
    return m.location(rng.choice(("native", "cpython", "")), rng.choice(("/opt/app", "app", "")), (f"f{rng.randrange(6)}",), rng.randrange(1, 300))


def random_stack(rng, m):
    depth = rng.choice((0, 1, 2, 5, 12, 40))
    pool = [random_location(rng, m) for _ in range(max(1, depth // 3))]  # few, so that stacks recurse, in turns too
    return m.stack([rng.choice(pool) for _ in range(depth)])


def add_sample(rng, m, profile, stacks, links):
    s = profile.samples.add(stack_index=rng.choice(stacks))
    if rng.random() < 0.7:
        s.attribute_indices.append(m.attribute("thread.name", f"worker {rng.randrange(4)}"))
    if rng.random() < 0.5:
        s.attribute_indices.append(m.attribute("thread.id", rng.randrange(100, 104)))
    if rng.random() < 0.2:
        s.attribute_indices.append(m.attribute("service.name", "from the sample"))
    if rng.random() < 0.2:
        s.link_index = rng.choice(links)
    times = [profile.time_unix_nano + rng.randrange(10**10) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
    s.timestamps_unix_nano.extend(times)
    shape = rng.random()
    if not times or shape < 0.3:
        s.values.append(rng.randrange(1, 1000))
    elif shape < 0.7:
        s.values.extend(rng.randrange(-5, 1000) for _ in times)


def random_body(rng):
    m = Maker()
    stacks = [random_stack(rng, m) for _ in range(30)]
    links = [m.link(rng) for _ in range(4)]
    for r in range(4):
        resource = m.request.resource_profiles.add()
        for key, value in (("process.executable.name", f"prog{r % 3}"), ("process.pid", 1000 + r), ("host.name", "h\"1\\")):
            kv = resource.resource.attributes.add(key=key)
            if isinstance(value, int):
                kv.value.int_value = value
            else:
                kv.value.string_value = value
        if r == 1:
            resource.resource.attributes.add(key="service.name").value.string_value = "checkout"
        scope = resource.scope_profiles.add()
        for n in range(5):
            profile = m.profile(scope, *TYPES[(r + n) % len(TYPES)], time=TIME + n * 10**10)
            if rng.random() < 0.5:
                profile.attribute_indices.append(m.attribute("profile.note", f"n{n}"))
            for _ in range(rng.randrange(1, 30)):
                add_sample(rng, m, profile, stacks, links)
    return m.request.SerializeToString()


def reaching_body(rng, steps=(0, 1, 10**8, 3 * 10**9, 30 * 10**9, 700 * 10**9), counts=(0, 1, 1, 2, 5)):
    """Samples of off-CPU time over six times ten minutes: of one timestamp or many, close together or far apart, with a value each, one for all
    or none."""
    m = Maker()
    start = TIME // TEN_MINUTES * TEN_MINUTES
    stacks = [random_stack(rng, m) for _ in range(12)]
    for name in ("one", "two"):
        resource = m.request.resource_profiles.add()
        resource.resource.attributes.add(key="service.name").value.string_value = name
        profile = m.profile(resource.scope_profiles.add(), *TYPES[1], time=start, duration=6 * TEN_MINUTES)
        for _ in range(150):
            s = profile.samples.add(stack_index=rng.choice(stacks))
            s.attribute_indices.append(m.attribute("thread.id", rng.randrange(100, 104)))
            at = start + rng.randrange(4 * TEN_MINUTES)
            step = rng.choice(steps)
            times = [at + (rng.randrange(1, step + 1) if i and step else 0) for i in range(rng.choice(counts))]
            s.timestamps_unix_nano.extend(times)
            shape = rng.random()
            if not times or shape < 0.2:
                s.values.append(rng.randrange(2, 10**6))
            elif shape < 0.6:
                s.values.extend(rng.randrange(1, 10**6) for _ in times)
    return m.request.SerializeToString()


def go_body(stacks):
    """{function names, root first: value} as CPU samples of Go code: each function starts at line 1."""
    m = Maker()
    profile = m.profile(m.request.resource_profiles.add().scope_profiles.add(), *TYPES[0])
    for names, value in stacks.items():
        locations = [m.location("go", "/opt/app", (name,), 10 + i) for i, name in enumerate(names)]
        profile.samples.add(stack_index=m.stack(locations[::-1]), values=[value], timestamps_unix_nano=[TIME])
    return m.request.SerializeToString()
