#!/usr/bin/env python3
"""Random schemas, changed at random on two nodes: what one accepts the other has to accept, and every start has to load.

    random_schemas.py [--seed S] [--schemas N] [--changes N] [--seconds T] [--words] --target ilion|ADDRESS --cassandra DIR|ADDRESS

A schema is a keyspace with user types and tables of every kind: names that have to be quoted, types within types, classes by their
names, masks, static columns, counters, COMPACT STORAGE, descending orders, every option with values sensible or not. Changes are
those of the grammar: of keyspaces, types, columns and options, with IF [NOT] EXISTS, of what there is and of what there is not. Both
nodes have to accept and to refuse the same, with the same code, and afterwards DESCRIBE and `system_schema` have to tell
the same. A row is written to each table and read again. With `--target ilion` the node is then killed and started, and last a Cassandra
is started on its directory: each of them has to tell the same as before, and to have the rows. `--words` prints refusals whose words
differ. `excused` says what is known to differ.
"""
import argparse
import pathlib
import random
import re
import struct
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness.differential import Difference, connect  # noqa: E402
from harness.node import Cassandra, Ilion, complain, open_target  # noqa: E402
from harness.types import fixed_width, minimal, sized, vint  # noqa: E402
from harness.wire import bind_types  # noqa: E402

PREFIX = "random_schemas"
SERVER_ERROR = 0x0000
NATIVE_QUOTED = re.compile(r'"(int|text|empty|list|frozen|vector|counter|tuple|set)"')
MASKS = "dynamic_data_masking_enabled"
NATIVE = ("ascii bigint blob boolean date decimal double duration float inet int smallint text time timestamp timeuuid tinyint uuid "
          "varchar varint").split()
CLASSES = [
    "Int32Type", "UTF8Type", "BytesType", "LexicalUUIDType", "DateType", "EmptyType", "CounterColumnType", "org.apache.cassandra.db.marshal.LongType",
    "ReversedType(UTF8Type)", "ListType(Int32Type)", "FrozenType(ListType(Int32Type))", "SetType(UTF8Type)", "MapType(Int32Type,UTF8Type)",
    "TupleType(Int32Type,UTF8Type)", "CompositeType(Int32Type,UTF8Type)", "CompositeType(Int32Type,ReversedType(UTF8Type))", "CompositeType()",
    "DynamicCompositeType(s=>UTF8Type,i=>Int32Type)", "DynamicCompositeType(S=>ReversedType(UTF8Type))", "VectorType(FloatType,2)",
    "VectorType(UTF8Type,1)", "NoSuchType", "", "Int32Type(UTF8Type)", "ReversedType", "org.apache.cassandra.db.marshal.FrozenType(TupleType(BytesType))",
]
FUNCTIONS = ["DEFAULT", "mask_default()", "mask_null()", "mask_inner(1, null)", "mask_outer(1, 2)", "mask_outer(1, 2, '#')", "mask_hash()",
             "mask_hash('SHA-256')", "mask_hash('nosuch')", "mask_replace('x')", "mask_replace(1)", "system.mask_null()", "nosuch()", "mask_inner('a')"]
PLAIN_NAMES = list("abcdefg")
ODD_NAMES = ['"Mixed"', '"select"', '"a b"', '"\u00e9"', '"x""y"', '"$"', '"1"', "_x", '""', '"a.b"', '"\'"', '"' + "n" * 48 + '"', "n" * 49, "n" * 150,
             "key", "value", "column1", "Upper", '"\\"', '"a\nb"', '"\u4e00"', '"{}"', '"-"', "type", "ttl", "token", '"null"', '"%s"',
             '"int"', '"text"', '"empty"', '"list"', '"frozen"', "byte", "enum", '"vector"', '"counter"', '"Int"', '"tuple"', '"set"', "map"]
NUMBERS = ["0", "1", "-1", "0.5", "1.0", "0.01", "1e-9", "NaN", "2147483647", "2147483648", "-2147483648", "864000", "630720000", "630720001",
           "'7'", "'-7'", "'x'", "''", "true", "null", "1h", "{}", "0x01", "99999999999999999999", "128", "2048", "'0.1'", "' 1 '"]
