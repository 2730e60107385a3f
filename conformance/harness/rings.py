"""Rings of Ilion and of a real Cassandra, and coordinators of either kind to which the suites of two nodes are told.

A `Ring` has one Cassandra that stays, and further Cassandras whose places Ilion takes as `docs/RING.md` tells: so each node
speaks of itself as the release whose directory it has, and all of them change the schema. Each suite of two nodes then runs on
a ring as it is. It has two keyspaces: what is told to the Ilion is about one of them, what is told to the Cassandra about the
other, and each keyspace has its replicas on nodes of both kinds.
"""
import contextlib
import random
import re
import shutil
import threading
import time

from harness.node import Cassandra, Ilion, Target, free_address
from harness.wire import Wire

# How long a hint is in memory alone.
HINTS_MS = 1000
# What a Cassandra logs of clients that sent it odd values, of queries, of a node that is down, of reads that were on their way for
# too long, of the machine, of its own gossip after a pause.
OF_OTHERS = re.compile(r"\] (ErrorMessage|Message|QueryProcessor|SelectStatement|BatchStatement|NoSpamLogger) - "
                       r"|MonitoringTask - Some operations timed out|Trigger directory doesn't exist|local pause"
                       r"|Gossip stage has \d+ pending tasks|whose timeout expired before|skipped default role setup: some nodes"
                       r"|Protocol exception with client networking: .*Invalid value for the paging state")
# A Cassandra that groups rows gives paging states with -1 rows left in the partition, and takes none of them. `Ring.refused` has those
# that an Ilion gave.
REFUSED_STATE = "Invalid value for the paging state"
# GROUP BY in pages, over a deletion of a range in which no row is left: a Cassandra that is alone fails, too. And a Cassandra may be
# asked to lead a counter, by others that take it for alive before it takes them.
OWN_FAULT = re.compile("has an open RT bound as its last item|UnavailableException: Cannot achieve consistency level")
# The id of a statement in a warning, which has the name of a keyspace in it.
IDS = re.compile("statement id: [0-9a-f]+")
COMPLAINT = re.compile(r"^(WARN|ERROR)\b")
# What a Cassandra logs of a node that ends while it connects to it.
NOT_CONNECTED = re.compile(r"->/([\d.]+):\d+-\w+-\[no-channel\] failed to connect")


def until(check, what, seconds=90):
    """What `check` finds, once it finds something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(what)


class InRing(Ilion):
    """Ilion on the directory of a Cassandra, with that Cassandra's own cassandra.yaml."""

    def arguments(self):
        return ["--config", self.directory / "cassandra.yaml"]

    def drain(self):
        self.nodetool("drain")
        self.stop()


