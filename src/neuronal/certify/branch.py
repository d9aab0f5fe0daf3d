"""Branch and bound: is one class predicted on all of a simplex? Bounds prove parts, the others are cut in two.

Fast float32 arithmetic comes first, with its own rounding counted; what it cannot decide goes on in float64. Cutting
points are shown to the model itself, so that a counterexample is always one the model confirms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from neuronal.certify.bounds import Bounds, Images, is_plain_float32, plain_arithmetic
from neuronal.certify.certificate import Promise
from neuronal.core.inference import call_on_copy, evaluating
from neuronal.geometry.program import Program

CACHE = 2**21  # bytes of the largest tensor on the way of one chunk; measured, larger ones leave the cache
QUICK_CUTS = 12  # float32 stops after this many cuts; there its rounding is what keeps bounds from closing
SLOW_CUTS = 30  # float64 stops after this many more; with the parts to start with, coordinates stay exact
MOST_AT_START = 64
ROUNDINGS = 3.0  # float64 counts each rounding so often: whoever checks a part may count more of them than there are
HOPELESS = 64  # parts looked at without one that could be proved: cutting on will not help


NEAR_TIE = "Scores are so close that the model's own answer depends on how many inputs it is given at once."


@dataclass(frozen=True)
class Budget:
    """How much work one question may cost.

    Args:
        bounds: Parts whose bounds are computed, for each input set.
        memory: Bytes for intermediate values, of many questions together.
        exact: Whether to go on where bounds do not decide: segments at their exact breakpoints, other simplices by cuts
            where the network bends.
        seconds: Time for that, each.
    """

    bounds: int = 2048
    memory: int = 2**28
    exact: bool = True
    seconds: float = 300.0


@dataclass(eq=False)
class Search:
    """What is known about one simplex: proved and open parts, by the coordinates of their vertices."""

    proved: list[Tensor] = field(default_factory=list)
    open: list[Tensor] = field(default_factory=list)
    witness: Tensor | None = None
    bounds: int = 0


class Prover:
    """Bounds in two precisions, made once for a program."""

    def __init__(self, program: Program, dtype: torch.dtype, promise: Promise):
        self.program, self.dtype, self.promise = program, dtype, promise
        # On a GPU float64 is used, whose products are never shortened.
        fast = program.device.type == "cpu" and is_plain_float32()
        dtypes = (torch.float32, torch.float64) if fast else (torch.float64,)
        # In float32 our own roundings are room enough: a checker has those of float64.
        self.stages = [
            Bounds(program, dtype=dtype, promise=promise, spare=1.0 if dtype == torch.float32 else ROUNDINGS)
            for dtype in dtypes
        ]
        widths = [torch.Size(program.shape).numel(), *(torch.Size(s.shape).numel() for s in program.steps)]
        self.width = max(widths)

    def stages_for(self, points: Tensor) -> list[Bounds]:
        """The arithmetics in which nothing can overflow."""
        size = points.abs().max().item()
        return [stage for stage in self.stages if stage.fits(size)]

    def margins(
        self, stage: Bounds, images: dict[int, Images], rows: Tensor, corners: Tensor, classes: Tensor
    ) -> Tensor:
        """Lower bounds of the margin on many parts, in chunks that stay in the cache."""
        size = 4 if stage.dtype == torch.float32 else 8
        chunk = max(1, CACHE // (self.width * size * corners.shape[1]))
        return torch.cat(
            [
                stage.margins(images, r, c, y)
                for r, c, y in zip(rows.split(chunk), corners.split(chunk), classes.split(chunk), strict=True)
            ]
        )


def classes_of(model: nn.Module, x: Tensor, prover: Prover, *, rows: int = 256) -> Tensor:
    """The classes the model itself predicts, in its own precision, for so many inputs at once."""
    with evaluating(model):
        x = x.to(prover.program.device, prover.dtype)
        return torch.cat([call_on_copy(model, part).argmax(-1) for part in x.split(rows)])


def classes_of_each(model: nn.Module, x: Tensor, prover: Prover) -> tuple[Tensor, Tensor]:
    """The classes the model predicts for each input alone, and whether it predicts the same for many at once.

    What a certificate names its class by: nothing is said of inputs where the two differ. The ends of many pairs
    are few images: each is asked about once.
    """
    values = x.detach().cpu().reshape(len(x), -1).contiguous().view(torch.uint8).numpy()
    first: dict[bytes, int] = {}
    places = [first.setdefault(value.tobytes(), row) for row, value in enumerate(values)]
    number = {row: i for i, row in enumerate(first.values())}
    alone = classes_of(model, x[list(number)], prover, rows=1)[[number[row] for row in places]]
    return alone, alone == classes_of(model, x, prover)


def combine(points: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """The inputs with the given barycentric coordinates: (n, vertices) of the simplices ``rows``."""
    flat = points.flatten(2).double()
    return torch.einsum("nv,nvd->nd", weights.to(flat), flat[rows]).view(len(rows), *points.shape[2:])


def search(model: nn.Module, prover: Prover, points: Tensor, classes: Tensor, budget: Budget) -> list[Search]:
    """Branch and bound on every simplex of ``points`` (simplices, vertices, ...), whose vertices have one class each.

    Args:
        model: The user's, for cutting points.
        prover: Made from its program.
        points: Vertices.
        classes: One for each simplex.
        budget: ``bounds`` counts for each simplex.
    """
    size = 8 * points.shape[1] * prover.width
    group = max(1, budget.memory // (4 * size))
    found: list[Search] = []
    if not len(points):
        return found
    start = 1
    for part, y in zip(points.split(group), classes.split(group), strict=True):
        results = _Group(model, prover, part, y, budget).run(start)
        found += results
        if points.shape[1] == 2:
            start = _first_cut(results)
    return found


def _first_cut(results: list[Search]) -> int:
    """Parts to start the next segments with: a power of two below what most of the last ones needed."""
    counts = sorted(sum(map(len, r.proved)) for r in results if r.witness is None)
    typical = counts[len(counts) // 3] if counts else 1
    return min(1 << max(typical.bit_length() - 1, 0), MOST_AT_START)


class _Group:
    """Simplices that go through the search together, level by level; only undecided parts stay."""

    def __init__(self, model: nn.Module, prover: Prover, points: Tensor, classes: Tensor, budget: Budget):
        self.model, self.prover = model, prover
        self.points, self.classes, self.budget = points, classes, budget
        flat = points.flatten(2).double()
        self.gram = flat @ flat.mT
        self.found = [Search() for _ in points]

    def run(self, start: int) -> list[Search]:
        count = self.points.shape[1]
        rows = torch.arange(len(self.points), device=self.points.device)
        corners = torch.eye(count, dtype=torch.float64, device=self.points.device).expand(len(rows), -1, -1)
        if start > 1:
            corners = _uniform(start).to(self.points.device).repeat(len(rows), 1, 1)
            rows = rows.repeat_interleave(start)
        stages = self.prover.stages_for(self.points)
        with plain_arithmetic(self.points.device):
            for stage in stages:
                spent = torch.tensor(
                    [self.found[r].bounds >= self.budget.bounds for r in rows.tolist()], dtype=torch.bool
                )
                self._keep_open(rows[spent], corners[spent])
                rows, corners = self._stage(stage, rows[~spent], corners[~spent], last=stage is stages[-1])
        self._keep_open(rows, corners)
        return self.found

    def _stage(self, stage: Bounds, rows: Tensor, corners: Tensor, *, last: bool) -> tuple[Tensor, Tensor]:
        """Everything one arithmetic can decide; the parts it leaves."""
        if not len(rows):
            return rows, corners
        named, local = rows.unique(return_inverse=True)
        images = stage.images(self.points[named])
        limits = {row: self._limit(self.found[row]) for row in named.tolist()}
        left: list[tuple[Tensor, Tensor]] = []
        for _ in range(SLOW_CUTS if last else QUICK_CUTS):
            lower = self.prover.margins(stage, images, local, corners, self.classes[rows])
            for row, n in zip(*(t.tolist() for t in rows.unique(return_counts=True)), strict=True):
                self.found[row].bounds += n
            proved = lower > 0
            self._keep_proved(rows[proved], corners[proved])
            rows, local, corners = self._halves(rows[~proved], local[~proved], corners[~proved])
            spent = torch.tensor([self._is_spent(self.found[r], limits[r]) for r in rows.tolist()], dtype=torch.bool)
            left.append((rows[spent], corners[spent]))
            rows, local, corners = rows[~spent], local[~spent], corners[~spent]
            if not len(rows):
                break
        left.append((rows, corners))
        return torch.cat([r for r, _ in left]), torch.cat([c for _, c in left])

    def _limit(self, found: Search) -> int:
        """The number of bounds after which to stop if not one part was proved."""
        return min(found.bounds + HOPELESS, self.budget.bounds)

    def _is_spent(self, found: Search, limit: int) -> bool:
        return found.bounds >= (self.budget.bounds if found.proved else limit)

    def _halves(self, rows: Tensor, local: Tensor, corners: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both halves of each part, cut at the middle of its longest edge, unless the model refutes that point."""
        if not len(rows):
            return rows, local, corners
        i, j = _longest_edges(corners, self.gram[rows])
        index = torch.arange(len(rows), device=rows.device)
        middle = (corners[index, i] + corners[index, j]) / 2
        seen = classes_of(self.model, combine(self.points, rows, middle), self.prover)
        for k in (seen != self.classes[rows]).nonzero().flatten().tolist():
            self.found[int(rows[k])].witness = middle[k]
        one, other = corners.clone(), corners.clone()
        one[index, i], other[index, j] = middle, middle
        rows, local, corners = rows.repeat(2), local.repeat(2), torch.cat([one, other])
        alive = torch.tensor([self.found[r].witness is None for r in rows.tolist()], dtype=torch.bool)
        return rows[alive], local[alive], corners[alive]

    def _keep_proved(self, rows: Tensor, corners: Tensor) -> None:
        for row, part in zip(rows.tolist(), corners, strict=True):
            self.found[row].proved.append(part)

    def _keep_open(self, rows: Tensor, corners: Tensor) -> None:
        for row, part in zip(rows.tolist(), corners, strict=True):
            self.found[row].open.append(part)


def _uniform(count: int) -> Tensor:
    """[0, 1] in equal parts, by the coordinates of their ends."""
    t = torch.arange(count + 1, dtype=torch.float64) / count
    ends = torch.stack([1 - t, t], dim=1)
    return torch.stack([ends[:-1], ends[1:]], dim=1)


def _longest_edges(corners: Tensor, gram: Tensor) -> tuple[Tensor, Tensor]:
    """The two vertices of each part that are farthest from each other in input space."""
    inner = corners @ gram @ corners.mT
    square = inner.diagonal(dim1=1, dim2=2)
    distance = square.unsqueeze(1) + square.unsqueeze(2) - 2 * inner
    distance -= torch.eye(corners.shape[1], dtype=distance.dtype, device=distance.device)
    flat = distance.flatten(1).argmax(1)
    i, j = flat // corners.shape[1], flat % corners.shape[1]
    return i, j
