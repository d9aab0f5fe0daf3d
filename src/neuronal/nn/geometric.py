"""The geometric parameterisation: a unit's direction, offset and scale are parameters of their own."""

from __future__ import annotations

from math import pi, sqrt
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.nn.computed import ComputedMap
from neuronal.nn.graph import one_node
from neuronal.nn.standard import Conv1dShape, Conv2dShape, Conv3dShape, Device, Dtype, LinearShape, Plain
from neuronal.ops import dispatch
from neuronal.ops.sphere import angles_of, direction, weight_and_bias

Init = Literal["sphere", "published"]


class GeometricLayer(ComputedMap):
    """Base class of the four layers, for ``isinstance``; see :class:`GeometricLinear`."""

    decayed: ClassVar[tuple[str, ...]] = ("scale",)
    undecayable: ClassVar[tuple[str, ...]] = ("delta",)
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
            self._put(self._towards(w.normal_()))
            self.scale.fill_(1)
        else:
            w.uniform_(-1, 1).mul_(sqrt(6 / max(1, self.fan_in + self.num_units)))
            # The authors' inverse loses the sign of the last coordinate, so theirs starts on a half-sphere; in one
            # dimension they have no use for it.
            if self.fan_in > 1:
                w[:, -1].abs_()
            self._put(self._towards(w))
        if self.offset is not None:
            self.offset.zero_()

    def _towards(self, w: Tensor) -> dict[str, Tensor]:
        """Directions and lengths of the rows of ``w``, by the names of their parameters."""
        if self.delta is None:
            # Without any input there is no length, and the offset is the bias.
            length = w[:, 0].abs() if self.fan_in else w.new_ones(len(w))
            return {"sign": 1 - 2 * (w[:, :1] < 0).any(1).to(w.dtype), "scale": length}
        delta, length = angles_of(w)
        return {"delta": delta, "scale": length}

    def _take(self, plain: Plain) -> None:
        # A unit without weights and with a negative bias loses it, which `departure` tells.
        bias = plain.bias
        if bias is not None:
            bias = torch.where((plain.weight.flatten(1) == 0).all(1) & bool(self.fan_in), bias.clamp_min(0), bias)
        self._put(self._parameters_of(plain.weight, bias))

    def _parameters_of(self, weight: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        assert weight is not None
        found = self._towards(weight.detach().flatten(1))
        if self.offset is not None:
            b = torch.zeros_like(found["scale"]) if bias is None else bias.detach()
            found["offset"] = self._offset(b, found["scale"])
        return found

    def _offset(self, bias: Tensor, scale: Tensor) -> Tensor:
        """What ``scale`` makes ``bias`` of."""
        offset = bias / torch.where(scale != 0, scale, 1)
        # A bias that is not finite is no bias yet: memory that nothing was written to.
        far = (((scale == 0) & (bias != 0)) | offset.isinf()) & bias.isfinite()
        unreachable = [] if far.is_meta else far.nonzero().flatten().tolist()
        if unreachable:
            raise ValueError(
                f"{type(self).__name__} cannot represent unit {unreachable[0]}: its weights are zero, or next to it, and "
                f"its bias is {bias[unreachable[0]].item():g}: a hyperplane infinitely far away. Keep that layer as it is, "
                f"its bias at zero, or remove the unit ({len(unreachable)} such units: {unreachable[:8]})."
            )
        return torch.where(scale != 0, offset, 0)

    def _write(self, name: str, values: Tensor) -> None:
        """Units whose weight or bias stays as it is keep their parameters bit for bit; weights of 0 keep a direction."""
        per_unit = (-1, *[1] * (len(self._weight_shape) - 1))
        bias = self._bias()
        if bias is not None and name == "bias":
            changed = values.ne(bias)
            found = {"offset": self._offset(torch.where(changed, values, 0), self.scale)}
        else:
            changed = values.ne(self._weight()).flatten(1).any(1)
            # The ReLU within the layer is multiplied by the scale, whose sign the weight does not tell: it stays.
            sign = torch.where((self.scale < 0) & (self.activation == "relu"), -1, 1).to(values.dtype)
            bias = None if bias is None else torch.where(changed, bias * sign, 0)
            found = self._parameters_of(values * sign.view(per_unit), bias)
            found["scale"] = found["scale"] * sign
        for own, value in found.items():
            takes = changed & (found["scale"] != 0) if own == "delta" else changed
            found[own] = torch.where(takes.unsqueeze(1) if value.dim() > 1 else takes, value, getattr(self, own))
        self._put(found)

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
        return self.sign.unsqueeze(1)[:, : self.fan_in] if self.delta is None else direction(self.delta)

    def _weight(self) -> Tensor:
        return self._weight_and_bias()[0]

    def _bias(self) -> Tensor | None:
        return None if self.offset is None else self.scale * self.offset

    def _weight_and_bias(self, *, scaled: bool = True, channels_last: bool = False) -> tuple[Tensor, Tensor | None]:
        """Those of the plain layer with the same map; without the scale if it is not ``scaled``."""
        if self.delta is None:
            weight, bias = (self.scale * self.sign, self._bias()) if scaled else (self.sign, self.offset)
            return self._ordered(weight.unsqueeze(1)[:, : self.fan_in].reshape(self._weight_shape)), bias
        scale, last = (
            self.scale if scaled else None,
            channels_last or (self._channels_last and len(self._weight_shape) == 4),
        )
        weight, bias = weight_and_bias(self.delta, scale, self.offset, self._weight_shape, channels_last=last)
        return self._ordered(weight), bias

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


class GeometricLinear(GeometricLayer, LinearShape):
    r"""Units placed by direction, offset and scale.

    .. math:: y_i = r_i \,(u(\theta_i)^\top x + \lambda_i), \qquad \|u(\theta_i)\| = 1

    Unit :math:`i` switches on the hyperplane with normal :math:`u(\theta_i)` at distance :math:`|\lambda_i|` from the
    origin, so a step in ``offset`` moves the hinge and nothing else, and a step in ``scale`` does not move it at all.
    Trained by gradient steps on ``delta`` (:math:`\theta - \pi/2`), ``offset`` (:math:`\lambda`), ``scale`` (:math:`r`).

    ``weight`` and ``bias`` are those of the plain layer with the same map. What is written to them, in place (``nn.init``,
    ``.data``, ``copy_``), by assignment or from the state of a plain layer, the layer takes; a bias of a unit whose weights
    are zero is refused. A weight of zero keeps its direction, with scale 0.

    Weight decay is for ``scale``. An angle that decays turns its unit towards the last coordinate axis, and all units with
    it, so ``delta`` has to be spared: training plans do so, :func:`neuronal.nn.decay_groups`, and timm's optimisers, which
    ask the model for ``no_weight_decay()``. Code that decays every parameter of two
    dimensions (nanoGPT's, say) finds ``delta`` among them, and ``model.parameters()`` with a decay is no better; nothing in
    the layer can prevent it.

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


class GeometricConv1d(GeometricLayer, Conv1dShape):
    """``nn.Conv1d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""


class GeometricConv2d(GeometricLayer, Conv2dShape):
    """``nn.Conv2d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""


class GeometricConv3d(GeometricLayer, Conv3dShape):
    """``nn.Conv3d`` with the units of :class:`GeometricLinear`; the direction is that of a whole filter."""
