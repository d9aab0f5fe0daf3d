"""The programs of clients.py with the layers of each family: put in for torch's, and by ``convert``."""

from types import SimpleNamespace

import pytest
from torch import nn

import neuronal
from neuronal.nn.families import FAMILIES
from tests.peers.clients import CLIENTS
from tests.peers.conftest import COUPLED, KINDS, case, expected, reason

ROW = "clients"
# Where a neuron cannot stand for the layer and says so at once.
REFUSED = {
    ("gpt", "zero_bias"): (ValueError, "bias"),
    ("ppo", "zero_bias"): (AttributeError, "'NoneType' object has no attribute 'fill_'"),
    **{(name, "farkas"): (ValueError, "Use nn.") for name in ("dcgan", "siamese", "denoising", "ppo")},
}
# See tests/peers/test_torch_modules.py; the kinds are the ways.
EXPECTED = expected(
    ("gpt", "geometric farkas", "tied to a weight that is computed", "replaced"),
)


def cases():
    for client in CLIENTS:
        for family in FAMILIES:
            for way in ("replaced", "converted"):
                why = reason(EXPECTED, client.__name__, family, way)
                if (family, way) != ("standard", "converted"):
                    yield case(client, way, family, expected=why)


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
