"""What a small change of the parameters does to a unit's boundary (Figure 1 and Theorem 3 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import acos, degrees
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.nn.geometric import GeometricLinear
from neuronal.ops.hinge import Hinge, hinge
from neuronal.probes.hinge_motion import motion

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

VARIANCES = (2.0, 0.5)
"""Of the inputs batch norm sees, coordinate by coordinate in turn: with equal ones it is weight norm."""
DRASTIC, SIMILAR = 10, 3
"""So many times what geometric units turn is drastic; less than so many times is similar."""


def _standard(w: Tensor, b: Tensor, epsilon: float) -> Hinge:
    return hinge(w + epsilon, b + epsilon)


def _weight_norm(w: Tensor, b: Tensor, epsilon: float) -> Hinge:
    length, v = w.norm(dim=1) + epsilon, w + epsilon
    return hinge((length / v.norm(dim=1)).unsqueeze(1) * v, b + epsilon)


def _batch_norm(w: Tensor, b: Tensor, epsilon: float) -> Hinge:
    variances = w.new_tensor(VARIANCES).repeat(w.shape[1])[: w.shape[1]]

    def deviation(v: Tensor) -> Tensor:
        return (variances * v.square()).sum(1).sqrt()

    gamma, v = deviation(w) + epsilon, w + epsilon
    return hinge((gamma / deviation(v)).unsqueeze(1) * v, b + epsilon)


def _geometric(w: Tensor, b: Tensor, epsilon: float) -> Hinge:
    plain = torch.nn.Linear(w.shape[1], len(w), dtype=w.dtype)
    with torch.no_grad():
        plain.weight.copy_(w)
        plain.bias.copy_(b)
        layer = GeometricLinear.from_standard(plain)
        for parameter in layer.parameters():
            parameter.add_(epsilon)
        return Hinge(layer.direction(), layer.offset if layer.offset is not None else b)


PERTURBED: dict[str, Callable[[Tensor, Tensor, float], Hinge]] = {
    "SP": _standard,
    "WN": _weight_norm,
    "BN": _batch_norm,
    "GmP": _geometric,
}
"""The boundary after ``epsilon`` is added to every parameter, by parameterisation; all start from the same one."""


JUDGED = (
    "Turns least means less than every other at every size of perturbation; a drawn angle is wrong if it is less than "
    "nine tenths of the true one. Drastic is more than ten times what geometric units turn, for the smallest weights and "
    "in the median; it is a part where for the largest weights it is less than three times."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """The paper's unit, and many units of several sizes and norms.

    ``options``: ``epsilons``; ``units`` drawn for every one of ``norms`` and ``inputs``.
    """
    options = setting.options
    # The paper's unit is numpy's first three normal numbers of seed 1, times 0.001.
    drawn = torch.from_numpy(1e-3 * np.random.RandomState(1).randn(3))
    w, b = drawn[:2].view(1, 2), drawn[2:]
    rows = [_row(name, w, b, epsilon) for name in PERTURBED for epsilon in options["epsilons"]]
    generator = torch.Generator().manual_seed(0)
    many = []
    for inputs in options["inputs"]:
        for norm in options["norms"]:
            directions = torch.randn(options["units"], inputs, generator=generator, dtype=torch.float64)
            w = norm * directions / directions.norm(dim=1, keepdim=True)
            b = norm * torch.randn(options["units"], generator=generator, dtype=torch.float64)
            for name, perturbed in PERTURBED.items():
                for epsilon in options["epsilons"]:
                    angle = motion(hinge(w, b), perturbed(w, b, epsilon))[0]
                    bound = epsilon * (inputs - 1) ** 0.5
                    many.append(
                        {"method": name, "inputs": inputs, "norm": norm, "epsilon": epsilon}
                        | {"median": degrees(angle.median().item()), "largest": degrees(angle.max().item())}
                        | {"of_bound": angle.max().item() / bound}
                    )
    return {"rows": rows, "many": many, "start": _drawn(hinge(drawn[:2].view(1, 2), drawn[2:]))}


def _row(name: str, w: Tensor, b: Tensor, epsilon: float) -> dict[str, Any]:
    before, after = hinge(w, b), PERTURBED[name](w, b, epsilon)
    angle, distance = motion(before, after)
    # The authors' code takes the angle of a direction from its first coordinate alone.
    published = abs(acos(after.normal[0, 0].item()) - acos(before.normal[0, 0].item()))
    return {
        "method": name,
        "epsilon": epsilon,
        "angle": degrees(angle.item()),
        "published_angle": degrees(published),
        "distance": distance.item(),
        **_drawn(after),
    }


def _drawn(found: Hinge) -> dict[str, Any]:
    return {"normal": found.normal[0].tolist(), "location": found.location[0].tolist()}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Who moves least, what the figure shows of it, Theorem 3, and what the size of the weights has to do with it."""
    rows, many = answer["result"]["rows"], answer["result"]["many"]
    epsilons = sorted({row["epsilon"] for row in rows})
    angle = {(row["method"], row["epsilon"]): row["angle"] for row in rows}
    least = all(angle["GmP", e] < min(angle[m, e] for m in PERTURBED if m != "GmP") for e in epsilons)
    sp, gmp = (", ".join(f"{angle[m, e]:.3g}°" for e in epsilons) for m in ("SP", "GmP"))
    drawn = ", ".join(f"{r['published_angle']:.3g}°" for r in rows if r["method"] == "SP")
    understated = any(row["published_angle"] < 0.9 * row["angle"] for row in rows)
    shares = [row["of_bound"] for row in many if row["method"] == "GmP"]
    worst = max(shares)
    shown = ", ".join(f"{e:g}" for e in epsilons)
    return [
        Finding(
            "the boundary of GmP turns least under perturbations of the parameters (a unit of norm 0.001)",
            "reproduced" if least else "not reproduced",
            f"at {shown}: SP {sp}; GmP {gmp}",
        ),
        Finding(
            "the angles drawn in Figure 1",
            "not true as stated" if understated else "reproduced",
            f"SP is drawn with {drawn} and turns by {sp}: the sign of a coordinate is lost, which "
            "understates how far SP, WN and BN turn",
        ),
        Finding(
            "Theorem 3: a change of the angles turns a direction by no more than its norm",
            "reproduced" if worst <= 1 + 1e-9 else "not reproduced",
            f"largest share of the bound {worst:.4f} over {len(shares)} sets of units; checked is this inequality, at "
            f"changes of up to {epsilons[-1]:g}; the equality the theorem states holds to first order only",
        ),
        _by_size(many, epsilons),
    ]


def _by_size(many: Sequence[Mapping[str, Any]], epsilons: Sequence[float]) -> Finding:
    epsilon = min(epsilons, key=lambda e: abs(e - 1e-3))
    inputs = min(row["inputs"] for row in many)
    here = [row for row in many if row["epsilon"] == epsilon and row["inputs"] == inputs]
    sp, gmp = ({r["norm"]: r["median"] for r in here if r["method"] == name} for name in ("SP", "GmP"))
    small, large = min(sp), max(sp)
    unstable = sp[small] > DRASTIC * gmp[small]
    alike = sp[large] < SIMILAR * gmp[large]
    numbers = "; ".join(f"norm {norm:g}: SP {sp[norm]:.3g}°, GmP {gmp[norm]:.3g}°" for norm in (small, large))
    return Finding(
        f"a perturbation of {epsilon:g} changes the boundary drastically under the other parameterisations",
        "reproduced in part" if unstable and alike else "reproduced" if unstable else "not reproduced",
        f"medians over units: {numbers}" + (": it is a matter of small weights" if alike else ""),
    )
