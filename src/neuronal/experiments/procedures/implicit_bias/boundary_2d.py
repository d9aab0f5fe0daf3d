"""Two classes in the plane and one hidden layer: where the boundary runs, and how it bends (Figure 2, implicit bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.core.inference import evaluating
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs
from neuronal.models.registry import create_model
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

SIDE = 1.0
"""The square is from minus this to this."""
STEP = 1e-4
"""Along the boundary, between the two gradients whose angle is the curvature."""
PAIRS = 4000
CONVEX = 0.005
"""A class of which fewer midpoints are of the other class counts as convex."""
STRAIGHT = 1e-6
"""Curvatures up to this are those of a straight line."""


JUDGED = (
    "Medians over seeds are compared: of accuracies with every setting (with some is a part), of how many "
    "midpoints of a class lie outside it, and of the curvature of the boundary's strongest tenth, which has to "
    "grow all the way (in the end is a part). The slope matters if that changes by more than a factor of 2."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Trains the standard network and every coupling and slope with every seed, all by the same plan.

    ``options``: ``units`` of the hidden layer, ``couplings`` at ``slope``, ``slopes`` at ``coupling``, ``epochs``,
    ``seeds``, ``grid`` points per side.
    """
    options = setting.options
    data = load("arrows")

    def shown(item: Mapping[str, Any]) -> dict[str, Any]:
        kind, seed = item["kind"], item["seed"]
        work.say(f"{kind or 'standard'}, seed {seed}")
        model = _trained(data.train, kind, seed, options)
        share = (outputs(model, data.test.x).argmax(1) == data.test.y).double().mean().item()
        row = {"neuron": "implicit_bias" if kind else "standard", **(kind or {}), "seed": seed, "accuracy": share}
        return row | _shape(_precise(model), options["grid"], item["with_picture"])

    kinds: list[dict[str, float] | None] = [None]
    kinds += [{"coupling": c, "slope": options["slope"]} for c in options["couplings"]]
    kinds += [{"coupling": options["coupling"], "slope": s} for s in options["slopes"] if s != options["slope"]]
    seeds = options["seeds"]
    items = [{"kind": kind, "seed": seed, "with_picture": seed == seeds[0]} for kind in kinds for seed in seeds]
    how = {"procedure": "boundary_2d"} | {name: options[name] for name in ("units", "epochs", "grid")}
    return {"rows": work.parts(how, items, shown)}


def _trained(train: Any, kind: Mapping[str, float] | None, seed: int, options: Mapping[str, Any]) -> nn.Module:
    fixed = {**kind, "learn_coupling": False} if kind else None
    neuron = "implicit_bias" if kind else "standard"
    shape = {"num_classes": 2, "in_chans": 2, "img_size": 1, "width": options["units"]}
    with seeded(seed):
        model = create_model("mlp1", neuron, **shape, neuron_options=fixed)
    fit(model, train, Plan(epochs=options["epochs"], batch_size=100, optim="adam", lr=0.01), seed=seed)
    return model.cpu().eval()


def _precise(model: nn.Module) -> nn.Module:
    """In float64 and solved to the last digits: small angles are looked at."""
    model = model.double()
    for module in model.modules():
        if isinstance(module, ImplicitBiasLinear):
            module.tolerance = 1e-11
    return model


def _score(model: nn.Module, points: Tensor) -> Tensor:
    logits: Tensor = model(points)
    return logits[:, 1] - logits[:, 0]


def _shape(model: nn.Module, grid: int, with_picture: bool) -> dict[str, Any]:
    """Curvature of the boundary (of its strongest tenth at least this), and how far the classes are from being convex."""
    with evaluating(model):
        points = boundary(model, grid)
        bends = curvature(model, points)
        hollow = min(hollowness(model, grid, label) for label in (0, 1))
    picture = {"boundary": [[round(v, 3) for v in point] for point in points.tolist()]} if with_picture else {}
    return {
        "curvature": bends.quantile(0.9).item() if len(bends) else 0.0,
        "curved": (bends > STRAIGHT).double().mean().item() if len(bends) else 0.0,
        "hollow": hollow,
        **picture,
    }


def _grid(grid: int) -> Tensor:
    line = torch.linspace(-SIDE, SIDE, grid, dtype=torch.float64)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), 2)


