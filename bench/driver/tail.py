"""Test tail: reads at a fixed rate while nothing else happens, and while something does.

One client reads all the time. What is measured are parts of that, which are told to it as they begin; all parts of a case
count together:

1. Parts take turns: nothing beside the reads, then what a case wants, nothing again, then the next case; and all of that
   again. So every case has the same connections, and its share of what the machine does meanwhile.
2. A compaction or a flush is measured from when its transaction log is in the table's directory until that is gone, and neither
   before nor after: not the start of the tool that asks for it. One that is over before the part is begins again.
3. A case that needs rows in memory has them written first. Nothing is measured then.
"""
import threading
import time

KEYSPACE = "bench"
# Each case is measured in so many parts of so many seconds; what has rows written for it in fewer, and once in each.
PARTS, PART_S, FLUSHES = 6, 2.0, 3
# What is done to the table that is read is measured to its end, but not for longer than this.
LONG_S = 10.0
# For so long nothing is measured before a part, and after rows were written.
BREATH_S, SETTLE_S = 0.5, 3.0
# How often the table's directory is looked at, and how long the tool may take until something happens in it.
LOOK_S, BEGIN_S = 0.01, 30.0
LOAD_IN_FLIGHT = 128


# About how long it takes, after the warm-up, on a server that ends its work in time.
ESTIMATED_S = PARTS * 3 * 2 * (PART_S + BREATH_S) + FLUSHES * (10 + SETTLE_S + 2 * PART_S)


def run(client, server, cases, given, rate, seed, warm_up_s):
    """The runs of all cases; the first of them has nothing beside it."""
    idle, *busy = cases
    beside = {case.name: Beside(client, server, given, case) for case in busy}
    with client.parts(server, idle.workload, given, seed=seed, rate=rate) as reads:
        time.sleep(warm_up_s)
        for turn in range(PARTS):
            for case in busy:
                if beside[case.name].wants_rows and turn >= FLUSHES:
                    continue
                beside[case.name].prepare()
                measure_idle(reads, idle)
                time.sleep(BREATH_S)
                beside[case.name].measure(reads)
                time.sleep(BREATH_S)
        runs = {run["part"]: run for run in reads.end()}
    told = {name: {"beside": work.told()} for name, work in beside.items()}
    return [{"case": case.name, **runs[case.name], **told.get(case.name, {})} for case in cases if case.name in runs]


def measure_idle(reads, case):
    reads.begin(case.name)
    time.sleep(PART_S)
    reads.pause()


class Beside:
    """What happens beside the reads of one case, and for how long it was measured."""

    def __init__(self, client, server, given, case):
        self.client, self.server, self.given, self.case = client, server, given, case
        self.what, self.table = case.beside
        self.wants_rows = self.what == "a flush"
        # The compaction of another table may go on; what is done to the table that is read has to show.
        self.must_end = self.table == "base"
        self.measured_s, self.wanted_s, self.ended = 0.0, 0.0, 0

    def prepare(self):
        if self.wants_rows:
            # All rows once more, in memory.
            self.client.run(self.server, f"load-{self.table}", self.given, in_flight=LOAD_IN_FLIGHT)
            time.sleep(SETTLE_S)

    def measure(self, reads):
        before = self.measured_s
        if self.what == "schema changes":
            self._during(reads, lambda: self.client.alter(self.server, PART_S))
        elif self.wants_rows:
            self._while_logged(reads, "flush", LONG_S)
        else:
            # A tool that finds nothing to do, or takes its time, is not asked for ever.
            until = time.monotonic() + BEGIN_S
            while self.measured_s - before < PART_S and time.monotonic() < until:
                self._while_logged(reads, "compact", LONG_S if self.must_end else PART_S - (self.measured_s - before))
        self.wanted_s += self.measured_s - before if self.wants_rows else PART_S

    def told(self):
        return {"measured_s": round(self.measured_s, 3), "wanted_s": round(self.wanted_s, 3), "ended": self.ended, "must_end": self.must_end}

    def _during(self, reads, work):
        began = time.monotonic()
        reads.begin(self.case.name)
        work()
        reads.pause()
        self.measured_s += time.monotonic() - began
        self.ended += 1

    def _while_logged(self, reads, verb, seconds_max):
        """Measures while nodetool's verb is at work on the table."""
        node = self.server.node
        tool = Tool(node, verb, KEYSPACE, self.table)
        folders = list(node.data_dir.glob(f"**/{KEYSPACE}/{self.table}-*"))
        sign = {"compact": "_txn_compaction_", "flush": "_txn_flush_"}[verb]
        is_at_work = lambda: any(sign in path.name for folder in folders for path in folder.iterdir())  # noqa: E731
        until = time.monotonic() + BEGIN_S
        while not is_at_work() and tool.is_alive() and time.monotonic() < until:
            time.sleep(LOOK_S)
        if is_at_work():
            began = time.monotonic()
            reads.begin(self.case.name)
            while is_at_work() and time.monotonic() - began < seconds_max:
                time.sleep(LOOK_S)
            reads.pause()
            self.measured_s += time.monotonic() - began
            if is_at_work():
                tool.stop()
            else:
                self.ended += 1
        tool.finish()


class Tool(threading.Thread):
    """A call of nodetool that goes on meanwhile."""

    def __init__(self, node, *arguments):
        super().__init__()
        self.node, self.arguments = node, arguments
        self.is_told_to_stop, self.error = False, None
        self.start()

    def run(self):
        try:
            self.node.nodetool(*self.arguments)
        except Exception as error:  # noqa: BLE001: told to who waits for it
            self.error = error

    def stop(self):
        """Compactions are told to stop; then the call may fail."""
        self.is_told_to_stop = True
        if self.arguments[0] == "compact":
            self.node.nodetool("stop", "COMPACTION")

    def finish(self):
        self.join()
        if self.error and not self.is_told_to_stop:
            raise self.error
