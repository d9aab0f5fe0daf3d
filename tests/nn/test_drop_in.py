"""Our layers where programs call them as they call torch's own."""

import inspect

import pytest
import torch
from torch import nn

from neuronal.nn.families import FAMILIES
from neuronal.nn.implicit_bias import ImplicitBiasConv2d, ImplicitBiasLinear

PLAIN = {"Linear": ((5, 4), (3, 5)), "Conv1d": ((2, 3, 3), (2, 2, 8)), "Conv2d": ((2, 3, 3), (2, 2, 8, 8))}
PLAIN |= {"Conv3d": ((2, 3, 3), (2, 2, 5, 5, 5))}


@pytest.mark.parametrize("plain", PLAIN)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_input_may_be_given_by_torchs_name(family, plain):
    arguments, shape = PLAIN[plain]
    layer = getattr(FAMILIES[family], plain)(*arguments)
    x = torch.randn(shape)
    assert torch.equal(layer(input=x), layer(x))
    assert (
        list(inspect.signature(layer.forward).parameters)
        == list(inspect.signature(getattr(nn, plain).forward).parameters)[1:]
    )


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: ImplicitBiasLinear(5, 4, coupling=-0.4), (5,)),
        (lambda: ImplicitBiasConv2d(2, 3, 3, coupling=-0.4, per_channel=True), (2, 6, 6)),
        (lambda: ImplicitBiasConv2d(2, 3, 3, coupling=0.05), (2, 6, 6)),
    ],
)
def test_implicit_layers_are_exported_with_a_batch_of_any_size(make, shape, strict):
    layer = make().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(layer, (torch.randn(3, *shape),), dynamic_shapes=({0: batch},), strict=strict)
    for rows in (1, 3, 7):
        x = torch.randn(rows, *shape)
        torch.testing.assert_close(program.module()(x), layer(x), rtol=0, atol=0)
