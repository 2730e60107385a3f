"""Rings: of Ilion alone, and of Ilion and Cassandra. Each node has a loopback address of its own."""
import contextlib
import json
import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import nodetool_layouts
import pytest
from cassandra import AuthenticationFailed
from cassandra.protocol import QueryMessage

from harness.node import Cassandra, Ilion, free_address, ilion_binary, run
from harness.rings import InRing, until
from harness.wire import Wire

QUORUM, ALL = "QUORUM", "ALL"
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': %d}"


def settings(address, seed, cluster="ring"):
    """What makes a node a member of a ring."""
    return {
        "cluster_name": cluster, "num_tokens": 4, "allocate_tokens_for_local_replication_factor": 3, "listen_address": address, "rpc_address": address,
        "commitlog_sync": "periodic", "commitlog_sync_period": "10000ms",
        "seed_provider": "[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
                         f'parameters: [{{seeds: "{seed}"}}]}}]',
    }


class Member(Ilion):
    """Ilion on a directory of its own, with a file that names the seed."""

    def __init__(self, directory, address, seed, **more):
        super().__init__(directory, address, settings={**settings(address, seed), **more})

    def move(self):
        """The next start is under another address."""
        self.address = free_address()
        self.settings.update(listen_address=self.address, rpc_address=self.address)


@contextlib.contextmanager
def three_nodes(directory, **more):
    """The first is the seed."""
    nodes = []
    try:
        for n in range(3):
            address = free_address()
            nodes.append(Member(directory / f"n{n}", address, nodes[0].address if nodes else address, **more))
            nodes[-1].start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


@pytest.fixture
def ring(tmp_path, needs_ilion):
    with three_nodes(tmp_path) as nodes:
        yield nodes


def states(node):
    """Address and state of each node, as one of them sees it."""
    lines = node.nodetool("status").splitlines()
    words = [line.split() for line in lines if line[:1] in ("U", "D") and line[1:2] in ("N", "J", "L", "M")]
    return {line[1]: line[0] for line in words}


def versions(wire):
    own = wire.must("SELECT schema_version FROM system.local").rows
    return {bytes(row[0]) for row in own + wire.must("SELECT schema_version FROM system.peers").rows}


def change(of, *statements):
    """Changes the schema through one node, and waits until all have it."""
    for statement in statements:
        of.must(statement)
        until(lambda: len(versions(of)) == 1, "the nodes do not agree on the schema")


def wire(node):
    return Wire(node.address, timeout_s=60)


# Partitions in an order that is not that of the ring, and all the ways in which pages end with one of them.
PAGED = [
    "SELECT k, c, s FROM app.t WHERE k IN (-1, 0, 1, 3)", "SELECT k, s FROM app.t WHERE k IN (-1, 0, 1) PER PARTITION LIMIT 1",
    "SELECT DISTINCT k, s FROM app.t WHERE k IN (-1, 0, 1, 3)", "SELECT k, count(c) FROM app.t WHERE k IN (-1, 0, 1, 3) GROUP BY k",
    "SELECT k, c, s FROM app.t WHERE k = -1", "SELECT k, c FROM app.t WHERE k IN (-1, 0, 1, 3) LIMIT 4", "SELECT DISTINCT k FROM app.t",
    "SELECT k, c, s FROM app.t PER PARTITION LIMIT 2", "SELECT k, c FROM app.t GROUP BY k, c",
]


def pages_go_on_elsewhere(wires):
    """Each page is asked of another coordinator than the one before; the rows are those of one page."""
    wires[0].must("INSERT INTO app.t (k, s) VALUES (-1, 'alone')", consistency=ALL)
    for query in PAGED:
        whole = wires[0].must(query, consistency=ALL).rows
        assert whole, query
        for size in (1, 2, 3):
            turns = iter(wires * 200)
            reply = wires[0].pages(lambda state: next(turns).send(QueryMessage(query, 5, None, size, state)))
            assert reply.kind == "rows" and reply.rows == whole, (wires[0].version, query, size, reply)
    # A LIMIT that fits into a page leaves no state: a Cassandra would not look at it.
    for first in wires:
        reply = first.send(QueryMessage("SELECT k, c FROM app.t WHERE k = 3 AND v = 'nosuch' LIMIT 1 ALLOW FILTERING", 5, None, 2))
        assert (reply.rows, reply.paging_state) == ([], None), first.host


