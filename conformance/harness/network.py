"""A network of this process's own, in which nodes can be cut off from the others.

`conformance/own-network` gives a process and its children a network that has nothing but a loopback interface. There rules of
routing may be changed without harm to anybody. All nodes have addresses of that interface, so a rule for an address cuts one of them off:
what is sent on connections that are open is lost without a word, as behind a switch that has died. New ones are refused.
"""
import contextlib
import functools
import pathlib
import subprocess


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@functools.cache
def is_own():
    """Whether rules may be changed here."""
    try:
        interfaces = [line.split(":")[0].strip() for line in pathlib.Path("/proc/self/net/dev").read_text().splitlines()[2:]]
        if interfaces != ["lo"]:
            return False
        # Otherwise the rules that find loopback addresses come before all others.
        ip("rule", "add", "pref", "5", "lookup", "local")
        ip("rule", "del", "pref", "0")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@contextlib.contextmanager
def cut_off(address):
    """Nothing goes to an address, and nothing comes from it."""
    rules = [["pref", "1", way, address, "blackhole"] for way in ("to", "from")]
    for rule in rules:
        ip("rule", "add", *rule)
    try:
        yield
    finally:
        for rule in rules:
            ip("rule", "del", *rule)
