"""Figure 5: training losses with and without biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, log
from statistics import fmean

from neuronal.experiments import Work
from neuronal.report import Column, Figure
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.drawing import Line, chart, every_seed
from neuronal_papers.judge import Below, Case, Claim, Result
from neuronal_papers.seeds import NETWORK, records_of
from neuronal_papers.zero_bias.table1 import BOTH, CIFAR_RESNET18, FASHION_CNN, MNIST_FCN, SMALL_RESNET18, both, smoke

# Percent; losses that differ by less are almost identical. The paper gives no number.
CLOSE = 10.0


@dataclass(frozen=True)
class Network:
    """Training losses epoch by epoch, by neuron and seed."""

    name: str
    curves: Mapping[str, Mapping[str, tuple[float, ...]]]


def measure(setting: Setting, work: Work) -> Measured:
    """The curve of every network with every neuron and seed."""
    networks: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {}
    for record in work.records(setting.recipes):
        curves = networks.setdefault(record.recipe.name, {neuron: {} for neuron in BOTH})
        if record.failure is None:
            curves[record.recipe.family][str(record.seed)] = tuple(row["loss"] for row in record.epochs)
    return {"networks": [Network(name, curves) for name, curves in networks.items()]}


def distances(network: Network) -> tuple[list[float], list[float]]:
    """Factors between the losses of both neurons with one seed, and of two seeds of one neuron, in the mean over epochs."""

    def factor(a: Sequence[float], b: Sequence[float]) -> float:
        return exp(fmean(abs(log(p / q)) for p, q in zip(a, b, strict=True)))

    without, biased = (network.curves[neuron] for neuron in BOTH)
    between = [factor(without[seed], biased[seed]) for seed in without if seed in biased]
    return between, [factor(a, b) for of in (without, biased) for a, b in combinations(of.values(), 2)]


def networks(result: Result) -> list[Network]:
    return records_of(Network, result, "networks")


def _apart(result: Result) -> list[Case]:
    """Percent by which the losses of both neurons differ, seed by seed."""
    return [Case(one.name, [100 * (factor - 1) for factor in distances(one)[0]]) for one in networks(result)]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


COLUMNS = (
    NETWORK,
    Column("loss differs by", lambda network: _mean(distances(network)[0]), ".3f"),
    Column("two seeds by", lambda network: _mean(distances(network)[1]), ".3f"),
)
CAPTION = "factors, mean over epochs: zero-bias against biased with the same seed, and two seeds of one neuron"


def figures(result: Result) -> list[Figure]:
    drawings = []
    axes = {"xlabel": "epoch", "ylabel": "training loss", "yscale": "log"}
    for network in networks(result):
        lines = [
            Line(number, neuron, range(1, 1 + max(map(len, curves.values()), default=0)), list(curves.values()))
            for number, (neuron, curves) in enumerate(network.curves.items())
        ]
        name, caption = f"{result['reproduction']}-{network.name}", "Training loss, every seed a line."
        drawings.append(chart(name, network.name, lines, axes, caption, draw=every_seed))
    return drawings


RESNET9 = replace(SMALL_RESNET18, name="CIFAR-10 ResNet9", model="resnet9", epochs=10, crop=0, flip=False, mixup=0.0)
RESNET9 = replace(RESNET9, lr=0.05, scalar_lr=1.0, probes=())
THREE = (MNIST_FCN, FASHION_CNN, RESNET9)
TINY = replace(smoke(MNIST_FCN), epochs=2, seeds=(0, 1))
CURVES = Reproduction(
    name="zero_bias/training_curves",
    title="Training losses with and without biases",
    where="Figure 5",
    scales=settings((both(TINY), both(*THREE, SMALL_RESNET18), both(*THREE, CIFAR_RESNET18))),
    measure=measure,
    claims=[Claim("Losses with and without biases are almost identical", _apart, Below(CLOSE), "%", ".1f")],
    tables=one_table(COLUMNS, CAPTION, rows=networks),
    figures=figures,
    criteria=f"Losses are almost identical if they differ by less than {CLOSE:g}%.",
    departs=(
        "The paper does not say what Figure 5 was trained with: networks are trained as for Table 1 (so ResNet-18's losses "
        "are of mixed images), with CIFAR-10 in place of CIFAR-100 at small. ResNet9: our choice, 10 epochs."
    ),
)