def traces_tell_of_all(wires):
    """Whoever is asked: a trace has the steps of the node that was asked and of the others."""
    for of in wires:
        for text, request, answer in (("SELECT * FROM app.t WHERE k = 3", "READ_REQ", "READ_RSP"),
                                      ("INSERT INTO app.t (k, c, v) VALUES (9, 9, 'traced')", "MUTATION_REQ", "MUTATION_RSP")):
            message = QueryMessage(text, 5)
            message.tracing = True
            trace = of.send(message).message.trace_id
            of_trace = f"SELECT source, activity FROM system_traces.events WHERE session_id = {trace}"

            def steps():
                found = {}
                for source, activity in of.must(of_trace, consistency="ONE").rows:
                    found.setdefault(socket.inet_ntoa(source), []).append(activity.decode())
                return found

            others = [other.host for other in wires if other.host != of.host]
            until(lambda: all(any("Enqueuing response" in step for step in steps().get(other, ())) for other in others),
                  f"others have no steps in the trace of {text} by {of.host}")
            until(lambda: any(step.startswith(answer) for step in steps()[of.host]), f"{of.host} has no answer in its trace")
            found = steps()
            for other in others:
                assert any(step.startswith(f"Sending {request} message to /{other}:7000") for step in found[of.host]), found
                assert f"{request} message received from /{of.host}:7000" in found[other], found
                assert request != "READ_REQ" or "Executing single-partition query on t" in found[other], found
    wires[0].must("DELETE FROM app.t WHERE k = 9", consistency=ALL)


def only_rows_that_pass_are_sent(node, one):
    """A few rows of a megabyte pass: replicas leave the others out, also before a LIMIT."""
    change(one, "CREATE TABLE app.f (k int, c int, v int, w text, PRIMARY KEY (k, c))")
    wide = "x" * 1000
    for first in range(0, 1200, 30):
        rows = (f"INSERT INTO app.f (k, c, v, w) VALUES (1, {c}, {7 if c in (1100, 1150) else 8}, '{wide}');" for c in range(first, first + 30))
        one.must(f"BEGIN UNLOGGED BATCH {' '.join(rows)} APPLY BATCH", consistency=ALL)
    received = "ilion_internode_received_bytes_total"
    for where in ("k = 1 AND v = 7", "v = 7", "v = 7 AND w > 'a'"):
        for limit in ("", " LIMIT 2", " LIMIT 1"):
            before = node.metrics()[received]
            found = one.must(f"SELECT c FROM app.f WHERE {where}{limit} ALLOW FILTERING", consistency=ALL).rows
            assert [int.from_bytes(c, "big") for c, in found] == [1100, 1150][:1 if limit == " LIMIT 1" else 2], where
            assert node.metrics()[received] - before < 100_000, where
    change(one, "DROP TABLE app.f")


def test_three_nodes_are_one_ring(ring):
    for node in ring:
        until(lambda: list(states(node).values()) == ["UN"] * 3, f"{node.address} does not see three nodes")
    with contextlib.closing(wire(ring[0])) as first, contextlib.closing(wire(ring[1])) as second:
        change(first, f"CREATE KEYSPACE app WITH replication = {REPLICATION % 3}")
        change(second, "CREATE TABLE app.t (k int, c int, s text static, v text, PRIMARY KEY (k, c))",
               "CREATE TABLE app.n (k int PRIMARY KEY, n counter)")
        for k in range(60):
            (first, second)[k % 2].must(f"INSERT INTO app.t (k, c, v) VALUES ({k % 6}, {k}, 'v{k}')", consistency=QUORUM)
        first.must("DELETE FROM app.t WHERE k = 1 AND c > 30", consistency=QUORUM)
        for k in range(9):
            (first, second)[k % 2].must(f"UPDATE app.n SET n = n + 1 WHERE k = {k % 2}", consistency=QUORUM)
        applied = first.must("INSERT INTO app.t (k, c, v) VALUES (7, 7, 'x') IF NOT EXISTS").rows
        again = second.must("INSERT INTO app.t (k, c, v) VALUES (7, 7, 'y') IF NOT EXISTS").rows
        assert (applied[0][0], again[0][0]) == (b"\1", b"\0")
        pages_go_on_elsewhere([first, second])
        with contextlib.closing(wire(ring[2])) as third:
            traces_tell_of_all([first, second, third])
        only_rows_that_pass_are_sent(ring[0], first)
    rows = []
    for node in ring:
        with contextlib.closing(wire(node)) as one:
            found = one.must("SELECT k, c, v FROM app.t", consistency=ALL).rows
            counters = one.must("SELECT k, n FROM app.n", consistency=ALL).rows
            rows.append((sorted(map(tuple, found)), sorted(map(tuple, counters))))
    assert rows[0] == rows[1] == rows[2]
    ring[1].nodetool("disablegossip")
    until(lambda: states(ring[0])[ring[1].address] == "DN", "a node that does not gossip is not down")
    assert ring[1].nodetool("statusgossip") == "not running\n"
    ring[1].nodetool("enablegossip")
    until(lambda: states(ring[0])[ring[1].address] == "UN", "a node that gossips again is not up")
    assert len(rows[0][0]) == 60 - 5 + 1 + 1
    assert [int.from_bytes(n, "big") for _, n in rows[0][1]] == [5, 4]


