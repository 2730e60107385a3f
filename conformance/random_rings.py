#!/usr/bin/env python3
"""Random statements told to a ring of Ilion and a real Cassandra, through coordinators of either kind.

    random_rings.py [--seed S] [--tables N] [--statements N] [--seconds T] [--release R] [--ilions N]

A ring has three nodes, and each row three replicas. The tables and statements are those of random_selects.py and
random_conditions.py. Each table is there twice, in a keyspace of an Ilion and in one of a Cassandra: who coordinates one of them
asks replicas of both kinds, and both have to answer the same. Everything is written to all replicas, so that no digest may
differ; the nodes count those that do. In some cases replicas differ, because a keyspace has fewer of them for a while: then every
read has to repair them. At the end the logs may complain of nothing.
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

PAIR = ("pair", "(a int, b text)")
# Release of the Cassandras, and how many of the three nodes are Ilion.
MIXES = [("4.1.10", 2), ("4.0.17", 1), ("5.0.5", 2), ("4.1.10", 1), ("4.0.17", 2), ("5.0.5", 1)]


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
        after = before if differing else ring.mismatches()
        if after != before:
            stories.append(f"seeds {equal}: equal replicas had digests that differ: {before}, then {after}")
    return stories + ring.complaints()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tables", type=int, default=10)
    options.add_argument("--statements", type=int, default=40)
    options.add_argument("--seconds", type=float, default=0, help="go on with further tables for so long")
    options.add_argument("--release", default="5.0.5")
    options.add_argument("--ilions", type=int, choices=(1, 2), default=1, help="how many of the three nodes are Ilion")
    given = options.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp())
    ring, wrong = Ring(scratch, given.release, kinds(given.ilions)), []
    try:
        ring.start()
        ends, seed = time.monotonic() + given.seconds, given.seed
        while seed == given.seed or time.monotonic() < ends:
            wrong += check_all(range(seed, seed + given.tables), given.statements, ring, complain)
            seed += given.tables
    finally:
        ring.kill()
    print("\n\n".join(wrong) + f"\n{seed - given.seed} tables, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
