"""Files a training can go on from: safetensors with a JSON header and a checksum, whole or not there. Never unpickled."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from torch import Tensor

from neuronal.core.files import Damaged, parse_json, read_tensors, set_aside, sync, write_tensors
from neuronal.core.records import Json

_KEY = "neuronal-training"
_FORMAT = 1


@dataclass(frozen=True)
class Checkpoints:
    """Where a training keeps its state, how often, and how many of the last states stay.

    Args:
        folder: Of this training alone; made if need be. With several processes, one that all of them see.
        every: A number of steps, or a time.
        keep: How many.
        at_end: Whether the state after the last step is kept too.
        of: What, besides all that ``fit`` knows, has to be the same for a training to go on; plain values by name.
    """

    folder: Path | str
    every: int | timedelta = timedelta(minutes=5)
    keep: int = 3
    at_end: bool = True
    of: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        amount = self.every.total_seconds() if isinstance(self.every, timedelta) else self.every
        if amount <= 0:
            raise ValueError(f"checkpoints need every to be a number of steps or a time above 0, got {self.every}.")
        if self.keep < 1:
            raise ValueError(f"checkpoints need to keep at least 1, got {self.keep}.")


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: tensors by name, and everything else."""

    header: Json
    tensors: Mapping[str, Tensor]


class OtherTraining(ValueError):
    """A checkpoint that the training that found it cannot go on from: it is of another one, or of another version."""


def write(folder: Path, step: int, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Puts the checkpoint into the folder in one move, and removes all but the last ``keep``.

    Raises:
        OSError: It could not be written; the ones before are as they were.
    """
    path = folder / f"step-{step:09}.safetensors"
    write_tensors(path, _KEY, json.dumps({"format": _FORMAT, **checkpoint.header}), checkpoint.tensors)
    sync(folder)
    for old in _files(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def newest(folder: Path) -> tuple[Path, Checkpoint] | None:
    """The last whole checkpoint. Others on the way to it are renamed, with a warning; leavings of a kill are removed."""
    for leaving in folder.glob(".step-*.partial"):
        shutil.rmtree(leaving, ignore_errors=True) if leaving.is_dir() else leaving.unlink(missing_ok=True)
    for path in reversed(_files(folder)):
        try:
            return path, read(path)
        except Damaged as damage:
            # Where nothing is locked, another process may have removed it.
            with suppress(FileNotFoundError):
                aside = set_aside(path)
                warnings.warn(f"{damage} It is now {aside.name}; the one before is used.", RuntimeWarning, stacklevel=4)
    return None


def read(path: Path) -> Checkpoint:
    """What :func:`write` put there, of whichever version; ``Damaged`` for anything else."""
    header, tensors = read_tensors(path, _KEY)
    return Checkpoint(parse_json(header), tensors)


def check_format(path: Path, checkpoint: Checkpoint) -> None:
    """``OtherTraining`` for a checkpoint that another version wrote."""
    if (found := checkpoint.header["format"]) != _FORMAT:
        raise OtherTraining(f"{path} is of format {found}; this version reads {_FORMAT}.")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))
