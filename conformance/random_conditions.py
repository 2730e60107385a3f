#!/usr/bin/env python3
"""Random conditional statements and batches on tables of every shape, told to two nodes: both have to answer and keep the same.

    random_conditions.py [--seed S] [--tables N] [--statements N] [--seconds T] --target ilion|ADDRESS --cassandra DIR|ADDRESS

Tables come with and without clustering columns, with static columns, with COMPACT STORAGE and with counters; rows are made by
INSERT, by UPDATE, and of their key alone. Each statement is sent in one of four forms: as text, prepared with every value bound, as a
BATCH in text, and as a BATCH request of texts and prepared statements. Conditions are those of the grammar, sensible or not; what a
batch holds may contradict itself. After each statement the whole table has to be the same on both nodes. An error has to be the
same to its words, a result the same to the byte. `excused` says what is known to differ.
"""
import pathlib
import random
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cassandra.query import BatchType  # noqa: E402

from harness import differential  # noqa: E402
from harness.differential import APPLIED, Difference, same_refusal  # noqa: E402
from harness.statements import Statement, bound, value  # noqa: E402

KEYSPACE = "random_conditions"
BATCHES = {"": BatchType.LOGGED, "UNLOGGED ": BatchType.UNLOGGED}
SERVER_ERROR, SYNTAX_ERROR = 0x0000, 0x2000


def some(chance, items, at_most):
    return sorted(chance.sample(items, chance.randint(0, at_most)))


# Literals of each type: few and small, so that values meet.
TYPES = {
    "int": lambda c: str(c.randint(0, 3)),
    "text": lambda c: c.choice(["''", "'a'", "'b'"]),
    "boolean": lambda c: c.choice(["true", "false"]),
    "'LexicalUUIDType'": lambda c: f"{c.choice('08')}0000000-0000-1000-8000-00000000000{c.randint(0, 1)}",
    "list<int>": lambda c: f"[{', '.join(some(c, '012', 2))}]",
    "set<int>": lambda c: f"{{{', '.join(some(c, '012', 2))}}}",
    "map<int, text>": lambda c: str({k: c.choice("ab") for k in some(c, range(3), 2)}),
    "frozen<list<int>>": lambda c: f"[{', '.join(some(c, '012', 2))}]",
    "frozen<map<int, text>>": lambda c: str({k: c.choice("ab") for k in some(c, range(3), 2)}),
    "pair": lambda c: f"{{a: {c.randint(0, 2)}, b: '{c.choice('ab')}'}}",
    "frozen<pair>": lambda c: f"{{a: {c.randint(0, 2)}, b: '{c.choice('ab')}'}}",
    "tuple<int, text>": lambda c: f"({c.randint(0, 2)}, '{c.choice('ab')}')",
    "counter": lambda c: str(c.randint(0, 3)),
}
SIMPLE = ["int", "int", "text", "boolean"]
CLUSTERING = ["int", "int", "text"] * 3 + ["'LexicalUUIDType'"]
VALUES = [kind for kind in TYPES if kind != "counter"] + ["int"] * 4


class Table:
    """A random table."""

    def __init__(self, chance, name):
        self.chance, self.name = chance, f"{KEYSPACE}.{name}"
        self.storage = chance.choice(["counter", "compact", "compact"] + ["plain"] * 14)
        self.keys = {f"p{i}": chance.choice(SIMPLE[:3]) for i in range(chance.choice([1, 1, 1, 2]))}
        self.clustering = {f"c{i}": chance.choice(CLUSTERING) for i in range(chance.choice([0, 0, 1, 1, 2, 3]))}
        kinds = {"counter": ["counter"], "compact": SIMPLE}.get(self.storage, VALUES)
        count = chance.randint(0 if self.clustering and self.storage != "counter" else 1, 3)
        if self.storage == "compact" and self.clustering:
            count = min(count, 1)
        # Columns are named so that static and regular ones take turns in the order of names.
        self.regular = {f"v{2 * i}": chance.choice(kinds) for i in range(count)}
        has_statics = self.clustering and self.storage == "plain" and chance.random() < 0.6
        self.statics = {f"v{2 * i + 1}": chance.choice(kinds) for i in range(chance.randint(1, 2))} if has_statics else {}
        self.orders = [f"{column} {chance.choice(['ASC', 'DESC'])}" for column in self.clustering]
        self.columns = {**self.statics, **self.regular}

    def create(self):
        columns = [f"{n} {t}" for n, t in {**self.keys, **self.clustering}.items()]
        columns += [f"{n} {t}{' static' * (n in self.statics)}" for n, t in self.columns.items()]
        options = [f"CLUSTERING ORDER BY ({', '.join(self.orders)})"] if self.orders else []
        options += ["COMPACT STORAGE"] if self.storage == "compact" else []
        primary = ", ".join([f"({', '.join(self.keys)})", *self.clustering])
        return (f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({primary}))"
                + (f" WITH {' AND '.join(options)}" if options else ""))


