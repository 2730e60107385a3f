#!/usr/bin/env python3
"""Random statements told to a ring of Ilion and a real Cassandra, through coordinators of either kind.

    random_rings.py [--seed S] [--tables N] [--statements N] [--seconds T] [--release R] [--ilions N]

A ring has three nodes, and each row three replicas. The tables and statements are those of random_selects.py and
random_conditions.py. Each table is there twice, in a keyspace of an Ilion and in one of a Cassandra: who coordinates one of them
asks replicas of both kinds, and both have to answer the same. Everything is written to all replicas; how many digests did not
match all the same is told, for each costs a read of the data (docs/RING.md says where). In some cases replicas differ, because a
keyspace has fewer of them for a while: then every read has to repair them. At the end the logs may complain of nothing.
"""
import argparse
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import random_conditions  # noqa: E402
import random_selects  # noqa: E402
from harness.node import complain  # noqa: E402
from harness.rings import Ring  # noqa: E402
from harness.wire import Wire  # noqa: E402

PAIR = ("pair", "(a int, b text)")
# Release of the Cassandras, and how many of the three nodes are Ilion.
MIXES = [("4.1.10", 2), ("4.0.17", 1), ("5.0.5 NONE", 1), ("5.0.5", 2), ("4.1.10", 1), ("4.0.17", 2), ("5.0.5", 1), ("5.0.5 NONE", 2)]
# In a keyspace {k}; what comes last leaves a table `t` that has all of `k, c, v, u, w`.
CHANGES = [
    "CREATE KEYSPACE {k} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
    "CREATE TYPE {k}.p (a int, b text)",
    "CREATE TABLE {k}.t (k int, d int, s int static, v text, x int, PRIMARY KEY (k, d)) WITH CLUSTERING ORDER BY (d DESC)",
    "ALTER TABLE {k}.t ADD u frozen<p>", "ALTER TABLE {k}.t RENAME d TO c", "ALTER TYPE {k}.p ADD c int", "ALTER TABLE {k}.t DROP x",
    "ALTER TABLE {k}.t ADD w set<text>", "ALTER TABLE {k}.t WITH comment = 'changed' AND gc_grace_seconds = 1000",
    "ALTER TYPE {k}.p RENAME a TO z", "ALTER TYPE {k}.p RENAME z TO a", "CREATE TYPE {k}.q (a frozen<p>)", "DROP TYPE {k}.q",
    "CREATE TABLE {k}.n (k int PRIMARY KEY, n counter)", "DROP TABLE {k}.n",
    "ALTER KEYSPACE {k} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}",
]


def kinds(ilions):
    return ["cassandra"] * (3 - ilions) + ["ilion"] * ilions


def prepare(ring):
    """Makes the keyspaces."""
    for suite in (random_selects, random_conditions):
        suite.differential.prepare(ring.pair(suite.KEYSPACE), suite.KEYSPACE, PAIR, replicas=len(ring.nodes))


def check(seed, statements, ring, differing):
    """The case of a seed. Returns None, or what differed and what leads there."""
    chance = random.Random(seed)
    suite = random_selects if differing else chance.choice([random_selects, random_selects, random_conditions])
    story = suite.check(seed, statements, ring.pair(suite.KEYSPACE, seed if differing else None))
    return story and f"{suite.KEYSPACE}, replicas {'differ' if differing else 'are equal'}\n{story}"


def check_all(seeds, statements, ring, say=lambda text: None):
    """Cases of many seeds: first those with equal replicas. Returns the stories of what was wrong."""
    prepare(ring)
    seeds = list(seeds)
    equal = seeds[:max(1, len(seeds) * 2 // 3)]
    stories, before = [], ring.mismatches()
    for differing, some in ((False, equal), (True, seeds[len(equal):])):
        for seed in some:
            story = check(seed, statements, ring, differing)
            say(f"seed {seed}, replicas {'differ' if differing else 'are equal'}: {'differs' if story else 'agrees'}")
            stories += [story] if story else []
        if not differing:
            count = sum(ring.mismatches().values()) - sum(before.values())
            say(f"digests of equal replicas that did not match: {count}")
    return stories + ring.complaints()


def check_schema(ring):
    """Changes of every kind through each coordinator in turn, and TRUNCATE: afterwards every node tells the same schema, and what
    was written through one is read through the others. Returns None, or what differed."""
    wires = [Wire(node.address) for node in ring.nodes]
    try:
        for turn, of in enumerate(wires):
            keyspace, other = f"schema_{turn}", wires[turn - 1]
            for change in CHANGES:
                of.must(change.format(k=keyspace, replicas=len(wires)))
                ring.agree()
                of, other = other, of  # the next change comes from elsewhere
                told = {wire.host: schema(wire, keyspace) for wire in wires}
                if len({str(text) for text in told.values()}) > 1:
                    return f"after {change}:\n" + "\n".join(f"{host} {text}" for host, text in told.items())
            for n in range(9):
                wires[n % 3].must(f"INSERT INTO {keyspace}.t (k, c, v, u, w) VALUES ({n}, 0, 'v', {{a: 1, b: 'b', c: 2}}, {{'x'}})",
                                  consistency="ALL")
            counts = [len(wire.must(f"SELECT k, c, u, w FROM {keyspace}.t", consistency="ALL").rows) for wire in wires]
            of.must(f"TRUNCATE {keyspace}.t", consistency="ALL")
            counts += [len(wire.must(f"SELECT * FROM {keyspace}.t", consistency="ALL").rows) for wire in wires]
            if counts != [9, 9, 9, 0, 0, 0]:
                return f"rows of {keyspace}.t before and after TRUNCATE: {counts}"
            other.must(f"DROP KEYSPACE {keyspace}")
            ring.agree()
        return None
    finally:
        for wire in wires:
            wire.close()


def schema(wire, keyspace):
    """What a node knows of the tables and types of a keyspace, but for what it keeps for itself."""
    found = [wire.must(f"SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = '{keyspace}'").rows for table, columns in (
        ("keyspaces", "replication"), ("types", "type_name, field_names, field_types"),
        ("tables", "table_name, id, comment, gc_grace_seconds, compaction, compression, caching"),
        ("columns", "table_name, column_name, kind, position, type, clustering_order"),
        ("dropped_columns", "table_name, column_name, type, kind"))]
    return [sorted(rows, key=str) for rows in found]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tables", type=int, default=10)
    options.add_argument("--statements", type=int, default=40)
    options.add_argument("--seconds", type=float, default=0, help="go on with further tables for so long")
    options.add_argument("--release", default="5.0.5")
    options.add_argument("--ilions", type=int, choices=(0, 1, 2), default=1,
                         help="how many of the three nodes are Ilion; without any it is told what Cassandras do among themselves")
    given = options.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp())
    ring, wrong = Ring(scratch, given.release, kinds(given.ilions)), []
    try:
        ring.start()
        ends, seed = time.monotonic() + given.seconds, given.seed
        while seed == given.seed or time.monotonic() < ends:
            wrong += [story for story in [check_schema(ring)] if story]
            wrong += check_all(range(seed, seed + given.tables), given.statements, ring, complain)
            seed += given.tables
    finally:
        ring.kill()
    print("\n\n".join(wrong) + f"\n{seed - given.seed} tables, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
