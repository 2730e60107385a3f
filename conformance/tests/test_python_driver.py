"""The Python driver: what an application does with it."""
import datetime
import decimal
import time
import uuid

import pytest
from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, Unavailable
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from harness.wire import Wire

KEYSPACE = "drivers_python"

COLUMNS = {
    "a": ("ascii", "ascii"), "b": ("bigint", 2**63 - 1), "bl": ("blob", b"\x00\xff"), "bo": ("boolean", True),
    "da": ("date", Date("2024-02-29")), "de": ("decimal", decimal.Decimal("1.50")), "d": ("double", -1.5e300),
    "du": ("duration", Duration(1, 2, 3)), "f": ("float", 0.5), "i": ("inet", "127.0.0.1"), "n": ("int", -(2**31)),
    "s": ("smallint", -(2**15)), "t": ("text", "žluť 🦀"), "ti": ("time", Time("23:59:59.999999999")),
    "ts": ("timestamp", datetime.datetime(2024, 2, 29, 12, 0, 0, 5000)),
    "tu": ("timeuuid", uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")), "ty": ("tinyint", -128),
    "u": ("uuid", uuid.UUID("ffffffff-ffff-4fff-8fff-ffffffffffff")), "v": ("varint", -(10**40)),
    "l": ("list<int>", [3, 1, 2]), "se": ("set<text>", SortedSet(["a", "b"])), "m": ("map<text, int>", {"x": 1, "y": 2}),
    "fl": ("frozen<list<frozen<set<int>>>>", [SortedSet([1, 2]), SortedSet([])]),
    "tp": ("tuple<int, text>", (1, "one")), "ve": ("vector<float, 3>", [1.0, 2.5, -3.0]),
}


def connect(target, **options):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=60,
                               retry_policy=FallthroughRetryPolicy())
    return Cluster([target.address], port=target.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, **options)


@pytest.fixture(scope="module", params=[3, 4, 5])
def session(request, target):
    cluster = connect(target, protocol_version=request.param, compression=True)
    session = cluster.connect()
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
                    "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.set_keyspace(KEYSPACE)
    yield session
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    cluster.shutdown()


