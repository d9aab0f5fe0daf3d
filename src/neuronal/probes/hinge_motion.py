"""How far units' boundaries move and turn, step by step, while a network is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import degrees, prod
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn.geometric import GeometricLayer
from neuronal.nn.norm import InputMeanNorm
from neuronal.nn.standard import StandIn
from neuronal.ops.hinge import Hinge
from neuronal.ops.sphere import direction

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
STEPS, PLACES = 400, 40
"""So many numbers a series of steps is told in, and so many snapshots of where the units are."""
AT_ONCE = {"cpu": (64, 2**20), "cuda": (64, 2**24)}
"""By device, how many steps are worked out together, and how many numbers they may be."""


def motion(before: Hinge, after: Hinge) -> tuple[Tensor, Tensor]:
    r"""Angle, in radians, and distance by which every unit's normal turned and its location moved.

    .. math:: \|\phi' - \phi\|^2 = (\lambda' - \lambda)^2 + \lambda \lambda' \|u' - u\|^2

    Law:
        Against a plain loop over the units (tests/probes/test_hinge_motion.py).
    """
    chord, square = _chord_and_square(before, after)
    return _angle(chord), square.sqrt()


def _chord_and_square(before: Hinge, after: Hinge) -> tuple[Tensor, Tensor]:
    """Distance of the normals, and the square of that of the locations."""
    chord = torch.linalg.vector_norm(after.normal - before.normal, dim=-1)
    shift = after.offset - before.offset
    # Rounding may leave less than nothing of two terms that cancel.
    return chord, (shift * shift + before.offset * after.offset * chord * chord).clamp_(min=0)


def _angle(chord: Tensor) -> Tensor:
    # By the chord: the cosine of a small angle has none of its digits.
    return 2 * torch.asin((chord / 2).clamp(max=1))


@dataclass(frozen=True)
class Motion:
    """The largest turn (degrees) and shift of any unit in each step, and where units went.

    A series longer than ``STEPS`` is told by the largest of every so many steps (``every``). ``places`` are those of the
    first layer, step number and locations, if its inputs are of one or two dimensions.
    """

    steps: int
    every: int = 1
    angle: tuple[float, ...] = ()
    distance: tuple[float, ...] = ()
    largest_angle: float = 0.0
    largest_distance: float = 0.0
    places: tuple[tuple[int, tuple[tuple[float, ...], ...]], ...] = ()


class HingeMotion:
    """Watches the units of a network from step to step; made before ``fit``, and one of its ``probes``.

    A unit's boundary is the set of inputs of its layer where its pre-activation is zero. A batch norm, or a mean taken
    off, right before or behind the layer, counts with its running numbers, as in evaluation.

    Args:
        model: The network; its last layer, whose outputs are no units, is left out.

    Called after an epoch it returns ``hinge_angle`` (in degrees) and ``hinge_distance``: the largest of any unit in any
    step since the last call. A batch computed in parts counts as so many steps.
    """

    def __init__(self, model: nn.Module) -> None:
        self._watched = _watched(model)[:-1]
        if not self._watched:
            raise ValueError("hinge_motion needs a network with a hidden layer, got none.")
        # See Note [Looking later].
        self._queue: list[list[dict[str, Tensor]]] = []
        self._looks = 0
        self._steps: list[Tensor] = []
        self._told = 0
        self._is_new = True
        self._every, self._places = 1, list[tuple[int, Tensor]]()
        self._units: dict[str, tuple[Tensor, Tensor]] = {}
        self._hook = self._watched[0].layer.register_forward_pre_hook(self._seen)

    def __call__(self, model: nn.Module, step: int) -> Mapping[str, float]:
        self._look()
        # What the next forward pass sees has been looked at.
        self._is_new = False
        self._work_out()
        fresh, self._told = self._steps[self._told :], len(self._steps)
        if not fresh:
            return {}
        angle, distance = _series(fresh).amax(0).tolist()
        return {"hinge_angle": degrees(angle), "hinge_distance": distance}

    def units(self, layer: str) -> tuple[Tensor, Tensor]:
        """Of every unit of a layer, angle (radians) and distance of the last step."""
        self._work_out()
        chord, square = self._units[layer]
        return _angle(chord), square.sqrt()

    def close(self) -> Motion:
        """Ends watching."""
        self._hook.remove()
        self._work_out()
        if not self._steps:
            return Motion(0)
        series = _series(self._steps)
        every = -(-len(series) // STEPS)
        told = torch.stack([part.amax(0) for part in series.split(every)])
        return Motion(
            steps=len(series),
            every=every,
            angle=tuple(float(f"{degrees(value):.5g}") for value in told[:, 0].tolist()),
            distance=tuple(float(f"{value:.5g}") for value in told[:, 1].tolist()),
            largest_angle=degrees(series[:, 0].max().item()),
            largest_distance=series[:, 1].max().item(),
            places=tuple(
                (at, tuple(tuple(float(f"{v:.4g}") for v in one) for one in p.tolist())) for at, p in self._places
            ),
        )

    def _seen(self, layer: nn.Module, inputs: object) -> None:
        if layer.training:
            if self._is_new:
                self._look()
            self._is_new = True

    # Note [Looking later]: a small network's step is a few hundred calls of torch, and where its units are is tens per
    # layer. So a step only copies what decides it, and one round of calls works some steps out together.

    @torch.no_grad()
    def _look(self) -> None:
        self._queue.append([part.values() for part in self._watched])
        values = [value for part in self._queue[-1] for value in part.values()]
        most, numbers = AT_ONCE.get(values[0].device.type, AT_ONCE["cuda"])
        if len(self._queue) >= min(most, numbers // sum(value.numel() for value in values)):
            self._work_out()

    @torch.no_grad()
    def _work_out(self) -> None:
        """What the looks in the queue say."""
        queue, self._queue = self._queue, []
        largest = []
        for number, part in enumerate(self._watched if queue else ()):
            now = part.hinges({name: torch.stack([look[number][name] for look in queue]) for name in queue[0][number]})
            if number == 0:
                self._keep_places(now)
            # The first look of all has none before it.
            ends = [now] if part.last is None else [part.last, now]
            normal, offset = torch.cat([one.normal for one in ends]), torch.cat([one.offset for one in ends])
            part.last = Hinge(normal[-1:], offset[-1:])
            if len(normal) > 1:
                chord, square = _chord_and_square(Hinge(normal[:-1], offset[:-1]), Hinge(normal[1:], offset[1:]))
                # A unit without a boundary does not move.
                self._units[part.name] = chord.nan_to_num_(0.0, 0.0)[-1], square.nan_to_num_(0.0, 0.0)[-1]
                largest += [chord.amax(1), square.amax(1)]
        if largest:
            self._steps.append(torch.stack(largest))
        self._looks += len(queue)

    def _keep_places(self, first: Hinge) -> None:
        """Every so many steps; when there are too many, every other is dropped."""
        if first.normal.shape[-1] > 2:
            return
        for step, place in enumerate(first.location.cpu().nan_to_num(0.0, 0.0, 0.0), self._looks):
            if step % self._every:
                continue
            self._places.append((step, place))
            if len(self._places) > PLACES:
                self._every *= 2
                self._places = [(at, one) for at, one in self._places if at % self._every == 0]


def _series(steps: list[Tensor]) -> Tensor:
    """Step by step the largest angle and distance over all layers: ``(steps, 2)``."""
    every = torch.cat(steps, 1)
    return torch.stack([_angle(every[0::2].amax(0)), every[1::2].amax(0).sqrt()], 1).double().cpu()


@dataclass
class _Watched:
    """A layer with a weight, with the norms right before and behind it that move its boundaries."""

    name: str
    layer: Any
    centre: Any = None
    norm: Any = None
    last: Hinge | None = None
    """Of the last look worked out."""

    def values(self) -> dict[str, Tensor]:
        """Copies of all that decides where the boundaries are."""
        layer, norm = self.layer, self.norm
        if isinstance(layer, GeometricLayer) and layer.delta is not None:
            # Behind the ReLU a scale, of whatever sign, has nothing to do with the boundary.
            scale = None if layer.activation == "relu" else layer.scale
            found = {"delta": layer.delta, "offset": layer.offset, "scale": scale}
        elif getattr(layer, "activation", None) == "relu":
            found = {"weight": layer.direction(), "bias": layer.offset}
        else:
            found = {"weight": layer.weight, "bias": layer.bias}
        if self.centre is not None:
            found["centre"] = self.centre.running_mean
        if norm is not None:
            found |= {"mean": norm.running_mean, "norm_bias": norm.bias}
            if not isinstance(norm, InputMeanNorm):
                found |= {"variance": norm.running_var, "norm_weight": norm.weight}
        return {name: value.clone() for name, value in found.items() if value is not None}

    def hinges(self, parts: Mapping[str, Tensor]) -> Hinge:
        """The boundaries of some looks."""
        weight, offset = self._plane(parts)
        length = torch.linalg.vector_norm(weight, dim=-1)
        return Hinge(weight / length.unsqueeze(-1), offset / length)

    def _plane(self, parts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Weight and bias of what stands between the layer's input and its activation, look by look."""
        if "delta" in parts:
            weight, bias = direction(parts["delta"]), parts.get("offset")
            if "scale" in parts:
                weight, bias = parts["scale"].unsqueeze(-1) * weight, None if bias is None else parts["scale"] * bias
        else:
            weight, bias = parts["weight"].flatten(2), parts.get("bias")
        offset = torch.zeros(()) if bias is None else bias
        if "centre" in parts:
            offset = offset - (weight @ parts["centre"].unsqueeze(-1)).squeeze(-1)
        if "variance" in parts:
            factor = (parts["variance"] + self.norm.eps).rsqrt() * parts.get("norm_weight", 1.0)
            offset = factor * (offset - parts["mean"]) + parts.get("norm_bias", 0.0)
            weight = factor.unsqueeze(-1) * weight
        elif "mean" in parts:
            offset = offset - parts["mean"] + parts.get("norm_bias", 0.0)
        return weight, offset


def _fan_in(layer: Any) -> int:
    return prod(layer.weight.shape[1:])


def _watched(model: nn.Module) -> list[_Watched]:
    """Layers with a weight in the order they are made, with the norm before and behind each."""
    found: list[_Watched] = []
    before: nn.Module | None = None
    for name, module in model.named_modules():
        if any(module.children()) and not isinstance(module, (*_PLAIN, StandIn)):
            continue
        if "parametrizations" in name:
            continue
        if isinstance(module, (*_PLAIN, StandIn)):
            found.append(_Watched(name, module))
            # Of a filter that sees several positions the mean has a part in each, and none outside of the image.
            if type(before) is InputMeanNorm and before.num_features == _fan_in(module):
                found[-1].centre = before
        elif found and before is found[-1].layer and isinstance(module, (*_BATCH_NORMS, InputMeanNorm)):
            # A mean taken off alone belongs to the layer behind it, and without running numbers there is nothing to take.
            takes_part = type(module) is not InputMeanNorm and module.running_mean is not None
            found[-1].norm = module if takes_part else None
        before = module
    return found
