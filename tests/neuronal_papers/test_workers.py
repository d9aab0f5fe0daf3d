"""A result is the same however many processes make it, and whichever of them dies."""

import errno
import time
from dataclasses import replace
from multiprocessing import active_children
from threading import Thread
from types import SimpleNamespace

import pytest
import torch

from neuronal_papers.core import Setting
from neuronal_papers.reproduce import read_result, reproduce
from tests.neuronal_papers.toy import ACCURACY, AREAS

SLOW = replace(AREAS, scales={"smoke": Setting(options={"sides": tuple(range(1, 13)), "seconds": 0.1})})


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("one", [ACCURACY, SLOW], ids=lambda one: one.name)
def test_a_table_is_the_same_however_many_make_it(one, tmp_path):
    alone, together = (
        read_result(reproduce(one, "smoke", runs=tmp_path / f"{n}", results=tmp_path / f"{n}", workers=n))
        for n in (1, 3)
    )
    assert alone["result"] == together["result"]
    assert (alone["workers"], together["workers"]) == (1, 3)
    assert alone["command"] == together["command"]
    assert all("1 threads" in result["environment"]["processor"] for result in (alone, together))
    # Nobody is started for what is there.
    again = reproduce(one, "smoke", runs=tmp_path / "3", results=tmp_path / "again", workers=3)
    assert read_result(again)["workers"] == 1


def test_what_a_worker_leaves_is_made_by_the_others(tmp_path):
    whole = read_result(reproduce(SLOW, "smoke", runs=tmp_path / "alone", results=tmp_path / "alone"))
    together, killed = tmp_path / "together", []

    def kill_one():
        # As soon as one of them has begun with something.
        end = time.monotonic() + 60
        while time.monotonic() < end and (len(active_children()) < 2 or len(list(together.rglob("*.claim"))) < 2):
            time.sleep(0.01)
        victim = active_children()[0]
        victim.kill()
        killed.append(victim.pid)

    killer = Thread(target=kill_one)
    killer.start()
    file = reproduce(SLOW, "smoke", runs=together, results=together, workers=3)
    killer.join()
    assert len(killed) == 1
    assert read_result(file)["result"] == whole["result"]


def test_without_locks_there_are_no_workers(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("neuronal.experiments.claim.fcntl.flock", refused)
    options = {"runs": tmp_path / "runs", "results": tmp_path / "results"}
    with pytest.raises(ValueError, match="needs a file system with locks"):
        reproduce(AREAS, "smoke", workers=2, **options)
    reproduce(AREAS, "smoke", **options)


def test_a_launcher_and_workers_are_refused_together(tmp_path, monkeypatch):
    monkeypatch.setattr("neuronal_papers.reproduce.processes", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ValueError, match="without torchrun"):
        reproduce(AREAS, "smoke", runs=tmp_path, results=tmp_path, workers=2)
