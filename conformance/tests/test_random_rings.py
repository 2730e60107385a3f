"""Random statements, and nodes that fail under load, in rings of Ilion and of each release of Cassandra."""
import contextlib

import pytest

import random_rings
from harness import ring_load
from harness.rings import Ring
from harness.wire import Wire


def pytest_generate_tests(metafunc):
    if "mix" in metafunc.fixturenames:
        mixes = random_rings.MIXES[:metafunc.config.getoption("--mixes")]
        metafunc.parametrize("mix", mixes, ids=[f"{release} and {ilions}" for release, ilions in mixes], scope="module", indirect=True)


@pytest.fixture(scope="module")
def mix(request, tmp_path_factory, on_ilion):
    if request.config.getoption("--oracle") == "none" or not on_ilion:
        pytest.skip("needs Ilion and a real Cassandra")
    release, ilions = request.param
    ring = Ring(tmp_path_factory.mktemp("mix"), release, random_rings.kinds(ilions))
    try:
        yield ring.start()
    finally:
        ring.kill()


def test_coordinators_of_either_kind_answer_alike(mix, request):
    first, tables = (request.config.getoption(name) for name in ("--seed", "--tables"))
    assert random_rings.check_all(range(first, first + 3 * tables), 25, mix) == []


def test_a_change_of_the_schema_is_one_on_all_nodes(mix):
    story = random_rings.check_schema(mix)
    assert story is None, story


def test_a_node_that_fails_costs_no_client_a_request(mix, request):
    ring_load.prepare(mix)
    seed = request.config.getoption("--seed")
    for node, what, seconds in ring_load.faults(mix, seed, request.config.getoption("--mixes") > 1):
        story = ring_load.check(mix, node, what, seed, seconds)
        assert story is None, story


def test_all_nodes_change_hands_and_back_under_load(mix, request):
    ring_load.prepare(mix)
    seed = request.config.getoption("--seed")
    for node in [*mix.nodes] * 2:
        # It is another node on the same address by the second time.
        node = next(other for other in mix.nodes if other.address == node.address)
        story = ring_load.check(mix, node, "swap", seed)
        assert story is None, story


def test_what_a_cassandra_that_joins_or_leaves_wants_is_refused_and_nothing_is_lost(mix, tmp_path, request):
    """Data are not streamed. Four nodes, so that one that leaves has to hand its part to another."""
    ring = Ring(tmp_path / "four", request.node.callspec.params["mix"][0], ("cassandra", "cassandra", "ilion", "ilion"))
    seed = request.config.getoption("--seed")
    try:
        ring.start()
        ring_load.prepare(ring)
        with contextlib.closing(Wire(ring.nodes[0].address)) as wire:
            # In every part of the ring something.
            for k in range(1000, 1500):
                wire.must(f"INSERT INTO {ring_load.KEYSPACE}.t (k, c, n) VALUES ({k}, 0, 0)", consistency="ALL")
        for node, what in ((ring.nodes[1], "remove"), (ring.nodes[0], "join")):
            story = ring_load.check(ring, node, what, seed)
            assert story is None, story
            for other in ring.nodes:
                with contextlib.closing(Wire(other.address)) as wire:
                    found = wire.must(f"SELECT k FROM {ring_load.KEYSPACE}.t WHERE n = 0 ALLOW FILTERING", consistency="QUORUM").rows
                    assert len(found) == 500, (what, other.address, len(found))
    finally:
        ring.kill()
