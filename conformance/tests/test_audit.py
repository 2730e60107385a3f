"""The audit log: what is told of logins, statements and failures, filters, passwords, bounds, on and off, restarts.

`SCRIPT` has the statements in order, each behind the role that sends it, and behind `>` what FileAuditLogger of a real Cassandra
5.0.5 wrote of it: type, category and what else there is. With an oracle the same statements are told to a Cassandra, and its lines
compared. `=` stands for the statement itself, `*` for a batch id.
"""
import json
import os
import re
import subprocess
import time

import pytest
from cassandra.query import BatchType

from harness.node import Cassandra, Ilion, free_address, run
from harness.wire import Wire

YAML = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer", "permissions_validity": "0ms",
        "roles_validity": "0ms"}
KEYSPACE = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
SCRIPT = rf"""
cassandra {KEYSPACE} > CREATE_KEYSPACE DDL ks:ks|operation:=
cassandra CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c)) > CREATE_TABLE DDL ks:ks|scope:t|operation:=
cassandra CREATE TYPE ks.u (a int) > CREATE_TYPE DDL ks:ks|scope:u|operation:=
cassandra CREATE ROLE bob WITH PASSWORD = 'geheim' AND LOGIN = true > CREATE_ROLE DCL operation:CREATE ROLE bob WITH PASSWORD = '*******' AND LOGIN = true
cassandra CREATE USER amy WITH PASSWORD 'geheim' NOSUPERUSER > CREATE_ROLE DCL operation:CREATE USER amy WITH PASSWORD '*******' NOSUPERUSER
cassandra ALTER ROLE bob WITH PASSWORD = 'geheimer' > ALTER_ROLE DCL operation:ALTER ROLE bob WITH PASSWORD = '*******'
cassandra GRANT SELECT ON ks.t TO bob > GRANT DCL ks:data/ks/*|scope:data/ks/t|operation:=
cassandra GRANT SELECT ON KEYSPACE ks TO bob > GRANT DCL ks:data|scope:data/ks|operation:=
cassandra REVOKE ALL ON ALL KEYSPACES FROM bob > REVOKE DCL ks:data|scope:data|operation:=
cassandra GRANT amy TO bob > GRANT DCL operation:=
cassandra LIST ROLES > LIST_ROLES DCL operation:=
cassandra LIST USERS > LIST_ROLES DCL operation:=
cassandra LIST ALL PERMISSIONS > LIST_PERMISSIONS DCL operation:=
cassandra ADD IDENTITY 'x' TO ROLE 'bob' > CREATE_IDENTITY DCL operation:=
cassandra DROP IDENTITY 'x' > DROP_IDENTITY DCL operation:=
cassandra USE ks > USE_KEYSPACE OTHER ks:ks|operation:=
cassandra DESCRIBE TABLES > DESCRIBE OTHER ks:ks|operation:=
cassandra INSERT INTO t (k, c, v) VALUES (1, 1, 'a') > UPDATE DML ks:ks|scope:t|operation:=
cassandra SELECT * FROM t > SELECT QUERY ks:ks|scope:t|operation:=
cassandra UPDATE ks.t SET v = 'password' WHERE k = 1 AND c = 1 > UPDATE DML ks:ks|scope:t|operation:=
cassandra DELETE FROM t WHERE k = 1 > DELETE DML ks:ks|scope:t|operation:=
cassandra SELECT * FROM ks.nope > REQUEST_FAILURE ERROR ks:ks|operation:SELECT * FROM ks.nope; table nope does not exist
cassandra SELEC x > REQUEST_FAILURE ERROR ks:ks|operation:SELEC x; line 1:0 no viable alternative at input 'SELEC' ([SELEC]...)
cassandra CREATE ROLE z WITH PASSWORD = 'geheim' nonsense > REQUEST_FAILURE ERROR ks:ks|operation:CREATE ROLE z WITH PASSWORD *******; Syntax Exception. Obscured for security reasons.
cassandra BEGIN BATCH INSERT INTO t (k, c) VALUES (1, 1); DELETE FROM t WHERE k = 2; APPLY BATCH > BATCH DML ks:ks|operation:=
cassandra prepare INSERT INTO t (k, c) VALUES (?, ?) > PREPARE_STATEMENT PREPARE ks:ks|scope:t|operation:=
cassandra execute INSERT INTO t (k, c) VALUES (?, ?) > UPDATE DML ks:ks|scope:t|operation:=
cassandra prepare SELECT nope FROM t > REQUEST_FAILURE ERROR ks:ks|operation:SELECT nope FROM t; Undefined column name nope in table ks.t
cassandra batch DELETE FROM ks.t WHERE k = 7 > BATCH DML batch:*|ks:ks|operation:BatchId:[*] - BATCH of [1] statements > DELETE DML batch:*|ks:ks|scope:t|operation:DELETE FROM ks.t WHERE k = 7
cassandra batch DELETE FROM ks.nope WHERE k = 7 > REQUEST_FAILURE ERROR ks:ks|operation:BATCH of 0 statements at consistency ONE; table nope does not exist
cassandra DROP TABLE IF EXISTS ks.absent > DROP_TABLE DDL ks:ks|scope:absent|operation:=
cassandra TRUNCATE t > TRUNCATE DDL ks:ks|scope:t|operation:=
cassandra DROP TYPE u > DROP_TYPE DDL ks:ks|scope:u|operation:=
bob SELECT * FROM system.local >
bob CREATE ROLE eve > UNAUTHORIZED_ATTEMPT AUTH operation:CREATE ROLE eve; User bob does not have sufficient privileges to perform the requested operation
bob DROP KEYSPACE ks > UNAUTHORIZED_ATTEMPT AUTH operation:DROP KEYSPACE ks; User bob has no DROP permission on <keyspace ks> or any of its parents
cassandra DROP ROLE bob > DROP_ROLE DCL ks:ks|operation:=
cassandra DROP KEYSPACE ks > DROP_KEYSPACE DDL ks:ks|operation:=
"""
PASSWORDS = {"cassandra": "cassandra", "bob": "geheimer"}
BATCH_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def script():
    """Who sends what, and the entries that it leaves."""
    for line in SCRIPT.strip().splitlines():
        sent, *told = (part.strip() for part in line.split(" >"))
        user, statement = sent.split(" ", 1)
        text = re.sub("^(prepare|execute|batch) ", "", statement)
        entries = []
        for entry in filter(None, told):
            kind, category, rest = entry.split(" ", 2)
            rest = rest.removesuffix("=") + text if rest.endswith("operation:=") else rest
            entries.append(f"user:{user}|type:{kind}|category:{category}|{rest}")
        yield user, statement, entries


