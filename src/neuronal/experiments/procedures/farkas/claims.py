"""What a paper says of the rows of a table, as data, and how it is judged from accuracies seed by seed.

A claim is a mapping with ``kind``, ``text`` (the claim in words) and ``row``, for some kinds ``than``, another row, and
``ours`` if the paper does not make it:

``better``: the row is more accurate. Reproduced if a 95% interval of the difference seed by seed says so, in part if it
does not but every single seed is better.
``alike``: their means differ by no more than ``within`` points.
``trains``, ``fails``: all seeds learn, or none does. A run has failed if its loss stopped being finite, or if it ends at
chance.

In differences a run that broke down counts as one at chance: leaving it out would flatter its network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from neuronal.experiments.compare import difference, estimate
from neuronal.experiments.procedures.finding import Finding, Verdict, ours
from neuronal.experiments.record import Record

STUCK = 1.5
"""A network whose accuracy is below so many times chance has not learnt."""
Rows = Mapping[str, Mapping[str, Any]]
Claim = Mapping[str, Any]


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


def judged(claims: Sequence[Claim], rows: Sequence[Mapping[str, Any]], chance: float) -> list[Finding]:
    """A finding for each claim whose rows were measured."""
    by_name = {row["name"]: row for row in rows}
    wanted = [c for c in claims if c["kind"] in KINDS and {c["row"], c.get("than", c["row"])} <= set(by_name)]
    return [found(claim, *_judge(claim, by_name, chance)) for claim in wanted]


def found(claim: Claim, verdict: Verdict, numbers: str) -> Finding:
    """Under the paper's name, or under ours where the claim says so."""
    finding = Finding(claim["text"], verdict, numbers)
    return ours(finding) if claim.get("ours") else finding


def _judge(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    if "than" in claim and rows[claim["row"]]["mean"] is None and rows[claim["than"]]["mean"] is None:
        return "not measured", f"{_both(claim, rows)}: there is nothing to compare"
    return KINDS[claim["kind"]](claim, rows, chance)


def _better(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    own, other = (_by_seed(rows[claim[key]], chance) for key in ("row", "than"))
    gap = difference(own, other)
    verdict: Verdict = "not reproduced"
    if all(own[seed] > other[seed] for seed in own if seed in other):
        verdict = "reproduced in part"
    if gap.mean > 0 and gap.is_shown:
        verdict = "reproduced"
    interval = ""
    if gap.low is not None and gap.high is not None:
        interval = f" (95%: {100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
    return verdict, f"{100 * gap.mean:+.2f} points of accuracy{interval}; {_both(claim, rows)}"


def _alike(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    gap = difference(*(_by_seed(rows[claim[key]], chance) for key in ("row", "than")))
    near = 100 * abs(gap.mean) <= claim["within"]
    return "reproduced" if near else "not reproduced", f"{100 * gap.mean:+.2f} points; {_both(claim, rows)}"


def _trains(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    row = rows[claim["row"]]
    good = row["seeds"] - len(row["failed"])
    if good == row["seeds"]:
        return "reproduced", said(row)
    return ("reproduced in part" if good else "not reproduced"), said(row)


def _fails(claim: Claim, rows: Rows, chance: float) -> tuple[Verdict, str]:
    row = rows[claim["row"]]
    if len(row["failed"]) == row["seeds"]:
        return "reproduced", said(row)
    return ("reproduced in part" if row["failed"] else "not reproduced"), said(row)


def _by_seed(row: Mapping[str, Any], chance: float) -> dict[int, float]:
    broken = {int(seed): chance for seed in row["failed"]}
    return broken | {int(seed): value for seed, value in row["accuracy"].items()}


def _both(claim: Claim, rows: Rows) -> str:
    return f"{said(rows[claim['row']])}, against {said(rows[claim['than']])}"


def said(row: Mapping[str, Any]) -> str:
    """Error of the runs that learnt, and how many did not."""
    failed = f"{len(row['failed'])} of {row['seeds']} runs failed"
    if row["mean"] is None:
        return failed
    error = "" if row["standard_error"] is None else f" ± {100 * row['standard_error']:.2f}"
    text = f"error {100 * (1 - row['mean']):.2f}%{error} ({row['seeds'] - len(row['failed'])} seeds)"
    return f"{text}, {failed}" if row["failed"] else text


KINDS: dict[str, Callable[[Claim, Rows, float], tuple[Verdict, str]]] = {
    "better": _better,
    "alike": _alike,
    "trains": _trains,
    "fails": _fails,
}
"""How each kind is judged."""
