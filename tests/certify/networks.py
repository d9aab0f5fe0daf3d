"""Small networks the certificates are tried on, and ways to look for a counterexample to one."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.nn.farkas import FarkasLinear
from neuronal.nn.geometric import GeometricLinear
from tests.geometry.networks import Does, linear


class Residual(nn.Module):
    """Adds, scales and joins values that come from different places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        g = 0.5 * h - F.relu(self.second(h))
        return self.last(torch.cat([g, F.leaky_relu(h, 0.1)], dim=1))


class NormAndSkip(nn.Module):
    """A skip around a norm whose bias is given."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.first, self.branch, self.norm = nn.Linear(3, 20), nn.Linear(20, 20), nn.BatchNorm1d(20)
        nn.init.constant_(self.norm.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        return F.relu(h + self.norm(self.branch(h)))


def pooled() -> nn.Module:
    """Convolutions with pools of both kinds and batch norm."""
    first = (nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))
    second = (nn.Conv2d(4, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(*first, *second, nn.Linear(4, 3))
    model[1].running_mean.uniform_(-0.2, 0.2)
    model[1].running_var.uniform_(0.5, 2)
    return model


def without_head() -> nn.Module:
    """Scores that do not come from a linear layer."""
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), Does(lambda h: h.view(-1, 3, 4).mean(2)))


def kinked(kink: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 10), kink, nn.Linear(10, 10), kink, nn.Linear(10, 3))


def network(name: str, seed: int = 0) -> nn.Module:
    """A freshly drawn network, with biases and weights large enough to bend often."""
    torch.manual_seed(seed)
    model = NETWORKS[name]()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(2.0)
    return model.eval()


NETWORKS = {
    "relu": lambda: kinked(nn.ReLU()),
    "leaky": lambda: kinked(nn.LeakyReLU(0.2)),
    "prelu": lambda: kinked(nn.PReLU(init=1.7)),
    "negative": lambda: kinked(nn.PReLU(init=-0.6)),
    "clamp": lambda: kinked(nn.Hardtanh()),
    "linear": lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)),
    "residual": Residual,
    "no_head": without_head,
    "pooled": pooled,
    "geometric": lambda: nn.Sequential(GeometricLinear(6, 9), nn.ReLU(), nn.Linear(9, 3)),
    "farkas": lambda: nn.Sequential(FarkasLinear(6, 9), nn.ReLU(), nn.Linear(9, 3)),
}


def inputs(name: str, count: int, seed: int = 0) -> Tensor:
    shape = (1, 6, 6) if name == "pooled" else (6,)
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def same_class_pairs(model: nn.Module, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        y = model(x).argmax(1)
    i, j = torch.triu_indices(len(x), len(x), 1)
    keep = torch.nonzero(y[i] == y[j]).flatten()[:count]
    return x[i[keep]], x[j[keep]]


def same_class_sets(model: nn.Module, x: Tensor, size: int, count: int) -> list[Tensor]:
    """So many sets of inputs of the class that is predicted most."""
    with torch.no_grad():
        y = model(x).argmax(1)
    return list(x[y == y.mode().values][: size * count].split(size))


def weights(count: int, vertices: int, seed: int = 0) -> Tensor:
    """Convex weights: spread out, near the vertices and in the middle of edges."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.rand(count, vertices, generator=generator, dtype=torch.float64) ** 3 + 1e-12
    return w / w.sum(1, keepdim=True)


def counterexamples(model: nn.Module, points: Tensor, label: int, promise: str, count: int = 2000) -> int:
    """How many of ``count`` convex combinations the network that is meant gives another class."""
    if promise == "real":
        model, points = copy.deepcopy(model).double(), points.double()
    w = weights(count, len(points)).to(points.dtype)
    x = (w @ points.flatten(1)).view(count, *points.shape[1:])
    with torch.no_grad():
        return int((model(x).argmax(1) != label).sum())


def margins(model: nn.Module, x: Tensor, label: int) -> Tensor:
    """The lead of the label over the best other class."""
    scores = model(x.clone())  # the model may work in place
    others = scores.clone()
    others[:, label] = -torch.inf
    return scores[:, label] - others.amax(1)


def worst_by_gradient(model: nn.Module, points: Tensor, label: int, steps: int = 60) -> float:
    """The lowest margin that gradient descent on the weights finds, in float64, from several starts."""
    model, points = copy.deepcopy(model).double(), points.double()
    z = torch.randn(16, len(points), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([z], lr=0.2)
    lowest = torch.inf
    for _ in range(steps):
        margin = margins(model, (z.softmax(1) @ points.flatten(1)).view(len(z), *points.shape[1:]), label)
        lowest = min(lowest, margin.min().item())
        optimiser.zero_grad()
        margin.sum().backward()
        optimiser.step()
    return lowest


def on_sphere(x: Tensor, norm: object, radius: float, count: int) -> Tensor:
    step = torch.randn(count, x.numel(), dtype=torch.float64)
    step = step.sign() if norm == "inf" else step / step.norm(dim=1, keepdim=True)
    return x.double() + radius * step.view(count, *x.shape)


def worst_in_ball(model: nn.Module, x: Tensor, label: int, norm: object, radius: float) -> float:
    """The lowest margin of projected gradient descent in the ball."""
    z = on_sphere(x, norm, radius / 2, 32)
    lowest = torch.inf
    for _ in range(40):
        z.requires_grad_()
        margin = margins(model, z, label)
        lowest = min(lowest, margin.min().item())
        (gradient,) = torch.autograd.grad(margin.sum(), z)
        gradient = gradient.flatten(1)
        step = (z.detach() - x).flatten(1) - 0.2 * radius * gradient / gradient.norm(dim=1, keepdim=True)
        if norm == "inf":
            step = step.clamp(-radius, radius)
        else:
            step = step * (radius / step.norm(dim=1, keepdim=True)).clamp(max=1)
        z = (x + step.view(32, *x.shape)).double()
    return lowest


def spike(width: float, at: float, height: float = 2.0) -> nn.Module:
    """One number in: class 0 with a lead of 1, except where a tent of this width takes it away."""
    first = linear([[2 / width]] * 3, [side - 2 * at / width for side in (1.0, 0.0, -1.0)])
    last = linear([[0.0, 0.0, 0.0], [height, -2 * height, height]], [1.0, 0.0])
    return nn.Sequential(first, nn.ReLU(), last)


class TwoPools(nn.Module):
    """Scores max(h1, h2) and 0.7 (h1 + h2): one ReLU pattern between (1, .01) and (.01, 1), but two classes."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(x)
        return torch.cat([torch.maximum(h[:, :1], h[:, 1:]), 0.7 * h.sum(1, keepdim=True)], dim=1)
