"""Who may see the page: a token exchanged for a cookie, files of passwords and tokens, TLS; nothing is left open beside them."""

import base64
import hashlib
import http.client
import re
import signal
import ssl
import urllib.parse

import pytest

import certificates
import clients
import fixtures
import program
import pyroscope
from web_pages import request

BIG = fixtures.OTLP / f"{fixtures.BIG}.pb"
# One of each kind of route.
ROUTES = [("GET", "/"), ("GET", "/app.js"), ("GET", "/span/x"), ("GET", "/api/v1/status"), ("GET", "/api/v1/live"), ("GET", "/api/v1/status/buildinfo"),
          ("GET", "/pyroscope/render?query=x"), ("GET", "/ready"), ("GET", "/debug/pprof/profile?seconds=1"), ("POST", "/ingest?name=a"), ("POST", "/api/v1/upload"), ("GET", "/api/v1/uploads"),
          ("POST", "/querier.v1.QuerierService/ProfileTypes"), ("GET", "/querier.v1.QuerierService/ProfileTypes?connect=v1"),
          ("POST", "/push.v1.PusherService/Push"), ("POST", "/v1development/profiles"), ("GET", "/nothing")]
TYPES = {"/querier": "application/proto", "/push": "application/proto", "/v1dev": "application/x-protobuf"}


def up(tmp_path, *words, **env):
    return program.Server("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--log-level", "info",
                          "--db", tmp_path / "up.db", *words, env=program.environment(**env))


def page_of(server):
    return server._endpoint("The page is served")


def status(page, method, path, headers=None):
    type_ = next((t for p, t in TYPES.items() if path.startswith(p)), None)
    more = ({"Content-Type": type_} if type_ else {}) | (headers or {})
    host, port = page.rsplit(":", 1)
    c = http.client.HTTPConnection(host, int(port), timeout=program.HANG)
    try:
        c.request(method, path, body=b"" if method == "POST" else None, headers=more)
        return c.getresponse().status  # the head only: /api/v1/live has no end
    finally:
        c.close()


def test_every_route_asks_for_the_token(tmp_path):
    with up(tmp_path, "--auth", "token", FLAMETAP_TOKEN="s3same-_.~") as server:
        page = page_of(server)
        for method, path in ROUTES:
            assert status(page, method, path) == 401, path
            assert status(page, method, path, {"Authorization": "Bearer s3same"}) == 401, path
            assert status(page, method, path, {"Authorization": "Bearer s3same-_.~"}) not in (401, 403, 421), path
        with clients.channel(page) as ch:
            assert clients.export_status(ch, BIG.read_bytes())[0] == 16, "UNAUTHENTICATED"
            clients.export(ch, BIG.read_bytes(), metadata=[("authorization", "Bearer s3same-_.~")])
        types = pyroscope.call(page, "ProfileTypes", "proto", {"Authorization": "Bearer s3same-_.~"}).profile_types
        assert types


def test_the_token_becomes_a_cookie_and_leaves_the_url(tmp_path):
    with up(tmp_path, "--auth", "token") as server:
        page = page_of(server)
        url = server.wait_line(r"flametap up: http://").split()[-1]
        token = re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*/\?token=([0-9a-f]{32})", url).group(1)
        first = request(page, "GET", f"/?token={token}")
        assert first.status == 303 and first.headers["location"] == "/" and token not in first.headers["location"]
        cookie = first.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {p.strip() for p in cookie.split(";")} and first.headers["cache-control"] == "no-store"
        kept = {"Cookie": cookie.split(";")[0]}
        assert request(page, "GET", "/", headers=kept).status == 200 and request(page, "GET", "/api/v1/status", headers=kept).status == 200
        deep = request(page, "GET", f"/span/x?a=b&token={token}&query=%7Bc%3D%22d%22%7D")
        assert (deep.status, deep.headers["location"]) == (303, "/span/x?a=b&query=%7Bc%3D%22d%22%7D")
        for bad in (f"/?token={token[:-1]}", f"/?token={token}0", "/?token=", "/?token", f"/?Token={token}"):
            got = request(page, "GET", bad)
            assert got.status == 401 and "set-cookie" not in got.headers, bad
        for twisted in (f"//evil.example/?token={token}", f"/%5cevil.example/?token={token}", f"http://evil.example/?token={token}"):
            got = request(page, "GET", twisted)
            assert not got.headers.get("location", "/").startswith(("//", "/\\", "http")), twisted
        assert request(page, "GET", f"/?token={token}", headers={"Host": "evil.example"}).status == 421
        assert token not in request(page, "GET", "/api/v1/status", headers=kept).body.decode()
        before = server.log
    assert token not in before.replace(url, ""), "the log has it once, in the URL"


