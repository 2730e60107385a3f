"""A Cassandra's directory, served in turn by that Cassandra and by Ilion: every query agrees at each change of hands.

`--in-place-rounds N` goes there and back N times (2 unless said) on each Cassandra. Both sides write, change the schema,
delete, compact; everything is read after each step and compared with what the next one reads.
"""
import time
import uuid

import pytest

from harness.in_place import differences
from harness.wire import Wire

# Name of the case -> version, lines of cassandra.yaml that spell what the version wants. NODE is the node's directory.
CASES = {
    "4.0": ("4.0.17", ("num_tokens: 16", "enable_materialized_views: true", "enable_user_defined_functions: true",
                       "enable_sasi_indexes: true", "data_file_directories: [NODE/data, NODE/more]")),
    "4.1": ("4.1.10", ("num_tokens: 1", "materialized_views_enabled: true", "user_defined_functions_enabled: true",
                       "sasi_indexes_enabled: true", "data_file_directories: [NODE/data, NODE/more]")),
    "5.0": ("5.0.5", ("num_tokens: 16", "materialized_views_enabled: true", "user_defined_functions_enabled: true",
                      "sasi_indexes_enabled: true", "dynamic_data_masking_enabled: true")),
    "5.0 NONE": ("5.0.5", ("num_tokens: 16", "materialized_views_enabled: true", "user_defined_functions_enabled: true",
                           "sasi_indexes_enabled: true", "dynamic_data_masking_enabled: true",
                           "storage_compatibility_mode: NONE", "local_system_data_file_directory: NODE/own")),
    "5.0 bti": ("5.0.5", ("num_tokens: 16", "materialized_views_enabled: true", "user_defined_functions_enabled: true",
                          "sasi_indexes_enabled: true", "dynamic_data_masking_enabled: true",
                          "storage_compatibility_mode: NONE", "sstable: {selected_format: bti}",
                          "data_file_directories: [NODE/data, NODE/more]")),
}

SCHEMA = """
CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}
CREATE TYPE app.address (street text, city text, zips frozen<set<int>>)
CREATE TYPE app.person (name text, home frozen<address>)
CREATE TABLE app.users (id uuid, day date, s text STATIC, sc map<text, int> STATIC, name text, tags set<text>, attrs map<text, frozen<list<int>>>, hist list<int>, addr address, p frozen<person>, tup frozen<tuple<int, text>>, n int, gone int, PRIMARY KEY (id, day)) WITH CLUSTERING ORDER BY (day DESC) AND comment = 'it''s' AND gc_grace_seconds = 100000 AND compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': '8', 'compression_level': '3'} AND compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '64'} AND speculative_retry = '50ms' AND caching = {'keys': 'NONE', 'rows_per_partition': '10'}
CREATE TABLE app.counters (k int, c text, n counter, m counter, PRIMARY KEY (k, c))
CREATE TABLE app.events (device text, at bigint, seq int, value blob, note text, PRIMARY KEY (device, at, seq)) WITH CLUSTERING ORDER BY (at DESC, seq ASC) AND compression = {'enabled': 'false'}
CREATE TABLE app.expiring (k int PRIMARY KEY, v text, w text) WITH default_time_to_live = 5000000
CREATE TABLE app.locks (k int PRIMARY KEY, owner text, n int)
CREATE TABLE app."MixedCase" ("Key" text PRIMARY KEY, "select" int, v1 text, v2 text)
CREATE TABLE app.renamed (k int, c int, v int, PRIMARY KEY (k, c))
CREATE TABLE app.indexed (k int PRIMARY KEY, a int, b text, c set<int>)
CREATE INDEX a_idx ON app.indexed (a)
CREATE INDEX ON app.indexed (values(c))
CREATE TABLE app.large (k int, c text, s text STATIC, v text, w blob, PRIMARY KEY (k, c)) WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}
CREATE TABLE app.base (k int, c int, v int, w text, PRIMARY KEY (k, c))
CREATE MATERIALIZED VIEW app.by_v AS SELECT k, c, v, w FROM app.base WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c) WITH comment = 'a view'
CREATE MATERIALIZED VIEW app.all_of AS SELECT * FROM app.base WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY ((k, v), c) WITH CLUSTERING ORDER BY (c DESC)
CREATE FUNCTION app.plus (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a == null ? b : a + (b == null ? 0 : b);'
CREATE FUNCTION app."Show" (a int) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS $$ return "x" + a; $$
CREATE AGGREGATE app.total (int) SFUNC plus STYPE int FINALFUNC "Show" INITCOND 0
CREATE AGGREGATE app.sum_of (int) SFUNC plus STYPE int
CREATE TABLE app.sasi (k int PRIMARY KEY, t text)
CREATE CUSTOM INDEX t_sasi ON app.sasi (t) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'CONTAINS'}
INSERT INTO app.sasi (k, t) VALUES (1, 'hello')
"""
SCHEMA_5 = """
CREATE TABLE app.sai (k int PRIMARY KEY, t text, v vector<float, 3>)
CREATE INDEX t_sai ON app.sai (t) USING 'sai'
CREATE CUSTOM INDEX v_sai ON app.sai (v) USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': 'cosine'}
CREATE TABLE app.masked (k int PRIMARY KEY, t text MASKED WITH mask_inner(1, null), u int MASKED WITH DEFAULT)
INSERT INTO app.masked (k, t, u) VALUES (1, 'secret', 2)
"""


