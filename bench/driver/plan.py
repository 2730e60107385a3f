"""What is measured, in which order.

A test has data, which are loaded first, and cases. A case is one workload of the client on one size of the data, run at
several numbers of operations in flight and perhaps at a fixed rate, half of what Cassandra sustained in that case of
this same run.

All data are loaded before anything is measured, then everything is flushed and compacted. Tests that read come first, on
settled tables; then what writes, and before each of those the server comes to rest. Both servers get the same seeds, so
they are asked the same things in the same order; no two runs on one server share a seed.
"""
from dataclasses import dataclass

from . import machine, tail as tails

KEYSPACE = "bench"
LOAD_IN_FLIGHT = 128
# Rows of 100 columns of 100 KiB: more in flight would be refused as overload.
COLUMNS_IN_FLIGHT = 4

# The client's own cost needs no long runs.
CLIENT_SECONDS, CLIENT_WARM_UP = 3, 1
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
    # What happens meanwhile, and to which table (`tail.py`).
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
}


def measure_client(client, nothing, given, rates):
    """The client against the server that does nothing: {workload: [figures...]}. At the fixed rates too, for as long as the
    servers: what it is late there is the client's and the machine's doing."""
    timing = {"seed": 1, "warm_up_s": CLIENT_WARM_UP, "seconds": CLIENT_SECONDS}
    runs = {workload: [one(client, nothing, workload, given, in_flight=in_flight, **timing) for in_flight in given.in_flight]
            for workload in ("options", "insert")}
    runs["options"] += [one(client, nothing, "options", given, rate=rate, **{**timing, "seconds": rate_seconds(given)})
                        for rate in sorted(set(rates.values()))]
    return runs


def warm_up_s(server, given):
    """Seconds of the same load before a run of the server of that name: Cassandra's compiler wants more of them."""
    return given.ilion_warm_up if server == "ilion" else given.warm_up


def rate_seconds(given):
    return max(given.seconds, RATE_SECONDS_MIN)


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
        if name == "tail":
            # One run for all cases.
            if given.rate:
                rates.setdefault("point-read", given.rate)
            if rate := rates.get("point-read"):
                machine.say(f"{server.name}: tail, {rate:,.0f}/s")
                tests[name] = tails.run(client, server, tail(given), given, rate, seed, warm_up_s(server.name, given))
                for run in tests[name]:
                    tell(server, run["case"], run, f"{rate:,.0f}/s")
                server.rest()
            seed += 1
            continue
        for case in TESTS[name].cases(given):
            for run in run_case(client, server, case, given, rates, seed):
                tests[name].append({"case": case.name, **run})
                seed += 1


def run_case(client, server, case, given, rates, seed):
    timing = {"warm_up_s": warm_up_s(server.name, given), "seconds": given.seconds, **dict(case.scale)}
    in_flight = given.in_flight if case.in_flight is None else case.in_flight
    sustained = []
    for number in in_flight:
        rest(server, case)
        yield (run := one(client, server, case.workload, given, seed=seed, in_flight=number, **timing))
        sustained.append(run["operations_per_s"])
        seed += 1
    if not case.has_fixed_rate:
        return
    if given.rate:
        rates.setdefault(case.workload, given.rate)
    elif given.rates == "half" and sustained:
        rates.setdefault(case.workload, round(max(sustained) / 2))
    if case.workload in rates:
        rest(server, case)
        timing["seconds"] = rate_seconds(given)
        yield one(client, server, case.workload, given, seed=seed, rate=rates[case.workload], **timing)


def rest(server, case):
    if case.writes:
        server.rest()


def one(client, server, workload, given, **settings):
    figures = client.run(server, workload, given, **settings)
    how = f"{settings['in_flight']} in flight" if "in_flight" in settings else f"{settings['rate']:,.0f}/s"
    sizes = "".join(f", {settings[size]:,} rows" for size in ("wide_rows", "large_rows") if size in settings)
    tell(server, workload + sizes, figures, how)
    return figures


def tell(server, what, figures, how):
    latency, used = figures["latency_us"], figures["usage"]["server"]
    machine.say(f"{server.name}: {what}, {how}: {figures['operations_per_s']:,.0f}/s, p50 {latency['p50']:,.0f} us, "
                f"p99 {latency['p99']:,.0f} us, server CPU {used['cpu_us_per_operation']:.1f} us")
