"""How the tables and figures of the papers are measured and judged; one file each, all alike.

``measure(setting, work)`` gives the result as plain numbers, ``findings(answer)`` what it says of the paper's claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from neuronal.experiments.procedures import (
    boundaries,
    contrast_table,
    expressiveness,
    hinge_motion,
    interpolation,
    learning_rates,
    ntk,
    perturbation,
    protocol_table,
    regions,
    training_curves,
    widths,
    zero_image,
)
from neuronal.experiments.procedures.finding import Finding


class Procedure(Protocol):
    """What a file of this room offers."""

    measure: Callable[..., dict[str, Any]]
    findings: Callable[[Mapping[str, Any]], Sequence[Finding]]


PROCEDURES: dict[str, Any] = {
    "boundaries": boundaries,
    "contrast_table": contrast_table,
    "expressiveness": expressiveness,
    "hinge_motion": hinge_motion,
    "interpolation": interpolation,
    "learning_rates": learning_rates,
    "ntk": ntk,
    "perturbation": perturbation,
    "protocol_table": protocol_table,
    "regions": regions,
    "training_curves": training_curves,
    "widths": widths,
    "zero_image": zero_image,
}
"""By the name a reproduction asks for."""
