"""The real Cassandra's tools read the files of the node under test.

The same statements, with timestamps of their own, go to the node and to a real Cassandra; then sstabledump of their files
has to agree word for word (but for what the clock decided), the offline verifier has to pass, and the running Cassandra has
to import the files and answer queries as the node does.
"""
import json
import random
import re
import shutil
import struct
import subprocess

import pytest

from harness.node import CASSANDRA
from harness.types import show
from harness.wire import Wire

TYPES = {
    "ascii": "'ascii'", "bigint": "-9223372036854775808", "blob": "0x00ff", "boolean": "true", "date": "'2024-02-29'",
    "decimal": "-1.50", "double": "1.5e300", "duration": "1mo2d3ns", "float": "-0.5", "inet": "'2001:db8::1'", "int": "-7",
    "smallint": "300", "text": "'žluť'", "time": "'12:34:56.789'", "timestamp": "1709208000123",
    "timeuuid": "50554d6e-29bb-11e5-b345-feff819cdc9f", "tinyint": "-128",
    "uuid": "ffffffff-ffff-4fff-8fff-ffffffffffff", "varint": "-123456789012345678901234567890",
    "frozen<list<int>>": "[3, 1]", "frozen<set<text>>": "{'b', 'a'}", "frozen<map<text, int>>": "{'x': 1}",
    "frozen<tuple<int, text>>": "(1, null)", "frozen<point>": "{x: 1}", "vector<float, 3>": "[1, 2.5, -3]",
    "vector<text, 2>": "['', 'abc']",
}


def type_columns():
    return [(f"c{i}", kind) for i, kind in enumerate(TYPES)]


def table_with(options):
    """A table of some size with braces doubled in its options."""
    return (f"CREATE TABLE {{ks}}.{{table}} (k int, c int, v text, PRIMARY KEY (k, c)) WITH {options}",
            [f"INSERT INTO {{ks}}.{{table}} (k, c, v) VALUES ({k}, {c}, '{chr(97 + c % 26) * 200}{k * c}') USING TIMESTAMP 1000"
             for k in range(5) for c in range(100)],
            ["DELETE FROM {ks}.{table} USING TIMESTAMP 2000 WHERE k = 1 AND c >= 10 AND c < 90"])


