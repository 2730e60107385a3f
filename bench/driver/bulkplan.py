"""What is measured of bulk reading, and in which order.

A test has steps. In each round every step runs once, one right after the other, in the second round backwards, and so on. A
step is one program's run: `scan read`, a verb of `bulkreaders.py`, `ilion export`, `ilion sql` or cqlite. Its rows are counted,
and a wrong number ends the measurement. What readers of files compare with is read from the system's cache.

Tests of files come first. Then a node starts and takes in copies of the tables; a Cassandra that is measured beside it takes
turns with it.
"""
import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from . import bulktables as tables, machine, turns
from .client import ALONE, Failed, failed
from .servers import cassandra, ilion, pid_of

READERS = pathlib.Path(__file__).with_name("bulkreaders.py")
FLIGHT_PORT = 9043
# Cassandra throttles compactions to 64 MiB/s otherwise, and keeps snapshots of dropped tables.
CASSANDRA_YAML = ["compaction_throughput: 0MiB/s", "auto_snapshot: false"]
# Token ranges of a sample, spread over the ring.
CQL_PARTS = 20
POINTS_IN_FLIGHT, LOAD_IN_FLIGHT = 32, 128
# Parts of one round of point reads: so many idle and so many beside a scan, by turns.
PARTS, PART_S, BREATH_S = 4, 2.5, 0.5
LIMIT = 5
# The lowest priority that the kernel gives to a process, and to a session.
LOWEST = 19
PROBE_S = 0.02


@dataclass(frozen=True)
class Test:
    """What it measures, on which tables, and what it needs beside the tables."""
    what: str
    run: object
    tables: tuple
    # Those that a node takes in.
    in_node: tuple = ()
    needs: tuple = ()


