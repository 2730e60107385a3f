"""Tables WITH COMPACT STORAGE in a Cassandra's directory, served in turn by that Cassandra and by Ilion, drained and not."""
import shutil
import time

import pytest

from harness.in_place import differences
from harness.types import show

# Name of the case -> version, lines of cassandra.yaml.
CASES = {
    "4.0": ("4.0.17", ("enable_drop_compact_storage: true",)),
    "4.1": ("4.1.10", ("drop_compact_storage_enabled: true",)),
    "5.0": ("5.0.5", ("drop_compact_storage_enabled: true",)),
    "5.0 bti": ("5.0.5", ("drop_compact_storage_enabled: true", "storage_compatibility_mode: NONE",
                          "sstable: {selected_format: bti}")),
}

SCHEMA = """
CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
CREATE TABLE app.fixed (k int PRIMARY KEY, a int, b text, gone int) WITH COMPACT STORAGE
CREATE TABLE app.pair (x int, y text, "V" frozen<list<int>>, PRIMARY KEY ((x, y))) WITH COMPACT STORAGE AND comment = 'two'
CREATE TABLE app.sums (k int PRIMARY KEY, n counter, m counter) WITH COMPACT STORAGE
CREATE TABLE app.dense (k int, c int, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c DESC)
CREATE TABLE app.deep (k int, c text, d int, e int, v int, PRIMARY KEY (k, c, d, e)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c ASC, d DESC, e ASC)
CREATE TABLE app.marks (k int, c text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE
CREATE TABLE app.pairs (k int, c text, d int, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE
CREATE TABLE app.counts (k int, c int, n counter, PRIMARY KEY (k, c)) WITH COMPACT STORAGE
CREATE TABLE app.dropped1 (k int PRIMARY KEY, a int) WITH COMPACT STORAGE
CREATE TABLE app.dropped2 (k int, c int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE
CREATE TABLE app.dropped3 (k int, c int, d int, v int, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE
CREATE TABLE app.thrift (k int PRIMARY KEY, a int) WITH COMPACT STORAGE
CREATE INDEX b_idx ON app.fixed (b)
"""

QUERIES = """
SELECT k FROM app.fixed
SELECT b FROM app.fixed WHERE k IN (1, 2, 3)
SELECT DISTINCT k, a FROM app.fixed
SELECT k, a FROM app.fixed WHERE a > 5 ALLOW FILTERING
SELECT count(*), max(a) FROM app.fixed
SELECT k FROM app.thrift
SELECT * FROM app.thrift WHERE k IN (1, 2, 3, 4)
SELECT a FROM app.thrift WHERE k = 2
SELECT count(*) FROM app.thrift
SELECT k, c FROM app.dense WHERE k = 1 AND c < 12
SELECT * FROM app.dense WHERE k = 1 ORDER BY c ASC
SELECT * FROM app.deep WHERE k = 1 AND c = 'c1'
SELECT * FROM app.deep WHERE k = 1 AND c = 'c1' AND d > 1
SELECT * FROM app.deep WHERE k = 1 AND c = 'c1' AND d <= 4
SELECT * FROM app.deep WHERE k = 1 AND (c, d, e) > ('c1', 3, 0)
SELECT * FROM app.deep WHERE k = 1 AND (c, d) < ('c2', 5)
SELECT * FROM app.deep WHERE k = 1 ORDER BY c DESC
SELECT c, d, count(*) FROM app.deep WHERE k = 1 GROUP BY c, d
SELECT count(*), max(v) FROM app.deep WHERE k = 77
SELECT c, d, v FROM app.deep WHERE k = 77 AND c = 'WIDE00113'
SELECT c, d, v FROM app.deep WHERE k = 77 AND c = 'WIDE00113' AND d > 1
SELECT c, d, v FROM app.deep WHERE k = 77 AND c > 'WIDE00100' AND c <= 'WIDE00105'
SELECT c, d, v FROM app.deep WHERE k = 77 ORDER BY c DESC LIMIT 200
SELECT c FROM app.marks WHERE k = 1 AND c >= 'c1'
SELECT * FROM app.pairs WHERE k = 1 AND c IN ('c1', 'c2')
"""

# Clusterings that fill several blocks of a partition's index.
LONG = "w" * 200


def lines(text):
    return [line.replace("WIDE", LONG) for line in text.strip().splitlines() if line]


