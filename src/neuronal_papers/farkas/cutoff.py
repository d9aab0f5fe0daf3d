r"""How much bias the last unit needs: Theorem 3.2, Algorithm 1 and Corollary 3.3 of the Farkas paper, in numbers.

With all multipliers 1 the pre-activations of a closed layer of :math:`m` units add up to the sum of its biases, whatever
the input; so the smallest their largest can be is found by a linear program, and nothing has to be trained.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

from neuronal.experiments import Work
from neuronal.report import Column, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row

ROUNDING = 1e-9
"""What is smaller counts as 0: the linear programs are solved in floats."""
EXTRA = 1e-6
"""By how much the last bias exceeds what the condition asks for."""
CONDITIONS = {"paper": "b_m > c - sum b_j", "ours": "b_m > c m - sum b_j", "algorithm": "b_m = -sum b_j"}
"""Of Corollary 3.3 with equal multipliers; what the proof of Theorem 3.2 gives; what Algorithm 1 sets if b_m loses."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Random closed layers of every size and cutoff under each condition: the smallest largest pre-activation there is.

    ``options``: ``units``, ``cutoffs``, ``seeds``.
    """
    options, rows = setting.options, []
    for units in options["units"]:
        for cutoff in options["cutoffs"]:
            for condition in CONDITIONS if cutoff == 0 else ("paper", "ours"):
                smallest = [_smallest(units, cutoff, condition, seed) for seed in options["seeds"]]
                rows.append({"units": units, "cutoff": cutoff, "condition": condition, "smallest": smallest})
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


def _num_above(row: Row) -> int:
    """Layers whose largest pre-activation is above the cutoff for every input."""
    return sum(value > row["cutoff"] + ROUNDING for value in row["smallest"])


def every_layer(result: Result, condition: str, positive: bool) -> Evidence:
    """Evidence that under a condition, with cutoffs above 0 or of 0, every input leaves a unit above the cutoff."""
    own = [row for row in result["result"]["rows"] if row["condition"] == condition and row["cutoff"] >= 0]
    rows = [row for row in own if (row["cutoff"] > 0) == positive]
    layers, above = sum(len(row["smallest"]) for row in rows), sum(map(_num_above, rows))
    return Evidence(layers, layers - above, f"for every input in {above} of {layers} layers")


def _least(row: Row) -> float:
    """The least of its layers, 0 where it is rounding."""
    least = float(min(row["smallest"]))
    return least if abs(least) >= ROUNDING else 0.0


COLUMNS = (
    Column("condition", lambda row: CONDITIONS[row["condition"]], is_text=True),
    Column("units", "units"),
    Column("cutoff c", "cutoff", "g"),
    Column("smallest largest pre-activation", _least, ".4g"),
    Column("above c", lambda row: f"{_num_above(row)} of {len(row['smallest'])}"),
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, result["result"]["rows"])]


LAYERS = {"units": (4, 8, 32, 128), "cutoffs": (-1.0, 0.0, 0.5, 1.0), "seeds": tuple(range(10))}
CLAIMS = (
    ("With a cutoff c > 0 the condition b_m > c - sum b_j keeps a unit above c (Corollary 3.3)", "paper", True),
    ("With a cutoff c > 0 the condition b_m > c m - sum b_j keeps a unit above c", "ours", True),
    (
        "With c = 0 and a strict inequality some unit is active for every input (Theorem 3.2; gradients may still cancel "
        "further on)",
        "paper",
        False,
    ),
    ("Algorithm 1, b_m = max(-sum b_j, b_m), gives that strict inequality, over all inputs", "algorithm", False),
)
CUTOFF = Reproduction(
    name="farkas/cutoff",
    title="How much bias the last unit needs",
    where="Theorem 3.2, Corollary 3.3, Algorithm 1",
    scales={
        "smoke": Setting(options=LAYERS | {"units": (4, 8), "seeds": (0,)}),
        "small": Setting(options=LAYERS),
        "paper": Setting(options=LAYERS | {"seeds": tuple(range(100))}),
    },
    measure=measure,
    claims=tuple(
        Fact(text, partial(every_layer, condition=condition, positive=positive), beyond_paper=condition == "ours")
        for text, condition, positive in CLAIMS
    ),
    tables=tables,
    criteria=(
        "The input that makes the largest pre-activation smallest is found by linear programming; one layer that it leaves "
        "without a unit above the cutoff refutes a condition. Biases are 1e-06 above what a condition asks for; for "
        "Algorithm 1 they are those of its first argument, where that is the larger one."
    ),
    departs="The paper proves it and has no numbers; ours are minima found by linear programs, for random layers.",
)
