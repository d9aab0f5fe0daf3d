"""What every certificate says, whatever it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

Verdict = Literal["certified", "refuted", "unknown"]
Promise = Literal["real", "float32"]
PROMISES: dict[Promise, str] = {
    "real": "the network with the model's weights, computed in real numbers",
    "float32": "the network as computed in float32, whatever the order of summation",
}
REMARK = {"remark": True}
"""Metadata of fields that are no part of what a certificate says: ``check`` does not look at them."""
OTHER_STATEMENT = "its statement is not what its evidence is about"


@dataclass(frozen=True, eq=False)
class Certificate:
    """An answer that carries its proof.

    Attributes:
        kind: What was asked: segment, hull, cone, ball, scaling or activity.
        statement: What was to be shown, in words.
        verdict: ``certified`` (proved), ``refuted`` (``witness`` is a counterexample the model itself confirms) or
            ``unknown`` (neither; ``reason`` says why).
        promise: Which network the statement is about; see ``PROMISES``.
        reason: One sentence: how it was proved or refuted, or why not; a remark.
        witness: The counterexample, an input of the model.
        evidence: What ``check`` needs to verify the proof again; a frozen record of the kind's own.
    """

    kind: str
    statement: str
    verdict: Verdict
    promise: Promise
    reason: str = field(metadata=REMARK)
    witness: Tensor | None = None
    evidence: Any = None


@dataclass(frozen=True)
class Confirmation:
    """What ``check`` says: true if confirmed, else false with the reason."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"not confirmed, because {self.reason}" if self.reason else "confirmed"


class NotConfirmed(Exception):
    """A checker does not see that a certificate holds; the message says why."""


def require(holds: object, why: str) -> None:
    """Raises :class:`NotConfirmed` unless it holds."""
    if not holds:
        raise NotConfirmed(why)
