"""CQL types as the wire describes them, and values between wire bytes and CQL literals.

`read_type` reads the [option] of a result's metadata into a `Type`. `Type.text()` names it, `show(type, raw)`
prints a raw value as a literal from which the bytes can be told (null and an empty value differ, a decimal keeps
its scale), and `encode(type, literal)` makes the bytes of a bind marker from a literal of the same form.

One deliberate looseness: a NaN is printed as NaN whatever its payload bits are.
"""
import datetime
import ipaddress
import re
import struct
import uuid
from decimal import Decimal

NATIVE = {
    0x01: "ascii", 0x02: "bigint", 0x03: "blob", 0x04: "boolean", 0x05: "counter", 0x06: "decimal", 0x07: "double",
    0x08: "float", 0x09: "int", 0x0B: "timestamp", 0x0C: "uuid", 0x0D: "text", 0x0E: "varint", 0x0F: "timeuuid",
    0x10: "inet", 0x11: "date", 0x12: "time", 0x13: "smallint", 0x14: "tinyint", 0x15: "duration",
}
STRINGS = ("text", "ascii")
INTEGERS = {"bigint": 8, "counter": 8, "int": 4, "smallint": 2, "tinyint": 1}
MARSHAL = {
    "AsciiType": "ascii", "LongType": "bigint", "BytesType": "blob", "BooleanType": "boolean",
    "CounterColumnType": "counter", "DecimalType": "decimal", "DoubleType": "double", "FloatType": "float",
    "Int32Type": "int", "TimestampType": "timestamp", "UUIDType": "uuid", "UTF8Type": "text",
    "IntegerType": "varint", "TimeUUIDType": "timeuuid", "InetAddressType": "inet", "SimpleDateType": "date",
    "TimeType": "time", "ShortType": "smallint", "ByteType": "tinyint", "DurationType": "duration",
}
# Bytes taken by each value inside a vector whose elements are of fixed length.
FIXED = {"bigint": 8, "boolean": 1, "double": 8, "float": 4, "int": 4, "timestamp": 8, "uuid": 16, "timeuuid": 16}


def fixed_width(t):
    """Bytes of a vector's element of type `t`, None if each element carries its length."""
    if t.name == "vector":
        width = fixed_width(t.args[0])
        return width and width * int(t.label)
    return FIXED.get(t.name)


class Type:
    """A type: `name` is a native name, or list, set, map, tuple, udt, vector, custom."""

    def __init__(self, name, args=(), fields=(), label=""):
        self.name, self.args, self.fields, self.label = name, list(args), list(fields), label
        self.as_class = False  # named by its Java class, as older protocol versions get types that are newer than they are

    def text(self):
        if self.as_class:
            return f"class {self.name}"
        if self.name == "udt":
            return self.label
        if self.name == "custom":
            return f"'{self.label}'"
        if self.name == "vector":
            return f"vector<{self.args[0].text()}, {self.label}>"
        if self.args or self.name == "tuple":
            return f"{self.name}<{', '.join(a.text() for a in self.args)}>"
        return self.name

    __repr__ = text


def read_type(f):
    """Reads one [option] from a file-like object."""
    code = struct.unpack(">H", f.read(2))[0]
    if code == 0x00:
        found = parse_marshal(read_string(f))
        found.as_class = found.name in NATIVE.values()
        return found
    if code in NATIVE:
        return Type(NATIVE[code])
    if code == 0x20:
        return Type("list", [read_type(f)])
    if code == 0x21:
        return Type("map", [read_type(f), read_type(f)])
    if code == 0x22:
        return Type("set", [read_type(f)])
    if code == 0x30:
        _keyspace, name = read_string(f), read_string(f)
        fields = [(read_string(f), read_type(f)) for _ in range(struct.unpack(">H", f.read(2))[0])]
        return Type("udt", [t for _, t in fields], [n for n, _ in fields], name)
    if code == 0x31:
        return Type("tuple", [read_type(f) for _ in range(struct.unpack(">H", f.read(2))[0])])
    raise ValueError(f"unknown type code 0x{code:04x}")


def read_string(f):
    return f.read(struct.unpack(">H", f.read(2))[0]).decode()


def parse_marshal(text):
    """A class name as drivers get it for types without a code of their own: vector, and what is truly custom."""
    tokens = re.findall(r"[\w.$]+|[(),]", text)
    at = 0

    def one():
        nonlocal at
        name = tokens[at].rsplit(".", 1)[-1]
        at += 1
        args = []
        if at < len(tokens) and tokens[at] == "(":
            at += 1
            while tokens[at] != ")":
                if tokens[at] == ",":
                    at += 1
                elif tokens[at].isdigit():
                    args.append(int(tokens[at]))
                    at += 1
                else:
                    args.append(one())
            at += 1
        if name == "VectorType":
            return Type("vector", [args[0]], label=str(args[1]))
        if name in MARSHAL:
            return Type(MARSHAL[name])
        collection = {"ListType": "list", "SetType": "set", "MapType": "map", "TupleType": "tuple"}.get(name)
        if collection:
            return Type(collection, args)
        if name in ("FrozenType", "ReversedType"):
            return args[0]
        return Type("custom", label=text)

    return one()