def test_a_token_lasts_for_one_start(tmp_path):
    tokens = []
    for _ in range(2):
        with up(tmp_path, "--auth", "token") as server:
            tokens.append(server.wait_line(r"flametap up: http://"))
    assert tokens[0] != tokens[1]


def test_files_of_passwords_and_tokens_are_read_again(tmp_path):
    users, tokens = tmp_path / "users", tmp_path / "tokens"
    users.write_text("# who\nann:s:ecret\n")
    tokens.write_text("one\n")
    basic = {"Authorization": "Basic " + base64.b64encode(b"ann:s:ecret").decode()}
    with up(tmp_path, "--auth", f"basic:{users}") as server:
        page = page_of(server)
        refused = request(page, "GET", "/")
        assert refused.status == 401 and refused.headers["www-authenticate"].startswith('Basic realm="flametap"')
        assert request(page, "GET", "/", headers=basic).status == 200
        users.write_text("bob:x\n")
        server.signal(signal.SIGHUP)
        program.wait_for(lambda: request(page, "GET", "/", headers=basic).status == 401, what="the new passwords")
        users.write_text("broken\n")
        server.signal(signal.SIGHUP)
        server.wait_line("Could not take over the new configuration.*user:password")
        assert request(page, "GET", "/", headers={"Authorization": "Basic " + base64.b64encode(b"bob:x").decode()}).status == 200
    with up(tmp_path, "--auth", f"bearer:{tokens}") as server:
        page = page_of(server)
        for method, path in ROUTES:
            assert status(page, method, path) == 401 and status(page, method, path, {"Authorization": "Bearer one"}) not in (401, 403), path


@pytest.mark.parametrize("how", ["", "tokens", "basic:", "bearer:", "basic:/no/such/file", "token:x"])
def test_wrong_words_for_auth(tmp_path, how):
    done = program.run("up", "--no-agent", "--listen", "127.0.0.1:0", "--grpc-address", "", "--http-address", "", "--db", tmp_path / "x.db", "--auth", how)
    assert done.returncode != 0 and (b"auth" in done.stderr or b"/no/such/file" in done.stderr)


def test_the_configuration_shows_no_secret(tmp_path):
    done = program.run("up", "--no-agent", "--auth", "token", "--print-config", "--db", tmp_path / "x.db", check=0,
                       env=program.environment(FLAMETAP_TOKEN="sesame"))
    assert b"sesame" not in done.stdout and b"FLAMETAP_TOKEN" in done.stdout


def test_tls(tmp_path):
    authority = certificates.Authority(tmp_path / "ca", "ca")
    cert, key = authority.issue("page")
    with up(tmp_path, "--auth", "token", "--tls-cert", cert, "--tls-key", key, FLAMETAP_TOKEN="sesame") as server:
        page = page_of(server)
        context = ssl.create_default_context(cafile=str(authority.file))
        assert server.wait_line(r"flametap up: https://").endswith("/?token=sesame")
        assert clients.http_request(page, "GET", "/api/v1/status", tls=context).status == 401
        first = clients.http_request(page, "GET", "/?" + urllib.parse.urlencode({"token": "sesame"}), tls=context)
        assert first.status == 303 and "Secure" in first.headers["set-cookie"]
        with pytest.raises((http.client.HTTPException, OSError)):
            request(page, "GET", "/")


def test_a_browser_without_the_token_is_asked_for_it(tmp_path):
    """The page to sign in runs nothing, and its policy names its own style."""
    with up(tmp_path, "--auth", "token", FLAMETAP_TOKEN="s3same") as server:
        page = page_of(server)
        assert f"flametap up: http://{page}/?token=s3same" in server.wait_line(r"flametap up: http://"), "port 0 is printed as the port that it became"
        got = request(page, "GET", "/?view=flame", headers={"Accept": "text/html,*/*"})
        style = re.search(rb"<style>(.*)</style>", got.body).group(1)
        policy = "sha256-" + base64.b64encode(hashlib.sha256(style).digest()).decode()
        assert got.status == 401 and got.headers["content-type"].startswith("text/html") and b"s3same" not in got.body
        assert policy in got.headers["content-security-policy"] and b'name="token"' in got.body and b"<script" not in got.body
        assert request(page, "GET", "/?token=s3same", headers={"Accept": "text/html"}).status == 303
        assert request(page, "GET", "/api/v1/status").json()["error"]["what"]


def test_a_second_up_knows_a_first_one_behind_tls(tmp_path):
    authority = certificates.Authority(tmp_path / "ca", "ca")
    cert, key = authority.issue("page")
    with up(tmp_path, "--tls-cert", cert, "--tls-key", key) as server:
        page = page_of(server)
        second = program.run("up", "--no-agent", "--listen", page, "--grpc-address", "", "--http-address", "", "--db", tmp_path / "up.db",
                             "--tls-cert", cert, "--tls-key", key, check=0)
        assert f"it is already running: https://{page}/\n".encode() in second.stderr
