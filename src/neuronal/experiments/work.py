"""What a study may ask for: networks, their records, and what is measured of them, each made once and kept in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch import nn

from neuronal.convert.checkpoint import load_model, save_model
from neuronal.data.catalogue import load
from neuronal.experiments.cells import Cell, Listed
from neuronal.experiments.claim import Claimed, claim, divided
from neuronal.experiments.crew import Crew
from neuronal.experiments.engine import trained_into
from neuronal.experiments.environment import code
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record, cell_name, read
from neuronal.experiments.storage import Damaged, make_writable, read_sealed, write_sealed
from neuronal.experiments.sweep import Watch, sweep
from neuronal.train.engine import from_first, is_first_process


class NotTrained(ValueError):
    """A network whose loss stopped being finite."""


class Work:
    """What a procedure may ask for: trained networks and their records, each made once and kept in ``folder``.

    A cell is known by what its recipe trains, not by who asks: all reproductions that share a folder share their cells,
    also those that run at the same time (see :mod:`neuronal.experiments.claim`). ``crew`` is called at the first work
    that can be divided.
    """

    def __init__(
        self,
        folder: Path,
        watch: Watch | None = None,
        say: Callable[[str], None] | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.folder, self.watch, self.crew = folder, watch, crew
        self.say = say or (lambda line: None)
        self._checksums: dict[str, str] = {}
        self.network_seconds = 0.0
        """What all trainings that were asked for took, whenever and whoever trained them."""

    def records(self, recipes: Sequence[Recipe]) -> tuple[Record, ...]:
        """Every recipe with every seed of its own, in order."""
        wanted = Listed("reproduction", tuple(recipes))
        self._call_crew()
        found = sweep(wanted, self.folder, watch=self.watch, engine=Claimed())
        self.network_seconds += sum(record.seconds for record in found)
        # Another reproduction may have trained the cell under another name.
        return tuple(replace(one, recipe=cell.recipe) for one, cell in zip(found, wanted.cells(), strict=True))

    def network(self, recipe: Recipe, seed: int) -> tuple[Record, nn.Module]:
        """One network and its record; weights are kept beside the record. ``NotTrained`` if there is none to be had."""
        cells = self.folder / "cells"
        make_writable(cells)
        path = cells / cell_name(recipe, seed)
        with claim(path, wait=True):
            found = self._kept(path, recipe.data)
            if found is None:
                self.say(f"{recipe.name}, {recipe.family}, seed {seed}")
                found = record, _ = trained_into(cells, recipe, seed, also=partial(_keep_weights, path))
                if record.failure:
                    raise NotTrained(f"{recipe.name} with seed {seed} did not train: {record.failure.reason}.")
        self.network_seconds += found[0].seconds
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

        A row is made once for the data as they are, and kept in ``folder``. Processes that want the same rows divide them
        among themselves, and with them the training of the networks.

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

        def make(cell: Cell) -> Mapping[str, Any]:
            try:
                record, model = self.network(cell.recipe, cell.seed)
                made = {"row": dict(measure(record, model)), "seconds": record.seconds}
            except NotTrained as failed:
                made = {"row": {"failure": str(failed)}, "seconds": 0.0}
            if is_first_process():
                write_sealed(path(cell), {"how": how, "data": self.checksum(cell.recipe.data), **made})
            return made

        places = {path(cell): cell for cell in cells}

        def kept(place: Path) -> Mapping[str, Any] | None:
            found = _kept_row(place)
            now = self.checksum(places[place].recipe.data)
            # Rows of before data were noted are taken as they are.
            return found if found is None or found.get("data", now) == now else None

        before = self.network_seconds
        self._call_crew()
        found = dict(divided(cells, path, kept, make))
        # Of all networks, whoever made their rows.
        self.network_seconds = before + sum(found[cell]["seconds"] for cell in cells)
        rows = [found[cell]["row"] for cell in cells]
        if not may_fail and (failed := [row["failure"] for row in rows if "failure" in row]):
            raise NotTrained(failed[0])
        return rows

    def parts(
        self,
        how: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]],
        make: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> list[Mapping[str, Any]]:
        """What ``make`` makes of every item, in order: for what is no row of a trained network.

        A part is made once by the code as it is, and kept in ``folder``. Processes that want the same parts divide them
        among themselves.

        Args:
            how: What all depend on besides their item: plain values, such as the name and the options of a procedure.
            items: Plain values, by which a part is known.
            make: An item to plain values.
        """
        folder = self.folder / "parts"
        make_writable(folder)
        paths = [folder / f"{_key([code(), how, item])}.json" for item in items]

        def keep(number: int) -> Any:
            # As it would be read, whoever made it: tuples as lists, and names in the place of numbers.
            made = json.loads(json.dumps(make(items[number])))
            if is_first_process():
                write_sealed(paths[number], made)
            return made

        self._call_crew()
        found = dict(divided(range(len(items)), paths.__getitem__, _kept_row, keep))
        return [found[number] for number in range(len(items))]

    def _call_crew(self) -> None:
        if self.crew:
            self.crew.start()

    def checksum(self, data: str) -> str:
        """What the data are now, looked at once."""
        if data not in self._checksums:
            self._checksums[data] = load(data).checksum()
        return self._checksums[data]

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


def _key(values: Any) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _kept_row(path: Path) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = read_sealed(path)
    except (Damaged, OSError):
        return None
    return found
