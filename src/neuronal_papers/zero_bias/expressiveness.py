"""Figure 6: which labels along rays from the origin a network can fit, with and without biases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import cos, pi, sin

import torch
from torch import Tensor, nn

from neuronal.certify import certify_scaling
from neuronal.core.records import from_json, to_json
from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.geometry import outputs, regions_2d
from neuronal.models import create_model
from neuronal.report import Column, Figure, blank
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.drawing import Line, chart, classes, every_seed
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import NEURON, Row, groups, records_of
from neuronal_papers.zero_bias.table1 import BOTH

RADII = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
TASKS = {
    "Dir 1": {pi / 5: (0, 1, 0, 1, 0, 1), 3 * pi / 4: (0,) * 6},
    "Dir 2": {pi / 5: (0,) * 6, 3 * pi / 5: (1,) * 6, 6 * pi / 5: (0,) * 6, 9 * pi / 5: (1,) * 6},
}
"""Angles of the rays of each task, and the classes of their points."""


@dataclass(frozen=True)
class Along:
    """Score of class 1 less that of class 0 along the first ray, from the origin; five digits."""

    radius: tuple[float, ...]
    score: tuple[float, ...]


@dataclass(frozen=True)
class Trial:
    """How many points one trained network fits, and whether its scores are certified to scale with the radius."""

    task: str
    neuron: str
    seed: int
    fitted: int
    points: int
    scales: bool
    along: Along


@dataclass(frozen=True)
class Picture:
    """Corners of the linear regions in a square around the origin, to a tenth of a pixel."""

    task: str
    neuron: str
    seed: int
    regions: tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True)
class Seeds:
    """The seeds of one task and neuron."""

    task: str
    neuron: str
    runs: Sequence[Trial]

    @property
    def whole(self) -> int:
        """How many fit all points."""
        return sum(one.fitted == one.points for one in self.runs)

    @property
    def share(self) -> str:
        return f"{self.whole} of {len(self.runs)}"

    @property
    def best(self) -> Trial:
        """The one that fits most points; the first of equals."""
        return max(self.runs, key=lambda one: one.fitted)


def task(name: str) -> tuple[Tensor, Tensor]:
    """Points in the plane and their classes."""
    x = [[radius * cos(angle), radius * sin(angle)] for angle in TASKS[name] for radius in RADII]
    return torch.tensor(x), torch.tensor([label for labels in TASKS[name].values() for label in labels])


def measure(setting: Setting, work: Work) -> Measured:
    """Both tasks with every neuron and seed: points that are fitted, scores along the first ray, linear regions.

    ``options``: ``widths`` of the hidden layers, ``epochs``, ``seeds``.
    """
    options = setting.options

    def tried(item: Row) -> Row:
        work.say(f"{item['task']}, {item['neuron']}, seed {item['seed']}")
        x, y = task(item["task"])
        with seeded(item["seed"]):
            model = create_model("fcn", item["neuron"], num_classes=2, in_chans=2, img_size=1, widths=options["widths"])
        plan = Plan(epochs=options["epochs"], batch_size=len(x), optim="adam", lr=0.01)
        fit(model, Split(x, y), plan, seed=item["seed"])
        model = model.cpu().eval()
        fitted = int((outputs(model, x).argmax(1) == y).sum())
        scales = certify_scaling(model, x[:2]).verdict == "certified"
        row = Trial(**item, fitted=fitted, points=len(y), scales=scales, along=_along(model))
        return {"row": to_json(row), "picture": {**item, "regions": _regions(model)}}

    kinds = product(TASKS, BOTH, options["seeds"])
    items = [{"task": name, "neuron": neuron, "seed": seed} for name, neuron, seed in kinds]
    how = {"procedure": "expressiveness", "widths": options["widths"], "epochs": options["epochs"]}
    made = work.parts(how, items, tried)
    rows = [from_json(Trial, part["row"]) for part in made]
    best = [kind.best for kind in _kinds(rows)]
    pictures = [part["picture"] for part, row in zip(made, rows, strict=True) if row in best]
    return {"rows": rows, "pictures": pictures}


def _along(model: nn.Module, *, count: int = 61) -> Along:
    r = torch.linspace(0, RADII[-1], count)
    scores = outputs(model, torch.stack([r * cos(pi / 5), r * sin(pi / 5)], 1))
    columns = r, scores[:, 1] - scores[:, 0]
    return Along(*(tuple(float(f"{value:.5g}") for value in column.tolist()) for column in columns))


def _regions(model: nn.Module) -> list[list[list[float]]]:
    side = RADII[-1] + 0.5
    corners = torch.tensor([[-side, -side], [side, -side], [-side, side]])
    regions = regions_2d(model, *corners, domain="parallelogram")
    return [((polygon @ corners.double().numpy()).round(3) + 0.0).tolist() for polygon in regions.polygons]


def _kinds(rows: Sequence[Trial], neurons: Sequence[str] = BOTH, tasks: Iterable[str] = TASKS) -> list[Seeds]:
    kinds = [Seeds(task, neuron, runs) for (task, neuron), runs in groups(rows, "task", "neuron").items()]
    return [kind for kind in kinds if kind.neuron in neurons and kind.task in tasks]


def _can(neuron: str, tasks: Iterable[str], result: Result) -> Evidence:
    """One seed that fits all points shows that a task can be fitted; if none does, that is no proof of the contrary."""
    kinds = _kinds(records_of(Trial, result), [neuron], tasks)
    numbers = "; ".join(f"{kind.task}: {kind.share} seeds fit all points" for kind in kinds)
    return Evidence(len(kinds), 0, numbers, undecided=sum(not kind.whole for kind in kinds))


def _cannot(result: Result) -> Evidence:
    (kind,) = _kinds(records_of(Trial, result), ["zero_bias"], ["Dir 1"])
    numbers = f"{kind.share} seeds fit all points"
    if all(row.scales for row in kind.runs):
        numbers += "; certified: scores scale with the radius, so along a ray the class cannot change"
    return Evidence(len(kind.runs), kind.whole, numbers)


def _fitted(kind: Seeds) -> str:
    return f"{', '.join(str(row.fitted) for row in kind.runs)} of {kind.best.points}"


COLUMNS = (
    Column("task", "task", is_text=True),
    NEURON,
    Column("seeds that fit all", "share"),
    Column("points fitted, seed by seed", _fitted),
)


def figures(result: Result) -> list[Figure]:
    """Linear regions of the best network of every task and neuron, and their scores along a ray."""
    drawings, lines, kinds = [], [], _kinds(records_of(Trial, result))
    for number, (kind, picture) in enumerate(zip(kinds, records_of(Picture, result, "pictures"), strict=True)):
        along = kind.best.along
        lines.append(Line(number, f"{kind.task}, {kind.neuron}", along.radius, [along.score]))
        with blank(f"{result['reproduction']}-{kind.task}-{kind.neuron}") as sheet:
            for corners in picture.regions:
                sheet.axes.plot(*zip(*corners, corners[0], strict=True), color="#b8c0ca", linewidth=0.7)
            classes(sheet.axes, *(values.tolist() for values in task(kind.task)))
            # Beside, and not where there is room: there is none, and to look for it takes long.
            sheet.axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        which = f"seed {picture.seed}, the first that fits most"
        caption = f"Linear regions of a trained network and its points ({which})."
        drawings.append(Figure(sheet.svg, lines[-1].label, caption))
    axes = {"xlabel": "distance from the origin along the first ray", "ylabel": "score of class 1 less class 0"}
    caption = "Without biases the score is a straight line through the origin."
    name = f"{result['reproduction']}-along"
    return [*drawings, chart(name, "Along a ray", lines, axes, caption, draw=every_seed, level=0)]


SMOKE = {"widths": (8, 8), "epochs": 20, "seeds": (0,)}
FULL = {"widths": (32, 32), "epochs": 4000, "seeds": tuple(range(10))}
EXPRESSIVENESS = Reproduction(
    name="zero_bias/expressiveness",
    title="Labels along rays: what each network can fit",
    where="Figure 6",
    scales=settings(options=(SMOKE, FULL)),
    measure=measure,
    claims=(
        Fact("Without biases Dir 1 cannot be fitted (labels alternate along a ray)", _cannot),
        Fact("Without biases Dir 2 can be fitted (every ray has one class)", partial(_can, "zero_bias", ["Dir 2"])),
        Fact("With biases both can be fitted", partial(_can, "standard", TASKS)),
    ),
    tables=one_table(COLUMNS, rows=lambda result: _kinds(records_of(Trial, result))),
    figures=figures,
    criteria="A task can be fitted if some seed fits all points; that none does shows nothing without a proof.",
    departs=(
        "Rays, radii, widths (3 layers, as in the paper) and training are our choice: the paper gives a picture only. What "
        "is said of Dir 2 is the text's; the longer version's caption has both fail, the workshop version's both succeed."
    ),
)
