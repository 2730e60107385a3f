"""A damaged table of a running node: what `ilion export --salvage` hands out of it, and what it leaves out."""
import json
import pathlib
import random
import re
import subprocess

import pyarrow as pa
import pyarrow.flight
import pyarrow.parquet
import pytest

from harness import sstables
from harness.flight import Guarded
from harness.frames import until
from harness.node import Ilion
from harness.wire import Wire

TABLE = "CREATE TABLE fl.t (k int, c int, v text, PRIMARY KEY (k, c))"
PARTITIONS, ROWS = 120, 20


def of_cassandra(node, wire, layout, truth):
    """Puts an SSTable with these rows, by partition, into the table's folder, as a Cassandra writes it."""
    ((table,),) = wire.must("SELECT id FROM system_schema.tables WHERE keyspace_name = 'fl' AND table_name = 't'").rows
    folder = pathlib.Path(node.data_dir, "fl", f"t-{table.hex()}")
    rows = [(k.to_bytes(4, "big"), c.to_bytes(4, "big"), v.encode()) for k, row in truth.items() for c, v in row.items()]
    sstables.write("5.0.5", [f"table\t{folder}\t{layout}\t{TABLE}", "writer\tINSERT INTO fl.t (k, c, v) VALUES (?, ?, ?)",
                             *map(sstables.row, rows), "close"])


def damage(node, places):
    """Changes a byte at each of these parts of the table's data file."""
    (path,) = pathlib.Path(node.data_dir, "fl").glob("t-*/*-Data.db")
    content = bytearray(path.read_bytes())
    for place in places:
        content[int(len(content) * place)] ^= 1
    path.write_bytes(content)
    return path


