"""The targets of all suites.

    --target ilion | cassandra | cassandra:DIR | ADDRESS[:PORT]     what is tested (default ilion)
    --oracle none | cassandra | cassandra:DIR                       a real Cassandra beside it, for suites that need one

A node that is started here is stopped here; DIR is a running node of `conformance/cassandra`, which is left alone.
"""
import os
import pathlib
import shutil
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("CASSANDRA_SHORT", "1")

from harness.in_place import Directory  # noqa: E402
from harness.node import free_address, ilion_binary, open_target  # noqa: E402
import times  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--target", default="ilion")
    parser.addoption("--oracle", default="cassandra")
    parser.addoption("--rounds", type=int, default=5, help="rounds of the crash suite in each commit log mode")
    parser.addoption("--histories", type=int, default=6, help="random histories against the model")
    parser.addoption("--tables", type=int, default=2, help="random tables in each format, either way")
    parser.addoption("--mixes", type=int, default=0, help="rings of so many mixes of Ilion and Cassandra, and other suites of older releases (none unless said); with several, each fault of each node")
    parser.addoption("--spark", action="store_true", help="Spark and its connector, which are installed for it")
    parser.addoption("--in-place-rounds", type=int, default=2, help="changes of hands there and back, on each Cassandra")
    parser.addoption("--seed", type=int, default=1, help="seed of the first random history, table and round of crashes")


@pytest.fixture(scope="session")
def target(request, tmp_path_factory):
    """The node under test, up for the whole session."""
    spec = request.config.getoption("--target")
    if spec == "ilion" and ilion_binary() is None:
        pytest.exit("no ilion binary: build one (make build) or name one in $ILION", returncode=3)
    with open_target(spec, tmp_path_factory.mktemp("target")) as node:
        yield node


@pytest.fixture(scope="session")
def oracle(request, tmp_path_factory):
    """A running real Cassandra with its tools."""
    spec = request.config.getoption("--oracle")
    if spec == "none":
        pytest.skip("no real Cassandra: --oracle none")
    if spec == "cassandra" and request.config.getoption("--target").startswith("cassandra"):
        yield request.getfixturevalue("target")
        return
    with open_target(spec, tmp_path_factory.mktemp("oracle")) as node:
        yield node


@pytest.fixture(scope="session")
def two_nodes(target, oracle):
    """The node under test and a real Cassandra, for suites that ask both the same."""
    if target is oracle or target.address == oracle.address:
        pytest.skip("the node under test is the real Cassandra")
    return [target, oracle]


@pytest.fixture(scope="session")
def on_ilion(request):
    return request.config.getoption("--target") == "ilion"


@pytest.fixture
def needs_ilion(on_ilion):
    if not on_ilion:
        pytest.skip("only for an Ilion node")


@pytest.fixture
def in_turns(request, tmp_path, needs_ilion):
    """Makes the data directory that a Cassandra of some version and an Ilion serve in turn, and ends what serves it."""
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs real Cassandras")
    made = []

    def make(version, settings=()):
        made.append(Directory(tmp_path / "node", free_address(), version, settings))
        return made[-1]

    yield make
    for directory in made:
        directory.kill()
    shutil.rmtree(tmp_path / "node", ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Records what a test took, with the fixtures that were made for it. Each process of a run writes its own lines."""
    path, watch = os.environ.get("ILION_TIMES"), times.Watch()
    yield
    if path:
        times.append(path, step="conformance", group=item.path.name, test=item.name, **watch.read())


def pytest_terminal_summary(terminalreporter):
    """The one line that scripts read."""
    counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    terminalreporter.write_line(
        f"{counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped")
