"""Small networks and inputs to attack."""

import torch
from torch import nn

from neuronal import create_model
from neuronal.train.seed import seeded


def linear(features=12, classes=2, seed=0):
    """A linear classifier in float64, inputs around the middle of the box, and its own answers as labels."""
    with seeded(seed):
        model = nn.Sequential(nn.Flatten(), nn.Linear(features, classes)).double()
        x = 0.3 + 0.4 * torch.rand(60, features, dtype=torch.float64)
    return model, x, model(x).argmax(1).detach()


def tiny(seed=0, inputs=2, hidden=16, classes=3):
    """A network of two inputs that bends, and points with its own answers."""
    with seeded(seed):
        model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        model.append(nn.Linear(hidden, classes))
        for layer in model[::2]:
            layer.weight.data *= 2
        x = torch.rand(40, inputs)
    # Every class is somebody's.
    model[-1].bias.data -= model(x).mean(0).detach()
    return model, x, model(x).argmax(1).detach()


def implicit(coupling=-0.5, seed=0, **options):
    """A small convolutional network with coupled units, images and its own answers; in training mode."""
    from neuronal import convert

    with seeded(seed):
        model = create_model("ucn", "standard", num_classes=4, in_chans=1, img_size=8, depth=1, width=2)
        x = torch.rand(12, 1, 8, 8)
        # Running means of something: evaluation is another function than training then.
        model(torch.rand(64, 1, 8, 8))
    model = convert(model, "implicit_bias", coupling=coupling, learn_coupling=False, **options).model
    model.eval()
    y = model(x).argmax(1).detach()
    return model.train(), x, y
