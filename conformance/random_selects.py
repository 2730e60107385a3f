#!/usr/bin/env python3
"""Random statements on random tables, told to two nodes: whatever one answers, the other has to answer.

    random_selects.py [--seed S] [--tables N] [--selects N] [--seconds T] --target ilion|ADDRESS --cassandra DIR|ADDRESS

Tables have columns of every type, or counters, with and without clustering, static columns and COMPACT STORAGE; writes have timestamps
that meet. A SELECT is put together from all that the grammar has, sensible or not: functions, casts, arithmetic, aggregates, parts of
values, relations of each kind on any column, token(), GROUP BY, ORDER BY, limits, DISTINCT, JSON, and pages of several sizes.
Every statement is sent as text, prepared, or as text with values, its literals bound to markers, all or some, by place or by
name; null, no bytes and, from version 4 of the protocol on, unset are bound besides. Some of what was written is flushed on the
first node, so that its files answer, too. Rows, names, types, markers and warnings have to be the same to the byte, and errors of
the same code; which of several mistakes an error tells is left to `cql/corners.cqltest`. `excused` says what is known to differ.
"""
import pathlib
import random
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import differential  # noqa: E402
from harness.differential import APPLIED, Difference, same_refusal  # noqa: E402
from harness.statements import Statement, as_json, bound, literal_of, value  # noqa: E402
from harness.wire import bind_types  # noqa: E402

KEYSPACE = "random_selects"
PAGES = (1, 2, 3, 7, 5000, 5000)
VERSIONS = (5, 5, 5, 4, 3)

HEXADECIMAL_OPERAND = re.compile(r"operation is not supported between (0x\w* and|.* and 0x)|\w\(0x")
OF_DESCENDING = re.compile(r"Cannot use CONTAINS|Function \S+ requires an? .* argument|Ambiguous '.' operation with args ")
JSON_NAMES, MISSING_ITEM, NULL_VALUE = re.compile("to_?json"), re.compile(r'(": \[|, )""'), "Invalid null value"
SERVER_ERROR, PROTOCOL_ERROR, WRITE_TIMEOUT, READ_TIMEOUT, READ_FAILURE, WRITE_FAILURE = 0, 0x000A, 0x1100, 0x1200, 0x1300, 0x1500


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
    "'LexicalUUIDType'": lambda c: f"{c.choice('08')}0000000-0000-{c.choice('14')}000-8000-00000000000{c.randint(0, 2)}",
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
COMPACT_TYPES = [*KEY_TYPES, "duration"]
FUNCTIONS = ("collection_count collection_min collection_max collection_sum map_keys map_values to_date to_timestamp to_unix_timestamp "
             "min_timeuuid abs exp round mask_default mask_null mask_hash text_as_blob int_as_blob bigintasblob similarity_cosine "
             "length octet_length to_json").split()


