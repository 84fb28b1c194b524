"""TLS and mTLS on both listeners and both sinks; certificates change on SIGHUP, and a bad new one leaves the old in use."""

import http.client
import re
import shutil
import signal
import socket
import ssl

import grpc
import pytest
from cryptography import x509

import certificates
import clients
import fixtures
import program
import receivers

SMALL = fixtures.body("v1.11.0-synthetic-offcpu-links")


@pytest.fixture
def ca(tmp_path):
    return certificates.Authority(tmp_path / "ca", "Test CA")


def context(ca, identity=None, alpn=None):
    c = ssl.create_default_context(cafile=ca.file)
    if identity:
        c.load_cert_chain(*identity)
    if alpn:
        c.set_alpn_protocols(alpn)
    return c


def credentials(ca, identity=None):
    return grpc.ssl_channel_credentials(ca.file.read_bytes(), identity and identity[1].read_bytes(), identity and identity[0].read_bytes())


def served_name(address, ca):
    """The subject of the certificate that a new connection gets."""
    with socket.create_connection(clients.split_address(address), timeout=program.HANG) as s, \
            context(ca).wrap_socket(s, server_hostname="localhost") as t:
        return x509.load_der_x509_certificate(t.getpeercert(True)).subject.rfc4514_string()


def test_tls_on_both_listeners(backend, ca):
    cert, key = ca.issue("server-1")
    server = backend("-tls-cert", cert, "-tls-key", key)
    with clients.channel(server.grpc, credentials(ca)) as ch:
        assert clients.export(ch, SMALL.bytes) == b""
    assert clients.post(server.http, SMALL.bytes, tls=context(ca)).status == 200
    with clients.H2(server.http, tls=context(ca, alpn=["h2"])) as c:
        assert c.alive()
    assert server.stdout == SMALL.stdout_text * 2
    with pytest.raises((OSError, http.client.HTTPException)):
        clients.post(server.http, SMALL.bytes)
    with clients.channel(server.grpc) as ch:
        assert clients.export_status(ch, SMALL.bytes, timeout=program.HANG)[0] == clients.UNAVAILABLE
    # a client that does not know the CA refuses, and the server goes on
    with pytest.raises(ssl.SSLError):
        clients.post(server.http, SMALL.bytes, tls=ssl.create_default_context())
    assert clients.post(server.http, SMALL.bytes, tls=context(ca)).status == 200


def test_tls_1_1_is_refused(backend, ca):
    cert, key = ca.issue("server-1")
    server = backend("-tls-cert", cert, "-tls-key", key)
    old = context(ca)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        clients.post(server.http, SMALL.bytes, tls=old)
    assert clients.post(server.http, SMALL.bytes, tls=context(ca)).status == 200


def test_mtls_wants_a_certificate_of_its_ca(backend, ca, tmp_path):
    other = certificates.Authority(tmp_path / "other", "Other CA")
    cert, key = ca.issue("server-1")
    good, stranger = ca.issue("client"), other.issue("stranger")
    server = backend("-tls-cert", cert, "-tls-key", key, "-tls-client-ca", ca.file)
    with clients.channel(server.grpc, credentials(ca, good)) as ch:
        assert clients.export(ch, SMALL.bytes) == b""
    assert clients.post(server.http, SMALL.bytes, tls=context(ca, good)).status == 200
    for identity in (None, stranger):
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            clients.post(server.http, SMALL.bytes, tls=context(ca, identity))
        with clients.channel(server.grpc, credentials(ca, identity)) as ch:
            assert clients.export_status(ch, SMALL.bytes, timeout=program.HANG)[0] == clients.UNAVAILABLE
    assert server.stdout == SMALL.stdout_text * 2


