"""The result of one cell, and how it lies on disk: one small JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from neuronal.core.files import Damaged, read_sealed, set_aside, write_sealed
from neuronal.experiments.recipe import PROTOCOLS, Recipe


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result: the first step whose loss was not finite."""

    step: int
    lr: float
    reason: str


@dataclass(frozen=True)
class Record:
    """What came of training one recipe with one seed.

    ``metrics`` has the test results, ``parameters`` (how many) and, where the recipe asks for the best weights,
    ``best_epoch``, whose they are.
    ``metrics`` and ``probes`` are empty when ``failure`` says why. All but ``seconds``, ``step_seconds``, ``finished``
    and ``environment`` is the same again when the cell is run again on the same machine.
    """

    recipe: Recipe
    seed: int
    metrics: Mapping[str, float]
    epochs: tuple[Mapping[str, float], ...]
    """One row per epoch: ``loss``, ``accuracy``, ``lr`` and, with a holdout, ``holdout_loss``, ``holdout_accuracy``.

    Of more than five classes there is ``holdout_top5``, and ``top5`` among the ``metrics``. Where numbers are predicted
    there is no ``accuracy``, and ``holdout_rmse`` is in their own units.
    """
    probes: Mapping[str, Any]
    failure: Failure | None
    seconds: float
    step_seconds: float
    finished: str
    """When, in UTC."""
    environment: Mapping[str, str]
    data: str = ""
    """Checksum of the data it was trained and tested on; empty in records of before there was one."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; with them, in words, what the choices went by."""
        return {**asdict(self), "recipe": self.recipe.to_json(), "protocol": PROTOCOLS[self.recipe.protocol]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        failure = values["failure"]
        return cls(
            **{field.name: values[field.name] for field in fields(cls) if field.name in values or field.name != "data"}
            | {
                "recipe": Recipe.from_json(values["recipe"]),
                "epochs": tuple(dict(row) for row in values["epochs"]),
                "failure": Failure(**failure) if failure else None,
            }
        )


def cell_name(recipe: Recipe, seed: int) -> str:
    """File name of a cell: readable, and different for recipes that train differently."""
    return f"{recipe.family}-seed{seed}-{recipe.fingerprint()}.json"


def write(record: Record, folder: Path) -> Path:
    """Writes a record to its place; weights that lie there are of another training, and are set aside first."""
    path = folder / cell_name(record.recipe, record.seed)
    with suppress(FileNotFoundError):
        set_aside(path.with_suffix(".safetensors"), "outdated")
    write_sealed(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """The record in the file at ``path``; ``Damaged`` says what is wrong with another file."""
    values = read_sealed(path)
    try:
        return Record.from_json(values)
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise Damaged(f"not a record ({type(wrong).__name__}: {wrong})") from wrong