class Table:
    """A random table and the statements on it."""

    def __init__(self, chance, name):
        self.chance, self.name = chance, f"{KEYSPACE}.{name}"
        common = lambda: chance.choice(["int", "text", chance.choice(KEY_TYPES)])  # noqa: E731
        self.is_counter, self.is_compact = chance.random() < 0.06, chance.random() < 0.12
        self.is_conditional = not self.is_counter and chance.random() < 0.4
        self.keys = {f"p{i}": common() for i in range(chance.choice([1, 1, 1, 2]))}
        self.clustering = {f"c{i}": common() for i in range(chance.choice([0, 1, 1, 2, 2, 3]))}
        has_static = self.clustering and not (self.is_counter or self.is_compact) and chance.random() < 0.4
        self.statics = {"s0": chance.choice(list(TYPES))} if has_static else {}
        kinds = ["counter"] if self.is_counter else COMPACT_TYPES if self.is_compact else list(TYPES)
        count = chance.choice([0, 1, 1, 2, 2, 3, 3])
        if self.is_compact:
            count = min(count, 1) if self.clustering else max(count, 1)
        self.regular = {f"v{i}": chance.choice(kinds) for i in range(max(count, 1) if self.is_counter else count)}
        self.others = {**self.statics, **self.regular}
        self.columns = {**self.keys, **self.clustering, **self.others}
        # Of maps in descending order Cassandra keeps the bytes that were bound, so that two that are the same
        # are different rows.
        directions = {"frozen<map<text, int>>": ["ASC"]}
        self.orders = [f"{column} {chance.choice(directions.get(kind, ['ASC', 'DESC']))}" for column, kind in self.clustering.items()]
        self.partitions = [{column: self.literal(kind) for column, kind in self.keys.items()} for _ in range(3)]

    @property
    def has_clock_times(self):
        """Whether cells have timestamps that a node gave them."""
        return self.is_counter or self.is_conditional

    @property
    def takes_json(self):
        """Whether INSERT JSON does not differ as docs/COMPAT.md says."""
        return "decimal" not in self.columns.values() and (self.regular or not self.is_compact)

    @property
    def is_descending(self):
        return any(order.endswith("DESC") for order in self.orders)

    def literal(self, kind, null=0.0):
        if self.chance.random() < null:
            return value("null")
        return value(TYPES["int" if kind == "counter" else kind](self.chance))

    def term(self, kind, null=0.0):
        """A value, or an expression that is one."""
        chance, given = self.chance, self.literal(kind, null)
        if chance.random() < 0.94:
            return given
        return chance.choice([f"({kind}) {given}", f"{given} {chance.choice('+-*/%')} {self.literal(kind)}", f"-{given}", f"abs({given})",
                              f"min_timeuuid({self.literal('timestamp')})", f"to_date({self.literal('timestamp')})",
                              f"blob_as_int({self.literal('blob')})", f"cast({given} AS {kind})"])

    def listed(self, values):
        """What follows IN: values in brackets, or one that is all of them."""
        together = f"({', '.join(values)})"
        if self.chance.random() < 0.5:
            return together
        odd = self.chance.choice(["null", "empty"]) if self.chance.random() < 0.05 else None
        return value(f"[{', '.join(values + [odd] * bool(odd))}]", together)

    def element(self):
        return value(self.chance.choice(["0", "1", "2", "'p'"]))

    def create(self):
        columns = [f"{column} {kind}{' static' * (column in self.statics)}" for column, kind in self.columns.items()]
        primary = ", ".join([f"({', '.join(self.keys)})", *self.clustering])
        options = [f"CLUSTERING ORDER BY ({', '.join(self.orders)})"] if self.orders else []
        options += ["COMPACT STORAGE"] * self.is_compact
        return (f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({primary}))"
                + (f" WITH {' AND '.join(options)}" if options else ""))

    def write(self):
        return Statement(self.conditional() if self.is_conditional and self.chance.random() < 0.5 else self.plain())

    def operation(self, column, kind):
        """A term of SET: all forms of it."""
        chance, base = self.chance, kind.split("<")[0]
        given = self.term(kind, null=0.1)
        other = [f"{column} = {given}"]
        if base in ("set", "list", "map"):
            other += [f"{column} = {column} + {given}", f"{column} = {column} - {given}", f"{column} += {given}", f"{column} -= {given}"]
        if base == "list":
            other += [f"{column} = {given} + {column}", f"{column}[{value(chance.randint(0, 2))}] = {value(repr('z'))}"]
        if base == "map":
            other += [f"{column}[{value(chance.randint(0, 3))}] = {value(chance.choice(['null', repr('z')]))}",
                      f"{column} = {column} - {value(f'{{{chance.randint(0, 3)}}}')}"]
        if base == "pair":
            other += [f"{column}.a = {value(chance.choice(['null', '7']))}"]
        return chance.choice(other)

    def condition(self):
        """One comparison of IF."""
        chance = self.chance
        column, kind = chance.choice(list((self.others or self.columns).items()))
        operator, given = chance.choice(["=", "=", "!=", "<", "<=", ">", ">="]), self.literal(kind, null=0.2)
        return chance.choice([
            f"{column} {operator} {given}", f"{column} {operator} {given}",
            f"{column} IN {self.listed([given, self.literal(kind, null=0.1)])}",
            f"{column}[{self.element()}] {operator} {value(chance.choice(['1', repr('p'), 'null']))}",
            f"{column}.a {operator} {value(chance.choice(['1', 'null']))}"])

    def row(self):
        """The columns of a row's key, and a WHERE of them."""
        values = {**self.chance.choice(self.partitions), **{c: self.literal(kind) for c, kind in self.clustering.items()}}
        if self.statics and self.chance.random() < 0.1:
            values = {column: values[column] for column in self.keys}
        return values, " AND ".join(f"{column} = {given}" for column, given in values.items())

    def insert(self, values):
        chance = self.chance
        values = values | {c: self.term(kind, null=0.1) for c, kind in self.others.items() if chance.random() < 0.8}
        if chance.random() < 0.05 and self.takes_json:
            document = {column: as_json(literal_of(given) or "null") for column, given in values.items()}
            document = ", ".join(f'"{column}": {given}' for column, given in document.items())
            spelled = "'" + f"{{{document}}}".replace("'", "''") + "'"
            return f"INSERT INTO {self.name} JSON {value(spelled)} {chance.choice(['', 'DEFAULT NULL', 'DEFAULT UNSET'])}"
        return f"INSERT INTO {self.name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    def conditional(self):
        chance, (values, row) = self.chance, self.row()
        conditions = " AND ".join(self.condition() for _ in range(chance.choice([1, 1, 1, 2])))
        when = chance.choice([conditions, conditions, conditions, "EXISTS"])
        pick = chance.random()
        if pick < 0.3:
            return f"{self.insert(values)} IF NOT EXISTS"
        if pick < 0.8 and self.others:
            return f"UPDATE {self.name} SET {self.operation(*chance.choice(list(self.others.items())))} WHERE {row} IF {when}"
        what = chance.choice(["", chance.choice(list(self.others or self.columns))])
        return f"DELETE {what} FROM {self.name} WHERE {row} IF {when}"

    def using(self):
        """A timestamp, at times with a TTL that is none; without, the timestamp of the request counts."""
        chance = self.chance
        if chance.random() < 0.1:
            return ""
        return f"USING TIMESTAMP {value(chance.randint(1, 50))}" + f" AND TTL {value(0)}" * (chance.random() < 0.1)

    def plain(self):
        chance, (values, row) = self.chance, self.row()
        changed, kind = chance.choice(list((self.regular or self.columns).items()))
        if self.is_counter:
            return f"UPDATE {self.name} SET {changed} {chance.choice(['= ' + changed + ' +', '+=', '-='])} {value(chance.randint(0, 5))} WHERE {row}"
        pick = chance.random()
        if pick < 0.72:
            return f"{self.insert(values)} {self.using()}"
        if pick < 0.85:
            return f"DELETE FROM {self.name} {self.using().split(' AND')[0]} WHERE {self.slice_(values)}"
        if pick < 0.92:
            part = chance.choice([changed] * 4 + [f"{changed}[{self.element()}]", f"{changed}.a"])
            return f"DELETE {part} FROM {self.name} {self.using().split(' AND')[0]} WHERE {row}"
        return f"UPDATE {self.name} {self.using()} SET {self.operation(changed, kind)} WHERE {row}"

    def slice_(self, values):
        """The rows that a DELETE names: a prefix of a key, at times with a range, or several keys."""
        chance = self.chance
        count = chance.randint(len(self.keys), len(self.columns) - len(self.others))
        relations = [f"{column} = {given}" if chance.random() < 0.95 else f"{column} IN {self.listed([given, self.literal(self.columns[column])])}"
                     for column, given in list(values.items())[:count]]
        rest = list(self.clustering.items())[count - len(self.keys):]
        if rest and chance.random() < 0.4:
            together = rest[:chance.randint(1, len(rest))]
            names, given = ", ".join(c for c, _ in together), ", ".join(self.literal(kind) for _, kind in together)
            operator = chance.choice(["<", "<=", ">", ">="])
            relations.append(f"({names}) {operator} ({given})" if chance.random() < 0.4 else
                             f"{rest[0][0]} {operator} {self.term(rest[0][1])}")
        return " AND ".join(relations)

    def selector(self):
        chance = self.chance
        column, kind = chance.choice(list(self.columns.items()))
        times = ["ttl"] if self.has_clock_times else ["ttl", "writetime", "maxwritetime"]
        return chance.choice([column] * 30 + [
            f"count({column})", "count(*)", f"{chance.choice(['min', 'max', 'sum', 'avg'])}({column})",
            f"{chance.choice(times)}({column})", f"{chance.choice(times)}({column}[{self.element()}])", f"token({', '.join(self.keys)})",
            f"token({', '.join(self.literal(kind) for kind in self.keys.values())})",
            f"cast({column} AS {chance.choice(['text', 'int', 'double', 'bigint', 'timestamp', 'date'])})",
            f"{column} {chance.choice('+-*/%')} {chance.choice([column, self.literal(kind), value(2)])}",
            f"{self.literal(kind)} {chance.choice('+-*/%')} {column}", f"({kind}) {self.literal(kind)}", f"{self.literal(kind)}",
            f"{column}[{self.element()}]", f"{column}[{self.element()} .. {self.element()}]", f"{column}.a",
            f"{chance.choice(FUNCTIONS)}({column})", f"{chance.choice(FUNCTIONS)}({self.literal(kind)})",
            f"{chance.choice(FUNCTIONS)}({column}, {self.literal(kind)})", f"mask_inner({column}, {value(1)}, {value('null')})",
            f"[{column}, {self.literal(kind)}]", f"({column}, {self.literal(kind)})", f"{column} AS x{chance.randint(0, 2)}"])

    def relation(self, column, kind):
        chance, given = self.chance, lambda: self.term(kind, null=0.01)
        pick = chance.random()
        if pick < 0.45:
            return f"{column} = {given()}"
        if pick < 0.70:
            return f"{column} {chance.choice(['<', '<=', '>', '>='])} {given()}"
        if pick < 0.85:
            return f"{column} IN {self.listed([self.literal(kind) for _ in range(chance.randint(0, 3))])}"
        element = value(chance.choice(["1", "'p'"]))
        return chance.choice([f"{column} CONTAINS {element}", f"{column} CONTAINS KEY {element}", f"{column}[{element}] = {element}",
                              f"{column} != {given()}", f"{column} IS NOT NULL"])

    def of_partitions(self):
        """Relations on the partition key, or its token."""
        chance, pick = self.chance, self.chance.random()
        if pick < 0.5:
            return [f"{column} = {given}" for column, given in chance.choice(self.partitions).items()]
        if pick < 0.6:
            return [f"{column} IN {self.listed(sorted({p[column] for p in self.partitions}))}" for column in self.keys]
        if pick < 0.7:
            token = value(chance.choice([0, -2**63, 10**17, -4 * 10**18]))
            if chance.random() < 0.3:
                token = f"token({', '.join(chance.choice(self.partitions).values())})"
            return [f"token({', '.join(self.keys)}) {chance.choice(['>', '<=', '>=', '<', '='])} {token}"]
        return []

    def of_clustering(self):
        """Relations on a prefix of the clustering, one by one or together."""
        chance, prefix = self.chance, list(self.clustering.items())[:self.chance.randint(1, len(self.clustering))]
        together = f"({', '.join(column for column, _ in prefix)})"
        pick = chance.random()
        if pick < 0.6:
            *before, last = prefix
            return ([f"{column} = {self.literal(kind)}" for column, kind in before]
                    + [self.relation(*last) for _ in range(chance.choice([1, 1, 2]))])
        if pick < 0.85:
            return [f"{together} {chance.choice(['=', '<', '>', '<=', '>='])} {self.tuple_of(prefix)}" for _ in range(chance.choice([1, 1, 2]))]
        return [f"{together} IN {self.listed([self.tuple_of(prefix) for _ in range(chance.randint(1, 3))])}"]

    def tuple_of(self, columns):
        """Values in brackets, or one that is all of them."""
        given = f"({', '.join(self.literal(kind) for _, kind in columns)})"
        return value(given) if self.chance.random() < 0.5 else given

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
            f"PER PARTITION LIMIT {value(chance.randint(0, 3))}" if chance.random() < 0.15 else "",
            f"LIMIT {value(chance.randint(0, 6))}" if chance.random() < 0.25 else "",
            "ALLOW FILTERING" if chance.random() < 0.6 else "",
        ]
        return Statement(" ".join(clause for clause in clauses if clause))