def test_sighup_reloads_the_certificate_and_keeps_the_old_if_the_new_is_bad(backend, ca):
    cert, key = ca.issue("server-1")
    server = backend("-tls-cert", cert, "-tls-key", key)
    assert served_name(server.http, ca) == served_name(server.grpc, ca) == "CN=server-1"
    with clients.channel(server.grpc, credentials(ca)) as ch:
        clients.export(ch, SMALL.bytes)
        for new, old in zip(ca.issue("server-2"), (cert, key)):
            shutil.copy(new, old)
        assert served_name(server.http, ca) == "CN=server-1", "not before SIGHUP"
        server.signal(signal.SIGHUP)
        program.wait_for(lambda: served_name(server.http, ca) == served_name(server.grpc, ca) == "CN=server-2", what="the new certificate")
        clients.export(ch, SMALL.bytes)  # the old connection goes on
        good = cert.read_bytes()
        for bad in (b"", b"not a certificate", good[: len(good) // 2], key.read_bytes()):
            seen = len(server.lines)
            cert.write_bytes(bad)
            server.signal(signal.SIGHUP)
            line = server.wait_line(r"(?i)(error|warn).*(certificate|reload|tls)", after=seen)
            assert str(cert) in line or server.wait_line(re.escape("server-1.crt"), after=seen)
            assert served_name(server.http, ca) == served_name(server.grpc, ca) == "CN=server-2"
        cert.unlink()
        seen = len(server.lines)
        server.signal(signal.SIGHUP)
        server.wait_line(r"(?i)(error|warn)", after=seen)
        assert served_name(server.grpc, ca) == "CN=server-2"
        clients.export(ch, SMALL.bytes)
    assert server.stdout == SMALL.stdout_text * 3


def test_a_bad_certificate_at_start_is_an_error_that_names_the_file(ca, tmp_path):
    cert, key = ca.issue("server-1")
    other_key = ca.issue("server-2")[1]
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing here")
    for words, named in (((broken, key), broken), ((cert, tmp_path / "missing.key"), tmp_path / "missing.key"), ((cert, other_key), other_key)):
        done = program.run("backend", "-grpc-address", "127.0.0.1:0", "-http-address", "127.0.0.1:0", "-tls-cert", words[0], "-tls-key", words[1])
        assert done.returncode == 1 and named.name.encode() in done.stderr, done.stderr
    done = program.run("backend", "-tls-cert", cert)
    assert done.returncode == 2 and b"-tls-key" in done.stderr


def test_sinks_speak_tls(backend, ca, tmp_path):
    """Both sinks to peers that demand client certificates."""
    cert, key = ca.issue("peer")
    ours = ca.issue("flametap")
    server_credentials = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())], ca.file.read_bytes(), True)
    peer = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca.file)
    peer.load_cert_chain(cert, key)
    peer.verify_mode = ssl.CERT_REQUIRED
    with receivers.GrpcReceiver(credentials=server_credentials) as g, receivers.HttpReceiver(ssl_context=peer) as h:
        server = backend("-receiver", "otlp,otlphttp", "-spool-dir", tmp_path / "spool",
                         "-otlp.endpoint", g.address, "-otlp.ca", ca.file, "-otlp.cert", ours[0], "-otlp.key", ours[1],
                         "-otlphttp.endpoint", h.url, "-otlphttp.ca", ca.file, "-otlphttp.cert", ours[0], "-otlphttp.key", ours[1])
        with clients.channel(server.grpc) as ch:
            clients.export(ch, SMALL.bytes)
        program.wait_for(lambda: g.bodies and h.bodies, what="the body at both peers")


def test_sinks_refuse_a_peer_they_cannot_trust(start, ca, tmp_path):
    import yaml
    cert, key = ca.issue("peer")
    stranger = certificates.Authority(tmp_path / "other", "Other CA")
    peer = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    with receivers.GrpcReceiver(credentials=peer) as g:
        config = tmp_path / "c.yaml"
        config.write_text(yaml.safe_dump({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
            "exporters": {"otlp_grpc": {"endpoint": g.address, "tls": {"ca_file": str(stranger.file)}, "sending_queue": {"enabled": False},
                                        "retry_on_failure": {"enabled": False}, "timeout": "60s"}},
            "service": {"pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}}}}))
        server = start("collector", "--config", config)
        with clients.channel(server.grpc) as ch:
            code, text = clients.export_status(ch, SMALL.bytes)
        assert code == clients.UNAVAILABLE and "certificate" in text, text
        assert not g.bodies
