"""The drivers that are not Python: each a program of its own in drivers/, with pinned versions."""
import pathlib
import shutil
import subprocess

import pytest

DRIVERS = pathlib.Path(__file__).resolve().parent.parent / "drivers"
NEEDS = {"java": ("java", "mvn"), "go": ("go",), "node": ("node", "npm"), "rust": ("cargo",)}


@pytest.mark.parametrize("driver", sorted(NEEDS))
def test_driver(driver, target):
    missing = [tool for tool in NEEDS[driver] if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run([DRIVERS / driver / "run", target.address, str(target.port)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1800, check=False)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("done"), done.stdout[-8000:]
