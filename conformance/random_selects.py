#!/usr/bin/env python3
"""Random statements on random tables, told to two nodes: whatever one answers, the other has to answer.

    random_selects.py [--seed S] [--tables N] [--selects N] --target ilion|ADDRESS --cassandra DIR|ADDRESS

Tables have columns of every type; writes have timestamps that meet. A SELECT is put together from all that the grammar has,
sensible or not: functions, casts, arithmetic, aggregates, parts of values, relations of each kind on any column, token(), GROUP BY,
ORDER BY, limits, DISTINCT, JSON, and pages of several sizes. Some of what was written is flushed on the first node, so that its files
answer, too. Rows, names, types and warnings have to be the same to the byte, and errors of the same code; which of several mistakes an
error tells is left to `cql/corners.cqltest`. `excused` says what is known to differ.
"""
import argparse
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness.node import Cassandra, complain, open_target  # noqa: E402
from harness.wire import Wire  # noqa: E402

KEYSPACE = "random_selects"
APPLIED = [("[applied]", "boolean")]
PAGES = (1, 2, 3, 7, 5000, 5000)

SERVER_ERROR, PROTOCOL_ERROR, READ_FAILURE = 0x0000, 0x000A, 0x1300


def distinct(chance, items, at_most):
    return chance.sample(items, chance.randint(0, at_most))


# Literals of each type: few and small, so that values meet.
TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "varint"), lambda c: str(c.randint(-2, 4))),
    **dict.fromkeys(("float", "double", "decimal"), lambda c: c.choice(["1.5", "-0.25", "2", "1e3", "0"])),
    **dict.fromkeys(("text", "ascii"), lambda c: c.choice(["''", "'a'", "'b'", "'ab'", "'Z'"])),
    "boolean": lambda c: c.choice(["true", "false"]),
    "blob": lambda c: c.choice(["0x", "0x00ff", "0xdeadbeef"]),
    "uuid": lambda c: f"00000000-0000-4000-8000-00000000000{c.randint(0, 4)}",
    "timeuuid": lambda c: f"00000000-0000-1000-8000-00000000000{c.randint(0, 4)}",
    "timestamp": lambda c: c.choice(["'2020-01-01'", "0", "123456789", "'2021-05-06 07:08:09.123+0000'"]),
    "date": lambda c: c.choice(["'2020-01-01'", "'1969-12-31'"]),
    "time": lambda c: c.choice(["'01:02:03'", "'23:59:59.999999999'"]),
    "duration": lambda c: c.choice(["1mo2d", "3h", "-1d"]),
    "inet": lambda c: c.choice(["'127.0.0.1'", "'::1'"]),
    "vector<float, 2>": lambda c: f"[{c.choice(['1', '2.5'])}, {c.choice(['0', '-1'])}]",
    **dict.fromkeys(("pair", "frozen<pair>"), lambda c: f"{{a: {c.randint(-2, 4)}, b: '{c.choice('xy')}'}}"),
    "tuple<int, text>": lambda c: f"({c.randint(-2, 4)}, '{c.choice('xy')}')",
    "set<int>": lambda c: f"{{{', '.join(distinct(c, '0123', 3))}}}",
    "list<text>": lambda c: str(distinct(c, "pqr", 3)),
    "frozen<list<int>>": lambda c: f"[{', '.join(distinct(c, '012', 3))}]",
    "map<int, text>": lambda c: str({k: c.choice("pqr") for k in distinct(c, range(4), 3)}),
    "frozen<map<text, int>>": lambda c: str({k: c.randint(0, 3) for k in distinct(c, "pq", 2)}),
}
KEY_TYPES = [kind for kind in TYPES if kind not in ("set<int>", "list<text>", "map<int, text>", "pair", "duration")]
FUNCTIONS = ("collection_count collection_min collection_max collection_sum map_keys map_values to_date to_timestamp to_unix_timestamp "
             "min_timeuuid abs exp round mask_default mask_null mask_hash text_as_blob int_as_blob bigintasblob similarity_cosine "
             "length octet_length to_json").split()


