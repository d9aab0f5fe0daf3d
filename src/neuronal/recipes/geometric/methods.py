"""The methods Chen & Ge compare (arXiv:2305.15912): neuron, norm and published rate of each."""

from dataclasses import replace

from neuronal.experiments.recipe import Recipe

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""For every method: the paper's list (Appendix C), and 1, as several do best at its end."""
TEN = tuple(range(10))
PARTS = {
    "SP": ("standard", "none"),
    "WN": ("standard", "weight_alone"),
    "WN+MBN": ("standard", "weight"),
    "BN": ("standard", "batch"),
    "GmP": ("geometric", "none"),
    "GmP+IMN": ("geometric", "input_mean"),
}
"""Neuron and norm of the paper's methods."""
HALF = (
    "Units of GmP start as the authors' code has them: from Glorot's weights, with directions in the half of the space "
    "where the last coordinate is positive and their norms as scales, where Section 4.3 has scales of 1."
)
"""What is the same wherever networks start as published."""
FOUR = ("SP", "WN", "BN", "GmP")


def by(recipe: Recipe, *methods: str, rates: tuple[float, float] = (0.01, 0.1)) -> tuple[Recipe, ...]:
    """The recipe by each method; ``rates`` are the published ones, of the others and of GmP."""
    return tuple(
        replace(
            recipe,
            name=f"{recipe.name} {method}",
            family=PARTS[method][0],
            norm=PARTS[method][1],
            lr=rates["GmP" in method],
            model_options=dict(recipe.model_options) | ({"outside": True} if "GmP" in method else {}),
        )
        for method in methods
    )
