"""What a plan's options do, each against a plain loop or another way to the same numbers."""

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.nn import ImplicitBiasLinear
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.engine import _synchronise
from neuronal.train.loop import fit
from neuronal.train.mixup import mixed, mixed_loss, share_at
from neuronal.train.optim import Plan
from tests.train.small import data, plain, plain_loop

PLAN = Plan(epochs=2, batch_size=16, optim="sgd", lr=0.1)
EXACTLY = {"rtol": 0, "atol": 0}


def trained(plan, model=None, split=None, **more):
    model = plain() if model is None else copy.deepcopy(model)
    fitted = fit(model, split or data(), plan, seed=1, **more)
    return [p.detach().clone() for p in model.parameters()], fitted


def by_hand(change):
    """Two epochs of SGD; ``change`` is called with the model between backward and step."""
    model, split = plain(), data()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    plain_loop(model, split.x, split.y, optimiser, epochs=2, seed=1, before_step=lambda _: change(model))
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("parts", [2, 5, 99])
def test_a_batch_in_parts_is_the_same_step(parts):
    whole, fitted = trained(PLAN)
    split, other = trained(replace(PLAN, accumulate=parts))
    torch.testing.assert_close(whole, split, atol=1e-6, rtol=0)
    assert [e.loss for e in other.epochs] == pytest.approx([e.loss for e in fitted.epochs], abs=1e-6)
    assert [e.accuracy for e in other.epochs] == [e.accuracy for e in fitted.epochs]


def test_clipping_is_torchs():
    ours, _ = trained(replace(PLAN, clip=0.05))
    theirs = by_hand(lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.05))
    torch.testing.assert_close(ours, theirs, **EXACTLY)


def test_groups_have_their_rates():
    ours, _ = trained(replace(PLAN, scalar_lr=0.1))

    def slow(model):
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.grad *= 0.1

    # For SGD a tenth of the rate is a tenth of the gradient.
    torch.testing.assert_close(ours, by_hand(slow), atol=1e-7, rtol=1e-6)


def test_half_precision_runs_and_leaves_a_plain_model_and_the_next_plan_alone():
    model = plain()
    seen = []
    model[1].register_forward_hook(lambda _, __, y: seen.append(y.dtype))
    fit(model, data(), replace(PLAN, precision="bf16"))
    assert set(seen) == {torch.bfloat16}
    model(data().x)
    assert seen.pop() == torch.float32
    fit(model, data(), PLAN)
    assert seen[-1] == torch.float32


def test_fp16_trains_and_goes_on_with_its_scale(tmp_path):
    plan = replace(PLAN, precision="fp16")
    expected, _ = trained(plan)
    kept, _ = trained(plan, checkpoints=Checkpoints(tmp_path, every=1, keep=9))
    torch.testing.assert_close(kept, expected, **EXACTLY)
    for file in sorted(tmp_path.iterdir())[5:]:
        file.unlink()
    resumed, _ = trained(plan, checkpoints=tmp_path)
    torch.testing.assert_close(resumed, expected, **EXACTLY)


def test_a_scaled_loss_is_clipped_after_a_fresh_start_too():
    """Steps of the clipped size: gradients divided by the scale twice would leave next to none."""
    moved = []
    plan = replace(PLAN, precision="fp16", epochs=3, standard_epochs=1, clip=0.05, momentum=0.0)
    fit(plain(), data(), plan, probes=[lambda model, _: moved.append(model[0].weight.detach().clone()) or {}])
    first, second = ((b - a).norm().item() for a, b in pairwise(moved))
    assert first > 1e-3
    assert second > 1e-3


def test_batch_norms_see_all_processes_on_gpus_and_are_put_back():
    """Only the exchange of the layers: it takes GPUs to run them."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Sequential(nn.BatchNorm1d(8)))
    norm = model[1][0]
    put_back = _synchronise(model, 2, torch.device("cuda"))
    assert isinstance(model[1][0], nn.SyncBatchNorm)
    assert model[1][0].weight is norm.weight
    model[1][0].running_mean.fill_(3)
    put_back()
    assert model[1][0] is norm
    assert norm.running_mean.eq(3).all()


def test_channels_last_reaches_the_network():
    layouts = []
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 3))
    model.register_forward_pre_hook(lambda _, x: layouts.append(x[0].is_contiguous(memory_format=torch.channels_last)))
    split = Split(torch.randn(50, 3, 4, 4), data().y)
    one, _ = trained(PLAN, model, split)
    assert not any(layouts)
    layouts.clear()
    two, _ = trained(replace(PLAN, channels_last=True), model, split)
    assert all(layouts)
    torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


def test_compile_is_torchs(monkeypatch):
    """With a compiler that only counts: the real one takes long, and is torch's to test."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda model, dynamic, mode: compiled.append(model) or model)
    one, _ = trained(replace(PLAN, compile=True))
    assert len(compiled) == 1
    torch.testing.assert_close(one, trained(PLAN)[0], **EXACTLY)