class Bench:
    """The programs, the tables, and what was found."""

    def __init__(self, given, directory, programs, results):
        self.given, self.directory, self.results = given, directory, results
        self.scan_program, self.cqlite, self.client = programs
        self.ilion = machine.ilion_binary()
        known = tables.all_tables(given)
        wanted = dict.fromkeys(name for test in given.tests for name in TESTS[test].tables)
        self.tables = {name: known[name] for name in wanted}
        self.store = tables.Store(directory / "tables", list(self.tables.values()), self.scan_program)
        self.server, self.parquet_folders, self.test = None, {}, None

    def pairs(self, *names):
        """Each table by each of its writers."""
        return [(self.tables[name], writer) for name in names for writer in self.tables[name].writers]

    def warm(self, *names):
        for table, writer in self.pairs(*names):
            tables.read_files(self.store.files(table, writer))

    def measure(self, steps, count=None):
        """[(name of the run, what does it)] in rounds; a step that fails is told and left out from then on."""
        steps = dict(steps)
        for number in range(count or self.given.rounds):
            for name in list(steps)[::-1 if number % 2 else 1]:
                try:
                    found = steps[name]()
                except (*turns.FAILURES, ValueError) as error:
                    self.fail(f"{name}: {error}")
                    del steps[name]
                    continue
                self.add(name, found)

    def add(self, name, found):
        self.results["runs"].setdefault(name, {"test": self.test, "rounds": []})["rounds"].append(found)
        shown = ", ".join(f"{key} {value:,.3f}" if isinstance(value, float) else f"{key} {value:,}" for key, value in found.items())
        machine.say(f"{name}: {shown}")

    def fail(self, text):
        machine.say(text)
        self.results["failures"].append(f"{self.test}, {text}")

    def child(self, command, server=None, patience_s=3600):
        """Runs a program; returns what it printed, and what it and the server took: seconds, CPU seconds, the share of others."""
        pids = server.pids if server else []
        before = busy_s(), children_cpu_s(), sum(map(machine.cpu_s, pids))
        began = time.perf_counter()
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                              timeout=patience_s, **ALONE)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise failed(command, done.returncode, done.stderr)
        busy, own, serving = (now - then for now, then in zip((busy_s(), children_cpu_s(), sum(map(machine.cpu_s, pids))), before))
        usage = {"wall_s": seconds, "process_cpu_s": own, "others": max(busy - own - serving, 0) / seconds / os.cpu_count()}
        return done.stdout, {**usage, "server_cpu_s": serving} if server else usage

    def reader(self, verb, *arguments, rows, server=None):
        """A run of `bulkreaders.py` that has to find so many rows; `None`: any."""
        text, usage = self.child([sys.executable, READERS, verb, *arguments], server)
        return checked({**json.loads(text.splitlines()[-1]), **usage}, rows)

    def scan(self, table, writer, asked=None, threads=1):
        """One thread, or more, from SSTables to record batches. Its first pass has the process get its memory."""
        shape = [f"columns={table.columns}", "rounds=2", f"threads={threads}", *([] if asked is None else [f"asked={asked}"])]
        text, usage = self.child([self.scan_program, "read", self.store.folder(table, writer), *shape])
        return checked({**json.loads(text.splitlines()[-1]), "others": usage["others"]}, table.rows)

    def scan_cqlite(self, table, writer):
        root = self.store.root(table, writer)
        schema = self.directory / f"{root.name}.cql"
        schema.write_text(table.schema(f"{tables.KEYSPACE}.{tables.TABLE}").partition(" WITH ")[0] + ";\n")
        text, usage = self.child([self.cqlite, root, schema, f"{tables.KEYSPACE}.{tables.TABLE}"])
        return checked({**json.loads(text.splitlines()[-1]), **usage}, table.rows)

    def export(self, table, writer):
        """`ilion export` to Parquet with one thread."""
        out = self.directory / "export" / writer / self.store.root(table, writer).name
        shutil.rmtree(out, ignore_errors=True)
        text, usage = self.child([self.ilion, "export", self.store.folder(table, writer), "--out", out, "--threads", 1])
        rows = int(re.search(r"^([\d,]+) rows", text, re.MULTILINE)[1].replace(",", ""))
        size = sum(path.stat().st_size for path in out.glob("*.parquet"))
        return checked({"rows": rows, "seconds": usage["wall_s"], "cpu_s": usage["process_cpu_s"], "bytes": size, "others": usage["others"]},
                       table.rows)

    def parquet(self, table, writer="ilion"):
        """Where a table is as Parquet."""
        folder = self.directory / "export" / writer / self.store.root(table, writer).name
        if not folder.exists():
            self.export(table, writer)
        return folder

    def sql(self, table, writer, statement):
        """A statement on a directory; returns its lines of CSV and what the process took."""
        command = [self.ilion, "sql", "--dir", self.store.folder(table, writer), "--format", "csv", statement]
        text, usage = self.child(command)
        return text.splitlines()[1:], {"seconds": usage["wall_s"], "cpu_s": usage["process_cpu_s"], "others": usage["others"]}

    def flight(self, verb, table, writer, select="*", rows=None, limit=""):
        statement = f"SELECT {select} FROM {tables.IN_NODES}.{tables.node_name(table, writer)}{limit}"
        return self.reader(verb, f"{self.server.node.address}:{FLIGHT_PORT}", statement, rows=rows, server=self.server)

    @contextlib.contextmanager
    def node(self, pairs):
        """Ilion with copies of these tables, at rest."""
        self.server = ilion(self.directory / "node", self.given, yaml=[f"flight_port: {FLIGHT_PORT}"])
        self.server.start()
        try:
            for table, writer in pairs:
                machine.say(f"ilion: taking in {table.name} of {writer}")
                tables.take_in(self.server, table, tables.node_name(table, writer), self.store.files(table, writer))
            self.server.rest()
            yield self.server
        finally:
            self.server.stop()

    def restart_node(self):
        self.server.node.stop()
        self.server.node.start()
        self.server.pids = [pid_of(self.server.node)]
        self.server.rest()

    def node_files(self, table, writer):
        (folder,) = self.server.node.data_dir.rglob(f"{tables.IN_NODES}/{tables.node_name(table, writer)}-*")
        return [path for path in folder.iterdir() if path.is_file()]


def checked(found, rows):
    if rows is not None and found["rows"] != rows:
        raise Failed(f"{found['rows']:,} rows came, {rows:,} are there")
    return found


def busy_s():
    """Seconds that the processors were not idle, those that the hypervisor took with them."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def memory_bytes(pid, *names):
    """Sum of figures of /proc/PID/status."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return sum(int(re.search(rf"^{name}:\s*(\d+) kB", status, re.MULTILINE)[1]) for name in names) * 1024


