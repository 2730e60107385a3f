"""One connection that answers with raw values, on top of the Python driver's frames.

The driver's `Connection` does framing, checksums, compression and the handshake; results are decoded here, so that
what a test sees is what was on the wire: bytes or null, and the type the server named.
"""
import io
import struct
import threading

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster
from cassandra.connection import DefaultEndPoint
from cassandra.protocol import (BatchMessage, ErrorMessage, ExecuteMessage, PrepareMessage, ProtocolHandler, QueryMessage,
                                ResultMessage, _UNSET_VALUE)

from harness.types import UNSET, read_type

# The flag of parameters whose values have names.
NAMED = 0x40
LEVELS = {name: value for value, name in ConsistencyLevel.value_to_name.items()}


class RawResult(ResultMessage):
    """A RESULT whose rows stay bytes."""

    @classmethod
    def read_type(cls, f, user_type_map):
        return read_type(f)

    def recv_results_rows(self, f, protocol_version, user_type_map, result_metadata, column_encryption_policy):
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata or []
        (count,) = struct.unpack(">i", f.read(4))
        self.parsed_rows = [[read_bytes(f) for _ in columns] for _ in range(count)]


def read_bytes(f):
    (length,) = struct.unpack(">i", f.read(4))
    return None if length < 0 else f.read(length)


class RawHandler(ProtocolHandler):
    message_types_by_opcode = {**ProtocolHandler.message_types_by_opcode, RawResult.opcode: RawResult}


class _Named:
    """Parameters whose values have names. The driver sends none: they are put before the values that it writes."""

    names = None

    def _write_query_params(self, f, protocol_version):
        written = io.BytesIO()
        super()._write_query_params(written, protocol_version)
        parameters = written.getvalue()
        width = 4 if protocol_version >= 5 else 1
        flags = int.from_bytes(parameters[2:2 + width], "big") | NAMED
        at = 2 + width + 2
        f.write(parameters[:2] + flags.to_bytes(width, "big") + parameters[at - 2:at])
        for name in self.names:
            (length,) = struct.unpack(">i", parameters[at:at + 4])
            end = at + 4 + max(length, 0)
            f.write(struct.pack(">H", len(name.encode())) + name.encode() + parameters[at:end])
            at = end
        f.write(parameters[at:])


class _NamedQuery(_Named, QueryMessage):
    pass


class _NamedExecute(_Named, ExecuteMessage):
    pass


class Reply:
    """What a request was answered with: `kind` is rows, void, schema, keyspace, prepared or error."""

    def __init__(self, message):
        self.message = message
        self.warnings = list(getattr(message, "warnings", None) or [])
        self.columns, self.rows, self.paging_state = [], [], None
        self.code = self.error = self.info = None
        if isinstance(message, ErrorMessage):
            self.kind, self.code, self.error, self.info = "error", message.code, message.message, message.info
        elif isinstance(message, Exception):
            raise message
        else:
            self.kind = {1: "void", 2: "rows", 3: "keyspace", 4: "prepared", 5: "schema"}[message.kind]
            if self.kind == "rows":
                self.columns = [(c[2], c[3]) for c in message.column_metadata or []]
                self.rows, self.paging_state = message.parsed_rows, message.paging_state


class Wire:
    """A connection to `host:port` with protocol `version`, and the requests a test needs."""

    # Whether the node is of a release that lacks what 5.0 has.
    is_older = False

    def __init__(self, host, port=9042, version=5, compression=False, timeout_s=60, login=None):
        self.host, self.port, self.version = host, port, version
        self.compression, self.timeout_s, self.login = compression, timeout_s, login
        self.keyspace = None
        self.open()

    def open(self):
        factory = Cluster.connection_class
        factory.initialize_reactor()
        authenticator = self.login and PlainTextAuthProvider(*self.login).new_authenticator(self.host)
        self.connection = factory.factory(DefaultEndPoint(self.host, self.port), 30, protocol_version=self.version,
                                          compression=self.compression, authenticator=authenticator)
        self.connection.user_type_map = {}
        if self.keyspace:
            self.query(f'USE "{self.keyspace}"')

    def close(self):
        self.connection.close()

    def send(self, message):
        if self.connection.is_closed or self.connection.is_defunct:
            self.open()  # a protocol error costs the connection in the driver
        done, got, connection = threading.Event(), [], self.connection
        with connection.lock:
            request_id = connection.get_request_id()
            connection.in_flight += 1

        def answered(response):
            with connection.lock:
                connection.in_flight -= 1
            got.append(response)
            done.set()

        connection.send_msg(message, request_id, answered, decoder=RawHandler.decode_message)
        if not done.wait(self.timeout_s):
            raise TimeoutError(f"no answer within {self.timeout_s} s to {getattr(message, 'query', message)!r}")
        reply = Reply(got[0])
        if reply.kind == "keyspace":
            self.keyspace = reply.message.new_keyspace
        return reply

    def query(self, text, consistency="ONE", values=None, names=None, **options):
        """A QUERY, with values for its markers if it has any; they may be named."""
        message = (_NamedQuery if names else QueryMessage)(text, LEVELS[consistency], **serial(options))
        message.query_params, message.names = values and _marked_unset(values), names
        return self.send(message)

    def prepare(self, text):
        return self.send(PrepareMessage(text))

    def execute(self, prepared, values, consistency="ONE", names=None, **options):
        message = (_NamedExecute if names else ExecuteMessage)(
            prepared.message.query_id, _marked_unset(values), LEVELS[consistency],
            result_metadata_id=prepared.message.result_metadata_id, **serial(options))
        message.names = names
        return self.send(message)

    def batch(self, kind, queries, consistency="ONE", **options):
        return self.send(BatchMessage(kind, queries, LEVELS[consistency], **serial(options)))

    def must(self, text, **options):
        """A query that has to succeed."""
        reply = self.query(text, **options)
        if reply.kind == "error":
            raise AssertionError(f"{text}\n  error {reply.code:#06x}: {reply.error}")
        return reply

    def pages(self, ask):
        """All rows of a select asked page by page: `ask(paging_state)` sends one request. Returns the last reply."""
        reply, rows = ask(None), []
        while reply.kind == "rows":
            rows += reply.rows
            if reply.paging_state is None:
                reply.rows = rows
                break
            reply = ask(reply.paging_state)
        return reply


def _marked_unset(values):
    return [_UNSET_VALUE if v is UNSET else v for v in values]


def serial(options):
    level = options.pop("serial_consistency", None)
    if level:
        options["serial_consistency_level"] = LEVELS[level]
    return options


def bind_types(prepared):
    """(name, type) of each bind marker of a PREPARED reply."""
    return [(c.name, c.type) for c in prepared.message.bind_metadata]


