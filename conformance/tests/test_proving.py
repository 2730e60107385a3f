"""SSTables that Cassandra wrote get a Proof.db of their chunks while Ilion serves them; Cassandra opens them with it, checks
them, and has nothing to say. Damaged ones that are put into a running node are refused before anybody reads them.
"""
import itertools
import pathlib
import random
import shutil
import struct
import time
import urllib.request

import pytest

from harness.in_place import InPlace, differences

CASES = {
    "5.0": ("5.0.5", ()),
    "5.0 bti": ("5.0.5", ("storage_compatibility_mode: NONE", "sstable: {selected_format: bti}")),
}
TABLES = {"packed": "{'class': 'LZ4Compressor'}", "plain": "{'enabled': 'false'}"}


@pytest.fixture(params=CASES)
def directory(request, in_turns):
    version, settings = CASES[request.param]
    return in_turns(version, ["num_tokens: 1", *settings])


def files(directory, name, table="*"):
    return sorted(directory.cassandra.data_dir.glob(f"app/{table}-*/{name}"))


class ProvesFirst(InPlace):
    """Lets clients in when all SSTables were compared with their digests, which takes an age when that was done later."""

    def arguments(self):
        settings = (self.directory / "cassandra.yaml").read_text()
        settings += "\nsstable_proving_before_serving: 1h\nsstable_proving_throughput: 1KiB/s\n"
        (self.directory / "ilion.yaml").write_text(settings)
        return ["--config", self.directory / "ilion.yaml"]


def fill(directory):
    """Tables of 40 long values each, in one SSTable."""
    directory.hand_to(directory.cassandra)
    directory.run(["CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"])
    random.seed(5)
    for table, compression in TABLES.items():
        directory.run([f"CREATE TABLE app.{table} (k int, c int, v blob, PRIMARY KEY (k, c)) WITH compression = {compression}"])
        for row in range(40):
            directory.run([f"INSERT INTO app.{table} (k, c, v) VALUES ({row % 3}, {row}, 0x{random.randbytes(9_000).hex()})"])
        directory.node.flush("app", table)


def test_clients_can_be_let_in_after_it(directory):
    fill(directory)
    before = directory.dump()
    directory.ilion = ProvesFirst(directory.ilion.directory, directory.ilion.address)
    directory.hand_to(directory.ilion)
    assert len(files(directory, "*-Proof.db")) == len(TABLES)
    assert differences(before, directory.dump()) == ""


def test_cassandra_lives_with_proofs_beside_its_own_files(directory):
    fill(directory)
    before = directory.dump()
    assert files(directory, "*-Proof.db") == []
    written = files(directory, "*-Data.db")
    assert len(written) == len(TABLES)

    directory.hand_to(directory.ilion)
    deadline = time.monotonic() + 60
    while len(files(directory, "*-Proof.db")) < len(written) and time.monotonic() < deadline:
        time.sleep(0.1)
    proofs = files(directory, "*-Proof.db")
    assert len(proofs) == len(written)
    # Of the data alone.
    assert all(proof.read_bytes().startswith(b"IlnProof") and b"INDX" not in proof.read_bytes() for proof in proofs)
    assert differences(before, directory.dump()) == ""
    assert files(directory, "*-Data.db") == written

    directory.hand_to(directory.cassandra)
    assert files(directory, "*-Proof.db") == proofs
    for toc in files(directory, "*-TOC.txt"):
        assert toc.read_text().splitlines().count("Proof.db") == 1
    assert differences(before, directory.dump()) == ""
    for table in TABLES:
        directory.cassandra.nodetool("verify", "-e", "-f", "app", table)
    directory.cassandra.nodetool("compact", "app")
    deadline = time.monotonic() + 60  # What it does not know it removes last, with the log of the transaction.
    while files(directory, "*-Proof.db") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert files(directory, "*-Proof.db") == []
    new = [line for kind, line in directory.complaints().items() if kind not in directory.known_complaints]
    assert not [line for line in new if "Proof" in line or line.startswith(("WARN", "ERROR"))], new
    assert differences(before, directory.dump()) == ""


