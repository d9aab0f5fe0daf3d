"""Farkas layers in networks small enough to look into: what they promise, and what each of their options does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting

# Figure 1

BORN_DEAD = Reproduction(
    name="farkas/born_dead",
    title="Two clouds, and units that face away from both",
    where="Figure 1",
    procedure="born_dead",
    scales={
        "smoke": Setting(options={"epochs": 5, "lr": 0.1, "seeds": (0,)}),
        "small": Setting(options={"epochs": 300, "lr": 0.1, "seeds": tuple(range(20))}),
        "paper": Setting(options={"epochs": 300, "lr": 0.1, "seeds": tuple(range(20))}),
    },
    departs=(
        "Clouds, distances and training are our choice: the paper has a drawing. Besides one standard unit there are two, "
        "as many as in the Farkas layer. Figure 1b is batch norm before the ReLU."
    ),
)

# Section 3

LAYERS = {"units": (4, 8, 32, 128), "cutoffs": (-1.0, 0.0, 0.5, 1.0), "seeds": tuple(range(10))}
CUTOFF = Reproduction(
    name="farkas/cutoff",
    title="How much bias the last unit needs",
    where="Theorem 3.2, Corollary 3.3, Algorithm 1",
    procedure="cutoff",
    scales={
        "smoke": Setting(options=LAYERS | {"units": (4, 8), "seeds": (0,)}),
        "small": Setting(options=LAYERS),
        "paper": Setting(options=LAYERS | {"seeds": tuple(range(100))}),
    },
    departs="The paper proves it and has no numbers; ours are minima found by linear programs, for random layers.",
)

# Ablations, on a network of four hidden layers

FASHION = Recipe(
    name="Fashion-MNIST, 4 layers of 64",
    family="farkas",
    model="one_sided",
    widths=(64,) * 4,
    data="fashion_mnist",
    optim="sgd",
    lr=0.01,
    momentum=0.9,
    weight_decay=5e-4,
    decay_weights_only=True,
    schedule="step",
    epochs=4,
    batch_size=128,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=(),
)
LOOK = {"images": 2000, "classes": 10}


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a tenth of them, on one seed."""
    return replace(recipe, data="digits", epochs=1, fraction=0.1, batch_size=32, channels_last=False, seeds=(0,))


def long(recipe: Recipe) -> Recipe:
    """The same as the paper trains: CIFAR-10, 200 epochs."""
    return replace(recipe, data="cifar10", epochs=200, seeds=(0, 1, 2))


def named(recipe: Recipe, name: str, **options: Any) -> Recipe:
    """A variant with these options of its network."""
    return replace(recipe, name=name, model_options={**dict(recipe.model_options), **options})


def scales(recipes: tuple[Recipe, ...], options: Mapping[str, Any]) -> dict[str, Setting]:
    return {
        "smoke": Setting(tuple(map(smoke, recipes)), {**options, **({"images": 50} if "images" in options else {})}),
        "small": Setting(recipes, options),
        "paper": Setting(tuple(map(long, recipes)), options),
    }


def better(row: str, than: str, text: str, *, ours: bool = False) -> dict[str, Any]:
    return {"kind": "better", "row": row, "than": than, "text": text, "ours": ours}


def alike(row: str, than: str, within: float, text: str, *, ours: bool = False) -> dict[str, Any]:
    return {"kind": "alike", "row": row, "than": than, "within": within, "text": text, "ours": ours}


def about(kind: str, row: str, text: str, than: str | None = None, *, ours: bool = False) -> dict[str, Any]:
    return {"kind": kind, "row": row, "text": text, "ours": ours} | ({"than": than} if than else {})


