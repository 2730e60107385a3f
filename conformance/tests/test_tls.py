"""TLS of clients: who may speak what, with which certificates, and what a change of certificates does to open connections.

Certificates are made by `ilion tls`, `openssl` and the JDK's `keytool`. Where the Python driver hides what goes on, sockets of
Python's own `ssl` and records written by hand show it.
"""
import base64
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.request

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.certificates import PASSWORD, Certificates
from harness.frames import (AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, OPTIONS, QUERY, READY, RESULT, STARTUP, SUPPORTED, Frames,
                            long_string, parameters, string_map, until, value)
from harness.node import Ilion, free_port, ilion_binary, run

CQLSH = pathlib.Path(sys.executable).parent / "cqlsh"
ALERT, PROTOCOL_VERSION, HANDSHAKE_FAILURE = 21, 70, 40
pytestmark = pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("keytool")), reason="needs openssl and keytool")


class Secure(Frames):
    """Frames through TLS."""

    def __init__(self, target, context, session=None, begin=True, receive_bytes=None, version=5):
        super().__init__(target, version=version, begin=False, timeout_s=20)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost", session=session)
        if begin:
            ready = self.ask(STARTUP, string_map({"CQL_VERSION": "3.0.0"}))
            assert ready.opcode == READY, ready
            self.segments = version >= 5


@pytest.fixture(scope="module")
def certificates(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    return Certificates(tmp_path_factory.mktemp("certificates"))


def node_of(directory, options, **settings):
    # JSON is YAML.
    settings = {"client_encryption_options": json.dumps({k: str(v) if isinstance(v, pathlib.Path) else v
                                                         for k, v in options.items()}), **settings}
    return Ilion(directory, settings=settings)


@pytest.fixture(scope="module")
def encrypted(certificates, tmp_path_factory):
    """Only TLS; the key in PEM, which a test replaces."""
    directory = tmp_path_factory.mktemp("encrypted")
    shutil.copy(certificates.node, directory / "node.pem")
    with node_of(directory, {"enabled": True, "optional": False, "keystore": directory / "node.pem",
                             "ssl_context_factory": {"class_name": "PEMBasedSslContextFactory"}},
                 native_transport_tls_handshake_timeout="1s") as node:
        yield node


@pytest.fixture(scope="module")
def optional(certificates, tmp_path_factory):
    """TLS or not on one port; the key in JKS."""
    with node_of(tmp_path_factory.mktemp("optional"),
                 {"enabled": True, "optional": True, "keystore": certificates.directory / "node.jks",
                  "keystore_password": PASSWORD}) as node:
        yield node


@pytest.fixture(scope="module")
def mutual(certificates, tmp_path_factory):
    """Clients show certificates; the key in PKCS#12, trust in JKS, a password in a file."""
    directory = tmp_path_factory.mktemp("mutual")
    (directory / "password").write_text(PASSWORD + "\n")
    node = node_of(directory, {"enabled": True, "optional": False, "keystore": certificates.directory / "node.p12",
                               "keystore_password_file": directory / "password",
                               "truststore": certificates.directory / "trust.jks", "truststore_password": PASSWORD,
                               "require_client_auth": True, "store_type": "PKCS12"})
    with node:
        yield node


def connect(node, context=None):
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([node.address]))
    return Cluster([node.address], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, ssl_context=context,
                   connect_timeout=20)


def hello(version=0x0303, suites=(0xC02F, 0xC02B)):
    """A ClientHello up to TLS 1.2, for what a client of today does not send."""
    body = struct.pack(">H", version) + os.urandom(32) + b"\0"
    body += struct.pack(">H", 2 * len(suites)) + b"".join(struct.pack(">H", suite) for suite in suites) + b"\1\0"
    # Groups x25519 and P-256, points as they are, signatures of ECDSA and RSA with SHA-256.
    extensions = bytes.fromhex("000a00060004001d0017" "000b00020100" "000d00080006040308040401")
    body += struct.pack(">H", len(extensions)) + extensions
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    return struct.pack(">BHH", 22, min(version, 0x0301), len(handshake)) + handshake


