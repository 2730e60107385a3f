"""What is measured, in which order.

Reads come first, on settled tables; then what writes, and before each of those the server comes to rest. Both servers get
the same seeds, so they are asked the same things in the same order; no two runs on one server share a seed.
"""
from . import machine

KEYSPACE = "bench"

# Workload: what it is, in the report's words. The order is the order of the runs.
WORKLOADS = {
    "point-read": "one row by its whole primary key, any of the table's, uniformly",
    "wide-slice": "100 rows from a random place in one wide partition",
    "mixed": "half point reads, half inserts over existing rows",
    "insert": "one new row in a new partition",
}
# Which tables a workload reads.
LOADS = {"point-read": "load-base", "wide-slice": "load-wide", "mixed": "load-base"}
LOAD_IN_FLIGHT = 128
WRITES = ("mixed", "insert")

# The client's own cost needs no long runs.
CLIENT_SECONDS, CLIENT_WARM_UP = 3, 1


def measure_client(client, nothing, given):
    """The client against the server that does nothing: {workload: [figures...]}."""
    runs = {}
    for workload in ("options", "insert"):
        runs[workload] = [one(client, nothing, workload, given, seed=1, warm_up_s=CLIENT_WARM_UP, seconds=CLIENT_SECONDS,
                              in_flight=in_flight) for in_flight in given.in_flight]
    return runs


def measure(client, server, given, rates, results):
    """Everything on one server, put into `results` as it comes. `rates` keeps what the first server's closed loops say about
    fixed ones for the next."""
    loads, runs = {}, {}
    results[server.name] = {"notes": server.notes, "loads": loads, "runs": runs}
    client.schema(server)
    for load in dict.fromkeys(LOADS[workload] for workload in given.workloads if workload in LOADS):
        loads[load] = one(client, server, load, given, in_flight=LOAD_IN_FLIGHT)
    machine.say(f"{server.name}: flushing and compacting")
    server.settle(KEYSPACE)
    for number, workload in enumerate(given.workloads):
        runs[workload] = []
        run_workload(client, server, workload, given, rates, 1 + 100 * number, runs[workload])


def run_workload(client, server, workload, given, rates, seed, runs):
    timing = {"warm_up_s": given.warm_up, "seconds": given.seconds}
    for in_flight in given.in_flight:
        runs.append(run_once(client, server, workload, given, seed=seed + len(runs), in_flight=in_flight, **timing))
    if given.rate:
        rates.setdefault(workload, given.rate)
    elif given.rates == "half" and runs:
        rates.setdefault(workload, round(max(run["operations_per_s"] for run in runs) / 2))
    if workload in rates:
        runs.append(run_once(client, server, workload, given, seed=seed + len(runs), rate=rates[workload], **timing))


def run_once(client, server, workload, given, **settings):
    if workload in WRITES:
        server.rest()
    return one(client, server, workload, given, **settings)


def one(client, server, workload, given, **settings):
    figures = client.run(server, workload, given, **settings)
    how = f"{settings['in_flight']} in flight" if "in_flight" in settings else f"{settings['rate']:,.0f}/s"
    latency, used = figures["latency_us"], figures["usage"]["server"]
    machine.say(f"{server.name}: {workload}, {how}: {figures['operations_per_s']:,.0f}/s, p50 {latency['p50']:,.0f} us, "
                f"p99 {latency['p99']:,.0f} us, server CPU {used['cpu_us_per_operation']:.1f} us")
    return figures
