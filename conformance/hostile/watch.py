"""What all attacks have in common: the node's settings, somebody who only wants to read a row (`bystander`), and the node's memory."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from harness.frames import QUERY, Frames, long_string, parameters

MIB = 1 << 20
BYSTANDER = pathlib.Path(__file__).with_name("bystander.py")
# Small, so that an attack that gets around a bound shows at once.
SETTINGS = {
    "native_transport_max_request_data_in_flight": "64MiB",
    "native_transport_max_request_data_in_flight_per_ip": "32MiB",
    "native_transport_max_response_data_in_flight": "64MiB",
    "native_transport_max_response_data_in_flight_per_ip": "64MiB",
    "native_transport_startup_timeout": "3s",
    "native_transport_receive_timeout": "3s",
    "prepared_statements_cache_size": "16MiB",
    "memtable_heap_space": "64MiB",
    "file_cache_size": "32MiB",
}
KEYSPACE = "hostile"


def ask(target, statement, version=4):
    """One statement on a connection of its own."""
    with Frames(target, version=version) as frames:
        return frames.ask(QUERY, long_string(statement) + parameters(version))


def prepare(target):
    """The keyspace, and the bystander's row."""
    for statement in (
        f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
        f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.calm (k int PRIMARY KEY, v text)",
        f"INSERT INTO {KEYSPACE}.calm (k, v) VALUES (1, 'calm')",
    ):
        answer = ask(target, statement)
        assert answer.code is None, answer


def status_bytes(node, field):
    """A line of /proc/PID/status."""
    with open(f"/proc/{node.process.pid}/status") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) << 10


def come_first():
    """For the bystander: it waits for the node and not for a processor, as if it came from another machine."""
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Watch:
    """Has a bystander read one row again and again, and looks at the node's memory, for as long as it is entered."""

    def __init__(self, node):
        self.node = node
        self.before_bytes = self.peak_bytes = status_bytes(node, "VmRSS")
        self.stopped = threading.Event()
        self.looking = threading.Thread(target=self.look, daemon=True)
        self.bystander = None
        self.said = tempfile.TemporaryFile("w+")

    def look(self):
        while not self.stopped.wait(0.01):
            try:
                self.peak_bytes = max(self.peak_bytes, status_bytes(self.node, "VmRSS"))
            except (FileNotFoundError, StopIteration):
                return

    def __enter__(self):
        self.bystander = subprocess.Popen([sys.executable, BYSTANDER, self.node.address, str(self.node.port)], stdin=subprocess.PIPE,
                                          stdout=self.said, stderr=self.said, text=True, preexec_fn=come_first)
        self.looking.start()
        while not self.lines() and self.bystander.poll() is None:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.looking.join(60)
        self.bystander.stdin.close()
        try:
            self.bystander.wait(60)
        except subprocess.TimeoutExpired:
            self.bystander.kill()
            self.bystander.wait()

    def lines(self):
        """What the bystander has said so far: (seconds, what it was if not the row), or (None, an error)."""
        size = os.fstat(self.said.fileno()).st_size
        out = []
        for line in os.pread(self.said.fileno(), size, 0).decode().splitlines(keepends=True):
            took_s, _, other = line.rstrip("\n").partition(" ")
            try:
                out.append((float(took_s), other))
            except ValueError:
                out.append((None, line))
        return out

    @property
    def answers(self):
        return sum(took_s is not None and not other for took_s, other in self.lines())

    @property
    def others(self):
        """Answers that are not the row, and how the bystander ended if not well."""
        return [other for _, other in self.lines() if other]

    @property
    def growth_bytes(self):
        return self.peak_bytes - self.before_bytes

    @property
    def p99_s(self):
        ordered = sorted(took_s for took_s, _ in self.lines() if took_s is not None) or [0.0]
        return ordered[len(ordered) * 99 // 100]


@contextlib.contextmanager
def elsewhere():
    """For attacks: what they compute in this thread takes no processor from the node and the bystander, as if they came from another
    machine."""
    if os.geteuid() != 0:
        # Who is not root cannot take it back.
        yield
        return
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def send_what_goes(sockets, pieces, seconds):
    """Sends each socket its bytes as far as they are taken, for so long. Returns the sockets that the node has closed."""
    left = {each: memoryview(piece) for each, piece in zip(sockets, pieces)}
    closed, end = set(), time.monotonic() + seconds
    for each in sockets:
        each.setblocking(False)
    while time.monotonic() < end and any(left[each] for each in left if each not in closed):
        moved = False
        for each in left:
            if each in closed or not left[each]:
                continue
            try:
                sent = each.send(left[each][:1 << 18])
                left[each] = left[each][sent:]
                moved = True
            except BlockingIOError:
                pass
            except OSError:
                closed.add(each)
        if not moved:
            time.sleep(0.01)
    return closed


def closed_after_drips(sockets, byte, drips, pause_s):
    """Sends each socket a byte now and then; how many of them the node closed meanwhile."""
    closed = set()
    for _ in range(drips):
        if len(closed) == len(sockets):
            break
        time.sleep(pause_s)
        for each in set(sockets) - closed:
            each.setblocking(False)
            try:
                each.send(byte)
                if each.recv(1 << 16) == b"":
                    closed.add(each)
            except BlockingIOError:
                pass
            except OSError:
                closed.add(each)
    return len(closed)
