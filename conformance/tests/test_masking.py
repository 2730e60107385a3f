"""Dynamic data masking: scripts that a Cassandra with the same yaml recorded, and masks that go to it and come back.

`cql/masked/*.cqltest` are replayed statement by statement on a node that masks and knows who logs in. They are recorded by
`cqltest.py record --login cassandra:cassandra` from a node of `conformance/cassandra` with the settings of `YAML`.
"""
import pathlib

import pytest

from cqltest import Runner
from harness.node import Ilion

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


SCHEMA = """
CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
CREATE TYPE app.w (a int, b text)
CREATE TABLE app.t%(n)s (k int, c int MASKED WITH DEFAULT, s text STATIC MASKED WITH mask_inner(1, null), v text MASKED WITH
    mask_outer(1, 1, '#'), h blob MASKED WITH mask_hash('md5'), y text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)
CREATE TABLE app.types%(n)s (k int PRIMARY KEY, bl blob MASKED WITH mask_replace(0xcafe), d date MASKED WITH mask_replace('2020-01-02'),
    de decimal MASKED WITH mask_replace(1.50), du duration MASKED WITH mask_replace(1h2m), i inet MASKED WITH mask_replace('127.0.0.1'),
    t text MASKED WITH mask_replace('äb'), ti time MASKED WITH mask_replace('01:02:03.004'), n int MASKED WITH mask_replace(null),
    ts timestamp MASKED WITH mask_replace('2020-01-02 03:04:05.678+0000'), u uuid MASKED WITH
    mask_replace(50554d6e-29bb-11e5-b345-feff819cdc9f), e text MASKED WITH mask_replace(''), do double MASKED WITH mask_replace(1e10))
CREATE TABLE app.nested%(n)s (k int PRIMARY KEY, l list<int> MASKED WITH mask_replace([1, 2]), s set<text> MASKED WITH
    mask_replace({'a', 'b'}), m map<text, int> MASKED WITH mask_replace({'a': 1}), fl frozen<list<int>> MASKED WITH mask_replace([1]),
    t tuple<int, text> MASKED WITH mask_replace((1, 'x')), u w MASKED WITH mask_replace({a: 1, b: 'x'}), fu frozen<w> MASKED WITH
    mask_replace({a: 1}), v vector<float, 2> MASKED WITH mask_replace([1.5, 2]))
ALTER TABLE app.t%(n)s DROP y
ALTER TABLE app.t%(n)s ADD y text MASKED WITH DEFAULT
ALTER TABLE app.t%(n)s ALTER v DROP MASKED
INSERT INTO app.t%(n)s (k, c, s, v, y) VALUES (1, 2, 'static', 'secret', 'y')
INSERT INTO app.types%(n)s (k, d) VALUES (1, '2021-01-01')
INSERT INTO app.nested%(n)s (k, l) VALUES (1, [3])
"""


def statements(number):
    joined = (SCHEMA % {"n": number}).strip().replace("\n    ", " ").splitlines()
    return joined if number == 1 else joined[2:]


def test_masks_go_there_and_back(in_turns):
    directory = in_turns("5.0.5", ("dynamic_data_masking_enabled: true",))
    directory.hand_to(directory.cassandra)
    directory.run(statements(1))
    theirs = directory.dump()
    directory.hand_to(directory.ilion)
    assert directory.dump() == theirs
    directory.run(statements(2))
    ours = directory.dump()
    directory.hand_to(directory.cassandra)
    assert directory.dump() == ours
