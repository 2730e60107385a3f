"""IN by IN by IN: a short statement that asks for a million keys or rows."""
import time

from harness.frames import QUERY, Frames, long_string, parameters

from .watch import KEYSPACE, MIB, ask

GROWTH_BYTES_MAX = 200 * MIB
ANSWERS_MIN = 20
# Each is refused at once, so they are sent again and again.
ATTACK_S = 2
INVALID, READ_TIMEOUT = 0x2200, 0x1200


def prepare(node):
    answer = ask(node, f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.products "
                       "(a int, b int, c int, d int, e int, v int, PRIMARY KEY ((a, b, c), d, e))")
    assert answer.code is None, answer
    numbers = lambda count: "(" + ",".join(map(str, range(count))) + ")"  # noqa: E731
    table = f"{KEYSPACE}.products"
    return [
        f"SELECT v FROM {table} WHERE a IN {numbers(100)} AND b IN {numbers(100)} AND c IN {numbers(100)}",
        f"SELECT v FROM {table} WHERE a = 1 AND b = 1 AND c = 1 AND d IN {numbers(1000)} AND e IN {numbers(1000)}",
        f"DELETE FROM {table} WHERE a IN {numbers(100)} AND b IN {numbers(100)} AND c IN {numbers(100)}",
    ]


def attack(node, statements):
    ends = time.monotonic() + ATTACK_S
    while time.monotonic() < ends:
        for statement in statements:
            with Frames(node, version=4, timeout_s=60) as frames:
                answer = frames.ask(QUERY, long_string(statement) + parameters(4))
                assert answer.code in (None, INVALID, READ_TIMEOUT), answer
