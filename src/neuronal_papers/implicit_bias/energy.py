"""The equation of implicit bias as the lowest point of an energy, and where it has one solution and where several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.core.records import record_to_json
from neuronal.experiments import Work
from neuronal.nn import ImplicitBiasLinear
from neuronal.report import Column, Figure, blank
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.drawing import Line, marked, set_axes
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row, groups

SAME = 1e-3
"""Solutions are the same if no unit differs by more than this over the slope."""
CRITICAL = 1e-6
"""Largest slope of the energy at a solution."""


def gradient(z: Tensor, a: Tensor, coupling: float, slope: float) -> Tensor:
    r"""Of the energy of every row, which is zero where the equation holds.

    .. math:: E(z) = \tfrac12 \|z - a\|^2 - \frac{\lambda}{2N} \sum_{i,k} \tfrac1p \log\cosh(p (z_k - z_i))
    """
    return z - a + coupling * torch.tanh(slope * (z.unsqueeze(-2) - z.unsqueeze(-1))).mean(-1)


@dataclass(frozen=True)
class Solved:
    """The layer's own solution: the energy's slope there, and how far it is from where the row itself descends to."""

    steepest: float
    from_descent: float


@dataclass(frozen=True)
class Solutions:
    """Solutions of every row of inputs that descents end in; the share of descents that ended; where there is one, it."""

    slope: float
    product: float
    solutions: Sequence[int]
    settled: float
    solved: Solved | None


def measure(setting: Setting, work: Work) -> Measured:
    """Over slopes and couplings: descents of the energy from random places, and the layer's own solution beside them.

    ``options``: ``units``, ``spreads`` of the rows, ``rows`` of each, ``starts``, ``steps``, ``slopes``, ``products`` (of
    coupling and slope), ``seed``.
    """
    options = setting.options
    noise = partial(torch.randn, generator=torch.Generator().manual_seed(options["seed"]), dtype=torch.float64)
    a = torch.cat([spread * noise(options["rows"], options["units"]) for spread in options["spreads"]])
    ways = noise(options["starts"], *a.shape)

    def solutions(item: Row) -> Row:
        slope, coupling = item["slope"], item["product"] / item["slope"]
        work.say(f"slope {slope:g}, coupling {coupling:g}")
        # Places far apart, close together, and the row itself.
        size = torch.logspace(-3, 0.5, len(ways), dtype=torch.float64)[:, None, None] * (1 + 1 / slope)
        starts = a + size * ways
        starts[0] = a
        found, steep = descend(starts, a, coupling, slope, options["steps"])
        settled = steep < CRITICAL
        counts = [distinct(found[settled[:, i], i], SAME / slope) for i in range(len(a))]
        solved = None
        if item["product"] < 1:
            units: Any = {"in_features": a.shape[1], "out_features": a.shape[1], "bias": False, "tolerance": 1e-10}
            layer = ImplicitBiasLinear(**units, coupling=coupling, slope=slope, learn_coupling=False).double()
            nn.init.eye_(layer.weight)
            z = layer(a).detach()
            steepest = gradient(z, a, coupling, slope).abs().max().item()
            solved = Solved(steepest, (found[0] - z).abs().max().item())
        return record_to_json(
            Solutions(**item, solutions=counts, settled=settled.double().mean().item(), solved=solved)
        )

    items = [{"slope": slope, "product": product} for slope in options["slopes"] for product in options["products"]]
    how = {name: value for name, value in options.items() if name not in ("slopes", "products")}
    return {"rows": work.parts({"procedure": "energy", **how}, items, solutions)}


def descend(z: Tensor, a: Tensor, coupling: float, slope: float, steps: int) -> tuple[Tensor, Tensor]:
    """Gradient descent on the energy, which is the paper's iteration; where it ends, and the energy's slope there."""
    for _ in range(steps):
        z = z - gradient(z, a, coupling, slope) / (1 + abs(coupling) * slope)
    return z, gradient(z, a, coupling, slope).abs().amax(-1)


def distinct(found: Tensor, within: float) -> int:
    """How many different rows there are."""
    kept: list[Tensor] = []
    for row in found:
        if not any(bool((row - other).abs().max() <= within) for other in kept):
            kept.append(row)
    return len(kept)


def most(rows: Iterable[Row]) -> int:
    """The most solutions any row of inputs has."""
    return max((count for row in rows for count in row["solutions"]), default=0)


def lowest(result: Result) -> Evidence:
    """Solutions of the layer: a slope of the energy there, or a descent that ends elsewhere, refutes that it is lowest."""
    solved = [(row["solved"], SAME / row["slope"]) for row in result["result"]["rows"] if row["solved"]]
    wrong = sum(one["steepest"] >= CRITICAL or one["from_descent"] > same for one, same in solved)
    steepest, apart = (max(one[key] for one, _ in solved) for key in ("steepest", "from_descent"))
    numbers = f"slope of the energy at most {steepest:.0e}, at most {apart:.0e} from where descents of it end"
    return Evidence(len(solved), wrong, numbers)


def unique(result: Result, low: float, high: float) -> Evidence:
    """Pairs of coupling and slope whose product is in a range: more than one solution refutes that there is one."""
    rows = [row for row in result["result"]["rows"] if low <= row["product"] < high]
    first, last = (of(row["product"] for row in rows) for of in (min, max))
    pairs = f"{len(rows)} pairs of coupling and slope, coupling x slope {first:g} to {last:g}"
    return Evidence(len(rows), sum(most([row]) > 1 for row in rows), f"at most {most(rows)} solution at {pairs}")


def several(result: Result) -> Evidence:
    """One row with several solutions shows that there can be several; none leaves it open."""
    above = [row for row in result["result"]["rows"] if row["product"] >= 1]
    starts = f"{result['options']['starts']} starts end apart"
    numbers = f"up to {most(above)} of {starts}, at {len(above)} pairs with coupling x slope of 1 or more"
    return Evidence(len(above), 0, numbers, undecided=int(most(above) < 2))


COUNTED = "most of any row, by descents of the energy from many places"
COLUMNS = (
    Column("slope", "slope", "g"),
    Column("coupling x slope", "product", "g"),
    Column("solutions found", lambda row: most([row])),
    Column("settled (%)", lambda row: 100 * row["settled"], ".0f"),
    Column("slope of the energy", lambda row: f"{row['solved']['steepest']:.0e}" if row["solved"] else ""),
    Column("from descent", lambda row: f"{row['solved']['from_descent']:.0e}" if row["solved"] else "refused"),
)


def figures(result: Result) -> list[Figure]:
    rows = sorted(result["result"]["rows"], key=lambda row: (row["slope"], row["product"]))
    with blank(f"{result['reproduction']}-solutions") as sheet:
        for number, ((slope,), own) in enumerate(groups(rows, "slope").items()):
            x, y = [row["product"] for row in own], [most([row]) for row in own]
            marked(sheet.axes, Line(number, f"slope {slope:g}", x, [y]))
        sheet.axes.axvline(0.5, color="#444444", linestyle=":", label="the paper's bound")
        sheet.axes.axvline(1, color="#444444", linestyle="--", label="the layers' bound")
        labels = {"xlabel": "coupling times slope", "ylabel": "solutions found"}
        set_axes(sheet.axes, {"xscale": "symlog", "yscale": "log", **labels})
        sheet.axes.legend()
    return [Figure(sheet.svg, "Where solutions are unique", f"Solutions: {COUNTED}.")]


PRODUCTS = (-100.0, -10.0, -1.0, 0.25, 0.45, 0.55, 0.75, 0.95, 1.05, 1.25, 1.5, 2.0)
ROWS = {"units": 16, "spreads": (0.0, 0.1, 1.0), "rows": 4, "starts": 24, "steps": 10_000, "seed": 0}
DESCENTS = {**ROWS, "slopes": (1.0, 10.0, 100.0), "products": PRODUCTS}
FEW = {**DESCENTS, "slopes": (10.0,), "products": (-1.0, 0.45, 0.75, 1.25), "starts": 4, "steps": 300}
ENERGY = Reproduction(
    name="implicit_bias/energy",
    title="Energy and uniqueness over coupling and slope",
    where="Propositions 1 to 3, Corollaries 3.1 and 3.2",
    scales=settings(options=(FEW, DESCENTS, {**DESCENTS, "units": 64, "starts": 100, "steps": 50_000})),
    measure=measure,
    claims=(
        Fact("The solution is the point of lowest energy", lowest),
        Fact("It is unique for every negative coupling and up to 1 / (2 slope)", partial(unique, low=-inf, high=0.5)),
        Fact("With equal weights the bound is twice as large, 1 / slope", partial(unique, low=0.5, high=1.0), True),
        Fact("Above a threshold there can be several solutions", several),
    ),
    tables=one_table(COLUMNS, f"solutions: {COUNTED}"),
    figures=figures,
    criteria="Solutions are counted by descents from many places; points closer than a thousandth of 1 / slope are one.",
    departs="Not a figure of the paper: its propositions, tried out on random rows.",
)
