"""Elements of collections and fields of user types, read from files beside a real Cassandra: what is stepped over changes no answer,
and is not read.
"""
import random

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from harness.differential import Difference
from harness.wire import Wire
from random_selects import KEYSPACE, SERVER_ERROR, Answer, prepare

LONG = "x" * 10_000
# Paths of each column, by how a statement may write them; 1.5 and 1.50 are one decimal.
DECIMALS, TEXTS, TUPLES = ("0", "1.5", "1.50", "-2", "1e1"), ("''", "'a'", "'b'", "'ba'", "'z'"), ("(1, 'a')", "(1, 'b')", "(2, null)")
TIMES = tuple(f"00000000-0000-1{n}00-8000-000000000000" for n in range(3))
COLUMNS = {
    "t": ("map<text, text>", TEXTS),
    "d": ("map<decimal, text>", DECIMALS),
    "p": ("map<frozen<tuple<int, text>>, text>", TUPLES),
    "s": ("set<timeuuid>", TIMES),
    "u": ("pair3", ("a", "b", "c")),
    "st": ("map<text, text> static", TEXTS),
}


def both(wires, cql, page=5000):
    """Whether both nodes answered the same, or Cassandra with a Java exception."""
    ours, theirs = (Answer(wire, lambda state, wire=wire: wire.query(cql, paging_state=state, fetch_size=page)) for wire in wires)
    if ours.said != theirs.said and theirs.code != SERVER_ERROR:
        raise Difference(f"{cql}; (pages of {page})\n  node:      {ours}\n  cassandra: {theirs}")
    return ours.said == theirs.said


def value(chance):
    return chance.choice(["'v'", "'w'", "''", f"'{chance.choice('yz')}{LONG}'"])


def write(chance, table, timestamp):
    """A write of some elements of one row."""
    k, c = chance.randint(0, 2), chance.randint(0, 3)
    name = chance.choice(list(COLUMNS))
    paths = COLUMNS[name][1]
    row = f"k = {k}" if name == "st" else f"k = {k} AND c = {c}"
    using = f"USING TIMESTAMP {timestamp}"
    pick, path = chance.random(), chance.choice(paths)
    if pick < 0.1:
        return f"INSERT INTO {table} (k, c, v) VALUES ({k}, {c}, {chance.randint(0, 9)}) {using}"
    if pick < 0.2:
        return f"DELETE {chance.choice([name, 'v'] if name != 'st' else [name])} FROM {table} {using} WHERE {row}"
    if pick < 0.25:
        return f"DELETE FROM {table} {using} WHERE k = {k} AND c = {c}"
    if chance.random() < 0.1:
        using += " AND TTL 1000000"
    if name == "s":
        return f"UPDATE {table} {using} SET s = s {chance.choice('++-')} {{{', '.join(chance.sample(paths, 2))}}} WHERE {row}"
    if name == "u":
        return f"UPDATE {table} {using} SET u.{path} = {chance.choice(['null', value(chance), value(chance)])} WHERE {row}"
    if pick < 0.35:
        # Of two keys of a literal that are equal Cassandra takes any.
        some = ", ".join(f"{path}: {value(chance)}" for path in chance.sample([path for path in paths if path != "1.50"], 3))
        return f"UPDATE {table} {using} SET {name} = {chance.choice(['', name + ' + '])}{{{some}}} WHERE {row}"
    return f"UPDATE {table} {using} SET {name}[{path}] = {chance.choice(['null', value(chance), value(chance)])} WHERE {row}"


def part(chance, starts):
    """Elements, or what there is to know of them; now and then a whole column. `starts` has those of the statement: of two parts of a
    column with the same start Cassandra forgets one (docs/COMPAT.md)."""
    name = chance.choice(list(COLUMNS))
    one, other = (chance.choice(COLUMNS[name][1]) for _ in range(2))
    path, start = (f".{one}", one) if name == "u" else chance.choice(
        [(f"[{one}]", one)] * 3 + [(f"[{one}..{other}]", one), (f"[..{one}]", None), (f"[{one}..]", one)])
    if starts.setdefault((name, start.replace("1.50", "1.5") if start else None), path) != path:
        return "v"
    shown = name + path
    return chance.choice([shown] * 12 + [
        f"writetime({shown})", f"maxwritetime({shown})", f"count({shown})", f"cast({shown} AS text)" if name != "s" else shown,
        name, f"writetime({name})", "v", "k"])


