"""Kinds of the implicit-bias neuron: one iteration, couplings and slopes that are learnt, and transformers of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from neuronal.data import Split
from neuronal.experiments import Recipe, Record
from neuronal.report import Column, Figure, blank
from neuronal_papers.core import Options, Reproduction, one_table, settings
from neuronal_papers.drawing import dots
from neuronal_papers.implicit_bias import networks
from neuronal_papers.implicit_bias.attacks import white_box
from neuronal_papers.implicit_bias.compared import LEARNT, against_standard, by_data
from neuronal_papers.judge import Above, Case, Claim, Result
from neuronal_papers.seeds import NAMES, OVER_SEEDS, Row, at, networks_of, percents
from neuronal_papers.tuning import on_test_images

ONCE = ", one iteration"
"""What names of kinds end with that take one iteration in the place of a solve."""


@dataclass(frozen=True)
class Variant:
    """Accuracy, accuracy under the white-box attack, couplings and slopes layer by layer."""

    accuracy: float
    robust: float
    couplings: Sequence[Sequence[float]]
    slopes: Sequence[float]


@on_test_images
def variants(record: Record, model: nn.Module, test: Split, options: Options) -> Variant:
    """Every network with every seed.

    ``options``: ``epsilon``, ``steps`` and, if need be, ``batch_size``.
    """
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "raw_coupling")]
    robust = white_box(model, test, options["epsilon"], options).robust_accuracy
    couplings, slopes = [layer.coupling.tolist() for layer in layers], [layer.slope.item() for layer in layers]
    return Variant(record.metrics["accuracy"], robust, couplings, slopes)


def more_robust(result: Result) -> list[Case]:
    """Points above the standard neuron, of every kind but the paper's own, which is judged where its claims are."""
    others = {kind for kinds in by_data(result).values() for kind in kinds} - {"standard", LEARNT}
    return against_standard(result, at("robust"), *others)


def learnt(network: Row) -> str:
    """The range of couplings and slopes over layers and seeds."""
    values = [value for run in network["runs"] for layer in run["couplings"] for value in layer]
    steep = [value for run in network["runs"] for value in run["slopes"]]
    if not values:
        return "no couplings"
    return f"couplings {min(values):+.3f} to {max(values):+.3f}, slopes {min(steep):.1f} to {max(steep):.1f}"


def columns(result: Result) -> list[Column]:
    robust = percents(f"at epsilon {result['options']['epsilon']:g} (%)", at("robust"))
    return [*NAMES, percents("accuracy (%)", at("accuracy")), robust, Column("couplings and slopes", learnt)]


def figures(result: Result) -> list[Figure]:
    found, attack = [], f"accuracy under attack, epsilon {result['options']['epsilon']:g} (%)"
    for data, kinds in by_data(result).items():
        with blank(f"{result['reproduction']}-{data}-kinds") as sheet:
            for number, (kind, one) in enumerate(kinds.items()):
                x, y = ([100 * run[key] for run in one["runs"]] for key in ("robust", "accuracy"))
                dots(sheet.axes, number, x, y, kind)
            sheet.axes.set(xlabel=attack, ylabel="test accuracy (%)")
            # Points are everywhere, so the names are below.
            sheet.axes.legend(fontsize=6, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        found.append(Figure(sheet.svg, data, "Accuracy with and without attack. Every seed a point."))
    return found


def _lite(recipe: Recipe) -> tuple[Recipe, ...]:
    solved = (networks.fixed(recipe), networks.fixed(recipe, -0.05))
    once = (networks.fixed(recipe, size, ONCE, steps=1) for size in (-0.5, -0.05))
    return (*networks.pair(recipe), *solved, networks.kind(recipe, f"learnt{ONCE}", steps=1), *once)


def _learnt(recipe: Recipe) -> tuple[Recipe, ...]:
    options = {"coupling per channel": {"per_channel": True}, "slope learnt": {"learn_slope": True}}
    options["both"] = options["coupling per channel"] | options["slope learnt"]
    return (*networks.pair(recipe), *(networks.kind(recipe, name, **own) for name, own in options.items()))


def _transformer(recipe: Recipe, **own: Any) -> tuple[Recipe, ...]:
    training: Any = {"optim": "adamw", "lr": 5e-4, "weight_decay": 0.05, "schedule": "cosine", "warmup": 0.1}
    network: Any = {"name": f"{recipe.name} transformer", "model": "vit_tiny", "standard_epochs": 1}
    return networks.pair(replace(recipe, **network | training | own))


ONE: Options = {**networks.ATTACK, "epsilon": 0.02}
FEW_ONE: Options = {**networks.FEW, "epsilon": 0.05}
ROBUST = Claim("More robust under a white-box attack than the standard neuron", more_robust, Above(), beyond_paper=True)
LITE = Reproduction(
    name="implicit_bias/lite",
    title="One iteration in the place of a solve",
    where="the authors' published code",
    scales=networks.scales(_lite, ONE, smoke=FEW_ONE),
    measure=variants,
    claims=(ROBUST,),
    tables=one_table(columns, OVER_SEEDS, rows=networks_of),
    figures=figures,
    departs=networks.CHOSEN,
)
LEARNED = replace(
    LITE,
    name="implicit_bias/learned",
    title="Where couplings and slopes go when they are learnt",
    where="Discussion (future work)",
    scales=networks.scales(_learnt, ONE, smoke=FEW_ONE),
    departs=f"{networks.CHOSEN} A learnt coupling cannot go beyond 0.9 / slope, which is +0.09 at slope 10.",
)
BLOCKS: Options = {**ONE, "rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,), "batch_size": 250}
CROPPED = {"crop": 4, "flip": True}
FEW_BLOCKS = {"depth": 1, "width": 12, "num_heads": 2}
VITS = (
    _transformer(networks.DIGITS, model_options=FEW_BLOCKS, batch_size=128),
    _transformer(networks.SHORT, model_options={"depth": 3}, fraction=0.25, epochs=10, **CROPPED),
    _transformer(networks.CIFAR, model_options=(), epochs=100, **CROPPED),
)
TRANSFORMERS = replace(
    LEARNED,
    name="implicit_bias/transformer",
    title="Implicit bias in the perceptrons of a vision transformer",
    scales=settings(VITS, (FEW_ONE, BLOCKS)),
    departs=(
        "The paper suggests it and does not try. Small: Fashion-MNIST in the place of CIFAR-10, a quarter of its training "
        "images, three blocks in the place of twelve, 10 epochs in the place of 100, batches of 256 in the place of 128."
    ),
)
