"""Two data centers, in each a Cassandra and an Ilion: every level, asked of all four, and what is said when nodes are down."""
import contextlib
import re
import socket

import pytest
from cassandra.protocol import QueryMessage

from harness.node import Cassandra, Ilion
from harness.rings import OF_OTHERS, InRing, until
from harness.wire import LEVELS as LEVELS_BY_NAME
from harness.wire import Wire

# The second number is the data center, the third the rack: RackInferringSnitch.
ADDRESSES = {"1": ("127.1.1.10", "127.1.2.11"), "2": ("127.2.1.12", "127.2.2.13")}
SNITCH = "RackInferringSnitch"
REPLICATION = "{'class': 'NetworkTopologyStrategy', '1': 2, '2': 2}"
LEVELS = ["ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"]
READ_LEVELS = [level for level in LEVELS if level != "EACH_QUORUM"]
RELEASES = ["5.0.5", "4.1.10", "4.0.17"]


def pytest_generate_tests(metafunc):
    releases = RELEASES if metafunc.config.getoption("--mixes") else RELEASES[:1]
    metafunc.parametrize("centers", releases, scope="module", indirect=True)


class Member(Ilion):
    def __init__(self, directory, address, seeds):
        super().__init__(directory, address, settings={
            "cluster_name": "centers", "num_tokens": 4, "listen_address": address, "rpc_address": address,
            "endpoint_snitch": SNITCH, "seed_provider": seeds})


@pytest.fixture(scope="module")
def centers(request, tmp_path_factory):
    """{data center: (its Cassandra, its Ilion)}."""
    if request.config.getoption("--target") != "ilion" or request.config.getoption("--oracle") == "none":
        pytest.skip("needs an Ilion and a real Cassandra")
    directory, found = tmp_path_factory.mktemp("centers"), {}
    seeds = ("[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
             f'parameters: [{{seeds: "{ADDRESSES["1"][0]}"}}]}}]')
    settings = ["cluster_name: centers", "num_tokens: 4", f"endpoint_snitch: {SNITCH}", "auto_bootstrap: false", f"seed_provider: {seeds}"]
    nodes = []
    try:
        for center, (first, second) in ADDRESSES.items():
            cassandra, before = (Cassandra(directory / address, address, settings=settings, version=request.param) for address in (first, second))
            nodes.append(cassandra.start())
            if request.param == RELEASES[0]:
                ilion = Member(directory / second, second, seeds)
            else:
                # It speaks the release of the directory that it has.
                nodes.append(before.start())
                before.stop()
                nodes.remove(before)
                ilion = InRing(directory / second, second)
            nodes.append(ilion.start())
            found[center] = (cassandra, ilion)
        for node in nodes:
            until(lambda: len(re.findall(r"^UN ", node.nodetool("status"), re.MULTILINE)) == 4, f"{node.address} does not see four nodes")
        yield found
    finally:
        for node in nodes:
            node.kill()


@contextlib.contextmanager
def wires(centers):
    with contextlib.ExitStack() as stack:
        yield {node.address: stack.enter_context(contextlib.closing(Wire(node.address, timeout_s=60)))
               for pair in centers.values() for node in pair}


@pytest.fixture(scope="module")
def tables(centers):
    with wires(centers) as all_of:
        first = all_of[centers["1"][1].address]
        for text in (f"CREATE KEYSPACE app WITH replication = {REPLICATION}",
                     "CREATE TABLE app.t (k int, c int, s text static, v text, PRIMARY KEY (k, c))",
                     "CREATE TABLE app.n (k int PRIMARY KEY, n counter)", "CREATE TABLE app.l (k int PRIMARY KEY, v int)",
                     "CREATE KEYSPACE one WITH replication = {'class': 'NetworkTopologyStrategy', '2': 1}",
                     "CREATE TABLE one.t (k int PRIMARY KEY, v text)"):
            first.must(text)
            until(lambda: len({wire.must("SELECT schema_version FROM system.local").rows[0][0] for wire in all_of.values()}) == 1,
                  f"no agreement after {text}")


def number(value):
    return int.from_bytes(value, "big", signed=True)


