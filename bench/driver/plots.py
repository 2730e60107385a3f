"""The plots of a report, as SVG."""
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

from . import rounds  # noqa: E402

COLORS = {"cassandra": "#888888", "ilion": "#c02020"}
# File: what it shows.
NAMES = {
    "locality.svg": "Median latency of each case over the rows of the partition",
    "base.svg": "Point reads: throughput and p99 latency over operations in flight",
    "columns.svg": "Median latency of one column over the number of columns",
}


def draw(results, folder):
    """Draws what there are figures for, and remembers which plots there are."""
    pyplot.rcParams.update({"svg.hashsalt": "report", "font.size": 8})
    drawn = {"locality.svg": locality(results), "base.svg": base(results), "columns.svg": columns(results)}
    results["plots"] = [name for name, figure in drawn.items() if figure]
    for name, figure in drawn.items():
        if figure:
            figure.tight_layout()
            figure.savefig(folder / name, metadata={"Date": None})
            pyplot.close(figure)
            shorten(folder / name)


def shorten(drawing):
    """Coordinates to a hundredth of a point, which nobody sees, and no indentation."""
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", drawing.read_text())
    drawing.write_text(re.sub(r"\n\s+", "\n", text))


def runs(results, server, test):
    return results["servers"].get(server, {}).get("tests", {}).get(test, [])


def latency(run, what):
    return rounds.middle(run, lambda one: one["latency_us"][what])


def locality(results):
    by_case = {}
    for server in COLORS:
        for run in runs(results, server, "locality"):
            workload, rows = run["case"].removesuffix(" rows").split(", ", 1)
            by_case.setdefault(workload, {}).setdefault(server, []).append((int(rows.replace(",", "")), latency(run, "p50")))
    if not by_case:
        return None
    figure, axes = pyplot.subplots(2, 5, figsize=(13, 5), sharex=True, sharey=True)
    for axis, (workload, series) in zip(axes.flat, by_case.items()):
        for server, points in series.items():
            axis.loglog(*zip(*sorted(points)), marker="o", markersize=3, color=COLORS[server], label=server)
        axis.set_title(workload)
        axis.grid(True, alpha=0.3)
    axes.flat[0].legend()
    figure.supxlabel("rows of the partition")
    figure.supylabel("p50 us")
    return figure


def base(results):
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    found = False
    for server, color in COLORS.items():
        closed = [run for run in runs(results, server, "base") if run["in_flight"]]
        if not closed:
            continue
        found = True
        loads = [run["in_flight"] for run in closed]
        left.semilogx(loads, [rounds.middle(run, lambda one: one["operations_per_s"]) for run in closed], marker="o", color=color, label=server, base=2)
        right.loglog(loads, [latency(run, "p99") for run in closed], marker="o", color=color, label=server, base=2)
    for axis, name in ((left, "reads/s"), (right, "p99 us")):
        axis.set_xlabel("in flight")
        axis.set_ylabel(name)
        axis.grid(True, alpha=0.3)
        if found:
            axis.legend()
    return figure if found else None


def columns(results):
    figure, axis = pyplot.subplots(figsize=(5, 3.5))
    found = False
    styles = {"first": "-", "middle": "--", "last": ":"}
    for server, color in COLORS.items():
        for place, style in styles.items():
            points = [(int(run["case"].split(":")[1]), latency(run, "p50")) for run in runs(results, server, "columns")
                      if run["case"].endswith(f":{place}")]
            if points:
                found = True
                axis.semilogy(*zip(*sorted(points)), style, marker="o", markersize=3, color=color, label=f"{server}, {place}")
    axis.set_xlabel("columns of 100 KiB")
    axis.set_ylabel("p50 us")
    axis.grid(True, alpha=0.3)
    if found:
        axis.legend()
    return figure if found else None
