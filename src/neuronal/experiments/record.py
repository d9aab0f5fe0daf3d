"""The result of one cell, and how it lies on disk: one small JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from neuronal.core.files import Damaged, read_sealed, set_aside, write_sealed
from neuronal.experiments.recipe import PROTOCOLS, Recipe
from neuronal.names import printable


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
        given = {"data": "", **{field.name: values[field.name] for field in fields(cls) if field.name in values}}
        failure, probes = given["failure"], {name: _PROBES.get(name, object) for name in given["probes"]}
        forms = {**_FORM, "probes": probes} | ({"failure": _FAILURE} if failure else {})
        for name, form in forms.items():
            if not _fits(given[name], form):
                raise ValueError(f"{name} cannot be {str(given[name])[:60]!r}")
        contrast = given["probes"].get("contrast", {"accuracy": (), "multipliers": ()})
        if len(contrast["accuracy"]) != len(contrast["multipliers"]):
            raise ValueError("it has not one accuracy for each contrast")
        if not failure and not {"accuracy", "rmse"} & given["metrics"].keys():
            raise ValueError("it has neither a result nor a failure")
        recipe, epochs = Recipe.from_json(values["recipe"]), tuple(dict(row) for row in given["epochs"])
        return cls(**given | {"recipe": recipe, "epochs": epochs, "failure": Failure(**failure) if failure else None})


ANY = "*"
_PROBES = {
    "contrast": {"multipliers": [float], "accuracy": [float]},
    "zero_image": {"probabilities": [float], "entropy": float, "uniform_entropy": float},
    "dead_units": {"units": float, "dead": float, "layers": ({"name": str, "units": float, "dead": float},)},
}
_FAILURE = {"step": float, "lr": float, "reason": str}
_FORM: dict[str, Any] = {
    "seed": int,
    "metrics": {ANY: float},
    "epochs": ({ANY: float},),
    "seconds": float,
    "step_seconds": float,
    "finished": str,
    "environment": {ANY: str},
    "data": str,
}
"""What pages read of a record: a file with a right checksum may still be somebody else's."""


def _fits(value: Any, form: Any) -> bool:
    """Whether a value of JSON has a form: a type, a list of one form, a tuple of one that may be empty, names with forms.

    ``ANY`` stands for all other names; text has to be printable, and numbers of a size that can be shown.
    """
    if isinstance(form, list | tuple):
        right = isinstance(value, list | tuple) and (len(value) > 0 or isinstance(form, tuple))
        return right and all(_fits(one, form[0]) for one in value)
    if isinstance(form, Mapping):
        right = isinstance(value, Mapping) and form.keys() - {ANY} <= value.keys()
        rest = form.get(ANY, object)
        return right and all(_fits(name, str) and _fits(value[name], form.get(name, rest)) for name in value)
    if form is float:
        return type(value) in (int, float) and abs(value) < 1e300
    return isinstance(value, form) and (form is not str or printable(value) == value)


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
