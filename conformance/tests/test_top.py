"""`ilion top` as a person sees it on a terminal, and what it prints for scripts, against a node that is being read."""
import json
import re
import signal
import subprocess
import threading

import pytest

from harness import node as nodes
from harness.node import Ilion, free_port
from harness.terminal import Terminal
from harness.wire import Wire

STATEMENT = "SELECT name, price FROM shop.items WHERE shelf = 7 LIMIT 20"
ESCAPE, ENTER, TAB, UP = "\x1b", "\r", "\t", "\x1b[A"


class Readers:
    """Reads one partition of `shop.items` again and again, until the end."""

    def __init__(self, node):
        self.over, self.wire = threading.Event(), Wire(node.address, node.port)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.over.wait(0.005):
            self.wire.must(STATEMENT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.wire.close()


@pytest.fixture(scope="module")
def shop(request, tmp_path_factory):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    with Ilion(tmp_path_factory.mktemp("top")) as node:
        wire = Wire(node.address, node.port)
        wire.must("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        wire.must("CREATE TABLE shop.items (shelf int, name text, price int, PRIMARY KEY (shelf, name))")
        for n in range(100):
            wire.must(f"INSERT INTO shop.items (shelf, name, price) VALUES (7, 'item {n:03}', {n})")
        node.flush()
        wire.must(STATEMENT)  # its pages are in memory from now on
        wire.close()
        with Readers(node):
            yield node


def command(node, *options):
    return [node.binary, "top", "--admin", f"127.0.0.1:{node.admin_port}", *options]


def run(words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_once_prints_an_interval(shop):
    done = run(command(shop, "--once"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:5] == ["TABLE", "READS/S", "P50", "P99", "P99.9"]
    assert lines[1].split()[0] == "all" and lines[2].split()[0] == "shop.items"
    # A read of one SSTable, whose pages are in memory. What counts reads is read a moment before what counts SSTables.
    title, of = lines[0].split(), lines[2].split()
    assert float(of[title.index("SST")]) == pytest.approx(1, abs=0.1)
    assert (of[title.index("HIT%")], of[title.index("AMP")]) == ("100.0", "0")
    assert any(re.fullmatch(r"\S+(-\S+| and more) +\S+ +#+", line) for line in lines)


def test_json_is_for_scripts(shop):
    done = run(command(shop, "--once", "--json"))
    assert done.returncode == 0, done.stderr
    interval = json.loads(done.stdout)
    (table,) = [t for t in interval["tables"] if t["table"] == "items"]
    assert table["keyspace"] == "shop" and table["reads"] > 0 and table["rows"] == pytest.approx(20, abs=2)
    assert table["sstables"] == pytest.approx(1, abs=0.1)
    assert table["p50_micros"] <= table["p99_micros"] <= table["max_micros"]
    assert interval["all"]["reads"] >= table["reads"]
    assert sum(map(sum, interval["heat"]["counts"])) > 0
    with subprocess.Popen([str(w) for w in command(shop, "--json")], stdout=subprocess.PIPE, text=True) as process:
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.terminate()
    assert all(line["all"]["reads"] > 0 for line in lines), "a line for each interval"


def test_errors_are_clear():
    nobody = f"127.0.0.1:{free_port()}"
    binary = nodes.ilion_binary()
    done = run([binary, "top", "--once", "--admin", nobody])
    assert done.returncode == 2 and nobody in done.stderr and "Is the node running?" in done.stderr
    done = run([binary, "top", "--admin", nobody])
    assert done.returncode == 1 and "--once" in done.stderr, "no terminal"
    with Terminal([binary, "top", "--admin", nobody], TERM="dumb") as terminal:
        assert terminal.end() == 1
    assert run([binary, "top", "--interval", "0"]).returncode == 2


def test_shows_tables_and_reads_of_a_band(shop):
    with Terminal(command(shop), TERM="xterm-256color") as terminal:
        lines = terminal.wait_for_text("shop.items", "READ LATENCY", "q quit")
        assert lines[0].startswith(f"ilion top - 127.0.0.1:{shop.admin_port} - Test Cluster - up ")
        assert lines[2].split()[:3] == ["TABLE", "vREADS/S", "P50"]
        assert terminal.colors == {"256"}
        terminal.press("s")
        terminal.wait_for_text("vP50")
        # The band of the newest reads, as far as it goes back.
        terminal.press(TAB + "b")
        terminal.wait_for(lambda lines: any(re.search(r"READ LATENCY  .* to .*: [1-9]\S* reads", line) for line in lines))
        terminal.press(ENTER)
        lines = terminal.wait_for(lambda lines: any(re.search(r"[1-9]\d* kept", line) for line in lines))
        assert any("shop.items" in line and "7" in line for line in lines)
        terminal.press(ENTER)
        terminal.wait_for_text("READ 1 of", "client     127.0.0.1:", "table      shop.items", "waited     ", STATEMENT,
                               "WHERE shelf = 7 LIMIT 20")
        terminal.wait_for_text("sstables_read=1", "rows_scanned=20")
        terminal.press(ESCAPE)
        terminal.wait_for_text("vTOOK")
        terminal.press(ESCAPE)
        terminal.wait_for_text("vP50")
        terminal.resize(140, 40)
        terminal.wait_for(lambda lines: "MAX" in lines[2] and lines[39].startswith("q quit"))
        terminal.resize(30, 5)
        terminal.wait_for_text("window too small")
        terminal.resize(80, 24)
        terminal.wait_for_text("shop.items", "READ LATENCY")
        terminal.press("?")
        terminal.wait_for_text("any key: back")
        terminal.press("x")
        terminal.wait_for_text("READ LATENCY")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_as_before()


def test_the_mouse_selects(shop):
    with Terminal(command(shop), TERM="xterm") as terminal:
        terminal.wait_for_text("shop.items", "READ LATENCY")
        assert 1000 in terminal.modes
        # A click on the title of P99, the fourth column.
        terminal.press("\x1b[<0;43;3M\x1b[<0;43;3m")
        terminal.wait_for_text("vP99 ")
        # From one corner of the heat map to the other: cells begin at column 8, line 11.
        terminal.press("\x1b[<0;8;11M\x1b[<32;40;15M\x1b[<32;80;22M\x1b[<0;80;22m")
        terminal.wait_for(lambda lines: any(re.search(r"[1-9]\d* kept", line) for line in lines))
        terminal.press("q")
        assert terminal.end() == 0 and terminal.is_as_before()


@pytest.mark.parametrize("environment, colors", [
    ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"truecolor"}),
    ({"TERM": "linux"}, {"16"}),
    ({"TERM": "vt100"}, set()),
    ({"TERM": "xterm-256color", "NO_COLOR": "1"}, set()),
])
def test_uses_the_colours_that_there_are(shop, environment, colors):
    with Terminal(command(shop, "--no-mouse"), **environment) as terminal:
        terminal.wait_for_text("shop.items", "READ LATENCY")
        assert terminal.colors - {"16"} == colors - {"16"} and (colors or not terminal.colors)
        assert 1000 not in terminal.modes
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 0
        assert terminal.is_as_before(), "a signal leaves the terminal as it was"


def test_a_node_that_goes_away_is_waited_for(tmp_path, needs_ilion, monkeypatch):
    port = free_port()
    monkeypatch.setattr(nodes, "free_port", lambda *_: port)
    node = Ilion(tmp_path)
    node.admin_port = port
    with Terminal(command(node), TERM="xterm") as terminal:
        terminal.wait_for_text("no answer for", "still trying", "refused")
        with node:
            terminal.wait_for_text("Test Cluster", "reads/s")
        terminal.wait_for_text("Test Cluster - no answer for")
        with node:
            terminal.wait_for_text("reads/s")
        terminal.press("\x03")
        assert terminal.end() == 0 and terminal.is_as_before()
