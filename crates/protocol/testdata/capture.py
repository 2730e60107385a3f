#!/usr/bin/env python3
"""Records what a real Cassandra answers: capture.py ADDRESS > frames.txt

Lines of the output, everything in hexadecimal:
    > VERSION NAME ENVELOPE     a request
    < VERSION NAME ENVELOPE     the answer to it
    = LAYOUT NAME SEGMENT       one v5 segment as Cassandra sent it, LAYOUT plain or lz4
    ~ CODEC NAME ENVELOPE       a v4 response with its body compressed by lz4 or snappy
"""
import socket
import struct
import sys
import zlib

ADDRESS = (sys.argv[1], 9042)
KEYSPACE = "protocol_golden"


def string(text):
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def long_string(text):
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def value(data):
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def crc24(data):
    register = 0x875060
    for byte in data:
        register ^= byte << 16
        for _ in range(8):
            register <<= 1
            if register & 0x1000000:
                register ^= 0x1974F0B
    return register & 0xFFFFFF


def plain_segment(payload):
    fields = (len(payload) | 1 << 17).to_bytes(3, "little")
    crc = zlib.crc32(payload, zlib.crc32(b"\xfa\x2d\x55\xca"))
    return fields + crc24(fields).to_bytes(3, "little") + payload + crc.to_bytes(4, "little")


def lz4_segment(payload):
    """Not compressed: uncompressed length 0."""
    fields = (len(payload) | 1 << 34).to_bytes(5, "little")
    crc = zlib.crc32(payload, zlib.crc32(b"\xfa\x2d\x55\xca"))
    return fields + crc24(fields).to_bytes(3, "little") + payload + crc.to_bytes(4, "little")


class Connection:
    def __init__(self, version, compression=None, record=True):
        self.version, self.compression, self.record = version, compression, record
        self.socket = socket.create_connection(ADDRESS, timeout=10)
        self.framed = False
        self.pending = b""
        self.ask("options", 0x05, b"")
        options = [("CQL_VERSION", "3.4.5")] + ([("COMPRESSION", compression)] if compression else [])
        body = struct.pack(">H", len(options)) + b"".join(string(k) + string(v) for k, v in options)
        self.ask("startup", 0x01, body)
        self.framed = version >= 5

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def read_envelope(self, name):
        if not self.framed:
            header = self.exactly(9)
            envelope = header + self.exactly(struct.unpack(">I", header[5:])[0])
            if header[1] & 1:
                print("~", self.compression, name, envelope.hex())
            return envelope
        while len(self.pending) < 9 or len(self.pending) < 9 + struct.unpack(">I", self.pending[5:9])[0]:
            width = 5 if self.compression else 3
            header = self.exactly(width + 3)
            length = int.from_bytes(header[:width], "little") & 0x1FFFF
            segment = header + self.exactly(length + 4)
            print("=", self.compression or "plain", name, segment.hex())
            plain = int.from_bytes(header[:width], "little") >> 17 & 0x1FFFF if self.compression else 0
            payload = segment[width + 3 : -4]
            if plain:
                import lz4.block

                payload = lz4.block.decompress(payload, plain)
            self.pending += payload
        end = 9 + struct.unpack(">I", self.pending[5:9])[0]
        envelope, self.pending = self.pending[:end], self.pending[end:]
        return envelope

    def ask(self, name, opcode, body, flags=0):
        envelope = struct.pack(">BBhBi", self.version, flags, 7, opcode, len(body)) + body
        data = envelope
        if self.framed:
            data = lz4_segment(envelope) if self.compression else plain_segment(envelope)
        self.socket.sendall(data)
        answer = self.read_envelope(name)
        if self.record:
            print(">", self.version, name, envelope.hex())
            print("<", self.version, name, answer.hex())
        return answer

    def params(self, flags=0, rest=b"", consistency=1):
        return struct.pack(">HI" if self.version >= 5 else ">HB", consistency, flags) + rest

    def query(self, name, text, flags=0, rest=b"", envelope_flags=0, consistency=1):
        return self.ask(name, 0x07, long_string(text) + self.params(flags, rest, consistency), envelope_flags)

    def prepare(self, name, text, keyspace=None):
        body = long_string(text)
        if self.version >= 5:
            body += struct.pack(">I", 1) + string(keyspace) if keyspace else struct.pack(">I", 0)
        answer = self.ask(name, 0x09, body)
        start = 9 + (16 if answer[1] & 2 else 0)
        if answer[1] & 8:
            count = struct.unpack(">H", answer[start : start + 2])[0]
            start += 2
            for _ in range(count):
                start += 2 + struct.unpack(">H", answer[start : start + 2])[0]
        return answer[start + 6 : start + 22], answer[start + 24 : start + 40]

    def execute(self, name, ids, flags=0, rest=b""):
        body = b"\0\x10" + ids[0]
        if self.version >= 5:
            body += b"\0\x10" + ids[1]
        return self.ask(name, 0x0A, body + self.params(flags, rest))


