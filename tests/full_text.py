"""Reads layout full back: the grammar at the top of text_full.c, taken apart into the same shape as view.py makes.

What is parsed here was printed for people; that it can be taken apart without loss is the proof that it holds everything.
"""

import base64
import json
import re

_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: ("object", pairs))


class Cells:
    """A line as cells that stand two or more spaces apart; a cell is a bare word or a JSON string."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def end(self):
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.at >= len(self.text)

    def _string(self):
        value, self.at = _DECODER.raw_decode(self.text, self.at)
        return value

    def _bare(self, stop="  "):
        end = self.text.find(stop, self.at)
        end = len(self.text) if end < 0 else end
        value, self.at = self.text[self.at:end], end
        return value

    def word(self):
        """One cell: a string, or None for "-"."""
        assert not self.end(), self.text
        if self.text[self.at] == '"':
            return self._string()
        value = self._bare()
        return None if value == "-" else value

    def json(self):
        assert not self.end(), self.text
        return self._string()

    def label(self, name):
        """Skips `name ` when the next cell begins so; its value comes next."""
        if self.end() or not self.text.startswith(name + " ", self.at):
            return False
        self.at += len(name) + 1
        return True

    def word_then(self, pattern):
        """A word directly followed by something like #3 or :12:0; (word, match)."""
        if self.text[self.at] == '"':
            value = self._string()
            rest = self._bare()
            m = re.fullmatch(pattern, rest)
        else:
            whole = self._bare()
            m = re.search(pattern + r"\Z", whole)
            value = whole[:m.start()] if m else None
            value = None if value == "-" else value
        assert m, self.text
        return value, m


def nested(v):
    """A value from json_any.h's JSON, in view.py's terms."""
    if isinstance(v, tuple):
        pairs = v[1]
        if len(pairs) == 1 and pairs[0][0] == "$bytes":
            return base64.b64decode(pairs[0][1])
        if len(pairs) == 1 and pairs[0][0] == "$double":
            return ("double", pairs[0][1] if pairs[0][1] == "NaN" else float(pairs[0][1].replace("Infinity", "inf")))
        return {"kvlist": [(k, nested(x)) for k, x in pairs]}
    if isinstance(v, list):
        return [nested(x) for x in v]
    if isinstance(v, float):
        return ("double", v)
    return v


def typed_value(c):
    kind = c.word()
    if kind == "empty":
        assert c.word() is None
        return None
    if kind == "str":
        value = c.word()
        return "-" if value is None else value
    if kind == "bytes":
        return base64.b64decode(c.word())
    if kind == "double":
        text = c.word()
        return ("double", text if text == "NaN" else float(text.replace("Infinity", "inf")))
    return nested(c.json())


def attribute(line):
    c = Cells(line)
    key = c.word()
    value = typed_value(c)
    unit = (c.word() if c.label("unit") else "") or ""
    references = c.word() if c.label("ref") else None
    assert c.end(), line
    return (key or "", value, unit), references


class Lines:
    def __init__(self, text):
        self.lines = text.split("\n")
        assert self.lines.pop() == ""
        self.at = 0
        self.unknown = []  # of attributes: (key, place, raw fields)

    def peek(self):
        return self.lines[self.at] if self.at < len(self.lines) else None

    def indent(self):
        line = self.peek()
        return -1 if line is None else len(line) - len(line.lstrip(" "))

    def take(self):
        self.at += 1
        return self.lines[self.at - 1]

    def at_word(self, indent, word):
        return self.indent() == indent and re.match(re.escape(word) + r"(?: |$)", self.peek()[indent:])


def read_extras(lines, indent, extra):
    while lines.indent() == indent and re.match(r"extra  (\w+)  \S", lines.peek()[indent:]):
        c = Cells(lines.take()[indent + len("extra  "):])
        name = c.word()
        extra[name] = nested(c.json())


def take_attribute(lines, indent):
    out = attribute(lines.take()[indent:])[0]
    while lines.at_word(indent + 2, "unknown"):
        c = Cells(lines.take()[indent + 2 + len("unknown  "):])
        lines.unknown.append((out[0], c.word(), base64.b64decode(c.word())))
    extra = {}
    read_extras(lines, indent + 2, extra)  # of the attribute table's entry
    lines.unknown += [(out[0], "extra " + name, value) for name, value in extra.items()]
    return out


def read_attributes(lines, indent):
    out = []
    while lines.indent() == indent:
        out.append(take_attribute(lines, indent))
    return out


