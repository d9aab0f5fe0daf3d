import pytest
import torch
from torch import nn

from neuronal.models import registry
from neuronal.models.registry import create_model, describe, is_model, list_models, register_model
from neuronal.names import UnknownName
from neuronal.nn.families import FAMILIES, ZERO_BIAS

EVERY = [(model, neuron) for model in list_models() for neuron in FAMILIES]


@pytest.mark.parametrize(("model", "neuron"), EVERY)
def test_every_model_takes_every_neuron(model, neuron):
    net = create_model(model, neuron, num_classes=7, in_chans=2, img_size=12)
    x = torch.rand(4, 2, 12, 12)
    assert net(x).shape == (4, 7)
    assert (net.num_classes, net.in_chans) == (7, 2)
    assert torch.equal(net.forward_head(net.forward_features(x)), net(x))
    assert net.forward_features(x).shape == (4, net.num_features)
    assert describe(model).endswith(".")


@pytest.mark.parametrize(("model", "neuron"), EVERY)
def test_reset_classifier_keeps_the_features_and_the_neuron(model, neuron):
    net = create_model(model, neuron, num_classes=7, in_chans=1, img_size=8)
    x = torch.rand(2, 1, 8, 8)
    features, head = net.forward_features(x), net.get_classifier()
    net.reset_classifier(3)
    assert type(net.get_classifier()) is type(head)
    assert net(x).shape == (2, 3)
    assert torch.equal(net.forward_features(x), features)
    net.reset_classifier(0)
    assert torch.equal(net(x), features)


def test_list_models_filters_like_a_shell():
    assert list_models() == sorted(list_models())
    assert list_models("c*") == ["cnn"]
    assert is_model("cnn")
    assert not is_model("cn")


def test_a_family_of_ones_own_can_be_handed_in():
    assert isinstance(create_model("fcn", ZERO_BIAS).head, ZERO_BIAS.Linear)


def test_unknown_names_and_options_are_named():
    with pytest.raises(UnknownName, match=r"Unknown model 'cnm'. Did you mean 'cnn'\? There are: cnn, fcn"):
        create_model("cnm")
    with pytest.raises(UnknownName, match="Unknown neuron"):
        create_model("cnn", "nothing")
    with pytest.raises(UnknownName, match=r"Unknown option of model 'cnn' 'width'. Did you mean 'widths'\?"):
        create_model("cnn", width=(1, 2))


def test_a_model_may_say_nothing_of_itself(monkeypatch):
    monkeypatch.setitem(registry._MODELS, "silent", lambda layers, **shape: nn.Identity())
    assert describe("silent") == ""


def test_a_name_is_registered_once():
    def cnn(layers, **shape):
        return nn.Identity()

    with pytest.raises(ValueError, match="registered already"):
        register_model(cnn)
