"""Accuracy against epsilon: the paper's protocol, the white-box attack it could not run, and whether to believe both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from math import sqrt
from typing import Any

from torch import Tensor, nn

from neuronal.attacks import (
    Attacked,
    Ball,
    apgd,
    more_steps_help,
    pgd,
    reaches_everything,
    solver_does_not_matter,
    white_box_is_strongest,
)
from neuronal.convert import convert
from neuronal.experiments import Record, Work
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    BAND,
    LEARNT,
    NAMES,
    NEURON,
    OVER_SEEDS,
    Line,
    at,
    bands,
    by_network,
    percents,
    under_attack,
)
from neuronal_papers.implicit_bias.networks import ATTACK, CHOSEN, CUT, FEW, scales, with_fixed
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device, test_images, white_box
from neuronal_papers.judge import Above, Claim, Evidence, Fact, Result
from neuronal_papers.tuning import measured

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
FEW_SWEEP: Mapping[str, Any] = {
    "epsilons": (0.0, 0.05),
    "check_epsilon": 0.05,
    "check_images": 8,
    "check_steps": (2, 5),
}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed, under both attacks of ``ATTACKS`` at every epsilon; the checks at ``check_epsilon``.

    ``options``: ``norm``, ``epsilons``, ``images``, ``steps``, ``restarts``, ``check_epsilon``, ``check_images``,
    ``check_steps``; ``rates`` and ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = test_images(record.recipe).rows(slice(options["images"]))
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


def unmasked(result: Result) -> Evidence:
    """How many checks of how many networks pass."""
    every = [(row, check) for row in result["result"]["rows"] for check in row["checks"]]
    failed = [
        f"{row['name']}, {row['neuron']}, seed {row['seed']}: {check['name']} ({check['numbers']})"
        for row, check in every
        if not check["passed"]
    ]
    names = ", ".join(dict.fromkeys(check["name"] for _, check in every))
    numbers = (
        f"{len(every) - len(failed)} of {len(every)} checks of {len(result['result']['rows'])} networks pass ({names})"
    )
    return Evidence(len(every), len(failed), "; ".join([numbers, *failed[:1]]))


def _more_robust(kind: str, attack: str) -> Claim:
    words = "learnt coupling" if kind == LEARNT else kind
    by = "the paper's protocol" if attack == "transfer" else "a white-box attack"
    cases = partial(under_attack, kind=kind, curve=at("accuracy", attack))
    return Claim(f"With {words}, implicit bias is more robust than the standard neuron by {by}", cases, Above())


def tables(result: Result) -> list[Table]:
    epsilons, attacks = result["result"]["epsilons"], result["result"]["attacks"]
    columns = [percents(f"epsilon {epsilon:g}", at(place)) for place, epsilon in enumerate(epsilons)]
    every = by_network(result["result"]["rows"])
    rows = [
        {**one, "attack": attack, "runs": [run["accuracy"][attack] for run in one["runs"]]}
        for one in every
        for attack in attacks
    ]
    checks = [
        {**run, **check, "network": one["name"]} for one in every for run in one["runs"] for check in run["checks"]
    ]
    caption = f"accuracy in %, {OVER_SEEDS}; transfer: {attacks['transfer']}"
    return [
        table(title_of(result), [*NAMES, Column("attack", "attack", is_text=True), *columns], rows, caption),
        table("Whether gradients are masked", CHECKS, checks),
    ]


CHECKS = (
    Column("network", "network", is_text=True),
    NEURON,
    Column("check", "name", is_text=True),
    Column("seed", "seed"),
    Column("passed", lambda row: "yes" if row["passed"] else "NO"),
    Column("numbers", "numbers"),
)


def figures(result: Result) -> list[Drawing]:
    every, found = by_network(result["result"]["rows"]), []
    for data in (one["name"] for one in every if one["neuron"] == "standard"):
        lines = [
            Line(
                number,
                f"{one['neuron']}{one['name'].removeprefix(data)}, {attack.replace('_', '-')}",
                result["result"]["epsilons"],
                [[100 * value for value in run["accuracy"][attack]] for run in one["runs"]],
                style,
            )
            for number, one in enumerate(one for one in every if one["name"].startswith(data))
            for attack, style in (("white_box", "-"), ("transfer", ":"))
        ]
        labels = {"xlabel": "epsilon", "ylabel": "accuracy (%)", "ylim": (0, 100)}
        caption = f"{BAND} Dotted: the paper's protocol."
        found.append(bands(f"{result['reproduction']}-{data}", data, lines, labels, caption, size=6))
    return found


PGD = Reproduction(
    name="implicit_bias/pgd",
    title="Accuracy against epsilon",
    where="Figure 4",
    scales=scales(with_fixed, {**ATTACK, **SWEEP}, smoke={**FEW, **FEW_SWEEP}, paper={"images": 10_000}),
    measure=measure,
    claims=(
        *(_more_robust(kind, attack) for kind in (LEARNT, "coupling -0.5") for attack in ATTACKS),
        Fact("Gradients are not masked: every check passes for every network", unmasked, beyond_paper=True),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "By the accuracy at all epsilons above 0, their mean: they are points of one curve. A learnt coupling ends at "
        "+0.09, the largest our layer allows, so what is said of it is about +0.09."
    ),
    departs=(
        f"{CHOSEN} Beside the paper's protocol stands the white-box attack it could not run. Epsilons are our choice, as "
        f"fractions of the range of a pixel. {CUT} Rates are chosen for accuracy without attack, and differ between the "
        "neurons. There is no standard network with weight decay or another penalty on its sensitivity, which may be as "
        "robust."
    ),
)
