"""What samples count for, so that bodies of wire versions that write it differently can be compared.

Up to 1.7 each sample has a value per type beside its timestamps, and senders of samples/count wrote 1 beside n timestamps, which
count; since 1.8 a value belongs to its timestamp or stands alone, and timestamps without values count 1 each.
"""

from collections import Counter

import view

OLD = ("1.3", "1.4", "1.5", "1.6", "1.7")


def bare(v):
    """A view without what only older versions have."""
    if isinstance(v, dict):
        return {k: {} if k == "extra" else bare(x) for k, x in v.items()}
    if isinstance(v, list):
        return [bare(x) for x in v]
    return v


def comparable(v, version, other):
    """A view of a body in `version` that can be compared with that of the same message in version `other`.

    On one side of 1.7 / 1.8 every value must stay. Across it what each sample counts for must, whatever list says so, and the list must
    be one that `version` allows.
    """
    return meant(v, version) if (version in OLD) != (other in OLD) else bare(v)


def meant(v, version):
    """A bare view with the number that each sample counts for in place of its values."""
    v = bare(v)
    for _, _, p, s in view.samples(v):
        if version not in OLD:
            assert_allowed(s)
        s["values"] = counted(s, version, p["sample_type"][1])
    return v


def counted(sample, version, unit):
    times, values = len(sample["timestamps"]), sample["values"]
    if not values or (version in OLD and unit == "count" and values == [1] and times > 1):
        return times
    return max(min(sum(values), 2**63 - 1), -2**63)


def assert_allowed(sample):
    """profiles.proto since 1.8, Sample: one value for each timestamp, none, or a single one without timestamps."""
    values, times = len(sample["values"]), len(sample["timestamps"])
    assert values in ((0, times) if times else (1,)), f"{values} values beside {times} timestamps"


def assert_shares(values, total):
    """Whole numbers that add up to `total` and are as equal as they can be."""
    assert sum(values) == total
    assert set(Counter(values)) <= {total // len(values), -(-total // len(values))}
