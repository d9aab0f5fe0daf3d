"""``neuronal bench gpu``: its sections in the order of their weight, run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from neuronal.bench.gpu import ceilings, certify, graphs, implicit, networks, ntk, train
from neuronal.bench.gpu.ahead import Job, results, tidy
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.notes import NOTES
from neuronal.bench.gpu.row import Row
from neuronal.names import find
from neuronal.train.recording import one_line


@dataclass(frozen=True)
class Section:
    """What it measures, in a line, and how."""

    about: str
    rows: Callable[[Setting], Iterator[Row]]
    ahead: Callable[[], list[Job]] = list
    """What can be done in other processes before; its results are in ``Setting.ready``."""


SECTIONS: Mapping[str, Section] = {
    "ceilings": Section("what the device does at best", ceilings.rows),
    "implicit": Section(
        "implicit convolution + batch norm + ReLU, forward + backward in float32, ten inputs as one CUDA graph; "
        "shares are of what the solve alone could at best",
        implicit.rows,
        implicit.ahead,
    ),
    "networks": Section(
        "a training step in bfloat16, channels last, compiled with reduce-overhead", networks.rows, networks.ahead
    ),
    "train": Section(
        "fit against a bare loop of the same steps: ResNet-18 on 32x32 images on the device, batch 512, crop and flip, "
        "bfloat16, channels last, torch.compile",
        train.rows,
        train.ahead,
    ),
    "certify": Section(
        "exact segments (float32) and certificates of untrained ResNet-18 with batch norm, 32x32; limits are of memory",
        certify.rows,
    ),
    "ntk": Section("tangent kernels beside a plain torch.func Jacobian contraction", ntk.rows),
    "graphs": Section("a training step of ResNet-18, width 8, as one graph", graphs.rows, graphs.ahead),
}


@dataclass
class Outcome:
    """What a section has come to so far; ``error`` is the one line it ended with, if it did not end by itself."""

    name: str
    about: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    ended: bool = False

    def to_json(self) -> dict[str, Any]:
        facts = {"name": self.name, "about": self.about, "seconds": self.seconds, "ended": self.ended}
        return {**facts, "error": self.error, "rows": [row.to_json() for row in self.rows]}


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
    done: list[Outcome] = []
    sections = {name: SECTIONS[name] for name in chosen(names)}
    jobs = [job for section in sections.values() for job in section.ahead()] if setting.is_gpu else []
    for name, section in sections.items():
        if jobs and section.ahead():
            # Not before the first section that wants it: what is measured until then is there sooner.
            run_one("ahead", Section("networks compiled side by side", partial(_ahead, jobs)), setting, told, done)
            jobs = []
        run_one(name, section, setting, told, done)
    return done


def run_one(
    name: str, section: Section, setting: Setting, told: Callable[[Outcome], None], done: list[Outcome]
) -> None:
    """Runs one section into a new outcome at the end of ``done``."""
    outcome, started = Outcome(name, section.about), perf_counter()
    done.append(outcome)
    told(outcome)
    try:
        for row in section.rows(setting):
            before, outcome.seconds = outcome.seconds, perf_counter() - started
            timed = replace(row, data={**row.data, "took": outcome.seconds - before})
            outcome.rows.append(_annotated(name, timed))
            told(outcome)
    except Exception as error:  # whatever it is, the other sections go on
        outcome.error = one_line(error)
    with suppress(RuntimeError):  # of a device that has failed nothing can be given back
        tidy()
    outcome.seconds, outcome.ended = perf_counter() - started, True
    told(outcome)


def _ahead(jobs: Sequence[Job], setting: Setting) -> Iterator[Row]:
    started = perf_counter()
    setting.ready.update(results(jobs))
    seconds = perf_counter() - started
    yield Row(f"{len(setting.ready)} of {len(jobs)} done", seconds, "s")


def _annotated(section: str, row: Row) -> Row:
    known = NOTES.get(section, {}).get(row.name, "")
    return replace(row, note="; ".join(note for note in (row.note, known) if note))
