"""One data directory that a Cassandra and an Ilion serve in turn, and what has to be the same after each change of hands."""
import glob
import re
import time

from harness.node import Cassandra, Ilion, can_bind
from harness.types import show
from harness.wire import Wire

# Columns whose write time and TTL are compared: any that is one cell.
ONE_CELL = ("int", "text", "varchar", "bigint", "blob", "uuid", "date", "boolean", "double")
# What a Cassandra logs at later starts on its own directory, too: about the machine, and about this installation.
OF_THE_MACHINE = ("Not marking nodes down due to local pause", "Some operations were slow", "Trigger directory doesn't exist")
# A Cassandra 5.0 builds SAI for the SSTables that lack it on threads of its own, one for each index, and looks for what is missing
# once more at the end of its start (StorageAttachedIndex, startInitialBuild and startPreJoinTask). Where it then sees a file half
# written it takes the index for broken, and says to restart the node.
SAI_IS_BROKEN = re.compile(r"Validation failed for index component \w+ on SSTable (\S+)")
SAI_IS_GIVEN_UP = "Storage-attached index is no longer queryable"
STARTS_MAX = 3


MICROS_OF_DROP = re.compile(r"(DROP \S+ USING TIMESTAMP \d+)\d{3}\b")


class InPlace(Ilion):
    """Ilion on the directory of a Cassandra, with that Cassandra's own cassandra.yaml."""

    def arguments(self):
        return ["--config", self.directory / "cassandra.yaml"]

    def drain(self):
        self.nodetool("drain")
        self.stop()


