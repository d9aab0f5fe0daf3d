"""Over learning rates, without batch norm: Table 4 with Figure 3, Figure 5, and sums against means (Section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from neuronal.experiments import Recipe
from neuronal_papers.farkas import networks as nets
from neuronal_papers.farkas.errors import error_table, figures
from neuronal_papers.farkas.networks import AGGREGATES, CIFAR, PUBLISHED, SIZES, TINY, at, farkasnet, named, resnet
from neuronal_papers.farkas.runs import AS_TABLE_1, all_train, difference, lower_error, none_trains, rows_of
from neuronal_papers.judge import Above, Case, Claim, Fact, Result
from neuronal_papers.seeds import Row

# Table 4

TRIED = (0.01, 0.05, 0.1)


def practice(base: Recipe) -> tuple[Recipe, ...]:
    """The four networks; Fixup's of He's layout, which it is about, with the blocks and channels of the others."""
    fixup = replace(base, name="FixUp34", norm="fixup", scalar_lr=0.1)
    fixup = replace(fixup, model="resnet34", model_options=nets.LAYOUTS[34])
    farkas = named(farkasnet(base, 34, "none"), "FarkasNet34", aggregate="mean", zero_last=True)
    return resnet(base, 34, "batch"), resnet(base, 34, "none"), fixup, farkas


def grid(base: Recipe, normalised: Sequence[float]) -> tuple[Recipe, ...]:
    """Each at three rates, with normalised inputs at those named; batch norm at the paper's rate only, both ways."""
    normed, *others = practice(base)
    cells = [(recipe, rate) for recipe in others for rate in TRIED]
    return (
        at(normed, 0.1),
        at(normed, 0.1, scaled=True),
        *(
            at(recipe, rate, scaled=scaled)
            for recipe, rate in cells
            for scaled in ((False, True) if rate in normalised else (False,))
        ),
    )


def at_best_rates(result: Result, other: str) -> list[Case]:
    """FarkasNet34 minus another network, each at its best rate, with inputs as they are and normalised."""
    rows, chance, found = rows_of(result).values(), result["result"]["chance"], []
    for scaling, words in (("unit", "inputs as they are"), ("standardise", "inputs normalised")):
        tried = [
            [row for row in rows if row["name"].startswith(f"{name}, rate") and row["scaling"] == scaling]
            for name in ("FarkasNet34", other)
        ]
        if all(tried):
            best = [max(own, key=lambda row: on_training_images(row, chance)) for own in tried]
            rates = " against ".join(row["name"].split(", rate ")[1].partition(",")[0] for row in best)
            found.append(difference(f"{words}, rates {rates}:", best[0], best[1], chance))
    return found


def on_training_images(row: Row, chance: float) -> float:
    """Accuracy in the last epoch, by which rates are compared; a run that broke down is one at chance."""
    ends = [curve[-1] for seed, curve in row["while_training"].items() if seed in row["accuracy"]]
    return fmean([*ends, *[chance] * (row["seeds"] - len(ends))])


TABLE4 = error_table(
    name="farkas/table4_best_practice",
    title="Best practices without batch norm, over learning rates and normalised inputs",
    where="Table 4, Figure 3",
    scales=nets.scales(
        (at(recipe, 0.05) for recipe in practice(TINY)), nets.shortened(grid(CIFAR, TRIED[1:])), grid(CIFAR, TRIED)
    ),
    claims=(
        lower_error(
            "FarkasNet34 at rate 0.05 has a lower error than FixUp34 and ResNet34 without norm at rate 0.01",
            {
                "FixUp34": ("FarkasNet34, rate 0.05", "FixUp34, rate 0.01"),
                "ResNet34": ("FarkasNet34, rate 0.05", "ResNet34, no norm, rate 0.01"),
            },
        ),
        *(
            Claim(
                f"FarkasNet34 has a lower error than {words}, each at the best of the same rates",
                partial(at_best_rates, other=other),
                Above(),
                beyond_paper=True,
            )
            for other, words in (("ResNet34, no norm", "ResNet34 without norm"), ("FixUp34", "FixUp34"))
        ),
        Fact("FarkasNet34 trains at rate 0.05 without normalised inputs", all_train("FarkasNet34, rate 0.05")),
        Fact("FixUp34 does not train at rate 0.1 unless inputs are normalised", none_trains("FixUp34, rate 0.1")),
        Fact("FixUp34 trains at rate 0.1 with normalised inputs", all_train("FixUp34, rate 0.1, inputs normalised")),
    ),
    figures=partial(figures, by="scaling"),
    criteria=(
        f"{AS_TABLE_1} The best rate is that with the lowest error on training images in the last epoch, a run that broke "
        "down being at chance: no images were held out. Where it is the largest tried, a larger one may be better."
    ),
    reported={
        "ResNet34, batch norm, rate 0.1": {"error": 6.77},
        "ResNet34, no norm, rate 0.01": {"error": 9.18},
        "FixUp34, rate 0.01": {"error": 7.49},
        "FarkasNet34, rate 0.05": {"error": 7.12},
    },
    departs=(
        f"At scale small: {nets.SHORT} epochs with batch norm and {nets.SHORT_PLAIN} without, instead of 200, the rate "
        "cut at the same shares of them; so few epochs favour large rates; inputs are normalised at the two larger "
        "rates only, padding being the mean then. FarkasNet34 has the layout of that of Table 1, but means, and a last "
        "layer of each block that starts at zero, as in the paper. FixUp34 has 5, 5 and 5 blocks of 16 channels at "
        "first, which Fixup's own code calls 32, one bias per channel where that has single numbers, and a tenth of "
        "the rate for scalars; whether the authors had that, or mixup, they do not say. The paper shows one rate for "
        "each, and no normalised inputs; for ResNet34 without norm it has 9.18% here and 9.90% in Table 1."
    ),
)