# --- bytes to literals ---------------------------------------------------------------------------------------------


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def show(t, raw):
    """The literal of a raw value of type `t`; `null` for None, `empty` for no bytes of a type that is not a string."""
    if raw is None:
        return "null"
    if t.name in STRINGS:
        text = raw.decode("utf-8", "backslashreplace")
        return quote(text).replace("\n", "\\n").replace("\r", "\\r")
    if t.name == "blob":
        return "0x" + raw.hex()
    if not raw and t.name not in ("tuple", "udt"):
        return "empty"
    if is_unusual(t.name, raw):
        return "0x!" + raw.hex()
    return SHOW[t.name](t, raw)


def is_unusual(name, raw):
    """Whether a value is not spelled as its type's own serializer does, so that its literal would not tell the bytes."""
    number = {"varint": raw, "decimal": raw[4:]}.get(name)
    if number is not None:
        return number != minimal(int.from_bytes(number, "big", signed=True))
    return name == "boolean" and raw not in (b"\0", b"\1")


def floating(fmt, digits):
    def inner(_t, raw):
        value = struct.unpack(fmt, raw)[0]
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        for precision in range(1, digits + 1):
            text = f"{value:.{precision}g}"
            if struct.pack(fmt, float(text)) == raw:
                break
        return text if re.search(r"[.e]", text) else text + ".0"
    return inner


def show_decimal(_t, raw):
    scale = struct.unpack(">i", raw[:4])[0]
    unscaled = int.from_bytes(raw[4:], "big", signed=True)
    digits = tuple(int(d) for d in str(abs(unscaled)))
    return str(Decimal((int(unscaled < 0), digits, -scale)))


def show_timestamp(_t, raw):
    millis = struct.unpack(">q", raw)[0]
    try:
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)
        return f"'{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}+0000'"
    except OverflowError:
        return str(millis)


def show_date(_t, raw):
    days = struct.unpack(">I", raw)[0]
    try:
        return f"'{datetime.date(1970, 1, 1) + datetime.timedelta(days=days - 2**31)}'"
    except OverflowError:
        return str(days)


def show_time(_t, raw):
    seconds, nanos = divmod(struct.unpack(">q", raw)[0], 10**9)
    return f"'{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{nanos:09d}'"


def read_vint(raw, at):
    first = raw[at]
    extra = 8 - (~first & 0xFF).bit_length() if first != 0xFF else 8
    value = first & (0xFF >> extra) if extra < 8 else 0
    for byte in raw[at + 1:at + 1 + extra]:
        value = value << 8 | byte
    return value, at + 1 + extra


def show_duration(_t, raw):
    at, parts = 0, []
    for _ in range(3):
        value, at = read_vint(raw, at)
        parts.append((value >> 1) ^ -(value & 1))
    text = "".join(f"{abs(v)}{unit}" for v, unit in zip(parts, ("mo", "d", "ns")) if v) or "0ns"
    return ("-" if min(parts) < 0 else "") + text


def read_value(raw, at):
    length = struct.unpack_from(">i", raw, at)[0]
    at += 4
    return (None, at) if length < 0 else (raw[at:at + length], at + length)


def show_collection(t, raw):
    count, at, items = struct.unpack_from(">i", raw)[0], 4, []
    for _ in range(count):
        one = []
        for part in t.args:
            value, at = read_value(raw, at)
            one.append(show(part, value))
        items.append(": ".join(one))
    return ("[%s]" if t.name == "list" else "{%s}") % ", ".join(items)


def show_tuple(t, raw):
    at, items = 0, []
    for i, part in enumerate(t.args):
        if at >= len(raw):
            items.append("absent" if t.name == "tuple" else f"{t.fields[i]}: absent")
            continue
        value, at = read_value(raw, at)
        items.append(show(part, value) if t.name == "tuple" else f"{t.fields[i]}: {show(part, value)}")
    return ("(%s)" if t.name == "tuple" else "{%s}") % ", ".join(items)


def show_vector(t, raw):
    part, at, items = t.args[0], 0, []
    width = fixed_width(part)
    for _ in range(int(t.label)):
        length = width
        if width is None:
            length, at = read_vint(raw, at)
        items.append(show(part, raw[at:at + length]))
        at += length
    return "[%s]" % ", ".join(items)


def show_integer(_t, raw):
    return str(int.from_bytes(raw, "big", signed=True))


SHOW = {
    **{name: show_integer for name in (*INTEGERS, "varint")},
    "boolean": lambda _t, raw: "false" if raw == b"\0" else "true",
    "float": floating(">f", 9), "double": floating(">d", 17), "decimal": show_decimal,
    "timestamp": show_timestamp, "date": show_date, "time": show_time, "duration": show_duration,
    "uuid": lambda _t, raw: str(uuid.UUID(bytes=raw)), "timeuuid": lambda _t, raw: str(uuid.UUID(bytes=raw)),
    "inet": lambda _t, raw: f"'{ipaddress.ip_address(raw)}'", "custom": lambda _t, raw: "0x" + raw.hex(),
    "list": show_collection, "set": show_collection, "map": show_collection,
    "tuple": show_tuple, "udt": show_tuple, "vector": show_vector,
}

