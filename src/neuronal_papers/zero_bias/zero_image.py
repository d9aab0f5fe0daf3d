"""Figure 4: what networks believe when they see nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

import torch

from neuronal.convert import from_source, input_shape
from neuronal.experiments import Work
from neuronal.geometry import outputs
from neuronal.probes import ZeroImage
from neuronal.report import Column, Figure
from neuronal_papers.core import Measured, Options, Reproduction, Setting, one_table, settings
from neuronal_papers.drawing import Line, chart, marked
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import NAMES, groups, records_of, spread
from neuronal_papers.zero_bias.table1 import FASHION_CNN, MNIST_FCN, both, smoke

WEIGHTS: Mapping[str, Options] = {"timm": {"pretrained": True}, "torchvision": {"weights": "DEFAULT"}}
"""What asks each library for a model with its published weights."""
# Entropies this close to the largest possible one, relatively, are those of a uniform belief.
UNIFORM = 1e-6


@dataclass(frozen=True)
class Belief:
    """What a network believes at the zero image; the entropy is a share of the largest possible one."""

    name: str
    neuron: str
    seed: int
    probabilities: tuple[float, ...]
    """The largest twenty."""
    largest: float
    classes: int
    entropy: float


def measure(setting: Setting, work: Work) -> Measured:
    """Networks trained here, and models of timm, of torchvision or from a file, where ``options`` names any.

    ``options``: ``models``, named as for :func:`neuronal.convert.from_source`; ``pretrained``, whether with the weights
    their library downloads.
    """
    rows = []
    # First: a name that is not known ends it before anything is trained.
    for source in setting.options.get("models", ()):
        work.say(source)
        library = source.partition(":")[0] if setting.options.get("pretrained") else ""
        model = from_source(source, **WEIGHTS.get(library, {}))
        logits = outputs(model, torch.zeros(1, *input_shape(model)))[0].double()
        rows.append(_belief(source, "", 0, logits.softmax(0).tolist()))
    for record in work.records(setting.recipes):
        if record.failure is None:
            p = record.probe(ZeroImage).probabilities
            rows.append(_belief(record.recipe.name, record.recipe.family, record.seed, p))
    return {"rows": rows}


def _belief(name: str, neuron: str, seed: int, probabilities: Sequence[float]) -> Belief:
    p = sorted(probabilities, reverse=True)
    entropy = -sum(value * log(value) for value in p if value > 0) / log(len(p))
    return Belief(name, neuron, seed, tuple(p[:20]), p[0], len(p), entropy)


def _is_uniform(row: Belief) -> bool:
    return abs(row.entropy - 1) < UNIFORM


def _beliefs(neuron: str, result: Result) -> Evidence | None:
    """Networks without biases whose beliefs are uniform, or networks with biases whose beliefs are not."""
    rows = [row for row in records_of(Belief, result) if row.neuron == neuron]
    if not rows:
        return None
    against = sum(_is_uniform(row) != (neuron == "zero_bias") for row in rows)
    entropy, largest = zip(*((row.entropy, row.largest) for row in rows), strict=True)
    numbers = f"{len(rows) - against} of {len(rows)} networks; entropy {spread(entropy, '.6f')}, largest of "
    numbers += f"{rows[0].classes} probabilities {spread(largest, '.3f')}"
    return Evidence(len(rows), against, numbers)


def _published(result: Result) -> Evidence | None:
    """Every published model prefers classes; EfficientNet less than the ResNets, and ViT more than they."""
    rows = [row for row in records_of(Belief, result) if not row.neuron]
    kinds = [[row.entropy for row in rows if kind in row.name] for kind in ("efficientnet", ":resnet", "vit")]
    if not result["options"].get("pretrained") or not all(kinds):
        return None
    efficientnet, resnet, vit = kinds
    is_in_order = min(efficientnet) > max(resnet) and min(resnet) > max(vit)
    numbers = "entropy " + ", ".join(f"{row.name} {row.entropy:.3f}" for row in rows)
    return Evidence(len(rows), sum(map(_is_uniform, rows)) + (not is_in_order), numbers)


BELIEFS = Column("entropy (1 = uniform)", "entropy", ".4f"), Column("largest probability", "largest", ".4f")
COLUMNS = (*NAMES, Column("seed", "seed"), *BELIEFS)


def figures(result: Result) -> list[Figure]:
    lines = []
    for number, ((name, neuron), (row, *_)) in enumerate(groups(records_of(Belief, result), "name", "neuron").items()):
        places = range(1, len(row.probabilities) + 1)
        lines.append(Line(number, f"{name}, {neuron}" if neuron else name, places, [row.probabilities]))
    axes = {"xlabel": "classes, the likeliest first", "ylabel": "probability", "yscale": "log"}
    caption = "Probabilities at the image that is zero everywhere; one seed of each."
    return [chart(f"{result['reproduction']}-zero", "Zero image", lines, axes, caption, draw=marked)]


MODELS = ("timm:resnet18", "timm:resnet50", "timm:resnet152", "timm:efficientnet_b0", "timm:vit_base_patch16_224")
PUBLISHED = {"models": MODELS, "pretrained": True}
PREFER = "Published ResNets, EfficientNet and ViT prefer some classes, EfficientNet less and ViT heavily"
ZERO_IMAGE = Reproduction(
    name="zero_bias/zero_image",
    title="Beliefs at the zero image",
    where="Figure 4",
    scales=settings((both(smoke(MNIST_FCN)), both(MNIST_FCN, FASHION_CNN), ()), ({}, {}, PUBLISHED)),
    measure=measure,
    claims=(
        Fact("Without biases every class is equally likely at the zero image", partial(_beliefs, "zero_bias")),
        Fact("Networks with biases prefer some classes at the zero image", partial(_beliefs, "standard")),
        Fact(PREFER, _published, reproduce_with="--scale paper"),
    ),
    tables=one_table(COLUMNS),
    figures=figures,
    criteria=f"A belief is uniform if its entropy is the largest possible to {UNIFORM:g}; else it prefers some classes.",
    departs=(
        "The paper's models need downloaded weights (paper, or any others with --model); ours are those of Table 1. Zero "
        "is what the network sees, after any normalisation; the paper does not say which it means."
    ),
    takes_models=True,
)
