"""What the numbers say, in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from neuronal.core.words import counted
from neuronal.experiments.compare import Difference, Estimate, by_family
from neuronal.experiments.recipe import PROTOCOLS
from neuronal.experiments.record import Record
from neuronal.probes.contrast import Contrast
from neuronal.probes.zero_image import ZeroImage

if TYPE_CHECKING:
    from neuronal.report.comparison import Comparison


def percent(estimate: Estimate) -> str:
    """``92.2 ± 0.4``: mean and standard error in per cent; no error from a single seed."""
    error = "" if estimate.standard_error is None else f" ± {100 * estimate.standard_error:.1f}"
    return f"{100 * estimate.mean:.1f}{error}"


def plain(estimate: Estimate) -> str:
    """``3.214 ± 0.051``: mean and standard error as they are."""
    return f"{estimate.mean:.4g}" + ("" if estimate.standard_error is None else f" ± {estimate.standard_error:.2g}")


def result(metrics: Mapping[str, float]) -> str:
    """What came of one network: ``97.2% right``, or ``RMSE 3.214``."""
    text = f"RMSE {metrics['rmse']:.4g}" if "rmse" in metrics else f"{100 * metrics['accuracy']:.1f}% right"
    return text + (f" (weights of epoch {metrics['best_epoch']})" if "best_epoch" in metrics else "")


def findings(comparison: Comparison) -> list[str]:
    """The best neuron and the trade-offs, one sentence or two per subject, most important first."""
    sound = by_family(record for record in comparison.records if record.failure is None)
    probed = [set(record.probes) for group in sound.values() for record in group]
    everywhere = set.intersection(*probed) if probed else set()
    return [
        *_protocol(comparison.records),
        *_incomplete(comparison),
        *_failures(comparison),
        *_main(comparison),
        *(_contrast(sound) if "contrast" in everywhere else []),
        *(_zero_image(sound, comparison.data.classes) if "zero_image" in everywhere else []),
        *_dead(comparison),
        *_cost(comparison),
    ]


def _protocol(records: Sequence[Record]) -> list[str]:
    """What is not clean is said first."""
    named = {record.recipe.protocol: None for record in records if record.recipe.protocol != "clean"}
    return [f"Protocol {name}: {PROTOCOLS[name]}." for name in named]


def _incomplete(comparison: Comparison) -> list[str]:
    """What the numbers do not cover, or no longer hold for."""
    missing, count = len(comparison.study.cells()) - len(comparison.records), len(comparison.study.cells())
    found = [f"{missing} of {count} cells are not finished."] if missing > 0 else []
    if any(record.data not in ("", comparison.data.checksum()) for record in comparison.records):
        found.append(f"The data at {comparison.study.recipe.data} have changed since these cells were trained.")
    return found


def _failures(comparison: Comparison) -> list[str]:
    return [
        f"{row.family} failed with seed {seed}: {reason}."
        + (" Its mean is over the remaining seeds." if row.estimates else "")
        for row in comparison.neurons
        for seed, reason in row.failed.items()
    ]


def _main(comparison: Comparison) -> list[str]:
    """Who does best: by accuracy, or by RMSE."""
    key = comparison.measure
    best = comparison.best(key)
    if best is None:
        return ["No cell finished, so there is nothing to compare."]
    mine = best.estimates[key]
    text = f"Lowest mean test RMSE: {best.family}, {plain(mine)}"
    if key == "accuracy":
        text = f"Highest mean test accuracy: {best.family}, {percent(mine)}%"
    found = [f"{text} ({counted(mine.num_seeds, 'seed')})."]
    gaps = {row.family: row.against_baseline[key] for row in comparison.neurons if key in row.against_baseline}
    if gaps:
        shown_as = _points if key == "accuracy" else _more
        texts = ", ".join(f"{name} {shown_as(gap)}" for name, gap in gaps.items())
        shown = [name for name, gap in gaps.items() if gap.is_shown]
        verdict = (
            f"a difference is shown for {', '.join(shown)}" if shown else "no difference is shown with these seeds"
        )
        intervals = "95% intervals that hold for all together"
        what = "Points" if key == "accuracy" else "RMSE"
        found.append(f"{what} against {comparison.baseline}, seed by seed ({intervals}): {texts}: {verdict}.")
    return found


def _points(gap: Difference) -> str:
    interval = (
        "no interval" if gap.low is None or gap.high is None else f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
    )
    return f"{100 * gap.mean:+.1f} ({interval})"


def _more(gap: Difference) -> str:
    interval = "no interval" if gap.low is None or gap.high is None else f"{gap.low:+.3g} to {gap.high:+.3g}"
    return f"{gap.mean:+.3g} ({interval})"


def _contrast(sound: Mapping[str, Sequence[Record]]) -> list[str]:
    flat, changing = [], []
    for family, records in sound.items():
        multipliers = records[0].probe(Contrast).multipliers
        curves = [record.probe(Contrast).accuracy for record in records]
        means = [100 * fmean(values) for values in zip(*curves, strict=True)]
        lowest = min(range(len(means)), key=means.__getitem__)
        if all(value == curve[0] for curve in curves for value in curve):
            flat.append(f"{family} ({means[0]:.1f}%)")
        else:
            changing.append(f"{family} {means[0]:.1f}%, lowest {means[lowest]:.1f}% at {multipliers[lowest]:g}")
    found = [f"The same accuracy at every contrast, for every seed: {', '.join(flat)}."] if flat else []
    if changing:
        found.append(f"Accuracy changes with contrast (mean at {multipliers[0]:g}, and lowest): {'; '.join(changing)}.")
    return found


def _zero_image(sound: Mapping[str, Sequence[Record]], classes: Sequence[str]) -> list[str]:
    uniform = 1 / len(classes)
    even, believing = [], []
    for family, records in sound.items():
        everything = [(record.probe(ZeroImage).probabilities, record.seed) for record in records]
        if all(abs(p - uniform) < 1e-6 for probabilities, _ in everything for p in probabilities):
            even.append(family)
            continue
        strongest, seed = max(everything, key=lambda both: max(both[0]))
        label = classes[strongest.index(max(strongest))]
        believing.append(f"{family} class {label} with {100 * max(strongest):.0f}% (seed {seed})")
    found = [f"Every class equally likely at the zero image: {', '.join(even)}."] if even else []
    if believing:
        chance = f"uniform would be {100 * uniform:.1f}%"
        found.append(
            f"Strongest belief at the zero image, where there is nothing to see: {'; '.join(believing)}; {chance}."
        )
    return found


def _dead(comparison: Comparison) -> list[str]:
    rows = [row for row in comparison.neurons if "dead" in row.estimates]
    shares = ", ".join(f"{row.family} {percent(row.estimates['dead'])}%" for row in rows)
    return [f"Units never active on the test data: {shares}."] if rows else []


def _cost(comparison: Comparison) -> list[str]:
    times = {name: time for name, time in comparison.times.items() if name != comparison.baseline}
    texts = (f"{name} {time.ratio:.2f} ({time.ratio_low:.2f}–{time.ratio_high:.2f})" for name, time in times.items())
    return [f"Time of a training step against the standard one (quartiles): {', '.join(texts)}."] if times else []
