"""Logins by certificate, and roles that are held to data centers and networks: the same yaml, logins and statements on an Ilion and
on a Cassandra, and the same answers. Twice on the same directories: with passwords beside certificates and networks enforced, then
with certificates alone and networks only watched.

What differs on purpose is in docs/AUTH.md; a line with `!` in front of its statement is one of them.
"""
import json
import shutil
import ssl

import pytest

from harness.frames import AUTH_RESPONSE, AUTH_SUCCESS, AUTHENTICATE, READY, STARTUP, Frames, string_map, value
from harness.node import Cassandra, Ilion, free_address, ilion_binary, run

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
APP, ROOT_ID = "spiffe://example.org/app", "spiffe://example.org/root"
YAML = {"authorizer": "CassandraAuthorizer", "role_manager": "CassandraRoleManager", "network_authorizer": "CassandraNetworkAuthorizer",
        "permissions_validity": "0ms", "roles_validity": "0ms", "credentials_validity": "0ms"}
GROUPS = (("here", "127.0.0.0/8"), ("office", "10.0.0.0/8", "192.168.1.7/24"))
SCRIPT = f"""
root  CREATE ROLE app WITH LOGIN = true
root  CREATE ROLE mute
root  ADD IDENTITY '{APP}' TO ROLE 'app'
root  ADD IDENTITY '{APP}' TO ROLE 'app'
root  ADD IDENTITY '{ROOT_ID}' TO ROLE 'cassandra'
root  ADD IDENTITY '{ROOT_ID}x' TO ROLE 'nobody'
root  CREATE ROLE bob WITH PASSWORD = 'bob' AND LOGIN = true AND ACCESS TO DATACENTERS {{'datacenter1'}} AND ACCESS FROM CIDRS {{'here'}}
root  CREATE ROLE odd WITH PASSWORD = 'x' AND ACCESS TO DATACENTERS {{'datacenter1', 'dc9'}}
root  CREATE ROLE odd WITH PASSWORD = 'x' AND ACCESS FROM CIDRS {{'here', 'home'}}
root  CREATE ROLE far WITH PASSWORD = 'far' AND LOGIN = true AND ACCESS FROM CIDRS {{'office'}}
root  CREATE ROLE both WITH PASSWORD = 'both' AND LOGIN = true AND ACCESS FROM CIDRS {{'office', 'here'}} AND ACCESS TO ALL DATACENTERS
root  ALTER ROLE mute WITH ACCESS TO DATACENTERS {{'datacenter1'}}
root  ALTER ROLE nobody WITH ACCESS TO DATACENTERS {{'datacenter1'}}
root  ALTER ROLE nobody WITH ACCESS FROM CIDRS {{'here'}}
root  ALTER ROLE cassandra WITH ACCESS FROM CIDRS {{'office'}}
root  LIST ROLES
root  LIST ROLES OF bob
root  SELECT * FROM system_auth.network_permissions
root  SELECT * FROM system_auth.cidr_permissions
root  SELECT * FROM system_auth.identity_to_role
root  SELECT cidr_group, cidrs FROM system_auth.cidr_groups
bob   SELECT key FROM system.local
bob   LIST ROLES
bob   ALTER ROLE bob WITH ACCESS FROM ALL CIDRS
bob   ALTER ROLE bob WITH ACCESS TO ALL DATACENTERS
bob   SELECT * FROM system_auth.cidr_groups
both  SELECT key FROM system.local
far   SELECT key FROM system.local
far   USE system
far   LIST ROLES
far   ALTER ROLE far WITH PASSWORD = 'far'
app   SELECT key FROM system.local
root  ALTER ROLE app WITH ACCESS FROM CIDRS {{'office'}}
app   SELECT key FROM system.local
root  ALTER ROLE app WITH ACCESS FROM ALL CIDRS
app   SELECT key FROM system.local
app   SELECT * FROM system_auth.roles
root  ALTER ROLE bob WITH ACCESS FROM CIDRS {{'office'}}
bob   SELECT key FROM system.local
root  ALTER ROLE bob WITH ACCESS FROM CIDRS {{'here', 'office'}} AND ACCESS TO ALL DATACENTERS
bob   SELECT key FROM system.local
root  SELECT * FROM system_auth.network_permissions
root  SELECT * FROM system_auth.cidr_permissions
root  DROP ROLE both
root  SELECT * FROM system_auth.cidr_permissions
root  ALTER ROLE app WITH ACCESS FROM CIDRS {{'office'}}
"""
WATCHED = f"""
root  LIST ROLES
root  SELECT key FROM system.local
app   SELECT key FROM system.local
app   SELECT * FROM system_auth.roles
app   ALTER ROLE app WITH PASSWORD = 'x'
app   ALTER ROLE app WITH ACCESS FROM ALL CIDRS
root  ALTER ROLE app WITH PASSWORD = 'x'
root  CREATE ROLE odd WITH PASSWORD = 'x' AND LOGIN = true
root  CREATE ROLE odd WITH HASHED PASSWORD = 'x'
root  CREATE USER odd WITH PASSWORD 'x'
root  CREATE ROLE odd WITH LOGIN = true
root  SELECT * FROM system_auth.cidr_permissions
root  DROP IDENTITY '{APP}'
root  DROP IDENTITY '{APP}'
root  ADD IDENTITY '{APP}' TO ROLE 'mute'
"""


