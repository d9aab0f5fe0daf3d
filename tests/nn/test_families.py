"""What every neuron family owes to the network around it."""

import copy

import pytest
import torch
from torch import nn

from neuronal.names import UnknownName
from neuronal.nn.families import FAMILIES, family
from tests.nn.test_every_layer import SHAPES

EVERY = [pytest.param(f, kind, id=f"{f}-{kind}") for f in FAMILIES for kind in SHAPES]


def test_the_table_and_its_names():
    assert all(name == entry.name and entry.unit and entry.promise for name, entry in FAMILIES.items())
    # Everything is compared with it.
    assert next(iter(FAMILIES)) == "standard"
    with pytest.raises(UnknownName, match=r"Unknown neuron 'zerobias'. Did you mean 'zero_bias'\?"):
        family("zerobias")


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_layers_are_drop_in(name, kind):
    arguments, shape = SHAPES[kind]
    layer, plain = getattr(FAMILIES[name], kind)(*arguments), getattr(nn, kind)(*arguments)
    x = torch.randn(shape, requires_grad=True)
    y = layer(x)
    assert y.shape == plain(x).shape
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    assert layer(x[:0]).shape == plain(x[:0]).shape


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_layers_take_torch_options(name, kind):
    arguments, shape = SHAPES[kind]
    options = {} if kind == "Linear" else {"stride": 2, "padding": 1, "groups": 2, "padding_mode": "circular"}
    layer = getattr(FAMILIES[name], kind)(*arguments, **options, bias=False, dtype=torch.float64, device="cpu")
    plain = getattr(nn, kind)(*arguments, **options, bias=False, dtype=torch.float64)
    x = torch.randn(shape, dtype=torch.float64)
    assert layer(x).shape == plain(x).shape
    assert layer(x).dtype == torch.float64


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_reset_parameters_starts_over_and_deepcopy_copies(name, kind):
    layer = getattr(FAMILIES[name], kind)(*SHAPES[kind][0])
    before = copy.deepcopy(layer).state_dict()
    layer.reset_parameters()
    assert any(not torch.equal(before[key], value) for key, value in layer.state_dict().items())
