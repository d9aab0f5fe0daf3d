"""Options of the neuron's layers: given to every unit of a network, kept in its recipe, part of an experiment's name."""

import json
from dataclasses import replace

import pytest
import torch

from neuronal import create_model, load_model, save_model
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.run import check
from neuronal.nn.implicit_bias import ImplicitBiasConv2d

SHAPE = {"num_classes": 3, "in_chans": 1, "img_size": 8}


def test_every_layer_gets_them_and_a_file_too(tmp_path):
    options = {"coupling": -0.5, "slope": 4.0, "learn_coupling": False}
    model = create_model("ucn", "implicit_bias", **SHAPE, neuron_options=options)
    layers = [module for module in model.modules() if isinstance(module, ImplicitBiasConv2d)]
    assert len(layers) == 2
    assert {(layer.coupling.item(), round(layer.slope.item(), 5)) for layer in layers} == {(-0.5, 4.0)}
    save_model(model, tmp_path / "m.safetensors")
    same = load_model(tmp_path / "m.safetensors")
    x = torch.rand(2, 1, 8, 8)
    assert same(x).equal(model.eval()(x))
    assert "neuron_options" not in create_model("ucn", "implicit_bias", **SHAPE).recipe


def test_a_recipe_with_them_is_another_experiment():
    plain = Recipe("a", family="implicit_bias", model="ucn")
    fixed = replace(plain, neuron_options={"coupling": -0.5, "learn_coupling": False})
    assert Recipe.from_json(json.loads(json.dumps(fixed.to_json()))) == fixed
    assert fixed.fingerprint() != plain.fingerprint()
    check(fixed)
    with pytest.raises(ValueError, match="neuron option coupling needs numbers"):
        replace(plain, neuron_options={"coupling": {}})
    with pytest.raises(ValueError, match=r"ucn cannot be made with \{'couplin': 1\}"):
        check(replace(plain, neuron_options={"couplin": 1}))