class Pair:
    """An Ilion and a Cassandra, and certificates of clients: of two roles, of nobody, and without a name."""

    def __init__(self, directory):
        self.contexts, trusted = {None: self.context(None)}, ""
        for name, spiffe in (("app", APP), ("root", ROOT_ID), ("stranger", "spiffe://example.org/stranger"), ("nameless", None)):
            home = directory / name
            run([ilion_binary(), "tls", home, *(["--spiffe", spiffe] if spiffe else [])])
            self.contexts[name] = self.context(home)
            trusted += (home / "ca.crt").read_text()
        (directory / "trusted.pem").write_text(trusted)
        self.options = {"enabled": True, "require_client_auth": True, "keystore": str(directory / "app/node.pem"),
                        "truststore": str(directory / "trusted.pem"),
                        "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"}}
        self.directory, self.ours = directory, Ilion(directory / "ours")
        self.theirs = None

    def context(self, home):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if home:
            context.load_cert_chain(str(home / "client.crt"), str(home / "client.key"))
        return context

    def start(self, authenticator, optional, mode):
        """Cassandra 5.0 asks all clients of TLS for a certificate, or none: whoever has a password alone speaks none."""
        parameters = {"validator_class_name": "org.apache.cassandra.auth.SpiffeCertificateValidator"}
        settings = {**YAML, "authenticator": json.dumps({"class_name": f"org.apache.cassandra.auth.{authenticator}", "parameters": parameters}),
                    "cidr_authorizer": json.dumps({"class_name": "CassandraCIDRAuthorizer", "parameters": {"cidr_authorizer_mode": mode}}),
                    "client_encryption_options": json.dumps({**self.options, "optional": optional})}
        self.ours.settings = {**settings, "auth_bcrypt_gensalt_log2_rounds": 4}
        self.connections, self.optional = {}, optional
        self.ours.start()
        # An address is free when nobody listens on it.
        self.theirs = self.theirs or Cassandra(self.directory / "theirs", free_address())
        self.theirs.settings = [f"{key}: {text}" for key, text in settings.items()]
        self.theirs.start()

    def stop(self):
        for frames in self.connections.values():
            frames.socket.close()
        self.ours.stop()
        self.theirs.stop()

    def both(self, ask):
        return [ask(node) for node in (self.ours, self.theirs)]

    def entered(self, node, certificate, login, version=5):
        """What a login comes to in the end, and its connection."""
        frames = Frames(node, version=version, begin=False, timeout_s=30)
        try:
            if certificate or not self.optional:
                frames.socket = self.contexts[certificate].wrap_socket(frames.socket)
            answer = frames.ask(STARTUP, string_map({"CQL_VERSION": "3.0.0"}))
            if answer is not None and answer.opcode == AUTHENTICATE:
                frames.segments = version >= 5
                token = b"" if login is None else b"\0" + b"\0".join(part.encode() for part in login)
                answer = frames.ask(AUTH_RESPONSE, value(token))
        except (ssl.SSLError, ConnectionError):
            return "no TLS", frames
        frames.segments = version >= 5
        if answer is None:
            return "no TLS", frames
        return ("in" if answer.opcode in (READY, AUTH_SUCCESS) else (answer.code, answer.message)), frames

    def tell(self, script, ways):
        differences = []
        for line in script.strip().splitlines():
            role, statement = line.split(None, 1)
            differs, statement = statement.startswith("! "), statement.removeprefix("! ")
            answers = []
            for node in (self.ours, self.theirs):
                if (role, node.name) not in self.connections:
                    outcome, self.connections[role, node.name] = self.entered(node, *ways[role])
                    assert outcome == "in", (role, node.name, outcome)
                answer = self.connections[role, node.name].query(statement)
                answers.append((answer.opcode, answer.kind, answer.code, answer.message, sorted(answer.rows, key=repr), answer.warnings))
            if (answers[0] != answers[1]) != differs:
                differences.append(f"{role}: {statement}\n    ours   {answers[0]}\n    theirs {answers[1]}")
        return differences

    def logins(self, wanted):
        """Differences of logins: certificate, name and password."""
        found = []
        for certificate, login in wanted:
            for version in (4, 5):
                ours, theirs = self.both(lambda node: self.closed(node, certificate, login, version))
                if ours != theirs:
                    found.append(f"{certificate} {login} v{version}\n    ours   {ours}\n    theirs {theirs}")
        return found

    def closed(self, node, *words):
        outcome, frames = self.entered(node, *words)
        frames.socket.close()
        return outcome


