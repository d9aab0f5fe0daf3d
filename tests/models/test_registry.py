from dataclasses import replace

import pytest
from torch import nn

from neuronal.models.registry import create_model, describe, is_model, list_models, num_parameters, register_model
from neuronal.nn.families import ZERO_BIAS
from tests.models.networks import MODELS


def test_every_model_says_what_it_is():
    assert all(describe(model).endswith(".") for model in list_models())


@pytest.mark.parametrize("model", MODELS)
def test_parameters_without_building_the_network(model):
    neuron = "farkas" if model.startswith("farkasnet") else "standard"
    if model in ("fcn", "cnn", "ucn", "mlp1"):
        assert num_parameters(model) == sum(p.numel() for p in create_model(model, neuron).parameters())
    assert num_parameters(model) > 10_000


def test_a_family_of_ones_own_has_no_name_in_the_recipe():
    own = replace(ZERO_BIAS, promise="mine")
    model = create_model("fcn", own, img_size=4)
    assert isinstance(model.head, ZERO_BIAS.Linear)
    assert model.recipe["neuron"] is None
    assert create_model("fcn", ZERO_BIAS, img_size=4).recipe["neuron"] == "zero_bias"


def test_list_models_filters_like_a_shell():
    assert list_models() == sorted(list_models())
    assert list_models("c*") == ["cnn"]
    assert is_model("cnn")
    assert not is_model("cn")


def test_a_name_is_registered_once():
    def cnn(layers, **shape):
        return nn.Identity()

    with pytest.raises(ValueError, match="registered already"):
        register_model(cnn)
