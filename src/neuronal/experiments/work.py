"""What a study may ask for: networks, their records, and what is measured of them, each made once and kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from torch import nn

from neuronal.convert.checkpoint import load_model, save_model
from neuronal.core.files import Damaged, json_checksum, make_writable, read_sealed, write_sealed
from neuronal.data.catalogue import load
from neuronal.experiments.cells import Cell, Listed
from neuronal.experiments.environment import arithmetic, code
from neuronal.experiments.executors import InProcess
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record, cell_name, read
from neuronal.experiments.sweep import Watch, finished, sweep
from neuronal.experiments.trial import Task, Tell, complete, lock, train_into
from neuronal.train.engine import from_first, is_first_process
from neuronal.train.progress import Epoch

Item = TypeVar("Item")


class NotTrained(ValueError):
    """A network whose loss stopped being finite."""


class Unfinished(Exception):
    """Trials that were asked for and are not finished.

    Args:
        cells: Recipes with their seeds.
        with_rows: Their networks are to be measured too.
    """

    def __init__(self, cells: Sequence[Cell], *, with_rows: bool) -> None:
        super().__init__(f"{len(cells)} trials are not finished")
        self.cells, self.with_rows = tuple(cells), with_rows


class Work:
    """What a procedure may ask for: trained networks and their records, each made once and kept in ``folder``.

    A trial is known by what its recipe trains, not by who asks: all reproductions that share a folder share their trials,
    also those that run at the same time (see :func:`neuronal.experiments.trial.complete`).

    Args:
        folder: Where all of it is kept.
        watch: Told of the trainings.
        say: Told what is going on, in a line now and then.
        executor: Runs trials, rows and parts; in this process, one after the other, if left out. What measures goes to
            workers pickled, and with it this object, which has no executor there.
        measured_by: Digest of the code outside this library that measures; rows it did not measure are made again.
        any_code: Rows that other code measured are taken as they are.
        only_finished: Nothing is trained or measured: what is not there raises :class:`Unfinished`.
        on_epoch: Told of every epoch of the networks that :meth:`rows` and :meth:`network` train.
    """

    def __init__(
        self,
        folder: Path,
        watch: Watch | None = None,
        say: Callable[[str], None] | None = None,
        executor: Executor | None = None,
        *,
        measured_by: str = "",
        any_code: bool = False,
        only_finished: bool = False,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> None:
        self.folder, self.watch, self.executor = folder.absolute(), watch, executor or InProcess()
        self.say = say or _say_nothing
        self._is_in_worker = False
        self.any_code, self.only_finished, self.on_epoch = any_code, only_finished, on_epoch
        self.environments: list[Mapping[str, str]] = []
        """Of every record that was asked for: where it was trained."""
        self._code = code() + measured_by
        self._seconds: dict[str, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs: it trains and measures in its own process, and says what it has to say another way."""
        here = {"watch": None, "say": _say_nothing, "executor": InProcess(), "on_epoch": None}
        return {**self.__dict__, **here, "_is_in_worker": True}

    @property
    def network_seconds(self) -> float:
        """What all networks and parts that were asked for took, whenever and whoever made them."""
        return sum(self._seconds.values())

    def records(self, recipes: Sequence[Recipe]) -> tuple[Record, ...]:
        """Every recipe with every seed of its own, in order."""
        wanted = Listed("reproduction", tuple(recipes))
        if self.only_finished:
            found = self._finished(wanted.cells())
        else:
            found = sweep(wanted, self.folder, watch=self.watch, executor=self.executor)
        for record, cell in zip(found, wanted.cells(), strict=True):
            self._seconds[cell_name(cell.recipe, cell.seed)] = record.seconds
            self.environments.append(record.environment)
        return found

    def _finished(self, cells: Sequence[Cell]) -> tuple[Record, ...]:
        """The records of all; ``Unfinished`` names those that are not there."""
        found = {cell: finished(cell, self.folder, Watch(), self.checksum(cell.recipe.data)) for cell in cells}
        if missing := [cell for cell, record in found.items() if record is None]:
            raise Unfinished(missing, with_rows=False)
        return tuple(record for record in found.values() if record)

    def network(self, recipe: Recipe, seed: int) -> tuple[Record, nn.Module]:
        """One network and its record; weights are kept beside the record. ``NotTrained`` if there is none to be had."""
        if self.only_finished:
            raise Unfinished([Cell(recipe, seed)], with_rows=True)
        cells = self.folder / "cells"
        make_writable(cells)
        path = cells / cell_name(recipe, seed)
        with lock(path, wait=True) as is_alone:
            found = self._kept(path, recipe.data)
            if found is None:
                self.say(f"{recipe.name}, {recipe.family}, seed {seed}")
                keep = partial(_keep_weights, path)
                found = record, _ = train_into(cells, recipe, seed, self.on_epoch, keep, take_over=bool(is_alone))
                if record.failure:
                    raise NotTrained(f"{recipe.name} with seed {seed} did not train: {record.failure.reason}.")
        self._seconds[path.name] = found[0].seconds
        return replace(found[0], recipe=recipe), found[1]

    def rows(
        self,
        recipes: Sequence[Recipe],
        how: Mapping[str, Any],
        measure: Callable[[Record, nn.Module], Mapping[str, Any]],
        *,
        may_fail: bool = False,
    ) -> list[Mapping[str, Any]]:
        """What ``measure`` says of every recipe's network with every seed of its own, in order.

        A row is made once for the data and by the code as they are, and kept in ``folder``. Workers share the rows, and with
        them the training of the networks.

        Args:
            recipes: The networks.
            how: What a row depends on besides its network: plain values, such as the name and the options of a procedure.
            measure: A record and its network to a row of plain values.
            may_fail: Networks that did not train have a row with the reason as its ``failure``; ``NotTrained`` otherwise.
        """
        cells, folder = Listed("reproduction", tuple(recipes)).cells(), self.folder / "rows"
        make_writable(folder)
        key = _key(how)[:8]

        def path(cell: Cell) -> Path:
            return folder / f"{key}-{cell_name(cell.recipe, cell.seed)}"

        def make(cell: Cell, tell: Tell, is_alone: bool) -> Mapping[str, Any]:
            self._say_by(tell)
            facts = {"how": how, "data": self.checksum(cell.recipe.data), "code": self._code}
            try:
                record, model = self.network(cell.recipe, cell.seed)
                made = facts | {"row": dict(measure(record, model)), "seconds": record.seconds}
                made["environment"] = record.environment
            except NotTrained as failed:
                if not may_fail:
                    raise
                # Elsewhere it may train.
                made = facts | {"row": {"failure": str(failed)}, "seconds": 0.0, "of": arithmetic()}
            if is_first_process():
                write_sealed(path(cell), made)
            return made

        def kept(cell: Cell) -> Mapping[str, Any] | None:
            found = _sealed(path(cell))
            now = {"data": self.checksum(cell.recipe.data), "code": self._code, "of": arithmetic()}
            if self.any_code:
                now = {"data": now["data"]}
            # Rows of before something was noted are taken as they are.
            if found is None or any(found.get(name, value) != value for name, value in now.items()):
                return None
            if "failure" in found["row"] and not may_fail:
                raise NotTrained(found["row"]["failure"])
            return found

        found = from_first(lambda: {cell: row for cell in cells if (row := kept(cell)) is not None})
        missing = [cell for cell in cells if cell not in found]
        if missing and self.only_finished:
            raise Unfinished(missing, with_rows=True)
        found |= self._complete({cell: Task(path(cell), partial(kept, cell), partial(make, cell)) for cell in missing})
        # Of all networks, whoever made their rows.
        self._seconds |= {cell_name(cell.recipe, cell.seed): found[cell]["seconds"] for cell in cells}
        self.environments += [found[cell]["environment"] for cell in cells if "environment" in found[cell]]
        return [found[cell]["row"] for cell in cells]

    def parts(
        self,
        how: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]],
        make: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> list[Mapping[str, Any]]:
        """What ``make`` makes of every item, in order: for what is no row of a trained network.

        A part is made once by the code, torch and device as they are, and kept in ``folder``. Workers share the parts.

        Args:
            how: What all depend on besides their item: plain values, such as the name and the options of a procedure.
            items: Plain values, by which a part is known.
            make: An item to plain values.
        """
        if self.only_finished:
            raise ValueError(
                "what this measures is not a number of trained networks, each for itself. Leave out --minutes."
            )
        folder = self.folder / "parts"
        make_writable(folder)
        facts = {"how": how, "code": self._code, "of": arithmetic()}
        paths = [folder / f"{_key([facts, item])}.json" for item in items]

        def keep(number: int, tell: Tell, is_alone: bool) -> Any:
            self._say_by(tell)
            started = perf_counter()
            part = make(items[number])
            # As it would be read, whoever made it: tuples as lists, and names in the place of numbers.
            made = json.loads(json.dumps({"part": part, "seconds": perf_counter() - started}))
            if is_first_process():
                write_sealed(paths[number], {**facts, "item": items[number], **made})
            return made

        found = from_first(lambda: {number: part for number, path in enumerate(paths) if (part := _sealed(path))})
        tasks = {
            number: Task(path, partial(_sealed, path), partial(keep, number))
            for number, path in enumerate(paths)
            if number not in found
        }
        found |= self._complete(tasks)
        self._seconds |= {paths[number].name: found[number]["seconds"] for number in found}
        return [found[number]["part"] for number in range(len(items))]

    def _complete(self, tasks: Mapping[Item, Task]) -> dict[Item, Any]:
        def told(item: Item, event: Mapping[str, Any]) -> None:
            if "say" in event:
                self.say(event["say"])

        return dict(complete(self.executor, tasks, told, self.say))

    def _say_by(self, tell: Tell) -> None:
        """In a worker: lines go to the process that shows them."""
        if self._is_in_worker:
            self.say = lambda line: tell({"say": line})

    def checksum(self, data: str) -> str:
        """What the data are now."""
        return load(data).checksum()

    def _kept(self, path: Path, data: str) -> tuple[Record, nn.Module] | None:
        """The record at ``path`` and its network, if both are there, sound, and of the data as they are now."""
        weights = path.with_suffix(".safetensors")
        # The first process writes, so it alone can say what there is: all train, or none.
        if from_first(lambda: path.exists() and weights.exists()):
            try:
                record = read(path)
                if not record.data or record.data == self.checksum(data):
                    return record, load_model(weights)
                self.say(f"{path.name} is trained again: the data at {data} have changed since")
            except (Damaged, ValueError) as damage:
                self.say(f"{path.name} is trained again: {damage}")
        return None


def _keep_weights(path: Path, record: Record, model: nn.Module) -> None:
    """Beside the record at ``path``; those of a network that did not train are worth nothing."""
    if record.failure:
        return
    model.cpu().eval()
    if is_first_process():
        save_model(model, path.with_suffix(".safetensors"))


def _say_nothing(line: str) -> None: ...


def _key(values: Any) -> str:
    return json_checksum(values)[:16]


def _sealed(path: Path) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = read_sealed(path)
    except (Damaged, OSError):
        return None
    return found
