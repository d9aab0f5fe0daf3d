"""Options of the neuron's layers: given to every unit of a network, and kept in its recipe."""

import torch

from neuronal import create_model, load_model, save_model
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
