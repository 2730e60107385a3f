"""The servers of a comparison: conformance's nodes, with the settings and the patience that a benchmark needs."""
import contextlib
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
    """A node, its process and how to bring it to rest."""

    def __init__(self, node, environment, notes):
        self.node, self.environment, self.notes = node, environment, notes
        self.name = node.name
        self.endpoint = f"{node.address}:{PORT}"
        self.pid = None
        # The server whose files it reads, if it is not loaded by the client.
        self.source = None

    def start(self):
        machine.say(f"{self.name}: starting on {self.endpoint}")
        kept = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            self.node.start()
        finally:
            for name, value in kept.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self.pid = self._pid()

    def stop(self):
        if self.pid:
            machine.say(f"{self.name}: stopping")
            self.node.stop()

    def pause(self):
        """Stops the process where it is, with all its threads. Nobody may ask it anything until it goes on."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        # One that has ended shows when it is asked something.
        with contextlib.suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, number)

    def _pid(self):
        if isinstance(self.node, Cassandra):
            return int((self.node.directory / "pid").read_text())
        return self.node.process.pid

    def settle(self, keyspace):
        """Memtables on the disk, each table in as few SSTables as it gets, and nothing left to do."""
        self.node.compact(keyspace)
        deadline = time.monotonic() + COMPACTION_PATIENCE_S
        while not re.search(r"pending tasks:?\s+0\b", self.node.nodetool("compactionstats"), re.IGNORECASE):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was still compacting after {COMPACTION_PATIENCE_S} s")
            time.sleep(2)
        self.rest()

    def take_files(self, keyspace):
        """Takes in what its source wrote, and waits until all of it is compared, and described if it is to be."""
        for table in sorted(self.source.node.directory.rglob(f"data/{keyspace}/*-*")):
            copy = self.node.directory / "taken" / table.name
            copy.mkdir(parents=True)
            for file in table.iterdir():
                if file.is_file():
                    shutil.copyfile(file, copy / file.name)
            self.node.nodetool("import", keyspace, table.name.split("-")[0], copy)
            shutil.rmtree(copy)
        self.rest()

    def read_files(self, keyspace):
        """Has the kernel read the tables' files, as far as its memory goes: it may have let go what nobody asked for lately, of the one server
        more than of the other."""
        piece = memoryview(bytearray(READ_BYTES))
        for path in self.node.directory.rglob(f"{keyspace}/*/*.db"):
            with open(path, "rb", buffering=0) as file:
                while file.readinto(piece):
                    pass

    def drop_caches(self):
        """Forgets what the node keeps of files; the kernel's cache stays. Cassandra's configuration is to keep nothing of them."""
        if isinstance(self.node, Ilion):
            self.node.nodetool("invalidatepagecache")

    def rest(self):
        """Waits until the process takes next to no CPU time."""
        deadline = time.monotonic() + IDLE_PATIENCE_S
        since, before = time.monotonic(), machine.cpu_s(self.pid)
        while time.monotonic() - since < IDLE_S:
            time.sleep(1)
            used = machine.cpu_s(self.pid)
            if used - before > IDLE_CPU * IDLE_S:
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
        self.process = self.pid = None

    def __enter__(self):
        self.process = self.client.null_server(self.endpoint)
        if "listening for CQL" not in self.process.stdout.readline():
            raise RuntimeError(f"the server that does nothing does not listen on {self.endpoint}")
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def cassandra(directory, given):
    options = " ".join(JVM_OPTIONS.split())
    environment = {"CASSANDRA_HEAP": given.heap, "JDK_JAVA_OPTIONS": options}
    node = Cassandra(pathlib.Path(directory), given.cassandra_address, settings=given.cassandra_yaml)
    return Server(node, environment, [f"heap {given.heap}", f"Java options: {options}", *given.cassandra_yaml])


def ilion(directory, given, address=None, yaml=()):
    yaml = [*given.ilion_yaml, *yaml]
    settings = [line.split(": ", 1) for line in yaml]
    node = Ilion(pathlib.Path(directory), address or given.ilion_address, binary=machine.ilion_binary(), settings=settings)
    return Server(node, {}, yaml)


def imported(directory, given, source, name):
    """Ilion on the files of another server."""
    yaml = ["sstable_adoption_enabled: false"] if name == "unadopted" else []
    server = ilion(directory, given, given.imported_addresses[name], yaml)
    server.name, server.source = name, source
    return server
