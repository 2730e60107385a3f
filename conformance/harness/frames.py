"""The native protocol byte by byte: what no driver would send, and what is on the wire in answer.

    envelope (v3, v4, v5)   u8 version | u8 flags | i16 stream | u8 opcode | u32 length | body
    segment (v5)            u24le header (17 bits length, bit 17: self-contained) | crc24le | payload | crc32le

An answer is `(stream, opcode, flags, body)`; `None` means that the server closed the connection.
"""
import socket
import struct
import time
import zlib

ERROR, STARTUP, READY, AUTHENTICATE = 0x00, 0x01, 0x02, 0x03
OPTIONS, SUPPORTED, QUERY, RESULT = 0x05, 0x06, 0x07, 0x08
PREPARE, EXECUTE, REGISTER, EVENT, BATCH = 0x09, 0x0A, 0x0B, 0x0C, 0x0D
AUTH_RESPONSE, AUTH_SUCCESS = 0x0F, 0x10
COMPRESSED, TRACING, PAYLOAD, WARNING = 0x01, 0x02, 0x04, 0x08
SEGMENT_BYTES_MAX = 128 * 1024 - 1
NAMES = {1: "void", 2: "rows", 3: "keyspace", 4: "prepared", 5: "schema"}


def crc24(data):
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1974F0B
    return crc & 0xFFFFFF


def segment(payload, self_contained=True):
    header = (len(payload) | (1 << 17 if self_contained else 0)).to_bytes(3, "little")
    checksum = zlib.crc32(payload, zlib.crc32(b"\xfa\x2d\x55\xca"))
    return header + crc24(header).to_bytes(3, "little") + payload + checksum.to_bytes(4, "little")


def string(text):
    raw = text.encode()
    return struct.pack(">H", len(raw)) + raw


def long_string(text):
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def value(raw):
    return struct.pack(">i", -1) if raw is None else struct.pack(">i", len(raw)) + raw


def short_bytes(raw):
    return struct.pack(">H", len(raw)) + raw


def string_map(pairs):
    return struct.pack(">H", len(pairs)) + b"".join(string(k) + string(v) for k, v in pairs.items())


def parameters(version, values=None, page_size=None, paging_state=None, timestamp=None, keyspace=None, now=None,
               consistency=1):
    """The parameters of QUERY and EXECUTE."""
    flags, out = 0, b""
    if values is not None:
        flags |= 0x01
        out += struct.pack(">H", len(values)) + b"".join(map(value, values))
    if page_size is not None:
        flags |= 0x04
        out += struct.pack(">i", page_size)
    if paging_state is not None:
        flags |= 0x08
        out += value(paging_state)
    if timestamp is not None:
        flags |= 0x20
        out += struct.pack(">q", timestamp)
    if keyspace is not None:
        flags |= 0x80
        out += string(keyspace)
    if now is not None:
        flags |= 0x100
        out += struct.pack(">i", now)
    return struct.pack(">H", consistency) + struct.pack(">I" if version >= 5 else ">B", flags) + out