def test_a_node_that_was_killed_gets_what_it_missed(ring):
    until(lambda: list(states(ring[0]).values()) == ["UN"] * 3, "the ring is not whole")
    with contextlib.closing(wire(ring[0])) as first:
        change(first, f"CREATE KEYSPACE app WITH replication = {REPLICATION % 3}",
               "CREATE TABLE app.t (k int PRIMARY KEY, v text)")
        ring[2].kill()
        for k in range(100):
            first.must(f"INSERT INTO app.t (k, v) VALUES ({k}, 'missed')", consistency=QUORUM)
        until(lambda: states(ring[0])[ring[2].address] == "DN", "nobody misses the third node")
        shows_what_is_missing(ring[0], ring[2].address, first)
        refused = first.query("SELECT * FROM app.t WHERE k = 1", consistency=ALL)
        assert refused.code == 0x1000, refused
        for k in range(100, 200):
            first.must(f"INSERT INTO app.t (k, v) VALUES ({k}, 'missed')", consistency=QUORUM)
        assert len(first.must("SELECT * FROM app.t", consistency=QUORUM).rows) == 200
    ring[2].start()
    with contextlib.closing(wire(ring[2])) as third:
        until(lambda: len(third.must("SELECT * FROM app.t").rows) == 200, "the hints have not come")
    assert list(states(ring[2]).values()) == ["UN"] * 3
    until(lambda: "any pending hints" in ring[0].nodetool("listpendinghints"), "hints that were sent are still there")
    counted = ring[0].metrics()
    assert counted["ilion_hints_delivered_total"] >= 100
    assert counted['ilion_ring_nodes{state="down"}'] == 0
    comes_back_under_another_address(ring)


def comes_back_under_another_address(ring):
    """A node whose address changes while it is down is the same node, for the others and for drivers."""
    before = ring[2].address
    ring[2].stop()
    until(lambda: states(ring[0])[before] == "DN", "nobody misses the third node")
    with contextlib.closing(wire(ring[0])) as first:
        for k in range(200, 300):
            first.must(f"INSERT INTO app.t (k, v) VALUES ({k}, 'missed')", consistency=QUORUM)
        ring[2].move()
        ring[2].start()
        with contextlib.closing(wire(ring[2])) as third:
            until(lambda: len(third.must("SELECT * FROM app.t").rows) == 300, "the hints have not come")
        everybody = {node.address for node in ring}
        for node in ring:
            until(lambda: states(node) == dict.fromkeys(everybody, "UN"), f"{node.address} knows {states(node)}")
        peers = {socket.inet_ntoa(peer) for (peer,) in first.must("SELECT peer FROM system.peers").rows}
        assert peers == everybody - {ring[0].address}
    ring[1].restart()
    until(lambda: states(ring[1]) == dict.fromkeys(everybody, "UN"), "what was forgotten comes back")


def refusal(node, role, password):
    """What a node says to a login; None if it lets it in."""
    try:
        Wire(node.address, timeout_s=60, login=(role, password)).close()
    except AuthenticationFailed as error:
        return str(error)
    return None