class Answer:
    """All pages of an answer, in a form that can be compared."""

    def __init__(self, wire, ask):
        columns, warnings = [], set()

        def ask_page(state):
            reply = ask(state)
            columns.extend(reply.columns if not columns else [])
            warnings.update(reply.warnings)
            return reply

        reply, self.is_older = wire.pages(ask_page), wire.is_older
        self.code, self.error = reply.code, reply.error
        self.columns, self.rows = [(name, str(kind)) for name, kind in columns], reply.rows
        self.rest = (reply.kind, self.rows, sorted(warnings))
        self.said = ("error", reply.code) if reply.kind == "error" else (self.columns, *self.rest)

    def __str__(self):
        return f"error {self.code:#06x} {self.error}" if self.error is not None else str(self.said)


class Prepared(Answer):
    """What PREPARE was answered with."""

    def __init__(self, reply, is_older=False):
        self.reply, self.code, self.error, self.rows, self.is_older = reply, reply.code, reply.error, None, is_older
        if self.error is None:
            self.columns = [(column[2], str(column[3])) for column in reply.message.column_metadata or []]
            markers = [(name, str(kind)) for name, kind in bind_types(reply)]
            self.rest = ("prepared", markers, reply.message.pk_indexes, sorted(reply.warnings))
            self.said = (self.columns, *self.rest)
        else:
            self.columns, self.said = [], ("error", reply.code)