NOISE = random.Random(1)
# name -> (schema, statements before the first flush, statements before the second)
TABLES = {
    "plain": ("CREATE TABLE {ks}.{table} (k int PRIMARY KEY, v text, w int)",
              [f"INSERT INTO {{ks}}.{{table}} (k, v, w) VALUES ({i}, 'value {i}', {i}) USING TIMESTAMP {1000 + i}"
               for i in range(50)]
              + ["INSERT INTO {ks}.{table} (k) VALUES (60) USING TIMESTAMP 5", "INSERT INTO {ks}.{table} (k, v) VALUES (61, '')"
                 " USING TIMESTAMP 6", "UPDATE {ks}.{table} USING TIMESTAMP 7 SET w = 1 WHERE k = 62"],
              ["DELETE FROM {ks}.{table} USING TIMESTAMP 5000 WHERE k = 1", "DELETE v FROM {ks}.{table} USING TIMESTAMP 5000"
               " WHERE k = 2", "UPDATE {ks}.{table} USING TIMESTAMP 5000 SET v = 'new' WHERE k = 3",
               "UPDATE {ks}.{table} USING TIMESTAMP 1 SET v = 'too old' WHERE k = 4"]),
    "types": ("CREATE TABLE {ks}.{table} (k int PRIMARY KEY, " + ", ".join(f"{n} {t}" for n, t in type_columns()) + ")",
              [f"INSERT INTO {{ks}}.{{table}} (k, {name}) VALUES ({i}, {TYPES[kind]}) USING TIMESTAMP 1000"
               for i, (name, kind) in enumerate(type_columns())],
              ["DELETE FROM {ks}.{table} USING TIMESTAMP 2000 WHERE k = 0"]),
    "clustered": ("CREATE TABLE {ks}.{table} (a int, b text, c int, d text, e timeuuid, s int STATIC, v int, w text, "
                  "PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c DESC, d ASC, e DESC)",
                  [f"INSERT INTO {{ks}}.{{table}} (a, b, c, d, e, v, w) VALUES ({a}, 'b', {c}, '{d}', "
                   f"50554d6e-29bb-11e5-b345-feff819cdc9f, {c}, 'w') USING TIMESTAMP 1000"
                   for a in range(3) for c in range(-2, 5) for d in ("", "x", "yy")]
                  + ["UPDATE {ks}.{table} USING TIMESTAMP 1000 SET s = 5 WHERE a = 1 AND b = 'b'",
                     "UPDATE {ks}.{table} USING TIMESTAMP 1000 SET s = 6 WHERE a = 9 AND b = 'only static'"],
                  ["DELETE FROM {ks}.{table} USING TIMESTAMP 2000 WHERE a = 0 AND b = 'b' AND c > 1",
                   "DELETE FROM {ks}.{table} USING TIMESTAMP 2001 WHERE a = 0 AND b = 'b' AND c = 0 AND d >= 'x'",
                   "DELETE FROM {ks}.{table} USING TIMESTAMP 2002 WHERE a = 1 AND b = 'b' AND c >= 0 AND c < 3",
                   "DELETE FROM {ks}.{table} USING TIMESTAMP 2003 WHERE a = 1 AND b = 'b' AND c >= 2 AND c < 5",
                   "DELETE FROM {ks}.{table} USING TIMESTAMP 2004 WHERE a = 2 AND b = 'b'",
                   "INSERT INTO {ks}.{table} (a, b, c, d, e, v) VALUES (2, 'b', 1, 'x', 50554d6e-29bb-11e5-b345-feff819cdc9f,"
                   " 9) USING TIMESTAMP 2005",
                   "DELETE FROM {ks}.{table} USING TIMESTAMP 2006 WHERE a = 1 AND b = 'b' AND c = 4 AND d = '' AND "
                   "e = 50554d6e-29bb-11e5-b345-feff819cdc9f"]),
    "collections": ("CREATE TABLE {ks}.{table} (k int, c int, l list<int>, s set<text>, m map<text, int>, u point, "
                    "st map<int, int> STATIC, PRIMARY KEY (k, c))",
                    [f"INSERT INTO {{ks}}.{{table}} (k, c, l, s, m, u) VALUES ({i}, 1, [3, 1], {{'b', 'a'}}, {{'x': 1, 'y': 2}},"
                     " {x: 1, y: 'y'}) USING TIMESTAMP 1000" for i in range(4)]
                    + ["UPDATE {ks}.{table} USING TIMESTAMP 1000 SET s = s + {'q'}, m['z'] = 5, u.x = 7 WHERE k = 9 AND c = 9",
                       "UPDATE {ks}.{table} USING TIMESTAMP 1000 SET st = st + {1: 1} WHERE k = 9"],
                    ["UPDATE {ks}.{table} USING TIMESTAMP 2000 SET m = {'whole': 1} WHERE k = 1 AND c = 1",
                     "DELETE m['x'] FROM {ks}.{table} USING TIMESTAMP 2000 WHERE k = 2 AND c = 1",
                     "UPDATE {ks}.{table} USING TIMESTAMP 2000 SET s = {} WHERE k = 3 AND c = 1"]),
    "expiring": ("CREATE TABLE {ks}.{table} (k int, c int, v text, PRIMARY KEY (k, c))",
                 ["INSERT INTO {ks}.{table} (k, c, v) VALUES (1, 1, 'v') USING TIMESTAMP 1000 AND TTL 100000",
                  "UPDATE {ks}.{table} USING TIMESTAMP 1000 AND TTL 200000 SET v = 'w' WHERE k = 1 AND c = 2",
                  "INSERT INTO {ks}.{table} (k, c, v) VALUES (2, 1, 'v') USING TIMESTAMP 1000"],
                 ["UPDATE {ks}.{table} USING TIMESTAMP 2000 AND TTL 100000 SET v = 'x' WHERE k = 2 AND c = 1"]),
    "wide": ("CREATE TABLE {ks}.{table} (k int, c int, v text, s text STATIC, PRIMARY KEY (k, c))",
             [f"INSERT INTO {{ks}}.{{table}} (k, c, v) VALUES ({k}, {c}, '{chr(97 + c % 26) * 300}') USING TIMESTAMP {1000 + c}"
              for k in range(2) for c in range(600)]
             + ["UPDATE {ks}.{table} USING TIMESTAMP 3 SET s = 'static' WHERE k = 1"],
             ["DELETE FROM {ks}.{table} USING TIMESTAMP 5000 WHERE k = 0 AND c > 50 AND c <= 550"]),
    # Does not compress, so that chunks of the node are stored as they are, and its blocks of rows end with them.
    "noise": ("CREATE TABLE {ks}.{table} (k int, c int, v blob, PRIMARY KEY (k, c))",
              [f"INSERT INTO {{ks}}.{{table}} (k, c, v) VALUES ({k}, {c}, 0x{NOISE.randbytes(900).hex()}) USING TIMESTAMP {1000 + c}"
               for k in range(2) for c in range(150)],
              ["DELETE FROM {ks}.{table} USING TIMESTAMP 5000 WHERE k = 0 AND c > 20 AND c <= 40"]),
    "counters": ("CREATE TABLE {ks}.{table} (k int PRIMARY KEY, n counter)",
                 [f"UPDATE {{ks}}.{{table}} SET n = n + {i} WHERE k = {i}" for i in range(1, 10)],
                 ["UPDATE {ks}.{table} SET n = n - 100 WHERE k = 3", "DELETE FROM {ks}.{table} WHERE k = 4"]),
    "uncompressed": table_with("compression = {{'enabled': 'false'}}"),
    "snappy": table_with("compression = {{'class': 'SnappyCompressor', 'chunk_length_in_kb': '4'}}"),
    "deflate": table_with("compression = {{'class': 'DeflateCompressor'}}"),
    "zstd": table_with("compression = {{'class': 'ZstdCompressor', 'min_compress_ratio': '1.1'}}"),
    "leveled": table_with("compaction = {{'class': 'LeveledCompactionStrategy', 'enabled': 'false'}}"),
    "unified": table_with("compaction = {{'class': 'UnifiedCompactionStrategy'}}"),
    "windows": table_with("compaction = {{'class': 'TimeWindowCompactionStrategy'}}"),
    "lz4_high": table_with("compression = {{'class': 'LZ4Compressor', 'lz4_compressor_type': 'high', 'chunk_length_in_kb': '64'}}"),
}