class Maker:
    """Draws statements for a table."""

    def __init__(self, table):
        self.table, self.chance = table, table.chance
        self.alone = True
        self.partition = {n: value(TYPES[t](self.chance)) for n, t in table.keys.items()}

    def literal(self, kind, null=0.0):
        return value("null" if self.chance.random() < null else TYPES[kind](self.chance))

    def key(self):
        """Mostly one partition, so that batches are of one."""
        if self.chance.random() < 0.97:
            return dict(self.partition)
        return {n: value(TYPES[t](self.chance)) for n, t in self.table.keys.items()}

    def clusterings(self):
        return {n: self.literal(t) for n, t in self.table.clustering.items()}

    def where(self, values, deletes=False):
        chance = self.chance
        relations = []
        for name, given in values.items():
            kind = {**self.table.keys, **self.table.clustering}[name]
            if chance.random() < 0.03:
                relations.append(f"{name} IN ({given}, {self.literal(kind)})")
            else:
                relations.append(f"{name} = {given}")
        rest = [n for n in self.table.clustering if n not in values]
        if rest and deletes and chance.random() < 0.5:
            operator = chance.choice(["<", "<=", ">", ">="])
            relations.append(f"{rest[0]} {operator} {self.literal(self.table.clustering[rest[0]])}")
        return " AND ".join(relations)

    def condition(self, alone):
        """One comparison. Those with null that are refused stand alone: Cassandra refuses them if it comes to them."""
        chance, columns = self.chance, list(self.table.columns.items())
        if not columns or chance.random() < 0.02:
            columns = list({**self.table.keys, **self.table.clustering}.items())
        name, kind = chance.choice(columns)
        operator = chance.choice(["=", "=", "=", "!=", "<", ">=", ">"])
        null = 0.15 if operator in ("=", "!=") or alone else 0.0
        given = self.literal(kind, null=null)
        pick = chance.random()
        base = kind.replace("frozen<", "").split("<")[0].rstrip(">")
        if pick < 0.15 and base in ("list", "map"):
            inner = "text" if base == "map" else "int"
            return f"{name}[{value(str(chance.randint(0, 2)))}] {operator} {self.literal(inner, null=null)}"
        if pick < 0.15 and base == "pair":
            return f"{name}.a {operator} {self.literal('int', null=null)}"
        if pick < 0.25 and base in ("list", "set", "map"):
            inner = "text" if base == "map" else "int"
            return f"{name} CONTAINS {self.literal(inner)}"
        if pick < 0.3 and base == "map":
            return f"{name} CONTAINS KEY {self.literal('int')}"
        if pick < 0.4:
            return f"{name} IN ({given}, {self.literal(kind)})"
        return f"{name} {operator} {given}"

    def conditions(self):
        """An IF clause."""
        if self.chance.random() < 0.35:
            return " IF EXISTS"
        count = self.chance.choice([1, 1, 1, 2, 3])
        return " IF " + " AND ".join(self.condition(self.alone and count == 1) for _ in range(count))

    def changes(self):
        """Terms of SET, of some columns."""
        chance, out = self.chance, []
        columns = list(self.table.columns.items())
        if self.table.statics and chance.random() < 0.3:
            columns = list(self.table.statics.items())
        for name, kind in chance.sample(columns, min(len(columns), chance.choice([1, 1, 2]))):
            given, pick = self.literal(kind, null=0.15), chance.random()
            if kind == "counter":
                out.append(f"{name} = {name} + {given}")
            elif pick < 0.2 and kind in ("list<int>", "set<int>", "map<int, text>"):
                out.append(f"{name} = {name} + {self.literal(kind)}")
            elif pick < 0.3 and kind in ("list<int>", "set<int>"):
                out.append(f"{name} = {name} - {self.literal(kind)}")
            elif pick < 0.4 and kind in ("list<int>", "map<int, text>"):
                inner = "text" if kind.startswith("map") else "int"
                out.append(f"{name}[{value(str(chance.randint(0, 1)))}] = {self.literal(inner, null=0.2)}")
            elif pick < 0.4 and kind == "pair":
                out.append(f"{name}.a = {self.literal('int', null=0.2)}")
            else:
                out.append(f"{name} = {given}")
        return ", ".join(out)

    def insert(self, conditional):
        values = {**self.key(), **self.clusterings()}
        if self.table.statics and self.chance.random() < 0.2:
            values = {n: values[n] for n in self.table.keys}
        row = len(values)
        columns = self.table.statics if self.table.statics and row == len(self.table.keys) else self.table.columns
        values |= {n: self.literal(t, null=0.15) for n, t in columns.items() if self.chance.random() < 0.7}
        made = f"INSERT INTO {self.table.name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
        return Statement(made + " IF NOT EXISTS" * conditional)

    def update(self, conditional):
        values, changes = {**self.key(), **self.clusterings()}, self.changes()
        if not changes:
            return self.insert(conditional)
        if self.table.statics and self.chance.random() < 0.3:
            values = {n: values[n] for n in self.table.keys}
        made = f"UPDATE {self.table.name} SET {changes} WHERE {self.where(values)}"
        return Statement(made + (self.conditions() if conditional else ""))

    def delete(self, conditional):
        chance, table = self.chance, self.table
        if table.storage == "counter" and not conditional:
            return self.update(conditional)  # a counter that was deleted comes back in Cassandra, out of its counter cache
        values = {**self.key(), **self.clusterings()}
        whole = len(values) if conditional and chance.random() < 0.85 else chance.randint(len(table.keys), len(values))
        what = ""
        if table.columns and chance.random() < 0.35:
            name, kind = chance.choice(list(table.columns.items()))
            what = f" {name}[1]" if kind in ("list<int>", "set<int>", "map<int, text>") and chance.random() < 0.3 else f" {name}"
            whole = len(table.keys) if name in table.statics and chance.random() < 0.8 else whole
        where = self.where(dict(list(values.items())[:whole]), deletes=not what)
        return Statement(f"DELETE{what} FROM {table.name} WHERE {where}" + (self.conditions() if conditional else ""))

    def one(self, conditional):
        make = self.chance.choices([self.insert, self.update, self.delete], [3, 4, 3])[0]
        return make(conditional)

    def draw(self):
        """(statements, kind of batch or None)."""
        chance = self.chance
        self.alone = chance.random() < 0.55
        if self.alone:
            return [self.one(chance.random() < 0.7)], None
        count = chance.choice([1, 2, 2, 2, 3, 4])
        surely = chance.randrange(count)
        return [self.one(i == surely or chance.random() < 0.4) for i in range(count)], chance.choice(list(BATCHES))


