"""What nodetool changes of a running node, seen from outside."""
import json
import pathlib
import socket
import subprocess
import time
from random import Random

import pytest

import nodetool_layouts
from harness.node import Ilion
from harness.wire import Wire


@pytest.fixture
def node(request, tmp_path):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    with Ilion(tmp_path) as node:
        yield node


def refused(node, *words, status=1):
    command = [str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done
    return done.stderr


def log_of(node):
    return (node.directory / "ilion.log").read_text()


def test_timeouts_last_until_the_next_start(node):
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 5000 ms\n"
    assert node.nodetool("settimeout", "read", "1234") == ""
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 1234 ms\n"
    assert json.loads(node.nodetool("--json", "gettimeout", "write")) == {"kind": "write", "millis": 2000}
    assert "Timeout type requires one of (" in refused(node, "settimeout", "bogus", "5")
    assert "Timeout type requires one of (read, range," in refused(node, "gettimeout", "bogus")
    node.restart()
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 5000 ms\n"


def test_a_part_of_the_program_logs_what_it_is_told_to(node):
    started = node.nodetool("getlogginglevels")
    assert [line.split() for line in started.splitlines()[2:]] == [["ROOT", "INFO"]]
    node.nodetool("setlogginglevel", "server", "DEBUG")
    assert [line.split() for line in node.nodetool("getlogginglevels").splitlines()[2:]] == [["ROOT", "INFO"], ["server", "DEBUG"]]
    assert "DEBUG" not in log_of(node)
    with socket.create_connection((node.address, node.port)) as client:
        client.sendall(b"\xff" * 64)
        deadline = time.monotonic() + 30
        while "malformed bytes" not in log_of(node):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert "LOUD is no level" in refused(node, "setlogginglevel", "server", "LOUD")
    for part in ("org.apache.cassandra", "server=trace,engine", ""):
        assert "is no part of Ilion" in refused(node, "setlogginglevel", part, "DEBUG", status=2)
    node.nodetool("setlogginglevel")
    assert node.nodetool("getlogginglevels") == started
    node.nodetool("setlogginglevel", "ROOT", "OFF")
    node.nodetool("settimeout", "read", "5001")
    assert "a timeout of requests was changed" not in log_of(node)


def test_what_describes_the_node(node):
    wire = Wire(node.address, node.port)
    wire.must("SELECT key FROM system.local")
    pools = node.nodetool("tpstats").splitlines()
    assert pools[0].split()[:4] == ["Pool", "Name", "Active", "Pending"]
    assert any(line.startswith("Native-Transport-Requests ") for line in pools)
    assert node.nodetool("proxyhistograms").startswith("proxy histograms\nPercentile ")
    listed = node.nodetool("clientstats", "--all")
    assert "Total connected clients: 1\n" in listed and "\n/127.0.0.1:" in listed
    assert node.nodetool("gettraceprobability") == "Current trace probability: 0.0\n"
    node.nodetool("settraceprobability", "0.25")
    assert node.nodetool("gettraceprobability") == "Current trace probability: 0.25\n"
    assert node.nodetool("reloadlocalschema") == ""
    wire.close()


def test_where_a_partition_lies(node):
    wire = Wire(node.address, node.port)
    wire.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    wire.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    wire.must("CREATE TABLE ks.c (k int, d text, v text, PRIMARY KEY ((k, d)))")
    for k in (5, 6):
        wire.must(f"INSERT INTO ks.t (k, v) VALUES ({k}, 'x')")
        wire.must(f"INSERT INTO ks.c (k, d, v) VALUES ({k}, 'a', 'x')")
        node.flush()
    wire.close()
    (first,) = node.nodetool("getsstables", "ks", "t", "5").splitlines()
    (second,) = node.nodetool("getsstables", "ks", "t", "6").splitlines()
    assert first != second and pathlib.Path(first).exists() and pathlib.Path(second).exists()
    assert node.nodetool("getsstables", "-hf", "ks", "t", "00000005").splitlines() == [first]
    assert node.nodetool("getsstables", "ks", "t", "7") == ""
    (of_two,) = node.nodetool("getsstables", "ks", "c", "6:a").splitlines()
    assert "/ks/c-" in of_two and node.nodetool("getsstables", "ks", "c", "6:b") == ""
    assert refused(node, "getsstables", "ks", "nosuch", "5") == "ColumnFamilyStore for ks/nosuch not found.\n"
    assert node.nodetool("getendpoints", "ks", "t", "5") == f"{node.address}\n"
    assert "Unknown table 'nosuch' in keyspace 'ks'" in refused(node, "getendpoints", "ks", "nosuch", "5")
    assert "Unknown keyspace 'nosuch'" in refused(node, "getendpoints", "nosuch", "t", "5")
    wire = Wire(node.address, node.port)
    wire.must("ALTER TABLE ks.t WITH compaction = {'class': 'LeveledCompactionStrategy'}")
    wire.close()
    assert node.nodetool("getsstables", "-l", "ks", "t", "5") == f"0: {first}\n"
    assert node.nodetool("getsstables", "-l", "ks", "c", "6:a") == f"{of_two}\n"
    assert json.loads(node.nodetool("datapaths", "-F", "json", "ks.t")) == {"ks": {"t": [str(pathlib.Path(first).parent)]}}
    assert node.nodetool("datapaths", "-F", "yaml", "ks.t") == f"ks:\n  t:\n  - {pathlib.Path(first).parent}\n\n"
    assert "arguments for -F are yaml and json only." in refused(node, "datapaths", "-F", "xml")
    paths = node.nodetool("datapaths", "ks.t")
    assert paths.startswith("Keyspace: ks\n\tTable: t\n\tPaths:\n\t\t/") and str(pathlib.Path(first).parent) in paths
    assert len(node.nodetool("rangekeysample").splitlines()) > 2


def test_flushed_sstables_are_linked_into_backups_while_it_is_wanted(node):
    wire = Wire(node.address, node.port)
    wire.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    wire.must("CREATE TABLE ks.t (k int PRIMARY KEY)")

    def flush(k):
        wire.must(f"INSERT INTO ks.t (k) VALUES ({k})")
        node.nodetool("flush", "ks", "t")

    def in_force():
        return wire.must("SELECT value FROM system_views.settings WHERE name = 'incremental_backups'").rows

    (place,) = json.loads(node.nodetool("--json", "datapaths", "ks.t"))
    backups = pathlib.Path(place["directories"][0]) / "backups"
    assert backups.is_absolute() and node.nodetool("statusbackup") == "not running\n"
    flush(1)
    assert not backups.exists() and in_force() == [[b"false"]]
    node.nodetool("enablebackup")
    assert node.nodetool("statusbackup") == "running\n" and in_force() == [[b"true"]]
    flush(2)
    kept = sorted(path.name for path in backups.glob("*-Data.db"))
    assert len(kept) == 1
    node.nodetool("compact", "ks", "t")
    node.nodetool("disablebackup")
    flush(3)
    assert sorted(path.name for path in backups.glob("*-Data.db")) == kept
    wire.close()


def test_garbage_goes_and_every_answer_stays(node):
    wire = Wire(node.address, node.port)
    wire.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    options = "WITH gc_grace_seconds = 0 AND compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': false}"
    wire.must("CREATE TYPE ks.u (x int, y text)")
    wire.must("CREATE TABLE ks.r (k int, c int, d text, s int static, v text, m map<int, text>, l list<int>, "
              f"st set<int>, f frozen<u>, n u, PRIMARY KEY (k, c, d)) {options}")
    wire.must(f"CREATE TABLE ks.p (k int PRIMARY KEY, v text, m map<int, text>) {options}")
    wire.must(f"CREATE TABLE ks.n (k int, c int, n counter, PRIMARY KEY (k, c)) {options}")
    tables = ("r", "p", "n")
    random = Random(19)

    def statement():
        k, c, d, x = random.randrange(3), random.randrange(4), random.choice("ab"), random.randrange(100)
        of_row = f"k = {k} AND c = {c} AND d = '{d}'"
        ttl = random.choice(("", "", " USING TTL 1"))
        return random.choice((
            f"INSERT INTO ks.r (k, c, d, s, v, m, l, st, f, n) VALUES ({k}, {c}, '{d}', {x}, 'v{x}', "
            f"{{{x % 5}: 'a', {x % 7}: 'b'}}, [{x}, 2], {{{x % 4}}}, {{x: {x}, y: 'y'}}, {{x: {x}, y: 'z'}}){ttl}",
            f"UPDATE ks.r{ttl} SET v = 'u{x}', m[{x % 5}] = 'c', st = st + {{{x % 6}}}, l = [{x}] + l, n.x = {x} WHERE {of_row}",
            f"DELETE m[{x % 5}], v, n.y FROM ks.r WHERE {of_row}",
            f"DELETE FROM ks.r WHERE {of_row}",
            f"DELETE FROM ks.r WHERE k = {k} AND c = {c}",
            f"DELETE FROM ks.r WHERE k = {k} AND c >= {c % 2} AND c < {c}",
            f"DELETE FROM ks.r WHERE k = {k}" if x < 30 else f"DELETE s FROM ks.r WHERE k = {k}",
            f"INSERT INTO ks.p (k, v, m) VALUES ({k}, 'v{x}', {{{x % 5}: 'a'}}){ttl}",
            f"UPDATE ks.p SET m = m + {{{x % 5}: 'b'}} WHERE k = {k}",
            f"DELETE FROM ks.p WHERE k = {k}",
            f"UPDATE ks.n SET n = n + {x} WHERE k = {k} AND c = {c}",
            f"UPDATE ks.n SET n = n - {x} WHERE k = {k + 5} AND c = {c}",
            f"DELETE FROM ks.n WHERE k = {k} AND c = {c}" if x < 10 else f"UPDATE ks.n SET n = n + 1 WHERE k = {k} AND c = 9",
        ))

    def answers():
        return [wire.must(f"SELECT * FROM ks.{table}").rows for table in tables]

    for _ in range(8):
        for _ in range(12):
            wire.must(statement())
        node.nodetool("flush", "ks")
    time.sleep(1.5)
    for verb in (["garbagecollect"], ["forcecompact", "ks", "r", "1", "2"], ["garbagecollect", "-g", "CELL"],
                 ["forcecompact", "ks", "n", "0", "1", "2"], ["compact"], ["garbagecollect", "-g", "CELL"]):
        before = answers()
        assert all(before), "there is nothing to lose"
        node.nodetool(*verb, *(["ks"] if len(verb) < 4 else []))
        assert answers() == before, verb
    wire.close()


def test_the_most_active_partitions_are_sampled_while_somebody_looks(node):
    wire = Wire(node.address, node.port)
    wire.must("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    wire.must("CREATE TABLE ks.t (k int, d text, c int, v text, PRIMARY KEY ((k, d), c))")

    def sample(*words):
        command = [str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", "toppartitions", *words]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        while running.poll() is None:
            for k in (1, 1, 2):
                wire.must(f"INSERT INTO ks.t (k, d, c, v) VALUES ({k}, 'd', {k}, '{'x' * 100 * k}')")
                wire.must(f"SELECT * FROM ks.t WHERE k = {k} AND d = 'd'")
            wire.must("SELECT * FROM ks.t WHERE k = 9 AND d = 'd'")
            wire.must("SELECT v FROM ks.t")
        assert running.returncode == 0
        parts = [part.splitlines() for part in running.stdout.read().split("\n\n") if part]
        return {part[0]: [line.split(maxsplit=2) for line in part[1:]] for part in parts}

    found = sample("ks", "t", "500")
    assert list(found) == [
        "Frequency of reads by partition:", "Frequency of writes by partition:", "Longest read query times:",
        "Partitions read with the most rows:", "Partitions read with the most tombstones:",
        "Partitions read with the most sstables:", "Max mutation size by partition:",
        "Frequency of CAS contention by partition:"]
    for kind in ("reads", "writes"):
        head, *lines = found[f"Frequency of {kind} by partition:"]
        assert head == ["Table", "Partition", "Count +/-"]
        (first, second) = [(table, key, int(rest.split()[0])) for table, key, rest in lines]
        assert first[:2] == ("ks.t", "1:d") and second[:2] == ("ks.t", "2:d") and first[2] > second[2] > 0
    assert found["Max mutation size by partition:"][1][1] == "2:d"
    assert "SELECT * FROM ks.t" in " ".join(found["Longest read query times:"][1])
    assert found["Frequency of CAS contention by partition:"] == [["Nothing", "recorded", "during sampling period..."]]
    assert list(sample("-a", "writes", "-k", "1", "ks", "*", "200")) == ["Frequency of writes by partition:"]
    assert refused(node, "profileload", "ks", "nosuch", "5") == "ColumnFamilyStore for ks/nosuch not found.\n"
    wire.close()


def test_the_ring_of_one(node):
    assert node.nodetool("ring").startswith("\nDatacenter: datacenter1\n==========\nAddress  ")
    assert "Ownership values for keyspaces with LocalStrategy" in node.nodetool("ring", "system")
    assert "The keyspace nosuch, does not exist" in refused(node, "ring", "nosuch")
    assert f"endpoints:[{node.address}]" in node.nodetool("describering", "system_distributed")
    assert node.nodetool("netstats").startswith("Mode: NORMAL\n")
    assert f"/{node.address}\n" in node.nodetool("gossipinfo")
    assert json.loads(node.nodetool("--json", "statusgossip")) == {"running": False}
    assert node.nodetool("failuredetector") == "  Endpoint,             Phi\n"


def test_a_node_that_is_gone_is_told_of(node):
    node.stop()
    for verb in ("statusgossip", "failuredetector", "getseeds", "reloadlocalschema", "statushandoff"):
        assert "Failed to connect" in refused(node, verb, status=2)


def test_every_verb_prints_the_shape_of_cassandras(node, oracle, tmp_path):
    wanted = nodetool_layouts.calls()
    wires = [Wire(target.address, target.port) for target in (node, oracle)]
    for target, wire in zip((node, oracle), wires):
        wire.must("CREATE KEYSPACE nt WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        wire.must("CREATE TABLE nt.t (k int PRIMARY KEY, v text)")
        for k in (1, 2):
            wire.must(f"INSERT INTO nt.t (k, v) VALUES ({k}, 'x')")
        target.flush("nt")
        # Cassandra has no histograms of requests of a kind before the first of them.
        for statement in ("SELECT * FROM nt.t WHERE k = 1", "SELECT * FROM nt.t", "UPDATE nt.t SET v = 'y' WHERE k = 1 IF v = 'n'"):
            wire.must(statement)
    of_cassandra = nodetool_layouts.on_cassandra(oracle.address, wanted, tmp_path)
    both = zip(wanted, nodetool_layouts.on_ilion(node, wanted), of_cassandra)
    wrong = [call.difference(expected, found) for call, found, expected in both]
    wires[1].must("DROP KEYSPACE nt")
    assert not any(wrong), "\n\n".join(filter(None, wrong))
