"""The questions the page of the Farkas paper answers first, from the results there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from neuronal.experiments.procedures.farkas.claims import by_seed, judged, rows_of
from neuronal.experiments.procedures.finding import BEYOND, Finding, Verdict

Result = Mapping[str, Any]
Row = Mapping[str, Any]
TABLE1, TABLE4, AGGREGATES = "farkas/table1_cifar10", "farkas/table4_best_practice", "farkas/sum_vs_mean"


@dataclass(frozen=True)
class Compared:
    """Two networks, and how long they were trained."""

    finding: Finding
    epochs: int


def _compared(own: Row, other: Row, chance: float, claim: Mapping[str, Any] | None = None) -> Compared:
    """By a claim of the paper; by one of ours if there is none."""
    text = f"{own['name']}, against {other['name']}"
    claim = claim or {"kind": "better", "row": own["name"], "than": other["name"], "text": text, "ours": True}
    return Compared(judged([claim], [own, other], chance)[0], own["epochs"])


def _at_equal_size(table1: Result) -> list[Compared]:
    rows = {row["name"]: row for row in rows_of(table1)}
    claims = [claim for claim in table1["options"]["claims"] if claim["text"].endswith("at equal size")]
    there = [claim for claim in claims if {claim["row"], claim["than"]} <= rows.keys()]
    return [_compared(rows[one["row"]], rows[one["than"]], table1["result"]["chance"], one) for one in there]


def _at_best_rates(table4: Result) -> list[Compared]:
    """FarkasNet34 against each network without batch norm, with inputs as they are and normalised."""
    chance = table4["result"]["chance"]
    rows = {row["name"]: row for row in rows_of(table4)}
    best: dict[str, dict[str, Row]] = {}
    for recipe in table4["recipes"]:
        row = rows.get(recipe["name"])
        if row is None or recipe["norm"] == "batch":
            continue
        kind = best.setdefault(recipe["scaling"], {})
        network = recipe["name"].partition(", rate")[0]
        kind[network] = max(kind.get(network, row), row, key=lambda one: fmean(by_seed(one, chance).values()))
    pairs = [(kind.pop("FarkasNet34"), kind) for kind in best.values() if "FarkasNet34" in kind]
    return [_compared(own, other, chance) for own, others in pairs for other in others.values()]


def _with_means(table1: Result, aggregates: Result, table4: Result) -> list[Compared]:
    """Networks with means against the ResNets of their depth, all at the rate of Table 1."""
    standard = {row["name"]: row for row in rows_of(table1)}
    found = []
    for depth, name, result in ((18, "FarkasNet18 mean", aggregates), (34, "FarkasNet34", table4)):
        own = next((row for row in rows_of(result) if row["name"] == f"{name}, rate 0.01"), None)
        other = standard.get(f"ResNet{depth}, no norm")
        # One that was trained longer says nothing of the other.
        if own and other and own["epochs"] == other["epochs"]:
            found.append(_compared(own, other, table1["result"]["chance"]))
    return found


@dataclass(frozen=True)
class Question:
    words: str
    answer: Callable[..., list[Compared]]
    needs: tuple[str, ...]
    """The results it is answered from, in the order of its arguments."""
    besides: str
    """What has to be known."""


QUESTIONS = (
    Question(
        "Does the advantage without batch norm survive equal parameter counts?",
        _at_equal_size,
        (TABLE1,),
        "The authors' sizes differ much only at 18 layers, where FarkasNet was the smaller one (304,255 parameters against "
        "797,034; 7.6% more, 0.1% fewer and 4.2% more at 34, 50 and 101): size could not explain its advantage there.",
    ),
    Question(
        "Does it survive the best learning rate for each (34 layers)?",
        _at_best_rates,
        (TABLE4,),
        "Each at the best of the rates of Table 4, the same for all, by the test errors shown, a run that failed counting "
        "as chance; FarkasNet34 as it is there, with means and a last layer that starts at zero. With sums it was trained "
        "at the rate of Table 1 alone, and deeper networks at fewer rates.",
    ),
    Question(
        "Is it the promise of an active unit that makes it (18 and 34 layers)?",
        _with_means,
        (TABLE1, AGGREGATES, TABLE4),
        "With means in the place of sums every layer is as sure of an active unit; all at the rate of Table 1. FarkasNet34 "
        "is that of Table 4, whose last layer starts at zero.",
    ),
)


def answers(measured: Mapping[str, Result | None], results: Path) -> list[str]:
    """For each question a word, and below it what it rests on: a line per comparison, with its numbers.

    Args:
        measured: The results by the name of their reproduction; ``None`` for those that are not there.
        results: Folder of the result files, which has nothing more to say here.
    """
    del results
    return [_answered(asked, [measured.get(name) for name in asked.needs]) for asked in QUESTIONS]


def _answered(asked: Question, results: Sequence[Result | None]) -> str:
    compared = asked.answer(*results) if all(results) else []
    again = ", ".join(
        f"`neuronal reproduce {name} --scale {result['scale'] if result else 'small'}`"
        for name, result in zip(asked.needs, results, strict=True)
    )
    found = [one.finding for one in compared]
    epochs = " or ".join(map(str, sorted({one.epochs for one in compared})))
    word = f"{_word({one.verdict for one in found})}, after {epochs} epochs" if found else "Not measured yet"
    lines = [f"{one.verdict}: {one.claim.removeprefix(BEYOND)}: {one.numbers}" for one in found]
    return "\n".join([f"**{asked.words}** {word} ({again}). {asked.besides}", *(f"  - {line}" for line in lines)])


def _word(verdicts: Set[Verdict]) -> str:
    """Yes if all say so: one where nothing could be compared leaves the yes of others a part."""
    if verdicts == {"not measured"}:
        return "Nothing to compare"
    if verdicts <= {"not shown", "not measured"}:
        # Few seeds that leave it open are no proof of the contrary.
        return "Not shown"
    if not verdicts & {"reproduced", "reproduced in part", "shown"}:
        return "No"
    return "Yes" if verdicts <= {"reproduced", "shown"} else "In part"
