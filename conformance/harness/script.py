"""The `.cqltest` file: statements, directives and recorded expectations. README.md describes the form for people.

A file is parsed into steps and printed back from them, so that `record` rewrites expectations and nothing else:

    Step = lines before it (comments, blank lines, directives), statement or action, expectation lines, our own lines

Lines start with `//` (comment), `-- ` (directive), `--> ` (what Cassandra answers), `--| ` (what Ilion answers where it
differs on purpose); anything else is CQL, up to a line that ends with `;` (for BEGIN ... up to `APPLY BATCH;`).
"""
import re

ACTIONS = ("flush", "compact", "restart")
OPTIONS = ("bind", "consistency", "serial", "page_size", "show-pages", "timestamp", "skip-order", "differs", "prepare",
           "no-variants", "version", "as")


class Step:
    """One statement or action with what stands before and after it."""

    def __init__(self, line):
        self.line = line
        self.before = []
        self.options = {}
        self.action = None
        self.cql = []
        self.expected = []
        self.ours = []

    @property
    def statement(self):
        """The text to send: without its last semicolon, line breaks kept."""
        return "\n".join(self.cql).rstrip().removesuffix(";")

    @property
    def is_select(self):
        return bool(re.match(r"\s*SELECT\b", self.statement, re.I))

    def text(self):
        lines = self.before + self.cql
        lines += [f"--> {x}".rstrip() for x in self.expected] + [f"--| {x}".rstrip() for x in self.ours]
        return "".join(f"{x}\n" for x in lines)


class ScriptError(Exception):
    """The file is not a script: says the line."""


def parse(text):
    """(steps, lines after the last step)."""
    steps, step, pending, options = [], None, [], {}
    inside = None
    for number, line in enumerate(text.splitlines(), 1):
        if inside:
            inside.cql.append(line)
            if complete(inside):
                inside = None
        elif line.startswith("-->") or line.startswith("--|"):
            if step is None or pending or step.action:
                raise ScriptError(f"line {number}: an expectation without a statement")
            (step.expected if line[2] == ">" else step.ours).append(line[4:])
        elif not line.strip() or line.startswith("//"):
            pending.append(line)
        elif line.startswith("-- "):
            name, _, value = line[3:].partition(" ")
            name = name.rstrip(":")
            pending.append(line)
            if name in ACTIONS:
                step = Step(number)
                step.action, step.before, step.options = name, pending, options
                steps.append(step)
                pending, options = [], {}
            elif name in OPTIONS:
                options[name] = value.strip()
            else:
                raise ScriptError(f"line {number}: unknown directive {name!r}")
        else:
            step = inside = Step(number)
            step.before, step.options = pending, options
            step.cql.append(line)
            steps.append(step)
            pending, options = [], {}
            if complete(step):
                inside = None
    if inside:
        raise ScriptError(f"line {inside.line}: a statement without its ;")
    return steps, pending


def complete(step):
    end = step.cql[-1].rstrip()
    if re.match(r"\s*BEGIN\b", step.cql[0], re.I):
        return bool(re.search(r"APPLY\s+BATCH\s*;$", end, re.I))
    return end.endswith(";")


def show(steps, rest):
    return "".join(s.text() for s in steps) + "".join(f"{x}\n" for x in rest)
