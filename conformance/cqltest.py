#!/usr/bin/env python3
"""Runs `.cqltest` scripts: `record` asks a real Cassandra and writes its answers in, `replay` compares with them.

    cqltest.py record --target cassandra:DIR [FILE ...]
    cqltest.py replay --target ilion [FILE ...]

Each script has a keyspace of its own, made new. A SELECT that answers with rows is asked again as a prepared statement
and in pages of one and of three rows: the answer must be the same, on either node.
"""
import argparse
import difflib
import fnmatch
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import script  # noqa: E402
from harness.node import open_target  # noqa: E402
from harness.types import encode, parse_literals, show  # noqa: E402
from harness.wire import Wire, bind_types  # noqa: E402

VARIANT_PAGES = (1, 3)


# A real Cassandra accepts writes to its own tables and is ruined by them; the node may be shared.
HARMFUL = re.compile(r"\b(TRUNCATE(\s+TABLE)?|INSERT\s+INTO|UPDATE|DELETE\b[^;]*?\bFROM)\s+\"?system(_\w+)?\"?\s*\.", re.I)


class Runner:
    """One script against one target. Where people log in, `login` is the name and the password of who sends what no `-- as` says
    otherwise; other roles have their names for passwords."""

    def __init__(self, path, target, version=5, login=None):
        self.path, self.target = pathlib.Path(path), target
        self.login, self.role = login, None
        self.steps, self.rest = script.parse(self.path.read_text())
        for step in self.steps:
            if HARMFUL.search(step.statement):
                raise script.ScriptError(f"{path}: line {step.line}: scripts do not write to system tables")
        self.keyspace = "cql_" + re.sub(r"\W", "_", self.path.stem)
        self.wires, self.version = {}, version

    @property
    def wire(self):
        at = (self.version, self.role)
        if at not in self.wires:
            login = (self.role, self.role) if self.role else self.login
            self.wires[at] = Wire(self.target.address, self.target.port, self.version, login=login)
            self.wires[at].must(f"USE {self.keyspace}")
        return self.wires[at]

    def fresh_keyspace(self):
        wire = Wire(self.target.address, self.target.port, login=self.login)
        for suffix in ("", "_2"):
            wire.must(f"DROP KEYSPACE IF EXISTS {self.keyspace}{suffix}")
        wire.must(f"CREATE KEYSPACE {self.keyspace} WITH replication = "
                  "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        self.wires[5, None] = wire
        wire.must(f"USE {self.keyspace}")

    def close(self, drop=True):
        if drop and self.wires:
            self.role = None
            self.wire.query(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
            self.wire.query(f"DROP KEYSPACE IF EXISTS {self.keyspace}_2")
        for wire in self.wires.values():
            wire.close()
        self.wires = {}

    def act(self, step):
        if step.action == "flush":
            self.target.flush(self.keyspace)
        elif step.action == "compact":
            self.target.compact(self.keyspace)
        else:
            for wire in self.wires.values():
                wire.close()
            self.wires = {}
            self.target.restart()

    def ask(self, step, page_size=None, prepared=False, **more):
        """Sends the statement of a step and returns the expectation lines of its answer."""
        self.role = step.options.get("as")
        options = {k: v for k, v in (("consistency", step.options.get("consistency")),
                                     ("serial_consistency", step.options.get("serial"))) if v}
        if "timestamp" in step.options:
            options["timestamp"] = int(step.options["timestamp"])
        pages = step.options.get("page_size") or step.options.get("show-pages") or page_size
        if pages:
            options["fetch_size"] = int(pages)
        options.update(more)
        statement = step.statement.replace("$ks", self.keyspace)
        values = []
        if prepared or "bind" in step.options or "prepare" in step.options:
            ready = self.wire.prepare(statement)
            if ready.kind != "prepared":
                return self.lines(step, ready)
            if "prepare" in step.options:
                return self.prepared_lines(ready)
            types = bind_types(ready)
            literals = parse_literals(step.options.get("bind", ""))
            if len(types) != len(literals):
                raise script.ScriptError(f"line {step.line}: {len(literals)} values for {len(types)} markers")
            values = [encode(t, v) for (_, t), v in zip(types, literals)]

            def once(state):
                return self.wire.execute(ready, values, paging_state=state, **options)
        else:
            def once(state):
                return self.wire.query(statement, paging_state=state, **options)
        if "show-pages" in step.options:
            return self.page_lines(step, once)
        return self.lines(step, self.wire.pages(once))

    def page_lines(self, step, once):
        reply, lines = once(None), []
        while reply.kind == "rows":
            lines += self.lines(step, reply)[1 if lines else 0:]
            if reply.paging_state is None:
                return lines
            lines.append("more")
            reply = once(reply.paging_state)
        return lines + self.lines(step, reply)

    def lines(self, step, reply):
        out = [f"warning {' '.join(w.split())}" for w in reply.warnings]
        if reply.kind == "error":
            out.append(f"error 0x{reply.code:04X} {' '.join(reply.error.split())}")
            if reply.info:
                out.append("info " + " ".join(f"{k}={reply.info[k]}" for k in sorted(reply.info)))
        elif reply.kind == "void":
            out.append("ok")
        elif reply.kind == "keyspace":
            out.append(f"ok keyspace {reply.message.new_keyspace}")
        elif reply.kind == "schema":
            event = reply.message.schema_change_event
            names = [event.get(k) for k in ("keyspace", "table", "type", "function", "aggregate") if event.get(k)]
            out.append(f"ok schema {event['change_type']} {event['target_type']} {'.'.join(map(str, names))}")
        else:
            out.append("columns " + " | ".join(f"{name} {t.text()}" for name, t in reply.columns))
            rows = [" | ".join(show(t, v) for (_, t), v in zip(reply.columns, row)) for row in reply.rows]
            out += sorted(rows) if "skip-order" in step.options else rows
            out.append(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
        return [line.replace(self.keyspace, "$ks") for line in out]

    def prepared_lines(self, ready):
        markers = ", ".join(f"{name} {t.text()}" for name, t in bind_types(ready))
        columns = ", ".join(f"{c[2]} {c[3].text()}" for c in ready.message.column_metadata or [])
        lines = [f"markers {markers}".rstrip(), f"key {ready.message.pk_indexes}", f"columns {columns}".rstrip()]
        return [line.replace(self.keyspace, "$ks") for line in lines]

    def answer(self, step):
        """The answer of a step, or None for an action."""
        if step.action:
            self.act(step)
            return None
        if "version" in step.options:
            self.version = int(step.options["version"])
        return self.ask(step)

    def variants(self, step, answer):
        """Complaints about the same SELECT asked in other ways."""
        plain = answer and any(x.startswith("columns") for x in answer)
        if not plain or not step.is_select or {"no-variants", "show-pages", "page_size", "prepare"} & set(step.options):
            return []
        ways = [("prepared", {"prepared": True})] if "bind" not in step.options else []
        if len(answer) > 3:
            ways += [(f"pages of {n}", {"page_size": n}) for n in VARIANT_PAGES]
        out = []
        for name, way in ways:
            got = self.ask(step, **way)
            if got != answer:
                out.append(complaint(self.path, step, answer, got, f" ({name})"))
        return out

    def record(self):
        """Fills in the expectations. Returns complaints: variants in which the node disagrees with itself."""
        self.fresh_keyspace()
        complaints = []
        for step in self.steps:
            answer = self.answer(step)
            if answer is not None:
                step.expected = answer
                complaints += self.variants(step, answer)
        self.path.write_text(script.show(self.steps, self.rest))
        self.close()
        return complaints

    def replay(self, on_ilion):
        """Compares every answer with what was recorded. Returns (statements, complaints)."""
        self.fresh_keyspace()
        complaints, count = [], 0
        for step in self.steps:
            wanted = step.ours if on_ilion and step.ours else step.expected
            try:
                answer = self.answer(step)
                if answer is None:
                    continue
                count += 1
                if not step.expected:
                    complaints.append(f"{self.path.name}:{step.line}: nothing recorded")
                elif not (same_on_ilion(wanted, answer) if on_ilion else answer == wanted):
                    complaints.append(complaint(self.path, step, wanted, answer))
                else:
                    complaints += self.variants(step, answer)
            except script.ScriptError as error:
                complaints.append(f"{self.path.name}: {error}")
            except Exception as error:  # a dropped connection must not hide the rest of the script
                complaints.append(f"{self.path.name}:{step.line}: {step.statement}\n  {type(error).__name__}: {error}")
        self.close()
        return count, complaints


# From here on a message is not Cassandra's wording but that of a library, or a list in the order of a hash table.
LOOSE_FROM = re.compile(r" \(known type signatures: | \(can be matched by following signatures: | com\.fasterxml\.| Unrecognized token |java\.lang\.")


def same_on_ilion(wanted, got):
    """Equal, as far as the wording is Cassandra's own; an expectation written by hand may use * for any text.

    Cassandra ends some results with an empty page, which says nothing: it may be there or not.
    """
    wanted, got = (lines[:-2] if lines[-2:] == ["more", "(0 rows)"] else lines for lines in (wanted, got))
    if len(wanted) != len(got):
        return len(got) == 1 and generated(wanted[:1]) and got[0].startswith("error 0x2000 ")
    return all(same_line(w, g) for w, g in zip(wanted, got)) or (generated(wanted) and got[0].startswith("error 0x2000 "))


def same_line(wanted, got):
    if wanted.startswith("error") and "*" in wanted:
        return fnmatch.fnmatchcase(got, wanted)
    loose = LOOSE_FROM.search(wanted) if wanted.startswith("error") else None
    return got.startswith(wanted[:loose.start()]) if loose else wanted == got


def generated(wanted):
    """A syntax error whose text in Cassandra is its parser generator's, not a message anyone wrote."""
    return bool(wanted and re.match(r"error 0x2000 (line \d+:|Failed parsing statement)", wanted[0]))


def complaint(path, step, wanted, got, way=""):
    diff = [d for d in difflib.unified_diff(wanted, got, "expected", "got", lineterm="", n=2)][2:]
    return f"{path.name}:{step.line}{way}: {step.statement}\n" + "\n".join(f"    {d}" for d in diff)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("verb", choices=["record", "replay"])
    options.add_argument("--target", required=True, help="ilion, cassandra, cassandra:DIR, or ADDRESS[:PORT]")
    options.add_argument("--as-ilion", action="store_true", help="the address is an Ilion node: expect our own answers")
    options.add_argument("--login", metavar="NAME:PASSWORD", help="who logs in for what no `-- as` says otherwise")
    options.add_argument("--quiet", action="store_true", help="only the count of complaints for each script")
    options.add_argument("files", nargs="*")
    given = options.parse_intermixed_args()
    login = tuple(given.login.split(":", 1)) if given.login else None
    files = given.files or sorted((HERE / "cql").glob("*.cqltest"))
    failed = statements = 0
    with tempfile.TemporaryDirectory() as scratch, open_target(given.target, scratch) as target:
        for path in files:
            runner = Runner(path, target, login=login)
            if given.verb == "record":
                complaints, count = runner.record(), len(runner.steps)
            else:
                count, complaints = runner.replay(given.as_ilion or target.name == "ilion")
            statements += count
            failed += len(complaints)
            print(f"{runner.path.name}: {count} statements, {len(complaints)} complaints", flush=True)
            if not given.quiet:
                for text in complaints:
                    print(f"  {text}")
    print(f"{statements} statements, {failed} complaints")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
