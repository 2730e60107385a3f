"""A plain model of one table: Python dictionaries and Cassandra's rules for what wins.

A cell is (timestamp, expiring, ttl, value) with value None for a deletion. Deletions (of a partition, a range, a row, a
collection) cover what is not newer than they are. The model knows nothing of memtables or files: it keeps every deletion
for good, so its answers are those of a store in which nothing is ever purged.
"""
import struct


def encoded(kind, value):
    """The bytes by which Cassandra breaks a tie between two values."""
    if kind == "int":
        return struct.pack(">i", value)
    if kind == "text":
        return value.encode()
    if kind == "flist":
        return struct.pack(">i", len(value)) + b"".join(struct.pack(">ii", 4, x) for x in value)
    raise ValueError(kind)


def wins(kind, a, b):
    """Which of two cells stays: the newer; at one timestamp a deletion, then an expiring one, then the greater value."""
    if a is None or b is None:
        return a or b
    if a[0] != b[0]:
        return a if a[0] > b[0] else b
    if (a[3] is None) != (b[3] is None):
        return a if a[3] is None else b
    if a[3] is None:
        return a
    if a[1] != b[1]:
        return a if a[1] else b
    return a if encoded(kind, a[3]) >= encoded(kind, b[3]) else b


class Content:
    """The cells of one row, or the static ones of a partition."""

    def __init__(self):
        self.live = None  # the newest timestamp of an INSERT
        self.deleted = None
        self.cells = {}
        self.elements = {}  # column -> key -> cell
        self.cleared = {}  # column -> timestamp of its last whole deletion

    def put(self, column, kind, cell):
        self.cells[column] = wins(kind, self.cells.get(column), cell)

    def put_element(self, column, kind, key, cell):
        inner = self.elements.setdefault(column, {})
        inner[key] = wins(kind, inner.get(key), cell)

    def clear(self, column, timestamp):
        self.cleared[column] = max(timestamp, self.cleared.get(column, timestamp))


class Partition:
    def __init__(self):
        self.deleted = None
        self.ranges = []  # (covers(clustering) -> bool, timestamp)
        self.static = Content()
        self.rows = {}


def newest(*timestamps):
    known = [t for t in timestamps if t is not None]
    return max(known) if known else None


class Table:
    """`columns`: {name: kind}, kind int, text, flist (frozen list), set or map (of int). `statics`: the same."""

    def __init__(self, columns, statics):
        self.columns, self.statics = columns, statics
        self.partitions = {}

    def partition(self, key):
        return self.partitions.setdefault(key, Partition())

    def row(self, key, clustering):
        return self.partition(key).rows.setdefault(clustering, Content())

    def show(self, content, columns, covered):
        """({column: value or None}, whether anything lives) of a content under the deletions that cover it."""
        def alive(cell, since):
            return cell is not None and cell[3] is not None and (since is None or cell[0] > since)

        out = {}
        for name, kind in columns.items():
            if kind in ("set", "map"):
                since = newest(covered, content.cleared.get(name))
                inner = {k: c[3] for k, c in content.elements.get(name, {}).items() if alive(c, since)}
                out[name] = dict(sorted(inner.items())) if inner else None
                if inner and kind == "set":
                    out[name] = sorted(inner)
            else:
                cell = content.cells.get(name)
                out[name] = cell[3] if alive(cell, covered) else None
        return out, any(v is not None for v in out.values())

    def read(self, key):
        """Rows of a partition in no order: [(clustering, values, static values)]; clustering is None for statics alone."""
        partition = self.partitions.get(key)
        if partition is None:
            return []
        statics, has_static = self.show(partition.static, self.statics, partition.deleted)
        out = []
        for clustering, content in partition.rows.items():
            covered = newest(partition.deleted, content.deleted,
                             *(t for covers, t in partition.ranges if covers(clustering)))
            values, has_cells = self.show(content, self.columns, covered)
            if has_cells or (content.live is not None and (covered is None or content.live > covered)):
                out.append((clustering, values, statics))
        if not out and has_static:
            out.append((None, dict.fromkeys(self.columns), statics))
        return out
