"""The equation of implicit bias as the lowest point of an energy, and where it has one solution and where several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from neuronal.experiments.procedures.finding import Finding, ours
from neuronal.experiments.reproduction import Setting
from neuronal.nn.implicit_bias import ImplicitBiasLinear

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

SAME = 1e-3
"""Solutions are the same if no unit differs by more than this over the slope."""
CRITICAL = 1e-6
"""Largest slope of the energy at a solution."""


def energy(z: Tensor, a: Tensor, coupling: float, slope: float) -> Tensor:
    r"""Of every row.

    .. math:: E(z) = \tfrac12 \|z - a\|^2 - \frac{\lambda}{2N} \sum_{i,k} \tfrac1p \log\cosh(p (z_k - z_i))
    """
    t = slope * (z.unsqueeze(-1) - z.unsqueeze(-2))
    # Of a large t the hyperbolic cosine overflows, its logarithm is |t| - log 2.
    pair = (t.abs() + F.softplus(-2 * t.abs()) - log(2)) / slope
    return (z - a).square().sum(-1) / 2 - coupling / (2 * z.shape[-1]) * pair.sum((-1, -2))


JUDGED = (
    "Solutions are counted by descents from many places; points are one if they agree to the accuracy of the "
    "descent. One lower point around a solution would refute that it is the lowest."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Over slopes and couplings: descents of the energy from random places, and the layer's own solution beside them.

    ``options``: ``units``, ``spreads`` of the rows, ``rows`` of each, ``starts``, ``steps``, ``slopes``, ``products`` (of
    coupling and slope), ``seed``.
    """
    options = setting.options
    noise = torch.randn(options["rows"], options["units"], generator=_generator(options), dtype=torch.float64)
    a = torch.cat([spread * noise for spread in options["spreads"]])

    def descended(item: Mapping[str, Any]) -> dict[str, Any]:
        slope, product = item["slope"], item["product"]
        work.say(f"slope {slope:g}, coupling x slope {product:g}")
        # Its own numbers, whatever is looked at before it.
        generator = _generator(options, f"slope {slope:g}, product {product:g}")
        return {**item, **_cell(a, product / slope, slope, options, generator)}

    items = [{"slope": slope, "product": product} for slope in options["slopes"] for product in options["products"]]
    grid = ("slopes", "products")
    how = {"procedure": "energy"} | {name: value for name, value in options.items() if name not in grid}
    return {"rows": work.parts(how, items, descended)}


def _generator(options: Mapping[str, Any], purpose: str = "") -> torch.Generator:
    return torch.Generator().manual_seed(Random(f"{options['seed']} {purpose}").getrandbits(63))


def _cell(
    a: Tensor, coupling: float, slope: float, options: Mapping[str, Any], generator: torch.Generator
) -> dict[str, Any]:
    # Places far apart, close together, and the row itself.
    scale = torch.logspace(-3, 0.5, options["starts"], dtype=torch.float64)[:, None, None] * (1 + 1 / slope)
    z = a + scale * torch.randn(len(scale), *a.shape, generator=generator, dtype=torch.float64)
    z[0] = a
    found, slopes = descend(z, a, coupling, slope, options["steps"])
    counts = [_distinct(found[slopes[:, i] < CRITICAL, i], SAME / slope) for i in range(a.shape[0])]
    row: dict[str, Any] = {
        "solutions": counts,
        "settled": (slopes < CRITICAL).double().mean().item(),
        "solved": None,
    }
    if coupling * slope < 1:
        row["solved"] = _own(a, coupling, slope, found, generator)
    return row


def descend(z: Tensor, a: Tensor, coupling: float, slope: float, steps: int) -> tuple[Tensor, Tensor]:
    """Gradient descent on the energy, which is the paper's iteration; where it ends, and the energy's slope there."""
    size = 1 / (1 + abs(coupling) * slope)
    for _ in range(steps):
        z = z - size * _gradient(z, a, coupling, slope)
    return z, _gradient(z, a, coupling, slope).abs().amax(-1)


def _gradient(z: Tensor, a: Tensor, coupling: float, slope: float) -> Tensor:
    drive = torch.tanh(slope * (z.unsqueeze(-2) - z.unsqueeze(-1))).mean(-1)
    return z - a + coupling * drive


def _distinct(found: Tensor, within: float) -> int:
    """How many different rows there are."""
    kept: list[Tensor] = []
    for row in found:
        if not any(bool((row - other).abs().max() <= within) for other in kept):
            kept.append(row)
    return len(kept)


def _own(a: Tensor, coupling: float, slope: float, found: Tensor, generator: torch.Generator) -> dict[str, Any]:
    """The layer's solution: how steep the energy is there, whether anything near is lower, how far descent ended."""
    units = a.shape[1]
    layer = ImplicitBiasLinear(
        units, units, bias=False, coupling=coupling, slope=slope, learn_coupling=False, tolerance=1e-10
    ).double()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(units))
        z = layer(a)
    position = z.clone().requires_grad_()
    (steep,) = torch.autograd.grad(energy(position, a, coupling, slope).sum(), position)
    lower = 0
    for scale in (1e-3, 1e-1, 1.0):
        near = z + scale * torch.randn(20, *z.shape, generator=generator, dtype=torch.float64)
        lower += int((energy(near, a, coupling, slope) < energy(z, a, coupling, slope)).sum())
    return {
        "steepest": steep.abs().max().item(),
        "lower": lower,
        "tried": 60 * len(z),
        "from_descent": (found[0] - z).abs().max().item(),
    }


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Lowest points, one of them up to the paper's bound, and what comes after it."""
    rows = answer["result"]["rows"]
    solved = [row["solved"] for row in rows if row["solved"]]
    lower, tried = (sum(one[key] for one in solved) for key in ("lower", "tried"))
    steepest = max(one["steepest"] for one in solved)
    lowest = lower == 0 and steepest < CRITICAL
    inside, between, beyond = (
        [row for row in rows if low <= row["product"] < high]
        for low, high in ((-float("inf"), 0.5), (0.5, 1), (1, float("inf")))
    )
    return [
        Finding(
            "The solution is the point of lowest energy",
            "reproduced" if lowest else "not reproduced",
            f"slope of the energy at most {steepest:.0e}; {lower} of {tried:,} random points around are lower",
        ),
        Finding(
            "It is unique for every negative coupling and up to 1 / (2 slope)",
            "reproduced" if _most(inside) == 1 else "not reproduced",
            f"descents from all places end in {_most(inside)} point at {len(inside)} pairs of coupling and slope, "
            f"down to coupling x slope = {min(row['product'] for row in inside):g}",
        ),
        ours(
            Finding(
                "with equal weights the bound is twice as large, 1 / slope",
                "reproduced" if _most(between) == 1 else "not reproduced",
                f"{_most(between)} solution at {len(between)} pairs from 1 / (2 slope) to "
                f"{max((row['product'] for row in between), default=0):g} / slope",
            )
        ),
        Finding(
            "Above a threshold there can be several solutions",
            "reproduced" if _most(beyond) > 1 else "not reproduced",
            ", ".join(f"up to {_most(own)} at {product:g}" for product, own in _by_product(beyond))
            + f" (coupling x slope; {answer['options']['starts']} starts)",
        ),
    ]


def _most(rows: Sequence[Mapping[str, Any]]) -> int:
    return max((max(row["solutions"]) for row in rows), default=0)


def _by_product(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, list[Mapping[str, Any]]]]:
    products = sorted({row["product"] for row in rows})
    return [(product, [row for row in rows if row["product"] == product]) for product in products]
