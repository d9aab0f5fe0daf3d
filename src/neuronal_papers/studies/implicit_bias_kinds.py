"""Kinds of the implicit-bias neuron: one iteration, couplings and slopes that are learnt, and transformers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from neuronal.data import Split
from neuronal.experiments import Recipe, Record, Work
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import dots
from neuronal_papers.implicit_bias.compared import LEARNT, NAMES, against_standard, by_data
from neuronal_papers.implicit_bias.jacobian import couplings
from neuronal_papers.implicit_bias.networks import ATTACK, CHOSEN, CIFAR, CUT, FEW, fixed, kind, pair, scales
from neuronal_papers.implicit_bias.white_box import on_test_images, white_box
from neuronal_papers.judge import Above, Case, Claim, Result, Within
from neuronal_papers.seeds import OVER_SEEDS, Row, at, by_network, differences, percents

SAME = 1.0
"""Points of accuracy under attack within which one iteration counts as as good as a solve: ten of a thousand images."""
ONCE = ", one iteration"
"""What names of kinds end with that take one iteration in the place of a solve."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: accuracy, accuracy under the white-box attack, couplings and slopes.

    ``options``: ``epsilon``, ``images``, ``steps`` and, if need be, ``batch_size``; ``rates`` and
    ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options

    def attacked(record: Record, model: nn.Module, test: Split) -> dict[str, Any]:
        row = {key: record.metrics[key] for key in ("accuracy", "parameters")}
        left = white_box(model, test, options["epsilon"], options).robust_accuracy
        return {**row, "robust": left, "couplings": couplings(model), "slopes": slopes(model)}

    rows = on_test_images(setting, work, "variants", attacked)
    return {"rows": rows, "epsilon": options["epsilon"], "images": options["images"]}


def slopes(model: nn.Module) -> list[float]:
    """Of every implicit-bias layer."""
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "log_slope")]
    return [layer.slope.item() for layer in layers]


def more_robust(result: Result) -> list[Case]:
    """Points above the standard neuron, of every kind but the paper's own, which is judged where its claims are."""
    others = {kind for networks in by_data(result).values() for kind in networks} - {"standard", LEARNT}
    return against_standard(result, at("robust"), *others)


def behind(result: Result) -> list[Case]:
    """Points under attack by which networks with one iteration are above those whose equation is solved."""
    every, cases = by_data(result), []
    for data, networks in every.items():
        for name in [name for name in networks if name.endswith(ONCE)]:
            kind = name.removesuffix(ONCE)
            values = differences(networks[name], networks[LEARNT if kind == "learnt" else kind], at("robust"))
            cases.append(Case(f"{data}, " * (len(every) > 1) + kind, values))
    return cases


def learnt(network: Row) -> str:
    """The range of couplings and slopes over layers and seeds."""
    values = [value for run in network["runs"] for layer in run["couplings"] for value in layer]
    steep = [value for run in network["runs"] for value in run["slopes"]]
    if not values:
        return "no couplings"
    return f"couplings {min(values):+.3f} to {max(values):+.3f}, slopes {min(steep):.1f} to {max(steep):.1f}"


def tables(result: Result) -> list[Table]:
    columns = [
        *NAMES,
        percents("accuracy (%)", at("accuracy")),
        percents(f"at epsilon {result['result']['epsilon']:g} (%)", at("robust")),
        Column("couplings and slopes", learnt),
    ]
    return [table(title_of(result), columns, by_network(result["result"]["rows"]), OVER_SEEDS)]


