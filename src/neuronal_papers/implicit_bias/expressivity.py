"""Accuracy against the number of parameters."""

from __future__ import annotations

from dataclasses import replace

from neuronal.experiments import Recipe
from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.implicit_bias.accuracy_curve import figures, measure, tables
from neuronal_papers.implicit_bias.data_fraction import leads
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
from neuronal_papers.judge import Above, Claim


def _widths(recipe: Recipe, *widths: int) -> tuple[Recipe, ...]:
    sizes = [{"depth": dict(recipe.model_options)["depth"], "width": width} for width in widths]
    return pair(*(replace(recipe, name=f"{recipe.name}, {s['width']} channels", model_options=s) for s in sizes))


WIDTHS = (1, 2, 3, 5, 8)
SIZE = dict(SHORT.model_options)
AXIS = {"axis": "parameters"}
EXPRESSIVITY = Reproduction(
    name="implicit_bias/expressivity",
    title="Accuracy against the number of parameters",
    where="Figure 6",
    scales={
        "smoke": Setting(_widths(replace(DIGITS, fraction=1.0), 1, 2), AXIS),
        "small": Setting(_widths(SHORT, *WIDTHS), {**AXIS, **LARGER_RATES, "tuned_at": {"model_options": SIZE}}),
        "paper": Setting(
            (*_widths(FASHION, *WIDTHS), *_widths(SVHN, *WIDTHS), *_widths(CIFAR, 4, 8, 16)), {**AXIS, **RATES}
        ),
    },
    measure=measure,
    # Couplings are parameters too, so networks of one name are compared.
    claims=(Claim("Implicit bias is more accurate than the standard neuron at the same size", leads, Above()),),
    tables=tables,
    figures=figures,
    criteria="Networks with the same number of channels are compared.",
    departs=(
        f"{CHOSEN} Sizes are made by the number of channels, as in the paper; a coupling per layer is learnt besides. {CUT} "
        f"The rate is chosen with {SIZE['width']} channels and used with every number of them. {LEARNT_ALONE}"
    ),
)
