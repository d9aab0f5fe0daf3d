"""The progress bars people see in a terminal, and the tables of comparisons and choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from neuronal.experiments.compare import Estimate
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record
from neuronal.experiments.sweep import Cell, Watch
from neuronal.experiments.tune import Choice, Point
from neuronal.report.tables import Table
from neuronal.report.words import percent, plain, result
from neuronal.train.progress import Epoch, Step

if TYPE_CHECKING:
    from neuronal.report.comparison import Comparison

__all__ = ["Bars"]


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        # Without a terminal the bars would only repeat themselves in a log; the lines remain.
        disable=not console.is_terminal,
    )


class Bars(Watch):
    """Two bars, trials and epochs, with the time left; and one line per finished trial that stays on the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = _bars(console)
        self._cells = self._progress.add_task("trials", total=None)
        self._epochs = self._progress.add_task("epochs", total=None, visible=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def sweep_started(self, cells: Sequence[Cell]) -> None:
        self._progress.start()
        self._progress.update(self._cells, total=len(cells))

    def cell_started(self, cell: Cell) -> None:
        name = f"{escape(cell.recipe.family)} seed {cell.seed}"
        self._progress.reset(self._epochs, total=cell.recipe.epochs, visible=True, description=name)

    def epoch_ended(self, cell: Cell, epoch: Epoch) -> None:
        self._progress.update(self._epochs, completed=epoch.number)

    def cell_ended(self, record: Record, *, reused: bool) -> None:
        self._progress.advance(self._cells)
        name = f"{record.recipe.family} seed {record.seed}"
        failure = record.failure
        outcome = f"[red]failed[/]: {escape(failure.reason)}" if failure else result(record.metrics)
        how = "kept from before" if reused else f"{record.seconds:.1f} s"
        self._console.print(f"  {escape(name)}: {outcome} ({how})", highlight=False)

    def set_aside(self, file: Path, reason: str) -> None:
        text = f"  a record that cannot be used, its trial counts as not trained: {reason}; the file is kept as {file}"
        self._console.print(escape(text), style="yellow", highlight=False, soft_wrap=True)

    def waiting(self, line: str) -> None:
        self._console.print(f"  {escape(line)}", highlight=False)


class Live:
    """One bar over the steps of a training: loss, accuracy, images per second, time left; and a line per epoch."""

    def __init__(self, console: Console, recipe: Recipe) -> None:
        self._console, self._epochs = console, recipe.epochs
        self._progress = _bars(console)
        self._steps = self._progress.add_task("steps", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, step: Step) -> None:
        right = "" if step.accuracy is None else f"{100 * step.accuracy:.1f}%, "
        text = f"loss {step.loss:.3f}, {right}{step.images_per_second:,.0f} images/s"
        self._progress.update(self._steps, total=step.num_steps, completed=step.number, description=text)

    def epoch(self, epoch: Epoch) -> None:
        text = f"  epoch {epoch.number} of {self._epochs}: loss {epoch.loss:.4f}"
        text += "" if epoch.accuracy is None else f", {100 * epoch.accuracy:.1f}% right"
        held = {name.removeprefix("holdout_"): value for name, value in epoch.measured.items() if "holdout" in name}
        self._console.print(text + (f", held out {result(held)}" if held else ""), highlight=False)


@dataclass(frozen=True)
class _Measure:
    """How a metric stands in the table."""

    head: str
    show: Callable[[Estimate], str]
    note: str = ""


MEASURES = {
    "accuracy": _Measure("accuracy %", percent, "accuracy: mean ± standard error"),
    "rmse": _Measure("RMSE", plain, "RMSE: mean ± standard error, in the units of the answers, lower is better"),
    "lowest": _Measure("lowest %", percent, "lowest: over contrasts 1 to 0.0001"),
    "zero_entropy": _Measure("zero", lambda e: f"{e.mean:.3f}", "zero: entropy at the zero image, 1 = uniform"),
    "dead": _Measure("dead %", lambda e: f"{100 * e.mean:.1f}", "dead: units off on all test data"),
    "parameters": _Measure("params", lambda e: f"{e.mean:,.0f}"),
}


def comparison_table(comparison: Comparison) -> Table:
    """One row per neuron, narrow enough for 80 columns."""
    measures = [(metric.key, MEASURES[metric.key]) for metric in comparison.metrics]
    times, rows, marks = comparison.times, [], {}
    for number, row in enumerate(comparison.neurons):
        if row.failed:
            marks[number, 0] = "failed"
        found = ((row.estimates.get(key), measure) for key, measure in measures)
        rows.append(
            (
                row.family + (f" ({len(row.failed)} failed)" if row.failed else ""),
                *(measure.show(estimate) if estimate else "–" for estimate, measure in found),
                f"{times[row.family].ratio:.2f}×" if row.family in times else "–",
            )
        )
    head = ("neuron", *(measure.head for _, measure in measures), "time")
    notes = [*(measure.note for _, measure in measures if measure.note), "time: per step, to standard"]
    return Table(comparison.title, head, tuple(rows), 1, "; ".join(notes), marks)


def choice_table(choices: Sequence[Choice], field: str) -> Table:
    """What held-out data say of the values of a field, a column per neuron; the chosen value is marked."""
    values = list(dict.fromkeys(point.value for choice in choices for point in choice.curve))
    rows, marks = [], {}
    for number, value in enumerate(values):
        cells = [str(value)]
        for choice in choices:
            point = next((point for point in choice.curve if point.value == value), None)
            text = _of_curve(point, choice.measure)
            if choice.best == value and point:
                text, marks[number, len(cells)] = f"{text} *", "best"
            cells.append(text)
        rows.append(tuple(cells))
    what = "RMSE" if any(choice.measure == "rmse" for choice in choices) else "accuracy in %"
    caption = f"held-out {what}: mean ± standard error over seeds; *: chosen by it, and not by the test data"
    if any(choice.protocol == "published" for choice in choices):
        caption = f"test {what}: mean ± standard error over seeds; *: chosen on the TEST data (protocol published)"
    return Table("", (field, *(choice.family for choice in choices)), tuple(rows), 0, caption, marks)


def _of_curve(point: Point | None, measure: str) -> str:
    if point is None or point.mean is None:
        return "failed" if point else "–"
    text = MEASURES[measure].show(Estimate(point.mean, point.error, 0))
    return text + (f" ({point.failed} failed)" if point.failed else "")