def tell(node):
    """Runs the script; the entries that it has to leave, with those of its logins."""
    wires, expected, prepared = {}, [], {}
    with pytest.raises(Exception):
        Wire(node.address, node.port, login=("bob", "falsch"))
    expected.append("user:null|type:LOGIN_ERROR|category:AUTH|operation:LOGIN FAILURE; Provided username bob and/or password *******")
    for user, statement, entries in script():
        if user not in wires:
            wires[user] = Wire(node.address, node.port, login=(user, PASSWORDS[user]))
            expected.append(f"user:{user}|type:LOGIN_SUCCESS|category:AUTH|operation:LOGIN SUCCESSFUL")
        wire, (word, _, rest) = wires[user], statement.partition(" ")
        if word == "prepare":
            prepared[rest] = wire.prepare(rest)
        elif word == "execute":
            wire.execute(prepared[rest], [bytes(4), bytes(4)])
        elif word == "batch":
            wire.batch(BatchType.LOGGED, [(False, rest, [])])
        else:
            wire.query(statement)
        expected += entries
    for wire in wires.values():
        wire.close()
    return expected


def shape(line):
    """An entry without what differs from run to run."""
    fields = [field for field in line.split("|") if not re.match("(host|source|port|timestamp):", field)]
    return BATCH_ID.sub("*", "|".join(fields))


