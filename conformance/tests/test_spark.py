"""Spark's connector finds on Ilion what it finds on Cassandra. Heavy, so only with `--spark`."""
import json
import pathlib
import random
import shutil
import string
import subprocess

import pytest

from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

SPARK = pathlib.Path(__file__).resolve().parent.parent / "spark"
KEYSPACE, ROWS, ROWS_OF_PARTITION = "conformance_spark", 200_000, 20


def fill(node):
    draw = random.Random(1)
    text = string.ascii_lowercase + string.digits
    with Cluster([node.address], port=node.port) as cluster:
        session = cluster.connect()
        session.default_timeout = 120
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        session.execute(f"CREATE TABLE {KEYSPACE}.t (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = session.prepare(f"INSERT INTO {KEYSPACE}.t (k, c, v) VALUES (?, ?, ?)")
        rows = ((*divmod(n, ROWS_OF_PARTITION), "".join(draw.choices(text, k=100))) for n in range(ROWS))
        execute_concurrent_with_args(session, insert, rows, concurrency=64)
    node.flush(KEYSPACE, "t")
    node.nodetool("refreshsizeestimates")


def ask(node):
    done = subprocess.run([SPARK / "run", node.address, KEYSPACE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-8000:]
    last = done.stdout.splitlines()[-1]
    return json.loads(last[last.index("{"):])  # behind what Spark has done to the terminal


def test_spark_finds_the_same_in_as_many_partitions(two_nodes, request):
    if not request.config.getoption("--spark"):
        pytest.skip("takes minutes: --spark")
    missing = [tool for tool in ("java", "mvn") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    for node in two_nodes:
        fill(node)
    ours, theirs = map(ask, two_nodes)
    partitions = ours.pop("partitions"), theirs.pop("partitions")
    assert ours == theirs
    assert ours["rows"] == ROWS and ours["of_key_pushed"] and len(ours["of_key"]) == ROWS_OF_PARTITION
    assert ours["after_drop"] == ["t"] and ours["tables"] == ["sums", "t"]
    assert partitions[1] > 10 and abs(partitions[0] - partitions[1]) <= partitions[1] / 5, partitions
