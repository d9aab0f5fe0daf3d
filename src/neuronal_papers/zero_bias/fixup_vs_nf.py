"""Section 2.4: both ways to leave batch norm out of a ResNet, Fixup and normaliser-free."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.judge import Above, Case, Claim, Result
from neuronal_papers.zero_bias.networks import CIFAR_RESNET18, SMALL_RESNET18, less, smoke
from neuronal_papers.zero_bias.table1 import FLAT, FLATNESS, at_contrast, figures, measure, rows_of, tables

NARROW_RESNET9 = replace(smoke(SMALL_RESNET18), name="ResNet9", model="resnet9", model_options={"width": 8}, crop=1)


def _norms(recipe: Recipe) -> tuple[Recipe, ...]:
    """Both ways, everything else the same; without biases."""
    both = ("fixup", "nf")
    return tuple(replace(recipe, name=f"{recipe.name}, {norm}", norm=norm, family="zero_bias") for norm in both)


def _ahead(result: Result) -> list[Case]:
    """Accuracy of normaliser-free networks less that of Fixup's, at full contrast."""
    fixup, nf = (at_contrast(0, row, result) for row in rows_of(result))
    return [less("", nf, fixup)]


FIXUP_OR_NF = Reproduction(
    name="zero_bias/fixup_vs_nf",
    title="Two scale-invariant ResNets: Fixup and normaliser-free",
    where="Section 2.4",
    scales={
        "smoke": Setting(_norms(NARROW_RESNET9)),
        "small": Setting(_norms(SMALL_RESNET18)),
        "paper": Setting(_norms(CIFAR_RESNET18)),
    },
    measure=measure,
    claims=(
        FLATNESS,
        Claim(
            "At equal budget normaliser-free networks are more accurate than Fixup's",
            _ahead,
            Above(),
            beyond_paper=True,
        ),
    ),
    tables=tables,
    figures=figures,
    criteria=f"Accuracy does not depend on contrast if it changes by at most {FLAT:g} points.",
    departs=(
        "The paper names both ways and compares neither. Budget, learning rate and changes of images are the same for both: "
        "those of Table 1, which are Fixup's own; gradients are not clipped. Small: CIFAR-10, 20 epochs and batches of 256; "
        "Fixup's networks are those of Table 1."
    ),
)
