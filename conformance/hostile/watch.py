"""What all attacks have in common: the node's settings, somebody who only wants to read a row, and the node's memory."""
import threading
import time

from harness.frames import QUERY, Frames, long_string, parameters

MIB = 1 << 20
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


class Watch:
    """Reads one row again and again, and looks at the node's memory, for as long as it is entered."""

    def __init__(self, node):
        self.node = node
        self.answers, self.others, self.times_s = 0, [], []
        self.before_bytes = self.peak_bytes = status_bytes(node, "VmRSS")
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.read, self.look)]

    def read(self):
        statement = long_string(f"SELECT v FROM {KEYSPACE}.calm WHERE k = 1") + parameters(4)
        try:
            with Frames(self.node, version=4) as frames:
                while not self.stopped.is_set():
                    begun = time.monotonic()
                    answer = frames.ask(QUERY, statement)
                    self.times_s.append(time.monotonic() - begun)
                    if answer.rows == [[b"calm"]]:
                        self.answers += 1
                    else:
                        self.others.append(repr(answer))
                    self.stopped.wait(0.002)
        except Exception as error:  # whatever it is, the test tells it
            self.others.append(repr(error))

    def look(self):
        while not self.stopped.wait(0.01):
            try:
                self.peak_bytes = max(self.peak_bytes, status_bytes(self.node, "VmRSS"))
            except (FileNotFoundError, StopIteration):
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)

    @property
    def growth_bytes(self):
        return self.peak_bytes - self.before_bytes

    @property
    def p99_s(self):
        ordered = sorted(self.times_s) or [0.0]
        return ordered[len(ordered) * 99 // 100]


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