def figures(result: Result) -> list[Drawing]:
    found = []
    for data, networks in by_data(result).items():
        with blank(f"{result['reproduction']}-{data}-kinds") as sheet:
            for number, (kind, one) in enumerate(networks.items()):
                x, y = ([100 * run[key] for run in one["runs"]] for key in ("robust", "accuracy"))
                dots(sheet.axes, number, x, y, kind)
            attacked = f"accuracy under attack, epsilon {result['result']['epsilon']:g} (%)"
            sheet.axes.set(xlabel=attacked, ylabel="test accuracy (%)")
            # Points are everywhere, so the names are below.
            sheet.axes.legend(fontsize=6, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        found.append(Drawing(sheet.svg, data, "Accuracy with and without attack. Every seed a point."))
    return found


def _lite(recipe: Recipe) -> tuple[Recipe, ...]:
    once: dict[str, dict[str, Any]] = {"learnt": {}}
    once |= {f"coupling {size:g}": {"coupling": size, "learn_coupling": False} for size in (-0.5, -0.05)}
    lite = (kind(recipe, f"{name}{ONCE}", **options, steps=1) for name, options in once.items())
    return (*pair(recipe), fixed(recipe), fixed(recipe, -0.05), *lite)


def _learnt(recipe: Recipe) -> tuple[Recipe, ...]:
    return (
        *pair(recipe),
        kind(recipe, "coupling per channel", per_channel=True),
        kind(recipe, "slope learnt", learn_slope=True),
        kind(recipe, "both", per_channel=True, learn_slope=True),
    )


ONE: Mapping[str, Any] = {**ATTACK, "epsilon": 0.02}
FEW_ONE: Mapping[str, Any] = {**FEW, "epsilon": 0.05}
ROBUST = Claim("More robust under a white-box attack than the standard neuron", more_robust, Above(), beyond_paper=True)
ALIKE = Claim("One iteration is as robust as a solve, within a point", behind, Within(SAME), beyond_paper=True)
LITE = Reproduction(
    name="implicit_bias/lite",
    title="One iteration in the place of a solve",
    where="the authors' published code",
    scales=scales(_lite, ONE, smoke=FEW_ONE, paper={"images": 10_000}),
    measure=measure,
    claims=(ROBUST, ALIKE),
    tables=tables,
    figures=figures,
    departs=f"{CHOSEN} {CUT}",
)
LEARNED = Reproduction(
    name="implicit_bias/learned",
    title="Where couplings and slopes go when they are learnt",
    where="Discussion (future work)",
    scales=scales(_learnt, ONE, smoke=FEW_ONE, paper={"images": 10_000}),
    measure=measure,
    claims=(ROBUST,),
    tables=tables,
    figures=figures,
    departs=f"{CHOSEN} A learnt coupling cannot go beyond 0.9 / slope, which is +0.09 at slope 10. {CUT}",
)
TRANSFORMER = replace(
    CIFAR,
    name="CIFAR-10 transformer",
    model="vit_tiny",
    model_options={"depth": 6},
    optim="adamw",
    lr=5e-4,
    weight_decay=0.05,
    schedule="cosine",
    warmup=0.1,
    standard_epochs=1,
    epochs=20,
    crop=4,
    flip=True,
)
SHORT_TRANSFORMER = replace(
    TRANSFORMER,
    name="Fashion-MNIST transformer",
    data="fashion_mnist",
    model_options={"depth": 3},
    fraction=0.25,
    epochs=10,
    batch_size=256,
)
TINY_TRANSFORMER = replace(
    TRANSFORMER,
    name="digits transformer",
    data="digits",
    model_options={"depth": 1, "width": 12, "num_heads": 2},
    epochs=2,
    fraction=0.2,
    crop=0,
    flip=False,
    seeds=(0,),
)
BLOCKS: Mapping[str, Any] = {"rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,), "batch_size": 250}
TRANSFORMERS = Reproduction(
    name="implicit_bias/transformer",
    title="Implicit bias in the perceptrons of a vision transformer",
    where="Discussion (future work)",
    scales={
        "smoke": Setting(pair(TINY_TRANSFORMER), FEW_ONE),
        "small": Setting(pair(SHORT_TRANSFORMER), {**ONE, **BLOCKS}),
        "paper": Setting(pair(replace(TRANSFORMER, model_options=(), epochs=100)), {**ONE, **BLOCKS}),
    },
    measure=measure,
    claims=(ROBUST,),
    tables=tables,
    figures=figures,
    departs=(
        "The paper suggests it and does not try. Small: Fashion-MNIST in the place of CIFAR-10 and a quarter of its "
        "training images, three blocks in the place of twelve, 10 epochs in the place of 100, batches of 256 in the "
        "place of 128."
    ),
)
