"""Many cells, each trained once: what is finished on disk is not trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from neuronal.experiments.cost import Costs, measure
from neuronal.experiments.environment import environment
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record, cell_name, read, write
from neuronal.experiments.run import check, run
from neuronal.experiments.storage import Damaged, make_writable, read_sealed, set_aside, write_sealed
from neuronal.train.engine import is_first_process
from neuronal.train.progress import Epoch


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


class Watch:
    """Is told what happens during a sweep; does nothing. A progress display overrides what it shows."""

    def sweep_started(self, cells: Sequence[Cell]) -> None: ...

    def cell_started(self, cell: Cell) -> None: ...

    def epoch_ended(self, cell: Cell, epoch: Epoch) -> None: ...

    def cell_ended(self, record: Record, *, reused: bool) -> None: ...

    def set_aside(self, file: Path, reason: str) -> None: ...


def sweep(study: Study, folder: Path, *, fresh: bool = False, watch: Watch | None = None) -> tuple[Record, ...]:
    """Runs every cell of ``study`` that has no record under ``folder`` yet; returns the records of all, in order.

    A record is written the moment its cell ends, so stopping at any time loses at most the cell in training.

    Args:
        study: What to run; every name in it is checked before the first cell is trained.
        folder: Made if need be; ``study.json``, ``costs.json`` and ``cells/`` go there.
        fresh: Train everything again.
        watch: Told of the progress.
    """
    watch = watch or Watch()
    prepare(study, folder)
    write_sealed(folder / "study.json", study.to_json())
    cells = study.cells()
    watch.sweep_started(cells)
    records = []
    for cell in cells:
        record = None if fresh else finished(cell, folder, watch)
        reused = record is not None
        if record is None:
            watch.cell_started(cell)
            record = run(cell.recipe, cell.seed, on_epoch=partial(watch.epoch_ended, cell))
            if is_first_process():
                write(record, folder / "cells")
        watch.cell_ended(record, reused=reused)
        records.append(record)
    return tuple(records)


def prepare(study: Study, folder: Path) -> None:
    """Finds out before any training what would go wrong: ``ValueError`` for the study, ``OSError`` for the folder."""
    for variant in study.variants():
        check(variant)
    for place in (folder, folder / "cells"):
        make_writable(place)


def read_study(folder: Path) -> Study:
    """The study whose records lie in ``folder``; ``ValueError`` if there is none."""
    file = folder / "study.json"
    if not file.is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no study.json. neuronal compare makes one.")
    try:
        return Study.from_json(read_sealed(file))
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"{file} is damaged: {wrong}. The neuronal compare of that run writes it anew.") from wrong


def finished(cell: Cell, folder: Path, watch: Watch) -> Record | None:
    """The record of ``cell``, if there is a sound one; a damaged or foreign file is renamed so that nothing is lost."""
    path = folder / "cells" / cell_name(cell.recipe, cell.seed)
    if not path.exists():
        return None
    try:
        record = read(path)
        same = replace(record.recipe, name=cell.recipe.name, seeds=cell.recipe.seeds) == cell.recipe
        if not same or record.seed != cell.seed:
            raise Damaged("it holds the record of another cell")
    except Damaged as damage:
        watch.set_aside(set_aside(path), str(damage))
        return None
    return record


def costs(study: Study, folder: Path, *, fresh: bool = False) -> Costs:
    """Step times of the study's neurons, measured together once on a machine and kept in ``costs.json``."""
    path = folder / "costs.json"
    if path.exists() and not fresh:
        with suppress(KeyError, TypeError, ValueError):
            known = Costs.from_json(read_sealed(path))
            if known.environment == environment() and all(known.of(variant) for variant in study.variants()):
                return known
    measured = measure(study.variants())
    write_sealed(path, measured.to_json())
    return measured
