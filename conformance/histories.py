#!/usr/bin/env python3
"""Random histories: a random table, random writes and deletions, against a plain model (and a real Cassandra).

    histories.py [--seed S] [--count N] [--steps N] --target ilion|cassandra:DIR|ADDRESS [--cassandra DIR]

A history is a list of steps: statements with timestamps from a small range, so that they meet and tie; batches; flush,
compaction and restart; and reads of whole tables, partitions and slices, in pages of several sizes. Each read is compared
with `harness/model.py`, and with the answer of the real Cassandra if one is given. A history that fails is made shorter
until nothing can be left out, and printed.
"""
import argparse
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness.model import Table  # noqa: E402
from harness.node import Cassandra, complain, open_target  # noqa: E402
from harness.types import show  # noqa: E402
from harness.wire import Wire  # noqa: E402

KEYSPACE = "histories"
CQL = {"int": "int", "text": "text", "flist": "frozen<list<int>>", "set": "set<int>", "map": "map<int, int>"}
COMPACTIONS = ("{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2'}",
               "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}",
               "{'class': 'UnifiedCompactionStrategy'}", "{'class': 'TimeWindowCompactionStrategy'}")
COMPRESSIONS = ("{'class': 'LZ4Compressor'}", "{'class': 'SnappyCompressor', 'chunk_length_in_kb': '4'}",
                "{'class': 'ZstdCompressor'}", "{'class': 'DeflateCompressor'}", "{'enabled': 'false'}")
COMPARE = {"=": lambda a, b: a == b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b,
           "<=": lambda a, b: a <= b}


def literal(value):
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, set):
        return "{" + ", ".join(map(literal, sorted(value))) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in sorted(value.items())) + "}"
    return str(value)


class Shape:
    """A random table."""

    def __init__(self, chance, name):
        self.name = name
        self.keys = [(f"k{i}", chance.choice(["int", "text"])) for i in range(chance.choice([1, 1, 2]))]
        self.clustering = [(f"c{i}", chance.choice(["int", "text"]), chance.choice(["ASC", "DESC"]))
                           for i in range(chance.choice([0, 1, 1, 2, 2, 3]))]
        kinds = ["int", "text", "text", "flist", "set", "map"]
        self.columns = {f"v{i}": chance.choice(kinds) for i in range(chance.randint(0 if self.clustering else 1, 4))}
        self.statics = {}
        if self.clustering and chance.random() < 0.5:
            self.statics = {f"s{i}": chance.choice(kinds) for i in range(chance.randint(1, 2))}
        self.compaction, self.compression = chance.choice(COMPACTIONS), chance.choice(COMPRESSIONS)
        self.selected = [n for n, *_ in self.keys + self.clustering] + [*self.statics, *self.columns]

    def create(self):
        columns = [f"{n} {t}" for n, t in self.keys] + [f"{n} {t}" for n, t, _ in self.clustering]
        columns += [f"{n} {CQL[t]} STATIC" for n, t in self.statics.items()]
        columns += [f"{n} {CQL[t]}" for n, t in self.columns.items()]
        key = "(" + ", ".join(n for n, _ in self.keys) + ")"
        key = ", ".join([key] + [n for n, *_ in self.clustering])
        order = ", ".join(f"{n} {d}" for n, _, d in self.clustering)
        return (f"CREATE TABLE {KEYSPACE}.{self.name} ({', '.join(columns)}, PRIMARY KEY ({key})) WITH "
                + (f"CLUSTERING ORDER BY ({order}) AND " if order else "")
                + f"compaction = {self.compaction} AND compression = {self.compression}")

    def model(self):
        return Table(self.columns, self.statics)

    def sort_key(self, reverse):
        """Sorts clusterings as the table does: descending columns by a key that turns them round."""
        def key(clustering):
            return [Turned(v) if (d == "DESC") != reverse else v for v, (_, _, d) in zip(clustering, self.clustering)]
        return key


class Turned:
    """A value that sorts the other way."""

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return other.value < self.value

    def __eq__(self, other):
        return other.value == self.value


