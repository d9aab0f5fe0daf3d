import pytest
import torch
from torch import nn

from neuronal.ops.hinge import hinge


@pytest.mark.parametrize("layer", [nn.Linear(3, 5), nn.Linear(3, 5, bias=False), nn.Conv2d(2, 4, 3)], ids=repr)
def test_a_unit_switches_on_its_hinge(layer):
    """At the location, and anywhere else on the hyperplane, the unit's own output is zero; along the normal it grows."""
    layer = layer.double().requires_grad_(False)
    found = hinge(layer.weight, layer.bias)
    normal = found.normal
    along = torch.randn_like(normal)
    along -= (along * normal).sum(1, keepdim=True) * normal
    shape = layer.weight.shape[1:]
    for unit, point in enumerate(found.location):
        for offset, sign in ((along[unit], 0), (along[unit] + 0.1 * normal[unit], 1), (-0.1 * normal[unit], -1)):
            value = layer((point + offset).view(1, *shape)).flatten()[unit].item()
            assert value == pytest.approx(0, abs=1e-12) if sign == 0 else value * sign > 0
    x = torch.randn(6, normal.shape[1], dtype=torch.float64)
    lengths = layer.weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(found.distance(x) * lengths, layer(x.view(6, *shape)).flatten(1), rtol=1e-9, atol=1e-12)


def test_small_weights_have_a_hinge():
    found = hinge(torch.tensor([[3e-30, 4e-30]]), torch.tensor([5e-30]))
    torch.testing.assert_close(found.normal, torch.tensor([[0.6, 0.8]]))
    torch.testing.assert_close(found.offset, torch.tensor([1.0]))


def test_a_unit_without_weights_has_no_hinge():
    found = hinge(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([1.0, 1.0]))
    assert found.normal[0].isnan().all()
    assert found.offset[0].isnan()
    assert found.normal[1].isfinite().all()
    assert hinge(torch.zeros(1, 2), None).offset.isnan()
    assert hinge(torch.ones(1, 2), None).offset == 0