def test_every_level_of_every_node(centers, tables):
    with wires(centers) as all_of:
        written = set()
        for n, wire in enumerate(all_of.values()):
            for m, level in enumerate(LEVELS):
                k, c = n, m
                wire.must(f"INSERT INTO app.t (k, c, s, v) VALUES ({k}, {c}, 'of {n}', '{level}')", consistency=level)
                written.add((k, c))
                batch = "".join(f"INSERT INTO app.t (k, c, v) VALUES ({k + 10 * i}, {c + 100}, 'b'); " for i in range(3))
                wire.must(f"BEGIN BATCH {batch} APPLY BATCH", consistency=level)
                written |= {(k + 10 * i, c + 100) for i in range(3)}
        # What was written at ALL is everywhere; hints bring the rest, so nothing may have to be repaired in the end.
        for wire in all_of.values():
            rows = wire.must("SELECT k, c FROM app.t", consistency="ALL").rows
            assert {(number(k), number(c)) for k, c in rows} == written, wire.host
        for wire in all_of.values():
            for level in READ_LEVELS:
                rows = wire.must("SELECT k, c FROM app.t", consistency=level).rows
                assert {(number(k), number(c)) for k, c in rows} == written, (wire.host, level)
                assert len(wire.must("SELECT c FROM app.t WHERE k = 2", consistency=level).rows) == 2 * len(LEVELS), (wire.host, level)
                assert len(wire.must("SELECT c FROM app.t WHERE k IN (0, 3) AND c < 3", consistency=level).rows) == 6, (wire.host, level)
        said = {wire.query("SELECT k FROM app.t WHERE k = 1", consistency="EACH_QUORUM").error for wire in all_of.values()}
        assert len(said) == 1, said


