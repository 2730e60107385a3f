"""The edges of the native protocol, which no driver goes near: each on the wire, byte by byte."""
import struct

import lz4.block
import pytest

from harness.frames import (AUTH_RESPONSE, AUTH_SUCCESS, BATCH, COMPRESSED, ERROR, EVENT, EXECUTE, OPTIONS, PAYLOAD, QUERY, READY, REGISTER, RESULT, STARTUP, SUPPORTED,
                            Frames, long_string, segment, short_bytes, string, string_map, until, value)
from harness.node import Ilion, ilion_binary

KEYSPACE = "protocol_edges"
SERVER, PROTOCOL, INVALID, SYNTAX, UNPREPARED = 0x0000, 0x000A, 0x2200, 0x2000, 0x2500


def number(n):
    return struct.pack(">i", n)


def make(wire, keyspace=KEYSPACE):
    wire.must(f"DROP KEYSPACE IF EXISTS {keyspace}")
    wire.must(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    wire.must(f"CREATE TABLE {keyspace}.t (k int, c int, v text, b blob, PRIMARY KEY (k, c))")


@pytest.fixture(scope="module")
def table(target):
    with Frames(target) as wire:
        make(wire)
    yield f"{KEYSPACE}.t"
    with Frames(target) as wire:
        wire.must(f"DROP KEYSPACE {KEYSPACE}")


@pytest.fixture(params=[3, 4, 5])
def wire(request, target, table):
    with Frames(target, request.param) as wire:
        yield wire


@pytest.fixture
def v5(target, table):
    with Frames(target, 5) as wire:
        yield wire


def test_the_present_comes_with_the_request(v5, table):
    then = 2_000_000_000
    v5.must(f"INSERT INTO {table} (k, c, v) VALUES (1, 1, 'x') USING TTL 100", now=then)
    ttl = f"SELECT ttl(v) FROM {table} WHERE k = 1"
    assert v5.must(ttl, now=then + 40).rows == [[number(60)]]
    assert v5.must(ttl, now=then + 99).rows == [[number(1)]]
    assert v5.must(ttl, now=then + 100).rows == []
    prepared = v5.prepare(ttl)
    assert v5.execute(prepared, now=then + 50).rows == [[number(50)]]
    batch = struct.pack(">BH", 0, 1) + b"\0" + long_string(f"UPDATE {table} USING TTL 10 SET v = 'y' WHERE k = 1 AND c = 1")
    batch += struct.pack(">H", 0) + struct.pack(">HIi", 1, 0x100, then)
    assert v5.ask(BATCH, batch).kind == "void"
    assert v5.must(ttl, now=then + 4).rows == [[number(6)]]


@pytest.mark.parametrize("now", [0, 2**31 - 105, 2**31 - 2, -2**31, -105, -2])
def test_any_present_may_come_with_the_request(v5, table, now):
    """Cassandra 5 counts it unsigned. What would expire later than the format can say expires then."""
    v5.must(f"INSERT INTO {table} (k, c, v) VALUES (3, 1, 'x') USING TTL 100", now=now)
    v5.must(f"INSERT INTO {table} (k, c, v) VALUES (3, 2, 'x')", now=now)
    v5.must(f"DELETE FROM {table} WHERE k = 3 AND c = 2", now=now)
    v5.must(f"DELETE FROM {table} WHERE k = 3 AND c > 5", now=now)
    read = f"SELECT c FROM {table} WHERE k = 3"
    last = 2**31 - 2
    assert len(v5.must(read, now=now).rows) == (now in (0, last - 103))
    assert v5.must(read, now=min(now + 99, last) if now >= 0 else 0).rows == ([] if now == last else [[number(1)]])
    assert v5.must(read, now=-1).rows == []


def test_the_keyspace_comes_with_the_request(v5, table):
    assert v5.query("INSERT INTO t (k, c) VALUES (2, 1)").code == INVALID
    v5.must("INSERT INTO t (k, c) VALUES (2, 1)", keyspace=KEYSPACE)
    assert len(v5.must("SELECT * FROM t WHERE k = 2", keyspace=KEYSPACE).rows) == 1
    prepared = v5.prepare("SELECT c FROM t WHERE k = ?", keyspace=KEYSPACE)
    assert v5.execute(prepared, values=[number(2)]).rows == [[number(1)]]
    v5.must("USE system")
    assert len(v5.must("SELECT * FROM t WHERE k = 2", keyspace=KEYSPACE).rows) == 1
    assert v5.query("SELECT * FROM t WHERE k = 2").code == INVALID
    batch = struct.pack(">BH", 1, 1) + b"\0" + long_string("INSERT INTO t (k, c) VALUES (2, 2)") + struct.pack(">H", 0)
    batch += struct.pack(">HI", 1, 0x80) + string(KEYSPACE)
    assert v5.ask(BATCH, batch).kind == "void"
    assert len(v5.must("SELECT * FROM t WHERE k = 2", keyspace=KEYSPACE).rows) == 2


def test_a_custom_payload_is_carried_and_ignored(target, table):
    for version in (4, 5):
        with Frames(target, version) as wire:
            lead = struct.pack(">H", 2) + string("one") + value(b"\x01\x02") + string("none") + value(None)
            answer = wire.query(f"SELECT c FROM {table} WHERE k = 99", flags=PAYLOAD, lead=lead)
            assert (answer.kind, answer.rows, answer.payload) == ("rows", [], {})


def test_options_are_answered_at_any_time(target, wire):
    with Frames(target, wire.version, begin=False) as early:
        for connection in (early, wire):
            answer = connection.ask(OPTIONS)
            assert answer.opcode == SUPPORTED
            options = {}
            for _ in range(answer.body.number("H")):
                name = answer.body.string()
                options[name] = [answer.body.string() for _ in range(answer.body.number("H"))]
            assert {"3/v3", "4/v4", "5/v5"} <= set(options["PROTOCOL_VERSIONS"])
            assert options["CQL_VERSION"] == ["3.4.7"] and set(options["COMPRESSION"]) == {"snappy", "lz4"}


def test_nothing_comes_before_startup(target):
    with Frames(target, begin=False) as wire:
        answer = wire.query("SELECT * FROM system.local")
        assert (answer.code, answer.message) == (PROTOCOL, "Unexpected message QUERY, expecting STARTUP or OPTIONS")
        assert answer.stream == 0


def test_a_startup_that_cannot_be_read_is_answered_on_stream_0(target):
    whole = string_map({"CQL_VERSION": "3.0.0"})
    for cut, code in ((0, SERVER), (1, SERVER), (2, PROTOCOL), (len(whole) - 1, PROTOCOL)):
        with Frames(target, 4, begin=False) as wire:
            answer = wire.ask(STARTUP, whole[:cut], stream=7)
            assert (answer.opcode, answer.stream, answer.code) == (ERROR, 0, code), (cut, answer)
            assert wire.ask(OPTIONS).opcode == SUPPORTED


@pytest.mark.parametrize("settings, message", [
    ({}, "Missing value CQL_VERSION in STARTUP message"),
    ({"CQL_VERSION": "3.0.0", "COMPRESSION": "zip"}, "Unknown compression algorithm: zip"),
    ({"CQL_VERSION": "2.0.0"}, "CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)"),
])
def test_a_startup_that_cannot_be_met_is_refused(target, settings, message):
    with Frames(target, 4, begin=False) as wire:
        answer = wire.ask(STARTUP, string_map(settings))
        assert (answer.code, answer.message) == (PROTOCOL, message)


def test_an_unknown_version_is_answered_with_those_there_are(target):
    with Frames(target, begin=False) as wire:
        answer = wire.ask(OPTIONS, version=0x42)
        assert (answer.opcode, answer.code, answer.stream) == (ERROR, PROTOCOL, 0)
        assert "Invalid or unsupported protocol version (66)" in answer.message, answer
        assert "3/v3, 4/v4, 5/v5" in answer.message, answer


def test_an_unknown_opcode_is_an_error(v5):
    answer = v5.ask(0x7E, stream=77)
    assert (answer.code, answer.message) == (PROTOCOL, "Unknown opcode 126"), answer


def test_an_opcode_of_v1_is_not_supported(wire):
    answer = wire.ask(0x04, b"\0\0", stream=9)
    assert (answer.stream, answer.code, answer.message) == (9, PROTOCOL, "Unsupported message"), answer
    assert wire.ask(OPTIONS).opcode == SUPPORTED


def test_an_auth_response_that_nobody_asked_for_is_believed(wire):
    answer = wire.ask(AUTH_RESPONSE, value(b"whoever"), stream=9)
    assert (answer.stream, answer.opcode, answer.body.raw) == (9, AUTH_SUCCESS, value(None))


def test_another_version_is_an_error_of_its_request(wire):
    other = 4 if wire.version != 4 else 3
    answer = wire.ask(OPTIONS, version=other, stream=11)
    assert (answer.version, answer.stream, answer.code) == (wire.version, 11, PROTOCOL), answer
    assert answer.message.startswith(f"Invalid message version. Got {other}/v{other} but previous"), answer
    assert wire.ask(OPTIONS).opcode == SUPPORTED


def test_a_negative_stream_and_bytes_behind_a_body_are_taken(wire):
    assert wire.ask(OPTIONS, stream=-5).stream == -5
    assert wire.ask(OPTIONS, b"more", stream=6).opcode == SUPPORTED


def test_a_body_that_ends_too_early_is_an_error_of_its_request(wire, table):
    text = f"SELECT c FROM {table} WHERE k = ?"
    whole = wire.query_body(text, values=[number(1)], page_size=5)
    for cut in range(len(whole)):
        answer = wire.ask(QUERY, whole[:cut], stream=33)
        assert (answer.opcode, answer.stream) == (ERROR, 33), (cut, answer)
        # What runs over the end is the client's fault if it is a string, and the server's if it is a number.
        assert answer.code == (PROTOCOL if cut < 4 + len(text) else SERVER), (cut, answer)
    batch = struct.pack(">BH", 0, 1) + b"\0" + long_string(text) + struct.pack(">HH", 0, 1)
    for cut in range(len(batch)):
        answer = wire.ask(BATCH, batch[:cut], stream=34)
        assert (answer.opcode, answer.stream) == (ERROR, 34), (cut, answer)
        assert answer.code == (PROTOCOL if 4 <= cut < 8 + len(text) else SERVER), (cut, answer)
    assert wire.must(f"SELECT c FROM {table} WHERE k = -1").rows == []


@pytest.mark.parametrize("version", [3, 4])
def test_a_body_that_does_not_open(target, table, on_ilion, version):
    for algorithm, damaged, code in (("lz4", b"\0\0\0\x09\x50hello", SERVER), ("lz4", b"\xff" * 20, SERVER),
                                     ("snappy", b"\xff" * 20, PROTOCOL), ("snappy", b"\x09\x10hello", PROTOCOL)):
        with Frames(target, version, {"COMPRESSION": algorithm}) as wire:
            wire.opens = False
            answer = wire.ask(QUERY, damaged, stream=9, flags=COMPRESSED)
            # Cassandra answers on stream 0, which may be another request's.
            assert (answer.opcode, answer.stream) == (ERROR, 9 if on_ilion else 0), answer
            raw = answer.body.raw
            if algorithm == "lz4" and answer.is_compressed:
                raw = lz4.block.decompress(raw[4:], uncompressed_size=int.from_bytes(raw[:4]))
            # The first literal of a compressed answer has the code in it.
            assert struct.pack(">i", code) in raw[:8], (algorithm, raw)
            assert wire.ask(OPTIONS, stream=10).opcode == SUPPORTED


@pytest.mark.parametrize("cut", [5, -5], ids=["header", "body"])
def test_a_segment_that_ends_inside_an_envelope(v5, cut, on_ilion):
    lone = v5.envelope(QUERY, v5.query_body("SELECT key FROM system.local"), stream=9)
    v5.socket.sendall(segment(lone[:cut]))
    answer = v5.receive()
    assert (answer.opcode, answer.stream, answer.code) == (ERROR, 0, SERVER), answer
    if on_ilion:
        assert v5.is_closed()
    else:
        # Cassandra leaves the connection open, and says the same to whatever follows.
        assert v5.ask(OPTIONS, stream=10).code == SERVER


@pytest.mark.parametrize("at", [1, 4, 12, -1], ids=["header", "header's checksum", "payload", "payload's checksum"])
def test_a_damaged_segment_ends_the_connection(v5, table, at):
    damaged = bytearray(segment(v5.envelope(OPTIONS, b"", stream=1)))
    damaged[at] ^= 0x10
    v5.socket.sendall(bytes(damaged) + b"\0" * 64)
    answer = v5.receive()
    assert answer is None or answer.code in (PROTOCOL, 0), answer
    assert v5.is_closed()


def test_an_envelope_over_the_limit_is_refused(wire, table):
    body = wire.query_body(f"INSERT INTO {table} (k, c, b) VALUES (3, 1, ?)", values=[bytes(17 << 20)])
    try:
        wire.send(wire.envelope(QUERY, body, stream=5))
    except (BrokenPipeError, ConnectionResetError):
        pass
    answer = wire.receive()
    assert answer is not None and answer.code == INVALID and answer.stream == 5, answer
    length = len(body) + (0 if wire.segments else 9)
    assert str(length) in answer.message and "maximum" in answer.message, answer


def test_a_thousand_requests_are_in_flight(wire, table):
    insert = wire.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
    select = wire.prepare(f"SELECT v FROM {table} WHERE k = ? AND c = ?")
    ids = lambda p: short_bytes(p.id) + (short_bytes(p.metadata_id) if wire.version >= 5 else b"")  # noqa: E731
    from harness.frames import parameters
    k = number(1000 + wire.version)

    def flood(prepared, values):
        sent = b""
        for i in range(1000):
            body = ids(prepared) + parameters(wire.version, values=values(i))
            envelope = wire.envelope(EXECUTE, body, stream=i)
            if wire.segments and len(sent) + len(envelope) > 100_000:
                wire.send(sent)
                sent = b""
            sent += envelope
        wire.send(sent)
        return {answer.stream: answer for answer in (wire.receive() for _ in range(1000))}

    written = flood(insert, lambda i: [k, number(i), str(i).encode()])
    assert sorted(written) == list(range(1000)) and all(a.kind == "void" for a in written.values())
    read = flood(select, lambda i: [k, number(i)])
    assert all(read[i].rows == [[str(i).encode()]] for i in range(1000))


def test_a_value_of_many_segments(wire, table):
    large = bytes(range(256)) * (40 << 10)
    k = 2000 + wire.version
    wire.must(f"INSERT INTO {table} (k, c, b) VALUES ({k}, 1, ?)", values=[large])
    assert wire.must(f"SELECT b FROM {table} WHERE k = {k}").rows == [[large]]
    wire.must(f"DELETE FROM {table} WHERE k = {k}")


def test_several_requests_share_a_segment(v5, table):
    v5.socket.sendall(segment(b"".join(v5.envelope(QUERY, v5.query_body(f"SELECT c FROM {table} WHERE k = -{i}"), stream=i)
                                       for i in range(1, 6))))
    assert sorted(v5.receive().stream for _ in range(5)) == [1, 2, 3, 4, 5]


def test_an_unknown_statement_is_told_with_its_id(wire):
    unknown = bytes(16)
    ids = short_bytes(unknown) + (short_bytes(unknown) if wire.version >= 5 else b"")
    answer = wire.ask(EXECUTE, ids + struct.pack(">H", 1) + (b"\0" * 4 if wire.version >= 5 else b"\0"))
    assert answer.code == UNPREPARED and answer.body.take(answer.body.number("H")) == unknown


def test_a_paging_state_that_is_none(wire, table):
    answer = wire.query(f"SELECT c FROM {table}", page_size=1, paging_state=b"\xff\xfe\xfd\xfc")
    assert (answer.code, answer.message) == (PROTOCOL, "Invalid value for the paging state"), answer


def test_schema_changes_are_told_in_order(target, wire):
    keyspace = f"{KEYSPACE}_{wire.version}"
    wire.must(f"DROP KEYSPACE IF EXISTS {keyspace}")
    with Frames(target, wire.version) as listener:
        ready = listener.ask(REGISTER, struct.pack(">H", 3) + string("SCHEMA_CHANGE") + string("STATUS_CHANGE") +
                             string("TOPOLOGY_CHANGE"))
        assert ready.opcode == READY
        for statement in ("CREATE KEYSPACE $ WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                          "CREATE KEYSPACE IF NOT EXISTS $ WITH replication = {'class': 'SimpleStrategy', "
                          "'replication_factor': 1}",
                          "CREATE TYPE $.y (a int)", "ALTER TYPE $.y ADD b int", "CREATE TABLE $.t (k int PRIMARY KEY, v int)",
                          "ALTER TABLE $.t ADD w int", "ALTER TABLE $.t DROP w", "TRUNCATE $.t", "DROP TABLE $.t",
                          "DROP TYPE $.y", "CREATE TYPE $.z (a int)", "CREATE TABLE $.u (k int PRIMARY KEY, v $.z)",
                          "CREATE TABLE $.a (k int PRIMARY KEY)", "CREATE TYPE $.b (c int)",
                          "ALTER TYPE $.z ADD b int",
                          "ALTER KEYSPACE $ WITH durable_writes = true", "ALTER KEYSPACE $ WITH durable_writes = false",
                          "DROP KEYSPACE $", "DROP KEYSPACE IF EXISTS $"):
            wire.must(statement.replace("$", keyspace))
        told = []
        while not told or told[-1] != ("DROPPED", "KEYSPACE", keyspace, None):
            answer = listener.receive()
            assert (answer.opcode, answer.stream, answer.body.string()) == (EVENT, -1, "SCHEMA_CHANGE")
            change, kind, of = answer.body.string(), answer.body.string(), answer.body.string()
            told.append((change, kind, of, answer.body.string() if kind != "KEYSPACE" else None))
    of_keyspace = [one for one in told if one[2] == keyspace]
    of_keyspace[-5:-1] = sorted(of_keyspace[-5:-1], key=str)  # the order within a keyspace that goes is its own
    assert of_keyspace == [(change, kind, keyspace, name) for change, kind, name in [
        ("CREATED", "KEYSPACE", None), ("CREATED", "TYPE", "y"), ("UPDATED", "TYPE", "y"), ("CREATED", "TABLE", "t"),
        ("UPDATED", "TABLE", "t"), ("UPDATED", "TABLE", "t"), ("DROPPED", "TABLE", "t"), ("DROPPED", "TYPE", "y"),
        ("CREATED", "TYPE", "z"), ("CREATED", "TABLE", "u"), ("CREATED", "TABLE", "a"), ("CREATED", "TYPE", "b"),
        ("UPDATED", "TYPE", "z"), ("UPDATED", "TABLE", "u"), ("UPDATED", "KEYSPACE", None), ("DROPPED", "TABLE", "a"),
        ("DROPPED", "TABLE", "u"), ("DROPPED", "TYPE", "b"), ("DROPPED", "TYPE", "z"), ("DROPPED", "KEYSPACE", None)]]


def test_statements_and_paging_states_outlive_a_restart(target, wire, table):
    if not target.restarts:
        pytest.skip("the node is not ours to restart")
    k = number(3000 + wire.version)
    insert = wire.prepare(f"INSERT INTO {table} (k, c) VALUES (?, ?)")
    for c in range(10):
        assert wire.execute(insert, values=[k, number(c)]).kind == "void"
    select = wire.prepare(f"SELECT c FROM {table} WHERE k = ?")
    first = wire.execute(select, values=[k], page_size=4)
    until(lambda: len(wire.must("SELECT prepared_id FROM system.prepared_statements").rows) >= 2)
    target.restart()
    with Frames(target, wire.version) as again:
        second = again.execute(select, values=[k], page_size=4, paging_state=first.paging_state)
        assert second.opcode == RESULT, second
        third = again.execute(select, values=[k], page_size=4, paging_state=second.paging_state)
        got = [struct.unpack(">i", row[0])[0] for page in (first, second, third) for row in page.rows]
        assert got == list(range(10)) and third.paging_state is None
        repeated = again.execute(select, values=[k], page_size=4, paging_state=first.paging_state)
        assert repeated.rows == second.rows
        assert again.execute(insert, values=[k, number(10)]).kind == "void"


def test_connections_over_the_limit_are_closed(needs_ilion, tmp_path):
    with Ilion(tmp_path, binary=ilion_binary(), settings={"native_transport_max_concurrent_connections": 2}) as node:
        with Frames(node) as one, Frames(node):
            with Frames(node, begin=False) as third:
                assert third.is_closed()
            assert one.must("SELECT key FROM system.local").rows == [[b"local"]]
