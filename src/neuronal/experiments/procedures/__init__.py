"""How the tables and figures of the papers are measured and judged; one file each, all alike.

``measure(setting, work)`` gives the result as plain numbers, ``findings(answer)`` what it says of the paper's claims, and
``JUDGED`` by what rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from neuronal.experiments.procedures import (
    accuracy_curve,
    accuracy_table,
    activity,
    born_dead,
    boundaries,
    boundary_2d,
    contrast_table,
    cutoff,
    energy,
    expressiveness,
    hinge_motion,
    interpolation,
    learning_rates,
    ntk,
    perturbation,
    pixels_moved,
    protocol_table,
    regions,
    robustness,
    sensitivity,
    stealth,
    training_curves,
    transfer,
    variants,
    widths,
    zero_image,
)
from neuronal.experiments.procedures.finding import Finding


class Procedure(Protocol):
    """What a file of this room offers."""

    JUDGED: str
    measure: Callable[..., dict[str, Any]]
    findings: Callable[[Mapping[str, Any]], Sequence[Finding]]


PROCEDURES: dict[str, Any] = {
    "accuracy_table": accuracy_table,
    "activity": activity,
    "born_dead": born_dead,
    "boundaries": boundaries,
    "contrast_table": contrast_table,
    "cutoff": cutoff,
    "accuracy_curve": accuracy_curve,
    "boundary_2d": boundary_2d,
    "energy": energy,
    "expressiveness": expressiveness,
    "hinge_motion": hinge_motion,
    "interpolation": interpolation,
    "learning_rates": learning_rates,
    "ntk": ntk,
    "pixels_moved": pixels_moved,
    "perturbation": perturbation,
    "protocol_table": protocol_table,
    "regions": regions,
    "robustness": robustness,
    "sensitivity": sensitivity,
    "stealth": stealth,
    "training_curves": training_curves,
    "transfer": transfer,
    "variants": variants,
    "widths": widths,
    "zero_image": zero_image,
}
"""By the name a reproduction asks for."""
