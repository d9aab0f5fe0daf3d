"""What can be proved between test images: pairs of one activation pattern, certified pairs, and where classes meet.

Geng, Xu, Ye & Si look for pairs of images with one activation pattern, and find none in accurate networks. The small
networks here are of their kind, the larger ones are where they found none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify import certify_segments
from neuronal.data import load
from neuronal.experiments import Recipe, Record, Share, Work, same_class_pairs
from neuronal.geometry import group_by_pattern, lower, outputs, pieces
from neuronal.report import Column, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Above, Case, Claim, Result, Within, paired
from neuronal_papers.tuning import measured

DIGITS = Recipe(
    name="digits, fcn 64-64",
    model="fcn",
    widths=(64, 64),
    data="digits",
    optim="adam",
    lr=3e-3,
    epochs=20,
    batch_size=64,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=(),
)
FASHION = replace(
    DIGITS,
    name="Fashion-MNIST, fcn 10-10-10",
    widths=(10, 10, 10),
    data="fashion_mnist",
    lr=1e-3,
    epochs=6,
    batch_size=128,
)
RECIPES = tuple(
    replace(recipe, family=neuron)
    for recipe in (
        DIGITS,
        replace(DIGITS, name="digits, fcn 128-128", widths=(128, 128)),
        FASHION,
        replace(FASHION, name="Fashion-MNIST, fcn 64", widths=(64,)),
        replace(FASHION, name="Fashion-MNIST, fcn 128-128", widths=(128, 128)),
        replace(FASHION, name="Fashion-MNIST, cnn 8-16", model="cnn", widths=(8, 16, 64), epochs=3),
    )
    for neuron in ("zero_bias", "standard")
)
# Percent of pairs that are called most.
MOST = 50.0
# Points; shares that differ by no more are called alike.
ALIKE = 5.0


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network: what holds between random pairs of one class, and between neighbours of different classes."""

    def examined(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe = record.recipe
        work.say(f"pairs of {recipe.name}, {recipe.family}, {recipe.data}, seed {record.seed}")
        return examine(model, recipe, record.seed, **setting.options)

    return {"rows": measured(setting, work, "pairs", examined)}


def examine(model: nn.Module, recipe: Recipe, seed: int, *, pairs: int, crossings: int) -> dict[str, Any]:
    """All that is counted of one trained network, on the test images of its recipe's data.

    ``same_pattern`` are pairs with one activation pattern, of all with one predicted class; ``certified`` those whose
    whole segment is proved to have one class, of random pairs of one class, both classified right; ``refuted`` and
    ``unknown`` the other ones; ``crossing`` see :func:`crossing`.
    """
    test = load(recipe.data).scaled(recipe.scaling).test
    x, y = test.x, test.y
    scores = outputs(model, x).cpu()
    predicted = scores.argmax(1)
    right = predicted == y
    generator = torch.Generator().manual_seed(seed)
    a, b = same_class_pairs(y, right, pairs, generator)
    if (scores == scores[:1, :1]).all():
        # A network that died gives all classes the same score: nothing can be proved of it, and to fail takes longest.
        verdicts = ["unknown"] * len(a)
    else:
        verdicts = [certificate.verdict for certificate in certify_segments(model, x[a], x[b])]
    near = neighbours_of_another_class(x, y, right, crossings, generator)
    return {
        "data": recipe.data,
        "accuracy": right.double().mean().item(),
        "same_pattern": same_pattern(model, x, predicted).to_json(),
        "certified": Share(verdicts.count("certified"), len(verdicts)).to_json(),
        "refuted": verdicts.count("refuted"),
        "unknown": verdicts.count("unknown"),
        "crossing": crossing(model, x, y, *near),
    }


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
    distances = torch.cdist(x[chosen].flatten(1), x[places].flatten(1))
    distances[y[chosen].unsqueeze(1) == y[places]] = torch.inf
    possible = distances.isfinite().any(1)
    return chosen[possible], places[distances.argmin(1)][possible]


def crossing(model: nn.Module, x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> dict[str, Any]:
    """Follows the network exactly from each row of ``a`` to its partner in ``b``, of another class.

    ``direct`` are those with one change of class, ``through_others`` those with a third class on the way;
    ``median_first`` is where the class first changes (0 at the one end, 1 at the other), ``median_pieces`` the number of
    linear pieces between them.
    """
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
    return {
        "pairs": len(firsts),
        "direct": Share(direct, len(firsts)).to_json(),
        "through_others": Share(others, len(firsts)).to_json(),
        "median_first": median(firsts) if firsts else None,
        "median_pieces": median(counts) if counts else None,
    }


def grouped(rows: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Rows that agree in ``keys`` together, in the order they come."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def percent_certified(rows: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """Percent that was proved, by seed.

    Networks that died in training, of which all is unknown, are left out: they have one class everywhere.
    """
    alive = [row for row in rows if row["unknown"] < row["certified"]["total"]]
    return {row["seed"]: 100 * row["certified"]["count"] / row["certified"]["total"] for row in alive}


def certified(rows: Iterable[Mapping[str, Any]]) -> list[Case]:
    """Percent of the pairs, or groups, that were proved: a case for every network."""
    return [
        Case(", ".join(network), list(percent_certified(of).values()))
        for network, of in grouped(rows, "name", "neuron").items()
    ]


def _without_less_with(result: Result) -> list[Case]:
    """Percent proved without biases less percent proved with them, seed by seed."""
    cases = []
    for (name,), rows in grouped(result["result"]["rows"], "name").items():
        own = {neuron: percent_certified(of) for (neuron,), of in grouped(rows, "neuron").items()}
        cases.append(Case(name, paired(own["zero_bias"], own["standard"])))
    return cases


def counted(share: Mapping[str, int]) -> str:
    """A share as count/total."""
    return f"{share['count']:,}/{share['total']:,}"


NETWORK = (
    Column("network", "name", is_text=True),
    Column("neuron", "neuron", is_text=True),
    Column("seed", "seed"),
    Column("accuracy (%)", lambda row: 100 * row["accuracy"], ".1f"),
    Column("equal patterns", lambda row: counted(row["same_pattern"])),
)
PROVED = (
    Column("certified", lambda row: counted(row["certified"])),
    Column("refuted", "refuted"),
    Column("open", "unknown"),
)
COLUMNS = (
    *NETWORK,
    *PROVED,
    Column("first change", lambda row: row["crossing"]["median_first"], ".2f"),
    Column("third class", lambda row: counted(row["crossing"]["through_others"])),
)
CAPTION = (
    "Equal patterns: of all pairs of test images with one predicted class. Certified: of random pairs of one class, both "
    "classified right. First change and third class: from an image to its nearest neighbour of another class, where the "
    "class first changes (median, 0 to 1), and how often another class comes between"
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, result["result"]["rows"], CAPTION)]


PAIRS = Reproduction(
    name="zero_bias/pairs",
    title="Random pairs of test images of one class: what is proved of all images between",
    where="beyond Theorem 2",
    scales={
        "smoke": Setting(
            tuple(replace(recipe, widths=(8,), epochs=1, seeds=(0,)) for recipe in RECIPES[:2]),
            {"pairs": 20, "crossings": 3},
        ),
        "small": Setting(RECIPES, {"pairs": 2000, "crossings": 50}),
        "paper": Setting(RECIPES, {"pairs": 10_000, "crossings": 500}),
    },
    measure=measure,
    claims=(
        Claim(
            "Most random pairs of one class are proved to have it all the way between, whatever their patterns",
            lambda result: certified(result["result"]["rows"]),
            Above(MOST),
            unit="% of pairs",
            digits=".1f",
            beyond_paper=True,
        ),
        Claim("As many are proved with biases as without", _without_less_with, Within(ALIKE), beyond_paper=True),
    ),
    tables=tables,
    criteria=f"Most is more than {MOST:g}%; shares are alike within {ALIKE:g} points.",
    departs=(
        "Not in the paper, which looks at equal patterns only; networks of its kind and larger ones, on data it does not "
        "have. Paper: more pairs."
    ),
)
