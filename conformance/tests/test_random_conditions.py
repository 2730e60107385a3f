"""Random conditional statements and batches on tables of every shape, beside a real Cassandra."""
import pytest

from random_conditions import check, prepare


@pytest.fixture(scope="module")
def nodes(target, oracle):
    if target is oracle or target.address == oracle.address:
        pytest.skip("the node under test is the real Cassandra")
    prepare([target, oracle])
    return [target, oracle]


def pytest_generate_tests(metafunc):
    first, count = metafunc.config.getoption("--seed"), metafunc.config.getoption("--tables")
    metafunc.parametrize("seed", range(first, first + 20 * count))


def test_answers_and_tables_agree(seed, nodes):
    story = check(seed, 40, nodes)
    assert story is None, story
