from dataclasses import replace

import pytest

from neuronal.experiments.cells import Grid, Study, read_plan
from neuronal.experiments.record import Failure
from neuronal.experiments.tune import choose
from neuronal.names import UnknownName


def record(like, lr, family, seed, accuracy, failure=None):
    recipe = replace(like.recipe, lr=lr, family=family)
    epochs = () if failure else ({"epoch": 1, "holdout_accuracy": accuracy},)
    return replace(like, recipe=recipe, seed=seed, epochs=epochs, failure=failure)


def test_the_highest_mean_on_held_out_data_is_chosen_for_every_neuron(quick_records):
    like = quick_records[0]
    found = {("standard", 0.1): (0.5, 0.7), ("standard", 0.01): (0.8, 0.9), ("standard", 0.001): (0.9, 0.8)}
    found |= {("zero_bias", 0.1): (0.95, 0.95), ("zero_bias", 0.01): (0.2, 0.3)}
    rows = [record(like, lr, family, seed, y) for (family, lr), both in found.items() for seed, y in enumerate(both)]
    first, second = choose(rows, "lr")
    assert (first.family, first.best) == ("standard", 0.01)
    assert [point.mean for point in first.curve] == pytest.approx([0.6, 0.85, 0.85])
    assert first.curve[0].error == pytest.approx(0.1)
    assert (second.family, second.best) == ("zero_bias", 0.1)


def test_a_value_that_failed_once_is_not_recommended(quick_records):
    like = quick_records[0]
    failure = Failure(3, 0.1, "the loss became nan")
    rows = [record(like, 0.1, "standard", 0, 0.99), record(like, 0.1, "standard", 1, 0, failure)]
    rows.append(record(like, 0.01, "standard", 0, 0.5))
    (choice,) = choose(rows, "lr")
    assert choice.best == 0.01
    assert choice.curve[0].failed == 1
    (none,) = choose(rows[1:2], "lr")
    assert none.best is None
    assert none.curve[0].mean is None


def test_a_field_that_is_none_is_refused(quick_records):
    with pytest.raises(UnknownName, match=r"Unknown field to choose 'l'. Did you mean 'lr'\?"):
        choose(quick_records, "l")


def test_without_held_out_data_there_is_nothing_to_choose_on(quick_records):
    like = replace(quick_records[0], epochs=({"epoch": 1, "loss": 0.1},))
    with pytest.raises(ValueError, match="choosing needs held-out data"):
        choose([like], "lr")


def test_grids_list_every_combination_and_survive_json(quick):
    grid = Grid(quick, (("lr", (0.1, 0.2)), ("family", ("standard", "zero_bias")), ("widths", ((8,), (16, 8)))))
    assert len(grid.cells()) == 16
    assert {(v.lr, v.family, v.widths) for v in grid.variants()} == {
        (lr, f, w) for lr in (0.1, 0.2) for f in ("standard", "zero_bias") for w in ((8,), (16, 8))
    }
    assert read_plan(grid.to_json()) == grid
    study = Study(quick, ("standard",))
    assert read_plan(study.to_json()) == study


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ((("speed", (1,)),), "Unknown axis of a grid 'speed'"),
        ((("lr", ()),), "axis lr needs values, each once, got none"),
        ((("lr", (1, 1)),), "axis lr needs values, each once, got 1, 1"),
        ((("lr", (1,)), ("lr", (2,))), "a grid needs each axis once, got lr, lr"),
    ],
)
def test_grids_that_make_no_sense(quick, axes, reason):
    with pytest.raises(ValueError, match=reason):
        Grid(quick, axes)
    assert issubclass(UnknownName, ValueError)
