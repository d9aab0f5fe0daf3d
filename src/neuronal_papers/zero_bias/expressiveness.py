"""Figure 6: which labels along rays from the origin a network can fit, with and without biases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import cos, pi, sin
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify import certify_scaling
from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.geometry import outputs, regions_2d
from neuronal.models import create_model
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import Line, chart, classes, every_seed
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import NEURON, Row, by_network
from neuronal_papers.zero_bias.table1 import BOTH

RADII = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
TASKS = {
    "Dir 1": {pi / 5: (0, 1, 0, 1, 0, 1), 3 * pi / 4: (0,) * 6},
    "Dir 2": {pi / 5: (0,) * 6, 3 * pi / 5: (1,) * 6, 6 * pi / 5: (0,) * 6, 9 * pi / 5: (1,) * 6},
}
"""Angles of the rays of each task, and the classes of their points."""


def task(name: str) -> tuple[Tensor, Tensor]:
    """Points in the plane and their classes."""
    x = [[radius * cos(angle), radius * sin(angle)] for angle in TASKS[name] for radius in RADII]
    return torch.tensor(x), torch.tensor([label for labels in TASKS[name].values() for label in labels])


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Both tasks with every neuron and seed: points that are fitted, scores along the first ray, linear regions.

    ``options``: ``widths`` of the hidden layers, ``epochs``, ``seeds``.
    """
    options = setting.options

    def tried(item: Row) -> dict[str, Any]:
        work.say(f"{item['task']}, {item['neuron']}, seed {item['seed']}")
        x, y = task(item["task"])
        with seeded(item["seed"]):
            model = create_model("fcn", item["neuron"], num_classes=2, in_chans=2, img_size=1, widths=options["widths"])
        plan = Plan(epochs=options["epochs"], batch_size=len(x), optim="adam", lr=0.01)
        fit(model, Split(x, y), plan, seed=item["seed"])
        model = model.cpu().eval()
        row = {
            "fitted": int((outputs(model, x).argmax(1) == y).sum()),
            "points": len(y),
            "scales": certify_scaling(model, x[:2]).verdict == "certified",
            "along": _along(model),
        }
        return {"row": {**item, **row}, "picture": {**item, "regions": _regions(model)}}

    kinds = [{"task": name, "neuron": neuron} for name in TASKS for neuron in BOTH]
    items = [kind | {"seed": seed} for kind in kinds for seed in options["seeds"]]
    how = {"procedure": "expressiveness", "widths": options["widths"], "epochs": options["epochs"]}
    made = work.parts(how, items, tried)
    rows = [part["row"] for part in made]
    best = [_best(kind["runs"]) for kind in by_network(rows, "task", "neuron")]
    return {"rows": rows, "pictures": [part["picture"] for part in made if part["row"] in best]}


def _best(runs: Sequence[Row]) -> Row:
    """Of the first seed that fits most."""
    return max(runs, key=lambda row: row["fitted"])


def _along(model: nn.Module, *, count: int = 61) -> dict[str, list[float]]:
    """Score of class 1 less that of class 0 along the first ray, from the origin; five digits."""
    r = torch.linspace(0, RADII[-1], count)
    scores = outputs(model, torch.stack([r * cos(pi / 5), r * sin(pi / 5)], 1))
    columns = {"radius": r, "score": scores[:, 1] - scores[:, 0]}
    return {name: [float(f"{value:.5g}") for value in values.tolist()] for name, values in columns.items()}


def _regions(model: nn.Module) -> list[list[list[float]]]:
    """Corners of the linear regions in a square around the origin, to a tenth of a pixel."""
    side = RADII[-1] + 0.5
    corners = [torch.tensor(corner) for corner in ([-side, -side], [side, -side], [-side, side])]
    place = torch.stack(corners).double().numpy()
    regions = regions_2d(model, *corners, domain="parallelogram")
    return [((polygon @ place).round(3) + 0.0).tolist() for polygon in regions.polygons]


# What the claims are about


