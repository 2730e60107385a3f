"""What is measured, in which order.

A test has data, which are loaded first, and cases. A case is one workload of the client on one size of the data, run at
several numbers of operations in flight and perhaps at a fixed rate, half of what Cassandra sustained in that case of
this same run.

All data are loaded before anything is measured, then everything is flushed and compacted. Then, for each load of each case:

1. Each server's files are brought into the kernel's memory, and it is warmed up by the load.
2. In each round the servers are measured one right after the other, in the second round in the other order, and so on. What
   is measured begins a moment after a server goes on.

Tests that read come first, on settled tables; then what writes, and before each of those the server comes to rest. Both
servers get the same seeds, so they are asked the same things in the same order; no two runs on one server share a seed.
Cases that are compared with each other follow each other.
"""
import re
from dataclasses import dataclass

from . import machine, rounds, tail as tails

KEYSPACE = "bench"
LOAD_IN_FLIGHT = 128
# Rows of 100 columns of 100 KiB: more in flight would be refused as overload.
COLUMNS_IN_FLIGHT = 4

# The client's own cost needs no long runs.
CLIENT_SECONDS, CLIENT_WARM_UP = 3, 1
# A server that was stopped gets so long under the load before it is measured: for its timers that are due, and the processor's caches.
LEAD_IN_S = 0.5
# A fixed rate is measured for longer: one in a thousand is to be more than what a single pause of the machine holds up.
RATE_SECONDS_MIN = 10

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
    # Each run ends with its workload and finds the node's caches empty.
    is_cold: bool = False
    # What happens meanwhile, and to which table (`tail.py`).
    beside: tuple | None = None

    @property
    def name(self):
        sizes = "".join(f", {value:,} rows" for _, value in self.scale)
        return f"{self.workload}{sizes}{', cold' * self.is_cold}{beside_name(self.beside)}"


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
    return [Case(workload, wide(given, rows)) for workload in workloads for rows in given.wide_rows]


def large(given):
    size = (("large_rows", given.large_rows),)
    cases = [Case(f"row:{table}", size, in_flight=(1, 32)) for table in ("large", "plain")]
    cases += [Case(f"rows:{table}:100:{place}", size, in_flight=(1, 8))
              for table in ("large", "plain") for place in ("middle", "before-middle")]
    cases += [Case(f"rows:plain:{count}:{place}", size) for count in (32, 256, 4096) for place in ("start", "middle")]
    cases += [Case(f"skip:plain:{read}:{skip}", size) for read in (1, 64) for skip in (1, 16, 256, 4096)]
    cases += [Case("skip:plain:4096:4096", size), Case("skip:plain:4096:4096:once", size, is_cold=True)]
    return cases


def columns(given):
    places = ("first", "middle", "last")
    cold = [Case(f"column:{COLUMNS[-1]}:{place}:once", is_cold=True) for place in places]
    return [Case(f"column:{count}:{place}") for place in places for count in COLUMNS] + cold


def base(given):
    return [Case("point-read", in_flight=None, has_fixed_rate=True)]


def tail(given):
    # The compaction of `plain` outlasts a part; that of the table that is read ends in it, and its output is read from then on,
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
    "count": Test("one added to a counter, any of the table's", lambda given: [],
                  lambda given: [Case("count", in_flight=None, has_fixed_rate=True, writes=True)]),
}


def measure_client(client, nothing, given, rates):
    """The client against the server that does nothing: {workload: [figures...]}. At the fixed rates too, for as long as the
    servers: what it is late there is the client's and the machine's doing."""
    loads = [{"in_flight": number, "seconds": CLIENT_SECONDS} for number in given.in_flight]
    at_rates = [{"rate": rate, "seconds": rate_seconds(given)} for rate in sorted(set(rates.values()))]
    found = {}
    for workload, hows in (("options", loads + at_rates), ("insert", loads)):
        found[workload] = [client.run(nothing, workload, given, seed=1, warm_up_s=CLIENT_WARM_UP, **how) for how in hows]
        for run in found[workload]:
            tell(nothing.name, workload, run)
    return found


def warm_up_s(server, given):
    """Seconds of the same load before a run of the server of that name: Cassandra's compiler wants more of them."""
    return given.warm_up if server == "cassandra" else given.ilion_warm_up


def rate_seconds(given):
    return max(given.seconds, RATE_SECONDS_MIN)


def cases_of(name, given):
    """The cases of a test that are wanted."""
    return [case for case in TESTS[name].cases(given) if re.search(given.cases, case.name)]


def loads_of(case, given):
    """The closed loops of a case."""
    return [{"in_flight": number} for number in (given.in_flight if case.in_flight is None else case.in_flight)]


