"""Networks, rows and parts of a result: made once, kept, and made again where something they depend on has changed."""

import time
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from neuronal.experiments import trial as trial_module
from neuronal.experiments import work as work_module
from neuronal.experiments.executors import executor_for
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.work import NotTrained, Work

QUICK = Recipe("0.1", model="fcn", widths=(4,), epochs=1, probes=(), fraction=0.1, seeds=(0, 1))
RECIPES = [QUICK, replace(QUICK, name="0.2", fraction=0.2)]
WILD = replace(QUICK, name="wild", optim="sgd", momentum=0.0, lr=1e30)
ITEMS = [{"side": side} for side in (3, 1, 2)]


def test_what_one_trained_is_there_for_the_others_under_their_own_names(tmp_path, monkeypatch):
    Work(tmp_path).records([replace(QUICK, seeds=(0,))])
    trained = Mock(wraps=trial_module.trained)
    monkeypatch.setattr(trial_module, "trained", trained)
    records = Work(tmp_path).records([replace(QUICK, name="another")])
    assert [called.args[1] for called in trained.call_args_list] == [1]
    assert [record.recipe.name for record in records] == ["another", "another"]


def test_networks_are_kept_with_their_weights(tmp_path):
    said = []
    record, model = Work(tmp_path, say=said.append).network(QUICK, 0)
    again, same = Work(tmp_path, say=said.append).network(QUICK, 0)
    assert len(said) == 1
    assert again.metrics == record.metrics
    torch.testing.assert_close(model.state_dict(), same.state_dict(), rtol=0, atol=0, check_device=False)
    weights = next(tmp_path.glob("cells/*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    Work(tmp_path, say=said.append).network(QUICK, 0)
    assert len(said) > 1


def seeds_measured(folder, seen, recipes=RECIPES[:1], how=(), **options):
    def measure(record, model):
        seen.append(record.seed)
        return {"share": record.recipe.fraction, "seed": record.seed, "mode": model.training}

    return Work(folder).rows(recipes, dict(how), measure, **options)


def test_rows_are_in_order_and_made_once(tmp_path):
    seen = []
    want = [{"share": recipe.fraction, "seed": seed, "mode": False} for recipe in RECIPES for seed in (0, 1)]
    assert seeds_measured(tmp_path, seen, RECIPES) == want
    assert seeds_measured(tmp_path, seen, RECIPES[::-1]) == want[2:] + want[:2]
    assert len(seen) == 4
    # Measured in another way, they are other rows of the same networks.
    seeds_measured(tmp_path, seen, how={"images": 6})
    assert len(seen) == 6
    assert len(list((tmp_path / "cells").glob("*.json"))) == 4


def test_a_damaged_row_and_rows_of_other_data_or_code_are_made_again(tmp_path, monkeypatch):
    seen = []
    want = seeds_measured(tmp_path, seen)
    file = next((tmp_path / "rows").glob("*seed1*.json"))
    file.write_text(file.read_text()[:-9])
    assert seeds_measured(tmp_path, seen) == want
    assert seen == [0, 1, 1]
    with monkeypatch.context() as patch:
        patch.setattr(Work, "checksum", lambda work, data: "of other data")
        assert seeds_measured(tmp_path, seen) == want
    assert seen == [0, 1, 1, 0, 1]
    assert seeds_measured(tmp_path, seen) == want
    seen.clear()
    monkeypatch.setattr(work_module, "code", lambda: "other")
    monkeypatch.setattr(work_module, "train_into", None)
    assert seeds_measured(tmp_path, seen) == want
    assert seen == [0, 1]


def test_a_network_that_did_not_train_ends_the_work_at_once(tmp_path):
    for _ in range(2):
        with pytest.raises(NotTrained, match="wild with seed 0 did not train"):
            seeds_measured(tmp_path, [], [WILD])
    assert list((tmp_path / "rows").glob("*.json")) == []


def test_or_it_has_a_row_that_says_so_and_is_tried_again_elsewhere(tmp_path, monkeypatch):
    def failures():
        rows = seeds_measured(tmp_path, [], [WILD], may_fail=True)
        return [row["failure"].partition(":")[0] for row in rows]

    trained = Mock(wraps=work_module.train_into)
    monkeypatch.setattr(work_module, "train_into", trained)
    assert failures() == [f"wild with seed {seed} did not train" for seed in (0, 1)]
    assert failures() == failures()
    assert trained.call_count == 2
    monkeypatch.setattr(work_module, "arithmetic", lambda: {"gpu": "another"})
    assert len(failures()) == 2
    assert trained.call_count == 4


def test_what_is_asked_for_twice_took_its_time_once_whoever_made_it(tmp_path):
    def slow(item):
        time.sleep(0.02 * item["side"])
        return {}

    def ask():
        work = Work(tmp_path)
        work.rows(RECIPES, {}, lambda record, model: {})
        work.parts({}, ITEMS, slow)
        return work

    first = ask()
    once = sum(record.seconds for record in Work(tmp_path).records(RECIPES))
    assert first.network_seconds >= once + 0.12
    first.records(RECIPES[:1])
    first.network(RECIPES[0], 0)
    assert ask().network_seconds == pytest.approx(first.network_seconds)


def areas(folder, made, items=ITEMS, how=()):
    def square(item):
        made.append(item["side"])
        return {"area": item["side"] ** 2, "sides": (item["side"],) * 2, 4: "corners"}

    return Work(folder).parts(dict(how), items, square)


def test_parts_are_in_order_made_once_and_as_they_are_read(tmp_path):
    made = []
    want = [{"area": n**2, "sides": [n, n], "4": "corners"} for n in (3, 1, 2)]
    assert areas(tmp_path, made) == want
    assert areas(tmp_path, made, ITEMS[::-1]) == want[::-1]
    assert made == [3, 1, 2]
    areas(tmp_path, made, ITEMS[:1], {"name": "another"})
    assert made == [3, 1, 2, 3]


def test_a_damaged_part_and_one_made_by_something_else_are_made_again(tmp_path, monkeypatch):
    made = []
    want = areas(tmp_path, made)
    file = min((tmp_path / "parts").glob("*.json"))
    file.write_text(file.read_text().replace('"area": ', '"area": 1'))
    assert areas(tmp_path, made) == want
    assert len(made) == 4
    for name, value in (("code", "other"), ("arithmetic", {"torch": "another"})):
        monkeypatch.setattr(work_module, name, lambda value=value: value)
        made.clear()
        assert areas(tmp_path, made) == want
        assert made == [3, 1, 2]


@pytest.fixture(scope="module")
def two():
    with executor_for(2) as executor:
        yield executor


def test_workers_make_the_same_rows_and_parts_and_what_they_say_is_heard(tmp_path, two):
    """What measures is a closure, over the work itself among others."""

    def ask(folder, executor):
        said = []
        work = Work(folder, say=said.append, executor=executor)

        def measure(record, model):
            work.say(f"seed {record.seed}")
            return {"name": record.recipe.name, "seed": record.seed, "loss": record.metrics["loss"]}

        found = work.rows(RECIPES, {}, measure), work.parts({}, ITEMS, lambda item: {"double": 2 * item["side"]})
        return found, [line for line in said if line.startswith("seed")]

    (alone, lines), (together, heard) = ask(tmp_path / "alone", None), ask(tmp_path / "together", two)
    assert alone == together
    assert sorted(lines) == sorted(heard) == ["seed 0", "seed 0", "seed 1", "seed 1"]


def test_a_network_that_did_not_train_ends_the_work_of_workers_too(tmp_path, two):
    with pytest.raises(NotTrained, match="did not train"):
        Work(tmp_path, executor=two).rows([WILD], {}, lambda record, model: {})