def nodetool(node, *words):
    """What a verb prints, or the last line of why it failed."""
    try:
        return node.nodetool(*words)
    except RuntimeError as failure:
        return str(failure).strip().splitlines()[-1]


def test_certificates_and_places(request, tmp_path, monkeypatch):
    if request.config.getoption("--target") != "ilion" or request.config.getoption("--oracle") == "none":
        pytest.skip("needs an Ilion and a Cassandra of its own")
    monkeypatch.setenv("CASSANDRA_SHORT", "1")
    monkeypatch.setenv("CASSANDRA_OPTIONS", "-Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
    pair = Pair(tmp_path)
    passwords = {"root": (None, ("cassandra", "cassandra")), "app": ("app", None)}
    passwords.update({role: (None, (role, role)) for role in ("bob", "far", "both")})
    differences = []
    try:
        pair.start("MutualTlsWithPasswordFallbackAuthenticator", True, "ENFORCE")
        for group in GROUPS:
            pair.both(lambda node: node.nodetool("updatecidrgroup", *group))
        pair.both(lambda node: node.nodetool("reloadcidrgroupscache"))
        differences += pair.tell(SCRIPT, passwords)
        differences += pair.logins([(None, ("cassandra", "cassandra")), (None, ("cassandra", "x")), (None, ("app", "app")), (None, None),
                                    (None, ("far", "far")), (None, ("mute", "x")), ("stranger", ("cassandra", "cassandra")),
                                    ("nameless", ("cassandra", "cassandra")), ("app", ("cassandra", "cassandra")), ("root", None)])
        pair.stop()
        pair.start("MutualTlsAuthenticator", False, "MONITOR")
        certificates = {"root": ("root", None), "app": ("app", None)}
        differences += pair.logins([(None, None), ("stranger", None), ("nameless", None)])
        differences += pair.tell(WATCHED, certificates)
        differences += pair.logins([("app", None), ("root", ("bob", "x"))])
    finally:
        pair.ours.kill()
        if pair.theirs:
            pair.theirs.kill()
    assert not differences, "\n" + "\n".join(differences)
