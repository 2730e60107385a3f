"""The scripts of bench/ share their servers, which none starts before it has built programs for a quarter of an hour: what they ask
for is known before."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.parametrize("name", ["run", "bulk", "doors"])
def test_a_script_of_bench_knows_what_its_servers_ask_for(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    monkeypatch.setattr(sys, "argv", [name])
    # Pictures need what no suite installs.
    monkeypatch.setitem(sys.modules, "driver.plots", types.ModuleType("driver.plots"))
    loader = importlib.machinery.SourceFileLoader(f"bench_{name}", str(BENCH / name))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    from driver import servers

    given = script.arguments()
    cassandra, ilion = servers.cassandra(tmp_path, given), servers.ilion(tmp_path, given)
    assert (cassandra.nodes[0].address, ilion.nodes[0].address) == (given.cassandra_address, given.ilion_address)
    assert cassandra.nodes[0].version == given.cassandra_version
