"""From the figures of all runs to a report: `report.json` with everything, `report.md` for people, plots beside it.

A ratio is always Ilion's figure over Cassandra's. Throughput is better above 1, everything else below. What several rounds
found is put together by `rounds.py`.
"""
import json
import statistics

from . import bars, plan, plots, rounds, tail

# More than this part of the machine's time in other hands spoils a run.
NOISE_MAX = 0.05

# Column, how to get it from a round, digits.
COLUMNS = (
    ("operations/s", lambda run: run["operations_per_s"], 0),
    ("p50 us", lambda run: run["latency_us"]["p50"], 0),
    ("p90 us", lambda run: run["latency_us"]["p90"], 0),
    ("p99 us", lambda run: run["latency_us"]["p99"], 0),
    ("p99.9 us", lambda run: run["latency_us"]["p99_9"], 0),
    ("max us", lambda run: run["latency_us"]["max"], 0),
    ("server CPU us/op", lambda run: run["usage"]["server"]["cpu_us_per_operation"], 1),
    ("client CPU us/op", lambda run: run["usage"]["client"]["cpu_us_per_operation"], 1),
    ("server RSS MiB", lambda run: run["usage"]["server"]["rss_bytes"] / 2**20, 0),
    ("read calls/op", lambda run: per_operation(run, "read_syscalls"), 2),
    ("read B/op", lambda run: per_operation(run, "read_syscall_bytes"), 0),
    ("from disk B/op", lambda run: per_operation(run, "read_disk_bytes"), 0),
)
# These compare the servers; the client's CPU time and the reading of sockets would only seem to.
COMPARED = ("operations/s", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us", "server CPU us/op", "server RSS MiB")
# What the machine and the client add to every server's figures.
COMPARED_ALONE = ("operations/s", "p50 us", "p99 us", "p99.9 us", "max us", "server CPU us/op", "client CPU us/op")


def write(results, folder):
    results["ratios"] = ratios(results)
    results["bars"] = bars.judge(results)
    results["problems"] = problems(results)
    keep(results, folder, "report.json")
    render(folder)


def render(folder):
    results = json.loads((folder / "report.json").read_text())
    plots.draw(results, folder)
    (folder / "report.md").write_text(markdown(results))


def per_operation(run, counter):
    return run["usage"]["server"][counter] / max(run["operations"], 1)


def label(run):
    return f"{run['in_flight']} in flight" if run["in_flight"] else f"{run['rate']:,.0f}/s"


def loads(results, test):
    """(case, load, {server: its run}) for everything that any of them did."""
    found = {}
    for name, server in results["servers"].items():
        for run in server.get("tests", {}).get(test, []):
            found.setdefault((run["case"], label(run)), {})[name] = run
    return [(case, load, runs) for (case, load), runs in found.items()]


def compared_with(results):
    """Whose figures the others' are divided by."""
    return "before" if "before" in results["servers"] else "cassandra"


def ratios(results):
    found = []
    for test in results["parameters"]["tests"]:
        for case, load, runs in loads(results, test):
            theirs = runs.get(compared_with(results))
            for server, ours in runs.items():
                if not theirs or ours is theirs:
                    continue
                row = {"test": test, "case": case, "load": load, "server": server}
                for name, figure, _ in COLUMNS:
                    if name in COMPARED:
                        of_rounds = rounds.ratios(figure, ours, theirs)
                        row[name] = statistics.median(of_rounds) if of_rounds else None
                found.append(row)
    return found


def all_runs(results):
    for name, server in results["servers"].items():
        for load, run in server["loads"].items():
            yield name, load, run
        for runs in server["tests"].values():
            for run in runs:
                yield name, run["case"], run


def problems(results):
    """What makes figures doubtful."""
    found = list(results["failures"])
    for name, case, run in all_runs(results):
        where = f"{name}, {case}, {label(run)}"
        for one in [*rounds.of(run), *filter(None, [run.get("warm_up")])]:
            if one["errors"]:
                found.append(f"{where}: refused: " + ", ".join(f"{count} x {text}" for text, count in one["errors"].items()))
            if one["unanswered"]:
                found.append(f"{where}: {one['unanswered']} operations without an answer")
        if run.get("beside") and (why := not_through(run["beside"])):
            found.append(f"{where}: {why}")
        noise = rounds.middle(run, noise_of) / results["machine"]["cores"]
        # A cold run is over in a moment; it is there for its bytes.
        if noise > NOISE_MAX and not case.endswith(", cold"):
            found.append(f"{where}: others took {noise:.0%} of the machine's time")
    return found


def noise_of(run):
    usage = run["usage"]
    return (usage["others_cpu_s"] + usage["steal_cpu_s"]) / usage["window_s"]


def not_through(beside):
    """Why what was to happen beside the reads did not, or too little of it; `None` if it did."""
    if not beside["measured_s"]:
        return "what was to happen beside it did not begin"
    if beside["measured_s"] < beside["wanted_s"] * 3 / 4:
        return f"what happened beside it was measured for only {beside['measured_s']:.1f} of {beside['wanted_s']:g} seconds"
    if beside["must_end"] and not beside["ended"]:
        return f"what happened to the table that was read did not end within {tail.LONG_S:g} seconds"
    return None


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def shown(number, digits):
    return "-" if number is None else f"{number:,.{digits}f}"


def keep(results, folder, name):
    """Everything that was found, as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(results, indent=1) + "\n")


def set_up(results):
    """What figures were taken on: the lines that end every report, before what is its own."""
    machine = results["machine"]
    memory = machine["memory_bytes"] / 2**30 if machine["memory_bytes"] else 0
    return ["## Set-up\n\n",
            f"* Machine: {machine['cpu']}, {machine['cores']} cores{', virtual' if machine['virtual'] else ''}, "
            f"{memory:.0f} GiB, Linux {machine['kernel']}; load average at the start {machine['load_average_at_start']:.2f}\n",
            *(f"* {name}: {version}\n" for name, version in results["versions"].items())]


def where(row):
    """The server of a ratio, where it is not Ilion on files of its own."""
    return "" if row["server"] == "ilion" else f"{row['server']}, "


def ratio(number):
    if number is None:
        return "-"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}" if number >= 0.1 else f"{number:.3f}"


def markdown(results):
    given = results["parameters"]
    whose = {"before": "the build before", "cassandra": "Cassandra"}[compared_with(results)]
    text = [f"# Ilion beside {whose}\n\n"]
    text.append(f"`{results['command']}`, {results['started']} to {results['ended']}.\n\n")
    text.append("How the figures are made and what they mean: [docs/BENCH.md](../../docs/BENCH.md). "
                "Everything, the client's commands included, is in `report.json` beside this file.\n\n")
    if results["problems"]:
        text.append("**These figures are doubtful:**\n\n")
        text.extend(f"* {problem}\n" for problem in results["problems"])
        text.append("\n")
    if results["bars"]:
        text.append("## What it should reach\n\n")
        text.append(table(["", "found", "bar", ""], [[bar["what"], bar["found"], bar["bar"], "met" if bar["met"] else "**not met**"]
                                                   for bar in results["bars"]]))
    text.extend(f"![{caption}]({name})\n\n" for name, caption in plots.NAMES.items() if name in results["plots"])
    if results["ratios"]:
        text.append(f"## Ratios\n\nIlion's figure over that of {whose}, the median of the rounds. `imported`: Ilion on Cassandra's files; "
                    "`unadopted`: the same before they are described. Throughput is better above 1, everything else below.\n\n")
        for test in dict.fromkeys(row["test"] for row in results["ratios"]):
            rows = [row for row in results["ratios"] if row["test"] == test]
            text.append(f"**{test}**: {plan.TESTS[test].what}\n\n")
            text.append(table(["", *COMPARED], [[f"{where(row)}{row['case']}, {row['load']}", *(ratio(row[name]) for name in COMPARED)]
                                                for row in rows]))
    text.append("## Figures\n\n")
    text.append("`n/s` in the first column is a fixed rate; latency is then counted from the instant the rate wanted. "
                "Each figure is the median of the rounds.\n\n")
    for test in results["parameters"]["tests"]:
        rows = [[f"{name}, {case}, {load}", *(shown(rounds.middle(run, figure), digits) for _, figure, digits in COLUMNS)]
                for case, load, runs in loads(results, test) for name, run in runs.items()]
        if rows:
            text.append(f"**{test}**\n\n")
            text.append(table(["", *(name for name, _, _ in COLUMNS)], rows))
    text.append("Loading:\n\n")
    text.append(table(["", "operations", "operations/s", "p99 us", "server CPU us/op"], [
        [f"{name}, {load}", shown(run["operations"], 0), shown(run["operations_per_s"], 0),
         shown(run["latency_us"]["p99"], 0), shown(run["usage"]["server"]["cpu_us_per_operation"], 1)]
        for name, server in results["servers"].items() for load, run in server["loads"].items()]))
    text.append("The client alone, against a server that does nothing:\n\n")
    alone = [column for column in COLUMNS if column[0] in COMPARED_ALONE]
    text.append(table(["", *(name for name, _, _ in alone)], [
        [f"{workload}, {label(run)}", *(shown(figure(run), digits) for _, figure, digits in alone)]
        for workload, runs in results["client_alone"].items() for run in runs]))
    text += set_up(results)
    wide = ", ".join(f"{rows:,}" for rows in given["wide_rows"])
    text.append(f"* Data: base: {given['partitions']:,} partitions of 10 rows; locality: partitions of {wide} rows; large: "
                f"{given['large_rows']:,} rows\n")
    warm_up = f"{given['warm_up']:g} s of warm-up ({given['ilion_warm_up']:g} s for Ilion)"
    text.append(f"* Each case: {warm_up}, then {given.get('rounds', 1)} rounds in which the servers take turns of {given['seconds']:g} s "
                f"(at a fixed rate {plan.RATE_SECONDS_MIN} s at least); {given['connections']} connections, protocol v{given['protocol']}, "
                f"{given['threads']} client thread(s), consistency {given.get('consistency', 'LOCAL_ONE')}\n")
    if given.get("nodes", 1) > 1:
        text.append(f"* Each server is a ring of {given['nodes']} nodes, each row on all of them; CPU time and memory are those of all nodes\n")
    for name, server in results["servers"].items():
        text.extend(f"* {name}: {note}\n" for note in server["notes"])
    return "".join(text)
