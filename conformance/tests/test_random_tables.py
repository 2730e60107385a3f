"""Random tables, written by Cassandra and read by Ilion, and the other way."""
import subprocess

import pytest

from harness.differential import seeds
from harness.node import Cassandra, Ilion, free_address, ilion_binary
from random_tables import FORMATS, Bench, by_cassandra, by_ilion, check

# What has Ilion write a version; the others it only reads.
SETTINGS = {
    "nb": {},
    "oa": {"storage_compatibility_mode": "NONE"},
    "da": {"storage_compatibility_mode": "NONE", "sstable": "{selected_format: bti}"},
}


def pytest_generate_tests(metafunc):
    if "bench" in metafunc.fixturenames:
        versions = SETTINGS if metafunc.function is test_written_by_ilion else FORMATS
        metafunc.parametrize("bench", versions, indirect=True, scope="module")
    seeds(metafunc)


@pytest.fixture(scope="module")
def newest(request, tmp_path_factory):
    """A Cassandra that reads every format: in the mode that it starts with, 5.0 refuses its own."""
    if request.config.getoption("--oracle") == "none":
        pytest.skip("no real Cassandra: --oracle none")
    folder = tmp_path_factory.mktemp("newest")
    with Cassandra(folder, free_address(), settings=("storage_compatibility_mode: NONE",)) as node:
        yield node


@pytest.fixture(scope="module")
def bench(request, needs_ilion_module, newest, tmp_path_factory):
    """Both nodes; the Ilion one writes the version of the test, if it writes it."""
    folder = tmp_path_factory.mktemp(request.param)
    with Ilion(folder / "node", settings=SETTINGS.get(request.param, {})) as node:
        bench = Bench(node, newest, folder)
        bench.version = request.param
        yield bench


@pytest.fixture(scope="module")
def needs_ilion_module(on_ilion):
    if not on_ilion:
        pytest.skip("only for an Ilion node")
    if subprocess.run([ilion_binary(), "sstable", "dump", "--help"], capture_output=True, check=False).returncode:
        pytest.skip("this binary has no `ilion sstable dump`")


def test_written_by_cassandra(bench, seed):
    story = check(bench, seed, bench.version, by_cassandra)
    assert story is None, story


def test_written_by_ilion(bench, seed):
    story = check(bench, seed, bench.version, by_ilion)
    assert story is None, story