TEXTS = ["''", "'a comment'", "'it''s'", "$$dollars $ 'q'$$", "'\u00e9\u4e00'", "'a\nb'", "1", "true", "'99p'", "'99PERCENTILE'", "'50ms'", "'MIN(50p,10ms)'",
         "'ALWAYS'", "'always'", "'NONE'", "'NEVER'", "'BLOCKING'", "'default'", "'skiplist'", "'100.5p'", "'-1ms'", "'50 ms'", "'p'", "'1e3ms'", "'custom'"]
OPTIONS = ["comment", "gc_grace_seconds", "default_time_to_live", "bloom_filter_fp_chance", "crc_check_chance", "min_index_interval",
           "max_index_interval", "memtable_flush_period_in_ms", "cdc", "read_repair", "speculative_retry", "additional_write_policy",
           "memtable", "allow_auto_snapshot", "incremental_backups", "extensions", "dclocal_read_repair_chance", "nosuch", "compaction", "compression",
           "caching", "id", "speculative_write_threshold", "read_repair_chance", "Comment", '"comment"']
SENSIBLE = {
    "gc_grace_seconds": ["0", "864000", "1"], "default_time_to_live": ["0", "100", "630720000"], "bloom_filter_fp_chance": ["0.01", "1", "0.5", "0.00001"],
    "crc_check_chance": ["0", "1.0", "0.5"], "min_index_interval": ["64", "128", "1"], "max_index_interval": ["2048", "4096"], "cdc": ["false", "true", "'false'"],
    "memtable_flush_period_in_ms": ["0", "3600000"], "read_repair": ["'NONE'", "'BLOCKING'", "'none'"], "speculative_retry": TEXTS[8:18],
    "additional_write_policy": TEXTS[8:18], "memtable": ["'default'"], "allow_auto_snapshot": ["true", "false"], "incremental_backups": ["true", "false"],
    "extensions": ["{'a': 0x0102}", "{}", "{'': 0x}", "{'a': 'b'}", "{'a': 0x01, 'b': 0x02}"],
}
COMPACTION = ["SizeTieredCompactionStrategy", "LeveledCompactionStrategy", "TimeWindowCompactionStrategy", "UnifiedCompactionStrategy",
              "org.apache.cassandra.db.compaction.LeveledCompactionStrategy", "NoSuchStrategy", "DateTieredCompactionStrategy", ""]
COMPACTION_OPTIONS = ["enabled", "min_threshold", "max_threshold", "tombstone_threshold", "tombstone_compaction_interval", "unchecked_tombstone_compaction",
                      "only_purge_repaired_tombstones", "bucket_low", "bucket_high", "min_sstable_size", "sstable_size_in_mb", "fanout_size",
                      "single_sstable_uplevel", "compaction_window_size", "compaction_window_unit", "timestamp_resolution", "scaling_parameters",
                      "target_sstable_size", "base_shard_count", "sstable_growth",
                      "unsafe_aggressive_sstable_expiration", "provide_overlapping_tombstones", "log_all", "nosuch", "expired_sstable_check_frequency_seconds"]
COMPACTION_VALUES = ["true", "false", "4", "32", "2", "0", "-1", "0.5", "1.5", "0", "1", "'DAYS'", "'HOURS'", "'MINUTES'", "'MICROSECONDS'", "'T4'", "'L10, T2'", "'N'",
                     "'1GiB'", "'100MiB'", "'x'", "''", "'ROW'", "160", "10", "'1'", "1e400", "86400"]
COMPRESSION = ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor", "ZstdDictionaryCompressor",
               "org.apache.cassandra.io.compress.LZ4Compressor", "NoSuchCompressor", ""]
COMPRESSION_OPTIONS = ["chunk_length_in_kb", "chunk_length", "chunk_length_kb", "enabled", "min_compress_ratio", "max_compressed_length", "compression_level",
                       "lz4_compressor_type", "lz4_high_compressor_level", "crc_check_chance", "nosuch", "sstable_compression"]
COMPRESSION_VALUES = ["4", "16", "64", "1", "0", "-1", "3", "5", "22", "'16KiB'", "'fast'", "'high'", "true", "false", "'x'", "''", "1.5", "1.0", "131072", "2097152", "9", "-100"]
REPLICATION = ["SimpleStrategy", "NetworkTopologyStrategy", "org.apache.cassandra.locator.SimpleStrategy", "LocalStrategy", "EverywhereStrategy", "",
               "NoSuchStrategy", "SimpleStrategy", "NetworkTopologyStrategy"]
