"""Accuracy under attack, against epsilon (Figure 4) and against the queries of Pixle (Figure 5).

The first by the paper's protocol and by the white-box attack it could not run, with checks of whether to believe both. Pixle
moves pixels and sees probabilities only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import nn

from neuronal.attacks import (
    Attacked,
    Ball,
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
from neuronal.experiments import Record, Work
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import BAND, Line, chart
from neuronal_papers.implicit_bias.compared import KINDS, NAMES, by_data, under_attack
from neuronal_papers.implicit_bias.networks import ATTACK, CHOSEN, CUT, DIGITS, ENDS, FEW, pair, scales, with_fixed
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_test_images, white_box
from neuronal_papers.judge import Above, Claim, Evidence, Fact, Result
from neuronal_papers.seeds import OVER_SEEDS, at, by_network, percents

ATTACKS = {
    "transfer": "PGD on the same weights with coupling 0, judged on the network: the paper's protocol",
    "white_box": "the worse of APGD with cross-entropy and with the difference of logits ratio, through the network itself",
}
SWEEP: Mapping[str, Any] = {
    "epsilons": (0.0, 0.01, 0.02, 0.03, 0.05, 0.1),
    "check_epsilon": 0.02,
    "check_images": 1000,
    "check_steps": (10, 50, 200),
}
FEW_SWEEP = {"epsilons": (0.0, 0.05), "check_epsilon": 0.05, "check_images": 8, "check_steps": (2, 5)}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed, under both attacks of ``ATTACKS`` at every epsilon; the checks at ``check_epsilon``.

    ``options``: ``epsilons``, ``images``, ``steps``, ``check_epsilon``, ``check_images``, ``check_steps``; ``rates`` and
    ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options

    def attacked(_: Record, model: nn.Module, test: Split) -> dict[str, Any]:
        curves: dict[str, list[float]] = {name: [] for name in ATTACKS}
        for epsilon in options["epsilons"]:
            for name, found in _both(model, test, epsilon, options).items():
                curves[name].append(found.robust_accuracy)
        checks = _checks(model, test.rows(slice(options["check_images"])), options)
        return {"accuracy": curves, "checks": checks, "images": len(test)}

    rows = on_test_images(setting, work, "robustness", attacked)
    return {"rows": rows, "epsilons": list(options["epsilons"]), "attacks": ATTACKS}


def _both(model: nn.Module, images: Split, epsilon: float, options: Mapping[str, Any]) -> dict[str, Attacked]:
    how: Any = {"surrogate": convert(model, "standard").model, "steps": options["steps"], "batch_size": AT_ONCE}
    transfer = pgd(model, images.x, images.y, Ball("inf", epsilon), **how)
    return {"transfer": transfer, "white_box": white_box(model, images, epsilon, options)}


def _checks(model: nn.Module, images: Split, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The signs of a hidden gradient."""
    x, y, epsilon, steps = images.x, images.y, options["check_epsilon"], options["check_steps"]
    ball, found = Ball("inf", epsilon), _both(model, images, epsilon, options)
    black = {"transfer": found["transfer"], "noise": pgd(model, x, y, ball, steps=0, restarts=20, batch_size=AT_ONCE)}

    def once(epsilon: float, count: int) -> Attacked:
        return white_box(model, images, epsilon, {"steps": count})

    checks = [
        reaches_everything(once(1.0, steps[-1])),
        white_box_is_strongest(found["white_box"], black),
        more_steps_help(partial(once, epsilon), steps),
        solver_does_not_matter(model, lambda one: apgd(one, x, y, ball, steps=steps[0], batch_size=AT_ONCE)),
    ]
    return [asdict(check) for check in checks]


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


def _more_robust(kind: str, how: str, *path: str) -> Claim:
    text = f"With {KINDS[kind]}, implicit bias is more robust than the standard neuron {how}"
    return Claim(text, partial(under_attack, kind=kind, curve=at("accuracy", *path)), Above())


CHECKS = (
    *NAMES,
    Column("check", "check", is_text=True),
    Column("seed", "seed"),
    Column("passed", lambda row: "yes" if row["passed"] else "NO"),
    Column("numbers", "numbers"),
)


def tables(result: Result) -> list[Table]:
    epsilons = result["result"]["epsilons"]
    columns = [percents(f"epsilon {epsilon:g}", at(place)) for place, epsilon in enumerate(epsilons)]
    every = by_network(result["result"]["rows"])
    rows = [
        {**one, "attack": attack, "runs": [run["accuracy"][attack] for run in one["runs"]]}
        for one in every
        for attack in ATTACKS
    ]
    runs = [run for one in every for run in one["runs"]]
    checks = [{**check, **run, "check": check["name"]} for run in runs for check in run["checks"]]
    caption = f"accuracy in %, {OVER_SEEDS}; transfer: {ATTACKS['transfer']}"
    return [
        table(title_of(result), [*NAMES, Column("attack", "attack", is_text=True), *columns], rows, caption),
        table("Whether gradients are masked", CHECKS, checks),
    ]


