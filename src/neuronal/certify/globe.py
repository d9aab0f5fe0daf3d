"""A ball of inputs sent through a model's own ``forward``, and bounds carried back to it, for the checker.

A :class:`Globe` is a :class:`Cloud` whose value is within ``radius`` of ``rows[0] + sum_j xi_j rows[j]``, xi in a ball. It
also keeps a :class:`Node`: how its number came from others. Where that is not enough to tell the side of a kink, a linear
function of the value is followed back node by node to the input, each kink replaced by the line that bounds it from the side
the coefficient asks for (Zhang et al., CROWN, NeurIPS 2018). Shares no code with ``ball.py`` and ``backward.py``.

Rounding: coefficients are sums of at most m products, m the size of the result, so a linear step costs at most
gamma |Lam| (|W| |value| + |b|), beside what the network that is meant rounds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from neuronal.certify.cloud import OWN, TINY, UP, Cloud, NoRule

LEAST = torch.finfo(torch.float64).tiny
UNITS = 256  # followed back at one bend, or twice as many as the input has numbers
Pull = Callable[[Tensor, "Tensor | None"], tuple[Tensor, Sequence[Tensor]]]


@dataclass(frozen=True, eq=False)
class Node:
    """A value: what it was made of, its largest size, and what each unit of a coefficient costs.

    ``pull`` takes coefficients of the value, in rows, and gives a constant and the coefficients of the parents.
    """

    number: int
    parents: tuple[Node, ...]
    size: Tensor
    pull: Pull | None = None
    error: Tensor | float = 0.0
    lost: float = 0.0


@dataclass
class Notes:
    """What all values of one pass share: how many there are, the layers of ReLUs, whether any may switch."""

    count: int = 0
    layers: list[tuple[int, torch.Size]] = field(default_factory=list)
    is_bent: bool = False


class Globe(Cloud):
    """Over a ball: ``rows[0]`` is the value at its centre, the others say how it changes with each number of the input."""

    has_corners = False

    def __init__(self, rows: Sequence[Tensor], radius: Tensor, unit: float, *, size: float, norm: object):
        super().__init__(rows, radius, unit)
        self.ball, self.norm_of_ball, self.notes = size, norm, Notes()
        self.centre = rows[0]
        self.node: Node | None = Node(0, (), self.size_bound)

    def like(self, rows: Sequence[Tensor], radius: Tensor) -> Cloud:
        result = Globe.__new__(Globe)
        Cloud.__init__(result, rows, radius, self.unit)
        result.ball, result.norm_of_ball, result.notes = self.ball, self.norm_of_ball, self.notes
        result.centre, result.node = self.centre, None
        return result

    def become(self, other: Cloud) -> Cloud:
        self.node = other.node
        return super().become(other)

    def moved(self, linear: Callable[[Tensor], Tensor], shift: Any = 0.0) -> list[Tensor]:
        return [linear(self.rows[0]) + shift, *map(linear, self.rows[1:])]

    def ends(self) -> tuple[Tensor, Tensor]:
        """By Hoelder's inequality: the dual norm of the largest-entry norm sums absolute values."""
        reach = self._dual(torch.stack(self.rows[1:]), 0) * self.ball * UP
        return self.rows[0] - reach, self.rows[0] + reach

    def _dual(self, change: Tensor, dim: int) -> Tensor:
        if self.norm_of_ball == "inf":
            return change.abs().sum(dim)
        # Squares of numbers that are not zero may underflow, each by less than TINY squared.
        lost = (change != 0).any(dim).to(change) * (TINY * change.shape[dim])
        return change.square().sum(dim).sqrt() + lost

    def linear_in(
        self,
        parents: Sequence[Cloud],
        linear: Callable[..., Tensor],
        absolute: Callable[..., Tensor],
        shift: Any,
        error: Any,
    ) -> Cloud:
        sizes = [parent.size_bound for parent in parents]
        zeros = [torch.zeros_like(size) for size in sizes]

        def pull(lam: Tensor, _: Tensor | None) -> tuple[Tensor, Sequence[Tensor]]:
            parts = torch.func.vmap(torch.func.vjp(linear, *zeros)[1])(lam)
            # A function torch takes no derivative through would give zeros: seen at what the sizes become.
            there = torch.stack([_dot(part, at) for part, at in zip(parts, sizes, strict=True)]).sum(0)
            if not torch.allclose(
                _dot(lam, linear(*sizes)), there, rtol=0.0, atol=1e-9 * (1e-250 + float(_dot(lam.abs(), size).max()))
            ):
                raise NoRule("The checker cannot go back through one of the model's functions.")
            return _dot(lam, torch.as_tensor(shift, dtype=lam.dtype)), parts

        size = absolute(*sizes) + abs(shift)
        own = 2 * (4 * size.numel() + 128) * OWN
        return self._made(parents, pull, (error + own * size) * UP, sizes)

    def bent_from(
        self, parents: Sequence[Cloud], slope: Any, low: Tensor, high: Tensor, longer: Tensor, *, is_layer: bool
    ) -> Cloud:
        on, off = low >= 0, high <= 0
        self.notes.is_bent |= not bool((on | off).all())
        chord = torch.where(on | off, 0.0, high / (high - low))
        over = torch.maximum(-chord * low, (1 - chord) * high) * (1 + 32 * OWN)
        sizes = [parent.size_bound for parent in parents]

        def pull(lam: Tensor, chosen: Tensor | None) -> tuple[Tensor, Sequence[Tensor]]:
            bent = lam * (1 - slope)
            under = longer.double() if chosen is None else chosen.clamp(0, 1)
            line = torch.where(on, 1.0, torch.where(off, 0.0, torch.where(bent > 0, under, chord)))
            constant = _dot(torch.where(on | off, 0.0, bent.clamp(max=0)), over)
            return constant, [lam * line, lam * (1 - line)] if len(parents) > 1 else [lam * slope + bent * line]

        sharp = torch.as_tensor(slope != 0) | ~(on | off)
        size = (1 + abs(slope)) * sum(sizes)
        error = torch.where(sharp, 8 * (4 * low.numel() + 128) * OWN * size, 0.0)
        error = error + torch.as_tensor(slope != 0) * (4 * self.unit * abs(slope) * sum(sizes) + TINY)
        result = self._made(parents, pull, error * UP, sizes)
        if is_layer:
            self.notes.layers.append((self.notes.count, low.shape))
        return result

    def _made(self, parents: Sequence[Cloud], pull: Pull, error: Tensor, sizes: list[Tensor]) -> Cloud:
        nodes = [parent.node for parent in parents]
        self.notes.count += 1
        if all(isinstance(node, Node) for node in nodes):
            lost = 4 * LEAST * (error.numel() + 1) * (1 + sum(float(size.sum()) for size in sizes))
            self.node = Node(self.notes.count, tuple(nodes), self.size_bound, pull, error, lost)
        return self

    def range(self) -> tuple[Tensor, Tensor]:
        low, high = self.low(), self.high()
        gap = torch.where((low < 0) & (high > 0), -low * high / (high - low), 0.0).flatten()
        places = gap.topk(min(int((gap > 0).sum()), max(UNITS, 2 * len(self.rows)))).indices
        if self.node is None or not self.notes.is_bent or not len(places):
            return low, high
        one = torch.zeros(len(places), len(gap), dtype=low.dtype, device=low.device)
        one[torch.arange(len(places)), places] = 1.0
        below, above = self.least(torch.cat([one, -one]).view(-1, *low.shape), {}).chunk(2)
        low, high = low.clone(), high.clone()
        low.view(-1)[places] = torch.maximum(low.view(-1)[places], below)
        high.view(-1)[places] = torch.minimum(high.view(-1)[places], -above)
        return low, high

    def chosen(self, slopes: Sequence[Tensor]) -> dict[int, Tensor]:
        """The given slopes below ReLUs, by the number of the layer's value; none if these are of another network."""
        layers = self.notes.layers
        if [tuple(shape[1:]) for _, shape in layers] != [tuple(slope.shape) for slope in slopes]:
            return {}
        return {number: slope.to(self.radius).unsqueeze(0) for (number, _), slope in zip(layers, slopes, strict=True)}

    def least(self, rows: Tensor, slopes: Mapping[int, Tensor]) -> Tensor:
        """Lower bounds of linear functions of this value, their coefficients in ``rows``."""
        assert self.node is not None
        open_nodes, found = {self.node.number: self.node}, {self.node.number: rows}
        terms: list[Tensor] = []
        while open_nodes:
            number = max(open_nodes)
            node, lam = open_nodes.pop(number), found.pop(number)
            if node.pull is None:
                terms += self._at_input(lam.flatten(1))
                continue
            constant, parts = node.pull(lam, slopes.get(number))
            terms += [constant, -_dot(lam.abs(), torch.as_tensor(node.error)) * UP - node.lost]
            for parent, part in zip(node.parents, parts, strict=True):
                if parent.number in found:
                    part = part + found[parent.number]
                    terms.append(-2 * OWN * UP * _dot(part.abs(), parent.size))
                open_nodes[parent.number], found[parent.number] = parent, part
        every = torch.stack(terms)
        total = every.sum(0) - 4 * (len(every) + 8) * OWN * every.abs().sum(0)
        return torch.where(total.isfinite(), total, -torch.inf)

    def _at_input(self, lam: Tensor) -> list[Tensor]:
        x = self.centre.flatten()
        off = 8 * (len(x) + 8) * OWN * (lam.abs() @ x.abs()) + LEAST * len(x)
        return [lam @ x, -self._dual(lam, 1) * self.ball * UP, -off]


def _dot(lam: Tensor, values: Tensor) -> Tensor:
    return (lam * values).flatten(1).sum(1)