class Body:
    """Reads an answer's body from the front."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, count):
        assert self.at + count <= len(self.raw), f"the body ends at {len(self.raw)}, {count} more bytes wanted"
        self.at += count
        return self.raw[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0]

    def string(self):
        return self.take(self.number("H")).decode()

    def bytes(self):
        count = self.number("i")
        return None if count < 0 else self.take(count)

    def skip_type(self):
        kind = self.number("H")
        if kind == 0:
            self.string()
        elif kind in (0x20, 0x22):
            self.skip_type()
        elif kind == 0x21:
            self.skip_type()
            self.skip_type()
        elif kind == 0x31:
            for _ in range(self.number("H")):
                self.skip_type()
        else:
            assert kind < 0x20, f"type {kind:#x} is not for these tests"


class Answer:
    """One envelope that came back, opened."""

    def __init__(self, version, stream, opcode, flags, raw, opens=True):
        self.is_compressed = bool(flags & COMPRESSED)
        self.version, self.stream, self.opcode, self.flags = version, stream, opcode, flags
        body = self.body = Body(raw)
        self.trace = body.take(16) if flags & TRACING else None
        self.warnings = [body.string() for _ in range(body.number("H"))] if flags & WARNING else []
        self.payload = {body.string(): body.bytes() for _ in range(body.number("H"))} if flags & PAYLOAD else {}
        self.code = self.message = self.kind = self.paging_state = None
        self.rows = []
        if not opens:
            return
        if opcode == ERROR:
            self.code, self.message = body.number("i"), body.string()
        elif opcode == RESULT:
            self.kind = NAMES[body.number("i")]
            if self.kind == "rows":
                self.read_rows(body)
            elif self.kind == "prepared":
                self.id = body.take(body.number("H"))
                self.metadata_id = body.take(body.number("H")) if version >= 5 else None

    def read_rows(self, body):
        flags, columns = body.number("i"), body.number("i")
        if flags & 0x02:
            self.paging_state = body.bytes()
        if flags & 0x08:
            body.take(body.number("H"))
        if not flags & 0x04:
            if flags & 0x01:
                body.string(), body.string()
            for _ in range(columns):
                if not flags & 0x01:
                    body.string(), body.string()
                body.string()
                body.skip_type()
        self.rows = [[body.bytes() for _ in range(columns)] for _ in range(body.number("i"))]

    def __repr__(self):
        return f"<stream {self.stream} opcode {self.opcode:#x} {self.kind or ''} {self.code} {self.message}>"


class Frames:
    """A connection that sends what it is told."""

    def __init__(self, target, version=5, settings=None, begin=True, timeout_s=60):
        self.version = version
        self.socket = socket.create_connection((target.address, target.port), timeout=timeout_s)
        self.received, self.envelopes, self.segments = b"", b"", False
        self.stream = 0
        # Bodies may be compressed, which is not undone here: whoever says so looks at the bytes.
        self.opens = True
        if begin:
            ready = self.ask(STARTUP, string_map({"CQL_VERSION": "3.0.0", **(settings or {})}))
            assert ready.opcode == READY, ready
            self.segments = version >= 5

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def envelope(self, opcode, body=b"", stream=None, flags=0, version=None, length=None):
        if stream is None:
            self.stream = stream = self.stream + 1
        return struct.pack(">BBhBI", version or self.version, flags, stream, opcode,
                           len(body) if length is None else length) + body

    def send(self, envelopes):
        """Envelopes as the session frames them: several small ones in a segment, a large one in several."""
        if not self.segments:
            return self.socket.sendall(envelopes)
        pieces = [envelopes[i:i + SEGMENT_BYTES_MAX] for i in range(0, len(envelopes), SEGMENT_BYTES_MAX)]
        return self.socket.sendall(b"".join(segment(piece, len(pieces) == 1) for piece in pieces))

    def more(self, buffer, count):
        while len(buffer) < count:
            try:
                got = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not got:
                return None
            buffer += got
        return buffer

    def fill(self, count):
        """Reads until `count` bytes of envelopes are there; false when the server closed the connection."""
        while len(self.envelopes) < count:
            if not self.segments:
                self.envelopes = self.more(self.envelopes, count)
                return self.envelopes is not None
            self.received = self.more(self.received, 6)
            if self.received is None:
                return False
            header = self.received[:3]
            assert crc24(header) == int.from_bytes(self.received[3:6], "little"), "a segment header's checksum"
            size = int.from_bytes(header, "little") & 0x1FFFF
            self.received = self.more(self.received, size + 10)
            if self.received is None:
                return False
            whole, self.received = self.received[:size + 10], self.received[size + 10:]
            assert segment(whole[6:-4], bool(header[2] & 2)) == whole, "a segment's checksum"
            self.envelopes += whole[6:-4]
        return True

    def receive(self):
        if not self.fill(9):
            return None
        version, flags, stream, opcode, length = struct.unpack(">BBhBI", self.envelopes[:9])
        if not self.fill(9 + length):
            return None
        body, self.envelopes = self.envelopes[9:9 + length], self.envelopes[9 + length:]
        return Answer(version & 0x7F, stream, opcode, flags, body, self.opens)

    def ask(self, opcode, body=b"", **options):
        self.send(self.envelope(opcode, body, **options))
        return self.receive()

    def query_body(self, text, **options):
        return long_string(text) + parameters(self.version, **options)

    def query(self, text, flags=0, lead=b"", **options):
        return self.ask(QUERY, lead + self.query_body(text, **options), flags=flags)

    def must(self, text, **options):
        answer = self.query(text, **options)
        assert answer.opcode == RESULT, answer
        return answer

    def prepare(self, text, keyspace=None):
        tail = b"" if self.version < 5 else struct.pack(">I", 0 if keyspace is None else 1)
        return self.ask(PREPARE, long_string(text) + tail + (string(keyspace) if keyspace else b""))

    def execute(self, prepared, **options):
        ids = short_bytes(prepared.id) + (short_bytes(prepared.metadata_id) if self.version >= 5 else b"")
        return self.ask(EXECUTE, ids + parameters(self.version, **options))

    def is_closed(self):
        """Whether the server closes the connection; what it still says is read."""
        try:
            while self.receive() is not None:
                pass
            return True
        except TimeoutError:
            return False


def until(condition, timeout_s=60):
    """Waits for something another thread of the server does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
