"""Farkas layers with other one-sided activations, which the paper names (Section 3.2) and does not try."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.farkas.errors import error_table
from neuronal_papers.farkas.runs import differences
from neuronal_papers.farkas.small_networks import AGGREGATES, BEST_RATE, FASHION, TUNED, named, scales
from neuronal_papers.judge import Above, Claim

CUTOFFS = {"relu": 0.0, "smooth_relu": 0.0, "leaky_relu": 0.0, "elu": -2.0, "selu": -2.0}


def activated(activation: str, cutoff: float) -> tuple[Recipe, ...]:
    plain = replace(named(FASHION, f"{activation}, standard", activation=activation), family="standard")
    return plain, *(
        named(FASHION, f"{activation}, Farkas {kind}", activation=activation, cutoff=cutoff, **options)
        for kind, options in AGGREGATES.items()
    )


ACTIVATIONS = error_table(
    name="farkas/activations",
    title="Other one-sided activations, with their cutoffs",
    where="Section 3.2",
    scales=scales(tuple(recipe for name, cutoff in CUTOFFS.items() for recipe in activated(name, cutoff)), TUNED),
    claims=tuple(
        Claim(
            f"Farkas layers with {kind}s lower the error whatever the activation",
            differences(
                {
                    f"{name} (cutoff {c:g})": (f"{name}, Farkas {kind}", f"{name}, standard")
                    for name, c in CUTOFFS.items()
                }
            ),
            Above(),
            beyond_paper=True,
        )
        for kind in AGGREGATES
    ),
    departs=(
        "The paper names the activations and shows no numbers. Cutoffs: 0 where the slope is 0 below it or changes "
        "there, -2 for ELU and SELU, whose slope is 14% of its largest there (ELU). Conditions are the corrected "
        "ones: with a cutoff below 0 the last unit starts below it, and is there only for inputs that leave all others "
        f"below it, too. The last bias is ours, a softplus with a margin of 0.001. The network is ours. {BEST_RATE} "
        "At scale paper: the same on CIFAR-10, 200 epochs."
    ),
)