def test_roles_of_a_ring(tmp_path, needs_ilion):
    first = ("cassandra", "cassandra")
    with three_nodes(tmp_path, authenticator="PasswordAuthenticator", authorizer="CassandraAuthorizer", roles_validity="0ms",
                     permissions_validity="0ms", credentials_validity="0ms") as ring:
        for node in ring:
            # Whose the first role is changes with each node that comes: nodes look once more after ten seconds.
            until(lambda: refusal(node, *first) is None, f"nobody can log in at {node.address}", seconds=40)
        with contextlib.closing(Wire(ring[0].address, timeout_s=60, login=first)) as root:
            change(root, f"ALTER KEYSPACE system_auth WITH replication = {REPLICATION % 3}",
                   f"CREATE KEYSPACE app WITH replication = {REPLICATION % 3}", "CREATE TABLE app.t (k int PRIMARY KEY)")
            root.must("SELECT * FROM system_auth.roles", consistency=ALL)
            for statement in ("CREATE ROLE one WITH PASSWORD = 'one' AND LOGIN = true", "GRANT SELECT ON app.t TO one",
                              "CREATE ROLE two WITH PASSWORD = 'two' AND LOGIN = true"):
                root.must(statement)
            # The third misses what is taken away, and gets no hint of it.
            for node in ring[:2]:
                node.nodetool("disablehandoff")
            ring[2].stop()
            until(lambda: states(ring[0])[ring[2].address] == "DN", "a node that was stopped is not down")
            root.must("REVOKE SELECT ON app.t FROM one")
            root.must("ALTER ROLE two WITH LOGIN = false")
        ring[2].start()
        until(lambda: list(states(ring[2]).values()) == ["UN"] * 3, "the ring is not whole")
        assert "two is not permitted to log in" in refusal(ring[2], "two", "two")
        with contextlib.closing(Wire(ring[2].address, timeout_s=60, login=("one", "one"))) as one:
            assert one.query("SELECT * FROM app.t").error == "User one has no SELECT permission on <table app.t> or any of its parents"
            for node in ring[:2]:
                node.stop()
            until(lambda: list(states(ring[2]).values()).count("DN") == 2, "nodes that were stopped are not down")
            unknown = "Unable to perform authorization of super-user permission: Cannot achieve consistency level LOCAL_QUORUM"
            assert one.query("SELECT * FROM app.t").error == unknown
        # All are stopped: the first to come back starts, though nobody can log in while most of the roles' replicas are down.
        ring[2].stop()
        ring[0].start()
        assert "Cannot achieve consistency level QUORUM" in refusal(ring[0], *first)
        assert "Cannot achieve consistency level LOCAL_QUORUM" in refusal(ring[0], "one", "one")
        with ThreadPoolExecutor() as pool:
            list(pool.map(Member.start, ring[1:]))
        for node in ring:
            until(lambda: refusal(node, *first) is None, f"nobody can log in at {node.address}")


def shows_what_is_missing(node, down, wire):
    """What a node shows of a ring of three in which `down` is down and misses writes."""
    ring = [line.split() for line in node.nodetool("ring").splitlines() if line.startswith("127.")]
    assert len(ring) == 3 * 4 and {words[2] for words in ring if words[0] == down} == {"Down"}, ring
    cluster = node.nodetool("describecluster")
    for line in ("\tLive: 2\n", "\tUnreachable: 1\n", "#Nodes: 3 #Down: 1\n", f"\t\tUNREACHABLE: [{down}]\n"):
        assert line in cluster, cluster
    ranges = [line for line in node.nodetool("describering", "app").splitlines() if "TokenRange(" in line]
    assert len(ranges) == 3 * 4 and all(line.count("EndpointDetails(") == 3 for line in ranges), ranges
    assert len(node.nodetool("getendpoints", "app", "t", "1").split()) == 3
    assert node.nodetool("gossipinfo").count("  STATUS_WITH_PORT:") == 3
    phis = dict(line.split(",") for line in node.nodetool("failuredetector").splitlines()[1:])
    assert float(phis[f"/{down}"]) > 8, phis
    assert "Gossip active          : true\n" in node.nodetool("info")
    log = (node.directory / "ilion.log").read_text().splitlines()
    reasons = [line for line in log if f"/{down}:7000 is now DOWN" in line]
    assert len(reasons) == 1 and all(word in reasons[0] for word in ("it is silent", "last_heard_ms", "phi", "threshold")), reasons
    until(lambda: f"{down}:7000" in node.nodetool("listpendinghints"), "no hints wait for the node that is down")
    hints = wire.must("SELECT address, dc, rack, status, files FROM system_views.pending_hints").rows
    assert [list(map(bytes, row[1:4])) for row in hints] == [[b"datacenter1", b"rack1", b"DOWN"]]
    assert int.from_bytes(hints[0][4], "big") > 0
    sent = wire.must("SELECT address, dc, sent_count FROM system_views.internode_outbound").rows
    received = wire.must("SELECT address, dc, processed_count FROM system_views.internode_inbound").rows
    assert len(sent) == 2 and len(received) >= 1
    assert all(int.from_bytes(row[2], "big") > 0 for row in sent + received)
    assert len(wire.must("SELECT address, dc, host_id, tokens_version FROM system_views.gossip_info").rows) == 3
    counted = node.metrics()
    assert counted["ilion_hints_created_total"] >= 100 and counted["ilion_hints_files_bytes"] > 0
    assert counted['ilion_ring_nodes{state="down"}'] == 1
    assert counted['ilion_internode_sent_total{verbs="write"}'] > 0
    netstats = node.nodetool("netstats").splitlines()
    assert int(next(line for line in netstats if line.startswith("Gossip messages")).split()[-2]) > 0
    # What is switched is in force at once, and can be switched back.
    for verb, told in (("disablehandoff", "not running"), ("enablehandoff", "running")):
        node.nodetool(verb)
        assert node.nodetool("statushandoff") == f"Hinted handoff is {told}\n"
    for verb in ("repair", "cleanup", "assassinate"):
        with pytest.raises(RuntimeError):
            node.nodetool(verb)


