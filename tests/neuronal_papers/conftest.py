"""A registry with the toy paper alone."""

import sys

import pytest

from neuronal_papers import registry
from tests.neuronal_papers import toy


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuronal_papers.toy", toy)
    monkeypatch.setattr(registry, "PAPERS", ("toy",))
    registry.reproductions.cache_clear()
    yield
    registry.reproductions.cache_clear()
