"""The axes of every figure that is drawn."""

from contextlib import contextmanager

import pytest

from neuronal.report import figures, regions


@pytest.fixture
def axes(monkeypatch):
    """The axes of every figure drawn, in order."""
    kept, real = [], figures.blank

    @contextmanager
    def keep(name):
        with real(name) as sheet:
            yield sheet
            kept.append(sheet.axes)

    for module in (figures, regions):
        monkeypatch.setattr(module, "blank", keep)
    return kept
