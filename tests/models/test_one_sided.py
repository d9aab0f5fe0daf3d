import pytest
import torch
from torch import nn

from neuronal.models.one_sided import ACTIVATIONS
from neuronal.models.registry import create_model
from neuronal.names import UnknownName
from neuronal.nn import FarkasLinear, FarkasResidual, GeometricLinear


def network(neuron="farkas", **options):
    return create_model("one_sided", neuron, num_classes=3, in_chans=1, img_size=2, widths=(6, 5, 4), **options)


def largest_before_each_activation(net, x):
    seen = []
    for module in net.modules():
        if isinstance(module, tuple({type(make()) for make in ACTIVATIONS.values()})):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].amax(1)))
    net(x)
    return torch.stack(seen)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("cutoff", [-2.0, 0.0, 1.0])
def test_some_unit_is_above_the_cutoff_in_every_layer(activation, cutoff):
    net = network(activation=activation, cutoff=cutoff, margin=0.01).double()
    x = torch.cat([10 * torch.randn(200, 1, 2, 2), torch.zeros(1, 1, 2, 2)]).double()
    largest = largest_before_each_activation(net, x)
    assert len(largest) == 3
    assert largest.min() > cutoff


@pytest.mark.parametrize("options", [{"rule": "max"}, {"learn_multipliers": True}, {"aggregate": "mean"}])
def test_options_reach_every_layer(options):
    balances = [module.balance for module in network(**options).modules() if isinstance(module, FarkasLinear)]
    assert len(balances) == 3
    for balance in balances:
        text = repr(balance)
        assert all(f"{name}={value!r}" in text for name, value in options.items())


def test_closed_layers_of_another_neuron_keep_the_promise():
    net = network("geometric", closed=True).double()
    assert largest_before_each_activation(net, 10 * torch.randn(200, 1, 2, 2).double()).min() > 0
    assert [m.out_features for m in net.modules() if isinstance(m, GeometricLinear)] == [5, 4, 3]
    assert sum(isinstance(m, FarkasResidual) for m in net.modules()) == 3


def test_the_plain_one_is_a_stack_of_layers_and_activations():
    net = network("standard", activation="elu")
    x = torch.randn(7, 1, 2, 2)
    y = x.flatten(1)
    for layer in [m for m in net.features if isinstance(m, nn.Linear)]:
        y = torch.where((z := layer(y)) > 0, z, z.exp() - 1)
    assert torch.allclose(net(x), net.head(y), atol=1e-6)


@pytest.mark.parametrize(
    ("neuron", "options", "words"),
    [
        ("standard", {"margin": 0.1}, "are of Farkas layers, got neuron 'standard'. Use closed=True"),
        ("farkas", {"closed": True}, "closed already"),
        ("farkas", {"norm": "batch"}, "Unknown norm of one_sided 'batch'. There are: none"),
    ],
)
def test_what_makes_no_sense_is_refused(neuron, options, words):
    with pytest.raises(ValueError, match=words):
        network(neuron, **options)
    with pytest.raises(UnknownName, match="Unknown activation 'tanh'"):
        network(activation="tanh")
