"""How `make soak` shares out its time and its seeds."""
import importlib.machinery
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("soak", str(ROOT / ".ci" / "soak"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(module)
    return module


class Rounds:
    """Rounds that take ten seconds each, by a clock of their own."""

    def __init__(self, fails=lambda words: False):
        self.now, self.commands, self.fails = 0.0, [], fails

    def run(self, words):
        self.now += 10
        self.commands.append(words)
        return not self.fails(words)

    def of(self, soak, names, seconds, seed=1):
        return soak.soak(names, seconds, seed, self.run, lambda: self.now, lambda text: None)


def test_each_suite_has_its_share_and_no_seed_twice(soak):
    rounds = Rounds()
    assert rounds.of(soak, ["histories", "crashes"], 60) == []
    seeds = [int(re.search(r"--seed (\d+)", words)[1]) for words in rounds.commands]
    assert seeds == [1, 51, 101, 100_001, 100_002, 100_003]


def test_what_knows_its_time_runs_once(soak):
    rounds = Rounds()
    rounds.of(soak, ["simulation", "fuzz"], 600, seed=7)
    assert len(rounds.commands) == 2
    assert rounds.commands[0].startswith("SIM_SEED=7 SIM_SECONDS=300 ")


def test_every_suite_runs_however_short_the_time(soak):
    rounds = Rounds()
    rounds.of(soak, list(soak.SUITES), 1)
    assert len(rounds.commands) == len(soak.SUITES)


def test_a_failure_is_told_with_its_command_and_the_others_go_on(soak):
    rounds = Rounds(fails=lambda words: "test_crash.py" in words)
    failed = rounds.of(soak, ["crashes", "histories"], 60)
    assert failed == [rounds.commands[0]] and "--seed 1 --rounds 10" in failed[0]
    assert len(rounds.commands) == 4


def test_the_suites_are_where_their_commands_look(soak):
    commands = [command(1, 1) for _, command in soak.SUITES.values()]
    named = [found[1] for words in commands if (found := re.search(r"tests/(test_\w+\.py)", words))]
    assert named and all((ROOT / "conformance" / "tests" / name).exists() for name in named)
