"""Accuracy against the number of queries of Pixle, which moves pixels and sees probabilities only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from neuronal.attacks import pixle
from neuronal.experiments import Record, Work
from neuronal.report import Drawing, Table, blank, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    BAND,
    LEARNT,
    NAMES,
    OVER_SEEDS,
    band,
    networks,
    percents,
    under_attack,
)
from neuronal_papers.implicit_bias.networks import (
    CHOSEN,
    CIFAR,
    CUT,
    DIGITS,
    FASHION,
    LARGER_RATES,
    RATES,
    SHORT,
    SVHN,
    pair,
    with_fixed,
)
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device, test_images
from neuronal_papers.judge import Above, Case, Claim, Result
from neuronal_papers.tuning import measured

MOVES: Mapping[str, Any] = {
    "images": 1000,
    "restarts": 20,
    "iterations": 10,
    "patch": (2, 10),
    "mapping": "similarity_random",
}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed under the same attack.

    ``options``: ``images``, ``restarts``, ``iterations``, ``patch``, ``mapping``; ``rates`` and ``tuning_seeds`` as for
    :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options
    attack = {name: options[name] for name in ("restarts", "iterations", "patch", "mapping")}
    # Two queries at the image itself, then one for each patch that is tried.
    marks = [2 + options["iterations"] * count for count in range(options["restarts"] + 1)]

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = test_images(record.recipe).rows(slice(options["images"]))
        work.say(f"Pixle on {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        found = pixle(on_the_device(model), test.x, test.y, batch_size=AT_ONCE, **attack)
        asked = torch.where(found.success, found.queries, torch.iinfo(torch.long).max)
        return {"accuracy": [(asked > mark).double().mean().item() for mark in marks], "images": len(test)}

    return {"rows": measured(setting, work, "pixels_moved", attacked), "queries": marks}


def leads(result: Result, kind: str) -> list[Case]:
    """Accuracy minus the standard neuron's, after every number of queries where one of the two has some left."""
    return under_attack(result, kind, result["result"]["queries"], "queries", lambda run: run["accuracy"])


def tables(result: Result) -> list[Table]:
    queries = result["result"]["queries"]
    columns = [
        percents(f"{queries[place]} queries", lambda run, place=place: run["accuracy"][place])
        for place in sorted({0, len(queries) // 4, len(queries) // 2, len(queries) - 1})
    ]
    rows = networks(result["result"]["rows"])
    return [table(title_of(result), [*NAMES, *columns], rows, f"accuracy in %, {OVER_SEEDS}")]


def figures(result: Result) -> list[Drawing]:
    with blank(f"{result['reproduction']}-queries") as sheet:
        for number, one in enumerate(networks(result["result"]["rows"])):
            curves = [[100 * value for value in run["accuracy"]] for run in one["runs"]]
            band(sheet.axes, number, f"{one['name']}, {one['neuron']}", result["result"]["queries"], curves)
        sheet.axes.set(xlabel="queries", ylabel="accuracy (%)", ylim=(0, 100))
        sheet.axes.legend(fontsize=6)
    return [Drawing(sheet.svg, "Pixle", BAND)]


PIXLE = Reproduction(
    name="implicit_bias/pixle",
    title="Accuracy while pixels are moved",
    where="Figure 5",
    scales={
        "smoke": Setting(pair(DIGITS), {**MOVES, "images": 10, "restarts": 2, "iterations": 2}),
        "small": Setting(with_fixed(SHORT), {**MOVES, **LARGER_RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {**MOVES, **RATES, "images": 10_000}),
    },
    measure=measure,
    claims=tuple(
        Claim(
            f"With {words}, implicit bias is more robust than the standard neuron when pixels are moved",
            partial(leads, kind=kind),
            Above(),
        )
        for kind, words in ((LEARNT, "learnt coupling"), ("coupling -0.5", "coupling -0.5"))
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "Numbers of queries count after which one of the two neurons is still right on more than 5% of the images (median "
        "over seeds). A learnt coupling ends at +0.09, the largest our layer allows."
    ),
    departs=f"{CHOSEN} Restarts, iterations and patches are those of the attack's own paper. {CUT}",
)
