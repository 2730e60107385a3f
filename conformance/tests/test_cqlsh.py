"""cqlsh from PyPI, as a person at a terminal uses it."""
import os
import pathlib
import subprocess
import sys

import pytest

KEYSPACE = "drivers_cqlsh"
CQLSH = pathlib.Path(sys.executable).parent / "cqlsh"


@pytest.fixture(scope="module")
def cqlsh(target, tmp_path_factory):
    home = tmp_path_factory.mktemp("cqlsh")
    (home / "cqlshrc").touch()

    def run(text, *options, fails=False):
        environment = dict(os.environ, HOME=str(home), CQLSH_HOST="", COLUMNS="200", PYTHONWARNINGS="ignore", TZ="UTC")
        done = subprocess.run([str(CQLSH), "--no-color", "--request-timeout=120", "--connect-timeout=60",
                               f"--cqlshrc={home}/cqlshrc", *options, target.address, str(target.port)],
                              input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home,
                              env=environment, timeout=300)
        if not fails:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")

    run(f"DROP KEYSPACE IF EXISTS {KEYSPACE};")
    run(f"""CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
            USE {KEYSPACE};
            CREATE TYPE address (street text, zip int);
            CREATE TABLE t (k int, c text, v double, a frozen<address>, l list<int>, m map<text, int>, ts timestamp,
                            b blob, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC);
            INSERT INTO t (k, c, v, a, l, m, ts, b) VALUES (1, 'one', 1.5, {{street: 'High', zip: 9}}, [1, 2], {{'x': 1}},
                                                            '2024-02-29 12:00:00+0000', 0xcafe);
            INSERT INTO t (k, c) VALUES (1, 'nulls');
            INSERT INTO t (k, c, v) VALUES (2, 'it''s', NaN);""")
    run.home = home
    yield run
    run(f"DROP KEYSPACE {KEYSPACE};")


def in_keyspace(text):
    return f"USE {KEYSPACE};\n{text}"


def test_greets_with_the_versions(cqlsh):
    shown = cqlsh("SHOW VERSION;\nSHOW HOST;")
    assert "[cqlsh 6.2.2 | Cassandra " in shown and "| Native protocol v5]" in shown
    assert "Connected to " in shown


def test_formats_rows(cqlsh):
    shown = cqlsh(in_keyspace("SELECT * FROM t WHERE k = 1;"))
    lines = [line for line in shown.splitlines() if "|" in line]
    assert [x.strip() for x in lines[0].split("|")] == ["k", "c", "a", "b", "l", "m", "ts", "v"]
    assert [x.strip() for x in lines[1].split("|")] == [
        "1", "one", "{street: 'High', zip: 9}", "0xcafe", "[1, 2]", "{'x': 1}", "2024-02-29 12:00:00.000000+0000", "1.5"]
    assert [x.strip() for x in lines[2].split("|")][2:] == ["null"] * 6
    assert "(2 rows)" in shown


def test_describes_everything(cqlsh):
    shown = cqlsh(in_keyspace(f"DESCRIBE KEYSPACES; DESCRIBE TABLES; DESCRIBE TYPES; DESCRIBE TYPE address; "
                              f"DESCRIBE TABLE t; DESCRIBE KEYSPACE {KEYSPACE}; DESCRIBE CLUSTER; DESC t; "
                              "DESCRIBE KEYSPACE; DESCRIBE ONLY KEYSPACE " + KEYSPACE + ";"))
    assert "system_virtual_schema" in shown and KEYSPACE in shown
    assert f"CREATE TYPE {KEYSPACE}.address (\n    street text,\n    zip int\n);" in shown
    assert f"CREATE TABLE {KEYSPACE}.t (" in shown
    assert "WITH CLUSTERING ORDER BY (c DESC)" in shown
    assert "Partitioner: Murmur3Partitioner" in shown
    schema = cqlsh("DESCRIBE SCHEMA;")
    assert f"CREATE TABLE {KEYSPACE}.t (" in schema
    assert "not found" in cqlsh(in_keyspace("DESCRIBE TABLE nope;"), fails=True)


def test_a_description_makes_the_same_schema_again(cqlsh):
    def describe(keyspace):
        shown = cqlsh(f"DESCRIBE KEYSPACE {keyspace};")
        return "".join(f"{line}\n" for line in shown.splitlines() if not line.startswith("WARNING: cqlsh was built"))

    before = describe(KEYSPACE)
    other = f"{KEYSPACE}_again"
    cqlsh(f"DROP KEYSPACE IF EXISTS {other};")
    cqlsh(before.replace(KEYSPACE, other))
    after = describe(other)
    cqlsh(f"DROP KEYSPACE {other};")
    assert after.replace(other, KEYSPACE) == before


def test_expand(cqlsh):
    shown = cqlsh(in_keyspace("EXPAND ON;\nSELECT k, c, v FROM t WHERE k = 1;"))
    assert "@ Row 1" in shown and "@ Row 2" in shown
    assert " v | 1.5" in shown


