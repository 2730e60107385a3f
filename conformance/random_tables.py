"""Random tables with random data, written by one of Ilion and Cassandra as SSTables and read by both.

A case is a table and what is written to it: statements with markers, each with rows of raw values, each statement's rows an
SSTable of their own. `by_cassandra` has CQLSSTableWriter write them (`harness/SsTables.java`; of which release, says `FORMATS`),
`by_ilion` a node of ours that flushes after each statement. Then the dumps of every file have to agree (where sstabledump can dump it), and, with the files imported
into either node, every answer: all rows, each partition in either direction, slices. A case that fails is made smaller while it
fails, and shown.
"""
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import uuid

from harness import sstables
from harness.node import CASSANDRA
from harness.types import show
from harness.wire import Wire

KEYSPACE = "random_tables"
T0 = 1_700_000_000_000_000
# version -> (a release that writes it, layout)
FORMATS = {"mc": ("3.11.3", "big"), "md": ("3.11.10", "big"), "me": ("3.11.19", "big"), "na": ("4.0-rc1", "big"),
           "nb": ("4.1.10", "big"), "oa": ("5.0.5", "big"), "da": ("5.0.5", "bti")}


def sized(raw):
    return struct.pack(">i", len(raw)) + raw


def collection(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def number(chance, bits):
    edges = [0, 1, -1, 2 ** (bits - 1) - 1, -2 ** (bits - 1)]
    value = chance.choice(edges) if chance.random() < 0.3 else chance.randrange(-200, 200)
    return max(min(value, 2 ** (bits - 1) - 1), -2 ** (bits - 1))


def minimal(value):
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def text(chance):
    return "".join(chance.choices("ab\u017e\0\u00ff\u20ac ", k=chance.choice((0, 1, 1, 2, 3, 9)))).encode()


def wide(chance):
    return bytes(chance.choices(range(256), k=4)) * chance.choice((0, 1, 50, 400)) + text(chance)


SCALARS = {
    "int": lambda c: struct.pack(">i", number(c, 32)),
    "bigint": lambda c: struct.pack(">q", number(c, 64)),
    "smallint": lambda c: struct.pack(">h", number(c, 16)),
    "text": text,
    "ascii": lambda c: b"".join(c.choices([b"a", b"b", b"~", b"\0"], k=c.randrange(4))),
    "blob": lambda c: bytes(c.choices([0, 1, 0xfe, 0xff], k=c.randrange(5))),
    "boolean": lambda c: bytes([c.randrange(2)]),
    "double": lambda c: struct.pack(">d", c.choice((0.0, -0.0, 1.5, -1e300, float("inf"), c.uniform(-9, 9)))),
    "float": lambda c: struct.pack(">f", c.choice((0.0, -0.0, 1.5, -2.5, float("-inf")))),
    "decimal": lambda c: struct.pack(">i", c.randrange(-3, 4)) + minimal(number(c, 40)),
    "varint": lambda c: minimal(number(c, 100)),
    "uuid": lambda c: uuid.UUID(int=c.getrandbits(128), version=c.choice((1, 4))).bytes,
    "timeuuid": lambda c: uuid.UUID(int=c.getrandbits(128), version=1).bytes,
    "timestamp": lambda c: struct.pack(">q", number(c, 50)),
    "date": lambda c: struct.pack(">I", 2 ** 31 + number(c, 20)),
    "time": lambda c: struct.pack(">q", c.randrange(86_400_000_000_000)),
    "inet": lambda c: bytes(c.choices(range(256), k=c.choice((4, 16)))),
}


def composite(chance, *parts):
    """A composite of (what is before a component, its value); the last one may be a bound."""
    out = b"".join(head + struct.pack(">H", len(value)) + value + b"\0" for head, value in parts)
    return out[:-1] + chance.choice((b"\0", b"\0", b"\1", b"\xff")) if parts else out


def fixed_composite(chance):
    """A value of `CompositeType(Int32Type,ReversedType(UTF8Type))`: it may be cut short, and the name of a static column."""
    parts = [(b"", SCALARS["int"](chance)), (b"", text(chance))][:chance.choice((0, 1, 2, 2, 2))]
    return (b"\xff\xff" if parts and chance.random() < 0.1 else b"") + composite(chance, *parts)


def dynamic_composite(chance):
    """Components that say their types. Those of one type say it alike: values that do not are equal, and one of them is kept."""
    kinds = [(b"\x80i", SCALARS["int"]), (b"\x80I", SCALARS["int"]), (b"\x80s", text), (b"\0\x08LongType", SCALARS["bigint"])]
    return composite(chance, *((head, draw(chance)) for head, draw in chance.choices(kinds, k=chance.choice((0, 1, 2, 3)))))


# In some of the cases: sstabledump fails on values of composites.
CUSTOM = {
    "'CompositeType(Int32Type,ReversedType(UTF8Type))'": fixed_composite,
    "'DynamicCompositeType(s=>UTF8Type,i=>Int32Type,I=>ReversedType(Int32Type))'": dynamic_composite,
    "'LexicalUUIDType'": lambda c: uuid.UUID(int=c.getrandbits(128), version=c.choice((1, 4))).bytes,
}
SINGLE = {**SCALARS, **CUSTOM}
OTHERS = {
    "tinyint": lambda c: struct.pack(">b", number(c, 8)),
    "duration": lambda c: b"\2\4\x06",
    "frozen<list<int>>": lambda c: collection([sized(SCALARS["int"](c)) for _ in range(c.randrange(3))]),
    "frozen<set<text>>": lambda c: collection([sized(x) for x in sorted({text(c) for _ in range(c.randrange(3))})]),
    "frozen<tuple<int, text>>": lambda c: sized(SCALARS["int"](c)) + sized(text(c)),
    "frozen<point>": lambda c: sized(SCALARS["int"](c)) + (sized(text(c)) if c.random() < 0.5 else struct.pack(">i", -1)),
}
MULTI = {
    "set<int>": lambda c: collection([sized(x) for x in sorted({struct.pack(">i", c.randrange(20)) for _ in range(c.randrange(1, 4))})]),
    "map<int, text>": lambda c: collection([sized(k) + sized(text(c)) for k in sorted({struct.pack(">i", c.randrange(20))
                                                                                      for _ in range(c.randrange(1, 4))})]),
    "list<text>": lambda c: collection([sized(text(c)) for _ in range(c.randrange(1, 4))]),
    "point": lambda c: sized(SCALARS["int"](c)) + sized(text(c)),
}
MULTI_CUSTOM = {f"list<{name}>": lambda c, draw=draw: collection([sized(draw(c)) for _ in range(c.randrange(1, 4))])
                    for name, draw in CUSTOM.items()}
TYPE = f"CREATE TYPE {KEYSPACE}.point (x int, y text)"
COMPRESSION = ["{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}", "{'enabled': 'false'}", "{'class': 'SnappyCompressor'}",
               "{'class': 'DeflateCompressor'}", "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}"]


class Case:
    """A table of a seed, and `writers`: [(statement, [values of a row])]."""

    def __init__(self, seed):
        self.seed, self.name = seed, f"t{seed}"
        chance = random.Random(seed)
        self.has_custom = chance.random() < 0.25
        scalars = list(SCALARS) + list(CUSTOM) * 4 * self.has_custom
        self.keys = [(f"k{i}", chance.choice(scalars)) for i in range(chance.choice((1, 1, 2)))]
        self.clusterings = [(f"c{i}", chance.choice(scalars), chance.choice(("ASC", "DESC")))
                            for i in range(chance.choice((0, 1, 1, 2, 3)))]
        regular = scalars + list(OTHERS)
        self.statics = [(f"s{i}", chance.choice(regular + ["set<int>"])) for i in range(chance.choice((0, 1, 2)))] \
            if self.clusterings else []
        many = chance.choice((1, 2, 4, 8, 8, 70))
        self.regulars = [(f"v{i}", "blob" if many == 70 else chance.choice(regular + (list(MULTI) + list(MULTI_CUSTOM) * self.has_custom) * 2)) for i in range(many)]
        self.wide = chance.random() < 0.5
        self.options = f"compression = {chance.choice(COMPRESSION)}"
        self.make(chance)

    def create(self):
        columns = [f"{n} {t}" for n, t in self.keys] + [f"{c[0]} {c[1]}" for c in self.clusterings]
        columns += [f"{n} {t} STATIC" for n, t in self.statics] + [f"{n} {t}" for n, t in self.regulars]
        key = ", ".join([f"({', '.join(n for n, _ in self.keys)})", *(c[0] for c in self.clusterings)])
        order = ", ".join(f"{c[0]} {c[2]}" for c in self.clusterings)
        order = f"CLUSTERING ORDER BY ({order}) AND " if order else ""
        return f"CREATE TABLE {KEYSPACE}.{self.name} ({', '.join(columns)}, PRIMARY KEY ({key})) WITH {order}{self.options}"

    def value(self, chance, kind):
        if kind == "blob" and self.wide:
            return wide(chance)
        return {**SINGLE, **OTHERS, **MULTI, **MULTI_CUSTOM}[kind](chance)

    def make(self, chance):
        pool = [[self.filled(chance, kind) for _, kind in self.keys] for _ in range(chance.choice((1, 3, 12)))]
        rows = chance.choice((3, 30, 150))

        def key():
            return chance.choice(pool)

        def clustering():
            return [SINGLE[kind](chance) for _, kind, _ in self.clusterings]

        def at():
            return struct.pack(">q", T0 + chance.randrange(6))

        def maybe(kind):
            return self.value(chance, kind) if chance.random() < 0.8 else None

        table = f"{KEYSPACE}.{self.name}"
        keys, primary = [n for n, _ in self.keys], [n for n, _ in self.keys] + [c[0] for c in self.clusterings]
        where = " AND ".join(f"{n} = ?" for n in primary)
        self.writers = []
        for ttl in chance.choice(([False], [False, True])):
            names = primary + [n for n, _ in self.regulars]
            using = "USING TIMESTAMP ?" + (" AND TTL 315000000" if ttl else "")
            statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) {using}"
            self.writers.append((statement, [[*key(), *clustering(), *(maybe(t) for _, t in self.regulars), at()]
                                             for _ in range(rows)]))
        if self.statics:
            names = keys + [n for n, _ in self.statics]
            statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) USING TIMESTAMP ?"
            self.writers.append((statement, [[*key(), *(maybe(t) for _, t in self.statics), at()] for _ in range(4)]))
        for name, kind in [column for column in self.regulars if column[1] in ("set<int>", "map<int, text>")][:2]:
            self.writers.append((f"UPDATE {table} USING TIMESTAMP ? SET {name} = {name} + ? WHERE {where}",
                                 [[at(), self.value(chance, kind), *key(), *clustering()] for _ in range(rows // 3 + 1)]))
        written = [row for row in self.writers[0][1]]
        count = len(primary)
        self.writers.append((f"DELETE {self.regulars[0][0]} FROM {table} USING TIMESTAMP ? WHERE {where}",
                             [[at(), *chance.choice(written)[:count]] for _ in range(3)]))
        self.writers.append((f"DELETE FROM {table} USING TIMESTAMP ? WHERE {where}",
                             [[at(), *chance.choice(written)[:count]] for _ in range(3)]))
        if self.clusterings:
            given = chance.randrange(len(self.clusterings))
            prefix = " AND ".join(f"{n} = ?" for n in primary[:len(keys) + given])
            column = self.clusterings[given][0]
            low, high = chance.choice((">", ">=")), chance.choice(("<", "<="))
            statement = f"DELETE FROM {table} USING TIMESTAMP ? WHERE {prefix} AND {column} {low} ? AND {column} {high} ?"
            ranges = []
            for _ in range(6):
                row, other = chance.choice(written)[:count], clustering()
                ranges.append([at(), *row[:len(keys) + given], row[len(keys) + given], other[given]])
            self.writers.append((statement, ranges))
        if chance.random() < 0.5:
            self.writers.append((f"DELETE FROM {table} USING TIMESTAMP ? WHERE {' AND '.join(f'{n} = ?' for n in keys)}",
                                 [[at(), *key()]]))

    def filled(self, chance, kind):
        """A value of a partition key column, which may not be empty."""
        while not (value := SINGLE[kind](chance)):
            pass
        return value

    def show(self):
        lines = [TYPE + ";", self.create() + ";"]
        for statement, rows in self.writers:
            lines.append(statement)
            lines += ["    " + ", ".join("null" if v is None else f"0x{v.hex()}" for v in row) for row in rows]
        return "\n".join(lines)


class Bench:
    """The nodes and a folder to work in. `ilion` and `cassandra` read every format that is tried."""

    def __init__(self, ilion, cassandra, folder):
        self.ilion, self.cassandra, self.folder = ilion, cassandra, pathlib.Path(folder)
        self.wires = {node: Wire(node.address, node.port) for node in (ilion, cassandra)}
        for wire in self.wires.values():
            wire.must(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
            wire.must(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
            wire.must(TYPE)

    def fresh(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def by_cassandra(bench, case, version):
    """The case's SSTables, written by CQLSSTableWriter."""
    release, layout = FORMATS[version]
    target = bench.fresh("written") / KEYSPACE / case.name
    create = case.create()
    if release.startswith("3."):
        # Which came with 4.0. The files say themselves how they are compressed.
        create = create.replace("Zstd", "LZ4")
    lines = [f"type\t{TYPE}", f"table\t{target}\t{layout}\t{create}"]
    for statement, rows in case.writers:
        if statement.startswith("DELETE") and release < "4.1":
            # No writer of these takes it. What was deleted in their files is in the fixtures.
            continue
        lines.append(f"writer\t{statement}")
        lines += map(sstables.row, rows)
        lines.append("close")
    sstables.write(release, lines)
    return target


def by_ilion(bench, case, version):
    """The case's SSTables, flushed by the Ilion node of the bench, which writes `version`."""
    node, wire = bench.ilion, bench.wires[bench.ilion]
    wire.must(f"DROP TABLE IF EXISTS {KEYSPACE}.{case.name}")
    wire.must(case.create() + " AND compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}")
    for statement, rows in case.writers:
        prepared = wire.prepare(statement)
        if prepared.kind == "error":
            raise RuntimeError(f"{statement}: {prepared.error}")
        for row in rows:
            reply = wire.execute(prepared, row)
            if reply.kind == "error":
                raise RuntimeError(f"{statement}: {reply.error}")
        node.flush(KEYSPACE, case.name)
    target = bench.fresh("written") / KEYSPACE / case.name
    target.mkdir(parents=True)
    newest = max(node.directory.rglob(f"{KEYSPACE}/{case.name}-*"), key=lambda p: p.stat().st_mtime)
    for path in newest.iterdir():
        if path.is_file():
            shutil.copy(path, target / path.name)
    return target


def data_files(folder):
    return sorted(folder.glob("*-Data.db"))


def dumps_differ(bench, folder, binary):
    """Where Ilion's dump of a file is not sstabledump's."""
    files = data_files(folder)
    out = bench.fresh("dumps")
    out.mkdir(parents=True)
    lines = "".join(f"{out / path.name}\tSSTableExport\t{path}\n" for path in files)
    done = subprocess.run([str(CASSANDRA), "tools"], input=lines, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout[-4000:])
    for path in files:
        said, _, status = (out / path.name).read_text().rpartition("\nexit ")
        if status != "0":
            return f"sstabledump fails on {path.name}: {said[-2000:]}"
        theirs = json.loads(said[said.index("[\n"):said.rindex("]") + 1])
        done = subprocess.run([str(binary), "sstable", "dump", "--json", str(path)], capture_output=True, text=True, timeout=600,
                              check=False)
        if done.returncode:
            return f"ilion sstable dump fails on {path.name}: {done.stderr[-2000:]}"
        ours = json.loads(done.stdout)
        if ours != theirs:
            pair = next(((a, b) for a, b in zip(ours, theirs) if a != b), (len(ours), len(theirs)))
            return f"dumps of {path.name} differ:\nilion     {json.dumps(pair[0])[:3000]}\ncassandra {json.dumps(pair[1])[:3000]}"
    return None


def take_in(bench, node, case, folder):
    """Imports copies of the files into a new table of a node."""
    wire = bench.wires[node]
    wire.must(f"DROP TABLE IF EXISTS {KEYSPACE}.{case.name}")
    wire.must(case.create())
    copy = bench.fresh(f"import_{node.name}") / KEYSPACE / case.name
    shutil.copytree(folder, copy)
    node.nodetool("import", KEYSPACE, case.name, copy)


def questions(case):
    """[(statement, values)] with an answer whose order is certain."""
    table = f"{KEYSPACE}.{case.name}"
    where = " AND ".join(f"{n} = ?" for n, _ in case.keys)
    keys = sorted({tuple(row[:len(case.keys)]) for statement, rows in case.writers if statement.startswith("INSERT") for row in rows})
    timed = [n for n, t in case.statics + case.regulars if not re.match(r"(frozen<)?(list|set|map)<|point", t)][:5]
    times = "".join(f", writetime({n})" for n in timed)
    everything = ", ".join(c[0] for c in (*case.keys, *case.clusterings, *case.statics, *case.regulars))
    out = [(f"SELECT {everything}{times} FROM {table}", [])]
    chance = random.Random(case.seed)
    for key in keys:
        out.append((f"SELECT * FROM {table} WHERE {where}", [*key]))
        if not case.clusterings:
            continue
        turned = ", ".join(f"{n} {'DESC' if order == 'ASC' else 'ASC'}" for n, _, order in case.clusterings)
        out.append((f"SELECT * FROM {table} WHERE {where} ORDER BY {turned}", [*key]))
        column, kind, _ = case.clusterings[0]
        for order in ("", f" ORDER BY {turned}"):
            bound = SINGLE[kind](chance)
            compare = chance.choice(("<", "<=", ">", ">="))
            out.append((f"SELECT {column}, {case.regulars[0][0]} FROM {table} WHERE {where} AND {column} {compare} ?{order} LIMIT 7",
                        [*key, bound]))
    return out


def answers_differ(bench, case):
    for statement, values in questions(case):
        said = []
        for node in (bench.ilion, bench.cassandra):
            wire = bench.wires[node]
            reply = wire.execute(wire.prepare(statement), values) if values else wire.query(statement)
            if reply.kind == "error":
                said.append(f"error {reply.error}")
            else:
                said.append([tuple(show(t, v) for (_, t), v in zip(reply.columns, row, strict=True)) for row in reply.rows])
        if said[0] != said[1]:
            ours, theirs = said
            first = next(((a, b) for a, b in zip(ours, theirs) if a != b), (ours[-1:], theirs[-1:]))
            counts = f"{len(ours)} and {len(theirs)} rows"
            return (f"answers differ: {statement} {[v.hex() for v in values]} ({counts})\nilion     {str(first[0])[:2000]}\n"
                    f"cassandra {str(first[1])[:2000]}")
    return None


def difference(bench, case, version, write):
    """What is not as it should be about a case; None when nothing is."""
    folder = write(bench, case, version)
    files = data_files(folder)
    if not files or any(not path.name.startswith(f"{version}-") for path in files):
        return f"not files of {version}: {[path.name for path in files]}"
    found = None if case.has_custom else dumps_differ(bench, folder, bench.ilion.binary)
    if found:
        return found
    take_in(bench, bench.cassandra, case, folder)
    if write is by_cassandra:
        take_in(bench, bench.ilion, case, folder)
    return answers_differ(bench, case)


def shorten(bench, case, version, write, budget=25):
    """Takes statements and rows out while the case still fails."""
    writers = case.writers
    size = None
    while budget > 0:
        total = sum(len(rows) for _, rows in writers)
        size = size or max(total // 2, 1)
        flat = [(i, row) for i, (_, rows) in enumerate(writers) for row in rows]
        for start in range(0, total, size):
            kept = flat[:start] + flat[start + size:]
            case.writers = [(statement, [row for j, row in kept if j == i]) for i, (statement, _) in enumerate(writers)]
            case.writers = [writer for writer in case.writers if writer[1]]
            budget -= 1
            if case.writers and difference(bench, case, version, write):
                writers = case.writers
                break
            if budget <= 0:
                break
        else:
            if size == 1:
                break
            size = max(size // 2, 1)
            continue
        size = min(size, max(sum(len(rows) for _, rows in writers) // 2, 1))
    case.writers = writers
    return case


def check(bench, seed, version, write):
    """None, or the story of a difference."""
    case = Case(seed)
    if write is by_cassandra and FORMATS[version][0].startswith("3.") and [t.startswith("'Comp") for _, t in case.keys] == [True]:
        # Cassandra 3 takes a key that is one composite for several columns, and fails.
        return None
    found = difference(bench, case, version, write)
    if found is None:
        return None
    small = shorten(bench, case, version, write)
    found = difference(bench, small, version, write) or found
    return f"seed {seed}, {version}, {write.__name__}:\n{found}\n{small.show()}"
