"""What the suites stand on: when a node that was killed has let go of its ports."""
import pathlib
import platform
import subprocess
import sys
import time

from harness.node import alive

EXIT_THREAD = {"x86_64": 60, "aarch64": 93}[platform.machine()]
# The first thread ends and is a zombie, as that of a killed JVM is for a while; another still listens.
FIRST_THREAD_ENDS = f"""
import ctypes, socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)
"""


def until(check):
    for _ in range(1000):
        if check():
            return
        time.sleep(0.01)
    raise AssertionError("not within ten seconds")


def test_a_process_lives_until_its_last_thread_has_ended():
    process = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], stdin=subprocess.PIPE)
    try:
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        until(lambda: stat.read_text().rsplit(")", 1)[-1].split()[0] == "Z")
        assert alive(process.pid)
        process.kill()
        until(lambda: not alive(process.pid))
        assert stat.exists(), "it was not waited for"
    finally:
        process.kill()
        process.communicate()
    assert not alive(process.pid)
