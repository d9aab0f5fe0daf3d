"""What a result says of a claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["reproduced", "reproduced in part", "not reproduced", "not true as stated", "not measured"]


@dataclass(frozen=True)
class Finding:
    """One line of a findings page: the paper's claim, the verdict, and the numbers it rests on."""

    claim: str
    verdict: Verdict
    numbers: str
