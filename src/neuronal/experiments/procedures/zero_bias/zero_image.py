"""What networks believe when they see nothing (Figure 4 of the zero-bias paper)."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING, Any

import torch

from neuronal.convert.sources import from_source, input_shape
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

TAKES_MODELS = True
WEIGHTS: Mapping[str, Mapping[str, Any]] = {"timm": {"pretrained": True}, "torchvision": {"weights": "DEFAULT"}}
"""What asks each library for a model with its published weights."""
UNIFORM = 1e-6
"""Entropies that are this close to the largest possible one, relatively, are those of a uniform belief."""


JUDGED = (
    f"A belief is uniform if its entropy is the largest possible to {UNIFORM:g}, and prefers some classes if it is not."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Trained networks of ours, and models of timm, of torchvision or from a file, where ``options`` names any.

    ``options``: ``models``, named as for :func:`neuronal.convert.sources.from_source`; ``pretrained``, whether with the
    weights their library downloads.
    """
    # First: a name that is not known ends it before anything is trained.
    given = [_given(source, setting, work) for source in setting.options.get("models", ())]
    rows = []
    for record in work.records(setting.recipes):
        if record.failure is None:
            p = record.probes["zero_image"]["probabilities"]
            rows.append(_row(record.recipe.name, record.recipe.family, record.seed, p))
    return {"rows": rows + given}


def _given(source: str, setting: Setting, work: Work) -> dict[str, Any]:
    work.say(source)
    library = source.partition(":")[0] if setting.options.get("pretrained") else ""
    model = from_source(source, **WEIGHTS.get(library, {}))
    logits = outputs(model, torch.zeros(1, *input_shape(model)))[0].double()
    return _row(source, "", 0, logits.softmax(0).tolist())


def _row(name: str, neuron: str, seed: int, probabilities: list[float]) -> dict[str, Any]:
    entropy = -sum(p * log(p) for p in probabilities if p > 0)
    return {
        "name": name,
        "neuron": neuron,
        "seed": seed,
        "probabilities": sorted(probabilities, reverse=True)[:20],
        "largest": max(probabilities),
        "classes": len(probabilities),
        "entropy": entropy / log(len(probabilities)),
    }


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Uniform without biases, and not with them."""
    rows = answer["result"]["rows"]
    without = [row for row in rows if row["neuron"] == "zero_bias"]
    biased = [row for row in rows if row["neuron"] != "zero_bias"]
    found = []
    if without:
        uniform = all(abs(row["entropy"] - 1) < UNIFORM for row in without)
        found.append(
            Finding(
                "Without biases every class is equally likely at the zero image",
                "reproduced" if uniform else "not reproduced",
                f"entropy {min(r['entropy'] for r in without):.6f} of the largest possible, {len(without)} networks",
            )
        )
    if biased:
        partial = sum(row["entropy"] < 1 - UNIFORM for row in biased)
        found.append(
            Finding(
                "Networks with biases prefer some classes at the zero image",
                "reproduced" if partial == len(biased) else "reproduced in part" if partial else "not reproduced",
                f"{partial} of {len(biased)} networks; largest probability {min(r['largest'] for r in biased):.3f} to "
                f"{max(r['largest'] for r in biased):.3f} of {biased[0]['classes']} classes",
            )
        )
    if all(row["neuron"] for row in rows):
        found.append(
            Finding(
                "Published ResNets, EfficientNet and ViT prefer some classes, EfficientNet less and ViT heavily",
                "not measured",
                "needs their weights",
                again="--scale paper",
            )
        )
    return found
