"""A few rounds of the crash suite in each commit log mode; `--rounds` for more, `--seed` for others."""
import pytest

from crash import crash, make


@pytest.mark.parametrize("size", ["default", "small"])
@pytest.mark.parametrize("sync", ["periodic", "batch", "group"])
def test_crash(sync, size, needs_ilion, request, tmp_path):
    target, settle_s = make("ilion", tmp_path / "node", sync, small=size == "small")
    rounds, seed = request.config.getoption("--rounds"), sum(map(ord, sync)) + request.config.getoption("--seed") - 1
    acknowledged, complaints = crash(target, rounds, 6, seed=seed, settle_s=settle_s)
    assert not complaints, "\n".join(complaints[:50])
    assert acknowledged > 0
