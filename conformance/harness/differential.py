"""What the suites share that tell random cases to two nodes: their command line, their place under pytest, and how they begin.

A suite has `check(seed, statements, nodes)`, which tells the nodes the case of a seed. It returns None, or the story of a difference.
"""
import argparse
import pathlib
import tempfile
import time

from harness.node import Cassandra, complain, open_target
from harness.wire import Wire


APPLIED = [("[applied]", "boolean")]


class Difference(Exception):
    """What the two answered."""


def connect(node, version=5):
    """A connection to a node, or the one that it has made for itself."""
    own = getattr(node, "connect", None)
    return own(version) if own else Wire(node.address, node.port, version)


def prepare(nodes, keyspace, *types, replicas=1):
    """Makes the keyspace of a suite anew on each node."""
    for node in nodes:
        wire = connect(node)
        wire.must(f"DROP KEYSPACE IF EXISTS {keyspace}")
        wire.must(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
        for name, fields in types:
            wire.must(f"CREATE TYPE {keyspace}.{name} {fields}")
        wire.close()


def drop(wires, table):
    """Ends a case."""
    for wire in wires:
        wire.query(f"DROP TABLE IF EXISTS {table}")
        wire.close()


def same_refusal(table, ours, theirs):
    """Whether two answers refuse a conditional statement and differ in the row that says why as docs/COMPAT.md has it: where only the
    static row has conditions it is the first of the partition here, in Cassandra the first that was written by INSERT, if any was."""
    if not table.statics or not all(answer.columns[:1] == APPLIED and answer.rows[0][0] == b"\0" for answer in (ours, theirs)):
        return False
    if theirs.columns == APPLIED:
        return all(row[i] is None for row in ours.rows for i, (name, _) in enumerate(ours.columns) if name in table.statics)
    of_rows = {"[applied]", *table.keys, *table.statics}
    same = [i for i, (name, _) in enumerate(ours.columns) if name in of_rows]
    return ours.columns == theirs.columns and [[row[i] for i in same] for row in ours.rows] == [
        [row[i] for i in same] for row in theirs.rows]


def main(doc, prepare_nodes, check, statements):
    """The command line: `statements` names the option of how many each table gets. Returns the exit status."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tables", type=int, default=10, help="tables, with seeds that follow each other")
    options.add_argument(f"--{statements}", dest="statements", type=int, default=60, help=f"{statements} on each")
    options.add_argument("--seconds", type=float, default=0, help="go on with further tables for so long")
    options.add_argument("--target", default="ilion")
    options.add_argument("--cassandra", required=True, help="a running real Cassandra: its directory or address")
    given = options.parse_args()
    agree = differ = 0
    with tempfile.TemporaryDirectory() as scratch, open_target(given.target, scratch) as target:
        is_folder = pathlib.Path(given.cassandra).is_dir()
        nodes = [target, Cassandra(given.cassandra, owned=False) if is_folder else open_target(given.cassandra, scratch)]
        prepare_nodes(nodes)
        ends, seed = time.monotonic() + given.seconds, given.seed
        while seed < given.seed + given.tables or time.monotonic() < ends:
            story = check(seed, given.statements, nodes)
            if story:
                complain(story)
            agree, differ = (agree, differ + 1) if story else (agree + 1, differ)
            seed += 1
    print(f"{agree} tables agree, {differ} differ")
    return 1 if differ else 0


def seeds(metafunc, per_table=1):
    """Gives a test its `seed`s: --seed is the first, --tables times `per_table` how many."""
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--tables")
        metafunc.parametrize("seed", range(first, first + per_table * count))