def test_counters_and_conditions_of_every_node(centers, tables):
    with wires(centers) as all_of:
        for wire in all_of.values():
            for level in ("ONE", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL"):
                wire.must("UPDATE app.n SET n = n + 1 WHERE k = 1", consistency=level)
        for wire in all_of.values():
            for level in ("ALL", "QUORUM"):
                assert [number(n) for (n,) in wire.must("SELECT n FROM app.n", consistency=level).rows] == [5 * len(all_of)], wire.host
        for value, wire in enumerate(list(all_of.values()) * 3):
            text = f"UPDATE app.l SET v = {value + 1} WHERE k = 1 IF v = {value}" if value else "INSERT INTO app.l (k, v) VALUES (1, 1) IF NOT EXISTS"
            reply = wire.query(text, consistency="QUORUM", serial_consistency="SERIAL")
            assert reply.kind == "rows" and reply.rows[0][0] == b"\1", (value, wire.host, reply.error, reply.rows)
            for other in all_of.values():
                (found,), = other.must("SELECT v FROM app.l WHERE k = 1", consistency="SERIAL").rows
                assert number(found) == value + 1, (wire.host, other.host)
        # LOCAL_SERIAL is about one data center alone: its nodes agree, each center on rows of its own.
        for center, pair in centers.items():
            for turn, node in enumerate(pair):
                wire, k = all_of[node.address], int(center) * 100
                for n in range(3):
                    text = f"INSERT INTO app.l (k, v) VALUES ({k + turn * 10 + n}, 7) IF NOT EXISTS"
                    assert wire.query(text, consistency="LOCAL_QUORUM", serial_consistency="LOCAL_SERIAL").rows[0][0] == b"\1"
                    other = all_of[pair[1 - turn].address]
                    assert other.query(text, consistency="LOCAL_QUORUM", serial_consistency="LOCAL_SERIAL").rows[0][0] == b"\0"


def test_rows_elsewhere_and_a_write_that_is_passed_on(centers, tables):
    with wires(centers) as all_of:
        for wire in all_of.values():
            # In the first data center there is no replica.
            replies = [wire.query(f"INSERT INTO one.t (k, v) VALUES ({n}, 'x')", consistency=level)
                       for n, level in enumerate(("ONE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"))]
            is_local = wire.host in ADDRESSES["2"]
            assert [reply.kind for reply in replies[:3]] == ["void"] * 3, replies
            if is_local:
                assert [reply.kind for reply in replies[3:]] == ["void"] * 3, [reply.error for reply in replies]
        said = {}
        for pair in ADDRESSES["1"]:
            wire = all_of[pair]
            said[pair] = [(wire.query(text, consistency=level).kind, wire.query(text, consistency=level).error)
                          for level in ("LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM")
                          for text in ("INSERT INTO one.t (k, v) VALUES (9, 'x')", "SELECT * FROM one.t WHERE k = 9", "SELECT * FROM one.t")]
        first, second = said.values()
        assert first == second
        for node in centers["1"]:
            wire = all_of[node.address]
            message = QueryMessage("INSERT INTO app.t (k, c, v) VALUES (77, 1, 'traced')", LEVELS_BY_NAME["ALL"])
            message.tracing = True
            trace = wire.send(message).message.trace_id
            events = f"SELECT source, activity FROM system_traces.events WHERE session_id = {trace}"

            def sent():
                """Who sends the write to whom."""
                steps = [(socket.inet_ntoa(source), activity.decode()) for source, activity in wire.must(events).rows]
                return sorted((source, activity.split("/")[1].split(":")[0]) for source, activity in steps
                              if activity.startswith("Sending MUTATION_REQ message to"))

            until(lambda: len(sent()) == 3, f"the writes of {node.address} are {sent()}")
            (first,) = {to for source, to in sent() if to in ADDRESSES["2"] and source == node.address}
            passed_on = {to for source, to in sent() if source == first}
            assert {first, *passed_on} == set(ADDRESSES["2"]), sent()


STATEMENTS = (
    "INSERT INTO app.t (k, c, v) VALUES (5, 5, 'x')", "SELECT k FROM app.t WHERE k = 5", "SELECT k FROM app.t",
    "UPDATE app.n SET n = n + 1 WHERE k = 5", "INSERT INTO one.t (k, v) VALUES (5, 'x')", "SELECT k FROM one.t WHERE k = 5", "SELECT k FROM one.t",
    "BEGIN BATCH INSERT INTO app.t (k, c, v) VALUES (5, 6, 'x'); INSERT INTO app.t (k, c, v) VALUES (6, 6, 'x'); APPLY BATCH",
    "BEGIN UNLOGGED BATCH INSERT INTO app.t (k, c, v) VALUES (5, 6, 'x'); INSERT INTO app.t (k, c, v) VALUES (6, 6, 'x'); APPLY BATCH",
)


def test_what_is_said_when_a_node_is_down_and_what_hints_bring(centers, tables):
    cassandra, ilion = centers["1"]
    other, gone = centers["2"]
    marks = {node: node.directory.joinpath("system.log").stat().st_size for node in (cassandra, other)}
    gone.stop()
    try:
        with wires({"1": (cassandra, ilion), "2": (other,)}) as all_of:
            for node in (cassandra, ilion, other):
                until(lambda: re.search(rf"^DN +{re.escape(gone.address)} ", node.nodetool("status"), re.MULTILINE), f"{node.address} still sees it")
            said = {}
            for turn, node in enumerate((cassandra, ilion)):
                wire = all_of[node.address]
                asked = [(level, text, {}) for level in LEVELS for text in STATEMENTS]
                # What one of them could not commit is in the other's way, so each has partitions of its own.
                asked += [(level, f"INSERT INTO app.l (k, v) VALUES ({500 + 100 * turn + 10 * at + len(serial)}, 1) IF NOT EXISTS",
                           {"serial_consistency": serial}) for at, level in enumerate(LEVELS) for serial in ("SERIAL", "LOCAL_SERIAL")]
                asked += [(level, "SELECT * FROM app.l WHERE k = 1", {}) for level in ("SERIAL", "LOCAL_SERIAL")]
                asked += [("QUORUM", "TRUNCATE app.l", {})]
                replies = [wire.query(text, consistency=level, **options) for level, text, options in asked]
                said[node] = [(level, text.split(" VALUES")[0], options, reply.kind, reply.code, reply.error, reply.info)
                              for (level, text, options), reply in zip(asked, replies)]
            differing = [pair for pair in zip(*said.values()) if pair[0] != pair[1]]
            assert not differing, differing
            assert {"void", "rows", "error"} == {kind for _, _, _, kind, *_ in said[ilion]}
            both = [node.nodetool("status") for node in (cassandra, ilion)]
            assert [text.count("\nUN ") for text in both] == [3, 3] and all(" ? " in text and "Note: Non-system" in text for text in both), both
    finally:
        gone.start()
    with wires(centers) as all_of:
        own = all_of[gone.address]
        until(lambda: [bytes(v) for (v,) in own.must("SELECT v FROM app.t WHERE k = 5 AND c = 5", consistency="ONE").rows] == [b"x"],
              "no hint has come")
    for node, mark in marks.items():
        log = node.directory.joinpath("system.log").read_bytes()[mark:].decode(errors="replace")
        complaints = [line for line in log.splitlines() if re.match(r"(WARN|ERROR)\b", line) and not OF_OTHERS.search(line)]
        assert not complaints, (node.address, complaints)
