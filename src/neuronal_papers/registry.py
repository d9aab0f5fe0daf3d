"""All reproductions by name, in the order of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from neuronal.names import find
from neuronal_papers.core import Reproduction

PAPERS: tuple[str, ...] = ("zero_bias", "geometric", "implicit_bias", "farkas")
"""Folders of this package; each has ``ABOUT``, title and source of the paper, and ``REPRODUCTIONS``."""


def package_of(paper: str) -> Any:
    """The package of a paper; ``ValueError`` for an unknown name."""
    return import_module(f"neuronal_papers.{find({name: name for name in PAPERS}, paper, 'paper')}")


@cache
def reproductions() -> Mapping[str, Reproduction]:
    """Every table and figure by its name."""
    return {one.name: one for paper in PAPERS for one in package_of(paper).REPRODUCTIONS}
