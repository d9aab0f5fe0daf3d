"""How far outputs can move when inputs move: Lipschitz bounds, and the ball of one class that follows from them.

Weaker than what :mod:`neuronal.certify.ball` says of piecewise-linear networks, but it holds for implicit-bias networks
too: with coupling <= 0 their units move no further than what comes in.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.certify.certificate import Certificate
from neuronal.certify.lipschitz_rules import RULES, Call, NotLipschitz, Stretch
from neuronal.certify.norms import SPARE
from neuronal.geometry.recorder import SHAPES
from neuronal.geometry.trace import Exits, places
from neuronal.inference import evaluating

TOLERANCE = 1e-9  # implicit-bias layers are solved to this; what is left is in the error


@dataclass(frozen=True)
class Factor:
    """An operation, and the constant from the network's input up to its result."""

    path: str
    operation: str
    constant: float


@dataclass(frozen=True)
class Lipschitz:
    """``bound``: the distance of two outputs is at most this times that of the inputs, both in the 2-norm.

    ``steps`` lists the operations that change the constant, in order; ``shape`` is that of an input.
    """

    bound: float
    steps: tuple[Factor, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LipschitzBall:
    """Evidence for a ball of one class: logits at ``x``, how far they may be off, and the Lipschitz bound."""

    x: Tensor
    label: int
    norm: int
    radius: float
    margin: float
    error: float
    lipschitz: Lipschitz


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
    _, stretch, steps = _walk(model, example[:1])
    return Lipschitz(stretch.constant, steps, tuple(example.shape[1:]))


def certify_lipschitz_ball(model: nn.Module, x: Tensor) -> Certificate:
    r"""A ball (2-norm) around ``x``, one input without a batch, in which the predicted class does not change.

    Logits are evaluated in float64; what that rounds, and what is left of implicit-bias equations, is bounded and taken
    off the margins. With a Lipschitz bound L the class is the same within
    :math:`\min_c (f_y - f_c) / (\sqrt 2 L)`.
    """
    logits, stretch, steps = _walk(model, x.unsqueeze(0))
    logits = logits[0]
    if logits.dim() != 1 or len(logits) < 2:
        raise ValueError(f"a class needs at least two outputs for each input, got shape {tuple(logits.shape)}.")
    label = int(logits.argmax())
    others = torch.cat([logits[:label], logits[label + 1 :]])
    margin = (logits[label] - others.max()).item()
    # Two logits together move by at most sqrt(2) times the whole, and so do their errors.
    sure = margin - sqrt(2) * SPARE * stretch.error - 1e-15 * logits.abs().max().item()
    radius = max(sure, 0.0) / (sqrt(2) * stretch.constant * SPARE * SPARE) if stretch.constant else float("inf")
    lipschitz = Lipschitz(stretch.constant, steps, tuple(x.shape))
    evidence = LipschitzBall(x, label, 2, radius if sure > 0 else 0.0, margin, stretch.error, lipschitz)
    if not sure > 0:
        return Certificate(
            "ball",
            "the predicted class is the same around x",
            "unknown",
            "real",
            f"The margin of {margin:.2e} at x itself is within rounding ({stretch.error:.1e}).",
            evidence=evidence,
        )
    return Certificate(
        "ball",
        f"class {label} for every input within {radius:.4g} of x in the 2-norm",
        "certified",
        "real",
        f"The margin is {margin:.4g} and no logit difference changes by more than {sqrt(2) * stretch.constant:.4g} times "
        "the distance.",
        evidence=evidence,
    )


def _walk(model: nn.Module, x: Tensor) -> tuple[Tensor, Stretch, tuple[Factor, ...]]:
    """Runs a float64 copy on one row, with the constant of every value along the way."""
    if x.dim() < 2:
        raise ValueError(f"an input needs a batch dimension in front, got shape {tuple(x.shape)}.")
    model = deepcopy(model).double()
    for module in model.modules():
        if hasattr(module, "coupling") and hasattr(module, "tolerance"):
            module.tolerance = TOLERANCE  # type: ignore[assignment]
    device = next(model.parameters(), torch.zeros(())).device
    recorder = _Recorder(model, x := x.detach().to(device, torch.float64))
    with evaluating(model), places(model) as running:
        recorder.running = running
        with Exits(recorder.leaves), recorder:
            result = model(x)
    stretch = recorder.stretch_of(result)
    if stretch is None:
        raise NotLipschitz(f"{type(model).__name__} returns something else than one tensor that depends on its input.")
    return result, stretch, tuple(recorder.steps)


class _Recorder(TorchDispatchMode):
    """Gives every tensor that depends on the input its constant, while the model computes as always."""

    def __init__(self, model: nn.Module, x: Tensor):
        super().__init__()
        self.model = model
        self.running: list[str] = []
        self.steps: list[Factor] = []
        self.known: dict[int, tuple[Stretch, Tensor]] = {id(x): (Stretch(1.0, 0.0), x)}
        self.stale: set[int] = set()

    def stretch_of(self, value: Any) -> Stretch | None:
        return self.known[id(value)][0] if id(value) in self.known else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        arguments = {a.name: a.default_value for a in func._schema.arguments}
        arguments |= dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
        inputs = [t for v in arguments.values() for t in (v if isinstance(v, list | tuple) else [v])]
        touched = [t for t in inputs if id(t) in self.known]
        name = func.overloadpacket.__name__
        is_in_place = func._schema.is_mutable
        before = {id(t): self.known[id(t)][0] for t in touched}
        # A rule of an operation in place looks at its input's size only, so it can come after.
        result = func(*args, **kwargs)
        if not touched:
            return result
        if any(id(t) in self.stale for t in touched):
            raise self._refuse("changes a tensor in place that is used under another view later")
        if name in SHAPES and not any(t.is_floating_point() for t in touched):
            self.known[id(result)] = (before[id(touched[0])], result)
            return result
        rule = RULES.get(name) or (RULES.get(name.removesuffix("_")) if is_in_place else None)
        if rule is None or not all(t.is_floating_point() for t in touched):
            raise self._refuse(f"computes {name}, whose constant is not known")
        call = Call(name.removesuffix("_") if is_in_place else name, arguments, result, lambda v: before.get(id(v)))
        try:
            stretch = rule(call)
        except NotLipschitz as wrong:
            raise self._refuse(str(wrong)) from None
        self._note(call.name, stretch, max(s.constant for s in before.values()), result, is_in_place)
        return result

    def leaves(self, name: str, tensor: Tensor) -> None:
        """Numbers of a tensor leave torch, and what is done with them is not seen."""
        if id(tensor) in self.known:
            raise self._refuse(f"takes numbers that depend on the input out of torch ({name})")

    def _note(self, name: str, stretch: Stretch, before: float, result: Any, is_in_place: bool) -> None:
        # All parts of a split count; nothing may be done with a pool's indices, and a solver's residual is for warnings.
        tensors = result if isinstance(result, list | tuple) else [result]
        for tensor in tensors if name != "mean_field" else tensors[:1]:
            self.known[id(tensor)] = (stretch, tensor)
        if is_in_place:
            memory = tensors[0].untyped_storage().data_ptr()
            for key, (_, tensor) in self.known.items():
                if tensor is not tensors[0] and tensor.untyped_storage().data_ptr() == memory:
                    self.stale.add(key)
        if abs(stretch.constant / before - 1) > 1e-6 if before else stretch.constant:
            self.steps.append(Factor(self.running[-1] if self.running else "", name, stretch.constant))

    def _refuse(self, what: str) -> NotLipschitz:
        path = self.running[-1] if self.running else ""
        module = type(self.model.get_submodule(path)).__name__
        return NotLipschitz(f"{module} at '{path}' {what}." if path else f"{module} {what}.")
