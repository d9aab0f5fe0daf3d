"""Accuracy against the number of queries of Pixle, which moves pixels and sees probabilities only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from neuronal.attacks import pixle
from neuronal.experiments import Record, Work
from neuronal.report import Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    LEARNT,
    NAMES,
    OVER_SEEDS,
    Line,
    at,
    bands,
    by_network,
    percents,
    under_attack,
)
from neuronal_papers.implicit_bias.networks import CHOSEN, CUT, DIGITS, pair, scales, with_fixed
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device, test_images
from neuronal_papers.judge import Above, Claim, Result
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


def tables(result: Result) -> list[Table]:
    queries = result["result"]["queries"]
    columns = [
        percents(f"{queries[place]} queries", at("accuracy", place))
        for place in sorted({0, len(queries) // 4, len(queries) // 2, len(queries) - 1})
    ]
    rows = by_network(result["result"]["rows"])
    return [table(title_of(result), [*NAMES, *columns], rows, f"accuracy in %, {OVER_SEEDS}")]


def figures(result: Result) -> list[Drawing]:
    lines = [
        Line(
            number,
            f"{one['name']}, {one['neuron']}",
            result["result"]["queries"],
            [[100 * value for value in run["accuracy"]] for run in one["runs"]],
        )
        for number, one in enumerate(by_network(result["result"]["rows"]))
    ]
    labels = {"xlabel": "queries", "ylabel": "accuracy (%)", "ylim": (0, 100)}
    return [bands(f"{result['reproduction']}-queries", "Pixle", lines, labels, size=6)]


PIXLE = Reproduction(
    name="implicit_bias/pixle",
    title="Accuracy while pixels are moved",
    where="Figure 5",
    scales={
        **scales(with_fixed, MOVES, paper={"images": 10_000}),
        "smoke": Setting(pair(DIGITS), {**MOVES, "images": 10, "restarts": 2, "iterations": 2}),
    },
    measure=measure,
    claims=tuple(
        Claim(
            f"With {words}, implicit bias is more robust than the standard neuron when pixels are moved",
            partial(under_attack, kind=kind, curve=at("accuracy")),
            Above(),
        )
        for kind, words in ((LEARNT, "learnt coupling"), ("coupling -0.5", "coupling -0.5"))
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "By the accuracy after each number of queries, their mean: they are points of one curve. A learnt coupling ends at "
        "+0.09, the largest our layer allows."
    ),
    departs=f"{CHOSEN} Restarts, iterations and patches are those of the attack's own paper. {CUT}",
)
