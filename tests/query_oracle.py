"""What the query engine must answer, calculated from OTLP bodies by the official messages alone."""

import collections
import re

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

GAUGES = {"inuse_space", "inuse_objects", "goroutines", "threads"}

Frame = collections.namedtuple("Frame", "type binary function inlined")
Event = collections.namedtuple("Event", "time value series profile labels stack links begun")


def text(value):
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "string_value_strindex":
        raise AssertionError("resolve references first")
    return None


class Body:
    """One ExportProfilesServiceRequest; `events` are (time, value in the shown unit, labels, stack of Frames root first)."""

    def __init__(self, data):
        self.request = profiles_service_pb2.ExportProfilesServiceRequest.FromString(data)
        self.d = self.request.dictionary
        self.stacks = {}
        self.events = list(self._events())

    def _string(self, index):
        return self.d.string_table[index]

    def _value(self, value):
        return self._string(value.string_value_strindex) if value.WhichOneof("value") == "string_value_strindex" else text(value)

    def _attributes(self, indices):
        pairs = {}
        for i in indices:
            a = self.d.attribute_table[i]
            pairs.setdefault(self._string(a.key_strindex), self._value(a.value))
        return pairs

    def _key_values(self, list_):
        return {(self._string(kv.key_strindex) if kv.key_strindex else kv.key): self._value(kv.value) for kv in list_}

    def frames(self, location):
        type_ = self._attributes(location.attribute_indices).get("profile.frame.type", "")
        binary = self._string(self.d.mapping_table[location.mapping_index].filename_strindex).rsplit("/", 1)[-1]
        if not location.lines:
            return [Frame(type_, binary, "", False)]
        found = []
        for n, line in enumerate(location.lines):
            f = self.d.function_table[line.function_index]
            found.append(Frame(type_, binary, self._string(f.name_strindex) or self._string(f.system_name_strindex),
                               n + 1 < len(location.lines)))
        return found

    def stack(self, index):
        if index not in self.stacks:
            leaf_first = [f for i in self.d.stack_table[index].location_indices for f in self.frames(self.d.location_table[i])]
            self.stacks[index] = tuple(reversed(leaf_first))
        return self.stacks[index]

    def _events(self):
        for r, resource in enumerate(self.request.resource_profiles):
            outer = self._key_values(resource.resource.attributes)
            for k, scope in enumerate(resource.scope_profiles):
                of_scope = self._key_values(scope.scope.attributes)
                own_time = {self._types(p)[2:] for p in scope.profiles if self._types(p)[:1] == self._types(p)[2:3] and
                            self._types(p)[1] == "nanoseconds"}
                for n, profile in enumerate(scope.profiles):
                    yield from self._profile_events(profile, outer, of_scope, (r, k), n, own_time)

    def _types(self, profile):
        return tuple(self._string(i) for t in (profile.sample_type, profile.period_type) for i in (t.type_strindex, t.unit_strindex))

    def _profile_events(self, profile, outer, of_scope, owner, number, own_time=()):
        """own_time: period types of which the scope says the time itself; its counts are counts then, the same measurement."""
        type_ = self._string(profile.sample_type.type_strindex)
        unit = self._string(profile.sample_type.unit_strindex)
        period_unit = self._string(profile.period_type.unit_strindex)
        scale = 1
        counts_time = unit == "count" and type_ == "samples" and period_unit == "nanoseconds" and profile.period > 0
        if counts_time and self._types(profile)[2:] not in own_time:
            type_, unit, scale = self._string(profile.period_type.type_strindex), "nanoseconds", profile.period
        series = (owner, type_, unit, profile.period)
        of_profile = self._attributes(profile.attribute_indices)
        for sample in profile.samples:
            labels = of_profile | of_scope | outer | self._attributes(sample.attribute_indices)
            link = self.d.link_table[sample.link_index] if sample.link_index else None
            links = (link.trace_id.hex(), link.span_id.hex()) if link else ("", "")
            for time, value in self._times(profile, sample):
                yield Event(time, value * scale, series, (*owner, number), labels, self.stack(sample.stack_index), links,
                            profile.time_unix_nano)

    @staticmethod
    def _times(profile, sample):
        times, values = list(sample.timestamps_unix_nano), list(sample.values)
        if not times:
            return [(profile.time_unix_nano, sum(values))]
        if not values:
            return [(t, 1) for t in times]
        if len(values) == len(times):
            return list(zip(times, values))
        whole, rest = divmod(abs(sum(values)), len(times))
        sign = -1 if sum(values) < 0 else 1
        return [(t, sign * (whole + (i < rest))) for i, t in enumerate(times)]


def service_name(labels):
    if "service.name" in labels:
        return labels["service.name"]
    name = labels.get("process.executable.name")
    return f"unknown_service:{name}" if name is not None else "unknown_service"


def label(labels, key):
    if key in ("service.name", "service_name"):
        return service_name(labels)
    if key in labels:
        return labels[key]
    for k, v in labels.items():
        if re.sub(r"[./ -]", "_", k) == key:
            return v
    return ""


def matches(labels, matchers):
    for key, op, value in matchers:
        have = label(labels, key)
        if op == "=" and have != value or op == "!=" and have == value:
            return False
        if op == "=~" and not re.fullmatch(value, have, re.S) or op == "!~" and re.fullmatch(value, have, re.S):
            return False
    return True


def chosen(events, type_, window=(0, 1 << 64), matchers=(), trace=None, span=None):
    return [e for e in events if e.series[1] == type_ and window[0] <= e.time < window[1] and matches(e.labels, matchers)
            and (trace is None or e.links[0] == trace) and (span is None or e.links[1] == span)]