REPLICATION_OPTIONS = ["replication_factor", "replication_factor", "datacenter1", "datacenter1", "dc2", "'class'", ""]
REPLICATION_VALUES = ["1", "'1'", "3", "0", "-1", "'x'", "''", "'3/1'", "1", "2147483648", "'1 '", "true", "null"]


class Table:
    """What is known of a table."""

    def __init__(self, name, columns, keys):
        self.name, self.columns, self.keys = name, columns, keys


class Maker:
    """Draws changes of a keyspace, and knows what came of them."""

    def __init__(self, chance, keyspace):
        self.chance, self.keyspace = chance, keyspace
        self.types, self.tables, self.dropped = {}, {}, {}

    def often(self, likely):
        return self.chance.random() < likely

    def name(self, known=(), odd=0.06):
        chance = self.chance
        if known and self.often(0.9):
            return chance.choice(list(known))
        return chance.choice(ODD_NAMES if self.often(odd) else PLAIN_NAMES)

    def kind(self, depth=2):
        """A type, mostly one that there is."""
        chance, pick = self.chance, self.chance.random()
        if depth == 0 or pick < 0.45:
            return chance.choice(NATIVE)
        inner = lambda: self.kind(depth - 1)  # noqa: E731
        if pick < 0.47:
            return f"frozen<{inner()}>"
        if pick < 0.68:
            part = chance.choice(["list<{}>", "set<{}>", "map<{}, {}>"])
            parts = [inner() for _ in range(part.count("{}"))]
            freezes = lambda kind: self.often(0.9) and re.match(r"(list|set|map)<|[a-g]$", kind)  # noqa: E731
            made = part.format(*(f"frozen<{kind}>" if freezes(kind) else kind for kind in parts))
            return f"frozen<{made}>" if self.often(0.4) else made
        if pick < 0.76:
            return f"tuple<{', '.join(inner() for _ in range(chance.randint(0 if self.often(0.1) else 1, 3)))}>"
        if pick < 0.82:
            return f"vector<{inner()}, {chance.choice('12348') if self.often(0.96) else chance.choice(['0', '9000'])}>"
        if pick < 0.94:
            given = self.name(self.types)
            given = given if self.often(0.9) else f"{self.keyspace}.{given}"
            return f"frozen<{given}>" if self.often(0.6) else given
        if pick < 0.98:
            return "'" + chance.choice(CLASSES).replace("'", "''") + "'"
        return chance.choice(["counter", "nosuch", "frozen<int>", "list<counter>", "map<int>", "list", "'x", "org.apache.cassandra.db.marshal.Int32Type", "empty", "text()"])

    def key_kind(self):
        kind = self.kind(1) if self.often(0.35) else self.chance.choice(NATIVE)
        frozen = self.often(0.8) and re.match(r"(list|set|map|tuple|[a-g]$)", kind)
        return f"frozen<{kind}>" if frozen else kind

    def mask(self):
        return f" MASKED WITH {self.chance.choice(FUNCTIONS)}" if self.often(0.04) else ""

    def pairs(self, first, names, values, at_most=2):
        """A map of options."""
        chance = self.chance
        given = {} if self.often(0.05) else dict(first)
        for _ in range(chance.randint(0, at_most) if self.often(0.6) else 0):
            given[chance.choice(names)] = chance.choice(values)
        return "{" + ", ".join(f"'{name.strip(chr(39))}': {one}" for name, one in given.items()) + "}"

    def option(self):
        chance = self.chance
        name = chance.choice(OPTIONS if self.often(0.3) else [*SENSIBLE, "compaction", "compression", "caching", "comment"])
        if name == "compaction" and self.often(0.9):
            strategy = quoted(chance.choice(COMPACTION[:4] if self.often(0.85) else COMPACTION))
            return f"compaction = {self.pairs({'class': strategy}, COMPACTION_OPTIONS, COMPACTION_VALUES)}"
        if name == "compression" and self.often(0.9):
            first = chance.choice([{"enabled": "false"}, {"enabled": "'false'"}]) if self.often(0.2) else {
                "class": quoted(chance.choice(COMPRESSION[:5] if self.often(0.85) else COMPRESSION))}
            return f"compression = {self.pairs(first, COMPRESSION_OPTIONS, COMPRESSION_VALUES)}"
        if name == "caching" and self.often(0.9):
            keys, rows = chance.choice(["'ALL'", "'NONE'", "'all'", "'x'", "1"]), chance.choice(["'ALL'", "'NONE'", "'10'", "5", "'0'", "'-1'", "'x'", "99999999999"])
            return f"caching = {self.pairs({'keys': keys, 'rows_per_partition': rows}, ['keys', 'rows_per_partition', 'nosuch'], ['1', quoted('ALL')], 1)}"
        if name == "id":
            return f"id = {chance.choice([str(uuid.UUID(int=self.chance.getrandbits(128), version=1)), quoted('x'), '1'])}"
        if name in SENSIBLE and self.often(0.85):
            return f"{name} = {chance.choice(SENSIBLE[name])}"
        return f"{name} = {chance.choice(TEXTS if name == 'comment' or self.often(0.4) else NUMBERS)}"

    def options(self, at_most):
        return [self.option() for _ in range(self.chance.randint(0, at_most))]

    def change(self):
        """A statement, and what is known once it was accepted."""
        pick = self.chance.random()
        if pick < 0.14 or not self.types and pick < 0.3:
            return self.create_type()
        if pick < 0.42 or not self.tables:
            return self.create_table()
        for likely, make in ((0.50, self.alter_type), (0.53, self.drop_type), (0.66, self.add), (0.74, self.drop), (0.80, self.rename), (0.92, self.alter),
                             (0.94, self.drop_table), (0.97, self.alter_keyspace), (1.0, self.oddity)):
            if pick < likely:
                return make()

    def of(self, name):
        return f"{self.keyspace}.{name}"

    def exists(self, likely=0.15, word="IF EXISTS "):
        return word if self.often(likely) else ""

    def create_type(self):
        # A Cassandra garbles other names where it tells of the change.
        name = next(filter(str.isascii, iter(self.name, None)))
        fields = {self.name(): self.kind() for _ in range(self.chance.randint(1, 4))}
        text = f"CREATE TYPE {self.exists(word='IF NOT EXISTS ')}{self.of(name)} ({', '.join(f'{field} {kind}' for field, kind in fields.items())})"
        return text, lambda: self.types.setdefault(name, dict(fields))

    def create_table(self):
        chance, name = self.chance, self.name()
        style = chance.choice(["plain"] * 12 + ["counter", "compact", "compact"])
        names = list(dict.fromkeys(self.name(odd=0.1) for _ in range(chance.randint(1, 7))))
        keys = names[:chance.choice([1, 1, 1, 2])]
        clustering = names[len(keys):len(keys) + chance.choice([0, 1, 1, 2, 3])]
        columns = {column: self.key_kind() for column in keys + clustering}
        regular = names[len(columns):]
        if style == "compact" and clustering and self.often(0.7):
            regular = regular[:1]
        columns |= {column: "counter" if style == "counter" else self.kind() for column in regular}
        static = {column: " STATIC" for column in columns if self.often(0.2 if column in regular and clustering else 0.01)}
        defined = [f"{column} {kind}{static.get(column, '')}{self.mask()}" for column, kind in columns.items()]
        if not clustering and len(keys) == 1 and self.often(0.4):
            defined[0] += " PRIMARY KEY"
        elif self.often(0.99):
            first = f"({', '.join(keys)})" if len(keys) > 1 or self.often(0.3) else keys[0]
            defined.append(f"PRIMARY KEY ({', '.join([first, *clustering])})")
        options = self.options(3) if self.often(0.5) else []
        if clustering and self.often(0.5):
            ordered = clustering if self.often(0.9) else clustering[::-1][:1]
            ordered = ", ".join(f"{column} {chance.choice(['ASC', 'DESC'])}" for column in ordered)
            options.append(f"CLUSTERING ORDER BY ({ordered})")
        options += ["COMPACT STORAGE"] * (style == "compact")
        text = f"CREATE TABLE {self.exists(word='IF NOT EXISTS ')}{self.of(name)} ({', '.join(defined)})" + (f" WITH {' AND '.join(options)}" if options else "")
        return text, lambda: self.tables.setdefault(name, Table(name, columns, keys + clustering))

    def alter_type(self):
        name = self.name(self.types)
        fields = self.types.get(name, {})
        pick = self.chance.random()
        if pick < 0.6:
            field, kind = self.name(), self.kind()
            return (f"ALTER TYPE {self.exists()}{self.of(name)} ADD {self.exists(word='IF NOT EXISTS ')}{field} {kind}",
                    lambda: fields.setdefault(field, kind))
        if pick < 0.95:
            old, new = self.name(fields), self.name()

            def renamed():
                if old in fields:
                    fields[new] = fields.pop(old)
            return f"ALTER TYPE {self.of(name)} RENAME {self.exists()}{old} TO {new}", renamed
        return f"ALTER TYPE {self.of(name)} ALTER {self.name(fields)} TYPE {self.kind()}", lambda: None

    def drop_type(self):
        name = self.name(self.types)
        return f"DROP TYPE {self.exists()}{self.of(name)}", lambda: self.types.pop(name, None)

    def table(self):
        name = self.name(self.tables)
        return self.tables.get(name) or Table(name, {}, [])

    def add(self):
        table, chance = self.table(), self.chance
        again = self.dropped.get(table.name, {})
        new = {}
        for _ in range(chance.choice([1, 1, 1, 2])):
            column = chance.choice(list(again)) if again and self.often(0.4) else self.name(odd=0.1)
            new[column] = again[column] if column in again and self.often(0.5) else self.kind()
        defined = [f"{column} {kind}{' STATIC' * self.often(0.12)}{self.mask()}" for column, kind in new.items()]
        text = ", ".join(defined) if len(defined) == 1 or self.often(0.5) else f"({', '.join(defined)})"
        return (f"ALTER TABLE {self.exists()}{self.of(table.name)} ADD {self.exists(word='IF NOT EXISTS ')}{text}",
                lambda: table.columns.update({c: k for c, k in new.items() if c not in table.columns}))

    def drop(self):
        table, chance = self.table(), self.chance
        others = [c for c in table.columns if c not in table.keys] if self.often(0.9) else list(table.columns)
        gone = list(dict.fromkeys(self.name(others) for _ in range(chance.choice([1, 1, 1, 2]))))
        text = gone[0] if len(gone) == 1 else f"({', '.join(gone)})" if self.often(0.7) else ", ".join(gone)
        using = f" USING TIMESTAMP {chance.choice(['1', '0', '-5', '9223372036854775807', '1700000000000000'])}" if self.often(0.1) else ""

        def dropped():
            for column in gone:
                if column in table.columns:
                    self.dropped.setdefault(table.name, {})[column] = table.columns.pop(column)
        return f"ALTER TABLE {self.exists()}{self.of(table.name)} DROP {self.exists()}{text}{using}", dropped

    def rename(self):
        table = self.table()
        old, new = self.name(table.keys if self.often(0.9) else table.columns), self.name(odd=0.1)

        def renamed():
            if old in table.columns:
                table.columns = {new if c == old else c: k for c, k in table.columns.items()}
                table.keys = [new if c == old else c for c in table.keys]
        more = f" AND {self.name(table.columns)} TO {self.name()}" if self.often(0.03) else ""
        return f"ALTER TABLE {self.of(table.name)} RENAME {self.exists()}{old} TO {new}{more}", renamed

    def alter(self):
        table = self.table()
        if self.often(0.07):
            return f"ALTER TABLE {self.of(table.name)} DROP COMPACT STORAGE", lambda: None
        if self.often(0.1):
            column = self.name(table.columns)
            what = self.chance.choice(["DROP MASKED", f"MASKED WITH {self.chance.choice(FUNCTIONS)}", f"TYPE {self.kind()}"])
            return f"ALTER TABLE {self.exists()}{self.of(table.name)} ALTER {self.exists()}{column} {what}", lambda: None
        return f"ALTER TABLE {self.exists()}{self.of(table.name)} WITH {' AND '.join(self.options(2) or [self.option()])}", lambda: None

    def drop_table(self):
        name = self.name(self.tables)

        def dropped():
            self.tables.pop(name, None)
            self.dropped.pop(name, None)
        return f"DROP TABLE {self.exists()}{self.of(name)}", dropped

    def replication(self):
        chance = self.chance
        if self.often(0.6):
            return chance.choice(["{'class': 'SimpleStrategy', 'replication_factor': 1}", "{'class': 'NetworkTopologyStrategy', 'datacenter1': '1'}",
                                  "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}", "{'class': 'SimpleStrategy', 'replication_factor': '1'}"])
        return self.pairs({"class": quoted(chance.choice(REPLICATION))}, REPLICATION_OPTIONS, REPLICATION_VALUES)

    def alter_keyspace(self):
        given = self.chance.choice([f"replication = {self.replication()}", f"durable_writes = {self.chance.choice(['true', 'false', '1', quoted('true')])}",
                                    f"replication = {self.replication()} AND durable_writes = true", "nosuch = 1"])
        return f"ALTER KEYSPACE {self.exists()}{self.keyspace} WITH {given}", lambda: None

    def oddity(self):
        """A keyspace beside, which is dropped at once if it comes to be; and what is refused."""
        name = self.name(odd=0.7)
        return f"CREATE KEYSPACE {self.exists(word='IF NOT EXISTS ')}{name} WITH replication = {self.replication()}", None


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def sample(kind, chance):
    """Bytes of a value of a type that the wire named. None where no one knows them."""
    name = kind.name
    whole = {"int": 4, "bigint": 8, "smallint": 2, "tinyint": 1, "timestamp": 8, "counter": 8}
    if name in whole:
        return chance.randint(0, 9).to_bytes(whole[name], "big")
    simple = {
        "text": b"text", "ascii": b"a", "blob": b"\0\xff", "boolean": b"\1", "decimal": b"\0\0\0\2" + minimal(314), "double": struct.pack(">d", 1.5),
        "float": struct.pack(">f", 2.5), "varint": minimal(-300), "uuid": uuid.UUID(int=7, version=4).bytes, "timeuuid": uuid.UUID(int=7, version=1).bytes,
        "inet": bytes([127, 0, 0, 1]), "date": struct.pack(">I", 2**31), "time": struct.pack(">q", 1), "duration": b"\2\4\6",
    }
    if name in simple:
        return simple[name]
    parts = [sample(part, chance) for part in kind.args]
    if name == "custom" and kind.label.endswith("LexicalUUIDType"):
        return uuid.UUID(int=9, version=4).bytes
    if name == "custom" or None in parts:
        return None
    if name in ("list", "set"):
        return struct.pack(">i", 1) + sized(parts[0])
    if name == "map":
        return struct.pack(">i", 1) + sized(parts[0]) + sized(parts[1])
    if name == "vector":
        one = parts[0] if fixed_width(kind.args[0]) else vint(len(parts[0])) + parts[0]
        return one * int(kind.label)
    return b"".join(map(sized, parts))


