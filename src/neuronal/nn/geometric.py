"""The geometric parameterisation: a unit's direction, offset and scale are parameters of their own."""

from __future__ import annotations

from math import pi, sqrt
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.nn.graph import one_node
from neuronal.nn.standard import Conv1dShape, Conv2dShape, Conv3dShape, Device, Dtype, LinearShape, Plain, StandIn
from neuronal.ops import dispatch
from neuronal.ops.sphere import angles_of, direction, weight_and_bias

Init = Literal["sphere", "published"]


class _Geometric(StandIn):
    """What the four layers share; see :class:`GeometricLinear`."""

    delta: nn.Parameter | None
    offset: nn.Parameter | None
    sign: Tensor

    def _setup(
        self,
        bias: bool,
        device: Device,
        dtype: Dtype,
        *,
        activation: Literal["relu"] | None = None,
        init: Init = "sphere",
    ) -> None:
        if activation not in (None, "relu"):
            raise ValueError(
                f"{type(self).__name__} needs activation None or 'relu', got {activation!r}. "
                "With None, any activation can follow the layer."
            )
        if init not in ("sphere", "published"):
            why = ""
            if "uniform" in str(init) or "angle" in str(init):
                why = (
                    "Independent uniform angles are not offered: sines multiply along the coordinates, so almost all of a "
                    "direction would lie in its first few (4.6 of 576 hold 99% of it) and units would be parallel. "
                )
            raise ValueError(
                f"{type(self).__name__} needs init 'sphere' or 'published', got {init!r}. {why}"
                "'sphere' draws directions uniformly."
            )
        self.activation, self.init = activation, init
        kind = {"device": device, "dtype": dtype}
        units = self.num_units
        if self.fan_in > 1:
            self.delta = nn.Parameter(torch.empty(units, self.fan_in - 1, **kind))  # type: ignore[arg-type]
        else:
            self.register_parameter("delta", None)
            self.register_buffer("sign", torch.empty(units, **kind))  # type: ignore[arg-type]
        self.scale = nn.Parameter(torch.empty(units, **kind))  # type: ignore[arg-type]
        if bias:
            self.offset = nn.Parameter(torch.empty(units, **kind))  # type: ignore[arg-type]
        else:
            self.register_parameter("offset", None)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws directions by ``init``; offsets start at 0."""
        shape = (self.num_units, self.fan_in)
        w = torch.empty(shape, device=self.scale.device, dtype=torch.float32)
        if self.init == "sphere":
            self._point_along(w.normal_())
            self.scale.fill_(1)
        else:
            w.uniform_(-1, 1).mul_(sqrt(6 / (self.fan_in + self.num_units)))
            # The authors' inverse loses the sign of the last coordinate, so theirs starts on a half-sphere; in one
            # dimension they have no use for it.
            if self.fan_in > 1:
                w[:, -1].abs_()
            self.scale.copy_(self._point_along(w))
        if self.offset is not None:
            self.offset.zero_()

    def _point_along(self, w: Tensor) -> Tensor:
        """Sets the directions to those of the rows of ``w``; returns the rows' lengths."""
        if self.delta is None:
            self.sign.copy_(torch.where(w[:, 0] < 0, -1.0, 1.0))
            return w[:, 0].abs()
        delta, length = angles_of(w)
        self.delta.copy_(delta)
        return length

    def _take(self, plain: Plain) -> None:
        w = plain.weight.flatten(1)
        length = self._point_along(w)
        b = torch.zeros_like(length) if plain.bias is None else plain.bias
        far = (b / torch.where(length > 0, length, 1)).isinf()
        unreachable = [] if far.is_meta else (((length == 0) & (b > 0)) | far).nonzero().flatten().tolist()
        if unreachable:
            raise ValueError(
                f"{type(self).__name__} cannot represent unit {unreachable[0]}: its weights are zero, or next to it, and "
                f"its bias is {b[unreachable[0]].item():g}: a hyperplane infinitely far away. Keep that layer as it is, or "
                f"remove the unit ({len(unreachable)} such units: {unreachable[:8]})."
            )
        self.scale.copy_(length)
        if self.offset is not None:
            self.offset.copy_(torch.where(length > 0, b / torch.where(length > 0, length, 1), 0))

    def departure(self, plain: Plain) -> str:
        if self.activation == "relu":
            return "the ReLU that follows is part of the layer"
        if plain.weight.is_meta or plain.bias is None:
            return ""
        lost = ((plain.weight.flatten(1) == 0).all(1) & (plain.bias < 0)).nonzero().flatten().tolist()
        return f"units {lost[:8]}, whose weights are zero, lose a negative bias: the same after a ReLU" if lost else ""

    @property
    def angles(self) -> Tensor:
        r""":math:`\theta` of every unit, ``(units, fan_in - 1)``; the last one counts modulo :math:`2\pi`."""
        if self.delta is None:
            return self.sign.new_empty(self.num_units, 0)
        return self.delta + pi / 2

    def direction(self) -> Tensor:
        """Unit vectors the units face, ``(units, fan_in)``."""
        return self.sign.unsqueeze(1) if self.delta is None else direction(self.delta)

    @property
    def weight(self) -> Tensor:
        """Weight of the plain layer with the same map: scale times direction."""
        return self._weight_and_bias()[0]

    def _weight_and_bias(self, *, scaled: bool = True, channels_last: bool = False) -> tuple[Tensor, Tensor | None]:
        """Those of the plain layer with the same map; without the scale if it is not ``scaled``."""
        if self.delta is None:
            weight, bias = (self.scale * self.sign, self.bias) if scaled else (self.sign, self.offset)
            return weight.view(self._weight_shape), bias
        scale = self.scale if scaled else None
        return weight_and_bias(self.delta, scale, self.offset, self._weight_shape, channels_last=channels_last)

    @property
    def bias(self) -> Tensor | None:
        """Bias of the plain layer with the same map: scale times offset."""
        return None if self.offset is None else self.scale * self.offset

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        # A convolution of images in channels_last order wants its weight so, and would copy it.
        is_image = len(self._weight_shape) == 4 and not dispatch.is_vmapped(input)
        last = is_image and input.is_contiguous(memory_format=torch.channels_last)
        if self.activation is None:
            return self._map(input, *self._weight_and_bias(channels_last=last))
        z = self._map(input, *self._weight_and_bias(scaled=False, channels_last=last))
        channel_last = self._plain is nn.Linear
        scale = self.scale.to(z.dtype)
        return F.relu(z) * (scale if channel_last else scale.view(-1, *[1] * (len(self._weight_shape) - 2)))

    def to_standard(self) -> nn.Module:
        """Plain torch modules that compute the same function: one layer, followed by what ``activation`` adds."""
        plain = self._plain_with(self.weight, self.bias)
        if self.activation is None:
            return plain
        if (self.scale >= 0).all():
            return nn.Sequential(plain, nn.ReLU()).train(self.training)
        # r relu(z) with r < 0 is not a ReLU unit: take the sign out and put it back behind the ReLU.
        sign = torch.where(self.scale.detach() < 0, -1.0, 1.0).to(plain.weight.dtype)
        spread = sign.view(-1, *[1] * (plain.weight.dim() - 1))
        with torch.no_grad():
            plain.weight.mul_(spread)
            if plain.bias is not None:
                plain.bias.mul_(sign)
        kind = {"bias": False, "device": plain.weight.device, "dtype": plain.weight.dtype}
        units = self.num_units
        back: nn.Module
        if isinstance(plain, nn.Linear):
            back = nn.Linear(units, units, **kind)  # type: ignore[arg-type]
            back.weight = nn.Parameter(sign.diag())
        else:
            back = type(plain)(units, units, 1, groups=units, **kind)  # type: ignore[arg-type]
            back.weight = nn.Parameter(spread.clone())
        return nn.Sequential(plain, nn.ReLU(), back).train(self.training)

    def extra_repr(self) -> str:
        options = "" if self.activation is None else f", activation={self.activation!r}"
        return super().extra_repr() + options + ("" if self.init == "sphere" else f", init={self.init!r}")


