"""Accuracy under attack, against epsilon (Figure 4) and against the queries of Pixle (Figure 5).

The first by the paper's protocol and by the white-box attack it could not run, with checks of whether to believe both. Pixle
moves pixels and sees probabilities only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from neuronal.attacks import (
    Attacked,
    Ball,
    Check,
    apgd,
    more_steps_help,
    pgd,
    pixle,
    reaches_everything,
    solver_does_not_matter,
    white_box_is_strongest,
)
from neuronal.convert import convert
from neuronal.data import Split
from neuronal.experiments import Record
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.core import Options, Reproduction, Setting, one_table, title_of
from neuronal_papers.drawing import BAND, chart
from neuronal_papers.implicit_bias import networks
from neuronal_papers.implicit_bias.compared import AT_ONCE, KINDS, by_data, in_percent, under_attack
from neuronal_papers.judge import Above, Claim, Evidence, Fact, Result
from neuronal_papers.seeds import NAMES, OVER_SEEDS, Value, at, by_network, networks_of, percents
from neuronal_papers.tuning import on_test_images

ATTACKS = {
    "transfer": "PGD on the same weights with coupling 0, judged on the network: the paper's protocol",
    "white_box": "the worse of APGD with cross-entropy and with the difference of logits ratio, through the network itself",
}
MORE_ROBUST = "implicit bias is more robust than the standard neuron"


def white_box(model: nn.Module, images: Split, epsilon: float, options: Options) -> Attacked:
    """APGD with both losses, on every pixel by up to ``epsilon``.

    ``options``: ``steps`` and, if need be, ``batch_size``.
    """
    how: Any = {"steps": options["steps"], "batch_size": options.get("batch_size", AT_ONCE)}
    ball, losses = Ball("inf", epsilon), ("cross_entropy", "dlr")
    return worst(*(apgd(model, images.x, images.y, ball, loss=loss, **how) for loss in losses))


def worst(one: Attacked, other: Attacked) -> Attacked:
    """Input by input the attack that made it err, if one did."""
    points, new = one.adversarial.clone(), other.success & ~one.success
    points[new] = other.adversarial[new]
    return Attacked(points, one.success | other.success, one.queries + other.queries)


@dataclass(frozen=True)
class Robustness:
    """Accuracy at every epsilon, by attack; signs of a hidden gradient."""

    accuracy: Mapping[str, Sequence[float]]
    checks: Sequence[Check]


@on_test_images
def robustness(_: Record, model: nn.Module, test: Split, options: Options) -> Robustness:
    """Accuracy under both attacks of ``ATTACKS`` at every epsilon; the checks at ``check_epsilon``.

    ``options``: ``epsilons``, ``steps``, ``check_epsilon``, ``check_images``, ``check_steps``.
    """
    accuracy: dict[str, list[float]] = {name: [] for name in ATTACKS}
    for epsilon in options["epsilons"]:
        for name, attacked in both_attacks(model, test, epsilon, options).items():
            accuracy[name].append(attacked.robust_accuracy)
    return Robustness(accuracy, _checks(model, test.rows(slice(options["check_images"])), options))


def both_attacks(model: nn.Module, images: Split, epsilon: float, options: Options) -> dict[str, Attacked]:
    """The attacks of ``ATTACKS``; ``options``: ``steps``."""
    how: Any = {"surrogate": convert(model, "standard").model, "steps": options["steps"], "batch_size": AT_ONCE}
    transfer = pgd(model, images.x, images.y, Ball("inf", epsilon), **how)
    return {"transfer": transfer, "white_box": white_box(model, images, epsilon, options)}


def _checks(model: nn.Module, images: Split, options: Options) -> list[Check]:
    """The signs of a hidden gradient."""
    x, y, epsilon, steps = images.x, images.y, options["check_epsilon"], options["check_steps"]
    ball, found = Ball("inf", epsilon), both_attacks(model, images, epsilon, options)
    black = {"transfer": found["transfer"], "noise": pgd(model, x, y, ball, steps=0, restarts=20, batch_size=AT_ONCE)}

    def once(epsilon: float, count: int) -> Attacked:
        return white_box(model, images, epsilon, {"steps": count})

    return [
        reaches_everything(once(1.0, steps[-1])),
        white_box_is_strongest(found["white_box"], black),
        more_steps_help(partial(once, epsilon), steps),
        solver_does_not_matter(model, lambda one: apgd(one, x, y, ball, steps=steps[0], batch_size=AT_ONCE)),
    ]


def unmasked(result: Result) -> Evidence:
    """How many checks of how many networks pass."""
    rows = result["result"]["rows"]
    every = [(row, check) for row in rows for check in row["checks"]]
    failed = [
        f"; {row['name']}, {row['neuron']}, seed {row['seed']}: {check['name']} ({check['numbers']})"
        for row, check in every
        if not check["passed"]
    ]
    names = ", ".join(dict.fromkeys(check["name"] for _, check in every))
    numbers = f"{len(every) - len(failed)} of {len(every)} checks of {len(rows)} networks pass ({names})"
    return Evidence(len(every), len(failed), "".join([numbers, *failed[:1]]))


def _more_robust(curves: Mapping[str, Value]) -> list[Claim]:
    """Claims for either coupling, by each of the ``curves`` of accuracy, named in words."""
    return [
        Claim(f"With {words}, {MORE_ROBUST} {how}", partial(under_attack, kind=kind, curve=curve), Above())
        for kind, words in KINDS.items()
        for how, curve in curves.items()
    ]


PASSED = Column("passed", lambda row: "yes" if row["passed"] else "NO")
CHECKS = (*NAMES, Column("check", "check", is_text=True), Column("seed", "seed"), PASSED, Column("numbers", "numbers"))


def tables(result: Result) -> list[Table]:
    runs = result["result"]["rows"]
    rows = [{**run, "attack": attack, "left": run["accuracy"][attack]} for run in runs for attack in ATTACKS]
    columns = [*NAMES, Column("attack", "attack", is_text=True)]
    columns += [percents(f"epsilon {e:g}", at("left", place)) for place, e in enumerate(result["options"]["epsilons"])]
    caption = "; ".join([f"accuracy in %, {OVER_SEEDS}", *(f"{name}: {what}" for name, what in ATTACKS.items())])
    checks = [{**check, **run, "check": check["name"]} for run in runs for check in run["checks"]]
    masked = table("Whether gradients are masked", CHECKS, checks)
    return [table(title_of(result), columns, by_network(rows, "name", "neuron", "attack"), caption), masked]


def figures(result: Result) -> list[Figure]:
    found, epsilons, axes = [], result["options"]["epsilons"], AXES | {"xlabel": "epsilon"}
    for data, kinds in by_data(result).items():
        lines = [
            in_percent(number, one, f"{one['neuron']}{one['name'].removeprefix(data)}, {words}", epsilons, curve, style)
            for number, one in enumerate(kinds.values())
            for words, curve, style in (("white-box", WHITE_BOX, "-"), ("transfer", TRANSFER, ":"))
        ]
        name, caption = f"{result['reproduction']}-{data}", f"{BAND} Dotted: the paper's protocol."
        found.append(chart(name, data, lines, axes, caption, size=6))
    return found


AXES = {"ylabel": "accuracy (%)", "ylim": (0, 100)}
TRANSFER, WHITE_BOX = at("accuracy", "transfer"), at("accuracy", "white_box")
CHECKED = {"check_epsilon": 0.02, "check_images": 1000, "check_steps": (10, 50, 200)}
SWEEP: Options = {**networks.ATTACK, "epsilons": (0.0, 0.01, 0.02, 0.03, 0.05, 0.1), **CHECKED}
FEW_SWEEP = {**networks.FEW, "epsilons": (0.0, 0.05), "check_epsilon": 0.05, "check_images": 8, "check_steps": (2, 5)}
PGD = Reproduction(
    name="implicit_bias/pgd",
    title="Accuracy against epsilon",
    where="Figure 4",
    scales=networks.scales(networks.with_fixed, SWEEP, smoke=FEW_SWEEP),
    measure=robustness,
    claims=(
        *_more_robust({"by the paper's protocol": TRANSFER, "by a white-box attack": WHITE_BOX}),
        Fact("Gradients are not masked: every check passes for every network", unmasked, beyond_paper=True),
    ),
    tables=tables,
    figures=figures,
    criteria=f"By the accuracy at all epsilons above 0, their mean: they are points of one curve. {networks.ENDS}",
    departs=(
        f"{networks.CHOSEN} Beside the paper's protocol stands the white-box attack it could not run. Epsilons are our "
        "choice, as fractions of the range of a pixel. Rates are chosen for accuracy without attack, and differ between the "
        "neurons. No standard network with weight decay or another penalty stands beside them, which may be as robust."
    ),
)

# Pixels moved by Pixle

MOVES = {"restarts": 20, "iterations": 10, "patch": (2, 10), "mapping": "similarity_random"}


def _queries(options: Options) -> list[int]:
    """Two at the image itself, then one for each patch that is tried."""
    return [2 + options["iterations"] * count for count in range(options["restarts"] + 1)]


@on_test_images
def pixels_moved(_: Record, model: nn.Module, test: Split, options: Options) -> Mapping[str, list[float]]:
    """Accuracy after each number of queries while Pixle moves pixels.

    ``options``: ``restarts``, ``iterations``, ``patch``, ``mapping``.
    """
    found = pixle(model, test.x, test.y, batch_size=AT_ONCE, **{name: options[name] for name in MOVES})
    needed = torch.where(found.success, found.queries, torch.iinfo(torch.long).max)
    return {"accuracy": [(needed > count).double().mean().item() for count in _queries(options)]}


def moved_columns(result: Result) -> list[Column]:
    queries = _queries(result["options"])
    places = sorted({0, len(queries) // 4, len(queries) // 2, len(queries) - 1})
    return [*NAMES, *(percents(f"{queries[place]} queries", at("accuracy", place)) for place in places)]


def moved_figures(result: Result) -> list[Figure]:
    every, queries = enumerate(networks_of(result)), _queries(result["options"])
    lines = [in_percent(i, one, f"{one['name']}, {one['neuron']}", queries, at("accuracy")) for i, one in every]
    return [chart(f"{result['reproduction']}-queries", "Pixle", lines, AXES | {"xlabel": "queries"}, size=6)]


FEW_MOVES = Setting(networks.pair(networks.DIGITS), {**MOVES, "images": 10, "restarts": 2, "iterations": 2})
PIXLE = Reproduction(
    name="implicit_bias/pixle",
    title="Accuracy while pixels are moved",
    where="Figure 5",
    scales=networks.scales(networks.with_fixed, {**MOVES, "images": 1000}) | {"smoke": FEW_MOVES},
    measure=pixels_moved,
    claims=_more_robust({"when pixels are moved": at("accuracy")}),
    tables=one_table(moved_columns, f"accuracy in %, {OVER_SEEDS}", rows=networks_of),
    figures=moved_figures,
    criteria=f"By the accuracy after each number of queries, their mean: they are points of one curve. {networks.ENDS}",
    departs=f"{networks.CHOSEN} Restarts, iterations and patches are those of the attack's own paper.",
)
