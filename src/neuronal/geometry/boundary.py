"""Where units switch: the hyperplanes of a layer, and how far an input is from the nearest bend of the network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.geometry.affine import region_of
from neuronal.geometry.lowering import lower
from neuronal.geometry.pattern import Bend, bends_of
from neuronal.geometry.program import Kink, Maximum, Program, Step, bent
from neuronal.nn.geometric import GeometricLayer
from neuronal.nn.implicit_bias import ImplicitBiasLayer
from neuronal.ops.hinge import Hinge, hinge

# Directions that go through the network together, in bytes of what is alive of them.
PART = 2**23
DUAL = {1.0: torch.inf, 2.0: 2.0, torch.inf: 1.0}


def boundaries(model: nn.Module, layer: str | nn.Module) -> Hinge:
    """The characteristic activation sets of a layer: for each unit the hyperplane on which its pre-activation is zero.

    They lie in the space of the layer's own inputs, which for a first layer is that of the network's; a convolution's are
    those of one window, in torch's order. What stands between the layer and its ReLU, a batch norm for example, is not
    looked at: fold it first (``neuronal.fold_batch_norm``).

    Args:
        layer: The layer, or its path in ``model``.

    Returns:
        Normals, offsets and locations, as :class:`neuronal.ops.hinge.Hinge`.
    """
    module = model.get_submodule(layer) if isinstance(layer, str) else layer
    weight = getattr(module, "weight", None)
    if isinstance(module, ImplicitBiasLayer) or not isinstance(weight, Tensor) or weight.dim() < 2:
        raise ValueError(
            "boundaries needs a Linear or convolution, plain or zero-bias, geometric or Farkas (not grouped), "
            f"got {type(module).__name__}."
        )
    with torch.no_grad():
        if isinstance(module, GeometricLayer) and module.activation is not None:
            return hinge(module.direction(), module.offset)
        return hinge(weight, module.bias)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class BoundaryDistances:
    """How far inputs are from the nearest bend; within it the network is affine.

    Attributes:
        distance: For each input, in the norm asked for; infinite where nothing bends.
        bend: Which of ``bends`` is nearest; -1 where none is.
        unit: Which of its comparisons, in the order of the flattened shape.
        bends: The places in the network that bend.
    """

    distance: Tensor
    bend: Tensor
    unit: Tensor
    bends: tuple[Bend, ...]


def boundary_distances(model: nn.Module, x: Tensor, *, norm: float = 2.0) -> BoundaryDistances:
    r"""Distance of each row of ``x`` to the boundary of its linear region, in float64.

    .. math:: \min_j |z_j| / \|\nabla z_j\|_q

    over all units and pool comparisons :math:`z_j`, with :math:`q` dual to the norm. It is the radius of the largest
    ball around the input in which no bend lies.

    Each row costs a forward pass for every number of the input, all units at once; backwards it would be a pass for
    every unit. What is held at a time is bounded.

    Args:
        norm: That of distances between inputs: 1, 2 or ``math.inf``.
    """
    if norm not in DUAL:
        raise ValueError(f"norm needs to be 1, 2 or inf, got {norm}.")
    program = lower(model, x)
    bends = bends_of(program)
    rows = x.detach().to(program.device, torch.float64)
    with torch.no_grad():
        found = [_nearest(program, row.unsqueeze(0), DUAL[norm]) for row in rows]
    distance, bend, unit = zip(*found, strict=True) if found else ((), (), ())
    return BoundaryDistances(torch.tensor(distance, dtype=torch.float64), torch.tensor(bend), torch.tensor(unit), bends)


def _nearest(program: Program, x: Tensor, q: float) -> tuple[float, int, int]:
    """Distance, bend and unit for one input."""
    values: list[Tensor] = []

    def remember(step: Step, inputs: list[Tensor]) -> None:
        if isinstance(step.op, Kink | Maximum):
            values.append(bent(step.op, *inputs).abs().flatten())

    program(x, remember)
    best = (math.inf, -1, -1)
    for number, (value, gradient) in enumerate(zip(values, _gradients(program, x, q), strict=True)):
        # A unit that is constant in the region never switches there.
        distance = torch.where(gradient > 0, value / gradient, torch.inf)
        nearest, unit = distance.min(0)
        if nearest < best[0]:
            best = (nearest.item(), number, int(unit))
    return best


def _gradients(program: Program, x: Tensor, q: float) -> list[Tensor]:
    """The q-norm of every unit's gradient at ``x``, for each bend in order: directions of the input, part by part."""
    region, size = region_of(program, x), math.prod(program.shape)
    part = max(1, PART // (8 * program.width()))
    sums: list[Tensor] = []
    for start in range(0, size, part):
        directions = torch.zeros(min(part, size - start), size, dtype=x.dtype, device=x.device)
        directions[:, start : start + part].fill_diagonal_(1)
        bends: list[Tensor] = []
        region.linear(directions.view(-1, *program.shape), bends.append)
        norms = [torch.linalg.vector_norm(z.flatten(1), q, dim=0) for z in bends]
        together = zip(sums, norms, strict=True) if start else ((norm,) for norm in norms)
        sums = [torch.linalg.vector_norm(torch.stack(parts), q, dim=0) for parts in together]
    return sums