class Form:
    """How a statement is sent: as text, prepared, or as text with values; with what values, and in pages of how many rows."""

    def __init__(self, table, statement, version, page=5000):
        chance, self.table = table.chance, table
        self.way, self.page = chance.choice(["text", "prepared", "prepared", "values"]), page
        self.statement = statement.with_some_text(chance) if chance.random() < 0.3 else statement
        self.literals = self.statement.literals()
        # Values with names may come in any order, and lack one, or have one too much.
        self.is_named = self.way != "text" and chance.random() < 0.2
        self.slip = chance.choice(["one less", "one more", "another name", *[None] * 7])
        self.order = chance.random()
        self.timestamp = chance.randint(1, 50)
        self.has_odd = self.way != "text" and chance.random() < 0.25
        if self.has_odd:
            odd = ["null", "empty"] + ["unset"] * (version > 3)
            self.literals = [chance.choice(odd) if chance.random() < 0.3 else literal for literal in self.literals]

    @property
    def has_null_bound(self):
        """Whether a range, or a tuple of clusterings, may be bound to what has no bytes."""
        as_text = re.search(r"[<>]=? \(?null", self.statement.text())
        as_marker = self.way != "text" and re.search(r"([<>]=?|\) (=|IN)) \(?\?", self.statement.marked())
        return bool(as_text or (as_marker and re.search("null|empty", " ".join(self.literals))))

    @property
    def has_condition(self):
        return " IF " in self.statement.text()

    def __str__(self):
        if self.way == "text":
            return f"{self.statement.text()}; (pages of {self.page})"
        named = f" by name, {self.slip or 'all'}" if self.is_named else ""
        return f"{self.statement.marked()}; -- {self.way}{named}: {', '.join(self.literals)} (pages of {self.page})"

    def named(self, values, names):
        """Values and names as they are sent; without names, values as they are."""
        if not (self.is_named and values):
            return values, None
        pairs = list(zip(names, values))
        random.Random(self.order).shuffle(pairs)
        if self.slip == "one less" and len(pairs) > 1:
            pairs.pop()
        elif self.slip == "one more":
            pairs.append(("nosuch", b"?"))
        elif self.slip == "another name":
            pairs[0] = ("nosuch", pairs[0][1])
        names, values = zip(*pairs)
        return list(values), list(names)


