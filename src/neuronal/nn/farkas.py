"""Farkas layers: the last unit balances the others, so that for every input at least one is active."""

from __future__ import annotations

from collections.abc import Callable
from math import expm1, isfinite, log, sqrt
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.nn.computed import ComputedMap
from neuronal.nn.graph import one_node
from neuronal.nn.standard import Conv1dShape, Conv2dShape, Conv3dShape, Device, Dtype, LinearShape, Plain
from neuronal.ops import dispatch
from neuronal.ops.farkas import closed, closing_bias, guarantee, weight_and_bias

Aggregate = Literal["sum", "mean"]
Rule = Literal["softplus", "max"]
MARGIN = 1e-3


class Balance(nn.Module):
    r"""How the last of several units balances the others: its multipliers, and the biases of all.

    Args:
        num_free: Number of the other units; 0 for a layer without units, which has nothing to balance and no biases.
        fan_in: Inputs of a unit; sets the size of the first biases, as in ``nn.Linear``.
        bias: ``False`` leaves every bias at 0; then the largest pre-activation is not negative, but may be 0.
        aggregate: ``"mean"`` (:math:`\lambda_j = 1 / (m - 1)`) or ``"sum"`` (:math:`\lambda_j = 1`).
        margin: What the weighted sum of pre-activations exceeds the cutoff by at least; 1e-3 where there are biases.
        learn_multipliers: Makes the :math:`\lambda_j` parameters, positive by construction.
        cutoff: :math:`c`; a unit counts as active above it. 0 for ReLU.
        rule: ``"softplus"``: the last bias exceeds what is needed by softplus of a parameter plus the margin, so it is
            strict and always trained. ``"max"``: the paper's maximum of what is needed and a free bias, which allows
            equality and gives the free bias no gradient while it loses.
    """

    decayed: ClassVar[tuple[str, ...]] = ()
    offsets: nn.Parameter | None
    last: nn.Parameter | None
    log_multipliers: nn.Parameter | None

    def __init__(
        self,
        num_free: int,
        fan_in: int,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        *,
        aggregate: Aggregate = "mean",
        margin: float | None = None,
        learn_multipliers: bool = False,
        cutoff: float = 0.0,
        rule: Rule = "softplus",
    ) -> None:
        super().__init__()
        if aggregate not in ("sum", "mean"):
            raise ValueError(f"aggregate needs to be 'sum' or 'mean', got {aggregate!r}.")
        if rule not in ("softplus", "max"):
            raise ValueError(f"rule needs to be 'softplus' or 'max', got {rule!r}.")
        if margin is None:
            margin = MARGIN if bias and rule == "softplus" else 0.0
        if not isfinite(margin) or not isfinite(cutoff):
            raise ValueError(f"margin and cutoff need to be finite numbers, got margin={margin}, cutoff={cutoff}.")
        if not margin >= 0 or (rule == "softplus" and bias and margin == 0):
            raise ValueError(
                f"margin needs to be above 0, got {margin}. rule='max' is the paper's algorithm without one."
            )
        if margin and rule == "max":
            raise ValueError(f"rule='max' has no margin, got margin={margin}. Use rule='softplus'.")
        if not bias and (margin or cutoff > 0):
            raise ValueError(
                f"without a bias nothing above 0 can be promised, got margin={margin}, cutoff={cutoff}. "
                "Use bias=True, or margin=0 and cutoff <= 0."
            )
        self.num_free, self.fan_in = num_free, fan_in
        self.aggregate, self.margin, self.cutoff, self.rule = aggregate, float(margin), float(cutoff), rule
        kind: Any = {"device": device, "dtype": dtype}
        self.register_parameter("offsets", nn.Parameter(torch.empty(num_free, **kind)) if bias else None)
        self.register_parameter("last", nn.Parameter(torch.empty(min(1, num_free), **kind)) if bias else None)
        learnt = nn.Parameter(torch.empty(num_free, **kind)) if learn_multipliers else None
        self.register_parameter("log_multipliers", learnt)
        # Device and dtype of a balance without parameters. No buffer, which a module to be trained need not have.
        self._kind = torch.empty(0, **kind)
        self.reset_parameters()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._kind = fn(self._kind)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Files from when ``last`` was a number and not a vector of one load too."""
        last = state_dict.get(prefix + "last")
        if last is not None and last.dim() == 0:
            state_dict[prefix + "last"] = last.reshape(1)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def is_fixed(self) -> bool:
        """Whether all multipliers are ``base`` and the last bias is the strict one: what the kernels for weights know."""
        return self.log_multipliers is None and self.rule == "softplus"

    @property
    def base(self) -> float:
        """What the multipliers are, or start at."""
        return 1.0 if self.aggregate == "sum" else 1 / max(1, self.num_free)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        size = 1 / sqrt(max(1, self.fan_in))
        if self.offsets is not None and self.last is not None:
            self.offsets.uniform_(-size, size)
            if self.rule == "max":
                self.last.uniform_(-size, size)
            else:
                # The last bias starts above what is needed by as much as the other biases are large.
                self.last.fill_(log(expm1(size)))
        if self.log_multipliers is not None:
            self.log_multipliers.zero_()

    @property
    def multipliers(self) -> Tensor:
        r""":math:`\lambda_j` of the other units; the last one's is 1."""
        return self.multipliers_like(self._kind if self.offsets is None else self.offsets)

    def multipliers_like(self, other: Tensor) -> Tensor:
        """The multipliers; those that are not learnt on the device and in the dtype of ``other``."""
        if self.log_multipliers is None:
            return torch.full((self.num_free,), self.base, device=other.device, dtype=other.dtype)
        return self.base * self.log_multipliers.exp()

    @property
    def slack(self) -> Tensor:
        """What the weighted sum of all biases has above ``cutoff`` times the sum of the multipliers; never negative."""
        return self._slack(self.multipliers).sum()

    def _slack(self, multipliers: Tensor) -> Tensor:
        """The same; of one entry, where there are biases."""
        if self.offsets is None or self.last is None:
            return -self.cutoff * (1 + multipliers.sum())
        if self.rule == "max":
            above = self.last - closing_bias(self.offsets, multipliers, 0.0, self.cutoff)
            # A bias that is exactly what is needed, as in a block that starts with zeros, is trained. The gradient of clamp
            # there is 1 in torch 2.13 and 0 in torch 2.15.
            return torch.where(above < 0, 0.0, above)
        return F.softplus(self.last) + self.margin

    @property
    def bias(self) -> Tensor | None:
        """Biases of all units, the last one closing the sum."""
        offsets = self.offsets
        if offsets is None:
            return None
        multipliers = self.multipliers_like(offsets)
        return torch.cat([offsets, closing_bias(offsets, multipliers, self._slack(multipliers), self.cutoff)])

    def promise(self) -> Tensor:
        """For every input, the largest pre-activation is at least this; minus infinity where there are none."""
        if not self.num_free:
            return torch.full_like(self.slack, -torch.inf)
        return guarantee(self.multipliers, self.slack, self.cutoff)

    def close(self, z: Tensor, *, dim: int = 1) -> Tensor:
        """Puts minus the weighted sum of the channels of ``z`` behind them, and adds the biases."""
        spread = [1] * (z.dim() - 1 - dim)
        closing = -(z * self.multipliers_like(z).to(z.dtype).view(-1, *spread)).sum(dim)
        # A single channel that says it lies last: then all of them do, if those of z do.
        closing = closing.unsqueeze(-1).movedim(-1, dim)
        # Autocast adds up in float32 on a GPU, and all channels would follow.
        closed = torch.cat([z, closing.to(z.dtype)], dim)
        bias = self.bias
        return closed if bias is None else closed + bias.to(z.dtype).view(-1, *spread)

    def extra_repr(self) -> str:
        options = f"aggregate={self.aggregate!r}, margin={self.margin:g}, cutoff={self.cutoff:g}, rule={self.rule!r}"
        return options + (", learn_multipliers=True" if self.log_multipliers is not None else "")


