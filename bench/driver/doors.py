"""What is measured of TLS and of roles, and in which order.

A door is a node, one of its ports, and what the client says there. All doors of a load take turns within a round, in the second
round backwards, so that a ratio of two doors is of figures that are seconds apart. One node at a time runs.
"""
import contextlib
import copy
import ipaddress
import json
import subprocess
import threading
import time
from dataclasses import dataclass, field

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

from . import machine, plan, rounds
from .client import Failed
from .servers import PORT, cassandra, ilion
from .turns import Turns

KEYSPACE = plan.KEYSPACE
TLS_PORT = 9142
ROLE, PASSWORD = "app", "what an application would have"
SUPERUSER = {"user": "cassandra", "password": "cassandra"}
# The default superuser comes some seconds after the port.
SUPERUSER_PATIENCE_S = 60
ROLES = ["authenticator: PasswordAuthenticator", "authorizer: CassandraAuthorizer", "role_manager: CassandraRoleManager"]
BCRYPT_ROUNDS = 10
# New connections: so many threads of the client.
THREADS = 4
# Who fails to log in waits for its turn: so many of them.
FAILING_THREADS = 128
# Reads beside failing logins: parts of so many seconds, and nothing is measured for a moment before each.
PART_S, BREATH_S = 3.0, 0.5


@dataclass
class Door:
    """Where the client asks, and as whom."""
    name: str
    node: object
    port: int = PORT
    settings: dict = field(default_factory=dict)

    @property
    def endpoint(self):
        return f"{self.node.node.address}:{self.port}"

    @property
    def endpoints(self):
        return [self.endpoint]

    @property
    def pids(self):
        return self.node.pids


def certificates(directory, addresses):
    """Of `ilion tls`, for both servers."""
    hosts = [word for address in addresses for word in ("--host", address)]
    subprocess.run([machine.ilion_binary(), "tls", directory, *hosts], check=True, stdout=subprocess.DEVNULL)
    return directory / "ca.crt", directory / "node.pem"


def nodes(directory, given):
    """{(kind, name): a server of one node}, and the authority that clients trust."""
    wanted = [(cassandra, given.cassandra_address, ("open", "roles")), (ilion, given.ilion_address, ("open", "roles", "again"))]
    places = {(make.__name__, name): str(ipaddress.IPv4Address(first) + number)
              for make, first, names in wanted for number, name in enumerate(names)}
    ca, key = certificates(directory / "tls", places.values())
    tls = {"enabled": True, "optional": False, "keystore": str(key),
           "ssl_context_factory": {"class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory"}}
    found = {}
    for make, _, names in wanted:
        for name in names:
            kind = make.__name__
            yaml = [f"native_transport_port_ssl: {TLS_PORT}", f"client_encryption_options: {json.dumps(tls)}", *ROLES * (name == "roles")]
            of_one = copy.copy(given)
            of_one.cassandra_yaml, of_one.ilion_yaml = [*given.cassandra_yaml, *yaml], [*given.ilion_yaml, *yaml]
            of_one.cassandra_address = of_one.ilion_address = places[kind, name]
            server = make(directory / kind / name, of_one)
            server.name = f"{kind}, {name}"
            found[kind, name] = server
    return found, ca


def run(client, directory, given, results, save):
    found, ca = nodes(directory, given)
    tls = {"tls_ca": ca}
    role = {"user": ROLE, "password": PASSWORD}
    with Turns(found.values(), results["failures"]) as turns:
        bench = Bench(client, turns, given, results)
        bench.load()
        kinds = ("cassandra", "ilion")
        reads = [door for kind in kinds for door in (
            Door(f"{kind}, plain", found[kind, "open"]), Door(f"{kind}, TLS", found[kind, "open"], TLS_PORT, tls),
            Door(f"{kind}, role", found[kind, "roles"], settings=role),
            Door(f"{kind}, role and TLS", found[kind, "roles"], TLS_PORT, {**tls, **role}))]
        reads.append(Door("ilion, plain again", found["ilion", "again"]))
        closed = bench.reads("closed loop", reads, in_flight=given.in_flight)
        save()
        rate = round(rounds.middle(closed["cassandra, plain"], lambda run: run["operations_per_s"]) / 2)
        bench.reads("fixed rate", reads, rate=rate)
        save()
        new = [door for kind in kinds for door in (
            Door(f"{kind}, plain", found[kind, "open"]), Door(f"{kind}, TLS", found[kind, "open"], TLS_PORT, tls))]
        bench.logins("new connections", new, threads=THREADS)
        words = [Door(f"{kind}, login and TLS", found[kind, "roles"], TLS_PORT, {**tls, **role}) for kind in kinds]
        bench.logins("logins", words, threads=1, bcrypt=BCRYPT_ROUNDS)
        save()
        for kind in kinds:
            bench.beside_failures(Door(f"{kind}, role", found[kind, "roles"], settings=role), rate)
        save()


