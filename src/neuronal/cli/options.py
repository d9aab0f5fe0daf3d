"""What is written on the command line: options that several commands share, and the values in their words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuronal.cli.errors import fail
from neuronal.core.files import below, parse_json
from neuronal.core.records import Json

if TYPE_CHECKING:
    from neuronal.experiments.recipe import Recipe

__all__ = ["AsJson", "Cluster", "Out", "Workers", "whole_numbers"]

Workers = Annotated[int | None, typer.Option(help="Processes at a time; one per core if left out.")]
Threads = Annotated[int, typer.Option(help="Threads of each process.")]
Cluster = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler, such as tcp://host:8786, whose workers do it instead.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
ModelOption = Annotated[list[str] | None, typer.Option(help="An option of the model, such as width=32; once for each.")]
Out = Annotated[Path, typer.Option(help="Folder that holds the runs.")]


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """``0,1,2`` and ``0-2`` both mean 0, 1, 2."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            fail(f"--{option} needs whole numbers such as 0,1,2 or 0-9, got {text!r}.", 2)
        many = range(int(first), int(last or first) + 1)
        if len(numbers) + int(last or first) - int(first) >= 10_000:
            fail(f"--{option} takes at most 10,000 numbers, got {text!r}.", 2)
        numbers += many
    return tuple(numbers)


def grid_of(base: Any, words: Sequence[str], name: str | None, option: str = "grid") -> Any:
    """The grid that ``field=value,value`` words span over a recipe; ``seeds`` are the recipe's own."""
    from neuronal.experiments.cells import Grid
    from neuronal.nn.families import family

    kinds = {field.name: field.type for field in fields(base)}
    axes: list[tuple[str, tuple[Any, ...]]] = []
    seeds_given = False
    for word in words:
        field, equals, text = word.partition("=")
        field = {"seed": "seeds", "neuron": "family", "neurons": "family"}.get(field, field)
        if not equals or not text:
            raise ValueError(f"--{option} needs field=value, got {word!r}.")
        if field == "model_options":
            raise ValueError("model options are given one by one: --model-option name=value.")
        if field == "seeds":
            if seeds_given:
                raise ValueError(f"--{option} seed is given twice. Give all seeds at once: seed=0-4,7.")
            seeds_given = True
            base = replace(base, seeds=whole_numbers(option, text))
            continue
        kind = str(kinds.get(field, "str"))
        try:
            values: tuple[Any, ...]
            if kind == "tuple[str, ...]":
                values = (tuple(text.split(",")),)
            elif kind.startswith("tuple"):
                # A list of numbers is one value.
                values = (tuple(_number(one) for one in text.split(",")),)
            else:
                read: dict[str, Callable[[str], Any]] = {"float": float, "int": int, "bool": _truth}
                values = tuple(read.get(kind, str)(one) for one in text.split(","))
        except (ValueError, KeyError) as odd:
            needed = "true or false" if kind == "bool" else "numbers"
            raise ValueError(f"--{option} {field} needs {needed}, got {text!r}.") from odd
        axes.append((field, tuple(family(one).name for one in values) if field == "family" else values))
    return Grid(replace(base, name=below(f"{base.name}-grid" if name is None else name)), tuple(axes))


def _number(word: str) -> Any:
    """``4`` and ``0.5``; neither lists nor words."""
    value = parse_json(word)
    if type(value) not in (int, float):
        raise ValueError(word)
    return value


def _truth(word: str) -> bool:
    return {"true": True, "false": False}[word.lower()]


def with_model_options(recipe: Recipe, words: Sequence[str] | None) -> Recipe:
    """The recipe with the options of ``--model-option`` beside its own."""
    further = named_values(words or [], "model-option")
    return replace(recipe, model_options={**dict(recipe.model_options), **further})


def named_values(words: Sequence[str], option: str = "option") -> Json:
    """Options given as name=value; a value that is JSON is taken as such, any other as text."""
    found: Json = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"--{option} needs name=value, got {word!r}.")
        try:
            found[name] = parse_json(value)
        except ValueError:
            found[name] = value
    return found