def chunks(info):
    """Where the chunks of a compressed Data.db begin, by its CompressionInfo.db: that ends with them, and their number before."""
    for count in range(1, len(info) // 8):
        if info[-8 * count - 4:-8 * count] == struct.pack(">I", count):
            return struct.unpack(f">{count}Q", info[-8 * count:])
    raise ValueError("no chunks")


def swapped(data, info):
    """Data.db with two neighbouring chunks of one length in each other's place."""
    starts = [*chunks(info), len(data)]
    spans = [data[a:b] for a, b in itertools.pairwise(starts)]
    at = next(i for i in range(2, len(spans) - 1) if len(spans[i]) == len(spans[i + 1]))
    spans[at], spans[at + 1] = spans[at + 1], spans[at]
    return b"".join(spans)


def test_what_is_put_into_a_running_node_is_compared_before_it_is_read(directory):
    fill(directory)
    before = directory.dump()
    directory.release()
    aside = directory.cassandra.directory / "aside"
    aside.mkdir()
    written = [file for file in files(directory, "*", "packed") if file.is_file()]
    home = written[0].parent
    for file in written:
        shutil.move(file, aside / file.name)
    (data,) = aside.glob("*-Data.db")
    (info,) = aside.glob("*-CompressionInfo.db")
    sound = data.read_bytes()

    directory.hand_to(directory.ilion)
    rows = "SELECT count(*) FROM app.packed"
    damages = {"swapped": swapped(sound, info.read_bytes()), "truncated": sound[:-5_000], "cut between chunks":
               sound[:chunks(info.read_bytes())[-1]], "longer": sound + bytes(8)}
    for name, damaged in damages.items():
        data.write_bytes(damaged)
        for options in ((), ("-v",)):
            with pytest.raises(RuntimeError, match=data.name.removesuffix("-Data.db")):
                directory.ilion.nodetool("import", "-cd", *options, "app", "packed", aside)
            assert list(home.glob("*-Data.db")) == [], name
        for file in aside.iterdir():
            shutil.copy(file, home / file.name)
        with pytest.raises(RuntimeError, match=data.name):
            directory.ilion.nodetool("refresh", "app", "packed")
        assert pathlib.Path(home, data.name).read_bytes() == damaged, name
        assert directory.wire.must(rows).rows == [[bytes(8)]], name
        for file in aside.iterdir():
            (home / file.name).unlink()
    shutil.copytree(aside, home, dirs_exist_ok=True)
    pathlib.Path(home, data.name).write_bytes(sound)
    directory.ilion.nodetool("refresh", "app", "packed")
    assert pathlib.Path(home, data.name.replace("Data.db", "Proof.db")).exists()
    assert directory.wire.must(rows).rows == [[(40).to_bytes(8, "big")]]
    directory.hand_to(directory.cassandra)
    assert differences(before, directory.dump()) == ""


class ServesAtOnce(InPlace):
    """Lets clients in at once; but for reads that wait for it, the comparison of SSTables with their digests takes an age."""

    SETTINGS = ("sstable_proving_before_serving: 0s", "sstable_proving_throughput: 1B/s", "read_request_timeout: 1s",
                "range_request_timeout: 1s", "counter_write_request_timeout: 1s")

    def arguments(self):
        settings = (self.directory / "cassandra.yaml").read_text().splitlines()
        own = [line.partition(":")[0] for line in self.SETTINGS]
        settings = [line for line in settings if line.partition(":")[0] not in own]
        (self.directory / "ilion.yaml").write_text("\n".join([*settings, *self.SETTINGS]) + "\n")
        return ["--config", self.directory / "ilion.yaml"]

    def pause(self, is_paused):
        """Lets compactions and comparisons stand still, or go on."""
        url = f"http://127.0.0.1:{self.admin_port}/api/v1/compactions/pause"
        request = urllib.request.Request(url, method="PUT" if is_paused else "DELETE", headers={"X-Ilion-Admin": "1"})
        urllib.request.urlopen(request, timeout=60).close()


READ_TIMEOUT, READ_FAILURE, WRITE_TIMEOUT = 0x1200, 0x1300, 0x1100


def reads(table):
    """Every way to read a table."""
    yield from (f"SELECT * FROM app.{table} WHERE k = {k}" for k in range(3))
    yield from (f"SELECT * FROM app.{table} WHERE k = {row % 3} AND c = {row}" for row in range(40))
    yield from (f"SELECT * FROM app.{table} WHERE k = {k} AND c > 7 ORDER BY c DESC" for k in range(3))
    yield from (f"SELECT c, v FROM app.{table} WHERE k = {k} AND c >= 9 AND c < 30" for k in range(3))
    yield f"SELECT * FROM app.{table} WHERE k IN (0, 1, 2)"
    yield f"SELECT * FROM app.{table}"
    yield f"SELECT max(v) FROM app.{table}"


def test_reads_wait_for_the_comparison_and_are_never_wrong(directory):
    fill(directory)
    directory.run(["CREATE TABLE app.counted (k int PRIMARY KEY, n counter)",
                   "CREATE TABLE app.lists (k int PRIMARY KEY, l list<int>)",
                   "UPDATE app.counted SET n = n + 5 WHERE k = 1",
                   "INSERT INTO app.lists (k, l) VALUES (1, [1, 2, 3])"])
    for table in ("counted", "lists"):
        directory.node.flush("app", table)
    right = {text: directory.wire.must(text).rows for table in TABLES for text in reads(table)}
    directory.release()
    (data,) = files(directory, "*-Data.db", "packed")
    (info,) = files(directory, "*-CompressionInfo.db", "packed")
    sound = data.read_bytes()
    directory.ilion = ServesAtOnce(directory.ilion.directory, directory.ilion.address)

    data.write_bytes(swapped(sound, info.read_bytes()))
    directory.hand_to(directory.ilion)
    # A file that is not compressed has checksums that tell places.
    directory.ilion.pause(True)
    for text in reads("plain"):
        assert directory.wire.must(text).rows == right[text], text
    # Nothing is read while the comparison stands still.
    for text in itertools.islice(reads("packed"), 4):
        reply = directory.wire.query(text)
        assert (reply.kind, getattr(reply, "code", None)) == ("error", READ_TIMEOUT), text
    reply = directory.wire.query("UPDATE app.counted SET n = n + 1 WHERE k = 1")
    assert (reply.kind, reply.code) == ("error", WRITE_TIMEOUT)
    for text in ("UPDATE app.lists SET l[1] = 7 WHERE k = 1", "UPDATE app.lists SET l = null WHERE k = 1 IF l[0] = 1"):
        reply = directory.wire.query(text)
        assert (reply.kind, reply.code) == ("error", READ_TIMEOUT), text
    directory.ilion.pause(False)
    directory.run(["UPDATE app.counted SET n = n + 1 WHERE k = 1", "UPDATE app.lists SET l[1] = 7 WHERE k = 1"])
    assert directory.wire.must("SELECT n FROM app.counted WHERE k = 1").rows == [[(6).to_bytes(8, "big")]]
    assert directory.wire.must("UPDATE app.lists SET l[0] = 8 WHERE k = 1 IF l[1] = 7").rows == [[b"\1"]]
    for text in reads("packed"):
        reply = directory.wire.query(text)
        assert (reply.kind, getattr(reply, "code", None)) == ("error", READ_FAILURE), text
    directory.release()

    data.write_bytes(sound)
    for proof in files(directory, "*-Proof.db", "packed"):
        proof.unlink()
    directory.hand_to(directory.ilion)
    for text in reads("packed"):
        assert directory.wire.must(text).rows == right[text], text