def test_a_node_of_another_cluster_does_not_join(ring, tmp_path):
    address = free_address()
    of_another = settings(address, ring[0].address, cluster="another")
    other = Ilion(tmp_path / "other", address, settings=of_another, ready_timeout_s=8)
    with pytest.raises(RuntimeError):
        other.start()
    assert other.address not in states(ring[0])
    other.kill()


def between_nodes(made, trusted, **more):
    """The options of TLS between nodes that show each other certificates. Cassandra and Ilion take the same."""
    return json.dumps({
        **more, "internode_encryption": "all", "keystore": str(made / "node.pem"), "truststore": str(trusted), "require_client_auth": True,
        "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"},
    })


def test_nodes_speak_tls_and_messages_of_5_0_with_a_cassandra(request, tmp_path, needs_ilion):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs a real Cassandra")
    made, others, nodes = tmp_path / "made", tmp_path / "others", []
    for directory in (made, others):
        run([ilion_binary(), "tls", directory])
    seed = free_address()
    seeds = ("seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
             f'parameters: [{{seeds: "{seed}"}}]}}]')
    encrypted = between_nodes(made, made / "ca.crt")
    settings = ["cluster_name: ring", seeds, f"server_encryption_options: {encrypted}", "storage_compatibility_mode: NONE"]
    cassandra = Cassandra(tmp_path / "c", seed, settings=settings)
    try:
        nodes.append(cassandra)
        cassandra.start()
        ilion = Member(tmp_path / "n1", free_address(), seed)
        ilion.settings |= {"server_encryption_options": encrypted, "storage_compatibility_mode": "NONE"}
        nodes.append(ilion)
        ilion.start()
        until(lambda: list(states(ilion).values()) == ["UN"] * 2, "the ring is not whole")
        with contextlib.closing(wire(cassandra)) as peer, contextlib.closing(wire(ilion)) as own:
            until(lambda: len(peer.must("SELECT peer FROM system.peers").rows) == 1, "the Cassandra does not see the other")
            change(peer, f"CREATE KEYSPACE app WITH replication = {REPLICATION % 2}")
            change(own, "CREATE TABLE app.t (k int PRIMARY KEY, v blob)")
            until(lambda: versions(peer) == versions(own), "the schema is not one")
            for k in range(40):
                (peer, own)[k % 2].must(f"INSERT INTO app.t (k, v) VALUES ({k}, 0x{'ab' * 70_000 if k > 37 else 'ab'})", consistency=ALL)
            rows = [sorted(map(tuple, one.must("SELECT k, v FROM app.t", consistency=ALL).rows)) for one in (peer, own)]
            assert len(rows[0]) == 40 and rows[0] == rows[1]
            # Only version 13 can say of something that it expires after January 2038.
            for k, of in enumerate((peer, own)):
                of.must(f"INSERT INTO app.t (k, v) VALUES ({k}, 0xcd) USING TTL 630720000", consistency=ALL)
            for of in (peer, own):
                for k, ttl in of.must("SELECT k, TTL(v) FROM app.t WHERE k IN (0, 1)", consistency=ALL).rows:
                    assert 630_700_000 < int.from_bytes(ttl) <= 630_720_000, k
            for node in (cassandra, ilion):
                assert re.findall(r"NET_VERSION:\d+:(\d+)", node.nodetool("gossipinfo")) == ["13", "13"]
                assert re.search(r"Mismatch \(Blocking\): 0", node.nodetool("netstats"))
        with socket.create_connection((ilion.address, 7000), timeout=20) as plain:
            plain.sendall(b"\xca\x55\x2d\xfa" + bytes(20))
            # What was sent is not read, so the end may come as a reset.
            with contextlib.suppress(ConnectionResetError):
                assert plain.recv(1) == b""
        stranger = Member(tmp_path / "n2", free_address(), seed)
        # It trusts nobody that the others know.
        stranger.settings["server_encryption_options"] = between_nodes(made, others / "ca.crt")
        stranger.ready_timeout_s = 5
        nodes.append(stranger)
        with pytest.raises(RuntimeError, match="not ready"):
            stranger.start()
        assert "no TLS with another node" in (stranger.directory / "ilion.log").read_text()
    finally:
        for node in nodes:
            node.kill()


