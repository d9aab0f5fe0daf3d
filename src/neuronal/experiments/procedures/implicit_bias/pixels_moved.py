"""Accuracy against the number of queries of Pixle, which moves pixels and sees probabilities only (Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neuronal.attacks.pixle import pixle
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.procedures.implicit_bias.robustness import (
    AT_ONCE,
    ahead,
    called,
    gaps_that_count,
    in_pairs,
    in_points,
    networks,
    on_the_device,
    rival_of,
)
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work


JUDGED = (
    "Ahead in every seed, paired by number, after every number of queries at which one of the two is still right on more "
    "than 5% (median over seeds); in the median after some is a part."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed under the same attack.

    ``options``: ``images``, ``restarts``, ``iterations``, ``patch``, ``mapping``; ``rates`` and ``tuning_seeds`` as for
    :func:`tuned`.
    """
    options = setting.options
    attack = {name: options[name] for name in ("restarts", "iterations", "patch", "mapping")}
    # Two queries at the image itself, then one for each patch that is tried.
    marks = [2 + options["iterations"] * count for count in range(options["restarts"] + 1)]

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test.rows(slice(options["images"]))
        work.say(f"Pixle on {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        found = pixle(on_the_device(model), test.x, test.y, batch_size=AT_ONCE, **attack)
        asked = torch.where(found.success, found.queries, torch.iinfo(torch.long).max)
        return {"accuracy": [(asked > mark).double().mean().item() for mark in marks], "images": len(test)}

    return {"rows": measured(setting, work, "pixels_moved", attacked), "queries": marks}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Whether more is left of the accuracy than with the standard neuron, while there is some left."""
    groups, marks = networks(answer["result"]["rows"]), answer["result"]["queries"]
    found = []
    for group in groups:
        rival = rival_of(group, groups)
        if rival is None:
            continue
        gaps = gaps_that_count(marks, [(a["accuracy"], b["accuracy"]) for a, b in in_pairs(group, rival)])
        found.append(
            Finding(
                f"{called(group, rival)}: implicit bias is more robust than the standard neuron (Pixle)",
                ahead(gaps),
                f"points of accuracy by queries, median and range over seeds: {in_points(gaps)}",
            )
        )
    return found
