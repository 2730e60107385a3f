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


def sh(script):
    return ["sh", "-c", script]


def test_lanes_run_beside_each_other_and_are_recorded(lanes, tmp_path):
    # Each waits for the other: one after the other they would wait for ever.
    meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; echo {2}"
    one, two = tmp_path / "one", tmp_path / "two"
    assert lanes.together((True, [("front", sh(meet.format(one, two, "")))]),
                          (False, [("beside", sh(meet.format(two, one, "seen; echo '   Compiling x'")))]))
    assert len(lanes.said) == 1 and lanes.said[0].endswith("\nseen\n")
    assert {line["step"] for line in times.read(lanes.path)} == {"front", "beside"}


@pytest.mark.parametrize("is_in_front", [True, False])
def test_a_failure_ends_the_other_lane_and_all_that_it_started(is_in_front, lanes, tmp_path):
    ready = tmp_path / "ready"
    bad = ("bad", sh(f"while [ ! -e {ready} ]; do sleep 0.01; done; echo why; exit 3"))
    assert not lanes.together((is_in_front, [bad, ("never", sh(f"touch {tmp_path}/never"))]),
                              (not is_in_front, [("endless", sh(f"(: > {ready}; sleep 1000); true")), bad]))
    assert lanes.failed == "bad"
    assert not (tmp_path / "never").exists()
    assert any("why" in text for text in lanes.said) != is_in_front


def test_a_command_that_is_not_there_fails(lanes):
    assert not lanes.together((False, [("missing", ["no-such-command"])]))
    assert lanes.failed == "missing" and "no-such-command" in lanes.said[0]


def test_a_signal_ends_what_runs(lanes, tmp_path):
    ready = tmp_path / "ready"
    together = threading.Thread(target=lanes.together, args=((True, [("endless", sh(f": > {ready}; exec sleep 1000"))]),))
    together.start()
    while not ready.exists():
        together.join(0.01)
    lanes.fail(signal.SIGINT.name)
    together.join()
    assert lanes.failed == "SIGINT"
