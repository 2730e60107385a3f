#!/usr/bin/env python3
"""kill -9 at a random moment under load, again and again: nothing acknowledged may be lost, no batch may be half there.

    crash.py --rounds 100 [--sync periodic|batch|group] [--small] [--writers 6] [--seed N] [--target ilion|cassandra]

A round:
  1. writers send single writes, logged batches over three partitions, overwrites of a register, deletions, conditional
     inserts (of rows of their own, and of rows that all of them want) and counter updates; each notes an operation before
     it is sent and again when it is acknowledged;
  2. in some rounds a flush or a compaction runs meanwhile; then the process is killed without warning;
  3. it is started again on the same directory, and what was noted is compared with what is there.

An operation that was sent but not acknowledged may have happened or not, but wholly. The data of every round stays: a few
earlier rounds are read again each time, and all of them at the end. With `--small`, memtables, segments of the commit log and
compactions are so small that many of them begin and end within a round, and some are cut off by its end.
"""
import argparse
import pathlib
import random
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness.node import Cassandra, Ilion, complain, free_address  # noqa: E402
from harness.wire import Wire  # noqa: E402

KEYSPACE = "crash"
SCHEMA = (
    "CREATE TABLE single (r int, w int, n int, v text, PRIMARY KEY ((r, w), n)) WITH compaction = "
    "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2'}",
    "CREATE TABLE batched (r int, p int, w int, n int, v text, PRIMARY KEY ((r, p), w, n)) WITH compaction = "
    "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}",
    "CREATE TABLE register (r int, w int, n int, copy int, PRIMARY KEY ((r, w))) WITH compaction = "
    "{'class': 'UnifiedCompactionStrategy'}",
    "CREATE TABLE chosen (r int, w int, n int, PRIMARY KEY ((r, w), n))",
    "CREATE TABLE elected (r int, n int, w int, PRIMARY KEY (r, n)) WITH compaction = {'class': 'TimeWindowCompactionStrategy'}",
    "CREATE TABLE counted (r int, w int, c counter, PRIMARY KEY ((r, w)))",
)
PARTITIONS = 8
OPTIONS = {"periodic": {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"},
           "batch": {"commitlog_sync": "batch"},
           "group": {"commitlog_sync": "group", "commitlog_sync_group_window": "15ms"}}
SMALL = {"memtable_heap_space": "1MiB", "commitlog_segment_size": "1MiB", "commitlog_total_space": "4MiB"}


def value_of(w, n):
    """The text every write of a number carries, so that a torn or mixed value shows."""
    return f"{w}-{n}-" + "x" * (n * 37 % 900)


class Writer(threading.Thread):
    """One client of one round, and what it knows it did."""

    def __init__(self, target, r, w, seed):
        super().__init__(daemon=True)
        self.target, self.r, self.w = target, r, w
        self.random = random.Random(seed)
        self.single, self.deleted, self.batches, self.chosen = {}, {}, {}, {}
        self.stood, self.told = set(), {}  # elections: asked for, and the winner that an answer named
        self.register = [0, 0]  # sent, acknowledged
        self.counter = [0, 0]
        self.acknowledged = 0
        self.failure = None

    def run(self):
        try:
            wire = Wire(self.target.address, self.target.port, timeout_s=20)
        except Exception:
            return  # killed before it connected
        n = 0
        kinds = [self.write, self.write, self.write, self.batch, self.batch, self.overwrite, self.delete, self.choose,
                 self.elect, self.count]
        try:
            while True:
                n += 1
                self.random.choice(kinds)(wire, n)
                self.acknowledged += 1
        except Refused as refused:
            self.failure = str(refused)
        except Exception:
            return  # the connection went with the process

    def ask(self, wire, statement):
        reply = wire.query(statement)
        if reply.kind == "error":
            # A shutdown has no answers other than silence; overload and timeouts leave the outcome open.
            if reply.code in (0x1001, 0x1100, 0x1200, 0x1500, 0x1700):
                return None
            raise Refused(f"{statement[:200]}: {reply.code:#06x} {reply.error}")
        return reply

    def write(self, wire, n):
        self.single[n] = False
        if self.ask(wire, f"INSERT INTO {KEYSPACE}.single (r, w, n, v) VALUES ({self.r}, {self.w}, {n}, "
                          f"'{value_of(self.w, n)}')"):
            self.single[n] = True

    def batch(self, wire, n):
        partitions = self.random.sample(range(PARTITIONS), 3)
        self.batches[n] = [partitions, False]
        inserts = "".join(f"INSERT INTO {KEYSPACE}.batched (r, p, w, n, v) VALUES ({self.r}, {p}, {self.w}, {n}, "
                          f"'{value_of(self.w, n)}'); " for p in partitions)
        if self.ask(wire, f"BEGIN BATCH {inserts} APPLY BATCH"):
            self.batches[n][1] = True

    def overwrite(self, wire, n):
        self.register[0] = n
        if self.ask(wire, f"UPDATE {KEYSPACE}.register SET n = {n}, copy = {n} WHERE r = {self.r} AND w = {self.w}"):
            self.register[1] = n

    def delete(self, wire, n):
        known = [k for k, acknowledged in self.single.items() if acknowledged and k not in self.deleted]
        if known:
            key = self.random.choice(known)
            self.deleted[key] = False
            if self.ask(wire, f"DELETE FROM {KEYSPACE}.single WHERE r = {self.r} AND w = {self.w} AND n = {key}"):
                self.deleted[key] = True

    def choose(self, wire, n):
        self.chosen[n] = False
        if self.ask(wire, f"INSERT INTO {KEYSPACE}.chosen (r, w, n) VALUES ({self.r}, {self.w}, {n}) IF NOT EXISTS"):
            self.chosen[n] = True

    def elect(self, wire, n):
        """All writers go through the same numbers, at about the same time."""
        n = len(self.stood)
        self.stood.add(n)
        reply = self.ask(wire, f"INSERT INTO {KEYSPACE}.elected (r, n, w) VALUES ({self.r}, {n}, {self.w}) IF NOT EXISTS")
        if reply:
            answer = {name: value for (name, _), value in zip(reply.columns, reply.rows[0])}
            won = answer["[applied]"] == b"\x01"
            self.told[n] = self.w if won else int.from_bytes(answer["w"], "big", signed=True)

    def count(self, wire, n):
        self.counter[0] += 1
        if self.ask(wire, f"UPDATE {KEYSPACE}.counted SET c = c + 1 WHERE r = {self.r} AND w = {self.w}"):
            self.counter[1] += 1


class Refused(Exception):
    """The server answered a well-formed write with an error that is not about load."""


def integers(wire, statement):
    wanted = wire.pages(lambda state: wire.query(statement, fetch_size=1000, paging_state=state))
    if wanted.kind != "rows":
        raise AssertionError(f"{statement}: {wanted.error}")
    return [[None if v is None else v.decode() if t.name == "text" else int.from_bytes(v, "big", signed=True)
             for (_, t), v in zip(wanted.columns, row)] for row in wanted.rows]


def check(target, writers, settle_s):
    """Complaints about one round's writers."""
    wire = Wire(target.address, target.port)
    wire.must(f"USE {KEYSPACE}")
    out = []
    r = writers[0].r
    for writer in writers:
        w = writer.w
        if writer.failure:
            out.append(f"round {r} writer {w}: {writer.failure}")
        rows = dict(integers(wire, f"SELECT n, v FROM single WHERE r = {r} AND w = {w}"))
        for n, acknowledged in writer.single.items():
            deleted = writer.deleted.get(n)
            if acknowledged and deleted is None and n not in rows:
                out.append(f"round {r} writer {w}: acknowledged write {n} is lost")
            if deleted and n in rows:
                out.append(f"round {r} writer {w}: acknowledged deletion of {n} is lost")
        for n, value in rows.items():
            if n not in writer.single:
                out.append(f"round {r} writer {w}: row {n} was never written")
            elif value != value_of(w, n):
                out.append(f"round {r} writer {w}: row {n} has the value {value!r}")
        row = integers(wire, f"SELECT n, copy FROM register WHERE r = {r} AND w = {w}")
        n, copy = row[0] if row else (0, 0)
        if n != copy or not writer.register[1] <= n <= writer.register[0]:
            out.append(f"round {r} writer {w}: register is {n}/{copy}, acknowledged {writer.register[1]}, "
                       f"sent {writer.register[0]}")
        there = {n for (n,) in integers(wire, f"SELECT n FROM chosen WHERE r = {r} AND w = {w}")}
        lost = {n for n, acknowledged in writer.chosen.items() if acknowledged} - there
        if lost:
            out.append(f"round {r} writer {w}: acknowledged conditional inserts lost: {sorted(lost)}")
        row = integers(wire, f"SELECT c FROM counted WHERE r = {r} AND w = {w}")
        count = row[0][0] if row else 0
        if not writer.counter[1] <= count <= writer.counter[0]:
            out.append(f"round {r} writer {w}: counter is {count}, acknowledged {writer.counter[1]}, sent {writer.counter[0]}")
    winners = dict(integers(wire, f"SELECT n, w FROM elected WHERE r = {r}"))
    for writer in writers:
        for n, w in writer.told.items():
            if winners.get(n) != w:
                out.append(f"round {r} writer {writer.w}: was told that {w} won {n}, but {winners.get(n)} did")
    for n, w in winners.items():
        if n not in writers[w].stood:
            out.append(f"round {r}: {w} won {n} and never asked for it")
    out += check_batches(wire, r, writers, settle_s)
    wire.close()
    return out


def check_batches(wire, r, writers, settle_s):
    """Whole or absent; a node that finishes batches after its start is given `settle_s` seconds for it."""
    deadline = time.monotonic() + settle_s
    while True:
        there = {}
        for p in range(PARTITIONS):
            for w, n, value in integers(wire, f"SELECT w, n, v FROM batched WHERE r = {r} AND p = {p}"):
                there.setdefault((w, n), []).append((p, value))
        out = []
        for writer in writers:
            for n, (partitions, acknowledged) in writer.batches.items():
                found = sorted(p for p, _ in there.get((writer.w, n), []))
                if found and found != sorted(partitions):
                    out.append(f"round {r} writer {writer.w}: batch {n} is half there: {found} of {partitions}")
                if acknowledged and not found:
                    out.append(f"round {r} writer {writer.w}: acknowledged batch {n} is lost")
                if any(value != value_of(writer.w, n) for _, value in there.get((writer.w, n), [])):
                    out.append(f"round {r} writer {writer.w}: batch {n} has a wrong value")
        if not out or time.monotonic() >= deadline:
            return out
        time.sleep(1)


def meanwhile(target, chance):
    """A flush or a compaction that runs while the process is killed; it may end with the process."""
    work = chance.choice([None, target.flush, target.flush, target.compact])
    if work is None:
        return

    def run():
        try:
            work(KEYSPACE)
        except Exception:
            return  # killed meanwhile

    threading.Timer(chance.uniform(0, 0.6), run).start()


def crash(target, rounds, writers_each, seed, settle_s=0, say=print):
    """Runs the rounds and returns (acknowledged operations, complaints)."""
    chance = random.Random(seed)
    history, total = [], 0
    try:
        target.start()
        make_schema(target)
        for r in range(rounds):
            writers = [Writer(target, r, w, chance.random()) for w in range(writers_each)]
            for writer in writers:
                writer.start()
            meanwhile(target, chance)
            time.sleep(chance.uniform(0.05, 2.0))
            target.kill()
            for writer in writers:
                writer.join(60)
            target.start()
            history.append(writers)
            acknowledged = sum(w.acknowledged for w in writers)
            total += acknowledged
            again = chance.sample(history[:-1], min(2, len(history) - 1))
            complaints = [c for group in [writers, *again] for c in check(target, group, settle_s)]
            say(f"round {r}: {acknowledged} acknowledged, {len(complaints)} complaints")
            if complaints:
                return total, complaints
        complaints = [c for group in history for c in check(target, group, settle_s)]
        target.stop()
        return total, complaints
    finally:
        target.kill()


def sstables(target):
    """The number of the last SSTable of these tables: a node numbers them as it writes them."""
    names = [file.name.split("-")[1] for file in target.data_dir.rglob(f"{KEYSPACE}/*/*-Data.db")]
    return max((int(name) for name in names if name.isdigit()), default=0)


def make_schema(target):
    wire = Wire(target.address, target.port)
    wire.must(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    wire.must(f"USE {KEYSPACE}")
    for statement in SCHEMA:
        wire.must(statement)
    wire.close()


def make(kind, directory, sync, small=False):
    chosen = {**OPTIONS[sync], **(SMALL if small else {})}
    if kind == "cassandra":
        settings = [f"{key}: {value}" for key, value in chosen.items()]
        if sync != "periodic":
            settings.append("commitlog_sync_period: null")
        return Cassandra(directory, free_address(first=70), settings=settings), 90
    return Ilion(directory, settings=chosen), 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--sync", choices=sorted(OPTIONS), default=None, help="default: periodic, then batch")
    options.add_argument("--small", action="store_true", help="small memtables and segments: many flushes and compactions")
    options.add_argument("--writers", type=int, default=6)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--target", choices=["ilion", "cassandra"], default="ilion")
    given = options.parse_args()
    seed = given.seed if given.seed is not None else int(time.time())
    failed = False
    for sync in [given.sync] if given.sync else ["periodic", "batch"]:
        with tempfile.TemporaryDirectory() as scratch:
            target, settle_s = make(given.target, pathlib.Path(scratch) / "node", sync, given.small)
            print(f"commitlog_sync {sync}, seed {seed}", flush=True)
            total, complaints = crash(target, given.rounds, given.writers, seed, settle_s,
                                      say=lambda text: print(text, flush=True))
            for text in complaints[:50]:
                complain(text)
            print(f"{sync}: {given.rounds} rounds, {total} acknowledged, SSTables up to number {sstables(target)}, "
                  f"{len(complaints)} complaints", flush=True)
            failed |= bool(complaints)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
