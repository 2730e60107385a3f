"""Hundreds of answers of 8 MiB are asked for at once, and none is read: over one connection, then over several."""
import time

from harness.frames import QUERY, Frames, long_string, parameters

from .watch import KEYSPACE, MIB, ask

# The answers that the node may have, one that goes on without room, and what an allocator keeps for the readers' threads.
GROWTH_BYTES_MAX = (64 + 16 + 160) * MIB
ANSWERS_MIN = 100
ROWS = 8


def prepare(node):
    ask(node, f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.large (k int, c int, v text, PRIMARY KEY (k, c))")
    for row in range(ROWS):
        answer = ask(node, f"INSERT INTO {KEYSPACE}.large (k, c, v) VALUES (1, {row}, '{'x' * MIB}')")
        assert answer.code is None, answer


def attack(node, _):
    read = long_string(f"SELECT v FROM {KEYSPACE}.large WHERE k = 1") + parameters(4)
    for connections, requests, seconds in ((1, 300, 3), (8, 40, 3)):
        greedy = [Frames(node, version=4) for _ in range(connections)]
        for frames in greedy:
            frames.send(b"".join(frames.envelope(QUERY, read) for _ in range(requests)))
        time.sleep(seconds)
        for frames in greedy:
            frames.socket.close()
    answer = ask(node, f"SELECT v FROM {KEYSPACE}.large WHERE k = 1")
    assert len(answer.rows) == ROWS, answer
