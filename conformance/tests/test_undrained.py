"""Directories that were not drained: Ilion replays the commit log of a killed Cassandra, and Cassandra that of a killed Ilion."""
import pytest

from harness.node import Cassandra, Ilion, free_address
from harness.wire import Wire

CASES = [
    ("5.0.5", "CASSANDRA_4", None),
    ("5.0.5", "NONE", "LZ4Compressor"),
    ("4.1.10", None, "ZstdCompressor"),
    ("4.0.17", None, None),
]


@pytest.fixture
def with_oracle(request, needs_ilion):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("no real Cassandra: --oracle none")


def write(node, first, last):
    wire = Wire(node.address, node.port)
    wire.must("CREATE KEYSPACE IF NOT EXISTS u WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    wire.must("CREATE TYPE IF NOT EXISTS u.p (x int, y text)")
    wire.must("CREATE TABLE IF NOT EXISTS u.t (k int, c int, s text static, v text, m map<text, int>, l list<int>, p frozen<p>, "
              "PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")
    wire.must("CREATE TABLE IF NOT EXISTS u.n (k int PRIMARY KEY, n counter)")
    wire.must("CREATE TABLE IF NOT EXISTS u.emptied (k int PRIMARY KEY)")
    for i in range(first, last):
        if i == last - 3:
            wire.must("TRUNCATE u.emptied")
        wire.must(f"INSERT INTO u.emptied (k) VALUES ({i})")
        wire.must(f"INSERT INTO u.t (k, c, s, v, m, l, p) VALUES ({i % 7}, {i}, 's{i}', 'v{i}', {{'a': {i}}}, [{i}, 2], "
                  f"{{x: {i}, y: 'y'}})")
        if i % 5 == 0:
            wire.must(f"UPDATE u.n SET n = n + 1 WHERE k = {i % 3}")
        if i % 11 == 0:
            wire.must(f"DELETE FROM u.t WHERE k = {i % 7} AND c = {i}")
        if i % 50 == 7:
            wire.must(f"DELETE FROM u.t WHERE k = {i % 7} AND c >= {i - 20} AND c < {i - 10}")
        if i % 9 == 0:
            wire.must(f"UPDATE u.t USING TTL 86400 SET v = 'ttl' WHERE k = {i % 7} AND c = {i}")
    wire.close()


def change_the_schema(node):
    """One change after another, faster than each would be flushed alone, and rows that need them."""
    wire = Wire(node.address, node.port)
    for i in range(5):
        wire.must(f"CREATE TABLE u.quick{i} (k int PRIMARY KEY, v int)")
    wire.must("INSERT INTO u.quick3 (k, v) VALUES (1, 2)")
    for i in range(3):
        wire.must(f"ALTER TABLE u.t ADD late{i} text")
    wire.must("UPDATE u.t SET late1 = 'x' WHERE k = 1 AND c = 1")
    wire.close()


TABLES = ("t", "n", "emptied")


def rows(node, tables=TABLES):
    wire = Wire(node.address, node.port)
    found = [wire.pages(lambda state: wire.query(f"SELECT * FROM u.{table}", paging_state=state)).rows for table in tables]
    wire.close()
    return [sorted(map(repr, table)) for table in found]


@pytest.mark.parametrize("version, mode, compressor", CASES)
def test_each_replays_the_log_of_the_other(with_oracle, tmp_path, version, mode, compressor):
    settings = [f"storage_compatibility_mode: {mode}"] if mode else []
    if compressor:
        # Without marks in between a compressed segment gets what was written when it is synced.
        settings += [f"commitlog_compression: [{{class_name: {compressor}}}]",
                     "commitlog_sync: batch", "commitlog_sync_period: null", "commitlog_sync_period_in_ms: null"]
    cassandra = Cassandra(tmp_path, free_address(first=40), settings=settings, version=version)
    cassandra.start()
    try:
        write(cassandra, 0, 120)
        cassandra.flush("u", "t")
        write(cassandra, 60, 200)
        expected = rows(cassandra)
    finally:
        cassandra.kill()

    log = tmp_path / "commitlog"
    left = {p.name for p in log.glob("CommitLog-*")}
    options = {"cluster_name": "conformance"}
    if mode:
        options["storage_compatibility_mode"] = mode
    ilion = Ilion(tmp_path, settings=options)
    ilion.start()
    try:
        assert rows(ilion) == expected
        write(ilion, 200, 260)
        change_the_schema(ilion)
        expected = rows(ilion, (*TABLES, "quick3"))
    finally:
        ilion.kill()
    assert {p.name for p in log.glob("CommitLog-*")} - left, "the log of this run is there"

    cassandra.start()
    try:
        assert rows(cassandra, (*TABLES, "quick3")) == expected
        said = (tmp_path / "system.log").read_text(errors="replace")
        bad = [line for line in said.splitlines() if line.startswith("ERROR") or "CorruptSSTable" in line]
        assert not bad, bad[:5]
    finally:
        cassandra.kill()
