"""A directory with logins, there and back: roles and permissions hold in Ilion, and those that it made hold in Cassandra. Marks of
repairs, for which Ilion has no use, are found again."""
import time

import pytest
from cassandra import Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

from harness.in_place import InPlace
from harness.node import CASSANDRA, Cassandra, free_address, run
from harness.wire import Wire

SECURE = ("authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer")


def log_in(address, name, password):
    """A session of a role. The first superuser is made some time after a start."""
    deadline = time.monotonic() + 60
    while True:
        cluster = Cluster([address], auth_provider=PlainTextAuthProvider(name, password), connect_timeout=30)
        try:
            session = cluster.connect()
            session.default_timeout = 60
            return cluster, session
        except NoHostAvailable:
            cluster.shutdown()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def in_hex(rows):
    return sorted(tuple(sorted(map(str, x)) if not isinstance(x, str | bool | None) else x for x in row) for row in rows)


AUTH = ("SELECT role, can_login, is_superuser, member_of, salted_hash FROM system_auth.roles",
        "SELECT role, resource, permissions FROM system_auth.role_permissions",
        "SELECT role, member FROM system_auth.role_members")


def repaired(version, directory):
    """When the SSTables of app.t were repaired, as Cassandra's own tool says."""
    files = sorted(directory.glob("data/app/t-*/*-Data.db"))
    said = run([CASSANDRA, "--version", version, "tool", "SSTableMetadataViewer", *files])
    times = [int(line.split()[2]) for line in said.splitlines() if line.startswith("Repaired at")]
    assert len(times) == len(files), said
    return times


@pytest.mark.parametrize("version", ["5.0.5"])
def test_roles_and_marks_of_repairs_are_kept(version, tmp_path, needs_ilion, request, monkeypatch):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("needs a real Cassandra")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dcassandra.superuser_setup_delay_ms=0")
    directory, address = tmp_path / "node", free_address()
    cassandra = Cassandra(directory, address, settings=SECURE, version=version)
    try:
        cassandra.start()
        cluster, session = log_in(address, "cassandra", "cassandra")
        for statement in (
            "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE app.t (k int PRIMARY KEY, v text) WITH compaction = {'class': 'SizeTieredCompactionStrategy', "
            "'enabled': 'false'}",
            "CREATE TABLE app.other (k int PRIMARY KEY)",
            "CREATE ROLE readers",
            "CREATE ROLE ann WITH PASSWORD = 'secret of ann' AND LOGIN = true",
            "GRANT readers TO ann",
            "GRANT SELECT ON TABLE app.t TO readers",
            "GRANT MODIFY ON TABLE app.t TO ann",
        ):
            session.execute(statement)
        before = [in_hex(session.execute(text)) for text in AUTH]
        cluster.shutdown()
        cassandra.stop()

        ilion = InPlace(directory, address)
        ilion.start()
        ann = Wire(address, login=("ann", "secret of ann"))
        ann.must("INSERT INTO app.t (k, v) VALUES (1, 'by ann')")
        assert len(ann.must("SELECT * FROM app.t").rows) == 1
        assert ann.query("SELECT * FROM app.other").code == 0x2100
        ann.close()
        wire = Wire(address, login=("cassandra", "cassandra"))
        wire.must("CREATE ROLE late WITH PASSWORD = 'secret of late' AND LOGIN = true")
        wire.must("GRANT SELECT ON app.other TO late")
        wire.must("GRANT readers TO late")
        wire.must("TRUNCATE app.t")
        for i in range(4):
            wire.must(f"INSERT INTO app.t (k, v) VALUES ({i}, 'v{i}')")
            ilion.flush("app", "t")
        wire.close()
        ilion.drain()
        files = sorted(directory.glob("data/app/t-*/*-Data.db"))
        assert len(files) == 4
        run([CASSANDRA, "--version", version, "tool", "SSTableRepairedAtSetter", "--really-set", "--is-repaired", *files[:2]])
        marks = repaired(version, directory)
        assert min(marks[:2]) > 0 and marks[2:] == [0, 0]

        ilion.start()
        wire = Wire(address, login=("cassandra", "cassandra"))
        ilion.compact("app", "t")
        assert len(wire.must("SELECT * FROM app.t").rows) == 4
        wire.close()
        ilion.drain()

        cassandra.start()
        cluster, session = log_in(address, "late", "secret of late")
        assert len(list(session.execute("SELECT * FROM app.t"))) == 4
        assert not list(session.execute("SELECT * FROM app.other"))
        with pytest.raises(Unauthorized):
            session.execute("INSERT INTO app.t (k, v) VALUES (1, 'by late')")
        cluster.shutdown()
        cluster, session = log_in(address, "cassandra", "cassandra")
        # Cassandra forgets the members of a role that goes, not what it was a member of.
        session.execute("REVOKE readers FROM late")
        session.execute("DROP ROLE late")
        assert [in_hex(session.execute(text)) for text in AUTH] == before
        cluster.shutdown()
        cluster, session = log_in(address, "ann", "secret of ann")
        assert sorted(map(tuple, session.execute("SELECT k, v FROM app.t"))) == [(i, f"v{i}") for i in range(4)]
        session.execute("INSERT INTO app.t (k, v) VALUES (1, 'by ann')")
        with pytest.raises(Unauthorized):
            session.execute("SELECT * FROM app.other")
        cluster.shutdown()
        cassandra.stop()
        # Two that Ilion made, each of two inputs of one kind, and what ann wrote.
        assert sorted(repaired(version, directory)) == [0, 0, min(marks[:2])]
    finally:
        cassandra.kill()
        if "ilion" in locals():
            ilion.kill()