class Side:
    """A node with the tables in a keyspace of its own."""

    def __init__(self, node, keyspace):
        self.node, self.keyspace = node, keyspace
        self.wire = Wire(node.address, node.port)
        self.wire.must(f"DROP KEYSPACE IF EXISTS {keyspace}")
        self.schema()

    def schema(self):
        self.wire.must(f"CREATE KEYSPACE {self.keyspace} WITH replication = "
                       "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        self.wire.must(f"CREATE TYPE {self.keyspace}.point (x int, y text)")
        for table, (create, _, _) in TABLES.items():
            self.wire.must(self.text(create, table))

    def text(self, statement, table):
        statement = statement.replace("{ks}", self.keyspace).replace("{table}", table)
        return statement.replace("{{", "{").replace("}}", "}") if "WITH comp" in statement else statement

    def write(self, step):
        for table, definition in TABLES.items():
            for statement in definition[step]:
                self.wire.must(self.text(statement, table))
        self.node.flush(self.keyspace)

    def files(self, table):
        """The Data.db files of a table, oldest generation first."""
        folders = [p for p in self.node.directory.rglob(f"{self.keyspace}/{table}-*") if p.is_dir()]
        newest = max(folders, key=lambda p: p.stat().st_mtime)
        return sorted(newest.glob("*-Data.db"), key=lambda p: [int(x) for x in re.findall(r"\d+", p.name)])

    def rows(self, table):
        reply = self.wire.must(f"SELECT * FROM {self.keyspace}.{table}")
        return sorted(tuple(show(t, v) for (_, t), v in zip(reply.columns, row)) for row in reply.rows)

    def drop(self):
        self.wire.must(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
        self.wire.close()


def tools(calls, folder, data=None):
    """Runs [(class, argument, ...)] in one JVM; returns what each printed and its exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = [folder / f"{i}.out" for i in range(len(calls))]
    lines = "".join("\t".join(map(str, (output, *call))) + "\n" for output, call in zip(outputs, calls))
    command = [CASSANDRA, "tools", *(["--data", data] if data else [])]
    done = subprocess.run([str(x) for x in command], input=lines, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    texts = [output.read_text() for output in outputs]
    return [(text.rpartition("\nexit ")[0], int(text.rpartition("\nexit ")[2])) for text in texts]


def dumps(files, folder):
    """sstabledump's JSON of each file, without what the clock, the place in the file and random ids decide."""
    out = []
    for path, (text, status) in zip(files, tools([("SSTableExport", path) for path in files], folder)):
        assert status == 0, f"{path}: {text[-2000:]}"
        out.append([plain(partition) for partition in json.loads(text[text.index("[\n"):text.rindex("]") + 1])])
    return out


def plain(value):
    if isinstance(value, list):
        return [plain(x) for x in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        if key in ("position", "local_delete_time", "expires_at", "expired", "table kind"):
            continue
        if key == "path" and re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-1.*", str(inner[0])):
            inner = ["a list's time uuid"]
        if key in ("tstamp", "marked_deleted") and str(inner) > "2020":
            inner = "now"
        if key == "value" and value.get("name") == "n" and isinstance(inner, int):
            # Of a counter the tool shows the first eight bytes: the header of its one shard, and half of a random id.
            inner >>= 32
        out[key] = plain(inner)
    return out


@pytest.fixture(scope="module")
def sides(target, oracle, tmp_path_factory):
    """The node and the oracle with all statements in, and dumps: {(table, "flush 1"): [one for each file], ...}.

    Also what SELECT said before the compaction, in `before`.
    """
    if not hasattr(target, "directory"):
        pytest.skip("needs the files of the node")
    both = (Side(target, "tools_target"), Side(oracle, "tools_oracle"))
    for side in both:
        seen, kept = set(), {}
        folder = tmp_path_factory.mktemp(side.keyspace)
        for step in ("flush 1", "flush 2", "compaction"):
            if step == "compaction":
                side.before = {table: side.rows(table) for table in TABLES}
                side.node.compact(side.keyspace)
            else:
                side.write(int(step[-1]))
            for table in TABLES:
                kept[table, step] = []
                for path in side.files(table):
                    if path not in seen:
                        seen.add(path)
                        copy = folder / step.replace(" ", "_") / side.keyspace / table
                        copy_sstables([path], copy)
                        kept[table, step].append(copy / path.name)
        files = [path for paths in kept.values() for path in paths]
        side.copies = {key: paths for key, paths in kept.items() if key[0] != "counters"}
        found = dict(zip(files, dumps(files, folder / "out")))
        side.dumps = {key: [found[path] for path in paths] for key, paths in kept.items()}
    yield both
    for side in both:
        side.drop()


@pytest.mark.parametrize("step", ["flush 1", "flush 2", "compaction"])
@pytest.mark.parametrize("table", TABLES)
def test_dump(sides, table, step):
    ours, theirs = (side.dumps[table, step] for side in sides)
    assert len(ours) == len(theirs) == 1, "files"
    assert ours == theirs


def test_chunks_that_do_not_compress_are_stored_as_they_are(sides):
    ours, theirs = (side.files("noise")[0].with_name(side.files("noise")[0].name.replace("-Data", "-CompressionInfo")).read_bytes()
                    for side in sides)
    for info, is_raw in ((ours, True), (theirs, False)):
        chunk_len, max_len, _, count = struct.unpack_from(">iiqi", info, 2 + len("LZ4Compressor") + 4)
        offsets = struct.unpack_from(f">{count}q", info, 2 + len("LZ4Compressor") + 24)
        stored = [end - start - 4 for start, end in zip(offsets, offsets[1:])]
        assert len(stored) >= 15 and (max_len < chunk_len) == is_raw
        assert {length == chunk_len for length in stored} == {is_raw}


@pytest.mark.parametrize("table", TABLES)
def test_compaction_changes_no_answer(sides, table):
    ours, theirs = sides
    assert len(ours.files(table)) == 1
    assert ours.rows(table) == ours.before[table] == theirs.before[table]


def test_verify(sides, tmp_path):
    """The verifier takes the schema from disk: the oracle's, with the files of the node in the place of its own."""
    ours, theirs = sides
    theirs.node.flush("system_schema")
    data = tmp_path / "data"
    for folder in (theirs.node.directory / "data" / "system_schema").iterdir():
        shutil.copytree(folder, data / "system_schema" / folder.name, ignore=shutil.ignore_patterns("snapshots", "backups"))
    for table in TABLES:
        copy_sstables(ours.files(table), data / theirs.keyspace / theirs.files(table)[0].parent.name)
    calls = [("StandaloneVerifier", "-e", "-f", "-v", theirs.keyspace, table) for table in TABLES]
    for call, (said, status) in zip(calls, tools(calls, tmp_path / "out", data)):
        assert status == 0 and "Verify of" in said and "succeeded" in said, f"{call[-1]}: {said}"


def copy_sstables(data_files, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for data_file in data_files:
        stem = data_file.name.removesuffix("Data.db")
        for component in data_file.parent.glob(f"{stem}*"):
            shutil.copy(component, folder / component.name)


@pytest.mark.parametrize("table", TABLES)
def test_import(sides, table, tmp_path):
    ours, theirs = sides
    theirs.wire.must(f"TRUNCATE {theirs.keyspace}.{table}")
    assert theirs.rows(table) == []
    folder = tmp_path / theirs.keyspace / table
    copy_sstables(ours.files(table), folder)
    theirs.node.nodetool("import", "-e", theirs.keyspace, table, folder)
    assert theirs.rows(table) == ours.rows(table)


# What `ilion sstable` does with the files of either node, against what Cassandra's tools do with the same files.


def offline(target, *arguments):
    """Runs `ilion sstable`; returns what it printed and its exit status."""
    if not hasattr(target, "binary"):
        pytest.skip("needs the binary")
    done = subprocess.run([str(x) for x in (target.binary, "sstable", *arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout.decode(), done.returncode


def document(text):
    """What a tool printed, without what it logged meanwhile, which may stand in the middle of a line."""
    return re.sub(r"(ERROR|WARN ) ?\d{4}-\d\d-\d\d [^\n]*\n", "", text)


@pytest.mark.parametrize("flags", [(), ("-l",), ("-t",), ("-e",), ("-d",)], ids=" ".join)
def test_offline_dump_is_sstabledumps(sides, target, tmp_path, flags):
    files = [path for side in sides for paths in side.copies.values() for path in paths]
    assert len(files) > 60
    theirs = tools([("SSTableExport", path, *flags) for path in files], tmp_path)
    for path, (expected, status) in zip(files, theirs):
        assert status == 0, expected
        ours, _ = offline(target, "dump", "--json", *flags, path) if flags != ("-d",) else offline(target, "dump", "-d", path)
        assert ours.rstrip("\n") == document(expected).rstrip("\n"), f"{path} {flags}"


def test_offline_verify_finds_nothing_and_metadata_agrees(sides, target, tmp_path):
    files = [path for side in sides for paths in side.copies.values() for path in paths]
    theirs = tools([("SSTableMetadataViewer", path) for path in files], tmp_path)
    # Histograms are interpolated there, and the columns are in the order of a hash table.
    unlike = ("Estimated droppable", "RegularColumns", "StaticColumns", "Estimated cardinality")
    for path, (expected, status) in zip(files, theirs):
        assert offline(target, "verify", path)[1] == 0, path
        assert status == 0, expected
        ours, _ = offline(target, "metadata", path)
        lines = [[line for line in document(text).split("\n") if line and not line.startswith(unlike)] for text in (ours, expected)]
        assert lines[0] == lines[1], path


def test_scrubbed_files_are_read_by_the_tools(sides, target, tmp_path):
    path = sides[1].copies["wide", "flush 1"][0]
    copy_sstables([path], tmp_path / "wide")
    path = tmp_path / "wide" / path.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    found = json.loads(offline(target, "verify", "--json", path)[0])[0]
    assert {finding["component"] for finding in found["findings"]} == {"Data.db", "Digest.crc32"}
    text, status = offline(target, "scrub", "--json", path)
    report = json.loads(text)[0]
    assert status == 1 and report["loss_count"] >= 1 and report["rows"] > 900
    assert not path.exists() and list((tmp_path / "wide" / "snapshots").glob("pre-scrub-*/nb-*-Data.db"))
    written = [tmp_path / "wide" / f"{name.rsplit('/', 1)[1]}-Data.db" for name in report["written"]]
    assert len(written) == 1 and offline(target, "verify", written[0])[1] == 0
    before, after = dumps([sides[1].copies["wide", "flush 1"][0]], tmp_path / "a")[0], dumps(written, tmp_path / "b")[0]
    rows = {(str(p["partition"]["key"]), str(r)) for p in before for r in p["rows"]}
    saved = [(str(p["partition"]["key"]), str(r)) for p in after for r in p["rows"]]
    assert len(saved) == report["rows"] and rows.issuperset(saved)


@pytest.mark.parametrize("table", TABLES)
def test_node_imports_cassandras_files(sides, target, table, tmp_path):
    ours, theirs = sides
    # Another test imports the other way; both leave the tables as they were.
    before = theirs.before[table]
    ours.wire.must(f"TRUNCATE {ours.keyspace}.{table}")
    assert ours.rows(table) == []
    folder = tmp_path / ours.keyspace / table
    theirs.node.flush(theirs.keyspace)
    copy_sstables(theirs.files(table), folder)
    target.nodetool("import", "-e", "-cd", ours.keyspace, table, folder)
    assert ours.rows(table) == before
    assert list(folder.glob("*-Data.db"))
    target.nodetool("import", ours.keyspace, table, folder)
    assert not list(folder.glob("*-Data.db"))
    assert ours.rows(table) == before
