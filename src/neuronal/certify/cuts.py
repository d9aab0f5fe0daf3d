"""Cuts a simplex where the network bends, until bounds prove every part: a search that ends, whatever the simplex.

A bend is a plane through a part as long as the network is affine there up to that step. Cutting the edge between a vertex
on either side where it meets the plane leaves two parts with fewer such edges, so after finitely many cuts no bend runs
through a part, the network is affine on it, and bounds are as good as rounding allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

import torch
from torch import Tensor, nn

from neuronal.certify.bounds import Bounds, Images, plain_arithmetic
from neuronal.certify.branch import Budget, Prover, classes_of, combine
from neuronal.certify.evidence import Cut
from neuronal.geometry.program import Kink, Maximum, Step, bent

DEEPEST = 1000  # cuts one inside the other
ROUNDINGS = 3 * DEEPEST  # each cut rounds a coordinate three times: 1 - t, a product, a sum of what is not negative
# Closer to a vertex, as a share of the edge, or to zero, as a share of the largest value, it is rounding that bends.
NEXT_TO, NOTHING = 1e-9, 1e-13


@dataclass(eq=False)
class Cutting:
    """What came of one part: its cuts, and either a witness, or how many of its nodes are open, and why."""

    cuts: list[Cut] = field(default_factory=list)
    witness: Tensor | None = None
    late: int = 0
    """Nodes there was no time for."""
    stuck: int = 0
    """Nodes without a bend that bounds do not prove: ties, up to rounding."""
    bounds: int = 0

    @property
    def is_proved(self) -> bool:
        return self.witness is None and not self.late and not self.stuck


class Cutter:
    """Proves parts of one simplex, of a class ``label``, by cuts where the network bends.

    Args:
        model: The user's, shown every new vertex.
        prover: Made from its program.
        points: The vertices of the simplex.
        label: The class they have.
        budget: ``memory`` is for the parts that are looked at together.
    """

    def __init__(self, model: nn.Module, prover: Prover, points: Tensor, label: int, budget: Budget):
        self.model, self.prover, self.points, self.label = model, prover, points.unsqueeze(0), label
        self.stage: Bounds = prover.stages_for(points)[-1]
        with plain_arithmetic(points.device):
            self.images: dict[int, Images] = self.stage.images(self.points, roundings=ROUNDINGS)
        self.batch = max(1, min(256, budget.memory // (8 * 8 * len(points) * prover.width)))

    def cut(self, part: Tensor, end: float) -> Cutting:
        """Cuts the part with these barycentric coordinates until all is proved, a witness is seen, or it is ``end``."""
        found = Cutting()
        waiting = [(0, 0, part)]
        with plain_arithmetic(part.device):
            while waiting and found.witness is None:
                if monotonic() > end:
                    found.late = len(waiting)
                    break
                # The last ones first: what waits stays as short as the tree is deep.
                nodes, waiting = waiting[-self.batch :], waiting[: -self.batch]
                waiting += self._halves(self._unproved(nodes, found), found)
        return found

    def _unproved(self, nodes: list[tuple[int, int, Tensor]], found: Cutting) -> list[tuple[int, int, Tensor]]:
        corners = torch.stack([corners for _, _, corners in nodes])
        rows = torch.zeros(len(nodes), dtype=torch.long, device=corners.device)
        lower = self.prover.margins(self.stage, self.images, rows, corners, rows + self.label)
        found.bounds += len(nodes)
        return [node for node, margin in zip(nodes, lower.tolist(), strict=True) if not margin > 0]

    def _halves(self, nodes: list[tuple[int, int, Tensor]], found: Cutting) -> list[tuple[int, int, Tensor]]:
        """Both sides of every node's first bend; the new vertices are shown to the model."""
        if not nodes:
            return []
        corners = torch.stack([corners for _, _, corners in nodes])
        i, j, t = self._bends(corners)
        index = torch.arange(len(nodes), device=corners.device)
        middle = (1 - t).unsqueeze(1) * corners[index, i] + t.unsqueeze(1) * corners[index, j]
        is_cut = (t > 0) & torch.tensor([depth < DEEPEST for _, depth, _ in nodes], device=t.device)
        found.stuck += int((~is_cut).sum())
        self._look(middle[is_cut], found)
        halves = []
        for k in is_cut.nonzero().flatten().tolist():
            node, depth, whole = nodes[k]
            for vertex in (int(i[k]), int(j[k])):
                half = whole.clone()
                half[vertex] = middle[k]
                halves.append((2 * len(found.cuts) + 1 + (vertex == int(j[k])), depth + 1, half))
            found.cuts.append(Cut(node, int(i[k]), int(j[k]), t[k].item()))
        return halves

    def _look(self, middle: Tensor, found: Cutting) -> None:
        if len(middle):
            rows = torch.zeros(len(middle), dtype=torch.long, device=middle.device)
            seen = classes_of(self.model, combine(self.points, rows, middle), self.prover) != self.label
            if seen.any():
                found.witness = middle[seen.nonzero()[0, 0]]

    def _bends(self, corners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For every part two vertices and where between them its first bend is; t = 0 where there is none.

        Of the units that bend there the one is taken that is farthest from zero on both sides.
        """
        count, vertices = corners.shape[:2]
        i, j = (torch.zeros(count, dtype=torch.long, device=corners.device) for _ in range(2))
        t = torch.zeros(count, dtype=torch.float64, device=corners.device)

        def look(step: Step, inputs: list[Tensor]) -> None:
            if not isinstance(step.op, Kink | Maximum):
                return
            z = bent(step.op, *inputs).reshape(count, vertices, -1)
            (high, above), (low, below) = z.max(1), z.min(1)
            size = z.abs().amax((1, 2)).unsqueeze(1)
            gap = torch.minimum(high, -low)
            gap[(gap <= NEXT_TO * (high - low)) | (gap <= NOTHING * size)] = 0
            most, unit = gap.max(1, keepdim=True)
            new = (t == 0) & (most.squeeze(1) > 0)
            share = (high / (high - low)).gather(1, unit).squeeze(1)
            i[new], j[new] = above.gather(1, unit).squeeze(1)[new], below.gather(1, unit).squeeze(1)[new]
            t[new] = share[new]

        rows = torch.zeros(count * vertices, dtype=torch.long, device=corners.device)
        x = combine(self.points, rows, corners.flatten(0, 1))
        self.prover.program(x, look)
        return i, j, t