def lines(text):
    return [line for line in text.strip().splitlines() if line]


def writes(turn):
    """Writes of one turn: new rows, rows over those of earlier turns, deletions of every kind. Returns the statements before
    and after a flush, so that there is something to compact."""
    at = range(turn * 10, turn * 10 + 12)
    first, second = [], []
    for i in at:
        u = uuid.UUID(int=i % 17)
        first += [
            f"INSERT INTO app.users (id, day, s, name, tags, attrs, hist, addr, p, tup, n) VALUES ({u}, '2024-01-{1 + i % 28:02d}', "
            f"'st{i}', 'n{i}', {{'a', 'b{i}'}}, {{'x': [1, {i}]}}, [3, 1, {i}], {{street: 's', city: 'c{i}', zips: {{1, 2}}}}, "
            f"{{name: 'p', home: {{street: 'q'}}}}, ({i}, 't'), {i})",
            f"INSERT INTO app.users (id, day, n) VALUES ({u}, '2025-01-01', {i}) USING TTL 1000000",
            f"UPDATE app.users SET sc['k{i % 3}'] = {i} WHERE id = {u}",
            f"UPDATE app.counters SET n = n + {i}, m = m - 1 WHERE k = {i % 5} AND c = 'c{i % 7}'",
            f"INSERT INTO app.indexed (k, a, b, c) VALUES ({i % 40}, {i % 7}, 'b{turn}', {{{i}, {i + 1}}})",
            f"INSERT INTO app.expiring (k, v) VALUES ({i}, 'v')",
            f"UPDATE app.expiring USING TTL 0 SET w = 'stays' WHERE k = {i}",
            f"INSERT INTO app.\"MixedCase\" (\"Key\", \"select\", v2) VALUES ('k{i}', {i}, 'v')",
            f"INSERT INTO app.locks (k, owner, n) VALUES ({i % 15}, 'turn {turn}', 0) IF NOT EXISTS",
            f"UPDATE app.locks SET n = {i} WHERE k = {i % 15} IF n = 0",
        ]
        first += [f"INSERT INTO app.events (device, at, seq, value, note) VALUES ('d{i % 3}', {i * 100 + j}, {j}, 0x{i:04x}, "
                  f"'note {j}')" for j in range(8)]
    # A partition that Ilion describes when Cassandra wrote it, with values that its outline leaves out.
    first += [f"INSERT INTO app.large (k, c, s, v, w) VALUES ({turn % 2}, 'row {c:04d}', 's{turn}', '{f'{turn} {c} ' * 100}', "
              f"0x{'ab' * (9000 if c % 50 == 7 else 9)})" for c in range(turn, 240 + turn, 2)]
    first.append(f"DELETE FROM app.large WHERE k = {turn % 2} AND c > 'row 0050' AND c < 'row 0060'")
    u = uuid.UUID(int=at[0] % 17)
    second += [
        f"DELETE v FROM app.large WHERE k = {turn % 2} AND c = 'row {turn + 4:04d}'",
        f"DELETE FROM app.users WHERE id = {u} AND day > '2024-01-20' AND day < '2025-01-01'",
        f"DELETE tags['a'], attrs['x'], hist[0] FROM app.users WHERE id = {uuid.UUID(int=at[1] % 17)} AND day = "
        f"'2024-01-{1 + at[1] % 28:02d}'",
        f"UPDATE app.users SET tags = {{'whole'}}, hist = hist + [{turn}], addr.city = 'moved' WHERE id = "
        f"{uuid.UUID(int=at[2] % 17)} AND day = '2024-01-{1 + at[2] % 28:02d}'",
        f"DELETE s FROM app.users WHERE id = {uuid.UUID(int=at[3] % 17)}",
        f"DELETE FROM app.users WHERE id = {uuid.UUID(int=at[4] % 17)}",
        f"DELETE FROM app.counters WHERE k = {turn % 5} AND c = 'c6'",
        f"DELETE FROM app.events WHERE device = 'd0' AND at >= {at[0] * 100 + 3} AND at < {at[0] * 100 + 6}",
        f"DELETE FROM app.events WHERE device = 'd1' AND at = {at[1] * 100 + 1}",
        f"DELETE note FROM app.events WHERE device = 'd2' AND at = {at[2] * 100 + 2} AND seq = 2",
        f"BEGIN BATCH INSERT INTO app.locks (k, owner) VALUES ({100 + turn}, 'batch'); "
        f"UPDATE app.events SET note = 'batch' WHERE device = 'd2' AND at = {turn} AND seq = 0; APPLY BATCH",
        f"UPDATE app.indexed SET a = 100 WHERE k = {at[0] % 40}",
        f"DELETE FROM app.indexed WHERE k = {at[1] % 40}",
    ]
    return first, second


