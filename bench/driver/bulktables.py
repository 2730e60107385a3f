"""The tables that bulk reading is measured on, as Ilion wrote them and as Cassandra did.

1. `scan make` writes each table with Ilion's writer.
2. A Cassandra imports a copy of these files and rewrites every SSTable (`upgradesstables -a`), without any compaction of its own.
3. What it wrote is copied.

A table stands in `DIRECTORY/WRITER/TABLE/bench/rows-ID`, which is where cqlite looks for it, with its schema beside it, where
`ilion export` looks for that.
"""
import os
import shutil
import time
from dataclasses import dataclass

from harness.wire import Wire

from . import machine
from .client import Failed

WRITERS = ("ilion", "cassandra")
KEYSPACE, TABLE = "bench", "rows"
# Where nodes have the tables: `bench` is that of the client of point reads.
IN_NODES = "bulk"
FOLDER = f"{KEYSPACE}/{TABLE}-{1:032x}"
CHUNK_KIB = 16
# Characters of the key and of the clustering.
NAME_BYTES = 16
MIB = 2**20
REWRITE_PATIENCE_S = 600


@dataclass(frozen=True)
class Table:
    """Rows of a key, a clustering and so many other columns of text."""
    name: str
    rows: int
    in_partition: int = 10
    columns: int = 4
    bytes: int = 16
    sstables: int = 1
    writers: tuple = WRITERS

    @property
    def what(self):
        size = NAME_BYTES * 2 + self.columns * self.bytes
        many = "" if self.sstables == 1 else f", in {self.sstables} SSTables that overlap"
        rows = "one row" if self.in_partition == 1 else f"{self.in_partition:,} rows"
        return f"{self.rows:,} rows of {self.columns + 2} columns and {size:,} bytes, {rows} in a partition{many}"

    @property
    def value_bytes(self):
        """Bytes of all values, each key once."""
        return self.rows // self.in_partition * NAME_BYTES + self.rows * (NAME_BYTES + self.columns * self.bytes)

    def shape(self):
        return [f"{name}={getattr(self, name)}" for name in ("rows", "in_partition", "columns", "bytes", "sstables")]

    def schema(self, name):
        values = "".join(f"v{number:02} text, " for number in range(self.columns))
        return (f"CREATE TABLE {name} (k text, c text, {values}PRIMARY KEY (k, c)) WITH compression = "
                f"{{'class': 'LZ4Compressor', 'chunk_length_in_kb': {CHUNK_KIB}}} AND compaction = "
                "{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}")