class History:
    """Makes steps: dictionaries with what to do to a node and to the model."""

    def __init__(self, seed, name):
        self.chance = random.Random(seed)
        self.shape = Shape(self.chance, name)
        self.unique = 10_000

    def value(self, kind):
        c = self.chance
        if kind == "int":
            return c.choice([-1, 0, 1, 2, 3, 2**31 - 1, -(2**31)])
        if kind == "text":
            return c.choice(["", "a", "b", "ab", "ba", "it's", "x" * 300, "y" * 5000])
        if kind == "flist":
            return tuple(c.choice(range(4)) for _ in range(c.randint(0, 3)))
        if kind == "set":
            return {c.choice(range(5)) for _ in range(c.randint(1, 3))}
        return {c.choice(range(5)): c.choice(range(3)) for _ in range(c.randint(1, 3))}

    def key(self):
        small = {"int": [0, 1, 2], "text": ["", "p", "q"] if len(self.shape.keys) > 1 else ["o", "p", "q"]}
        return tuple(self.chance.choice(small[t]) for _, t in self.shape.keys)

    def clustering(self):
        small = {"int": [-1, 0, 1, 2, 5], "text": ["", "a", "b", "ba"]}
        return tuple(self.chance.choice(small[t]) for _, t, _ in self.shape.clustering)

    def where(self, key, clustering=()):
        names = [n for n, _ in self.shape.keys] + [n for n, *_ in self.shape.clustering]
        return " AND ".join(f"{n} = {literal(v)}" for n, v in zip(names, key + tuple(clustering)))

    def timestamp(self):
        return self.chance.randint(1, 60)

    def steps(self, count):
        kinds = [(self.insert, 22), (self.update, 22), (self.delete_cells, 8), (self.delete_row, 8), (self.delete_range, 8),
                 (self.delete_partition, 3), (self.batch, 6), (self.read_partition, 12), (self.read_all, 4), (self.flush, 5),
                 (self.compact, 1), (self.restart, 1)]
        makers, weights = zip(*kinds)
        made = []
        while len(made) < count:
            step = self.chance.choices(makers, weights)[0]()
            if step:
                made.append(step)
        return made + [self.read_all(), self.flush(), self.read_all(), self.compact(), self.read_all()]

    # --- writes: {"cql": text, "apply": function of the model} ---

    def write(self, cql, apply):
        return {"do": "write", "cql": cql, "apply": apply}

    def insert(self):
        shape, chance = self.shape, self.chance
        key, clustering = self.key(), self.clustering()
        chosen = {n: t for n, t in {**shape.statics, **shape.columns}.items() if chance.random() < 0.6}
        values = {n: None if chance.random() < 0.15 else self.value(t) for n, t in chosen.items()}
        ttl = chance.random() < 0.1
        timestamp = self.timestamp()
        if ttl:  # a timestamp of its own: how two expiring values tie is up to the second in which each was written
            self.unique += 1
            timestamp = self.unique
        names = [n for n, _ in shape.keys] + [n for n, *_ in shape.clustering] + list(values)
        cql = (f"INSERT INTO {KEYSPACE}.{shape.name} ({', '.join(names)}) VALUES "
               f"({', '.join(map(literal, [*key, *clustering, *values.values()]))}) USING TIMESTAMP {timestamp}"
               + (" AND TTL 1000000" if ttl else ""))

        def apply(model):
            row = model.row(key, clustering)
            row.live = max(timestamp, row.live if row.live is not None else timestamp)
            for name, value in values.items():
                content = model.partition(key).static if name in shape.statics else row
                assign(content, name, chosen[name], value, timestamp, ttl)
        return self.write(cql, apply)

    def update(self):
        shape, chance = self.shape, self.chance
        static = bool(shape.statics) and (not shape.columns or chance.random() < 0.3)
        columns = shape.statics if static else shape.columns
        if not columns:
            return None
        key, clustering, timestamp = self.key(), () if static else self.clustering(), self.timestamp()
        changes, texts = [], []
        for name, kind in columns.items():
            if chance.random() < 0.4:
                continue
            way = chance.random()
            value = self.value(kind)
            if kind in ("set", "map") and way < 0.35:
                texts.append(f"{name} = {name} + {literal(value)}")
                changes.append((name, kind, "add", value))
            elif kind in ("set", "map") and way < 0.55:
                texts.append(f"{name} = {name} - {literal(set(value))}")
                changes.append((name, kind, "remove", set(value)))
            elif kind == "map" and way < 0.75:
                k, v = chance.choice(list(value.items()))
                v = None if chance.random() < 0.2 else v
                texts.append(f"{name}[{k}] = {literal(v)}")
                changes.append((name, kind, "add" if v is not None else "remove", {k: v}))
            else:
                value = None if chance.random() < 0.15 else value
                texts.append(f"{name} = {literal(value)}")
                changes.append((name, kind, "set", value))
        if not changes:
            return None
        cql = (f"UPDATE {KEYSPACE}.{shape.name} USING TIMESTAMP {timestamp} SET {', '.join(texts)} WHERE "
               f"{self.where(key, clustering)}")

        def apply(model):
            content = model.partition(key).static if static else model.row(key, clustering)
            for name, kind, way, value in changes:
                if way == "set":
                    assign(content, name, kind, value, timestamp, False)
                for k in value if way != "set" else ():
                    inner = None if way == "remove" else value[k] if kind == "map" else 0
                    content.put_element(name, "int", k, (timestamp, False, 0, inner))
        return self.write(cql, apply)

    def delete_cells(self):
        shape, chance = self.shape, self.chance
        static = bool(shape.statics) and chance.random() < 0.3
        columns = shape.statics if static else shape.columns
        if not columns:
            return None
        name, kind = chance.choice(list(columns.items()))
        key, clustering, timestamp = self.key(), () if static else self.clustering(), self.timestamp()
        element = chance.choice(range(5)) if kind in ("set", "map") and chance.random() < 0.5 else None
        target = name if element is None else f"{name}[{element}]"
        cql = (f"DELETE {target} FROM {KEYSPACE}.{shape.name} USING TIMESTAMP {timestamp} WHERE "
               f"{self.where(key, clustering)}")

        def apply(model):
            content = model.partition(key).static if static else model.row(key, clustering)
            if element is not None:
                content.put_element(name, "int", element, (timestamp, False, 0, None))
            elif kind in ("set", "map"):
                content.clear(name, timestamp)
            else:
                content.put(name, kind, (timestamp, False, 0, None))
        return self.write(cql, apply)

    def delete_row(self):
        if not self.shape.clustering:
            return self.delete_partition()
        key, clustering, timestamp = self.key(), self.clustering(), self.timestamp()
        cql = f"DELETE FROM {KEYSPACE}.{self.shape.name} USING TIMESTAMP {timestamp} WHERE {self.where(key, clustering)}"

        def apply(model):
            row = model.row(key, clustering)
            row.deleted = max(timestamp, row.deleted if row.deleted is not None else timestamp)
        return self.write(cql, apply)

    def slice(self):
        """(text, covers): a random restriction of the clustering columns: a prefix, then perhaps a range."""
        shape, chance = self.shape, self.chance
        depth = chance.randrange(len(shape.clustering))
        bounds = self.clustering()
        tests = [(i, "=", bounds[i]) for i in range(depth)]
        for operator in chance.choice([(">",), (">=",), ("<",), ("<=",), (">", "<="), (">=", "<"), (">=", "<="), ("=",)]):
            tests.append((depth, operator, self.clustering()[depth]))
        names = [n for n, *_ in shape.clustering]
        text = " AND ".join(f"{names[i]} {operator} {literal(v)}" for i, operator, v in tests)
        return text, lambda clustering: all(COMPARE[operator](clustering[i], v) for i, operator, v in tests)

    def delete_range(self):
        if not self.shape.clustering:
            return None
        key, timestamp = self.key(), self.timestamp()
        text, covers = self.slice()
        cql = f"DELETE FROM {KEYSPACE}.{self.shape.name} USING TIMESTAMP {timestamp} WHERE {self.where(key)} AND {text}"
        return self.write(cql, lambda model: model.partition(key).ranges.append((covers, timestamp)))

    def delete_partition(self):
        key, timestamp = self.key(), self.timestamp()
        cql = f"DELETE FROM {KEYSPACE}.{self.shape.name} USING TIMESTAMP {timestamp} WHERE {self.where(key)}"

        def apply(model):
            partition = model.partition(key)
            partition.deleted = max(timestamp, partition.deleted if partition.deleted is not None else timestamp)
        return self.write(cql, apply)

    def batch(self):
        makers = [self.insert, self.update, self.delete_cells, self.delete_row, self.delete_range]
        inner = [s for s in (self.chance.choice(makers)() for _ in range(self.chance.randint(1, 6))) if s]
        if not inner:
            return None
        cql = (f"BEGIN {self.chance.choice(['', 'UNLOGGED '])}BATCH " + "; ".join(s["cql"] for s in inner) + "; APPLY BATCH")

        def apply(model):
            for step in inner:
                step["apply"](model)
        return self.write(cql, apply)

    # --- reads and the rest ---

    def flush(self):
        return {"do": "flush"}

    def compact(self):
        return {"do": "compact"}

    def restart(self):
        return {"do": "restart"}

    def read_all(self):
        return {"do": "read", "cql": self.select(), "page": self.chance.choice([None, 1, 2, 3, 7, 100]), "expect": None}

    def select(self):
        return f"SELECT {', '.join(self.shape.selected)} FROM {KEYSPACE}.{self.shape.name}"

    def read_partition(self):
        shape, chance = self.shape, self.chance
        key = self.key()
        reverse = bool(shape.clustering) and chance.random() < 0.4
        text, covers = self.slice() if shape.clustering and chance.random() < 0.6 else ("", None)
        limit = chance.choice([None, None, 1, 2, 5])
        cql = f"{self.select()} WHERE {self.where(key)}" + (f" AND {text}" if text else "")
        if reverse:
            name, _, direction = shape.clustering[0]
            cql += f" ORDER BY {name} {'ASC' if direction == 'DESC' else 'DESC'}"
        if limit:
            cql += f" LIMIT {limit}"

        def expect(model):
            rows = model.read(key)
            if covers:
                rows = [r for r in rows if r[0] is not None and covers(r[0])]
            if shape.clustering:
                rows.sort(key=lambda r: shape.sort_key(reverse)(r[0]) if r[0] is not None else [])
            return [self.shown(key, r) for r in rows][:limit]
        return {"do": "read", "cql": cql, "page": chance.choice([None, 1, 2, 5]), "expect": expect}

    def shown(self, key, row):
        clustering, values, statics = row
        clustering = (None,) * len(self.shape.clustering) if clustering is None else clustering
        texts = list(map(literal, [*key, *clustering]))
        for name, kind in [*self.shape.statics.items(), *self.shape.columns.items()]:
            value = (statics if name in self.shape.statics else values)[name]
            texts.append(literal(set(value) if kind == "set" and value is not None else value))
        return " | ".join(texts)

    def expect_all(self, model):
        """The rows of each partition in their order; the order of partitions is the ring's."""
        out = {}
        for key in model.partitions:
            rows = model.read(key)
            if self.shape.clustering:
                rows.sort(key=lambda r: self.shape.sort_key(False)(r[0]) if r[0] is not None else [])
            if rows:
                out[" | ".join(map(literal, key))] = [self.shown(key, r) for r in rows]
        return out


