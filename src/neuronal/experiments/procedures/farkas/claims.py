"""What a paper says of the rows of a table, as data, and how it is judged from accuracies seed by seed.

A claim is a mapping with ``kind``, ``text`` (the claim in words) and ``row``, for most kinds ``than``, another row, and
``ours`` if the paper does not make it:

``better``: the row is more accurate. Reproduced if a 95% interval of the difference seed by seed says so, in part if it
does not but no seed is worse, some are better, and in most not both runs failed. A run that stayed at chance for fewer
epochs at its first rate than the paper waits for may only be slow: of the other it makes the claim a part at most, of the
row itself it leaves open what would be worse.
``better_each``: several pairs, ``cases``, a label to ``(row, than)``. Reproduced if such an interval says so of each, in
part if of some; a pair that cannot be compared is one it is not said of.
``alike``: the 95% interval of the difference lies within ``within`` points; in part if its mean does. Only seeds that
learnt in both count, and it is in part at most if others failed.
``trains``, ``fails``: all seeds learn, or none does. A run has failed if its loss stopped being finite, or if it ends at
chance; ``fails`` is in part at most where that was after fewer epochs at the first rate than the paper waits for.

A claim about rows that a result does not have is not measured. In what is better a run that failed counts as one at
chance: leaving it out would flatter its network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuronal.experiments.compare import Difference, difference, estimate
from neuronal.experiments.procedures.finding import Finding, Verdict, all_or_some, ours, seeds_said
from neuronal.experiments.record import Record
from neuronal.train.schedule import SCHEDULES

STUCK = 1.5
"""A network whose accuracy is below so many times chance has not learnt."""
WORSE, OPEN = "worse beyond chance", "these seeds leave it open"
"""What is said of a claim that is not reproduced."""
PATIENCE = 5
"""Epochs at the first rate after which the paper calls a run without progress failed."""
Rows = Mapping[str, Mapping[str, Any]]
Claim = Mapping[str, Any]

IN_WORDS = (
    "Better: a 95% interval of the difference, seed by seed, says so (each by itself, not for all claims at once); "
    "no seed worse, some better and most told, as those are not in which both failed, is a part. Otherwise the "
    "numbers say whether it is worse by such an interval or left open. A run that stayed at chance for fewer than "
    "five epochs at its first rate may only be slow: where the other has such, better is a part at most, where it "
    "has such itself, worse is left open. A claim about several pairs holds if such an interval says so of each, in "
    "part if of some; of a pair that cannot be compared it does not. Trains: every run learns; some is a part. "
    "Alike: the interval lies within the points named; if only its mean does, or a run failed, it is a part; seeds "
    "that failed in either are left out, and if none is left nothing is measured. A run has failed if its loss "
    f"stopped being finite or its accuracy at the end is below {STUCK:g} times chance (15% for 10 classes), and "
    "counts as chance in what is better; the paper calls failed what made no progress in the first five epochs, and "
    "where a run stayed at chance for fewer, that it does not train is a part at most."
)
"""The same as a page says it."""


def outcome(records: Sequence[Record], chance: float) -> dict[str, Any]:
    """Accuracies of the runs that did not break down, which failed and why, by seed; the mean of those that learnt."""
    accuracy = {str(r.seed): r.metrics["accuracy"] for r in records if r.failure is None}
    return learnt(accuracy, {str(r.seed): r.failure.reason for r in records if r.failure}, chance)


def learnt(accuracy: Mapping[str, float], broken: Mapping[str, str], chance: float) -> dict[str, Any]:
    """The same from accuracies and reasons by seed."""
    stuck = {seed: f"stays at {100 * a:.1f}%" for seed, a in accuracy.items() if a < STUCK * chance}
    sound = [a for seed, a in accuracy.items() if seed not in stuck]
    mean = estimate(sound) if sound else None
    return {
        "accuracy": dict(accuracy),
        "failed": {**broken, **stuck},
        "seeds": len(accuracy) + len(broken),
        "mean": None if mean is None else mean.mean,
        "standard_error": None if mean is None else mean.standard_error,
    }


def rows_of(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a result, each with its epochs, those at its first rate, and its scaling, if its recipe is there."""
    known = {
        recipe["name"]: {
            "epochs": recipe["epochs"],
            "epochs_at_first_rate": recipe["epochs"] * _share(recipe["schedule"]),
            "scaling": recipe["scaling"],
        }
        for recipe in answer.get("recipes", ())
    }
    return [{**row, **known.get(row["name"], {})} for row in answer["result"]["rows"]]


def _share(schedule: str) -> float:
    """Of a training, before the rate is first changed; to a thousandth."""
    factor = SCHEDULES[schedule]
    return sum(factor(step, 1000) == factor(0, 1000) for step in range(1000)) / 1000


