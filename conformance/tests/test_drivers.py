"""The drivers that are not Python: each a program of its own in drivers/, with pinned versions."""
import json
import pathlib
import shutil
import subprocess

import pytest

from harness.node import Ilion, run

DRIVERS = pathlib.Path(__file__).resolve().parent.parent / "drivers"
NEEDS = {"java": ("java", "mvn"), "go": ("go",), "node": ("node", "npm"), "rust": ("cargo",)}


@pytest.mark.parametrize("driver", sorted(NEEDS))
def test_driver(driver, target):
    run_driver(driver, target)


def run_driver(driver, target, *access):
    missing = [tool for tool in NEEDS[driver] if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    done = subprocess.run([DRIVERS / driver / "run", target.address, str(target.port), *map(str, access)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1800, check=False)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("done"), done.stdout[-8000:]


@pytest.mark.parametrize("driver", ["go", "java"])
def test_driver_with_tls_and_a_password(driver, needs_ilion, tmp_path):
    node, made = Ilion(tmp_path / "node"), tmp_path / "made"
    run([node.binary, "tls", made, "--host", node.address])
    (tmp_path / "first").write_text("of-the-driver\n")
    tls = {"enabled": True, "optional": False, "keystore": str(made / "node.pem")}
    node.settings = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer",
                     "auth_bcrypt_gensalt_log2_rounds": 4, "client_encryption_options": json.dumps(tls)}
    node.start("--initial-superuser-password-file", tmp_path / "first")
    try:
        run_driver(driver, node, made / "ca.crt", "cassandra", "of-the-driver")
    finally:
        node.stop()