class Directory:
    """The directory, and who serves it now. `settings` are lines of cassandra.yaml."""

    def __init__(self, path, address, version, settings=()):
        self.cassandra = Cassandra(path, address, settings=settings, version=version)
        self.ilion = InPlace(path, address)
        self.version, self.node, self.wire = version, None, None
        self.known_complaints, self.without_sai = None, set()

    def hand_to(self, node):
        """Drains whoever serves the directory and starts the other."""
        self.release()
        data = [str(path).removesuffix("-Data.db") for path in self.cassandra.directory.rglob("*-Data.db")]
        self.without_sai = {path for path in data if not glob.glob(f"{glob.escape(path)}-SAI+*")}
        node.start()
        found = self.complaints_of_start() if node is self.cassandra else {}
        self.node, self.wire = node, Wire(node.address, timeout_s=120)
        if node is self.cassandra:
            if self.known_complaints is None:
                self.known_complaints = found
            new = [line for kind, line in found.items() if kind not in self.known_complaints]
            assert not new, "\n".join(new)

    def complaints_of_start(self):
        """What Cassandra logged as it started. It is started again where it found an index that it was just writing, and what it
        said besides then counts, too: each start has a log of its own."""
        found = self.complaints()
        for _ in range(STARTS_MAX - 1):
            if not any(map(self.looked_too_early, found.values())):
                break
            self.cassandra.restart()
            found = {kind: line for kind, line in found.items() if not self.looked_too_early(line)} | self.complaints()
        return found

    def looked_too_early(self, line):
        """Whether a complaint is about an index that was just being written: of an SSTable that had none."""
        broken = SAI_IS_BROKEN.search(line)
        return SAI_IS_GIVEN_UP in line or bool(broken and broken[1] in self.without_sai)

    def release(self):
        if self.wire is not None:
            self.wire.close()
        if self.node is self.cassandra:
            self.cassandra.stop()
        elif self.node is self.ilion:
            self.ilion.drain()
        self.node = self.wire = None

    def crash(self):
        """Kills the Cassandra that serves the directory."""
        self.wire.close()
        self.cassandra.kill()
        # What is left of the process may listen for a while.
        deadline = time.monotonic() + 120
        while not can_bind(self.cassandra.address, self.cassandra.port) and time.monotonic() < deadline:
            time.sleep(0.5)
        self.node = self.wire = None

    def kill(self):
        self.cassandra.kill()
        self.ilion.kill()

    def complaints(self):
        """What Cassandra logged above INFO, or about rebuilding and skipping, by its text without numbers and names."""
        out = {}
        for line in (self.cassandra.directory / "system.log").read_text().splitlines():
            loud = line.startswith(("WARN", "ERROR"))
            odd = re.search(r"rebuil|corrupt|mismatch|upgrade|incompatible|skipping|Snapshotting", line, re.IGNORECASE)
            if (loud or odd) and "Node configuration" not in line and not any(x in line for x in OF_THE_MACHINE):
                kind = re.sub(r"[0-9][0-9a-f.,:-]*", "N", line.partition(" - ")[2])
                out.setdefault((kind, self.looked_too_early(line)), line)
        return out

    def run(self, statements):
        for statement in statements:
            self.wire.must(statement)

    def dump(self, keyspace="app"):
        """Every row of every table and view with write times and TTLs, the schema as stored and as DESCRIBE prints it."""
        out = {}
        ask = self.wire.must
        tables = [row[0].decode() for row in ask(f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = "
                                                 f"'{keyspace}'").rows]
        tables += [row[0].decode() for row in ask(f"SELECT view_name FROM system_schema.views WHERE keyspace_name = "
                                                  f"'{keyspace}'").rows]
        for table in sorted(tables):
            out[table] = self.table(f'"{keyspace}"."{table}"', keyspace, table)
        local = ("host_id, schema_version, tokens, cluster_name, data_center, rack, release_version, cql_version, partitioner, "
                 "bootstrapped")
        for name, of in (("system.local", local), *((f"system_schema.{t}", "*") for t in self.schema_tables())):
            out[name] = sorted([x or b"" for x in row] for row in ask(f"SELECT {of} FROM {name}").rows)
        for what in (f"KEYSPACE {keyspace}", "SCHEMA", f"KEYSPACE {keyspace} WITH INTERNALS", "TABLES", "FUNCTIONS",
                     "AGGREGATES", "TYPES"):
            rows = [[x.decode() for x in row] for row in ask(f"DESCRIBE {what}").rows]
            # Ilion has the virtual tables of 5.0 whoever made the directory.
            rows = [row for row in rows if row[0] != "system_views"]
            if "INTERNALS" in what:  # Cassandra's order of dropped columns is that of a hash table.
                rows = [[*row[:-1], line] for row in rows for line in sorted(x.rstrip(",") for x in row[-1].splitlines())]
                # It stores milliseconds. Until a restart it knows microseconds, which differ for two statements of
                # one millisecond.
                rows = [[*row[:-1], MICROS_OF_DROP.sub(r"\g<1>000", row[-1])] for row in rows]
            out[f"DESCRIBE {what}"] = rows
        return out

    def schema_tables(self):
        tables = ["keyspaces", "tables", "columns", "dropped_columns", "types", "indexes", "views", "functions", "aggregates",
                  "triggers"]
        return tables + (["column_masks"] if self.version.startswith("5.") else [])

    def table(self, name, keyspace, table):
        everything = self.wire.must(f"SELECT * FROM {name}")
        rows = sorted(tuple(show(kind, value) for (_, kind), value in zip(everything.columns, row))
                      for row in everything.rows)
        kinds = self.wire.must("SELECT column_name, kind, type FROM system_schema.columns WHERE keyspace_name = "
                               f"'{keyspace}' AND table_name = '{table}'").rows
        # Tables with COMPACT STORAGE have columns that are not shown.
        shown = {name for name, _ in everything.columns}
        kinds = [row for row in kinds if row[0].decode() in shown]
        key = [f'"{c.decode()}"' for c, kind, _ in kinds if kind in (b"partition_key", b"clustering")]
        cells = [f'"{c.decode()}"' for c, kind, ty in kinds if kind in (b"regular", b"static") and ty.decode() in ONE_CELL]
        if not cells:
            return rows, []
        asked = [*key, *(f"writetime({c})" for c in cells), *(f"ttl({c})" for c in cells)]
        times = self.wire.must(f"SELECT {', '.join(asked)} FROM {name}").rows
        now = time.time()
        first_ttl = len(asked) - len(cells)
        times.sort(key=lambda row: [x or b"" for x in row[:len(key)]])
        return rows, [[*row[:first_ttl], *(x and Expiry(now + int.from_bytes(x, "big")) for x in row[first_ttl:])]
                      for row in times]


class Expiry:
    """A moment at which something expires, equal to one that is two seconds away: TTLs are asked at different times."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __eq__(self, other):
        return isinstance(other, Expiry) and abs(self.seconds - other.seconds) <= 3

    def __repr__(self):
        return f"Expiry({self.seconds:.0f})"


def differences(before, after):
    """What two dumps do not have in common, in lines."""
    out = []
    for name in sorted(before.keys() | after.keys()):
        a, b = before.get(name), after.get(name)
        if a != b:
            flat = [list(x[0]) + list(x[1]) if isinstance(x, tuple) else list(x or []) for x in (a, b)]
            gone = [x for x in flat[0] if x not in flat[1]][:4]
            new = [x for x in flat[1] if x not in flat[0]][:4]
            out.append(f"{name}:\n  before {len(flat[0])}: {gone}\n  after {len(flat[1])}: {new}")
    return "\n".join(out)
