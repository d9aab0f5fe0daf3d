"""Tangent kernels with and without biases: the limits, how wide networks approach them, and what training changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.data.catalogue import load
from neuronal.experiments.compare import estimate
from neuronal.experiments.procedures.finding import Finding, seeds_said
from neuronal.experiments.reproduction import Setting
from neuronal.kernel import empirical_ntk, relu_ntk
from neuronal.kernel.empirical import rates_of_width

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

VARIANCE = 2.0
"""Of the weights, He's; ``limits`` looks at others too."""
SAME = 0.01
"""Limits that differ by less of their norm are called the same."""
JUDGED = (
    "A distance that is smaller in the widest networks than in the narrowest shrinks. Limits are the same if they differ by "
    f"less than {SAME:.0%} (Frobenius norm, of the one without biases)."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Three tables, all in float64: ``limits``, ``approach`` and ``training``."""
    options = setting.options
    inputs = {name: _inputs(name, options["inputs"]) for name in options["data"]}
    work.say("limits of infinite width")
    limits = [
        _change(name, x, depth, variance, beta)
        for name, x in inputs.items()
        for variance in options["variances"]
        for depth in options["depths"]
        for beta in options["betas"]
        if beta
    ]
    data, x = next(iter(inputs.items()))

    def compared(item: Mapping[str, Any]) -> dict[str, Any]:
        beta, width = item["beta"], item["width"]
        work.say(f"networks of width {width}, beta {beta:g}")
        return {
            "approach": _approach(x, beta, width, options["seeds"], options["depth"]),
            "training": _training(x, beta, width, options["seeds"], options["depth"], options["steps"]),
        }

    how = {"procedure": "ntk", "data": "" if data == "normal" else work.checksum(data)}
    how |= {name: options[name] for name in ("inputs", "seeds", "depth", "steps")}
    items = [{"beta": beta, "width": width} for beta in options["betas"] for width in options["widths"]]
    made = work.parts(how, items, compared)
    tables = {name: [part[name] for part in made] for name in ("approach", "training")}
    return {"limits": limits, **tables}


def _inputs(name: str, count: int) -> Tensor:
    """``normal``: unit variance in 784 dimensions; else the first test images of a dataset."""
    if name == "normal":
        return torch.randn(count, 784, dtype=torch.float64, generator=_generator("inputs", 0))
    return load(name).test.rows(slice(0, count)).x.flatten(1).double()


def _generator(purpose: str, seed: int) -> torch.Generator:
    """Made of its purpose: inputs and weights of one stream would be the same numbers."""
    return torch.Generator().manual_seed(Random(f"{purpose} {seed}").getrandbits(63))


def _change(name: str, x: Tensor, depth: int, variance: float, beta: float) -> dict[str, Any]:
    """How far the limit with biases is from the one without: as it is, after the best scaling, and centred (CKA)."""
    zero = relu_ntk(x, depth=depth, weight_variance=variance).ntk
    kernel = relu_ntk(x, depth=depth, weight_variance=variance, bias_variance=beta**2).ntk
    scale = (zero * kernel).sum() / zero.square().sum()
    return {
        "inputs": name,
        "depth": depth,
        "variance": variance,
        "beta": beta,
        "change": _distance(kernel, zero),
        "after_scaling": ((kernel - scale * zero).norm() / kernel.norm()).item(),
        "alignment": _alignment(kernel, zero),
    }


def _distance(kernel: Tensor, other: Tensor) -> float:
    return float((kernel - other).norm() / other.norm())


def _alignment(kernel: Tensor, other: Tensor) -> float:
    """Centred kernel alignment: 1 for kernels that differ by a factor and a constant only."""
    a, b = (k - k.mean(0) - k.mean(1, keepdim=True) + k.mean() for k in (kernel, other))
    return float((a * b).sum() / (a.norm() * b.norm()))


def network(inputs: int, width: int, depth: int, beta: float, seed: int) -> nn.Sequential:
    """Plain layers whose weights have the variances of the limit; biases of standard deviation ``beta``, or none."""
    generator = _generator("weights", seed)
    layers: list[nn.Module] = []
    sizes = [inputs, *[width] * depth, 1]
    for number, (n, m) in enumerate(pairwise(sizes)):
        layer = nn.Linear(n, m, bias=beta > 0, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.randn(m, n, dtype=torch.float64, generator=generator))
            layer.weight.mul_(((VARIANCE if number else 1.0) / n) ** 0.5)
            if beta:
                layer.bias.copy_(beta * torch.randn(m, dtype=torch.float64, generator=generator))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _kernel(model: nn.Module, x: Tensor, beta: float) -> Tensor:
    rates = rates_of_width(model, weight_variance=VARIANCE, bias_variance=beta**2)
    return empirical_ntk(model, x, rates=rates, method="structured", trace=True)


def _approach(x: Tensor, beta: float, width: int, seeds: Sequence[int], depth: int) -> dict[str, Any]:
    """Distance of random networks' kernels to the limit with the same biases, and to the one without."""
    own = relu_ntk(x, depth=depth, weight_variance=VARIANCE, bias_variance=beta**2).ntk
    zero = relu_ntk(x, depth=depth, weight_variance=VARIANCE).ntk
    kernels = [_kernel(network(x.shape[1], width, depth, beta, seed), x, beta) for seed in seeds]
    return {
        "beta": beta,
        "width": width,
        "to_own_limit": asdict(estimate([_distance(kernel, own) for kernel in kernels])),
        "to_limit_without_biases": asdict(estimate([_distance(kernel, zero) for kernel in kernels])),
    }


def _training(x: Tensor, beta: float, width: int, seeds: Sequence[int], depth: int, steps: int) -> dict[str, Any]:
    """Change of a network's kernel by gradient descent on random targets, at half the largest stable rate."""
    changes, losses = [], []
    for seed in seeds:
        model = network(x.shape[1], width, depth, beta, seed)
        before = _kernel(model, x, beta)
        targets = torch.randn(len(x), 1, dtype=torch.float64, generator=_generator("targets", seed))
        after, loss = _descended(model, x, targets, before, beta, steps)
        changes.append(_distance(_kernel(after, x, beta), before))
        losses.append(loss)
    return {"beta": beta, "width": width, "change": asdict(estimate(changes)), "loss": asdict(estimate(losses))}


def _descended(
    model: nn.Module, x: Tensor, targets: Tensor, kernel: Tensor, beta: float, steps: int
) -> tuple[nn.Module, float]:
    """The network after full-batch descent, each parameter at its rate; and its loss relative to the first one."""
    model = deepcopy(model)
    rates = rates_of_width(model, weight_variance=VARIANCE, bias_variance=beta**2)
    lr = 1 / torch.linalg.eigvalsh(kernel).max().item()
    first = last = 0.0
    for step in range(steps):
        loss = (model(x) - targets).square().sum() / 2
        first = first or loss.item()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.grad is not None:
                    p.sub_(lr * rates[name] * p.grad)
        last = loss.item() if step else first
    return model, last / first


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Remark 1 has two halves: each kernel has a limit (true), and it is the same one (it is not)."""
    result = answer["result"]
    changes = [row["change"] for row in result["limits"]]
    betas = sorted({row["beta"] for row in result["limits"]})
    spans = []
    for beta in betas:
        of = [row["change"] for row in result["limits"] if row["beta"] == beta]
        spans.append(f"{100 * min(of):.1f} to {100 * max(of):,.0f}% at beta {beta:g}")
    aligned = min(row["alignment"] for row in result["limits"])
    shrinking = all(
        _shrinks([row["to_own_limit"]["mean"] for row in result["approach"] if row["beta"] == beta])
        for beta in {row["beta"] for row in result["approach"]}
    )
    still = all(
        _shrinks([row["change"]["mean"] for row in result["training"] if row["beta"] == beta])
        for beta in {row["beta"] for row in result["training"]}
    )
    widest = max(row["width"] for row in result["approach"])
    far = [row["to_own_limit"]["mean"] for row in result["approach"] if row["width"] == widest]
    moved = [row["change"]["mean"] for row in result["training"] if row["width"] == widest]
    seeds = seeds_said(result["approach"][0]["to_own_limit"]["num_seeds"])
    return [
        Finding(
            "Remark 1: with and without biases the kernel converges to a deterministic limit",
            "reproduced" if shrinking else "not reproduced",
            f"distance to its own limit shrinks with width, to {100 * min(far):.1f} to {100 * max(far):.1f}% at {widest} "
            f"({seeds})",
        ),
        Finding(
            "Remarks 1 and 2: it is the same limit with and without biases",
            "not true as stated" if max(changes) > SAME else "reproduced",
            f"the limits differ by {'; '.join(spans)}; centred alignment {aligned:.4f} or more, where 1 would be a factor "
            "and a constant",
        ),
        Finding(
            "Remark 2: in the limit the kernel stays constant during training",
            "reproduced" if still else "not reproduced",
            f"its change by training shrinks with width, to {100 * min(moved):.2f} to {100 * max(moved):.2f}% at {widest} "
            f"({seeds})",
        ),
    ]


def _shrinks(values: Sequence[float]) -> bool:
    """From the narrowest to the widest network, in the order measured."""
    return len(values) > 1 and values[-1] < values[0]