class Ring:
    """Nodes of one release, perhaps in a mode of storage ("5.0.5 NONE"): `kinds` says which, the first of them a Cassandra."""

    def __init__(self, directory, release, kinds=("cassandra", "ilion", "ilion"), settings=()):
        self.version, *modes = release.split()
        self.directory, self.kinds, self.nodes, self.joiners, self.marks, self.ended = directory, kinds, [], [], {}, set()
        self.cassandras, self.ilions = [], []
        # Paging states that one node gave and another one, or itself, did not take.
        self.refused = []
        self.settings = [*settings, *(f"storage_compatibility_mode: {mode}" for mode in modes)]

    def start(self):
        assert self.kinds[0] == "cassandra"
        for n, kind in enumerate(self.kinds):
            address = free_address()
            node = self.cassandra(self.directory / f"n{n}", address, self.nodes[0].address if self.nodes else address)
            self.nodes.append(node)
            node.start()
            if kind == "ilion":
                self.swap(node)
        self.sort()
        for node in self.nodes:
            until(lambda: self.up(node) == len(self.nodes), f"{node.address} does not see the whole ring")
        self.mark()
        return self

    def cassandra(self, directory, address, seed):
        seeds = ("seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
                 f'parameters: [{{seeds: "{seed}"}}]}}]')
        settings = [seeds, "num_tokens: 4", "auto_snapshot: false", "auto_bootstrap: false", f"hints_flush_period_in_ms: {HINTS_MS}",
                    *self.settings]
        return Cassandra(directory, address, settings=settings, version=self.version)

    def joining(self, name, options):
        """Has another Cassandra join, with its data streamed to it. Before it has them it lets no client in, and is no node of this
        ring."""
        node = self.cassandra(self.directory / name, free_address(), self.nodes[0].address)
        node.settings.remove("auto_bootstrap: false")
        node.options = options
        self.joiners.append(node)

        def start():
            # It ends when it is killed.
            with contextlib.suppress(RuntimeError):
                node.start()

        threading.Thread(target=start).start()
        until((node.directory / "system.log").exists, f"{node.address} does not start")
        return node

    def lose(self, node):
        """Kills a node that is not to come back."""
        node.kill()
        self.nodes.remove(node)
        self.sort()

    def swap(self, node):
        """Has the other kind take the place of a node, on its directory."""
        self.ended.add(node.address)
        if isinstance(node, Cassandra):
            node.stop()
            other = InRing(node.directory, node.address)
        else:
            node.drain()
            other = self.cassandra(node.directory, node.address, self.nodes[0].address)
        self.nodes[self.nodes.index(node)] = other
        self.sort()
        other.start()
        self.marks[other] = self.log(other).stat().st_size

    def sort(self):
        self.cassandras = [node for node in self.nodes if isinstance(node, Cassandra)]
        self.ilions = [node for node in self.nodes if isinstance(node, Ilion)]

    def mark(self):
        """What the logs hold until now has been looked at: a start tells of the machine."""
        self.marks = {node: self.log(node).stat().st_size for node in self.nodes}

    def log(self, node):
        return node.directory / ("system.log" if isinstance(node, Cassandra) else "ilion.log")

    def up(self, node):
        return sum(line.startswith("UN ") for line in node.nodetool("status").splitlines())

    def kill(self):
        for node in self.nodes + self.joiners:
            node.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def agree(self):
        """Waits until all nodes have one schema."""
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(contextlib.closing(Wire(node.address))) for node in self.nodes]
            asked = "SELECT schema_version FROM system.local"
            until(lambda: len({wire.must(asked).rows[0][0] for wire in wires}) == 1, "the nodes do not agree on the schema")

    def ilion_addresses(self):
        return {node.address for node in self.ilions}

    def mismatches(self):
        """How many digests did not match, as each coordinator has counted."""
        found = {}
        for node in self.nodes:
            text = node.nodetool("netstats")
            found[node.address] = sum(map(int, re.findall(r"Mismatch \(\w+\): (\d+)", text)))
        return found

    def complaints(self):
        """What the nodes have logged that no node should."""
        found = list(self.refused)
        for node in self.nodes:
            is_cassandra = isinstance(node, Cassandra)
            with open(self.log(node), errors="replace") as log:
                log.seek(self.marks[node])
                lines = log.read().splitlines()
            for line, next_line in zip(lines, lines[1:] + [""]):
                unreached = NOT_CONNECTED.search(line)
                if OWN_FAULT.search(next_line) or unreached and unreached[1] in self.ended:
                    continue
                if is_cassandra and COMPLAINT.match(line) and not OF_OTHERS.search(line):
                    found.append(f"{node.address} {line}")
                elif not is_cassandra and re.search(r"\bERROR\b|panicked", line):
                    found.append(f"{node.address} {line}")
        return found

    def pair(self, keyspace, differing=None):
        """Two coordinators, of either kind, each with a keyspace of its own. With a seed as `differing`, replicas differ: now and
        then a keyspace is written with fewer replicas than it is read with."""
        one, other = (self.ilions + self.cassandras[::-1])[0], self.cassandras[0]
        return [Coordinator(self, one, keyspace, keyspace, differing), Coordinator(self, other, keyspace, keyspace + "_b", differing)]


class Coordinator(Target):
    """One node of a ring, as the node that a suite tells its statements."""

    def __init__(self, ring, node, keyspace, own, differing):
        super().__init__(node.address, node.port)
        self.ring, self.node, self.keyspace, self.own, self.differing = ring, node, keyspace, own, differing
        self.name = node.name

    def flush(self, keyspace=None, table=None):
        self.node.flush(keyspace and keyspace.replace(self.keyspace, self.own), table)

    def connect(self, version=5):
        return RingWire(self, version)


