"""What is measured, in which order.

A test has data, which are loaded first, and cases. A case is one workload of the client on one size of the data, run at
several numbers of operations in flight and perhaps at a fixed rate, half of what Cassandra sustained in that case of
this same run.

All data are loaded before anything is measured, then everything is flushed and compacted. Tests that read come first, on
settled tables; then what writes, and before each of those the server comes to rest. Both servers get the same seeds, so
they are asked the same things in the same order; no two runs on one server share a seed.
"""
import threading
import time
from dataclasses import dataclass

from . import machine

KEYSPACE = "bench"
LOAD_IN_FLIGHT = 128
# Rows of 100 columns of 100 KiB: more in flight would be refused as overload.
COLUMNS_IN_FLIGHT = 4

# The client's own cost needs no long runs.
CLIENT_SECONDS, CLIENT_WARM_UP = 3, 1

COLUMNS = (10, 50, 100)


@dataclass(frozen=True)
class Case:
    """One workload on one size of the data."""
    workload: str
    # Settings of the client that name the size.
    scale: tuple = ()
    # Closed loops; `None`: those of --in-flight.
    in_flight: tuple | None = (1,)
    has_fixed_rate: bool = False
    writes: bool = False
    # What happens meanwhile, from the first measured second on, and to which table (`Beside`).
    beside: tuple | None = None

    @property
    def name(self):
        sizes = "".join(f", {value:,} rows" for _, value in self.scale)
        return f"{self.workload}{sizes}{beside_name(self.beside)}"


def beside_name(beside):
    if not beside:
        return ""
    what, table = beside
    return f", beside {what}" + (f" of {table}" if table else "")


@dataclass(frozen=True)
class Test:
    """Data and what is asked of them."""
    what: str
    # [(workload, settings)], from the parameters.
    loads: object
    cases: object


def wide(given, rows):
    return (("wide_rows", rows),)


def locality(given):
    workloads = [f"names:{place}" for place in ("start", "end", "blocks-50", "blocks-100")]
    workloads += [f"slice:{place}" for place in ("none", "first", "second-block", "half", "last-block", "reversed")]
    return [Case(workload, wide(given, rows)) for rows in given.wide_rows for workload in workloads]


def large(given):
    size = (("large_rows", given.large_rows),)
    cases = [Case(f"row:{table}", size, in_flight=(1, 32)) for table in ("large", "plain")]
    cases += [Case(f"rows:{table}:100:{place}", size, in_flight=(1, 8))
              for table in ("large", "plain") for place in ("middle", "before-middle")]
    cases += [Case(f"rows:plain:{count}:{place}", size) for count in (32, 256, 4096) for place in ("start", "middle")]
    cases += [Case(f"skip:plain:{read}:{skip}", size) for read in (1, 64) for skip in (1, 16, 256, 4096)]
    cases += [Case("skip:plain:4096:4096", size)]
    return cases


def columns(given):
    return [Case(f"column:{count}:{place}") for count in COLUMNS for place in ("first", "middle", "last")]


def base(given):
    return [Case("point-read", in_flight=None, has_fixed_rate=True)]


def tail(given):
    # The compaction of `plain` outlasts the run; that of the table that is read ends in it, and its output is read from then on,
    # as is what a flush writes of all its rows.
    return [Case("point-read", in_flight=(), has_fixed_rate=True, beside=beside)
            for beside in (None, ("a compaction", "plain"), ("a compaction", "base"), ("schema changes", None), ("a flush", "base"))]


# In the order of their runs.
TESTS = {
    "locality": Test("100 rows by name, near to each other or far apart, and 100 rows in a row from several places, in partitions of "
                     "several sizes", lambda given: [("load-wide", wide(given, rows)) for rows in given.wide_rows], locality),
    "large": Test("rows of 1 KiB in one partition that is larger than the caches",
                  lambda given: [(f"load-{table}", (("large_rows", given.large_rows),)) for table in ("large", "plain")], large),
    "columns": Test("one column of 100 rows of many blobs of 100 KiB", lambda given: [(f"load-columns:{n}", ()) for n in COLUMNS], columns),
    "base": Test("one row by its whole primary key, any of the table's, uniformly", lambda given: [("load-base", ())], base),
    "tail": Test("the same at a fixed rate: while nothing else happens, through a compaction of another table and one of its own, while "
                 "the schema changes, and through a flush of all its rows",
                 lambda given: [("load-base", ()), ("load-plain", (("large_rows", given.large_rows),))], tail),
    "mixed": Test("half point reads, half inserts over existing rows", lambda given: [("load-base", ())],
                  lambda given: [Case("mixed", in_flight=None, has_fixed_rate=True, writes=True)]),
    "insert": Test("one new row in a new partition", lambda given: [],
                   lambda given: [Case("insert", in_flight=None, has_fixed_rate=True, writes=True)]),
}