def assign(content, name, kind, value, timestamp, expiring):
    """`name = value`: a collection is first emptied, as of just before the write (and stays empty if the value is null)."""
    ttl = 1000000 if expiring else 0
    if kind in ("set", "map"):
        content.clear(name, timestamp - 1)
        for k in value or ():
            content.put_element(name, "int", k, (timestamp, expiring, ttl, value[k] if kind == "map" else 0))
    elif value is None:
        content.put(name, kind, (timestamp, False, 0, None))
    else:
        content.put(name, kind, (timestamp, expiring, ttl, value))


class Difference(Exception):
    """What was expected and what came."""


def ask(wire, step):
    options = {"fetch_size": step["page"]} if step["page"] else {}
    reply = wire.pages(lambda state: wire.query(step["cql"], paging_state=state, **options))
    if reply.kind != "rows":
        raise Difference(f"{step['cql']}\n  error {reply.error}")
    return [" | ".join(show(t, v) for (_, t), v in zip(reply.columns, row)) for row in reply.rows]


def play(history, steps, nodes):
    """Runs steps on fresh tables of all nodes and on a fresh model; raises Difference."""
    shape = history.shape
    wires = [Wire(node.address, node.port) for node in nodes]
    model = shape.model()
    try:
        for wire in wires:
            wire.must(f"DROP TABLE IF EXISTS {KEYSPACE}.{shape.name}")
            wire.must(shape.create())
        for step in steps:
            if step["do"] == "write":
                step["apply"](model)
                for wire in wires:
                    reply = wire.query(step["cql"])
                    if reply.kind == "error":
                        raise Difference(f"{step['cql']}\n  error {reply.code:#06x} {reply.error}")
            elif step["do"] == "read":
                compare(history, step, model, [ask(wire, step) for wire in wires])
            elif step["do"] == "restart":
                for i, node in enumerate(nodes):
                    if node.restarts:
                        wires[i].close()
                        node.restart()
                        wires[i] = Wire(node.address, node.port)
            else:
                for node in nodes:
                    getattr(node, step["do"])(KEYSPACE, shape.name)
        for wire in wires:
            wire.query(f"DROP TABLE IF EXISTS {KEYSPACE}.{shape.name}")
    finally:
        for wire in wires:
            wire.close()


