"""Random conditional statements and batches on tables of every shape, beside a real Cassandra."""
import pytest

from harness.differential import seeds
from random_conditions import check, prepare


@pytest.fixture(scope="module")
def nodes(two_nodes):
    prepare(two_nodes)
    return two_nodes


def pytest_generate_tests(metafunc):
    seeds(metafunc, 20)


def test_answers_and_tables_agree(seed, nodes):
    story = check(seed, 40, nodes)
    assert story is None, story
