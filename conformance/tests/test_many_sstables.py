"""More SSTables than the process may have files open: a hard limit, which the node cannot raise."""
import os
import resource
import shutil

from harness.node import Ilion, free_address
from harness.wire import Wire

SSTABLES = 300
# Three files for each SSTable would be 900.
FILES_MAX = 256


def test_a_node_serves_more_sstables_than_it_may_have_files_open(tmp_path):
    node = Ilion(tmp_path / "node", free_address())
    node.start()
    wire = Wire(node.address)
    wire.must("CREATE KEYSPACE many WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    wire.must("CREATE TABLE many.t (k int PRIMARY KEY, v text) WITH compaction = {'class': 'SizeTieredCompactionStrategy', "
              "'enabled': 'false'}")
    for k in range(20):
        wire.must(f"INSERT INTO many.t (k, v) VALUES ({k}, 'v{k}')")
    node.nodetool("drain")
    wire.close()
    node.stop()
    (directory,) = (tmp_path / "node").rglob("many/t-*")
    for path in list(directory.glob("nb-1-big-*")):
        for n in range(2, SSTABLES + 1):
            shutil.copyfile(path, directory / path.name.replace("nb-1-", f"nb-{n}-"))
    limited = Ilion(tmp_path / "node", node.address, binary=limiter(tmp_path, node.binary))
    limited.start()
    try:
        assert resource.prlimit(limited.process.pid, resource.RLIMIT_NOFILE) == (FILES_MAX, FILES_MAX)
        wire = Wire(node.address)
        for _ in range(2):
            assert len(wire.must("SELECT * FROM many.t").rows) == 20
            for k in range(20):
                assert wire.must(f"SELECT v FROM many.t WHERE k = {k}").rows == [[f"v{k}".encode()]]
        assert len(os.listdir(f"/proc/{limited.process.pid}/fd")) <= FILES_MAX
        limited.nodetool("compact", "many", "t")
        assert len(list(directory.glob("*-Data.db"))) == 1
        assert len(wire.must("SELECT * FROM many.t").rows) == 20
        wire.close()
    finally:
        limited.stop()


def limiter(folder, binary):
    """A program that is `binary` with a hard limit of open files."""
    script = folder / "limited"
    script.write_text(f'#!/bin/sh\nulimit -n {FILES_MAX} || exit 1\nexec "{binary}" "$@"\n')
    script.chmod(0o755)
    return script