def test_negotiates_the_newest_version(target):
    cluster = connect(target)
    try:
        cluster.connect()
        assert cluster.protocol_version == 5
        assert [h.address for h in cluster.metadata.all_hosts()] == [target.address]
        assert cluster.metadata.token_map is not None
        assert cluster.metadata.partitioner.endswith("Murmur3Partitioner")
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("size", [10, 200_000])
def test_lz4(target, version, size):
    wire = Wire(target.address, target.port, version, compression="lz4")
    try:
        assert wire.connection._compression_type == "lz4"
        text = "compressible " * (size // 13)
        reply = wire.must(f"SELECT (text) '{text}' AS v, key FROM system.local")
        assert reply.rows[0][0].decode() == text
    finally:
        wire.close()


def test_all_types_round_trip(session):
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    session.execute(f"CREATE TABLE types (k int PRIMARY KEY, {columns})")
    names = list(COLUMNS)
    if session.cluster.protocol_version < 5:
        names.remove("du")
    insert = session.prepare(f"INSERT INTO types (k, {', '.join(names)}) VALUES (?{', ?' * len(names)})")
    session.execute(insert, [1] + [COLUMNS[n][1] for n in names])
    session.execute(insert, [2] + [None] * len(names))
    prepared = session.prepare("SELECT * FROM types WHERE k = ?").bind([1])
    for statement in ("SELECT * FROM types WHERE k = 1", prepared):
        row = session.execute(statement).one()._asdict()
        for name in names:
            got = row[name]
            if isinstance(got, OrderedMapSerializedKey):
                got = dict(got)
            assert got == COLUMNS[name][1], name
    empty = session.execute("SELECT * FROM types WHERE k = 2").one()._asdict()
    assert all(empty[n] is None for n in names)


def test_paging(session):
    session.execute("CREATE TABLE pages (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)")
    for c in range(300):
        session.execute(insert, (c % 3, c, "x" * (c % 50)))
    wanted = sorted((c % 3, c) for c in range(300))
    for size in (7, 100, 1000):
        rows = session.execute(SimpleStatement("SELECT k, c FROM pages", fetch_size=size))
        assert sorted((r.k, r.c) for r in rows) == wanted
    first = session.execute(SimpleStatement("SELECT c FROM pages WHERE k = 1", fetch_size=10))
    assert len(first.current_rows) == 10
    rest = session.execute(SimpleStatement("SELECT c FROM pages WHERE k = 1", fetch_size=1000),
                           paging_state=first.paging_state)
    assert [r.c for r in first.current_rows] + [r.c for r in rest.current_rows] == list(range(1, 300, 3))


def test_batches(session):
    session.execute("CREATE TABLE batches (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO batches (k, v) VALUES (?, ?)")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(kind)
        batch.add(insert, (1, 1))
        batch.add(insert, (2, 2))
        batch.add("INSERT INTO batches (k, v) VALUES (%s, %s)", (3, 3))
        batch.add("INSERT INTO batches (k, v) VALUES (4, 4)")
        session.execute(batch)
    assert sorted(session.execute("SELECT k, v FROM batches")) == [(i, i) for i in (1, 2, 3, 4)]
    session.execute("CREATE TABLE counts (k int PRIMARY KEY, c counter)")
    batch = BatchStatement(BatchType.COUNTER)
    batch.add("UPDATE counts SET c = c + 1 WHERE k = 1")
    batch.add("UPDATE counts SET c = c + 2 WHERE k = 1")
    session.execute(batch)
    assert session.execute("SELECT c FROM counts WHERE k = 1").one().c == 3


def test_lightweight_transactions(session):
    session.execute("CREATE TABLE lwt (k int PRIMARY KEY, v int)")
    assert session.execute("INSERT INTO lwt (k, v) VALUES (1, 1) IF NOT EXISTS").was_applied
    result = session.execute("INSERT INTO lwt (k, v) VALUES (1, 2) IF NOT EXISTS")
    assert not result.was_applied and result.one().v == 1
    update = session.prepare("UPDATE lwt SET v = ? WHERE k = ? IF v = ?")
    assert session.execute(update, (5, 1, 1)).was_applied
    assert session.execute(update, (6, 1, 1)).one() == (False, 5)


def test_schema_metadata(session):
    session.execute("CREATE TYPE address (street text, zip int)")
    session.execute("CREATE TABLE meta (a int, b text, c int, d text, s int STATIC, v frozen<address>, "
                    "PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'seen'")
    session.cluster.refresh_schema_metadata()
    keyspace = session.cluster.metadata.keyspaces[KEYSPACE]
    table = keyspace.tables["meta"]
    assert [c.name for c in table.partition_key] == ["a", "b"]
    assert [c.name for c in table.clustering_key] == ["c", "d"]
    assert [c.is_reversed for c in table.clustering_key] == [True, False]
    assert table.columns["s"].is_static
    assert table.columns["v"].cql_type == "frozen<address>"
    assert table.options["comment"] == "seen"
    assert keyspace.user_types["address"].field_names == ["street", "zip"]
    assert "CREATE TABLE" in table.as_cql_query()
    assert "CREATE KEYSPACE" in keyspace.export_as_string()


def test_schema_changes_are_pushed(session, target):
    other = connect(target)
    try:
        other.connect()
        session.execute("CREATE TABLE pushed (k int PRIMARY KEY)")
        wait_for(lambda: "pushed" in other.metadata.keyspaces[KEYSPACE].tables)
        session.execute("ALTER TABLE pushed ADD v int")
        wait_for(lambda: "v" in other.metadata.keyspaces[KEYSPACE].tables["pushed"].columns)
        session.execute("DROP TABLE pushed")
        wait_for(lambda: "pushed" not in other.metadata.keyspaces[KEYSPACE].tables)
    finally:
        other.shutdown()


def wait_for(true, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


def test_prepared_statements_follow_the_schema(session):
    session.execute("CREATE TABLE changes (k int PRIMARY KEY, v int)")
    session.execute("INSERT INTO changes (k, v) VALUES (1, 1)")
    select = session.prepare("SELECT * FROM changes WHERE k = ?")
    assert session.execute(select, [1]).one()._asdict() == {"k": 1, "v": 1}
    session.execute("ALTER TABLE changes ADD w int")
    session.execute("UPDATE changes SET w = 2 WHERE k = 1")
    row = session.execute(select, [1]).one()
    if session.cluster.protocol_version >= 5:
        assert row._asdict() == {"k": 1, "v": 1, "w": 2}


def test_tracing(session):
    session.execute("CREATE TABLE traced (k int PRIMARY KEY, v int)")
    result = session.execute("INSERT INTO traced (k, v) VALUES (1, 1)", trace=True)
    trace = result.get_query_trace(max_wait_sec=60)
    assert trace.request_type and trace.duration is not None
    assert trace.events
    assert trace.parameters["query"].startswith("INSERT INTO traced")


def test_user_types(session):
    session.execute("CREATE TYPE point (x int, y int)")
    session.execute("CREATE TABLE points (k int PRIMARY KEY, p frozen<point>, ps list<frozen<point>>)")

    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __eq__(self, other):
            return (self.x, self.y) == (other.x, other.y)

    session.cluster.register_user_type(KEYSPACE, "point", Point)
    insert = session.prepare("INSERT INTO points (k, p, ps) VALUES (?, ?, ?)")
    session.execute(insert, (1, Point(1, 2), [Point(3, 4)]))
    row = session.execute("SELECT p, ps FROM points WHERE k = 1").one()
    assert row.p == Point(1, 2) and row.ps == [Point(3, 4)]


def test_many_requests_in_flight(session):
    session.execute("CREATE TABLE flight (k int PRIMARY KEY, v int)")
    insert = session.prepare("INSERT INTO flight (k, v) VALUES (?, ?)")
    select = session.prepare("SELECT v FROM flight WHERE k = ?")
    for future in [session.execute_async(insert, (i, i * i)) for i in range(1000)]:
        future.result()
    futures = [session.execute_async(select, (i,)) for i in range(1000)]
    assert [f.result().one().v for f in futures] == [i * i for i in range(1000)]


def test_errors(session):
    with pytest.raises(SyntaxException):
        session.execute("SELEC * FROM t")
    with pytest.raises(InvalidRequest, match="table nope does not exist"):
        session.execute("SELECT * FROM nope")
    session.execute("CREATE TABLE errors (k int PRIMARY KEY)")
    with pytest.raises(AlreadyExists) as caught:
        session.execute("CREATE TABLE errors (k int PRIMARY KEY)")
    assert (caught.value.keyspace, caught.value.table) == (KEYSPACE, "errors")
    with pytest.raises(Unavailable) as caught:
        session.execute(SimpleStatement("INSERT INTO errors (k) VALUES (1)", consistency_level=ConsistencyLevel.TWO))
    assert (caught.value.required_replicas, caught.value.alive_replicas) == (2, 1)


def test_large_values(session):
    session.execute("CREATE TABLE large (k int PRIMARY KEY, v blob)")
    insert = session.prepare("INSERT INTO large (k, v) VALUES (?, ?)")
    for size in (0, 1, 100_000, 131_071, 131_072, 2_000_000):
        value = bytes(i * 31 % 256 for i in range(256)) * (size // 256 + 1)
        session.execute(insert, (size, value[:size]))
        assert session.execute("SELECT v FROM large WHERE k = %s", (size,)).one().v == value[:size]


def test_warnings(session):
    session.execute("CREATE TABLE warned (k int PRIMARY KEY)")
    result = session.execute_async("SELECT count(*) FROM warned")
    result.result()
    if session.cluster.protocol_version >= 4:
        assert result.warnings == ["Aggregation query used without partition key"]


def test_explain_is_rows_simple_and_prepared(session, request):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("Cassandra has no EXPLAIN")
    session.execute("CREATE TABLE explained (k int, c int, v text, PRIMARY KEY (k, c))")
    for c in range(10):
        session.execute("INSERT INTO explained (k, c, v) VALUES (1, %s, 'v')", (c,))
    text = "EXPLAIN ANALYZE SELECT v FROM explained WHERE k = ? AND c >= ?"
    prepared = session.prepare(text)
    assert prepared.routing_key_indexes == [0]
    for rows in (session.execute(prepared, (1, 4)), session.execute(text.replace("?", "%s"), (1, 4))):
        rows = list(rows)
        assert [row.step for row in rows] == list(range(1, len(rows) + 1))
        by_operation = {row.operation: row for row in rows}
        assert by_operation["rows"].detail == "1 slice: from 4 to the last"
        assert by_operation["memtable"].figures["rows_scanned"] == 6
        total = by_operation["total"]
        assert total.figures["rows_returned"] == 6 and total.micros >= 0
    plan = list(session.execute("EXPLAIN SELECT v FROM explained WHERE k = 1"))
    assert plan[0]._fields == ("step", "operation", "target", "detail")
    with pytest.raises(SyntaxException):
        session.execute("EXPLAIN UPDATE explained SET v = 'x' WHERE k = 1 AND c = 1")
