"""What a result says of a claim."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Verdict = Literal[
    "reproduced", "reproduced in part", "not reproduced", "not true as stated", "not measured", "shown", "not shown"
]
"""The last two are of what no paper claims."""

BEYOND = "Beyond the paper: "
"""Starts a claim that is ours."""


@dataclass(frozen=True)
class Finding:
    """One line of a findings page: the paper's claim, or one of ours, the verdict, and the numbers it rests on."""

    claim: str
    verdict: Verdict
    numbers: str
    again: str = ""
    """What asks for it, such as ``--scale paper``, where it is not the command of the result."""


def ours(finding: Finding) -> Finding:
    """The same of a claim that no paper makes: shown only if all of it holds."""
    verdict: Verdict = "shown" if finding.verdict == "reproduced" else "not shown"
    if finding.verdict == "not measured":
        verdict = finding.verdict
    return replace(finding, claim=BEYOND + finding.claim, verdict=verdict)


def all_or_some(good: int, total: int) -> Verdict:
    """The verdict where a claim is about many cases: in part if it holds for some; not at all if there are none."""
    return "not reproduced" if not good else "reproduced" if good == total else "reproduced in part"


def seeds_said(count: int) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{count} seed{'' if count == 1 else 's'}"