def excused(form, ours, theirs):
    """Whether two answers differ as docs/COMPAT.md says."""
    if theirs.code == SERVER_ERROR:
        return True  # a Java exception
    if theirs.is_older and (theirs.code in (0x2000, 0x2200) or (ours.error, theirs.error) == (None, None) and ours.rows == theirs.rows):
        return True  # a release that does not know it, or names its columns otherwise
    if theirs.code in (PROTOCOL_ERROR, READ_TIMEOUT, READ_FAILURE) and (" GROUP BY " in form.statement.text() or form.has_odd):
        return True  # a paging state of its own that it does not take, or does not get on with; a null in a list that it compares
    if theirs.error is not None and "system.cast_as_" in theirs.error and form.table.is_descending:
        return True  # a text in descending order is none
    if theirs.error is not None and theirs.error.startswith("Invalid unset value") and "unset" not in form.literals:
        return True  # an IN of several columns beside a relation on the next one
    if form.table.is_descending and OF_DESCENDING.match(theirs.error or ""):
        return True  # a type in descending order is another
    if any(error and error.startswith(("Key may not be empty", "Cannot page", "Invalid null token")) for error in (ours.error, theirs.error)):
        return True  # told or not where IN () or tokens leave nothing to read
    if form.way != "text" and "token(" in form.statement.text() and ours.error is not None and theirs.rows == [] and theirs.error is None:
        return True  # the same of other mistakes in what is bound
    if form.table.is_descending and "cast(" in form.statement.text() and ours.columns == theirs.columns and ours.rows and (
            [[cell or None for cell in row] for row in ours.rows] == [[cell or None for cell in row] for row in theirs.rows or []]):
        return True  # a value without bytes, cast to its own type
    if HEXADECIMAL_OPERAND.search(f"{ours.error} {form.statement.text()}"):
        return True  # taken for a number
    if form.has_null_bound and theirs.code in (None, WRITE_TIMEOUT, WRITE_FAILURE) and (ours.error or NULL_VALUE).startswith(NULL_VALUE):
        return True  # which is no bound at all to Cassandra, or a prefix
    if form.has_condition and ours.error is not None and theirs.columns[:1] == APPLIED:
        return theirs.rows[0][0] == b"\0"  # a mistake that is told whether or not the conditions hold
    if same_refusal(form.table, ours, theirs):
        return True
    if theirs.columns[:1] == APPLIED == ours.columns and theirs.rows[0][0] == ours.rows[0][0]:
        return not any(theirs.rows[0][1:])  # a row of a static column's deletion alone, as long as that is kept
    if theirs.error is None and ours.error is None and (
            ours.rest == theirs.rest or _without_chance(theirs.rest) == _without_chance(ours.rest)):
        # Which name of a function stands in that of a column is left to chance; the type of a minimum is a
        # class of its own; for a null in a list that is shown as JSON there is no certain text.
        return [(JSON_NAMES.sub("tojson", name), kind) for name, kind in ours.columns] == [
            (JSON_NAMES.sub("tojson", name), "timeuuid" if "LegacyTimeUUIDType" in kind else kind) for name, kind in theirs.columns]
    return False


