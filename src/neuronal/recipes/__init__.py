"""Recipes and reproductions by name: data only, one file per subject."""

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction
from neuronal.recipes import farkas, first_look, zero_bias

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (first_look.DIGITS, first_look.LEVY)}
REPRODUCTIONS: dict[str, Reproduction] = {one.name: one for one in (*zero_bias.REPRODUCTIONS, *farkas.REPRODUCTIONS)}
PAPERS: dict[str, str] = {"zero_bias": zero_bias.ABOUT, "farkas": farkas.ABOUT}
"""Title and source of each paper, by the first part of its reproductions' names."""
