"""A comparison of neurons: its numbers, and how it shows itself in a terminal, a notebook, a table and on a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from neuronal.core.files import make_writable, write_whole
from neuronal.core.records import Json, to_json
from neuronal.core.words import counted
from neuronal.data.catalogue import label_of, load
from neuronal.data.dataset import Dataset
from neuronal.experiments.cells import Study
from neuronal.experiments.compare import METRICS, Metric, Row, by_family, estimates, measured
from neuronal.experiments.cost import Costs
from neuronal.experiments.record import Record
from neuronal.experiments.sweep import Watch, costs, finished, read_study
from neuronal.nn.families import STANDARD
from neuronal.report.document import Block, Bullets
from neuronal.report.page import page
from neuronal.report.render_html import render_html, render_part
from neuronal.report.render_terminal import render_text
from neuronal.report.terminal import comparison_table
from neuronal.report.words import findings
from neuronal.train.timing import StepTime


@dataclass(frozen=True, repr=False)
class Comparison:
    """The same network with each neuron. Prints as a table with sentences; a notebook shows the same.

    Args:
        study: What was asked for.
        records: One per finished trial.
        neurons: Means and differences, one entry per neuron, in the order of the records.
        baseline: The neuron the others are compared with, if it is there.
        step_times: What a training step of each neuron takes, if it was measured.
        folder: Of the run.
    """

    study: Study
    records: tuple[Record, ...]
    neurons: tuple[Row, ...]
    baseline: str | None
    step_times: Costs = field(default_factory=lambda: Costs({}, {}))
    folder: Path | None = None

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        baseline: str = STANDARD.name,
        study: Study | None = None,
        step_times: Costs | None = None,
        folder: Path | None = None,
    ) -> Self:
        """Compares trials that differ in neuron and seed alone; see :func:`neuronal.experiments.compare.estimates`.

        Args:
            records: Such as :func:`neuronal.sweep` returns or :func:`neuronal.experiments.read_record` reads.
            baseline: The neuron the others are compared with.
            study: What was asked for; what the records tell of it if left out.
            step_times: What a training step of each neuron takes.
            folder: Of the run.

        Raises:
            ValueError: There are no records, or they are not of one experiment on the same data.
        """
        records = tuple(records)
        neurons = estimates(records, baseline)
        names = tuple(by_family(records))
        study = study or Study(replace(records[0].recipe, seeds=tuple(dict.fromkeys(r.seed for r in records))), names)
        return cls(
            study, records, neurons, baseline if baseline in names else None, step_times or Costs({}, {}), folder
        )

    @classmethod
    def from_folder(cls, folder: str | Path, watch: Watch | None = None) -> Self:
        """The comparison of a run, from the trials that are finished; nothing is trained.

        Args:
            folder: Of the run, such as ``runs/digits-cnn``.
            watch: Told of records that cannot be used, which are renamed.

        Raises:
            ValueError: It is not the folder of a run, or no trial is finished.
        """
        place = Path(folder)
        study = read_study(place)
        found = [finished(cell, place, watch or Watch()) for cell in study.cells()]
        records = [record for record in found if record]
        if not records:
            raise ValueError(f"{folder} has no finished cell to report on. Run its neuronal compare first.")
        return cls.from_records(records, study=study, step_times=costs(study, place), folder=place)

    @property
    def measure(self) -> str:
        """What the networks are judged by: ``rmse`` where numbers were predicted, else ``accuracy``."""
        return "rmse" if any("rmse" in row.estimates for row in self.neurons) else "accuracy"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those that make sense here: of classes, or of numbers."""
        other = ("accuracy", "lowest", "zero_entropy") if self.measure == "rmse" else ("rmse",)
        return tuple(metric for metric in METRICS if metric.key not in other)

    @property
    def title(self) -> str:
        recipe = self.study.recipe
        return f"{recipe.model} on {label_of(recipe.data)}, {counted(len(recipe.seeds), 'seed')}"

    @cached_property
    def data(self) -> Dataset:
        """What the networks were trained on, as it is now."""
        return load(self.study.recipe.data)

    @cached_property
    def times(self) -> dict[str, StepTime]:
        """Step times by neuron."""
        return {one.family: time for one in self.study.variants() if (time := self.step_times.of(one))}

    @cached_property
    def findings(self) -> list[str]:
        """What the numbers say, in sentences, most important first."""
        return findings(self)

    def best(self, key: str) -> Row | None:
        """The neuron with the best mean of a metric; None if no neuron has it."""
        sign = -1 if next(m.better for m in METRICS if m.key == key) == "lower" else 1
        rows = [row for row in self.neurons if key in row.estimates]
        return max(rows, key=lambda row: sign * row.estimates[key].mean, default=None)

    def rows(self) -> list[Json]:
        """One flat row per neuron and seed, in the order of the records, for ``pandas.DataFrame``.

        Every row has the same columns: ``neuron``, ``seed``; what was measured on the test data (``accuracy`` or ``rmse``,
        ``loss`` and what else stands in :attr:`Record.metrics <neuronal.Record>`); ``lowest`` (accuracy over contrasts),
        ``zero_entropy`` (at the zero image, 1 = uniform) and ``dead`` (share of units), where their probes were run;
        ``seconds``, ``step_seconds`` and ``finished``; ``failure``, the reason. What a trial does not have is ``None``.
        """
        rows = [
            {"neuron": record.recipe.family, "seed": record.seed}
            | dict(record.metrics)
            | measured(record)
            | {name: getattr(record, name) for name in ("seconds", "step_seconds", "finished")}
            | {"failure": record.failure.reason if record.failure else None}
            for record in self.records
        ]
        last = ("seconds", "step_seconds", "finished", "failure")
        names = dict.fromkeys(name for row in rows for name in row if name not in last)
        return [{name: row.get(name) for name in (*names, *last)} for row in rows]

    def to_json(self) -> Json:
        """What ``neuronal compare --json`` prints, but for the place of the page."""
        numbers = {"rows": to_json(self.neurons), "baseline": self.baseline}
        times = to_json(self.step_times)
        return {"study": self.study.to_json(), "comparison": numbers, "costs": times, "findings": self.findings}

    def blocks(self) -> tuple[Block, ...]:
        """What a terminal and a notebook show: the table and the sentences."""
        return comparison_table(self), Bullets(self.findings)

    def write_page(self, path: str | Path | None = None) -> Path:
        """Writes the page, with figures and every trial, and returns its place.

        Args:
            path: The file; ``report.html`` in the folder of the run if left out.

        Raises:
            ValueError: No path is given, and the comparison has no folder.
        """
        if path is None and self.folder is None:
            raise ValueError("write_page needs a path, got none: a comparison from records has no folder of its own.")
        file = Path(path) if path is not None else Path(self.folder or ".") / "report.html"
        make_writable(file.parent)
        write_whole(file, render_html(page(self)))
        return file

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(row.family for row in self.neurons)}: {self.title}>"

    def __str__(self) -> str:
        return render_text(self.blocks())

    def _repr_html_(self) -> str:
        return render_part(self.blocks())
