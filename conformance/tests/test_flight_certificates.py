"""Certificates as logins of Flight: what stock clients are let in as, and what ends it."""
import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pyarrow.flight
import pytest
from adbc_driver_flightsql import DatabaseOptions
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.certificates import Certificates
from harness.flight import statement_descriptor
from harness.frames import until
from harness.node import ROOT, Ilion, free_address, free_port

IDENTITY, OTHER = "spiffe://example.org/app", "spiffe://example.org/other"
UNKNOWN = "Certificate identity '{}' not authorized"
OPEN, SECRET = (statement_descriptor(f"SELECT k FROM fl.{table}") for table in ("open", "secret"))
REFUSED = "User app has no SELECT permission on <table fl.secret> or any of its parents"
Unauthenticated, Unauthorized = pyarrow.flight.FlightUnauthenticatedError, pyarrow.flight.FlightUnauthorizedError
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")


class Node:
    """A node whose clients show certificates, or as well log in with a password. `app` may read fl.open."""

    def __init__(self, directory, certificates, authenticator, client_auth, address=None):
        self.certificates = certificates
        self.node = Ilion(directory, address or free_address())
        self.port = free_port(self.node.address)
        self.metrics_port = free_port()
        options = {"enabled": True, "optional": False, "keystore": str(certificates.node), "truststore": str(certificates.ca),
                   "require_client_auth": client_auth, "ssl_context_factory": {"class_name": "PEMBasedSslContextFactory"}}
        parameters = {"validator_class_name": "SpiffeCertificateValidator"}
        cidr = {"class_name": "CassandraCIDRAuthorizer", "parameters": {"cidr_authorizer_mode": "ENFORCE"}}
        self.node.settings = {"authenticator": json.dumps({"class_name": authenticator, "parameters": parameters}),
                              "authorizer": "CassandraAuthorizer", "cidr_authorizer": json.dumps(cidr),
                              "client_encryption_options": json.dumps(options), "auth_bcrypt_gensalt_log2_rounds": 4,
                              "flight_port": self.port, "metrics_port": self.metrics_port,
                              "audit_logging_options": "{enabled: true, included_categories: 'AUTH,QUERY'}"}

    def session(self, own=None):
        context = self.certificates.context(own)
        context.check_hostname = False
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([self.node.address]))
        provider = None if own else PlainTextAuthProvider("cassandra", "cassandra")
        self.cluster = Cluster([self.node.address], port=self.node.port, ssl_context=context, auth_provider=provider,
                               execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=20)
        return self.cluster.connect()

    def client(self, own=None):
        """A connection of Flight that shows a certificate or none."""
        shown = {} if own is None else {"cert_chain": own[0].read_bytes(), "private_key": own[1].read_bytes()}
        return pyarrow.flight.connect(f"grpc+tls://{self.node.address}:{self.port}", override_hostname="localhost",
                                      tls_root_certs=self.certificates.ca.read_bytes(), **shown)

    def adbc(self, own, **more):
        options = {DatabaseOptions.TLS_ROOT_CERTS.value: self.certificates.ca.read_text(),
                   DatabaseOptions.TLS_OVERRIDE_HOSTNAME.value: "localhost",
                   DatabaseOptions.MTLS_CERT_CHAIN.value: own[0].read_text(),
                   DatabaseOptions.MTLS_PRIVATE_KEY.value: own[1].read_text(), **more}
        return flightsql.connect(f"grpc+tls://{self.node.address}:{self.port}", db_kwargs=options)

    def count(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
            return next(float(line.split()[1]) for line in answer.read().decode().splitlines() if line.startswith(name + " "))

    def entries(self):
        files = sorted((self.node.directory / "audit").glob("audit-*"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def entries_from(self, seen, count):
        deadline = time.monotonic() + 20
        while len(found := self.entries()[seen:]) < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return [(entry["type"], entry["user"], entry.get("operation")) for entry in found]


def rows(client, descriptor=OPEN, options=None):
    info = client.get_flight_info(descriptor, options)
    return sum(client.do_get(endpoint.ticket, options).read_all().num_rows for endpoint in info.endpoints)


@pytest.fixture(scope="module")
def certificates(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    address = free_address()
    made = Certificates(tmp_path_factory.mktemp("certificates"), with_stores=False, hosts=("localhost", "127.0.0.1", address))
    # Of the node that clients find who take no other name for it.
    made.address = address
    return made


@pytest.fixture(scope="module")
def fallback(certificates, tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("fallback"), certificates, "MutualTlsWithPasswordFallbackAuthenticator", "optional", certificates.address)
    with node.node:
        node.root = node.session()
        for statement in ("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                          "CREATE TABLE fl.open (k int PRIMARY KEY)", "CREATE TABLE fl.secret (k int PRIMARY KEY)",
                          "INSERT INTO fl.open (k) VALUES (1)", "INSERT INTO fl.secret (k) VALUES (1)",
                          "CREATE ROLE app WITH LOGIN = true", "GRANT SELECT ON fl.open TO app",
                          "CREATE ROLE bob WITH PASSWORD = 'bob-password' AND LOGIN = true", "GRANT SELECT ON fl.secret TO bob"):
            node.root.execute(statement)
        yield node
        node.cluster.shutdown()


@pytest.fixture
def app(fallback):
    """With the identity of `app`, as each test finds it."""
    fallback.root.execute(f"ADD IDENTITY IF NOT EXISTS '{IDENTITY}' TO ROLE 'app'")
    fallback.root.execute("ALTER ROLE app WITH LOGIN = true AND ACCESS FROM ALL CIDRS")
    yield fallback
    fallback.root.execute(f"DROP IDENTITY IF EXISTS '{IDENTITY}'")


def test_a_call_is_made_as_the_role_of_the_certificate(app):
    with app.client(app.certificates.client) as client:
        assert rows(client) == 1
        with pytest.raises(Unauthorized, match=REFUSED):
            rows(client, SECRET)
        # A name and a password do not make another of it, right or wrong, nor does a token.
        for shown in (b"Basic " + base64.b64encode(b"bob:bob-password"), b"Basic " + base64.b64encode(b"bob:wrong"),
                      b"Bearer " + b"0" * 64, b"nonsense"):
            options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", shown)])
            assert rows(client, OPEN, options) == 1
            with pytest.raises(Unauthorized, match=REFUSED):
                rows(client, SECRET, options)
        # Tickets are worth what their bearer may read.
        with app.client() as other:
            options = pyarrow.flight.FlightCallOptions(headers=[other.authenticate_basic_token("bob", "bob-password")])
            (endpoint,) = other.get_flight_info(SECRET, options).endpoints
        with pytest.raises(Unauthorized, match=REFUSED):
            client.do_get(endpoint.ticket).read_all()
    # Some clients take nothing but a token for a login. This one is worth nothing.
    with app.client(app.certificates.client) as client, app.client() as other:
        options = pyarrow.flight.FlightCallOptions(headers=[client.authenticate_basic_token("bob", "wrong")])
        assert rows(client, OPEN, options) == 1
        with pytest.raises(Unauthenticated, match="unknown or has expired"):
            rows(other, OPEN, options)
    for more in ({}, {"username": "bob", "password": "bob-password"}):
        with app.adbc(app.certificates.client, **more) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT k FROM fl.open")
            assert cursor.fetch_arrow_table().num_rows == 1
            with pytest.raises(Exception, match=REFUSED):
                cursor.execute("SELECT k FROM fl.secret")


def test_jdbc_shows_a_certificate(app):
    if not shutil.which("java") or not shutil.which("mvn"):
        assert os.environ.get("CI") != "true", "Java and Maven are needed with CI=true"
        pytest.skip("java or mvn is not installed")
    certificate, key = app.certificates.client
    properties = f"useEncryption=true&tlsRootCerts={app.certificates.ca}&clientCertificate={certificate}&clientKey={key}"
    said = [subprocess.run([ROOT / "conformance" / "drivers" / "jdbc" / "run", app.node.address, str(app.port), statement, properties],
                           capture_output=True, text=True, timeout=120) for statement in ("SELECT k FROM fl.open", "SELECT k FROM fl.secret")]
    assert said[0].stdout.splitlines() == ["fl.open", "fl.secret", "k", "1"], said[0].stderr[-3000:]
    assert said[1].returncode != 0 and REFUSED in said[1].stderr, said[1].stderr[-3000:]


def test_without_a_certificate_a_password_or_a_token_is_asked_for(app):
    with app.client() as client:
        with pytest.raises(Unauthenticated, match="You have not logged in"):
            rows(client)
        with pytest.raises(Unauthenticated, match="Provided username bob and/or password are incorrect"):
            client.authenticate_basic_token("bob", "wrong")
        options = pyarrow.flight.FlightCallOptions(headers=[client.authenticate_basic_token("bob", "bob-password")])
        assert rows(client, SECRET, options) == 1
        with pytest.raises(Unauthorized, match="User bob has no SELECT permission on <table fl.open>"):
            rows(client, OPEN, options)


def test_certificates_that_are_nobodys_are_refused(app):
    other = app.certificates.of_identity("other", OTHER)
    basic = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", b"Basic " + base64.b64encode(b"bob:bob-password"))])
    failures = app.count("ilion_login_failures_total")
    with app.client(other) as client:
        # As with CQL: the password behind it is not looked at.
        for options in (None, basic):
            with pytest.raises(Unauthenticated, match=UNKNOWN.format(OTHER)):
                rows(client, SECRET, options)
        assert app.count("ilion_login_failures_total") == failures + 2
        app.root.execute("CREATE ROLE IF NOT EXISTS other WITH LOGIN = true")
        app.root.execute(f"ADD IDENTITY IF NOT EXISTS '{OTHER}' TO ROLE 'other'")
        with pytest.raises(Unauthorized, match="User other has no SELECT permission"):
            rows(client)
        app.root.execute("DROP ROLE other")
        with pytest.raises(Unauthenticated, match=UNKNOWN.format(OTHER)):
            rows(client)
    nameless = app.certificates.of_identity("nameless", "https://example.org/app")
    with app.client(nameless) as client, pytest.raises(Unauthenticated, match="Unable to extract Spiffe from the certificate"):
        rows(client)


@pytest.mark.parametrize("kind", ["own", "expired", "foreign"])
def test_certificates_that_nobody_vouches_for_come_to_no_call(app, kind):
    failures = app.count("ilion_tls_failures_total")
    with app.client(getattr(app.certificates, kind)) as client:
        with pytest.raises((pa.ArrowException, OSError)) as refused:
            rows(client, OPEN, pyarrow.flight.FlightCallOptions(timeout=10))
    assert "Unauthenticated" not in type(refused.value).__name__
    # The client is told first, and the failure is counted then.
    until(lambda: app.count("ilion_tls_failures_total") > failures)


def test_what_ends_a_login_ends_it_for_connections_that_are_open(app):
    with app.client(app.certificates.client) as client:
        assert rows(client) == 1
        app.root.execute(f"DROP IDENTITY '{IDENTITY}'")
        with pytest.raises(Unauthenticated, match=UNKNOWN.format(IDENTITY)):
            rows(client)
        app.root.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'bob'")
        assert rows(client, SECRET) == 1
        app.root.execute(f"DROP IDENTITY '{IDENTITY}'")
        app.root.execute(f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")
        assert rows(client) == 1
        app.root.execute("ALTER ROLE app WITH LOGIN = false")
        with pytest.raises(Unauthenticated, match="app is not permitted to log in"):
            rows(client)
        app.root.execute("ALTER ROLE app WITH LOGIN = true")
        assert rows(client) == 1
        app.root.execute("REVOKE SELECT ON fl.open FROM app")
        with pytest.raises(Unauthorized, match="User app has no SELECT permission"):
            rows(client)
        app.root.execute("GRANT SELECT ON fl.open TO app")
        assert rows(client) == 1
        app.node.nodetool("updatecidrgroup", "elsewhere", "203.0.113.0/24")
        app.node.nodetool("reloadcidrgroupscache")
        app.root.execute("ALTER ROLE app WITH ACCESS FROM CIDRS {'elsewhere'}")
        with pytest.raises(Unauthorized, match="You do not have access from this IP"):
            rows(client)
        app.root.execute("ALTER ROLE app WITH ACCESS FROM ALL CIDRS")
        assert rows(client) == 1


def test_a_connection_is_one_login(app):
    seen, logins = len(app.entries()), app.count("ilion_tls_logins_total")
    with app.client(app.certificates.client) as client:
        for _ in range(5):
            assert rows(client) == 1
    assert app.count("ilion_tls_logins_total") == logins + 1
    told = app.entries_from(seen, 6)
    assert told == [("LOGIN_SUCCESS", "app", "LOGIN SUCCESSFUL")] + 5 * [("SELECT", "app", "SELECT k FROM fl.open")]
    app.root.execute(f"DROP IDENTITY '{IDENTITY}'")
    seen = len(app.entries())
    with app.client(app.certificates.client) as client, pytest.raises(Unauthenticated):
        rows(client)
    assert app.entries_from(seen, 1) == [("LOGIN_ERROR", None, "LOGIN FAILURE; " + UNKNOWN.format(IDENTITY))]


def test_where_certificates_alone_are_logins(certificates, tmp_path):
    first = Node(tmp_path, certificates, "MutualTlsWithPasswordFallbackAuthenticator", "optional")
    with first.node:
        root = first.session()
        for statement in ("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                          "CREATE TABLE fl.open (k int PRIMARY KEY)", "INSERT INTO fl.open (k) VALUES (1)",
                          "CREATE ROLE app WITH LOGIN = true", "GRANT SELECT ON fl.open TO app",
                          f"ADD IDENTITY '{IDENTITY}' TO ROLE 'app'"):
            root.execute(statement)
        first.cluster.shutdown()
    alone = Node(tmp_path, certificates, "MutualTlsAuthenticator", True)
    alone.node.address = first.node.address
    with alone.node:
        with alone.client(certificates.client) as client:
            assert rows(client) == 1
        with alone.client(certificates.of_identity("other", OTHER)) as client:
            with pytest.raises(Unauthenticated, match=UNKNOWN.format(OTHER)):
                rows(client)
        with alone.client() as client, pytest.raises((pa.ArrowException, OSError)):
            rows(client, OPEN, pyarrow.flight.FlightCallOptions(timeout=10))
