"""What a flame chart must show, from OTLP events alone (query_oracle): an own reading of src/query/query.h, "Flame chart"."""

import collections

import query_oracle

Lane = collections.namedtuple("Lane", "pid tid")


def lane_of(event):
    return Lane(event.labels.get("process.pid", ""), event.labels.get("thread.id", ""))


def lanes(events, type_, unit, counted, window, with_times):
    """lane -> spans (from, to, stack root first), by their start; and lane -> (value, events).

    counted: of a series, its period in ns when its values count periods, else 0.
    with_times: of an event, whether its sample had timestamps.
    """
    found, sums = collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    for e in events:
        if e.series[1] != type_ or not window[0] <= e.time < window[1]:
            continue
        lane = lane_of(e)
        sums[lane][0] += e.value
        sums[lane][1] += 1
        lasts = max(e.value, 0) if unit == "nanoseconds" else 1
        ends = unit == "nanoseconds" and not counted(e) and with_times(e)
        found[lane].append((e.time - lasts if ends else e.time, lasts, counted(e), e.stack))
    return {lane: cut(lane, sorted(spans, key=lambda s: s[0]), window) for lane, spans in found.items()}, sums


def cut(lane, spans, window):
    out = []
    for this, after in zip(spans, [*spans[1:], None]):
        start, lasts, counted, stack = this
        end = start + lasts
        if after and counted:
            if after[0] < end:
                end = after[0] if lane.tid else end
            elif 2 * (after[0] - start) <= 3 * lasts:  # at most 1.5 periods from one to the next
                end = after[0]
        start, end = max(start, window[0]), min(end, window[1])
        if start < end:
            out.append((start, end, stack))
    return out


def pixels(spans, window, bin_ns):
    """bin -> spans cut to it."""
    bins = collections.defaultdict(list)
    for start, end, stack in spans:
        for b in range((start - window[0]) // bin_ns, (end - 1 - window[0]) // bin_ns + 1):
            left = window[0] + b * bin_ns
            bins[b].append((max(start, left), min(end, left + bin_ns), stack))
    return bins


def best_frames(within, depth):
    """The frames that may stand at this depth (several where they were there equally long); empty: the path ends here."""
    weights, ended = collections.Counter(), 0
    for start, end, stack in within:
        if len(stack) == depth:
            ended += end - start
        else:
            weights[stack[depth]] += end - start
    most = max(weights.values(), default=0)
    return {f for f, w in weights.items() if w == most} if most and most >= ended else set()


def below(within, depth, frame):
    return [s for s in within if len(s[2]) > depth and s[2][depth] == frame]


def check_lane(boxes, spans, window, bin_ns):
    """boxes: (depth, from, to, frame, busy), as they came. Each pixel's path is one that the spans allow, and the boxes are these
    paths joined: from, to and busy are theirs."""
    bins = pixels(spans, window, bin_ns)
    by_bin = collections.defaultdict(dict)
    for box in boxes:
        depth, start, end, frame, _ = box
        for b in range((start - window[0]) // bin_ns, (end - 1 - window[0]) // bin_ns + 1):
            assert depth not in by_bin[b], "two boxes at one place"
            by_bin[b][depth] = box
    assert set(by_bin) <= set(bins)
    seen = collections.defaultdict(list)
    for b, within in bins.items():
        depth = 0
        while allowed := best_frames(within, depth):
            box = by_bin[b].get(depth)
            assert box, ("nothing at depth", depth, "of pixel", b)
            assert box[3] in allowed, (b, depth, box, allowed)
            within = below(within, depth, box[3])
            seen[box] += within
            depth += 1
        assert depth not in by_bin[b], "deeper than the stacks that were there"
    assert len(seen) == len(boxes) == len(set(boxes))
    for (depth, start, end, frame, busy), parts in seen.items():
        assert busy == sum(e - s for s, e, _ in parts), (depth, frame)
        assert (start, end) == (min(s for s, _, _ in parts), max(e for _, e, _ in parts))
    joined(by_bin, bins)


def joined(by_bin, bins):
    """Equal paths of neighbouring pixels are one box."""
    for b in bins:
        for depth in by_bin.get(b, {}):
            path, other = ([by_bin[x].get(d) for d in range(depth + 1)] for x in (b, b + 1)) if b + 1 in by_bin else ([], [])
            if other and None not in other and [p[3] for p in path] == [p[3] for p in other]:
                assert path == other, "one path, two boxes"


def events_with_shape(body):
    """Events of a query_oracle.Body, each with: has its sample timestamps; its period where values count periods."""
    d, out = body.request.dictionary, []
    for r, resource in enumerate(body.request.resource_profiles):
        outer = body._key_values(resource.resource.attributes)
        for k, scope in enumerate(resource.scope_profiles):
            of_scope = body._key_values(scope.scope.attributes)
            for n, p in enumerate(scope.profiles):
                text = d.string_table
                counted = p.period if (text[p.sample_type.type_strindex], text[p.sample_type.unit_strindex],
                                       text[p.period_type.unit_strindex]) == ("samples", "count", "nanoseconds") else 0
                for sample in p.samples:
                    one = type(p)()
                    one.CopyFrom(p)
                    del one.samples[:]
                    one.samples.append(sample)
                    for e in body._profile_events(one, outer, of_scope, (r, k), n):
                        out.append((e, bool(sample.timestamps_unix_nano), counted))
    return out
