"""All reproductions by name, in the order of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from neuronal_papers.core import Reproduction

PAPERS: tuple[str, ...] = ("zero_bias", "geometric", "implicit_bias", "farkas")
"""Folders of this package; each has ``ABOUT``, title and source of the paper, and ``REPRODUCTIONS``."""


@cache
def reproductions() -> Mapping[str, Reproduction]:
    """Every table and figure by its name."""
    return {one.name: one for paper in PAPERS for one in _paper(paper).REPRODUCTIONS}


def about(paper: str) -> str:
    """Title and source of a paper."""
    text: str = _paper(paper).ABOUT
    return text


def _paper(name: str) -> Any:
    return import_module(f"neuronal_papers.{name}")