def judged(claims: Sequence[Claim], rows: Sequence[Mapping[str, Any]], chance: float) -> list[Finding]:
    """A finding for each claim."""
    by_name = {row["name"]: row for row in rows}
    return [found(claim, *_judge(claim, by_name, chance)) for claim in claims]


def found(claim: Claim, verdict: Verdict, numbers: str) -> Finding:
    """Under the paper's name, or under ours where the claim says so."""
    finding = Finding(claim["text"], verdict, numbers)
    return ours(finding) if claim.get("ours") else finding


def _judge(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    judge, named = KINDS[claim["kind"]], [claim[key] for key in ("row", "than") if key in claim]
    if missing := [name for name in named if name not in rows]:
        return "not measured", not_there(missing)
    pair = [rows[name] for name in named]
    if len(pair) == 2 and not _comparable(*pair):
        return "not measured", f"{_both(claim, rows)}: there is nothing to compare"
    return judge(claim, rows, chance)


def not_there(names: Sequence[str]) -> str:
    """Of rows a claim is about."""
    return f"the result has no {', '.join(names)}"


def _comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether some seed is of both, and some run of either learnt."""
    seeds = [row["accuracy"].keys() | row["failed"].keys() for row in (one, other)]
    return bool(seeds[0] & seeds[1]) and not (one["mean"] is None and other["mean"] is None)


def _better(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    own, other = (by_seed(rows[claim[key]], chance) for key in ("row", "than"))
    gap = difference(own, other)
    seeds = own.keys() & other.keys()
    won, lost = (sum(sign * (own[seed] - other[seed]) > 0 for seed in seeds) for sign in (1, -1))
    # Seeds in which both failed decide nothing.
    told = sum(not all(str(seed) in rows[claim[key]]["failed"] for key in ("row", "than")) for seed in seeds)
    verdict: Verdict = "reproduced in part" if won and not lost and 2 * told > len(seeds) else "not reproduced"
    slow, own_slow = _slow(rows[claim["than"]], "the other"), _slow(rows[claim["row"]], "it")
    if gap.mean > 0 and gap.is_shown:
        verdict = "reproduced in part" if slow else "reproduced"
    failed = any(rows[claim[key]]["failed"] for key in ("row", "than"))
    counted = ", failed runs being at chance" if failed else ""
    text = f"{100 * gap.mean:+.2f} points of accuracy{counted}{_interval(gap)}; {_both(claim, rows)}"
    text += "" if verdict == "reproduced" else f"; better in {won} of {len(seeds)} seeds"
    if verdict == "not reproduced":
        text += f"; {WORSE if gap.is_shown and not own_slow else OPEN}"
    return verdict, text + (own_slow if gap.mean < 0 else "") + slow


@dataclass(frozen=True)
class Case:
    """Two networks of a claim about several pairs, seed by seed, with at least one seed of both."""

    label: str
    own: Mapping[int, float]
    other: Mapping[int, float]
    note: str = ""
    """What has to be known of it."""
    own_is_slow: bool = False
    other_is_slow: bool = False
    """Some of its runs may only need more epochs: being below proves nothing then."""


def case_by_case(cases: Sequence[Case], without: Sequence[str], unit: str) -> tuple[Verdict, str]:
    """In how many cases the own are above the other by a 95% interval, and the contrary.

    Args:
        cases: Those that can be compared.
        without: Labels of those that cannot.
        unit: Of the differences.
    """
    good, bad, told = 0, 0, []
    for case in cases:
        gap = difference(case.own, case.other)
        good += gap.is_shown and gap.mean > 0 and not case.other_is_slow
        bad += gap.is_shown and gap.mean < 0 and not case.own_is_slow
        told.append(f"{case.label} {100 * gap.mean:+.2f}{_interval(gap)}, {seeds_said(gap.num_seeds)}{case.note}")
    missing = f"; nothing to compare: {', '.join(without)}" if without else ""
    if not cases:
        return "not measured", missing.removeprefix("; ")
    total = len(cases) + len(without)
    count = f"holds beyond chance in {good} of {total}, the contrary in {bad}"
    return all_or_some(good, total), f"{count}; {unit}: {'; '.join(told)}{missing}"


def _better_each(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    cases, without = [], []
    for label, (own, other) in claim["cases"].items():
        if own in rows and other in rows and _comparable(rows[own], rows[other]):
            pair = [rows[own], rows[other]]
            slow = [_slow(row, who) for row, who in zip(pair, ("it", "the other"), strict=True)]
            values = [by_seed(row, chance) for row in pair]
            note = failures(*pair) + "".join(slow)
            cases.append(
                Case(label, values[0], values[1], note, own_is_slow=bool(slow[0]), other_is_slow=bool(slow[1]))
            )
        else:
            without.append(label)
    return case_by_case(cases, without, "points of accuracy")


def failures(own: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    one, two = (f"{len(row['failed'])} of {row['seeds']}" for row in (own, other))
    return f", runs that failed {one} against {two}" if own["failed"] or other["failed"] else ""


def _slow(row: Mapping[str, Any], who: str) -> str:
    """That runs did not leave chance, if it may be for want of epochs: one that broke down needs no more of them."""
    stuck = _stuck(row)
    if not stuck or row.get("epochs_at_first_rate", 0) >= PATIENCE:
        return ""
    some = f"{len(stuck)} of {row['seeds']} {'of its runs' if who == 'it' else f'runs of {who}'}"
    who = who if len(stuck) == row["seeds"] else some
    time = f" after {epochs_said(row['epochs'])}" if row.get("epochs") else ""
    return f"; {who} had not left chance{time}"


def _stuck(row: Mapping[str, Any]) -> list[str]:
    return [seed for seed in row["failed"] if seed in row["accuracy"]]


def _alike(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    own, other = (_sound(rows[claim[key]]) for key in ("row", "than"))
    if not own.keys() & other.keys():
        return "not measured", f"{_both(claim, rows)}: no seed learnt in both"
    gap = difference(own, other)
    failed = any(rows[claim[key]]["failed"] for key in ("row", "than"))
    verdict: Verdict = "reproduced in part" if 100 * abs(gap.mean) <= claim["within"] else "not reproduced"
    if gap.low is not None and gap.high is not None and not failed:
        verdict = "reproduced" if 100 * max(-gap.low, gap.high) <= claim["within"] else verdict
    text = f"{100 * gap.mean:+.2f} points of accuracy{_interval(gap)}; {_both(claim, rows)}"
    if verdict == "not reproduced":
        apart = gap.is_shown and 100 * min(abs(gap.low or 0.0), abs(gap.high or 0.0)) > claim["within"]
        text += f"; {'apart beyond chance' if apart else OPEN}"
    return verdict, text


def _interval(gap: Difference) -> str:
    """In points; none of one seed, or of differences that are all the same."""
    if gap.low is None or gap.high is None:
        return " (no interval)"
    return f" (95%: {100 * gap.low:+.2f} to {100 * gap.high:+.2f})"


def _trains(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    row = rows[claim["row"]]
    return all_or_some(row["seeds"] - len(row["failed"]), row["seeds"]), said(row) + _how(row)


def _fails(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    row = rows[claim["row"]]
    stuck, text = _stuck(row), said(row) + _how(row)
    waited = row.get("epochs_at_first_rate")
    if len(row["failed"]) < row["seeds"]:
        return ("reproduced in part" if row["failed"] else "not reproduced"), text
    if stuck and waited is not None and waited < PATIENCE:
        return "reproduced in part", f"{text}; at the first rate for {waited:.2g} epochs only: it may be slow"
    return "reproduced", text


def _how(row: Mapping[str, Any]) -> str:
    """In which way runs failed."""
    stuck = len(_stuck(row))
    return f" ({len(row['failed']) - stuck} broke down, {stuck} stayed at chance)" if row["failed"] else ""


def epochs_said(*counts: int) -> str:
    """``1 epoch``, ``8 or 24 epochs``."""
    return f"{' or '.join(map(str, counts))} epoch{'' if counts == (1,) else 's'}"


def by_seed(row: Mapping[str, Any], chance: float) -> dict[int, float]:
    """Accuracies, a run that failed being one at chance."""
    return _sound(row) | {int(seed): chance for seed in row["failed"]}


def _sound(row: Mapping[str, Any]) -> dict[int, float]:
    return {int(seed): value for seed, value in row["accuracy"].items() if seed not in row["failed"]}


def _both(claim: Claim, rows: Rows) -> str:
    return f"{said(rows[claim['row']])}, against {said(rows[claim['than']])}"


def said(row: Mapping[str, Any]) -> str:
    """Error of the runs that learnt, how long they did, and how many did not."""
    failed = f"{len(row['failed'])} of {row['seeds']} runs failed"
    epochs = f", {epochs_said(row['epochs'])}" if row.get("epochs") else ""
    if row["mean"] is None:
        return failed + epochs
    error = "" if row["standard_error"] is None else f" ± {100 * row['standard_error']:.2f}"
    text = f"error {100 * (1 - row['mean']):.2f}%{error} ({seeds_said(row['seeds'] - len(row['failed']))}{epochs})"
    return f"{text}, {failed}" if row["failed"] else text


KINDS: dict[str, Callable[[Claim, Rows, float], tuple[Verdict, str]]] = {
    "better": _better,
    "better_each": _better_each,
    "alike": _alike,
    "trains": _trains,
    "fails": _fails,
}
"""How each kind is judged."""
