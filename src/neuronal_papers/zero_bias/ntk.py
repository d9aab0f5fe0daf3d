"""Remarks 1 and 2, Appendix E: tangent kernels with and without biases, their limits, and what training changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise, product
from random import Random

import torch
from torch import Tensor, nn

from neuronal.core.records import to_json
from neuronal.data import load
from neuronal.experiments import Estimate, Work, estimate
from neuronal.kernel import empirical_ntk, rates_of_width, relu_ntk
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.core import Measured, Reproduction, Setting, settings, title_of
from neuronal_papers.drawing import Line, chart, marked
from neuronal_papers.judge import Below, Case, Claim, Evidence, Fact, Result
from neuronal_papers.seeds import Row, groups, records_of, with_error

VARIANCE = 2.0
"""Of the weights, He's; ``limits`` looks at others too."""
# Percent of the norm of the limit without biases; limits that differ by less are the same.
SAME = 1.0


@dataclass(frozen=True)
class Limit:
    """How far the limit with biases is from the one without."""

    inputs: str
    depth: int
    variance: float
    beta: float
    change: float
    after_scaling: float
    alignment: float


@dataclass(frozen=True)
class Estimated(Estimate):
    """With the number of each seed."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Approach:
    """Distance of random networks' kernels to two limits."""

    beta: float
    width: int
    to_own_limit: Estimated
    to_limit_without_biases: Estimated


@dataclass(frozen=True)
class Training:
    """Change of random networks' kernels by training."""

    beta: float
    width: int
    change: Estimated


@dataclass(frozen=True)
class Width(Training, Approach):
    """Both of one width."""


def measure(setting: Setting, work: Work) -> Measured:
    """Three tables, all in float64.

    ``limits``: how far the limit with biases is from the one without: as it is, after the best scaling, and centred (CKA).
    ``approach``: distance of random networks' kernels to the limit with the same biases, and to the one without.
    ``training``: change of their kernels by gradient descent on random targets.
    """
    options = setting.options
    inputs = {name: _inputs(name, options["inputs"]) for name in options["data"]}
    work.say("limits of infinite width")
    limits, betas = [], filter(None, options["betas"])
    for name, variance, depth, beta in product(inputs, options["variances"], options["depths"], betas):
        zero, kernel = (_limit(inputs[name], depth, size, variance) for size in (0.0, beta))
        scaled = zero * (zero * kernel).sum() / zero.square().sum()
        found = _distance(kernel, zero), _distance(scaled, kernel), _alignment(kernel, zero)
        limits.append(Limit(name, depth, variance, beta, *found))
    data, x = next(iter(inputs.items()))

    def compared(item: Row) -> Row:
        beta, width = item["beta"], item["width"]
        work.say(f"networks of width {width}, beta {beta:g}")
        own, zero = (_limit(x, options["depth"], size) for size in (beta, 0.0))
        kernels, changes = [], []
        for seed in options["seeds"]:
            model, rates = network(x.shape[1], width, options["depth"], beta, seed)
            kernel = partial(empirical_ntk, model, x, rates=rates, method="structured", trace=True)
            kernels.append(kernel())
            _descend(model, x, kernels[-1], rates, seed, options["steps"])
            changes.append(_distance(kernel(), kernels[-1]))
        near, far = (_estimated([_distance(kernel, limit) for kernel in kernels]) for limit in (own, zero))
        whole = {"approach": Approach(beta, width, near, far), "training": Training(beta, width, _estimated(changes))}
        return {name: to_json(one) for name, one in whole.items()}

    how = {"procedure": "ntk", "data": "" if data == "normal" else work.checksum(data)}
    how |= {name: options[name] for name in ("inputs", "seeds", "depth", "steps")}
    items = [{"beta": beta, "width": width} for beta in options["betas"] for width in options["widths"]]
    made = work.parts(how, items, compared)
    return {"limits": limits, **{name: [part[name] for part in made] for name in ("approach", "training")}}


def _inputs(name: str, count: int) -> Tensor:
    """``normal``: unit variance in 784 dimensions; else the first test images of a dataset."""
    if name == "normal":
        return torch.randn(count, 784, dtype=torch.float64, generator=_generator("inputs", 0))
    return load(name).test.rows(slice(0, count)).x.flatten(1).double()


def _generator(purpose: str, seed: int) -> torch.Generator:
    """Made of its purpose: inputs and weights of one stream would be the same numbers."""
    return torch.Generator().manual_seed(Random(f"{purpose} {seed}").getrandbits(63))


def _limit(x: Tensor, depth: int, beta: float, variance: float = VARIANCE) -> Tensor:
    return relu_ntk(x, depth=depth, weight_variance=variance, bias_variance=beta**2).ntk


def _distance(kernel: Tensor, other: Tensor) -> float:
    return float((kernel - other).norm() / other.norm())


def _estimated(values: list[float]) -> Estimated:
    return Estimated(**asdict(estimate(values)), values=tuple(values))


def _alignment(kernel: Tensor, other: Tensor) -> float:
    """Centred kernel alignment: 1 for kernels that differ by a factor and a constant only."""
    a, b = (k - k.mean(0) - k.mean(1, keepdim=True) + k.mean() for k in (kernel, other))
    return float((a * b).sum() / (a.norm() * b.norm()))


def network(inputs: int, width: int, depth: int, beta: float, seed: int) -> tuple[nn.Sequential, dict[str, float]]:
    """Plain layers, with biases if ``beta`` is not 0, and their rates, which are the variances they start with."""
    layers: list[nn.Module] = []
    for n, m in pairwise([inputs, *[width] * depth, 1]):
        layers += [nn.Linear(n, m, bias=beta > 0, dtype=torch.float64), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    rates = rates_of_width(model, weight_variance=VARIANCE, bias_variance=beta**2)
    generator = _generator("weights", seed)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=rates[name] ** 0.5, generator=generator)
    return model, rates