MARGINS = (
    named(FASHION, "the paper's maximum", rule="max"),
    named(FASHION, "margin 0.001", margin=0.001),
    named(FASHION, "margin 0.1", margin=0.1),
    named(FASHION, "margin 1", margin=1.0),
)
MARGIN = Reproduction(
    name="farkas/margin",
    title="The last bias: the paper's maximum, or a softplus with a margin of 0.001 to 1",
    where="beyond Algorithm 1",
    procedure="activity",
    scales=scales(
        MARGINS,
        LOOK
        | {
            "claims": (
                about("never_silent", "the paper's maximum", "With the paper's bias no image leaves a layer silent"),
                about("certified", "the paper's maximum", "With the paper's bias every layer is proved active"),
                about("certified", "margin 0.001", "With a margin of 0.001 every layer is proved active", ours=True),
                alike(
                    "margin 0.001",
                    "the paper's maximum",
                    1.0,
                    "A softplus with a margin of 0.001 has the error of the paper's maximum (within 1 point)",
                    ours=True,
                ),
                alike(
                    "margin 1",
                    "the paper's maximum",
                    1.0,
                    "A softplus with a margin of 1 has the error of the paper's maximum (within 1 point)",
                    ours=True,
                ),
            )
        },
    ),
    departs=(
        "Not in the paper, whose rule is a maximum without margin. Ours differs from it by the margin and by a softplus, "
        "which is strict and always has a gradient. The network is ours, and so is its rate of 0.01: at 0.05, tried first, "
        "networks with sums did not train. Paper: the same on CIFAR-10, 200 epochs."
    ),
)

MULTIPLIERS = Reproduction(
    name="farkas/multipliers",
    title="Learnt multipliers",
    where="Section 3.3",
    procedure="activity",
    scales=scales(
        (
            named(FASHION, "sum, fixed"),
            named(FASHION, "sum, learnt", learn_multipliers=True),
            named(FASHION, "mean, fixed", aggregate="mean"),
            named(FASHION, "mean, learnt", aggregate="mean", learn_multipliers=True),
        ),
        LOOK
        | {
            "claims": (
                about("certified", "sum, learnt", "Learnt multipliers keep the promise (they start as a sum)"),
                about("certified", "mean, learnt", "Learnt multipliers keep the promise (they start as a mean)"),
                better("sum, learnt", "sum, fixed", "Learning the multipliers of a sum lowers the error", ours=True),
                better("mean, learnt", "mean, fixed", "Learning the multipliers of a mean lowers the error", ours=True),
            )
        },
    ),
    departs=(
        "The paper says that multipliers can be learnt in smaller problems, and not how; ours are exponentials times those "
        "of the sum or the mean. The network is ours, and so is its rate of 0.01: at 0.05, tried first, networks with sums "
        "did not train. Paper: the same on CIFAR-10, 200 epochs."
    ),
)

# Section 3.2

CUTOFFS = {"relu": 0.0, "smooth_relu": 0.0, "leaky_relu": 0.0, "elu": -2.0, "selu": -2.0}


def _activated(activation: str, cutoff: float) -> tuple[Recipe, Recipe]:
    farkas = named(FASHION, f"{activation}, Farkas", activation=activation, cutoff=cutoff)
    plain = replace(farkas, name=f"{activation}, standard", family="standard", model_options={"activation": activation})
    return plain, farkas


ACTIVATIONS = Reproduction(
    name="farkas/activations",
    title="Other one-sided activations, with their cutoffs",
    where="Section 3.2",
    procedure="accuracy_table",
    scales=scales(
        tuple(recipe for activation, c in CUTOFFS.items() for recipe in _activated(activation, c)),
        {
            "classes": 10,
            "claims": tuple(
                better(
                    f"{name}, Farkas",
                    f"{name}, standard",
                    f"With {name} Farkas layers lower the error (cutoff {c:g})",
                    ours=True,
                )
                for name, c in CUTOFFS.items()
            ),
        },
    ),
    departs=(
        "The paper names the activations and shows no numbers. Cutoffs: 0 where the slope is 0 below it or changes there, "
        "-2 for ELU and SELU, whose slope is 14% of its largest there (ELU). Conditions are the corrected ones. The network "
        "is ours; paper: the same on CIFAR-10, 200 epochs."
    ),
)

# The promise itself

SHAPES = {
    "4 x 64": replace(FASHION, family="standard"),
    "4 x 64, rate 0.05": replace(FASHION, family="standard", lr=0.05),
    "8 x 32": replace(FASHION, family="standard", widths=(32,) * 8),
    "12 x 8": replace(FASHION, family="standard", widths=(8,) * 12),
}
"""Layers times units."""