class Answer:
    """What a node said."""

    def __init__(self, reply, is_older=False):
        self.code, self.error, self.is_older = reply.code, reply.error, is_older
        self.columns = [(name, str(kind)) for name, kind in reply.columns]
        self.rows = reply.rows
        if reply.kind == "error":
            # Texts of syntax errors come out of Cassandra's parser generator.
            self.said = ("error", self.code, "" if self.code == SYNTAX_ERROR else self.error)
        else:
            self.said = (reply.kind, self.columns, self.rows)

    @property
    def changes_nothing(self):
        return self.error is not None or (self.columns[:1] == APPLIED and self.rows[0][0] == b"\0")

    def __str__(self):
        return f"error {self.code:#06x} {self.error}" if self.error is not None else str(self.said)


def send(wire, statements, batch, form):
    """Sends a statement or a batch in a form: text, or bound."""
    if form == "text":
        if batch is None:
            return wire.query(statements[0].text())
        return wire.query(f"BEGIN {batch}BATCH " + "; ".join(s.text() for s in statements) + "; APPLY BATCH")
    if batch is None or form == "prepared text":
        marked = statements[0].marked() if batch is None else (
            f"BEGIN {batch}BATCH " + "; ".join(s.marked() for s in statements) + "; APPLY BATCH")
        prepared = wire.prepare(marked)
        if prepared.kind == "error":
            return prepared
        return wire.execute(prepared, bound(prepared, [value for s in statements for value in s.literals()]))
    queries = []
    for i, statement in enumerate(statements):
        if i % 2 == 0:
            prepared = wire.prepare(statement.marked())
            if prepared.kind == "error":
                return prepared
            values = bound(prepared, statement.literals())
            queries.append((True, prepared.message.query_id, values))
        else:
            queries.append((False, statement.text(), ()))
    return wire.batch(BATCHES[batch], queries)


