"""Random SELECTs on random tables, beside a real Cassandra."""
import pytest

from harness.differential import seeds
from random_selects import check, prepare


@pytest.fixture(scope="module")
def nodes(two_nodes):
    prepare(two_nodes)
    return two_nodes


def pytest_generate_tests(metafunc):
    seeds(metafunc, 4)


def test_answers_agree(seed, nodes):
    story = check(seed, 60, nodes)
    assert story is None, story
