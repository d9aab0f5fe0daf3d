"""Two classes in the plane and one hidden layer: where the boundary runs, and how it bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.core.inference import evaluating
from neuronal.core.records import Json, record_to_json
from neuronal.data import arrows, load
from neuronal.experiments import Work
from neuronal.models import create_model
from neuronal.probes import score
from neuronal.report import Column, Figure, blank, colour
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.implicit_bias.networks import NEURONS
from neuronal_papers.judge import Above, Below, Case, Claim, Result
from neuronal_papers.seeds import NEURON, OVER_SEEDS, Row, at, differences, networks_of, over_seeds, percents

STEP = 1e-4
"""Along the boundary, between the two gradients whose angle is the curvature."""
PAIRS = 4000
CONVEX = 0.5
"""A class of which a smaller percentage of midpoints are of the other class counts as convex."""
FIXED = {"coupling": "slope", "slope": "coupling"}
"""What stays the same while a coupling, or a slope, changes."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One network: curvature of its boundary, how hollow its classes are, and the places of the boundary for a picture."""

    neuron: str
    coupling: float | None = None
    slope: float | None = None
    seed: int
    accuracy: float
    curvature: float
    hollow: float
    boundary: Sequence[Sequence[float]] | None = None


def measure(setting: Setting, work: Work) -> Measured:
    """Trains the standard network and every coupling and slope with every seed, all by the same plan.

    Curvature of the boundary (of its strongest tenth at least this), and how far the classes are from being convex.

    ``options``: ``units`` of the hidden layer, ``couplings`` at ``slope``, ``slopes`` at ``coupling``, ``epochs``,
    ``seeds``, ``grid`` points per side.
    """
    options, data = setting.options, load("arrows")
    seeds, grid = options["seeds"], options["grid"]

    def shown(item: Row) -> Row:
        kind, seed = item["kind"], item["seed"]
        neuron = NEURONS[bool(kind)]
        work.say(f"{kind or neuron}, seed {seed}")
        shape: Any = {"num_classes": 2, "in_chans": 2, "img_size": 1, "width": options["units"]}
        with seeded(seed):
            fixed = {**kind, "learn_coupling": False} if kind else None
            model: Any = create_model("mlp1", neuron, **shape, neuron_options=fixed)
        fit(model, data.train, Plan(epochs=options["epochs"], batch_size=100, optim="adam", lr=0.01), seed=seed)
        accuracy, bent, hollow = score(model.cpu(), data.test)["accuracy"], 0.0, 0.0
        # In float64 and solved to the last digits: small angles are looked at.
        model.double().features[1].tolerance = 1e-11
        with evaluating(model):
            points = boundary(model, grid)
            if len(points):
                bent = curvature(model, points).quantile(0.9).item()
                hollow = min(hollowness(model, grid, label) for label in (0, 1))
        shown = [[round(place, 3) for place in point] for point in points.tolist()] if item["with_picture"] else None
        row = Trained(
            neuron=neuron, **kind, seed=seed, accuracy=accuracy, curvature=bent, hollow=hollow, boundary=shown
        )
        return record_to_json(row)

    kinds: list[dict[str, float]] = [{}]
    kinds += [{"coupling": coupling, "slope": options["slope"]} for coupling in options["couplings"]]
    kinds += [{"coupling": options["coupling"], "slope": s} for s in options["slopes"] if s != options["slope"]]
    items = [{"kind": kind, "seed": seed, "with_picture": seed == seeds[0]} for kind in kinds for seed in seeds]
    how = {"procedure": "boundary_2d"} | {name: options[name] for name in ("units", "epochs", "grid")}
    return {"rows": work.parts(how, items, shown)}


def _score(model: nn.Module, points: Tensor) -> Tensor:
    logits: Tensor = model(points)
    return logits[:, 1] - logits[:, 0]


def _grid(grid: int) -> Tensor:
    """So many points per side of the square from -1 to 1."""
    line = torch.linspace(-1, 1, grid, dtype=torch.float64)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), 2)


