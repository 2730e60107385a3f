"""A few rounds of the crash suite in each commit log mode; `--rounds` for more."""
import pytest

from crash import crash, make


@pytest.mark.parametrize("size", ["default", "small"])
@pytest.mark.parametrize("sync", ["periodic", "batch", "group"])
def test_crash(sync, size, needs_ilion, request, tmp_path):
    target, settle_s = make("ilion", tmp_path / "node", sync, small=size == "small")
    acknowledged, complaints = crash(target, request.config.getoption("--rounds"), 6, seed=sum(map(ord, sync)), settle_s=settle_s)
    assert not complaints, "\n".join(complaints[:50])
    assert acknowledged > 0
