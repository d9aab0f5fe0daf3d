"""Weight decay acts on sizes, in our groups and in timm's."""

import copy
import pickle

import pytest
import torch
from torch import nn

from neuronal.convert import convert
from neuronal.models import create_model
from neuronal.nn import FarkasLinear, GeometricLinear, ImplicitBiasLinear, decay_groups
from neuronal.train import Plan
from neuronal.train.optim import parameter_groups
from tests.vision import vision


def geometric():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 3))
    return convert(model, "geometric").model


def timms(model):
    vision()
    from timm.optim import create_optimizer_v2

    return create_optimizer_v2(model, "adamw", lr=0.01, weight_decay=0.5)


def plans(model, **options):
    plan = Plan(epochs=1, batch_size=1, optim="adamw", lr=0.01, weight_decay=0.5, **options)
    return plan.optimiser(parameter_groups(model, plan))


OPTIMISERS = {
    "decay_groups": lambda model: torch.optim.AdamW(decay_groups(model, 0.5), lr=0.01),
    "timm": timms,
    "plan": plans,
    "plan, weights only": lambda model: plans(model, decay_weights_only=True),
}


@pytest.mark.parametrize("name", [*OPTIMISERS, "all"])
def test_decay_alone_turns_no_geometric_unit(name):
    model = geometric()
    layer, start = model[0], model[0].direction().detach()
    optimiser = (
        OPTIMISERS[name](model) if name in OPTIMISERS else torch.optim.AdamW(model.parameters(), weight_decay=0.5)
    )
    size = layer.scale.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(500):
        optimiser.step()
    # What this guards against is there if every parameter decays.
    assert torch.equal(layer.direction(), start) == (name != "all")
    # timm spares vectors, and the scale is one.
    assert torch.equal(layer.scale, size) == (name == "timm")


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 3, 4))
        self.layers = nn.ModuleList(
            [nn.Linear(4, 4), ImplicitBiasLinear(4, 4, learn_slope=True), GeometricLinear(4, 4)]
        )
        self.layers.append(FarkasLinear(4, 4, learn_multipliers=True))

    def no_weight_decay(self):
        return {"position"}


def names(model, groups):
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    return {group["weight_decay"]: {known[id(p)] for p in group["params"]} for group in groups}


def test_groups_name_what_decays():
    model = Named()
    decayed = {"layers.0.weight", "layers.1.weight", "layers.2.scale", "layers.3.rows"}
    every = {name for name, _ in model.named_parameters()}
    assert names(model, decay_groups(model, 0.1)) == {0.1: decayed, 0.0: every - decayed}
    converted = convert(model, "geometric").model
    assert {"position", "layers.0.delta", "layers.0.offset", "layers.2.delta"} <= converted.no_weight_decay()
    assert not any(name.endswith("scale") for name in converted.no_weight_decay())


def test_models_say_what_timm_asks_for_in_copies_too():
    network = create_model("cnn", "geometric", in_chans=1, img_size=8, widths=(4, 4, 8))
    converted = convert(create_model("cnn", in_chans=1, img_size=8, widths=(4, 4, 8)), "geometric").model
    assert network.no_weight_decay() == converted.no_weight_decay()
    for other in (copy.deepcopy(converted), pickle.loads(pickle.dumps(converted))):
        other.head = nn.Identity()
        assert other.no_weight_decay() < converted.no_weight_decay()


def test_a_layer_converted_twice_speaks_of_itself():
    model = nn.Sequential(convert(nn.Linear(3, 4), "geometric").model)
    assert model[0].no_weight_decay() == {"delta", "offset"}
    assert "no_weight_decay" not in vars(convert(model, "standard").model[0])
