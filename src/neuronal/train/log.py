"""What happened, epoch by epoch, in a file that can be read while the training runs: one line of JSON each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from neuronal.core.files import parse_json
from neuronal.core.records import Json
from neuronal.train.progress import Epoch


class Log:
    """A hook for ``fit(on_epoch=...)`` that adds a line per epoch to a file, and can be handed on to another hook.

    A training that goes on from a checkpoint adds its epochs to the same file; :func:`read_log` takes the last of each.
    A ``note`` for people stands in every line.
    """

    def __init__(self, path: Path | str, then: Callable[[Epoch], None] | None = None, *, note: str = "") -> None:
        self._path, self._then, self._note = Path(path), then, {"note": note} if note else {}
        self._told = False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._cut()

    def __call__(self, epoch: Epoch) -> None:
        line = json.dumps(_without_nan(asdict(epoch)) | self._note, allow_nan=False)
        try:
            # Opened for every line: whatever happens between two epochs, the file is whole.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as full:
            # As with checkpoints, a full disk is no reason to stop a training.
            if not self._told:
                told = f"no line in {self._path} ({full.strerror}). Training goes on; said once."
                warnings.warn(told, RuntimeWarning, stacklevel=2)
            self._told = True
            with suppress(OSError):
                self._cut()
        if self._then:
            self._then(epoch)

    def _cut(self) -> None:
        """A kill, or a disk that is full, in the middle of a line leaves a piece, which the next must not be glued to."""
        if self._path.exists():
            content = self._path.read_bytes()
            with self._path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)


def read_log(path: Path | str) -> list[Epoch]:
    """The epochs in a log, in order; a last line that is cut off is left out.

    Raises:
        ValueError: Another line is damaged; the message has its number.
    """
    *lines, _ = Path(path).read_text(encoding="utf-8").split("\n")
    epochs: dict[int, Epoch] = {}
    for number, line in enumerate(lines, start=1):
        try:
            epoch = Epoch(**_with_nan(parse_json(line)))
        except (TypeError, ValueError) as wrong:
            raise ValueError(f"{path}, line {number}: not an epoch ({wrong}).") from wrong
        epochs[epoch.number] = epoch
    return [epochs[number] for number in sorted(epochs)]


# JSON has no NaN: a measurement that was not a number is null in the file.
def _without_nan(values: Json) -> Json:
    measured = {name: value if isfinite(value) else None for name, value in values["measured"].items()}
    return {**values, "measured": measured}


def _with_nan(values: Json) -> Json:
    measured = {name: float("nan") if value is None else value for name, value in values["measured"].items()}
    return {name: value for name, value in values.items() if name != "note"} | {"measured": measured}