def select(chance, table):
    starts = {}
    what = ", ".join(part(chance, starts) for _ in range(chance.choice([1, 1, 1, 2, 3])))
    where = [chance.choice([f"k = {chance.randint(0, 2)}", "k IN (0, 1, 2)"])] if chance.random() < 0.7 else []
    if where and chance.random() < 0.5:
        where.append(chance.choice(["c = {}", "c > {}", "c <= {}"]).format(chance.randint(0, 3)))
    if chance.random() < 0.2:
        name = chance.choice(["t", "d", "p", "st"])
        # Not with '': a deleted element counts as that with Cassandra (docs/COMPAT.md).
        where.append(f"{name}[{chance.choice(COLUMNS[name][1])}] = {chance.choice(['null', value(chance).replace(repr(''), repr('v'))])}")
    clauses = [f"SELECT {chance.choice(['', '', '', 'JSON '])}{what} FROM {table}", f"WHERE {' AND '.join(where)}" if where else "",
               "ORDER BY c DESC" if any(w.startswith("k =") for w in where) and chance.random() < 0.2 else "",
               "LIMIT 3" if chance.random() < 0.1 else "", "ALLOW FILTERING"]
    return " ".join(filter(None, clauses))


@pytest.fixture(scope="module")
def nodes(target, oracle):
    if target is oracle or target.address == oracle.address:
        pytest.skip("the node under test is the real Cassandra")
    prepare([target, oracle])
    for node in (target, oracle):
        wire = Wire(node.address, node.port)
        wire.must(f"CREATE TYPE {KEYSPACE}.pair3 (a text, b text, c text)")
        wire.close()
    return [target, oracle]


@pytest.mark.parametrize("flushes", [0, 1, 4])
def test_answers_agree(nodes, flushes):
    chance, table = random.Random(flushes), f"{KEYSPACE}.elements{flushes}"
    wires = [Wire(node.address, node.port) for node in nodes]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    done = [f"CREATE TABLE {table} (k int, c int, v int, {columns}, PRIMARY KEY (k, c))"]
    answered = 0
    try:
        both(wires, done[0])
        # In any order, none twice: of two that expire and have the same one, that which came later by the node's clock would win.
        for number, timestamp in enumerate(chance.sample(range(1, 1000), 150), 1):
            done.append(write(chance, table, timestamp))
            assert both(wires, done[-1])
            if flushes and number % (150 // flushes) == 0:
                nodes[0].flush(KEYSPACE, f"elements{flushes}")
        for _ in range(400):
            answered += both(wires, select(chance, table), chance.choice([1, 3, 5000, 5000]))
    except Difference as difference:
        story = ";\n".join(done) + f";\n\n{difference}"
        pytest.fail(story.replace(LONG, "x..."), pytrace=False)
    finally:
        for wire in wires:
            wire.close()
    assert answered > 300, answered


def test_markers_stand_for_keys(nodes):
    wires = [Wire(node.address, node.port) for node in nodes]
    table, answers = f"{KEYSPACE}.marked", []
    for node, wire in zip(nodes, wires):
        wire.must(f"CREATE TABLE {table} (k int PRIMARY KEY, m map<text, text>, d map<decimal, text>)")
        wire.must(f"INSERT INTO {table} (k, m, d) VALUES (1, {{'a': '{LONG}', 'b': 'vb', 'c': 'vc'}}, {{1.5: 'x', 2: '{LONG}'}})")
        if node is nodes[0]:
            node.flush(KEYSPACE, "marked")
        prepared = wire.prepare(f"SELECT m[?], m[?..?], d[?] FROM {table}")
        of_node = []
        for values in ((b"a", b"b", b"c", b"\0\0\0\x02\0\x96"), (b"b", b"b", b"b", b"\0\0\0\0\x02"), (b"zz", b"c", b"a", b"\0\0\0\x01\x14")):
            reply = wire.execute(prepared, values)
            of_node.append((reply.kind, reply.rows, reply.error))
        answers.append(of_node)
        wire.close()
    assert answers[0] == answers[1]
    assert answers[0][1][1][0][0] == b"vb", answers[0]


def test_other_elements_are_not_read(nodes, needs_ilion):
    """What EXPLAIN ANALYZE counts of bytes: those of the elements, and what a slice of them reads ahead, not of the map."""
    table = f"{KEYSPACE}.long"
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([nodes[0].address]))
    cluster = Cluster([nodes[0].address], port=nodes[0].port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    try:
        session = cluster.connect()
        session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, m map<int, text>) WITH compression = {{'enabled': false}}")
        for n in range(50):
            session.execute(f"UPDATE {table} SET m[{n}] = '{n}{LONG * 2}' WHERE k = 1")
        nodes[0].flush(KEYSPACE, "long")
        for what, least, most in (("m[25]", 20_000, 60_000), ("m[0..9]", 200_000, 400_000), ("m", 1_000_000, 1_100_000)):
            rows = session.execute(f"EXPLAIN ANALYZE SELECT {what} FROM {table} WHERE k = 1 BYPASS CACHE")
            (total,) = [row for row in rows if row.operation == "total"]
            assert least <= total.figures["disk_bytes"] <= most, (what, total)
    finally:
        cluster.shutdown()
