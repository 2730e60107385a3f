#!/usr/bin/env python3
"""How long tests take: lines that every step appends to one file, and the table that is made of them.

    times.py FILE                      print the table of a file
    times.py FILE --run STEP COMMAND   run a command, and append its line

The file is named by $ILION_TIMES; without it nothing is recorded. A line is JSON of one of two kinds:

    {"step": "clippy", "wall_s": 61.2, "cpu_s": 97.0, "ended_s": 1790000000.0}                  a step, beginning to end
    {"step": "conformance", "group": "test_top.py", "test": "test_keys", ...}                   a test of a step

Steps are the rows of the table, groups the rows below their step, and tests make the list of the slowest. Who cannot
write a line goes on without it: times are told, they decide nothing. CPU time is that of a process and its children;
a real Cassandra outlives who starts it, and is in no row.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

SLOWEST = 10
TICKS = os.sysconf("SC_CLK_TCK")


def append(path, **line):
    """Adds a line in one piece, so that several processes may do so."""
    try:
        with open(path, "a") as file:
            file.write(json.dumps({**line, "ended_s": time.time()}) + "\n")
    except OSError as error:
        print(f"times: {path}: {error}", file=sys.stderr)


def read(path):
    """The lines that can be read: [dict]."""
    lines = []
    try:
        for text in pathlib.Path(path).read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
                line = {**line, "step": str(line["step"]),
                        **{name: float(line.get(name) or 0) for name in ("wall_s", "cpu_s", "ended_s")}}
            except (ValueError, TypeError, KeyError):
                continue
            lines.append(line)
    except OSError:
        pass
    return lines


def table(lines):
    """The report: a row for each step and group, the total, and the slowest tests."""
    steps = {}
    for line in lines:
        rows = steps.setdefault(line["step"], {})
        row = rows.setdefault(line.get("group"), [0.0, 0.0])
        row[0] += line["wall_s"]
        row[1] += line["cpu_s"]
    out = [f"{'wall s':>8} {'CPU s':>8}  step"]
    for step, rows in steps.items():
        # A step that ended early has written no line of its own.
        wall_s, cpu_s = rows.pop(None, (None, None))
        out.append(f"{shown(wall_s)} {shown(cpu_s)}  {step}")
        out += [f"{shown(wall)} {shown(cpu)}    {group}" for group, (wall, cpu) in sorted(rows.items(), key=lambda row: -row[1][0])]
    if lines:
        own = [line for line in lines if "group" not in line] or lines
        wall_s = max(line["ended_s"] for line in lines) - min(line["ended_s"] - line["wall_s"] for line in lines)
        out.append(f"{shown(wall_s)} {shown(sum(line['cpu_s'] for line in own))}  from the first step to the last")
    tests = sorted((line for line in lines if "test" in line), key=lambda line: -line["wall_s"])[:SLOWEST]
    if tests:
        out += ["", f"The {len(tests)} slowest:"]
        out += [f"{shown(line['wall_s'])} {shown(line['cpu_s'])}    {line.get('group')}: {line['test']}" for line in tests]
    return "\n".join(out)


def shown(seconds):
    return f"{'-':>8}" if seconds is None else f"{seconds:8.1f}"


def cpu_of_tree(pid=None):
    """CPU seconds of a process (this one) and of all that it started, ended or not."""
    if pid is None:
        now = os.times()
        return now.user + now.system + now.children_user + now.children_system + sum(map(cpu_of_tree, children(os.getpid())))
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    # proc(5): utime, stime, cutime and cstime are the fields 14 to 17, and the state behind the name is the third.
    return sum(map(int, fields[11:15])) / TICKS + sum(map(cpu_of_tree, children(pid)))


def children(pid):
    """The processes that a process has started and that still run; none where the kernel does not tell."""
    found = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except OSError:
            continue
    return found


class Watch:
    """Reads wall and CPU seconds since it was made."""

    def __init__(self):
        self.started_s, self.cpu_s = time.monotonic(), cpu_of_tree()

    def read(self):
        return {"wall_s": round(time.monotonic() - self.started_s, 2), "cpu_s": round(max(0.0, cpu_of_tree() - self.cpu_s), 2)}


def main():
    path, rest = sys.argv[1], sys.argv[2:]
    if rest[:1] != ["--run"]:
        print(table(read(path)))
        return 0
    watch = Watch()
    status = subprocess.run(rest[2:], check=False).returncode
    append(path, step=rest[1], **watch.read())
    return status


if __name__ == "__main__":
    sys.exit(main())
