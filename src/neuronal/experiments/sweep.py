"""Many cells, each trained once: what is finished on disk is not trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from neuronal.core.files import Damaged, make_writable, read_sealed, set_aside, write_sealed
from neuronal.core.records import from_json, to_json
from neuronal.data.catalogue import load
from neuronal.experiments.cells import Cell, Grid, Plan, Study, read_plan
from neuronal.experiments.cost import Costs, measure
from neuronal.experiments.engine import Engine, InTurn, forget
from neuronal.experiments.environment import environment
from neuronal.experiments.record import Record, cell_name, read
from neuronal.experiments.run import check
from neuronal.train.engine import from_first, is_first_process
from neuronal.train.progress import Epoch

__all__ = ["Cell", "Grid", "Study", "Watch", "costs", "finished", "prepare", "read_study", "sweep"]


class Watch:
    """Is told what happens during a sweep; does nothing. A progress display overrides what it shows."""

    def sweep_started(self, cells: Sequence[Cell]) -> None: ...

    def cell_started(self, cell: Cell) -> None: ...

    def epoch_ended(self, cell: Cell, epoch: Epoch) -> None: ...

    def cell_ended(self, record: Record, *, reused: bool) -> None: ...

    def set_aside(self, file: Path, reason: str) -> None: ...


def sweep(
    study: Plan, folder: Path, *, fresh: bool = False, watch: Watch | None = None, engine: Engine | None = None
) -> tuple[Record, ...]:
    """Runs every cell of ``study`` that has no record under ``folder`` yet; returns the records of all, in order.

    Among several processes of a launcher all train together, and the first one alone reads and writes files.
    A record is written the moment its cell ends, and the state of one in training every five minutes: stopping at any time
    loses no more. Where the data are no longer what a record was made of, its cell is trained again.

    Args:
        study: What to run; every name in it is checked before the first cell is trained.
        folder: Made if need be; ``study.json``, ``costs.json`` and ``cells/`` go there.
        fresh: Train everything again.
        watch: Told of the progress.
        engine: Where cells are trained; in this process, one after the other, if left out.

    Whatever stops it, Ctrl-C as well, has a note (``__notes__``) that says what is finished and kept.
    """
    watch = watch or Watch()
    prepare(study, folder)
    if is_first_process():
        write_sealed(folder / "study.json", study.to_json())
    cells = study.cells()
    watch.sweep_started(cells)
    records: dict[Cell, Record] = {} if fresh else from_first(lambda: _finished(cells, folder, watch))
    for record in records.values():
        watch.cell_ended(record, reused=True)
    left = [cell for cell in cells if cell not in records]
    for cell in left if fresh else ():
        forget(folder / "cells", cell.recipe, cell.seed)
    try:
        for cell, record in (engine or InTurn()).train(left, folder / "cells", watch.cell_started, watch.epoch_ended):
            records[cell] = record
            watch.cell_ended(record, reused=False)
    except BaseException as stop:
        stop.add_note(_what_is_kept(cells, folder, records if fresh else None))
        raise
    return tuple(records[cell] for cell in cells)


def _what_is_kept(cells: Sequence[Cell], folder: Path, trained: Mapping[Cell, Record] | None) -> str:
    """A line for whoever stopped a sweep. A record may be there that nobody was told of; after ``fresh`` an old one too."""
    if trained is None:
        count = sum((folder / "cells" / cell_name(cell.recipe, cell.seed)).exists() for cell in cells)
    else:
        count = len(trained)
    again = "The same command" if trained is None else "The same command without --fresh"
    return f"{count} of {len(cells)} cells are finished and kept in {folder}. {again} goes on from there."


def prepare(study: Plan, folder: Path) -> None:
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
        found = read_plan(read_sealed(file))
        found.variants()
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        why = str(wrong).rstrip(".")
        raise ValueError(f"{file} is damaged: {why}. The neuronal compare of that run writes it anew.") from wrong
    if not isinstance(found, Study):
        raise ValueError(f"{folder} holds a grid, not a comparison of neurons. neuronal sweep shows it.")
    return found


def _finished(cells: Sequence[Cell], folder: Path, watch: Watch) -> dict[Cell, Record]:
    """The sound records there are of the data as they are now."""
    data = {name: load(name).checksum() for name in {cell.recipe.data for cell in cells}}
    found = ((cell, finished(cell, folder, watch, data[cell.recipe.data])) for cell in cells)
    return {cell: record for cell, record in found if record}


def finished(cell: Cell, folder: Path, watch: Watch, data: str = "") -> Record | None:
    """The record of ``cell``, if there is a sound one of ``data``, their checksum; any if left out.

    A damaged, foreign or outdated file is renamed so that nothing is lost; another process may be faster at that.
    """
    path = folder / "cells" / cell_name(cell.recipe, cell.seed)
    try:
        record = read(path)
        same = replace(record.recipe, name=cell.recipe.name, seeds=cell.recipe.seeds) == cell.recipe
        if not same or record.seed != cell.seed:
            raise Damaged("it holds the record of another cell")
    except FileNotFoundError:
        return None
    except Damaged as damage:
        with suppress(FileNotFoundError):
            watch.set_aside(set_aside(path), str(damage))
        return None
    if data and record.data and record.data != data:
        with suppress(FileNotFoundError):
            watch.set_aside(set_aside(path, "outdated"), f"the data at {cell.recipe.data} have changed since")
        return None
    return record


def costs(study: Study, folder: Path, *, fresh: bool = False) -> Costs:
    """Step times of the study's neurons, measured together once on a machine and kept in ``costs.json``."""
    path = folder / "costs.json"
    if path.exists() and not fresh:
        with suppress(ValueError):
            known = from_json(Costs, read_sealed(path))
            if known.environment == environment() and all(known.of(variant) for variant in study.variants()):
                return known
    measured = measure(study.variants())
    write_sealed(path, to_json(measured))
    return measured
