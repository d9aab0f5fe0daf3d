"""Attacks on a CUDA device: the same answers as on the CPU. Run with ./run test -m gpu."""

import copy
from functools import cache

import pytest
import torch
from torch.nn import functional as F

from neuronal.attacks import Ball, apgd, pgd, pixle
from neuronal.convert import convert
from neuronal.data.catalogue import load
from neuronal.models.registry import create_model

DEVICE = "cuda"
BALL = Ball("inf", 0.09)
ATTACKS = {
    "pgd": lambda model, x, y: pgd(model, x, y, BALL, steps=10),
    "pgd, 2-norm": lambda model, x, y: pgd(model, x, y, Ball(2, 0.5), steps=10, restarts=2),
    "apgd": lambda model, x, y: apgd(model, x, y, BALL, steps=12),
    "apgd, dlr": lambda model, x, y: apgd(model, x, y, BALL, steps=12, loss="dlr"),
    "transfer": lambda model, x, y: pgd(
        model, x, y, Ball("inf", 0.2), steps=10, surrogate=convert(model, "standard").model
    ),
    "pixle": lambda model, x, y: pixle(model, x, y, restarts=2, iterations=2, patch=(1, 3)),
}


@cache
def problem(neuron, dtype, count):
    """A network that has seen some digits, and as many of them as it is right about; trained on the CPU."""
    torch.manual_seed(0)
    options = {"coupling": -0.5} if neuron == "implicit_bias" else None
    model = create_model("ucn", neuron, num_classes=10, in_chans=1, img_size=8, neuron_options=options)
    digits = load("digits").scaled("unit").train
    x, y = digits.x[:400], digits.y[:400]
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(25):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()
    model = model.to(dtype).eval()
    for module in model.modules():
        if hasattr(module, "tolerance") and dtype == torch.float64:
            module.tolerance = 1e-10
    with torch.no_grad():
        right = model(x.to(dtype)).argmax(1) == y
    return model, x[right][:count].to(dtype), y[right][:count]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("neuron", ["standard", "implicit_bias"])
def test_attacks_find_the_same_images(neuron, attack):
    model, x, y = problem(neuron, torch.float64, 24)
    here = ATTACKS[attack](model, x, y)
    there = ATTACKS[attack](copy.deepcopy(model).to(DEVICE), x, y)
    # Or there would be nothing to compare.
    assert here.success.any()
    assert there.success.tolist() == here.success.tolist()
    assert there.queries.tolist() == here.queries.tolist()
    apart = (there.adversarial - here.adversarial).abs().flatten(1).amax(1)
    # A gradient that is 0 but for rounding may have either sign: one pixel of an image or two.
    assert (apart < 1e-6).double().mean() >= 0.9
    assert not there.adversarial.is_cuda


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_in_float32_leave_the_same_accuracy(attack):
    """With the fused kernels, which solve to 1e-4 as the plain path does, but not to the same last digits."""
    model, x, y = problem("implicit_bias", torch.float32, 200)
    here = ATTACKS[attack](model, x, y)
    there = ATTACKS[attack](copy.deepcopy(model).to(DEVICE), x, y)
    assert there.robust_accuracy == pytest.approx(here.robust_accuracy, abs=0.03)
    # What was found there is wrong here too, but for images at the very boundary.
    with torch.no_grad():
        wrong = model(there.adversarial).argmax(1) != y
    assert (wrong != there.success).double().mean() <= 0.03