def boundary(model: nn.Module, grid: int) -> Tensor:
    """Points of the boundary: one on every edge of a grid whose ends have different classes."""
    place = _grid(grid)
    is_one = (_score(model, place.view(-1, 2)) > 0).view(grid, grid)
    across, down = is_one[1:] != is_one[:-1], is_one[:, 1:] != is_one[:, :-1]
    low = torch.cat([place[:-1][across], place[:, :-1][down]])
    high = torch.cat([place[1:][across], place[:, 1:][down]])
    if not len(low):
        return low
    start = _score(model, low) > 0
    for _ in range(45):
        middle = (low + high) / 2
        same = ((_score(model, middle) > 0) == start)[:, None]
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return (low + high) / 2


def curvature(model: nn.Module, points: Tensor) -> Tensor:
    """Angle between the gradients a little before and after each point of the boundary, over their distance."""
    if not len(points):
        return points.new_zeros(0)
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
    if not len(own):
        return 0.0
    pick = torch.randint(len(own), (2, PAIRS), generator=torch.Generator().manual_seed(0))
    between = (own[pick[0]] + own[pick[1]]) / 2
    return ((_score(model, between) > 0) != bool(label)).double().mean().item()


def medians(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per network: medians and ranges over seeds."""
    found = []
    for neuron, c, s in dict.fromkeys((row["neuron"], row.get("coupling"), row.get("slope")) for row in rows):
        own = [row for row in rows if (row["neuron"], row.get("coupling"), row.get("slope")) == (neuron, c, s)]
        numbers = {key: [row[key] for row in own] for key in ("accuracy", "curvature", "curved", "hollow")}
        found.append({"neuron": neuron, "coupling": c, "slope": s, "seeds": len(own), **numbers})
    return found


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """More expressive; bends with the coupling; the slope decides how."""
    kinds, options = medians(answer["result"]["rows"]), answer["options"]
    standard, others = kinds[0], kinds[1:]
    best = max(others, key=lambda kind: median(kind["accuracy"]))
    gap = median(best["accuracy"]) - median(standard["accuracy"])
    better = sum(median(kind["accuracy"]) > median(standard["accuracy"]) for kind in others)
    convex, hollow = max(standard["hollow"]) < CONVEX, [k for k in others if median(k["hollow"]) >= CONVEX]
    by_coupling = [k for k in others if k["slope"] == options["slope"] and k["coupling"] < 0]
    by_coupling.sort(key=lambda kind: abs(kind["coupling"]))
    by_slope = sorted((k for k in others if k["coupling"] == options["coupling"]), key=lambda kind: kind["slope"])
    return [
        Finding(
            "Implicit-bias networks follow the shape of the classes better than a standard one of the same size",
            "reproduced" if better == len(others) else "reproduced in part" if better else "not reproduced",
            f"{better} of {len(others)} settings have a higher median accuracy than the standard network's "
            f"{100 * median(standard['accuracy']):.1f}%; the best is {100 * gap:+.1f} points from it "
            f"(coupling {best['coupling']:g}, slope {best['slope']:g})",
        ),
        Finding(
            "A standard network makes a convex polygon, implicit bias a shape that is not convex",
            "not true as stated" if not convex else "reproduced" if hollow else "reproduced in part",
            f"standard: {_percents(standard['hollow'])} of midpoints are outside the rounder class, and the boundary is "
            f"straight at {100 * (1 - median(standard['curved'])):.0f}% of places; implicit bias: not convex with "
            f"{len(hollow)} of {len(others)} settings",
        ),
        _bending("The boundary becomes more curved with the size of a negative coupling", by_coupling, "coupling"),
        _bending("The slope decides how strongly arcs are curved", by_slope, "slope", either_way=True),
    ]


def _bending(claim: str, kinds: Sequence[Mapping[str, Any]], key: str, *, either_way: bool = False) -> Finding:
    bends = [median(kind["curvature"]) for kind in kinds]
    rising = all(later >= earlier for earlier, later in pairwise(bends))
    numbers = ", ".join(f"{bend:.2g} at {kind[key]:g}" for bend, kind in zip(bends, kinds, strict=True))
    verdict: Any = "reproduced" if rising and bends[-1] > bends[0] else "reproduced in part"
    if either_way:
        verdict = "reproduced" if max(bends) > 2 * min(bends) else "not reproduced"
    elif not bends[-1] > bends[0]:
        verdict = "not reproduced"
    return Finding(claim, verdict, f"curvature of the strongest tenth of the boundary {numbers} (median over seeds)")


def _percents(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.1f} to {100 * max(shares):.1f}%"