def test_paging(cqlsh):
    inserts = "".join(f"INSERT INTO many (k, c) VALUES (1, {i});\n" for i in range(25))
    shown = cqlsh(in_keyspace("CREATE TABLE many (k int, c int, PRIMARY KEY (k, c));\n" + inserts
                              + "PAGING 10;\nSELECT c FROM many WHERE k = 1;\nPAGING OFF;\nSELECT count(*) FROM many;"))
    assert "(25 rows)" in shown
    assert [int(x) for x in shown.splitlines() if x.strip().isdigit()][:25] == list(range(25))


def test_tracing(cqlsh, request):
    shown = cqlsh(in_keyspace("TRACING ON;\nSELECT v FROM t WHERE k = 1 AND c = 'one';\nTRACING OFF;"))
    assert "Tracing session: " in shown
    assert "Execute CQL3 query" in shown and "Request complete" in shown
    if request.config.getoption("--target") == "ilion":
        assert "Memtable active: read memtables=1 rows_scanned=1" in shown and "rows_returned=1" in shown
    session = shown.split("Tracing session: ")[1].split()[0]
    assert "Execute CQL3 query" in cqlsh(f"SHOW SESSION {session};")


def test_explain(cqlsh, request):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("Cassandra has no EXPLAIN")
    shown = cqlsh(in_keyspace("EXPLAIN SELECT v FROM t WHERE k = 1 AND c = 'one';"))
    rows = [[x.strip() for x in line.split("|")] for line in shown.splitlines() if "|" in line]
    assert rows[0] == ["step", "operation", "target", "detail"]
    assert rows[1:5] == [["1", "read", f"{KEYSPACE}.t", "one partition, by its key"], ["2", "partition", "k", "1"],
                         ["3", "rows", "c", "1 by name: 'one'"],
                         ["4", "columns", "v", "1 of 6: values of the others are stepped over"]]
    shown = cqlsh(in_keyspace("EXPAND ON;\nexplain analyze SELECT v FROM t WHERE k = 1;"))
    assert f" target    | {KEYSPACE}.t" in shown and "2 rows in " in shown and "'rows_returned': 2" in shown
    # Names as before.
    cqlsh(in_keyspace("CREATE TABLE explain (explain int PRIMARY KEY, analyze int);\n"
                      "INSERT INTO explain (explain, analyze) VALUES (1, 2);"))
    assert "(1 rows)" in cqlsh(in_keyspace("SELECT analyze FROM explain WHERE explain = 1;"))
    assert f"{KEYSPACE}.explain" in cqlsh(in_keyspace("EXPLAIN SELECT analyze FROM explain WHERE explain = 1;"))
    assert "only SELECT can be explained, not 'DELETE'" in cqlsh(in_keyspace("EXPLAIN DELETE FROM t WHERE k = 1;"), fails=True)


def test_consistency(cqlsh):
    shown = cqlsh(in_keyspace("CONSISTENCY QUORUM;\nSELECT v FROM t WHERE k = 1;\nCONSISTENCY TWO;\n"
                              "SELECT v FROM t WHERE k = 1;"), fails=True)
    assert "Consistency level set to QUORUM." in shown
    assert "Cannot achieve consistency level TWO" in shown
    assert "Serial consistency level set to LOCAL_SERIAL." in cqlsh("SERIAL CONSISTENCY LOCAL_SERIAL;")


def test_copy_there_and_back(cqlsh):
    path = cqlsh.home / "t.csv"
    cqlsh(in_keyspace("CREATE TABLE copied (k int PRIMARY KEY, v text, l list<int>, b blob, ts timestamp);\n"
                      + "".join(f"INSERT INTO copied (k, v, l, b, ts) VALUES ({i}, 'value, \"{i}\"', [{i}, 1], 0x0{i % 10},"
                                f" {i * 1000});\n" for i in range(40))
                      + "INSERT INTO copied (k) VALUES (99);"))
    shown = cqlsh(in_keyspace(f"COPY copied (k, v, l, b, ts) TO '{path}' WITH HEADER = true;"))
    assert "41 rows exported to 1 files" in shown
    before = sorted(path.read_text().splitlines()[1:])
    assert len(before) == 41
    cqlsh(in_keyspace("TRUNCATE copied;"))
    shown = cqlsh(in_keyspace(f"COPY copied (k, v, l, b, ts) FROM '{path}' WITH HEADER = true;"))
    assert "41 rows imported from 1 files" in shown
    cqlsh(in_keyspace(f"COPY copied (k, v, l, b, ts) TO '{path}' WITH HEADER = true;"))
    assert sorted(path.read_text().splitlines()[1:]) == before


def test_source_capture_and_errors(cqlsh):
    script = cqlsh.home / "script.cql"
    script.write_text("SELECT k FROM t WHERE k = 1;\n")
    shown = cqlsh(in_keyspace(f"SOURCE '{script}';\nSELEC;\nSELECT * FROM nope;\nINSERT INTO t (k) VALUES (1);"), fails=True)
    assert "(2 rows)" in shown
    assert "SyntaxException" in shown
    assert "table nope does not exist" in shown
    assert "Some clustering keys are missing: c" in shown


def test_a_statement_on_the_command_line(cqlsh):
    assert "(2 rows)" in cqlsh("", "-k", KEYSPACE, "-e", "SELECT * FROM t WHERE k = 1")
    for version in (3, 4, 5):
        assert "(2 rows)" in cqlsh("", f"--protocol-version={version}", "-k", KEYSPACE, "-e", "SELECT * FROM t WHERE k = 1")