# --- literals to bytes ---------------------------------------------------------------------------------------------

UNSET = object()
TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[\[\](){}:,]|[^\s\[\](){}:,']+)")


def parse_literals(text):
    """A comma separated list of literals, as nested Python lists tagged by their bracket."""
    tokens, at = TOKEN.findall(text), 0

    def one():
        nonlocal at
        token = tokens[at]
        at += 1
        if token not in "[({":
            return token
        close, items = {"[": "]", "(": ")", "{": "}"}[token], []
        while tokens[at] != close:
            item = one()
            if tokens[at] == ":":
                at += 1
                item = (item, one())
            items.append(item)
            if tokens[at] == ",":
                at += 1
        at += 1
        return items

    values = []
    while at < len(tokens):
        values.append(one())
        if at < len(tokens):
            if tokens[at] != ",":
                raise ValueError(f"expected a comma before {tokens[at]!r} in: {text}")
            at += 1
    return values


def sized(raw):
    return struct.pack(">i", -1) if raw is None else struct.pack(">i", len(raw)) + raw


def minimal(value):
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def vint(value):
    """Cassandra's unsigned variable integer: leading one bits count the bytes that follow."""
    extra = max(0, ((value | 1).bit_length() - 1) // 7)
    if extra >= 8:
        return b"\xff" + value.to_bytes(8, "big")
    return ((0xFF00 >> extra & 0xFF) << 8 * extra | value).to_bytes(extra + 1, "big")


def count(name, text):
    """The number that a timestamp, date or time written out is: milliseconds, days from the lowest, nanoseconds."""
    if name == "time":
        hours, minutes, seconds = text.split(":")
        whole, _, nanos = seconds.partition(".")
        return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int(nanos.ljust(9, "0"))
    if name == "date":
        return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days + 2**31
    at = datetime.datetime.fromisoformat(text)
    at = at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc)
    return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)


def encode(t, literal):
    """Bytes of a parsed literal. `0x!..` gives the bytes as they are, `empty` none, `unset` and `null` themselves."""
    if literal == "null":
        return None
    if literal == "unset":
        return UNSET
    if literal == "empty":
        return b""
    if isinstance(literal, str) and literal.startswith("0x!"):
        return bytes.fromhex(literal[3:])
    name = t.name
    plain = literal[1:-1].replace("''", "'") if isinstance(literal, str) and literal.startswith("'") else literal
    if name in STRINGS:
        return plain.encode()
    if name in INTEGERS:
        return int(plain).to_bytes(INTEGERS[name], "big", signed=True)
    if name == "varint":
        return minimal(int(plain))
    if name == "boolean":
        return {"true": b"\1", "false": b"\0"}[plain]
    if name in ("float", "double"):
        return struct.pack(">f" if name == "float" else ">d", float(plain))
    if name == "blob":
        return bytes.fromhex(plain[2:])
    if name == "decimal":
        sign, digits, exponent = Decimal(plain).as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        return struct.pack(">i", -exponent) + minimal(unscaled)
    if name in ("uuid", "timeuuid") or name == "custom" and t.label.endswith("LexicalUUIDType"):
        return uuid.UUID(plain).bytes
    if name == "inet":
        return ipaddress.ip_address(plain).packed
    if name in ("timestamp", "date", "time"):
        number = int(plain) if plain.lstrip("-").isdigit() else count(name, plain)
        return struct.pack(">I" if name == "date" else ">q", number)
    if name == "duration":
        amounts = {"mo": 0, "d": 0, "ns": 0}
        sign = -1 if plain.startswith("-") else 1
        for number, unit in re.findall(r"(\d+)(mo|d|h|ns)", plain):
            unit, times = ("ns", 3600 * 10**9) if unit == "h" else (unit, 1)
            amounts[unit] += sign * int(number) * times
        return b"".join(vint(v * 2 if v >= 0 else -v * 2 - 1) for v in amounts.values())
    if name in ("list", "set"):
        return struct.pack(">i", len(literal)) + b"".join(sized(encode(t.args[0], v)) for v in literal)
    if name == "map":
        pairs = b"".join(sized(encode(t.args[0], k)) + sized(encode(t.args[1], v)) for k, v in literal)
        return struct.pack(">i", len(literal)) + pairs
    if name == "tuple":
        return b"".join(sized(encode(p, v)) for p, v in zip(t.args, literal))
    if name == "udt":
        given = dict(literal)
        return b"".join(sized(encode(p, given.get(f, "null"))) for f, p in zip(t.fields, t.args))
    if name == "vector":
        parts = [encode(t.args[0], v) for v in literal]
        return b"".join(parts if fixed_width(t.args[0]) else (vint(len(p)) + p for p in parts))
    raise ValueError(f"cannot write a literal of {t.text()}")