def boundary(model: nn.Module, grid: int) -> Tensor:
    """Points of the boundary: one on every edge of a grid whose ends have different classes."""
    place = _grid(grid)
    is_one = (_score(model, place.view(-1, 2)) > 0).view(grid, grid)
    across, down = is_one[1:] != is_one[:-1], is_one[:, 1:] != is_one[:, :-1]
    low = torch.cat([place[:-1][across], place[:, :-1][down]])
    high = torch.cat([place[1:][across], place[:, 1:][down]])
    start = _score(model, low) > 0
    for _ in range(45):
        middle = (low + high) / 2
        same = ((_score(model, middle) > 0) == start)[:, None]
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return (low + high) / 2


def curvature(model: nn.Module, points: Tensor) -> Tensor:
    """Angle between the gradients a little before and after each point of the boundary, over their distance."""
    normal = _normal(model, points)
    tangent = torch.stack([-normal[:, 1], normal[:, 0]], 1)
    one, other = (_normal(model, points + sign * STEP * tangent) for sign in (1, -1))
    # Of the sine: the cosine of a small angle has none of its digits.
    sine = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
    return torch.asin(sine.clamp(-1, 1)).abs() / (2 * STEP)


def _normal(model: nn.Module, points: Tensor) -> Tensor:
    points = points.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(_score(model, points).sum(), points)
    return nn.functional.normalize(gradient, dim=1)


def hollowness(model: nn.Module, grid: int, label: int) -> float:
    """Share of random pairs of points of a class whose midpoint is of the other one: 0 for a convex class."""
    place = _grid(grid).view(-1, 2)
    own = place[(_score(model, place) > 0) == bool(label)]
    pick = torch.randint(len(own), (2, PAIRS), generator=torch.Generator().manual_seed(0))
    between = (own[pick[0]] + own[pick[1]]) / 2
    return ((_score(model, between) > 0) != bool(label)).double().mean().item()


def networks(result: Result) -> list[Json]:
    """The standard network first, then every coupling and slope."""
    return networks_of(result, "neuron", "coupling", "slope")


def _label(one: Row) -> str:
    return "" if one["coupling"] is None else f"coupling {one['coupling']:g}, slope {one['slope']:g}"


def _number(key: str) -> Column:
    return Column(key, lambda one: "" if one[key] is None else f"{one[key]:g}")


def more_accurate(result: Result) -> list[Case]:
    """Points of accuracy above the standard network's."""
    standard, *others = networks(result)
    return [Case(_label(one), differences(one, standard, at("accuracy"))) for one in others]


def hollow(result: Result, neuron: str) -> list[Case]:
    """Percent of midpoints that are outside the rounder class; seeds that are not convex are counted."""
    cases = []
    for one in networks(result):
        if one["neuron"] == neuron:
            values = [100 * run["hollow"] for run in one["runs"]]
            many = sum(value >= CONVEX for value in values)
            note = f"{many} of {len(values)} seeds at {CONVEX:g}% or more, the largest {max(values):.1f}%"
            cases.append(Case(_label(one), values, note=note * bool(many)))
    return cases


def bending(result: Result, key: str) -> list[Case]:
    """How much more the boundary bends at the next larger slope, or size of a negative coupling; the other is fixed."""
    fixed = FIXED[key]
    chosen = [one for one in networks(result)[1:] if one[fixed] == result["options"][fixed] and one["coupling"] < 0]
    return [
        Case(f"{later[key]:g} after {earlier[key]:g}", differences(later, earlier, at("curvature"), 1.0))
        for earlier, later in pairwise(sorted(chosen, key=lambda one: abs(one[key])))
    ]


WHAT = "curvature: of the strongest tenth of the boundary; hollow: midpoints of the rounder class that are of the other"
NUMBERS = (over_seeds("curvature", at("curvature"), ".2g"), percents("hollow (%)", at("hollow")))
COLUMNS = (NEURON, *map(_number, FIXED), percents("accuracy (%)", at("accuracy")), *NUMBERS)


