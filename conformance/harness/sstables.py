"""SSTables that a real Cassandra's CQLSSTableWriter writes, without a node (`SsTables.java` says what it is told)."""
import subprocess

from harness.node import CASSANDRA, ROOT

PROGRAM = ROOT / "conformance" / "harness" / "SsTables.java"


def row(values):
    """The line of a row, of its values as bytes; None is null."""
    return "\t".join(["row", *("null" if value is None else value.hex() or "-" for value in values)])


def write(release, lines):
    """Has a release write what the lines say."""
    done = subprocess.run([str(CASSANDRA), "--version", release, "java", str(PROGRAM)], input="\n".join(lines) + "\n", text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    if done.returncode or "done" not in done.stdout:
        raise RuntimeError(f"CQLSSTableWriter failed:\n{done.stdout[-4000:]}")
