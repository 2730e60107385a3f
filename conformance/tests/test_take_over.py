"""What a Cassandra leaves beside its data, and tells of it, when Ilion takes its directory over."""
import shutil

import pytest

from harness.in_place import Directory
from harness.node import free_address
from harness.rings import until

# Columns of system_views.gossip_info that are the same whoever serves the directory.
TOLD = ("dc", "host_id", "rack", "rpc_ready", "sstable_versions")


@pytest.fixture
def directory(request, tmp_path, needs_ilion):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs a real Cassandra")
    directory = Directory(tmp_path / "node", free_address(), "5.0.5", ["key_cache_save_period: 1s"])
    yield directory
    directory.kill()
    shutil.rmtree(tmp_path / "node", ignore_errors=True)


def test_a_saved_key_cache_goes_and_gossip_tells_the_same(directory):
    caches = directory.cassandra.directory / "saved_caches"

    def saved():
        return sorted(path.name for path in caches.glob("KeyCache-*"))

    def gossip():
        rows = directory.wire.must(f"SELECT {', '.join(TOLD)} FROM system_views.gossip_info").rows
        assert len(rows) == 1
        return dict(zip(TOLD, rows[0]))

    def rows():
        return sorted(map(tuple, directory.wire.must("SELECT k, v FROM app.t").rows))

    directory.hand_to(directory.cassandra)
    directory.run(["CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                   "CREATE TABLE app.t (k int PRIMARY KEY, v int)",
                   *(f"INSERT INTO app.t (k, v) VALUES ({k}, {k})" for k in range(50))])
    directory.node.flush("app")
    for k in range(50):
        directory.wire.must(f"SELECT v FROM app.t WHERE k = {k}")
    until(saved, "no key cache was saved")
    until(lambda: gossip()["sstable_versions"], "gossip tells of no SSTables")
    told, before = gossip(), rows()

    directory.hand_to(directory.ilion)
    assert saved() == []
    assert gossip() == told
    assert rows() == before
    # The generation that a saved key would lead to is another SSTable's now.
    directory.run([f"INSERT INTO app.t (k, v) VALUES ({k}, {k + 1})" for k in range(100)])
    directory.node.compact("app", "t")
    before = rows()

    directory.hand_to(directory.cassandra)
    assert rows() == before
    for k in range(100):
        found = directory.wire.must(f"SELECT v FROM app.t WHERE k = {k}").rows
        assert [*map(tuple, found)] == [((k + 1).to_bytes(4, "big"),)], k
    directory.release()
