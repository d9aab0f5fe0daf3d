"""Accuracy against the number of queries of Pixle, which moves pixels and sees probabilities only (Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neuronal.attacks.pixle import pixle
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding, all_or_some
from neuronal.experiments.procedures.implicit_bias.robustness import AT_ONCE, networks, on_the_device, rival_of
from neuronal.experiments.procedures.implicit_bias.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work


JUDGED = "Ahead at the end of the attack in every seed, paired by number; in some is a part."


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
    """Whether more is left of the accuracy than with the standard neuron, at the end of the attack and as a share."""
    groups = networks(answer["result"]["rows"])
    found = []
    for group in groups:
        rival = rival_of(group, groups)
        if rival is None:
            continue
        gaps = [a["accuracy"][-1] - b["accuracy"][-1] for a, b in zip(group, rival, strict=False)]
        before = [a["accuracy"][0] - b["accuracy"][0] for a, b in zip(group, rival, strict=False)]
        ahead = sum(gap > 0 for gap in gaps)
        found.append(
            Finding(
                f"{group[0]['name']}: implicit bias is more robust than the standard neuron (Pixle)",
                all_or_some(ahead, len(gaps)),
                f"{100 * median(gaps):+.1f} points ({100 * min(gaps):+.1f} to {100 * max(gaps):+.1f}) after "
                f"{answer['result']['queries'][-1]} queries, {100 * median(before):+.1f} before the attack",
            )
        )
    return found
