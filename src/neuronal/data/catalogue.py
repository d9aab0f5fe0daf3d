"""Datasets by name."""

from __future__ import annotations

from collections.abc import Callable

from neuronal.data import digits
from neuronal.data.dataset import Dataset
from neuronal.names import find

DATASETS: dict[str, Callable[[], Dataset]] = {"digits": digits.load}


def load(name: str) -> Dataset:
    """The dataset called ``name``; an unknown name gets the list of those that exist."""
    return find(DATASETS, name, "dataset")()