def test_a_ring_goes_to_tls_and_back_node_by_node(request, tmp_path, needs_ilion):
    """With `optional` no step parts the nodes: each falls back where the other speaks no TLS."""
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs a real Cassandra")
    made, seed = tmp_path / "made", free_address()
    run([ilion_binary(), "tls", made])
    plain = ["cluster_name: ring", "seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
             f'parameters: [{{seeds: "{seed}"}}]}}]']
    optional = between_nodes(made, made / "ca.crt", optional=True)
    cassandra, ilion = Cassandra(tmp_path / "c", seed, settings=plain), None

    def is_whole(k):
        """Both have both write: each has connected to the other."""
        until(lambda: list(states(ilion).values()) == ["UN"] * 2, "Ilion does not see two nodes")
        until(lambda: sum(line.startswith("UN ") for line in cassandra.nodetool("status").splitlines()) == 2,
              "the Cassandra does not see two nodes")
        with contextlib.closing(wire(cassandra)) as peer, contextlib.closing(wire(ilion)) as own:
            if k == 0:
                change(peer, f"CREATE KEYSPACE app WITH replication = {REPLICATION % 2}", "CREATE TABLE app.t (k int PRIMARY KEY)")
                until(lambda: versions(peer) == versions(own), "the schema is not one")
            for n, one in enumerate((peer, own)):
                # A Cassandra tries TLS three times, a second apart, before it falls back. A write may not wait for so long.
                write = f"INSERT INTO app.t (k) VALUES ({k + n})"
                until(lambda: one.query(write, consistency=ALL).kind != "error", f"{one.host} does not reach the other")
                assert len(one.must("SELECT k FROM app.t", consistency=ALL).rows) == k + n + 1

    def said(node):
        """Since its last start, by a Cassandra."""
        return (node.directory / ("ilion.log" if node is ilion else "system.log")).read_text()

    try:
        cassandra.start()
        ilion = Member(tmp_path / "n1", free_address(), seed)
        ilion.settings["server_encryption_options"] = optional
        ilion.start()
        is_whole(0)
        assert "another node closed where TLS begins" in said(ilion)
        cassandra.stop()
        cassandra.settings = plain + [f"server_encryption_options: {optional}"]
        cassandra.start()
        is_whole(2)
        for words in (f"{ilion.address}:7000-SMALL_MESSAGES-.* successfully connected, .*encryption = encrypted",
                      f"{ilion.address}:7000.*-SMALL_MESSAGES-.* messaging connection established, .*encryption = encrypted"):
            assert re.search(words, said(cassandra)), words
        ilion.stop()
        del ilion.settings["server_encryption_options"]
        ilion.start()
        is_whole(4)
        assert "-SMALL_MESSAGES-[no-channel] is falling back to NO_SSL" in said(cassandra)
    finally:
        for node in filter(None, (ilion, cassandra)):
            node.kill()


