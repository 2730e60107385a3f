"""Commit logs as a machine that lost power, or a failing disk, leaves them: torn tails are passed over, damage in what had been
synced is named and stops the start."""
import random
import re

import pytest

from harness.node import Ilion
from harness.wire import Wire

ROWS = 200


def value(n):
    return f"{n}-" + chr(97 + n % 26) * 150


@pytest.fixture
def crashed(needs_ilion, tmp_path):
    """A killed node whose rows are all in the commit log, synced; its last segment, and where its content ends."""
    node = Ilion(tmp_path / "node", settings={"commitlog_sync": "batch", "commitlog_segment_size": "1MiB"})
    with node:
        wire = Wire(node.address, node.port)
        wire.must("CREATE KEYSPACE damage WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        wire.must("CREATE TABLE damage.t (k int PRIMARY KEY, v text)")
        for n in range(ROWS):
            wire.must(f"INSERT INTO damage.t (k, v) VALUES ({n}, '{value(n)}')")
        node.kill()
        last = value(ROWS - 1).encode()
        segments = [p for p in (node.directory / "commitlog").glob("CommitLog-*.log") if last in p.read_bytes()]
        assert len(segments) == 1
        yield node, segments[0], len(segments[0].read_bytes().rstrip(b"\0"))


def rows(node):
    wire = Wire(node.address, node.port)
    reply = wire.pages(lambda state: wire.query("SELECT k, v FROM damage.t", paging_state=state))
    wire.close()
    assert reply.kind == "rows", reply.error
    found = {int.from_bytes(k, "big"): v.decode() for k, v in reply.rows}
    assert all(v == value(k) for k, v in found.items())
    return set(found)


def test_garbage_behind_the_end(crashed):
    node, segment, end = crashed
    content = bytearray(segment.read_bytes())
    content[end + 1:end + 4001] = random.Random(1).randbytes(4000)
    segment.write_bytes(content)
    node.start()
    assert rows(node) == set(range(ROWS))
    node.restart()
    assert rows(node) == set(range(ROWS))


@pytest.mark.parametrize("cut", [1, 5, 9, 60, 300, 5000])
def test_a_torn_end(crashed, cut):
    """What the cut took is gone, and nothing else."""
    node, segment, end = crashed
    content = segment.read_bytes()
    left = content[:end - cut]
    segment.write_bytes(left + (bytes(len(content) - len(left)) if cut % 2 else b""))
    node.start()
    whole = {n for n in range(ROWS) if left.rfind(value(n).encode()) >= 0}
    assert rows(node) >= whole - {max(whole)}
    assert rows(node) <= whole
    node.kill()
    node.start()
    assert rows(node) >= whole - {max(whole)}


@pytest.mark.parametrize("row", [0, 100, 150])
def test_a_flipped_bit(crashed, row):
    node, segment, _ = crashed
    content = bytearray(segment.read_bytes())
    at = content.find(value(row).encode()) + 20
    content[at] ^= 4
    segment.write_bytes(content)
    with pytest.raises(RuntimeError) as refused:
        node.start()
    named = re.search(re.escape(segment.name) + r" is corrupt at offset (\d+)", str(refused.value))
    assert named and abs(int(named[1]) - at) < 300, refused.value
    content[at] ^= 4
    segment.write_bytes(content)
    node.start()
    assert rows(node) == set(range(ROWS))


def test_damage_is_skipped_when_told_so(crashed):
    node, segment, _ = crashed
    content = bytearray(segment.read_bytes())
    content[content.find(value(100).encode()) + 20] ^= 4
    segment.write_bytes(content)
    node.start("--ignore-replay-errors")
    assert rows(node) == set(range(ROWS)) - {100}
    node.kill()
    node.start()
    assert rows(node) == set(range(ROWS)) - {100}
