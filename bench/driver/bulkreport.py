"""From the runs of bulk reading to a report: `bulk.json` with everything, `bulk.md` for people, plots beside it.

A figure is the median of the rounds, a ratio the median of the rounds' ratios. The least and the greatest stand in brackets.
"""
import json
import statistics

from . import bulkplan, bulktables, plots, rounds
from .report import NOISE_MAX, keep, set_up, shown, table

WRITERS = bulktables.WRITERS
MIB = 2**20
COLORS = {"ilion": "#c02020", "cassandra": "#2060a0", "published": "#888888"}
PLOTS = {
    "bulk.svg": "Million rows a second from SSTables to record batches, and what reads the same rows beside",
    "partitions.svg": "MB/s of one thread over the size of partitions, and what was published of Cassandra",
}


def write(results, folder):
    keep(results, folder, "bulk.json")
    return render(folder)


def render(folder):
    """Writes everything but the JSON; returns what makes the figures doubtful."""
    results = json.loads((folder / "bulk.json").read_text())
    results["bars"] = judge(results)
    results["problems"] = problems(results)
    draw(results, folder)
    (folder / "bulk.md").write_text(markdown(results))
    return results["problems"]


def rate(run):
    return run["rows"] / run["seconds"]


def seconds(run):
    return run["seconds"]


def cpu(run):
    return run["cpu_s"]


def rows_per_cpu_s(run):
    return run.get("rows_per_cpu_s") or run["rows"] / run["cpu_s"]


class Judge:
    """Bars over the rounds of two runs."""

    def __init__(self, results):
        self.runs, self.found = results["runs"], []

    def run(self, name):
        return self.runs.get(name)

    def ratio(self, what, figure, ours, theirs, least=None, most=None, divide_by=None):
        """A bar for the ratio of ours over theirs; `divide_by` is the figure of theirs where it is another."""
        ours, theirs = self.run(ours), self.run(theirs)
        if ours and theirs:
            pairs = [(figure(our), (divide_by or figure)(their)) for our, their in zip(rounds.of(ours), rounds.of(theirs))]
            self.bar(what, [our / their for our, their in pairs if their], least, most)

    def value(self, what, figure, name, most, unit):
        if run := self.run(name):
            self.bar(what, [figure(one) for one in rounds.of(run)], None, most, unit)

    def bar(self, what, values, least, most, unit=""):
        if not values:
            return
        middle = statistics.median(values)
        digits = 0 if unit else 2
        spread = f" ({min(values):,.{digits}f}-{max(values):,.{digits}f})" if len(values) > 1 else ""
        bound = f"at least {least:g}" if least is not None else f"at most {most:.3g}"
        met = middle >= least if least is not None else middle <= most
        self.found.append({"what": what, "found": f"{middle:,.{digits}f}{spread}{unit}", "values": values, "bar": bound + unit, "met": met})


def judge(results):
    """[{what, found, values, bar, met}] for every bar whose runs are there."""
    bars = Judge(results)
    for writer in WRITERS:
        of = f"{writer}'s files"
        one = f"scan, one, all columns, {writer}"
        for name in ("one", "wide"):
            bars.ratio(f"rows/s over pyarrow's from Parquet: `{name}`, {of}", rate, f"scan, {name}, all columns, {writer}",
                       f"pyarrow from Parquet, {name}", least=2)
        bars.ratio(f"rows for a CPU second over Ilion's CQL scan: {of}", rows_per_cpu_s, f"scan beside CQL, one, {writer}", f"CQL, ilion, {writer}", least=2)
        bars.ratio(f"rows/s over cqlite's: `one`, {of}", rate, one, f"cqlite, one, {writer}", least=10)
        bars.ratio(f"rows/s over cqlite's: `four`, {of}", rate, f"scan, four, all columns, {writer}", f"cqlite, four, {writer}", least=20)
        bars.ratio(f"four SSTables over one, time: {of}", seconds, f"scan, four, all columns, {writer}", one, most=1.6)
        bars.ratio(f"two of six columns over all, time: {of}", seconds, f"scan, one, two columns, {writer}", one, most=0.6)
        bars.ratio(f"two threads over one, rows/s: {of}", rate, f"scan, one, two threads, {writer}", one, least=1.8)
        for name in ("one", "wide"):
            bars.ratio(f"Flight DoGet to pyarrow over the bare scan, rows/s: `{name}`, {of}", rate, f"Flight, DoGet to pyarrow, {name}, {writer}",
                       f"scan beside Flight, {name}, {writer}", least=0.7)
            bars.ratio(f"`ilion export` to Parquet over pyarrow that writes the same batches, CPU: `{name}`, {of}", cpu,
                       f"ilion export, {name}, {writer}", f"pyarrow to Parquet, {name}", most=1.1)
        for name in ("one", "wide", "huge"):
            bars.value(f"memory of a node above idle while the table leaves by Flight: `{name}`, {of}", lambda run: run["above_idle_bytes"] / MIB,
                       f"memory, {name}, {writer}", 256, " MiB")
            for way in ("ilion sql --dir", "Flight"):
                bars.value(f"LIMIT {bulkplan.LIMIT} on a cold table, {way}: `{name}`, {of}", lambda run: run["seconds"] * 1000,
                           f"{way}, LIMIT {bulkplan.LIMIT}, {name}, {writer}", 50, " ms")
        for name in ("one", "four"):
            bars.ratio(f"`count(*)` over a scan of all columns, CPU: `{name}`, {of}", cpu, f"count(*), {name}, {writer}",
                       f"scan beside count, {name}, {writer}", most=1 / 3)
        bars.ratio(f"a scan of no column over all, CPU: `one`, {of}", cpu, f"scan, one, no column, {writer}", one, most=1 / 3)
    idle = next((name for name in results["runs"] if name.startswith("point reads") and name.endswith(", idle")), "")
    bars.ratio("p99 of point reads at half of the capacity: under a scan by Flight over without", lambda run: run["p99_us"],
               idle.replace(", idle", ", scan"), idle, most=1.3)
    # What is asked of both writers' files stands together.
    kinds = list(dict.fromkeys(bar["what"].split(":")[0] for bar in bars.found))
    return sorted(bars.found, key=lambda bar: kinds.index(bar["what"].split(":")[0]))


