"""The servers of a comparison: conformance's nodes, with the settings and the patience that a benchmark needs."""
import collections
import contextlib
import ipaddress
import os
import pathlib
import re
import shutil
import signal
import time

from harness.node import Cassandra, Ilion

from . import machine

PORT = 9042
# A server is idle when it takes less than this part of one processor for this long.
IDLE_CPU = 0.05
IDLE_S = 3
IDLE_PATIENCE_S = 300
COMPACTION_PATIENCE_S = 1800
RING_PATIENCE_S = 120
READ_BYTES = 1 << 20

# What Cassandra's own start script passes on Java 17 (conf/jvm-server.options, conf/jvm17-server.options) and
# conformance/cassandra does not, because it wants a node that starts quickly. Assertions stay off, to its advantage.
JVM_OPTIONS = """
-Xss256k -XX:+AlwaysPreTouch -XX:+UseNUMA -XX:+PerfDisableSharedMem -Djava.net.preferIPv4Stack=true
-XX:+ParallelRefProcEnabled -XX:MaxTenuringThreshold=1 -XX:G1HeapRegionSize=16m -XX:G1RSetUpdatingPauseTimePercent=5
-XX:MaxGCPauseMillis=300 -XX:InitiatingHeapOccupancyPercent=70 -Dio.netty.tryReflectionSetAccessible=true
-Dio.netty.allocator.useCacheForAllThreads=true -Dio.netty.allocator.maxOrder=11
"""


class Server:
    """What the client asks: a node, or the nodes of a ring; their processes, and how to bring them to rest."""

    def __init__(self, nodes, environment, notes):
        self.nodes, self.environment, self.notes = nodes, environment, notes
        self.node = nodes[0]
        self.name = self.node.name
        self.endpoints = [f"{node.address}:{PORT}" for node in nodes]
        self.endpoint = self.endpoints[0]
        self.pids = []
        # The server whose files it reads, if it is not loaded by the client.
        self.source = None

    def start(self):
        machine.say(f"{self.name}: starting on {', '.join(self.endpoints)}")
        kept = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            for node in self.nodes:
                node.start()
                self.pids.append(pid_of(node))
        finally:
            for name, value in kept.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self._wait_until(self._is_whole, RING_PATIENCE_S, "did not become one ring")

    def stop(self):
        if self.pids:
            machine.say(f"{self.name}: stopping")
        for node, _ in zip(self.nodes, self.pids):
            node.stop()

    def pause(self):
        """Stops its processes where they are, with all their threads. Nobody may ask it anything until it goes on."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        for pid in self.pids:
            # One that has ended shows when it is asked something.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _is_whole(self):
        """Whether each node sees all of them up."""
        return len(self.nodes) == 1 or all(
            len(re.findall(r"^UN ", node.nodetool("status"), re.MULTILINE)) == len(self.nodes) for node in self.nodes)

    def _wait_until(self, is_so, patience_s, otherwise):
        deadline = time.monotonic() + patience_s
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} {otherwise} within {patience_s} s")
            time.sleep(2)

    def _cpu_s(self):
        return sum(map(machine.cpu_s, self.pids))

    def settle(self, keyspace):
        """Memtables on the disk, each table in as few SSTables as it gets, and nothing left to do."""
        for node in self.nodes:
            node.compact(keyspace)
            nothing_pends = re.compile(r"pending tasks:?\s+0\b", re.IGNORECASE)
            self._wait_until(lambda: nothing_pends.search(node.nodetool("compactionstats")), COMPACTION_PATIENCE_S, "did not compact all")
        self.rest()

    def take_files(self, keyspace):
        """Takes in what its source wrote, and waits until all of it is compared, and described if it is to be.

        Returns {cpu_s: CPU seconds from the first import to the end, data_bytes: what its Data.db files take, described_bytes: what
        describes them}.
        """
        before = self._cpu_s()
        for table in sorted(self.source.node.directory.rglob(f"data/{keyspace}/*-*")):
            copy = self.node.directory / "taken" / table.name
            copy.mkdir(parents=True)
            for file in table.iterdir():
                if file.is_file():
                    shutil.copyfile(file, copy / file.name)
            self.node.nodetool("import", keyspace, table.name.split("-")[0], copy)
            shutil.rmtree(copy)
        self.rest()
        sizes = collections.Counter()
        for path in self.node.directory.rglob(f"{keyspace}/*/*.db"):
            sizes[path.stem.rsplit("-", 1)[-1]] += path.stat().st_size
        return {"cpu_s": self._cpu_s() - before, "data_bytes": sizes["Data"], "described_bytes": sizes["Blocks"] + sizes["Outline"]}

    def read_files(self, keyspace):
        """Has the kernel read the tables' files, as far as its memory goes: it may have let go what nobody asked for lately, of the one server
        more than of the other."""
        piece = memoryview(bytearray(READ_BYTES))
        for node in self.nodes:
            for path in node.directory.rglob(f"{keyspace}/*/*.db"):
                with open(path, "rb", buffering=0) as file:
                    while file.readinto(piece):
                        pass

    def drop_caches(self):
        """Forgets what the node keeps of files; the kernel's cache stays. Cassandra's configuration is to keep nothing of them."""
        for node in self.nodes:
            if isinstance(node, Ilion):
                node.nodetool("invalidatepagecache")

    def rest(self):
        """Waits until its processes take next to no CPU time."""
        deadline = time.monotonic() + IDLE_PATIENCE_S
        since, before = time.monotonic(), self._cpu_s()
        while time.monotonic() - since < IDLE_S:
            time.sleep(1)
            used = self._cpu_s()
            if used - before > IDLE_CPU * IDLE_S * len(self.nodes):
                since, before = time.monotonic(), used
            if time.monotonic() > deadline:
                machine.say(f"{self.name}: not idle after {IDLE_PATIENCE_S} s, going on")
                self.notes.append(f"not idle within {IDLE_PATIENCE_S} s before a run")
                return


class Null:
    """The client's server that does nothing, to measure the client."""

    name = "nothing"

    def __init__(self, client, address):
        self.client, self.endpoint = client, f"{address}:{PORT}"
        self.endpoints, self.process, self.pids = [self.endpoint], None, []

    def __enter__(self):
        self.process = self.client.null_server(self.endpoint)
        if "listening for CQL" not in self.process.stdout.readline():
            raise RuntimeError(f"the server that does nothing does not listen on {self.endpoint}")
        self.pids = [self.process.pid]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def pid_of(node):
    if isinstance(node, Cassandra):
        return int((node.directory / "pid").read_text())
    return node.process.pid