def measure_client(client, nothing, given, rates):
    """The client against the server that does nothing: {workload: [figures...]}. At the fixed rates too, for as long as the
    servers: what it is late there is the client's and the machine's doing."""
    timing = {"seed": 1, "warm_up_s": CLIENT_WARM_UP, "seconds": CLIENT_SECONDS}
    runs = {workload: [one(client, nothing, workload, given, in_flight=in_flight, **timing) for in_flight in given.in_flight]
            for workload in ("options", "insert")}
    runs["options"] += [one(client, nothing, "options", given, rate=rate, **{**timing, "seconds": given.seconds})
                        for rate in sorted(set(rates.values()))]
    return runs


def measure(client, server, given, rates, results):
    """Everything on one server, put into `results` as it comes. `rates` keeps what the first server's closed loops say about
    fixed ones for the next."""
    loads, tests = {}, {}
    results[server.name] = {"notes": server.notes, "loads": loads, "tests": tests}
    client.schema(server)
    wanted = [load for name in given.tests for load in TESTS[name].loads(given)]
    for workload, scale in dict.fromkeys(wanted):
        in_flight = COLUMNS_IN_FLIGHT if workload.startswith("load-columns") else LOAD_IN_FLIGHT
        name = Case(workload, scale).name
        loads[name] = one(client, server, workload, given, in_flight=in_flight, **dict(scale))
    machine.say(f"{server.name}: flushing and compacting")
    server.settle(KEYSPACE)
    seed = 1
    for name in given.tests:
        tests[name] = []
        for case in TESTS[name].cases(given):
            for run in run_case(client, server, case, given, rates, seed):
                tests[name].append({"case": case.name, **run})
                seed += 1


def run_case(client, server, case, given, rates, seed):
    timing = {"warm_up_s": given.warm_up, "seconds": given.seconds, **dict(case.scale)}
    in_flight = given.in_flight if case.in_flight is None else case.in_flight
    sustained = []
    for number in in_flight:
        yield (run := run_once(client, server, case, given, seed=seed, in_flight=number, **timing))
        sustained.append(run["operations_per_s"])
        seed += 1
    if not case.has_fixed_rate:
        return
    if given.rate:
        rates.setdefault(case.workload, given.rate)
    elif given.rates == "half" and sustained:
        rates.setdefault(case.workload, round(max(sustained) / 2))
    if case.workload in rates:
        yield run_once(client, server, case, given, seed=seed, rate=rates[case.workload], **timing)


def run_once(client, server, case, given, **settings):
    if case.writes:
        server.rest()
    if not case.beside:
        return one(client, server, case.workload, given, **settings)
    beside = Beside(case.beside, client, server, settings["seconds"])
    if case.beside[0] == "a flush":
        # All rows once more, in memory.
        one(client, server, f"load-{case.beside[1]}", given, in_flight=LOAD_IN_FLIGHT)
    starter = threading.Timer(settings["warm_up_s"], beside.run)
    starter.start()
    try:
        figures = one(client, server, case.workload, given, **settings)
        return {**figures, "beside": beside.times(time.monotonic() - settings["seconds"])}
    finally:
        starter.join()
        server.rest()


class Beside:
    """What happens beside a run, with the times at which it began and ended."""

    def __init__(self, beside, client, server, seconds):
        what, table = beside
        node = server.node
        self.work = {"a compaction": lambda: node.nodetool("compact", KEYSPACE, table),
                     "a flush": lambda: node.nodetool("flush", KEYSPACE, table),
                     "schema changes": lambda: client.alter(server, seconds)}[what]
        # The compaction of another table may go on; what is done to the table that is read has to show.
        self.is_short, self.must_end = what == "a flush", table == "base"
        self.began = self.ended = None

    def run(self):
        self.began = time.monotonic()
        self.work()
        self.ended = time.monotonic()

    def times(self, measured_from):
        """When it began and ended, in seconds from when the measured ones began; `None` for what has not happened yet."""
        since = [moment and round(moment - measured_from, 3) for moment in (self.began, self.ended)]
        return {"began_s": since[0], "ended_s": since[1], "is_short": self.is_short, "must_end": self.must_end}


def one(client, server, workload, given, **settings):
    figures = client.run(server, workload, given, **settings)
    how = f"{settings['in_flight']} in flight" if "in_flight" in settings else f"{settings['rate']:,.0f}/s"
    latency, used = figures["latency_us"], figures["usage"]["server"]
    sizes = "".join(f", {settings[size]:,} rows" for size in ("wide_rows", "large_rows") if size in settings)
    machine.say(f"{server.name}: {workload}{sizes}, {how}: {figures['operations_per_s']:,.0f}/s, p50 {latency['p50']:,.0f} us, "
                f"p99 {latency['p99']:,.0f} us, server CPU {used['cpu_us_per_operation']:.1f} us")
    return figures
