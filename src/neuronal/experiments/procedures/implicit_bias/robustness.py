"""Accuracy against epsilon: the paper's protocol, the real white-box attack beside it, and whether to believe both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.attacks.apgd import apgd
from neuronal.attacks.ball import Ball
from neuronal.attacks.masking import more_steps_help, reaches_everything, solver_does_not_matter, white_box_is_strongest
from neuronal.attacks.pgd import pgd
from neuronal.attacks.result import Attacked
from neuronal.convert.convert import convert
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

ATTACKS = {
    "transfer": "PGD on the same weights with coupling 0, judged on the network: the paper's protocol",
    "white_box": "the worse of APGD with cross-entropy and with the difference of logits ratio, through the network itself",
}


AT_ONCE = 1000
"""Images in a batch of an attack: as many as one point has. The networks are small, and launching is what costs."""


def on_the_device(model: nn.Module) -> nn.Module:
    """On a GPU, where there is one."""
    return model.to(torch.accelerator.current_accelerator() or "cpu")


def worst(attacks: Sequence[Attacked]) -> Attacked:
    """Input by input the attack that made it err, if one did."""
    first, *others = attacks
    points, success, queries = first.adversarial.clone(), first.success.clone(), first.queries.clone()
    for other in others:
        new = other.success & ~success
        points[new] = other.adversarial[new]
        success |= other.success
        queries += other.queries
    return Attacked(points, success, queries)


def white_box(
    model: nn.Module, x: Tensor, y: Tensor, ball: Ball, *, steps: int, restarts: int, batch_size: int = AT_ONCE
) -> Attacked:
    """APGD with both losses; with two classes the margin stands in for the ratio."""
    classes = outputs(model, x[:1]).shape[1]
    losses = ("cross_entropy", "dlr" if classes > 2 else "margin")
    how: Any = {"steps": steps, "restarts": restarts, "batch_size": batch_size}
    return worst([apgd(model, x, y, ball, loss=loss, **how) for loss in losses])


ENOUGH = 0.05
"""Accuracy below which there is nothing left to compare."""
JUDGED = (
    "Ahead in every seed, paired by number, at every epsilon at which one of the two is still right on more than 5% "
    "(median over seeds); in the median at some is a part. A check has to pass for every network."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed, under both attacks of ``ATTACKS`` at every epsilon; the checks at ``check_epsilon``.

    ``options``: ``norm``, ``epsilons``, ``images``, ``steps``, ``restarts``, ``check_epsilon``, ``check_images``,
    ``check_steps``; ``rates`` and ``tuning_seeds`` as for :func:`tuned`.
    """
    options = setting.options

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test.rows(slice(options["images"]))
        work.say(f"attacks on {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        model = on_the_device(model)
        curves: dict[str, list[float]] = {name: [] for name in ATTACKS}
        for epsilon in options["epsilons"]:
            for name, found in _both(model, test.x, test.y, Ball(options["norm"], epsilon), options).items():
                curves[name].append(found.robust_accuracy)
        return {"accuracy": curves, "checks": _checks(model, test.x, test.y, options), "images": len(test)}

    rows = measured(setting, work, "robustness", attacked)
    return {"rows": rows, "epsilons": list(options["epsilons"]), "attacks": ATTACKS}


def _both(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, options: Mapping[str, Any]) -> dict[str, Attacked]:
    how = {"steps": options["steps"], "restarts": options["restarts"]}
    return {
        "transfer": pgd(model, x, y, ball, surrogate=convert(model, "standard").model, batch_size=AT_ONCE, **how),
        "white_box": white_box(model, x, y, ball, **how),
    }


def _checks(model: nn.Module, x: Tensor, y: Tensor, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The signs of a hidden gradient, on the first images."""
    x, y, norm = x[: options["check_images"]], y[: options["check_images"]], options["norm"]
    ball = Ball(norm, options["check_epsilon"])
    found, steps = _both(model, x, y, ball, options), options["check_steps"]
    black = {"transfer": found["transfer"], "noise": pgd(model, x, y, ball, steps=0, restarts=20, batch_size=AT_ONCE)}
    whole = Ball(norm, 1.0 if norm == "inf" else sqrt(x[0].numel()))
    checks = [
        reaches_everything(white_box(model, x, y, whole, steps=steps[-1], restarts=1)),
        white_box_is_strongest(found["white_box"], black),
        more_steps_help(lambda count: white_box(model, x, y, ball, steps=count, restarts=1), steps),
        solver_does_not_matter(model, lambda one: apgd(one, x, y, ball, steps=steps[0], batch_size=AT_ONCE)),
    ]
    return [asdict(check) for check in checks]


def networks(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Rows that differ in their seed only, together."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["name"], row["neuron"]), []).append(row)
    return list(found.values())


def rival_of(
    group: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[Mapping[str, Any]]]
) -> Sequence[Mapping[str, Any]] | None:
    """The standard networks to compare with: of the same data, which names begin with; none for standard networks."""
    name, neuron = group[0]["name"], group[0]["neuron"]
    others = (one for one in groups if one[0]["neuron"] == "standard" and name.startswith(one[0]["name"]))
    return None if neuron == "standard" else next(others, None)


def in_pairs(
    group: Sequence[Mapping[str, Any]], rival: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Networks of the same seed; where one failed, the other has no partner."""
    others = {row["seed"]: row for row in rival}
    return [(row, others[row["seed"]]) for row in group if row["seed"] in others]


def called(group: Sequence[Mapping[str, Any]], rival: Sequence[Mapping[str, Any]]) -> str:
    """The name of networks in a claim; those called like their rival differ from it in a coupling that was learnt."""
    name: str = group[0]["name"]
    return f"{name}, coupling learnt" if name == rival[0]["name"] else name


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The paper's claim by its own protocol, then by the attack it could not run; and the checks."""
    groups = networks(answer["result"]["rows"])
    found = []
    for group in groups:
        if rival := rival_of(group, groups):
            found += [_against(answer, group, rival, name) for name in ATTACKS]
    for number in range(len(groups[0][0]["checks"])):
        found.append(_check(groups, number))
    return found


def _against(answer: Mapping[str, Any], group: Sequence[Any], rival: Sequence[Any], attack: str) -> Finding:
    """Whether the network is more accurate than the standard one, seed by seed, at every epsilon where that says much."""
    epsilons = answer["result"]["epsilons"]
    curves = [(a["accuracy"][attack], b["accuracy"][attack]) for a, b in in_pairs(group, rival)]
    gaps = gaps_that_count(epsilons, curves)
    means = "the paper's protocol" if attack == "transfer" else "white-box"
    return Finding(
        f"{called(group, rival)}: implicit bias is more robust than the standard neuron ({means})",
        ahead(gaps),
        f"points of accuracy by epsilon, median and range over seeds: {in_points(gaps)}",
    )


def gaps_that_count(
    strengths: Sequence[float], curves: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> dict[float, list[float]]:
    """By strength of the attack, where one of the two still has some accuracy: the lead, seed by seed.

    Args:
        strengths: The first is no attack.
        curves: Of every seed, accuracies of the network and of its rival at each of them.
    """
    found = {}
    for place, strength in enumerate(strengths[1:], 1):
        both = [(own[place], other[place]) for own, other in curves]
        if both and max(median(side) for side in zip(*both, strict=True)) > ENOUGH:
            found[strength] = [own - other for own, other in both]
    return found


def ahead(gaps: Mapping[float, Sequence[float]]) -> Verdict:
    """In every seed wherever it counts; in the median somewhere is a part."""
    if gaps and all(min(own) > 0 for own in gaps.values()):
        return "reproduced"
    return "reproduced in part" if any(median(own) > 0 for own in gaps.values()) else "not reproduced"


def in_points(gaps: Mapping[float, Sequence[float]]) -> str:
    """Median and range of every lead."""
    each = (f"{100 * median(g):+.1f} ({100 * min(g):+.1f} to {100 * max(g):+.1f}) at {x:g}" for x, g in gaps.items())
    return ", ".join(each) or "none left"


def _check(groups: Sequence[Sequence[Mapping[str, Any]]], number: int) -> Finding:
    every = [(row, row["checks"][number]) for group in groups for row in group]
    failed = [(row, check) for row, check in every if not check["passed"]]
    numbers = f"{len(every) - len(failed)} of {len(every)} networks"
    if failed:
        row, check = failed[0]
        numbers += f"; not {row['name']}, {row['neuron']}, seed {row['seed']}: {check['numbers']}"
    verdict: Any = "not reproduced" if failed else "reproduced"
    return Finding(f"Gradients are not masked: {every[0][1]['name']}", verdict, numbers)
