"""Servers that share a machine, of which one at a time runs.

The others are stopped where they are (SIGSTOP): they keep their memory and take no processor. So the servers can be
measured within seconds of each other, and a machine that becomes slower meanwhile does so for all of them.
"""
import contextlib
import subprocess

from . import machine
from .client import Failed

FAILURES = (Failed, RuntimeError, OSError, subprocess.SubprocessError)


class Turns:
    """The servers that still take part; what became of the others is in `failures`."""

    def __init__(self, servers, failures):
        self.servers, self.failures = list(servers), failures

    def __enter__(self):
        self.each(lambda server: server.start())
        return self

    def __exit__(self, *_):
        self.each(lambda server: server.stop())

    def each(self, work, backwards=False):
        """Does the work with each server, in its turn."""
        for server in self.servers[::-1 if backwards else 1]:
            self.turn(server, work)

    def turn(self, server, work):
        """Does the work with one server while the others are stopped. One that fails is stopped and has had its last turn: what the
        others are measured at is kept."""
        for other in self.servers:
            other.pause() if other is not server else other.resume()
        try:
            work(server)
        except FAILURES as error:
            machine.say(f"{server.name}: {error}")
            self.failures.append(f"{server.name} could not be measured to the end: {error}")
            self.servers.remove(server)
            with contextlib.suppress(*FAILURES):
                server.stop()
