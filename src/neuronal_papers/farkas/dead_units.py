"""Dead units and silent layers while training, and certificates afterwards."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.farkas.activity import activity_table, all_certified, fewer_dead, never, none_dead
from neuronal_papers.farkas.runs import differences
from neuronal_papers.farkas.small_networks import AGGREGATES, FASHION, LOOK, named, scales
from neuronal_papers.judge import Above, Claim, Fact

SHAPES = {
    "4 x 64": replace(FASHION, family="standard"),
    "4 x 64, rate 0.05": replace(FASHION, family="standard", lr=0.05),
    "8 x 32": replace(FASHION, family="standard", widths=(32,) * 8),
    "12 x 8": replace(FASHION, family="standard", widths=(8,) * 12),
}
"""Layers times units."""
PLAIN = tuple(f"{shape}, standard" for shape in SHAPES)
CLOSED = tuple(f"{shape}, Farkas {kind}" for kind in AGGREGATES for shape in SHAPES)
PAIRS = {
    f"{shape}, {kind}": (f"{shape}, Farkas {kind}", f"{shape}, standard") for kind in AGGREGATES for shape in SHAPES
}


def in_shape(shape: str) -> tuple[Recipe, ...]:
    plain = replace(SHAPES[shape], name=f"{shape}, standard")
    farkas = replace(plain, family="farkas")
    return plain, *(named(farkas, f"{shape}, Farkas {kind}", rule="max", **how) for kind, how in AGGREGATES.items())


DEAD_UNITS = activity_table(
    name="farkas/dead_units",
    title="Dead units and silent layers while training, and certificates afterwards",
    where="Sections 1 and 3, Theorem 3.2",
    scales=scales(tuple(recipe for shape in SHAPES for recipe in in_shape(shape)), LOOK),
    claims=(
        Fact(
            "No layer of a standard network is off on every image (the paper: unlikely)",
            never("dead_layers", PLAIN),
        ),
        Fact("No image leaves a Farkas layer without active unit", never("silent", CLOSED, PLAIN)),
        Fact("Every Farkas layer has an active unit for every image of pixels in [0, 1]", all_certified(CLOSED, PLAIN)),
        Fact("Farkas layers ensure that no neurons are dead (Conclusion)", none_dead),
        Claim(
            "Farkas layers have fewer dead units than standard ones",
            fewer_dead(PAIRS),
            Above(),
            unit="points fewer units dead at the end",
            beyond_paper=True,
        ),
        Claim("Farkas layers have a lower error than standard ones", differences(PAIRS), Above(), beyond_paper=True),
    ),
    departs=(
        "The paper measures none of it, and concludes that no neurons are dead. Networks are ours: an ordinary one, "
        "a deep one, and one as deep and narrow as those that are born dead, fully connected; torch's own start, no "
        "norm, one rate of 0.01 where nothing else is said, the paper's last bias. Standard networks were tried neither "
        "with He's start nor at larger rates, with which deep ones may well train. Of FarkasNets the promise is a law that "
        "is tested (tests/models/test_farkasnet.py), and not measured here. At scale paper: the same on CIFAR-10, 200 "
        "epochs."
    ),
)
