import itertools
import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.nn import ImplicitBiasLinear
from neuronal.train.loop import Diverged, fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded
from tests.train.small import data, plain, plain_loop

PLAN = Plan(epochs=3, batch_size=16, optim="adam", lr=0.01, schedule="cosine")


def test_the_loop_does_what_a_plain_loop_does():
    ours, theirs, split = plain(), plain(), data()
    optimiser = torch.optim.Adam(theirs.parameters())

    def cosine(step):
        optimiser.param_groups[0]["lr"] = 0.01 * (1 + math.cos(math.pi * step / 12)) / 2

    loss, accuracy = plain_loop(theirs, split.x, split.y, optimiser, epochs=3, seed=5, before_step=cosine)
    last = fit(ours, split, PLAN, seed=5).epochs[-1]
    torch.testing.assert_close(ours.cpu().state_dict(), theirs.state_dict(), rtol=0, atol=0)
    assert (last.number, last.steps, last.accuracy) == (3, 12, accuracy)
    assert last.loss == pytest.approx(loss, abs=1e-7)


def test_probes_are_called_after_every_epoch_and_progress_is_told():
    model, seen, told = plain(), [], []

    def probe(given, step):
        seen.append((given is model, step))
        return {"norm": float(step)}

    fitted = fit(model, data(), PLAN, probes=[probe], on_epoch=told.append)
    assert seen == [(True, 4), (True, 8), (True, 12)]
    assert [epoch.measured for epoch in fitted.epochs] == [{"norm": 4.0}, {"norm": 8.0}, {"norm": 12.0}]
    assert tuple(told) == fitted.epochs


@pytest.mark.parametrize("bad_step", [1, 7, 60, 99])
def test_the_first_step_without_a_finite_loss_is_named(bad_step):
    """60 and 99 lie on the far side of a look at the losses, 1 and 7 on the near side."""
    model, calls = plain(), itertools.count(1)
    model.register_forward_hook(lambda _, __, y: y * float("nan") if next(calls) >= bad_step else y)
    with pytest.raises(Diverged) as error:
        fit(model, data(), Plan(epochs=2, batch_size=1, optim="sgd", lr=0.1, schedule="one_cycle_linear"))
    assert error.value.step == bad_step
    assert error.value.lr == pytest.approx(0.1 * (1 - abs(2 * bad_step / 101 - 1)))
    assert "the loss became nan at step" in str(error.value)


def test_seeded_fixes_the_inside_and_leaves_the_outside_alone():
    torch.manual_seed(9)
    expected = torch.rand(2)
    torch.manual_seed(9)
    with seeded(4):
        first = torch.rand(2)
        assert torch.backends.cudnn.deterministic
    with seeded(4):
        assert torch.equal(torch.rand(2), first)
    assert torch.equal(torch.rand(2), expected)
    assert not torch.backends.cudnn.deterministic


def test_steps_are_told_now_and_then():
    told = []
    plan = Plan(epochs=3, batch_size=1, optim="sgd", lr=0.01)
    fitted = fit(plain(), data(), plan, on_step=told.append)
    assert [(s.number, s.num_steps, s.epoch) for s in told] == [(50, 150, 1), (100, 150, 2), (150, 150, 3)]
    # Here a group of steps is an epoch.
    assert [s.loss for s in told] == pytest.approx([e.loss for e in fitted.epochs])
    assert [s.accuracy for s in told] == [e.accuracy for e in fitted.epochs]
    assert all(s.images_per_second > 0 and s.lr == 0.01 for s in told)


def test_solves_that_do_not_converge_are_one_warning_per_epoch():
    split = data()
    layers = [ImplicitBiasLinear(6, 8, coupling=-2.0), ImplicitBiasLinear(8, 3, coupling=-2.0)]
    layers[0].tolerance = 1e-20
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(model, split, replace(PLAN, epochs=2), validation=split)
    # 50 images to train on and 50 to validate with; nothing is said by the layers.
    tail = "solves did not reach their tolerance; num_unconverged of each layer says which."
    assert [str(one.message) for one in caught] == [f"epoch {n}: 100 {tail}" for n in (1, 2)]
    assert all(one.filename == __file__ for one in caught)
    assert [layer.num_unconverged for layer in layers] == [200, 0]
    with pytest.warns(RuntimeWarning, match="ImplicitBiasLinear: 50 of 50 solves did not reach"):
        model(split.x)
