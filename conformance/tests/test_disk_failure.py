"""Damaged SSTables and failing devices, as `disk_failure_policy` and `commit_failure_policy` say, on a real process."""
import pathlib
import resource
import socket
import time

import pytest
from cassandra.connection import ConnectionShutdown

from harness.node import Ilion
from harness.wire import Wire

READ_FAILURE, WRITE_FAILURE = 0x1300, 0x1500
PAYLOAD = "x" * 2000


def make(directory, **settings):
    """A node with two flushed tables, stopped."""
    node = Ilion(directory, settings={"commitlog_sync": "batch", "commitlog_segment_size": "1MiB", **settings})
    with node:
        wire = Wire(node.address, node.port)
        wire.must("CREATE KEYSPACE df WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        for table in ("bad", "good"):
            wire.must(f"CREATE TABLE df.{table} (k int PRIMARY KEY, v text) WITH compression = {{'enabled': false}}")
            for n in range(20):
                wire.must(f"INSERT INTO df.{table} (k, v) VALUES ({n}, '{PAYLOAD}')")
        wire.close()
    return node


def flip(node, component):
    (path,) = pathlib.Path(node.data_dir, "df").glob(f"bad-*/*-{component}")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def ask(node, table):
    wire = Wire(node.address, node.port)
    reply = wire.query(f"SELECT v FROM df.{table} WHERE k = 7")
    wire.close()
    return reply


def read_all(node):
    """Every row, one by one, until one is refused."""
    wire = Wire(node.address, node.port)
    replies = [wire.query(f"SELECT v FROM df.bad WHERE k = {n}") for n in range(20)]
    wire.close()
    assert all(r.rows == [[PAYLOAD.encode()]] for r in replies if r.kind == "rows"), "no wrong answer"
    return [r for r in replies if r.kind != "rows"]


def answer(wire, text, code, policy):
    """The answer; None for a refusal with that code. Where the policy shuts clients out, the door may be shut before the client
    is told."""
    try:
        reply = wire.query(text)
    except ConnectionShutdown:
        assert policy in ("stop", "stop_paranoid", "die")
        return None
    assert reply.kind != "error" or reply.code == code, reply.error
    return None if reply.kind == "error" else reply


def is_shut(node):
    try:
        socket.create_connection((node.address, node.port), 60).close()
        return False
    except ConnectionRefusedError:
        return True


def until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def log_of(node):
    return (node.directory / "ilion.log").read_text(errors="replace")


@pytest.mark.parametrize("policy", ["stop", "stop_paranoid", "best_effort", "ignore", "die"])
def test_a_read_of_damaged_rows(needs_ilion, tmp_path, policy):
    node = make(tmp_path / "node", disk_failure_policy=policy)
    path = flip(node, "Data.db")
    node.start()
    try:
        wire = Wire(node.address, node.port)
        n = 0
        while reply := answer(wire, f"SELECT v FROM df.bad WHERE k = {n}", READ_FAILURE, policy):
            assert reply.rows == [[PAYLOAD.encode()]]
            n += 1
            assert n < 20
        assert f"{path} is corrupt at offset" in log_of(node)
        if policy == "die":
            assert node.process.wait(30) != 0
            assert "disk_failure_policy is die" in log_of(node)
            return
        if policy == "stop_paranoid":
            until(lambda: is_shut(node))
            node.nodetool("info")
            return
        assert ask(node, "good").kind == "rows"
        assert read_all(node), "it is refused again"
    finally:
        node.kill()


@pytest.mark.parametrize("policy", ["stop", "stop_paranoid", "best_effort", "ignore", "die"])
def test_a_start_with_a_damaged_sstable(needs_ilion, tmp_path, policy):
    node = make(tmp_path / "node", disk_failure_policy=policy)
    path = flip(node, "Statistics.db")
    if policy in ("stop", "stop_paranoid", "die"):
        before = {p: p.read_bytes() for p in sorted(node.data_dir.rglob("*")) if p.is_file()}
        with pytest.raises(RuntimeError) as refused:
            node.start()
        assert f"{path} is corrupt at offset" in str(refused.value)
        assert {p: p.read_bytes() for p in sorted(node.data_dir.rglob("*")) if p.is_file()} == before
        return
    node.start()
    try:
        assert f"{path} is corrupt at offset" in log_of(node)
        assert ask(node, "bad").code == READ_FAILURE
        assert ask(node, "good").kind == "rows"
    finally:
        node.kill()


@pytest.mark.parametrize("policy", ["stop", "stop_commit", "ignore", "die"])
def test_a_commit_log_that_cannot_be_written(needs_ilion, tmp_path, policy):
    """Files may not grow beyond some length: an error of the file system that is not a full disk."""
    node = make(tmp_path / "node", commit_failure_policy=policy)
    deaf = tmp_path / "ilion"  # gets an error where it would get a signal
    deaf.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {node.binary} \"$@\"\n")
    deaf.chmod(0o755)
    node.binary, plain = deaf, node.binary
    node.start()
    node.binary = plain
    try:
        wire = Wire(node.address, node.port)
        _, hard = resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (256 << 10, hard))
        kept = 0
        while answer(wire, f"INSERT INTO df.good (k, v) VALUES ({1000 + kept}, '{PAYLOAD}')", WRITE_FAILURE, policy):
            kept += 1
            assert kept < 5000
        if policy == "die":
            assert node.process.wait(60) != 0
            assert "commit_failure_policy is die" in log_of(node)
        elif policy == "stop":
            until(lambda: is_shut(node))
            assert node.process.poll() is None
            node.nodetool("info")
        else:
            assert ask(node, "good").kind == "rows", "reads go on"
            resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            again = wire.query("INSERT INTO df.good (k, v) VALUES (999, 'x')")
            assert (again.kind == "void") == (policy == "ignore"), again
    finally:
        node.kill()
    # Whatever was acknowledged is there.
    node.start()
    try:
        wire = Wire(node.address, node.port)
        for k in range(1000, 1000 + kept):
            assert wire.query(f"SELECT v FROM df.good WHERE k = {k}").rows == [[PAYLOAD.encode()]], k
    finally:
        node.kill()
