"""A coupling is added to trained standard networks, which are not trained again: what it costs and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any

from torch import nn

from neuronal.convert import convert
from neuronal.data import Split
from neuronal.experiments import Record, Work
from neuronal.probes import jacobian, score
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import BAND, Line, chart
from neuronal_papers.implicit_bias.networks import ATTACK, CHOSEN, CUT, FEW, scales
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_test_images, on_the_device, test_images, white_box
from neuronal_papers.judge import Above, Below, Case, Claim, Result
from neuronal_papers.seeds import NETWORK, OVER_SEEDS, Value, at, by_network, groups, over_seeds

HARMLESS = 1.0
"""Points of accuracy that a coupling may cost and still count as added without harm: about twice the spread over seeds."""
ADDED: Mapping[str, Any] = {
    "couplings": (0.0, -0.05, -0.1, -0.25, -0.5, -1.0, 0.05),
    "slope": 10.0,
    "epsilons": (0.01, 0.02, 0.05),
}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every standard network with every coupling: accuracy, norm of the Jacobian, accuracy under the white-box attack.

    ``options``: ``couplings`` and ``slope``, ``epsilons``, ``images``, ``steps``; ``rates`` and
    ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options

    def with_couplings(record: Record, trained: nn.Module, few: Split) -> dict[str, Any]:
        test, found = test_images(record.recipe), []
        for coupling in options["couplings"]:
            work.say(f"{record.recipe.name}, seed {record.seed}, coupling {coupling:g}")
            added = {"coupling": coupling, "slope": options["slope"], "learn_coupling": False}
            model = on_the_device(convert(trained, "implicit_bias", **added).model) if coupling else trained
            left = [white_box(model, few, epsilon, options).robust_accuracy for epsilon in options["epsilons"]]
            norm = jacobian(model, test, batch_size=AT_ONCE)["frobenius"]
            row = {"coupling": coupling, "accuracy": score(model, test)["accuracy"], "robust": left, "jacobian": norm}
            found.append(row)
        return {"kinds": found}

    every = on_test_images(setting, work, "transfer", with_couplings)
    rows = [{name: row[name] for name in row if name != "kinds"} | kind for row in every for kind in row["kinds"]]
    return {"rows": rows, "epsilons": list(options["epsilons"]), "images": options["images"]}


def changes(result: Result) -> list[dict[str, Any]]:
    """Every network and coupling, its runs against the same run without coupling."""
    rows = result["result"]["rows"]
    plain = {(row["name"], row["seed"]): row for row in rows if row["coupling"] == 0}
    against = []
    for row in rows:
        before = plain[row["name"], row["seed"]]
        robust = [own - other for own, other in zip(row["robust"], before["robust"], strict=True)]
        change = {"accuracy": row["accuracy"] - before["accuracy"], "jacobian": row["jacobian"] / before["jacobian"]}
        against.append({**row, **change, "robust": robust})
    return by_network(against, "name", "coupling")


def negative(result: Result, value: Value) -> list[Case]:
    """A change, at every negative coupling; these draw units together."""
    every = changes(result)
    several = len(groups(every, "name")) > 1
    return [
        Case(f"{one['name']}, " * several + f"coupling {one['coupling']:g}", list(map(value, one["runs"])))
        for one in every
        if one["coupling"] < 0
    ]


def tables(result: Result) -> list[Table]:
    columns = [
        NETWORK,
        Column("coupling", "coupling", "g"),
        over_seeds("accuracy", at("accuracy"), "+.1f", 100),
        over_seeds("norm of the Jacobian", at("jacobian"), ".2f"),
        *(
            over_seeds(f"at epsilon {epsilon:g}", at("robust", place), "+.1f", 100)
            for place, epsilon in enumerate(result["result"]["epsilons"])
        ),
    ]
    caption = f"changes against coupling 0 (points of accuracy; the norm times so much), {OVER_SEEDS}"
    return [table(title_of(result), columns, changes(result), caption)]


def figures(result: Result) -> list[Drawing]:
    every, lines = sorted(changes(result), key=lambda one: float(one["coupling"])), []
    for number, ((name,), own) in enumerate(groups(every, "name").items()):
        for key, plus, style in (("jacobian", 0, "-"), ("accuracy", 1, ":")):
            curves = list(zip(*([run[key] + plus for run in one["runs"]] for one in own), strict=True))
            lines.append(Line(number, f"{name}, {key}", [one["coupling"] for one in own], curves, style))
    caption = f"Norm of the Jacobian, and 1 plus the change of accuracy. {BAND}"
    labels = {"xlabel": "coupling that is added", "ylabel": "against coupling 0"}
    return [chart(f"{result['reproduction']}-jacobian", "A coupling added", lines, labels, caption, level=1)]


TRANSFER = Reproduction(
    name="implicit_bias/transfer",
    title="A coupling added to trained networks",
    where="Supplementary Information",
    scales=scales(
        lambda recipe: (recipe,),
        {**ATTACK, **ADDED},
        smoke={**FEW, "couplings": (0.0, -0.5), "epsilons": (0.05,)},
        paper={"images": 10_000},
    ),
    measure=measure,
    claims=(
        Claim(
            "A negative coupling can be added to a trained network without training it again: it costs at most 1 point",
            partial(negative, value=lambda run: 100 * run["accuracy"]),
            Above(-HARMLESS),
        ),
        Claim(
            "A negative coupling that is added makes the Jacobian smaller",
            partial(negative, value=at("jacobian")),
            Below(1.0),
            unit="times the norm without coupling",
            digits=".2f",
        ),
        Claim(
            "A negative coupling that is added makes the network more robust (white-box, mean over epsilons)",
            partial(negative, value=lambda run: 100 * fmean(run["robust"])),
            Above(),
        ),
    ),
    tables=tables,
    figures=figures,
    criteria="Each network is compared with itself, with and without the coupling.",
    departs=(
        f"{CHOSEN} The paper proves it for one hidden layer and gives no numbers: the bound of its proof, linear in the "
        f"coupling, is not measured. {CUT}"
    ),
)
