"""Tables of a running node in bulk: Flight SQL with stock clients, `ilion export KEYSPACE.TABLE`, `ilion sql`.

What they hand out is compared with what CQL answers.
"""
import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
import uuid

import adbc_driver_flightsql.dbapi as flightsql
import duckdb
import polars
import pyarrow as pa
import pyarrow.flight
import pyarrow.parquet
import pytest
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy

from harness.flight import Guarded, statement_descriptor
from harness.node import ROOT, Ilion, free_address, free_port, run

ROWS = 30_000


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node with Flight, a session, and tables: some of their rows are in SSTables, some in memtables alone."""
    node = Ilion(tmp_path_factory.mktemp("flight"), free_address())
    node.flight_port = free_port(node.address)
    node.start("--flight-port", node.flight_port)
    cluster = Cluster([node.address], port=node.port, reconnection_policy=ConstantReconnectionPolicy(0.1, None))
    session = cluster.connect()
    session.execute("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.set_keyspace("fl")
    session.execute("CREATE TABLE rows (k int, c int, id uuid, t text, s text STATIC, n bigint, PRIMARY KEY (k, c)) "
                    "WITH compression = {'enabled': 'false'}")
    insert = session.prepare("INSERT INTO rows (k, c, id, t, n) VALUES (?, ?, ?, ?, ?)")
    for first in range(0, ROWS, 500):
        written = [session.execute_async(insert, (i % 300, i, uuid.UUID(int=i), f"text {i % 7} " + "x" * 300, i * 10))
                   for i in range(first, first + 500)]
        for one in written:
            one.result()
        if first == ROWS * 2 // 3:
            node.flush("fl", "rows")
    session.execute("UPDATE rows SET s = 'static' WHERE k = 5")
    session.execute("DELETE FROM rows WHERE k = 6")
    session.execute("DELETE FROM rows WHERE k = 7 AND c > 1000")
    session.execute("CREATE TABLE names (k int PRIMARY KEY, name text)")
    for k in range(10):
        session.execute(f"INSERT INTO names (k, name) VALUES ({k}, 'name {k}')")
    yield node, session
    cluster.shutdown()
    node.stop()


@pytest.fixture
def client(node):
    node, _ = node
    with flightsql.connect(f"grpc://{node.address}:{node.flight_port}") as connection:
        yield connection


def restart(node, session):
    """Starts a node that has ended, and waits for the session to be there again."""
    node.start("--flight-port", node.flight_port)
    for _ in range(300):
        try:
            return session.execute("SELECT key FROM system.local")
        except NoHostAvailable:
            time.sleep(0.1)
    raise AssertionError("the session does not come back")


def asked(client, statement):
    with client.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetch_arrow_table()


def rows_of(table):
    columns = [column.to_pylist() for column in table.columns]
    return sorted(map(repr, zip(*columns)))


def of_cql(session, statement):
    of_row = [tuple(v.bytes if isinstance(v, uuid.UUID) else v for v in row) for row in session.execute(statement)]
    return sorted(map(repr, of_row))


def sql(node, *arguments):
    return run([node.binary, "sql", "--admin", f"127.0.0.1:{node.admin_port}", *arguments])


def plain_uuids(table):
    """With uuids as bytes."""
    return table.cast(pa.schema([pa.field(f.name, pa.binary(16) if isinstance(f.type, pa.UuidType) else f.type) for f in table.schema]))


def test_statements_answer_what_cql_answers(node, client):
    node, session = node
    everything = "k, c, id, t, s, n"
    found = plain_uuids(asked(client, f"SELECT {everything} FROM fl.rows"))
    assert rows_of(found) == of_cql(session, f"SELECT {everything} FROM rows")
    for condition in ("k = 5", "k IN (5, 6, 7)", "k = 5 AND c > 20000", "k = 7 AND c >= 7 AND c < 900", "t = 'nothing'",
                      "n > 250000 AND k < 100", "c = 77 AND t > 'text 0'", f"id = '{uuid.UUID(int=77)}'"):
        cql = condition.replace("'" + str(uuid.UUID(int=77)) + "'", str(uuid.UUID(int=77)))
        found = plain_uuids(asked(client, f"SELECT {everything} FROM fl.rows WHERE {condition}"))
        assert rows_of(found) == of_cql(session, f"SELECT {everything} FROM rows WHERE {cql} ALLOW FILTERING"), condition
    count = session.execute("SELECT count(*) FROM rows").one()[0]
    assert asked(client, "SELECT count(*) FROM rows").column(0).to_pylist() == [count]
    assert asked(client, "SELECT k FROM rows LIMIT 7").num_rows == 7
    assert asked(client, "SELECT c FROM rows WHERE k = 5 ORDER BY c DESC LIMIT 2").column(0).to_pylist() == [29705, 29405]
    joined = asked(client, "SELECT name, count(*) AS many FROM fl.rows JOIN fl.names USING (k) GROUP BY name ORDER BY name")
    assert joined.column(0).to_pylist() == [f"name {k}" for k in range(10) if k != 6]
    assert joined.column(1).to_pylist()[0] == 100


def test_an_explanation_shows_what_the_table_takes_over(client):
    statement = "EXPLAIN SELECT t FROM fl.rows WHERE k = 5 AND c > 7 AND t = 'a' AND n + 1 > 5"
    (plan,) = [row["plan"] for row in asked(client, statement).to_pylist() if row["plan_type"] == "physical_plan"]
    scan = """CqlScan: fl.rows, columns=["k", "c", "n", "t"], where=["k" = 5 AND "c" > 7 AND "t" = 'a'], splits=1"""
    assert scan in plan and "FilterExec: k@0 = 5 AND c@1 > 7 AND n@2 + 1 > 5" in plan, plan
    plan = str(asked(client, "EXPLAIN SELECT * FROM fl.names LIMIT 3").to_pylist())
    assert "limit=3" in plan


def test_what_there_is_can_be_listed(client):
    found = client.adbc_get_objects(depth="columns").read_all().to_pylist()
    (catalog,) = found
    keyspaces = {schema["db_schema_name"]: schema for schema in catalog["catalog_db_schemas"]}
    assert catalog["catalog_name"] == "ilion" and {"fl", "system_schema"} <= set(keyspaces)
    tables = {table["table_name"]: table for table in keyspaces["fl"]["db_schema_tables"]}
    assert set(tables) == {"rows", "names"}
    assert [column["column_name"] for column in tables["rows"]["table_columns"]] == ["k", "c", "s", "id", "n", "t"]
    assert client.adbc_get_info()["vendor_name"] == "Ilion"
    schema = client.adbc_get_table_schema("names", db_schema_filter="fl")
    assert schema.names == ["k", "name"] and schema.field("k").type == pa.int32()
    with client.cursor() as cursor:
        cursor.adbc_prepare("SELECT name FROM fl.names WHERE k = 3")
        cursor.execute("SELECT name FROM fl.names WHERE k = 3")
        assert cursor.fetchall() == [("name 3",)]


def test_statements_take_parameters(client):
    with client.cursor() as cursor:
        for k in (3, 7, 3):
            cursor.execute("SELECT name FROM fl.names WHERE k = ?", parameters=(k,))
            assert cursor.fetchall() == [(f"name {k}",)]
        cursor.execute("SELECT k FROM fl.names WHERE name = $1 AND k > $2", parameters=("name 5", 1))
        assert cursor.fetchall() == [(5,)]
        with pytest.raises(Exception, match="2 parameters"):
            cursor.execute("SELECT k FROM fl.names WHERE name = ? AND k > ?", parameters=("name 5",))
            cursor.fetchall()


def test_other_engines_take_it_over(node, client):
    node, session = node
    count = session.execute("SELECT count(*) FROM rows").one()[0]
    with client.cursor() as cursor:
        cursor.execute("SELECT k, n FROM fl.rows")
        reader = cursor.fetch_record_batch()
        assert duckdb.sql("SELECT count(*), count(DISTINCT k) FROM reader").fetchall() == [(count, 299)]
    frame = polars.read_database("SELECT k, n FROM fl.rows", connection=client)
    assert frame.height == count and frame["n"].max() == (ROWS - 1) * 10


def test_what_is_not_supported_is_refused_in_words(node, client):
    node, _ = node
    for statement, words in (("SELECT * FROM fl.nosuch", "not found"), ("SELEC 1", "Expected"), ("SELECT nosuch FROM fl.rows", "nosuch"),
                             ("INSERT INTO fl.names VALUES (1, 'a')", "DML not supported"), ("DROP TABLE fl.names", "DDL not supported"),
                             ("COPY fl.names TO '/tmp/x.csv'", "not supported"), ("SET x = 1", "not supported"),
                             ("SELECT * FROM fl.rows WHERE id = 'x'", "no uuid")):
        with pytest.raises(Exception) as refused:
            asked(client, statement)
        assert words in str(refused.value), statement
    raw = pyarrow.flight.connect(f"grpc://{node.address}:{node.flight_port}")
    for ticket in (b"", b"ILT1{}", b"\xff" * 100):
        with pytest.raises(pa.ArrowException):
            raw.do_get(pyarrow.flight.Ticket(ticket)).read_all()
    with pytest.raises(pa.ArrowException, match="there is no action nosuch"):
        list(raw.do_action(pyarrow.flight.Action("nosuch", b"")))
    assert asked(client, "SELECT 1").num_rows == 1


def test_endpoints_are_parts_and_tickets_outlive_a_restart(node):
    node, session = node
    place = f"grpc://{node.address}:{node.flight_port}"
    info = pyarrow.flight.connect(place).get_flight_info(statement_descriptor("SELECT k, c FROM fl.rows"))
    assert len(info.endpoints) > 1 and info.total_records > ROWS / 3 and info.total_bytes > 1 << 20
    expected = of_cql(session, "SELECT k, c FROM rows")
    node.stop()
    restart(node, session)
    client = pyarrow.flight.connect(place)
    parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    assert all(part.num_rows < len(expected) for part in parts)
    assert rows_of(pa.concat_tables(parts)) == expected
    # A statement that computes is one part.
    info = client.get_flight_info(statement_descriptor("SELECT count(*) FROM fl.rows"))
    assert len(info.endpoints) == 1 and info.total_records == -1


def scans(node):
    return json.loads(node.nodetool("--json", "bulkstats"))


def test_a_slow_client_is_seen_and_one_that_goes_frees_everything(node):
    node, session = node
    node.nodetool("setbulkthroughput", "1")
    assert node.nodetool("getbulkthroughput") == "Current bulk throughput: 1 MB/s\n"
    client = pyarrow.flight.connect(f"grpc://{node.address}:{node.flight_port}")
    # One part, which takes some ten seconds.
    info = client.get_flight_info(statement_descriptor("SELECT * FROM fl.rows LIMIT 1000000"))
    reader = client.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    running = scans(node)["running"]
    assert {(scan["keyspace"], scan["table"], scan["asked_by"]) for scan in running} == {("fl", "rows", "flight")}
    assert sum(scan["rows"] for scan in running) > 0
    assert session.execute("SELECT asked_by FROM system_views.bulk_scans").all()[0].asked_by == "flight"
    assert "rows" in node.nodetool("bulkstats")
    reader.cancel()
    del reader
    client.close()
    for _ in range(100):
        if not scans(node)["running"]:
            break
        time.sleep(0.1)
    node.nodetool("setbulkthroughput", "0")
    assert scans(node)["running"] == []


def test_a_table_of_a_node_is_exported_while_it_is_written(node, tmp_path):
    node, session = node
    done = threading.Event()

    def write():
        """Rows that are there stay; others come, and files are flushed and compacted."""
        for i in itertools.count():
            if done.is_set():
                return
            session.execute(f"INSERT INTO rows (k, c, t) VALUES ({1000 + i}, 0, 'later')")
            session.execute(f"UPDATE rows SET n = {i % 30} WHERE k = 8 AND c = 8")
            if i % 200 == 199:
                node.compact("fl", "rows")

    before = of_cql(session, "SELECT k, c, id, t, s FROM rows")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(3):
            out = tmp_path / str(turn)
            said = run([node.binary, "export", "fl.rows", "--admin", f"127.0.0.1:{node.admin_port}", "--out", out,
                        "--columns", "k,c,id,t,s"])
            assert " rows in " in said
            whole = plain_uuids(pa.concat_tables(pyarrow.parquet.read_table(path) for path in sorted(out.glob("*.parquet"))))
            found = rows_of(whole.filter(pa.compute.less(whole["k"], 1000)))
            assert found == before
    finally:
        done.set()
        writer.join()
    out = tmp_path / "some"
    run([node.binary, "export", "fl.rows", "--admin", f"127.0.0.1:{node.admin_port}", "--out", out, "--where", "k = 5",
         "--columns", "c", "--format", "csv", "--limit", "3"])
    assert [path.read_text() for path in out.glob("*.csv")] == ["c\n5\n305\n605\n"]


def test_an_export_goes_on_after_the_node_was_killed(node, tmp_path):
    node, session = node
    expected = of_cql(session, "SELECT k, c, t FROM rows")
    node.nodetool("setbulkthroughput", "2")
    out = tmp_path / "out"
    command = [node.binary, "export", "fl.rows", "--out", out, "--columns", "k,c,t", "--threads", "1", "--admin"]
    process = subprocess.Popen([str(x) for x in [*command, f"127.0.0.1:{node.admin_port}"]], stderr=subprocess.PIPE)
    for _ in range(200):
        if scans(node)["running"]:
            break
        time.sleep(0.05)
    node.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and b"ilion export:" in said
    restart(node, session)
    run([*command, f"127.0.0.1:{node.admin_port}"])
    whole = pa.concat_tables(pyarrow.parquet.read_table(path) for path in sorted(out.glob("*.parquet")))
    assert rows_of(whole) == expected


def whole_or_failed(reader):
    """All that is left to read; None if that ends with an error."""
    found = []
    try:
        while True:
            found.append(reader.read_chunk().data)
    except StopIteration:
        return found
    except (pa.ArrowException, OSError):
        return None


def test_a_node_that_is_killed_hands_out_no_table_that_only_looks_whole(node):
    node, session = node
    expected = of_cql(session, "SELECT k, c, t FROM rows")
    place = f"grpc://{node.address}:{node.flight_port}"
    text = "SELECT k, c, t FROM fl.rows"
    (whole,) = pyarrow.flight.connect(place).get_flight_info(statement_descriptor(text + " LIMIT 1000000")).endpoints
    parts = pyarrow.flight.connect(place).get_flight_info(statement_descriptor(text)).endpoints
    node.nodetool("setbulkthroughput", "1")
    # Together they take ten seconds and more: a statement in one ticket, ranges of tokens, a driver, and the command.
    readers = [pyarrow.flight.connect(place).do_get(endpoint.ticket) for endpoint in (whole, *parts[:2])]
    command = [node.binary, "sql", "--admin", f"127.0.0.1:{node.admin_port}", "--format", "csv", text]
    process = subprocess.Popen([str(x) for x in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with flightsql.connect(place) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        batches = cursor.fetch_record_batch()
        first = readers[0].read_chunk().data
        bulk = f"http://127.0.0.1:{node.admin_port}/api/v1/bulk"
        for _ in range(500):
            with urllib.request.urlopen(bulk) as answer:
                if "admin" in {scan["asked_by"] for scan in json.load(answer)["running"]}:
                    break
            time.sleep(0.02)
        node.kill()
        with pytest.raises((pa.ArrowException, OSError)):
            batches.read_all()
        rest = [whole_or_failed(reader) for reader in readers]
        _, said = process.communicate(timeout=60)
        # The driver tells the node when a statement is closed.
        restart(node, session)
    assert process.returncode == 1 and b"ilion sql:" in said, said
    assert 0 < first.num_rows < len(expected) and rest[0] is None
    client = pyarrow.flight.connect(place)
    assert rows_of(client.do_get(whole.ticket).read_all()) == expected
    tables = [client.do_get(endpoint.ticket).read_all() for endpoint in parts]
    assert rows_of(pa.concat_tables(tables)) == expected
    # What came to its end before is the whole of its range.
    for found, table in zip(rest[1:], tables):
        assert found is None or rows_of(pa.Table.from_batches(found)) == rows_of(table)


def test_sql_on_the_command_line(node, tmp_path):
    node, session = node
    assert sql(node, "--format", "csv", "SELECT k, name FROM names WHERE k < 2 ORDER BY k; SELECT 1 AS one") == "k,name\n0,name 0\n1,name 1\none\n1\n"
    assert sql(node, "--format", "csv", "SELECT k, name FROM names WHERE k = -1") == "k,name\n"
    assert sql(node, "--format", "json", f"SELECT id, s FROM fl.rows WHERE id = '{uuid.UUID(int=77)}'") == \
        '{"id":"00000000-0000-0000-0000-00000000004d","s":null}\n'
    assert "| name 4 |" in sql(node, "SELECT name FROM fl.names WHERE k = 4") and "(0 rows)" in sql(node, "SELECT k FROM names WHERE k = -1")
    sql(node, "--format", "parquet", "--out", tmp_path / "x.parquet", "SELECT k, count(*) AS c FROM rows GROUP BY k")
    distinct = len(session.execute("SELECT DISTINCT k FROM rows").all())
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").num_rows == distinct
    # Of directories, with no node asked.
    node.flush("fl")
    (names,) = node.data_dir.rglob("fl/names-*")
    for place in (["--dir", node.data_dir], ["--dir", names]):
        found = run([node.binary, "sql", *place, "--format", "csv", "SELECT count(*) AS c FROM fl.names"])
        assert found == "c\n10\n"
    # A node with two disks may have a table, or a part of it, on the one that has no schema.
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(names.parents[1], first, ignore=shutil.ignore_patterns("rows-*"))
    (second / "fl").mkdir(parents=True)
    (first / "fl" / names.name).rename(second / "fl" / names.name)
    for disks, count in (([first], 0), ([first, second], 10), ([second, first], 10)):
        places = [word for disk in disks for word in ("--dir", disk)]
        assert run([node.binary, "sql", *places, "--format", "csv", "SELECT count(*) AS c FROM names"]) == f"c\n{count}\n", disks
    joined = run([node.binary, "sql", "--dir", node.data_dir, "--format", "csv",
                  "SELECT count(*) AS c FROM rows JOIN names USING (k)"])
    assert joined == sql(node, "--format", "csv", "SELECT count(*) AS c FROM rows JOIN names USING (k)")
    for arguments, status, words in ((["SELECT * FROM nosuch"], 1, "not found"), (["--dir", "/nosuch", "SELECT 1"], 2, "no directory"),
                                     (["--admin", "127.0.0.1:1", "SELECT 1"], 1, "no node answers")):
        done = subprocess.run([str(node.binary), "sql", *arguments] if arguments[0].startswith("--") else
                              [str(node.binary), "sql", "--admin", f"127.0.0.1:{node.admin_port}", *arguments],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == status and words in done.stderr, done.stderr


def test_jdbc(node):
    if not shutil.which("java") or not shutil.which("mvn"):
        assert os.environ.get("CI") != "true", "Java and Maven are needed with CI=true"
        pytest.skip("java or mvn is not installed")
    node, _ = node
    driver = ROOT / "conformance" / "drivers" / "jdbc" / "run"
    done = subprocess.run([driver, node.address, str(node.flight_port), "SELECT k, name FROM fl.names WHERE k < 2 ORDER BY k"],
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["fl.names", "fl.rows", "k\tname", "0\tname 0", "1\tname 1"], done.stderr[-3000:]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    guarded = Guarded(tmp_path_factory.mktemp("guarded"))
    for statement in ("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                      "CREATE TABLE fl.open (k int PRIMARY KEY, v text)", "CREATE TABLE fl.secret (k int PRIMARY KEY, v text)",
                      "CREATE ROLE bob WITH PASSWORD = 'bob-password' AND LOGIN = true",
                      "CREATE ROLE amy WITH PASSWORD = 'amy-password' AND LOGIN = true", "GRANT SELECT ON fl.open TO bob"):
        guarded.root.execute(statement)
    for k in range(20):
        guarded.root.execute(f"INSERT INTO fl.open (k, v) VALUES ({k}, 'open')")
        guarded.root.execute(f"INSERT INTO fl.secret (k, v) VALUES ({k}, 'secret')")
    yield guarded
    guarded.stop()


REFUSED = "User {} has no SELECT permission on <table fl.{}> or any of its parents"


def test_nobody_is_let_in_without_a_login(guarded):
    unauthenticated = pyarrow.flight.FlightUnauthenticatedError
    descriptor = statement_descriptor("SELECT 1")

    def by(value):
        return pyarrow.flight.FlightCallOptions(headers=[(b"authorization", value)] if value else [])

    with guarded.raw() as client:
        ticket = client.get_flight_info(descriptor, guarded.options("bob")).endpoints[0].ticket
        calls = (lambda options: client.get_flight_info(descriptor, options), lambda options: client.get_schema(descriptor, options),
                 lambda options: client.do_get(ticket, options).read_all(), lambda options: list(client.list_flights(b"", options)),
                 lambda options: list(client.do_action(pyarrow.flight.Action("ilion.schema", b""), options)),
                 lambda options: list(client.list_actions(options)))
        for call in calls:
            for value, words in ((None, "You have not logged in"), (b"Bearer " + b"0" * 64, "unknown or has expired"),
                                 (b"Bearer anonymous", "unknown or has expired"), (b"Digest x", "neither Basic nor Bearer"),
                                 (b"Basic " + base64.b64encode(b"bob:wrong"), "Provided username bob and/or password are incorrect"),
                                 (b"Basic " + base64.b64encode(b"nobody:x"), "Provided username nobody and/or password are incorrect"),
                                 (b"Basic !!!", "neither Basic nor Bearer"), (b"Basic " + b"A" * 9000, "")):
                # A list that fails on its way is an OSError there.
                with pytest.raises((pa.ArrowException, OSError)) as refused:
                    call(by(value))
                said = str(refused.value)
                assert not words or "unauthenticated" in said.lower() and words in said, (value, said)
        with pytest.raises(unauthenticated, match="Provided username bob"):
            client.authenticate_basic_token("bob", "wrong")
    # Who does not speak TLS does not come as far as that.
    with pyarrow.flight.connect(f"grpc://{guarded.node.address}:{guarded.node.flight_port}") as plain:
        with pytest.raises(pa.ArrowException):
            plain.get_flight_info(descriptor, pyarrow.flight.FlightCallOptions(timeout=10))


def test_stock_clients_log_in(guarded):
    with guarded.adbc("bob") as client:
        assert asked(client, "SELECT v FROM fl.open").column(0).to_pylist() == ["open"] * 20
        (catalog,) = client.adbc_get_objects(depth="tables").read_all().to_pylist()
        (tables,) = [schema["db_schema_tables"] for schema in catalog["catalog_db_schemas"] if schema["db_schema_name"] == "fl"]
        # As with DESCRIBE, a login is enough.
        assert {table["table_name"] for table in tables} == {"open", "secret"}
        frame = polars.read_database("SELECT k FROM fl.open", connection=client)
        assert frame.height == 20
    options = guarded.options("bob")
    basic = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", b"Basic " + base64.b64encode(b"bob:bob-password"))])
    with guarded.raw() as client:
        for by in (options, options, basic):
            info = client.get_flight_info(statement_descriptor("SELECT count(*) FROM fl.open"), by)
            assert client.do_get(info.endpoints[0].ticket, by).read_all().column(0).to_pylist() == [20]
    with pytest.raises(Exception, match="(?i)unauthenticated|incorrect"):
        with guarded.adbc("nobody") as client:
            asked(client, "SELECT 1")


def test_jdbc_logs_in(guarded):
    if not shutil.which("java") or not shutil.which("mvn"):
        assert os.environ.get("CI") != "true", "Java and Maven are needed with CI=true"
        pytest.skip("java or mvn is not installed")
    driver = ROOT / "conformance" / "drivers" / "jdbc" / "run"
    properties = f"useEncryption=true&tlsRootCerts={guarded.ca}&user=bob&password="
    said = [subprocess.run([driver, guarded.node.address, str(guarded.node.flight_port), "SELECT count(*) AS c FROM fl.open",
                            properties + password], capture_output=True, text=True, timeout=120) for password in ("bob-password", "wrong")]
    assert said[0].stdout.splitlines() == ["fl.open", "fl.secret", "c", "20"], said[0].stderr[-3000:]
    assert said[1].returncode != 0 and "incorrect" in said[1].stderr


def test_every_table_needs_select_when_planned_and_when_read(guarded):
    refused = pyarrow.flight.FlightUnauthorizedError
    bob, amy = guarded.options("bob"), guarded.options("amy")
    with guarded.raw() as client:
        info = client.get_flight_info(statement_descriptor("SELECT k FROM fl.open"), bob)
        assert sum(client.do_get(endpoint.ticket, bob).read_all().num_rows for endpoint in info.endpoints) == 20
        # A ticket is worth what its bearer may read.
        for endpoint in info.endpoints:
            with pytest.raises(refused, match=REFUSED.format("amy", "open")):
                client.do_get(endpoint.ticket, amy).read_all()
        for statement in ("SELECT * FROM fl.secret", "SELECT o.k FROM fl.open o JOIN fl.secret s ON o.k = s.k", "SELECT count(*) FROM secret",
                          "SELECT k FROM fl.open WHERE k IN (SELECT k FROM fl.secret)", "SELECT (SELECT max(k) FROM fl.secret) AS m",
                          "WITH s AS (SELECT * FROM fl.secret) SELECT k FROM s", "EXPLAIN SELECT * FROM fl.secret",
                          "SELECT k FROM fl.open UNION ALL SELECT k FROM fl.secret", "SELECT k FROM fl.secret WHERE false"):
            with pytest.raises(refused, match=REFUSED.format("bob", "secret")):
                client.get_flight_info(statement_descriptor(statement), bob)
            assert client.get_flight_info(statement_descriptor(statement), guarded.options("cassandra", "root-password")).endpoints
        with pytest.raises(refused, match="User bob has no SELECT permission on <table system_auth.roles>"):
            client.get_flight_info(statement_descriptor("SELECT salted_hash FROM system_auth.roles"), bob)
        assert client.get_flight_info(statement_descriptor("SELECT * FROM system_schema.tables"), amy).endpoints
        with pytest.raises(pa.ArrowException, match="not found"):
            client.get_flight_info(statement_descriptor("SELECT * FROM fl.nosuch"), bob)
        listed = client.get_flight_info(statement_descriptor("SELECT table_name FROM information_schema.tables WHERE table_schema = 'fl'"), bob)
        assert client.do_get(listed.endpoints[0].ticket, bob).read_all().column(0).to_pylist() == ["open"]
        # Who was granted it may, and no longer when it was revoked: with the same token, at once.
        secret = client.get_flight_info(statement_descriptor("SELECT v FROM fl.secret LIMIT 1"), guarded.options("cassandra", "root-password"))
        guarded.root.execute("GRANT SELECT ON KEYSPACE fl TO amy")
        assert client.do_get(secret.endpoints[0].ticket, amy).read_all().column(0).to_pylist() == ["secret"]
        guarded.root.execute("REVOKE SELECT ON KEYSPACE fl FROM amy")
        with pytest.raises(refused, match=REFUSED.format("amy", "secret")):
            client.do_get(secret.endpoints[0].ticket, amy).read_all()
        guarded.root.execute("ALTER ROLE amy WITH LOGIN = false")
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError, match="amy is not permitted to log in"):
            client.get_flight_info(statement_descriptor("SELECT 1"), amy)
        guarded.root.execute("ALTER ROLE amy WITH LOGIN = true")
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError, match="unknown or has expired"):
            client.get_flight_info(statement_descriptor("SELECT 1"), amy)
    with guarded.adbc("bob") as client, client.cursor() as cursor:
        with pytest.raises(Exception, match="no SELECT permission on <table fl.secret>"):
            cursor.adbc_prepare("SELECT * FROM fl.secret")


def test_a_ticket_outlives_a_restart_and_a_token_does_not(guarded):
    before = guarded.options("bob")
    with guarded.raw() as client:
        ticket = client.get_flight_info(statement_descriptor("SELECT k FROM fl.open"), before).endpoints[0].ticket
    guarded.stop()
    guarded.start()
    with guarded.raw() as client:
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError, match="unknown or has expired"):
            client.do_get(ticket, before).read_all()
        with pytest.raises(pyarrow.flight.FlightUnauthorizedError):
            client.do_get(ticket, guarded.options("amy")).read_all()
        assert client.do_get(ticket, guarded.options("bob")).read_all().num_rows > 0


def test_tables_with_masks_are_for_who_may_unmask(guarded):
    refused = "User bob has no UNMASK permission on table fl.masked, whose columns .v. are masked"
    for statement in ("CREATE TABLE fl.masked (k int PRIMARY KEY, v text MASKED WITH DEFAULT)", "GRANT SELECT ON fl.masked TO bob",
                      "INSERT INTO fl.masked (k, v) VALUES (1, 'secret')"):
        guarded.root.execute(statement)
    with guarded.raw() as client:
        def ask(statement):
            info = client.get_flight_info(statement_descriptor(statement), guarded.options("bob"))
            return client.do_get(info.endpoints[0].ticket, guarded.options("bob")).read_all().to_pylist()

        for statement in ("SELECT * FROM fl.masked", "SELECT k FROM fl.masked WHERE v = 'secret'",
                          "SELECT o.k FROM fl.open o JOIN fl.masked m ON o.k = m.k"):
            with pytest.raises(pyarrow.flight.FlightUnauthorizedError, match=refused):
                ask(statement)
        guarded.root.execute("GRANT UNMASK ON fl.masked TO bob")
        assert ask("SELECT * FROM fl.masked") == [{"k": 1, "v": "secret"}]
        ticket = client.get_flight_info(statement_descriptor("SELECT * FROM fl.masked"), guarded.options("bob")).endpoints[0].ticket
        guarded.root.execute("REVOKE UNMASK ON fl.masked FROM bob")
        with pytest.raises(pyarrow.flight.FlightUnauthorizedError, match=refused):
            client.do_get(ticket, guarded.options("bob")).read_all()
        guarded.root.execute("ALTER TABLE fl.masked ALTER v DROP MASKED")
        assert ask("SELECT * FROM fl.masked") == [{"k": 1, "v": "secret"}]
    guarded.root.execute("DROP TABLE fl.masked")


def test_neither_passwords_nor_tokens_are_logged(guarded):
    with guarded.raw() as client:
        _, bearer = client.authenticate_basic_token("bob", "bob-password")
        client.get_flight_info(statement_descriptor("SELECT 1"), pyarrow.flight.FlightCallOptions(headers=[(b"authorization", bearer)]))
    log = (guarded.node.directory / "ilion.log").read_bytes()
    assert b"TRACE" in log
    for secret in (b"bob-password", b"root-password", bearer.split()[1], base64.b64encode(b"bob:bob-password")):
        assert secret not in log
