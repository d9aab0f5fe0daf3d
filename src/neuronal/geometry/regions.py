"""The linear regions of a network on the plane through three inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from neuronal.geometry.lowering import as_batch, lower
from neuronal.geometry.program import Kink, Maximum, Program, bent, evaluate, held

Polygon = NDArray[np.float64]
Domain = Literal["triangle", "parallelogram"]
DOMAINS: dict[Domain, list[list[float]]] = {
    "triangle": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "parallelogram": [[1, 0, 0], [0, 1, 0], [-1, 1, 1], [0, 0, 1]],
}
# A corner is on a line when it is nearer than this share of the numbers it is computed from.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ClassRegion:
    """A polygon on which one class is predicted, barycentric corners in order; and the linear region it is part of."""

    corners: Polygon
    predicted: int
    region: int


@dataclass(frozen=True, eq=False)
class Regions:
    r"""Polygons that tile a plane, with an affine map of the outputs on each.

    A point of the plane is :math:`\lambda_1 p + \lambda_2 q + \lambda_3 r` with numbers that add up to 1.

    Attributes:
        polygons: The regions; corners in order, one row of :math:`(\lambda_1, \lambda_2, \lambda_3)` each.
        outputs: For each region its map's values at ``p``, ``q`` and ``r`` (which need not lie in it):
            ``(regions, 3, *output shape)``. In between they add up with the same :math:`\lambda`.
    """

    polygons: tuple[Polygon, ...]
    outputs: Tensor

    @property
    def count(self) -> int:
        return len(self.polygons)

    def areas(self) -> NDArray[np.float64]:
        r"""Areas in the coordinates :math:`(\lambda_2, \lambda_3)`: the triangle has 1/2, the parallelogram 1."""
        return np.array([area(polygon) for polygon in self.polygons])

    def at(self, region: int, places: NDArray[np.float64]) -> Tensor:
        """Outputs at places ``(points, 3)`` of a region."""
        values: Tensor = torch.tensordot(torch.from_numpy(places).to(self.outputs), self.outputs[region], 1)
        return values

    def decision_boundary(self) -> list[Polygon]:
        """Line segments, two barycentric ends each, on which the two largest outputs are equal."""
        lines = []
        for part in self.classes():
            outputs = self.outputs[part.region].cpu().numpy()
            ends = np.roll(part.corners, -1, axis=0)
            middle = (part.corners + ends) / 2 @ outputs
            gap = middle[:, [part.predicted]] - middle
            # Counted from the lower of the two classes, or every line would be there twice.
            gap[:, : part.predicted + 1] = np.inf
            on_line = gap.min(1) <= 10 * ROUNDING * np.abs(outputs).max()
            lines += list(np.stack([part.corners, ends], 1)[on_line])
        return lines

    def classes(self) -> tuple[ClassRegion, ...]:
        """The regions cut where the predicted class changes; neighbours of one class are not joined.

        Between equal outputs the lower class is predicted.
        """
        found = []
        for number, (polygon, outputs) in enumerate(zip(self.polygons, self.outputs.cpu().numpy(), strict=True)):
            leads = (polygon @ outputs).argmax(1)
            if (leads == leads[0]).all():
                found.append(ClassRegion(polygon, int(leads[0]), number))
                continue
            parts = ((_where_largest(polygon, outputs, c), c) for c in range(outputs.shape[1]))
            found += [ClassRegion(part, c, number) for part, c in parts if part is not None]
        return tuple(found)


def area(polygon: Polygon) -> float:
    """Shoelace formula in the last two barycentric coordinates."""
    x, y = polygon[:, 1] - polygon[0, 1], polygon[:, 2] - polygon[0, 2]
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def regions_2d(
    model: nn.Module, p: Tensor, q: Tensor, r: Tensor, *, domain: Domain = "triangle", limit: int = 200_000
) -> Regions:
    """The linear regions of ``model`` on the triangle of three inputs, or on the parallelogram they span.

    Args:
        p: One input, with or without a batch dimension of 1 in front.
        domain: ``"triangle"``, or ``"parallelogram"`` with the fourth corner ``q + r - p``.
        limit: An error when there are more regions than this; time and memory grow with their number.

    Law:
        The areas add up to that of the domain, and the network equals the map of the region it is in
        (tests/geometry/test_regions.py).

    Reference:
        Sotoudeh & Thakur, arXiv:1908.06214, extend the line to planes in SyReNN (arXiv:2101.03263).
    """
    if domain not in DOMAINS:
        raise ValueError(f"domain needs to be one of {', '.join(DOMAINS)}, got {domain!r}.")
    if not p.shape == q.shape == r.shape:
        raise ValueError(f"The three inputs need one shape, got {[tuple(x.shape) for x in (p, q, r)]}.")
    p, q, r = (as_batch(model, x) for x in (p, q, r))
    program = lower(model, p)
    corners = torch.cat([p, q, r]).detach().to(program.device, torch.float64)
    with torch.no_grad():
        return _Plane(program, limit).run(np.array(DOMAINS[domain], dtype=np.float64), corners)


class _Plane:
    """Takes polygons through the network; where it bends inside one, the polygon is cut.

    The values of a polygon are those its affine map takes at the three inputs, so steps need no rule for planes: they
    are evaluated at three points for each polygon.
    """

    def __init__(self, program: Program, limit: int):
        self.program, self.limit = program, limit

    def run(self, domain: Polygon, corners: Tensor) -> Regions:
        polygons, live = [domain], {0: corners}
        for step in self.program.steps:
            inputs = [live[i] for i in step.inputs]
            if isinstance(step.op, Kink | Maximum):
                z = bent(step.op, *inputs).flatten(1).unflatten(0, (-1, 3)).cpu().numpy()
                polygons, parents = self._cut_all(polygons, z)
                triple = torch.from_numpy(parents[:, None] * 3 + np.arange(3)).flatten().to(corners.device)
                live = {k: value[triple] for k, value in live.items()} if len(parents) > len(z) else live
                inputs = [live[i] for i in step.inputs]
                sign = _signs(polygons, z, parents).to(corners.device).repeat_interleave(3, 0)
                live[step.output] = held(step.op, sign.view(-1, *inputs[0].shape[1:]), *inputs)
            else:
                live[step.output] = evaluate(step.op, *inputs)
            for i in step.frees:
                del live[i]
        return Regions(tuple(polygons), live[self.program.output].unflatten(0, (-1, 3)))

    def _cut_all(self, polygons: list[Polygon], z: NDArray[np.float64]) -> tuple[list[Polygon], NDArray[np.int64]]:
        """All polygons cut along the units that change sign in them; and which polygon each piece is of."""
        pieces: list[Polygon] = []
        parents: list[int] = []
        for number, polygon in enumerate(polygons):
            before = len(pieces)
            pieces += _cut(polygon, z[number])
            parents += [number] * (len(pieces) - before)
            if len(pieces) > self.limit:
                raise ValueError(
                    f"More than limit={self.limit} regions. Choose inputs that are nearer together, or raise the limit."
                )
        return pieces, np.array(parents)


def _signs(polygons: list[Polygon], z: NDArray[np.float64], parents: NDArray[np.int64]) -> Tensor:
    """Which side of every unit each polygon is on: that of the mean of its corners."""
    middles = np.stack([polygon.mean(0) for polygon in polygons])
    signs = np.empty((len(polygons), z.shape[2]), dtype=bool)
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(parents)], strict=True):
        signs[start:stop] = middles[start:stop] @ z[parents[start]] > 0
    return torch.from_numpy(signs)


def _cut(polygon: Polygon, z: NDArray[np.float64]) -> list[Polygon]:
    """A polygon cut along the lines on which the columns of ``z`` (values at the three inputs) are zero."""
    values = polygon @ z
    tolerance = ROUNDING * np.abs(z).max(0)
    corners, sizes = polygon, np.array([len(polygon)])  # of all pieces, one after the other
    for column in np.flatnonzero((values.min(0) < -tolerance) & (values.max(0) > tolerance)):
        side = _rounded(corners @ z[:, column], tolerance[column])
        starts = np.cumsum(sizes) - sizes
        crossed = (np.minimum.reduceat(side, starts) < 0) & (np.maximum.reduceat(side, starts) > 0)
        parts = [slice(start, start + size) for start, size in zip(starts[crossed], sizes[crossed], strict=True)]
        halves = [half for part in parts for half in _halves(corners[part], side[part])]
        corners = np.concatenate([corners[np.repeat(~crossed, sizes)], *halves])
        sizes = np.concatenate([sizes[~crossed], np.array([len(half) for half in halves], dtype=np.int64)])
    return np.split(corners, np.cumsum(sizes)[:-1])


def _rounded(values: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    return np.where(np.abs(values) <= tolerance, 0.0, values)


def _halves(polygon: Polygon, side: NDArray[np.float64]) -> tuple[Polygon, Polygon]:
    """The parts of a convex polygon where ``side``, given at its corners, is positive and negative."""
    above: list[Polygon] = []
    below: list[Polygon] = []
    for i, value in enumerate(side):
        if value >= 0:
            above.append(polygon[i])
        if value <= 0:
            below.append(polygon[i])
        after = (i + 1) % len(side)
        if (value < 0 < side[after]) or (value > 0 > side[after]):
            corner = polygon[i] + value / (value - side[after]) * (polygon[after] - polygon[i])
            above.append(corner)
            below.append(corner)
    return np.array(above), np.array(below)


def _where_largest(polygon: Polygon, outputs: NDArray[np.float64], predicted: int) -> Polygon | None:
    """The part of a polygon on which a class has the largest output; None where there is no such part."""
    for other in range(outputs.shape[1]):
        if other == predicted:
            continue
        z = outputs[:, predicted] - outputs[:, other]
        side = _rounded(polygon @ z, ROUNDING * np.abs(outputs).max())
        if side.max() < 0 or (side.max() == 0 and (side.min() < 0 or other < predicted)):
            return None
        if side.min() < 0:
            polygon, _ = _halves(polygon, side)
    return polygon
