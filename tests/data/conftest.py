"""A cache and a data folder of each test's own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("NEURONAL_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Call it, and nothing that this process has loaded is remembered, as in another process."""

    def forget():
        monkeypatch.setattr("neuronal.data.catalogue._LOADED", {})

    forget()
    return forget


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("NEURONAL_DATA", str(folder))
    return folder
