"""Our layers and networks as programs of torch.export, in ONNX, and under FakeTensorMode."""

import copy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from neuronal.nn import (
    FarkasLinear,
    GeometricConv2d,
    GeometricLinear,
    ImplicitBiasConv2d,
    ImplicitBiasLinear,
    ZeroBiasLinear,
)
from tests.models.networks import small

COUPLED = {"coupling": -0.4, "learn_slope": True}
LAYERS = {
    "units": lambda: (ImplicitBiasLinear(5, 4, **COUPLED), (5,)),
    "images": lambda: (ImplicitBiasConv2d(2, 3, 3, per_channel=True, **COUPLED), (2, 8, 8)),
    "long rows": lambda: (ImplicitBiasConv2d(2, 3, 3, coupling=-0.4, learn_coupling=False), (2, 13, 13)),
    "two iterations": lambda: (ImplicitBiasLinear(5, 4, steps=2, **COUPLED), (5,)),
    "two iterations, images": lambda: (ImplicitBiasConv2d(2, 3, 3, steps=2, per_channel=True, **COUPLED), (2, 8, 8)),
    "geometric": lambda: (GeometricLinear(40, 4), (40,)),
    "geometric, images": lambda: (GeometricConv2d(2, 3, 3, activation="relu"), (2, 8, 8)),
    "farkas": lambda: (FarkasLinear(5, 4), (5,)),
    "zero bias": lambda: (ZeroBiasLinear(5, 4), (5,)),
}
NETWORKS = [
    ("cnn", "implicit_bias", "batch"),
    ("resnet18", "implicit_bias", "none"),
    ("resnet9", "geometric", "batch"),
    ("farkasnet18", "farkas", "none"),
    ("resnet18", "zero_bias", "none"),
    ("vit_tiny", "implicit_bias", "layer"),
]


def exported(model, x):
    return torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))


def agree_in_training(program, model, x):
    for each in (program, model):
        each(x).square().sum().backward()
    given = dict(program.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(given[name].grad, parameter.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
def test_exported_layers_are_trained(layer):
    layer, shape = LAYERS[layer]()
    agree_in_training(exported(layer, torch.randn(3, *shape)).module(), layer, torch.randn(5, *shape))


@pytest.mark.parametrize(("model", "neuron", "norm"), NETWORKS)
def test_networks_are_exported_with_a_batch_of_any_size_and_trained(model, neuron, norm):
    network, x = small(model, neuron, norm=norm).eval(), torch.randn(3, 2, 8, 8)
    program = exported(network, x).module()
    for rows in (1, 3, 7):
        x = torch.randn(rows, 2, 8, 8)
        torch.testing.assert_close(program(x), network(x), rtol=1e-5, atol=1e-6)
    agree_in_training(program, network, x)


def test_a_gradient_of_the_gradient_of_an_exported_layer():
    layer, x = ImplicitBiasLinear(5, 4, **COUPLED).double(), torch.randn(3, 5, dtype=torch.float64)
    found = []
    for each in (exported(layer, x).module(), layer):
        x.requires_grad_()
        (g,) = torch.autograd.grad(each(x).pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(g.square().sum(), x)[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_are_planned_with_tensors_that_have_no_numbers(layer):
    with FakeTensorMode():
        layer, shape = LAYERS[layer]()
        x = torch.randn(3, *shape, requires_grad=True)
        z = layer(x)
        z.sum().backward()
    assert z.shape[0] == 3
    assert x.grad.shape == x.shape
    assert all(parameter.grad.shape == parameter.shape for parameter in layer.parameters())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [name for name in LAYERS if name not in ("units", "images", "long rows")])
def test_layers_are_written_to_onnx(layer, tmp_path):
    """All but the solve, which has no operator there: ``steps=k`` has."""
    pytest.importorskip("onnxscript", reason="needs onnxscript, which writes ONNX")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, which reads it")
    layer, shape = LAYERS[layer]()
    model = nn.Sequential(layer, nn.ReLU()).eval()
    dynamic = ({0: torch.export.Dim("batch", min=1, max=64)},)
    written = torch.onnx.export(
        copy.deepcopy(model), (torch.randn(3, *shape),), dynamo=True, dynamic_shapes=dynamic, verbose=False
    )
    written.save(tmp_path / "layer.onnx")
    session = runtime.InferenceSession(tmp_path / "layer.onnx", providers=["CPUExecutionProvider"])
    for rows in (1, 3, 6):
        x = torch.randn(rows, *shape)
        (z,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(z), model(x), rtol=1e-4, atol=1e-5)
