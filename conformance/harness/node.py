"""The nodes under test: how to start one, stop it, and do to it what scripts ask for.

`Target` is what every suite takes. `Cassandra` is a node of `conformance/cassandra`; `Ilion` is our binary; `Remote` is an
address somebody else looks after, on which flush, compact and restart do nothing.
"""
import itertools
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASSANDRA = ROOT / "conformance" / "cassandra"


def free_address(port=9042, first=60):
    """A loopback address on which no node runs (a Cassandra has a port for JMX too), so that suites can run side by side.

    Each process begins its search elsewhere: the node of another suite may be down for a moment and come back. Workers
    of one run (pytest-xdist) have places of their own.
    """
    places = places_of(os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), first)
    turn = os.getpid() * 7 % len(places)
    for last in places[turn:] + places[:turn]:
        address = f"127.0.0.{last}"
        if all(can_bind(*taken) for taken in ((address, port), (address, 7000), ("127.0.0.1", 20000 + last))):
            return address
    raise RuntimeError("no free loopback address")


def places_of(worker, workers, first):
    """The last numbers of the addresses of a worker, or of a process that has no others beside it. No two workers share one,
    wherever their searches begin."""
    turn = int(worker.removeprefix("gw")) if worker else 0
    return [last for last in range(first, 250) if not worker or last % workers == turn]


def can_bind(address, port):
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
            return True
        except OSError:
            return False