def excused(done, text, ours, theirs):
    """Whether two answers differ as docs/COMPAT.md says."""
    if theirs.code == SERVER_ERROR:
        return True  # a Java exception
    if re.match("The type .* could not be loaded again|Counters are not allowed inside", ours.error or ""):
        return True  # a type that Cassandra takes for a class, and does not start again
    if "vector<" in text + " ".join(done) and re.search("circular|still used", ours.error or ""):
        return True  # a type inside a vector, which is overlooked
    if ours.error is None and theirs.kind == "schema" and re.match("ALTER TYPE .* RENAME IF EXISTS", text):
        return True  # told as a change where there is no such field
    if (ours.error or "").startswith("Cannot mask columns because"):
        return True  # which a Cassandra without masks lets pass in ALTER TABLE ADD
    if " MASKED WITH " in text and None not in (ours.error, theirs.error):
        return True  # which of several mistakes is told, for columns are in the order of a hash table
    return False


def told(wire, keyspace):
    """What a node tells of a keyspace, but for ids and the times of drops."""
    # Types with the name of another are quoted here, wherever they are named.
    described = wire.must(f"DESCRIBE KEYSPACE {keyspace}").rows
    out = {"DESCRIBE": [[NATIVE_QUOTED.sub(r"\1", cell.decode()) for cell in row] for row in described]}
    for table, columns in (
            ("keyspaces", "*"), ("types", "*"), ("columns", "*"), ("dropped_columns", "keyspace_name, table_name, column_name, type, kind"),
            ("tables", "table_name, additional_write_policy, allow_auto_snapshot, bloom_filter_fp_chance, caching, cdc, comment, compaction, compression, "
                       "crc_check_chance, default_time_to_live, extensions, flags, gc_grace_seconds, incremental_backups, max_index_interval, memtable, "
                       "memtable_flush_period_in_ms, min_index_interval, read_repair, speculative_retry")):
        rows = wire.must(f"SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = '{keyspace}'").rows
        rows = [[cell and NATIVE_QUOTED.sub(r"\1", cell.decode("latin-1")) for cell in row] for row in rows]
        if table == "dropped_columns":
            # User types become tuples there, which Cassandra does not do inside vectors.
            rows = [[re.sub("vector<.*", "vector", cell) for cell in row] for row in rows]
        out[table] = sorted(rows, key=str)
    return out


