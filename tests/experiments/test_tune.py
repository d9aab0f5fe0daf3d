from dataclasses import replace

import pytest

from neuronal.experiments.cells import Grid, Study, read_plan
from neuronal.experiments.record import Failure
from neuronal.experiments.tune import choose
from neuronal.names import UnknownName


@pytest.fixture
def planted(quick_records):
    """A record of what ``epochs`` say, and of a recipe with some other fields."""
    like = quick_records[0]

    def make(*epochs, seed=0, failure=None, metrics=like.metrics, **recipe):
        changed = {"seed": seed, "epochs": epochs, "failure": failure, "metrics": metrics}
        return replace(like, recipe=replace(like.recipe, **recipe), **changed)

    return make


def test_the_highest_mean_on_held_out_data_is_chosen_for_every_neuron(planted):
    found = {("standard", 0.1): (0.5, 0.7), ("standard", 0.01): (0.8, 0.9), ("standard", 0.001): (0.9, 0.8)}
    found |= {("zero_bias", 0.1): (0.95, 0.95), ("zero_bias", 0.01): (0.2, 0.3)}
    rows = [
        planted({"holdout_accuracy": share}, lr=lr, family=family, seed=seed)
        for (family, lr), both in found.items()
        for seed, share in enumerate(both)
    ]
    first, second = choose(rows, "lr")
    assert (first.family, first.best) == ("standard", 0.01)
    assert [point.mean for point in first.curve] == pytest.approx([0.6, 0.85, 0.85])
    assert first.curve[0].error == pytest.approx(0.1)
    assert (second.family, second.best) == ("zero_bias", 0.1)


def test_the_lowest_rmse_is_chosen_where_numbers_are_predicted(planted):
    found = {0.1: 3.0, 0.01: 2.0, 0.001: 2.5}
    (choice,) = choose([planted({"holdout_rmse": y}, lr=lr, metrics={"rmse": y}) for lr, y in found.items()], "lr")
    assert (choice.best, choice.measure) == (0.01, "rmse")


@pytest.mark.parametrize(("protocol", "best", "mean"), [("clean", 0.1, 0.9), ("published", 0.2, 0.5)])
def test_values_are_chosen_by_the_protocol(planted, protocol, best, mean):
    """The value that is best on held-out data is not the one that is best on test data; the best epoch's counts."""
    rows = [
        planted({"holdout_accuracy": held}, {"holdout_accuracy": 0.0}, lr=lr, metrics=metrics, protocol=protocol)
        for lr, held, test in ((0.1, 0.9, 0.5), (0.2, 0.8, 0.6))
        for metrics in [{"accuracy": test, "best_epoch": 1}]
    ]
    (choice,) = choose(rows, "lr")
    assert (choice.best, choice.curve[0].mean, choice.protocol) == (best, mean, protocol)


def test_a_value_that_failed_once_is_not_recommended(planted):
    failed = planted(seed=1, failure=Failure(3, 0.1, "the loss became nan"), lr=0.1)
    rows = [planted({"holdout_accuracy": share}, lr=lr) for lr, share in ((0.1, 0.99), (0.01, 0.5))]
    (choice,) = choose([failed, *rows], "lr")
    assert choice.best == 0.01
    assert choice.curve[0].failed == 1
    (none,) = choose([failed], "lr")
    assert none.best is None
    assert none.curve[0].mean is None


def test_what_cannot_be_chosen_is_refused(planted):
    with pytest.raises(UnknownName, match=r"Unknown field to choose 'l'. Did you mean 'lr'\?"):
        choose([planted({"holdout_accuracy": 0.5})], "l")
    with pytest.raises(ValueError, match="choosing needs held-out data"):
        choose([planted({"loss": 0.1})], "lr")


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
