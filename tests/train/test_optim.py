import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.optim import lr_scheduler

from neuronal.nn import FarkasLinear, GeometricLinear, ImplicitBiasLinear
from neuronal.nn.residual import Multiplier
from neuronal.train.optim import OPTIMISERS, Plan, parameter_groups
from neuronal.train.schedule import SCHEDULES

PLAN = {"epochs": 1, "batch_size": 4, "optim": "sgd", "lr": 0.1}


def torch_rates(make, num_steps):
    """The rates torch's own scheduler gives to the steps 0 to num_steps - 1."""
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = make(optimiser)
    rates = []
    for _ in range(num_steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("num_steps", [1, 2, 10, 97])
def test_schedules_against_torch(num_steps):
    # torch's cycle touches 0 at both ends; ours leaves these two points out, hence num_steps + 1 intervals.
    half = (num_steps + 1) / 2
    triangle = torch_rates(
        lambda o: lr_scheduler.CyclicLR(o, 0.0, 0.1, step_size_up=half, cycle_momentum=False), num_steps + 1
    )
    tenth = num_steps / 10
    steps = [t for t in range(1, num_steps) for cut in (3, 6, 8) if t - 1 < cut * tenth <= t]
    oracle = {
        "constant": [0.1] * num_steps,
        "cosine": torch_rates(lambda o: lr_scheduler.CosineAnnealingLR(o, num_steps), num_steps),
        "step": torch_rates(lambda o: lr_scheduler.MultiStepLR(o, steps, gamma=0.2), num_steps),
        "one_cycle_linear": triangle[1:],
    }
    assert set(oracle) == set(SCHEDULES)
    for name, rates in oracle.items():
        plan = Plan(**PLAN, schedule=name)
        assert [plan.lr_at(step, num_steps) for step in range(num_steps)] == pytest.approx(rates, abs=1e-12), name


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_get_the_plans_numbers(name):
    plan = Plan(1, 4, name, 0.3, momentum=0.7, weight_decay=0.01)
    optimiser = plan.optimiser([nn.Parameter(torch.zeros(1))])
    assert type(optimiser).__name__.lower() == name
    assert optimiser.defaults["lr"] == 0.3
    assert optimiser.defaults["weight_decay"] == 0.01
    assert optimiser.defaults.get("momentum", 0.7) == 0.7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs needs to be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size needs to be a whole number of at least 1"),
        ({"lr": 0}, "lr needs to be a positive number, got 0"),
        ({"lr": float("nan")}, "lr needs to be a positive number, got nan"),
        ({"momentum": 1.0}, "momentum needs"),
        ({"weight_decay": -1.0}, "weight_decay needs"),
        ({"accumulate": 0}, "accumulate needs to be a whole number of at least 1"),
        ({"warmup": 1.0}, r"warmup needs to be in \[0, 1\)"),
        ({"clip": -1.0}, "clip needs to be a number that is not negative"),
        ({"standard_epochs": 1}, "standard_epochs needs to leave some of the 1 epochs, got 1"),
        ({"optim": "adan"}, "Did you mean 'adam'"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"precision": "bf1"}, "Unknown precision 'bf1'. Did you mean 'bf16'"),
        ({"monitor": "los"}, "Unknown measure 'los'. Did you mean 'loss'"),
        ({"replay": True, "accumulate": 2}, "replay needs accumulate 1, got 2"),
        ({"loss": "sqared"}, "Unknown loss 'sqared'. Did you mean 'squared'"),
    ],
)
def test_wrong_options_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Plan(**PLAN | wrong)


class Everything(nn.Module):
    """One of each kind of parameter there is in the library."""

    def __init__(self):
        super().__init__()
        self.plain, self.norm, self.multiplier = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), Multiplier()
        self.implicit, self.geometric = ImplicitBiasLinear(3, 4), GeometricLinear(4, 5)
        self.farkas, self.lengths = FarkasLinear(5, 6), weight_norm(nn.Linear(6, 2))


def names_of(model, groups):
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [{names[p] for p in group["params"]} for group in groups]


def test_one_group_of_all_or_of_some():
    model = Everything()
    (group,) = parameter_groups(model, Plan(**PLAN))
    assert group["params"] == list(model.parameters())
    decayed, angles = names_of(model, parameter_groups(model, Plan(**PLAN, weight_decay=0.1)))
    assert angles == {"geometric.delta"}
    assert decayed | angles == {name for name, _ in model.named_parameters()}
    (names,) = names_of(model, parameter_groups(model, Plan(**PLAN), without={"implicit.raw_coupling"}))
    assert {name for name, _ in model.named_parameters()} - names == {"implicit.raw_coupling"}


def test_weight_decay_on_weights_only():
    model = Everything()
    groups = parameter_groups(model, Plan(**PLAN, weight_decay=0.1, decay_weights_only=True))
    weights, others = names_of(model, sorted(groups, key=lambda group: -group["weight_decay"]))
    assert sorted(group["weight_decay"] for group in groups) == [0, 0.1]
    assert weights == {
        "plain.weight",
        "implicit.weight",
        "geometric.scale",
        "farkas.rows",
        "lengths.parametrizations.weight.original1",
    }
    assert weights | others == {name for name, _ in model.named_parameters()}


def test_fixup_scalars_get_their_share_of_the_rate():
    model = Everything()
    groups = parameter_groups(model, Plan(**PLAN, scalar_lr=0.1))
    slow, rest = names_of(model, sorted(groups, key=lambda group: group["lr_factor"]))
    assert sorted(group["lr_factor"] for group in groups) == [0.1, 1]
    assert slow == {
        "plain.bias",
        "norm.bias",
        "multiplier.scale",
        "implicit.bias",
        "geometric.offset",
        "farkas.balance.offsets",
        "farkas.balance.last",
        "lengths.bias",
    }
    assert not slow & rest
