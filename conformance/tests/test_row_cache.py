"""The row cache of a live node beside writes: whatever happens to it, a read shows every write that was acknowledged before it.

One thread overwrites rows of a few hot partitions with growing numbers, two read whole partitions and compare with what was
acknowledged before they asked. Meanwhile the cache is emptied, made smaller and larger, and the table flushed and compacted.
"""
import random
import threading
import time

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.node import Ilion

PARTITIONS, ROWS = 8, 20
SECONDS = 6


@pytest.fixture(scope="module")
def node(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    with Ilion(tmp_path_factory.mktemp("rows"), settings={"row_cache_size": "16MiB"}) as node:
        yield node


@pytest.fixture(scope="module")
def session(node):
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([node.address]))
    cluster = Cluster([node.address], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    yield cluster.connect()
    cluster.shutdown()


def lookups(node, table):
    """Partitions that were looked for in the row cache: found, and not."""
    sample, counted = 'ilion_table_row_cache_lookups_total{keyspace="rows",table="%s",found="%s"}', node.metrics()
    return [counted.get(sample % (table, kind), 0) for kind in ("hit", "miss")]


@pytest.mark.parametrize("kept", ["ALL", "5"])
def test_no_acknowledged_write_is_missed(node, session, kept):
    table = f"kept_{kept.lower()}"
    session.execute("CREATE KEYSPACE IF NOT EXISTS rows WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute(f"CREATE TABLE rows.{table} (k int, c int, v bigint, PRIMARY KEY (k, c)) "
                    f"WITH caching = {{'keys': 'ALL', 'rows_per_partition': '{kept}'}}")
    insert = session.prepare(f"INSERT INTO rows.{table} (k, c, v) VALUES (?, ?, ?)")
    select = session.prepare(f"SELECT c, v FROM rows.{table} WHERE k = ?")
    acknowledged = [[0] * ROWS for _ in range(PARTITIONS)]
    for k in range(PARTITIONS):
        for c in range(ROWS):
            session.execute(insert, (k, c, 0))
    node.flush("rows", table)
    ended, failures, reads = threading.Event(), [], []

    def guarded(work):
        def run():
            try:
                work()
            except Exception as error:  # a thread's failure is the test's
                failures.append(repr(error))
        return run

    def write():
        choice, number = random.Random(1), 0
        while not ended.is_set():
            number += 1
            k, c = choice.randrange(PARTITIONS), choice.randrange(ROWS)
            session.execute(insert, (k, c, number))
            acknowledged[k][c] = number

    def read(seed):
        choice = random.Random(seed)
        while not ended.is_set():
            k = choice.randrange(PARTITIONS)
            before = list(acknowledged[k])
            found = {row.c: row.v for row in session.execute(select, (k,))}
            if sorted(found) != list(range(ROWS)) or any(found[c] < before[c] for c in range(ROWS)):
                failures.append(f"partition {k}: {found} after {before}")
                return
            reads.append(k)

    threads = [threading.Thread(target=guarded(work)) for work in (write, lambda: read(2), lambda: read(3))]
    for thread in threads:
        thread.start()
    steps = [("invalidaterowcache",), ("flush", "rows", table), ("setcachecapacity", "50", "1", "25"), ("invalidaterowcache",),
             ("setcachecapacity", "50", "16", "25"), ("compact", "rows", table), ("setcachecapacity", "50", "0", "25"),
             ("setcachecapacity", "50", "16", "25")]
    deadline, step = time.monotonic() + SECONDS, 0
    # In whole turns: the last step of one leaves the cache with room.
    while time.monotonic() < deadline or step % len(steps):
        node.nodetool(*steps[step % len(steps)])
        step += 1
        time.sleep(0.05)
    ended.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    hits, misses = lookups(node, table)
    assert len(reads) > 50 and hits > 0 and misses > 0, (len(reads), hits, misses)
    # Those at a capacity of 0 are not looked up.
    assert hits + misses <= len(reads) + 2, (len(reads), hits, misses)


def test_an_emptied_cache_is_filled_by_the_next_read(node, session):
    session.execute("CREATE TABLE rows.emptied (k int PRIMARY KEY, v int) WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}")
    session.execute("INSERT INTO rows.emptied (k, v) VALUES (1, 1)")
    node.flush("rows", "emptied")
    counts = []
    for emptied in (False, False, True, False):
        if emptied:
            node.nodetool("invalidaterowcache")
        before = lookups(node, "emptied")
        assert session.execute("SELECT v FROM rows.emptied WHERE k = 1").one().v == 1
        counts.append([now - then for now, then in zip(lookups(node, "emptied"), before)])
    assert counts == [[0, 1], [1, 0], [0, 1], [1, 0]]
