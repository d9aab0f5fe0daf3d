"""Figure 6: which labels along rays from the origin a network can fit, with and without biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi, sin
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuronal.certify import certify_scaling
from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.geometry import outputs, regions_2d
from neuronal.models import create_model
from neuronal.report import Column, Drawing, Table, blank, colour, table
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import groups as grouped
from neuronal_papers.zero_bias.networks import BOTH

Row = Mapping[str, Any]

RADII = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
TASKS = {
    "Dir 1": "labels alternate along one ray; another ray is all of one class",
    "Dir 2": "all points of a ray have one class; two rays of each class",
}
# A score bends where its second difference is more than this part of its largest value.
BEND = 1e-3


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

    def tried(item: Row) -> dict[str, Any]:
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
    pictures = [
        # Of the first seed that fits most.
        max((part for part in made if _kind(part["row"]) == kind), key=lambda part: part["row"]["fitted"])["picture"]
        for kind in kinds
    ]
    return {"rows": [part["row"] for part in made], "pictures": pictures, "tasks": TASKS}


def _kind(row: Row) -> tuple[str, str]:
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


# What the claims are about


def _rows(result: Result, neuron: str, task: str = "") -> list[Row]:
    return [row for row in result["result"]["rows"] if row["neuron"] == neuron and task in ("", row["task"])]


def _can(neuron: str, *tasks: str) -> Callable[[Result], Evidence]:
    """One seed that fits all points shows that a task can be fitted; if none does, that is no proof of the contrary."""

    def evidence(result: Result) -> Evidence:
        whole = {name: [row["fitted"] == row["points"] for row in _rows(result, neuron, name)] for name in tasks}
        numbers = "; ".join(f"{name}: {sum(of)} of {len(of)} seeds fit all points" for name, of in whole.items())
        return Evidence(len(tasks), 0, numbers, undecided=sum(not any(of) for of in whole.values()))

    return evidence


def _cannot(result: Result) -> Evidence:
    rows = _rows(result, "zero_bias", "Dir 1")
    whole = sum(row["fitted"] == row["points"] for row in rows)
    numbers = f"{whole} of {len(rows)} seeds fit all points"
    if all(row["scales"] for row in rows):
        numbers += "; certified: scores scale with the radius, so along a ray the class cannot change"
    return Evidence(len(rows), whole, numbers)


def _bend(neuron: str, expected: bool) -> Callable[[Result], Evidence]:
    def evidence(result: Result) -> Evidence:
        bent = [bends(row) for row in _rows(result, neuron)]
        numbers = f"the score bends along the first ray in {sum(bent)} of {len(bent)} networks"
        return Evidence(len(bent), bent.count(not expected), numbers)

    return evidence


def bends(row: Row) -> bool:
    """Whether the score along the first ray has more than one linear piece."""
    score = row["along"]["score"]
    largest = max(map(abs, score))
    return any(abs(a - 2 * b + c) > BEND * largest for a, b, c in zip(score, score[1:], score[2:], strict=False))


# How it is shown


def _whole(group: Row) -> str:
    return f"{sum(row['fitted'] == row['points'] for row in group['of'])} of {len(group['of'])}"


def _fitted(group: Row) -> str:
    return f"{', '.join(str(row['fitted']) for row in group['of'])} of {group['of'][0]['points']}"


COLUMNS = (
    Column("task", lambda group: group["of"][0]["task"], is_text=True),
    Column("neuron", lambda group: group["of"][0]["neuron"], is_text=True),
    Column("seeds that fit all", _whole),
    Column("points fitted, seed by seed", _fitted),
)


def tables(result: Result) -> list[Table]:
    groups = grouped(result["result"]["rows"], "task", "neuron").values()
    return [table(title_of(result), COLUMNS, [{"of": group} for group in groups])]


def figures(result: Result) -> list[Drawing]:
    drawings = [_regions(result, picture) for picture in result["result"]["pictures"]]
    with blank(f"{result['reproduction']}-along") as sheet:
        # The first seed that fits most, as in the pictures.
        rows = {_kind(row): row for row in sorted(result["result"]["rows"], key=lambda r: (r["fitted"], -r["seed"]))}
        for number, ((name, neuron), row) in enumerate(sorted(rows.items())):
            along = row["along"]
            sheet.axes.plot(along["radius"], along["score"], color=colour(number), label=f"{name}, {neuron}")
        sheet.axes.axhline(0, color="#444444", linewidth=1)
        sheet.axes.set(xlabel="distance from the origin along the first ray", ylabel="score of class 1 less class 0")
        sheet.axes.legend()
    caption = "Without biases the score is a straight line through the origin."
    return [*drawings, Drawing(sheet.svg, "Along a ray", caption)]


def _regions(result: Result, picture: Row) -> Drawing:
    with blank(f"{result['reproduction']}-{picture['task']}-{picture['neuron']}") as sheet:
        for corners in picture["regions"]:
            closed = np.array([*corners, corners[0]])
            sheet.axes.plot(closed[:, 0], closed[:, 1], color="#b8c0ca", linewidth=0.7)
        points, labels = np.array(picture["points"]), np.array(picture["labels"])
        for label, marker in ((0, "o"), (1, "P")):
            chosen = points[labels == label]
            style: dict[str, Any] = {"color": colour(label), "marker": marker, "s": 18, "zorder": 3}
            sheet.axes.scatter(chosen[:, 0], chosen[:, 1], label=f"class {label}", **style)
        sheet.axes.set(aspect="equal")
        sheet.axes.grid(visible=False)
        # Beside, and not where there is room: there is none, and to look for it takes long.
        sheet.axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    seed = f" (seed {picture['seed']}, the first that fits most)"
    caption = f"Linear regions of a trained network{seed} and the points it was to fit."
    return Drawing(sheet.svg, f"{picture['task']}, {picture['neuron']}", caption)


OPTIONS = {"neurons": BOTH, "widths": (32, 32), "epochs": 4000, "seeds": tuple(range(10))}
EXPRESSIVENESS = Reproduction(
    name="zero_bias/expressiveness",
    title="Labels along rays: what each network can fit",
    where="Figure 6",
    scales={
        "smoke": Setting(options=OPTIONS | {"widths": (8, 8), "epochs": 20, "seeds": (0,)}),
        "small": Setting(options=OPTIONS),
        "paper": Setting(options=OPTIONS),
    },
    measure=measure,
    claims=(
        Fact(f"Without biases Dir 1 cannot be fitted ({TASKS['Dir 1']})", _cannot),
        Fact(f"Without biases Dir 2 can be fitted ({TASKS['Dir 2']})", _can("zero_bias", "Dir 2")),
        Fact("With biases both can be fitted", _can("standard", "Dir 1", "Dir 2")),
        Fact("Without biases a ray stays within one region", _bend("zero_bias", False)),
        Fact("With biases rays traverse several regions", _bend("standard", True)),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "A task can be fitted if one seed or more fits all points; that none does shows nothing, unless it is proved that "
        f"none can. A score bends along a ray where its second difference is more than {BEND:g} of its largest value."
    ),
    departs=(
        "Rays, radii, widths (3 layers, as in the paper) and training are our choice: the paper gives a picture only. What "
        "is said of Dir 2 is the text's: the longer version's caption says that both fail to fit it, the workshop version's "
        "that both can."
    ),
)
