"""The audit log of bulk reads: Flight SQL, the admin API's Flight, `ilion export` and `ilion sql`."""
import json
import subprocess
import time

import pyarrow as pa
import pyarrow.flight
import pytest

from harness.flight import Guarded, statement_descriptor
from harness.node import run


def entries(node):
    return [json.loads(line) for file in sorted((node.directory / "audit").glob("audit-*")) for line in file.read_text().splitlines()]


class Told:
    """What the log says from a moment on."""

    def __init__(self, node):
        self.node, self.seen = node, len(entries(node))

    def take(self, count):
        """The next entries, as many as there have to be; `none_more` says that there are no others."""
        deadline = time.monotonic() + 20
        while len(found := entries(self.node)[self.seen:]) < count:
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        self.seen += count
        return found[:count]

    def none_more(self):
        """Entries come in order: one that is made now comes behind all others."""
        run([self.node.binary, "sql", "--admin", f"127.0.0.1:{self.node.admin_port}", "SELECT k FROM fl.last"])
        (last,) = self.take(1)
        assert (last["scope"], last["type"]) == ("last", "SELECT"), last


def short(entry):
    return (entry["type"], entry["user"], entry.get("ks"), entry.get("scope"), entry.get("operation"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    options = "{enabled: true, excluded_keyspaces: 'system,system_schema,hidden', excluded_categories: 'DDL,DCL,DML'}"
    guarded = Guarded(tmp_path_factory.mktemp("guarded"), audit_logging_options=options)
    for keyspace in ("fl", "hidden"):
        guarded.root.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    for statement in ("CREATE TABLE fl.open (k int PRIMARY KEY, v text) WITH compression = {'enabled': 'false'}",
                      "CREATE TABLE fl.secret (k int PRIMARY KEY, v text)", "CREATE TABLE fl.last (k int PRIMARY KEY)",
                      "CREATE TABLE hidden.t (k int PRIMARY KEY)", "CREATE ROLE bob WITH PASSWORD = 'bob-password' AND LOGIN = true",
                      "GRANT SELECT ON fl.open TO bob", "GRANT SELECT ON KEYSPACE hidden TO bob"):
        guarded.root.execute(statement)
    insert = guarded.root.prepare("INSERT INTO fl.open (k, v) VALUES (?, ?)")
    for k in range(0, 4000):
        guarded.root.execute(insert, (k, "x" * 1000))
    guarded.node.flush("fl", "open")
    yield guarded
    guarded.stop()


def fetched(client, info, options):
    return sum(client.do_get(endpoint.ticket, options).read_all().num_rows for endpoint in info.endpoints)


def test_a_statement_is_one_entry_however_many_tickets_it_has(guarded):
    options = guarded.options("bob")
    told = Told(guarded.node)
    with guarded.raw() as client:
        text = "SELECT k, v FROM fl.open WHERE k >= 0"
        info = client.get_flight_info(statement_descriptor(text), options)
        assert len(info.endpoints) > 1 and fetched(client, info, options) == 4000
        (entry,) = told.take(1)
        assert short(entry) == ("SELECT", "bob", "fl", "open", text)
        assert entry["category"] == "QUERY" and entry["source"].startswith("127.0.0.") and entry["port"] > 0
        told.none_more()
        # Rows that are fetched once more are told once more.
        assert fetched(client, info, options) == 4000
        assert short(told.take(1)[0]) == ("SELECT", "bob", "fl", "open", text)
        told.none_more()
        # Each table is told, those of a keyspace that is left out are not.
        text = "SELECT o.k FROM fl.open o JOIN hidden.t h ON o.k = h.k"
        fetched(client, client.get_flight_info(statement_descriptor(text), options), options)
        assert short(told.take(1)[0]) == ("SELECT", "bob", "fl", "open", text)
        told.none_more()


def test_logins_refusals_and_failures_are_told_as_those_of_cql(guarded):
    told = Told(guarded.node)
    options = guarded.options("bob")
    (login,) = told.take(1)
    assert short(login)[:2] == ("LOGIN_SUCCESS", "bob") and login["port"] > 0
    with guarded.raw() as client:
        with pytest.raises(pa.ArrowException):
            client.authenticate_basic_token("bob", "geheim")
        (login,) = told.take(1)
        assert short(login) == ("LOGIN_ERROR", None, None, None, "LOGIN FAILURE; Provided username bob and/or password *******")
        with pytest.raises(pa.ArrowException):
            client.get_flight_info(statement_descriptor("SELECT * FROM fl.secret"), options)
        (refused,) = told.take(1)
        why = "User bob has no SELECT permission on <table fl.secret> or any of its parents"
        assert short(refused)[:2] == ("UNAUTHORIZED_ATTEMPT", "bob") and refused["operation"] == f"SELECT * FROM fl.secret; {why}"
        assert refused["category"] == "AUTH"
        # A ticket that somebody else was given is refused when it is shown, and told then.
        root = guarded.options("cassandra", "root-password")
        ticket = client.get_flight_info(statement_descriptor("SELECT v FROM fl.secret"), root).endpoints[0].ticket
        with pytest.raises(pa.ArrowException):
            client.do_get(ticket, options).read_all()
        assert [entry["type"] for entry in told.take(2)] == ["LOGIN_SUCCESS", "UNAUTHORIZED_ATTEMPT"]
        for text, operation in (("CREATE ROLE r WITH PASSWORD = 'geheim'", "CREATE ROLE r WITH PASSWORD *******; "
                                 "Syntax Exception. Obscured for security reasons."), ("SELEC 1", "SELEC 1; ")):
            with pytest.raises(pa.ArrowException):
                client.get_flight_info(statement_descriptor(text), options)
            (failed,) = told.take(1)
            assert failed["type"] == "REQUEST_FAILURE" and failed["operation"].startswith(operation), failed
        assert not any("geheim" in json.dumps(entry) for entry in entries(guarded.node))
    with guarded.adbc("bob") as connection, connection.cursor() as cursor:
        told.take(1)
        text = "SELECT v FROM fl.open WHERE k = ?"
        cursor.execute(text, parameters=(7,))
        assert len(cursor.fetchall()) == 1
        kinds = [short(entry) for entry in told.take(2)]
        assert kinds == [(kind, "bob", "fl", "open", text) for kind in ("PREPARE_STATEMENT", "SELECT")]


def test_tools_are_told_as_the_select_of_what_they_scan(guarded, tmp_path):
    node, told = guarded.node, Told(guarded.node)
    admin = ["--admin", f"127.0.0.1:{node.admin_port}"]
    run([node.binary, "export", "fl.open", *admin, "--out", tmp_path / "all", "--threads", "2", "--format", "csv"])
    (entry,) = told.take(1)
    assert short(entry) == ("SELECT", None, "fl", "open", "SELECT * FROM fl.open")
    assert entry["source"] == "127.0.0.1" and entry["port"] > 0
    run([node.binary, "export", "fl.open", *admin, "--out", tmp_path / "some", "--where", "v > 'a'", "--columns", "v,k", "--limit", "5",
         "--token-range=-7:9223372036854775807"])
    # The command counts rows itself.
    assert short(told.take(1)[0])[4] == "SELECT v, k FROM fl.open WHERE v > 'a' AND token(k) > -7 AND token(k) <= 9223372036854775807"
    run([node.binary, "sql", *admin, "SELECT k FROM fl.open WHERE k IN (1, 2)"])
    assert short(told.take(1)[0])[:4] == ("SELECT", None, "fl", "open")
    # What the node knows without a scan is no less a read.
    assert "4000" in run([node.binary, "sql", *admin, "SELECT count(*) FROM fl.open"])
    assert short(told.take(1)[0]) == ("SELECT", None, "fl", "open", "SELECT count(*) FROM fl.open")
    told.none_more()
    done = subprocess.run([node.binary, "export", "fl.nosuch", *admin, "--out", tmp_path / "no"], capture_output=True, timeout=60)
    assert done.returncode != 0
    # The tool knows the schema, and has asked for nothing.
    told.none_more()


def test_the_filter_of_users_and_a_log_that_is_off(guarded):
    node, told, options = guarded.node, Told(guarded.node), guarded.options("bob")
    told.take(1)
    with guarded.raw() as client:
        def ask(text):
            fetched(client, client.get_flight_info(statement_descriptor(text), options), options)

        node.nodetool("enableauditlog", "--excluded-users", "bob")
        ask("SELECT k FROM fl.open WHERE k = 1")
        told.none_more()
        node.nodetool("enableauditlog", "--included-categories", "AUTH,PREPARE")
        ask("SELECT k FROM fl.open WHERE k = 2")
        node.nodetool("disableauditlog")
        ask("SELECT k FROM fl.open WHERE k = 3")
        node.nodetool("enableauditlog", "--included-keyspaces", "fl")
        told = Told(node)
        ask("SELECT k FROM fl.open WHERE k = 4")
        assert short(told.take(1)[0])[4] == "SELECT k FROM fl.open WHERE k = 4"
