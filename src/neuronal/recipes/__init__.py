"""Recipes by name: data only, one file per subject."""

from neuronal.experiments.recipe import Recipe
from neuronal.recipes import first_look

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (first_look.DIGITS, first_look.LEVY)}
