"""Reproductions by the minute: whole trials side by side until the time is up, kept for the next time.

A trial is one recipe with one seed. It is trained from start to end in one process, on one machine and by one version of the
code, and is then one small file below ``results/trials``. What is not finished when the time is up is trained again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import torch

from neuronal.core.files import make_writable, replacing
from neuronal.experiments import (
    Cell,
    Pace,
    Recipe,
    Report,
    Task,
    Unfinished,
    Work,
    cell_name,
    environment,
    read_record,
    run_slice,
    trained,
    write_record,
)
from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.registry import reproductions
from neuronal_papers.reproduce import keep_result
from neuronal_papers.tuning import TUNING

RESERVE = 10.0
"""Seconds at the end for the results and the archive."""


@dataclass(frozen=True)
class Queue:
    """Reproductions at one scale, the first one first, and where their trials are kept."""

    chosen: Sequence[Reproduction]
    scale: str
    results: Path

    @property
    def place(self) -> Path:
        return self.results / "trials"

    def kept(self, **how: Any) -> Work:
        """What finished trials say; ``Unfinished`` where one is not there."""
        return Work(self.place, any_code=True, only_finished=True, **how)

    def tasks(self) -> list[Task]:
        """What is left to train, or to measure of a network, as far as it can be known: a choice may need trials first."""
        found: dict[str, Task] = {}
        for rank, one in enumerate(self.chosen):
            for cell, with_row in unfinished(one, one.scales[self.scale], self.kept()):
                task = self._task(one, cell, rank, with_row=with_row)
                found.setdefault(task.name, task)
        return list(found.values())

    def _task(self, one: Reproduction, cell: Cell, rank: int, *, with_row: bool) -> Task:
        recipe = cell.recipe
        name = f"{recipe.name}, {recipe.family}, rate {recipe.lr:g}, seed {cell.seed}"
        compiles = recipe.compile or (recipe.replay and torch.cuda.is_available())
        if with_row:
            work: Any = partial(measure_trial, one.name, self.scale, self.place, cell)
            # A row may take as long as its network.
            return Task(f"{one.name}: {name}", f"{one.name} {kind_of(recipe)}", recipe.epochs, work, rank, compiles)
        same = recipe.fingerprint()
        work = partial(train_trial, self.place, cell)
        return Task(f"{name} ({same})", kind_of(recipe), recipe.epochs, work, rank, compiles)

    def run(
        self, minutes: float, started: float, workers: int = 0, say: Callable[[str], None] = lambda line: None
    ) -> Report:
        """Trains until the minutes since ``started``, by ``time.monotonic``, are over."""
        for folder in ("cells", "rows"):
            make_writable(self.place / folder)
        # The data are decoded and kept here, once, and not by each process for itself.
        work = self.kept()
        for name in {recipe.data for one in self.chosen for recipe in one.scales[self.scale].recipes}:
            work.checksum(name)
        # Several processes compile at a time; each would start as many helpers as there are cores.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
        return run_slice(self.tasks, started + 60 * minutes - RESERVE, workers, say, self.paces())

    def paces(self) -> dict[str, Pace]:
        """What trials took that were finished on such a machine before; of a kind the one that started fastest."""
        paces: dict[str, Pace] = {}
        here = environment()["gpu"]
        for file in self.place.glob("cells/*.json"):
            record = read_record(file)
            if record.environment.get("gpu") == here and not record.failure:
                epoch = record.step_seconds * record.epochs[-1]["steps"] / len(record.epochs)
                pace = Pace(epoch, max(0.0, record.seconds - epoch * len(record.epochs)))
                kind = kind_of(record.recipe)
                paces[kind] = min(pace, paces.get(kind, pace), key=lambda one: one.besides)
        return paces

    def write_results(self, at_once: int, paces: Mapping[str, Pace]) -> list[Path]:
        """Writes what is there of every reproduction, and in it what is not: with the minutes it takes, so many at once."""
        files = []
        for one in self.chosen:
            setting, kept = one.scales[self.scale], self.kept()
            part, lacking = finished_part(one, setting, self.kept())
            if not part.recipes:
                continue
            measured = one.measure(part, kept)
            left = [
                self._task(one, cell, 0, with_row=with_row) for cell, with_row in unfinished(one, setting, self.kept())
            ]
            seconds = [paces[task.kind].seconds(task.epochs) for task in left if task.kind in paces]
            more = {"trials": len(kept.environments), "lacks": lacking}
            if left and len(seconds) == len(left):
                more["minutes_left"] = sum(seconds) / 60 / max(1, at_once)
            command = f"neuronal reproduce {one.name} --scale {self.scale} --minutes 9"
            result = {"command": command, "seconds": 0.0, **more, "environment": where(kept.environments)}
            files.append(keep_result(one, self.scale, part, measured, kept, result, self.results))
        return files

    def archive(self, file: Path, since: float) -> int:
        """Puts what was written since, by ``time.time``, into one zip file with names below ``results``; returns how much.

        Weights are in it where the row of a network is still to be measured.
        """
        needed = {
            self.place / "cells" / cell_name(cell.recipe, cell.seed)
            for one in self.chosen
            for cell, with_row in unfinished(one, one.scales[self.scale], self.kept())
            if with_row
        }
        weights = [path.with_suffix(".safetensors") for path in needed]
        written = [path for path in self.results.rglob("*.json") if path.stat().st_mtime >= since]
        files = [*written, *(path for path in weights if path.is_file())]
        with replacing(file) as new, ZipFile(new, "w", ZIP_DEFLATED) as archive:
            for path in sorted(files):
                archive.write(path, path.relative_to(self.results))
        return len(files)


def unfinished(one: Reproduction, setting: Setting, kept: Work) -> list[tuple[Cell, bool]]:
    """Trials that the measurement asks for and that are not there; with each, whether its network is to be measured too."""
    try:
        one.measure(setting, kept)
    except Unfinished as left:
        return [(cell, left.with_rows) for cell in left.cells]
    return []


def finished_part(one: Reproduction, setting: Setting, kept: Work) -> tuple[Setting, list[dict[str, Any]]]:
    """The recipes and seeds whose numbers are all there, and the others, for the result to name."""
    done: list[Recipe] = []
    lacking: list[dict[str, Any]] = []
    for recipe in setting.recipes:
        missing = [
            seed
            for seed in recipe.seeds
            if unfinished(one, replace(setting, recipes=(replace(recipe, seeds=(seed,)),)), kept)
        ]
        if missing:
            lacking.append({"name": recipe.name, "neuron": recipe.family, "seeds": missing})
        if seeds := tuple(seed for seed in recipe.seeds if seed not in missing):
            done.append(replace(recipe, seeds=seeds))
    return replace(setting, recipes=tuple(done)), lacking


def kind_of(recipe: Recipe) -> str:
    """Trials of one kind take as long for an epoch: they differ in their rates, seeds and number of epochs."""
    same = replace(recipe, lr=1.0, weight_decay=0.0, schedule="constant", warmup=0.0, epochs=1, standard_epochs=0)
    return same.fingerprint()


def train_trial(place: Path, cell: Cell, on_epoch: Callable[[], None]) -> None:
    """Trains a trial from its beginning and keeps its record."""
    # Papers register models of their own.
    reproductions()
    record, _ = trained(cell.recipe, cell.seed, on_epoch=lambda epoch: on_epoch())
    write_record(record, place / "cells")


def measure_trial(name: str, scale: str, place: Path, cell: Cell, on_epoch: Callable[[], None]) -> None:
    """Trains a trial, if that is not done yet, and measures its network as the reproduction does."""
    one = reproductions()[name]
    options = {key: value for key, value in one.scales[scale].options.items() if key not in TUNING}
    alone = Setting((replace(cell.recipe, seeds=(cell.seed,)),), options)
    one.measure(alone, Work(place, any_code=True, on_epoch=lambda epoch: on_epoch()))


def where(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The facts of several trials: each once, those that differ one after the other."""
    names = dict.fromkeys(name for one in environments for name in one)
    return {name: ", ".join(dict.fromkeys(one[name] for one in environments if name in one)) for name in names}
