"""Logins, roles and permissions: the same statements by the same roles, told to an Ilion node and to a Cassandra with the same yaml.

`SCRIPT` holds the statements in order, each behind the role that sends it. What both answer is compared: kind, code, words,
columns, rows and warnings. Where Ilion differs on purpose the line says so with `!`, and docs/AUTH.md has the reason.
"""
import base64
import http.client
import json
import random
import socket
import ssl
import subprocess

import pytest
from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable

from harness.node import Cassandra, Ilion, free_address, free_port, run
from harness.wire import Wire

YAML = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer", "role_manager": "CassandraRoleManager",
        "permissions_validity": "0ms", "roles_validity": "0ms", "credentials_validity": "0ms"}
HASH = "$2a$04$abcdefghijklmnopqrstuuPWRtT5yx7FBi4dcf6ROhboeNunUrLQ."  # of geheim
SCRIPT = """
root  CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
root  CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))
root  CREATE TABLE ks.u (k int PRIMARY KEY, n counter)
root  LIST ROLES
root  LIST USERS
root  CREATE ROLE bob WITH PASSWORD = 'bob' AND LOGIN = true
root  CREATE ROLE bob
root  CREATE ROLE IF NOT EXISTS bob
root  CREATE ROLE readers
root  CREATE ROLE boss WITH SUPERUSER = true
root  CREATE ROLE chief
root  CREATE USER amy WITH PASSWORD 'amy' NOSUPERUSER
root  CREATE ROLE hashed WITH HASHED PASSWORD = '%(hash)s' AND LOGIN = true
root  CREATE ROLE odd WITH HASHED PASSWORD = 'x'
root  CREATE ROLE odd WITH OPTIONS = {'a': 'b'}
root  CREATE ROLE odd WITH PASSWORD = 'x' AND HASHED PASSWORD = 'y'
root  CREATE ROLE odd WITH ACCESS TO DATACENTERS {'nowhere'}
root  CREATE ROLE odd WITH ACCESS FROM CIDRS {'nowhere'}
root  CREATE ROLE ''
root ! CREATE ROLE placed WITH ACCESS TO DATACENTERS {'datacenter1'}
root  CREATE ROLE everywhere WITH ACCESS TO ALL DATACENTERS AND ACCESS FROM ALL CIDRS
root  ALTER ROLE everywhere WITH ACCESS TO ALL DATACENTERS
root  ALTER ROLE everywhere WITH ACCESS TO DATACENTERS {'datacenter1'}
root  ALTER ROLE everywhere WITH ACCESS FROM ALL CIDRS
root  DROP ROLE IF EXISTS placed
root  DROP ROLE everywhere
root  GRANT boss TO chief
root  GRANT boss TO chief
root  GRANT chief TO boss
root  GRANT nobody TO bob
root  GRANT readers TO nobody
root  REVOKE readers FROM bob
root  LIST ROLES
root  LIST USERS
root  LIST ROLES OF chief
root  LIST ROLES OF chief NORECURSIVE
root  LIST ROLES OF nobody
root  LIST ALL PERMISSIONS
root  LIST ALL PERMISSIONS OF nobody
root  LIST ALL PERMISSIONS ON ks.nothing
root  GRANT SELECT ON ks.nothing TO bob
root  GRANT SELECT ON KEYSPACE nothing TO bob
root  GRANT SELECT ON ks.t TO nobody
root  GRANT EXECUTE ON ks.t TO bob
root  GRANT SELECT ON ROLE nobody TO bob
root  GRANT ALTER ON ROLE nobody TO bob
root  ALTER ROLE cassandra WITH SUPERUSER = false
root  DROP ROLE cassandra
root  DROP ROLE nobody
root  DROP ROLE IF EXISTS nobody
root  ALTER ROLE nobody WITH LOGIN = true
root  ALTER ROLE IF EXISTS nobody WITH LOGIN = true
root  ALTER ROLE bob
bob   SELECT * FROM ks.t
bob   SELECT * FROM ks.nothing
bob   INSERT INTO ks.t (k, c) VALUES (1, 1)
bob   UPDATE ks.u SET n = n + 1 WHERE k = 1
bob   DELETE FROM ks.t WHERE k = 1
bob   BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1) APPLY BATCH
bob   TRUNCATE ks.t
bob   ALTER TABLE ks.t ADD w int
bob   DROP TABLE ks.t
bob   CREATE TABLE ks.w (k int PRIMARY KEY)
bob   CREATE TYPE ks.w (k int)
bob   CREATE INDEX ON ks.t (v)
bob   DROP TYPE ks.w
bob   ALTER KEYSPACE ks WITH durable_writes = true
bob   DROP KEYSPACE ks
bob   CREATE KEYSPACE kt WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
bob   USE ks
bob   DESCRIBE KEYSPACES
bob   SELECT key FROM system.local
bob   SELECT peer FROM system.peers
bob   SELECT peer FROM system.peers_v2
bob   SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'
bob   SELECT keyspace_name FROM system_virtual_schema.keyspaces
bob   SELECT username FROM system_views.clients
bob   SELECT * FROM system.prepared_statements
bob   SELECT * FROM system_auth.roles
bob   SELECT * FROM system_auth.role_permissions
bob   SELECT * FROM system_traces.sessions
bob   DROP TABLE system.local
bob   DROP TABLE system_auth.roles
bob   DROP KEYSPACE system_auth
bob   ALTER KEYSPACE system_auth WITH durable_writes = true
bob   CREATE ROLE x
bob   CREATE ROLE x WITH SUPERUSER = true
bob   ALTER ROLE bob WITH SUPERUSER = true
bob   ALTER ROLE bob WITH LOGIN = false
bob   ALTER ROLE bob WITH ACCESS TO ALL DATACENTERS
bob   ALTER ROLE bob WITH ACCESS FROM ALL CIDRS
bob   ALTER ROLE bob WITH PASSWORD = 'bob'
bob   ALTER ROLE amy WITH PASSWORD = 'x'
bob   ALTER ROLE boss WITH PASSWORD = 'x'
bob   DROP ROLE amy
bob   DROP ROLE boss
bob   DROP ROLE nobody
bob   DROP ROLE bob
bob   GRANT readers TO bob
bob   GRANT nobody TO bob
bob   REVOKE boss FROM chief
bob   GRANT SELECT ON ks.t TO bob
bob   REVOKE SELECT ON ks.t FROM amy
bob   GRANT SELECT ON ks.t TO nobody
bob   LIST ROLES
bob   LIST USERS
bob   LIST ROLES OF boss
bob   LIST ROLES OF bob
bob   LIST ALL PERMISSIONS
bob   LIST ALL PERMISSIONS OF amy
bob   LIST ALL PERMISSIONS OF bob
bob   ADD IDENTITY 'spiffe://bob' TO ROLE 'bob'
bob   DROP IDENTITY 'spiffe://bob'
root  GRANT SELECT ON ks.t TO readers
root  GRANT SELECT ON ks.t TO readers
root  GRANT readers TO bob
bob   SELECT * FROM ks.t
bob   SELECT * FROM ks.u
bob   LIST ROLES
bob   LIST ALL PERMISSIONS OF bob
bob   LIST ALL PERMISSIONS OF readers
bob   INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS
root  GRANT MODIFY ON KEYSPACE ks TO amy
amy   INSERT INTO ks.t (k, c) VALUES (1, 1)
amy   INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS
amy   UPDATE ks.t SET v = 'x' WHERE k = 1 AND c = 1 IF v = null
amy   BEGIN BATCH UPDATE ks.t SET v = 'x' WHERE k = 1 AND c = 1 IF EXISTS APPLY BATCH
amy   SELECT * FROM ks.t
amy   TRUNCATE ks.u
root  GRANT SELECT ON ALL TABLES IN KEYSPACE ks TO amy
amy   INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS
amy   SELECT k, c FROM ks.t
root  LIST ALL PERMISSIONS OF amy
root  LIST SELECT ON ks.t
root  LIST SELECT ON ks.t NORECURSIVE
root  LIST SELECT ON ALL KEYSPACES OF amy
root  REVOKE SELECT ON ALL TABLES IN KEYSPACE ks FROM amy
root  REVOKE SELECT ON ALL TABLES IN KEYSPACE ks FROM amy
amy   SELECT k, c FROM ks.t
root  REVOKE readers FROM bob
bob   SELECT * FROM ks.t
root  GRANT CREATE ON ALL KEYSPACES TO bob
bob   CREATE KEYSPACE mine WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
bob   CREATE TABLE mine.t (k int PRIMARY KEY)
bob   CREATE TYPE mine.y (k int)
bob   INSERT INTO mine.t (k) VALUES (1)
bob   LIST ALL PERMISSIONS OF bob
bob   GRANT SELECT ON mine.t TO amy
amy   SELECT * FROM mine.t
bob   DROP TABLE mine.t
bob   LIST ALL PERMISSIONS OF bob
root  LIST ALL PERMISSIONS OF amy
bob   DROP KEYSPACE mine
bob   LIST ALL PERMISSIONS OF bob
root  GRANT CREATE ON ALL ROLES TO bob
bob   CREATE ROLE made WITH PASSWORD = 'x'
bob   CREATE ROLE x WITH SUPERUSER = true
bob   LIST ALL PERMISSIONS OF bob
bob   GRANT made TO amy
root  LIST ROLES OF amy
bob   DROP ROLE made
root  LIST ROLES OF amy
bob   LIST ALL PERMISSIONS OF bob
root  GRANT DESCRIBE ON ALL ROLES TO bob
bob   LIST ROLES
bob   LIST ROLES OF boss
root  GRANT ALTER ON ALL ROLES TO bob
root  GRANT DROP ON ALL ROLES TO bob
root  GRANT AUTHORIZE ON ALL ROLES TO bob
bob   ALTER ROLE amy WITH PASSWORD = 'amy'
bob   ALTER ROLE boss WITH SUPERUSER = false
bob   DROP ROLE boss
bob   DROP ROLE chief
bob ! ALTER ROLE boss WITH PASSWORD = 'x'
root  GRANT ALL ON ALL KEYSPACES TO bob
root  LIST ALL PERMISSIONS OF bob
bob   SELECT * FROM ks.t
bob   SELECT role FROM system_auth.roles
bob   SELECT * FROM system_auth.role_permissions WHERE role = 'nobody'
bob   SELECT * FROM system_traces.sessions
bob   SELECT * FROM system.prepared_statements
bob   SELECT keyspace_name FROM system_views.tombstones_per_read WHERE keyspace_name = 'x' AND table_name = 'y'
bob ! INSERT INTO system_auth.roles (role, is_superuser) VALUES ('bob', true)
bob ! UPDATE system_auth.roles SET is_superuser = true WHERE role = 'bob'
bob ! INSERT INTO system_auth.role_permissions (role, resource, permissions) VALUES ('bob', 'roles', {'AUTHORIZE'})
bob ! INSERT INTO system.local (key) VALUES ('x')
bob ! TRUNCATE system_auth.roles
bob   DROP TABLE system_auth.roles
bob   ALTER KEYSPACE system_auth WITH durable_writes = true
bob   GRANT SELECT ON system_auth.roles TO bob
root  GRANT MODIFY ON system_auth.roles TO bob
root  GRANT ALL ON KEYSPACE system_auth TO bob
root  GRANT ALL ON ALL TABLES IN KEYSPACE system_traces TO bob
root  GRANT SELECT ON system_auth.roles TO bob
bob   SELECT role FROM system_auth.roles WHERE role = 'bob'
root  REVOKE SELECT ON system_auth.roles FROM bob
root  GRANT SELECT ON KEYSPACE system_views TO bob
bob   SELECT name FROM system_views.settings WHERE name = 'cluster_name'
bob   SELECT * FROM system.size_estimates WHERE keyspace_name = 'x'
root  REVOKE ALL ON ALL KEYSPACES FROM bob
root  GRANT ALL ON ALL MBEANS TO bob
root  GRANT EXECUTE ON ALL FUNCTIONS TO bob
root  GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE ks TO bob
root  GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE nothing TO bob
root ! GRANT EXECUTE ON FUNCTION ks.f(int) TO bob
root  GRANT EXECUTE ON FUNCTION system.now() TO bob
root  LIST ALL PERMISSIONS OF bob
root  LIST EXECUTE OF bob
root  ADD IDENTITY 'spiffe://bob' TO ROLE 'bob'
root  ADD IDENTITY 'spiffe://bob' TO ROLE 'bob'
root  ADD IDENTITY IF NOT EXISTS 'spiffe://bob' TO ROLE 'bob'
root  ADD IDENTITY 'spiffe://none' TO ROLE 'nobody'
root  DROP IDENTITY 'spiffe://none'
root  DROP IDENTITY IF EXISTS 'spiffe://none'
root  SELECT * FROM system_auth.identity_to_role
root  SELECT role, can_login, is_superuser, member_of FROM system_auth.roles WHERE role IN ('amy', 'bob', 'chief', 'readers')
root  SELECT * FROM system_auth.role_members
root  SELECT * FROM system_auth.role_permissions WHERE role = 'bob'
root  SELECT * FROM system_auth.resource_role_permissons_index WHERE resource = 'data/ks'
root  DROP ROLE readers
root  ALTER ROLE bob WITH LOGIN = false
root  DROP ROLE bob
root  SELECT * FROM system_auth.identity_to_role
root  SELECT * FROM system_auth.role_permissions WHERE role = 'bob'
root  SELECT * FROM system_auth.role_members
root  DROP KEYSPACE ks
root  LIST ALL PERMISSIONS OF amy
hashed  SELECT key FROM system.local
"""
PASSWORDS = {"root": ("cassandra", "cassandra"), "hashed": ("hashed", "geheim")}