def load(client, turns, given, results):
    """Gives every server its data, and peace."""
    wanted = [load for name in given.tests for load in TESTS[name].loads(given)]

    def fill(server):
        loads = {}
        results[server.name] = {"notes": server.notes, "loads": loads, "tests": {}}
        client.schema(server, given.nodes)
        if server.source:
            machine.say(f"{server.name}: taking in the files of {server.source.name}")
            results[server.name]["taking"] = server.take_files(KEYSPACE)
            return
        for workload, scale in dict.fromkeys(wanted):
            in_flight = COLUMNS_IN_FLIGHT if workload.startswith("load-columns") else LOAD_IN_FLIGHT
            name = Case(workload, scale).name
            loads[name] = client.run(server, workload, given, in_flight=in_flight, **dict(scale))
            tell(server.name, name, loads[name])
        machine.say(f"{server.name}: flushing and compacting")
        server.settle(KEYSPACE)

    turns.each(fill)


def measure(client, turns, name, given, rates, seeds, results):
    """A test; what is found is put into `results` as it comes. `rates` keeps what closed loops say about fixed rates."""
    tests = {server.name: results[server.name]["tests"] for server in turns.servers}
    for found in tests.values():
        found[name] = []
    if name == "tail":
        measure_tail(client, turns, given, rates, next(seeds), tests)
        return
    for case in cases_of(name, given):
        sustained = []
        for how in loads_of(case, given):
            runs = take_turns(client, turns, case, how, given, seeds, tests, name)
            if "cassandra" in runs:
                sustained.append(rounds.middle(runs["cassandra"], lambda run: run["operations_per_s"]))
        if not case.has_fixed_rate:
            continue
        if given.rate:
            rates[case.workload] = given.rate
        elif given.rates == "half" and sustained:
            rates[case.workload] = round(max(sustained) / 2)
        if rate := rates.get(case.workload):
            take_turns(client, turns, case, {"rate": rate}, given, seeds, tests, name)


def take_turns(client, turns, case, how, given, seeds, tests, test):
    """All rounds of one load; returns the figures by server, those of one that failed as far as they go."""
    runs = {server.name: {"case": case.name, "in_flight": None, "rate": None, **how, "rounds": []} for server in turns.servers}
    seconds = rate_seconds(given) if "rate" in how else given.seconds

    def ask(server, seed, **timing):
        return client.run(server, case.workload, given, seed=seed, **how, **dict(case.scale), **timing)

    def warm_up(server, seed):
        if case.writes:
            server.rest()
        runs[server.name]["warm_up"] = ask(server, seed, seconds=warm_up_s(server.name, given))

    def a_round(server, seed):
        if case.is_cold:
            server.drop_caches()
        timing = {} if case.is_cold else {"warm_up_s": LEAD_IN_S, "seconds": seconds}
        runs[server.name]["rounds"].append(ask(server, seed, **timing))

    turns.each(lambda server: server.read_files(KEYSPACE))
    if not case.is_cold:
        seed = next(seeds)
        turns.each(lambda server: warm_up(server, seed))
    for number in range(given.rounds):
        seed = next(seeds)
        turns.each(lambda server: a_round(server, seed), backwards=number % 2)
    runs = {name: run for name, run in runs.items() if run["rounds"]}
    for name, run in runs.items():
        tests[name][test].append(run)
        tell(name, case.name, run)
    return runs


def measure_tail(client, turns, given, rates, seed, tests):
    """One run for all cases of test tail on each server, while the others are stopped."""
    rate = given.rate or rates.get("point-read")
    if not rate:
        return
    rates["point-read"] = rate

    def measure_one(server):
        machine.say(f"{server.name}: tail, {rate:,.0f}/s")
        server.read_files(KEYSPACE)
        runs = tails.run(client, server, tail(given), given, rate, seed, warm_up_s(server.name, given))
        tests[server.name]["tail"] = runs
        for run in runs:
            tell(server.name, run["case"], run)
        server.rest()

    turns.each(measure_one)


def tell(name, what, run):
    how = f"{run['in_flight']} in flight" if run["in_flight"] else f"{run['rate']:,.0f}/s"
    figures = (lambda one: one["operations_per_s"], lambda one: one["latency_us"]["p50"], lambda one: one["latency_us"]["p99"],
               lambda one: one["usage"]["server"]["cpu_us_per_operation"])
    operations, p50, p99, cpu = (rounds.middle(run, figure) for figure in figures)
    machine.say(f"{name}: {what}, {how}: {operations:,.0f}/s, p50 {p50:,.0f} us, p99 {p99:,.0f} us, server CPU {cpu:.1f} us")
