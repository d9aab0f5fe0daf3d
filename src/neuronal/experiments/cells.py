"""What a sweep is made of: cells, and the studies, grids and lists that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Self

from neuronal.experiments.recipe import Recipe
from neuronal.names import UnknownName, unknown


@dataclass(frozen=True)
class Cell:
    """One recipe with one seed."""

    recipe: Recipe
    seed: int


@dataclass(frozen=True)
class Study:
    """A recipe repeated with several neurons, and the seeds the recipe names."""

    recipe: Recipe
    families: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.families:
            raise ValueError("a study needs at least one neuron, got none.")
        if len(set(self.families)) < len(self.families):
            raise ValueError(f"a study needs each neuron once, got {', '.join(self.families)}.")

    def variants(self) -> tuple[Recipe, ...]:
        return tuple(replace(self.recipe, family=family) for family in self.families)

    def cells(self) -> tuple[Cell, ...]:
        """Seed by seed, so that after every seed all neurons stand level."""
        return tuple(Cell(variant, seed) for seed in self.recipe.seeds for variant in self.variants())

    def to_json(self) -> dict[str, Any]:
        return {"recipe": self.recipe.to_json(), "families": list(self.families)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(Recipe.from_json(values["recipe"]), tuple(values["families"]))


@dataclass(frozen=True)
class Grid:
    """A recipe with every combination of the values some of its fields are given, and its seeds.

    Args:
        recipe: What is not on an axis.
        axes: Fields of the recipe and their values.
    """

    recipe: Recipe
    axes: tuple[tuple[str, tuple[Any, ...]], ...]

    def __post_init__(self) -> None:
        possible = [
            field.name
            for field in fields(Recipe)
            if field.name not in ("name", "seeds", "model_options", "neuron_options")
        ]
        names = [name for name, _ in self.axes]
        for name, values in self.axes:
            if name not in possible:
                raise UnknownName(unknown("axis of a grid", name, possible))
            if not values or len(set(values)) < len(values):
                raise ValueError(f"axis {name} needs values, each once, got {', '.join(map(str, values)) or 'none'}.")
        if len(set(names)) < len(names):
            raise ValueError(f"a grid needs each axis once, got {', '.join(names)}.")

    def variants(self) -> tuple[Recipe, ...]:
        names = [name for name, _ in self.axes]
        every = product(*(values for _, values in self.axes))
        return tuple(replace(self.recipe, **dict(zip(names, values, strict=True))) for values in every)

    def cells(self) -> tuple[Cell, ...]:
        """Seed by seed, so that after every seed all variants stand level."""
        return tuple(Cell(variant, seed) for seed in self.recipe.seeds for variant in self.variants())

    def to_json(self) -> dict[str, Any]:
        return {"recipe": self.recipe.to_json(), "axes": [[name, list(values)] for name, values in self.axes]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        axes = tuple((name, tuple(_tupled(one) for one in many)) for name, many in values["axes"])
        return cls(Recipe.from_json(values["recipe"]), axes)


@dataclass(frozen=True)
class Listed:
    """Recipes that have no more in common than that they are run together, each with its own seeds."""

    name: str
    recipes: tuple[Recipe, ...]

    def variants(self) -> tuple[Recipe, ...]:
        return self.recipes

    def cells(self) -> tuple[Cell, ...]:
        return tuple(Cell(recipe, seed) for recipe in self.recipes for seed in recipe.seeds)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "recipes": [recipe.to_json() for recipe in self.recipes]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["name"], tuple(Recipe.from_json(recipe) for recipe in values["recipes"]))


Plan = Study | Grid | Listed


def read_plan(values: Mapping[str, Any]) -> Plan:
    """The study, the grid or the list whose JSON this is."""
    if "recipes" in values:
        return Listed.from_json(values)
    return Grid.from_json(values) if "axes" in values else Study.from_json(values)


def _tupled(value: Any) -> Any:
    """A list of JSON as the tuple it was."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