def schema_changes(turn):
    """Changes of the schema that both sides make in the same way."""
    clustering = "c" if turn == 0 else f"c{turn - 1}"
    changes = [
        f"ALTER TABLE app.users ADD added{turn} text",
        f"ALTER TABLE app.\"MixedCase\" DROP {'v1' if turn == 0 else f'w{turn - 1}'}",
        f"ALTER TABLE app.\"MixedCase\" ADD w{turn} set<text>",
        f"ALTER TABLE app.renamed RENAME {clustering} TO c{turn}",
        f"ALTER TYPE app.address ADD extra{turn} text",
        f"CREATE TYPE app.t{turn} (a int, b frozen<address>)",
        f"CREATE TABLE app.new{turn} (k int PRIMARY KEY, v frozen<t{turn}>, l list<frozen<t{turn}>>) WITH comment = 'turn {turn}'",
        f"INSERT INTO app.new{turn} (k, v, l) VALUES (1, {{a: 1, b: {{city: 'x'}}}}, [{{a: 2}}])",
        f"ALTER TABLE app.events WITH gc_grace_seconds = {1000000 + turn} AND compaction = "
        "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '5'}",
        f"UPDATE app.users SET added{turn} = 'added' WHERE id = {uuid.UUID(int=3)} AND day = '2023-01-01'",
        f"INSERT INTO app.renamed (k, c{turn}, v) VALUES (1, {turn}, {turn})",
        f"UPDATE app.\"MixedCase\" SET w{turn} = {{'x'}} WHERE \"Key\" = 'k1'",
        f"CREATE KEYSPACE extra{turn} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
        f"CREATE TABLE extra{turn}.t (k int PRIMARY KEY)",
    ]
    if turn >= 1:
        changes += [f"DROP TABLE app.new{turn - 1}", f"DROP TYPE app.t{turn - 1}", f"DROP KEYSPACE extra{turn - 1}",
                    f"ALTER TABLE app.users DROP added{turn - 1}"]
    if turn % 3 == 1:
        changes += ["TRUNCATE app.expiring", "INSERT INTO app.expiring (k, v) VALUES (1000, 'after')"]
    if turn == 1:
        changes.append("ALTER TABLE app.users DROP gone")
    if turn == 2:
        changes += ["ALTER TABLE app.users ADD gone int",
                    f"UPDATE app.users SET gone = 1 WHERE id = {uuid.UUID(int=1)} AND day = '2020-01-01'"]
    return changes