def _in_shape(shape: str) -> tuple[Recipe, ...]:
    plain = replace(SHAPES[shape], name=f"{shape}, standard")
    farkas = replace(plain, family="farkas", name=f"{shape}, Farkas sum")
    return plain, farkas, named(farkas, f"{shape}, Farkas mean", aggregate="mean")


def _about_shape(shape: str) -> tuple[dict[str, Any], ...]:
    plain = f"{shape}, standard"
    about_both = tuple(
        claim
        for kind in ("sum", "mean")
        for farkas in [f"{shape}, Farkas {kind}"]
        for claim in (
            about("never_silent", farkas, f"{farkas}: no image ever leaves a layer without active unit", plain),
            about("fewer_dead", farkas, f"{farkas}: fewer dead units than in standard layers", plain, ours=True),
            about("certified", farkas, f"{farkas}: for every image of pixels in [0, 1] each layer has an active unit"),
            better(farkas, plain, f"{farkas}: a lower error than with standard layers", ours=True),
        )
    )
    return *about_both, about("certified", plain, f"{plain}: the same proof for standard layers", ours=True)


DEAD_UNITS = Reproduction(
    name="farkas/dead_units",
    title="Dead units and silent layers while training, and certificates afterwards",
    where="Sections 1 and 3, Theorem 3.2",
    procedure="activity",
    scales=scales(
        tuple(recipe for shape in SHAPES for recipe in _in_shape(shape)),
        LOOK | {"claims": tuple(claim for shape in SHAPES for claim in _about_shape(shape))},
    ),
    departs=(
        "The paper measures none of it, and concludes that no neurons are dead. Networks are ours: an ordinary one, a deep "
        "one, and one as deep and narrow as those that are born dead; torch's own start, no norm, rate 0.01 where nothing "
        "else is said. Paper: the same on CIFAR-10, 200 epochs."
    ),
)

# On top of other neurons and starts

GEOMETRIC = replace(FASHION, name="geometric", family="geometric")
FIXUP = replace(
    FASHION, name="ResNet9 with Fixup", family="standard", model="resnet9", widths=(), norm="fixup", scalar_lr=0.1
)
FIXUP = replace(FIXUP, model_options={"width": 8}, fraction=0.2, channels_last=True)


def _at(lr: float) -> tuple[Recipe, ...]:
    """Fixup alone and with Farkas layers of both kinds, at one rate."""
    total = replace(FIXUP, name="Fixup, Farkas (sum)", family="farkas")
    three = (FIXUP, total, replace(total, name="Fixup, Farkas (mean)", neuron_options={"aggregate": "mean"}))
    return tuple(replace(one, name=f"{one.name}, rate {lr:g}", lr=lr) for one in three)


def _about_rate(lr: float, kind: str) -> dict[str, Any]:
    names = (f"Fixup, Farkas ({kind}), rate {lr:g}", f"ResNet9 with Fixup, rate {lr:g}")
    return better(*names, f"Farkas layers ({kind}) lower the error of a Fixup network at rate {lr:g}", ours=True)


FIXUP_RATES = (0.05, 0.01)
WITH_OTHERS = Reproduction(
    name="farkas/with_others",
    title="The promise on top of geometric neurons and of Fixup",
    where="Conclusion",
    procedure="accuracy_table",
    scales=scales(
        (
            GEOMETRIC,
            named(GEOMETRIC, "geometric, closed", closed=True),
            *(recipe for lr in FIXUP_RATES for recipe in _at(lr)),
        ),
        {
            "classes": 10,
            "claims": (
                better("geometric, closed", "geometric", "Closing geometric layers lowers the error", ours=True),
                *(_about_rate(lr, kind) for lr in FIXUP_RATES for kind in ("sum", "mean")),
            ),
        },
    ),
    departs=(
        "The paper says that its layers can be used with other techniques, and tries batch norm and a zero last layer only. "
        "Closed means one unit less and one that balances the others. Small: Fashion-MNIST, ResNet9 (8 channels) on a fifth "
        "of it, at two rates; paper: all on CIFAR-10, 200 epochs."
    ),
)
