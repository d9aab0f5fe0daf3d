"""Tasks side by side until a deadline."""

import os
import signal
import subprocess
import sys
from functools import partial
from time import monotonic, sleep

import pytest

from neuronal.experiments import slice as slices
from neuronal.experiments.slice import Pace, Task, run_slice
from tests.conftest import ROOT


def sleeps(seconds, epochs, file, on_epoch):
    """A task that leaves a file with a line for every try."""
    with open(file, "a") as tries:
        tries.write("begun\n")
    for _ in range(epochs):
        sleep(seconds)
        on_epoch()
    with open(file, "a") as tries:
        tries.write("done\n")


def dies(file, on_epoch):
    with open(file, "a") as tries:
        tries.write("begun\n")
    os.kill(os.getpid(), signal.SIGKILL)


def raises(on_epoch):
    raise RuntimeError("the loss is a poem")


def task(tmp_path, name, seconds=0.01, epochs=3, kind="k", rank=0, compiles=False):
    return Task(name, kind, epochs, partial(sleeps, seconds, epochs, tmp_path / name), rank, compiles)


def listed(*tasks):
    return lambda: list(tasks)


def begun(tmp_path, name):
    file = tmp_path / name
    return file.read_text().count("begun") if file.exists() else 0


def test_all_that_fits_is_done_once(tmp_path):
    said = []
    tasks = [task(tmp_path, f"t{number}") for number in range(5)]
    report = run_slice(listed(*tasks), monotonic() + 60, 2, said.append)
    assert sorted(report.finished) == [f"t{number}" for number in range(5)]
    assert (report.at_once, report.stopped, report.failed) == (2, [], {})
    assert [begun(tmp_path, f"t{number}") for number in range(5)] == [1] * 5
    assert len(said) == 5
    assert report.paces["k"].epoch > 0


def test_what_ends_makes_new_tasks_known(tmp_path):
    first, second = task(tmp_path, "first"), task(tmp_path, "second")
    report = run_slice(lambda: [second if (tmp_path / "first").exists() else first], monotonic() + 60, 2)
    assert report.finished == ["first", "second"]


def test_what_would_end_too_late_is_not_started(tmp_path):
    tasks = [task(tmp_path, "short", kind="short"), task(tmp_path, "long", kind="long")]
    paces = {"short": Pace(0.01), "long": Pace(100.0)}
    report = run_slice(listed(*tasks), monotonic() + 20, 2, paces=paces)
    assert report.finished == ["short"]
    assert begun(tmp_path, "long") == 0


def test_unknown_kinds_start_in_the_first_half_only(tmp_path):
    late = task(tmp_path, "late", kind="late")
    first = task(tmp_path, "first", seconds=1.0, epochs=3, kind="first")
    report = run_slice(lambda: [late if (tmp_path / "first").exists() else first], monotonic() + 5.5, 1)
    assert report.finished == ["first"]
    assert begun(tmp_path, "late") == 0


def test_the_longest_is_started_first_and_lower_ranks_before_it(tmp_path):
    paces = {"short": Pace(0.01), "long": Pace(0.1)}
    tasks = [
        task(tmp_path, "late and long", kind="long", rank=1),
        task(tmp_path, "short", kind="short"),
        task(tmp_path, "long", kind="long"),
    ]
    assert run_slice(listed(*tasks), monotonic() + 60, 1, paces=paces).finished == ["long", "short", "late and long"]


def test_of_tasks_that_are_too_slow_some_are_stopped_and_the_rest_ends(tmp_path):
    quick = task(tmp_path, "quick", seconds=0.2, epochs=10, kind="quick")
    slow = task(tmp_path, "slow", seconds=0.3, epochs=1000, kind="slow")
    started = monotonic()
    report = run_slice(listed(quick, slow), monotonic() + 60, 2)
    assert report.finished == ["quick"]
    # Once for good: its kind is known by then.
    assert set(report.stopped) == {"slow"}
    assert begun(tmp_path, "slow") == 1
    assert monotonic() - started < 40


def test_at_the_deadline_what_still_runs_is_stopped(tmp_path):
    started = monotonic()
    # Without an epoch to go by.
    report = run_slice(listed(task(tmp_path, "endless", seconds=300)), monotonic() + 3, 1)
    assert (report.finished, report.stopped) == ([], ["endless"])
    assert monotonic() - started < 30


def test_a_task_that_kills_its_workers_is_given_up_and_the_others_go_on(tmp_path):
    fatal = Task("fatal", "f", 1, partial(dies, tmp_path / "fatal"))
    report = run_slice(listed(fatal, task(tmp_path, "sound")), monotonic() + 60, 2)
    assert report.finished == ["sound"]
    assert report.failed == {"fatal": "its worker died again and again"}
    assert begun(tmp_path, "fatal") == 4


def test_an_error_is_told_and_the_others_go_on(tmp_path):
    report = run_slice(listed(Task("odd", "o", 1, raises), task(tmp_path, "sound")), monotonic() + 60, 1)
    assert report.failed == {"odd": "RuntimeError: the loss is a poem"}
    assert report.finished == ["sound"]
    assert report.summary(1) == "1 finished, 1 at once, 1 failed; 1 known to be left"


def test_one_of_a_kind_compiles_before_the_others_of_it(tmp_path):
    tasks = [task(tmp_path, f"t{n}", seconds=0.3, compiles=True) for n in range(3)]
    seen = []

    def left():
        seen.append([begun(tmp_path, f"t{n}") for n in range(3)])
        return tasks

    report = run_slice(left, monotonic() + 60, 3)
    assert sorted(report.finished) == ["t0", "t1", "t2"]
    # All run together once the first has an epoch.
    assert report.at_once == 3
    one, *others = ((tmp_path / f"t{n}").stat() for n in range(3))
    assert one.st_mtime < min(other.st_mtime for other in others)


def test_without_memory_there_is_one_at_a_time(tmp_path, monkeypatch):
    free = iter([100.0, *[40.0] * 1000])
    monkeypatch.setattr(slices, "_free_memory", lambda: next(free))
    report = run_slice(listed(*(task(tmp_path, f"t{n}") for n in range(3))), monotonic() + 60, 3)
    assert len(report.finished) == 3
    assert report.at_once == 1


KILLED = """
import sys
from time import monotonic
from pathlib import Path
from neuronal.experiments.slice import run_slice
from tests.experiments.test_slice import listed, task

if __name__ == "__main__":
    run_slice(listed(task(Path(sys.argv[1]), "orphan", seconds=300)), monotonic() + 600, 1)
"""


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_tasks_end_with_the_process_that_started_them(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    parent = subprocess.Popen([sys.executable, script, tmp_path], cwd=ROOT, env=os.environ | paths)
    end = monotonic() + 60
    while not begun(tmp_path, "orphan") and monotonic() < end:
        sleep(0.05)
    parent.kill()
    parent.wait()

    def alive():
        found = []
        for place in os.listdir("/proc"):
            try:
                with open(f"/proc/{place}/cmdline", "rb") as file:
                    if str(script).encode() in file.read():
                        found.append(place)
            except (OSError, ValueError):
                continue
        return found

    end = monotonic() + 10
    while alive() and monotonic() < end:
        sleep(0.1)
    assert not alive()
    assert (tmp_path / "orphan").read_text() == "begun\n"
