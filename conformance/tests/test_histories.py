"""Random histories against the model, and some of them beside the real Cassandra."""
import pytest

from harness.node import Ilion
from histories import check, prepare


@pytest.fixture(scope="module")
def node(request, target, on_ilion, tmp_path_factory):
    """Histories restart the node, so an Ilion node is one of their own."""
    if not on_ilion:
        prepare([target])
        yield target
        return
    with Ilion(tmp_path_factory.mktemp("histories")) as own:
        prepare([own])
        yield own


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--histories")
        if metafunc.function is test_beside_cassandra:
            first, count = first + 1000, max(1, count // 3)
        metafunc.parametrize("seed", range(first, first + count))


def test_against_the_model(seed, node):
    story = check(seed, 150, [node])
    assert story is None, story


def test_beside_cassandra(seed, node, oracle):
    if node is oracle or node.address == oracle.address:
        pytest.skip("the node under test is the real Cassandra")
    prepare([oracle])
    story = check(seed, 100, [node, oracle])
    assert story is None, story
