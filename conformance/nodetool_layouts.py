"""Calls of nodetool on Cassandra and on Ilion, and the shape of what they print: what is the same whatever the numbers are.

`nodetool.txt` has a call in each line. Behind ` -- ` stands how Ilion differs on purpose, and why:

    order     the same lines in another order
    fewer     some lines of Cassandra's are not there, in any order
    words     other lines, the same exit status
    status    another exit status
"""
import dataclasses
import difflib
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
CASSANDRA = HERE / "cassandra"
TABS = re.compile(r"\s+")
MASKS = [(re.compile(pattern, re.MULTILINE), mask) for pattern, mask in (
    # Whatever follows the first line of a failure in Java is Java's.
    (r"\n-- StackTrace --\n[\s\S]*", "\n"),
    (r"\nerror: exit\n[\s\S]*", "\n"),
    (r"ilion nodetool", "nodetool"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d+)?", "TIME"),
    (r"(/[\w.-]+)+/(nt|nosuch)/[\w.-]+(/[\w.-]+)*", "PATH"),
    (r"/?127\.0\.\d+\.\d+(:\d+)?", "ADDRESS"),
    (r"-?\d+(\.\d+)?(E-?\d+)? ?(bytes|[KMGT]iB|B)\b", "SIZE"),
    (r"\bNaN\b|\bn/a\b", "N"),
    (r"\b(oa|nb|da)-[\w-]+-(big|bti)", "SSTABLE"),
    (r"(?<![\w.])-?\d+(\.\d+)?(E-?\d+)?(?![\w])", "N"),
    # Which tables were compacted, and how often.
    (r"ID +\w+ +\w+ +TIME", "ID KEYSPACE TABLE TIME"),
    (r"(keyspace_name|columnfamily_name)(\W+)\w+", r"\1\2NAME"),
    # Empty where a compaction wrote nothing.
    (r"\{(N:N(, N:N)*)?\}", "{N:N}"),
    (r"compaction_type:[\w ]+", "compaction_type:KIND"),
    # Of Jackson's objects the first or the last member is marked.
    (r",$|^ *- ", ""),
)]


@dataclasses.dataclass
class Call:
    words: list
    mode: str
    reason: str

    def difference(self, expected, found):
        """What is not as it should be, of pairs of an exit status and an output; None if all is."""
        (status, text), (expected_status, expected_text) = found, expected
        lines, expected_lines = shape(text), shape(expected_text)
        if status != expected_status and self.mode != "status":
            return f"{self.words} ends with {status}, Cassandra's with {expected_status}:\n{text}\n{expected_text}"
        is_so = {
            "": lines == expected_lines,
            "order": lines != expected_lines and set(lines) == set(expected_lines),
            "fewer": set(lines) < set(expected_lines),
            "words": lines != expected_lines,
            "status": status != expected_status,
        }[self.mode]
        if is_so:
            return None
        differing = difflib.unified_diff(expected_lines, lines, "Cassandra", "Ilion", n=0, lineterm="")
        return "\n".join([f"{self.words} {self.mode or 'should be the same'} {self.reason}", *differing])


def calls():
    """Every call, in order."""
    out = []
    for line in (HERE / "nodetool.txt").read_text().splitlines():
        text, _, difference = line.partition(" -- ")
        mode, _, reason = difference.partition(": ")
        out.append(Call(text.split(), mode, reason))
    return out


def shape(text):
    """The lines of an output without what depends on the node; lines that are alike count once."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    lines = []
    for line in text.splitlines():
        line = TABS.sub(" ", line).strip()
        if line and line not in lines[-8:]:
            lines.append(line)
    return lines


def on_cassandra(address, wanted, directory):
    """Status and output of each call, all in one JVM."""
    # As the launcher has it.
    _, _, third, fourth = map(int, address.split("."))
    port = 20_000 + third * 256 + fourth
    files = [directory / f"{at}.txt" for at in range(len(wanted))]
    lines = "".join("\t".join([str(file), "NodeTool", "-h", "127.0.0.1", "-p", str(port), *call.words]) + "\n"
                    for file, call in zip(files, wanted))
    done = subprocess.run([CASSANDRA, "tools"], input=lines, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout
    for file in files:
        text, _, status = file.read_text().rpartition("\nexit ")
        yield int(status), text


def on_ilion(node, wanted):
    """Status and output of each call."""
    for call in wanted:
        command = [str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", *call.words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        yield done.returncode, done.stdout
