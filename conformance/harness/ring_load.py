"""A load at QUORUM on a ring, while one of its nodes is paused, killed, restarted, cut off, changes hands, or joins or leaves.

Each writer has rows of its own, and writes ever greater numbers into them. A request may fail for no client of the other nodes; a
read finds at least what was acknowledged; and after the fault, once no hints are left, every replica has it.

Beside them two clients raise one number, each on the condition that it still is what they read, and another raises a counter. What
they ask may end without an answer (a timeout, a failure), as in every ring whose node fails. But no two of them raise the same number, none
goes back behind what was seen or acknowledged, and in the end there are at least the acknowledged ones and at most those of unknown end.
A Cassandra that is killed forgets the last tenth of a second of its commit log (`AbstractCommitLogService`), and counts on from what
is left: increments that it led are lost, though others had them. The counter is not held to be exact then.
"""
import contextlib
import os
import random
import re
import signal
import threading
import time

from cassandra import ConsistencyLevel, OperationTimedOut, ReadTimeout, WriteFailure, WriteTimeout
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness import network
from harness.node import Cassandra
from harness.rings import HINTS_MS, until
from harness.wire import Wire

KEYSPACE, REPLICAS, THREADS, ROWS = "ring_load", 3, 3, 20
# A write becomes a hint when it was not acknowledged for so long (write_request_timeout).
LATE_S = 2
CAS_WRITE_UNKNOWN = 0x1700
# What befalls a node, and for how many seconds: shorter and longer than others take to miss it.
FAULTS = [("pause", 3), ("kill", 8), ("restart", 5), ("pause", 20)]
# The same where the network is the tests' own (`network.py`).
CUTS = [("cut", 4), ("cut", 30)]


