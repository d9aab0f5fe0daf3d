"""How the tables and figures of the papers are measured and judged; one room per paper, one file each, all alike.

``measure(setting, work)`` gives the result as plain numbers, ``findings(answer)`` what it says of the paper's claims, and
``JUDGED`` by what rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from neuronal.experiments.procedures import geometric
from neuronal.experiments.procedures.finding import Finding


class Procedure(Protocol):
    """What a file of this room offers."""

    JUDGED: str
    measure: Callable[..., dict[str, Any]]
    findings: Callable[[Mapping[str, Any]], Sequence[Finding]]


PROCEDURES: dict[str, Any] = geometric.PROCEDURES
"""By the name a reproduction asks for."""
