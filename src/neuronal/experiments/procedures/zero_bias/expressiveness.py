"""Which labels along rays from the origin a network can fit, with and without biases (Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.certify.scaling import certify_scaling
from neuronal.data.dataset import Split
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.regions import regions_2d
from neuronal.geometry.trace import outputs
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

RADII = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
TASKS = {
    "Dir 1": "labels alternate along one ray; another ray is all of one class",
    "Dir 2": "all points of a ray have one class; two rays of each class",
}

BEND = 1e-3
"""A score bends where its second difference is more than this part of its largest value."""
JUDGED = "A network can fit a task if with one seed or more it fits all points, and cannot if with none."


def task(name: str) -> tuple[Tensor, Tensor]:
    """Points in the plane and their classes."""
    x, y = [], []
    if name == "Dir 1":
        rays = [(pi / 5, [i % 2 for i in range(len(RADII))]), (3 * pi / 4, [0] * len(RADII))]
    else:
        rays = [(angle, [i % 2] * len(RADII)) for i, angle in enumerate((pi / 5, 3 * pi / 5, 6 * pi / 5, 9 * pi / 5))]
    for angle, labels in rays:
        for radius, label in zip(RADII, labels, strict=True):
            x.append([radius * cos(angle), radius * sin(angle)])
            y.append(label)
    return torch.tensor(x), torch.tensor(y)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Both tasks with every neuron and seed: points that are fitted, scores along the first ray, linear regions.

    ``options``: ``widths`` of the hidden layers, ``epochs``, ``seeds``, ``neurons``.
    """
    options = setting.options

    def tried(item: Mapping[str, Any]) -> dict[str, Any]:
        work.say(f"{item['task']}, {item['neuron']}, seed {item['seed']}")
        x, y = task(item["task"])
        model = _trained(x, y, item["neuron"], item["seed"], options)
        row = {
            "fitted": int((outputs(model, x).argmax(1) == y).sum()),
            "points": len(y),
            "scales": certify_scaling(model, x[:2]).verdict == "certified",
            "along": _along(model),
        }
        return {"row": {**item, **row}, "picture": {**item, **_picture(model, x, y)}}

    kinds = [(name, neuron) for name in TASKS for neuron in options["neurons"]]
    items = [{"task": name, "neuron": neuron, "seed": seed} for name, neuron in kinds for seed in options["seeds"]]
    how = {"procedure": "expressiveness", "widths": options["widths"], "epochs": options["epochs"]}
    made = work.parts(how, items, tried)
    rows = [part["row"] for part in made]
    pictures = [
        # Of the first seed that fits most.
        max((part for part in made if _kind(part["row"]) == kind), key=lambda part: part["row"]["fitted"])["picture"]
        for kind in kinds
    ]
    return {"rows": rows, "pictures": pictures, "tasks": TASKS}


def _kind(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["task"], row["neuron"]


def _trained(x: Tensor, y: Tensor, neuron: str, seed: int, options: Mapping[str, Any]) -> nn.Module:
    with seeded(seed):
        model = create_model("fcn", neuron, num_classes=2, in_chans=2, img_size=1, widths=options["widths"])
    plan = Plan(epochs=options["epochs"], batch_size=len(x), optim="adam", lr=0.01)
    fit(model, Split(x, y), plan, seed=seed)
    return model.cpu().eval()


def _along(model: nn.Module, *, count: int = 61) -> dict[str, list[float]]:
    """Score of class 1 less that of class 0 along the first ray, from the origin."""
    r = torch.linspace(0, RADII[-1], count)
    scores = outputs(model, torch.stack([r * cos(pi / 5), r * sin(pi / 5)], 1))
    # Five digits: more than a picture shows.
    return {
        "radius": [round(value, 5) for value in r.tolist()],
        "score": [float(f"{value:.5g}") for value in (scores[:, 1] - scores[:, 0]).tolist()],
    }


def _picture(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Corners of the linear regions in a square around the origin, and the points."""
    side = RADII[-1] + 0.5
    corners = [torch.tensor(c) for c in ([-side, -side], [side, -side], [-side, side])]
    regions = regions_2d(model, *corners, domain="parallelogram")
    place = torch.stack(corners).double().numpy()
    return {
        # A thousandth of a unit is a tenth of a pixel.
        "regions": [((polygon @ place).round(3) + 0.0).tolist() for polygon in regions.polygons],
        "points": [[round(value, 5) for value in point] for point in x.tolist()],
        "labels": y.tolist(),
    }


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Biased networks fit both, zero-bias ones only labels that are the same along a ray; and that is a proof."""
    rows = answer["result"]["rows"]
    found = []
    for name in TASKS:
        for neuron in dict.fromkeys(row["neuron"] for row in rows):
            own = [row for row in rows if row["task"] == name and row["neuron"] == neuron]
            can = neuron != "zero_bias" or name == "Dir 2"
            whole = sum(row["fitted"] == row["points"] for row in own)
            holds = whole > 0 if can else whole == 0
            found.append(
                Finding(
                    f"{neuron} networks {'can' if can else 'cannot'} fit {name} ({TASKS[name]})",
                    "reproduced" if holds else "not reproduced",
                    f"{whole} of {len(own)} seeds fit all {own[0]['points']} points" + _why(own, can),
                )
            )
    return found + _rays(rows)


def _rays(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Figure 6a and 6b."""
    without, biased = ([row for row in rows if (row["neuron"] == "zero_bias") == zero] for zero in (True, False))
    if not without or not biased:
        return []
    bent = [sum(map(_bends, own)) for own in (without, biased)]
    return [
        Finding(
            "Rays stay within one region of a zero-bias network and traverse several of a biased one",
            "reproduced" if bent == [0, len(biased)] else "not reproduced",
            f"the score bends along the first ray in {bent[0]} of {len(without)} zero-bias networks and in {bent[1]} of "
            f"{len(biased)} biased ones",
        )
    ]


def _bends(row: Mapping[str, Any]) -> bool:
    score = row["along"]["score"]
    largest = max(map(abs, score))
    return any(abs(a - 2 * b + c) > BEND * largest for a, b, c in zip(score, score[1:], score[2:], strict=False))


def _why(rows: Sequence[Mapping[str, Any]], can: bool) -> str:
    if can or not all(row["scales"] for row in rows):
        return ""
    return "; certified: scores scale with the radius, so along a ray the class cannot change"
