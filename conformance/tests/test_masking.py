"""Dynamic data masking: scripts that a Cassandra with the same yaml recorded, and the doors that are not CQL.

`cql/masked/*.cqltest` are replayed statement by statement on a node that masks and knows who logs in. They are recorded by
`cqltest.py record --login cassandra:cassandra` from a node of `conformance/cassandra` with the settings of `YAML`.
"""
import pathlib

import pytest

from cqltest import Runner
from harness.node import Ilion
from harness.wire import Wire

SCRIPTS = sorted((pathlib.Path(__file__).resolve().parent.parent / "cql" / "masked").glob("*.cqltest"))
YAML = {"dynamic_data_masking_enabled": "true", "authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer",
        "role_manager": "CassandraRoleManager", "permissions_validity": "0ms", "roles_validity": "0ms", "credentials_validity": "0ms",
        "auth_bcrypt_gensalt_log2_rounds": "4"}
ROOT = ("cassandra", "cassandra")


@pytest.fixture(scope="module")
def node(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("needs an Ilion of its own")
    with Ilion(tmp_path_factory.mktemp("masking"), settings=YAML) as ilion:
        yield ilion


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_script(path, node):
    count, complaints = Runner(path, node, login=ROOT).replay(True)
    assert not complaints, f"{len(complaints)} of {count} statements\n\n" + "\n\n".join(complaints)
