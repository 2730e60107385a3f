"""What the suites stand on: when a node that was killed has let go of its ports, and which Cassandra is started again."""
import pathlib
import platform
import subprocess
import sys
import time

from harness.in_place import Directory
from harness.node import alive, places_of
from harness.statements import Statement, as_json, literal_of, value, value_bytes
from harness.types import Type

EXIT_THREAD = {"x86_64": 60, "aarch64": 93}[platform.machine()]
# The first thread ends and is a zombie, as that of a killed JVM is for a while; another still listens.
FIRST_THREAD_ENDS = f"""
import ctypes, socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)
"""


def until(check):
    for _ in range(6000):
        if check():
            return
        time.sleep(0.01)
    raise AssertionError("not within a minute")


def test_workers_share_no_address_wherever_they_look_first():
    places = [{place for first in (40, 60, 70) for place in places_of(f"gw{n}", 3, first)} for n in range(3)]
    assert sum(map(len, places)) == len(set.union(*places)) == 210
    assert places_of(None, 1, 60) == list(range(60, 250))


def test_a_process_lives_until_its_last_thread_has_ended():
    process = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE)
    try:
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        until(lambda: stat.read_text().rsplit(")", 1)[-1].split()[0] == "Z")
        assert alive(process.pid)
        process.kill()
        until(lambda: not alive(process.pid))
        assert stat.exists(), "it was not waited for"
    finally:
        process.kill()
        process.communicate()
    assert not alive(process.pid)


TOO_EARLY = """\
WARN  2026-11-23 18:29:32,169 [main] V1OnDiskFormat - [app.sai.*] Validation failed for index component COLUMN_COMPLETION_MARKER on SSTable nb-6-big
WARN  2026-11-23 18:29:32,173 [main] StorageAttachedIndex - [app.sai.v_sai] Storage-attached index is no longer queryable. Please restart this node to repair it.
"""
OTHER = "ERROR 2026-11-23 18:29:32,169 [main] Something - corrupt\n"


class Starts:
    """A Cassandra whose starts log what was given, one after the other."""

    def __init__(self, directory, logs):
        self.directory, self.logs, self.count = directory, list(logs), 0
        self.restart()

    def restart(self):
        (self.directory / "system.log").write_text(self.logs.pop(0))
        self.count += 1


def complaints(tmp_path, *logs):
    directory = Directory(tmp_path, "127.0.0.1", "5.0.5")
    directory.cassandra, directory.without_sai = Starts(tmp_path, logs), {"nb-6-big"}
    return list(directory.complaints_of_start().values()), directory.cassandra.count


def test_a_cassandra_that_saw_its_own_index_half_written_is_started_again(tmp_path):
    assert complaints(tmp_path, TOO_EARLY, "") == ([], 2)


def test_what_it_says_besides_is_kept(tmp_path):
    assert complaints(tmp_path, TOO_EARLY + OTHER, "") == ([OTHER.strip()], 2)
    assert complaints(tmp_path, OTHER, "") == ([OTHER.strip()], 1)


def test_an_index_that_was_there_before_is_not_taken_for_half_written(tmp_path):
    was_there = TOO_EARLY.replace("nb-6-big", "nb-7-big")
    assert complaints(tmp_path, was_there + OTHER, "") == ([was_there.splitlines()[0], OTHER.strip()], 2)


def test_an_index_that_stays_broken_is_told(tmp_path):
    found, starts = complaints(tmp_path, TOO_EARLY, TOO_EARLY, TOO_EARLY, "")
    assert (sorted(found), starts) == (sorted(TOO_EARLY.splitlines()), 3)


def test_a_statement_is_text_or_has_markers_for_its_values():
    inner = [value(1), value(2)]
    whole = value(f"[{', '.join(inner)}, null]", f"({', '.join(inner)})")
    statement = Statement(f"SELECT * FROM t WHERE k IN {whole} AND c = {value(repr('x'))} AND d IN ({', '.join(inner)})")
    assert statement.text() == "SELECT * FROM t WHERE k IN (1, 2) AND c = 'x' AND d IN (1, 2)"
    assert statement.marked() == "SELECT * FROM t WHERE k IN ? AND c = ? AND d IN (?, ?)"
    assert statement.literals() == ["[1, 2, null]", "'x'", "1", "2"]
    assert literal_of(value(1)) == "1" and literal_of(f"-{value(1)}") is None


def test_literals_become_the_bytes_of_a_type_or_none_of_it():
    assert value_bytes(Type("timestamp"), "'2020-01-01'") == (1577836800000).to_bytes(8, "big")
    assert value_bytes(Type("timestamp"), "'2021-05-06 07:08:09.123+0000'") == (1620284889123).to_bytes(8, "big")
    assert value_bytes(Type("date"), "'1969-12-31'") == (2**31 - 1).to_bytes(4, "big")
    assert value_bytes(Type("time"), "'01:02:03'") == (3723 * 10**9).to_bytes(8, "big")
    assert value_bytes(Type("int"), "'p'") == b"'p'"
    assert value_bytes(Type("int"), "null") is None and value_bytes(Type("int"), "empty") == b""
    assert as_json("{1: 'a', 2: null}") == '{"1": "a", "2": null}' and as_json("[1, (2, 'b')]") == '[1, [2, "b"]]'