def answer_to(node, raw):
    """The bytes until the node closes."""
    with socket.create_connection((node.address, node.port), timeout=20) as plain:
        plain.sendall(raw)
        got = b""
        while True:
            try:
                more = plain.recv(4096)
            except ConnectionResetError:
                return got
            if not more:
                return got
            got += more


def alert_of(node, raw):
    got = answer_to(node, raw)
    assert len(got) == 7 and got[0] == ALERT, got
    return got[6]


def test_a_driver_works_and_is_seen(certificates, encrypted):
    # The driver compares the certificate's names with the address that it connects to.
    context = certificates.context()
    context.check_hostname = False
    cluster = connect(encrypted, context)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE t WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE t.t (k int PRIMARY KEY, v text)")
    session.execute("INSERT INTO t.t (k, v) VALUES (1, %s)", ["x" * 100_000])
    assert len(session.execute("SELECT v FROM t.t WHERE k = 1").one().v) == 100_000
    rows = list(session.execute("SELECT ssl_enabled, ssl_protocol, ssl_cipher_suite FROM system_views.clients"))
    assert rows and all(row.ssl_enabled and row.ssl_protocol == "TLSv1.3" for row in rows), rows
    assert all(row.ssl_cipher_suite.startswith("TLS_AES_") for row in rows), rows
    listed = encrypted.nodetool("clientstats", "--all").splitlines()[1].split()
    assert listed[1:4] == ["true", rows[0].ssl_cipher_suite, "TLSv1.3"]
    settings = {row.name: row.value for row in session.execute("SELECT name, value FROM system_views.settings")}
    assert settings["client_encryption_options.enabled"] == "true"
    assert settings["client_encryption_options.keystore_password"] is None
    assert encrypted.metrics()["ilion_tls_handshakes_total"] >= len(rows)
    cluster.shutdown()


def test_who_speaks_plain_is_refused(encrypted):
    failures = encrypted.metrics()["ilion_tls_failures_total"]
    for version in (3, 4, 5):
        envelope = struct.pack(">BBhBI", version, 0, 1, OPTIONS, 0)
        got = answer_to(encrypted, envelope * 3)
        assert bytes([0x80 | version]) not in got[:1] and len(got) <= 7, got
    with pytest.raises(NoHostAvailable):
        connect(encrypted).connect()
    assert encrypted.metrics()["ilion_tls_failures_total"] > failures


def test_both_on_one_port(certificates, optional):
    for version in (3, 4, 5):
        with Frames(optional, version=version) as plain, Secure(optional, certificates.context(), version=version) as secure:
            for frames in (plain, secure):
                assert frames.ask(OPTIONS).opcode == SUPPORTED
    # One that says nothing holds nobody up.
    with socket.create_connection((optional.address, optional.port)), Frames(optional) as plain:
        assert plain.ask(OPTIONS).opcode == SUPPORTED


def test_versions(certificates, encrypted):
    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        with Secure(encrypted, certificates.context(version=version)) as secure:
            assert secure.socket.version() == name
            assert secure.ask(OPTIONS).opcode == SUPPORTED
    assert answer_to(encrypted, hello() + bytes([ALERT, 3, 3, 0, 2, 2, 80]))[0] == 22, "the usual is taken"
    for version in (0x0300, 0x0301, 0x0302):
        assert alert_of(encrypted, hello(version)) in (PROTOCOL_VERSION, HANDSHAKE_FAILURE)
    # SSLv2's own ClientHello.
    assert len(answer_to(encrypted, b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(40))) <= 7


