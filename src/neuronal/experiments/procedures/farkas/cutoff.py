r"""How much bias the last unit needs: Theorem 3.2, Algorithm 1 and Corollary 3.3 of the Farkas paper, in numbers.

With all multipliers 1 the pre-activations of a closed layer of :math:`m` units add up to the sum of its biases, whatever
the input; so the smallest their largest can be is found by a linear program, and nothing has to be trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

ROUNDING = 1e-9
"""What is smaller counts as 0: the linear programs are solved in floats."""
EXTRA = 1e-6
"""By how much the last bias exceeds what the condition asks for."""
CONDITIONS = {
    "paper": "b_m > c - sum b_j",
    "ours": "b_m > c m - sum b_j",
    "algorithm": "b_m = -sum b_j",
}
"""Of Corollary 3.3 with equal multipliers; what the proof of Theorem 3.2 gives; what Algorithm 1 sets if b_m loses."""


JUDGED = (
    "The input that makes the largest pre-activation smallest is found by linear programming; one below the "
    "cutoff refutes a condition."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Random closed layers of every size and cutoff under each condition: the smallest largest pre-activation there is.

    ``options``: ``units``, ``cutoffs``, ``seeds``.
    """
    rows = []
    for units in setting.options["units"]:
        for cutoff in setting.options["cutoffs"]:
            for condition in CONDITIONS if cutoff == 0 else ("paper", "ours"):
                found = [_smallest(units, cutoff, condition, seed) for seed in setting.options["seeds"]]
                rows.append({"units": units, "cutoff": cutoff, "condition": condition, "smallest": found})
    return {"rows": rows, "conditions": CONDITIONS}


def _smallest(units: int, cutoff: float, condition: str, seed: int) -> float:
    draw = np.random.default_rng(seed)
    rows, biases = draw.standard_normal((units - 1, units - 1)), draw.standard_normal(units - 1)
    needed = (cutoff * units if condition == "ours" else cutoff) - biases.sum()
    extra = 0.0 if condition == "algorithm" else EXTRA
    return smallest_largest(np.vstack([rows, -rows.sum(0)]), np.append(biases, needed + extra))


def smallest_largest(weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> float:
    """The minimum over all x of the largest of ``weight @ x + bias``: least s with every unit at most s."""
    units, inputs = weight.shape
    cost = np.append(np.zeros(inputs), 1.0)
    every = linprog(cost, A_ub=np.hstack([weight, -np.ones((units, 1))]), b_ub=-bias, bounds=(None, None))
    return float(every.fun)


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The condition with a cutoff, and what is left of strictness."""
    rows = answer["result"]["rows"]
    found = []
    above = [row for row in rows if row["cutoff"] > 0 and row["condition"] == "paper"]
    if above:
        worst = min(above, key=lambda row: min(row["smallest"]) / row["cutoff"])
        ours = [r for r in rows if r["cutoff"] > 0 and r["condition"] == "ours"]
        missed = sum(min(row["smallest"]) < row["cutoff"] for row in above)
        kept = sum(min(row["smallest"]) >= row["cutoff"] for row in ours)
        found.append(
            Finding(
                "With a cutoff c the condition b_m > c - sum b_j keeps a unit above c (Corollary 3.3)",
                "not true as stated" if missed else "reproduced",
                f"for c = {worst['cutoff']:g} and {worst['units']} units some input leaves the largest at "
                f"{min(worst['smallest']):.3f}; missed in {missed} of {len(above)} cases with c > 0. "
                f"With c m in the place of c it holds in {kept} of {len(ours)}",
            )
        )
    zero = [row for row in rows if row["cutoff"] == 0]
    if zero:
        low = min(min(row["smallest"]) for row in zero if row["condition"] != "algorithm")
        equal = max(max(row["smallest"]) for row in zero if row["condition"] == "algorithm")
        found.append(
            Finding(
                "With c = 0 and a strict inequality some unit is active for every input (Theorem 3.2; gradients may still "
                "cancel further on)",
                "reproduced" if low > 0 else "not reproduced",
                f"smallest largest pre-activation {low:.2g}, biases {EXTRA:g} above the condition",
            )
        )
        found.append(
            Finding(
                "Algorithm 1, b_m = max(-sum b_j, b_m), gives that strict inequality, over all inputs",
                "reproduced" if equal > ROUNDING else "not true as stated",
                "where the first wins, some input leaves every unit at 0 or below: the smallest largest pre-activation "
                f"is at most {max(equal, 0.0):.1g} in all cases",
            )
        )
    return found
