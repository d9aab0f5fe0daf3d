import json
from dataclasses import replace
from importlib import import_module
from unittest.mock import Mock

import pytest
import torch

from neuronal.data.catalogue import load
from neuronal.data.dataset import Split
from neuronal.experiments.run import check, network, run, training_data
from neuronal.nn import ImplicitBiasConv2d
from tests.experiments.listener import numbers

run_module = import_module("neuronal.experiments.run")


def test_the_same_cell_gives_the_same_record_but_for_times(quick, quick_records):
    assert numbers(run(quick, 0)) == numbers(quick_records[0])


def test_a_record_holds_what_was_asked_for(quick_records):
    for record in quick_records:
        assert record.failure is None
        assert len(record.epochs) == 2
        held = {f"holdout_{name}" for name in ("loss", "accuracy", "top5")}
        assert set(record.epochs[0]) == {"epoch", "steps", "loss", "accuracy", "lr"} | held
        assert record.metrics["accuracy"] <= record.metrics["top5"] <= 1
        assert set(record.probes) == {"contrast", "zero_image", "dead_units"}
        assert record.probes["contrast"].accuracy[0] == record.metrics["accuracy"]
        assert record.environment["torch"]
        assert record.step_seconds > 0
        assert record.metrics["parameters"] == 64 * 16 + 16 * 10 + (record.recipe.family == "standard") * (16 + 10)


@pytest.mark.parametrize("last_step", [False, True], ids=["in the middle", "by its very last step"])
def test_a_diverging_cell_is_recorded_with_its_step(diverging, last_step):
    record = run(replace(diverging, lr=1e38, epochs=1, batch_size=2000) if last_step else diverging, 0)
    assert record.failure is not None
    assert (record.failure.step == 1) == last_step
    assert record.failure.lr == (1e38 if last_step else 1e30)
    assert not record.metrics
    json.dumps(record.to_json(), allow_nan=False)


def test_the_seed_of_a_cell_reaches_everything_random(quick, monkeypatch):
    held_out = Mock(wraps=load("digits").train.held_out)
    monkeypatch.setattr(Split, "held_out", held_out)
    inside = []
    monkeypatch.setattr(run_module, "fit", lambda *_, seed, **__: inside.append((seed, torch.initial_seed())) or exit())
    with pytest.raises(SystemExit):
        run(quick, 5)
    held_out.assert_called_once_with(quick.holdout, 5)
    assert inside == [(5, 5)]


def test_less_data_and_wrong_labels_are_those_of_training_only(quick):
    data = load("digits")
    recipe = replace(quick, holdout=0.2, fraction=0.5, wrong_labels=0.3)
    train, held = training_data(recipe, data, 0)
    clean, same = training_data(replace(recipe, wrong_labels=0.0), data, 0)
    assert torch.equal(held.y, same.y)
    assert torch.equal(train.stored, clean.stored)
    assert (train.y != clean.y).sum() == round(0.3 * len(train))
    whole, _ = data.train.held_out(0.2, 0)
    assert len(train) == pytest.approx(0.5 * len(whole), abs=10)


def test_changes_of_the_images_and_scaling_reach_the_training(quick):
    plain = run(quick, 0)
    for change in (
        {"crop": 1},
        {"flip": True},
        {"cutout": 3},
        {"cutout": 3, "cutout_fill": "mean"},
        {"contrast": (0.5, 1.5)},
        {"scaling": "standardise"},
        {"norm": "batch"},
    ):
        changed = run(replace(quick, **change), 0)
        assert changed.epochs[-1]["loss"] != plain.epochs[-1]["loss"]
    assert run(replace(quick, flip=True), 0).epochs == run(replace(quick, flip=True), 0).epochs


def test_options_of_model_and_neuron_reach_the_network(quick):
    options = {"model_options": {"depth": 4, "width": 5}, "neuron_options": {"coupling": -0.5}}
    deep = replace(quick, model="ucn", widths=(), family="implicit_bias", **options)
    layers = [layer for layer in network(deep, load("digits"), 0).modules() if isinstance(layer, ImplicitBiasConv2d)]
    assert [layer.coupling.item() for layer in layers] == [-0.5] * 4
    check(deep)
    assert run(replace(deep, epochs=1), 0).recipe == deep.__class__.from_json(replace(deep, epochs=1).to_json())


def test_a_single_class_is_refused_before_training(quick, tmp_path):
    file = tmp_path / "one.csv"
    file.write_text("a,b,class\n" + "1,2,x\n" * 20)
    with pytest.raises(ValueError, match="one has only the class 'x'"):
        check(replace(quick, data=str(file)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"probes": ("contrasts",)}, r"Unknown probe 'contrasts'. Did you mean 'contrast'\?"),
        ({"holdout": 1.5}, "held-out fraction"),
        ({"model": "mlp1", "widths": (), "model_options": {"width": 2**62}}, "mlp1 cannot be made with"),
        ({"model_options": {"num_classes": 3}}, "model option num_classes is decided already"),
        ({"family": "implicit_bias", "neuron_options": {"couplin": 1}}, r"fcn cannot be made with \{'couplin': 1\}"),
        ({"norm": "none", "model_options": {"norm": "batch"}}, "model option norm is decided already"),
    ],
)
def test_wrong_recipes_are_found_before_training(quick, monkeypatch, wrong, message):
    """More are in tests/cli/test_mistakes.py."""
    monkeypatch.setattr(run_module, "fit", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(ValueError, match=message) as error:
        check(replace(quick, **wrong))
    assert "\n" not in str(error.value)
