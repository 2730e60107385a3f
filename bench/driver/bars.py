"""What Ilion set out to reach against Cassandra, and whether a report shows it.

A bar is held against the median of the rounds' ratios; the least and the greatest of them stand beside it.
"""
import statistics

from . import rounds

ONE_BLOCK = ("names:start", "names:end", "slice:none", "slice:first", "slice:second-block", "slice:half", "slice:last-block",
             "slice:reversed")
# Test columns: what one read answers.
COLUMN_ROWS, COLUMN_BYTES = 100, 100 * 1024


class Figures:
    """Looks runs up by server, test, case and load."""

    def __init__(self, results):
        self.runs = {
            (server, test, run["case"], run["in_flight"], "rate" if run["rate"] else "closed"): run
            for server, figures in results["servers"].items() for test, runs in figures["tests"].items() for run in runs}

    def run(self, server, test, case, in_flight=1):
        return self.runs.get((server, test, case, in_flight, "closed"))

    def at_rate(self, server, test, case):
        return self.runs.get((server, test, case, None, "rate"))

    def cases(self, server, test):
        return [(case, in_flight) for (of, name, case, in_flight, _) in self.runs if (of, name) == (server, test)]


def latency(run, what="p50"):
    return run["latency_us"][what]


def cpu(run):
    return run["usage"]["server"]["cpu_us_per_operation"]


def judge_taking(results, at_most):
    """What describing Cassandra's files may cost."""
    taking = {name: server["taking"] for name, server in results["servers"].items() if server.get("taking")}
    if described := taking.get("imported"):
        at_most("imported: what describes the files over the files: %", [100 * described["described_bytes"] / described["data_bytes"]], 1)
        if compared := taking.get("unadopted"):
            at_most("imported: taking the files in and describing them over taking them in alone: CPU", [described["cpu_s"] / compared["cpu_s"]], 1.3)


def judge_imported(figures, given, compared, at_most):
    """What Ilion is to reach on files that Cassandra wrote."""
    sizes = sorted(given["wide_rows"])
    cases = [f"names:{place}, {rows:,} rows" for place in ("blocks-50", "blocks-100") for rows in sizes[-2:]]
    for case in cases:
        theirs = figures.run("cassandra", "locality", case)
        compared(f"imported: {case}: p50 against Cassandra", latency, theirs, figures.run("imported", "locality", case), 1 / 6)
    if sizes:
        unadopted = figures.run("unadopted", "locality", cases[-1])
        compared(f"unadopted: {cases[-1]}: p50 against Cassandra", latency, figures.run("cassandra", "locality", cases[-1]), unadopted, 1 / 2)
    if len(sizes) > 1:
        for workload in ONE_BLOCK:
            small, big = (figures.run("imported", "locality", f"{workload}, {rows:,} rows") for rows in (sizes[0], sizes[-1]))
            compared(f"imported: {workload}: p50 with {sizes[-1]:,} rows over p50 with {sizes[0]:,}", latency, small, big, 1.3, 2)
    for case, in_flight in figures.cases("imported", "locality"):
        compared(f"imported: {case}: p50 over Ilion's own files", latency, figures.run("ilion", "locality", case, in_flight),
                 figures.run("imported", "locality", case, in_flight), 1.25, 2)
    for case, load in figures.cases("imported", "large"):
        bar = 1 / 8 if case.startswith("row:") else 1 / 6
        if case.startswith(("row:", "rows:large:100", "rows:plain:100")):
            ours = figures.run("imported", "large", case, load)
            compared(f"imported: {case}, {load} in flight: server CPU against Cassandra", cpu, figures.run("cassandra", "large", case, load),
                     ours, bar)
            compared(f"imported: {case}, {load} in flight: server CPU over Ilion's own files", cpu,
                     figures.run("ilion", "large", case, load), ours, 1.25, 2)
    for case, load in figures.cases("imported", "columns"):
        run = figures.run("imported", "columns", case, load)
        if case.endswith(", cold"):
            read = [one["usage"]["server"]["read_syscall_bytes"] / one["operations"] for one in rounds.of(run)]
            at_most(f"imported: {case}: bytes read over bytes of values", [bytes_ / (COLUMN_ROWS * COLUMN_BYTES) for bytes_ in read], 1.3)
        else:
            compared(f"imported: {case}: p50 over Ilion's own files", latency, figures.run("ilion", "columns", case, load), run, 1.25, 2)


