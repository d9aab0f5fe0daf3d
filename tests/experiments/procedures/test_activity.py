"""Layers that are off, in networks made so by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.experiments.procedures.farkas.activity import certified, findings, measure, off
from neuronal.experiments.reproduction import Setting
from neuronal.nn import FarkasLinear
from neuronal.recipes.farkas.layers import FASHION, smoke


def network(first):
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(2, 2)).double()


def facing_away():
    layer = nn.Linear(2, 2)
    nn.init.constant_(layer.weight, -1.0)
    nn.init.constant_(layer.bias, -0.5)
    return network(layer)


def images():
    return Split(torch.rand(20, 1, 1, 2).double(), torch.zeros(20, dtype=torch.long))


def test_a_layer_that_faces_away_is_dead_and_refuted():
    assert off(facing_away(), images()) == {"dead_units": 1.0, "dead_layers": 1.0, "silent": 1.0}
    found = certified(facing_away(), images())
    assert (found["refuted"], found["certified"], found["checked"]) == (1, 0, True)


def test_a_farkas_layer_is_certified_with_its_promise():
    model = network(FarkasLinear(2, 2))
    found = certified(model, images())
    assert (found["refuted"], found["certified"], found["checked"]) == (0, 1, True)
    assert found["margin"] == pytest.approx(model[1].promise().item(), rel=1e-6)
    assert off(model, images())["silent"] == 0


class Silent:
    def say(self, line):
        pass


def test_shares_before_training_and_after_every_epoch():
    recipes = [replace(smoke(FASHION), name=family, family=family, epochs=2) for family in ("standard", "farkas")]
    claims = (
        {"kind": "never_silent", "row": "farkas", "than": "standard", "text": "never"},
        {"kind": "certified", "row": "farkas", "text": "proved"},
        {"kind": "fewer_dead", "row": "farkas", "than": "standard", "text": "fewer"},
        {"kind": "fails", "row": "standard", "text": "fails"},
        {"kind": "certified", "row": "nobody", "text": "not there"},
    )
    options = {"images": 50, "classes": 10, "claims": claims}
    answer = {"result": measure(Setting(tuple(recipes), options), Silent()), "options": options}
    for row in answer["result"]["rows"]:
        assert all(len(shares) == 3 for shares in row["over_training"]["0"].values())
    found = {one.claim: one for one in findings(answer)}
    assert list(found) == ["never", "proved", "fewer", "fails"]
    assert found["never"].verdict == found["proved"].verdict == "reproduced"
    assert "all 4 layers certified in 1 of 1" in found["proved"].numbers


def test_a_training_that_breaks_down_is_said_to():
    wild = replace(smoke(FASHION), name="wild", lr=1e9)
    options = {"images": 50, "classes": 10, "claims": ({"kind": "fails", "row": "wild", "text": "fails"},)}
    result = measure(Setting((wild,), options), Silent())
    (row,) = result["rows"]
    assert row["certificates"] == {}
    assert "loss became" in row["failed"]["0"]
    assert findings({"result": result, "options": options})[0].verdict == "reproduced"
