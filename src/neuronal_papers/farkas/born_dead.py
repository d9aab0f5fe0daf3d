"""Two clouds of points and a unit that faces away from both (Figure 1 of the Farkas paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi, sin
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.geometry import outputs
from neuronal.nn import FarkasLinear
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import classes
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row, by_network

NETWORKS = {
    "standard": "one unit, facing away from all points",
    "standard, two units": "two units, both facing away from all points",
    "standard, one cloud unseen": "one unit, on for one cloud only",
    "batch norm": "one unit, batch norm before its ReLU",
    "batch norm, two units": "two units, batch norm before their ReLU",
    "farkas": "one free unit and the one that closes the layer, with the paper's bias",
}
CLOUD, AWAY = 50, 1.0
"""Points of each cloud; distance of a unit's line from the nearest point it does not see, half of it if it sees others."""
TOLD = 0.95
"""Points are told apart if more than this share of them is."""


def clouds(seed: int) -> tuple[Tensor, Tensor]:
    """Points in the plane around two centres, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[-1.5, 0.0], [1.5, 0.0]])
    x = torch.cat([centre + 0.4 * torch.randn(CLOUD, 2, generator=generator) for centre in centres])
    return x, torch.arange(2).repeat_interleave(CLOUD)


def facing_away(x: Tensor, seed: int, number: int = 0) -> tuple[Tensor, Tensor]:
    """A unit vector in a random direction, and the offset with which no point is closer than ``AWAY`` to its line."""
    generator = torch.Generator().manual_seed(1000 * number + seed)
    angle = 2 * pi * torch.rand((), generator=generator).item()
    w = torch.tensor([cos(angle), sin(angle)])
    return w, -((x @ w).max() + AWAY)


def facing_one(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The unit vector from one cloud to the other, and the offset with which it sees that one alone."""
    w = torch.tensor([1.0, 0.0])
    return w, -((x[y == 0] @ w).max() + AWAY / 2)


