"""Every recorded script, replayed."""
import pathlib

import pytest

from cqltest import Runner

SCRIPTS = sorted((pathlib.Path(__file__).resolve().parent.parent / "cql").glob("*.cqltest"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script(path, target, on_ilion):
    count, complaints = Runner(path, target).replay(on_ilion)
    assert not complaints, f"{len(complaints)} of {count} statements\n\n" + "\n\n".join(complaints)
