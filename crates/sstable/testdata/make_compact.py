"""Makes the fixtures of tables that were made with COMPACT STORAGE, and of empty components and values: files of a running
Cassandra 3.11 with `enable_drop_compact_storage: true`.

    make_compact.py VERSION ADDRESS DATA_DIRECTORY NODETOOL...

The arguments are those of make.py. The files are written while the tables are compact, as later releases find them.
"""
import glob
import os
import shutil
import subprocess
import sys

from cassandra.cluster import Cluster

KEYSPACE = "sst_compact"
AT = "USING TIMESTAMP 1700000000000000"
TABLES = {
    "fixed": "k text PRIMARY KEY, a int, b text) WITH COMPACT STORAGE",
    "dense": "k int, c int, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c DESC)",
    "marks": "k int, c text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
    "pairs": "k int, c text, d int, v blob, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE",
    "sums": "k text PRIMARY KEY, n counter) WITH COMPACT STORAGE",
    "empties": "a int, b text, c text, d blob, v text, x int, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY "
               "(c DESC, d ASC) AND compression = {'class': 'SnappyCompressor'}",
}


def fill(session):
    run = session.execute
    run(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    run(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    session.set_keyspace(KEYSPACE)
    for name, definition in TABLES.items():
        run(f"CREATE TABLE {name} ({definition}")
    for i in range(3):
        run(f"INSERT INTO fixed (k, a, b) VALUES ('k{i}', {i}, '{'b' * i}') {AT}")
    run(f"INSERT INTO fixed (k, a) VALUES ('half', 7) {AT}")
    run("DELETE b FROM fixed USING TIMESTAMP 1700000000000001 WHERE k = 'k2'")
    run("DELETE FROM fixed USING TIMESTAMP 1700000000000001 WHERE k = 'k0'")
    for k in range(2):
        for c in range(5):
            run(f"INSERT INTO dense (k, c, v) VALUES ({k}, {c}, 'v{c}') {AT}")
            run(f"INSERT INTO marks (k, c) VALUES ({k}, 'c{c}') {AT}")
            run(f"INSERT INTO pairs (k, c, d, v) VALUES ({k}, '{'' if c == 0 else 'c'}', {c}, 0x0{c}) {AT}")
    run("DELETE FROM dense USING TIMESTAMP 1700000000000001 WHERE k = 0 AND c = 3")
    run("DELETE FROM pairs USING TIMESTAMP 1700000000000001 WHERE k = 1 AND c = 'c'")
    run(f"INSERT INTO dense (k, c, v) VALUES (1, 9, '') {AT}")
    # Long enough for several blocks of the promoted index.
    for c in range(3000):
        run(f"INSERT INTO marks (k, c) VALUES (7, 'clustering number {c:06d} {'x' * 40}') {AT}")
    for n in (1, 5):
        run(f"UPDATE sums SET n = n + {n} WHERE k = 'a'")
    insert = session.prepare(f"INSERT INTO empties (a, b, c, d, v, x) VALUES (?, ?, ?, ?, ?, ?) {AT}")
    for a, b in ((1, ""), (2, "two")):
        for c in ("", "c"):
            for d in (b"", b"\x01"):
                session.execute(insert, (a, b, c, d, "" if a == 1 else "v", None))
    run("UPDATE empties USING TIMESTAMP 1700000000000001 SET x = null WHERE a = 1 AND b = '' AND c = '' AND d = 0x")
    run("DELETE FROM empties USING TIMESTAMP 1700000000000002 WHERE a = 2 AND b = 'two' AND c = ''")


def main():
    version, address, data = sys.argv[1:4]
    session = Cluster([address]).connect()
    session.default_timeout = 60
    fill(session)
    subprocess.run(sys.argv[4:] + ["flush", KEYSPACE], check=True)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), version)
    for table in TABLES:
        target = os.path.join(here, table)
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        for path in glob.glob(os.path.join(data, KEYSPACE, table + "-*", "??-*-big-*")):
            shutil.copy(path, target)
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    session.cluster.shutdown()


main()
