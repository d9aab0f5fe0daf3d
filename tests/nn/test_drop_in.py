"""Our layers where programs call them as they call torch's own."""

import pytest
import torch
from torch import fx, nn

from neuronal.convert import convert, fold_batch_norm
from neuronal.nn.families import FAMILIES
from neuronal.nn.geometric import GeometricConv2d
from neuronal.nn.implicit_bias import ImplicitBiasConv2d, ImplicitBiasLinear
from tests.models.networks import small
from tests.nn.test_every_layer import SHAPES


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


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_torch_fx_records_a_layer_as_one_call(family, kind):
    arguments, shape = SHAPES[kind]
    model = nn.Sequential(getattr(FAMILIES[family], kind)(*arguments), nn.ReLU())
    graph, x = fx.symbolic_trace(model), torch.randn(shape)
    assert torch.equal(graph(x), model(x))
    if family in ("geometric", "farkas", "implicit_bias"):
        assert [node.op for node in graph.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    graph(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("model", "neuron"), [("resnet18", "geometric"), ("cnn", "implicit_bias"), ("farkasnet18", "farkas")]
)
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_torch_fx_reads_whole_networks(model, neuron, norm):
    network = small(model, neuron, norm=norm).eval()
    x = torch.randn(2, 2, 8, 8)
    assert torch.equal(fx.symbolic_trace(network)(x), network(x))


def test_batch_norms_behind_our_layers_are_folded_without_an_example():
    model = nn.Sequential(GeometricConv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).eval()
    model[1].running_mean.normal_()
    folded = fold_batch_norm(convert(model, "standard").model)
    x = torch.randn(2, 2, 6, 6)
    assert isinstance(folded[1], nn.Identity)
    torch.testing.assert_close(folded(x), model(x), rtol=1e-4, atol=1e-5)