class Table:
    """A random table and the statements on it."""

    def __init__(self, chance, name):
        self.chance, self.name = chance, f"{KEYSPACE}.{name}"
        common = lambda: chance.choice(["int", "text", chance.choice(KEY_TYPES)])  # noqa: E731
        self.is_counter = chance.random() < 0.06
        self.is_conditional = not self.is_counter and chance.random() < 0.4
        self.keys = {f"p{i}": common() for i in range(chance.choice([1, 1, 1, 2]))}
        self.clustering = {f"c{i}": common() for i in range(chance.choice([0, 1, 1, 2, 2, 3]))}
        has_static = self.clustering and not self.is_counter and chance.random() < 0.4
        self.statics = {"s0": chance.choice(list(TYPES))} if has_static else {}
        self.regular = {f"v{i}": "counter" if self.is_counter else chance.choice(list(TYPES)) for i in range(chance.randint(1, 3))}
        self.columns = {**self.keys, **self.clustering, **self.statics, **self.regular}
        self.orders = [f"{column} {chance.choice(['ASC', 'DESC'])}" for column in self.clustering]
        self.partitions = [{column: self.literal(kind) for column, kind in self.keys.items()} for _ in range(3)]

    @property
    def has_clock_times(self):
        """Whether cells have timestamps that a node gave them."""
        return self.is_counter or self.is_conditional

    def literal(self, kind, null=0.0):
        if self.chance.random() < null:
            return "null"
        return TYPES["int" if kind == "counter" else kind](self.chance)

    def create(self):
        columns = [f"{column} {kind}{' static' * (column in self.statics)}" for column, kind in self.columns.items()]
        primary = ", ".join([f"({', '.join(self.keys)})", *self.clustering])
        ordered = f" WITH CLUSTERING ORDER BY ({', '.join(self.orders)})" if self.orders else ""
        return f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({primary})){ordered}"

    def write(self):
        return self.conditional() if self.is_conditional and self.chance.random() < 0.5 else self.plain()

    def operation(self, column, kind):
        """A term of SET, or a part of a value that DELETE names: both forms of it."""
        chance, base = self.chance, kind.split("<")[0]
        value = self.literal(kind, null=0.1)
        other = [f"{column} = {value}"]
        if base in ("set", "list", "map"):
            other += [f"{column} = {column} + {value}", f"{column} = {column} - {value}", f"{column} += {value}", f"{column} -= {value}"]
        if base == "list":
            other += [f"{column} = {value} + {column}", f"{column}[{chance.randint(0, 2)}] = 'z'"]
        if base == "map":
            other += [f"{column}[{chance.randint(0, 3)}] = {chance.choice(['null', repr('z')])}",
                      f"{column} = {column} - {{{chance.randint(0, 3)}}}"]
        if base == "pair":
            other += [f"{column}.a = {chance.choice(['null', '7'])}"]
        return chance.choice(other)

    def condition(self):
        """One comparison of IF."""
        chance = self.chance
        column, kind = chance.choice(list({**self.statics, **self.regular}.items()))
        operator, value = chance.choice(["=", "=", "!=", "<", "<=", ">", ">="]), self.literal(kind, null=0.2)
        return chance.choice([
            f"{column} {operator} {value}", f"{column} {operator} {value}",
            f"{column} IN ({value}, {self.literal(kind, null=0.1)})",
            f"{column}[{chance.choice(['0', '1', repr('p')])}] {operator} {chance.choice(['1', repr('p'), 'null'])}",
            f"{column}.a {operator} {chance.choice(['1', 'null'])}"])

    def conditional(self):
        chance = self.chance
        values = {**chance.choice(self.partitions), **{c: self.literal(kind) for c, kind in self.clustering.items()}}
        if self.statics and chance.random() < 0.2:
            values = {column: values[column] for column in self.keys}
        row = " AND ".join(f"{column} = {value}" for column, value in values.items())
        conditions = " AND ".join(self.condition() for _ in range(chance.choice([1, 1, 1, 2])))
        when = chance.choice([conditions, conditions, conditions, "EXISTS"])
        pick = chance.random()
        if pick < 0.3:
            values |= {c: self.literal(kind, null=0.1) for c, kind in {**self.statics, **self.regular}.items() if chance.random() < 0.8}
            return f"INSERT INTO {self.name} ({', '.join(values)}) VALUES ({', '.join(values.values())}) IF NOT EXISTS"
        if pick < 0.8:
            changed = chance.sample(list({**self.statics, **self.regular}.items()), 1)
            terms = ", ".join(self.operation(*column) for column in changed)
            return f"UPDATE {self.name} SET {terms} WHERE {row} IF {when}"
        what = chance.choice(["", chance.choice(list({**self.statics, **self.regular}))])
        return f"DELETE {what} FROM {self.name} WHERE {row} IF {when}"

    def plain(self):
        chance, timestamp = self.chance, self.chance.randint(1, 50)
        values = {**chance.choice(self.partitions), **{c: self.literal(kind) for c, kind in self.clustering.items()}}
        row = " AND ".join(f"{column} = {value}" for column, value in values.items())
        changed, kind = chance.choice(list(self.regular.items()))
        if self.is_counter:
            return f"UPDATE {self.name} SET {changed} = {changed} + {chance.randint(0, 5)} WHERE {row}"
        pick = chance.random()
        if pick < 0.75:
            others = {**self.statics, **self.regular}
            values |= {c: self.literal(kind, null=0.1) for c, kind in others.items() if chance.random() < 0.8}
            return f"INSERT INTO {self.name} ({', '.join(values)}) VALUES ({', '.join(values.values())}) USING TIMESTAMP {timestamp}"
        if pick < 0.85:
            count = len(self.keys) + chance.randint(0, len(self.clustering))
            slice_ = " AND ".join(f"{column} = {value}" for column, value in list(values.items())[:count])
            return f"DELETE FROM {self.name} USING TIMESTAMP {timestamp} WHERE {slice_}"
        if pick < 0.92:
            return f"DELETE {changed} FROM {self.name} USING TIMESTAMP {timestamp} WHERE {row}"
        return f"UPDATE {self.name} USING TIMESTAMP {timestamp} SET {self.operation(changed, kind)} WHERE {row}"

    def selector(self):
        chance = self.chance
        column, kind = chance.choice(list(self.columns.items()))
        return chance.choice([column] * 12 + [
            f"count({column})", "count(*)", f"{chance.choice(['min', 'max', 'sum', 'avg'])}({column})",
            f"{'ttl' if self.has_clock_times else chance.choice(['ttl', 'writetime', 'maxwritetime'])}({column})", f"token({', '.join(self.keys)})",
            f"cast({column} AS {chance.choice(['text', 'int', 'double', 'bigint', 'timestamp', 'date'])})",
            f"{column} {chance.choice('+-*/%')} {chance.choice([column, self.literal(kind), '2'])}",
            f"{column}[{chance.choice(['0', '1', '2', repr('p')])}]", f"{column}.a",
            f"{chance.choice(FUNCTIONS)}({column})", f"{column} AS x{chance.randint(0, 2)}"])

    def relation(self, column, kind):
        chance, value = self.chance, lambda: self.literal(kind, null=0.01)
        pick = chance.random()
        if pick < 0.45:
            return f"{column} = {value()}"
        if pick < 0.70:
            return f"{column} {chance.choice(['<', '<=', '>', '>='])} {value()}"
        if pick < 0.85:
            return f"{column} IN ({', '.join(self.literal(kind) for _ in range(chance.randint(0, 3)))})"
        element = chance.choice(["1", "'p'"])
        return chance.choice([f"{column} CONTAINS {element}", f"{column} CONTAINS KEY {element}", f"{column}[{element}] = {element}",
                              f"{column} != {value()}", f"{column} IS NOT NULL"])

    def of_partitions(self):
        """Relations on the partition key, or its token."""
        chance, pick = self.chance, self.chance.random()
        if pick < 0.5:
            return [f"{column} = {value}" for column, value in chance.choice(self.partitions).items()]
        if pick < 0.6:
            return [f"{column} IN ({', '.join(sorted({p[column] for p in self.partitions}))})" for column in self.keys]
        if pick < 0.7:
            token = chance.choice([0, -2**63, 10**17, -4 * 10**18])
            return [f"token({', '.join(self.keys)}) {chance.choice(['>', '<=', '>=', '<', '='])} {token}"]
        return []

    def of_clustering(self):
        """Relations on a prefix of the clustering, one by one or together."""
        chance, prefix = self.chance, list(self.clustering.items())[:self.chance.randint(1, len(self.clustering))]
        together = f"({', '.join(column for column, _ in prefix)})"
        values = lambda: f"({', '.join(self.literal(kind) for _, kind in prefix)})"  # noqa: E731
        pick = chance.random()
        if pick < 0.6:
            *before, last = prefix
            return ([f"{column} = {self.literal(kind)}" for column, kind in before]
                    + [self.relation(*last) for _ in range(chance.choice([1, 1, 2]))])
        if pick < 0.85:
            return [f"{together} {chance.choice(['=', '<', '>', '<=', '>='])} {values()}" for _ in range(chance.choice([1, 1, 2]))]
        return [f"{together} IN ({', '.join(values() for _ in range(chance.randint(1, 3)))})"]

    def ordering(self):
        """Columns of a prefix of the clustering, each in either direction."""
        prefix = list(self.clustering)[:self.chance.randint(1, 3)]
        return [f"{column} {self.chance.choice(['ASC', 'DESC'])}" for column in prefix]

    def select(self):
        chance = self.chance
        what = "*" if chance.random() < 0.3 else ", ".join(self.selector() for _ in range(chance.randint(1, 3)))
        where = self.of_partitions()
        if self.clustering and chance.random() < 0.6:
            where += self.of_clustering()
        if chance.random() < 0.2:
            where.append(self.relation(*chance.choice(list(self.columns.items()))))
        clauses = [
            f"SELECT {chance.choice(['', '', '', '', 'JSON ', 'DISTINCT '])}{what} FROM {self.name}",
            f"WHERE {' AND '.join(where)}" if where else "",
            f"GROUP BY {', '.join([*self.keys, *list(self.clustering)[:chance.randint(0, 3)]])}" if chance.random() < 0.12 else "",
            f"ORDER BY {', '.join(self.ordering())}" if self.clustering and chance.random() < 0.2 else "",
            f"PER PARTITION LIMIT {chance.randint(0, 3)}" if chance.random() < 0.15 else "",
            f"LIMIT {chance.randint(0, 6)}" if chance.random() < 0.25 else "",
            "ALLOW FILTERING" if chance.random() < 0.45 else "",
        ]
        return " ".join(clause for clause in clauses if clause)