def read_rows(lines, indent, names):
    """`word  rest` rows of one indent, in a dict of Cells; ends at the first other word."""
    out, extra = {}, {}
    while lines.indent() == indent:
        line = lines.peek()[indent:]
        word = line.split(" ", 1)[0]
        if word == "extra":
            read_extras(lines, indent, extra)
        elif word in names and line != "attributes":
            lines.take()
            out[word] = Cells(line[len(word):])
        else:
            break
    return out, extra


def parse_request(lines):
    head = lines.take()
    assert re.match(r"request  wire \S+  resources \d+", head), head
    request = {"wire": re.match(r"request  wire (\S+)", head).group(1), "resources": [], "extra": {}, "mappings": {}}
    request["unknown"] = lines.unknown = []
    counts, request["extra"] = read_rows(lines, 2, {"unknown_fields", "bad_indices", "refused_profiles"})
    request |= {k: int(c.word()) for k, c in counts.items()}
    while lines.at_word(0, "resource"):
        lines.take()
        request["resources"].append(parse_resource(lines))
    if lines.at_word(0, "mappings"):
        count = int(lines.take().split()[1])
        for _ in range(count):
            parse_mapping(lines, request["mappings"])
    request["unreferenced"] = []
    if lines.at_word(0, "unreferenced"):
        lines.take()
        while lines.indent() >= 2:
            if lines.indent() == 2:
                request["unreferenced"].append([])
            request["unreferenced"][-1].append(lines.take()[2:])
    for r in request["resources"]:
        for s in r["scopes"]:
            for p in s["profiles"]:
                for sample in p["samples"]:
                    for f in sample["stack"]:
                        f["mapping"] = _used(request["mappings"][f["mapping"]]) if f["mapping"] else None
    return request


def _used(m):
    return m if any(m.values()) else None


def parse_mapping(lines, out):
    c = Cells(lines.take()[2:])
    index = int(c.word()[1:])
    name = c.word()
    assert c.label("memory")
    start, limit = c.word().split("-")
    assert c.label("offset")
    m = {"start": int(start, 16), "limit": int(limit, 16), "offset": int(c.word(), 16), "filename": name or "", "extra": {}}
    read_extras(lines, 4, m["extra"])
    m["attributes"] = read_attributes(lines, 4)
    out[index] = m


def parse_resource(lines):
    rows, extra = read_rows(lines, 2, {"schema_url", "dropped_attributes_count"})
    r = {"schema_url": rows["schema_url"].word() if "schema_url" in rows else "",
         "dropped": int(rows["dropped_attributes_count"].word()) if "dropped_attributes_count" in rows else 0,
         "attributes": [], "scopes": [], "extra": extra}
    if lines.at_word(2, "attributes"):
        lines.take()
        r["attributes"] = [a[:2] for a in read_attributes(lines, 4)]
    while lines.at_word(2, "scope"):
        lines.take()
        r["scopes"].append(parse_scope(lines))
    return r


def parse_scope(lines):
    rows, extra = read_rows(lines, 4, {"name", "version", "schema_url", "dropped_attributes_count"})
    s = {k: rows[k].word() if k in rows else "" for k in ("name", "version", "schema_url")}
    s |= {"dropped": int(rows["dropped_attributes_count"].word()) if "dropped_attributes_count" in rows else 0, "attributes": [],
          "profiles": [], "extra": extra}
    if lines.at_word(4, "attributes"):
        lines.take()
        s["attributes"] = [a[:2] for a in read_attributes(lines, 6)]
    while lines.at_word(4, "profile"):
        count = int(re.search(r"samples (\d+)$", lines.take()).group(1))
        s["profiles"].append(parse_profile(lines))
        assert len(s["profiles"][-1]["samples"]) == count
    return s


def value_type(rows, name):
    if name not in rows:
        return ("", ""), 0
    c = rows[name]
    pair = (c.word() or "", c.word() or "")
    return pair, int(c.word().split()[0]) if c.label("temporality") else 0


