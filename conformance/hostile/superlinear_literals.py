"""Literals and conditions whose cost grows faster than their length."""
from harness.frames import QUERY, Frames, long_string, parameters

from .watch import KEYSPACE, MIB, ask

GROWTH_BYTES_MAX = 200 * MIB
ANSWERS_MIN = 20
INVALID, SYNTAX = 0x2200, 0x2000
DIGITS, KEYS, CONDITIONS = 1_600_000, 40_000, 20_000


def prepare(node):
    table = f"{KEYSPACE}.literals"
    answer = ask(node, f"CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY, v varint, m map<text, int>)")
    assert answer.code is None, answer
    keys = ", ".join(f'"key_{n}": {n}' for n in range(KEYS))
    conditions = " AND ".join(["v = 1"] * CONDITIONS)
    return [
        f"INSERT INTO {table} (k, v) VALUES (1, {'7' * DIGITS})",
        f"INSERT INTO {table} JSON '{{\"k\": 1, {keys}}}'",
        f"INSERT INTO {table} JSON '{{\"k\": 1, \"m\": {{{keys}}}}}'",
        f"UPDATE {table} SET v = 2 WHERE k = 1 IF {conditions}",
    ]


def attack(node, statements):
    for statement in statements:
        with Frames(node, version=4, timeout_s=60) as frames:
            answer = frames.ask(QUERY, long_string(statement) + parameters(4))
            assert answer.code in (None, INVALID, SYNTAX), answer
