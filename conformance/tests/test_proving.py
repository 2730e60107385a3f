"""SSTables that Cassandra wrote get a Proof.db of their chunks while Ilion serves them; Cassandra opens them with it, checks
them, and has nothing to say.
"""
import random
import shutil
import time

import pytest

from harness.in_place import Directory, InPlace, differences
from harness.node import free_address

CASES = {
    "5.0": ("5.0.5", ()),
    "5.0 bti": ("5.0.5", ("storage_compatibility_mode: NONE", "sstable: {selected_format: bti}")),
}
TABLES = {"packed": "{'class': 'LZ4Compressor'}", "plain": "{'enabled': 'false'}"}


@pytest.fixture(params=CASES)
def directory(request, tmp_path, needs_ilion):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs real Cassandras")
    version, settings = CASES[request.param]
    directory = Directory(tmp_path / "node", free_address(), version, ["num_tokens: 1", *settings])
    yield directory
    directory.kill()
    shutil.rmtree(tmp_path / "node", ignore_errors=True)


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
    assert all(proof.read_bytes().startswith(b"IlProof2") for proof in proofs)
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