def read(bench):
    """Files, from the system's cache."""
    names = [name for name in ("one", "four", "wide", "single", "thousand", "twenty") if name in bench.tables]
    bench.warm(*names)
    steps = []
    for name in ("one", "wide"):
        table = bench.tables[name]
        folder = bench.parquet(table)
        steps.append((f"pyarrow from Parquet, {name}", lambda table=table, folder=folder: bench.reader("parquet-read", folder, rows=table.rows)))
    for table, writer in bench.pairs(*names):
        asked = {"one": (None, 2, 0), "four": (None, 2), "twenty": (None, 2)}.get(table.name, (None,))
        for columns in asked:
            what = {None: "all columns", 2: "two columns", 0: "no column"}[columns]
            steps.append((f"scan, {table.name}, {what}, {writer}", lambda t=table, w=writer, c=columns: bench.scan(t, w, asked=c)))
        if table.name == "one":
            steps.append((f"scan, one, two threads, {writer}", lambda t=table, w=writer: bench.scan(t, w, threads=2)))
    bench.measure(steps)
    if bench.cqlite:
        slow = [(f"cqlite, {table.name}, {writer}", lambda t=table, w=writer: bench.scan_cqlite(t, w)) for table, writer in bench.pairs("one", "four")]
        bench.measure(slow, bench.given.cqlite_rounds)


def export(bench):
    """`ilion export` beside pyarrow, which has the batches in memory."""
    bench.warm("one", "wide")
    out, steps = bench.directory / "pyarrow.parquet", []
    for name in ("one", "wide"):
        table = bench.tables[name]
        folder = shutil.copytree(bench.parquet(table), bench.directory / "export" / f"source-{name}")
        steps.append((f"pyarrow to Parquet, {name}", lambda t=table, f=folder: bench.reader("parquet-write", f, out, rows=t.rows)))
        steps += [(f"ilion export, {name}, {writer}", lambda t=table, w=writer: bench.export(t, w)) for writer in table.writers]
    bench.measure(steps)
    table = bench.tables["one"]
    folders = [bench.parquet(table, writer) for writer in table.writers]
    if not bench.reader("parquet-same", *folders, rows=table.rows)["same"]:
        bench.fail("the exports of Ilion's and of Cassandra's files differ")


def partitions(bench):
    bench.warm(*tables.PARTITIONS)
    bench.measure([(f"scan, partitions of {table.name}, {writer}", lambda t=table, w=writer: bench.scan(t, w))
                   for table, writer in bench.pairs(*tables.PARTITIONS)])


def count(bench):
    bench.warm("one", "four")
    steps = []
    for table, writer in bench.pairs("one", "four"):
        steps.append((f"scan beside count, {table.name}, {writer}", lambda t=table, w=writer: bench.scan(t, w)))
        steps.append((f"count(*), {table.name}, {writer}", lambda t=table, w=writer: counted(bench, t, w)))
    bench.measure(steps)


def counted(bench, table, writer):
    lines, usage = bench.sql(table, writer, f"SELECT count(*) FROM {tables.KEYSPACE}.{tables.TABLE}")
    return checked({"rows": int(lines[0]), **usage}, table.rows)


def first(bench):
    """Some rows of a table that the system has nothing of in memory."""
    steps = []
    for table, writer in bench.pairs("one", "wide", "huge"):
        steps.append((f"ilion sql --dir, LIMIT {LIMIT}, {table.name}, {writer}", lambda t=table, w=writer: first_of_directory(bench, t, w)))
        steps.append((f"Flight, LIMIT {LIMIT}, {table.name}, {writer}", lambda t=table, w=writer: first_of_node(bench, t, w)))
    bench.measure(steps)


def first_of_directory(bench, table, writer):
    left = bench.store.drop_cache(table, writer)
    lines, usage = bench.sql(table, writer, f"SELECT * FROM {tables.KEYSPACE}.{tables.TABLE} LIMIT {LIMIT}")
    return checked({"rows": len(lines), "cached_bytes": left or 0, **usage}, LIMIT)


def first_of_node(bench, table, writer):
    bench.server.node.nodetool("invalidatepagecache")
    left = tables.drop_cached(bench.node_files(table, writer))
    return {**bench.flight("flight-read", table, writer, rows=LIMIT, limit=f" LIMIT {LIMIT}"), "cached_bytes": left or 0}


def flight(bench):
    steps = []
    bench.warm("one", "wide")
    for table, writer in bench.pairs("one", "wide"):
        tables.read_files(bench.node_files(table, writer))
        steps.append((f"scan beside Flight, {table.name}, {writer}", lambda t=table, w=writer: bench.scan(t, w)))
        for verb, name in (("flight-read", "DoGet to pyarrow"), ("adbc-read", "ADBC")):
            steps.append((f"Flight, {name}, {table.name}, {writer}", lambda v=verb, t=table, w=writer: bench.flight(v, t, w, rows=t.rows)))
    bench.measure(steps)