def audit_files(node, directory=None):
    directory = directory or node.directory / "audit"
    return sorted(directory.glob("audit-*"))


def lines(node, directory=None):
    return [line for file in audit_files(node, directory) for line in file.read_text().splitlines()]


def entries(node):
    return [json.loads(line) for line in lines(node)]


def settle(node, said, timeout_s=20):
    """Waits until the log's last entry is of an operation."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = entries(node)
        if found and said in found[-1].get("operation", ""):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{said!r} was not written: {lines(node)[-3:]}")


def ilion(tmp_path, options, **settings):
    return Ilion(tmp_path / "node", settings={**settings, "audit_logging_options": options})


def test_every_entry_is_cassandras_once(needs_ilion, tmp_path):
    """The text of FileAuditLogger, fields and order."""
    with ilion(tmp_path, "{enabled: true, logger: {class_name: FileAuditLogger}}", **YAML) as node:
        expected = tell(node)
        node.nodetool("disableauditlog")
        found = lines(node)
        assert [shape(line) for line in found] == expected
        first = re.fullmatch(r"user:null\|host:/([\d.]+):7000\|source:/[\d.]+\|port:\d+\|timestamp:\d{13}\|type:LOGIN_ERROR"
                             r"\|category:AUTH\|operation:.*", found[0])
        assert first and first[1] == node.address, found[0]
        assert not any("geheim" in line for line in found)


def test_a_cassandra_writes_the_same(request, tmp_path):
    if request.config.getoption("--oracle") == "none":
        pytest.skip("no real Cassandra: --oracle none")
    settings = [f"{key}: {value}" for key, value in YAML.items()]
    options = "audit_logging_options: {enabled: true, logger: {class_name: FileAuditLogger}}"
    with Cassandra(tmp_path / "cassandra", free_address(first=40), settings=[*settings, options]) as node:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # its first role comes late
            try:
                Wire(node.address, node.port, login=("cassandra", "cassandra")).close()
                break
            except Exception:
                time.sleep(1)
        log = node.directory / "system.log"
        before = len(log.read_text())
        expected = tell(node)
        said = [line.split("FileAuditLogger - ")[1] for line in log.read_text()[before:].splitlines() if "FileAuditLogger - user" in line]
        assert [shape(line) for line in said] == expected


def test_json_lines_have_the_same_fields(needs_ilion, tmp_path):
    with ilion(tmp_path, "{enabled: true}") as node:
        wire = Wire(node.address, node.port)
        wire.must(KEYSPACE)
        wire.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        wire.must("SELECT *\nFROM ks.t")
        found = settle(node, "FROM ks.t")
        assert [entry["type"] for entry in found] == ["CREATE_KEYSPACE", "CREATE_TABLE", "SELECT"]
        last = found[-1]
        assert list(last) == ["timestamp", "type", "category", "user", "host", "source", "port", "ks", "scope", "operation"]
        assert (last["user"], last["ks"], last["scope"], last["operation"]) == ("anonymous", "ks", "t", "SELECT *\nFROM ks.t")


def test_filters_live_on_off_and_a_restart(needs_ilion, tmp_path):
    options = "{enabled: true, excluded_categories: 'ddl', excluded_users: nobody}"
    with ilion(tmp_path, options) as node:
        wire = Wire(node.address, node.port)
        wire.must(KEYSPACE)
        wire.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        wire.must("INSERT INTO ks.t (k) VALUES (1)")
        assert "excluded_categories DDL" in node.nodetool("getauditlog")
        node.nodetool("enableauditlog", "--included-categories", "query", "--excluded-keyspaces", "system")
        wire.must("INSERT INTO ks.t (k) VALUES (2)")
        wire.must("SELECT v FROM ks.t")
        wire.must("SELECT key FROM system.local")
        node.nodetool("enableauditlog", "--included-keyspaces", "other")
        wire.must("SELECT k FROM ks.t")
        node.nodetool("disableauditlog")
        assert node.nodetool("getauditlog").startswith("enabled             false")
        wire.must("SELECT k, v FROM ks.t")
        assert [entry["operation"] for entry in entries(node)] == ["INSERT INTO ks.t (k) VALUES (1)", "SELECT v FROM ks.t"]
        with pytest.raises(RuntimeError, match="ended with 2"):
            node.nodetool("enableauditlog", "--logger", "Nosuch")
        with pytest.raises(RuntimeError, match="DLM not found"):
            node.nodetool("enableauditlog", "--included-categories", "DLM")
        with pytest.raises(RuntimeError, match="Blocking only accepts"):
            node.nodetool("enableauditlog", "--blocking", "maybe")
        wire.close()
        node.restart()
        # As cassandra.yaml has it again, and what was written is there.
        assert node.nodetool("getauditlog").startswith("enabled             true")
        wire = Wire(node.address, node.port)
        wire.must("SELECT v, k FROM ks.t")
        assert [entry["operation"] for entry in settle(node, "v, k")][-1] == "SELECT v, k FROM ks.t"
        assert len(entries(node)) == 3 and len(audit_files(node)) > 1


def test_files_have_a_bound(needs_ilion, tmp_path):
    with ilion(tmp_path, "{enabled: true, max_log_size: 65536}") as node:
        wire = Wire(node.address, node.port)
        for n in range(600):
            wire.query(f"SELECT * FROM ks.t{n} -- {'x' * 200}")
        settle(node, "ks.t599")
        assert sum(os.path.getsize(file) for file in audit_files(node)) <= 65536
        assert dropped(node) == 0


def dropped(node):
    return node.metrics()['ilion_request_log_dropped_total{log="audit"}']


@pytest.mark.parametrize("block", ["true", "false"])
def test_a_full_disk_holds_nobody_up(needs_ilion, tmp_path, block):
    """Answers go on within what is documented, losses are counted, and the log goes on with space."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    try:
        options = f"{{enabled: true, audit_logs_dir: {disk}/audit, block: {block}, max_queue_weight: 65536}}"
        with ilion(tmp_path, options) as node:
            wire = Wire(node.address, node.port)
            longest = 0
            (disk / "ballast").write_bytes(bytes(900 << 10))
            for n in range(1500):
                began = time.monotonic()
                wire.query(f"SELECT * FROM ks.t{n} -- {'x' * 200}")
                longest = max(longest, time.monotonic() - began)
            assert dropped(node) > 0
            # A second is documented; the rest is a busy machine's.
            assert longest < 3
            (disk / "ballast").unlink()
            deadline = time.monotonic() + 20
            while "last words" not in (said := "".join(lines(node, disk / "audit")[-1:])):
                wire.query("SELECT * FROM ks.last -- last words")
                assert time.monotonic() < deadline, said
                time.sleep(0.1)
            for line in lines(node, disk / "audit"):
                json.loads(line)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_directory_that_cannot_be_used_ends_the_start(needs_ilion, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="the audit log cannot be written"):
        ilion(tmp_path, f"{{enabled: true, audit_logs_dir: {tmp_path}/file}}").start()
    with pytest.raises(RuntimeError, match="archive_command"):
        ilion(tmp_path, "{enabled: false, archive_command: '/bin/mv %path /x'}").start()


