"""A registry with the toy paper alone; figures that are not drawn."""

import sys
from contextlib import contextmanager

import pytest
from matplotlib.figure import Figure

from neuronal_papers import registry
from tests.neuronal_papers import toy


@contextmanager
def undrawn():
    """Figures are empty: drawing takes longer than all the rest of a page, and tests/golden holds what is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, file, **_: file.write("<svg></svg>"))
        yield


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuronal_papers.toy", toy)
    monkeypatch.setattr(registry, "PAPERS", ("toy",))
    registry.reproductions.cache_clear()
    yield
    registry.reproductions.cache_clear()
