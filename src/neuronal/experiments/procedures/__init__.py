"""How the tables and figures of the papers are measured and judged; one file each, all alike.

``measure(setting, work)`` gives the result as plain numbers, ``findings(answer)`` what it says of the paper's claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from neuronal.experiments.procedures import (
    accuracy_table,
    activity,
    born_dead,
    contrast_table,
    cutoff,
    expressiveness,
    interpolation,
    ntk,
    regions,
    training_curves,
    zero_image,
)
from neuronal.experiments.procedures.finding import Finding


class Procedure(Protocol):
    """What a file of this room offers."""

    measure: Callable[..., dict[str, Any]]
    findings: Callable[[Mapping[str, Any]], Sequence[Finding]]


PROCEDURES: dict[str, Any] = {
    "accuracy_table": accuracy_table,
    "activity": activity,
    "born_dead": born_dead,
    "contrast_table": contrast_table,
    "cutoff": cutoff,
    "expressiveness": expressiveness,
    "interpolation": interpolation,
    "ntk": ntk,
    "regions": regions,
    "training_curves": training_curves,
    "zero_image": zero_image,
}
"""By the name a reproduction asks for."""
