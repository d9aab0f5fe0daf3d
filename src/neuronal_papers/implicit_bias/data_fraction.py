"""Accuracy against the fraction of training data."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.implicit_bias.accuracy_curve import both, figures, measure, tables
from neuronal_papers.implicit_bias.compared import at
from neuronal_papers.implicit_bias.networks import (
    CHOSEN,
    CIFAR,
    CUT,
    DIGITS,
    FASHION,
    LARGER_RATES,
    LEARNT_ALONE,
    RATES,
    SHORT,
    SVHN,
    pair,
)
from neuronal_papers.judge import Above, Case, Claim, Result, paired


def _fractions(recipe: Recipe, *shares: float) -> tuple[Recipe, ...]:
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% of the data", fraction=s) for s in shares))


def leads(result: Result) -> list[Case]:
    """Accuracy minus the standard neuron's with the same data, in points."""
    found = both(result, at("accuracy"))
    return [Case(one.label, paired(one.own, one.standard, 100), note=one.note) for one in found]


def against_all(result: Result) -> list[Case]:
    """Accuracy with less data minus the standard neuron's with all of it, in points."""
    found = both(result, at("accuracy"), "fraction")
    whole = {one.data: one.standard for one in found if one.x == 1}
    return [
        Case(one.label, paired(one.own, whole[one.data], 100), note=one.note)
        for one in found
        if one.x < 1 and one.data in whole
    ]


SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
AXIS = {"axis": "fraction of the training data"}
DATA_FRACTION = Reproduction(
    name="implicit_bias/data_fraction",
    title="Accuracy against the fraction of training data",
    where="Figure 3",
    scales={
        "smoke": Setting(_fractions(replace(DIGITS, fraction=1.0), 0.1, 0.5), AXIS),
        "small": Setting(_fractions(SHORT, *SHARES), {**AXIS, **LARGER_RATES, "tuned_at": {"fraction": 1.0}}),
        "paper": Setting(
            (*_fractions(FASHION, *SHARES), *_fractions(SVHN, *SHARES), *_fractions(CIFAR, *SHARES)),
            {**AXIS, **RATES},
        ),
    },
    measure=measure,
    claims=(
        Claim(
            "With some share of the training data, implicit bias is as accurate as the standard neuron with all of it",
            against_all,
            Above(),
            needs="some",
        ),
        Claim("Implicit bias is more accurate than the standard neuron with the same data", leads, Above()),
    ),
    tables=tables,
    figures=figures,
    criteria="Fewer data suffice if the accuracy with them is above the standard neuron's with all.",
    departs=(
        f"{CHOSEN} Epochs are the same for every share, so a smaller one has fewer steps. {CUT} The rate is chosen with "
        f"all of the data and used with every share of them. {LEARNT_ALONE}"
    ),
)