class FarkasLayer(ComputedMap):
    """Base class of the four layers, for ``isinstance``; see :class:`FarkasLinear`."""

    decayed: ClassVar[tuple[str, ...]] = ("rows",)
    _takes_complex: ClassVar[bool] = False

    def _setup(
        self,
        bias: bool,
        device: Device,
        dtype: Dtype,
        *,
        aggregate: Aggregate = "mean",
        margin: float | None = None,
        learn_multipliers: bool = False,
        cutoff: float = 0.0,
        rule: Rule = "softplus",
    ) -> None:
        if self.num_units:
            need_two(type(self).__name__, self.num_units, f"nn.{self._plain.__name__} for a single output")
        num_free = max(0, self.num_units - 1)
        shape = (num_free, *self._weight_shape[1:])
        self.rows = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.balance = Balance(
            num_free,
            self.fan_in,
            bias,
            device,
            dtype,
            aggregate=aggregate,
            margin=margin,
            learn_multipliers=learn_multipliers,
            cutoff=cutoff,
            rule=rule,
        )

    def reset_parameters(self) -> None:
        """Rows as in ``nn.Linear``, and the balance."""
        nn.init.kaiming_uniform_(self.rows, a=sqrt(5))
        self.balance.reset_parameters()

    @torch.no_grad()
    def _take(self, plain: Plain) -> None:
        self.balance.reset_parameters()
        self._put(self._parameters_of(plain.weight, plain.bias))

    def _parameters_of(self, weight: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        found = {} if weight is None else {"rows": weight.detach()[:-1]}
        if bias is not None and self.balance.offsets is not None:
            found["balance.offsets"] = bias.detach()[:-1]
            if self.balance.rule == "max":
                found["balance.last"] = bias.detach()[-1:]
        return found

    def departure(self, plain: Plain) -> str:
        if not self.num_units:
            return ""
        last, kind = self.num_units - 1, self.balance.aggregate
        strict = "" if self.bias is not None else "; without biases its promise is not strict"
        return f"unit {last}, the last, is now minus the {kind} of the others{strict}"

    def _weight(self) -> Tensor:
        if self._groups > 1:
            # An AttributeError, so that hasattr says no: the last unit sees every group, which no plain weight can.
            raise AttributeError("a grouped Farkas layer is not one plain layer; to_standard() gives it as two")
        if not self.num_units:
            return self._ordered(self.rows.clone())
        return self._ordered(closed(self.rows, self.balance.multipliers_like(self.rows)))

    def _bias(self) -> Tensor | None:
        return self.balance.bias

    def _weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        balance = self.balance
        has_kernel = dispatch.is_cuda(self.rows) and self.rows.dtype == torch.float32 and balance.is_fixed
        if not (has_kernel and self.num_units and dispatch.can_launch_triton()):
            return self._weight(), self._bias()
        return weight_and_bias(
            self.rows, balance.offsets, balance.last, base=balance.base, margin=balance.margin, cutoff=balance.cutoff
        )

    @property
    def _groups(self) -> int:
        return getattr(self, "groups", 1) if self.num_units else 1

    def promise(self) -> Tensor:
        """For every input (at every position) the largest pre-activation is at least this, up to rounding."""
        return self.balance.promise()

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        if self._groups == 1:
            return self._map(input, *self._weight_and_bias())
        # A weight in space of weights would need every group's inputs, so the outputs are added up instead.
        free = self._map(input, self._padded(), None)
        batched = free.dim() == len(self._weight_shape)
        return self.balance.close(free.narrow(int(batched), 0, self.num_units - 1), dim=int(batched))

    def _padded(self) -> Tensor:
        """The rows and one of zeros: torch wants as many filters as groups divide."""
        return torch.cat([self.rows, torch.zeros_like(self.rows[:1])])

    def to_standard(self) -> nn.Module:
        """Plain torch modules that compute the same function: one layer, or two when there are groups."""
        bias = self.bias
        if self._groups == 1:
            return self._plain_with(self.weight, bias)
        plain: Any = self._plain
        mixing = torch.eye(self.num_units, device=self.rows.device, dtype=self.rows.dtype)
        mixing[-1] = torch.cat([-self.balance.multipliers.detach(), mixing.new_zeros(1)])
        second = plain(self.num_units, self.num_units, 1, bias=bias is not None, device="meta", dtype=self.rows.dtype)
        second.weight = nn.Parameter(mixing.view(second.weight.shape))
        second.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        return nn.Sequential(self._plain_with(self._padded(), None), second).train(self.training)


def need_two(name: str, count: int, instead: str) -> None:
    if count < 2:
        raise ValueError(f"{name} needs at least 2 outputs (one balances the others), got {count}. Use {instead}.")


class FarkasLinear(FarkasLayer, LinearShape):
    r"""Units of which at least one is active for every input.

    .. math::
        z_j = w_j^\top x + b_j \;(j < m), \qquad
        z_m = -\sum_{j<m} \lambda_j z_j + c \textstyle\sum_j \lambda_j + \mathrm{softplus}(\beta) + \varepsilon

    The last row is minus the weighted sum of the others, put together in the space of weights, so the layer costs one
    plain layer. ``rows`` are the free weights; ``balance`` holds multipliers and biases; ``weight`` and ``bias`` are
    those of the plain layer with the same map. What is written to these, in place (``nn.init``, ``.data``, ``copy_``), by
    assignment or from the state of a plain layer, the free units take; the last one stays what balances them.

    Args:
        in_features: Size of :math:`x`.
        out_features: Number of units :math:`m`, at least 2; the last one is not free. 0 makes a layer without outputs,
            as in torch, whose promise is minus infinity.
        bias: ``False`` for no biases at all; then the promise is 0 and not strict.
        aggregate: ``"mean"`` (:math:`\lambda_j = 1 / (m - 1)`) or ``"sum"`` (:math:`\lambda_j = 1`, the paper's default).
            Means bear larger learning rates: without norm layers, at rate 0.1, 4 of 6 runs train with them and none of 6
            with sums (``farkas/sum_vs_mean`` in docs/findings/farkas.md).
        margin: :math:`\varepsilon`; 1e-3 if left out and there are biases.
        learn_multipliers: Makes the :math:`\lambda_j` parameters.
        cutoff: :math:`c`; units count as active above it. 0 for ReLU.
        rule: ``"max"`` for the paper's bias, which does not ensure strictness.

    Shape:
        ``(..., in_features)`` to ``(..., out_features)``.

    Law:
        For every :math:`x`, :math:`\max_j z_j \ge c + (\mathrm{softplus}(\beta) + \varepsilon) / \sum_j \lambda_j`
        :math:`= \texttt{promise()}` (tests/laws/test_farkas.py, by linear programming), up to rounding: what is computed
        may be off by the spacing of the dtype times :math:`\sum_j \lambda_j |z_j|`. That is far below the margin in
        float32, but not in bfloat16 or under autocast, where the largest pre-activation can be 0.

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers: don't shift the data, fix the geometry, Algorithm 1 and Theorem 3.2.

    Departs:
        Means are the default, where the paper has sums. The bias is strict: with the paper's maximum all pre-activations
        can be 0 at once. The condition for a cutoff is :math:`c \sum_j \lambda_j / \lambda_m`, where the paper's
        :math:`c` is too little for :math:`c > 0`. The paper's bias is ``rule="max"``.
    """


class FarkasConv1d(FarkasLayer, Conv1dShape):
    """``nn.Conv1d`` with the units of :class:`FarkasLinear`; the promise holds at every position."""


class FarkasConv2d(FarkasLayer, Conv2dShape):
    """``nn.Conv2d`` with the units of :class:`FarkasLinear`; the promise holds at every position."""


class FarkasConv3d(FarkasLayer, Conv3dShape):
    """``nn.Conv3d`` with the units of :class:`FarkasLinear`; the promise holds at every position."""