def judge_ring(figures, compared):
    """What a ring of Ilion is to reach against one of Cassandra, with each row on all nodes."""
    for test, bar in (("base", 1 / 5), ("insert", 1 / 4)):
        for case, in_flight in figures.cases("ilion", test):
            if in_flight:
                compared(f"ring, {test}: {in_flight} in flight: CPU of all servers against Cassandra's", cpu,
                         figures.run("cassandra", test, case, in_flight), figures.run("ilion", test, case, in_flight), bar)
    theirs, ours = (figures.at_rate(server, "base", "point-read") for server in ("cassandra", "ilion"))
    compared("ring, base: at half of Cassandra's rate: p99 against Cassandra", lambda run: latency(run, "p99"), theirs, ours, 1 / 5)


def judge(results):
    """[{what, found, ratios, bar, met}] for every bar whose runs are there."""
    figures, given = Figures(results), results["parameters"]
    found = []

    def at_most(what, ratios, bar, digits=2):
        if not ratios:
            return
        middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
        spread = f" ({least:.{digits}f}-{most:.{digits}f})" if len(ratios) > 1 else ""
        found.append({"what": what, "found": f"{middle:.{digits}f}{spread}", "ratios": ratios,
                      "bar": f"at most {bar:.{digits}f}", "met": middle <= bar})

    def compared(what, figure, theirs, ours, bar, digits=3):
        if theirs and ours:
            at_most(what, rounds.ratios(figure, ours, theirs), bar, digits)

    if given.get("nodes", 1) > 1:
        judge_ring(figures, compared)
        return found
    sizes = sorted(given["wide_rows"])
    if len(sizes) > 1:
        least, most = sizes[0], sizes[-1]
        for workload in ONE_BLOCK:
            small, big = (figures.run("ilion", "locality", f"{workload}, {rows:,} rows") for rows in (least, most))
            compared(f"locality: {workload}: p50 with {most:,} rows over p50 with {least:,}", latency, small, big, 1.3, 2)
    if sizes:
        case = f"names:blocks-100, {sizes[-1]:,} rows"
        compared(f"locality: {case}: p50 against Cassandra", latency, figures.run("cassandra", "locality", case),
                 figures.run("ilion", "locality", case), 1 / 6)
    for table in ("large", "plain"):
        rows = f", {given['large_rows']:,} rows"
        for workload in (f"row:{table}", f"rows:{table}:100:middle", f"rows:{table}:100:before-middle"):
            for load in (1, 8, 32):
                compared(f"large: {workload}, {load} in flight: server CPU against Cassandra", cpu,
                         figures.run("cassandra", "large", workload + rows, load), figures.run("ilion", "large", workload + rows, load), 1 / 6)
    run = figures.run("ilion", "large", f"skip:plain:4096:4096:once, {given['large_rows']:,} rows, cold")
    if run:
        at_most("large: 4,096 rows here and there, cold: bytes read over bytes of values",
                [one["usage"]["server"]["read_syscall_bytes"] / (one["operations"] * 4096 * 1024) for one in rounds.of(run)], 1.2)
    for place in ("first", "middle", "last"):
        runs = {count: figures.run("ilion", "columns", f"column:{count}:{place}") for count in (10, 100)}
        compared(f"columns: {place}: p50 with 100 columns over p50 with 10", latency, runs[10], runs[100], 1.2, 2)
    for case, in_flight in figures.cases("ilion", "base"):
        if in_flight:
            compared(f"base: {in_flight} in flight: server CPU against Cassandra", cpu, figures.run("cassandra", "base", case, in_flight),
                     figures.run("ilion", "base", case, in_flight), 1 / 6)
    theirs, ours = (figures.run(server, "base", "point-read") for server in ("cassandra", "ilion"))
    compared("base: 1 in flight: p50 against Cassandra", latency, theirs, ours, 1 / 2.5)
    theirs, ours = (figures.at_rate(server, "base", "point-read") for server in ("cassandra", "ilion"))
    for what, bar in (("p99", 1 / 5), ("p99_9", 1 / 10)):
        compared(f"base: at half of Cassandra's rate: {what.replace('_', '.')} against Cassandra", lambda run: latency(run, what), theirs, ours, bar)
    judge_imported(figures, given, compared, at_most)
    judge_taking(results, at_most)
    quiet = figures.at_rate("ilion", "tail", "point-read")
    for beside in ("a compaction of plain", "a compaction of base", "schema changes", "a flush of base"):
        busy = figures.at_rate("ilion", "tail", f"point-read, beside {beside}")
        compared(f"tail: p99 beside {beside} over p99 without", lambda run: latency(run, "p99"), quiet, busy, 1.5, 2)
    return found