def test_mixup_blends_images_and_loss_alike():
    x, y, logits = torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1]), torch.randn(5, 3)
    partner = torch.tensor([4, 0, 1, 2, 3])
    torch.testing.assert_close(mixed(x, 0.3), 0.3 * x + 0.7 * x[partner])
    soft = 0.3 * F.one_hot(y, 3) + 0.7 * F.one_hot(y[partner], 3)
    torch.testing.assert_close(mixed_loss(logits, y, "cross_entropy", 0.3), F.cross_entropy(logits, soft))
    assert torch.equal(mixed(x, 1.0), x)


def test_mixup_shares_are_beta_distributed_and_of_their_step():
    shares = torch.tensor([share_at(0.7, 0, step) for step in range(4000)])
    # Beta(a, a): mean 1/2, variance 1 / (4 (2a + 1)); four standard errors.
    assert shares.mean().item() == pytest.approx(0.5, abs=0.02)
    assert shares.var().item() == pytest.approx(1 / (4 * 2.4), abs=0.006)
    assert share_at(0.7, 0, 5) == share_at(0.7, 0, 5) != share_at(0.7, 1, 5)


def test_augmentation_is_new_every_step_and_fixed_by_the_seed():
    drawn = []

    def augment(x, generator):
        drawn.append(torch.rand(1, generator=generator, device=x.device).item())
        return x

    trained(PLAN, augment=augment)
    assert len(set(drawn)) == len(drawn) == 8
    trained(PLAN, augment=augment)
    assert drawn[8:] == drawn[:8]


def test_a_plateau_cuts_the_rate_and_stops():
    plan = replace(PLAN, epochs=9, lr=1e-12, cut_after=1, cut=0.5, stop_after=4)
    _, fitted = trained(plan, validation=data())
    # The first epoch is the best; nothing gets better after it.
    assert [epoch.lr for epoch in fitted.epochs] == pytest.approx([1e-12, 1e-12, 1e-12, 5e-13, 5e-13])
    assert "validation_loss" in fitted.epochs[0].measured
    with pytest.raises(ValueError, match="cut_after, stop_after and keep_best need validation data"):
        trained(plan)


@pytest.mark.parametrize("standard_epochs", [0, 2])
def test_gradients_are_those_of_the_last_step_also_of_couplings_that_standard_epochs_hold(standard_epochs):
    """A gradient that adds up lies in memory that CUDA graphs write to."""
    model = nn.Sequential(ImplicitBiasLinear(6, 8, coupling=-0.5), nn.ReLU(), nn.Linear(8, 3))
    everything = data()
    plan = replace(PLAN, epochs=3, batch_size=len(everything), standard_epochs=standard_epochs, mixup=0, lr=1e-12)
    seen = []

    def look(given, step):
        alone = copy.deepcopy(given)
        alone.zero_grad()
        F.cross_entropy(alone(everything.x), everything.answers).backward()
        seen.append((given[0].raw_coupling.grad.item(), alone[0].raw_coupling.grad.item()))
        return {}

    fit(model, everything, plan, seed=1, probes=[look])
    for own, expected in seen:
        assert own == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("learn", [True, False])
def test_standard_epochs_train_the_standard_neuron_and_then_start_anew(learn):
    torch.manual_seed(0)
    model = nn.Sequential(ImplicitBiasLinear(6, 8, coupling=-0.5, learn_coupling=learn), nn.ReLU(), nn.Linear(8, 3))
    standard = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    standard.load_state_dict(
        {name: v for name, v in model.state_dict().items() if "coup" not in name and "slope" not in name}
    )
    plan = replace(PLAN, epochs=4, schedule="cosine", standard_epochs=2)
    couplings, weights = [], []

    def look(given, step):
        couplings.append(given[0].coupling.item())
        weights.append(given[0].weight.detach().clone())
        return {}

    fitted = fit(model, data(), plan, seed=1, probes=[look])
    assert couplings[:2] == [0, 0]
    assert (couplings[2] != -0.5) == learn
    assert couplings[2] == pytest.approx(-0.5, abs=0.3)
    fit(standard, data(), replace(plan, epochs=2, standard_epochs=0), seed=1)
    torch.testing.assert_close(weights[1], standard[0].weight.detach(), atol=1e-5, rtol=0)
    # Cosine over 8 steps, twice: the rate after the last step of each half is the same.
    assert fitted.epochs[1].lr == fitted.epochs[3].lr