class Answer:
    """All pages of an answer, in a form that can be compared."""

    def __init__(self, wire, cql, page):
        columns, warnings = [], set()

        def ask(state):
            reply = wire.query(cql, paging_state=state, fetch_size=page)
            columns.extend(reply.columns if not columns else [])
            warnings.update(reply.warnings)
            return reply

        reply = wire.pages(ask)
        self.code, self.error = reply.code, reply.error
        self.columns, self.rows = [(name, str(kind)) for name, kind in columns], reply.rows
        self.said = ("error", reply.code) if reply.kind == "error" else (reply.kind, self.columns, self.rows, sorted(warnings))

    def __str__(self):
        return f"error {self.code:#06x} {self.error}" if self.error is not None else str(self.said)


def excused(ours, theirs):
    """Whether two answers differ as docs/COMPAT.md says."""
    if theirs.code in (SERVER_ERROR, PROTOCOL_ERROR, READ_FAILURE):
        return True  # a Java exception, a paging state of its own that it does not take
    if theirs.error is not None and "system.cast_as_text" in theirs.error:
        return True  # a text in descending order is none
    if theirs.error is not None and theirs.error.startswith("Invalid unset value"):
        return True  # an IN of several columns beside a relation on the next one
    if any(error and error.startswith(("Key may not be empty", "Cannot page queries")) for error in (ours.error, theirs.error)):
        return True  # told or not where IN () leaves nothing to read
    if theirs.columns[:1] == APPLIED == ours.columns and theirs.rows[0][0] == ours.rows[0][0]:
        return not any(theirs.rows[0][1:])  # a row of a static column's deletion alone, as long as that is kept
    legacy = any("LegacyTimeUUIDType" in kind for _, kind in theirs.columns)
    return legacy and ours.rows == theirs.rows


