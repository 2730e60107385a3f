"""The load generator of bench/client: building it and running it."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / ".build" / "bench"


def build(program=None):
    """Builds the client and returns it; or returns a program that was built already."""
    if program:
        return Client(program)
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", TARGET],
                   cwd=ROOT / "bench" / "client", check=True)
    return Client(TARGET / "release" / "bench-client")


class Failed(Exception):
    """The client could not finish a run."""


class Client:
    """The program; every method is one run of it."""

    def __init__(self, program):
        self.program = program

    def schema(self, server, replicas, **door):
        self._finish([self.program, "schema", "--address", ",".join(server.endpoints), "--replicas", replicas, *options(door)])

    def logins(self, server, endpoint, **settings):
        """Connections that come and go; returns what the client printed, and the command."""
        settings = {"address": endpoint, "server_pid": ",".join(map(str, server.pids)), **settings}
        command = [self.program, "logins", *options(settings)]
        return {**json.loads(self._finish(command)), "command": shown(command)}

    def alter(self, server, seconds):
        """Changes the schema for so long; returns how often."""
        return int(self._finish([self.program, "alter", "--address", server.endpoint, "--seconds", seconds]))

    def run(self, server, workload, given, **settings):
        """One run of a workload; returns what the client printed, and the command."""
        command = self._command(server, workload, given, settings)
        return {**json.loads(self._finish(command)), "command": shown(command)}

    def parts(self, server, workload, given, **settings):
        """A run that goes on until it is told to end."""
        return Parts([*self._command(server, workload, given, settings), "--parts"])

    def _command(self, server, workload, given, settings):
        settings = {"address": ",".join(server.endpoints), "workload": workload, "partitions": given.partitions,
                    "connections": given.connections, "threads": given.threads, "protocol": given.protocol,
                    "consistency": given.consistency, "server_pid": ",".join(map(str, server.pids)), **settings}
        return [str(self.program), "run", *options(settings)]

    def null_server(self, address):
        return subprocess.Popen([self.program, "null", "--address", address], stdout=subprocess.PIPE, text=True)

    def _finish(self, command):
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, **ALONE)
        if done.returncode:
            raise failed(command, done.returncode, done.stderr)
        return done.stdout


class Parts:
    """A run of which parts are measured, as they are named."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, **ALONE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def begin(self, name):
        """What is asked from now on belongs to this part."""
        self._say(name)

    def pause(self):
        """What is asked from now on is not measured."""
        self._say("")

    def end(self):
        """The figures of each part."""
        out, errors = self.process.communicate()
        if self.process.returncode:
            raise failed(self.command, self.process.returncode, errors)
        return [{**json.loads(line), "command": shown(self.command)} for line in out.splitlines()]

    def _say(self, line):
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            # It has ended, and says why.
            self.end()


# A session of its own: the kernel shares the processors out to sessions first (`sched_autogroup_enabled`), and
# Cassandra's launcher makes one for its server.
ALONE = {"env": {**os.environ, "RUST_BACKTRACE": "1"}, "start_new_session": True}


def options(settings):
    """Settings as the client's options: a true one is a flag, one without a value is left out."""
    pairs = ((f"--{name.replace('_', '-')}", value) for name, value in settings.items() if value not in (None, False))
    return [word for name, value in pairs for word in ([name] if value is True else [name, str(value)])]


def failed(command, status, errors):
    return Failed(f"{' '.join(map(str, command))}\nended with {status}: {errors.strip()[-2000:]}")


def shown(command):
    return " ".join(["bench-client", *map(str, command[1:])])