def turn_of(directory, turn):
    """One side's turn: writes, flushes, schema changes, a compaction."""
    first, second = writes(turn)
    directory.run(first)
    directory.node.flush("app")
    directory.run(second)
    directory.run(schema_changes(turn))
    if directory.version.startswith("5."):
        directory.run([f"INSERT INTO app.sai (k, t, v) VALUES ({i}, 't{i % 3}', [{i + 1}, 1, {turn}])" for i in
                       range(turn * 5, turn * 5 + 8)])
        # What Ilion makes of SSTables with components of SAI has none: Cassandra has to complete it.
        directory.node.flush("app")
        directory.run([f"INSERT INTO app.sai (k, t, v) VALUES ({turn * 5}, 't{turn % 3}', [1, 2, {turn + 1}])"])
        directory.node.compact("app", "sai")
    directory.node.compact("app", "users" if turn % 2 else "events")
    directory.node.compact("app", "counters")


def indexed_rows(directory):
    """What the indexes of a Cassandra answer, next to what the table holds. A rebuild may still run: then they answer an error,
    or what they have so far."""
    wire = directory.wire

    def comes(text, expected):
        for _ in range(240):
            reply = wire.query(text)
            if reply.kind == "rows" and sorted(map(tuple, reply.rows)) == expected:
                return
            time.sleep(0.5)
        raise AssertionError(f"{text}: {reply.error if reply.kind == 'error' else reply.rows}, expected {expected}")

    rows = [(k, a, c) for k, a, c in wire.must("SELECT k, a, c FROM app.indexed").rows]
    for a in (*range(7), 100):
        raw = a.to_bytes(4, "big")
        comes(f"SELECT k FROM app.indexed WHERE a = {a}", sorted((k,) for k, v, _ in rows if v == raw))
    of_sets = sorted((k,) for k, _, c in rows if c and (41).to_bytes(4, "big") in c)
    comes("SELECT k FROM app.indexed WHERE c CONTAINS 41", of_sets)
    if directory.version.startswith("5."):
        rows = wire.must("SELECT k, t FROM app.sai").rows
        for t in (b"t0", b"t1", b"t2"):
            comes(f"SELECT k FROM app.sai WHERE t = '{t.decode()}'", sorted((k,) for k, v in rows if v == t))
        if directory.has_ann:
            comes(f"SELECT k FROM app.sai ORDER BY v ANN OF [1, 1, 1] LIMIT {len(rows)}", sorted((k,) for k, _ in rows))
    comes("SELECT k FROM app.sasi WHERE t LIKE '%ell%'", [((1).to_bytes(4, "big"),)])


REFUSED_BY_ILION = {
    "INSERT INTO app.base (k, c, v) VALUES (1, 1, 1)": "materialized views depend on it (",
    "TRUNCATE app.base": "materialized views depend on it (",
    "UPDATE app.by_v SET w = 'x' WHERE v = 1 AND k = 1 AND c = 1": "Cannot directly modify a materialized view",
    "DROP TABLE app.base": "Cannot drop a table when materialized views still depend on it (",
    "DROP TABLE app.by_v": "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.",
    "ALTER TABLE app.base DROP w": "Cannot drop column w on base table base with materialized views",
    "ALTER TABLE app.indexed DROP a": "Cannot drop column a because it has dependent secondary indexes (a_idx)",
    "INSERT INTO app.sasi (k, t) VALUES (2, 'x')": "it has the index t_sasi of class org.apache.cassandra.index.sasi.SASIIndex",
    "DROP INDEX app.a_idx": "Index 'app.a_idx' is kept for Cassandra",
    "DROP FUNCTION app.plus": "Function 'app.plus' is kept for Cassandra",
}


@pytest.fixture(params=CASES)
def directory(request, tmp_path, in_turns):
    version, settings = CASES[request.param]
    directory = in_turns(version, [line.replace("NODE", str(tmp_path / "node")) for line in settings])
    directory.sstables = {"5.0 NONE": "oa", "5.0 bti": "da"}.get(request.param, "nb")
    # Cassandra has no such indexes on several data directories.
    directory.has_ann = not any("NODE/more" in line for line in CASES[request.param][1])
    directory.home = "own" if request.param == "5.0 NONE" else "data"
    return directory