@pytest.fixture(params=["big", "bti", "big of Cassandra", "bti of Cassandra"])
def damaged(needs_ilion, request, tmp_path):
    """A node with a damaged SSTable, newer writes in memory, and the rows that CQL would answer without the damage. Nothing tells the
    node what a Cassandra's SSTable should be but its digest, so it finds the damage before any read does."""
    drawn = random.Random(7)
    layout, is_own = request.param.split()[0], " of Cassandra" not in request.param
    node = Ilion(tmp_path / "node", settings={"storage_compatibility_mode": "NONE",
                                              "sstable": json.dumps({"selected_format": layout})})
    truth = {}
    with node:
        wire = Wire(node.address, node.port)
        wire.must("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        wire.must(TABLE)
        for k in range(PARTITIONS):
            truth[k] = {c: drawn.randbytes(150).hex() for c in range(ROWS)}
        if is_own:
            for k, rows in truth.items():
                inserts = " ".join(f"INSERT INTO fl.t (k, c, v) VALUES ({k}, {c}, '{v}');" for c, v in rows.items())
                wire.must(f"BEGIN UNLOGGED BATCH {inserts} APPLY BATCH")
            node.flush("fl", "t")
        else:
            of_cassandra(node, wire, layout, truth)
        wire.close()
    path = damage(node, (0.2, 0.7))
    node.start()
    if not is_own:
        until(lambda: node.metrics()["ilion_sstables_condemned"] == 1)
    wire = Wire(node.address, node.port)
    for k in range(PARTITIONS):
        wire.must(f"INSERT INTO fl.t (k, c, v) VALUES ({k}, 1000, 'newer')")
        truth[k][1000] = "newer"
        if k % 5 == 0:
            wire.must(f"DELETE FROM fl.t WHERE k = {k} AND c < 10")
            truth[k] = {c: v for c, v in truth[k].items() if c >= 10}
    for k in range(PARTITIONS, PARTITIONS + 20):
        wire.must(f"INSERT INTO fl.t (k, c, v) VALUES ({k}, 0, 'in memory')")
        truth[k] = {0: "in memory"}
    wire.close()
    yield node, path, truth, is_own
    node.kill()


def export(node, out, *options):
    done = subprocess.run([node.binary, "export", "fl.t", "--admin", f"127.0.0.1:{node.admin_port}", "--out", out,
                           *map(str, options)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def found_in(out):
    """Its rows by partition, and what its manifest says is missing."""
    found = {}
    for path in sorted(out.glob("*.parquet")):
        for row in pyarrow.parquet.read_table(path).to_pylist():
            rows = found.setdefault(row["k"], {})
            assert row["c"] not in rows, "a row that comes twice"
            rows[row["c"]] = row["v"]
    manifest = json.loads((out / "_manifest.json").read_text())
    return found, [loss for file in manifest["files"] for loss in file.get("losses", [])]


def test_what_is_sound_of_a_node_is_exported(damaged, tmp_path):
    node, path, truth, is_own = damaged
    out = tmp_path / "out"
    status, _, said = export(node, out)
    assert status == 1 and f"{path} is corrupt at offset" in said, said
    # The same export goes on where damage is left out.
    status, told, said = export(node, out, "--salvage")
    assert status == 3, said
    found, losses = found_in(out)
    assert len(losses) >= 2 and {loss["file"] for loss in losses} == {str(path)}
    assert said.count("is corrupt at offset") == len(losses) and "left out: " in said
    assert f"{len(losses)} stretches of damaged data left out" in told
    # Every row is a true one, with what is in memory, and nothing that was deleted there.
    for k, rows in found.items():
        assert rows.items() <= truth[k].items(), k
    # All is there but for the partitions that are named.
    named = {int(k) for loss in losses for k in re.findall(r"k = (\d+)", loss.get("partition", ""))}
    ranges = [loss["tokens"] for loss in losses if loss.get("tokens")]
    tokens = tokens_of(node)
    lost = {k for k in truth if k in named or any(after < tokens[k] <= through for after, through in ranges)}
    assert {k for k in truth if found.get(k) != truth[k]} <= lost
    assert 0 < len(lost) < PARTITIONS // 3 and set(range(PARTITIONS, PARTITIONS + 20)) - lost <= set(found)
    # Once more says the same.
    assert export(node, out, "--salvage")[0] == 3
    # What is chosen by key is salvaged, too, and nothing is told where nothing is lost.
    sound = min(set(range(PARTITIONS)) - lost)
    status, _, said = export(node, tmp_path / "sound", "--salvage", "--where", f"k = {sound}")
    assert (status, said) == (0, ""), said
    status, _, said = export(node, tmp_path / "lost", "--salvage", "--where", f"k = {min(named)}")
    assert status == 3 and f"partition k = {min(named)}" in said, said
    # The node goes on, and CQL answers what it answered before: nothing of an SSTable that was found damaged as a whole.
    wire = Wire(node.address, node.port)
    reply = wire.query(f"SELECT v FROM fl.t WHERE k = {sound}")
    if is_own:
        assert len(reply.rows) == len(truth[sound])
    else:
        assert reply.code == 0x1300 and "is corrupt at offset" in reply.error
    wire.close()
    # A node that starts again knows as much.
    node.restart()
    assert export(node, tmp_path / "again", "--salvage")[0] == 3
    assert found_in(tmp_path / "again") == (found, losses)


def tokens_of(node):
    """The tokens of all partitions; those that CQL cannot read are in its index all the same."""
    wire = Wire(node.address, node.port)
    wire.must("CREATE TABLE fl.tokens (k int PRIMARY KEY)")
    for k in range(PARTITIONS + 20):
        wire.must(f"INSERT INTO fl.tokens (k) VALUES ({k})")
    rows = wire.must("SELECT k, token(k) FROM fl.tokens").rows
    wire.close()
    return {int.from_bytes(k, "big"): int.from_bytes(token, "big", signed=True) for k, token in rows}


def field(number, value):
    size = len(value)
    varint = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + varint + value


def test_salvage_is_for_who_may_read_the_table(needs_ilion, tmp_path):
    guarded = Guarded(tmp_path)
    for statement in ("CREATE KEYSPACE fl WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                      "CREATE TABLE fl.t (k int PRIMARY KEY)", "INSERT INTO fl.t (k) VALUES (1)",
                      "CREATE ROLE bob WITH PASSWORD = 'bob-password' AND LOGIN = true",
                      "CREATE ROLE amy WITH PASSWORD = 'amy-password' AND LOGIN = true", "GRANT SELECT ON fl.t TO bob"):
        guarded.root.execute(statement)
    try:
        def asked(**select):
            words = json.dumps({"select": {"keyspace": "fl", "table": "t", **select}, "parts": 1}).encode()
            return pyarrow.flight.FlightDescriptor.for_command(field(1, b"ilion.scan") + field(2, words))

        bob, amy = guarded.options("bob"), guarded.options("amy")
        with guarded.raw() as client:
            for select in ({}, {"salvage": True}):
                (endpoint,) = client.get_flight_info(asked(**select), bob).endpoints
                assert client.do_get(endpoint.ticket, bob).read_all().num_rows == 1
                refused = "User amy has no SELECT permission on <table fl.t>"
                with pytest.raises(pyarrow.flight.FlightUnauthorizedError, match=refused):
                    client.get_flight_info(asked(**select), amy)
                with pytest.raises(pyarrow.flight.FlightUnauthorizedError, match=refused):
                    client.do_get(endpoint.ticket, amy).read_all()
            with pytest.raises(pa.ArrowInvalid):
                client.get_flight_info(asked(salvage="yes"), bob)
    finally:
        guarded.stop()