class Difference(Exception):
    """What the two answered."""


def both(wires, cql, page=5000):
    """Whether both answered the same, or what cannot be told apart from it."""
    ours, theirs = (Answer(wire, cql, page) for wire in wires)
    if ours.said != theirs.said and not excused(ours, theirs):
        raise Difference(f"{cql}; (pages of {page})\n  node:      {ours}\n  cassandra: {theirs}")
    return ours.said == theirs.said


def check(seed, selects, nodes):
    """A table, its data and its SELECTs. Returns None, or what differed and the statements that lead there."""
    table = Table(random.Random(seed), f"t{seed}")
    done = []
    wires = [Wire(node.address, node.port) for node in nodes]
    try:
        for wire in wires:
            wire.query(f"DROP TABLE IF EXISTS {table.name}")
        for cql in [table.create()] + [table.write() for _ in range(table.chance.randint(5, 30))]:
            done.append(cql)
            if not both(wires, cql):
                return None  # from here on their data differ
            if cql is not done[0] and table.chance.random() < 0.1:
                nodes[0].flush(KEYSPACE, table.name.split(".")[1])
        for _ in range(selects):
            both(wires, table.select(), table.chance.choice(PAGES))
    except Difference as difference:
        return f"seed {seed}\n" + ";\n".join(done) + f";\n\n{difference}"
    finally:
        for wire in wires:
            wire.query(f"DROP TABLE IF EXISTS {table.name}")
            wire.close()
    return None


def prepare(nodes):
    for node in nodes:
        wire = Wire(node.address, node.port)
        wire.must(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        wire.must(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        wire.must(f"CREATE TYPE {KEYSPACE}.pair (a int, b text)")
        wire.close()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tables", type=int, default=10, help="tables, with seeds that follow each other")
    options.add_argument("--selects", type=int, default=60, help="SELECTs on each")
    options.add_argument("--target", default="ilion")
    options.add_argument("--cassandra", required=True, help="a running real Cassandra: its directory or address")
    given = options.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, open_target(given.target, scratch) as target:
        is_folder = pathlib.Path(given.cassandra).is_dir()
        oracle = Cassandra(given.cassandra, owned=False) if is_folder else open_target(given.cassandra, scratch)
        nodes = [target, oracle]
        prepare(nodes)
        for seed in range(given.seed, given.seed + given.tables):
            story = check(seed, given.selects, nodes)
            if story:
                failed += 1
                complain(story)
    print(f"{given.tables - failed} tables agree, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
