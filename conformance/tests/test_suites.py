"""The lanes of `make test`: what runs beside each other, and what a failure ends."""
import importlib.machinery
import importlib.util
import pathlib
import signal
import threading

import pytest

import times

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "suites"


@pytest.fixture
def suites(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("suites", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites", loader))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    module.LOGS = tmp_path / "logs"
    return module


@pytest.fixture
def lanes(suites, tmp_path):
    said = []
    made = suites.Lanes(said.append, tmp_path / "times.jsonl")
    made.said = said
    return made


def step(suites, name, script, after=None):
    return suites.Step(name, ["sh", "-c", script], after)


def test_lanes_run_beside_each_other_and_are_recorded(suites, lanes, tmp_path):
    # Each waits for the other: one after the other they would wait for ever.
    meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo {2}"
    one, two = tmp_path / "one", tmp_path / "two"
    assert lanes.together((True, [step(suites, "front", meet.format(one, two, ""))]),
                          (False, [step(suites, "beside", meet.format(two, one, "seen; echo '   Compiling x'"))]))
    assert len(lanes.said) == 1 and lanes.said[0].endswith("\nseen\n")
    assert {line["step"] for line in times.read(lanes.path)} == {"front", "beside"}


def test_a_step_waits_for_one_of_the_other_lane(suites, lanes, tmp_path):
    made = tmp_path / "made"
    assert lanes.together((True, [step(suites, "front", f"test -e {made}", after="first")]),
                          (False, [step(suites, "first", f"sleep 0.2; touch {made}"), step(suites, "second", "true")]))


def test_a_step_does_not_wait_for_one_that_failed(suites, lanes, tmp_path):
    never = tmp_path / "never"
    assert not lanes.together((True, [step(suites, "front", f"touch {never}", after="second")]),
                              (False, [step(suites, "first", "exit 3"), step(suites, "second", "true")]))
    assert lanes.failed == "first" and not never.exists()


@pytest.mark.parametrize("is_in_front", [True, False])
def test_a_failure_ends_the_other_lane_and_all_that_it_started(is_in_front, suites, lanes, tmp_path):
    ready = tmp_path / "ready"
    bad = step(suites, "bad", f"while [ ! -e {ready} ]; do sleep 0.01; done; echo why; exit 3")
    assert not lanes.together((is_in_front, [bad, step(suites, "never", f"touch {tmp_path}/never")]),
                              (not is_in_front, [step(suites, "endless", f"(: > {ready}; sleep 1000); true"), bad]))
    assert lanes.failed == "bad"
    assert not (tmp_path / "never").exists()
    assert any("why" in text for text in lanes.said) != is_in_front


def test_a_command_that_is_not_there_fails(suites, lanes):
    assert not lanes.together((False, [suites.Step("missing", ["no-such-command"])]))
    assert lanes.failed == "missing" and "no-such-command" in lanes.said[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_a_lane_is_a_failure(suites, lanes):
    assert not lanes.together((True, ["no step"]), (False, [step(suites, "endless", "exec sleep 1000")]))


def test_a_signal_ends_what_runs(suites, lanes, tmp_path):
    ready = tmp_path / "ready"
    endless = step(suites, "endless", f": > {ready}; exec sleep 1000")
    together = threading.Thread(target=lanes.together, args=((True, [endless]),))
    together.start()
    while not ready.exists():
        assert together.is_alive()
        together.join(0.01)
    lanes.fail(signal.SIGINT.name)
    together.join()
    assert lanes.failed == "SIGINT"
