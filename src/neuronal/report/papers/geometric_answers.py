"""The questions the page of the geometric paper answers first, from the results there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.procedures.finding import BEYOND, Finding
from neuronal.report.papers.geometric_tables import METHODS, legend

NOT_YET = "not measured yet"
QUESTIONS: Mapping[str, Mapping[str, str]] = {
    "Is it better than the others once every rate is tuned?": {
        "uci": "beyond chance on most (clean)",
        "vgg6": "highest accuracy (clean)",
        "resnet50": "highest accuracy (clean)",
    },
    "Does it take ten times larger rates?": {
        "uci": "is ten times",
        "vgg6": "is ten times",
        "learning_rate": "is ten times",
    },
    "Do boundaries move less in a step?": {
        "levy": "least per step, all at rate 0.1",
        "banana": "least per step, all at rate 0.1",
    },
    "Is it better than standard units at the same rate?": {"same_rate": "(clean)"},
}
"""Reproductions that answer, and what is in the claims that do."""
WORDS = (
    f"Words: {legend(METHODS)}. *Published*: at the paper's rates, and what is chosen while training is chosen by what its "
    "code goes by, mostly test data. *Clean*: every method's rate is tuned, and all is chosen, on held-out data: the "
    "comparison to trust. *Beyond chance*: a paired 95% interval over seeds leaves zero out."
)


def answers(measured: Mapping[str, Mapping[str, Any] | None], results: Path) -> list[str]:
    """For each question a word, and below it what it rests on: a line per claim, with its numbers and where they are from.

    The last line says what the words mean.

    Args:
        measured: The results by the name of their reproduction; ``None`` for those that are not there.
        results: Folder of the result files; not needed here.
    """
    del results
    return [*(f"**{question}** {_answer(measured, where)}" for question, where in QUESTIONS.items()), WORDS]


def _answer(measured: Mapping[str, Mapping[str, Any] | None], where: Mapping[str, str]) -> str:
    found: list[Finding] = []
    lines = []
    for short, words in where.items():
        result = measured.get(f"geometric/{short}")
        again = f"(`neuronal reproduce geometric/{short} --scale {result['scale'] if result else 'small'}`)"
        own = [one for one in PROCEDURES[result["procedure"]].findings(result) if words in one.claim] if result else []
        found += own
        lines += [f"{one.verdict}: {one.claim.removeprefix(BEYOND)}: {one.numbers} {again}" for one in own]
        lines += [] if own else [f"{NOT_YET} {again}"]
    return "\n".join([f"{_word(found) if found else NOT_YET.capitalize()}.", *(f"  - {line}" for line in lines)])


def _word(found: Sequence[Finding]) -> str:
    held = [one.verdict in ("reproduced", "shown") for one in found]
    if all(held):
        return "Yes"
    return "In part" if any(held) or any(one.verdict == "reproduced in part" for one in found) else "No"