# Figure 5

FIRST_EPOCHS = 5
"""Of the 60 before the rate is first cut: the paper calls failed what makes no progress in the first five."""


def large(base: Recipe, depth: int) -> tuple[Recipe, ...]:
    farkas = farkasnet(base, depth, "none")
    variants = (named(farkas, f"FarkasNet{depth} {kind}", **options) for kind, options in AGGREGATES.items())
    theirs = named(farkasnet(base, depth, "none", **PUBLISHED), f"FarkasNet{depth} as published", aggregate="mean")
    return tuple(at(r, 0.1) for r in (theirs, *variants, replace(resnet(base, depth, "none"), name=f"ResNet{depth}")))


DEEP_LARGE_LR = error_table(
    name="farkas/deep_large_lr",
    title="101 layers, no norm, a large learning rate",
    where="Figure 5",
    scales=nets.scales(
        large(TINY, 18), large(replace(CIFAR, epochs=FIRST_EPOCHS, schedule="constant"), 101), large(CIFAR, 101)
    ),
    claims=(
        Fact(
            "FarkasNet101 with means trains at rate 0.1 without norm, as published and from torch's own start",
            all_train("FarkasNet101 as published, rate 0.1", "FarkasNet101 mean, rate 0.1"),
        ),
        Fact("ResNet101 does not train at rate 0.1 without norm", none_trains("ResNet101, rate 0.1")),
    ),
    departs=(
        f"At scale small: the first {FIRST_EPOCHS} of 200 epochs, all at the rate with which the paper begins: they show "
        "that a network leaves chance, not that it stays so. With sums as well, which the paper does not show, and as "
        f"published, with the authors' start. {SIZES}"
    ),
)

# Section 3.3

BRIEF = replace(CIFAR, epochs=nets.SHORT_PLAIN)
"""Whatever the depth: whether a network trains at all at a large rate is seen early."""


def aggregated(base: Recipe, *depths: int, rates: Sequence[float] = (0.01, 0.1)) -> tuple[Recipe, ...]:
    return tuple(
        at(named(farkasnet(base, depth, "none"), f"FarkasNet{depth} {kind}", **options), rate)
        for depth in depths
        for kind, options in AGGREGATES.items()
        for rate in rates
    )


SUM_VS_MEAN = error_table(
    name="farkas/sum_vs_mean",
    title="Sum or mean, without norm, at two learning rates",
    where="Section 3.3",
    scales=nets.scales(
        aggregated(TINY, 18), (*aggregated(BRIEF, 18), *aggregated(BRIEF, 50, rates=(0.1,))), aggregated(CIFAR, 18, 50)
    ),
    claims=(
        Fact(
            "FarkasNets do not train at rate 0.1 with sums",
            none_trains("FarkasNet18 sum, rate 0.1", "FarkasNet50 sum, rate 0.1"),
        ),
        Fact(
            "FarkasNets train at rate 0.1 with means",
            all_train("FarkasNet18 mean, rate 0.1", "FarkasNet50 mean, rate 0.1"),
            beyond_paper=True,
        ),
    ),
    departs=(
        "The paper believes that large rates need the mean, and compares nothing; that these keep the promise is no "
        f"matter of ReLU's homogeneity, as it says, but of other multipliers. At scale small: {nets.SHORT_PLAIN} epochs "
        "instead of 200, the rate cut at the same shares of them, with 50 layers the large rate only; the networks "
        "of Table 1."
    ),
)
