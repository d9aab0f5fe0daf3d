"""Many trials, each trained once: what is finished on disk is not trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from neuronal.core.files import Damaged, make_writable, read_sealed, set_aside, write_sealed
from neuronal.core.records import from_json, to_json
from neuronal.data.catalogue import load
from neuronal.experiments.cells import Cell, Grid, Plan, Study, read_plan
from neuronal.experiments.cost import Costs, measure
from neuronal.experiments.environment import environment
from neuronal.experiments.executors import InProcess
from neuronal.experiments.record import Record, cell_name, read
from neuronal.experiments.run import check
from neuronal.experiments.trial import Task, complete, train_trial, unfinished
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

    def waiting(self, line: str) -> None: ...


def sweep(
    study: Plan, folder: Path, *, fresh: bool = False, watch: Watch | None = None, executor: Executor | None = None
) -> tuple[Record, ...]:
    """Runs every trial of ``study`` that has no record under ``folder`` yet; returns the records of all, in order.

    Among several processes of a launcher all train together, and the first one alone reads and writes files.
    A record is written the moment its trial ends, and the state of one in training every five minutes: stopping at any time
    loses no more. Where the data are no longer what a record was made of, its trial is trained again. Two commands with the
    same folder share its trials.

    Args:
        study: What to run; every name in it is checked before the first trial is trained.
        folder: Made if need be; ``study.json``, ``costs.json`` and ``cells/`` go there.
        fresh: Remove what there is of these trials first.
        watch: Told of the progress.
        executor: Runs the trials; in this process, one after the other, if left out. See :func:`executor_for`.

    Whatever stops it, Ctrl-C as well, has a note (``__notes__``) that says what is finished and kept.
    """
    watch, executor, place = watch or Watch(), executor or InProcess(), folder.resolve() / "cells"
    prepare(study, folder)
    cells = study.cells()
    if is_first_process():
        write_sealed(folder / "study.json", study.to_json())
        for cell in cells if fresh else ():
            (place / cell_name(cell.recipe, cell.seed)).unlink(missing_ok=True)
            rmtree(unfinished(place, cell.recipe, cell.seed), ignore_errors=True)
    watch.sweep_started(cells)
    records = from_first(lambda: _finished(cells, folder, watch))
    for record in records.values():
        watch.cell_ended(record, reused=True)
    tasks = {cell: _task(place, cell) for cell in cells if cell not in records}

    def told(cell: Cell, event: Mapping[str, Any]) -> None:
        if "epoch" in event:
            watch.epoch_ended(cell, Epoch(**event["epoch"]))
        else:
            watch.cell_started(cell)

    try:
        for cell, record in complete(executor, tasks, told, watch.waiting):
            # Another study may have trained it under another name.
            records[cell] = replace(record, recipe=cell.recipe)
            watch.cell_ended(records[cell], reused=False)
    except BaseException as stop:
        stop.add_note(_what_is_kept(cells, folder, fresh=fresh))
        raise
    return tuple(records[cell] for cell in cells)


def _task(place: Path, cell: Cell) -> Task:
    path = place / cell_name(cell.recipe, cell.seed)
    name = f"{cell.recipe.family} seed {cell.seed}"
    return Task(path, partial(_sound, path), partial(train_trial, place, cell.recipe, cell.seed), name)


def _sound(path: Path) -> Record | None:
    """A sound record that another command has made meanwhile."""
    try:
        return read(path)
    except (Damaged, OSError):
        return None


def _what_is_kept(cells: Sequence[Cell], folder: Path, *, fresh: bool) -> str:
    """A line for whoever stopped a sweep. A record may be there that nobody was told of."""
    count = sum((folder / "cells" / cell_name(cell.recipe, cell.seed)).exists() for cell in cells)
    again = "The same command without --fresh" if fresh else "The same command"
    return f"{count} of {len(cells)} trials are finished and kept in {folder}. {again} goes on from there."


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
        if record.recipe.fingerprint() != cell.recipe.fingerprint() or record.seed != cell.seed:
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
    return replace(record, recipe=cell.recipe)


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