def test_there_and_back(directory, request):
    rounds = request.config.getoption("--in-place-rounds")
    directory.hand_to(directory.cassandra)
    directory.run(lines(SCHEMA))
    if directory.version.startswith("5."):
        directory.run([line for line in lines(SCHEMA_5) if directory.has_ann or "v_sai" not in line])
    files_are_where_they_belong(directory)
    turn = 0
    for _ in range(rounds):
        turn_of(directory, turn)
        directory.run([f"INSERT INTO app.base (k, c, v, w) VALUES ({turn}, {c}, {c % 4}, 'w') " for c in range(10)])
        # Rows that move in the views leave the cells that changed where they were, below liveness that has expired.
        directory.run([f"UPDATE app.base SET v = {7 + turn}, w = 'moved' WHERE k = {max(turn - 2, 0)} AND c = {c}" for c in (3, 4)])
        before = directory.dump()
        indexed_rows(directory)

        directory.hand_to(directory.ilion)
        assert differences(before, directory.dump()) == ""
        large_partitions_are_described(directory)
        for statement, words in REFUSED_BY_ILION.items():
            reply = directory.wire.query(statement)
            assert (reply.code, words in (reply.error or "")) == (0x2200, True), f"{statement}: {reply.error}"
        turn_of(directory, turn + 1)
        before = directory.dump()
        files_are_where_they_belong(directory)

        directory.hand_to(directory.cassandra)
        assert differences(before, directory.dump()) == ""
        indexed_rows(directory)
        turn += 2
    if not directory.version.startswith("5."):
        directory.hand_to(directory.ilion)
        older_forms_are_kept(directory.wire, directory.version)
    directory.release()


def large_partitions_are_described(directory):
    """What Cassandra wrote of them gets Ilion's components, and reads of single rows are answered by them as before."""
    whole = directory.wire.must("SELECT k, c, v, w FROM app.large").rows
    deadline = time.monotonic() + 60
    while not list(directory.cassandra.directory.glob("*/app/large-*/*-Blocks.db")):
        assert time.monotonic() < deadline, "no large partition was described"
        time.sleep(0.2)
    described = directory.wire.must("SELECT described, bytes FROM system_views.adoption WHERE keyspace_name = 'app' AND "
                                    "table_name = 'large'").rows
    assert [int.from_bytes(column, "big") > 0 for column in described[0]] == [True, True]
    for k, c, *values in whole[::5]:
        where = f"k = {int.from_bytes(k, 'big')} AND c = '{c.decode()}'"
        assert directory.wire.must(f"SELECT v, w FROM app.large WHERE {where}").rows == [values]
    for k in (0, 1):
        backwards = directory.wire.must(f"SELECT c FROM app.large WHERE k = {k} ORDER BY c DESC").rows
        assert [c for c, in backwards] == [c for key, c, *_ in whole if int.from_bytes(key, "big") == k][::-1]


def files_are_where_they_belong(directory):
    """SSTables have the version that the settings select, and those of the node itself lie in one directory."""
    root = directory.cassandra.directory
    directory.node.flush("system_schema")
    found = [path.relative_to(root).parts for path in root.glob("*/*/*/*-Data.db")]
    assert {name.split("-")[0] for *_, name in found} == {directory.sstables}
    assert {disk for disk, keyspace, *_ in found if keyspace == "system_schema"} == {directory.home}
    assert {disk for disk, keyspace, table, _ in found if keyspace == "system" and table.startswith("local-")} == {
        directory.home}


def older_forms_are_kept(wire: Wire, version):
    """What the Cassandra of the directory does not know is refused."""
    for statement, code, words in [
        ("CREATE TABLE app.v (k int PRIMARY KEY, v vector<float, 3>)", 0x2000, "vector"),
        ("CREATE TYPE app.vt (v frozen<list<vector<int, 2>>>)", 0x2000, "vector"),
        ("ALTER TABLE app.locks WITH allow_auto_snapshot = false", 0x2000, "Unknown property 'allow_auto_snapshot'"),
        ("CREATE TABLE app.v (k int PRIMARY KEY) WITH incremental_backups = false", 0x2000, "Unknown property"),
        ("ALTER TABLE app.locks WITH compaction = {'class': 'UnifiedCompactionStrategy'}", 0x2300,
         "UnifiedCompactionStrategy"),
    ]:
        reply = wire.query(statement)
        assert (reply.code, words in (reply.error or "")) == (code, True), f"{statement}: {reply.error}"
    memtable = wire.query("ALTER TABLE app.locks WITH memtable = 'default'")
    assert (memtable.code == 0x2000) == version.startswith("4.0"), memtable.error
