"""One read, told by everything that tells of reads: each has to say the same.

EXPLAIN ANALYZE is asked on a node that has just started; then the node is started again and the read is carried out once. What the
second run leaves in its trace, the log of slow queries, the samples of `ilion top`, the histograms of the table and /metrics has to be what
EXPLAIN ANALYZE said of the first.
"""
import json
import re
import subprocess
import time
import urllib.request

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.node import Ilion

READ = "SELECT at, value FROM told.t WHERE k = 1 AND at > 5 AND value > 2 LIMIT 4000 ALLOW FILTERING"
RESTRICTION = "k = 1 AND at > 5 AND value > 2 LIMIT 4000"
ROWS = 6000  # so many take longer than the log of slow queries asks for
BUCKET = 1 / 8  # a histogram is right within this part of a value


def connect(node):
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([node.address]))
    cluster = Cluster([node.address], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    return cluster, cluster.connect()


def admin(node, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{node.admin_port}{path}", timeout=60) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def told(request, tmp_path_factory):
    """What EXPLAIN ANALYZE said, and a node on which the read was carried out once, with its session and its trace."""
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    node = Ilion(tmp_path_factory.mktemp("told"), settings={"slow_query_log_timeout": "1ms"})
    with node:
        cluster, session = connect(node)
        session.execute("CREATE KEYSPACE told WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE told.t (k int, at int, value int, other text, PRIMARY KEY (k, at)) WITH compaction = "
                        "{'class': 'SizeTieredCompactionStrategy', 'enabled': false}")
        for first in (0, 1, 2):
            insert = session.prepare("INSERT INTO told.t (k, at, value, other) VALUES (?, ?, ?, ?)")
            for n in range(first, ROWS, 3):
                session.execute(insert, (1, n, n % 7, "x" * 60))
            session.execute(f"DELETE value FROM told.t WHERE k = 1 AND at = {100 + first}")
            node.flush("told", "t")
        session.execute("INSERT INTO told.t (k, at, value) VALUES (2, 1, 1)")
        node.flush("told", "t")
        cluster.shutdown()

    def write_to_memtable(session):
        session.execute(f"DELETE FROM told.t WHERE k = 1 AND at > {ROWS - 100}")
        session.execute(f"INSERT INTO told.t (k, at, value) VALUES (1, {ROWS}, 5)")

    node.start()
    cluster, session = connect(node)
    write_to_memtable(session)
    (total,) = [row for row in session.execute(f"EXPLAIN ANALYZE {READ}") if row.operation == "total"]
    explained = dict(total.figures)
    cluster.shutdown()
    node.kill()  # nothing is flushed: the commit log brings the memtable back as it was

    with node:
        cluster, session = connect(node)
        # Of the reads of a second that took about as long only some are kept: the driver's own go first.
        time.sleep(1.1)
        result = session.execute(READ, trace=True)
        rows = list(result)
        yield node, session, explained, rows, result.get_query_trace(max_wait_sec=60)
        cluster.shutdown()


def figures(text):
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", text)}


def test_the_read_is_worth_telling_of(told):
    _, _, explained, rows, _ = told
    assert explained["rows_returned"] == len(rows) > 500
    assert explained["sstables_read"] >= 3 and explained["skipped_by_range"] + explained.get("skipped_by_bloom", 0) >= 1
    for figure in ("memtables", "chunk_misses", "ios", "disk_bytes", "rows_filtered", "tombstones_scanned", "returned_bytes"):
        assert explained[figure] > 0, figure


def test_the_trace_says_the_same(told):
    _, _, explained, _, trace = told
    (cost,) = [event.description for event in trace.events if event.description.startswith("Cost: ")]
    assert figures(cost) == explained
    assert trace.duration >= max(event.source_elapsed for event in trace.events)


def test_the_log_of_slow_queries_says_the_same(told):
    node, session, explained, _, _ = told
    (slow,) = [read for read in json.loads(admin(node, "/api/v1/reads/slow")) if read["statement"] == READ]
    assert slow["cost"] == explained and slow["restriction"] == RESTRICTION
    assert slow["reader_wait_micros"] <= slow["micros"] and slow["proof_wait_micros"] == 0
    (row,) = [row for row in session.execute("SELECT * FROM system_views.slow_queries") if row.query == READ]
    assert dict(row.cost) == explained and row.micros == slow["micros"]
    assert row.restriction == RESTRICTION and row.reader_wait_micros == slow["reader_wait_micros"]
    deadline = time.monotonic() + 60
    while True:
        lines = [line for line in (node.directory / "ilion.log").read_text().splitlines()
                 if "slow query" in line and READ in line]
        if lines:
            break
        assert time.monotonic() < deadline, "not in the log"
        time.sleep(0.1)
    # The log holds those of every run of the node: EXPLAIN ANALYZE itself is another statement.
    (line,) = [line for line in lines if "EXPLAIN" not in line]
    assert figures(re.search(r'cost="?([^"]*)', line)[1]) == explained


def test_ilion_top_says_the_same(told):
    node, _, explained, _, _ = told
    (sample,) = json.loads(admin(node, "/api/v1/reads/samples?keyspace=told&table=t"))
    assert sample["cost"] == explained and sample["statement"] == READ
    (of,) = [t for t in json.loads(admin(node, "/api/v1/reads/tables"))["tables"] if t["table"] == "t"]
    assert of["reads"] == 1
    assert of["sstables"] == explained["sstables_read"] and of["ios"] == explained["ios"]
    assert of["disk_bytes"] == explained["disk_bytes"] and of["returned_bytes"] == explained["returned_bytes"]
    assert of["page_hits"] == explained.get("index_page_hits", 0) + explained.get("chunk_hits", 0)
    assert of["page_misses"] == explained["index_page_misses"] + explained["chunk_misses"]


def test_metrics_say_the_same(told):
    node, _, explained, rows, trace = told
    metrics = {}
    for line in admin(node, "/metrics").splitlines():
        found = re.fullmatch(r'(\w+)\{keyspace="told",table="t"(?:,found="(\w+)")?\} (\S+)', line)
        if found:
            metrics[found[1] + (f"_{found[2]}" if found[2] else "")] = float(found[3])
    read = "ilion_table_read_"
    assert metrics[f"{read}ios_count"] == 1
    assert metrics[f"{read}sstables_sum"] == explained["sstables_read"]
    assert metrics[f"{read}ios_sum"] == explained["ios"]
    assert metrics[f"{read}disk_bytes_sum"] == explained["disk_bytes"]
    assert metrics[f"{read}returned_bytes_sum"] == explained["returned_bytes"]
    # Kept in hundredths.
    assert metrics[f"{read}amplification_sum"] == pytest.approx(explained["disk_bytes"] / explained["returned_bytes"], abs=0.01)
    assert metrics[f"{read}pages_total_miss"] == explained["index_page_misses"] + explained["chunk_misses"]
    # Cassandra's own words for the rows that were live and the tombstones that were left after the merge.
    (told_by_trace,) = [found for event in trace.events
                        if (found := re.fullmatch(r"Read (\d+) live rows and (\d+) tombstone cells", event.description))]
    assert metrics[f"{read}rows_sum"] == int(told_by_trace[1]) == len(rows)
    assert metrics[f"{read}tombstones_sum"] == int(told_by_trace[2]) == explained.get("tombstones_left", 0)


def test_histograms_say_the_same(told):
    node, session, explained, rows, _ = told
    def near(value):
        return pytest.approx(value, rel=BUCKET)

    (found,) = json.loads(admin(node, "/api/v1/tables/histograms?keyspace=told&tables=t"))
    for name, value in (("sstables_per_read", explained["sstables_read"]), ("ios_per_read", explained["ios"]),
                        ("disk_bytes_per_read", explained["disk_bytes"]), ("rows_per_read", len(rows)),
                        ("returned_bytes_per_read", explained["returned_bytes"]),
                        ("read_amplification", explained["disk_bytes"] / explained["returned_bytes"])):
        histogram = found[name]
        assert histogram["count"] == 1 and histogram["p50"] == histogram["p99"] == histogram["max"] == near(value), name
        (row,) = session.execute(f"SELECT * FROM system_views.{name} WHERE keyspace_name = 'told' AND table_name = 't'")
        assert (row.count, row.max) == (1, near(value)), name
    shown = subprocess.run([str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", "tablehistograms", "told", "t"],
                           capture_output=True, text=True, timeout=60, check=True).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("Max")]
    assert float(line.split()[3]) == explained["sstables_read"]
    ios, amplification, tombstones = map(float, line.split()[6:])
    assert ios == near(explained["ios"]) and tombstones == found["tombstones_per_read"]["max"]
    assert amplification == near(explained["disk_bytes"] / explained["returned_bytes"])


def test_a_read_of_what_is_in_memory_costs_what_was_said(told):
    node, session, *_ = told
    read = "SELECT other FROM told.t WHERE k = 1 AND at = 7"
    session.execute(read)
    (total,) = [row for row in session.execute(f"EXPLAIN ANALYZE {read}") if row.operation == "total"]
    trace = session.execute(read, trace=True).get_query_trace(max_wait_sec=60)
    (cost,) = [event.description for event in trace.events if event.description.startswith("Cost: ")]
    assert figures(cost) == dict(total.figures) and total.figures["chunk_hits"] > 0 and "ios" not in total.figures
    assert not any("Moved to a reader thread" in event.description for event in trace.events)