@pytest.mark.parametrize("release", ["4.1.10", "4.0.17"])
def test_older_cassandras_speak_tls_with_an_ilion_that_falls_back(release, request, tmp_path, needs_ilion):
    if request.config.getoption("--oracle") == "none" or not request.config.getoption("--mixes"):
        pytest.skip("needs a real Cassandra of an older release: --mixes 1")
    made, store, trusted = tmp_path / "made", tmp_path / "node.p12", tmp_path / "trusted.p12"
    run([ilion_binary(), "tls", made])
    run(["openssl", "pkcs12", "-export", "-in", made / "node.pem", "-out", store, "-passout", "pass:secret12"])
    run(["keytool", "-importcert", "-noprompt", "-file", made / "ca.crt", "-keystore", trusted, "-storetype", "PKCS12", "-storepass", "secret12"])
    options = {"internode_encryption": "all", "optional": True, "require_client_auth": True, "store_type": "PKCS12", "keystore": str(store),
               "keystore_password": "secret12", "truststore": str(trusted), "truststore_password": "secret12"}
    encrypted, nodes = f"server_encryption_options: {json.dumps(options)}", []
    try:
        for n in range(2):
            address = free_address()
            seeds = ("seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
                     f'parameters: [{{seeds: "{nodes[0].address if nodes else address}"}}]}}]')
            nodes.append(Cassandra(tmp_path / f"c{n}", address, settings=[seeds], version=release).start())
        cassandra, swapped = nodes
        swapped.stop()
        ilion = InRing(swapped.directory, swapped.address)
        with open(ilion.directory / "cassandra.yaml", "a") as yaml:
            yaml.write(f"\n{encrypted}\n")
        nodes[1] = ilion.start()

        def writes_of_both():
            for node in nodes:
                until(lambda: node.nodetool("status").count("\nUN ") == 2, f"{node.address} does not see two nodes")
            with contextlib.closing(wire(cassandra)) as peer, contextlib.closing(wire(ilion)) as own:
                change(peer, f"CREATE KEYSPACE IF NOT EXISTS app WITH replication = {REPLICATION % 2}",
                       "CREATE TABLE IF NOT EXISTS app.t (k int PRIMARY KEY, v blob)")
                for k, of in enumerate((peer, own)):
                    # The large one has a connection of its own.
                    for size in (1, 70_000):
                        write = f"INSERT INTO app.t (k, v) VALUES ({k}, 0x{'ab' * size})"
                        until(lambda: of.query(write, consistency=ALL).kind != "error", f"{of.host} does not reach the other")

        writes_of_both()
        assert "another node closed where TLS begins" in (ilion.directory / "ilion.log").read_text()
        cassandra.stop()
        cassandra.settings.append(encrypted)
        cassandra.start()
        writes_of_both()
        log = (cassandra.directory / "system.log").read_text()
        for kind in ("SMALL", "LARGE", "URGENT"):
            for words in ("successfully connected", "messaging connection established"):
                assert re.search(rf"{ilion.address}:7000.*-{kind}_MESSAGES-.* {words}, .*encryption = encrypted", log), (kind, words)
    finally:
        for node in nodes:
            node.kill()


@pytest.fixture
def mixed(request, tmp_path, needs_ilion):
    """Two Cassandras; the second's directory can be handed to Ilion and back."""
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs a real Cassandra")
    nodes = []
    for n in range(2):
        address = free_address()
        seeds = ("seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
                 f'parameters: [{{seeds: "{nodes[0].address if nodes else address}"}}]}}]')
        nodes.append(Cassandra(tmp_path / f"c{n}", address, settings=[seeds]))
        nodes[-1].start()
    yield nodes
    for node in nodes:
        node.kill()
    for n in range(2):
        shutil.rmtree(tmp_path / f"c{n}", ignore_errors=True)