def parse_profile(lines):
    rows, extra = read_rows(lines, 6, {"profile_id", "time", "duration", "sample_type", "period_type", "period",
                                       "dropped_attributes_count", "original_payload"})
    sample_type, sample_temporality = value_type(rows, "sample_type")
    period_type, period_temporality = value_type(rows, "period_type")
    if sample_temporality:
        extra["sample_temporality"] = sample_temporality
    if period_temporality:
        extra["period_temporality"] = period_temporality

    def number(name):
        return int(rows[name].word()) if name in rows else 0

    payload_format, payload = "", b""
    if "original_payload" in rows:
        c = rows["original_payload"]
        payload_format = c.word() or ""
        size = int(c.word().split()[0])
        payload = b"" if c.end() else base64.b64decode(c.word())
        assert len(payload) == size
    p = {"sample_type": sample_type, "period_type": period_type, "period": number("period"), "time": number("time"),
         "duration": number("duration"), "profile_id": rows["profile_id"].word() if "profile_id" in rows else "",
         "dropped": number("dropped_attributes_count"), "payload_format": payload_format, "payload": payload, "attributes": [],
         "samples": [], "extra": extra}
    if lines.at_word(6, "attributes"):
        lines.take()
        p["attributes"] = read_attributes(lines, 8)
    while lines.at_word(6, "sample"):
        m = re.match(r" {6}sample (\d+)  events (\d+)  value (-?\d+)", lines.take())
        assert int(m.group(1)) == len(p["samples"])
        p["samples"].append(parse_sample(lines) | {"events": int(m.group(2)), "value": int(m.group(3))})
    return p


def parse_sample(lines):
    s = {"link": None, "values": [], "timestamps": [], "attributes": [], "stack": [], "extra": {}}
    read_extras(lines, 8, s["extra"])
    if lines.at_word(8, "link"):
        m = re.search(r"trace (\w+)  span (\w+)$", lines.take())
        pair = tuple("" if not int(x, 16) else x for x in m.groups())
        s["link"] = pair if any(pair) else None
        read_extras(lines, 10, s["extra"])
    read_extras(lines, 8, s["extra"])
    if lines.at_word(8, "values"):
        s["values"] = [int(x) for x in lines.take().split()[1:]]
    if lines.at_word(8, "timestamps"):
        count = int(lines.take().split()[1])
        rows = []
        for _ in range(count):
            m = re.match(r" {10}(\d+)  (.*?)(?:  value (-?\d+))?  #(\d+)$", lines.take())
            rows.append((int(m.group(4)), int(m.group(1)), m.group(3)))
        assert [t for _, t, _ in rows] == sorted(t for _, t, _ in rows), "timestamps are shown sorted"
        if any(v is not None for _, _, v in rows):
            assert [int(v) for _, _, v in sorted(rows)] == s["values"], "each value with its timestamp"
        s["timestamps"] = [t for _, t, _ in sorted(rows)]
    if lines.at_word(8, "attributes"):
        lines.take()
        s["attributes"] = read_attributes(lines, 10)
    assert lines.at_word(8, "frames"), lines.peek()
    count = int(lines.take().split()[1])
    stack_extra = {}
    read_extras(lines, 16, stack_extra)
    if stack_extra:
        s["stack_extra"] = stack_extra
    for number in range(count):
        assert int(lines.peek()[:14]) == number
        s["stack"].append(parse_frame(lines))
    return s


def parse_frame(lines):
    f = {"address": 0, "mapping": None, "lines": [], "attributes": [], "extra": {}}
    more, frame_type = 1, ""
    first = True
    while more:
        c = Cells(lines.take()[14:])
        frame_type = c.word()
        c.end()
        has_line = c.text[c.at:c.at + 3] not in ("-", "-  ")
        name = c.word()
        more = int(c.word()) if c.label("inline") else 0
        line = {"function": {"name": name or "", "system_name": "", "filename": "", "start_line": 0}, "line": 0, "column": 0}
        if c.label("at"):
            file, m = c.word_then(r":(-?\d+):(-?\d+)")
            line["function"]["filename"], line["line"], line["column"] = file or "", int(m.group(1)), int(m.group(2))
        if c.label("system"):
            line["function"]["system_name"] = c.word()
        if c.label("start"):
            line["function"]["start_line"] = int(c.word())
        if first and c.label("addr"):
            f["address"] = int(c.word(), 16)
        if first and c.label("in"):
            _, m = c.word_then(r"#(\d+)")
            f["mapping"] = int(m.group(1))
            if c.label("build"):
                c.word()
        assert c.end(), c.text[c.at:]
        if has_line:
            f["lines"].append(line)
        read_extras(lines, 16, f["extra"])
        first = False
    while lines.indent() == 16 and not re.match(r"extra  \w+  \S", lines.peek()[16:]):
        f["attributes"].append(take_attribute(lines, 16))
    read_extras(lines, 16, f["extra"])
    if frame_type is not None:
        f["attributes"].append(("profile.frame.type", frame_type, ""))
    return f


def parse(text):
    """All requests of a text."""
    lines = Lines(text)
    out = []
    while lines.peek() is not None:
        if lines.peek() == "":
            lines.take()
            continue
        out.append(parse_request(lines))
    return out