def compare(history, step, model, answers):
    for other in answers[1:]:
        if other != answers[0]:
            raise Difference(f"{step['cql']} (pages of {step['page']})\n  node: {answers[0]}\n  cassandra: {other}")
    got = answers[0]
    if step["expect"]:
        wanted = step["expect"](model)
    else:
        wanted = history.expect_all(model)
        grouped, order = {}, []
        for row in got:
            key = " | ".join(row.split(" | ")[:len(history.shape.keys)])
            if key in grouped and order[-1] != key:
                raise Difference(f"{step['cql']}: partition {key} comes twice")
            if key not in grouped:
                order.append(key)
            grouped.setdefault(key, []).append(row)
        got = grouped
    if got != wanted:
        raise Difference(f"{step['cql']} (pages of {step['page']})\n  model: {wanted}\n  node:  {got}")


def fails(history, steps, nodes):
    try:
        play(history, steps, nodes)
    except Difference as difference:
        return difference
    return None


def shorten(history, steps, nodes, budget=150):
    """Leaves out as many steps as it can while the history still fails."""
    size = len(steps) // 2
    while size and budget:
        at = 0
        while at < len(steps) and budget:
            shorter = steps[:at] + steps[at + size:]
            budget -= 1
            if shorter and fails(history, shorter, nodes):
                steps = shorter
            else:
                at += size
        size //= 2
    return steps