@pytest.fixture(scope="module")
def nodes(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion" or request.config.getoption("--oracle") == "none":
        pytest.skip("needs an Ilion and a Cassandra of its own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASSANDRA_SHORT", "1")
        patch.setenv("CASSANDRA_OPTIONS", "-Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
        ours = Ilion(tmp_path_factory.mktemp("ours"), settings={**YAML, "auth_bcrypt_gensalt_log2_rounds": 4})
        settings = [f"{key}: {value}" for key, value in YAML.items()]
        with ours, Cassandra(tmp_path_factory.mktemp("theirs"), free_address(), settings=settings) as theirs:
            yield [ours, theirs]


def said(reply):
    """What is compared of an answer."""
    rows = sorted(reply.rows, key=repr)
    columns = [(name, str(kind)) for name, kind in reply.columns]
    return reply.kind, reply.code, reply.error, columns, rows, reply.warnings


def test_the_same_roles_may_do_the_same(nodes):
    connections, differences = {}, []
    for line in (SCRIPT % {"hash": HASH}).strip().splitlines():
        role, statement = line.split(None, 1)
        differs = statement.startswith("! ")
        statement = statement.removeprefix("! ")
        answers = []
        for node in nodes:
            at = (role, node.address)
            if at not in connections:
                connections[at] = Wire(node.address, node.port, login=PASSWORDS.get(role, (role, role)))
            answers.append(said(connections[at].query(statement)))
        if (answers[0] != answers[1]) != differs:
            differences.append(f"{role}: {statement}\n    ours   {answers[0]}\n    theirs {answers[1]}")
    assert not differences, "\n" + "\n".join(differences)


ROLES = ("r0", "r1", "r2", "r3")
RESOURCES = ("ALL KEYSPACES", "KEYSPACE a", "KEYSPACE b", "ALL TABLES IN KEYSPACE a", "a.t", "a.u", "b.t", "ALL ROLES", "ROLE r0", "ROLE r3",
             "KEYSPACE system_views", "system_auth.roles", "KEYSPACE system_distributed")
PERMISSIONS = ("ALL", "SELECT", "MODIFY", "CREATE", "ALTER", "DROP", "AUTHORIZE", "DESCRIBE")
TRIED = ("SELECT * FROM a.t", "SELECT * FROM b.t", "INSERT INTO a.t (k) VALUES (1)", "DELETE FROM a.u WHERE k = 1",
         "INSERT INTO b.t (k) VALUES (1) IF NOT EXISTS", "UPDATE a.u SET v = 1 WHERE k = 1 IF v = 2", "TRUNCATE a.u",
         "BEGIN BATCH INSERT INTO a.t (k) VALUES (1) INSERT INTO b.t (k) VALUES (1) APPLY BATCH",
         "CREATE TABLE IF NOT EXISTS a.t (k int PRIMARY KEY)", "CREATE TYPE IF NOT EXISTS b.y (k int)", "ALTER TABLE a.t WITH comment = ''",
         "ALTER KEYSPACE b WITH durable_writes = true", "DROP TABLE IF EXISTS a.none", "DROP KEYSPACE IF EXISTS none",
         "CREATE ROLE IF NOT EXISTS r0", "DROP ROLE IF EXISTS none", "ALTER ROLE r3 WITH LOGIN = true", "GRANT SELECT ON a.t TO r0",
         "REVOKE MODIFY ON KEYSPACE b FROM r0", "LIST ROLES", "LIST ALL PERMISSIONS OF r0", "LIST ALL PERMISSIONS ON a.t OF r1",
         "SELECT role FROM system_auth.roles WHERE role = 'r0'", "SELECT value FROM system_views.settings WHERE name = 'storage_port'",
         "SELECT * FROM system_distributed.view_build_status", "SELECT * FROM system.batches", "LIST USERS", "LIST ROLES OF r1",
         "GRANT r1 TO r2", "REVOKE r1 FROM r2", "ALTER ROLE r1 WITH PASSWORD = 'r1'", "ADD IDENTITY IF NOT EXISTS 'i' TO ROLE 'r1'",
         "DROP IDENTITY IF EXISTS 'i'", "LIST SELECT ON a.t OF r2 NORECURSIVE", "LIST ROLES OF r2 NORECURSIVE")


def test_grants_drawn_at_random_allow_the_same(nodes):
    draw, connections = random.Random(22), {}

    def told(role, statement):
        for node in nodes:
            if (role, node.address) not in connections:
                connections[role, node.address] = Wire(node.address, node.port, login=PASSWORDS.get(role, (role, role)))
        ours, theirs = (said(connections[role, node.address].query(statement)) for node in nodes)
        assert ours == theirs, (role, statement)

    for keyspace in "ab":
        told("root", f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        for table in "tu":
            told("root", f"CREATE TABLE {keyspace}.{table} (k int PRIMARY KEY, v int)")
    for role in ROLES:
        told("root", f"CREATE ROLE {role} WITH PASSWORD = '{role}' AND LOGIN = true")
    for _ in range(60):
        role, other = draw.sample(ROLES, 2)
        verb, way = draw.choice((("GRANT", "TO"), ("GRANT", "TO"), ("REVOKE", "FROM")))
        what = other if draw.random() < 0.2 else f"{draw.choice(PERMISSIONS)} ON {draw.choice(RESOURCES)}"
        told("root", f"{verb} {what} {way} {role}")
        for statement in draw.sample(TRIED, 8):
            told(draw.choice(ROLES), statement)


def words_of(node, login, version):
    try:
        Wire(node.address, node.port, version=version, login=login).close()
        return "let in"
    except (AuthenticationFailed, NoHostAvailable) as error:
        return str(error).rsplit("message=", 1)[-1]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_logins_are_refused_in_the_same_words(nodes, version):
    for login in [("cassandra", "cassandra"), ("cassandra", "x"), ("nobody", "x"), ("cassandra", ""), ("", "x"), ("chief", "x")]:
        ours, theirs = (words_of(node, login, version) for node in nodes)
        assert ours == theirs, login


def test_roles_survive_a_crash(nodes):
    ours = nodes[0]
    root = Wire(ours.address, ours.port, login=PASSWORDS["root"])
    root.must("CREATE ROLE late WITH PASSWORD = 'late' AND LOGIN = true")
    root.must("GRANT SELECT ON system_auth.roles TO late")
    ours.kill()
    ours.start()
    late = Wire(ours.address, ours.port, login=("late", "late"))
    assert late.must("SELECT role FROM system_auth.roles WHERE role = 'late'").rows == [[b"late"]]


PLACES = {**YAML, "auth_bcrypt_gensalt_log2_rounds": 4, "network_authorizer": "CassandraNetworkAuthorizer",
          "native_transport_max_failed_logins_per_minute_per_ip": 5,
          "cidr_authorizer": json.dumps({"class_name": "CassandraCIDRAuthorizer", "parameters": {"cidr_authorizer_mode": "ENFORCE"}})}


@pytest.fixture
def alone(request, tmp_path):
    """An Ilion without a Cassandra beside it."""
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    with Ilion(tmp_path, settings=PLACES) as node:
        yield node


def as_(node, role):
    return Wire(node.address, node.port, login=PASSWORDS.get(role, (role, role)))


def test_roles_are_held_to_places(alone):
    root = as_(alone, "root")
    datacenter = root.must("SELECT data_center FROM system.local").rows[0][0].decode()
    alone.nodetool("updatecidrgroup", "loopback", "127.0.0.0/8")
    alone.nodetool("updatecidrgroup", "office", "10.0.0.0/8", "192.168.1.7/24")
    assert alone.nodetool("listcidrgroups").split() == ["CIDR", "Groups:", "loopback", "office"]
    assert alone.nodetool("listcidrgroups", "office").split() == ["CIDRs:", "10.0.0.0/8", "192.168.1.0/24"]
    assert alone.nodetool("getcidrgroupsofip", "10.1.2.3") == "", "the groups were read before"
    assert alone.nodetool("reloadcidrgroupscache") == "Reloaded CIDR groups cache\n"
    assert alone.nodetool("getcidrgroupsofip", "10.1.2.3").split() == ["CIDR", "Groups:", "office"]
    for wrong in ("10.0.0.0", "10.0.0.0/33", "example.org/8"):
        with pytest.raises(RuntimeError, match="not a valid CIDR"):
            alone.nodetool("updatecidrgroup", "x", wrong)
    root.must(f"CREATE ROLE bob WITH PASSWORD = 'bob' AND LOGIN = true AND ACCESS TO DATACENTERS {{'{datacenter}'}} "
              "AND ACCESS FROM CIDRS {'office'}")
    bob = as_(alone, "bob")
    local = "SELECT key FROM system.local"
    refused = bob.query(local)
    assert (refused.code, refused.error) == (0x2100, f"You do not have access from this IP {bob.connection._socket.getsockname()[0]}")
    assert root.query("CREATE ROLE x WITH ACCESS FROM CIDRS {'home'}").error == \
        "Invalid CIDR group(s): [home]. Available CIDR Groups are: [loopback, office]"
    root.must("ALTER ROLE bob WITH ACCESS FROM CIDRS {'loopback'}")
    assert bob.query(local).kind == "rows"
    assert [b"bob", datacenter.encode()] in [[row[0], row[4]] for row in root.must("LIST ROLES").rows]
    assert [row[0] for row in root.must("SELECT role FROM system_auth.cidr_permissions").rows] == [b"bob"]
    stats = alone.nodetool("cidrfilteringstats")
    assert "Number of CIDR accesses rejected from CIDR group - loopback" in stats and "CIDR checks latency (ns)" in stats
    for table in ("roles_cache_keys", "network_permissions_cache_keys"):
        assert b"bob" in [row[0] for row in root.must(f"SELECT role FROM system_views.{table}").rows]
    for verb in ("invalidatenetworkpermissionscache", "invalidatecredentialscache", "invalidatejmxpermissionscache"):
        assert alone.nodetool(verb) == ""
    assert alone.nodetool("invalidatecidrpermissionscache") == "Invalidated CIDR permissions cache\n"
    assert alone.nodetool("dropcidrgroup", "office") == "Deleted CIDR group office\n"
    with pytest.raises(RuntimeError, match="CIDR group 'office' doesn't exists"):
        alone.nodetool("dropcidrgroup", "office")
    assert root.query("CREATE ROLE x WITH GENERATED PASSWORD").kind == "error"


def test_failed_logins_are_limited(alone):
    root = as_(alone, "root")
    words = [words_of(alone, ("cassandra", "x"), 5) for _ in range(5)]
    assert all("are incorrect" in said for said in words), words
    assert "have failed" in words_of(alone, ("cassandra", "cassandra"), 5)
    assert root.query("LIST ROLES").kind == "rows", "who is in goes on"


class Reachable:
    """A node whose admin API others can reach. `bob` may read ks.open; `cassandra` is a superuser."""

    def __init__(self, directory):
        self.node = node = Ilion(directory, free_address())
        run([node.binary, "tls", directory / "tls"])
        self.ca, self.key = directory / "tls/ca.crt", directory / "tls/node.pem"
        self.passwords = directory / "passwords"
        self.passwords.write_text("cassandra root-password\nbob bob-password\n")
        (directory / "first").write_text("root-password\n")
        # Clients may do without TLS; the admin API does not.
        tls = {"enabled": True, "optional": True, "keystore": str(self.key)}
        self.metrics_port = free_port()
        node.settings = {**YAML, "auth_bcrypt_gensalt_log2_rounds": 4, "admin_address": "0.0.0.0",
                         "metrics_address": "0.0.0.0", "metrics_port": self.metrics_port,
                         "client_encryption_options": json.dumps(tls)}
        node.start("--initial-superuser-password-file", directory / "first")
        root = Wire(node.address, node.port, login=("cassandra", "root-password"))
        for statement in ("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                          "CREATE TABLE ks.open (k int PRIMARY KEY)", "CREATE TABLE ks.secret (k int PRIMARY KEY)",
                          "INSERT INTO ks.open (k) VALUES (7)", "INSERT INTO ks.secret (k) VALUES (7)",
                          "CREATE ROLE bob WITH PASSWORD = 'bob-password' AND LOGIN = true", "GRANT SELECT ON ks.open TO bob"):
            root.must(statement)

    def tool(self, user, *words):
        """A command of `ilion`, by somebody; status and all that it says."""
        access = ["-u", user, "-pwf", self.passwords] if user else []
        command = [self.node.binary, words[0], "--admin", f"127.0.0.1:{self.node.admin_port}", *access, "--ssl", "--ssl-ca", self.ca, *words[1:]]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def asked(self, path, method="GET", **headers):
        """Status, headers and body of an answer of the admin API."""
        connection = http.client.HTTPSConnection("localhost", self.node.admin_port, timeout=60,
                                                 context=ssl.create_default_context(cafile=str(self.ca)))
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture(scope="module")
def reachable(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    reachable = Reachable(tmp_path_factory.mktemp("reachable"))
    yield reachable
    reachable.node.stop()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_admin_api_is_not_opened_to_others_without_tls_and_logins(reachable, tmp_path):
    tls = {"client_encryption_options": json.dumps({"enabled": True, "keystore": str(reachable.key)})}
    passwords = {"authenticator": "PasswordAuthenticator"}
    for number, (settings, words) in enumerate((({}, "client_encryption_options have to be enabled, and authenticator"),
                                                (tls, "authenticator has to be PasswordAuthenticator"),
                                                (passwords, "client_encryption_options have to be enabled"))):
        node = Ilion(tmp_path / str(number), settings={**settings, "admin_address": "0.0.0.0"})
        with pytest.raises(RuntimeError, match="others can reach 0.0.0.0.*" + words):
            node.start()


def test_the_admin_api_asks_others_for_a_login(reachable):
    status, headers, body = reachable.asked("/api/v1/status")
    assert status == 401 and headers["www-authenticate"].startswith("Basic ") and "You have not logged in" in body
    for path in ("/metrics", "/health", "/nosuch", "/openapi.json"):
        assert reachable.asked(path)[0] == 401
    for login in (basic("bob", "wrong"), basic("nobody", "x"), "Bearer " + "0" * 64, "Basic x", "Digest"):
        status, headers, body = reachable.asked("/metrics", authorization=login)
        assert status == 401 and "authorization" not in headers, login
    bob, root = basic("bob", "bob-password"), basic("cassandra", "root-password")
    status, headers, body = reachable.asked("/metrics", authorization=bob)
    assert status == 200 and "ilion_" in body and "authorization" not in headers
    # Tools get a token.
    status, headers, _ = reachable.asked("/api/v1/status", authorization=bob, X_Ilion_Admin="1")
    assert status == 200 and reachable.asked("/api/v1/status", authorization=headers["authorization"])[0] == 200
    for path, method in (("/api/v1/flush", "POST"), ("/api/v1/drain", "POST"), ("/api/v1/snapshots", "DELETE"), ("/api/v1/reads/slow", "GET"),
                         ("/api/v1/reads/samples", "GET"), ("/api/v1/profile", "POST")):
        status, _, body = reachable.asked(path, method, authorization=bob, X_Ilion_Admin="1")
        assert status == 403 and "bob is not a superuser" in body, path
    assert reachable.asked("/api/v1/reads/slow", authorization=root)[0] == 200
    # A page of another origin has no right to a password that the browser knows.
    assert reachable.asked("/api/v1/tls/reload", "POST", authorization=root)[0] == 403
    assert reachable.asked("/metrics", authorization=root, Origin="https://evil.example")[0] == 403
    assert reachable.asked("/api/v1/tls/reload", "POST", authorization=root, X_Ilion_Admin="1")[0] in (200, 204)
    # Without TLS there is no answer.
    with socket.create_connection(("127.0.0.1", reachable.node.admin_port), timeout=20) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            assert b"HTTP" not in plain.recv(100)
        except ConnectionResetError:
            pass


def test_metrics_have_a_port_of_their_own(reachable, tmp_path):
    def asked(path, method="GET", **headers):
        connection = http.client.HTTPConnection(reachable.node.address, reachable.metrics_port, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    status, body = asked("/metrics", Host="db1.example")
    assert status == 200 and "ilion_logins_total" in body
    assert asked("/health") == (200, '{"status":"up"}')
    for path, method, wanted in (("/api/v1/status", "GET", 404), ("/openapi.json", "GET", 404), ("/metrics", "POST", 405),
                                 ("/api/v1/flush", "POST", 404), ("/api/v1/reads/samples", "GET", 404)):
        assert asked(path, method)[0] == wanted, path
    assert asked("/metrics", Origin="https://evil.example")[0] == 403
    assert reachable.asked("/metrics")[0] == 401, "the admin API goes on to ask"
    # On the loopback address the names of hosts count, as for the admin API.
    own = free_port()
    with Ilion(tmp_path / "own", settings={"metrics_port": own}) as node:
        for host, wanted in ((f"localhost:{own}", 200), ("evil.example", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", own, timeout=60)
            connection.request("GET", "/metrics", headers={"Host": host})
            assert connection.getresponse().status == wanted
        node.stop()
        node.settings = {"metrics_address": "127.0.0.1"}
        with pytest.raises(RuntimeError, match="metrics_address needs metrics_port"):
            node.start()


def test_tools_log_in(reachable, tmp_path):
    status, said = reachable.tool("bob", "nodetool", "status")
    assert status == 0 and "UN" in said
    status, said = reachable.tool("bob", "nodetool", "flush")
    assert status == 2 and "bob is not a superuser" in said
    assert reachable.tool("cassandra", "nodetool", "flush")[0] == 0
    status, said = reachable.tool(None, "nodetool", "status")
    assert status == 2 and "You have not logged in" in said
    status, said = reachable.tool("nobody", "nodetool", "status")
    assert status == 1 and "has no line 'nobody PASSWORD'" in said
    status, said = reachable.tool("bob", "top", "--once")
    assert status == 0, said
    assert reachable.tool("bob", "sql", "--format", "csv", "SELECT k FROM ks.open") == (0, "k\n7\n")
    status, said = reachable.tool("bob", "sql", "SELECT k FROM ks.secret")
    assert status == 1 and "User bob has no SELECT permission on <table ks.secret>" in said
    assert reachable.tool("cassandra", "sql", "--format", "csv", "SELECT k FROM ks.secret") == (0, "k\n7\n")
    status, said = reachable.tool("bob", "export", "ks.open", "--out", tmp_path / "open")
    assert status == 0 and "1 rows in 1 file" in said
    status, said = reachable.tool("bob", "export", "ks.secret", "--out", tmp_path / "secret")
    assert status != 0 and "no SELECT permission" in said
    status, said = reachable.tool(None, "sql", "SELECT 1")
    assert status == 1 and "You have not logged in" in said
    # Another CA, no CA, and a password without TLS.
    run([reachable.node.binary, "tls", tmp_path / "other"])
    place = ["--admin", f"127.0.0.1:{reachable.node.admin_port}", "-u", "bob", "-pw", "bob-password"]
    for words, why in ((["--ssl", "--ssl-ca", tmp_path / "other/ca.crt"], "certificate"), (["--ssl"], "--ssl-ca"),
                       (["--admin", "192.0.2.1:9180"], "as it is: --ssl encrypts it")):
        command = [reachable.node.binary, "nodetool", *(place[2:] if "--admin" in words else place), *words, "status"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and why in done.stdout + done.stderr, done
    command = [reachable.node.binary, "nodetool", *place, "--ssl", "--ssl-ca", reachable.ca, "status"]
    assert "UN" in run(command)