class Bench:
    """Measures doors by turns; what it finds is put into the results as it comes."""

    def __init__(self, client, turns, given, results):
        self.client, self.turns, self.given, self.results = client, turns, given, results
        self.seed = 0

    def load(self):
        def fill(server):
            door = SUPERUSER if server.name.endswith("roles") else {}
            if door:
                with superuser(server) as session:
                    session.execute("CREATE ROLE reader WITH LOGIN = false")
                    session.execute(f"CREATE ROLE {ROLE} WITH LOGIN = true AND PASSWORD = '{PASSWORD}'")
                    session.execute(f"GRANT reader TO {ROLE}")
                    self.client.schema(server, 1, **door)
                    session.execute(f"GRANT SELECT ON KEYSPACE {KEYSPACE} TO reader")
            else:
                self.client.schema(server, 1)
            self.client.run(server, "load-base", self.given, in_flight=plan.LOAD_IN_FLIGHT, **door)
            machine.say(f"{server.name}: flushing and compacting")
            server.settle(KEYSPACE)

        self.turns.each(fill)

    def through(self, doors, work, backwards=False):
        """Does the work with each door whose node still takes part, in its turn."""
        for door in doors[::-1 if backwards else 1]:
            if door.node in self.turns.servers:
                self.turns.turn(door.node, lambda _: work(door))

    def reads(self, load, doors, **how):
        """All rounds of one load of reads; returns the runs by door."""
        seconds = max(self.given.seconds, plan.RATE_SECONDS_MIN / 2) if "rate" in how else self.given.seconds
        runs = {}

        def ask(door, **timing):
            return self.client.run(door, "point-read", self.given, seed=self.seed, **how, **door.settings, **timing)

        def warm_up(door):
            ask(door, seconds=plan.warm_up_s(door.name.split(",")[0], self.given))

        def a_round(door):
            runs.setdefault(door.name, []).append(ask(door, warm_up_s=plan.LEAD_IN_S, seconds=seconds))

        self.rounds(doors, warm_up, a_round)
        return self.keep(load, runs, how)

    def logins(self, load, doors, **how):
        runs = {}

        def ask(door, seconds):
            return self.client.logins(door, door.endpoint, seconds=seconds, **how, **door.settings)

        def a_round(door):
            runs.setdefault(door.name, []).append(ask(door, self.given.seconds))

        self.rounds(doors, lambda door: ask(door, plan.warm_up_s(door.name.split(",")[0], self.given)), a_round)
        self.keep(load, runs, {"in_flight": how["threads"]})

    def rounds(self, doors, warm_up, a_round):
        self.seed += 1
        self.through(doors, warm_up)
        for number in range(self.given.rounds):
            self.seed += 1
            self.through(doors, a_round, backwards=number % 2)

    def keep(self, load, runs, how):
        how = {"in_flight": how.get("in_flight"), "rate": how.get("rate")}
        kept = {name: {**how, "rounds": ran} for name, ran in runs.items()}
        for name, ran in kept.items():
            self.results["runs"][f"{load}: {name}"] = ran
            plan.tell(name, load, ran)
        return kept

    def beside_failures(self, door, rate):
        """Reads at a fixed rate, alone and while others fail to log in, by turns."""
        def measure(door):
            self.seed += 1
            failing = []
            with self.client.parts(door, "point-read", self.given, seed=self.seed, rate=rate, **door.settings) as reads:
                time.sleep(plan.warm_up_s(door.name.split(",")[0], self.given))
                for _ in range(self.given.rounds):
                    reads.begin("alone")
                    time.sleep(PART_S)
                    reads.pause()
                    with Failing(self.client, door, self.given.failures) as crowd:
                        time.sleep(BREATH_S)
                        reads.begin("beside failing logins")
                        time.sleep(PART_S)
                        reads.pause()
                    failing.append(crowd.ran)
                    time.sleep(BREATH_S)
                parts = {part["part"]: part for part in reads.end()}
            for name, part in parts.items():
                self.results["runs"][f"{name}: {door.name}"] = {"in_flight": None, "rate": rate, "rounds": [part]}
                plan.tell(door.name, name, {"in_flight": None, "rate": rate, **part})
            self.results["runs"][f"failing logins: {door.name}"] = {"in_flight": FAILING_THREADS, "rate": self.given.failures, "rounds": failing}

        self.through([door], measure)


class Failing:
    """Somebody who tries passwords, from many addresses, until the end."""

    def __init__(self, client, door, rate):
        self.work = lambda: client.logins(door, door.endpoint, rate=rate, threads=FAILING_THREADS, seconds=PART_S + 2 * BREATH_S, user=ROLE,
                                          password="wrong", refused=True, from_many=True)
        self.ran, self.error = None, None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.ran = self.work()
        except Failed as error:
            self.error = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()
        if self.error:
            raise self.error


@contextlib.contextmanager
def superuser(server):
    """A session of the default superuser, who comes a while after the port."""
    profile = ExecutionProfile(WhiteListRoundRobinPolicy([server.node.address]), request_timeout=60)
    deadline = time.monotonic() + SUPERUSER_PATIENCE_S
    while True:
        cluster = Cluster([server.node.address], port=PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                          auth_provider=PlainTextAuthProvider(SUPERUSER["user"], SUPERUSER["password"]))
        try:
            session = cluster.connect()
            break
        except Exception:  # noqa: BLE001: whatever a driver says of it
            cluster.shutdown()
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
    try:
        yield session
    finally:
        cluster.shutdown()
