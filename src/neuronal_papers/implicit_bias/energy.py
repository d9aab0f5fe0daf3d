"""The equation of implicit bias as the lowest point of an energy, and where it has one solution and where several."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf, log
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from neuronal.experiments import Work
from neuronal.nn import ImplicitBiasLinear
from neuronal.report import MARKERS, Column, Drawing, Table, blank, colour, plain_numbers, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Evidence, Fact, Result

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
        return {**item, **_solutions(a, product / slope, slope, options, generator)}

    items = [{"slope": slope, "product": product} for slope in options["slopes"] for product in options["products"]]
    grid = ("slopes", "products")
    how = {"procedure": "energy"} | {name: value for name, value in options.items() if name not in grid}
    return {"rows": work.parts(how, items, descended)}


def _generator(options: Mapping[str, Any], purpose: str = "") -> torch.Generator:
    return torch.Generator().manual_seed(Random(f"{options['seed']} {purpose}").getrandbits(63))


def _solutions(
    a: Tensor, coupling: float, slope: float, options: Mapping[str, Any], generator: torch.Generator
) -> dict[str, Any]:
    # Places far apart, close together, and the row itself.
    scale = torch.logspace(-3, 0.5, options["starts"], dtype=torch.float64)[:, None, None] * (1 + 1 / slope)
    z = a + scale * torch.randn(len(scale), *a.shape, generator=generator, dtype=torch.float64)
    z[0] = a
    found, slopes = descend(z, a, coupling, slope, options["steps"])
    settled = slopes < CRITICAL
    solved = _solved(a, coupling, slope, found[0], generator) if coupling * slope < 1 else None
    counts = [distinct(found[settled[:, i], i], SAME / slope) for i in range(len(a))]
    return {"solutions": counts, "settled": settled.double().mean().item(), "solved": solved}


def descend(z: Tensor, a: Tensor, coupling: float, slope: float, steps: int) -> tuple[Tensor, Tensor]:
    """Gradient descent on the energy, which is the paper's iteration; where it ends, and the energy's slope there."""

    def gradient(z: Tensor) -> Tensor:
        return z - a + coupling * torch.tanh(slope * (z.unsqueeze(-2) - z.unsqueeze(-1))).mean(-1)

    size = 1 / (1 + abs(coupling) * slope)
    for _ in range(steps):
        z = z - size * gradient(z)
    return z, gradient(z).abs().amax(-1)


def distinct(found: Tensor, within: float) -> int:
    """How many different rows there are."""
    kept: list[Tensor] = []
    for row in found:
        if not any(bool((row - other).abs().max() <= within) for other in kept):
            kept.append(row)
    return len(kept)


def _solved(a: Tensor, coupling: float, slope: float, descended: Tensor, generator: torch.Generator) -> dict[str, Any]:
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
        "from_descent": (descended - z).abs().max().item(),
    }


def lowest(result: Result) -> Evidence:
    """Points around the solutions of the layer: one that is lower, or a slope at a solution, refutes it."""
    solved = [row["solved"] for row in result["result"]["rows"] if row["solved"]]
    lower, tried = (sum(one[key] for one in solved) for key in ("lower", "tried"))
    steepest = max(one["steepest"] for one in solved)
    numbers = f"slope of the energy at most {steepest:.0e}; {lower} of {tried:,} random points around are lower"
    return Evidence(tried, lower + sum(one["steepest"] >= CRITICAL for one in solved), numbers)


def _most(row: Mapping[str, Any]) -> int:
    return int(max(row["solutions"]))


def unique(result: Result, low: float, high: float) -> Evidence:
    """Pairs of coupling and slope whose product is in a range: more than one solution refutes that there is one."""
    rows = [row for row in result["result"]["rows"] if low <= row["product"] < high]
    products = [row["product"] for row in rows] or [low]
    numbers = (
        f"at most {max(map(_most, rows), default=0)} solution at {len(rows)} pairs of coupling and slope, coupling x slope "
        f"{min(products):g} to {max(products):g}"
    )
    return Evidence(len(rows), sum(_most(row) > 1 for row in rows), numbers)


def several(result: Result) -> Evidence:
    """One row with several solutions shows that there can be several; none leaves it open."""
    most: dict[float, int] = {}
    for row in result["result"]["rows"]:
        if row["product"] >= 1:
            most[row["product"]] = max(_most(row), most.get(row["product"], 0))
    numbers = ", ".join(f"up to {count} at {product:g}" for product, count in sorted(most.items()))
    numbers += f" (coupling x slope; {result['options']['starts']} starts)"
    return Evidence(len(most), 0, numbers, undecided=int(max(most.values(), default=0) < 2))


COLUMNS = (
    Column("slope", "slope", "g"),
    Column("coupling x slope", "product", "g"),
    Column("solutions found", _most),
    Column("settled (%)", lambda row: 100 * row["settled"], ".0f"),
    Column("slope of the energy", lambda row: f"{row['solved']['steepest']:.0e}" if row["solved"] else ""),
    Column("from descent", lambda row: f"{row['solved']['from_descent']:.0e}" if row["solved"] else "refused"),
)


def tables(result: Result) -> list[Table]:
    caption = "solutions: most of any row, by descents of the energy from many places"
    return [table(title_of(result), COLUMNS, result["result"]["rows"], caption)]


def figures(result: Result) -> list[Drawing]:
    rows = sorted(result["result"]["rows"], key=lambda row: float(row["product"]))
    with blank(f"{result['reproduction']}-solutions") as sheet:
        for number, slope in enumerate(sorted({row["slope"] for row in rows})):
            own = [row for row in rows if row["slope"] == slope]
            x, y = [row["product"] for row in own], list(map(_most, own))
            style: dict[str, Any] = {"color": colour(number), "marker": MARKERS[number % len(MARKERS)], "markersize": 4}
            sheet.axes.plot(x, y, label=f"slope {slope:g}", **style)
        sheet.axes.axvline(0.5, color="#444444", linewidth=1, linestyle=":", label="the paper's bound")
        sheet.axes.axvline(1, color="#444444", linewidth=1, linestyle="--", label="the layers' bound")
        sheet.axes.set(xscale="symlog", yscale="log", xlabel="coupling times slope", ylabel="solutions found")
        plain_numbers(sheet.axes.xaxis)
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    caption = "The most solutions any row has, by descents of the energy from many places."
    return [Drawing(sheet.svg, "Where solutions are unique", caption)]


DESCENTS: Mapping[str, Any] = {
    "units": 16,
    "spreads": (0.0, 0.1, 1.0),
    "rows": 4,
    "starts": 24,
    "steps": 10_000,
    "slopes": (1.0, 10.0, 100.0),
    "products": (-100.0, -10.0, -1.0, 0.25, 0.45, 0.55, 0.75, 0.95, 1.05, 1.25, 1.5, 2.0),
    "seed": 0,
}
FEW = {**DESCENTS, "slopes": (10.0,), "products": (-1.0, 0.45, 0.75, 1.25), "starts": 4, "steps": 300}
ENERGY = Reproduction(
    name="implicit_bias/energy",
    title="Energy and uniqueness over coupling and slope",
    where="Propositions 1 to 3, Corollaries 3.1 and 3.2",
    scales={
        "smoke": Setting(options=FEW),
        "small": Setting(options=DESCENTS),
        "paper": Setting(options={**DESCENTS, "units": 64, "starts": 100, "steps": 50_000}),
    },
    measure=measure,
    claims=(
        Fact("The solution is the point of lowest energy", lowest),
        Fact("It is unique for every negative coupling and up to 1 / (2 slope)", partial(unique, low=-inf, high=0.5)),
        Fact(
            "With equal weights the bound is twice as large, 1 / slope",
            partial(unique, low=0.5, high=1.0),
            beyond_paper=True,
        ),
        Fact("Above a threshold there can be several solutions", several),
    ),
    tables=tables,
    figures=figures,
    criteria="Solutions are counted by descents from many places; points closer than a thousandth of 1 / slope are one.",
    departs="Not a figure of the paper: its propositions, tried out on random rows.",
)
