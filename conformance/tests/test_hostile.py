"""Hostile clients: whatever they do, the node's memory stays within its bounds, and others are served meanwhile.

What is asserted are bytes and counts. Times of the bystander, with and without the attack, are printed (`-s` shows them). To take
them, let each attack go on for $HOSTILE_SECONDS: the p99 of a short one is the second longest of its answers.
"""
import os
import time

import pytest

from harness.node import Ilion, free_address, ilion_binary
from hostile import ATTACKS, watch


@pytest.fixture(scope="module")
def node(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion" or ilion_binary() is None:
        pytest.skip("these watch the memory of a node of their own")
    directory = tmp_path_factory.mktemp("hostile")
    ilion = Ilion(directory, free_address(), settings=watch.SETTINGS).start()
    try:
        watch.prepare(ilion)
        yield ilion
    finally:
        # What an attack left running is not waited for.
        ilion.kill()


# An attack may be over before anybody asked much. Who gets a tenth of the answers is kept out.
REPEATS_MAX = 10
SECONDS_MIN = float(os.environ.get("HOSTILE_SECONDS", 0))


def attack_long_enough(attack, node, made, seen):
    end, repeats = time.monotonic() + SECONDS_MIN, 0
    while True:
        attack.attack(node, made)
        repeats += 1
        is_over = time.monotonic() >= end
        if is_over and (seen.answers >= attack.ANSWERS_MIN or repeats >= REPEATS_MAX):
            return


def name(attack):
    return attack.__name__.rsplit(".", 1)[-1]


@pytest.mark.parametrize("attack", ATTACKS, ids=name)
def test_hostile(node, attack):
    made = attack.prepare(node)
    with watch.Watch(node) as undisturbed:
        time.sleep(max(0.5, SECONDS_MIN))
    with watch.Watch(node) as seen, watch.elsewhere():
        attack_long_enough(attack, node, made, seen)
    print(f"\n{attack.__name__}: memory grew by {seen.growth_bytes / watch.MIB:.1f} MiB of {attack.GROWTH_BYTES_MAX / watch.MIB:.0f}; "
          f"bystander: {seen.answers} answers, p99 {seen.p99_s * 1e3:.1f} ms, undisturbed {undisturbed.p99_s * 1e3:.1f} ms")
    assert node.process.poll() is None, "the node is gone"
    assert not seen.others, f"the bystander got {seen.others[:3]}"
    assert seen.answers >= attack.ANSWERS_MIN
    assert seen.growth_bytes <= attack.GROWTH_BYTES_MAX
