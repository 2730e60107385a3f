"""The table of times: what its lines may be like, and what it says."""
import json
import subprocess
import sys
import time

import times


def line(step, wall_s, cpu_s, ended_s, **more):
    return {"step": step, "wall_s": wall_s, "cpu_s": cpu_s, "ended_s": ended_s, **more}


def test_steps_have_their_groups_below_them_and_a_total():
    shown = times.table([
        line("clippy", 10.0, 18.0, 1010.0),
        line("suites", 2.0, 1.0, 1012.0, group="test_a.py", test="one"),
        line("suites", 4.0, 3.0, 1016.0, group="test_b.py", test="two"),
        line("suites", 1.0, 1.0, 1017.0, group="test_a.py", test="three"),
        line("suites", 8.0, 6.0, 1018.0),
    ]).splitlines()
    assert [row.split(maxsplit=2) for row in shown[1:6]] == [
        ["10.0", "18.0", "clippy"], ["8.0", "6.0", "suites"], ["4.0", "3.0", "test_b.py"], ["3.0", "2.0", "test_a.py"],
        ["18.0", "24.0", "from the first step to the last"]]
    assert [row.split(maxsplit=2)[2] for row in shown[-3:]] == ["test_b.py: two", "test_a.py: one", "test_a.py: three"]


def test_steps_beside_each_other_count_once():
    shown = times.table([line("build", 200.0, 300.0, 1200.0), line("tests", 210.0, 100.0, 1220.0)])
    assert "220.0    400.0  from the first step to the last" in shown


def test_the_list_ends_with_the_tenth():
    lines = [line("suites", n, 0, 1000 + n, group="g", test=f"t{n}") for n in range(1, 13)]
    shown = times.table(lines)
    assert "g: t3\n" not in shown and "The 10 slowest" in shown and "g: t12" in shown and shown.endswith("g: t3")


def test_lines_that_cannot_be_read_are_passed_over(tmp_path):
    path = tmp_path / "times.jsonl"
    path.write_text('{"step": "one", "wall_s": 1}\nno JSON\n[1]\n{"wall_s": 2}\n{"step": "two", "wall_s": "x"}\n{"step": "thr')
    assert [found["step"] for found in times.read(path)] == ["one"]
    assert times.read(tmp_path / "missing") == []
    assert times.table([]).split() == ["wall", "s", "CPU", "s", "step"]


def test_a_line_that_cannot_be_written_fails_nothing(tmp_path, capsys):
    times.append(tmp_path / "no" / "times.jsonl", step="one", wall_s=1, cpu_s=1)
    assert "No such file" in capsys.readouterr().err


def test_a_command_is_run_and_recorded_with_its_status(tmp_path):
    path = tmp_path / "times.jsonl"
    status = subprocess.run([sys.executable, times.__file__, path, "--run", "one", "sh", "-c", "exit 3"], check=False).returncode
    assert status == 3
    recorded = json.loads(path.read_text())
    assert recorded["step"] == "one" and recorded["wall_s"] >= 0 and recorded["ended_s"] > 1_700_000_000


def test_the_time_of_a_child_is_seen_while_it_runs():
    before = times.cpu_of_tree()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while times.cpu_of_tree() < before + 0.2:
            time.sleep(0.01)
            assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()