def free_port(address="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def ilion_binary():
    """$ILION, else the release build, else the debug build; None if there is none."""
    given = os.environ.get("ILION")
    for path in [given] if given else [ROOT / "target" / kind / "ilion" for kind in ("release", "debug")]:
        if pathlib.Path(path).exists():
            return pathlib.Path(path)
    return None


class Target:
    """A node that answers CQL at `address:port`."""

    name = "target"
    restarts = False
    data_dir = None

    def __init__(self, address, port=9042):
        self.address, self.port = address, port

    def start(self):
        return self

    def stop(self):
        pass

    def flush(self, keyspace=None, table=None):
        pass

    def compact(self, keyspace=None, table=None):
        pass

    def restart(self):
        pass

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Remote(Target):
    """An address only."""


class Cassandra(Target):
    """The real one, of any version that its launcher knows. With `owned=False` it is already running in `directory` and is left
    running. `options` are more options of its JVM."""

    name = "cassandra"

    def __init__(self, directory, address=None, owned=True, settings=(), version="5.0.5", options=""):
        self.directory, self.options = pathlib.Path(directory), options
        super().__init__(address or (self.directory / "address").read_text().strip())
        self.owned, self.settings, self.version = owned, settings, version
        self.restarts = owned
        self.data_dir = self.directory / "data"

    def start(self):
        if self.owned:
            try:
                options = " ".join(filter(None, (os.environ.get("CASSANDRA_OPTIONS"), self.options)))
                run([CASSANDRA, "--version", self.version, "start", self.directory, self.address, *self.settings],
                    env={**os.environ, "CASSANDRA_OPTIONS": options})
            except BaseException:
                self.kill()
                raise
        return self

    def stop(self):
        """Drains it, then ends it."""
        pid = int((self.directory / "pid").read_text())
        if not self.owned or not alive(pid):
            return
        try:
            self.nodetool("drain")
            # Everything is on disk. Asked to end, it takes another two seconds for nothing.
            number = signal.SIGKILL
        except RuntimeError:
            number = signal.SIGTERM
        os.kill(pid, number)
        deadline = time.monotonic() + 60
        while alive(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def kill(self):
        """kill -9, of a node that was started here."""
        if not self.owned:
            raise RuntimeError("only a node that was started here is killed")
        if not (self.directory / "pid").exists():
            return
        pid = int((self.directory / "pid").read_text())
        while alive(pid):
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def restart(self):
        if self.owned:
            self.stop()
            self.start()

    def nodetool(self, *arguments):
        version = (self.directory / "version").read_text().strip()
        return NODETOOL.run(version, ["-h", "127.0.0.1", "-p", jmx_port(self.address), *arguments])

    def flush(self, keyspace=None, table=None):
        self.nodetool("flush", *filter(None, (keyspace, table)))

    def compact(self, keyspace=None, table=None):
        self.flush(keyspace, table)
        self.nodetool("compact", *filter(None, (keyspace, table)))


def jmx_port(address):
    _, _, third, fourth = map(int, address.split("."))
    return 20000 + third * 256 + fourth


class NodeTool:
    """Cassandra's nodetool, in JVMs that stay (`Tools.java`): the start of one takes longer than most verbs.

    Calls may be made from several threads; each has a JVM of its own meanwhile. The JVMs end with this process.
    """

    def __init__(self):
        self.idle, self.lock, self.numbers, self.scratch = {}, threading.Lock(), itertools.count(), None

    def run(self, version, arguments, timeout_s=600):
        """What it prints; raises with that if it fails."""
        with self.lock:
            self.scratch = self.scratch or tempfile.TemporaryDirectory(prefix="nodetool-")
            idle = self.idle.setdefault(version, [])
            jvm = idle.pop() if idle else self.start(version)
        output = pathlib.Path(self.scratch.name) / str(next(self.numbers))
        jvm.stdin.write("\t".join(map(str, [output, "NodeTool", *arguments])) + "\n")
        jvm.stdin.flush()
        said, status = self.wait(jvm, output, time.monotonic() + timeout_s)
        with self.lock:
            idle.append(jvm)
        if status:
            raise RuntimeError(f"nodetool {' '.join(map(str, arguments[4:]))} ended with {status}:\n{said[-6000:]}")
        return said

    def start(self, version):
        return subprocess.Popen([CASSANDRA, "--version", version, "tools"], stdin=subprocess.PIPE, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self, jvm, output, deadline):
        """What a call has printed, and its status, once it is over."""
        while True:
            text = output.read_text(errors="replace") if output.exists() else ""
            if over := re.search(r"\nexit (\d+)$", text):
                output.unlink()
                return text[:over.start()], int(over[1])
            if jvm.poll() is not None or time.monotonic() > deadline:
                jvm.kill()
                raise RuntimeError(f"nodetool came to no end:\n{text[-6000:]}")
            time.sleep(0.005)


NODETOOL = NodeTool()


class Ilion(Target):
    """Our node: one process on its own data directory."""

    name = "ilion"
    restarts = True

    def __init__(self, directory, address=None, binary=None, settings=(), ready_timeout_s=120):
        super().__init__(address or free_address())
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.binary = binary or ilion_binary()
        if self.binary is None:
            raise RuntimeError("no ilion binary: build it, or name one in $ILION")
        self.settings, self.ready_timeout_s = dict(settings), ready_timeout_s
        self.data_dir = self.directory / "data"
        self.admin_port = None
        self.process = None

    def arguments(self):
        """What says where the node is and what it serves."""
        return ["--data-dir", self.directory, "--listen", self.address, "--port", self.port]

    def start(self, *options):
        """Starts it, with more command line options for this once."""
        self.admin_port = free_port()
        log = self.directory / "ilion.log"
        command = [self.binary, "serve", "--admin-port", self.admin_port, *self.arguments(), *options]
        if self.settings:
            config = self.directory / "conformance.yaml"
            config.write_text("".join(f"{k}: {v}\n" for k, v in self.settings.items()))
            command += ["--config", config]
        offset = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            self.process = subprocess.Popen([str(x) for x in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deadline = time.monotonic() + self.ready_timeout_s
        while time.monotonic() < deadline:
            with open(log, "rb") as text:
                text.seek(offset)
                said = text.read().decode(errors="replace")
            if "listening for CQL" in said:
                return self
            if self.process.poll() is not None:
                raise RuntimeError(f"ilion ended with {self.process.returncode} at start:\n{said[-4000:]}")
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"ilion was not ready within {self.ready_timeout_s} s:\n{said[-4000:]}")

    def stop(self):
        """SIGTERM has to drain and end it with status 0."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("ilion did not end within 120 s of SIGTERM") from None
        if status != 0:
            raise RuntimeError(f"ilion ended with {status} after SIGTERM; see {self.directory}/ilion.log")

    def kill(self):
        """kill -9, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        self.stop()
        self.start()

    def nodetool(self, *arguments):
        return run([self.binary, "nodetool", "--admin", f"127.0.0.1:{self.admin_port}", *arguments])

    def metrics(self):
        """Every sample of its metrics, by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def flush(self, keyspace=None, table=None):
        self.nodetool("flush", *filter(None, (keyspace, table)))

    def compact(self, keyspace=None, table=None):
        self.flush(keyspace, table)
        self.nodetool("compact", *filter(None, (keyspace, table)))


def alive(pid):
    """Whether a process runs. One that has ended and was not waited for does not; one whose first thread has ended while others
    still do (a killed JVM takes its time) holds its ports."""
    try:
        threads = [thread.joinpath("stat").read_text() for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}").exists()
    return any(stat.rsplit(")", 1)[-1].split()[0] not in "XZ" for stat in threads)


def run(command, timeout_s=600, env=None):
    """Runs a command to its end and returns its output; raises with the output if it fails."""
    done = subprocess.run([str(x) for x in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=timeout_s, stdin=subprocess.DEVNULL, env=env)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))}... ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def open_target(spec, directory):
    """The target a command line names: `ilion`, `cassandra`, `cassandra:DIR` (running there), or `ADDRESS[:PORT]`."""
    if spec == "ilion":
        return Ilion(directory)
    if spec == "cassandra":
        return Cassandra(directory, free_address(first=40))
    if spec.startswith("cassandra:"):
        return Cassandra(spec.removeprefix("cassandra:"), owned=False)
    address, _, port = spec.partition(":")
    return Remote(address, int(port or 9042))


def complain(text):
    print(text, file=sys.stderr, flush=True)