def writes(turn):
    """Writes of one turn, over those of earlier turns too; before and after a flush."""
    first, second = [], []
    for i in range(turn * 6, turn * 6 + 8):
        k = i % 4
        first += [
            f"INSERT INTO app.fixed (k, a, b) VALUES ({i % 11}, {i}, 'b{turn}')",
            f"INSERT INTO app.fixed (k, b) VALUES ({100 + i}, 'lone')",
            f"UPDATE app.fixed USING TTL 1000000 SET a = {i} WHERE k = {50 + i}",
            f"INSERT INTO app.pair (x, y, \"V\") VALUES ({k}, 'y{i}', [{i}, 1])",
            f"UPDATE app.sums SET n = n + {i}, m = m - 1 WHERE k = {k}",
            f"INSERT INTO app.dense (k, c, v) VALUES ({k}, {i}, 'v{turn}')",
            f"INSERT INTO app.deep (k, c, d, e, v) VALUES (1, 'c{i % 3}', {i % 5}, {i}, {i})",
            f"INSERT INTO app.deep (k, c, d, v) VALUES (1, 'c{i % 3}', {i % 5}, {turn})",
            f"INSERT INTO app.deep (k, c, v) VALUES ({k}, 'c{i % 3}', {turn})",
            f"INSERT INTO app.marks (k, c) VALUES ({k}, 'c{i}')",
            f"INSERT INTO app.marks (k, c) VALUES (1, 'c{i}') USING TTL 1000000",
            f"INSERT INTO app.pairs (k, c, d) VALUES (1, 'c{i % 3}', {i})",
            f"INSERT INTO app.pairs (k, c) VALUES (1, 'c{i % 3}')",
            f"UPDATE app.counts SET n = n + 1 WHERE k = {k} AND c = {i}",
        ]
    for i in range(turn, 300, 4):
        first += [f"INSERT INTO app.deep (k, c, v) VALUES (77, '{LONG}{i:05}', {i})",
                  f"INSERT INTO app.deep (k, c, d, v) VALUES (77, '{LONG}{i:05}', {i % 3}, {i})",
                  f"INSERT INTO app.deep (k, c, d, e, v) VALUES (77, '{LONG}{i:05}', 2, {i}, {i})"]
    i = turn * 6
    second += [
        f"DELETE FROM app.fixed WHERE k = {i % 11}",
        f"DELETE a FROM app.fixed WHERE k = {(i + 1) % 11}",
        f"UPDATE app.fixed SET a = 1000 WHERE k = {(i + 2) % 11} IF b = 'b{turn}'",
        f"INSERT INTO app.fixed (k, a) VALUES ({200 + turn}, 1) IF NOT EXISTS",
        f"DELETE n FROM app.sums WHERE k = {i % 4}" if turn == 0 else "UPDATE app.sums SET m = m + 1 WHERE k = 3",
        f"DELETE FROM app.dense WHERE k = {i % 4} AND c = {i}",
        f"DELETE FROM app.dense WHERE k = {(i + 1) % 4} AND c > {i} AND c < {i + 3}",
        f"DELETE FROM app.deep WHERE k = 1 AND c = 'c{turn % 3}' AND d = {(turn + 1) % 5}",
        f"DELETE FROM app.deep WHERE k = 1 AND c = 'c{(turn + 1) % 3}' AND d > 3",
        f"UPDATE app.deep SET v = -1 WHERE k = 1 AND c IN ('c0', 'x{turn}')",
        f"INSERT INTO app.deep (k, c, v) VALUES (1, 'lwt{turn}', 1) IF NOT EXISTS",
        f"DELETE FROM app.marks WHERE k = {i % 4} AND c = 'c{i}'",
        f"DELETE FROM app.pairs WHERE k = 1 AND c = 'c{turn % 3}' AND d = {i}",
        f"BEGIN BATCH INSERT INTO app.fixed (k, a) VALUES ({300 + turn}, 2); INSERT INTO app.pairs (k, c) VALUES (9, 'b{turn}'); "
        "APPLY BATCH",
    ]
    return first, second


def turn_of(directory, turn):
    first, second = writes(turn)
    directory.run(first)
    directory.node.flush("app")
    directory.run(second)
    if turn % 2:
        for table in ("fixed", "deep", "marks", "sums"):
            directory.node.flush("app", table)
            directory.node.compact("app", table)


def everything(directory):
    """All that is stored, shown and described, and answers of queries with their columns."""
    found = directory.dump()
    for query in lines(QUERIES):
        reply = directory.wire.must(query)
        found[query] = [[f"{name} {kind}" for name, kind in reply.columns]] + [[show(kind, value) for (_, kind), value in zip(reply.columns, row)]
                                                                               for row in reply.rows]
    return found