def network(name: str, x: Tensor, y: Tensor, seed: int) -> nn.Sequential:
    """One hidden layer whose free units start facing away from ``x``; the head starts as torch starts it."""
    units = 2 if name == "farkas" or name.endswith("two units") else 1
    with seeded(seed):
        hidden: Any = FarkasLinear(2, 2, rule="max") if name == "farkas" else nn.Linear(2, units)
        norm = [nn.BatchNorm1d(units)] if name.startswith("batch norm") else []
        model = nn.Sequential(hidden, *norm, nn.ReLU(), nn.Linear(units, 2))
    weight, bias = (hidden.rows, hidden.balance.offsets) if name == "farkas" else (hidden.weight, hidden.bias)
    with torch.no_grad():
        for unit in range(len(weight)):
            weight[unit], bias[unit] = facing_one(x, y) if name.endswith("unseen") else facing_away(x, seed, unit)
    return model


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: gradient of the hidden layer at the start, loss and accuracy at the end; pictures of one.

    ``options``: ``epochs`` of full-batch gradient descent, ``lr``, ``seeds``.
    """
    options = setting.options
    plan = Plan(epochs=options["epochs"], batch_size=2 * CLOUD, optim="sgd", lr=options["lr"])

    def trained(item: Mapping[str, Any]) -> dict[str, Any]:
        x, y = clouds(item["seed"])
        model = network(item["network"], x, y, item["seed"])
        row, before = {**item, "gradient": hidden_gradient(model, x, y)}, lines(model, x)
        losses = [epoch.loss for epoch in fit(model, Split(x, y), plan, seed=item["seed"]).epochs]
        right = (outputs(model.cpu(), x).argmax(1) == y).double().mean().item()
        row |= {"loss": losses[-1], "accuracy": right, "first_loss": losses[0]}
        points = {"points": [[round(value, 3) for value in point] for point in x.tolist()], "labels": y.tolist()}
        picture = {"network": item["network"], "before": before, "after": lines(model, x)} | points
        return {"row": row, "picture": picture}

    items = [{"network": name, "seed": seed} for name in NETWORKS for seed in options["seeds"]]
    made = work.parts({"procedure": "born_dead", "epochs": options["epochs"], "lr": options["lr"]}, items, trained)
    pictures = [part["picture"] for part in made if part["row"]["seed"] == options["seeds"][0]]
    return {"rows": [part["row"] for part in made], "pictures": pictures, "networks": NETWORKS}


def hidden_gradient(model: nn.Sequential, x: Tensor, y: Tensor) -> float:
    """Norm of the loss's gradient by the hidden layer's parameters."""
    loss = nn.functional.cross_entropy(model(x), y)
    gradients = torch.autograd.grad(loss, list(model[0].parameters()))
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


def lines(model: nn.Sequential, x: Tensor) -> list[list[float]]:
    """Where each unit switches, w·x + b = 0, as (w1, w2, b); through batch norm with the statistics of all points."""
    layer: Any = model[0]
    weight, bias = layer.weight.detach(), layer.bias.detach()
    norm = model[1]
    if isinstance(norm, nn.BatchNorm1d):
        z = x @ weight.T + bias
        scale = norm.weight.detach() / (z.var(0, correction=0) + norm.eps).sqrt()
        bias = (bias - z.mean(0)) * scale + norm.bias.detach()
        weight = weight * scale.unsqueeze(1)
    return [[round(v, 5) for v in (*w.tolist(), b)] for w, b in zip(weight, bias.tolist(), strict=True)]


def is_stuck(row: Row) -> bool:
    return bool(row["gradient"] == 0 and not is_told(row))


def is_told(row: Row) -> bool:
    return bool(row["accuracy"] > TOLD)


def has_learnt(row: Row) -> bool:
    return row["gradient"] > 0 and is_told(row)


def evidence(is_so: Callable[[Row], bool], *names: str) -> Callable[[Result], Evidence]:
    """Whether it is so in every run of these networks."""

    def look(result: Result) -> Evidence:
        rows = [row for row in by_network(result["result"]["rows"], "network") if row["network"] in names]
        every = [run for row in rows for run in row["runs"]]
        text = "; ".join(f"{row['network']}: gradient 0 in {zero(row)}, told apart in {told(row)}" for row in rows)
        return Evidence(len(every), sum(not is_so(run) for run in every), text)

    return look


def zero(row: Row) -> str:
    """Of how many runs the hidden layer had no gradient at the start."""
    return f"{sum(run['gradient'] == 0 for run in row['runs'])} of {len(row['runs'])}"


def told(row: Row) -> str:
    return f"{sum(map(is_told, row['runs']))} of {len(row['runs'])}"


COLUMNS = (
    Column("network", "network", is_text=True),
    Column("units", lambda row: NETWORKS[row["network"]], is_text=True),
    Column("gradient 0 at the start", zero),
    Column("told apart", told),
    Column("loss at the end", lambda row: fmean(run["loss"] for run in row["runs"]), ".4f"),
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, by_network(result["result"]["rows"], "network"))]


def figures(result: Result) -> list[Drawing]:
    """The points, and where each unit switches before and after."""
    drawings = []
    for picture in result["result"]["pictures"]:
        with blank(f"{result['reproduction']}-{picture['network']}") as sheet:
            classes(sheet.axes, picture["points"], picture["labels"])
            for time, shade, style, words in (("before", "#999999", "--", "start"), ("after", "#009E73", "-", "end")):
                for place, (*w, b) in enumerate(picture[time]):
                    foot = -b * np.array(w) / np.dot(w, w)
                    ahead = foot + 0.8 * np.array(w) / np.hypot(*w)
                    label = words if place == 0 else None
                    sheet.axes.axline(foot, (foot[0] - w[1], foot[1] + w[0]), linestyle=style, color=shade, label=label)
                    sheet.axes.annotate("", ahead, foot, arrowprops={"arrowstyle": "->", "color": shade})
            sheet.axes.set(xlim=(-6, 6), ylim=(-4, 4))
            sheet.axes.legend(fontsize=7, loc="upper left")
        caption = "Where each unit switches, at the start and at the end; arrows point to where it is on."
        drawings.append(Drawing(sheet.svg, picture["network"].capitalize(), caption))
    return drawings


DESCENTS = Setting(options={"epochs": 300, "lr": 0.1, "seeds": tuple(range(20))})
BORN_DEAD = Reproduction(
    name="farkas/born_dead",
    title="Two clouds, and units that face away from both",
    where="Figure 1",
    scales={"smoke": Setting(options={"epochs": 5, "lr": 0.1, "seeds": (0,)}), "small": DESCENTS, "paper": DESCENTS},
    measure=measure,
    claims=(
        Fact(
            "A standard network whose units face away from all points does not learn",
            evidence(is_stuck, "standard", "standard, two units"),
        ),
        Fact(
            "A standard network does not learn to tell a cloud it does not see",
            evidence(lambda run: not is_told(run), "standard, one cloud unseen"),
        ),
        Fact("Batch norm makes it learn", evidence(has_learnt, "batch norm", "batch norm, two units")),
        Fact("A Farkas layer makes it learn", evidence(has_learnt, "farkas")),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "A run learns if the gradient of its hidden layer is above zero at the start and more than 95% of points are told "
        "apart at the end, and does not if it is exactly zero and they are not. One run to the contrary refutes a claim."
    ),
    departs=(
        "Clouds, distances and training are our choice: the paper has a drawing. Standard units and batch norm are "
        "there with one unit and with two, as many as in the Farkas layer. Figure 1b is batch norm before the ReLU."
    ),
)
