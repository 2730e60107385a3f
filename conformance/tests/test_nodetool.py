"""What nodetool changes of a running node, seen from outside."""
import json
import socket
import subprocess
import time

import pytest

from harness.node import Ilion
from harness.wire import Wire


@pytest.fixture
def node(request, tmp_path):
    if request.config.getoption("--target") != "ilion":
        pytest.skip("only for an Ilion node")
    with Ilion(tmp_path) as node:
        yield node


def refused(node, *words):
    command = [str(node.binary), "nodetool", "--admin", f"127.0.0.1:{node.admin_port}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 1, done
    return done.stderr


def log_of(node):
    return (node.directory / "ilion.log").read_text()


def test_timeouts_last_until_the_next_start(node):
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 5000 ms\n"
    assert node.nodetool("settimeout", "read", "1234") == ""
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 1234 ms\n"
    assert json.loads(node.nodetool("--json", "gettimeout", "write")) == {"kind": "write", "millis": 2000}
    assert "Timeout type requires one of (" in refused(node, "settimeout", "bogus", "5")
    assert "Timeout type requires one of (read, range," in refused(node, "gettimeout", "bogus")
    node.restart()
    assert node.nodetool("gettimeout", "read") == "Current timeout for type read: 5000 ms\n"


def test_a_part_of_the_program_logs_what_it_is_told_to(node):
    started = node.nodetool("getlogginglevels")
    assert [line.split() for line in started.splitlines()[2:]] == [["ROOT", "INFO"]]
    node.nodetool("setlogginglevel", "server", "DEBUG")
    assert [line.split() for line in node.nodetool("getlogginglevels").splitlines()[2:]] == [["ROOT", "INFO"], ["server", "DEBUG"]]
    assert "DEBUG" not in log_of(node)
    with socket.create_connection((node.address, node.port)) as client:
        client.sendall(b"\xff" * 64)
        deadline = time.monotonic() + 30
        while "malformed bytes" not in log_of(node):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert "LOUD is no level" in refused(node, "setlogginglevel", "server", "LOUD")
    node.nodetool("setlogginglevel")
    assert node.nodetool("getlogginglevels") == started
    node.nodetool("setlogginglevel", "ROOT", "OFF")
    node.nodetool("settimeout", "read", "5001")
    assert "a timeout of requests was changed" not in log_of(node)


def test_what_describes_the_node(node):
    wire = Wire(node.address, node.port)
    wire.must("SELECT key FROM system.local")
    pools = node.nodetool("tpstats").splitlines()
    assert pools[0].split()[:4] == ["Pool", "Name", "Active", "Pending"]
    assert any(line.startswith("Native-Transport-Requests ") for line in pools)
    assert node.nodetool("proxyhistograms").startswith("proxy histograms\nPercentile ")
    listed = node.nodetool("clientstats", "--all")
    assert "Total connected clients: 1\n" in listed and "\n/127.0.0.1:" in listed
    assert node.nodetool("gettraceprobability") == "Current trace probability: 0.0\n"
    node.nodetool("settraceprobability", "0.25")
    assert node.nodetool("gettraceprobability") == "Current trace probability: 0.25\n"
    assert node.nodetool("reloadlocalschema") == ""
    wire.close()
