"""Two clouds of points and a unit that faces away from both (Figure 1 of the Farkas paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import cos, pi, sin
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuronal.core.records import Json, record_to_json
from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.geometry import outputs
from neuronal.nn import FarkasLinear
from neuronal.report import Column, Figure, blank
from neuronal.train import Plan, fit, seeded
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.drawing import classes
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row, networks_of

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


def network(name: str, x: Tensor, y: Tensor, seed: int) -> nn.Sequential:
    """One hidden layer whose free units start facing away from ``x``, in random directions, or to one cloud."""
    units = 2 if name == "farkas" or name.endswith("two units") else 1
    with seeded(seed):
        hidden: Any = FarkasLinear(2, 2, aggregate="sum", rule="max") if name == "farkas" else nn.Linear(2, units)
        norm = [nn.BatchNorm1d(units)] if name.startswith("batch norm") else []
        model = nn.Sequential(hidden, *norm, nn.ReLU(), nn.Linear(units, 2))
    weight, bias = (hidden.rows, hidden.balance.offsets) if name == "farkas" else (hidden.weight, hidden.bias)
    with torch.no_grad():
        for unit in range(len(weight)):
            random = torch.rand((), generator=torch.Generator().manual_seed(1000 * unit + seed)).item()
            sees_one = name.endswith("unseen")
            angle, points, distance = (0.0, x[y == 0], AWAY / 2) if sees_one else (2 * pi * random, x, AWAY)
            weight[unit] = torch.tensor([cos(angle), sin(angle)])
            bias[unit] = -((points @ weight[unit]).max() + distance)
    return model


@dataclass(frozen=True)
class Trained:
    """One network: gradient of its hidden layer at the start, loss and accuracy at the end."""

    network: str
    seed: int
    gradient: float
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Picture:
    """Points, their classes, and where units switch before and after training."""

    network: str
    labels: Sequence[int]
    points: Sequence[Sequence[float]]
    before: Sequence[Sequence[float]]
    after: Sequence[Sequence[float]]


def measure(setting: Setting, work: Work) -> Measured:
    """Every network and seed: gradient of the hidden layer at the start, loss and accuracy at the end; pictures of one.

    ``options``: ``epochs`` of full-batch gradient descent, ``lr``, ``seeds``.
    """
    how, seeds = {name: setting.options[name] for name in ("epochs", "lr")}, setting.options["seeds"]

    def train(item: Row) -> Row:
        name, seed = item["network"], item["seed"]
        x, y = clouds(seed)
        model = network(name, x, y, seed)
        gradient, before = hidden_gradient(model, x, y), lines(model, x)
        loss = fit(model, Split(x, y), Plan(batch_size=2 * CLOUD, optim="sgd", **how), seed=seed).epochs[-1].loss
        accuracy = (outputs(model.cpu(), x).argmax(1) == y).double().mean().item()
        picture = Picture(name, y.tolist(), x.double().round(decimals=3).tolist(), before, lines(model, x))
        row = Trained(name, seed, gradient, loss, accuracy)
        return {"row": record_to_json(row), "picture": record_to_json(picture)}

    items = [{"network": name, "seed": seed} for name in NETWORKS for seed in seeds]
    parts = work.parts({"procedure": "born_dead", **how}, items, train)
    pictures = [part["picture"] for part in parts if part["row"]["seed"] == seeds[0]]
    return {"rows": [part["row"] for part in parts], "pictures": pictures}


def hidden_gradient(model: nn.Sequential, x: Tensor, y: Tensor) -> float:
    """Norm of the loss's gradient by the hidden layer's parameters."""
    loss = nn.functional.cross_entropy(model(x), y)
    return float(nn.utils.get_total_norm(torch.autograd.grad(loss, list(model[0].parameters()))))


def lines(model: nn.Sequential, x: Tensor) -> list[list[float]]:
    """Where each unit switches, w·x + b = 0, as (w1, w2, b); through batch norm with the statistics of all points."""
    with torch.no_grad():
        z = model[:-2](x)
    # The function of the points that gives these pre-activations; it is linear in them and a 1.
    found = torch.linalg.lstsq(torch.cat([x, torch.ones(len(x), 1)], 1), z).solution.T
    return [[round(value, 5) for value in unit] for unit in found.tolist()]


def _networks(result: Result) -> list[Json]:
    """The runs of every network, in how many of them it had no gradient at the start, and told the points apart."""
    networks = networks_of(result, "network")
    for network in networks:
        runs = network["runs"]
        network["zero"] = f"{sum(run['gradient'] == 0 for run in runs)} of {len(runs)}"
        network["told"] = f"{sum(run['accuracy'] > TOLD for run in runs)} of {len(runs)}"
    return networks


def _every_run(names: tuple[str, ...], so: set[tuple[bool, bool]], result: Result) -> Evidence:
    """Every run of these networks is one of ``so``: whether it has no gradient at the start, and tells points apart."""
    networks = [network for network in _networks(result) if network["network"] in names]
    runs = [(run["gradient"] == 0, run["accuracy"] > TOLD) for network in networks for run in network["runs"]]
    text = "; ".join(f"{n['network']}: gradient 0 in {n['zero']}, told apart in {n['told']}" for n in networks)
    return Evidence(len(runs), sum(run not in so for run in runs), text)


COLUMNS = (
    Column("network", "network", is_text=True),
    Column("units", lambda row: NETWORKS[row["network"]], is_text=True),
    Column("gradient 0 at the start", "zero"),
    Column("told apart", "told"),
    Column("loss at the end", lambda row: fmean(run["loss"] for run in row["runs"]), ".4f"),
)


def figures(result: Result) -> list[Figure]:
    """The points, and where each unit switches before and after."""
    drawings = []
    caption = "Where each unit switches, at the start and at the end; arrows point to where it is on."
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
        drawings.append(Figure(sheet.svg, picture["network"].capitalize(), caption))
    return drawings


STUCK, LEARNS, UNTOLD = {(True, False)}, {(False, True)}, {(True, False), (False, False)}
AWAY_FROM_ALL = "A standard network whose units face away from all points does not learn"
CLAIMS = (
    (AWAY_FROM_ALL, ("standard", "standard, two units"), STUCK),
    ("A standard network does not learn to tell a cloud it does not see", ("standard, one cloud unseen",), UNTOLD),
    ("Batch norm makes it learn", ("batch norm", "batch norm, two units"), LEARNS),
    ("A Farkas layer makes it learn", ("farkas",), LEARNS),
)
DESCENTS = {"epochs": 300, "lr": 0.1, "seeds": tuple(range(20))}
BORN_DEAD = Reproduction(
    name="farkas/born_dead",
    title="Two clouds, and units that face away from both",
    where="Figure 1",
    scales=settings(options=({"epochs": 5, "lr": 0.1, "seeds": (0,)}, DESCENTS)),
    measure=measure,
    claims=[Fact(text, partial(_every_run, names, so)) for text, names, so in CLAIMS],
    tables=one_table(COLUMNS, rows=_networks),
    figures=figures,
    criteria=(
        "A run learns if the gradient of its hidden layer is above zero at the start and more than 95% of points are "
        "told apart at the end, and does not if it is exactly zero and they are not. One run to the contrary refutes a "
        "claim."
    ),
    departs=(
        "Clouds, distances and training are our choice: the paper has a drawing. Standard units and batch norm come with "
        "one unit and with two, as many as in the Farkas layer. Figure 1b is batch norm before the ReLU."
    ),
)
