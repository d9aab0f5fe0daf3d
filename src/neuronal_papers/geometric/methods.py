"""The methods Chen & Ge compare: neuron, norm and published rate of each, and how their results are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from neuronal.experiments import Recipe
from neuronal.report import Column
from neuronal_papers.seeds import with_error

Row = Mapping[str, Any]
"""What a result says of one recipe with all its seeds."""


class Method(NamedTuple):
    """Neuron and norm of a method, and what its short name stands for."""

    neuron: str
    norm: str
    words: str


METHODS = {
    "SP": Method("standard", "none", "standard units"),
    "WN": Method("standard", "weight_alone", "weight norm"),
    "WN+MBN": Method("standard", "weight", "weight norm with mean-only batch norm"),
    "BN": Method("standard", "batch", "batch norm"),
    "GmP": Method("geometric", "none", "geometric units"),
    "GmP+IMN": Method("geometric", "input_mean", "geometric units with input mean norm"),
}
FOUR = ("SP", "WN", "BN", "GmP")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""For every method: the paper's list (Appendix C), and 1, as several do best at its end."""
TUNING = {"rates": RATES, "holdout": 0.2, "tuning_seeds": 10}
SMOKE = TUNING | {"rates": (0.01, 0.1), "tuning_seeds": 1}
SHALLOW = Recipe(
    name="",
    model="mlp1",
    model_options={"start": "glorot"},
    holdout=0.0,
    protocol="published",
    optim="adam",
    epochs=5000,
    cut_after=50,
    stop_after=100,
    seeds=tuple(range(10)),
    probes=(),
)
"""What the authors' networks with one hidden layer have in common."""
HALF = (
    "Units of GmP start as the authors' code has them: from Glorot's weights, with directions in the half of the space "
    "where the last coordinate is positive and their norms as scales, where Section 4.3 has scales of 1."
)
"""What is the same wherever networks start as published."""
TUNED = "Weak: rates are tuned with some of the seeds that are reported, for every method alike, on held-out data."
"""What is weak wherever both protocols are measured."""
UNITS = {"rmse": (1.0, ".3f"), "accuracy": (100.0, ".2f"), "top5": (100.0, ".2f")}
"""Factor and format a measure is written with."""


def by(
    recipe: Recipe, *methods: str, rates: tuple[float, float] = (0.01, 0.1), outside: bool = True
) -> tuple[Recipe, ...]:
    """The recipe by each method.

    ``rates`` are the published ones, of the others and of GmP; ``outside`` is where units of GmP have their scale.
    """
    return tuple(
        replace(
            recipe,
            name=f"{recipe.name} {method}",
            family=METHODS[method].neuron,
            norm=METHODS[method].norm,
            lr=rates["GmP" in method],
            model_options=dict(recipe.model_options) | ({"outside": True} if outside and "GmP" in method else {}),
        )
        for method in methods
    )


def method_of(recipe: Recipe) -> str:
    """The paper's name of the recipe's neuron and norm; the recipe's own where it is none of the paper's methods."""
    names = {(one.neuron, one.norm): name for name, one in METHODS.items()}
    return names.get((recipe.family, recipe.norm), recipe.name)


def legend(rows: Iterable[Row]) -> str:
    """What the short names of the rows' methods stand for."""
    return ", ".join(f"{name} {METHODS[name].words}" for name in dict.fromkeys(row["method"] for row in rows))


def mean_of(row: Row) -> str | None:
    """The mean of a row with its standard error; nothing where all seeds failed."""
    if "estimate" not in row:
        return None
    return with_error(row["estimate"]["mean"], row["estimate"]["standard_error"], *UNITS[row.get("measure", "rmse")])


DATA, METHOD = Column("data", "data", is_text=True), Column("method", "method", is_text=True)
RATE, TEST = Column("rate", "rate", "g"), Column("test", mean_of)
RESULT = (METHOD, RATE, TEST)
FAILED = Column("failed", lambda row: len(row["failed"]))
