"""Makes the fixtures of the golden tests: tables of a running Cassandra, flushed, and their files copied here.

    make.py VERSION ADDRESS DATA_DIRECTORY NODETOOL...

VERSION names the folder (5.0.5, 5.0.5-none for `storage_compatibility_mode: NONE`, 5.0.5-bti, 4.1.10, 3.11.19, 3.11.10); NODETOOL is a command to which `flush` and `compact` are appended.
The tables that were made with COMPACT STORAGE come from make_compact.py. Needs the Python package cassandra-driver. Timestamps are fixed; local deletion times are those of the run.
"""
import glob
import os
import shutil
import subprocess
import sys
import time

from cassandra.cluster import Cluster

KEYSPACE = "sst_golden"
TABLES = {
    "wide": "k int, c int, d text, s text static, v int, w text, PRIMARY KEY (k, c, d)) "
            "WITH CLUSTERING ORDER BY (c DESC, d ASC) AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    "kinds": "k text PRIMARY KEY, l list<int>, m map<text, int>, st set<int>, f frozen<list<int>>, u pair, fu frozen<pair>, "
             "t tuple<int, text>, ti tinyint, sm smallint, da date, tm time, ts timestamp, du duration, i inet, de decimal, "
             "va varint, bo boolean, fl float, dbl double, uu uuid) WITH compression = {'enabled': 'false'}",
    "counters": "a int, b text, n counter, PRIMARY KEY ((a, b))) WITH compression = {'class': 'ZstdCompressor'}",
    "deflated": "k int, c int, v text, PRIMARY KEY (k, c)) WITH compression = {'class': 'DeflateCompressor'}",
    "snappy": "k int, c int, v text, PRIMARY KEY (k, c)) WITH compression = "
              "{'class': 'SnappyCompressor', 'min_compress_ratio': 1.3, 'chunk_length_in_kb': 4}",
}


def fill(session, version):
    run = session.execute
    run(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    run(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.set_keyspace(KEYSPACE)
    run("CREATE TYPE pair (a int, b text)")
    for name, definition in TABLES.items():
        if version.startswith("3."):
            # What 3.11 does not know.
            definition = definition.replace("Zstd", "Deflate").replace("'min_compress_ratio': 1.3, ", "")
        run(f"CREATE TABLE {name} ({definition}")
    for c in range(60):
        for d in ("", "x", "yy"):
            # Long enough for several blocks of the promoted index.
            run("INSERT INTO wide (k, c, d, v, w) VALUES (1, %s, %s, %s, %s) USING TIMESTAMP %s",
                (c, d, c * 10, f"{c:04d}" * 400, 1_700_000_000_000_000 + c))
    run("UPDATE wide USING TIMESTAMP 1700000000000100 SET s = 'static' WHERE k = 1")
    run("DELETE FROM wide USING TIMESTAMP 1700000000000200 WHERE k = 1 AND c > 10 AND c <= 20")
    run("DELETE FROM wide USING TIMESTAMP 1700000000000201 WHERE k = 1 AND c > 20 AND c < 23")
    run("DELETE FROM wide USING TIMESTAMP 1700000000000202 WHERE k = 1 AND c = 30 AND d = 'x'")
    run("DELETE v FROM wide USING TIMESTAMP 1700000000000203 WHERE k = 1 AND c = 31 AND d = 'x'")
    run("DELETE FROM wide USING TIMESTAMP 1700000000000204 WHERE k = 1 AND c = 40")
    run("DELETE FROM wide USING TIMESTAMP 1700000000000205 WHERE k = 2")
    run("INSERT INTO wide (k, c, d, v) VALUES (2, 1, 'after', 5) USING TIMESTAMP 1700000000000300")
    run("INSERT INTO wide (k, s) VALUES (3, 'only static') USING TIMESTAMP 1700000000000301")
    run("INSERT INTO wide (k, c, d, v, w) VALUES (4, 1, 'ttl', 1, 'w') USING TIMESTAMP 1700000000000302 AND TTL 315360000")
    run("UPDATE wide USING TIMESTAMP 1700000000000303 AND TTL 315000000 SET w = 'other' WHERE k = 4 AND c = 1 AND d = 'ttl'")
    at = "USING TIMESTAMP 1700000000000000"
    run("INSERT INTO kinds (k, m, st, f, fu, t, ti, sm, da, tm, ts, du, i, de, va, bo, fl, dbl, uu) VALUES ('all', "
        "{'a': 1, 'b': 2}, {3, 1, 2}, [1, 2], {a: 1, b: 'x'}, (1, 'y'), 1, 2, '2024-02-03', '01:02:03.000000004', "
        "'2024-02-03 04:05:06.789+0000', 1y2mo3d4h5m, '::1', 1.50, -300, true, 1.5, -2.5, "
        f"123e4567-e89b-12d3-a456-426614174000) {at}")
    run("UPDATE kinds USING TIMESTAMP 1700000000000001 SET u.a = 7, u.b = 'udt' WHERE k = 'all'")
    run("UPDATE kinds USING TIMESTAMP 1700000000000002 SET m['a'] = 9, st = st - {3} WHERE k = 'all'")
    run("DELETE m['b'] FROM kinds USING TIMESTAMP 1700000000000003 WHERE k = 'all'")
    run(f"UPDATE kinds {at} SET l = [5, 6] WHERE k = 'all'")
    run(f"INSERT INTO kinds (k, f, va) VALUES ('nulls', null, 5) {at}")
    run(f"UPDATE kinds {at} SET bo = false WHERE k = 'no marker'")
    for a in range(3):
        for n in range(a + 1):
            run("UPDATE counters SET n = n + %s WHERE a = %s AND b = 'x'", (n + 1, a))
    for table in ("deflated", "snappy"):
        for k in range(300):
            run(f"INSERT INTO {table} (k, c, v) VALUES (%s, %s, %s) USING TIMESTAMP 1700000000000000",
                (k, k % 7, os.urandom(60).hex() if k % 2 else "abc" * 50))


def main():
    version, address, data = sys.argv[1:4]
    session = Cluster([address]).connect()
    session.default_timeout = 60
    fill(session, version)
    subprocess.run(sys.argv[4:] + ["flush", KEYSPACE], check=True)
    # A flush compresses fast, whatever the table says; a compaction uses the table's compressor.
    subprocess.run(sys.argv[4:] + ["compact", KEYSPACE, "deflated", "counters", "kinds"], check=True)
    time.sleep(2)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), version)
    shutil.rmtree(here, ignore_errors=True)
    for table in TABLES:
        target = os.path.join(here, table)
        os.makedirs(target)
        for path in glob.glob(os.path.join(data, KEYSPACE, table + "-*", "??-*-b??-*")):
            shutil.copy(path, target)
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    session.cluster.shutdown()


main()