def figures(result: Result) -> list[Figure]:
    shown = [row for row in result["result"]["rows"] if "boundary" in row]
    options, points, found = result["options"], arrows().train, []
    for key, fixed in FIXED.items():
        with blank(f"{result['reproduction']}-{key}") as sheet:
            for label, shade in ((0, "#f2e3a0"), (1, "#c4d8ee")):
                x, y = points.x[points.y == label].T
                sheet.axes.scatter(x, y, s=3, color=shade, linewidths=0)
            rows = [row for row in shown if row.get(fixed, options[fixed]) == options[fixed]]
            for number, row in enumerate(rows):
                text = f"{key} {row[key]:g}" if key in row else "standard"
                x, y = zip(*row["boundary"], strict=True) if row["boundary"] else ((), ())
                sheet.axes.scatter(x, y, s=2, color=colour(number), label=text, linewidths=0)
            sheet.axes.set(aspect="equal")
            sheet.axes.grid(visible=False)
            sheet.axes.legend(markerscale=3, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        what = f"Boundaries of networks of {options['units']} units between the arrows, first seed"
        found.append(Figure(sheet.svg, f"{key.capitalize()}s", f"{what}; {fixed} {options[fixed]:g}."))
    return found


COUPLINGS = {"couplings": (-0.1, -0.5, -2.0, 0.05), "coupling": -0.5}
SLOPES = {"slopes": (1.0, 10.0, 30.0), "slope": 10.0}
PLANE = {**COUPLINGS, **SLOPES, "units": 8, "epochs": 100, "grid": 61, "seeds": tuple(range(10))}
TINY = {**PLANE, "couplings": (-0.5, -1.0), "slopes": (3.0, 10.0), "epochs": 2, "grid": 21, "seeds": (0,)}
MORE = {"couplings": (-0.1, -0.5, -1.0, -2.0, 0.05), "slopes": (1.0, 3.0, 10.0, 30.0), "epochs": 400, "grid": 201}
FOLLOWS = "Implicit-bias networks follow the shape of the classes better than a standard one of the same size"
POLYGON = "A standard network makes a convex polygon"
HOLLOW = "Implicit bias, at some coupling and slope, makes a shape that is not convex"
MIDPOINTS = ("% of midpoints outside the rounder class", ".2f")
BENDS = "more curvature of the boundary's strongest tenth"
BOUNDARY_2D = Reproduction(
    name="implicit_bias/boundary_2d",
    title="Boundaries between two arrows in the plane",
    where="Figure 2",
    scales=settings(options=(TINY, PLANE, PLANE | MORE)),
    measure=measure,
    claims=(
        Claim(FOLLOWS, more_accurate, Above()),
        Claim(POLYGON, partial(hollow, neuron="standard"), Below(CONVEX), *MIDPOINTS),
        Claim(HOLLOW, partial(hollow, neuron="implicit_bias"), Above(CONVEX), *MIDPOINTS, needs="some"),
        *(
            Claim(f"The boundary becomes more curved with the {what}", partial(bending, key=key), Above(), BENDS)
            for key, what in (("coupling", "size of a negative coupling"), ("slope", "slope"))
        ),
    ),
    tables=one_table(COLUMNS, f"{OVER_SEEDS}; {WHAT}", rows=networks),
    figures=figures,
    criteria=(
        "A class counts as convex if fewer than 0.5% of the midpoints between its points are of the other class, in the "
        "mean over seeds. The standard network is right on 99.2% of the points (median), so little is left to gain and "
        "little concavity is needed. The paper says that the slope controls how curved arcs are; we read: larger, more."
    ),
    departs=(
        "Eight units, no batch norm, Adam at 0.01 for all; numbers of units, couplings and slopes are lost in the text at "
        "hand. The arrows are drawn by us. Weights are means: the published code sums over units with weights of a half."
    ),
)