def _can(neuron: str, tasks: Sequence[str], result: Result) -> Evidence:
    """One seed that fits all points shows that a task can be fitted; if none does, that is no proof of the contrary."""
    kinds = [kind for kind in _kinds(result, neuron) if kind["task"] in tasks]
    numbers = "; ".join(f"{kind['task']}: {_whole(kind)} seeds fit all points" for kind in kinds)
    return Evidence(len(kinds), 0, numbers, undecided=sum(not any(map(_is_whole, kind["runs"])) for kind in kinds))


def _cannot(result: Result) -> Evidence:
    (kind,) = (kind for kind in _kinds(result, "zero_bias") if kind["task"] == "Dir 1")
    numbers = f"{_whole(kind)} seeds fit all points"
    if all(row["scales"] for row in kind["runs"]):
        numbers += "; certified: scores scale with the radius, so along a ray the class cannot change"
    return Evidence(len(kind["runs"]), sum(map(_is_whole, kind["runs"])), numbers)


# How it is shown


def _kinds(result: Result, *neurons: str) -> list[Row]:
    """The networks of each task and neuron together."""
    return [kind for kind in by_network(result["result"]["rows"], "task", "neuron") if kind["neuron"] in neurons]


def _is_whole(row: Row) -> bool:
    return bool(row["fitted"] == row["points"])


def _whole(kind: Row) -> str:
    return f"{sum(map(_is_whole, kind['runs']))} of {len(kind['runs'])}"


def _fitted(kind: Row) -> str:
    return f"{', '.join(str(row['fitted']) for row in kind['runs'])} of {kind['runs'][0]['points']}"


COLUMNS = (
    Column("task", "task", is_text=True),
    NEURON,
    Column("seeds that fit all", _whole),
    Column("points fitted, seed by seed", _fitted),
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, _kinds(result, *BOTH))]


def figures(result: Result) -> list[Drawing]:
    lines = []
    for number, kind in enumerate(_kinds(result, *BOTH)):
        along = _best(kind["runs"])["along"]
        lines.append(Line(number, f"{kind['task']}, {kind['neuron']}", along["radius"], [along["score"]]))
    axes = {"xlabel": "distance from the origin along the first ray", "ylabel": "score of class 1 less class 0"}
    caption = "Without biases the score is a straight line through the origin."
    name = f"{result['reproduction']}-along"
    along_ray = chart(name, "Along a ray", lines, axes, caption, draw=every_seed, level=0)
    return [*(_picture(result, picture) for picture in result["result"]["pictures"]), along_ray]


def _picture(result: Result, picture: Row) -> Drawing:
    with blank(f"{result['reproduction']}-{picture['task']}-{picture['neuron']}") as sheet:
        for corners in picture["regions"]:
            sheet.axes.plot(*zip(*corners, corners[0], strict=True), color="#b8c0ca", linewidth=0.7)
        x, y = task(picture["task"])
        classes(sheet.axes, x.tolist(), y.tolist())
        # Beside, and not where there is room: there is none, and to look for it takes long.
        sheet.axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    seed = f" (seed {picture['seed']}, the first that fits most)"
    caption = f"Linear regions of a trained network{seed} and the points it was to fit."
    return Drawing(sheet.svg, f"{picture['task']}, {picture['neuron']}", caption)


OPTIONS = {"widths": (32, 32), "epochs": 4000, "seeds": tuple(range(10))}
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
        Fact(
            "Without biases Dir 1 cannot be fitted (labels alternate along one ray; another ray is all of one class)",
            _cannot,
        ),
        Fact(
            "Without biases Dir 2 can be fitted (all points of a ray have one class; two rays of each class)",
            partial(_can, "zero_bias", ["Dir 2"]),
        ),
        Fact("With biases both can be fitted", partial(_can, "standard", list(TASKS))),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "A task can be fitted if one seed or more fits all points; that none does shows nothing, unless it is proved that "
        "none can."
    ),
    departs=(
        "Rays, radii, widths (3 layers, as in the paper) and training are our choice: the paper gives a picture only. What "
        "is said of Dir 2 is the text's: the longer version's caption says that both fail to fit it, the workshop version's "
        "that both can."
    ),
)
