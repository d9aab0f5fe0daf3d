"""Figure 5: training losses with and without biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, log
from statistics import fmean
from typing import Any

from neuronal.experiments import Work
from neuronal.report import Column, Drawing
from neuronal_papers.core import Reproduction, Setting, one_table
from neuronal_papers.drawing import Line, chart, every_seed
from neuronal_papers.judge import Below, Case, Claim, Result
from neuronal_papers.zero_bias.table1 import BOTH, CIFAR_RESNET18, FASHION_CNN, MNIST_FCN, SMALL_RESNET18, both, smoke

# Percent; losses that differ by less are almost identical. The paper gives no number.
CLOSE = 10.0


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """The curve and the accuracy of every network with every neuron and seed."""
    networks: dict[str, dict[str, Any]] = {}
    for record in work.records(setting.recipes):
        empty = {"curves": {neuron: {} for neuron in BOTH}, "accuracy": {neuron: [] for neuron in BOTH}}
        own, neuron = networks.setdefault(record.recipe.name, empty), record.recipe.family
        if record.failure is None:
            own["curves"][neuron][str(record.seed)] = [row["loss"] for row in record.epochs]
            own["accuracy"][neuron].append(record.metrics["accuracy"])
    return {"networks": [{"name": name, **own} for name, own in networks.items()]}


def factor(a: Sequence[float], b: Sequence[float]) -> float:
    """By which two curves differ, in the mean over epochs."""
    return exp(fmean(abs(log(p / q)) for p, q in zip(a, b, strict=True)))


def distances(network: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Factors between both neurons with the same seed, and between two seeds of one neuron."""
    without, biased = (network["curves"][neuron] for neuron in BOTH)
    between = [factor(without[seed], biased[seed]) for seed in without if seed in biased]
    return between, [factor(a, b) for of in (without, biased) for a, b in combinations(of.values(), 2)]


def _losses_apart(result: Result) -> list[Case]:
    """Percent by which the losses of both neurons differ, seed by seed; and how much two seeds of one neuron do."""
    cases = []
    for network in result["result"]["networks"]:
        between, within = distances(network)
        note = f"two seeds of one neuron {100 * (fmean(within) - 1):.1f}" if within else ""
        cases.append(Case(network["name"], [100 * (each - 1) for each in between], note=note))
    return cases


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _accuracies(network: Mapping[str, Any]) -> str:
    return ", ".join(f"{neuron} {100 * fmean(of):.2f}" for neuron, of in network["accuracy"].items() if of)


COLUMNS = (
    Column("network", "name", is_text=True),
    Column("loss differs by", lambda network: _mean(distances(network)[0]), ".3f"),
    Column("two seeds by", lambda network: _mean(distances(network)[1]), ".3f"),
    Column("accuracy, neuron by neuron (%)", _accuracies),
)
CAPTION = "factors, mean over epochs: zero-bias against biased with the same seed, and two seeds of one neuron"


def figures(result: Result) -> list[Drawing]:
    drawings = []
    axes = {"xlabel": "epoch", "ylabel": "training loss", "yscale": "log"}
    for network in result["result"]["networks"]:
        lines = [
            Line(number, neuron, range(1, 1 + max(map(len, curves.values()), default=0)), list(curves.values()))
            for number, (neuron, curves) in enumerate(network["curves"].items())
        ]
        name, caption = f"{result['reproduction']}-{network['name']}", "Training loss, every seed a line."
        drawings.append(chart(name, network["name"], lines, axes, caption, draw=every_seed))
    return drawings


CURVES = replace(SMALL_RESNET18, name="CIFAR-10 ResNet9", model="resnet9", epochs=10, crop=0, flip=False, mixup=0.0)
CURVES = replace(CURVES, lr=0.05, scalar_lr=1.0, probes=())
TRAINING_CURVES = Reproduction(
    name="zero_bias/training_curves",
    title="Training losses with and without biases",
    where="Figure 5",
    scales={
        "smoke": Setting(both(replace(smoke(MNIST_FCN), epochs=2, seeds=(0, 1)))),
        "small": Setting(both(MNIST_FCN, FASHION_CNN, CURVES, SMALL_RESNET18)),
        "paper": Setting(both(MNIST_FCN, FASHION_CNN, CURVES, CIFAR_RESNET18)),
    },
    measure=measure,
    claims=(
        Claim(
            "Training losses with and without biases are almost identical",
            _losses_apart,
            Below(CLOSE),
            unit="% in the mean over epochs",
            digits=".1f",
        ),
    ),
    tables=one_table(COLUMNS, CAPTION, rows="networks"),
    figures=figures,
    criteria=(
        f"Losses are almost identical if they differ by less than {CLOSE:g}%; how much two seeds of one neuron differ "
        "stands beside it and decides nothing. Accuracies are compared in Table 1."
    ),
    departs=(
        "Networks, settings and trainings of Table 1 (so ResNet-18's losses are of mixed images), with CIFAR-10 in place of "
        "CIFAR-100 at small; the paper does not say what Figure 5 was trained with. ResNet9: our choice, 10 epochs."
    ),
)