@pytest.fixture(params=CASES)
def directory(request, in_turns):
    return in_turns(*CASES[request.param])


def write_as_thrift(directory):
    """Rows below the static ones that the table shows, which only Thrift could write: files of a table that shows them."""
    directory.run(["CREATE TABLE app.plain (k int, column1 text, a int STATIC, value blob, PRIMARY KEY (k, column1))",
                   "INSERT INTO app.plain (k, a) VALUES (1, 1)", "INSERT INTO app.plain (k, column1, value) VALUES (2, 'x', 0x01)",
                   "INSERT INTO app.plain (k, a, column1, value) VALUES (3, 3, 'x', 0x02)",
                   "INSERT INTO app.plain (k, a, column1, value) VALUES (3, 4, 'y', 0x03)",
                   "DELETE FROM app.plain WHERE k = 3 AND column1 = 'z'"])
    directory.node.flush("app", "plain")
    root = directory.cassandra.directory
    (made,) = root.glob("data/app/plain-*")
    shutil.copytree(made, root / "import" / "app" / "thrift", ignore=shutil.ignore_patterns("backups"))
    directory.cassandra.nodetool("import", "app", "thrift", root / "import" / "app" / "thrift")
    directory.run(["DROP TABLE app.plain", "INSERT INTO app.thrift (k, a) VALUES (4, 4)"])


def index_answers(directory):
    """Cassandra's index, which may still be built anew, finds what is there."""
    wanted = sorted(k for k, b in directory.wire.must("SELECT k, b FROM app.fixed").rows if b == b"lone")
    for _ in range(240):
        reply = directory.wire.query("SELECT k FROM app.fixed WHERE b = 'lone'")
        if reply.kind == "rows":
            assert sorted(k for k, in reply.rows) == wanted
            return
        time.sleep(0.5)
    raise AssertionError(reply.error)


def fill_dropped(directory, first):
    directory.run([f"INSERT INTO app.dropped1 (k, a) VALUES ({first}, 1)", f"INSERT INTO app.dropped2 (k, c) VALUES (1, {first})",
                   f"INSERT INTO app.dropped3 (k, c, d, v) VALUES (1, 1, {first}, 1)",
                   f"INSERT INTO app.dropped3 (k, c, v) VALUES (1, {first}, 1)"])


def test_there_and_back(directory):
    directory.hand_to(directory.cassandra)
    directory.run(lines(SCHEMA))
    turn_of(directory, 0)
    directory.run(["ALTER TABLE app.fixed DROP gone"])
    write_as_thrift(directory)
    fill_dropped(directory, 1)
    before = everything(directory)

    directory.hand_to(directory.ilion)
    assert differences(before, everything(directory)) == ""
    turn_of(directory, 1)
    directory.run(["ALTER TABLE app.pair RENAME x TO xx", "ALTER TABLE app.pair WITH gc_grace_seconds = 5000",
                   "CREATE TABLE app.made (k int, c int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
                   "INSERT INTO app.made (k, c) VALUES (1, 1)", "ALTER TABLE app.pair RENAME xx TO x"])
    fill_dropped(directory, 2)
    before = everything(directory)

    directory.hand_to(directory.cassandra)
    assert differences(before, everything(directory)) == ""
    index_answers(directory)
    turn_of(directory, 2)
    before = everything(directory)
    # Not drained: what came behind the flush is in the commit log only.
    directory.crash()
    directory.hand_to(directory.ilion)
    assert differences(before, everything(directory)) == ""
    directory.run([f"ALTER TABLE app.dropped{n} DROP COMPACT STORAGE" for n in (1, 2, 3)])
    directory.run(["ALTER TABLE app.marks DROP COMPACT STORAGE", "INSERT INTO app.dropped1 (k, column1, value) VALUES (1, 'x', 0x01)",
                   "INSERT INTO app.dropped2 (k, c) VALUES (7, 7)", "INSERT INTO app.dropped3 (k, c, d) VALUES (7, 7, 7)"])
    turn_of(directory, 3)
    before = everything(directory)

    directory.hand_to(directory.cassandra)
    assert differences(before, everything(directory)) == ""
    directory.run([f"ALTER TABLE app.{table} DROP COMPACT STORAGE" for table in ("fixed", "dense", "deep", "sums", "thrift")])
    assert len(directory.wire.must("SELECT * FROM app.thrift").rows) == 5
    before = everything(directory)

    directory.hand_to(directory.ilion)
    assert differences(before, everything(directory)) == ""
    directory.release()