COLUMNS = """a ascii, b bigint, c blob, d boolean, e decimal, f double, g float, h int, i timestamp, j uuid, k text,
l varint, m timeuuid, n inet, o date, p time, q smallint, r tinyint, s duration, t list<int>, u map<text, duration>,
v set<frozen<tuple<int, date>>>, w frozen<point>, x vector<float, 3>, y tuple<text, frozen<list<smallint>>>,
z frozen<map<int, frozen<set<time>>>>, aa frozen<list<vector<int, 2>>>, bb point"""


def run(version):
    c = Connection(version)
    ks = f"{KEYSPACE}_v{version}"
    events = Connection(version)
    events.record = False
    events.ask("register", 0x0B, struct.pack(">H", 1) + string("SCHEMA_CHANGE"))
    c.query("drop_keyspace", f"DROP KEYSPACE IF EXISTS {ks}")
    create = f"CREATE KEYSPACE {ks} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    c.query("create_keyspace", create)
    c.query("already_exists_keyspace", create)
    c.query("create_type", f"CREATE TYPE {ks}.point (x int, y duration)")
    c.query("create_table", f"CREATE TABLE {ks}.t (pk int, ck int, st text static, {COLUMNS}, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)")
    c.query("already_exists_table", f"CREATE TABLE {ks}.t (pk int PRIMARY KEY)")
    c.query("alter_table", f"ALTER TABLE {ks}.t ADD zz int")
    c.query("create_counter_table", f"CREATE TABLE {ks}.c (p1 int, p2 text, n counter, PRIMARY KEY ((p1, p2)))")
    for name in ["event_create_keyspace", "event_create_type", "event_create_table"]:
        print("<", version, name, events.read_envelope(name).hex())
    c.query("use", f"USE {ks}")
    c.query("insert", f"""INSERT INTO {ks}.t (pk, ck, st, a, b, d, h, k, s, t, w, x) VALUES
        (1, 2, 'static', 'ascii', 3, true, 4, 'größe', 1mo2d3s, [1, 2], {{x: 1, y: 2s}}, [1, 2, 3])""")
    for ck in range(3, 6):
        c.query("insert_more", f"INSERT INTO {ks}.t (pk, ck) VALUES (1, {ck})")
    c.query("select_all", f"SELECT * FROM {ks}.t WHERE pk = 1 AND ck = 2")
    c.query("select_counter", f"SELECT * FROM {ks}.c")
    c.query("select_functions", f"SELECT count(*), max(ck), writetime(a), ttl(a), token(pk) AS tk FROM {ks}.t WHERE pk = 1")
    c.query("select_page", f"SELECT ck FROM {ks}.t WHERE pk = 1", 0x04, struct.pack(">i", 2))
    c.query("select_skip_metadata", f"SELECT ck FROM {ks}.t WHERE pk = 1", 0x02)
    c.query("select_named", f"SELECT ck FROM {ks}.t WHERE pk = :p", 0x41, struct.pack(">H", 1) + string("p") + value(struct.pack(">i", 1)))
    c.query("insert_positional", f"INSERT INTO {ks}.t (pk, ck, h, k) VALUES (?, ?, ?, ?)", 0x21 | 0x10,
            struct.pack(">H", 4) + value(struct.pack(">i", 1)) + value(struct.pack(">i", 9)) + value(None)
            + (b"\xff\xff\xff\xfe" if version >= 4 else value(b"")) + struct.pack(">Hq", 9, 1234567890))
    if version >= 5:
        c.query("select_keyspace_and_now", "SELECT ck FROM t WHERE pk = 1", 0x180, string(ks) + struct.pack(">i", 1700000000))
    c.query("traced", f"SELECT ck FROM {ks}.t WHERE pk = 1", envelope_flags=0x02)
    c.query("syntax_error", "SELEC 1")
    c.query("invalid", f"SELECT nope FROM {ks}.t")
    c.query("unavailable", f"SELECT ck FROM {ks}.t WHERE pk = 1", consistency=3)
    c.query("conditional", f"INSERT INTO {ks}.t (pk, ck) VALUES (1, 2) IF NOT EXISTS")
    select = c.prepare("prepare_select", f"SELECT * FROM {ks}.t WHERE pk = ? AND ck = ?")
    c.execute("execute_select", select, 0x01, struct.pack(">H", 2) + value(struct.pack(">i", 1)) + value(struct.pack(">i", 2)))
    c.execute("execute_skip_metadata", select, 0x03, struct.pack(">H", 2) + value(struct.pack(">i", 1)) + value(struct.pack(">i", 2)))
    c.prepare("prepare_some", f"SELECT ck, st, count(*) FROM {ks}.t WHERE ck = ? AND pk IN ? ALLOW FILTERING")
    insert = c.prepare("prepare_insert", f"INSERT INTO {ks}.t (ck, pk, t) VALUES (?, ?, ?) USING TTL ?")
    c.prepare("prepare_counter", f"UPDATE {ks}.c SET n = n + ? WHERE p2 = ? AND p1 = ?")
    c.prepare("prepare_unqualified", "SELECT st FROM t WHERE pk = ?")
    if version >= 5:
        c.prepare("prepare_with_keyspace", "SELECT st, ck FROM t WHERE pk = ?", ks)
        c.execute("execute_metadata_changed", (select[0], b"\x01" * 16), 0x03,
                  struct.pack(">H", 2) + value(struct.pack(">i", 1)) + value(struct.pack(">i", 2)))
    c.execute("unprepared", (b"\x02" * 16, b"\x03" * 16))
    batch = struct.pack(">BHB", 1, 2, 0) + long_string(f"INSERT INTO {ks}.t (pk, ck) VALUES (?, 7)") + struct.pack(">H", 1) + value(struct.pack(">i", 3))
    batch += b"\x01\x00\x10" + insert[0] + struct.pack(">H", 4) + value(struct.pack(">i", 1)) * 2 + value(None) + value(struct.pack(">i", 60))
    c.ask("batch", 0x0D, batch + c.params(0x20, struct.pack(">q", 55)))
    c.ask("bad_consistency", 0x07, long_string("SELECT") + b"\x00\x63\x00\x00\x00\x00")
    c.ask("register", 0x0B, struct.pack(">H", 2) + string("TOPOLOGY_CHANGE") + string("STATUS_CHANGE"))
    c.ask("auth_response", 0x0F, value(b"\0user\0secret"))
    c.query("drop_type_in_use", f"DROP TYPE {ks}.point")
    c.query("drop_table", f"DROP TABLE {ks}.t")
    c.query("drop_all", f"DROP KEYSPACE {ks}")


for number in (3, 4, 5):
    run(number)
for codec in ("lz4", "snappy"):
    small = Connection(4, codec, record=False)
    small.query("local", "SELECT key, cluster_name, tokens FROM system.local")
    small.query("columns", "SELECT * FROM system_schema.columns WHERE keyspace_name = 'system' AND table_name = 'local'")
packed = Connection(5, "lz4", record=False)
packed.query("columns", "SELECT * FROM system_schema.columns WHERE keyspace_name = 'system' AND table_name = 'local'")