def problems(results):
    """What makes figures doubtful."""
    found = list(results["failures"])
    noisy = {}
    for name, run in results["runs"].items():
        others = [one["others"] for one in run["rounds"] if "others" in one]
        if others and statistics.median(others) > NOISE_MAX:
            noisy.setdefault(run["test"], []).append((statistics.median(others), name))
        cached = [one.get("cached_bytes", 0) for one in run["rounds"]]
        if max(cached) > MIB:
            found.append(f"{name}: {max(cached) / MIB:.0f} MiB of the files were still in memory")
    for test, runs in noisy.items():
        share, name = max(runs)
        more = f", and too much in {len(runs) - 1} more runs" if len(runs) > 1 else ""
        found.append(f"{test}: others took {share:.0%} of the machine's time in {name}{more}")
    return found


def spread(run, figure, digits):
    values = [figure(one) for one in run["rounds"]]
    least, most = (shown(bound, digits) for bound in (min(values), max(values)))
    return shown(statistics.median(values), digits) + (f" ({least}-{most})" if len(values) > 1 else "")


# Column, the key of a run that it wants, how to get it, digits.
COLUMNS = (
    ("million rows/s", "seconds", lambda run: rate(run) / 1e6, 2),
    ("seconds", "seconds", seconds, 3),
    ("CPU s", "cpu_s", cpu, 3),
    ("server CPU s", "server_cpu_s", lambda run: run["server_cpu_s"], 2),
    ("MB/s", "mb_per_s", lambda run: run["mb_per_s"], 0),
    ("million rows/server CPU s", "rows_per_cpu_s", lambda run: run["rows_per_cpu_s"] / 1e6, 3),
    ("MiB above idle", "above_idle_bytes", lambda run: run["above_idle_bytes"] / MIB, 0),
    ("its own MiB above idle", "own_above_idle_bytes", lambda run: run["own_above_idle_bytes"] / MIB, 0),
    ("idle MiB", "idle_bytes", lambda run: run["idle_bytes"] / MIB, 0),
    ("peak MiB of the process", "peak_bytes", lambda run: run["peak_bytes"] / MIB, 0),
    ("p50 us", "p50_us", lambda run: run["p50_us"], 0),
    ("p99 us", "p99_us", lambda run: run["p99_us"], 0),
    ("p99.9 us", "p99_9_us", lambda run: run["p99_9_us"], 0),
)


# A handful of rows, or one that says how many there are.
MEANINGLESS = {("first", "million rows/s"), ("count", "million rows/s")}


def with_sizes(results):
    """Runs over partitions say how many bytes of values came in a second."""
    sizes = {(one["name"], one["writer"]): one["value_bytes"] for one in results["tables"]}
    for name in bulktables.PARTITIONS:
        for writer in WRITERS:
            if run := results["runs"].get(f"scan, partitions of {name}, {writer}"):
                for one in run["rounds"]:
                    one["mb_per_s"] = sizes[name, writer] / one["seconds"] / 1e6
    return results


def draw(results, folder):
    with_sizes(results)
    plots.pyplot.rcParams.update({"svg.hashsalt": "bulk", "font.size": 8})
    drawn = {"bulk.svg": rates_plot(results), "partitions.svg": partitions_plot(results)}
    results["plots"] = [name for name, figure in drawn.items() if figure]
    for name in results["plots"]:
        figure = drawn[name]
        figure.tight_layout()
        figure.savefig(folder / name, metadata={"Date": None})
        plots.pyplot.close(figure)
        plots.shorten(folder / name)


