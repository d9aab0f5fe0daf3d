"""What several processes want at once is made once, and a claim ends with its process."""

import sys
from multiprocessing import get_context
from subprocess import PIPE, Popen

import pytest

from neuronal.experiments.cells import Cell
from neuronal.experiments.claim import Claimed, claim, divided
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import cell_name, read
from neuronal.experiments.sweep import Watch
from neuronal.experiments.work import Work

pytestmark = pytest.mark.timeout(120)
RECIPE = Recipe("quick", model="fcn", widths=(4,), epochs=1, probes=(), seeds=(0, 1, 2, 3))
CELLS = [Cell(RECIPE, seed) for seed in RECIPE.seeds]
HOLDER = """
import sys
from pathlib import Path
from neuronal.experiments.claim import claim
with claim(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def cells(folder, made):
    for _ in Claimed().train(CELLS, folder, lambda cell: made.put(cell.seed), Watch().epoch_ended):
        pass
    assert [read(folder / cell_name(cell.recipe, cell.seed)).seed for cell in CELLS] == [0, 1, 2, 3]


def rows(folder, made):
    found = Work(folder).rows([RECIPE], {}, lambda record, model: made.put(record.seed) or {"seed": record.seed})
    assert [row["seed"] for row in found] == [0, 1, 2, 3]


def parts(folder, made):
    items = [{"number": number} for number in range(4)]
    found = Work(folder).parts({}, items, lambda item: made.put(item["number"]) or {"double": 2 * item["number"]})
    assert [part["double"] for part in found] == [0, 2, 4, 6]


@pytest.mark.parametrize("work", [cells, rows, parts])
def test_two_processes_make_everything_once(work, tmp_path):
    context = get_context("spawn")
    made = context.Queue()
    workers = [context.Process(target=work, args=(tmp_path, made)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(made.get(timeout=5) for _ in range(4)) == [0, 1, 2, 3]
    assert made.empty()


def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / "cell.json"
    with Popen([sys.executable, "-c", HOLDER, str(path)], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with claim(path) as ours:
            assert not ours
        other.kill()
    for wait in (False, True):
        with claim(path, wait=wait) as ours:
            assert ours


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