def rows_of(wire, keyspace):
    """The rows of each table, with their columns."""
    out = {}
    for (name,) in wire.must(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'").rows:
        name = name.decode()
        reply = wire.query(f'SELECT * FROM {keyspace}."{name.replace(chr(34), chr(34) * 2)}"')
        # Inside a vector Cassandra does not see that a type has changed.
        columns = [(column, str(kind).partition("vector<")[0]) for column, kind in reply.columns]
        out[name] = reply.error or (columns, reply.rows)
    return out


def fill(wires, keyspace, chance):
    """A row in each table, where a node can be told one."""
    named = lambda name: '"' + name.replace('"', '""') + '"'  # noqa: E731
    for (name,) in wires[0].must(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'").rows:
        table = f"{keyspace}.{named(name.decode())}"
        columns = wires[0].must(f"SELECT column_name, kind, type FROM system_schema.columns WHERE keyspace_name = '{keyspace}' AND table_name = "
                                f"{quoted(name.decode())}").rows
        of = {column.decode(): (kind.decode(), of_type.decode()) for column, kind, of_type in columns}
        if any(of_type == "counter" for _, of_type in of.values()):
            keys = [named(column) for column, (kind, _) in of.items() if kind in ("partition_key", "clustering")]
            raised = ", ".join(f"{named(column)} = {named(column)} + 1" for column, (kind, _) in of.items() if kind == "regular")
            text = f"UPDATE {table} SET {raised} WHERE {' AND '.join(f'{key} = ?' for key in keys)}"
        else:
            text = f"INSERT INTO {table} ({', '.join(map(named, of))}) VALUES ({', '.join('?' * len(of))})"
        replies = [wire.prepare(text) for wire in wires]
        same(text, *replies)
        if replies[0].error is None:
            values = [sample(kind, chance) for _, kind in bind_types(replies[0])]
            same(f"{text} -- {values}", *(wire.execute(reply, values, timestamp=1) for wire, reply in zip(wires, replies)))


def same(text, ours, theirs, done=()):
    if (ours.kind, ours.code) != (theirs.kind, theirs.code) and not excused(done, text, ours, theirs):
        raise Difference(f"{text}\n  node:      {ours.kind} {ours.code} {ours.error}\n  cassandra: {theirs.kind} {theirs.code} {theirs.error}")
    return ours.kind == theirs.kind


def compare(what, before, after):
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            old, new = before.get(name), after.get(name)
            if isinstance(old, list) and isinstance(new, list):
                old, new = [x for x in old if x not in new], [x for x in new if x not in old]
            raise Difference(f"{what}: {name}\n  {old}\n  {new}")


def check(seed, changes, nodes, words=None):
    """A schema and its changes. Returns None, or what differed and what leads there."""
    chance, keyspace, done = random.Random(seed), f"{PREFIX}_{seed}", []
    maker = Maker(chance, keyspace)
    wires = [connect(node) for node in nodes]
    try:
        for wire in wires:
            wire.query(f"DROP KEYSPACE IF EXISTS {keyspace}")
            wire.must(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        for _ in range(changes):
            text, accepted = maker.change()
            ours, theirs = (wire.query(text) for wire in wires)
            done.append(f"{text}; -- {theirs.error or 'accepted'}")
            if words is not None and ours.error != theirs.error:
                words.append(f"{text}\n  node:      {ours.error}\n  cassandra: {theirs.error}")
            if not same(text, ours, theirs, done):
                return None  # from here on they differ
            if ours.error is None and accepted:
                accepted()
            elif ours.error is None:
                name = text.split(" WITH ")[0].split(" ")[-1]
                compare(text, *(told_of(wire, name) for wire in wires))
                for wire in wires:
                    wire.must(f"DROP KEYSPACE {name}")
            if sorted(ours.warnings) != sorted(theirs.warnings):
                raise Difference(f"{text}\n  node warns:      {ours.warnings}\n  cassandra warns: {theirs.warnings}")
        # Of a class inside angle brackets Cassandra does not say that it is frozen.
        if not any(re.search(r"<[^()]*'", text) for text in done):
            compare("told", *(told(wire, keyspace) for wire in wires))
        fill(wires, keyspace, chance)
        compare("rows", *(rows_of(wire, keyspace) for wire in wires))
    except Difference as difference:
        return f"seed {seed}\n" + "\n".join(done) + f"\n\n{difference}"
    finally:
        # What a Cassandra could not start on again is not left to it.
        wires[1].query(f"DROP KEYSPACE IF EXISTS {keyspace}")
        for wire in wires:
            wire.close()
    return None


def told_of(wire, name):
    return {"DESCRIBE": [[cell.decode() for cell in row] for row in wire.must(f"DESCRIBE KEYSPACE {name}").rows]}


class Kept:
    """What a node tells of some keyspaces, to the ids of tables, and their rows. `cdc` is kept by neither where it is not enabled."""

    def __init__(self, node, keyspaces):
        wire, self.of = connect(node), {}
        for keyspace in keyspaces:
            ids = wire.must(f"SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = '{keyspace}'").rows
            dropped = wire.must(f"SELECT * FROM system_schema.dropped_columns WHERE keyspace_name = '{keyspace}'").rows
            kept = told(wire, keyspace)
            kept["DESCRIBE"] = [[*row[:-1], re.sub(r"AND cdc = \w+", "", row[-1])] for row in kept["DESCRIBE"]]
            self.of[keyspace] = {**kept, "ids": ids, "dropped": dropped, "rows": rows_of(wire, keyspace)}
        wire.close()

    def differ(self, what, other):
        """The stories of what is not as it was."""
        stories = []
        for keyspace, before in self.of.items():
            try:
                compare(f"{keyspace} {what}", before, other.of[keyspace])
            except Difference as difference:
                stories.append(str(difference))
        return stories


def check_starts(node, seeds, masks):
    """Has the node started again after a kill, and a Cassandra started on its directory. Returns the stories of what is not as it was."""
    keyspaces = [f"{PREFIX}_{seed}" for seed in seeds]
    # Of some keyspaces the commit log has nothing.
    node.flush()
    before = Kept(node, keyspaces)
    node.kill()
    node.start()
    stories = before.differ("after a kill", Kept(node, keyspaces))
    node.stop()
    other = Cassandra(node.directory, node.address, settings=[f"{MASKS}: {masks}"])
    try:
        other.start()
        stories += before.differ("in Cassandra", Kept(other, keyspaces))
        log = (node.directory / "system.log").read_text(errors="replace").splitlines()
        stories += [line for line in log if line.startswith("ERROR")]
        other.stop()
    finally:
        other.kill()
    node.start()
    return stories


def masks_of(cassandra):
    """Whether the Cassandra lets columns be masked, as it is written in a cassandra.yaml."""
    wire = connect(cassandra)
    (row,) = wire.must(f"SELECT value FROM system_views.settings WHERE name = '{MASKS}'").rows
    wire.close()
    return row[0].decode()


def like(cassandra, directory):
    """An Ilion with the settings of the Cassandra that matter here, on a directory of which another Cassandra can take hold."""
    return Ilion(directory, settings={MASKS: masks_of(cassandra), "cluster_name": "conformance"})


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--schemas", type=int, default=10, help="with seeds that follow each other")
    options.add_argument("--changes", type=int, default=40, help="of each")
    options.add_argument("--seconds", type=float, default=0, help="go on with further schemas for so long")
    options.add_argument("--words", action="store_true", help="print refusals whose words differ")
    options.add_argument("--target", default="ilion")
    options.add_argument("--cassandra", required=True, help="a running real Cassandra: its directory or address")
    given = options.parse_args()
    stories, words = [], [] if given.words else None
    is_folder = pathlib.Path(given.cassandra).is_dir()
    cassandra = Cassandra(given.cassandra, owned=False) if is_folder else open_target(given.cassandra, None)
    with tempfile.TemporaryDirectory() as scratch, (
            like(cassandra, scratch) if given.target == "ilion" else open_target(given.target, scratch)) as target:
        nodes = [target, cassandra]
        ends, seed = time.monotonic() + given.seconds, given.seed
        while seed < given.seed + given.schemas or time.monotonic() < ends:
            story = check(seed, given.changes, nodes, words)
            if story:
                complain(story)
                stories.append(story)
            seed += 1
        if given.target == "ilion":
            found = check_starts(target, range(given.seed, seed), masks_of(cassandra))
            complain("\n".join(found))
            stories += found
    if words:
        print("\n".join(words))
    print(f"{seed - given.seed} schemas, {len(stories)} differences")
    return 1 if stories else 0


if __name__ == "__main__":
    sys.exit(main())