def _percent(curves: Any) -> list[list[float]]:
    return [[100 * value for value in curve] for curve in curves]


def figures(result: Result) -> list[Drawing]:
    found = []
    for data, networks in by_data(result).items():
        lines = []
        for number, one in enumerate(networks.values()):
            name = f"{one['neuron']}{one['name'].removeprefix(data)}"
            for attack, style in (("white_box", "-"), ("transfer", ":")):
                curves = _percent(run["accuracy"][attack] for run in one["runs"])
                label = f"{name}, {attack.replace('_', '-')}"
                lines.append(Line(number, label, result["result"]["epsilons"], curves, style))
        labels = {"xlabel": "epsilon", "ylabel": "accuracy (%)", "ylim": (0, 100)}
        caption = f"{BAND} Dotted: the paper's protocol."
        found.append(chart(f"{result['reproduction']}-{data}", data, lines, labels, caption, size=6))
    return found


PGD = Reproduction(
    name="implicit_bias/pgd",
    title="Accuracy against epsilon",
    where="Figure 4",
    scales=scales(with_fixed, {**ATTACK, **SWEEP}, smoke={**FEW, **FEW_SWEEP}, paper={"images": 10_000}),
    measure=measure,
    claims=(
        *(
            _more_robust(kind, how, attack)
            for kind in KINDS
            for attack, how in (("transfer", "by the paper's protocol"), ("white_box", "by a white-box attack"))
        ),
        Fact("Gradients are not masked: every check passes for every network", unmasked, beyond_paper=True),
    ),
    tables=tables,
    figures=figures,
    criteria=f"By the accuracy at all epsilons above 0, their mean: they are points of one curve. {ENDS}",
    departs=(
        f"{CHOSEN} Beside the paper's protocol stands the white-box attack it could not run. Epsilons are our choice, as "
        f"fractions of the range of a pixel. {CUT} Rates are chosen for accuracy without attack, and differ between the "
        "neurons. There is no standard network with weight decay or another penalty on its sensitivity, which may be as "
        "robust."
    ),
)
MOVES = {"restarts": 20, "iterations": 10, "patch": (2, 10), "mapping": "similarity_random"}


def moved(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed while Pixle moves its pixels.

    ``options``: ``images``, ``restarts``, ``iterations``, ``patch``, ``mapping``; ``rates`` and ``tuning_seeds`` as for
    :func:`neuronal_papers.tuning.tuned`.
    """
    options = {name: setting.options[name] for name in MOVES}
    # Two queries at the image itself, then one for each patch that is tried.
    marks = [2 + options["iterations"] * count for count in range(options["restarts"] + 1)]

    def attacked(_: Record, model: nn.Module, test: Split) -> dict[str, Any]:
        found = pixle(model, test.x, test.y, batch_size=AT_ONCE, **options)
        asked = torch.where(found.success, found.queries, torch.iinfo(torch.long).max)
        return {"accuracy": [(asked > mark).double().mean().item() for mark in marks], "images": len(test)}

    return {"rows": on_test_images(setting, work, "pixels_moved", attacked), "queries": marks}


def moved_tables(result: Result) -> list[Table]:
    queries = result["result"]["queries"]
    places = sorted({0, len(queries) // 4, len(queries) // 2, len(queries) - 1})
    columns = [*NAMES, *(percents(f"{queries[place]} queries", at("accuracy", place)) for place in places)]
    return [table(title_of(result), columns, by_network(result["result"]["rows"]), f"accuracy in %, {OVER_SEEDS}")]


def moved_figures(result: Result) -> list[Drawing]:
    lines = []
    for number, one in enumerate(by_network(result["result"]["rows"])):
        curves = _percent(run["accuracy"] for run in one["runs"])
        lines.append(Line(number, f"{one['name']}, {one['neuron']}", result["result"]["queries"], curves))
    labels = {"xlabel": "queries", "ylabel": "accuracy (%)", "ylim": (0, 100)}
    return [chart(f"{result['reproduction']}-queries", "Pixle", lines, labels, size=6)]


PIXLE = Reproduction(
    name="implicit_bias/pixle",
    title="Accuracy while pixels are moved",
    where="Figure 5",
    scales={
        **scales(with_fixed, {**MOVES, "images": 1000}, paper={"images": 10_000}),
        "smoke": Setting(pair(DIGITS), {**MOVES, "images": 10, "restarts": 2, "iterations": 2}),
    },
    measure=moved,
    claims=tuple(_more_robust(kind, "when pixels are moved") for kind in KINDS),
    tables=moved_tables,
    figures=moved_figures,
    criteria=f"By the accuracy after each number of queries, their mean: they are points of one curve. {ENDS}",
    departs=f"{CHOSEN} Restarts, iterations and patches are those of the attack's own paper. {CUT}",
)
