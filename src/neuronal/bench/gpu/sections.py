"""``neuronal bench gpu``: its sections in the order of their weight, run one after the other."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch

from neuronal.bench.gpu import ceilings, graphs, implicit, networks
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.notes import NOTES
from neuronal.bench.gpu.replay import one_line
from neuronal.bench.gpu.row import Row
from neuronal.names import find


@dataclass(frozen=True)
class Section:
    """What it measures, in a line, and how."""

    about: str
    rows: Callable[[Setting], Iterator[Row]]


SECTIONS: Mapping[str, Section] = {
    "ceilings": Section("what the device does at best", ceilings.rows),
    "implicit": Section(
        "implicit convolution + batch norm + ReLU, forward + backward in float32, as CUDA graphs; "
        "shares are of what the solve alone could at best",
        implicit.rows,
    ),
    "networks": Section("a training step in bfloat16, channels last, compiled with reduce-overhead", networks.rows),
    "graphs": Section("a training step of ResNet-18, width 8, as one graph", graphs.rows),
}


@dataclass
class Outcome:
    """What a section has come to so far; ``error`` is the one line it ended with, if it did not end by itself."""

    name: str
    about: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        rows = [row.to_json() for row in self.rows]
        return {"name": self.name, "about": self.about, "seconds": self.seconds, "error": self.error, "rows": rows}


def chosen(names: Sequence[str]) -> list[str]:
    """The sections of these names in their own order; all if there are none.

    Raises:
        UnknownName: In one line, with the names there are.
    """
    for name in names:
        find(SECTIONS, name, "section")
    return [name for name in SECTIONS if name in names or not names]


def run(names: Sequence[str], setting: Setting, told: Callable[[Outcome], None]) -> list[Outcome]:
    """Runs sections one after the other; one that fails is noted, and the next goes on.

    Args:
        names: See :func:`chosen`.
        setting: Where, and how often.
        told: Called when a section begins, after each of its rows, and when it has ended.
    """
    done = []
    for name in chosen(names):
        outcome, started = Outcome(name, SECTIONS[name].about), perf_counter()
        done.append(outcome)
        told(outcome)
        try:
            for row in SECTIONS[name].rows(setting):
                outcome.rows.append(_annotated(name, row))
                outcome.seconds = perf_counter() - started
                told(outcome)
        except Exception as error:  # whatever it is, the other sections go on
            outcome.error = one_line(error)
        with suppress(RuntimeError):  # of a device that has failed nothing can be given back
            _tidy(setting)
        outcome.seconds = perf_counter() - started
        told(outcome)
    return done


def _annotated(section: str, row: Row) -> Row:
    known = NOTES.get(section, {}).get(row.name, "")
    return replace(row, note="; ".join(note for note in (row.note, known) if note))


def _tidy(setting: Setting) -> None:
    """Gives back what a section leaves behind, so that the next finds the device as the first did."""
    torch.compiler.reset()
    gc.collect()
    if setting.is_gpu:
        torch.cuda.empty_cache()