def stack_values(events, all_events=(), window=(0, 1 << 64)):
    """stack -> value: flows summed; gauges averaged over each series' profiles of the window, be they without any of the `events`, summed
    over the series."""
    if not events or events[0].series[1] not in GAUGES:
        sums = collections.Counter()
        for e in events:
            sums[e.stack] += e.value
        return sums
    profiles = collections.defaultdict(set)
    for e in all_events:
        if window[0] <= e.begun < window[1]:
            profiles[e.series].add(e.profile)
    for e in events:  # with timestamps, they may lie where their profile does not begin
        profiles[e.series].add(e.profile)
    sums = collections.Counter()
    for e in events:
        sums[e.stack] += e.value / len(profiles[e.series])
    return sums


def stack_values_of(stacks, of):
    """The same for (value, stack) with another identity of frames."""
    sums = collections.Counter()
    for value, stack in stacks:
        sums[tuple(map(of, stack))] += value
    return sums


def top(values):
    """Frame -> [self, total]; a stack counts once in a frame's total."""
    table = collections.defaultdict(lambda: [0, 0])
    for stack, value in values.items():
        if stack:
            table[stack[-1]][0] += value
        for frame in set(stack):
            table[frame][1] += value
    return dict(table)


def tree(values, inverted=False):
    """path of Frames -> [total, self]."""
    nodes = collections.defaultdict(lambda: [0, 0])
    for stack, value in values.items():
        path = tuple(reversed(stack)) if inverted else stack
        for n in range(len(path) + 1):
            nodes[path[:n]][0] += value
        nodes[path][1] += value
    return dict(nodes)


def line_costs(body, type_, function):
    """(file, {line: [self, total]}) of the file that a function costs most in, from the messages; stacks count once a line."""
    d, text, stacks, values = body.d, body.d.string_table, {}, collections.Counter()
    for resource in body.request.resource_profiles:
        for scope in resource.scope_profiles:
            for p in scope.profiles:
                for s in p.samples:
                    one = type(p)()
                    one.CopyFrom(p)
                    del one.samples[:]
                    one.samples.append(s)
                    for e in body._profile_events(one, {}, {}, (0, 0), 0):
                        if e.series[1] == type_:
                            values[s.stack_index] += e.value
    for index in values:
        lines = [(d.function_table[x.function_index], x.line) for i in d.stack_table[index].location_indices for x in
                 d.location_table[i].lines or [None] if x is not None] if index else []
        stacks[index] = [(text[f.name_strindex] or text[f.system_name_strindex], text[f.filename_strindex], n) for f, n in lines]
    named = collections.Counter()
    for index, value in values.items():
        for name, file, _ in stacks[index]:
            if name == function and file:
                named[file] += value
    if not named:
        return "", {}
    file = named.most_common(1)[0][0]
    costs = collections.defaultdict(lambda: [0, 0])
    for index, value in values.items():
        for line in {n for _, f, n in stacks[index] if f == file and n > 0}:
            costs[line][1] += value
        leaf = d.location_table[d.stack_table[index].location_indices[0]] if index and d.stack_table[index].location_indices else None
        if leaf is not None and leaf.lines and stacks[index][0][1] == file and stacks[index][0][2] > 0:
            costs[stacks[index][0][2]][0] += value
    return file, dict(costs)


# ---- transforms: on frames as they are, whatever `by` merges ----

Whole = collections.namedtuple("Whole", "type binary function inlined file line")
BY = {
    "function": lambda f: (f.type, f.binary, f.function, f.inlined),
    "line": lambda f: (f.type, f.binary, f.function, f.inlined, f.file, f.line),
    "file": lambda f: (f.type, f.file) if f.file else (f.type, f.binary, f.function, f.inlined),
    "binary": lambda f: (f.type, f.binary),
}


def whole_stacks(body, type_):
    """[(value, stack of Wholes root first)], one an event."""
    d, text, known = body.d, body.d.string_table, {}

    def stack(index):
        if index not in known:
            found = []
            for location in (d.location_table[i] for i in d.stack_table[index].location_indices):
                lines = location.lines or [None]
                for frame, line in zip(body.frames(location), lines):
                    of = d.function_table[line.function_index] if line else None
                    found.append(Whole(*frame, text[of.filename_strindex] if of else "", line.line if line else 0))
            known[index] = tuple(reversed(found))
        return known[index]

    found, scale = [], 1
    for resource in body.request.resource_profiles:
        for scope in resource.scope_profiles:
            for p in scope.profiles:
                counted = (text[p.sample_type.type_strindex], text[p.sample_type.unit_strindex]) == ("samples", "count")
                scale = p.period if counted else 1
                if text[(p.period_type if counted else p.sample_type).type_strindex] == type_:
                    found += [(value * scale, stack(s.stack_index)) for s in p.samples for _, value in body._times(p, s)]
    return found


def pattern_finds(pattern):
    field, _, rest = pattern.partition(":")
    if field not in ("file", "binary", "type"):
        return lambda f: re.search(pattern, f.function or f"{f.binary or '[' + (f.type or 'unknown') + ']'}+?") is not None
    return lambda f: re.search(rest, getattr(f, field)) is not None


def transformed(stacks, kind, pattern):
    finds = pattern_finds(pattern)
    for value, stack in stacks:
        hits = [finds(f) for f in stack]
        if kind == "hide":
            yield value, tuple(f for f, hit in zip(stack, hits) if not hit)
        elif kind == "collapse":
            yield value, tuple(f for i, f in enumerate(stack) if not (i and hits[i] and hits[i - 1]))
        elif any(hits) == (kind != "ignore"):
            yield value, stack[hits.index(True):] if kind == "show-from" else stack