def addresses(first, given):
    """Those of the nodes of a ring: 127.0.1.1, 127.0.2.1, 127.0.3.1."""
    first = ipaddress.IPv4Address(first)
    return [str(first + 256 * number) for number in range(given.nodes)]


def of_a_ring(address, seed, given):
    """The settings that make a node a member of a ring; none for a node that is alone."""
    if given.nodes == 1:
        return []
    return ["cluster_name: bench", "num_tokens: 16", f"listen_address: {address}", f"rpc_address: {address}",
            "seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
            f'parameters: [{{seeds: "{seed}"}}]}}]']


def cassandra(directory, given):
    options = " ".join(JVM_OPTIONS.split())
    environment = {"CASSANDRA_HEAP": given.heap, "JDK_JAVA_OPTIONS": options}
    places = addresses(given.cassandra_address, given)
    nodes = []
    for address in places:
        alone = [] if given.nodes == 1 else ["auto_bootstrap: false"]
        settings = [*of_a_ring(address, places[0], given), *alone, *given.cassandra_yaml]
        nodes.append(Cassandra(pathlib.Path(directory) / address, address, settings=settings,
                               version=given.cassandra_version))
    return Server(nodes, environment, [f"heap {given.heap}", f"Java options: {options}", *given.cassandra_yaml])


def ilion(directory, given, address=None, yaml=(), binary=None):
    yaml = [*given.ilion_yaml, *yaml]
    places = addresses(address or given.ilion_address, given)
    nodes = []
    for address in places:
        settings = [line.split(": ", 1) for line in [*of_a_ring(address, places[0], given), *yaml]]
        nodes.append(Ilion(pathlib.Path(directory) / address, address, binary=binary or machine.ilion_binary(), settings=settings))
    return Server(nodes, {}, yaml)


def before(directory, given):
    """Another build of Ilion."""
    server = ilion(directory, given, given.before_address, binary=given.before)
    server.name = "before"
    return server


def imported(directory, given, source, name):
    """Ilion on the files of another server."""
    yaml = ["sstable_adoption_enabled: false"] if name == "unadopted" else []
    server = ilion(directory, given, given.imported_addresses[name], yaml)
    server.name, server.source = name, source
    return server