@pytest.mark.parametrize("suites", [
    pytest.param((0x0001, 0x0002, 0x003B), id="null"), pytest.param((0x0003, 0x0006, 0x0008), id="export"),
    pytest.param((0x0004, 0x0005, 0xC011), id="rc4"), pytest.param((0x000A, 0xC012), id="3des"),
    pytest.param((0x002F, 0x0035, 0x009C), id="no forward secrecy"), pytest.param((0xC013, 0xC014, 0xC027, 0xC028), id="cbc"),
    pytest.param((0x0018, 0x0034, 0xC018), id="anonymous")])
def test_weak_suites_are_not_there(encrypted, suites):
    assert alert_of(encrypted, hello(suites=suites)) == HANDSHAKE_FAILURE


def test_mutual_tls(certificates, mutual):
    failures, handshakes = (mutual.metrics()[f"ilion_tls_{kind}_total"] for kind in ("failures", "handshakes"))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with Secure(mutual, certificates.context(certificates.client, version)) as secure:
            assert secure.ask(OPTIONS).opcode == SUPPORTED
        for own in (None, certificates.expired, certificates.foreign, certificates.own):
            # In 1.3 a client believes that it is in until it reads.
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError, AttributeError)):
                Secure(mutual, certificates.context(own, version)).close()
    # The client is told first, and the failure is counted then.
    until(lambda: mutual.metrics()["ilion_tls_failures_total"] == failures + 8)
    assert mutual.metrics()["ilion_tls_handshakes_total"] == handshakes + 2
    with pytest.raises(NoHostAvailable):
        connect(mutual).connect()


def test_sessions_are_resumed(certificates, encrypted):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = certificates.context(version=version)
        with Secure(encrypted, context) as first:
            # Tickets of 1.3 come with the first answer.
            assert first.ask(OPTIONS).opcode == SUPPORTED
            session = first.socket.session
        resumed = encrypted.metrics()["ilion_tls_resumed_total"]
        with Secure(encrypted, context, session=session) as second:
            assert second.socket.session_reused
            assert second.ask(OPTIONS).opcode == SUPPORTED
        assert encrypted.metrics()["ilion_tls_resumed_total"] == resumed + 1


def test_new_certificates_are_for_new_connections(certificates, encrypted):
    key = encrypted.directory / "node.pem"
    with Secure(encrypted, certificates.context()) as before:
        shutil.copy(certificates.other_node, key)
        encrypted.nodetool("reloadssl")
        with Secure(encrypted, certificates.context(ca=certificates.other_ca)) as after:
            assert after.socket.getpeercert(True) != before.socket.getpeercert(True)
        with pytest.raises(ssl.SSLCertVerificationError):
            Secure(encrypted, certificates.context())
        key.write_text("broken")
        with pytest.raises(RuntimeError, match="Failed to hot reload"):
            encrypted.nodetool("reloadssl")
        with Secure(encrypted, certificates.context(ca=certificates.other_ca)) as still:
            assert still.ask(OPTIONS).opcode == SUPPORTED
        shutil.copy(certificates.node, key)
        encrypted.nodetool("reloadssl")
        assert before.ask(OPTIONS).opcode == SUPPORTED


def test_a_stalled_handshake_is_closed(certificates, encrypted):
    slow = encrypted.metrics()["ilion_connections_too_slow_total"]
    whole = hello()
    stalled = [socket.create_connection((encrypted.address, encrypted.port), timeout=20) for _ in range(50)]
    began = time.monotonic()
    for number, client in enumerate(stalled):
        client.sendall(whole[:number])
    with Secure(encrypted, certificates.context()) as other:
        assert other.ask(OPTIONS).opcode == SUPPORTED
    for client in stalled:
        assert client.recv(100) == b""
        client.close()
    assert time.monotonic() - began < 6
    assert encrypted.metrics()["ilion_connections_too_slow_total"] >= slow + 50


