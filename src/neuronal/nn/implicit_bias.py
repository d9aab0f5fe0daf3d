"""Implicit-bias neurons: each unit's bias depends on its neighbours, through a fixed point."""

from __future__ import annotations

import warnings
from math import log, sqrt
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, fx, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]

from neuronal.nn.graph import one_node
from neuronal.nn.standard import Conv1dShape, Conv2dShape, Conv3dShape, Device, Dtype, LinearShape, Plain, StandIn
from neuronal.ops import dispatch
from neuronal.ops.coupling_mean import coupling_mean
from neuronal.ops.damped import num_steps, pairwise_mean
from neuronal.ops.learnt_field import bounded, laid_out_like, solve_learnt, takes
from neuronal.ops.mean_field import UNIQUE_BELOW, Solution, check_unique, solve, without_nan

# More would make a graph that nothing reads any more.
_MOST_STEPS = 1000
# Learnt couplings stay where coupling * slope is below this: a share of where solutions are unique.
_MOST = 0.9 * UNIQUE_BELOW


class ImplicitBiasLayer(StandIn):
    """Base class of the four layers, for ``isinstance``; see :class:`ImplicitBiasLinear`."""

    _takes_complex: ClassVar[bool] = False

    weight: nn.Parameter
    bias: nn.Parameter | None
    raw_coupling: Tensor
    log_slope: Tensor | None

    def _setup(
        self,
        bias: bool,
        device: Device,
        dtype: Dtype,
        *,
        coupling: float = 0.0,
        slope: float = 10.0,
        learn_coupling: bool = True,
        learn_slope: bool = False,
        per_channel: bool = False,
        steps: int | None = None,
        tolerance: float = 1e-4,
    ) -> None:
        check_unique(torch.tensor([float(coupling)]), torch.tensor([float(slope)]))
        if learn_coupling and coupling * slope >= _MOST:
            raise ValueError(
                f"a learnt coupling needs to start below {_MOST:g} / slope = {_MOST / slope:g}, got {coupling:g}. "
                "Use learn_coupling=False to fix it there."
            )
        if steps is not None and steps < 1:
            raise ValueError(f"steps needs to be None (solve) or at least 1, got {steps}.")
        if not tolerance > 0:
            raise ValueError(f"tolerance needs to be above 0, got {tolerance}.")
        self.initial_coupling, self.initial_slope = float(coupling), float(slope)
        self.steps, self.tolerance = steps, tolerance
        kind: Any = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(self._weight_shape, **kind))
        self.register_parameter("bias", nn.Parameter(torch.empty(self.num_units, **kind)) if bias else None)
        count = self.num_units if per_channel and self._plain is not nn.Linear else 1
        values = torch.empty(count, **kind)
        if learn_coupling:
            self.raw_coupling = nn.Parameter(values)
        else:
            self.register_buffer("raw_coupling", values)
        # One that is not learnt is a number, and no buffer: opacus takes no layers with buffers.
        self.register_parameter("log_slope", nn.Parameter(torch.empty(1, **kind)) if learn_slope else None)
        self._checked: object = None
        # No buffer: DDP would overwrite the count of every process with that of the first.
        self._unconverged = torch.zeros((), dtype=torch.long, device="cpu")
        self.warns = True

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Weights and biases as in ``nn.Linear``; coupling and slope as given to the constructor."""
        nn.init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(max(1, self.fan_in))
            nn.init.uniform_(self.bias, -bound, bound)
        self._reset_coupling()

    def _reset_coupling(self) -> None:
        # Rounded as in a file of this layer: what is loaded and what is made compute the same, in higher precision too.
        rounded = torch.tensor(log(self.initial_slope), dtype=self.raw_coupling.dtype, device="cpu")
        self._fixed_log_slope = rounded.item()
        if self.log_slope is not None:
            self.log_slope.fill_(self._fixed_log_slope)
        # The inverse of what `coupling` does to a positive value.
        top = _MOST / self.initial_slope
        raw = self.initial_coupling
        self._fixed = not isinstance(self.raw_coupling, nn.Parameter)
        if raw > 0 and not self._fixed:
            raw = top * torch.atanh(torch.tensor(raw / top, dtype=torch.float64)).item()
        self.raw_coupling.fill_(raw)

    def _take(self, plain: Plain) -> None:
        self._reset_coupling()
        self.weight.copy_(plain.weight)
        if self.bias is not None and plain.bias is not None:
            self.bias.copy_(plain.bias)

    def departure(self, plain: Plain) -> str:
        return f"coupling {self.initial_coupling:g} added to the same weights" if self.initial_coupling else ""

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.setdefault(prefix + "log_slope", self._log_slope().detach())

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Tensor],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """A checkpoint of the plain layer loads: coupling and slope keep their values."""
        for name, own in (("raw_coupling", self.raw_coupling), ("log_slope", self._log_slope())):
            state_dict.setdefault(prefix + name, own.detach())
        if self.log_slope is None:
            log_slope = state_dict.pop(prefix + "log_slope")
            if log_slope.numel() != 1:
                error_msgs.append(f"{prefix}log_slope: needs one number, got shape {tuple(log_slope.shape)}.")
            elif not dispatch.is_valueless(log_slope):
                self._fixed_log_slope = log_slope.item()
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _log_slope(self) -> Tensor:
        """The logarithm of the slope, which is learnt or a number."""
        if self.log_slope is not None:
            return self.log_slope
        own = self.raw_coupling
        return torch.full((1,), self._fixed_log_slope, dtype=own.dtype, device=own.device)

    @property
    def slope(self) -> Tensor:
        """p, always above 0."""
        return self._log_slope().exp()

    @property
    def coupling(self) -> Tensor:
        """The coupling; a learnt one cannot leave the region where solutions are unique."""
        if self._fixed:
            return self.raw_coupling
        return bounded(self.raw_coupling, self.slope, _MOST)

    def solve(self, x: Tensor) -> Solution:
        """The solution for input ``x`` with residual, steps and convergence of every row (sample and channel)."""
        a = self._map(x, self.weight, self.bias)
        return self._solve_rows(*self._rows(a))

    def _solve_rows(self, rows: Tensor, coupling: Tensor, slope: Tensor) -> Solution:
        if rows.is_cuda:
            self._check_fixed()
        return solve(rows, coupling, slope, tolerance=self.tolerance, check=not rows.is_cuda)

    def _check_fixed(self) -> None:
        """A learnt coupling stays where solutions are unique; a fixed one is looked at when it or the slope changed."""
        if not self._fixed or torch.compiler.is_compiling():
            return
        both = (self.raw_coupling,) if self.log_slope is None else (self.raw_coupling, self.log_slope)
        state = self._fixed_log_slope, *((id(t), 0 if t.is_inference() else t._version) for t in both)
        if state != self._checked:
            known = without_nan(self.raw_coupling.detach(), self.slope.detach())
            check_unique(*known[:2])
            self._checked = state

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        a = self._map(input, self.weight, self.bias)
        if not self.num_units:
            return a
        if dispatch.is_traced():
            # A solve takes as many steps as its input asks for, which cannot be recorded.
            told = f"{type(self).__name__}: the trace holds coupling and slope as constants, and the steps these need."
            warnings.warn(told, TracerWarning, stacklevel=2)
            return cast(Tensor, _Steps(self)(a))
        units, log_slope = self._row_length(a), self._log_slope()
        if self.steps is None and takes(a, self.raw_coupling, log_slope, units, self.tolerance):
            self._check_fixed()
            most = None if self._fixed else _MOST
            solution = solve_learnt(a, self.raw_coupling, log_slope, units, most, self.tolerance)
            self._count(solution)
            return solution.value
        rows, coupling, slope = self._rows(a)
        if self.steps is not None:
            z = rows
            coupling, slope = _for_rows(rows, coupling, slope)
            for _ in range(self.steps):
                z = rows - coupling.unsqueeze(1) * coupling_mean(z, slope)
        else:
            solution = self._solve_rows(rows, coupling, slope)
            # The gradient needs the solution as it is, and what follows may be a ReLU in place.
            z = solution.value.clone() if solution.value.requires_grad else solution.value
            if _can_be_read(solution.converged):
                self._count(solution)
        return laid_out_like(a, z.reshape(a.shape).to(a.dtype))

    def _rows(self, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Units coupled with each other as rows, in at least float32, with couplings and slope, which rows take in turn."""
        rows = a.reshape(-1, self._row_length(a)).to(torch.promote_types(a.dtype, torch.float32))
        return rows, self.coupling.to(rows.dtype), self.slope.to(rows.dtype)

    def _row_length(self, a: Tensor) -> int:
        """Units that are coupled with each other: all of a linear layer, or the positions of a channel."""
        if self._plain is nn.Linear:
            return self.num_units
        return a.shape[2 - len(self._weight_shape) :].numel()

    @property
    def num_unconverged(self) -> int:
        """Rows whose solve did not reach the tolerance, since the layer was made. A GPU is waited for."""
        return int(self._unconverged)

    def _count(self, solution: Solution) -> None:
        """Counts rows that did not converge. The first ones warn, but on a GPU, which would have to be waited for."""
        if solution.converged.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        missed = (~solution.converged).sum()
        if not missed.is_cuda:
            if not missed:
                return
            if self.warns:
                self.warns = False
                worst = solution.residual.nan_to_num(nan=torch.inf).max().item()
                warnings.warn(
                    f"{type(self).__name__}: {missed} of {len(solution.converged)} solves did not reach tolerance "
                    f"{self.tolerance:g} (residual {worst:.1e} after {int(solution.steps.max())} steps). "
                    "Said once; num_unconverged goes on counting.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._unconverged = self._unconverged.to(missed.device) + missed

    def to_standard(self) -> Plain:
        """The plain layer with the same weights: this one with coupling 0, which is not the same function otherwise."""
        return self._plain_with(self.weight, self.bias)

    def unrolled(self) -> nn.Module:
        """Plain torch modules of the same function: the plain layer, and behind it a fixed number of steps.

        With coupling and slope as they are now. A solution is found to a hundredth of the tolerance, at O(N^2) per row.
        """
        plain = self.to_standard()
        if not self.coupling.count_nonzero():
            return plain
        steps = fx.symbolic_trace(_Steps(self))
        for node in steps.graph.nodes:
            # Annotations of this file are strings, which do not pickle as types.
            node.type = None
        steps.recompile()
        return nn.Sequential(plain, steps).train(self.training)

    def extra_repr(self) -> str:
        solved = f"tolerance={self.tolerance:g}" if self.steps is None else f"steps={self.steps}"
        return f"{super().extra_repr()}, coupling={self.initial_coupling:g}, slope={self.initial_slope:g}, {solved}"


class _Steps(nn.Module):
    """The coupling of a layer as it is now, in a number of steps that is known beforehand (:mod:`neuronal.ops.damped`)."""

    coupling: Tensor
    rate: Tensor

    def __init__(self, layer: ImplicitBiasLayer) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # That these numbers become constants is meant.
            warnings.simplefilter("ignore", TracerWarning)
            couplings, self.slope = layer.coupling.detach().tolist(), layer.slope.item()
            dtype = torch.promote_types(layer.weight.dtype, torch.float32)
            coupling = torch.tensor(couplings, dtype=dtype, device=layer.weight.device).unsqueeze(1)
        self.is_plain, self.units = layer.steps is not None, len(layer._weight_shape) - 2
        self.steps = layer.steps or max(num_steps(one, self.slope, layer.tolerance / 100) for one in couplings)
        if self.steps > _MOST_STEPS:
            raise ValueError(
                f"a coupling of {min(couplings):g} with slope {self.slope:g} takes {self.steps} steps, and at most "
                f"{_MOST_STEPS} are written out. Use torch.export or torch.compile, which keep the solver."
            )
        self.register_buffer("coupling", coupling if len(couplings) > 1 else coupling[0])
        self.register_buffer("rate", 2 / (2 - self.coupling * self.slope))
        self.is_half = layer.weight.dtype != dtype

    def forward(self, a: Tensor) -> Tensor:
        rows = a.flatten(-self.units) if self.units else a
        rows = rows.float() if self.is_half else rows
        z = rows
        for _ in range(self.steps):
            moved = rows - self.coupling * pairwise_mean(z, self.slope)
            z = moved if self.is_plain else z + self.rate * (moved - z)
        z = z.to(a.dtype) if self.is_half else z
        return z.view_as(a) if self.units else z


def _can_be_read(flags: Tensor) -> bool:
    """Whether values can be looked at: not while compiling, without any, or inside torch.func's transforms."""
    unseen = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return not (unseen or dispatch.is_valueless(flags))


def _for_rows(rows: Tensor, *numbers: Tensor) -> tuple[Tensor, ...]:
    """One for each row of what rows take in turn."""
    return tuple(t.repeat(rows.shape[0] // t.shape[0]) for t in numbers)


class ImplicitBiasLinear(ImplicitBiasLayer, LinearShape):
    r"""Units whose bias depends on the other units of the layer.

    .. math:: z_i = a_i - \lambda\, \frac1N \sum_k \tanh(p\,(z_k - z_i)), \qquad a = W x + b

    The output :math:`z` is the solution, found to ``tolerance`` and differentiated exactly (implicitly). Negative
    :math:`\lambda` draws the units together, positive pushes them apart, 0 is the plain layer.

    Args:
        in_features: Size of :math:`x`.
        out_features: Number of units :math:`N`.
        bias: Whether :math:`a` has a bias of its own.
        coupling: :math:`\lambda`, below 1 / slope. From 0 a learnt one starts as the plain layer.
        slope: :math:`p`.
        learn_coupling: Makes the coupling a parameter that cannot leave the region of unique solutions.
        learn_slope: Makes the slope a parameter.
        per_channel: One coupling per channel of a convolution instead of one per layer.
        steps: ``None`` solves; ``k`` does k plain iterations from :math:`a` (1 is the paper's Lite form).
        tolerance: Bound on the residual, relative to max(1, max|a|). Settable.

    A coupling that is not learnt is a buffer, and Opacus refuses layers with buffers: it takes the layer with
    ``learn_coupling=True``.

    Shape:
        ``(..., in_features)`` to ``(..., out_features)``.

    Law:
        mean(z) = mean(a); the order of the units is kept; for :math:`\lambda \le 0` distances do not grow; a sample does
        not depend on its batch (tests/laws/test_mean_field.py).

    Derivatives:
        Of any order, by ``create_graph=True``, ``torch.func`` and forward mode, with ``steps`` too; only forward mode of
        forward mode ends in an error, since torch would lose a part of it. All are O(N) per row. On a CPU a gradient
        penalty takes 4 to 5 times a plain training step, a ``jvp`` 1.3 to 1.7 times. On a GPU they sum with torch's
        operations instead of the fused kernels, and wait for the device. What ``torch.compile`` made is differentiated
        once, as all it makes.

    Export:
        ``torch.export`` takes a batch of any size, and the program can be trained. ONNX has no solve: there a loop takes
        damped steps until the tolerance is met, at O(N^2) per row. ``torch.jit.trace`` records :meth:`unrolled` steps, with
        coupling and slope as constants, and says so in a ``TracerWarning``.

    Reference:
        Mohedano, Bertalmío and others, Updating the standard neuron model in artificial neural networks.

    Departs:
        Sums are means at any input size; the published code divides by the size it was built for. Solved by Newton's
        method with the error of the fast sums in the residual; the published solvers stop silently before convergence
        and depend on the other images of a batch.
    """


class ImplicitBiasConv1d(ImplicitBiasLayer, Conv1dShape):
    """``nn.Conv1d`` with the units of :class:`ImplicitBiasLinear`, coupled over all positions of a channel of a sample."""


class ImplicitBiasConv2d(ImplicitBiasLayer, Conv2dShape):
    """``nn.Conv2d`` with the units of :class:`ImplicitBiasLinear`, coupled over all positions of a channel of a sample."""


class ImplicitBiasConv3d(ImplicitBiasLayer, Conv3dShape):
    """``nn.Conv3d`` with the units of :class:`ImplicitBiasLinear`, coupled over all positions of a channel of a sample."""
