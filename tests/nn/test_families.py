"""What every neuron family owes to the network around it."""

import copy
from inspect import signature
from itertools import product

import pytest
import torch
from torch import nn

from neuronal.names import UnknownName
from neuronal.nn import FarkasLayer, GeometricLayer, ImplicitBiasLayer
from neuronal.nn.families import FAMILIES, family
from tests.nn.test_every_layer import SHAPES

EVERY = [pytest.param(f, kind, id=f"{f}-{kind}") for f in FAMILIES for kind in SHAPES]


def test_the_table_and_its_names():
    assert all(name == entry.name and entry.unit and entry.promise for name, entry in FAMILIES.items())
    # Everything is compared with it.
    assert next(iter(FAMILIES)) == "standard"
    with pytest.raises(UnknownName, match=r"Unknown neuron 'zerobias'. Did you mean 'zero_bias'\?"):
        family("zerobias")


@pytest.mark.parametrize("base", [GeometricLayer, FarkasLayer, ImplicitBiasLayer])
def test_a_base_class_is_that_of_its_four_layers_and_no_layer_itself(base):
    for name, kind in product(FAMILIES, SHAPES):
        is_own = name.replace("_", "") == base.__name__.removesuffix("Layer").lower()
        assert issubclass(getattr(FAMILIES[name], kind), base) == is_own
    with pytest.raises(TypeError, match=f"{base.__name__} is the base class of layers"):
        base(2, 3)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_layers_are_drop_in(name, kind):
    arguments, shape = SHAPES[kind]
    options = {} if kind == "Linear" else {"stride": 2, "padding": 1, "groups": 2, "padding_mode": "circular"}
    for given in ({}, {**options, "bias": False, "dtype": torch.float64, "device": "cpu"}):
        layer, plain = getattr(FAMILIES[name], kind)(*arguments, **given), getattr(nn, kind)(*arguments, **given)
        assert list(signature(layer.forward).parameters) == list(signature(plain.forward).parameters)
        x = torch.randn(shape, dtype=given.get("dtype"))
        y = layer(x)
        assert (y.shape, y.dtype) == (plain(x).shape, x.dtype)
        assert torch.equal(layer(input=x), y)
        assert layer(x[:0]).shape == plain(x[:0]).shape
        y.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_reset_parameters_starts_over_and_deepcopy_copies(name, kind):
    layer = getattr(FAMILIES[name], kind)(*SHAPES[kind][0])
    before = copy.deepcopy(layer).state_dict()
    layer.reset_parameters()
    assert any(not torch.equal(before[key], value) for key, value in layer.state_dict().items())