def test_large_answers_reach_a_slow_reader_whole(certificates, encrypted):
    with Secure(encrypted, certificates.context(), receive_bytes=65536) as secure:
        secure.query("CREATE KEYSPACE IF NOT EXISTS large WITH replication = "
                     "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        secure.query("CREATE TABLE IF NOT EXISTS large.t (k int PRIMARY KEY, v blob)")
        sizes = {k: 1 + k * k * 4_000 for k in range(12)}
        for k, size in sizes.items():
            secure.query(f"INSERT INTO large.t (k, v) VALUES ({k}, 0x{bytes([k]).hex() * size})")
        # Many at once: what one answer leaves in the socket's way, the next ones wait behind.
        streams = {}
        for turn in range(36):
            k, stream = turn % 12, turn + 100
            streams[stream] = k
            text = f"SELECT v FROM large.t WHERE k = {k}"
            secure.send(secure.envelope(QUERY, long_string(text) + parameters(5), stream=stream))
        time.sleep(1)
        for _ in range(36):
            answer = secure.receive()
            k = streams.pop(answer.stream)
            assert answer.opcode == RESULT and answer.rows == [[bytes([k]) * sizes[k]]], k
        assert secure.ask(OPTIONS).opcode == SUPPORTED


def test_the_end_is_told(certificates, optional):
    """Who is disconnected reads an end, and no broken record."""
    secure = Secure(optional, certificates.context())
    optional.nodetool("disablebinary")
    try:
        assert secure.socket.recv(100) == b""
    finally:
        optional.nodetool("enablebinary")
    with Secure(optional, certificates.context()) as again, Frames(optional) as plain:
        assert again.ask(OPTIONS).opcode == plain.ask(OPTIONS).opcode == SUPPORTED


def test_many_come_at_once(certificates, optional):
    """Handshakes of others do not hold up a client that is there."""
    context = certificates.context()
    with Secure(optional, context) as bystander:
        waiting = []
        for _ in range(100):
            waiting.append(socket.create_connection((optional.address, optional.port), timeout=20))
            waiting[-1].sendall(hello())
        worst = 0
        for _ in range(50):
            began = time.monotonic()
            assert bystander.ask(OPTIONS).opcode == SUPPORTED
            worst = max(worst, time.monotonic() - began)
        for client in waiting:
            assert client.recv(1) in (bytes([22]), bytes([ALERT]))
            client.close()
    assert worst < 1, f"{worst:.3f} s"


def test_cqlsh(certificates, encrypted, tmp_path):
    # The lines that `ilion tls` prints, for a node of another address.
    lines = certificates.said.split("[connection]")[1].split("Python")[0]
    (tmp_path / "cqlshrc").write_text("[connection]" + lines.replace("validate = true", "validate = false"))
    done = subprocess.run([str(CQLSH), "--ssl", "--no-color", f"--cqlshrc={tmp_path}/cqlshrc", "-e",
                           "SELECT ssl_enabled, ssl_protocol FROM system_views.clients", encrypted.address, str(encrypted.port)],
                          text=True, capture_output=True, cwd=tmp_path, timeout=120,
                          env=dict(os.environ, HOME=str(tmp_path), CQLSH_HOST="", PYTHONWARNINGS="ignore"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "True" in done.stdout and "TLSv1." in done.stdout, done.stdout


def test_fqltool_replays_over_tls(certificates, tmp_path):
    log, made, own, results = tmp_path / "fql", tmp_path / "made", tmp_path / "own.pem", tmp_path / "results"
    results.mkdir()
    with Ilion(tmp_path / "recorded") as recorded:
        recorded.nodetool("enablefullquerylog", "--path", log)
        with Frames(recorded) as frames:
            for statement in ("CREATE KEYSPACE fq WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                              "CREATE TABLE fq.t (k int PRIMARY KEY)", "INSERT INTO fq.t (k) VALUES (7)"):
                frames.must(statement)
        recorded.nodetool("disablefullquerylog")
    node = node_of(tmp_path / "node", {"enabled": True, "optional": False, "keystore": made / "node.pem", "truststore": made / "ca.crt",
                                       "require_client_auth": True})
    run([ilion_binary(), "tls", made, "--host", node.address, "--host", "localhost"])
    own.write_text((made / "client.crt").read_text() + (made / "client.key").read_text())

    def replayed(*flags):
        command = [ilion_binary(), "fqltool", "replay", "--target", f"{node.address}:{node.port}", "--results", results,
                   "--replay-ddl-statements", *flags, log]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    with node:
        trusted = ("--ssl", "--ssl-ca", made / "ca.crt")
        for flags in ((), trusted, ("--ssl", "--ssl-ca", certificates.ca, "--ssl-cert", own)):
            assert "got exception" in replayed(*flags)[1], flags
        for flags, why in ((("--ssl",), "--ssl-ca"), (("--ssl-ca", made / "ca.crt"), "for --ssl")):
            status, said = replayed(*flags)
            assert status == 2 and why in said, said
        status, said = replayed(*trusted, "--ssl-cert", own)
        assert status == 0 and "3 queries" in said and "exception" not in said, said
        context = certificates.context((made / "client.crt", made / "client.key"), ca=made / "ca.crt")
        with Secure(node, context) as secure:
            assert secure.must("SELECT k FROM fq.t").rows == [[(7).to_bytes(4, "big")]]


def test_what_is_made_for_a_trial_is_private(certificates):
    files = list((certificates.directory / "good").iterdir())
    assert sorted(file.name for file in files) == ["ca.crt", "ca.key", "client.crt", "client.key", "node.pem"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    with pytest.raises(RuntimeError, match="already"):
        run([ilion_binary(), "tls", certificates.directory / "good"])


def test_pem_in_the_configuration_and_certificates_for_those_who_have_some(certificates, tmp_path):
    options = {"enabled": True, "optional": False, "require_client_auth": "optional",
               "require_endpoint_verification": False, "max_certificate_validity_period": "3650d",
               "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory",
                                       "parameters": {"private_key": certificates.node.read_text(),
                                                      "trusted_certificates": certificates.ca.read_text()}}}
    with node_of(tmp_path / "node", options) as node:
        for own in (None, certificates.client):
            with Secure(node, certificates.context(own)) as secure:
                assert secure.ask(OPTIONS).opcode == SUPPORTED
        for own in (certificates.foreign, certificates.expired):
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError, AttributeError)):
                Secure(node, certificates.context(own)).close()
        said = (node.directory / "ilion.log").read_text()
        assert f"connect with: cqlsh --ssl {node.address}" in said
        assert "PRIVATE KEY" not in said


def test_a_port_for_tls_alone(certificates, tmp_path):
    node = node_of(tmp_path / "node", {"enabled": True, "optional": False, "keystore": certificates.directory / "node.p12",
                                       "keystore_password": PASSWORD})
    node.settings["native_transport_port_ssl"] = port = free_port()
    with node, Frames(node) as plain:
        assert plain.ask(OPTIONS).opcode == SUPPORTED
        node.port = port
        with Secure(node, certificates.context()) as secure:
            assert secure.ask(OPTIONS).opcode == SUPPORTED
        assert len(answer_to(node, struct.pack(">BBhBI", 5, 0, 1, OPTIONS, 0) * 3)) <= 7
        node.port = 9042


@pytest.mark.parametrize("options, words", [
    ({"keystore": "/nowhere/keystore"}, ["keystore", "/nowhere/keystore"]),
    ({"keystore": "node.jks", "keystore_password": "wrong"}, ["keystore", "password is wrong"]),
    ({"keystore": "node.p12"}, ["keystore", "no password"]),
    ({"keystore": "good/ca.crt"}, ["keystore", "no private key"]),
    ({"keystore": "good/node.pem", "require_client_auth": True, "truststore": "/nowhere/trust"}, ["truststore", "/nowhere/trust"]),
    ({"keystore": "good/node.pem", "protocol": "TLSv1.1"}, ["protocol", "TLSv1.1", "not supported"]),
    ({"keystore": "good/node.pem", "cipher_suites": ["TLS_RSA_WITH_AES_128_CBC_SHA"]}, ["cipher_suites", "none of them"]),
    ({"ssl_context_factory": {"class_name": "com.acme.Factory"}}, ["ssl_context_factory", "com.acme.Factory"]),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_what_cannot_be_ends_the_start(certificates, tmp_path, options, words):
    options = {"enabled": True, **options}
    for name in ("keystore", "truststore"):
        if name in options:
            options[name] = str(certificates.directory / options[name])
    with pytest.raises(RuntimeError) as failure:
        node_of(tmp_path / "node", options).start()
    said = str(failure.value)
    assert "client_encryption_options" in said and all(word in said for word in words), said
    assert "wrong\"" not in said


IDENTITY = "spiffe://example.org/app"
MTLS = "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator"
BAD_CREDENTIALS = 0x0100


def first_answer(node, context=None, version=5):
    """What STARTUP is answered with, and the connection."""
    frames = Frames(node, version=version, begin=False, timeout_s=20) if context is None else \
        Secure(node, context, begin=False, version=version)
    return frames, frames.ask(STARTUP, string_map({"CQL_VERSION": "3.0.0"}))


def test_a_certificate_is_a_login(certificates, tmp_path):
    """First with passwords beside it, to make the roles; then alone, on the same directory."""
    options = {"enabled": True, "optional": False, "keystore": certificates.node, "truststore": certificates.ca,
               "require_client_auth": "optional", "ssl_context_factory": {"class_name": "PEMBasedSslContextFactory"}}
    parameters = {"validator_class_name": "org.apache.cassandra.auth.SpiffeCertificateValidator"}

    def authenticator(name):
        return json.dumps({"class_name": name, "parameters": parameters})

    named, unnamed = certificates.context(certificates.client), certificates.context()
    settings = {"authorizer": "CassandraAuthorizer", "auth_bcrypt_gensalt_log2_rounds": 4, "admin_address": "0.0.0.0",
                "metrics_port": free_port()}

    def asked(node, context, path, method="GET", **headers):
        """What the admin API answers to a client of TLS."""
        connection = http.client.HTTPSConnection("localhost", node.admin_port, timeout=60, context=context)
        connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        return connection.getresponse().status

    def count(name):
        with urllib.request.urlopen(f"http://127.0.0.1:{settings['metrics_port']}/metrics", timeout=60) as answer:
            return next(float(line.split()[1]) for line in answer.read().decode().splitlines() if line.startswith(name + " "))

    with node_of(tmp_path, options, authenticator=authenticator(MTLS), **settings) as node:
        frames, answer = first_answer(node, named)
        assert (answer.code, answer.message) == (BAD_CREDENTIALS, f"Certificate identity '{IDENTITY}' not authorized")
        frames.socket.close()
        root, answer = first_answer(node, unnamed)
        assert answer.opcode == AUTHENTICATE and answer.body.string() == MTLS
        root.segments = True
        assert root.ask(AUTH_RESPONSE, value(b"\0cassandra\0cassandra")).opcode == AUTH_SUCCESS
        for statement in ("CREATE ROLE app WITH LOGIN = true", f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'"):
            assert root.query(statement).opcode == RESULT, statement
        for version in (3, 4, 5):
            app, answer = first_answer(node, named, version)
            assert answer.opcode == READY, answer.message
            app.segments = version >= 5
            assert app.query("SELECT key FROM system.local").kind == "rows"
            denied = app.query("SELECT * FROM system_auth.roles")
            assert denied.message.startswith("User app has no SELECT permission on <table system_auth.roles>")
            # A name and a password do not make another of it.
            assert app.ask(AUTH_RESPONSE, value(b"\0cassandra\0cassandra")).opcode == AUTH_SUCCESS
            assert app.query("SELECT * FROM system_auth.roles").message == denied.message
            app.socket.close()
        root.query("ALTER ROLE app WITH LOGIN = false")
        frames, answer = first_answer(node, named)
        assert (answer.code, answer.message) == (BAD_CREDENTIALS, "app is not permitted to log in")
        frames.socket.close()
        root.query("ALTER ROLE app WITH LOGIN = true")
        assert count("ilion_tls_logins_total") == 6 and count("ilion_logins_total") == 1
        assert count("ilion_login_failures_total") == 2
        # Certificates and passwords are logins of the admin API, too. `app` is no superuser.
        password = "Basic " + base64.b64encode(b"cassandra:cassandra").decode()
        for context, headers, wanted in ((named, {}, 200), (unnamed, {}, 401), (unnamed, {"Authorization": password}, 200)):
            assert asked(node, context, "/api/v1/status", **headers) == wanted
        for headers, wanted in (({}, (403,)), ({"Authorization": password}, (200, 204))):
            assert asked(node, named, "/api/v1/tls/reload", "POST", X_Ilion_Admin="1", **headers) in wanted
        root.query(f"DROP IDENTITY '{IDENTITY}'")
        assert asked(node, named, "/api/v1/status") == 401
        root.query(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")
        root.socket.close()
    options["require_client_auth"] = True
    with node_of(tmp_path, options, authenticator=authenticator("MutualTlsAuthenticator"), **settings) as node:
        context = certificates.context(certificates.client)
        context.check_hostname = False
        cluster = connect(node, context)
        rows = list(cluster.connect().execute("SELECT key FROM system.local"))
        assert len(rows) == 1
        cluster.shutdown()
        assert asked(node, named, "/api/v1/status") == 200
        assert asked(node, named, "/api/v1/status", Authorization=password) == 401, "there are no passwords"
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError, AttributeError)):
            first_answer(node, unnamed)[1].opcode


def test_flight_speaks_what_cql_speaks(certificates, tmp_path):
    """The same certificates, rules and reload on the port of Flight; ALPN h2."""
    key, port = tmp_path / "node.pem", free_port()
    shutil.copy(certificates.node, key)

    def greeted(node, ca=None, own=None, protocols=("h2",)):
        context = certificates.context(own, ca=ca)
        context.set_alpn_protocols(protocols)
        with socket.create_connection((node.address, port), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
                # The node's SETTINGS.
                assert secure.recv(9)[3:4] == b"\4"
                return secure.selected_alpn_protocol()

    def plain(node):
        with socket.create_connection((node.address, port), timeout=20) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
            try:
                return plain.recv(9)[3:4] == b"\4"
            except ConnectionResetError:
                return False

    options = {"enabled": True, "optional": False, "keystore": key}
    with node_of(tmp_path / "encrypted", options, flight_port=port, native_transport_tls_handshake_timeout="1s") as node:
        handshakes = node.metrics()["ilion_tls_handshakes_total"]
        assert greeted(node) == "h2" and greeted(node, protocols=("http/1.1", "h2")) == "h2"
        assert node.metrics()["ilion_tls_handshakes_total"] == handshakes + 2
        with pytest.raises(ssl.SSLError):
            greeted(node, protocols=("http/1.1",))
        assert not plain(node)
        # One that says nothing is closed, and holds nobody up.
        with socket.create_connection((node.address, port), timeout=20) as silent:
            assert greeted(node) == "h2"
            assert silent.recv(1) == b""
        shutil.copy(certificates.other_node, key)
        node.nodetool("reloadssl")
        assert greeted(node, certificates.other_ca) == "h2"
        with pytest.raises(ssl.SSLCertVerificationError):
            greeted(node)
    shutil.copy(certificates.node, key)
    with node_of(tmp_path / "optional", {**options, "optional": True}, flight_port=port) as node:
        assert greeted(node) == "h2" and plain(node)
    mutual = {**options, "truststore": certificates.ca, "require_client_auth": True}
    with node_of(tmp_path / "mutual", mutual, flight_port=port) as node:
        assert greeted(node, own=certificates.client) == "h2"
        for own in (None, certificates.foreign, certificates.expired):
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
                greeted(node, own=own)
