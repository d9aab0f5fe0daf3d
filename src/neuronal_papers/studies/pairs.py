"""What can be proved between test images: pairs of one activation pattern, certified pairs, and where classes meet.

Geng, Xu, Ye & Si look for pairs of images with one activation pattern, and find none in accurate networks. The small
networks here are of their kind, the larger ones are where they found none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from neuronal.certify import certify_segments
from neuronal.data import Split
from neuronal.experiments import Record, Share, same_class_pairs
from neuronal.geometry import group_by_pattern, lower, outputs, pieces
from neuronal.report import Column
from neuronal_papers.core import Options, Reproduction, one_table, settings
from neuronal_papers.judge import Above, Below, Case, Claim, Result, Within, paired
from neuronal_papers.seeds import NAMES, Run, at, groups, runs_of
from neuronal_papers.tuning import on_test_images
from neuronal_papers.zero_bias.table1 import MNIST_FCN, both

DIGITS = replace(MNIST_FCN, name="digits, fcn 64-64", widths=(64, 64), data="digits", probes=())
DIGITS = replace(DIGITS, optim="adam", lr=3e-3, batch_size=64)
FASHION = replace(DIGITS, name="Fashion-MNIST, fcn 10-10-10", widths=(10, 10, 10), data="fashion_mnist", lr=1e-3)
FASHION = replace(FASHION, epochs=6, batch_size=128)
RECIPES = both(
    DIGITS,
    replace(DIGITS, name="digits, fcn 128-128", widths=(128, 128)),
    FASHION,
    replace(FASHION, name="Fashion-MNIST, fcn 64", widths=(64,)),
    replace(FASHION, name="Fashion-MNIST, fcn 128-128", widths=(128, 128)),
    replace(FASHION, name="Fashion-MNIST, cnn 8-16", model="cnn", widths=(8, 16, 64), epochs=3),
)
MOST = 50.0
"""Percent of pairs, or of groups, that are called most; fewer are rare."""
# Points; shares that differ by no more are called alike.
ALIKE = 5.0


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """How many certificates have each verdict."""

    certified: Share
    refuted: int
    unknown: int


@dataclass(frozen=True, kw_only=True)
class Pairs(Verdicts):
    """What is counted of pairs of test images.

    ``same_pattern`` are pairs with one activation pattern, of all with one predicted class; the verdicts are of whether the
    whole segment has one class, for random pairs of one class, both classified right.
    """

    accuracy: float
    same_pattern: Share


@dataclass(frozen=True)
class Crossing:
    """Ways from images to others of another class.

    ``through_others`` are those with a third class on the way; ``median_first`` is where the class first changes (0 at the
    one end, 1 at the other).
    """

    through_others: Share
    median_first: float


@dataclass(frozen=True, kw_only=True)
class Proofs(Pairs):
    crossing: Crossing


@on_test_images
def proofs(record: Record, model: nn.Module, test: Split, options: Options) -> Proofs:
    """Every network: what holds between random pairs of one class, and between neighbours of different classes."""
    x, y, predicted = classified(model.cpu(), test)
    generator = torch.Generator().manual_seed(record.seed)
    found = examine(model, x, y, predicted, options["pairs"], generator)
    near = neighbours_of_another_class(x, y, predicted == y, options["crossings"], generator)
    return Proofs(**vars(found), crossing=crossing(model, x, y, *near))


def classified(model: nn.Module, test: Split) -> tuple[Tensor, Tensor, Tensor]:
    """The test images, their classes, and those the model predicts."""
    return test.x, test.y, outputs(model, test.x).argmax(1).cpu()


def examine(model: nn.Module, x: Tensor, y: Tensor, predicted: Tensor, pairs: int, generator: torch.Generator) -> Pairs:
    """Accuracy on images ``x`` of classes ``y``, and what is counted of pairs of them."""
    right = predicted == y
    a, b = same_class_pairs(y, right, pairs, generator)
    verdicts = counts([certificate.verdict for certificate in certify_segments(model, x[a], x[b])])
    alike = same_pattern(model, x, predicted)
    return Pairs(accuracy=right.double().mean().item(), same_pattern=alike, **vars(verdicts))


def counts(verdicts: Sequence[str]) -> Verdicts:
    certified = Share(verdicts.count("certified"), len(verdicts))
    return Verdicts(certified=certified, refuted=verdicts.count("refuted"), unknown=verdicts.count("unknown"))


def kinds(model: nn.Module, x: Tensor, predicted: Tensor) -> Tensor:
    """A number for each row of ``x``, the same for those of one activation pattern and one predicted class."""
    patterns = torch.empty_like(predicted)
    for number, group in enumerate(group_by_pattern(model, x)):
        patterns[group] = number
    return patterns * (int(predicted.max()) + 1) + predicted


def same_pattern(model: nn.Module, x: Tensor, predicted: Tensor) -> Share:
    """Pairs of rows with one pattern and one predicted class, of all pairs with one predicted class."""
    alike, every = (labels.bincount() for labels in (kinds(model, x, predicted), predicted))
    return Share(*(int((sizes * (sizes - 1) // 2).sum()) for sizes in (alike, every)))


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


def crossing(model: nn.Module, x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Crossing:
    """Follows the network exactly from each row of ``a`` to its partner in ``b``, of another class."""
    others, firsts = 0, []
    for i, j, line in zip(a.tolist(), b.tolist(), pieces(lower(model, x[a]), x[a], x[b]), strict=True):
        changes = line.switches()
        others += any(change.after not in (int(y[i]), int(y[j])) for change in changes)
        firsts.append(changes[0].t if changes else 1.0)
    return Crossing(Share(others, len(firsts)), median(firsts))


def certified(rows: Iterable[Run[Verdicts]]) -> dict[tuple[str, str], dict[int, float]]:
    """Percent of the pairs, or groups, that were proved, by network, neuron and seed."""
    return {
        network: {row.seed: 100 * row.found.certified.count / row.found.certified.total for row in of}
        for network, of in groups(rows, "name", "neuron").items()
    }


def proved(
    text: str,
    what: str,
    side: Above | Below,
    chosen: Callable[[Result], Iterable[Run[Verdicts]]],
    *,
    beyond_paper: bool = False,
) -> Claim:
    """A claim of the percentage of ``what`` that is proved, a case for every network in the ``chosen`` rows."""

    def cases(result: Result) -> list[Case]:
        return [Case(", ".join(network), list(of.values())) for network, of in certified(chosen(result)).items()]

    return Claim(text, cases, side, unit=f"% of {what}", digits=".1f", beyond_paper=beyond_paper)


def _without_less_with(result: Result) -> list[Case]:
    """Percent proved without biases less percent proved with them, seed by seed."""
    percent = certified(runs_of(Verdicts, result))
    names = dict.fromkeys(name for name, _ in percent)
    return [Case(name, paired(percent[name, "zero_bias"], percent[name, "standard"])) for name in names]


def count(head: str, *path: str) -> Column:
    """A share that was found of a network, as count/total."""
    share = at("found", *path)
    return Column(head, lambda row: f"{share(row).count:,}/{share(row).total:,}")


RUN = (*NAMES, Column("seed", "seed"), Column("accuracy (%)", lambda row: 100 * row.found.accuracy, ".1f"))
PROVED = (
    count("certified", "certified"),
    Column("refuted", at("found", "refuted")),
    Column("open", at("found", "unknown")),
)
COLUMNS = (
    *RUN,
    count("equal patterns", "same_pattern"),
    *PROVED,
    Column("first change", at("found", "crossing", "median_first"), ".2f"),
    count("third class", "crossing", "through_others"),
)
CAPTION = (
    "Equal patterns: of all pairs of test images with one predicted class. Certified: of random pairs of one class, both "
    "classified right. First change and third class: from an image to its nearest neighbour of another class, where the "
    "class first changes (median, 0 to 1), and how often another class comes between"
)
COUNTS = [{"pairs": pairs, "crossings": crossings} for pairs, crossings in ((20, 3), (2000, 50), (10_000, 500))]
PROVABLE = "Most random pairs of one class are proved to have it all the way between, whatever their patterns"
PAIRS = Reproduction(
    name="zero_bias/pairs",
    title="Random pairs of test images of one class: what is proved of all images between",
    where="beyond Theorem 2",
    scales=settings((both(replace(DIGITS, widths=(8,), epochs=1, seeds=(0,))), RECIPES), COUNTS),
    measure=proofs,
    claims=(
        proved(PROVABLE, "pairs", Above(MOST), partial(runs_of, Verdicts), beyond_paper=True),
        Claim("As many are proved with biases as without", _without_less_with, Within(ALIKE), beyond_paper=True),
    ),
    tables=one_table(COLUMNS, CAPTION, rows=partial(runs_of, Proofs)),
    criteria=f"Most is more than {MOST:g}%; shares are alike within {ALIKE:g} points.",
    departs=(
        "Not in the paper, which looks at equal patterns only; networks of its kind and larger ones, on data it does not "
        "have. Paper: more pairs."
    ),
)
