"""The description of the API (docs/openapi.json) against the program: every question and parameter is there, every answer has its shape."""

import json
import re

import jsonschema
import pytest

import fixtures
import program
import web_pages
from web_pages import ALWAYS, ask, request, target, tree

SOURCE = program.ROOT / "src" / "web"
API = json.loads((program.ROOT / "docs" / "openapi.json").read_text())
QUESTIONS = sorted(p for p, item in API["paths"].items() if "get" in item)
# Of a parameter without an example in the description.
EXAMPLES = {"query": "{}", "query2": "{}", "x": "focus:.", "asof": "99999999", "since": "0", "last": "", "inverted": "", "search": "a",
            "state": "view=flame", "service": "x", "trace": "1" * 32, "span": "1" * 16, "timeline_group": "thread.name", "to": "", "to2": "", "type2": "",
            "from": "", "from2": "", "root": "1", "after": "1.1", "file": "busy.py"}
# Those that stand for a selection that may hold nothing.
NARROW = ("trace", "span", "since", "root", "query")
# Behind what is asked: the first of a name counts.
SMALL = [("width", "5"), ("rows", "2"), ("lanes", "2"), ("limit", "5")]
NOT_ASKED_HERE = {"/api/v1/live": "test_live.py", "/debug/pprof/profile": "test_web_pprof.py", "/pyroscope/render": "test_pyroscope.py",
                  "/pyroscope/render-diff": "test_pyroscope.py", "/pyroscope/label-values": "test_pyroscope.py"}


@pytest.fixture(scope="module")
def page():
    with web_pages.view(fixtures.OTLP / f"{fixtures.BIG}.pb") as address:
        yield address


