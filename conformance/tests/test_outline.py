"""Outline.db and Proof.db, components that only Ilion knows: Cassandra opens, checks, copies, moves and removes SSTables that
have them without a word, and what it writes instead is read without them.
"""
import random
import shutil
import time

import pytest

from harness.in_place import differences

CASES = {
    "4.0": ("4.0.17", ()),
    "4.1": ("4.1.10", ()),
    "5.0": ("5.0.5", ()),
    "5.0 NONE": ("5.0.5", ("storage_compatibility_mode: NONE",)),
    "5.0 bti": ("5.0.5", ("storage_compatibility_mode: NONE", "sstable: {selected_format: bti}")),
}
COLUMNS = [f"v{i}" for i in range(6)]
# What each table is for, and its compression.
TABLES = {
    "compacted": "{'class': 'LZ4Compressor'}",
    "scrubbed": "{'enabled': 'false'}",
    "renewed": "{'class': 'ZstdCompressor'}",
    "imported": "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4'}",
    "truncated": "{'class': 'LZ4Compressor'}",
    "dropped": "{'enabled': 'false'}",
}
ROWS = 4


@pytest.fixture(params=CASES)
def directory(request, in_turns):
    version, settings = CASES[request.param]
    return in_turns(version, ["num_tokens: 1", *settings])


def write(directory, tables, seed):
    """Rows of long values, of which some are short, gone or deleted."""
    random.seed(seed)
    for table in tables:
        for row in range(ROWS):
            values = [f"0x{random.randbytes(random.choice((3, 9_000, 20_000))).hex()}" for _ in COLUMNS]
            directory.run([f"INSERT INTO app.{table} (k, c, {', '.join(COLUMNS)}) VALUES ({row % 2}, {row}, {', '.join(values)})"])
        directory.run([f"DELETE v2 FROM app.{table} WHERE k = 0 AND c = 0"])
        if table != "scrubbed":  # Cassandra's scrub loses partitions with range tombstones, those of its own files, too.
            directory.run([f"DELETE FROM app.{table} WHERE k = 1 AND c > 2"])
        directory.node.flush("app", table)


def files(directory, table, name):
    return sorted(directory.cassandra.data_dir.glob(f"app/{table}-*/{name}"))


def columns(directory, tables):
    """Each column of its own, as reads by outline get it."""
    return {(table, column): sorted(directory.wire.must(f"SELECT k, c, {column} FROM app.{table}").rows)
            for table in tables for column in COLUMNS}


def strange(directory, table, under=""):
    """The components that Cassandra does not know."""
    return [file for name in ("Outline.db", "Proof.db") for file in files(directory, table, f"{under}*-{name}")]


def rewritten(directory, table):
    """No strange component is left beside what Cassandra has written, and it has nothing to say."""
    deadline = time.monotonic() + 60  # What it does not know it removes last, with the log of the transaction.
    while strange(directory, table) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert strange(directory, table) == []
    assert len(files(directory, table, "*-Data.db")) == 1
    new = [line for kind, line in directory.complaints().items() if kind not in directory.known_complaints]
    # Its scrub finds fault with the last partitions of any index.
    new = [line for line in new if "differs from index file row position -1" not in line]
    assert not [line for line in new if "Outline" in line or "Proof" in line or line.startswith(("WARN", "ERROR"))], new


def test_cassandra_lives_with_strange_components(directory, tmp_path):
    directory.hand_to(directory.cassandra)
    directory.run(["CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"])
    for table, compression in TABLES.items():
        cells = ", ".join(f"{column} blob" for column in COLUMNS)
        directory.run([f"CREATE TABLE app.{table} (k int, c int, {cells}, PRIMARY KEY (k, c)) WITH compression = {compression}"])

    directory.hand_to(directory.ilion)
    write(directory, TABLES, 1)
    for table in TABLES:
        assert len(strange(directory, table)) == 2, table
    before, by_column = directory.dump(), columns(directory, TABLES)

    directory.hand_to(directory.cassandra)
    nodetool = directory.cassandra.nodetool
    assert differences(before, directory.dump()) == ""
    assert columns(directory, TABLES) == by_column
    force = [] if directory.version.startswith("4.0") else ["-f"]
    for table in TABLES:
        nodetool("verify", "-e", *force, "app", table)
    nodetool("snapshot", "-t", "kept", "app")
    for table in TABLES:
        assert len(strange(directory, table, "snapshots/kept/")) == 2, table
    nodetool("compact", "app", "compacted")
    nodetool("scrub", "-ns", "app", "scrubbed")
    nodetool("upgradesstables", "-a", "app", "renewed")
    for table in ("compacted", "scrubbed", "renewed"):
        rewritten(directory, table)
    source = tmp_path / "import"
    source.mkdir()
    for file in files(directory, "imported", "snapshots/kept/*-big-*") + files(directory, "imported", "snapshots/kept/*-bti-*"):
        shutil.copy(file, source)
    directory.run(["TRUNCATE app.imported", "TRUNCATE app.truncated", "DROP TABLE app.dropped"])
    nodetool("import", "app", "imported", str(source))
    assert strange(directory, "truncated") == []
    tables = [table for table in TABLES if table not in ("truncated", "dropped")]
    by_column = {key: rows for key, rows in by_column.items() if key[0] in tables}
    assert columns(directory, tables) == by_column
    before = directory.dump()

    directory.hand_to(directory.ilion)
    assert differences(before, directory.dump()) == ""
    assert columns(directory, tables) == by_column
    directory.node.compact("app", "scrubbed")
    assert len(strange(directory, "scrubbed")) == 2
    write(directory, ["compacted"], 2)
    # What Cassandra wrote may have such components by now, too: what Ilion wrote itself is the newest.
    newest = max(files(directory, "compacted", "*-Data.db"), key=lambda file: file.stat().st_mtime_ns)
    prefix = newest.name.removesuffix("Data.db")
    theirs = [file for file in strange(directory, "compacted") if file.name.startswith(prefix)]
    assert len(theirs) == 2
    before, by_column = directory.dump(), columns(directory, tables)
    directory.release()
    # As nobody leaves it: the outline and the proof of one SSTable beside another.
    [*others] = [file for file in files(directory, "compacted", "*-Data.db") if not file.name.startswith(prefix)]
    assert others
    for other in others:
        for file in theirs:
            shutil.copy(file, other.with_name(other.name.replace("Data.db", file.name.removeprefix(prefix))))

    directory.hand_to(directory.ilion)
    assert differences(before, directory.dump()) == ""
    assert columns(directory, tables) == by_column
    directory.hand_to(directory.cassandra)
    assert differences(before, directory.dump()) == ""
    directory.cassandra.nodetool("compact", "app", "compacted")
    rewritten(directory, "compacted")
    assert columns(directory, tables) == by_column
    directory.release()
