"""One self-contained page: opens from disk, needs no network, reads well on a phone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean

from neuronal.data.dataset import Dataset
from neuronal.experiments.compare import Comparison, Estimate, by_family
from neuronal.experiments.record import Record
from neuronal.experiments.sweep import Study
from neuronal.nn.families import FAMILIES
from neuronal.report.figures import Drawing, contrast_curves, training_curves, zero_image_bars
from neuronal.report.html import Markup, bullets, document, figures, table
from neuronal.report.words import counted, findings, percent, plain
from neuronal.train.timing import StepTime


def page(
    study: Study, data: Dataset, records: Sequence[Record], comparison: Comparison, costs: Mapping[str, StepTime]
) -> str:
    """The report on a study as HTML; ``costs`` are step times by neuron."""
    recipe = study.recipe
    sound = by_family(record for record in records if record.failure is None)
    title = f"{recipe.name}: {', '.join(study.families)}"
    what = "rows" if len(data.shape) == 1 else "images"
    answers = f"{len(data.classes)} classes" if data.classes else "a number to predict"
    split = f"{len(data.train):,} training and {len(data.test):,} test {what}, {answers}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">Model <b>{escape(recipe.model)}</b> on <b>{escape(data.name)}</b> ({split}), '
        f"{counted(recipe.epochs, 'epoch')}, {counted(len(recipe.seeds), 'seed')}, {100 * recipe.holdout:g}% of the "
        f"training {what} kept apart to follow it. Everything but the neuron is the same.</p>",
        bullets(findings(comparison, records, costs, data.classes)),
        "<h2>Summary</h2>",
        _summary(comparison, costs),
        "<h2>Figures</h2>",
        figures(_figures(sound, data)),
        "<h2>Dead units, layer by layer</h2>",
        _dead_units(sound),
        "<h2>Every cell</h2>",
        _cells(records),
        "<h2>Recipe</h2>",
        "<p>This is all that was decided; the same recipe and seed give the same numbers on the same machine.</p>",
        f"<pre>{escape(json.dumps(study.to_json(), indent=1))}</pre>",
        "<h2>Measured with</h2>",
        _environments(records),
        f"<footer><p>Data: {escape(data.source)}</p></footer>",
    ]
    return document(title, parts)


def _summary(comparison: Comparison, costs: Mapping[str, StepTime]) -> str:
    head = ["neuron", "unit", *(metric.title for metric in comparison.metrics), "time per step", "seeds"]
    rows = []
    for row in comparison.rows:
        unit = FAMILIES[row.family].unit if row.family in FAMILIES else ""
        cells: list[str] = [row.family, unit]
        for metric in comparison.metrics:
            best = comparison.best(metric.key) if metric.better != "neither" else None
            cells.append(_estimate(metric.key, row.estimates.get(metric.key), best is row))
        cells.append(f"{costs[row.family].ratio:.2f}×" if row.family in costs else "–")
        good = max((estimate.num_seeds for estimate in row.estimates.values()), default=0)
        failed = f'<td class="failed">{good}, failed: {len(row.failed)}</td>'
        cells.append(Markup(failed) if row.failed else str(good))
        rows.append(cells)
    note = (
        '<p class="soft">Means over seeds ± standard error, in per cent where not a ratio or an RMSE (in the units of the '
        "answers, lower is better). Marked: the best mean, "
        "which is not always a shown difference (see the sentences above). Time per step: ratio to "
        "standard, measured side by side.</p>"
    )
    return table(head, rows, "summary") + note


def _estimate(key: str, estimate: Estimate | None, is_best: bool) -> str:
    if estimate is None:
        return "–"
    if key == "parameters":
        return f"{estimate.mean:,.0f}"
    if key == "zero_entropy":
        error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
        return f"{estimate.mean:.3f}{error}"
    text = plain(estimate) if key == "rmse" else percent(estimate)
    return Markup(f'<td class="best">{escape(text)}</td>') if is_best else text


def _figures(sound: Mapping[str, Sequence[Record]], data: Dataset) -> list[Drawing]:
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


def _dead_units(sound: Mapping[str, Sequence[Record]]) -> str:
    rows = []
    for family, records in sound.items():
        layers = zip(*(record.probes.get("dead_units", {"layers": []})["layers"] for record in records), strict=True)
        for layer in layers:
            dead = [entry["dead"] for entry in layer]
            mean = fmean(dead)
            name, units = layer[0]["name"], layer[0]["units"]
            rows.append(
                [family, name, str(units), f"{mean:.1f}", f"{100 * mean / (units or 1):.1f}", ", ".join(map(str, dead))]
            )
    if not rows:
        return "<p>Not measured.</p>"
    note = '<p class="soft">A unit is dead when it is active on no test input; for a convolution, at no position.</p>'
    return table(["neuron", "activation", "units", "dead (mean)", "dead (%)", "dead, seed by seed"], rows) + note


def _cells(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        if record.failure:
            result: str = Markup(f'<td class="failed">{escape(record.failure.reason)}</td>')
        else:
            found = record.metrics
            result = f"RMSE {found['rmse']:.4g}" if "rmse" in found else f"{100 * found['accuracy']:.2f}%"
        rows.append([record.recipe.family, str(record.seed), result, f"{record.seconds:.1f} s"])
        rows[-1] += [f"{1000 * record.step_seconds:.2f} ms", record.finished]
    return table(["neuron", "seed", "on test data", "time", "per step", "finished (UTC)"], rows)


def _environments(records: Sequence[Record]) -> str:
    """One column per different environment: cells kept from an earlier version stand out."""
    different: list[Mapping[str, str]] = []
    for record in records:
        if record.environment not in different:
            different.append(record.environment)
    names = list(dict.fromkeys(name for environment in different for name in environment))
    rows = [[name, *(environment.get(name, "–") for environment in different)] for name in names]
    head = ["", *(f"{sum(r.environment == e for r in records)} of {len(records)} cells" for e in different)]
    return table(head, rows, "left")
