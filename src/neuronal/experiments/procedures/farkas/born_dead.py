"""Two clouds of points and a unit that faces away from both (Figure 1 of the Farkas paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, log, pi, sin
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.data.dataset import Split
from neuronal.experiments.procedures.finding import Finding, Verdict, all_or_some
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs
from neuronal.nn.farkas import FarkasLinear
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

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
        hidden = FarkasLinear(2, 2, rule="max") if name == "farkas" else nn.Linear(2, units)
        norm = [nn.BatchNorm1d(units)] if name.startswith("batch norm") else []
        model = nn.Sequential(hidden, *norm, nn.ReLU(), nn.Linear(units, 2))
    with torch.no_grad():
        for number in range(1 if isinstance(hidden, FarkasLinear) else units):
            w, b = facing_one(x, y) if name.endswith("unseen") else facing_away(x, seed, number)
            rows, offsets = _free(hidden)
            rows[number], offsets[number] = w, b
    return model


def _free(hidden: nn.Module) -> tuple[Tensor, Tensor]:
    if isinstance(hidden, FarkasLinear):
        assert hidden.balance.offsets is not None
        return hidden.rows, hidden.balance.offsets
    assert isinstance(hidden, nn.Linear)
    return hidden.weight, hidden.bias


TOLD = 0.95
"""Points are told apart if more than this share of them is."""
JUDGED = (
    "Stuck is a gradient of exactly zero and a loss that is still that of guessing; learnt is a gradient above "
    "zero and more than 95% of points told apart. It has to be so in every seed; in some is a part. That a cloud which is "
    "not seen is not told from the other is refuted by one network that does."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: gradient of the hidden layer at the start, loss and accuracy at the end; pictures of one.

    ``options``: ``epochs`` of full-batch gradient descent, ``lr``, ``seeds``.
    """
    options = setting.options
    plan = Plan(epochs=options["epochs"], batch_size=2 * CLOUD, optim="sgd", lr=options["lr"])

    def trained(item: Mapping[str, Any]) -> dict[str, Any]:
        name, seed = item["network"], item["seed"]
        x, y = clouds(seed)
        model = network(name, x, y, seed)
        before = _lines(model, x, name)
        gradient = hidden_gradient(model, x, y)
        losses = [epoch.loss for epoch in fit(model, Split(x, y), plan, seed=seed).epochs]
        model.cpu()
        right = (outputs(model, x).argmax(1) == y).double().mean().item()
        row = {**item, "gradient": gradient, "loss": losses[-1], "accuracy": right, "first_loss": losses[0]}
        return {"row": row, "picture": {"network": name, "before": before, "after": _lines(model, x, name)}}

    items = [{"network": name, "seed": seed} for name in NETWORKS for seed in options["seeds"]]
    made = work.parts({"procedure": "born_dead", "epochs": options["epochs"], "lr": options["lr"]}, items, trained)
    first = options["seeds"][0]
    shown = [part["picture"] | _points(*clouds(first)) for part in made if part["row"]["seed"] == first]
    return {"rows": [part["row"] for part in made], "pictures": shown, "networks": NETWORKS}


def hidden_gradient(model: nn.Sequential, x: Tensor, y: Tensor) -> float:
    """Norm of the loss's gradient by the hidden layer's parameters."""
    loss = nn.functional.cross_entropy(model(x), y)
    gradients = torch.autograd.grad(loss, list(model[0].parameters()))
    return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())


def _lines(model: nn.Sequential, x: Tensor, name: str) -> list[list[float]]:
    """Where each unit switches, w·x + b = 0, as (w1, w2, b); through batch norm with the statistics of all points."""
    layer: Any = model[0]
    weight, bias = layer.weight.detach(), layer.bias.detach()
    if name.startswith("batch norm"):
        norm: Any = model[1]
        z = x @ weight.T + bias
        scale = norm.weight.detach() / (z.var(0, correction=0) + norm.eps).sqrt()
        bias = (bias - z.mean(0)) * scale + norm.bias.detach()
        weight = weight * scale.unsqueeze(1)
    return [[round(v, 5) for v in (*w.tolist(), b)] for w, b in zip(weight, bias.tolist(), strict=True)]


def _points(x: Tensor, y: Tensor) -> dict[str, Any]:
    return {"points": [[round(value, 3) for value in point] for point in x.tolist()], "labels": y.tolist()}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Standard networks stay where they are, the others learn."""
    found = []
    # In the words of the result: what is called the same now may be another network.
    for name, what in (NETWORKS | answer["result"]["networks"]).items():
        own = _own(answer["result"]["rows"], name)
        claim, verdict = _judged(name, own)
        numbers = _said(own) if own else "the result has no such network"
        found.append(Finding(f"{claim} ({what})", verdict if own else "not measured", numbers))
    return found


def _judged(name: str, rows: Sequence[Mapping[str, Any]]) -> tuple[str, Verdict]:
    """What the paper says of such a network, and whether it is so."""
    if name.endswith("unseen"):
        # It has one answer for all that it does not see, and may have another for the rest.
        told = any(row["accuracy"] > TOLD for row in rows)
        claim = "A standard network does not learn to tell a cloud it does not see"
        return claim, "not true as stated" if told else "reproduced"
    if name.startswith("standard"):
        stuck = [row["gradient"] == 0 and row["loss"] > 0.95 * log(2) for row in rows]
        return "A standard network does not learn", all_or_some(sum(stuck), len(rows))
    learnt = [row["gradient"] > 0 and row["accuracy"] > TOLD for row in rows]
    who = "A Farkas layer" if name == "farkas" else "Batch norm"
    return f"{who} makes it learn", all_or_some(sum(learnt), len(rows))


def _own(rows: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["network"] == name]


def _said(rows: Sequence[Mapping[str, Any]]) -> str:
    fitted = sum(row["accuracy"] > TOLD for row in rows)
    zero = sum(row["gradient"] == 0 for row in rows)
    loss = sum(row["loss"] for row in rows) / len(rows)
    return (
        f"gradient exactly 0 in {zero}, points told apart in {fitted} of {len(rows)} seeds; loss at the end {loss:.3f}"
    )