def whole(value):
    """The value with what it refers to in its place."""
    if isinstance(value, list):
        return [whole(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        at = API
        for word in value["$ref"].removeprefix("#/").split("/"):
            at = at[word]
        return whole(at)
    return {k: whole(v) for k, v in value.items()}


def parameters(path):
    return whole(API["paths"][path]["get"].get("parameters", []))


def example(address, p):
    if p["name"] == "key":
        return ask(address, "top", limit=1).json()["rows"][0][-1]
    if p["name"] == "name":
        return "main"
    schema = p["schema"]
    for known in (p.get("example"), EXAMPLES.get(p["name"]), *schema.get("enum", ())[:1], schema.get("default")):
        if known is not None:
            return known
    raise AssertionError(f"no example for {p['name']}")


def asked(address, path, extra=()):
    required = [(p["name"], example(address, p)) for p in parameters(path) if p.get("required")]
    if path == "/api/v1/source":
        required = [("file", "busy.py")]
    known = {p["name"] for p in parameters(path)}
    small = [(name, value) for name, value in SMALL if name in known]
    return request(address, "GET", target(path.removeprefix("/api/v1/"), [*ALWAYS.items(), *required, *extra, *small]))


def test_served_as_it_is(page):
    answer = request(page, "GET", "/api/v1/openapi.json")
    assert answer.status == 200 and answer.json() == API
    packed = request(page, "GET", "/api/v1/openapi.json", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and packed.headers["etag"]


def test_every_route_is_described():
    server = (SOURCE / "server.c").read_text()
    routes = set(re.findall(r'\{ "(/[^"]+)", \w+, (?:true|false),\s[^}]* \}', server))
    routes |= set(re.findall(r'net_app_route\(s->app, "(?:GET|POST)", "(/(?:api/v1|debug)/[^"]+)"', server)) - {"/api/v1/status/buildinfo"}
    assert routes - set(API["paths"]) == set()
    assert set(API["paths"]) - routes == {"/api/v1/openapi.json"}


def test_every_parameter_is_described():
    """By the code that reads them: a new one is described, a described one is read."""
    read = set()
    for file in SOURCE.glob("*.c"):
        if not file.name.endswith("_test.c") and file.name not in ("ingest.c", "connect.c", "guard.c", "params.c"):
            read |= set(re.findall(r'(?:params_\w+\(&\w+->params|(?:side|state|id)_param\(a|begin_side\(a), (?:params_has\([^)]*\) \? )?"([\w-]+)"',
                                   file.read_text()))
    described = {p["name"] for path in QUESTIONS for p in parameters(path)}
    described |= {p["name"] for p in whole(API["paths"]["/api/v1/upload"]["post"]["parameters"])}
    assert read - described <= {"to", "max-nodes", "from"}, "read, but not described"
    source = "".join(f.read_text() for f in SOURCE.glob("*.c"))
    assert [n for n in described if f'"{n.removesuffix("2")}"' not in source] == [], "described, but nowhere read"


@pytest.mark.parametrize("path", [p for p in QUESTIONS if p not in NOT_ASKED_HERE])
def test_answers_have_their_shape(page, path):
    answers = whole(API["paths"][path]["get"]["responses"])
    plain = asked(page, path)
    assert plain.status == 200, plain.body
    kind = plain.headers["content-type"]
    content = {k.split(";")[0]: v for k, v in answers["200"]["content"].items()}
    assert kind.split(";")[0] in content
    if kind == "application/json":
        jsonschema.validate(plain.json(), content[kind]["schema"])
    elif "tree" in kind:
        header, arrays, _ = tree(plain.body)
        jsonschema.validate(header, whole(API["components"]["schemas"]["tree_header"]))
    for p in parameters(path):
        if p.get("required") or (path == "/api/v1/source" and p["name"] == "name"):
            continue
        answer = asked(page, path, [(p["name"], example(page, p))])
        assert answer.status == 200 or (p["name"] in NARROW and answer.status == 404), f"{p['name']}: {answer.body}"
        if answer.status == 200 and kind == "application/json":
            jsonschema.validate(answer.json(), content[kind]["schema"])


@pytest.mark.parametrize("path", [p for p in QUESTIONS if p not in NOT_ASKED_HERE])
def test_what_is_described_as_limited_is(page, path):
    """A value out of a parameter's schema is refused with the error's shape."""
    for p in parameters(path):
        schema, wrong = p["schema"], []
        if schema.get("type") == "integer":
            wrong = [str(schema["minimum"] - 1)] + ([str(schema["maximum"] + 1)] if "maximum" in schema else [])
        elif "enum" in schema or "pattern" in schema:
            wrong = ["~~"]
        for value in wrong:
            answer = request(page, "GET", target(path.removeprefix("/api/v1/"), [(p["name"], value)] + [
                (o["name"], example(page, o)) for o in parameters(path) if o.get("required") and o["name"] != p["name"]]))
            assert answer.status == 400, f"{p['name']}={value}: {answer.status} {answer.body[:200]}"
            jsonschema.validate(answer.json(), whole(API["components"]["schemas"]["error"]))


@pytest.mark.parametrize("path", [p for p in QUESTIONS if p.startswith("/api/v1/") and not p.endswith("openapi.json")])
def test_what_is_not_described_is_refused(page, path):
    """By its name, so that a mistyped word does not answer for everything. What selects may stand in any question."""
    everywhere = {p["name"] for p in parameters("/api/v1/diff")} - {"max_nodes", "inverted", "root", "search"}
    known = {p["name"] for p in parameters(path)}
    for name in ("form", "From", "typ", *sorted({"width", "limit", "root", "name", "key", "timeline_group"} - known)):
        answer = request(page, "GET", target(path.removeprefix("/api/v1/"), {name: "now-1h"}))
        assert answer.status == 400 and f'no parameter "{name}"' in answer.json()["error"]["what"], (name, answer.body)
    for kind in ("focus", "ignore:", "hide", "show_from", "collapse"):
        if path in ("/api/v1/flamegraph", "/api/v1/top", "/api/v1/raw"):
            answer = asked(page, path, [("x", kind)])
            assert answer.status == 400 and "has no pattern" in answer.json()["error"]["what"], (kind, answer.body)
    if path not in NOT_ASKED_HERE:
        answer = asked(page, path, [(name, "") for name in everywhere - {"x", "by", "query", "last", "query2"}])
        assert answer.status == 200, answer.body
