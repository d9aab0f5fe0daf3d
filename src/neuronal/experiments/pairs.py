"""What can be proved between images: pairs of one activation pattern, pairs with a certificate, and where classes meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify.branch import Budget
from neuronal.certify.segment import certify_segments
from neuronal.data.catalogue import load
from neuronal.experiments.audit import same_class_pairs
from neuronal.experiments.compare import Share
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record
from neuronal.experiments.run import check
from neuronal.experiments.work import Work
from neuronal.geometry.lowering import lower
from neuronal.geometry.pattern import group_by_pattern
from neuronal.geometry.segment import pieces
from neuronal.geometry.trace import outputs


@dataclass(frozen=True)
class Crossing:
    """Between images of different classes that lie close together: where the network changes its mind.

    Attributes:
        pairs: How many pairs were looked at, all their breakpoints found exactly.
        direct: Of these, those with one change, from the one class to the other.
        through_others: Those where a third class is predicted on the way.
        median_first: Median place of the first change, 0 being the image that was drawn; None without pairs.
        median_pieces: Median number of linear pieces between the two; None without pairs.
    """

    pairs: int
    direct: Share
    through_others: Share
    median_first: float | None
    median_pieces: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "direct": self.direct.to_json(), "through_others": self.through_others.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Crossing:
        shares = {name: Share.from_json(values[name]) for name in ("direct", "through_others")}
        return cls(**{**values, **shares})


@dataclass(frozen=True)
class Pairs:
    """One trained network and what holds between pairs of test images.

    Attributes:
        accuracy: On the whole test set.
        same_pattern: Pairs with one and the same activation pattern, of all pairs with the same predicted class.
        certified: Pairs whose whole segment is proved to have one class, of random pairs of one class, both right.
        refuted: Of these, pairs with a point of another class between them, found and confirmed by the model.
        unknown: Of these, pairs neither proved nor refuted.
        seconds: Time of the certificates, per pair.
        crossing: The hard pairs.
    """

    network: str
    neuron: str
    seed: int
    accuracy: float
    same_pattern: Share
    certified: Share
    refuted: int
    unknown: int
    seconds: float
    crossing: Crossing

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "same_pattern": self.same_pattern.to_json(),
            "certified": self.certified.to_json(),
            "crossing": self.crossing.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Pairs:
        shares = {name: Share.from_json(values[name]) for name in ("same_pattern", "certified")}
        return cls(**{**values, **shares, "crossing": Crossing.from_json(values["crossing"])})


def study(recipes: Sequence[Recipe], neurons: Sequence[str], work: Work, *, pairs: int, crossings: int) -> list[Pairs]:
    """Trains every network with every neuron and seed, and examines each; what is done is kept in ``work`` and not repeated.

    Args:
        recipes: The networks and how they are trained.
        neurons: Their neurons.
        work: Where networks, and what was found of them, are kept.
        pairs: Random pairs of one class to certify, for each network.
        crossings: Pairs of neighbours of different classes.

    Raises:
        ValueError: A recipe does not fit its data, before anything is trained; or a network did not train.
    """
    wanted = [replace(recipe, family=neuron) for recipe in recipes for neuron in neurons]
    for recipe in wanted:
        check(recipe)
        if load(recipe.data).task == "regression":
            raise ValueError(f"pairs are of one class, and {recipe.data} is for regression: it has none.")

    def measure(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe = record.recipe
        return examine(model, recipe, recipe.family, record.seed, pairs=pairs, crossings=crossings).to_json()

    rows = work.rows(wanted, {"what": "pairs", "pairs": pairs, "crossings": crossings}, measure)
    return [Pairs.from_json(row) for row in rows]


def examine(
    model: nn.Module,
    recipe: Recipe,
    neuron: str,
    seed: int,
    *,
    pairs: int,
    crossings: int,
    budget: Budget | None = None,
) -> Pairs:
    """All that is counted of one trained network, on the test images of its recipe's data."""
    test = load(recipe.data).scaled(recipe.scaling).test
    x, y = test.x, test.y
    scores = outputs(model, x).cpu()
    predicted = scores.argmax(1)
    right = predicted == y
    generator = torch.Generator().manual_seed(seed)
    a, b = same_class_pairs(y, right, pairs, generator)
    started = perf_counter()
    if (scores == scores[:1, :1]).all():
        # A network that died gives all classes the same score: nothing can be proved of it, and to fail takes longest.
        verdicts = ["unknown"] * len(a)
    else:
        verdicts = [c.verdict for c in certify_segments(model, x[a], x[b], budget=budget)]
    seconds = (perf_counter() - started) / max(1, len(verdicts))
    near = neighbours_of_another_class(x, y, right, crossings, generator)
    return Pairs(
        network=recipe.name,
        neuron=neuron,
        seed=seed,
        accuracy=right.double().mean().item(),
        same_pattern=same_pattern(model, x, predicted),
        certified=Share(verdicts.count("certified"), len(verdicts)),
        refuted=verdicts.count("refuted"),
        unknown=verdicts.count("unknown"),
        seconds=seconds,
        crossing=crossing(model, x, y, *near),
    )


def same_pattern(model: nn.Module, x: Tensor, predicted: Tensor) -> Share:
    """Pairs of rows with one pattern and one predicted class, of all pairs with one predicted class."""

    def pairs_in(counts: Tensor) -> int:
        return int((counts * (counts - 1) // 2).sum())

    found = sum(pairs_in(predicted[torch.as_tensor(group)].bincount()) for group in group_by_pattern(model, x))
    return Share(found, pairs_in(predicted.bincount()))


def neighbours_of_another_class(
    x: Tensor, y: Tensor, right: Tensor, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Random rows classified right, and for each the nearest other such row of another class."""
    places = right.nonzero().flatten()
    chosen = places[torch.randperm(len(places), generator=generator)[:count]]
    flat = x[places].flatten(1)
    distances = torch.cdist(x[chosen].flatten(1), flat)
    distances[y[chosen].unsqueeze(1) == y[places]] = torch.inf
    possible = distances.isfinite().any(1)
    return chosen[possible], places[distances.argmin(1)][possible]


def crossing(model: nn.Module, x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Crossing:
    """Follows the network exactly from each row to its partner."""
    direct = others = 0
    firsts, counts = [], []
    lines = pieces(lower(model, x[a]), x[a], x[b]) if len(a) else []
    for i, j, line in zip(a.tolist(), b.tolist(), lines, strict=True):
        changes = line.switches()
        ends = {int(y[i]), int(y[j])}
        direct += len(changes) == 1
        others += any(change.after not in ends for change in changes)
        firsts.append(changes[0].t if changes else 1.0)
        counts.append(line.count)
    total = len(firsts)
    return Crossing(
        total,
        Share(direct, total),
        Share(others, total),
        median(firsts) if firsts else None,
        median(counts) if counts else None,
    )