def _without_chance(rest):
    return MISSING_ITEM.sub(r"\1null", JSON_NAMES.sub("tojson", str(rest)))


def same(form, ours, theirs):
    """Whether both answered the same, or what cannot be told apart from it."""
    if ours.said != theirs.said and not excused(form, ours, theirs):
        raise Difference(f"{form}\n  node:      {ours}\n  cassandra: {theirs}")
    return ours.said == theirs.said


def both(wires, form):
    """Asks both. Whether their data are still the same, as far as the answers tell."""
    options = {"fetch_size": form.page, "timestamp": form.timestamp}
    if form.way == "text":
        text = form.statement.text()
        return same(form, *(Answer(wire, lambda state: wire.query(text, paging_state=state, **options)) for wire in wires))
    marked = form.statement.marked()
    ours, theirs = (Prepared(wire.prepare(marked), wire.is_older) for wire in wires)
    if not same(form, ours, theirs) or theirs.error is not None:
        return ours.said == theirs.said
    values, names = form.named(bound(theirs.reply, form.literals), [name for name, _ in bind_types(theirs.reply)])

    def ask(wire, prepared, state):
        if form.way == "values":
            return wire.query(marked, values=values, names=names, paging_state=state, **options)
        return wire.execute(prepared.reply, values, names=names, paging_state=state, **options)

    return same(form, *(Answer(wire, lambda state: ask(wire, prepared, state)) for wire, prepared in zip(wires, (ours, theirs))))


def check(seed, selects, nodes):
    """A table, its data and its SELECTs. Returns None, or what differed and the statements that lead there."""
    chance = random.Random(seed)
    table, version, done = Table(chance, f"t{seed}"), chance.choice(VERSIONS), []
    wires = [differential.connect(node, version) for node in nodes]
    try:
        for wire in wires:
            wire.query(f"DROP TABLE IF EXISTS {table.name}")
        for statement in [Statement(table.create())] + [table.write() for _ in range(chance.randint(5, 30))]:
            form = Form(table, statement, version)
            done.append(str(form))
            if not both(wires, form):
                return None  # from here on their data differ
            if len(done) > 1 and chance.random() < 0.1:
                nodes[0].flush(KEYSPACE, table.name.split(".")[1])
        for _ in range(selects):
            both(wires, Form(table, table.select(), version, chance.choice(PAGES)))
    except Difference as difference:
        return f"seed {seed}, version {version}\n" + "\n".join(done) + f"\n\n{difference}"
    finally:
        differential.drop(wires, table.name)
    return None


def prepare(nodes):
    differential.prepare(nodes, KEYSPACE, ("pair", "(a int, b text)"))


if __name__ == "__main__":
    sys.exit(differential.main(__doc__, prepare, check, "selects"))