def _descend(model: nn.Module, x: Tensor, kernel: Tensor, rates: dict[str, float], seed: int, steps: int) -> None:
    """Full-batch descent to random targets, each parameter at its rate, which is half the largest stable one."""
    targets = torch.randn(len(x), 1, dtype=torch.float64, generator=_generator("targets", seed))
    lr = 1 / torch.linalg.eigvalsh(kernel).max().item()
    optimizer = torch.optim.SGD([{"params": [p], "lr": lr * rates[name]} for name, p in model.named_parameters()])
    for _ in range(steps):
        optimizer.zero_grad()
        ((model(x) - targets).square().sum() / 2).backward()
        optimizer.step()


def _widths(result: Result) -> list[Width]:
    """Of every size of biases and width: how far kernels are from their limits, and how much training changes them."""
    tables = (records_of(Approach, result, "approach"), records_of(Training, result, "training"))
    return [Width(**{**vars(near), **vars(change)}) for near, change in zip(*tables, strict=True)]


def _shrinks(text: str, key: str) -> Claim:
    """Of every size of biases: the number of the widest networks as a part of the narrowest ones', seed by seed."""

    def cases(result: Result) -> list[Case]:
        sizes = {
            beta: [getattr(row, key).values for row in of] for (beta,), of in groups(_widths(result), "beta").items()
        }
        ratios = {beta: [b / a for a, b in zip(of[0], of[-1], strict=True)] for beta, of in sizes.items()}
        return [Case(f"beta {beta:g}", values) for beta, values in ratios.items()]

    return Claim(text, cases, Below(1.0), unit="of what it is in the narrowest networks", digits=".2f")


def _limits(result: Result) -> Evidence:
    rows = records_of(Limit, result, "limits")
    changes = [100 * row.change for row in rows]
    numbers = f"the limits differ by {min(changes):,.1f} to {max(changes):,.1f}%; centred alignment "
    numbers += f"{min(row.alignment for row in rows):.4f} or more, where 1 would be a factor and a constant"
    return Evidence(len(rows), sum(change > SAME for change in changes), numbers)


def _percent(head: str, key: str) -> Column:
    return Column(head, lambda row: with_error(getattr(row, key).mean, getattr(row, key).standard_error))


LIMITS = (
    Column("inputs", "inputs", is_text=True),
    Column("variance", "variance", "g"),
    Column("depth", "depth"),
    Column("beta", "beta", "g"),
    Column("change (%)", lambda row: 100 * row.change, ",.1f"),
    Column("after scaling (%)", lambda row: 100 * row.after_scaling, ".1f"),
    Column("alignment", "alignment", ".4f"),
)
WIDTHS = (
    Column("beta", "beta", "g"),
    Column("width", "width"),
    _percent("to its own limit", "to_own_limit"),
    _percent("to the limit without biases", "to_limit_without_biases"),
    _percent("change by training", "change"),
)


def tables(result: Result) -> list[Table]:
    title = f"{title_of(result)}: the limit with biases against the one without"
    finite = table("Networks of finite width (%, mean ± standard error over seeds)", WIDTHS, _widths(result))
    return [table(title, LIMITS, records_of(Limit, result, "limits")), finite]


def figures(result: Result) -> list[Figure]:
    sizes, drawings = groups(_widths(result), "beta"), []
    for key, title, label in (
        ("to_own_limit", "Wide networks approach their limit", "distance to the limit (%)"),
        ("change", "Training changes the kernel less and less", "change of the kernel (%)"),
    ):
        lines = [
            Line(number, f"beta {beta:g}", [row.width for row in of], [[100 * getattr(row, key).mean for row in of]])
            for number, ((beta,), of) in enumerate(sizes.items())
        ]
        axes = {"xscale": "log", "yscale": "log", "xlabel": "width", "ylabel": label}
        drawings.append(chart(f"{result['reproduction']}-{key}", title, lines, axes, "Means over seeds.", draw=marked))
    return drawings


SMALL = {"data": ("normal", "mnist"), "inputs": 40, "variances": (2.0, 1.0), "depths": (2, 4, 10), "seeds": (0, 1, 2)}
SMALL |= {"betas": (0.0, 0.1, 1.0), "widths": (64, 256, 1024), "depth": 2, "steps": 200}
SMOKE = {"data": ("digits",), "inputs": 8, "variances": (2.0,), "depths": (2,), "seeds": (0, 1)}
SMOKE |= {"betas": (0.0, 0.1), "widths": (8, 64), "depth": 1, "steps": 5}
PAPER = SMALL | {"inputs": 200, "widths": (64, 256, 1024, 4096), "steps": 1000, "seeds": (0, 1, 2, 3, 4)}
NTK = Reproduction(
    name="zero_bias/ntk",
    title="Tangent kernels with and without biases",
    where="Remarks 1 and 2, Appendix E",
    scales=settings(options=(SMOKE, SMALL, PAPER)),
    measure=measure,
    claims=(
        _shrinks("Remark 1: with and without biases the kernel converges to a deterministic limit", "to_own_limit"),
        Fact("Remarks 1 and 2: it is the same limit with and without biases", _limits),
        _shrinks("Remark 2: in the limit the kernel stays constant during training", "change"),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "What a limit is said to do, the widest networks have to do more than the narrowest. Limits are the same if they "
        f"differ by less than {SAME:g}% (Frobenius norm, of the one without biases)."
    ),
    departs=(
        "The paper measures nothing: inputs, depths, widths and training on random targets are our choice. Its weights "
        "have variance 1, our networks' He's 2, without which kernels of deep networks vanish; the limits are of both."
    ),
)
