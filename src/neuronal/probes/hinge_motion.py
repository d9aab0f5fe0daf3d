"""How far units' boundaries move and turn, step by step, while a network is trained."""

from __future__ import annotations

from collections.abc import Mapping
from math import degrees
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn.norm import InputMeanNorm
from neuronal.nn.standard import StandIn
from neuronal.ops.hinge import Hinge

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
STEPS, PLACES = 400, 40
"""So many numbers a series of steps is told in, and so many snapshots of where the units are."""


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
        self._around = dict(list(_layers(model).items())[:-1])
        if not self._around:
            raise ValueError("hinge_motion needs a network with a hidden layer, got none.")
        self._before: dict[str, Hinge] = {}
        self._steps: list[list[Tensor]] = []
        self._told = 0
        self._is_new = True
        self._every, self._places = 1, list[tuple[int, Tensor]]()
        self._units: dict[str, tuple[Tensor, Tensor]] = {}
        first = next(iter(self._around.values()))["layer"]
        self._hook = first.register_forward_pre_hook(self._seen)

    def __call__(self, model: nn.Module, step: int) -> Mapping[str, float]:
        self._look()
        # What the next forward pass sees has been looked at.
        self._is_new = False
        fresh, self._told = self._steps[self._told :], len(self._steps)
        if not fresh:
            return {}
        angle, distance = _series(fresh).amax(0).tolist()
        return {"hinge_angle": degrees(angle), "hinge_distance": distance}

    def units(self, layer: str) -> tuple[Tensor, Tensor]:
        """Of every unit of a layer, angle (radians) and distance of the last step."""
        chord, square = self._units[layer]
        return _angle(chord), square.sqrt()

    def close(self) -> dict[str, Any]:
        """Ends watching: the largest angle (degrees) and distance, both as series of steps, and where the units went.

        A series longer than ``STEPS`` is told by the largest of every so many steps (``every``). ``places`` are those of
        the first layer, step number and locations, if its inputs are of one or two dimensions.
        """
        self._hook.remove()
        if not self._steps:
            return {"steps": 0}
        series = _series(self._steps)
        every = -(-len(series) // STEPS)
        told = torch.stack([part.amax(0) for part in series.split(every)])
        return {
            "steps": len(series),
            "every": every,
            "angle": [float(f"{degrees(value):.5g}") for value in told[:, 0].tolist()],
            "distance": [float(f"{value:.5g}") for value in told[:, 1].tolist()],
            "largest_angle": degrees(series[:, 0].max().item()),
            "largest_distance": series[:, 1].max().item(),
            "places": [[at, [[float(f"{v:.4g}") for v in one] for one in p.tolist()]] for at, p in self._places],
        }

    def _seen(self, layer: nn.Module, inputs: object) -> None:
        if layer.training:
            if self._is_new:
                self._look()
            self._is_new = True

    @torch.no_grad()
    def _look(self) -> None:
        # As little as there can be between two steps: what is left is done when somebody asks.
        found: list[Tensor] = []
        for name, parts in self._around.items():
            now = _hinge(**parts)
            if name in self._before:
                self._units[name] = chord, square = _chord_and_square(self._before[name], now)
                found += [chord.amax(), square.amax()]
            self._before[name] = now
        if found:
            self._steps.append(found)
        self._keep_place()

    def _keep_place(self) -> None:
        """Every so many steps; when there are too many, every other is dropped."""
        first = next(iter(self._before.values()))
        step = len(self._steps)
        if first.normal.shape[1] > 2 or step % self._every:
            return
        self._places.append((step, first.location.detach().cpu().nan_to_num(0.0, 0.0, 0.0)))
        if len(self._places) > PLACES:
            self._every *= 2
            self._places = [(at, place) for at, place in self._places if at % self._every == 0]


def _series(steps: list[list[Tensor]]) -> Tensor:
    """Step by step the largest angle and distance over all layers: ``(steps, 2)``."""
    chords, squares = (torch.stack([torch.stack(step[i::2]).amax() for step in steps]) for i in (0, 1))
    # A unit without a boundary does not move.
    return torch.stack([_angle(chords), squares.sqrt()], 1).nan_to_num(0.0, 0.0).double().cpu()


def _layers(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Layers with a weight in the order they are made, with the norm before and behind each."""
    found: dict[str, dict[str, Any]] = {}
    before: nn.Module | None = None
    for name, module in model.named_modules():
        if any(module.children()) and not isinstance(module, (*_PLAIN, StandIn)):
            continue
        if "parametrizations" in name:
            continue
        if isinstance(module, (*_PLAIN, StandIn)):
            centre = before if type(before) is InputMeanNorm else None
            found[name] = {"layer": module, "centre": centre, "norm": None}
        elif (
            found and isinstance(module, (*_BATCH_NORMS, InputMeanNorm)) and before is list(found.values())[-1]["layer"]
        ):
            list(found.values())[-1]["norm"] = module if type(module) is not InputMeanNorm else None
        before = module
    return found


def _hinge(layer: Any, centre: Any, norm: Any) -> Hinge:
    """The boundary of what stands between the layer's input and its activation."""
    if getattr(layer, "activation", None) == "relu":
        # Behind the ReLU a scale, of whatever sign, has nothing to do with the boundary.
        weight, bias = layer.direction(), layer.offset
    else:
        weight, bias = layer.weight.flatten(1), layer.bias
    if centre is not None and len(centre.running_mean) == weight.shape[1]:
        bias = (0.0 if bias is None else bias) - weight @ centre.running_mean
    if isinstance(norm, _BATCH_NORMS) and norm.running_var is not None and norm.running_mean is not None:
        factor = (norm.running_var + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight)
        bias = factor * ((0.0 if bias is None else bias) - norm.running_mean) + (
            0.0 if norm.bias is None else norm.bias
        )
        weight = factor.unsqueeze(1) * weight
    elif isinstance(norm, InputMeanNorm):
        own = getattr(norm, "bias", None)
        bias = (0.0 if bias is None else bias) - norm.running_mean + (0.0 if own is None else own)
    length = torch.linalg.vector_norm(weight, dim=1)
    offset = torch.zeros_like(length) if bias is None else torch.as_tensor(bias) / length
    return Hinge(weight / length.unsqueeze(1), offset)
