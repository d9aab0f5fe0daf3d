"""The result of one cell, and how it lies on disk: one small JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from neuronal.core.files import Damaged, read_sealed, set_aside, write_sealed
from neuronal.core.records import Json, from_json, record_to_json
from neuronal.experiments.recipe import PROTOCOLS, Recipe
from neuronal.probes.boundary_distance import BoundaryDistance
from neuronal.probes.contrast import Contrast
from neuronal.probes.curvature import Curvature
from neuronal.probes.dead_units import DeadUnits
from neuronal.probes.hinge_motion import Motion
from neuronal.probes.jacobian import Jacobian
from neuronal.probes.zero_image import ZeroImage

FOUND: dict[str, type] = {
    "contrast": Contrast,
    "zero_image": ZeroImage,
    "dead_units": DeadUnits,
    "jacobian": Jacobian,
    "curvature": Curvature,
    "boundary_distance": BoundaryDistance,
    "hinge_motion": Motion,
}
"""What each probe finds."""
Probe = TypeVar("Probe")


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
    """By name, records such as :class:`neuronal.probes.contrast.Contrast`."""
    failure: Failure | None
    seconds: float
    step_seconds: float
    finished: str
    """When, in UTC."""
    environment: Mapping[str, str]
    data: str = ""
    """Checksum of the data it was trained and tested on; empty in records of before there was one."""

    def probe(self, kind: type[Probe]) -> Probe:
        """What a probe found, by its type; ``KeyError`` where the recipe does not ask for it."""
        for found in self.probes.values():
            if isinstance(found, kind):
                return found
        raise KeyError(kind.__name__)

    def to_json(self) -> Json:
        """Plain values; with them, in words, what the choices went by."""
        return {**record_to_json(self), "protocol": PROTOCOLS[self.recipe.protocol]}

    @classmethod
    def from_json(cls, values: Json) -> Self:
        # Its own seed alone, not all that were trained beside it: reading many takes no longer for each.
        record = from_json(cls, {**values, "recipe": {**values["recipe"], "seeds": [values["seed"]]}})
        if not record.failure and not {"accuracy", "rmse"} & record.metrics.keys():
            raise ValueError("it has neither a result nor a failure")
        probes: dict[str, object] = {name: from_json(FOUND[name], one) for name, one in record.probes.items()}
        return replace(record, probes=probes)


def cell_name(recipe: Recipe, seed: int) -> str:
    """File name of a cell: readable, and different for recipes that train differently."""
    return f"{recipe.family}-seed{seed}-{recipe.fingerprint()}.json"


def write(record: Record, folder: Path) -> Path:
    """Writes a record to its place; weights that lie there are of another training, and are set aside first."""
    path = folder / cell_name(record.recipe, record.seed)
    with suppress(FileNotFoundError):
        set_aside(path.with_suffix(".safetensors"), "outdated")
    # See Record.from_json.
    write_sealed(path, replace(record, recipe=replace(record.recipe, seeds=(record.seed,))).to_json())
    return path


def read(path: Path) -> Record:
    """The record in the file at ``path``; ``Damaged`` says what is wrong with another file."""
    values = read_sealed(path)
    try:
        return Record.from_json(values)
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise Damaged(f"not a record ({type(wrong).__name__}: {wrong})") from wrong
