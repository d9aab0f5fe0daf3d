"""The question the page of the Farkas paper answers first, from the result of Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from neuronal.experiments.procedures.farkas import accuracy_table
from neuronal.experiments.procedures.finding import Finding, Verdict

QUESTION = "Does the advantage without batch norm survive equal parameter counts?"
TABLE = "farkas/table1_cifar10"
EQUAL = "at equal size"
"""Ends the claims that are asked."""
SIZES = (
    "The authors' sizes differ much only at 18 layers, where FarkasNet was the smaller one (304,255 parameters against "
    "797,034; 7.6% more, 0.1% fewer and 4.2% more at 34, 50 and 101): size could not explain its advantage there"
)


def answers(measured: Mapping[str, Mapping[str, Any] | None], results: Path) -> list[str]:
    """One line: a word, the numbers of every depth, and where they are from.

    Args:
        measured: The results by the name of their reproduction; ``None`` for those that are not there.
        results: Folder of the result files, which has nothing more to say here.
    """
    result = measured.get(TABLE)
    equal = [one for one in accuracy_table.findings(result) if one.claim.endswith(EQUAL)] if result else []
    again = f"`neuronal reproduce {TABLE} --scale {result['scale'] if result else 'small'}`"
    return [f"**{QUESTION}** {_said(equal)} ({again}). {SIZES}."]


def _said(found: Sequence[Finding]) -> str:
    if not found:
        return "Not measured yet"
    numbers = "; ".join(f"{_network(one)}: {one.verdict}, {one.numbers}" for one in found)
    return f"{_word({one.verdict for one in found})}: {numbers}"


def _word(verdicts: Set[Verdict]) -> str:
    """Yes if all depths say so: one where nothing could be compared leaves the yes of others a part."""
    if verdicts == {"not measured"}:
        return "Nothing to compare"
    if not verdicts & {"reproduced", "reproduced in part"}:
        return "No"
    return "Yes" if verdicts == {"reproduced"} else "In part"


def _network(one: Finding) -> str:
    return next(word for word in one.claim.split() if word.startswith("FarkasNet"))
