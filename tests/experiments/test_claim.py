"""Cells wanted by several processes at once: each is trained once, and a claim ends with its process."""

import sys
from dataclasses import replace
from subprocess import PIPE, Popen

import pytest

from neuronal.experiments.cells import Cell
from neuronal.experiments.claim import Claimed, claim, divided
from neuronal.experiments.record import cell_name, read
from neuronal.experiments.sweep import Watch
from neuronal.recipes.zero_bias.networks import MNIST_FCN, smoke
from tests.experiments.side_by_side import made_by_two

CELLS = [Cell(replace(smoke(MNIST_FCN), seeds=(0, 1, 2, 3)), seed) for seed in range(4)]
HOLDER = """
import sys
from pathlib import Path
from neuronal.experiments.claim import claim
with claim(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def train_all(folder, trained):
    watch = Watch()
    for _, _record in Claimed().train(CELLS, folder, lambda cell: trained.put(cell.seed), watch.epoch_ended):
        pass


@pytest.mark.timeout(120)
def test_processes_divide_the_cells_among_themselves(tmp_path):
    assert made_by_two(train_all, tmp_path) == [0, 1, 2, 3]
    assert [read(tmp_path / cell_name(cell.recipe, cell.seed)).seed for cell in CELLS] == [0, 1, 2, 3]


@pytest.mark.timeout(120)
def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / "cell.json"
    with Popen([sys.executable, "-c", HOLDER, str(path)], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with claim(path) as ours:
            assert not ours
        other.kill()
    with claim(path) as ours:
        assert ours
    with claim(path, wait=True) as ours:
        assert ours


@pytest.mark.timeout(120)
def test_what_another_process_made_is_handed_on_as_soon_as_it_can_be(tmp_path):
    order = []

    def finished(path):
        return path.read_text() if path.exists() else None

    with Popen([sys.executable, "-c", HOLDER, str(tmp_path / "b")], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"

        def make(name):
            order.append(f"made {name}")
            if name == "c":
                (tmp_path / "b").write_text("theirs")
                other.communicate("")
            return "ours"

        for name, whose in divided("abcde", tmp_path.joinpath, finished, make):
            order.append(f"{whose} {name}")
    assert order == ["made a", "ours a", "made c", "ours c", "theirs b", "made d", "ours d", "made e", "ours e"]


def test_a_damaged_record_is_trained_again(tmp_path):
    cell = CELLS[0]
    path = tmp_path / cell_name(cell.recipe, cell.seed)
    path.write_text("{")
    started = []
    [(_, record)] = Claimed().train([cell], tmp_path, started.append, Watch().epoch_ended)
    assert started == [cell]
    assert read(path).metrics == record.metrics