def rates_plot(results):
    names = [name for name, run in results["runs"].items() if run["test"] == "read"]
    if not names:
        return None
    figure, axis = plots.pyplot.subplots(figsize=(8, 0.22 * len(names) + 0.8))
    values = [statistics.median(map(rate, results["runs"][name]["rounds"])) / 1e6 for name in names]
    colors = [COLORS.get(name.rsplit(", ", 1)[-1], COLORS["published"]) if name.startswith("scan") else COLORS["published"] for name in names]
    axis.barh(names, values, color=colors)
    axis.invert_yaxis()
    axis.set_xlabel("million rows/s")
    axis.grid(True, axis="x", alpha=0.3)
    return figure


def partitions_plot(results):
    series = {writer: [] for writer in WRITERS}
    for name in bulktables.PARTITIONS:
        for writer in WRITERS:
            run = results["runs"].get(f"scan, partitions of {name}, {writer}")
            series[writer].append(statistics.median(one["mb_per_s"] for one in run["rounds"]) if run else 0)
    if not any(map(any, series.values())):
        return None
    series["published"] = [published for _, _, published in bulktables.PARTITIONS.values()]
    figure, axis = plots.pyplot.subplots(figsize=(8, 3.2))
    for number, (writer, values) in enumerate(series.items()):
        axis.bar([place + (number - 1) * 0.27 for place in range(len(values))], values, 0.27, color=COLORS[writer],
                 label={"published": "Cassandra, published"}.get(writer, f"files of {writer}"))
    axis.set_xticks(range(len(bulktables.PARTITIONS)), [name.replace(" of", "\nof") for name in bulktables.PARTITIONS])
    axis.set_yscale("log")
    axis.set_ylabel("MB/s")
    axis.grid(True, axis="y", alpha=0.3)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(series))
    return figure


def markdown(results):
    given = results["parameters"]
    text = ["# Whole tables\n\n", f"`{results['command']}`, {results['started']} to {results['ended']}.\n\n",
            "How the figures are made and what they mean: [docs/BENCH.md](../../docs/BENCH.md#whole-tables). "
            "Each is the median of the rounds; the least and the greatest stand in brackets.\n\n"]
    if results["problems"]:
        text += ["**These figures are doubtful:**\n\n", *(f"* {problem}\n" for problem in results["problems"]), "\n"]
    if results["bars"]:
        text.append("## What it should reach\n\n")
        text.append(table(["", "found", "bar", ""], [[bar["what"], bar["found"], bar["bar"], "met" if bar["met"] else "**not met**"]
                                                   for bar in results["bars"]]))
    text += [f"![{caption}]({name})\n\n" for name, caption in PLOTS.items() if name in results["plots"]]
    text.append("## Figures\n\n")
    for test in given["tests"]:
        runs = {name: run for name, run in results["runs"].items() if run["test"] == test}
        if not runs:
            continue
        keys = {key for run in runs.values() for one in run["rounds"] for key in one}
        columns = [column for column in COLUMNS if column[1] in keys and (test, column[0]) not in MEANINGLESS]
        text.append(f"**{test}**: {bulkplan.TESTS[test].what}\n\n")
        text.append(table(["", *(name for name, *_ in columns)], [
            [name, *(spread(run, figure, digits) if key in run["rounds"][0] else "-" for _, key, figure, digits in columns)]
            for name, run in runs.items()]))
    if any(run["test"] == "partitions" for run in results["runs"].values()):
        text.append("Published for Cassandra, MB/s: " + "; ".join(f"{name} {published}" for name, (*_, published) in bulktables.PARTITIONS.items())
                    + ".\n\n")
    text.append("## Tables\n\n")
    text.append(table(["", "MiB of values", *(f"MiB on disk, {writer}" for writer in WRITERS)], table_rows(results)))
    text += set_up(results)
    text.append(f"* {given['rounds']} rounds ({given['cqlite_rounds']} of cqlite); LZ4 in chunks of {bulktables.CHUNK_KIB} KiB; "
                f"Cassandra with a heap of {given['heap']}\n")
    return "".join(text)


def table_rows(results):
    by_name = {}
    for one in results["tables"]:
        by_name.setdefault(one["name"], {})[one["writer"]] = one
    return [[f"`{name}`: {next(iter(of.values()))['what']}", shown(next(iter(of.values()))["value_bytes"] / MIB, 0),
             *(shown(of[writer]["disk_bytes"] / MIB, 0) if writer in of else "-" for writer in WRITERS)] for name, of in by_name.items()]
