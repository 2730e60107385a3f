"""A disk that fills up under load: a clear error, nothing acknowledged is lost, and service resumes with space.

The disk is a small file system in memory; the tests are skipped where this process may not mount one.
"""
import os
import random
import subprocess
import time

import pytest

from harness.node import Ilion
from harness.wire import Wire

SETTINGS = {"memtable_heap_space": "8MiB", "commitlog_segment_size": "4MiB", "commitlog_total_space": "16MiB",
            "write_request_timeout": "1000ms"}
WRITE_FAILURE, WRITE_TIMEOUT, OVERLOADED = 0x1500, 0x1100, 0x1001


@pytest.fixture
def disk(needs_ilion, tmp_path):
    """An empty disk of 64 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def insert(wire, n):
    """A row that a compressor cannot make small."""
    return wire.query(f"INSERT INTO filled.t (k, c, v) VALUES ({n % 50}, {n}, 0x{random.Random(n).randbytes(700).hex()})")


def numbers(wire):
    reply = wire.pages(lambda state: wire.query("SELECT c FROM filled.t", fetch_size=1000, paging_state=state))
    assert reply.kind == "rows", reply.error
    return {int.from_bytes(row[0], "big") for row in reply.rows}


@pytest.mark.parametrize("sync, left_free", [("periodic", "0MiB"), ("batch", "50MiB")])
def test_full_disk(disk, sync, left_free):
    """Once with compactions that fill the disk too, once without any: it is smaller than what they leave free."""
    settings = {**SETTINGS, "commitlog_sync": sync, "min_free_space_per_drive": left_free}
    with Ilion(disk / "node", settings=settings) as node:
        wire = Wire(node.address, node.port)
        wire.must("CREATE KEYSPACE filled WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        wire.must("CREATE TABLE filled.t (k int, c int, v blob, PRIMARY KEY (k, c))")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(28 << 20))
        kept, refused, n = set(), [], 0
        while len(refused) < 10:
            n += 1
            reply = insert(wire, n)
            if reply.kind == "error":
                refused.append(reply)
            else:
                kept.add(n)
            assert n < 200_000, "the disk did not fill up"
        assert {reply.code for reply in refused} <= {WRITE_FAILURE, WRITE_TIMEOUT, OVERLOADED}, [(r.code, r.error) for r in refused]
        assert kept <= numbers(wire), "reads go on"

        node.kill()
        ballast.unlink()
        # What there will be space of in the end, however much else takes until then.
        reserve = disk / "reserve"
        reserve.write_bytes(bytes(12 << 20))
        node.start()
        wire = Wire(node.address, node.port)
        assert kept <= numbers(wire), "after a crash on the full disk"

        fill(ballast)
        while insert(wire, n := n + 1).kind != "error":
            kept.add(n)
        ballast.unlink()
        reserve.unlink()
        deadline = time.monotonic() + 60
        while insert(wire, n := n + 1).kind == "error":
            assert time.monotonic() < deadline, "writes go on once there is space"
            time.sleep(0.1)
        kept.add(n)
        node.flush("filled")
        node.restart()
        wire = Wire(node.address, node.port)
        assert kept <= numbers(wire) <= set(range(n + 1))
        wire.close()


def fill(path):
    """Takes all the room that is left."""
    try:
        with open(path, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
    except OSError:
        return
