"""ilion export: the files that it writes, read with pyarrow, hold what CQL answers."""
import csv
import datetime
import decimal
import ipaddress
import json
import random
import subprocess
import time
import uuid

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from harness.node import Ilion, free_address, run

COLUMNS = {
    "a": ("ascii", "ascii"), "b": ("bigint", 2**63 - 1), "bl": ("blob", b"\x00\xff"), "bo": ("boolean", True),
    "da": ("date", Date("1066-10-14")), "de": ("decimal", decimal.Decimal("-1.50")), "d": ("double", -1.5e300),
    "du": ("duration", Duration(1, 2, 3)), "f": ("float", 0.5), "i": ("inet", "2001:db8::1"), "n": ("int", -(2**31)),
    "s": ("smallint", -(2**15)), "t": ("text", "žluť 🦀"), "ti": ("time", Time("23:59:59.999999999")),
    "ts": ("timestamp", datetime.datetime(2024, 2, 29, 12, 0, 0, 5000)),
    "tu": ("timeuuid", uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")), "ty": ("tinyint", -128),
    "u": ("uuid", uuid.UUID("ffffffff-ffff-4fff-8fff-ffffffffffff")), "v": ("varint", -(10**40)),
    "l": ("list<int>", [3, 1, 2]), "se": ("set<text>", SortedSet(["a", "b"])), "m": ("map<text, int>", {"x": 1, "y": 2}),
    "fl": ("frozen<list<frozen<set<int>>>>", [SortedSet([1, 2]), SortedSet([])]), "tp": ("tuple<int, text>", (1, None)),
    "ve": ("vector<float, 3>", [1.0, 2.5, -3.0]), "fm": ("frozen<map<uuid, frozen<list<int>>>>", {uuid.UUID(int=5): [1]}),
}
STATICS = {"st": "text STATIC", "sl": "list<int> STATIC"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node of its own, and a session: its directory is exported."""
    node = Ilion(tmp_path_factory.mktemp("export"), free_address())
    node.start()
    cluster = Cluster([node.address], port=node.port)
    session = cluster.connect()
    session.execute("CREATE KEYSPACE export WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TYPE export.point (x int, y frozen<list<int>>)")
    session.set_keyspace("export")
    yield node, session
    cluster.shutdown()
    node.stop()


def directory_of(node, table):
    (directory,) = node.data_dir.rglob(f"export/{table}-*")
    return directory


def export(node, table, out, *options):
    node.flush("export", table)
    return run([node.binary, "export", directory_of(node, table), "--out", out, *options])


def parquet(out):
    """All rows of a directory, in its order."""
    tables = [pyarrow.parquet.ParquetFile(path).read() for path in sorted(out.glob("*.parquet"))]
    return pa.concat_tables(tables)


def flat(column):
    """A column without types that lose something on the way to Python's."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def plain(value):
    """What pyarrow and the driver give, in one form."""
    if isinstance(value, Date):
        return value.days_from_epoch
    if isinstance(value, Time):
        return value.nanosecond_time
    if isinstance(value, Duration):
        return [value.months, value.days, value.nanoseconds]
    if isinstance(value, datetime.datetime):
        return round((value - datetime.datetime(1970, 1, 1)).total_seconds() * 1000)
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()
    if isinstance(value, (OrderedMapSerializedKey, dict)):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, (list, tuple, SortedSet)):
        return [plain(v) for v in value]
    return value


def structs(value, kind):
    """Structs of Arrow as lists of their values, as tuples are."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return [structs(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        return [[structs(k, kind.key_type), structs(v, kind.item_type)] for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [structs(v, kind.value_type) for v in value]
    return plain(value)


def of_arrow(table):
    columns = [flat(column) for column in table.columns]
    lists = [[structs(value, column.type) for value in column.to_pylist()] for column in columns]
    return [list(row) for row in zip(*lists)]


def of_cql(session, statement):
    return [[plain(value) for value in row] for row in session.execute(statement)]


def comparable(rows, kinds):
    """Numbers that are text in Arrow are text in both."""
    forms = {"varint": str, "decimal": str, "inet": lambda v: str(ipaddress.ip_address(v))}
    of_row = [forms.get(kind, lambda v: v) for kind in kinds]
    return [[v if v is None else form(v) for v, form in zip(row, of_row)] for row in rows]


def test_a_table_of_every_type_is_in_parquet_and_arrow_what_cql_answers(node, tmp_path):
    node, session = node
    kinds = {name: kind for name, (kind, _) in COLUMNS.items()}
    columns = ", ".join(f"{name} {kind}" for name, kind in (kinds | STATICS).items())
    session.execute(f"CREATE TABLE every (k int, c text, {columns}, ud point, fu frozen<point>, PRIMARY KEY (k, c)) "
                    "WITH CLUSTERING ORDER BY (c DESC)")
    for i, (name, (_, value)) in enumerate(COLUMNS.items()):
        insert = session.prepare(f"INSERT INTO every (k, c, {name}) VALUES (?, ?, ?)")
        session.execute(insert, (i % 5, name, value))
    session.execute("INSERT INTO every (k, c, ud, fu) VALUES (1, 'udt', {x: 1, y: [2]}, {y: []})")
    session.execute("INSERT INTO every (k, st, sl) VALUES (3, 'static', [1, 2])")
    session.execute("INSERT INTO every (k, st) VALUES (77, 'alone')")
    session.execute("INSERT INTO every (k, c, n) VALUES (8, 'gone', 1) USING TTL 1")
    node.flush("export", "every")
    session.execute("DELETE FROM every WHERE k = 2 AND c < 'e'")
    session.execute("DELETE l[0] FROM every WHERE k = 4 AND c = 'l'")
    session.execute("INSERT INTO every (k, c) VALUES (4, 'only a key')")
    time.sleep(2)
    said = export(node, "every", tmp_path / "parquet")
    names = [row.column_name for row in session.execute(
        "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'export' AND table_name = 'every'")]
    found = parquet(tmp_path / "parquet")
    assert sorted(found.column_names) == sorted(names)
    expected = of_cql(session, f"SELECT {', '.join(found.column_names)} FROM every")
    types = {row.column_name: row.type for row in session.execute(
        "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = 'export' AND table_name = 'every'")}
    in_order = [types[name] for name in found.column_names]
    assert comparable(of_arrow(found), in_order) == comparable(expected, in_order)
    assert len(expected) > 20 and said.startswith(f"{len(expected)} rows in ")
    export(node, "every", tmp_path / "arrow", "--format", "arrow")
    with pyarrow.ipc.open_file(tmp_path / "arrow" / "part-00000.arrow") as reader:
        assert of_arrow(reader.read_all()) == of_arrow(found)


def test_conditions_columns_and_limits_are_those_of_cql(node, tmp_path):
    node, session = node
    session.execute("CREATE TABLE wide (k text, c int, v int, w text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO wide (k, c, v, w) VALUES (?, ?, ?, ?)")
    for i in range(2000):
        session.execute(insert, (f"key {i % 20}", i, i % 7, "w" * (i % 50)))
    for n, condition in enumerate(["k = 'key 3'", "k = 'key 3' AND c > 1000", "v = 3", "token(k) > 0 AND v < 3",
                                   "k IN ('key 1', 'key 2')"]):
        out = tmp_path / str(n)
        export(node, "wide", out, "--where", condition, "--columns", "c,w,k")
        expected = of_cql(session, f"SELECT c, w, k FROM wide WHERE {condition} ALLOW FILTERING")
        assert sorted(of_arrow(parquet(out))) == sorted(expected), condition
        assert parquet(out).column_names == ["c", "w", "k"]
    export(node, "wide", tmp_path / "limit", "--limit", "5")
    assert parquet(tmp_path / "limit").num_rows == 5
    halves = []
    for n, tokens in enumerate(["-9223372036854775808:0", "0:9223372036854775807"]):
        export(node, "wide", tmp_path / f"half{n}", "--token-range", tokens, "--with-token")
        half = parquet(tmp_path / f"half{n}")
        assert half.column("token(k)").to_pylist() == sorted(half.column("token(k)").to_pylist())
        halves += of_arrow(half.drop(["token(k)"]))
    assert sorted(halves) == sorted(of_cql(session, "SELECT k, c, v, w FROM wide"))
    export(node, "wide", tmp_path / "csv", "--format", "csv")
    with open(tmp_path / "csv" / "part-00000.csv", newline="") as text:
        rows = [[row["k"], int(row["c"]), int(row["v"]), row["w"]] for row in csv.DictReader(text)]
    assert sorted(rows) == sorted(halves)
    export(node, "wide", tmp_path / "json", "--format", "json")
    lines = (tmp_path / "json" / "part-00000.json").read_text().splitlines()
    assert sorted(list(json.loads(line).values()) for line in lines) == sorted(halves)
    for what, admin, status, words in (("export.wide", "127.0.0.1:1", 1, "no node answers"),
                                       ("export.nosuch", f"127.0.0.1:{node.admin_port}", 2, "nosuch"),
                                       ("nosuch", None, 2, "there is no directory")):
        place = ["--admin", admin] if admin else []
        refused = subprocess.run([str(node.binary), "export", what, *place, "--out", str(tmp_path / "no")],
                                 capture_output=True, text=True, check=False)
        assert refused.returncode == status and words in refused.stderr, refused.stderr


def test_a_snapshot_is_exported_by_its_schema_file(node, tmp_path):
    node, session = node
    session.execute("CREATE TABLE snapped (k int PRIMARY KEY, gone int, v text)")
    session.execute("INSERT INTO snapped (k, gone, v) VALUES (1, 2, 'x')")
    session.execute("ALTER TABLE snapped DROP gone")
    node.nodetool("snapshot", "--table", "snapped", "-t", "copy", "export")
    (snapshot,) = node.data_dir.rglob("export/snapped-*/snapshots/copy")
    run(["cp", "-r", snapshot, tmp_path / "elsewhere"])
    run([node.binary, "export", tmp_path / "elsewhere", "--out", tmp_path / "out"])
    assert parquet(tmp_path / "out").to_pylist() == [{"k": 1, "v": "x"}]


def test_an_export_that_is_killed_leaves_whole_files_and_goes_on(node, tmp_path):
    node, session = node
    session.execute("CREATE TABLE big (k int, c int, v blob, PRIMARY KEY (k, c)) WITH compression = {'enabled': 'false'}")
    insert = session.prepare("INSERT INTO big (k, c, v) VALUES (?, ?, ?)")
    noise = random.Random(5)
    # Many at once: one alone waits 40 ms for an acknowledgement of TCP.
    execute_concurrent_with_args(session, insert, ((i % 200, i, noise.randbytes(10_000)) for i in range(6_000)), concurrency=32)
    node.flush("export", "big")
    out = tmp_path / "out"
    command = [str(node.binary), "export", str(directory_of(node, "big")), "--out", str(out)]
    began = time.monotonic()
    run([*command[:-1], str(tmp_path / "whole")])
    whole = time.monotonic() - began
    killed = 0
    # Somewhere in a whole export, and then in what is left.
    for _ in range(6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            process.wait(noise.random() * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        for path in out.glob("*.parquet"):
            pyarrow.parquet.ParquetFile(path).read()
    assert killed > 0
    run(command)
    assert parquet(out).num_rows == 6_000
    assert not list(out.glob("*.tmp")) and json.loads((out / "_manifest.json").read_text())["is_complete"]
