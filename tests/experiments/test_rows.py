"""Rows of a result: made once, kept, and divided among the processes that want them."""

from dataclasses import replace
from multiprocessing import get_context

import pytest

from neuronal.experiments.work import Work
from neuronal.recipes.implicit_bias.networks import DIGITS

RECIPES = [replace(DIGITS, name=f"{share}", fraction=share, seeds=(0, 1)) for share in (0.1, 0.2)]


def test_rows_are_in_order_and_made_once(tmp_path):
    seen = []

    def measure(record, model):
        seen.append((record.recipe.name, record.seed))
        return {"share": record.recipe.fraction, "seed": record.seed, "mode": model.training}

    want = [{"share": recipe.fraction, "seed": seed, "mode": False} for recipe in RECIPES for seed in (0, 1)]
    first, again = Work(tmp_path), Work(tmp_path)
    assert first.rows(RECIPES, {"images": 5}, measure) == want
    assert again.rows(RECIPES[::-1], {"images": 5}, measure) == want[2:] + want[:2]
    assert len(seen) == 4
    assert again.network_seconds == pytest.approx(first.network_seconds)
    # Measured in another way, they are other rows of the same networks.
    Work(tmp_path).rows(RECIPES[:1], {"images": 6}, measure)
    assert len(seen) == 6
    assert len(list((tmp_path / "cells").glob("*.json"))) == 4


def test_a_damaged_row_is_made_again(tmp_path):
    work, seen = Work(tmp_path), []

    def measure(record, model):
        seen.append(record.seed)
        return {"seed": record.seed}

    work.rows(RECIPES[:1], {}, measure)
    file = next((tmp_path / "rows").glob("*seed1*.json"))
    file.write_text(file.read_text()[:-9])
    assert work.rows(RECIPES[:1], {}, measure) == [{"seed": 0}, {"seed": 1}]
    assert seen == [0, 1, 1]


def make_all(folder, made):
    Work(folder).rows(RECIPES, {}, lambda record, model: made.put(record.seed) or {"seed": record.seed})


@pytest.mark.timeout(120)
def test_processes_divide_the_rows_among_themselves(tmp_path):
    context = get_context("spawn")
    made = context.Queue()
    workers = [context.Process(target=make_all, args=(tmp_path, made)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(made.get(timeout=5) for _ in range(4)) == [0, 0, 1, 1]
    assert made.empty()
