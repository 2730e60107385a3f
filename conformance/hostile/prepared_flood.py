"""Hundreds of statements whose plans are far longer than their texts are prepared and never executed."""
from harness.frames import PREPARE, Frames, long_string

from .watch import KEYSPACE, MIB, ask

# The cache, what one statement takes while it is prepared, and what an allocator keeps.
GROWTH_BYTES_MAX = (16 + 50) * MIB
ANSWERS_MIN = 100
COLUMNS, STATEMENTS = 2_000, 200


def prepare(node):
    columns = "".join(f", column_number_{n} int" for n in range(COLUMNS))
    answer = ask(node, f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.wide (k int PRIMARY KEY{columns})")
    assert answer.code is None, answer
    return [f"SELECT * FROM {KEYSPACE}.wide WHERE k = {n}" for n in range(STATEMENTS)]


def attack(node, statements):
    with Frames(node, version=4) as frames:
        for statement in statements:
            answer = frames.ask(PREPARE, long_string(statement))
            assert answer.kind == "prepared", answer
