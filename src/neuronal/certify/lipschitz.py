"""How far outputs can move when inputs move: Lipschitz bounds, and the ball of one class that follows from them.

Weaker than what :mod:`neuronal.certify.ball` says of piecewise-linear networks, but it holds for implicit-bias networks
too: with coupling <= 0 their units move no further than what comes in.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import inf, sqrt

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Certificate, Verdict
from neuronal.certify.evidence import LipschitzBall
from neuronal.certify.norms import SPARE
from neuronal.certify.statement import ball
from neuronal.certify.stretch import Stretch, stretched
from neuronal.core.inference import check_module
from neuronal.geometry.lowering import NotPiecewiseLinear, lower
from neuronal.geometry.program import Step, follow

ERROR = 3e-13  # of the largest logit, more than a checker that does not count step by step takes off
TOLERANCE = 1e-9  # implicit-bias layers are solved to this; what is left is in the error


class NotLipschitz(ValueError):
    """No finite constant is known for a part of the network."""


@dataclass(frozen=True)
class Factor:
    """An operation, and the constant from the network's input up to its result."""

    path: str
    operation: str
    constant: float


@dataclass(frozen=True)
class Lipschitz:
    """``bound``: the distance of two outputs is at most this times that of the inputs, both in the 2-norm.

    ``steps`` lists the operations that change the constant, in order.
    """

    bound: float
    steps: tuple[Factor, ...]


def lipschitz_bound(model: nn.Module, example: Tensor) -> Lipschitz:
    r"""An upper bound of the Lipschitz constant of a network, in evaluation, in the 2-norm.

    Products along the layers: singular values of matrices and convolutions, sums for residual branches
    (:math:`1 + L`), at most 1 for ReLU and for implicit-bias couplings :math:`\lambda \le 0`, where z is the proximal map
    of a convex function of a; :math:`1 / (1 - \lambda p)` for :math:`0 < \lambda p < 1`.

    Args:
        model: Linear and convolutional layers of every family, ReLU and the like, pooling, batch norm, additions.
        example: An input with a batch dimension; the bound holds for all inputs of its shape.

    Raises:
        NotLipschitz: A part has no finite constant, or none that is known; the message names it.
    """
    return _followed(model, example[:1])[0]


def certify_lipschitz_ball(model: nn.Module, x: Tensor) -> Certificate:
    r"""A ball (2-norm) around ``x``, one input without a batch, in which the predicted class does not change.

    Logits are evaluated in float64; what that rounds, and what is left of implicit-bias equations, is bounded and taken
    off the margins. With a Lipschitz bound L the class is the same within
    :math:`\min_c (f_y - f_c) / (\sqrt 2 L)`.
    """
    _, found = _followed(model, x.unsqueeze(0))
    logits = found.value[0]
    if logits.dim() != 1 or len(logits) < 2:
        raise ValueError(f"a class needs at least two outputs for each input, got shape {tuple(logits.shape)}.")
    label = int(logits.argmax())
    others = torch.cat([logits[:label], logits[label + 1 :]])
    margin = (logits[label] - others.max()).item()
    # Two logits together move by at most sqrt(2) times the whole, and so do their errors.
    error = found.error + ERROR * logits.abs().max().item()
    sure = margin - sqrt(2) * SPARE * error
    radius = max(sure, 0.0) / (sqrt(2) * found.constant * SPARE * SPARE) if found.constant else inf
    evidence = LipschitzBall(x, label, 2, radius if sure > 0 else 0.0, margin, error)
    statement = ball(label, evidence.radius, 2)
    verdict: Verdict = "certified"
    reason = (
        f"The margin is {margin:.4g} and no logit difference changes by more than {sqrt(2) * found.constant:.4g} times "
    )
    reason += "the distance."
    if not sure > 0:
        statement, verdict = "the predicted class is the same around x", "unknown"
        reason = f"The margin of {margin:.2e} at x itself is within rounding ({error:.1e})."
    return Certificate("ball", statement, verdict, "real", reason, evidence=evidence)


def _followed(model: nn.Module, x: Tensor) -> tuple[Lipschitz, Stretch]:
    """Follows one row through the program of a float64 copy, with the constant of every value along the way."""
    check_module(model)
    model = deepcopy(model).double()
    for module in model.modules():
        if hasattr(module, "coupling") and hasattr(module, "tolerance"):
            module.tolerance = TOLERANCE  # type: ignore[assignment]
    try:
        program = lower(model, x, smooth=True)
    except NotPiecewiseLinear as unfit:
        raise NotLipschitz(f"{unfit} Here also: tanh, sigmoid and implicit-bias layers.") from None
    x = x.detach().to(program.device, torch.float64)
    steps: list[Factor] = []

    def apply(step: Step, given: list[Stretch]) -> Stretch:
        result = stretched(step.op, given)
        before = max(one.constant for one in given)
        if abs(result.constant / before - 1) > 1e-6 if before else result.constant:
            steps.append(Factor(step.path, type(step.op).__name__.lower(), result.constant))
        return result

    found = follow(program.steps, {0: Stretch(x, 1.0, 0.0)}, apply)[program.output]
    return Lipschitz(found.constant, tuple(steps)), found