def memory(bench):
    """Of a node that has just started and come to rest, and of the same while a table leaves."""
    bench.measure([(f"memory, {table.name}, {writer}", lambda t=table, w=writer: peak(bench, t, w))
                   for table, writer in bench.pairs("one", "wide", "huge")])


def peak(bench, table, writer):
    bench.restart_node()
    (pid,) = bench.server.pids
    idle, idle_own = memory_bytes(pid, "VmRSS"), memory_bytes(pid, "RssAnon")
    # The high-water mark begins anew.
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    with Sampled(lambda: memory_bytes(pid, "RssAnon")) as own:
        found = bench.flight("flight-read", table, writer, rows=table.rows)
    most = memory_bytes(pid, "VmHWM")
    return {"rows": found["rows"], "seconds": found["seconds"], "bytes": found["bytes"], "idle_bytes": idle, "above_idle_bytes": most - idle,
            "own_above_idle_bytes": own.most - idle_own, "others": found["others"]}


class Sampled:
    """The greatest value of a figure meanwhile."""

    def __init__(self, figure):
        self.figure, self.most, self.ended = figure, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ended.wait(PROBE_S):
            with contextlib.suppress(OSError):
                self.most = max(self.most, self.figure())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.most = max(self.most, self.figure())


def points(bench):
    """Point reads at half of what the node sustains, alone and beside a scan that leaves by Flight."""
    client, server, given = bench.client, bench.server, bench.given
    client.schema(server, 1)
    client.run(server, "load-base", given, in_flight=LOAD_IN_FLIGHT)
    server.settle("bench")
    sustained = client.run(server, "point-read", given, seed=1, warm_up_s=given.warm_up, seconds=given.seconds, in_flight=POINTS_IN_FLIGHT)
    rate = round(sustained["operations_per_s"] / 2)
    table = bench.tables["one"]
    tables.read_files(bench.node_files(table, "ilion"))
    place, name = f"{server.node.address}:{FLIGHT_PORT}", f"{tables.IN_NODES}.{tables.node_name(table, 'ilion')}"
    for number in range(given.rounds):
        rows = 0
        with client.parts(server, "point-read", given, seed=number + 2, rate=rate) as reads:
            time.sleep(given.warm_up)
            for _ in range(PARTS):
                reads.begin("idle")
                time.sleep(PART_S)
                reads.pause()
                with Looping(place, f"SELECT * FROM {name}", table.rows) as scan:
                    time.sleep(BREATH_S)
                    reads.begin("scan")
                    time.sleep(PART_S)
                    reads.pause()
                rows += scan.rows
                time.sleep(BREATH_S)
            parts = {run["part"]: run for run in reads.end()}
        for part in ("idle", "scan"):
            run = parts[part]
            if run["errors"] or run["unanswered"]:
                bench.fail(f"point reads, {part}: {run['errors']}, {run['unanswered']} without an answer")
            more = {"scanned_rows": rows} if part == "scan" else {}
            if part == "scan" and not rows:
                bench.fail("no rows left by Flight beside the point reads")
            bench.add(f"point reads at {rate:,}/s, {part}", {"rows": run["operations"], "p50_us": run["latency_us"]["p50"],
                      "p99_us": run["latency_us"]["p99"], "p99_9_us": run["latency_us"]["p99_9"], **more})


