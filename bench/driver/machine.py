"""What the figures were taken on: the machine, the versions, the time."""
import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def say(text):
    print(f"bench: {datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def cpu_s(pid):
    """CPU seconds a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ilion_binary():
    """$ILION, else the release build: figures of a debug build say nothing."""
    binary = pathlib.Path(os.environ.get("ILION", ROOT / "target" / "release" / "ilion"))
    if not binary.exists():
        sys.exit(f"bench/run: no {binary}: make build, or name one in $ILION")
    return binary


def describe():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    megahertz = re.search(r"^cpu MHz\s*: (.*)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    virtual = re.search(r"^flags.*\bhypervisor\b", cpuinfo, re.MULTILINE)
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cpu_mhz": float(megahertz.group(1)) if megahertz else None,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "kernel": platform.release(),
        "virtual": bool(virtual),
        "load_average_at_start": os.getloadavg()[0],
    }


def default_cassandra():
    """The version of Cassandra that its launcher starts when none is named."""
    return re.search(r'^DEFAULT_VERSION = "(.*)"$', (ROOT / "conformance" / "cassandra").read_text(), re.MULTILINE).group(1)


def versions(servers, cassandra=None, before=None):
    """What takes part; `cassandra`: the version, if it is not the launcher's own; `before`: another build of Ilion."""
    found = {"commit": output("git", "describe", "--always", "--dirty"), "rustc": output("rustc", "--version")}
    if "cassandra" in servers:
        found["cassandra"] = cassandra or default_cassandra()
        found["java"] = output("java", "-version")
    if before:
        found["before"] = f"{output(before, '--version')}, {before}"
    if "ilion" in servers:
        binary = ilion_binary()
        found["ilion"] = f"{output(binary, '--version')}, {binary.relative_to(ROOT) if binary.is_relative_to(ROOT) else binary}"
    return found


def output(*command):
    """The first line a command prints, on either channel."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    return (done.stdout.splitlines() or [""])[0].strip()


def lines(*command):
    """All that a command prints, line by line; raises if it fails."""
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