def test_tools_print_what_the_node_answers(needs_ilion, tmp_path):
    with ilion(tmp_path, "{enabled: false}") as node:
        answer = json.loads(run([node.binary, "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", "--json", "getauditlog"]))
        assert answer["enabled"] is False and answer["audit_logs_dir"].endswith("/audit")


def fqltool(node, *arguments, status=0):
    done = subprocess.run([str(x) for x in [node.binary, "fqltool", *arguments]], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_full_query_log_on_off_and_dumped(needs_ilion, tmp_path):
    log = tmp_path / "fql"
    with Ilion(tmp_path / "node", settings=YAML) as node:
        wire = Wire(node.address, node.port, login=("cassandra", "cassandra"))
        wire.must(KEYSPACE)
        wire.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        with pytest.raises(RuntimeError, match="you might have forgotten to specify a directory"):
            node.nodetool("enablefullquerylog")
        node.nodetool("enablefullquerylog", "--path", log, "--roll-cycle", "MINUTELY")
        with pytest.raises(RuntimeError, match="Binlog is already configured"):
            node.nodetool("enablefullquerylog", "--path", log)
        shown = node.nodetool("getfullquerylog").splitlines()
        assert [line.split() for line in shown] == [
            ["enabled", "true"], ["log_dir", str(log)], ["archive_command"], ["roll_cycle", "MINUTELY"], ["block", "true"],
            ["max_log_size", "17179869184"], ["max_queue_weight", "268435456"], ["max_archive_retries", "10"]]
        wire.query("INSERT INTO ks.t (k, v) VALUES (?, ?)", values=[b"\0\0\0\1", None])
        prepared = wire.prepare("SELECT v FROM ks.t WHERE k = ?")
        wire.execute(prepared, [b"\0\0\0\1"])
        wire.query("SELECT * FROM ks.nope")
        wire.batch(BatchType.UNLOGGED, [(False, "INSERT INTO ks.t (k, v) VALUES (2, 'two')", [])])
        wire.must("CREATE ROLE bob WITH PASSWORD = 'geheim' AND LOGIN = true")
        node.nodetool("disablefullquerylog")
        wire.must("SELECT k FROM ks.t")
        dumped = fqltool(node, "dump", log)
        shape = re.sub(r"(start time: |timestamp:|nowInSeconds:)\d+", r"\1N", dumped).split("\n\n")
        head = "Query start time: N\nProtocol version: 5\nGenerated timestamp:N\nGenerated nowInSeconds:N\n"
        one = f"00000000 00 00 00 01{' ' * 38}\u00b7\u00b7\u00b7\u00b7{' ' * 13}\n-----"
        assert shape == [
            f"Type: single-query\n{head}Query: INSERT INTO ks.t (k, v) VALUES (?, ?)\nValues: \n{one}\nnull\n-----",
            f"Type: single-query\n{head}Query: SELECT v FROM ks.t WHERE k = ?\nValues: \n{one}",
            f"Type: batch\n{head}Batch type: UNLOGGED\nQuery: INSERT INTO ks.t (k, v) VALUES (2, 'two')\nValues: ",
            f"Type: single-query\n{head}Query: CREATE ROLE bob WITH PASSWORD = '*******' AND LOGIN = true\nValues: ", ""]
        assert b"geheim" not in b"".join(file.read_bytes() for file in log.iterdir())
        (log / "kept").write_text("")
        node.nodetool("enablefullquerylog", "--path", log)
        node.nodetool("resetfullquerylog")
        assert [file.name for file in log.iterdir()] == ["kept"]
        assert node.nodetool("getfullquerylog").startswith("enabled             false")


def test_full_query_log_replayed_and_compared(needs_ilion, tmp_path):
    log, results, queries = tmp_path / "fql", tmp_path / "results", tmp_path / "queries"
    results.mkdir()
    queries.mkdir()
    with Ilion(tmp_path / "one") as one, Ilion(tmp_path / "two") as two:
        wires = [Wire(node.address, node.port) for node in (one, two)]
        one.nodetool("enablefullquerylog", "--path", log)
        wires[0].must(KEYSPACE)
        wires[0].must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        wires[0].must("USE ks")
        prepared = wires[0].prepare("INSERT INTO t (k, v) VALUES (?, ?)")
        for k in range(20):
            wires[0].execute(prepared, [k.to_bytes(4, "big"), b"v%d" % k])
        wires[0].pages(lambda state: wires[0].query("SELECT k, v, writetime(v) FROM t", fetch_size=7, paging_state=state))
        wires[0].must("SELECT count(*) FROM ks.t")
        one.nodetool("disablefullquerylog")
        said = fqltool(one, "replay", "--target", f"{two.address}:{two.port}", "--replay-ddl-statements", log)
        assert said.endswith("25 queries, 2 left out\n"), said
        rows = [sorted(wire.must("SELECT k, v, writetime(v) FROM ks.t").rows) for wire in wires]
        assert rows[0] == rows[1] and len(rows[0]) == 20
        targets = [f"{node.address}:{node.port}" for node in (one, two)]
        flags = [flag for target in targets for flag in ("--target", target)]
        fqltool(one, "replay", *flags, "--results", results, "--store-queries", queries, "--keyspace", "ks", log)
        places = [results / target for target in targets]
        assert fqltool(one, "compare", "--queries", queries, *places) == ""
        wires[1].must("INSERT INTO ks.t (k, v) VALUES (3, 'other')")
        fqltool(one, "replay", *flags, "--results", results, "--store-queries", queries, log)
        said = fqltool(one, "compare", "--queries", queries, *places, status=1)
        assert said.startswith("MISMATCH Query = SELECT k, v, writetime(v) FROM t mismatch0="), said
        assert "COLUMN DEFINITION" not in said and said.count("\n") == 1
        (log / next(log.iterdir()).name).write_bytes(b"ILIONFQL\0\0\0\1\0\0\0\1\0\0\0\0x")
        fqltool(one, "dump", log, status=1)


def test_a_cassandra_answers_a_replay_alike(needs_ilion, oracle, tmp_path):
    log, results, queries = tmp_path / "fql", tmp_path / "results", tmp_path / "queries.fql"
    results.mkdir()
    with Ilion(tmp_path / "node") as node:
        cassandra = Wire(oracle.address, oracle.port)
        cassandra.must("DROP KEYSPACE IF EXISTS ks")
        node.nodetool("enablefullquerylog", "--path", log)
        for version in (3, 4, 5):
            wire = Wire(node.address, node.port, version=version)
            wire.must(KEYSPACE.replace("KEYSPACE", "KEYSPACE IF NOT EXISTS"))
            wire.must("CREATE TABLE IF NOT EXISTS ks.t (k int, c int, v text, m map<int, text>, PRIMARY KEY (k, c))")
            wire.must("USE ks")
            insert = wire.prepare("INSERT INTO t (k, c, v, m) VALUES (?, ?, ?, {1: 'x'})")
            for c in range(5):
                wire.execute(insert, [version.to_bytes(4, "big"), c.to_bytes(4, "big"), b"v%d" % c])
            wire.batch(BatchType.LOGGED, [(False, f"DELETE v FROM ks.t WHERE k = {version} AND c = 1", []),
                                          (True, insert.message.query_id, [version.to_bytes(4, "big"), b"\0\0\0\x63", None])])
            wire.must("SELECT * FROM t")
            wire.must("SELECT k, c, v, writetime(v), m FROM ks.t WHERE k = 3 ORDER BY c DESC LIMIT 3")
            wire.close()
        node.nodetool("disablefullquerylog")
        targets = [f"{target.address}:{target.port}" for target in (node, oracle)]
        flags = [flag for target in targets for flag in ("--target", target)]
        # The schema first: all of it is there before anything is compared.
        fqltool(node, "replay", "--target", targets[1], "--replay-ddl-statements", log)
        fqltool(node, "replay", *flags, "--results", results, "--store-queries", queries, log)
        assert fqltool(node, "compare", "--queries", queries, *(results / target for target in targets)) == ""
        assert "SELECT * FROM t" in fqltool(node, "dump", queries)
        cassandra.must("DROP KEYSPACE ks")
        cassandra.close()
