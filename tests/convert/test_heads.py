"""Which layers ``convert`` takes for the output of a model, and leaves plain."""

import pytest
import torch
from torch import nn

from neuronal.convert import convert
from neuronal.nn.farkas import FarkasConv2d, FarkasLinear
from tests.vision import vision


class Heads(nn.Module):
    def __init__(self, classifier, **attributes):
        super().__init__()
        self.body, self.head, self.head_dist = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.classifier = classifier
        self.__dict__.update(attributes)

    def get_classifier(self):
        return self.classifier(self)

    def forward(self, x):
        return self.head(self.body(x).relu()) + self.head_dist(self.body(x).relu())


def missing(model):
    raise AttributeError("this model has no head")


@pytest.mark.parametrize(
    ("classifier", "plain"),
    [
        (lambda model: model.head, {"head"}),
        (lambda model: (model.head, model.head_dist), {"head", "head_dist"}),
        (lambda model: nn.ModuleList([model.head, model.head_dist]), {"head", "head_dist"}),
        (lambda model: {"a": model.head_dist}, {"head_dist"}),
        (lambda model: nn.Sequential(nn.Dropout(), model.head), {"head"}),
        (lambda model: nn.Identity(), set()),
        (missing, {"head_dist"}),
    ],
)
def test_every_head_a_model_names_stays_plain(classifier, plain):
    converted = convert(Heads(classifier), "farkas").model
    kinds = {name: type(module) for name, module in converted.named_children()}
    assert {name for name, kind in kinds.items() if kind is nn.Linear} == plain
    assert kinds["body"] is FarkasLinear


def test_a_model_without_classes_has_no_output_layer():
    converted = convert(Heads(lambda model: model.head, num_classes=0), "farkas").model
    assert {type(module) for module in converted.children()} == {FarkasLinear}


@pytest.mark.parametrize("name", ["fc", "classifier", "head", "heads"])
def test_a_head_that_was_taken_off_is_none(name):
    """As people do with torchvision's: ``model.fc = nn.Identity()``."""
    model = nn.Sequential()
    model.body, model.last = nn.Linear(4, 4), nn.Linear(4, 4)
    setattr(model, name, nn.Linear(4, 2))
    assert [type(module) for module in convert(model, "farkas").model] == [FarkasLinear, FarkasLinear, nn.Linear]
    setattr(model, name, nn.Identity())
    assert [type(module) for module in convert(model, "farkas").model] == [FarkasLinear, FarkasLinear, nn.Identity]


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "efficientvit_m0", "shvit_s1"])
def test_timm_networks_without_a_head_are_converted_to_the_last_layer(name):
    vision()
    import timm

    try:
        model = timm.create_model(name, num_classes=0)
    except RuntimeError as unknown:
        pytest.skip(str(unknown))
    conversion = convert(model, "farkas")
    assert not [change for change in conversion.changes if "the output layer" in change.note]
    assert any(isinstance(module, FarkasLinear | FarkasConv2d) for module in conversion.model.modules())


HEADS = {
    "levit_128s": ["head.linear", "head_dist.linear"],
    "repvit_m0_9": ["head.head.l", "head.head_dist.l"],
    "crossvit_tiny_240": ["head.0", "head.1"],
}


@pytest.mark.parametrize("name", HEADS)
def test_timm_networks_with_two_heads_keep_both(name):
    vision()
    import timm

    conversion = convert(timm.create_model(name), "farkas")
    left = [change.path for change in conversion.changes if "the output layer" in change.note]
    assert sorted(left) == HEADS[name]
    side = 240 if "240" in name else 224
    x = torch.randn(2, 3, side, side)
    assert conversion.model.eval()(x).shape == (2, 1000)
