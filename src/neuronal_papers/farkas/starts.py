"""Table 1 without batch norm, with what it leaves out: He's start, and a learning rate tuned for every network."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Setting
from neuronal_papers.farkas.errors import AS_TABLE_1, error_table, lower_error
from neuronal_papers.farkas.networks import CIFAR, TINY, farkasnet, named, resnet

DEPTHS = (18, 34)
KINDS = {"usual": "torch's start", "he": "He's start"}
EPOCHS, TUNING_EPOCHS = 60, 20


def both_starts(base: Recipe, *depths: int) -> tuple[Recipe, ...]:
    """ResNets and FarkasNets of equal size without norm, from either start."""
    networks = [make(base, depth, "none") for depth in depths for make in (resnet, farkasnet)]
    return tuple(
        named(one, f"{one.name.partition(',')[0]}, {words}", start=start)
        for one in networks
        for start, words in KINDS.items()
    )


def pairs(*starts: str) -> dict[str, tuple[str, str]]:
    """Names of the FarkasNet and the ResNet of each depth and start."""
    return {
        f"{depth} layers, {KINDS[start]}": (f"FarkasNet{depth}, {KINDS[start]}", f"ResNet{depth}, {KINDS[start]}")
        for start in starts
        for depth in DEPTHS
    }


TUNED = {"classes": 10, "rates": (0.003, 0.01, 0.03, 0.1), "tuning_seeds": (100,)}
AT_HOLDOUT = {"holdout": 0.1, "epochs": TUNING_EPOCHS}
FEW = {"classes": 10, "rates": (0.01, 0.1), "tuning_seeds": (100,), "tuned_at": {"holdout": 0.5}}
LOWER = "Without batch norm FarkasNets have a lower error than ResNets, at equal size, each at a rate tuned for it"
STARTS = error_table(
    name="farkas/starts",
    title="Errors on CIFAR-10 without batch norm: two starts, a rate tuned for each network",
    where="Table 1, right half",
    scales={
        "smoke": Setting(tuple(named(one, one.name, width=8) for one in both_starts(TINY, 18)), FEW),
        "paper": Setting(both_starts(replace(CIFAR, epochs=EPOCHS), *DEPTHS), TUNED | {"tuned_at": AT_HOLDOUT}),
    },
    claims=(
        lower_error(f"{LOWER}, from torch's start", pairs("usual")),
        lower_error(f"{LOWER}, from He's start", pairs("he"), beyond_paper=True),
    ),
    criteria=f"{AS_TABLE_1} Rates are chosen by held-out training images after {TUNING_EPOCHS} epochs, by one seed.",
    reported={
        "ResNet18, torch's start": {"error": 12.51},
        "ResNet34, torch's start": {"error": 9.90},
        "FarkasNet34, torch's start": {"error": 9.45},
    },
    departs=(
        f"{EPOCHS} epochs instead of 200, the rate cut at the same shares of them; the paper has one rate, 0.01, for all. "
        "Networks and training are those of Table 1. He's start has normal weights for the fan out and no biases, in a "
        "FarkasNet for the free units."
    ),
)
