"""Arrow Flight SQL of a node, for tests: commands of stock clients, and a node where everybody logs in."""
import json
import ssl

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow.flight
from adbc_driver_flightsql import DatabaseOptions
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

from harness.node import Ilion, free_address, free_port, run


def statement_descriptor(statement):
    """The command of a statement, as protobuf has it."""
    def field(number, value):
        return bytes([number << 3 | 2, *varint(len(value))]) + value

    def varint(n):
        while n > 127:
            yield n & 127 | 128
            n >>= 7
        yield n

    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return pyarrow.flight.FlightDescriptor.for_command(field(1, url) + field(2, field(1, statement.encode())))


class Guarded:
    """A node where Flight speaks TLS and everybody logs in. `bob` may read fl.open, `amy` nothing, `root` everything."""

    def __init__(self, directory, **settings):
        self.node = Ilion(directory, free_address())
        run([self.node.binary, "tls", directory / "tls", "--host", self.node.address, "--host", "localhost"])
        self.ca = directory / "tls/ca.crt"
        options = {"enabled": True, "optional": False, "keystore": str(directory / "tls/node.pem")}
        self.node.flight_port = free_port(self.node.address)
        self.node.settings = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer",
                              "auth_bcrypt_gensalt_log2_rounds": 4, "flight_port": self.node.flight_port,
                              "dynamic_data_masking_enabled": "true",
                              "client_encryption_options": json.dumps(options), **settings}
        (directory / "password").write_text("root-password\n")
        self.start()

    def start(self):
        self.node.start("--initial-superuser-password-file", self.node.directory / "password", "--log-level", "trace")
        context = ssl.create_default_context(cafile=str(self.ca))
        context.check_hostname = False
        self.cluster = Cluster([self.node.address], port=self.node.port, ssl_context=context, connect_timeout=20,
                               auth_provider=PlainTextAuthProvider("cassandra", "root-password"))
        self.root = self.cluster.connect()

    def stop(self):
        self.cluster.shutdown()
        self.node.stop()

    @property
    def place(self):
        return f"grpc+tls://{self.node.address}:{self.node.flight_port}"

    def raw(self):
        return pyarrow.flight.connect(self.place, tls_root_certs=self.ca.read_bytes())

    def options(self, user, password=None):
        """Of calls by somebody who has just logged in."""
        with self.raw() as client:
            return pyarrow.flight.FlightCallOptions(headers=[client.authenticate_basic_token(user, password or f"{user}-password")])

    def adbc(self, user):
        return flightsql.connect(self.place, db_kwargs={"username": user, "password": f"{user}-password",
                                                        DatabaseOptions.TLS_ROOT_CERTS.value: self.ca.read_text()})