class Looping:
    """A client of Flight that takes a table again and again. It stands for one on another machine, so it gets what processors are left:
    the lowest priority, of its session too."""

    def __init__(self, place, statement, rows):
        self.command, self.rows = [sys.executable, READERS, "flight-loop", place, statement, rows], 0

    def __enter__(self):
        self.process = subprocess.Popen(list(map(str, self.command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, start_new_session=True, env=ALONE["env"])
        os.setpriority(os.PRIO_PROCESS, self.process.pid, LOWEST)
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{self.process.pid}/autogroup").write_text(str(LOWEST))
        # Its start takes a while; then it says that it begins.
        self.process.stdout.readline()
        return self

    def __exit__(self, *_):
        output, errors = self.process.communicate()
        if self.process.returncode:
            raise failed(self.command, self.process.returncode, errors)
        self.rows = json.loads(output.splitlines()[-1])["rows"]


def cql(bench):
    """A sample of the ring's token ranges, page by page; what counts is the CPU time of the server."""
    given, server, table = bench.given, bench.server, bench.tables["one"]
    other = bench.cassandra()
    answers = {}

    def ask(server, name):
        found = bench.reader("cql-scan", server.node.address, given.protocol, f"{tables.IN_NODES}.{name}", CQL_PARTS, given.cql_share, rows=None,
                             server=server)
        answers[name] = found["rows"]
        return {**found, "rows_per_cpu_s": found["rows"] / max(found["server_cpu_s"], 0.01)}

    bench.warm("one")
    with contextlib.ExitStack() as stack:
        other.start()
        stack.callback(other.stop)
        stack.callback(server.resume)
        asked = [(f"CQL, ilion, {writer}", server, tables.node_name(table, writer)) for writer in table.writers]
        asked.append(("CQL, cassandra, cassandra", other, tables.node_name(table)))

        def turn(one, name):
            for each in (server, other):
                each.resume() if each is one else each.pause()
            return ask(one, name)

        other.rest()
        # As for the tests of `bench/run`: for so long the same load, which compiles Cassandra's code.
        until = time.monotonic() + given.warm_up
        while time.monotonic() < until:
            turn(other, tables.node_name(table))
        steps = [(what, lambda s=one, n=name: turn(s, n)) for what, one, name in asked]
        steps += [(f"scan beside CQL, one, {writer}", lambda w=writer: bench.scan(table, w)) for writer in table.writers]
        bench.measure(steps)
        other.resume()
    if len(set(answers.values())) != 1:
        bench.fail(f"the samples differ: {answers}")


TESTS = {
    "read": Test("SSTables to record batches: columns, SSTables, threads; pyarrow and cqlite beside", read,
                 ("one", "four", "wide", "single", "thousand", "twenty"), needs=("cqlite",)),
    "export": Test("SSTables to Parquet; pyarrow writes the same batches beside", export, ("one", "wide")),
    "partitions": Test("SSTables to record batches: partitions of many sizes", partitions, tuple(tables.PARTITIONS)),
    "count": Test("count(*) beside a scan of all columns", count, ("one", "four")),
    "cql": Test("CQL by token ranges, of Ilion and of Cassandra, beside the scan", cql, ("one",), in_node=("one",), needs=("cassandra",)),
    "flight": Test("Flight SQL to Python on the loopback, beside the scan", flight, ("one", "wide"), in_node=("one", "wide")),
    "memory": Test("memory of a node while a table leaves by Flight", memory, ("one", "wide", "huge"), in_node=("one", "wide", "huge")),
    "first": Test("the first rows of a cold table", first, ("one", "wide", "huge"), in_node=("one", "wide", "huge")),
    "points": Test("point reads beside a scan by Flight", points, ("one",), in_node=("one",), needs=("client",)),
}


def versions(cqlite):
    """Those of what is measured beside."""
    lock = (cqlite / "Cargo.lock").read_text()
    packages = ("pyarrow", "adbc-driver-flightsql", "cassandra-driver")
    return {**{name: importlib.metadata.version(name) for name in packages},
            "cqlite-core": re.search(r'^name = "cqlite-core"\nversion = "(.*)"$', lock, re.MULTILINE)[1]}


def needs(given, what):
    return any(what in TESTS[name].needs for name in given.tests)


def make(bench):
    """The tables of all tests. Those that Cassandra is asked for stay in it."""
    bench.store.make()
    kept = {"one"} if needs(bench.given, "cassandra") else set()
    bench.cassandra = lambda: cassandra(bench.directory / "cassandra", bench.given)
    server = bench.cassandra()
    try:
        server.start()
        bench.store.rewrite(server, lambda table: table.name in kept)
    finally:
        server.stop()
    for table, writer in bench.pairs(*bench.tables):
        bench.results["tables"].append({"name": table.name, "what": table.what, "writer": writer, "rows": table.rows,
                                        "value_bytes": table.value_bytes, "disk_bytes": bench.store.disk_bytes(table, writer)})


def run(bench, save):
    """Every test that is wanted."""
    given = bench.given
    of_files = [name for name in given.tests if not TESTS[name].in_node]
    of_nodes = [name for name in given.tests if TESTS[name].in_node]

    def one(name):
        machine.say(f"{name}: {TESTS[name].what}")
        bench.test = name
        try:
            TESTS[name].run(bench)
        except (*turns.FAILURES, ValueError) as error:
            bench.fail(str(error))
        save()

    for name in of_files:
        one(name)
    if of_nodes:
        wanted = dict.fromkeys(table for name in of_nodes for table in TESTS[name].in_node)
        bench.test = "node"
        with bench.node(bench.pairs(*wanted)):
            for name in of_nodes:
                one(name)
