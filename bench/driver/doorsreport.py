"""From the runs through doors to a report: `doors.json` with everything, `doors.md` for people.

A ratio is the median of the rounds' ratios, each of two figures that are seconds apart. The least and the greatest stand in brackets.
"""
import json
import statistics

from . import doors, rounds
from .report import NOISE_MAX, keep, noise_of, set_up, shown, table

KINDS = ("cassandra", "ilion")


def write(results, folder):
    keep(results, folder, "doors.json")
    return render(folder)


def render(folder):
    """Writes the Markdown; returns what makes the figures doubtful."""
    results = json.loads((folder / "doors.json").read_text())
    results["problems"] = problems(results)
    (folder / "doors.md").write_text(markdown(results))
    return results["problems"]


def median(run):
    return run["latency_us"]["p50"]


def p99(run):
    return run["latency_us"]["p99"]


def cpu(run):
    return run["usage"]["server"]["cpu_us_per_operation"]


def per_cpu_s(run):
    """Operations for each second of the server's CPU time."""
    return run["operations"] / run["usage"]["server"]["cpu_s"]


def beyond_bcrypt(run):
    """Milliseconds of a login besides those that the hash itself takes."""
    return (median(run) - run["bcrypt_us"]["p50"]) / 1000


LOADS = ("closed loop", "fixed rate")
# What, the doors of a ratio, the figure, the bar of Ilion's for each load.
DOORS = (
    ("TLS: median", "TLS", "plain", median, 1.05),
    ("TLS: p99", "TLS", "plain", p99, 1.10),
    ("TLS: server CPU", "TLS", "plain", cpu, 1.25),
    ("a role: median", "role", "plain", median, 1.01),
    ("a role: server CPU", "role", "plain", cpu, 1.02),
    ("a role and TLS: median", "role and TLS", "plain", median, None),
    ("a role and TLS: server CPU", "role and TLS", "plain", cpu, None),
    ("an equal node: median", "plain again", "plain", median, None),
    ("an equal node: p99", "plain again", "plain", p99, None),
    ("an equal node: server CPU", "plain again", "plain", cpu, None),
)


def spread(values, digits=2):
    if not values:
        return "-"
    middle = shown(statistics.median(values), digits)
    return middle if len(values) == 1 else f"{middle} ({shown(min(values), digits)}-{shown(max(values), digits)})"


def verdict(values, least=None, most=None):
    if not values or (least is None and most is None):
        return ["-", ""]
    middle = statistics.median(values)
    met = middle >= least if least is not None else middle <= most
    return [f"at least {least:g}" if least is not None else f"at most {most:g}", "met" if met else "**not met**"]


def bars(results):
    """Rows of the table of ratios."""
    runs = results["runs"]

    def ratios(figure, ours, theirs):
        return rounds.ratios(figure, runs[ours], runs[theirs]) if ours in runs and theirs in runs else []

    rows = []
    for load in LOADS:
        for what, ours, theirs, figure, bar in DOORS:
            of = {kind: ratios(figure, f"{load}: {kind}, {ours}", f"{load}: {kind}, {theirs}") for kind in KINDS}
            rows.append([f"{load}, {what}", spread(of["ilion"], 3), spread(of["cassandra"], 3), *verdict(of["ilion"], most=bar)])
    for door in ("plain", "TLS"):
        of = ratios(per_cpu_s, f"new connections: ilion, {door}", f"new connections: cassandra, {door}")
        rows.append([f"new connections for a CPU second over Cassandra's, {door}", spread(of, 1), "", *verdict(of, least=4 if door == "TLS" else None)])
    of = {kind: [beyond_bcrypt(run) for run in rounds.of(runs[f"logins: {kind}, login and TLS"])]
          for kind in KINDS if f"logins: {kind}, login and TLS" in runs}
    rows.append(["a login through TLS, from SYN to AUTH_SUCCESS: ms beyond bcrypt's own time", spread(of.get("ilion", [])),
                 spread(of.get("cassandra", [])), *verdict(of.get("ilion"), most=10)])
    of = {kind: ratios(p99, f"beside failing logins: {kind}, role", f"alone: {kind}, role") for kind in KINDS}
    rows.append([f"p99 of reads beside {results['parameters']['failures']:g} failing logins a second over that alone", spread(of["ilion"]),
                 spread(of["cassandra"]), *verdict(of["ilion"], most=1.1)])
    return rows


def problems(results):
    """What makes figures doubtful."""
    found = list(results["failures"])
    for name, run in results["runs"].items():
        refused = {}
        for one in rounds.of(run):
            for text, count in one["errors"].items():
                refused[text] = refused.get(text, 0) + count
        if refused and not name.startswith("failing logins"):
            found.append(f"{name}: refused: " + ", ".join(f"{count} x {text}" for text, count in refused.items()))
        noise = rounds.middle(run, noise_of) / results["machine"]["cores"]
        # Beside failing logins two clients are at work, and each is the other's noise.
        if noise > NOISE_MAX and "failing" not in name and not name.startswith("alone"):
            found.append(f"{name}: others took {noise:.0%} of the machine's time")
    return found


COLUMNS = (
    ("operations/s", lambda run: run["operations_per_s"], 0),
    ("p50 us", median, 0),
    ("p99 us", p99, 0),
    ("p99.9 us", lambda run: run["latency_us"]["p99_9"], 0),
    ("server CPU us/op", cpu, 1),
    ("client CPU us/op", lambda run: run["usage"]["client"]["cpu_us_per_operation"], 1),
    ("server RSS MiB", lambda run: run["usage"]["server"]["rss_bytes"] / 2**20, 0),
)


def markdown(results):
    given = results["parameters"]
    text = ["# What TLS and roles cost\n\n", f"`{results['command']}`, {results['started']} to {results['ended']}.\n\n",
            "How the figures are made and what they mean: [docs/BENCH.md](../../docs/BENCH.md#doors).\n\n"]
    if results["problems"]:
        text += ["**These figures are doubtful:**\n\n", *(f"* {problem}\n" for problem in results["problems"]), "\n"]
    text.append("## What it should reach\n\nEach server with TLS or a role over the same server without.\n\n")
    text.append(table(["", "Ilion", "Cassandra", "Ilion's bar", ""], bars(results)))
    text.append("## Figures\n\n")
    text.append(table(["", *(name for name, *_ in COLUMNS)], [
        [name, *(spread([figure(run) for run in rounds.of(ran)], digits) for _, figure, digits in COLUMNS)] for name, ran in results["runs"].items()]))
    hashes = [f"{name}: bcrypt's own time {spread([run['bcrypt_us']['p50'] / 1000 for run in rounds.of(ran)], 1)} ms"
              for name, ran in results["runs"].items() if rounds.of(ran)[0].get("bcrypt_us")]
    text += [f"* {line}\n" for line in hashes]
    for name, ran in results["runs"].items():
        if name.startswith("failing logins"):
            other = sum(sum(run["errors"].values()) for run in rounds.of(ran))
            text.append(f"* {name}: besides those above {other} were refused with other words than for a wrong password\n")
    text += ["\n", *set_up(results)]
    text.append(f"* {given['partitions']:,} partitions of 10 rows; {given['rounds']} rounds of {given['seconds']:g} s; {given['connections']} "
                f"connections; TLS 1.3, certificates of P-256, no resumption; {doors.BCRYPT_ROUNDS} rounds of bcrypt; Cassandra with a heap of {given['heap']}\n")
    return "".join(text)
