"""The result of one cell, and how it lies on disk: one small JSON file, whole or not there at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from neuronal.experiments.recipe import Recipe


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result: the first step whose loss was not finite."""

    step: int
    lr: float
    reason: str


@dataclass(frozen=True)
class Record:
    """What came of training one recipe with one seed.

    ``metrics`` and ``probes`` are empty when ``failure`` says why. All but ``seconds``, ``step_seconds``, ``finished``
    and ``environment`` is the same again when the cell is run again on the same machine.
    """

    recipe: Recipe
    seed: int
    metrics: Mapping[str, float]
    epochs: tuple[Mapping[str, float], ...]
    """One row per epoch: ``loss``, ``accuracy``, ``lr`` and, with a holdout, ``holdout_loss``, ``holdout_accuracy``."""
    probes: Mapping[str, Any]
    failure: Failure | None
    seconds: float
    step_seconds: float
    finished: str
    """When, in UTC."""
    environment: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The record described by ``values``; ``ValueError`` when a field is missing or of the wrong kind."""
        try:
            failure = values["failure"]
            record = cls(
                **{field.name: values[field.name] for field in fields(cls)}
                | {
                    "recipe": Recipe.from_json(values["recipe"]),
                    "epochs": tuple(dict(row) for row in values["epochs"]),
                    "failure": Failure(**failure) if failure else None,
                }
            )
            if failure is None:
                float(record.metrics["accuracy"])
        except (AttributeError, KeyError, TypeError) as wrong:
            raise ValueError(f"not a record ({type(wrong).__name__}: {wrong})") from wrong
        return record


def cell_name(recipe: Recipe, seed: int) -> str:
    """File name of a cell: readable, and different for recipes that train differently."""
    return f"{recipe.family}-seed{seed}-{recipe.fingerprint()}.json"


def write(record: Record, folder: Path) -> Path:
    path = folder / cell_name(record.recipe, record.seed)
    write_whole(path, json.dumps(record.to_json(), indent=1, allow_nan=False) + "\n")
    return path


def read(path: Path) -> Record:
    """The record in the file at ``path``; ``ValueError`` says what is wrong with a damaged one."""
    try:
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError) as wrong:
        raise ValueError(f"not JSON ({wrong})") from wrong


def write_whole(path: Path, text: str) -> None:
    """Puts ``text`` into a temporary file beside ``path`` and renames it: readers see the old file or the new one."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; a result is for everybody the folder is for.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