def whole(rows, in_partition):
    """At least one partition, and no part of one."""
    return max(rows // in_partition, 1) * in_partition


# Name: rows of a partition, bytes of a row without the key, what was published of Cassandra in MB/s.
PARTITIONS = {"100 B": (1, 84, 28), "1 KiB": (1, 1008, 59), "10 KiB": (1, 10_224, 101), "100 KiB": (1, 102_384, 80),
              "1 MiB": (1, 1_048_560, 73), "100 rows of 1 KiB": (100, 1024, 50), "1,000 rows of 100 B": (1000, 102, 10)}


def all_tables(given):
    """Every table by its name, in the sizes that the parameters want."""
    rows = given.rows
    tables = [
        Table("one", whole(rows, 10)), Table("four", whole(rows, 10), sstables=4),
        Table("wide", whole(rows * 4 // 5, 10), columns=10, bytes=67),
        Table("single", rows, in_partition=1), Table("thousand", whole(rows, 1000), in_partition=1000),
        Table("twenty", whole(rows // 4, 10), columns=18),
    ]
    for name, (in_partition, size, _) in PARTITIONS.items():
        count = whole(given.partition_mib * MIB // (size + NAME_BYTES // in_partition), in_partition)
        tables.append(Table(name, count, in_partition=in_partition, columns=1, bytes=size - NAME_BYTES))
    # Cassandra takes its time with a partition of this size, and what is measured is Ilion's memory.
    huge = given.huge_mib * MIB // 1024
    tables.append(Table("huge", huge, in_partition=huge, columns=1, bytes=1008, writers=("ilion",)))
    return {table.name: table for table in tables}


class Store:
    """The directory with the tables."""

    def __init__(self, directory, tables, scan):
        self.directory, self.tables, self.scan = directory, tables, scan

    def root(self, table, writer):
        return self.directory / writer / table.name.replace(" ", "-").replace(",", "")

    def folder(self, table, writer):
        return self.root(table, writer) / FOLDER

    def files(self, table, writer):
        return sorted(path for path in self.folder(table, writer).iterdir() if is_of_sstable(path))

    def disk_bytes(self, table, writer):
        return sum(path.stat().st_size for path in self.files(table, writer))

    def make(self):
        """Has Ilion's writer write every table."""
        for table in self.tables:
            machine.say(f"{table.name}: {table.what}")
            folder = self.prepare(table, "ilion")
            machine.lines(self.scan, "make", folder, *table.shape())
            self.check(table, "ilion")

    def prepare(self, table, writer):
        folder = self.folder(table, writer)
        folder.mkdir(parents=True)
        (folder / "schema.cql").write_text(table.schema(f"{KEYSPACE}.{TABLE}") + ";\n")
        return folder

    def check(self, table, writer):
        found = len([path for path in self.files(table, writer) if path.name.endswith("-Data.db")])
        if found != table.sstables:
            raise Failed(f"{table.name} of {writer} has {found} SSTables, {table.sstables} are wanted")

    def rewrite(self, server, is_kept):
        """Has a Cassandra that runs write every table once more, and copies what it wrote. Tables that are kept stay there."""
        tables = [table for table in self.tables if "cassandra" in table.writers]
        for table in tables:
            machine.say(f"{table.name}: rewritten by Cassandra")
            name = node_name(table)
            take_in(server, table, name, self.files(table, "ilion"))
            server.node.nodetool("upgradesstables", "-a", IN_NODES, name)
            written = self._rewritten(server, table, name)
            folder = self.prepare(table, "cassandra")
            for file in written:
                shutil.copyfile(file, folder / file.name)
            self.check(table, "cassandra")
            if not is_kept(table):
                with connection(server) as wire:
                    wire.must(f"DROP TABLE {IN_NODES}.{name}")

    def _rewritten(self, server, table, name):
        """The new files, once the old ones are gone."""
        (folder,) = server.node.data_dir.glob(f"{IN_NODES}/{name}-*")
        deadline = time.monotonic() + REWRITE_PATIENCE_S
        while True:
            files = [path for path in sorted(folder.iterdir()) if path.is_file()]
            generations = {path.name.split("-")[1] for path in files if is_of_sstable(path)}
            is_settled = all(is_of_sstable(path) for path in files) and len(generations) == table.sstables
            if is_settled:
                return files
            if time.monotonic() > deadline:
                raise Failed(f"Cassandra has {len(generations)} SSTables of {table.name} left, {table.sstables} are wanted")
            time.sleep(0.5)

    def drop_cache(self, table, writer):
        """Has the kernel forget what it keeps of the files; returns how much it still has, if it tells."""
        return drop_cached(self.files(table, writer))


def drop_cached(files):
    os.sync()
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if not shutil.which("fincore"):
        return None
    return sum(map(int, machine.lines("fincore", "--bytes", "--noheadings", "--output", "RES", *files)))


def read_files(files):
    """Has the kernel read the files."""
    piece = memoryview(bytearray(MIB))
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(piece):
                pass


def is_of_sstable(path):
    parts = path.name.split("-")
    return len(parts) >= 4 and parts[0] in ("nb", "oa", "da")


def node_name(table, writer=None):
    """A table's name in a node."""
    name = "".join(letter if letter.isalnum() else "_" for letter in table.name.lower()).strip("_")
    return f"t_{name}_{writer}" if writer else f"t_{name}"


class connection:
    """A connection to a server for statements."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.wire = Wire(self.server.node.address, timeout_s=120)
        return self.wire

    def __exit__(self, *_):
        self.wire.close()


def take_in(server, table, name, files):
    """Makes the table in a node and gives it a copy of the files."""
    with connection(server) as wire:
        wire.must(f"CREATE KEYSPACE IF NOT EXISTS {IN_NODES} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        wire.must(table.schema(f"{IN_NODES}.{name}"))
    copy = server.node.directory / "taken" / name
    copy.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, copy / file.name)
    server.node.nodetool("import", IN_NODES, name, copy)
    shutil.rmtree(copy)
