"""Figure 4: what networks believe when they see nothing."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

import torch

from neuronal.convert import from_source, input_shape
from neuronal.experiments import Work
from neuronal.geometry import outputs
from neuronal.report import Column, Drawing, Table, blank, colour, plain_numbers, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.zero_bias.networks import FASHION_CNN, MNIST_FCN, both, smoke

Row = Mapping[str, Any]

WEIGHTS: Mapping[str, Mapping[str, Any]] = {"timm": {"pretrained": True}, "torchvision": {"weights": "DEFAULT"}}
"""What asks each library for a model with its published weights."""
# Entropies this close to the largest possible one, relatively, are those of a uniform belief.
UNIFORM = 1e-6


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Networks trained here, and models of timm, of torchvision or from a file, where ``options`` names any.

    ``options``: ``models``, named as for :func:`neuronal.convert.from_source`; ``pretrained``, whether with the weights
    their library downloads.
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


def _is_uniform(row: Row) -> bool:
    entropy: float = row["entropy"]
    return abs(entropy - 1) < UNIFORM


def _without_biases(result: Result) -> Evidence:
    rows = [row for row in result["result"]["rows"] if row["neuron"] == "zero_bias"]
    uniform = sum(map(_is_uniform, rows))
    lowest = min((row["entropy"] for row in rows), default=0.0)
    numbers = f"{uniform} of {len(rows)} networks; entropy {lowest:.6f} of the largest possible, or more"
    return Evidence(len(rows), len(rows) - uniform, numbers)


def _with_biases(result: Result) -> Evidence:
    rows = [row for row in result["result"]["rows"] if row["neuron"] == "standard"]
    uniform, largest = sum(map(_is_uniform, rows)), [row["largest"] for row in rows]
    numbers = f"{len(rows) - uniform} of {len(rows)} networks"
    if rows:
        numbers += f"; largest probability {min(largest):.3f} to {max(largest):.3f} of {rows[0]['classes']} classes"
    return Evidence(len(rows), uniform, numbers)


def _published(result: Result) -> Evidence | None:
    """Every published model prefers classes; EfficientNet less than the ResNets, and ViT more than they."""
    if not result["options"].get("pretrained"):
        return None
    rows = [row for row in result["result"]["rows"] if not row["neuron"]]
    numbers = "entropy " + ", ".join(f"{row['name']} {row['entropy']:.3f}" for row in rows)
    kinds = [[row["entropy"] for row in rows if kind in row["name"]] for kind in ("efficientnet", ":resnet", "vit")]
    in_order = all(kinds) and min(kinds[0]) > max(kinds[1]) and min(kinds[1]) > max(kinds[2])
    against = sum(map(_is_uniform, rows)) + (all(kinds) and not in_order)
    return Evidence(len(rows), against, numbers, undecided=int(not all(kinds)))


COLUMNS = (
    Column("network", "name", is_text=True),
    Column("neuron", "neuron", is_text=True),
    Column("seed", "seed"),
    Column("entropy (1 = uniform)", "entropy", ".4f"),
    Column("largest probability", "largest", ".4f"),
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, result["result"]["rows"])]


def figures(result: Result) -> list[Drawing]:
    first: dict[tuple[str, str], Row] = {}
    for row in result["result"]["rows"]:
        first.setdefault((row["name"], row["neuron"]), row)
    with blank(f"{result['reproduction']}-zero") as sheet:
        for number, ((name, neuron), row) in enumerate(first.items()):
            label, p = f"{name}, {neuron}" if neuron else name, row["probabilities"]
            sheet.axes.plot(range(1, len(p) + 1), p, color=colour(number), marker=".", label=label)
        sheet.axes.set(xlabel="classes, the likeliest first", ylabel="probability", yscale="log")
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Zero image", "Probabilities at the image that is zero everywhere; one seed of each.")]


PUBLISHED = tuple(
    f"timm:{name}" for name in ("resnet18", "resnet50", "resnet152", "efficientnet_b0", "vit_base_patch16_224")
)
ZERO_IMAGE = Reproduction(
    name="zero_bias/zero_image",
    title="Beliefs at the zero image",
    where="Figure 4",
    scales={
        "smoke": Setting(both(smoke(MNIST_FCN))),
        "small": Setting(both(MNIST_FCN, FASHION_CNN)),
        "paper": Setting(options={"models": PUBLISHED, "pretrained": True}),
    },
    measure=measure,
    claims=(
        Fact("Without biases every class is equally likely at the zero image", _without_biases),
        Fact("Networks with biases prefer some classes at the zero image", _with_biases),
        Fact(
            "Published ResNets, EfficientNet and ViT prefer some classes, EfficientNet less and ViT heavily",
            _published,
            reproduce_with="--scale paper",
        ),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        f"A belief is uniform if its entropy is the largest possible to {UNIFORM:g}, and prefers some classes if it is not."
    ),
    departs=(
        "The paper's models need downloaded weights (paper, or any others with --model); ours are trained here, with "
        "Table 1. Zero is what the network sees, after any normalisation; the paper does not say which it means."
    ),
    takes_models=True,
)
