"""The load generator of bench/client: building it and running it."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / ".build" / "bench"


def build():
    """Builds the client and returns it."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", TARGET],
                   cwd=ROOT / "bench" / "client", check=True)
    return Client(TARGET / "release" / "bench-client")


class Failed(Exception):
    """The client could not finish a run."""


class Client:
    """The program; every method is one run of it."""

    def __init__(self, program):
        self.program = program

    def schema(self, server):
        self._finish([self.program, "schema", "--address", server.endpoint])

    def alter(self, server, seconds):
        """Changes the schema for so long; returns how often."""
        return int(self._finish([self.program, "alter", "--address", server.endpoint, "--seconds", seconds]))

    def run(self, server, workload, given, **settings):
        """One run of a workload; returns what the client printed, and the command."""
        settings = {"address": server.endpoint, "workload": workload, "partitions": given.partitions,
                    "connections": given.connections, "threads": given.threads,
                    "protocol": given.protocol, "server_pid": server.pid, **settings}
        command = [str(self.program), "run"]
        for name, value in settings.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        figures = json.loads(self._finish(command))
        shown = ["bench-client", *command[1:]]
        return {**figures, "command": " ".join(shown)}

    def null_server(self, address):
        return subprocess.Popen([self.program, "null", "--address", address], stdout=subprocess.PIPE, text=True)

    def _finish(self, command):
        # A session of its own: the kernel shares the processors out to sessions first (`sched_autogroup_enabled`), and
        # Cassandra's launcher makes one for its server.
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "RUST_BACKTRACE": "1"}, start_new_session=True)
        if done.returncode:
            raise Failed(f"{' '.join(map(str, command))}\nended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout
