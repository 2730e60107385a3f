"""Random schemas beside a real Cassandra, which has to be able to start on what Ilion made of them."""
import pytest

from random_schemas import check, check_starts, like, masks_of


@pytest.fixture
def own(oracle, on_ilion, tmp_path):
    """A node that may be killed, with what matters here as the Cassandra has it."""
    if not on_ilion:
        pytest.skip("only for an Ilion node")
    with like(oracle, tmp_path / "node") as node:
        yield node


def test_schemas_agree_and_survive_starts_of_either(own, oracle, request):
    first, tables = (request.config.getoption(name) for name in ("--seed", "--tables"))
    seeds = range(first, first + 4 * tables)
    stories = [story for seed in seeds if (story := check(seed, 30, [own, oracle]))]
    stories += check_starts(own, seeds, masks_of(oracle))
    assert not stories, "\n\n".join(stories)