def prepare(ring):
    wire = Wire(ring.cassandras[0].address)
    wire.must(f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
              f"{{'class': 'SimpleStrategy', 'replication_factor': {REPLICAS}}}")
    ring.agree()
    for table in ("t (k int, c int, s int static, n int, m map<int, int>, PRIMARY KEY (k, c))", "raised (k int PRIMARY KEY, n int)",
                  "counted (k int PRIMARY KEY, n counter)"):
        wire.must(f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.{table}")
        ring.agree()
    wire.close()


def is_unknown(error):
    """Whether nobody knows if the request has been carried out. A Cassandra that hands a counter to a node that was just killed says
    that this has failed."""
    return isinstance(error, WriteTimeout | WriteFailure | ReadTimeout | OperationTimedOut) or getattr(error, "code", None) == CAS_WRITE_UNKNOWN


class Raised:
    """What is known of a number to which requests add one, and may end without an answer."""

    def __init__(self, name, start, is_exact=True):
        self.name, self.start, self.is_exact = name, start, is_exact
        # What it was raised to for certain; how many requests may have raised it; what must not be.
        self.acknowledged, self.unknown, self.wrong = [], 0, []

    def least(self):
        return max(self.acknowledged, default=self.start)

    def see(self, number, least, story=lambda: ""):
        """A read that has to find `least`; `story` says more of one that finds less."""
        if number < least and self.is_exact:
            moment = time.strftime("%H:%M:%S")
            self.wrong.append(f"{moment} {self.name} is {number} behind {least}, {self.unknown} unknown {story()}")

    def end(self, number):
        """What it is when all requests have ended."""
        most = self.start + len(self.acknowledged) + self.unknown
        if number > most or self.is_exact and number < self.start + len(self.acknowledged):
            self.wrong.append(f"{self.name} is {number}: from {self.start} on {len(self.acknowledged)} are acknowledged, {self.unknown} unknown")
        if not self.acknowledged:
            self.wrong.append(f"{self.name} was never raised")
        if len(set(self.acknowledged)) != len(self.acknowledged):
            self.wrong.append(f"{self.name} was raised to the same number twice: {sorted(self.acknowledged)}")


class Load:
    """Clients of some nodes, each with the driver's defaults but for the nodes and the consistency."""

    def __init__(self, addresses, seed, leaders=(), counts=True):
        """`leaders` are nodes whose word for an increment counts: Ilions that hold all keys, and so lead what they are asked for. A
        Cassandra that leads says that it is done as well when all others have failed to take it, and gives them hints. `counts` says
        that no node forgets increments."""
        self.addresses, self.leaders = addresses, leaders
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy(addresses),
                                   consistency_level=ConsistencyLevel.QUORUM)
        self.cluster = Cluster(addresses, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = self.cluster.connect(KEYSPACE)
        self.write = self.session.prepare("INSERT INTO t (k, c, s, n, m) VALUES (?, ?, ?, ?, ?)")
        self.batch = self.session.prepare("BEGIN BATCH INSERT INTO t (k, c, s, n, m) VALUES (?, ?, ?, ?, ?); "
                                          "DELETE m[1] FROM t WHERE k = ? AND c = ?; APPLY BATCH")
        self.read = self.session.prepare("SELECT c, s, n FROM t WHERE k = ?")
        self.look = self.session.prepare("SELECT n FROM raised WHERE k = 0")
        self.look.consistency_level = ConsistencyLevel.SERIAL
        self.condition = self.session.prepare("UPDATE raised SET n = ? WHERE k = 0 IF n = ?")
        self.total = self.session.prepare("SELECT n FROM counted WHERE k = 0")
        self.count = self.session.prepare("UPDATE counted SET n = n + 1 WHERE k = 0")
        self.session.execute("INSERT INTO raised (k, n) VALUES (0, 0) IF NOT EXISTS")
        counted = self.session.execute(self.total).one()
        self.raised = Raised("the number of conditions", self.session.execute(self.look).one().n)
        self.counted = Raised("the counter", counted.n if counted else 0, counts)
        # What a read of the counter has to find.
        self.certain = self.counted.start
        self.failures, self.known, self.ended, self.done = [], {}, threading.Event(), 0
        self.threads = [threading.Thread(target=self.run, args=(k, random.Random(seed * 100 + k))) for k in range(THREADS)]
        self.threads += [threading.Thread(target=self.repeat, args=(what,)) for what in (self.raise_one, self.raise_one, self.count_one)]

    def fail(self, error):
        self.failures.append(f"{time.strftime('%H:%M:%S')} {type(error).__name__} {error}")

    def repeat(self, what):
        while not self.ended.is_set():
            try:
                what()
            except Exception as error:  # noqa: BLE001
                self.fail(error)

    def raise_one(self):
        raised, least = self.raised, self.raised.least()
        try:
            found = self.session.execute(self.look).one().n
        except Exception as error:
            if not is_unknown(error):
                raise
            return
        raised.see(found, least)
        try:
            if self.session.execute(self.condition, (found + 1, found)).was_applied:
                raised.acknowledged.append(found + 1)
        except Exception as error:
            if not is_unknown(error):
                raise
            raised.unknown += 1

    def count_one(self):
        counted = self.counted
        asked = self.session.execute_async(self.count)
        try:
            asked.result()
            counted.acknowledged.append(counted.start + len(counted.acknowledged) + 1)
            self.certain += asked.coordinator_host.address in self.leaders
        except Exception as error:
            if not is_unknown(error):
                raise
            counted.unknown += 1
        read = self.session.execute_async(self.total)
        found = read.result().one()
        number = found.n if found else 0
        counted.see(number, self.certain, lambda: f"raised by {asked.coordinator_host}, read by {read.coordinator_host}, "
                                                  f"now {self.of_each()}")
        self.certain = max(self.certain, number)

    def of_each(self):
        """The counter, as each node that clients ask knows it."""
        found = {}
        for address in self.addresses:
            with contextlib.closing(Wire(address)) as wire:
                found[address] = [int.from_bytes(n, "big") for (n,) in wire.must(f"SELECT n FROM {KEYSPACE}.counted WHERE k = 0").rows]
        return found

    def run(self, k, chance):
        number = int(time.time())
        while not self.ended.is_set():
            number, c = number + 1, chance.randrange(ROWS)
            values = (k, c, number, number, {1: number, 2: c})
            try:
                if chance.random() < 0.8:
                    self.session.execute(self.write, values)
                else:
                    self.session.execute(self.batch, (*values, k, c))
                self.known[k, c] = number
                if chance.random() < 0.5:
                    found = {row.c: row for row in self.session.execute(self.read, (k,))}
                    assert found[c].n == number and found[c].s == number, f"{k}, {c}: {found.get(c)}, not {number}"
                self.done += 1
            except Exception as error:  # noqa: BLE001
                self.fail(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self.cluster.shutdown()

    def wait(self, requests):
        """Waits until so many more requests have been answered."""
        goal = self.done + requests
        until(lambda: self.done >= goal or self.failures, "the load stands still", seconds=180)


def process(node):
    return node.process.pid if hasattr(node, "process") else int((node.directory / "pid").read_text())


def fault(ring, node, what, load, seconds):
    """Has a node fail, and come back."""
    if what == "pause":
        os.kill(process(node), signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(process(node), signal.SIGCONT)
    elif what == "cut":
        with network.cut_off(node.address):
            time.sleep(seconds)
    elif what == "swap":
        ring.swap(node)
    elif what == "join":
        refuse_to_join(ring)
    elif what == "remove":
        remove(ring, node)
    else:
        ring.ended.add(node.address)
        node.kill() if what == "kill" else node.stop()
        time.sleep(seconds)
        node.start()
        ring.marks[node] = ring.log(node).stat().st_size


def refuse_to_join(ring):
    """A Cassandra wants to join, and gets no data from an Ilion. It stays where it is, and gets what is written to its ranges."""
    # It has heard of the schema, and everybody of it, before it asks for data.
    node = ring.joining("joining", "-Dcassandra.ring_delay_ms=12000")
    until(lambda: "Some data streaming failed" in ring.log(node).read_text(errors="replace"), f"{node.address} is given its data")
    for other in ring.nodes:
        until(lambda: re.search(rf"^UJ +{node.address} ", other.nodetool("status"), re.MULTILINE), f"{other.address} does not see it")


def remove(ring, node):
    """A Cassandra wants to leave and cannot hand its data to an Ilion. Then it ends, and is removed: the Ilions have what was
    written since, and say that they fetch nothing else."""
    try:
        node.nodetool("decommission")
    except RuntimeError as refused:
        assert "Stream failed" in str(refused), refused
    else:
        raise AssertionError(f"{node.address} was decommissioned")
    ring.lose(node)
    for other in ring.nodes:
        until(lambda: re.search(rf"^DL +{node.address} ", other.nodetool("status"), re.MULTILINE), f"{node.address} is up")
    (host_id,) = re.findall(rf"^DL +{node.address} .* ([0-9a-f-]{{36}}) ", ring.cassandras[0].nodetool("status"), re.MULTILINE)
    removing = threading.Thread(target=ring.cassandras[0].nodetool, args=("removenode", host_id))
    removing.start()
    for ilion in ring.ilions:
        until(lambda: "is removed from the ring" in ring.log(ilion).read_text(), f"{ilion.address} does not say what it does not do")
        until(lambda: ilion.address in ring.cassandras[0].nodetool("removenode", "status"), "the removal ended")
    ring.cassandras[0].nodetool("removenode", "force")
    removing.join()
    # They have told of what they were refused.
    ring.marks.update({cassandra: ring.log(cassandra).stat().st_size for cassandra in ring.cassandras})


def faults(ring, seed, all_of_them):
    """[(node, what, seconds)]: one of an Ilion, or all of all nodes."""
    if all_of_them:
        return [(node, *one) for node in ring.nodes for one in FAULTS + (CUTS if network.is_own() else [])]
    return [(ring.ilions[-1], *random.Random(seed).choice(FAULTS[:2]))]


def hints(ring):
    return [path for node in ring.nodes for path in (node.directory / "hints").glob("*.hints")]


def check(ring, node, what, seed, seconds=8):
    """One fault of one node. Returns None, or what was wrong."""
    others = [other for other in ring.nodes if other is not node]
    story = [f"{what} of {node.name} {node.address}, seed {seed}"]
    leaders = [ilion.address for ilion in ring.ilions] if len(ring.nodes) == REPLICAS else []
    counts = what != "kill" or not isinstance(node, Cassandra)
    with Load([other.address for other in others], seed, leaders, counts) as load:
        load.wait(30)
        fault(ring, node, what, load, seconds)
        load.wait(30)
        for other in ring.nodes:
            until(lambda: ring.up(other) == len(ring.nodes), f"{other.address} does not see the whole ring")
        load.wait(30)
    story += load.failures[:10]
    # From then on hints are in files.
    time.sleep(LATE_S + 2 * HINTS_MS / 1000)
    until(lambda: not hints(ring), f"hints are left: {hints(ring)}", seconds=120)
    wires = [Wire(other.address) for other in ring.nodes]
    # A condition that somebody else has ended leaves no hints, so these may differ yet.
    for raised, table, level in ((load.raised, "raised", "SERIAL"), (load.counted, "counted", "ALL")):
        for wire in wires:
            (number,) = wire.must(f"SELECT n FROM {KEYSPACE}.{table} WHERE k = 0", consistency=level).rows[0]
            raised.end(int.from_bytes(number, "big"))
        story += raised.wrong[:10]
    before = ring.mismatches()
    for wire in wires:
        rows = wire.must(f"SELECT k, c, n FROM {KEYSPACE}.t", consistency="ALL").rows
        found = {tuple(int.from_bytes(x, "big") for x in row[:2]): int.from_bytes(row[2], "big") for row in rows}
        story += [f"{wire.host}: {key} is {found.get(key)}, not {n}" for key, n in load.known.items() if found.get(key) != n]
        wire.close()
    after = ring.mismatches()
    if after != before:
        story.append(f"replicas differed though no hints were left: {before}, {after}")
    story += ring.complaints()
    return None if len(story) == 1 else "\n".join(story)
