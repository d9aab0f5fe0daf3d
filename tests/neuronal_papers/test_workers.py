"""A result is the same however many processes make it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from neuronal_papers.core import Setting
from neuronal_papers.reproduce import read_result, reproduce
from tests.neuronal_papers.toy import ACCURACY, AREAS

MANY = replace(AREAS, scales={"smoke": Setting(options={"sides": tuple(range(1, 13))})})


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("one", [ACCURACY, MANY], ids=lambda one: one.name)
def test_a_table_is_the_same_however_many_make_it(one, tmp_path):
    alone, together = (
        read_result(reproduce(one, "smoke", runs=tmp_path / f"{n}", results=tmp_path / f"{n}", workers=n))
        for n in (1, 2)
    )
    assert alone["result"] == together["result"]
    assert (alone["workers"], together["workers"]) == (1, 2)
    assert alone["command"] == together["command"]
    assert all("1 threads" in result["environment"]["processor"] for result in (alone, together))
    # Nobody is started for what is there.
    again = reproduce(one, "smoke", runs=tmp_path / "2", results=tmp_path / "again", workers=2)
    assert read_result(again)["workers"] == 1


def test_a_launcher_and_workers_are_refused_together(tmp_path, monkeypatch):
    monkeypatch.setattr("neuronal.experiments.executors.processes", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ValueError, match="without torchrun"):
        reproduce(AREAS, "smoke", runs=tmp_path, results=tmp_path, workers=2)
