"""Law of zero-bias networks: f(s x) = s f(x) for s > 0, and f(0) = 0."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.nn.families import FAMILIES
from tests.models.networks import PLAIN, small

SCALING = ["zero_bias"]
# The residual networks have a law of their own in tests/models/test_every_model.py: Fixup starts them at zero.
MODELS = PLAIN


def network(model, neuron, dtype=torch.float64):
    torch.manual_seed(1)
    return small(model, neuron, norm="none", num_classes=5).to(dtype)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("neuron", SCALING)
@settings(max_examples=30, deadline=None)
@given(exponent=st.integers(-30, 30), seed=st.integers(0, 10**6))
def test_bit_for_bit_at_powers_of_two(model, neuron, exponent, seed):
    net = network(model, neuron, torch.float32)
    x = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(net(x * 2.0**exponent), net(x) * 2.0**exponent)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("neuron", SCALING)
@settings(max_examples=30, deadline=None)
@given(s=st.floats(1e-6, 1e6), seed=st.integers(0, 10**6))
def test_to_rounding_at_any_scale(model, neuron, s, seed):
    net = network(model, neuron)
    x = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    # s x is rounded once more than x: a few units of 2^-53, amplified by cancellation in sums of some hundred terms.
    torch.testing.assert_close(net(s * x) / s, net(x), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("neuron", SCALING)
def test_nothing_in_nothing_out(model, neuron):
    assert network(model, neuron)(torch.zeros(1, 2, 8, 8, dtype=torch.float64)).eq(0).all()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("neuron", sorted(set(FAMILIES) - set(SCALING)))
def test_the_other_neurons_do_not_promise_it(model, neuron):
    """Otherwise the tests above could not fail."""
    net = network(model, neuron)
    x = torch.randn(3, 2, 8, 8, dtype=torch.float64)
    assert (net(x / 4) - net(x) / 4).abs().max() > 1e-3
