"""What is drawn is what was measured, read back from the axes."""

import pytest

from neuronal.experiments.compare import by_family
from neuronal.report import figures


def mean(columns):
    return [sum(column) / len(column) for column in zip(*columns, strict=True)]


def test_contrast_curves_are_mean_accuracies(axes, quick_records):
    groups = by_family(quick_records)
    drawing = figures.contrast_curves(groups)
    for line, (family, records) in zip(axes[0].get_lines(), groups.items(), strict=True):
        assert line.get_label() == family
        assert tuple(line.get_xdata()) == records[0].probes["contrast"].multipliers
        expected = mean([[100 * v for v in r.probes["contrast"].accuracy] for r in records])
        assert list(line.get_ydata()) == pytest.approx(expected)
    assert drawing.svg.startswith("<svg")


def test_zero_image_bars_are_mean_probabilities(axes, quick_records):
    groups = by_family(quick_records)
    figures.zero_image_bars(groups, tuple("0123456789"))
    heights = [bar.get_height() for bar in axes[0].patches]
    expected = [p for records in groups.values() for p in mean([r.probes["zero_image"].probabilities for r in records])]
    assert heights == pytest.approx(expected)
    assert axes[0].get_lines()[0].get_ydata()[0] == 0.1


def test_training_curves_are_mean_rows(axes, quick_records):
    groups = by_family(quick_records)
    figures.training_curves(groups, "holdout_accuracy", "t", "label", scale=100, log=False)
    for line, records in zip(axes[0].get_lines(), groups.values(), strict=True):
        expected = mean([[100 * row["holdout_accuracy"] for row in r.epochs] for r in records])
        assert list(line.get_ydata()) == pytest.approx(expected)
        assert list(line.get_xdata()) == [1, 2]


def test_a_dollar_sign_is_a_dollar_sign(quick_records):
    groups = {"$x_1$": quick_records}
    assert "$x_1$" in figures.contrast_curves(groups).svg
