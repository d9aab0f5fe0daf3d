"""The page of a comparison, as a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from neuronal.core.words import counted
from neuronal.data.dataset import Dataset
from neuronal.experiments.compare import Estimate, by_family
from neuronal.experiments.record import Record
from neuronal.nn.families import FAMILIES
from neuronal.probes.dead_units import DeadUnits
from neuronal.report.document import Block, Bullets, Code, Document, Figures, Section, Text
from neuronal.report.figures import Figure, contrast_curves, training_curves, zero_image_bars
from neuronal.report.tables import Table
from neuronal.report.words import percent, plain

if TYPE_CHECKING:
    from neuronal.report.comparison import Comparison


def page(comparison: Comparison) -> Document:
    """The report on a comparison."""
    study, data, records = comparison.study, comparison.data, comparison.records
    recipe = study.recipe
    sound = by_family(record for record in records if record.failure is None)
    title = f"{recipe.name}: {', '.join(study.families)}"
    what = "rows" if len(data.shape) == 1 else "images"
    answers = f"{len(data.classes)} classes" if data.classes else "a number to predict"
    split = f"{len(data.train):,} training and {len(data.test):,} test {what}, {answers}"
    about = (
        f"Model **{recipe.model}** on **{data.name}** ({split}), {counted(recipe.epochs, 'epoch')}, "
        f"{counted(len(recipe.seeds), 'seed')}, {100 * recipe.holdout:g}% of the training {what} kept apart to follow it. "
        "Everything but the neuron is the same."
    )
    decided = "This is all that was decided; the same recipe and seed give the same numbers on the same machine."
    sections = (
        Section("Summary", [_summary(comparison)]),
        Section("Figures", [Figures(_figures(sound, data))]),
        Section("Dead units, layer by layer", [_dead_units(sound)]),
        Section("Every cell", [_cells(records)]),
        Section("Recipe", [Text(decided), Code(json.dumps(study.to_json(), indent=1))]),
        Section("Measured with", [_environments(records)]),
    )
    first: list[Block] = [Text(about, is_soft=True), Bullets(comparison.findings)]
    return Document(title, first, sections, f"Data: {data.source}")


def _summary(comparison: Comparison) -> Table:
    head = ("neuron", "unit", *(metric.title for metric in comparison.metrics), "time per step", "seeds")
    times, rows, marks = comparison.times, [], {}
    for number, row in enumerate(comparison.neurons):
        unit = FAMILIES[row.family].unit if row.family in FAMILIES else ""
        cells = [row.family, unit]
        for metric in comparison.metrics:
            if metric.better != "neither" and metric.key != "parameters" and comparison.best(metric.key) is row:
                marks[number, len(cells)] = "best"
            cells.append(_estimate(metric.key, row.estimates.get(metric.key)))
        cells.append(f"{times[row.family].ratio:.2f}×" if row.family in times else "–")
        good = max((estimate.num_seeds for estimate in row.estimates.values()), default=0)
        if row.failed:
            marks[number, len(cells)] = "failed"
        cells.append(f"{good}, failed: {len(row.failed)}" if row.failed else str(good))
        rows.append(tuple(cells))
    note = (
        "Means over seeds ± standard error, in per cent where not a ratio or an RMSE (in the units of the answers, lower is "
        "better). Marked: the best mean, which is not always a shown difference (see the sentences above). Time per step: "
        "ratio to standard, measured side by side"
    )
    return Table("", head, tuple(rows), 2, note, marks)


def _estimate(key: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if key == "parameters":
        return f"{estimate.mean:,.0f}"
    if key == "zero_entropy":
        error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
        return f"{estimate.mean:.3f}{error}"
    return plain(estimate) if key == "rmse" else percent(estimate)


def _figures(sound: Mapping[str, Sequence[Record]], data: Dataset) -> list[Figure]:
    records = [record for group in sound.values() for record in group]
    drawings = []
    if records and all("contrast" in record.probes for record in records):
        drawings.append(contrast_curves(sound))
    if records and all("zero_image" in record.probes for record in records):
        drawings.append(zero_image_bars(sound, data.classes))
    if records:
        drawings.append(training_curves(sound, "loss", "Training loss", "training loss", scale=1, log=True))
    if records and all("holdout_accuracy" in row for record in records for row in record.epochs):
        label = "held-out accuracy (%)"
        drawings.append(training_curves(sound, "holdout_accuracy", "Held-out accuracy", label, scale=100, log=False))
    if records and all("holdout_rmse" in row for record in records for row in record.epochs):
        drawings.append(training_curves(sound, "holdout_rmse", "Held-out RMSE", "held-out RMSE", scale=1, log=True))
    return drawings


def _dead_units(sound: Mapping[str, Sequence[Record]]) -> Block:
    rows = []
    for family, records in sound.items():
        measured = [record.probe(DeadUnits).layers for record in records if "dead_units" in record.probes]
        for layer in zip(*measured, strict=True):
            dead = [entry.dead for entry in layer]
            mean, name, units = fmean(dead), layer[0].name, layer[0].units
            numbers = f"{mean:.1f}", f"{100 * mean / (units or 1):.1f}", ", ".join(map(str, dead))
            rows.append((family, name, str(units), *numbers))
    if not rows:
        return Text("Not measured.")
    note = "A unit is dead when it is active on no test input; for a convolution, at no position"
    head = ("neuron", "activation", "units", "dead (mean)", "dead (%)", "dead, seed by seed")
    return Table("", head, tuple(rows), 2, note)


def _cells(records: Sequence[Record]) -> Table:
    rows, marks = [], {}
    for number, record in enumerate(records):
        found = record.metrics
        if record.failure:
            result, marks[number, 2] = record.failure.reason, "failed"
        else:
            result = f"RMSE {found['rmse']:.4g}" if "rmse" in found else f"{100 * found['accuracy']:.2f}%"
        times = f"{record.seconds:.1f} s", f"{1000 * record.step_seconds:.2f} ms", record.finished
        rows.append((record.recipe.family, str(record.seed), result, *times))
    head = ("neuron", "seed", "on test data", "time", "per step", "finished (UTC)")
    return Table("", head, tuple(rows), 1, marks=marks)


def _environments(records: Sequence[Record]) -> Table:
    """One column per different environment: cells kept from an earlier version stand out."""
    different: list[Mapping[str, str]] = []
    for record in records:
        if record.environment not in different:
            different.append(record.environment)
    names = list(dict.fromkeys(name for environment in different for name in environment))
    rows = tuple((name, *(environment.get(name, "–") for environment in different)) for name in names)
    head = ("", *(f"{sum(r.environment == e for r in records)} of {len(records)} cells" for e in different))
    return Table("", head, rows, len(head))
