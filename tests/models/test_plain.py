import pytest
import torch

from neuronal.models.registry import create_model
from tests.models.networks import count

RESNET9 = [(3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512)]
VGG6 = [(3, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
SMALL = {"num_classes": 3, "in_chans": 2, "img_size": 8}
BY_HAND = [
    ("fcn", {**SMALL, "widths": (20, 10)}, (128 * 20 + 20) + (20 * 10 + 10) + (10 * 3 + 3)),
    ("cnn", {**SMALL, "widths": (4, 6, 5)}, (18 * 4 + 4) + (36 * 6 + 6) + (24 * 5 + 5) + (5 * 3 + 3)),
    ("cnn", {**SMALL, "widths": (4, 6, 5), "neuron": "zero_bias"}, 18 * 4 + 36 * 6 + 24 * 5 + 5 * 3),
    ("mlp1", {"num_classes": 1, "in_chans": 13, "img_size": 1}, 13 * 100 + 100 + 100 + 1),
    ("resnet9", {}, sum(9 * i * o + 2 * o for i, o in RESNET9) + 5130),
    ("vgg6", {}, sum(9 * i * o + 2 * o for i, o in VGG6) + 5130),
    ("vgg6", {"norm": "none"}, sum(9 * i * o + o for i, o in VGG6) + 5130),
    *(
        (
            "ucn",
            {"in_chans": 1, "img_size": n, "depth": 3, "width": 6},
            (6 * k**2 + 18) + 2 * (36 * k**2 + 18) + 60 * n**2 + 10,
        )
        for n, k in ((32, 5), (28, 4), (8, 1))
    ),
]


@pytest.mark.parametrize(("model", "options", "expected"), BY_HAND)
def test_parameters_by_hand(model, options, expected):
    assert count(model, **options) == expected


def test_batch_norm_stands_after_the_activation_in_ucn():
    net = create_model("ucn", img_size=28)
    kinds = [type(module).__name__ for module in net.features]
    assert kinds == 2 * ["ZeroPad2d", "Conv2d", "ReLU", "BatchNorm2d"] + ["Flatten"]
    features = net.forward_features(torch.randn(8, 3, 28, 28)).unflatten(1, (3, -1))
    torch.testing.assert_close(features.mean([0, 2]), torch.zeros(3), atol=1e-5, rtol=0)
