r"""How much bias the last unit needs: Theorem 3.2, Algorithm 1 and Corollary 3.3 of the Farkas paper, in numbers.

With all multipliers 1 the pre-activations of a closed layer of :math:`m` units add up to the sum of its biases, whatever
the input; so the smallest their largest can be is found by a linear program, and nothing has to be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import linprog

from neuronal.experiments import Work
from neuronal.report import Column
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row, rows_of

EXTRA = 1e-6
"""By how much the last bias exceeds what the condition asks for."""
CONDITIONS = {"paper": "b_m > c - sum b_j", "ours": "b_m > c m - sum b_j", "algorithm": "b_m = -sum b_j"}
"""Of Corollary 3.3 with equal multipliers; what the proof of Theorem 3.2 gives; what Algorithm 1 sets if b_m loses."""


@dataclass(frozen=True)
class Layers:
    """Random closed layers of one size: the smallest their largest pre-activation can be, seed by seed."""

    units: int
    cutoff: float
    condition: str
    smallest: Sequence[float]


def measure(setting: Setting, work: Work) -> Measured:
    """Random closed layers of every size and cutoff under each condition: the smallest largest pre-activation there is.

    ``options``: ``units``, ``cutoffs``, ``seeds``.
    """
    units, cutoffs, seeds = (setting.options[name] for name in ("units", "cutoffs", "seeds"))
    kinds = [(m, c, how) for m in units for c in cutoffs for how in CONDITIONS if how != "algorithm" or c == 0]
    return {"rows": [Layers(*kind, [_smallest(*kind, seed) for seed in seeds]) for kind in kinds]}


def _smallest(units: int, cutoff: float, condition: str, seed: int) -> float:
    """The minimum over all x of the largest pre-activation: least s with every unit at most s."""
    draw = np.random.default_rng(seed)
    rows, biases = draw.standard_normal((units - 1, units - 1)), draw.standard_normal(units - 1)
    last = {"paper": cutoff + EXTRA, "ours": cutoff * units + EXTRA, "algorithm": 0.0}[condition] - biases.sum()
    every = np.hstack([np.vstack([rows, -rows.sum(0)]), -np.ones((units, 1))])
    return float(linprog([0] * (units - 1) + [1], every, -np.append(biases, last), bounds=(None, None)).fun)


def _num_above(row: Row) -> int:
    """Layers whose largest pre-activation is above the cutoff for every input, by more than rounding."""
    return sum(value > row["cutoff"] + 1e-9 for value in row["smallest"])


def _every_layer(condition: str, sign: int, result: Result) -> Evidence:
    """Under a condition, with cutoffs of that sign, every input leaves a unit above the cutoff."""
    rows = [row for row in rows_of(result, condition=condition) if np.sign(row["cutoff"]) == sign]
    layers, above = sum(len(row["smallest"]) for row in rows), sum(map(_num_above, rows))
    return Evidence(layers, layers - above, f"for every input in {above} of {layers} layers")


COLUMNS = (
    Column("condition", lambda row: CONDITIONS[row["condition"]], is_text=True),
    Column("units", "units"),
    Column("cutoff c", "cutoff", "g"),
    # What is rounded to 0 from below would read -0.
    Column("smallest largest pre-activation", lambda row: round(min(row["smallest"]), 12) + 0.0, ".4g"),
    Column("above c", lambda row: f"{_num_above(row)} of {len(row['smallest'])}"),
)
CLAIMS = (
    ("paper", 1, "With a cutoff c > 0 the condition b_m > c - sum b_j keeps a unit above c (Corollary 3.3)"),
    ("ours", 1, "With a cutoff c > 0 the condition b_m > c m - sum b_j keeps a unit above c"),
    ("paper", 0, "With c = 0 and a strict inequality some unit is active for every input (Theorem 3.2)"),
    ("algorithm", 0, "Algorithm 1, b_m = max(-sum b_j, b_m), gives that strict inequality, over all inputs"),
)
LAYERS = {"units": (4, 8, 32, 128), "cutoffs": (-1.0, 0.0, 0.5, 1.0), "seeds": tuple(range(10))}
CUTOFF = Reproduction(
    name="farkas/cutoff",
    title="How much bias the last unit needs",
    where="Theorem 3.2, Corollary 3.3, Algorithm 1",
    scales=settings(options=(LAYERS | {"units": (4, 8), "seeds": (0,)}, LAYERS, LAYERS | {"seeds": tuple(range(100))})),
    measure=measure,
    claims=tuple(Fact(text, partial(_every_layer, how, sign), how == "ours") for how, sign, text in CLAIMS),
    tables=one_table(COLUMNS),
    criteria=(
        "The input that makes the largest pre-activation smallest is found by linear programming; one random layer that "
        f"it leaves without a unit above the cutoff refutes a condition. Biases are {EXTRA:g} above what a condition "
        "asks for; for Algorithm 1 they are its first argument, where that is the larger one."
    ),
    departs="The paper proves it, and has no numbers. With active units gradients may still cancel further on.",
)