class RingWire(Wire):
    """A connection that speaks of the coordinator's own keyspace, writes to all replicas, and waits for changes of the schema."""

    def __init__(self, of, version):
        self.of, self.texts, self.others, self.turns = of, {}, {}, random.Random(of.own)
        # The last paging state, and the node that gave it.
        self.given, self.giver = None, None
        self.is_older = not of.ring.version.startswith("5")
        self.replicas = len(of.ring.nodes)
        self.chance = None if of.differing is None else random.Random(of.differing)
        if of.ring.version.startswith("4.0"):
            version = max(version, 4)  # where a warning has no place in an answer, that release fails
        super().__init__(of.address, of.port, version)

    def renamed(self, text):
        if self.is_older:
            text = text.replace("vector<float, 2>", "frozen<list<float>>")  # which has the same literals
        return re.sub(rf"\b{self.of.keyspace}\b", self.of.own, text)

    def spread(self, replicas):
        """Gives the keyspace so many replicas."""
        if replicas != self.replicas:
            self.replicas = replicas
            alter = (f"ALTER KEYSPACE {self.of.own} WITH replication = "
                     f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
            reply = Wire.query(self, alter)
            if reply.kind == "error":
                raise AssertionError(f"{alter}: {reply.error}")

    def rename(self, reply):
        """Has the names of columns, and documents that have them, speak of the suite's keyspace."""
        own, keyspace = f"{self.of.own}.", f"{self.of.keyspace}."
        reply.columns = [(name.replace(own, keyspace), kind) for name, kind in reply.columns]
        reply.rows = [[cell and cell.replace(own.encode(), keyspace.encode()) for cell in row] for row in reply.rows]
        if reply.kind == "prepared" and reply.message.column_metadata:
            reply.message.column_metadata = [(*of, name.replace(own, keyspace), kind) for *of, name, kind in reply.message.column_metadata]

    def elsewhere(self):
        """A connection to any other node: a page may be asked of another than the one before."""
        node = self.turns.choice([node for node in self.of.ring.nodes if node is not self.of.node])
        if node not in self.others:
            self.others[node] = Wire(node.address, node.port, self.version)
        return self.others[node]

    def close(self):
        for wire in self.others.values():
            wire.close()
        super().close()

    def mend(self, text):
        """Reads the whole table from all replicas, which repairs them: a condition asks only a quorum."""
        self.spread(len(self.of.ring.nodes))
        table = re.search(rf"\b{self.of.own}\.\w+", text or "")
        if table:
            Wire.query(self, f"SELECT * FROM {table[0]}")

    def send(self, message):
        text = getattr(message, "query", None)
        is_prepare = type(message).__name__ == "PrepareMessage"
        if text is not None:
            message.query = text = self.renamed(text)
        elif hasattr(message, "queries"):
            message.queries = [(is_id, what if is_id else self.renamed(what), values) for is_id, what, values in message.queries]
        else:
            text = self.texts.get(message.query_id)
        word = (text or "BATCH").split(None, 1)[0].upper()
        is_change = word in ("CREATE", "ALTER", "DROP")
        if hasattr(message, "consistency_level") and not is_change:
            message.consistency_level = 5
        if self.chance and not is_prepare and not is_change:
            if word == "SELECT":
                self.spread(len(self.of.ring.nodes))
            elif " IF " in (text or "") or word == "BEGIN":
                self.mend(text)
            elif self.chance.random() < 0.2:
                self.spread(self.chance.randint(1, len(self.of.ring.nodes)))
        state = getattr(message, "paging_state", None)
        # A state that was made up may be anything to another release.
        if state and state == self.given and type(message).__name__ == "QueryMessage" and self.turns.random() < 0.5:
            other = self.elsewhere()
            reply, asked = other.send(message), other.host
            if self.is_older and reply.kind == "error":
                reply, asked = super().send(message), self.host  # what the release does not know
        else:
            reply, asked = super().send(message), self.host
        if state and state == self.given and reply.error == REFUSED_STATE and self.giver in self.of.ring.ilion_addresses():
            self.of.ring.refused.append(f"{asked} refused the paging state {state.hex()} of {self.giver}: {text}")
        self.given, self.giver = getattr(reply, "paging_state", None), asked
        if reply.kind == "prepared":
            self.texts[reply.message.query_id] = text
        if self.of.own != self.of.keyspace:
            self.rename(reply)
        reply.warnings = [IDS.sub("", re.sub(rf"\b{self.of.own}\b", self.of.keyspace, text)) for text in reply.warnings]
        if reply.error is not None:
            reply.error = re.sub(rf"\b{self.of.own}\b", self.of.keyspace, reply.error)
        if is_change and reply.kind == "schema":
            self.of.ring.agree()
        return reply
