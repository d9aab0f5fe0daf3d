"""What holds for every network, neuron and norm."""

import copy
import json
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from neuronal.models.registry import create_model
from neuronal.nn.families import FAMILIES, FARKAS
from neuronal.nn.farkas import FarkasConv2d
from tests.models.networks import ALLOWED, EVERY, KINDS, MODELS, PAIRWISE, REFUSED, SCALING, SMALL, small


def test_the_list_of_cases_is_complete():
    assert set(SMALL) == set(MODELS)
    assert ALLOWED < EVERY


@pytest.mark.parametrize(("model", "neuron", "norm"), PAIRWISE)
def test_what_goes_together_learns(model, neuron, norm):
    net = small(model, neuron, norm=norm)
    logits = net(torch.randn(4, 2, 8, 8))
    assert logits.shape == (4, 3)
    nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    assert logits.isfinite().all()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(("model", "neuron"), [(model, neuron) for model in MODELS for neuron in FAMILIES])
def test_what_does_not_go_together_is_refused_in_one_line(model, neuron):
    for norm in [norm for m, n, norm in REFUSED if (m, n) == (model, neuron)]:
        with pytest.raises(ValueError, match=r"^[^\n]+\.$") as refused:
            small(model, neuron, norm=norm)
        message = str(refused.value)
        assert "Use " in message or "There are: " in message
        assert norm in message or neuron in message


@pytest.mark.parametrize(
    ("model", "neuron", "options", "words"),
    [
        ("resnet18", "zero_bias", {"norm": "batch"}, "depend on contrast. Use 'none', 'fixup', 'nf'"),
        ("vgg6", "farkas", {"norm": "batch"}, "the farkasnets have it after the ReLU"),
        ("cnn", "farkas", {"norm": "nf"}, "makes the layer's weights in a way of its own"),
        ("fcn", "standard", {"norm": "fixup"}, "residual branches, and this network has none. Use 'batch', 'none'"),
        ("cnn", "standard", {"norm": "bath"}, "Unknown norm 'bath'. Did you mean 'batch'? There are: batch, fixup"),
        ("farkasnet34", "geometric", {"norm": "none"}, "got neuron 'geometric'. Use resnet34"),
        ("farkasnet34", "farkas", {"norm": "nf"}, "Unknown norm of farkasnet34 'nf'. There are: batch, none."),
        ("vit_tiny", "zero_bias", {"norm": "layer"}, "layer norm and attention do not scale with the image"),
        ("vit_tiny", "standard", {"norm": "batch"}, "Unknown norm of vit_tiny 'batch'. There are: layer."),
        ("cnn", "standard", {"img_size": 3}, "needs img_size >= 4, got 3"),
        ("vgg6", "standard", {"img_size": 7}, "vgg6 halves the image 3 times and needs img_size >= 8, got 7"),
        ("resnet9", "standard", {"img_size": 7}, "resnet9 halves the image three times and needs img_size >= 8, got 7"),
        ("resnet18", "standard", {"stem": "mnist"}, "stem needs to be 'cifar', 'imagenet' or None, got 'mnist'"),
        ("resnet18", "standard", {"depths": 3}, "needs to be whole numbers of at least 1, such as [4,4], got 3."),
        ("resnet18", "standard", {"width": (3,)}, "needs to be a whole number of at least 1, got (3,)."),
        ("resnet18", "standard", {"norm": "fixup", "start": "he"}, "start of its own"),
        ("farkasnet50", "farkas", {"img_size": 7}, "halves the image 3 times and needs img_size >= 8, got 7"),
        ("farkasnet50", "standard", {"width": 3}, "a quarter of their channels inside and need 4 or more, got 3"),
        ("farkasnet18", "farkas", {"stem": "small"}, "stem needs to be"),
        ("farkasnet18", "standard", {"published": True}, "published of farkasnet18 are about Farkas units"),
        ("farkasnet18", "standard", {"aggregate": "sum"}, "about Farkas units"),
        ("farkasnet18", "standard", {"rule": "max"}, "about Farkas units"),
        ("vit_tiny", "standard", {"img_size": 10}, "img_size to be a multiple of patch, got 10 and 4"),
        ("vit_tiny", "standard", {"width": 16}, "width to be a multiple of num_heads, got 16 and 3"),
        ("mlp1", "standard", {"start": "zero"}, "glorot, he, normal, usual"),
        ("fcn", "standard", {"norm": "none", "outside": True}, "outside is for geometric units"),
        ("fcn", "geometric", {"norm": "batch", "outside": True}, "outside is for geometric units"),
    ],
)
def test_the_line_says_what_a_model_cannot_have_and_why(model, neuron, options, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        create_model(model, neuron, **options)


def test_a_strict_farkas_layer_without_biases_is_refused():
    strict = replace(FARKAS, name="mine", Conv2d=partial(FarkasConv2d, margin=0.1))
    with pytest.raises(ValueError, match="without a bias nothing above 0 can be promised"):
        small("vgg6", strict, norm="batch")


@pytest.mark.parametrize(("model", "norm"), SCALING)
def test_zero_bias_networks_scale_bit_for_bit(model, norm):
    net = small(model, "zero_bias", norm=norm)
    with torch.no_grad():
        for parameter in net.parameters():
            # Fixup starts some at zero and there the law says nothing.
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    x = torch.randn(2, 2, 8, 8)
    for training in (True, False):
        net.train(training)
        for exponent in (-9, -1, 4):
            assert torch.equal(net(x * 2.0**exponent), net(x) * 2.0**exponent)
        assert net(x).ne(0).any()
        assert net(0 * x).eq(0).all()


@pytest.mark.parametrize(("model", "neuron"), KINDS)
def test_features_head_and_a_new_head(model, neuron):
    net = small(model, neuron, num_classes=7).eval()
    x = torch.rand(2, 2, 8, 8)
    features, head = net.forward_features(x), net.get_classifier()
    assert (net.num_classes, net.in_chans) == (7, 2)
    assert features.shape == (2, net.num_features)
    assert torch.equal(net.forward_head(features), net(x))
    net.reset_classifier(3)
    assert type(net.get_classifier()) is type(head)
    assert net(x).shape == (2, 3)
    net.reset_classifier(0)
    assert torch.equal(net(x), features)


@pytest.mark.parametrize(("model", "neuron", "norm"), PAIRWISE)
def test_copies_weights_and_the_meta_device(model, neuron, norm):
    net = small(model, neuron, norm=norm).eval()
    x = torch.rand(2, 2, 8, 8)
    assert torch.equal(copy.deepcopy(net)(x), net(x))
    other = small(model, neuron, norm=norm).eval()
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(x), net(x))
    with torch.device("meta"):
        assert small(model, neuron, norm=norm)(x.to("meta")).shape == (2, 3)


@pytest.mark.parametrize("model", MODELS)
def test_the_recipe_builds_the_network_again(model):
    neuron = "farkas" if model.startswith("farkasnet") else "standard"
    net = small(model, neuron)
    net.reset_classifier(5)
    recipe = json.loads(json.dumps(net.recipe))
    assert (recipe["neuron"], recipe["num_classes"]) == (neuron, 5)
    assert "neuron_options" not in recipe
    again = create_model(recipe.pop("model"), **recipe)
    again.load_state_dict(net.state_dict())
    assert again.recipe["img_size"] == 8


@pytest.mark.parametrize("model", ["resnet18", "vit_tiny"])
def test_compiles_as_one_graph(model):
    net = small(model, img_size=8, in_chans=1).eval()
    x = torch.rand(2, 1, 8, 8)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x))
