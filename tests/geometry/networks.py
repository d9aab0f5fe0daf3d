"""Small piecewise-linear networks of every kind, with the shape of their inputs, in float64."""

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.nn.farkas import FarkasConv2d, FarkasLinear
from neuronal.nn.geometric import GeometricConv2d, GeometricLinear
from tests.models.networks import small


class Does(nn.Module):
    """What a function does."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def linear(weight, bias=None, dtype=torch.float32):
    """A linear layer with these weights, and without a bias where none is given."""
    layer = nn.Linear(len(weight[0]), len(weight), bias=bias is not None, dtype=dtype)
    layer.weight.data = torch.tensor(weight, dtype=dtype)
    if bias is not None:
        layer.bias.data = torch.tensor(bias, dtype=dtype)
    return layer


class Block(nn.Module):
    """Adds in place, activates in place, concatenates, splits."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        y = self.two(F.relu(self.one(x), inplace=True))
        y += x
        left, right = y.relu_().chunk(2, dim=1)
        return torch.cat([left - 0.5 * right, right.abs()], dim=1)


def mlp(one, two):
    return nn.Sequential(nn.Linear(5, 8), one, nn.Linear(8, 6), two, nn.Linear(6, 3))


MAKERS = {
    "mlp": ((5,), lambda: mlp(nn.ReLU(), nn.ReLU())),
    "leaky": ((5,), lambda: mlp(nn.LeakyReLU(0.2), nn.PReLU(6))),
    "relu6": ((5,), lambda: mlp(nn.ReLU6(), nn.Hardtanh())),
    "pools": (
        (1, 9, 9),
        lambda: nn.Sequential(
            *[nn.Conv2d(1, 3, 3), nn.MaxPool2d(3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 2), nn.ReLU()],
            *[nn.AvgPool2d(2, stride=1), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 3)],
        ),
    ),
    "residual": (
        (1, 5, 5),
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), Block(), Block(), nn.Flatten(), nn.Linear(100, 3)),
    ),
    "ours": (
        (1, 6, 6),
        lambda: nn.Sequential(
            *[GeometricConv2d(1, 4, 3, activation="relu"), FarkasConv2d(4, 4, 3), nn.ReLU(), nn.Flatten()],
            *[GeometricLinear(16, 6), nn.ReLU(), FarkasLinear(6, 5), nn.ReLU(), nn.Linear(5, 3)],
        ),
    ),
    "cnn": ((2, 8, 8), lambda: small("cnn")),
    "resnet9": ((2, 8, 8), lambda: small("resnet9")),
    "zero_bias": ((2, 8, 8), lambda: small("cnn", "zero_bias")),
}
NAMES = list(MAKERS)


def network(name, *, seed=0):
    """The network in evaluation mode, its biases and running statistics not the ones it starts with."""
    shape, make = MAKERS[name]
    torch.manual_seed(seed)
    model = make().double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
    return model, shape
