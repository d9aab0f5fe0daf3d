"""The programs of clients.py with the layers of each family: put in for torch's, and by ``convert``."""

from types import SimpleNamespace

import pytest
from torch import nn

import neuronal
from neuronal.nn.families import FAMILIES
from tests.peers.clients import CLIENTS
from tests.peers.conftest import COUPLED, KINDS, case

# Where a neuron cannot stand for the layer and says so at once. The second of nn.Linear(bias=False) is torch's own.
REFUSED = {
    ("gpt", "zero_bias"): (ValueError, "bias"),
    ("ppo", "zero_bias"): (AttributeError, "'NoneType' object has no attribute 'fill_'"),
    # An embedding's weight is to be one that is computed, and torch wants a parameter there.
    ("gpt", "geometric"): (TypeError, "cannot assign .* as parameter 'weight'"),
    ("gpt", "farkas"): (TypeError, "cannot assign .* as parameter 'weight'"),
    **{(name, "farkas"): (ValueError, "Use nn.") for name in ("dcgan", "siamese", "denoising", "ppo")},
}


def row_of(client, way, family):
    if way == "converted":
        return "clients, converted"
    return "clients, refused in one line" if (client.__name__, family) in REFUSED else "clients, text replaced"


def cases():
    for client in CLIENTS:
        for family in FAMILIES:
            for way in ("replaced", "converted"):
                if (family, way) != ("standard", "converted"):
                    yield case(client, way, family, expected="")


@pytest.mark.parametrize(("client", "way", "family"), list(cases()))
def test_clients(client, way, family):
    if way == "converted":
        options = COUPLED.get(family, {})
        client(nn, lambda model, x: neuronal.convert(model, family, example=x, **options).model)
        return
    layers = SimpleNamespace(**{kind: getattr(FAMILIES[family], kind) for kind in KINDS})
    refused = REFUSED.get((client.__name__, family))
    if refused is None:
        client(layers, lambda model, _: model)
        return
    with pytest.raises(refused[0], match=refused[1]) as error:
        client(layers, lambda model, _: model)
    assert "\n" not in str(error.value)