def test_a_node_is_swapped_in_a_live_ring_and_back(mixed, tmp_path):
    cassandra, swapped = mixed

    def sees_two():
        text = cassandra.nodetool("status")
        return sum(line.startswith("UN ") for line in text.splitlines()) == 2

    until(sees_two, "the Cassandras are no ring")
    with contextlib.closing(wire(cassandra)) as peer:
        # Ten seconds after its start a Cassandra makes its role. It would keep a hint of it for the other, once that is down.
        until(lambda: peer.query("SELECT role FROM system_auth.roles").rows, "the Cassandra has no role")
        change(peer, f"CREATE KEYSPACE app WITH replication = {REPLICATION % 2}",
               "CREATE TABLE app.t (k int, c int, s text static, v text, m map<int, text>, PRIMARY KEY (k, c))")
        for k in range(60):
            peer.must(f"INSERT INTO app.t (k, c, s, v, m) VALUES ({k % 6}, {k}, 's', 'v{k}', {{1: 'a'}})", consistency=ALL)
        before = sorted(map(tuple, peer.must("SELECT k, c, s, v FROM app.t", consistency=ALL).rows))
        swapped.stop()
        ilion = InRing(swapped.directory, swapped.address)
        ilion.start()
        try:
            until(sees_two, "the Cassandra does not see the node that took a place")
            sees_the_same(cassandra, ilion, tmp_path)
            with contextlib.closing(wire(ilion)) as own:
                for one in (peer, own):
                    assert sorted(map(tuple, one.must("SELECT k, c, s, v FROM app.t", consistency=ALL).rows)) == before
                    assert len(one.must("SELECT v FROM app.t WHERE k = 3 AND c > 20", consistency=ALL).rows) == 7
                    assert len(one.must("SELECT c FROM app.t WHERE v = 'v33' ALLOW FILTERING", consistency=ALL).rows) == 1
                    assert len(one.must("SELECT v FROM app.t WHERE k = 3 AND v = 'v33' ALLOW FILTERING", consistency=ALL).rows) == 1
                    assert len(one.must("SELECT c FROM app.t WHERE k = 3 ORDER BY c DESC LIMIT 4", consistency=ALL).rows) == 4
                pages_go_on_elsewhere([peer, own])
                older = [Wire(one.host, version=3) for one in (own, peer)]
                pages_go_on_elsewhere(older)
                for one in older:
                    one.close()
                traces_tell_of_all([peer, own])
                # One replica, so that each node has increments led by the other.
                change(peer, f"CREATE KEYSPACE one WITH replication = {REPLICATION % 1}",
                       "CREATE TABLE one.n (k int PRIMARY KEY, n counter)")
                for k in range(20):
                    for one in (peer, own):
                        one.must(f"UPDATE one.n SET n = n + 3 WHERE k = {k}")
                        one.must(f"UPDATE one.n SET n = n - 1 WHERE k = {k}")
                for one in (peer, own):
                    counted = one.must("SELECT n FROM one.n").rows
                    assert [int.from_bytes(n, "big") for (n,) in counted] == [4] * 20
                change(peer, "CREATE TABLE app.of_cassandra (k int PRIMARY KEY, v text)")
                change(own, "CREATE TABLE app.of_ilion (k int PRIMARY KEY, v text)")
                for one, other, table in ((peer, own, "of_ilion"), (own, peer, "of_cassandra")):
                    one.must(f"INSERT INTO app.{table} (k, v) VALUES (1, 'x')", consistency=ALL)
                    assert len(other.must(f"SELECT * FROM app.{table} WHERE k = 1", consistency=ALL).rows) == 1
                    applied = one.must(f"INSERT INTO app.{table} (k, v) VALUES (2, 'x') IF NOT EXISTS", consistency=QUORUM)
                    assert applied.rows[0][0] == b"\1"
                    one.must(f"BEGIN BATCH INSERT INTO app.{table} (k, v) VALUES (3, 'b'); "
                             f"INSERT INTO app.{table} (k, v) VALUES (4, 'b'); APPLY BATCH", consistency=ALL)
                    assert len(other.must(f"SELECT * FROM app.{table}", consistency=ALL).rows) == 4
        finally:
            ilion.drain()
        swapped.start()
        until(sees_two, "the Cassandra that is back is not seen")
        for table in ("of_ilion", "of_cassandra"):
            assert len(peer.must(f"SELECT * FROM app.{table}", consistency=ALL).rows) == 4


def sees_the_same(cassandra, ilion, directory):
    """What both print of a ring that both are in: the same lines, in any order, but for loads that change."""
    lines = ("describering app", "getendpoints app t 3", "ring app", "describecluster", "statusgossip", "listpendinghints",
             "getmaxhintwindow", "statushandoff")
    wanted = [nodetool_layouts.Call(line.split(), "", "") for line in lines]
    both = zip(wanted, nodetool_layouts.on_cassandra(cassandra.address, wanted, directory), nodetool_layouts.on_ilion(ilion, wanted))
    for call, (_, expected), (status, found) in both:
        kept = {
            # The load of a node is that of its last word about it.
            "ring": lambda line: [word for at, word in enumerate(line.split()) if at not in (4, 5)],
            # Ilion has no snitch that learns who is fast, and says so. Nodes of a line come in any order.
            "describecluster": lambda line: None if "DynamicEndPointSnitch" in line else sorted(re.split(r"[\[\], ]+", line)),
        }.get(call.words[0], lambda line: line)
        shapes = [sorted(filter(None, map(kept, text.splitlines())), key=str) for text in (expected, found)]
        assert status == 0 and shapes[0] == shapes[1], (call.words, expected, found)
