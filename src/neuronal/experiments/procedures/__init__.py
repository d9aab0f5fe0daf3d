"""How the tables and figures of the papers are measured and judged; one file each, all alike.

``measure(setting, work)`` gives the result as plain numbers, ``findings(answer)`` what it says of the paper's claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from neuronal.experiments.procedures import (
    accuracy_curve,
    accuracy_table,
    activity,
    born_dead,
    boundary_2d,
    contrast_table,
    cutoff,
    energy,
    expressiveness,
    interpolation,
    ntk,
    pixels_moved,
    regions,
    robustness,
    sensitivity,
    stealth,
    training_curves,
    transfer,
    variants,
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
    "accuracy_curve": accuracy_curve,
    "boundary_2d": boundary_2d,
    "energy": energy,
    "expressiveness": expressiveness,
    "interpolation": interpolation,
    "ntk": ntk,
    "pixels_moved": pixels_moved,
    "regions": regions,
    "robustness": robustness,
    "sensitivity": sensitivity,
    "stealth": stealth,
    "training_curves": training_curves,
    "transfer": transfer,
    "variants": variants,
    "zero_image": zero_image,
}
"""By the name a reproduction asks for."""
