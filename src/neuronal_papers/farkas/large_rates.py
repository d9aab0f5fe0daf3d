"""How large a learning rate networks without batch norm bear: Figure 5 and Section 3.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Setting
from neuronal_papers.farkas import networks as nets
from neuronal_papers.farkas.errors import error_table
from neuronal_papers.farkas.networks import CIFAR, PUBLISHED, SIZES, TINY, at, farkasnet, resnet
from neuronal_papers.farkas.runs import all_train, differences, none_trains
from neuronal_papers.farkas.small_networks import AGGREGATES, named
from neuronal_papers.judge import Claim, Fact, Within

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
    scales={
        "smoke": Setting(tuple(map(nets.small_enough, large(TINY, 18))), {"classes": 10}),
        "small": Setting(large(replace(CIFAR, epochs=FIRST_EPOCHS, schedule="constant"), 101), {"classes": 10}),
        "paper": Setting(large(CIFAR, 101), {"classes": 10}),
    },
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
# Points of error; as for the pairs of Table 1.
SIMILAR = 1.0


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
    scales={
        "smoke": Setting(tuple(map(nets.small_enough, aggregated(TINY, 18))), {"classes": 10}),
        "small": Setting((*aggregated(BRIEF, 18), *aggregated(BRIEF, 50, rates=(0.1,))), {"classes": 10}),
        "paper": Setting(aggregated(CIFAR, 18, 50), {"classes": 10}),
    },
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
        Claim(
            f"At rate 0.01 sum and mean are alike (within {SIMILAR:g} point)",
            differences(
                {f"{n} layers": (f"FarkasNet{n} mean, rate 0.01", f"FarkasNet{n} sum, rate 0.01") for n in (18, 50)}
            ),
            Within(SIMILAR),
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
