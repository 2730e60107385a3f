"""Every recorded script, replayed."""
import contextlib
import json
import pathlib

import pytest

from cqltest import Runner
from harness.node import Ilion
from harness.wire import Wire

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "cql"
SCRIPTS = sorted(FOLDER.glob("*.cqltest"))
# What Cassandra's cassandra_latest.yaml has, and its cassandra.yaml has not; but for one more kind of memtable.
LATEST = {
    "memtable": json.dumps({"configurations": {
        "skiplist": {"class_name": "SkipListMemtable"}, "trie": {"class_name": "TrieMemtable"},
        "sharded": {"class_name": "ShardedSkipListMemtable", "parameters": {"shards": 4}}, "default": {"inherits": "trie"}}}),
    "default_compaction": json.dumps({"class_name": "UnifiedCompactionStrategy", "parameters": {
        "scaling_parameters": "T4", "max_sstables_to_compact": 64, "target_sstable_size": "1GiB",
        "sstable_growth": 0.3333333333333333, "min_sstable_size": "100MiB"}}),
    "storage_compatibility_mode": "NONE", "sstable": json.dumps({"selected_format": "bti"}), "column_index_size": "4KiB",
    "uuid_sstable_identifiers_enabled": "true", "key_cache_size": "0MiB", "trickle_fsync": "true", "concurrent_compactors": "8",
    "commitlog_disk_access_mode": "auto", "memtable_allocation_type": "offheap_objects", "stream_entire_sstables": "true",
    "default_secondary_index": "sai", "default_secondary_index_enabled": "true", "batchlog_endpoint_strategy": "dynamic_remote"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script(path, target, on_ilion):
    count, complaints = Runner(path, target).replay(on_ilion)
    assert not complaints, f"{len(complaints)} of {count} statements\n\n" + "\n\n".join(complaints)


def test_new_tables_are_what_the_settings_say_also_after_a_restart(request, tmp_path):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("needs an Ilion of its own")

    def tables(node):
        with contextlib.closing(Wire(node.address, node.port)) as wire:
            wire.must("INSERT INTO k.trie (k) VALUES (1)")
            return wire.must("SELECT table_name, memtable, compaction FROM system_schema.tables WHERE keyspace_name = 'k'").rows

    node = Ilion(tmp_path, settings=LATEST)
    with node:
        count, complaints = Runner(FOLDER / "latest" / "tables.cqltest", node).replay(True)
        with contextlib.closing(Wire(node.address, node.port)) as wire:
            wire.must("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
            wire.must("CREATE TABLE k.trie (k int PRIMARY KEY) WITH memtable = 'trie'")
        before = tables(node)
    assert not complaints, f"{len(complaints)} of {count} statements\n\n" + "\n\n".join(complaints)
    # What a table is stays, whatever the settings are by then.
    with Ilion(tmp_path, settings={"storage_compatibility_mode": "NONE"}) as node:
        assert tables(node) == before