class GeometricLinear(_Geometric, LinearShape):
    r"""Units placed by direction, offset and scale.

    .. math:: y_i = r_i \,(u(\theta_i)^\top x + \lambda_i), \qquad \|u(\theta_i)\| = 1

    Unit :math:`i` switches on the hyperplane with normal :math:`u(\theta_i)` at distance :math:`|\lambda_i|` from the
    origin, so a step in ``offset`` moves the hinge and nothing else, and a step in ``scale`` does not move it at all.
    Trained by gradient steps on ``delta`` (:math:`\theta - \pi/2`), ``offset`` (:math:`\lambda`), ``scale`` (:math:`r`).

    Args:
        in_features: Size of :math:`x`; when it is 1 the direction is a fixed sign.
        out_features: Number of units.
        bias: ``False`` fixes :math:`\lambda = 0`.
        activation: ``None`` leaves the activation to the network. ``"relu"`` computes the paper's
            :math:`r_i \,\mathrm{relu}(u^\top x + \lambda)`, which for :math:`r_i > 0` is the same as a ReLU that follows,
            and costs one more copy of the output.
        init: ``"sphere"`` draws directions uniformly on the sphere with :math:`r = 1`; ``"published"`` is the authors'
            code: weights uniform in the Glorot cube, :math:`r = \|w\|`, last coordinate not negative (of two or more).

    Shape:
        ``(..., in_features)`` to ``(..., out_features)``.

    Law:
        The hinge of a unit does not depend on its scale, and a step of length e in the angles turns the direction by at
        most e (tests/laws/test_hinge.py).

    Reference:
        Chen & Ge, Neural Characteristic Activation Analysis and Geometric Parameterization for ReLU Networks,
        NeurIPS 2024, arXiv:2305.15912, Eq. 10 and Section 4.

    Conversion:
        ``from_standard`` and ``to_standard`` are exact. One kind of unit is not: zero weights and a negative bias become
        scale 0, whose output is 0 as it is after a ReLU, but not after other activations; with a positive bias it is
        refused.

    Departs:
        The last angle is signed, so that every direction can be reached and converted; the authors' inverse loses the
        sign of the last coordinate. Starts as the paper says (uniform directions, r = 1), not as its code does; that is
        ``init="published"``. Stores :math:`\theta - \pi/2`, which low precision resolves.
    """


class GeometricConv1d(_Geometric, Conv1dShape):
    """``nn.Conv1d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""


class GeometricConv2d(_Geometric, Conv2dShape):
    """``nn.Conv2d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""


class GeometricConv3d(_Geometric, Conv3dShape):
    """``nn.Conv3d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""
