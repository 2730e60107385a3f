"""The sizes of tables that clients divide them by, on an Ilion node and on a Cassandra with the same tokens and the same rows.

The Spark connector sums up partitions times their mean size over the ranges, and divides that by the size of a split.
"""
import subprocess

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.node import Cassandra, Ilion, free_address

TOKENS = ["0", "-7000000000000000000,-2000000000000000000,1000000000000000000,6000000000000000000"]
PARTITIONS, ROWS = 4_000, 3
TOLERANCE = 0.2


def connect(node):
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([node.address]), request_timeout=60)
    cluster = Cluster([node.address], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    return cluster, cluster.connect()


def fill(session):
    session.execute("CREATE KEYSPACE sized WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    for table in ("t", "empty", "dropped"):
        session.execute(f"CREATE TABLE sized.{table} (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO sized.t (k, c, v) VALUES (?, ?, ?)")
    rows = [(k, c, f"value {k}") for k in range(PARTITIONS) for c in range(ROWS)]
    execute_concurrent_with_args(session, insert, rows, concurrency=64)


def estimates(session, table, texts):
    rows = session.execute(f"SELECT * FROM system.{table} WHERE keyspace_name = 'sized'")
    return {tuple(getattr(row, text) for text in texts): (row.mean_partition_size, row.partitions_count) for row in rows}


def estimated(node, refresh):
    """Both tables of a node, after a drop."""
    cluster, session = connect(node)
    try:
        fill(session)
        node.flush("sized")
        refresh()
        session.execute("DROP TABLE sized.dropped")
        sizes = estimates(session, "size_estimates", ("table_name", "range_start", "range_end"))
        typed = estimates(session, "table_estimates", ("table_name", "range_type", "range_start", "range_end"))
    finally:
        cluster.shutdown()
    return sizes, typed


@pytest.mark.parametrize("tokens", TOKENS, ids=["one", "several"])
def test_estimates_are_cassandras(request, tmp_path, tokens):
    if request.config.getoption("--oracle") == "none" or request.config.getoption("--target") != "ilion":
        pytest.skip("needs an Ilion node and a Cassandra")
    count = len(tokens.split(","))
    settings = {"num_tokens": count, "initial_token": f"'{tokens}'"}
    with Ilion(tmp_path / "ilion", settings=settings) as node:
        verb = [str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", "refreshsizeestimates"]
        ours = estimated(node, lambda: subprocess.run(verb, check=True))
    lines = [f"{key}: {value}" for key, value in settings.items()]
    with Cassandra(tmp_path / "cassandra", free_address(), settings=lines) as node:
        theirs = estimated(node, lambda: node.nodetool("refreshsizeestimates"))
    for our, their in zip(ours, theirs):
        assert our.keys() == their.keys()
        for row, (mean, partitions) in their.items():
            assert our[row] == pytest.approx((mean, partitions), rel=TOLERANCE), row
    sizes = [sum(mean * partitions for mean, partitions in found[0].values()) for found in (ours, theirs)]
    assert sizes[1] > 0 and sizes[0] == pytest.approx(sizes[1], rel=TOLERANCE)
