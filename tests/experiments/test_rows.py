"""Rows and other parts of a result: made once, kept, and divided among the processes that want them."""

from dataclasses import replace
from time import sleep

import pytest

from neuronal.experiments import work as work_module
from neuronal.experiments.work import NotTrained, Work
from neuronal.recipes.implicit_bias.networks import DIGITS
from tests.experiments.side_by_side import made_by_two

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
    assert made_by_two(make_all, tmp_path) == [0, 0, 1, 1]


def test_rows_of_other_code_are_made_again_of_the_same_networks(tmp_path, monkeypatch):
    seen = []

    def measure(record, model):
        seen.append(record.seed)
        return {"seed": record.seed}

    Work(tmp_path).rows(RECIPES[:1], {}, measure)
    monkeypatch.setattr("neuronal.experiments.work.code", lambda: "other")
    monkeypatch.setattr("neuronal.experiments.work.trained_into", None)
    Work(tmp_path).rows(RECIPES[:1], {}, measure)
    assert seen == [0, 1, 0, 1]


WILD = replace(RECIPES[0], name="wild", lr=1e30, seeds=(0, 1))


def test_a_network_that_did_not_train_ends_the_work_at_once(tmp_path):
    for _ in range(2):
        with pytest.raises(NotTrained, match="wild with seed 0 did not train"):
            Work(tmp_path).rows([WILD], {}, lambda record, model: {})
    assert list((tmp_path / "rows").glob("*.json")) == []


def test_or_it_has_a_row_that_says_so_and_is_tried_again_elsewhere(tmp_path, monkeypatch):
    def failures():
        rows = Work(tmp_path).rows([WILD], {}, lambda record, model: {}, may_fail=True)
        assert all(set(row) == {"failure"} for row in rows)
        return [row["failure"].partition(":")[0] for row in rows]

    trained = []
    real = work_module.trained_into
    monkeypatch.setattr(
        work_module, "trained_into", lambda *words, **options: trained.append(0) or real(*words, **options)
    )
    assert failures() == [f"wild with seed {seed} did not train" for seed in (0, 1)]
    assert failures() == failures()
    assert len(trained) == 2
    monkeypatch.setattr(work_module, "arithmetic", lambda: {"gpu": "another"})
    assert len(failures()) == 2
    assert len(trained) == 4


def test_what_is_asked_for_twice_took_its_time_once(tmp_path):
    work = Work(tmp_path)
    work.rows(RECIPES, {}, lambda record, model: {})
    once = sum(record.seconds for record in work.records(RECIPES))
    work.records(RECIPES[:1])
    work.network(RECIPES[0], 0)
    assert work.network_seconds == pytest.approx(once)


ITEMS = [{"side": side} for side in (3, 1, 2)]


def test_parts_are_in_order_made_once_and_as_they_are_read(tmp_path):
    made = []

    def square(item):
        made.append(item["side"])
        return {"area": item["side"] ** 2, "sides": (item["side"],) * 2, 4: "corners"}

    want = [{"area": n**2, "sides": [n, n], "4": "corners"} for n in (3, 1, 2)]
    assert Work(tmp_path).parts({"name": "square"}, ITEMS, square) == want
    assert Work(tmp_path).parts({"name": "square"}, ITEMS[::-1], square) == want[::-1]
    assert made == [3, 1, 2]
    Work(tmp_path).parts({"name": "another"}, ITEMS[:1], square)
    assert made == [3, 1, 2, 3]


def test_a_damaged_part_and_one_made_by_something_else_are_made_again(tmp_path, monkeypatch):
    made = []

    def square(item):
        made.append(item["side"])
        return {"area": item["side"] ** 2}

    def areas():
        return [part["area"] for part in Work(tmp_path).parts({}, ITEMS, square)]

    assert areas() == [9, 1, 4]
    file = min((tmp_path / "parts").glob("*.json"))
    file.write_text(file.read_text().replace('"area": ', '"area": 1'))
    assert areas() == [9, 1, 4]
    assert len(made) == 4
    monkeypatch.setattr("neuronal.experiments.work.code", lambda: "other")
    assert areas() == [9, 1, 4]
    assert made[4:] == [3, 1, 2]
    monkeypatch.setattr("neuronal.experiments.work.arithmetic", lambda: {"torch": "another"})
    assert areas() == [9, 1, 4]
    assert made[7:] == [3, 1, 2]


def test_parts_took_their_time_whoever_made_them(tmp_path):
    def slow(item):
        sleep(0.05 * item["side"])
        return {}

    first, again = Work(tmp_path), Work(tmp_path)
    first.parts({}, ITEMS, slow)
    again.parts({}, ITEMS, slow)
    assert again.network_seconds == first.network_seconds >= 0.3


def make_parts(folder, made):
    def square(item):
        made.put(item["side"])
        sleep(0.2)
        return {"area": item["side"] ** 2}

    assert len(Work(folder).parts({}, ITEMS, square)) == 3


@pytest.mark.timeout(120)
def test_processes_divide_the_parts_among_themselves(tmp_path):
    assert made_by_two(make_parts, tmp_path) == [1, 2, 3]


def test_a_value_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Work(tmp_path).parts({}, ITEMS, lambda item: {"area": float("nan")})
    assert list((tmp_path / "parts").glob("*.json")) == []
