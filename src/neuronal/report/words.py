"""What the numbers say, in sentences made from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from neuronal.experiments.compare import Comparison, Estimate, difference
from neuronal.experiments.record import Record
from neuronal.train.timing import StepTime


def percent(estimate: Estimate) -> str:
    """``92.2 ± 0.4``: mean and standard error in per cent; no error from a single seed."""
    error = "" if estimate.standard_error is None else f" ± {100 * estimate.standard_error:.1f}"
    return f"{100 * estimate.mean:.1f}{error}"


def findings(
    comparison: Comparison, records: Sequence[Record], costs: Mapping[str, StepTime], classes: Sequence[str]
) -> list[str]:
    """The best neuron and the trade-offs, one sentence or two per subject, most important first."""
    sound = [record for record in records if record.failure is None]
    by_family: dict[str, list[Record]] = {}
    for record in sound:
        by_family.setdefault(record.recipe.family, []).append(record)
    found = [*_failures(comparison), *_accuracy(comparison, by_family)]
    if sound and all("contrast" in record.probes for record in sound):
        found += _contrast(by_family)
    if sound and all("zero_image" in record.probes for record in sound):
        found += _zero_image(by_family, classes)
    return found + _dead(comparison) + _cost(comparison, costs)


def _failures(comparison: Comparison) -> list[str]:
    return [
        f"{row.family} failed with seed {seed}: {reason}. Its mean is over the remaining seeds."
        for row in comparison.rows
        for seed, reason in row.failed.items()
    ]


def _accuracy(comparison: Comparison, by_family: Mapping[str, Sequence[Record]]) -> list[str]:
    best = comparison.best("accuracy")
    if best is None:
        return ["No cell finished, so there is nothing to compare."]
    mine = best.estimates["accuracy"]
    seeds = f"{mine.num_seeds} seed" + ("s" if mine.num_seeds > 1 else "")
    found = [f"Highest mean test accuracy: {best.family}, {percent(mine)}% ({seeds})."]
    for row in comparison.rows:
        if row is best or "accuracy" not in row.estimates:
            continue
        values = ({r.seed: r.metrics["accuracy"] for r in by_family[name]} for name in (row.family, best.family))
        gap = difference(*values)
        behind = f"{row.family} is {-100 * gap.mean:.1f} points behind"
        if gap.low is None or gap.high is None:
            found.append(f"{behind}; one seed cannot tell whether that is chance.")
        else:
            interval = f"95% interval of the difference {100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
            verdict = "a difference is shown" if gap.is_shown else "no difference is shown with these seeds"
            found.append(f"{behind} ({interval}): {verdict}.")
    return found


def _contrast(by_family: Mapping[str, Sequence[Record]]) -> list[str]:
    flat, falling = [], []
    for family, records in by_family.items():
        multipliers = records[0].probes["contrast"]["multipliers"]
        curves = [record.probes["contrast"]["accuracy"] for record in records]
        means = [100 * fmean(values) for values in zip(*curves, strict=True)]
        lowest = min(range(len(means)), key=means.__getitem__)
        if all(value == curve[0] for curve in curves for value in curve):
            flat.append(f"{family} ({means[0]:.1f}%)")
        else:
            falling.append(f"{family} {means[0]:.1f}% to {means[lowest]:.1f}% at {multipliers[lowest]:g}")
    found = [f"The same accuracy at every contrast, for every seed: {', '.join(flat)}."] if flat else []
    if falling:
        found.append(f"Accuracy falls when the contrast is turned down (mean, full to lowest): {'; '.join(falling)}.")
    return found


def _zero_image(by_family: Mapping[str, Sequence[Record]], classes: Sequence[str]) -> list[str]:
    uniform = 1 / len(classes)
    even, believing = [], []
    for family, records in by_family.items():
        everything = [(record.probes["zero_image"]["probabilities"], record.seed) for record in records]
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
    rows = [row for row in comparison.rows if "dead" in row.estimates]
    shares = ", ".join(f"{row.family} {percent(row.estimates['dead'])}%" for row in rows)
    return [f"Units never active on the test images: {shares}."] if rows else []


def _cost(comparison: Comparison, costs: Mapping[str, StepTime]) -> list[str]:
    others = [row.family for row in comparison.rows if row.family in costs and row.family != comparison.baseline]
    texts = (
        f"{name} {costs[name].ratio:.2f} ({costs[name].ratio_low:.2f}–{costs[name].ratio_high:.2f})" for name in others
    )
    return [f"Time of a training step against the standard one (quartiles): {', '.join(texts)}."] if others else []