def excused(table, ours, theirs):
    """Whether two answers differ as docs/COMPAT.md says."""
    if theirs.code == SERVER_ERROR:
        return True  # a Java exception
    if theirs.is_older and (theirs.code in (0x2000, 0x2200) or (ours.error, theirs.error) == (None, None) and ours.rows == theirs.rows):
        return True  # a release that does not know it, or names its columns otherwise
    if same_refusal(table, ours, theirs):
        return True
    if theirs.error is not None and "list which is null" in theirs.error:
        return True  # rows without conditions are read here, too
    if theirs.error is not None and ours.error == "Key may not be empty":
        return True  # keys of all statements are looked at first
    # Told here whether or not the other conditions hold.
    return ours.error is not None and ours.error.startswith(("Invalid comparison with ", "Column ", "Invalid empty or null value"))


# An operation on elements of a list, which has to be read first.
ON_ELEMENTS = re.compile(r"\b(v\d+) = \1 - |\b(v\d+)\[\d+\] = |DELETE (v\d+)\[")


def forgets(table, drawn):
    """Whether Cassandra may forget an operation: on a list of a row that has no condition on a column of its own, in a statement or
    batch with conditions."""
    texts = [statement.text() for statement in drawn]
    if not any(" IF " in text for text in texts):
        return False
    for text in texts:
        named = {name for names in ON_ELEMENTS.findall(text) for name in names if name}
        of_rows = [name for name in named if table.regular.get(name, "").startswith("list")]
        condition = text.partition(" IF ")[2]
        has_own = "EXISTS" in condition or any(re.search(rf"\b{name}\b", condition) for name in table.regular)
        if of_rows and not has_own:
            return True
    return False


def both(table, wires, ask, what):
    """Asks both. Whether their data are still the same, as far as the answers tell."""
    ours, theirs = (Answer(ask(wire), wire.is_older) for wire in wires)
    if ours.said != theirs.said and not excused(table, ours, theirs):
        raise Difference(f"{what}\n  node:      {ours}\n  cassandra: {theirs}")
    return ours.said == theirs.said or (ours.changes_nothing and theirs.changes_nothing)


def check(seed, statements, nodes):
    """A table and statements on it. Returns None, or what differed and the statements that lead there."""
    chance = random.Random(seed)
    table = Table(chance, f"t{seed}")
    maker, done = Maker(table), []
    wires = [differential.connect(node) for node in nodes]
    try:
        for wire in wires:
            wire.must(f"DROP TABLE IF EXISTS {table.name}")
        done.append(table.create())
        if not both(table, wires, lambda wire: wire.query(done[0]), done[0]):
            return None
        for _ in range(statements):
            drawn, batch = maker.draw()
            form = chance.choice(["text", "prepared text", "request"])
            what = "; ".join(s.text() for s in drawn)
            what = f"{what}  // {form}" if batch is None else f"BEGIN {batch}BATCH {what}; APPLY BATCH  // {form}"
            done.append(what)
            same = both(table, wires, lambda wire: send(wire, drawn, batch, form), what)
            if not same or forgets(table, drawn):
                return None  # from here on their data may differ
            both(table, wires, lambda wire: wire.query(f"SELECT * FROM {table.name}"), f"SELECT * after {what}")
            if chance.random() < 0.02:
                nodes[0].flush(KEYSPACE, table.name.split(".")[1])
    except Difference as difference:
        return f"seed {seed}\n" + "\n".join(done) + f"\n\n{difference}"
    finally:
        differential.drop(wires, table.name)
    return None


def prepare(nodes):
    differential.prepare(nodes, KEYSPACE, ("pair", "(a int, b text)"))


if __name__ == "__main__":
    sys.exit(differential.main(__doc__, prepare, check, "statements"))