def prepare(nodes):
    for node in nodes:
        wire = Wire(node.address, node.port)
        wire.must(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
        wire.must(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        wire.close()


def check(seed, count, nodes):
    """Plays the history of a seed. Returns None, or the story of its failure."""
    history = History(seed, f"h{seed}")
    steps = history.steps(count)
    found = fails(history, steps, nodes)
    if found is None:
        return None
    steps = shorten(history, steps, nodes)
    found = fails(history, steps, nodes) or found
    story = "\n".join(step.get("cql", f"-- {step['do']}") + ";" for step in steps)
    return f"seed {seed}\n{history.shape.create()};\n{story}\n\n{found}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=1, help="histories, with seeds that follow each other")
    options.add_argument("--steps", type=int, default=150)
    options.add_argument("--target", default="ilion")
    options.add_argument("--cassandra", help="the directory of a running real Cassandra to compare with")
    given = options.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, open_target(given.target, scratch) as target:
        nodes = [target] + ([Cassandra(given.cassandra, owned=False)] if given.cassandra else [])
        prepare(nodes)
        for seed in range(given.seed, given.seed + given.count):
            story = check(seed, given.steps, nodes)
            print(f"seed {seed}: {'differs' if story else 'agrees'}", flush=True)
            if story:
                failed += 1
                complain(story)
    print(f"{given.count - failed} agree, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
