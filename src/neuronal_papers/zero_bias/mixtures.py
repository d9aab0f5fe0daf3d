"""Theorems 2 and 3: mixtures of images of one activation pattern, of two (Figures 3, 7 and 8) and of several."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np
import torch
from torch import Generator, Tensor, nn

from neuronal.certify import Budget, certify_cone, certify_hull
from neuronal.data import Split
from neuronal.experiments import Record, Work, same_class_pairs
from neuronal.geometry import outputs
from neuronal.report import Column, Figure, blank
from neuronal_papers.core import Measured, Options, Reproduction, Setting, one_table, settings
from neuronal_papers.judge import Below, Evidence, Fact, Result
from neuronal_papers.seeds import Run, at, groups, records_of, runs_of, spread
from neuronal_papers.studies.pairs import (
    MOST,
    PROVED,
    RUN,
    Pairs,
    Verdicts,
    classified,
    count,
    counts,
    examine,
    kinds,
    proved,
)
from neuronal_papers.tuning import on_test_images
from neuronal_papers.zero_bias.table1 import BOTH, MNIST_FCN, both, smoke

STEPS = 1000
"""Interpolants per pair, as in the paper."""
SPAN = 3.0
"""Weights of non-negative combinations are powers of ten from minus this to this."""
# Percent. Pairs of equal patterns that are a larger share of all of one class are many; the paper gives no number.
MANY = 1.0


@dataclass(frozen=True)
class Pixels:
    """Images side by side, as bytes."""

    shape: tuple[int, ...]
    base64: str


@dataclass(frozen=True)
class Picture:
    name: str
    right: bool
    rows: tuple[Pixels, ...]


@dataclass(frozen=True, kw_only=True)
class Interpolation(Pairs):
    """With how many images between pairs of one pattern have another class."""

    interpolants: int
    changed: int


@dataclass(frozen=True, kw_only=True)
class Pictured(Interpolation):
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True)
class Mixed(Verdicts):
    """How many mixtures of groups that share a pattern and a class have another class; verdicts of random groups."""

    accuracy: float
    groups: int
    mixtures: int
    convex_changed: int
    conic_changed: int


@on_test_images
def interpolation(record: Record, model: nn.Module, test: Split, options: Options) -> Pictured:
    """Every network: its accuracy, pairs of equal patterns and their interpolants, and certificates of random pairs."""
    x, y, predicted = classified(model.cpu(), test)
    drawn, mixed = (Generator().manual_seed(record.seed) for _ in range(2))
    alike = pairs_of_equal_pattern(model, x, predicted, options["interpolated"], mixed)
    return Pictured(
        **vars(examine(model, x, y, predicted, options["pairs"], drawn)),
        interpolants=STEPS * len(alike),
        changed=count_changed(model, x, predicted, list(alike), [between(STEPS)] * len(alike)),
        pictures=_pictures(record.recipe.name, x, predicted == y, alike),
    )


def measure_pairs(setting: Setting, work: Work) -> Measured:
    """Rows of :func:`interpolation`, and pictures of the first seed without biases."""
    rows = interpolation(setting, work)["rows"]
    shown = ("zero_bias", setting.recipes[0].seeds[0])
    pictures = [one for row in rows for one in row["pictures"] if (row["neuron"], row["seed"]) == shown]
    kept = [{name: value for name, value in row.items() if name != "pictures"} for row in rows]
    return {"rows": kept, "pictures": pictures}


@on_test_images
def regions(record: Record, model: nn.Module, test: Split, options: Options) -> Mixed:
    """Every network: random mixtures of groups that share a pattern and a class, and certificates for random groups.

    ``options``: ``mixtures`` per group, ``groups`` to mix, ``certificates`` to try, ``points`` in each, ``cone`` or not.
    """
    x, y, predicted = classified(model.cpu(), test)
    alike = groups_of_equal_pattern(model, x, predicted, options["groups"])
    generator = Generator().manual_seed(record.seed)
    changed = []
    for cone in (False, True):
        weights = [random_weights(options["mixtures"], len(group), generator, cone=cone) for group in alike]
        changed.append(count_changed(model, x, predicted, alike, weights))
    certify, budget = certify_cone if options["cone"] else certify_hull, Budget(bounds=options["bounds"])
    chosen = [_random_group(y, predicted, options["points"], generator) for _ in range(options["certificates"])]
    verdicts = [certify(model, x[group], budget=budget).verdict for group in chosen]
    return Mixed(
        accuracy=record.metrics["accuracy"],
        groups=len(alike),
        mixtures=options["mixtures"] * len(alike),
        convex_changed=changed[0],
        conic_changed=changed[1],
        **vars(counts(verdicts)),
    )


def pairs_of_equal_pattern(model: nn.Module, x: Tensor, predicted: Tensor, count: int, generator: Generator) -> Tensor:
    """``count`` random pairs with one pattern and one predicted class, less those whose images are the same."""
    every = torch.ones_like(predicted, dtype=torch.bool)
    pairs = torch.stack(same_class_pairs(kinds(model, x, predicted), every, count, generator), 1)
    return pairs[(x[pairs[:, 0]] != x[pairs[:, 1]]).flatten(1).any(1)]


def groups_of_equal_pattern(model: nn.Module, x: Tensor, predicted: Tensor, count: int) -> list[Tensor]:
    """The largest groups of three or more inputs with one pattern and one predicted class."""
    numbers = kinds(model, x, predicted)
    found, sizes = numbers.unique(return_counts=True)
    alike = [(numbers == kind).nonzero().flatten() for kind in found[sizes >= 3]]
    return sorted(alike, key=len, reverse=True)[:count]


def _random_group(y: Tensor, predicted: Tensor, points: int, generator: Generator) -> Tensor:
    """Places of images of one class, all classified right, whatever their patterns."""
    right = (predicted == y).nonzero().flatten()
    label = y[right[int(torch.randint(len(right), (), generator=generator))]]
    members = right[y[right] == label]
    return members[torch.randperm(len(members), generator=generator)[:points]]


def between(steps: int) -> Tensor:
    """Weights of evenly spaced images between two."""
    t = torch.linspace(0, 1, steps)
    return torch.stack([1 - t, t], 1)


def random_weights(count: int, members: int, generator: Generator, *, cone: bool) -> Tensor:
    """Of ``count`` mixtures, one row each: non-negative ones, or convex ones, which are uniform in the simplex."""
    uniform = torch.rand(count, members, generator=generator)
    if cone:
        return 10 ** (SPAN * (2 * uniform - 1))
    weights = -(1 - uniform).log()
    return weights / weights.sum(1, keepdim=True)


def mixtures(x: Tensor, group: Tensor, weights: Tensor) -> Tensor:
    """Mixtures of the images of a group, one for each row of ``weights``."""
    return (weights @ x[group].flatten(1)).view(len(weights), *x.shape[1:])


def count_changed(model: nn.Module, x: Tensor, predicted: Tensor, groups: list[Tensor], weights: list[Tensor]) -> int:
    """How many mixtures have another class than the members of their group."""
    different = 0
    for group, own in zip(groups, weights, strict=True):
        different += int((outputs(model, mixtures(x, group, own)).argmax(1).cpu() != predicted[group[0]]).sum())
    return different


def _pictures(name: str, x: Tensor, right: Tensor, pairs: Tensor) -> tuple[Picture, ...]:
    """Pairs both classified right (Figure 7), and both wrong (Figure 8): up to three, with five images between, as bytes."""
    # Pairs that look most different first: those are worth a picture.
    pairs = pairs[(x[pairs[:, 0]] - x[pairs[:, 1]]).flatten(1).norm(dim=1).argsort(descending=True, stable=True)]
    pictures: list[Picture] = []
    for wanted in (True, False):
        own = pairs[(right[pairs] == wanted).all(1)][:3]
        pixels = [(mixtures(x, pair, between(7)) * 255).round().clamp(0, 255).to(torch.uint8).numpy() for pair in own]
        rows = tuple(Pixels(row.shape, b64encode(row.tobytes()).decode()) for row in pixels)
        pictures += [Picture(name, wanted, rows)] if rows else []
    return tuple(pictures)


def _keep_the_class(
    kind: type[Interpolation | Mixed], changed: str, count: str, neurons: Sequence[str], result: Result
) -> Evidence:
    """No mixture has another class than its images in networks of these ``neurons``; the numbers are of all neurons."""
    items, against, numbers = 0, 0, []
    for (neuron,), own in groups(runs_of(kind, result), "neuron").items():
        different, every = ([getattr(row.found, key) for row in own] for key in (changed, count))
        networks = f"{sum(number > 0 for number in every)} of {len(own)} networks"
        numbers.append(f"{neuron} {sum(different):,} of {sum(every):,} differ, in {networks}")
        if neuron in neurons:
            items, against = items + sum(every), against + sum(different)
    return Evidence(items, against, "; ".join(numbers))


def _guaranteed_with_biases(result: Result) -> Evidence:
    """That all mixtures keep the class contradicts that such guarantees hardly exist."""
    kept = _keep_the_class(Mixed, "convex_changed", "mixtures", ["standard"], result)
    return replace(kept, against=0 if kept.against else kept.items)


def _shares(text: str, chosen: Callable[[Run[Pairs]], bool], low: float, high: float) -> Fact:
    """Pairs of one pattern are more than ``low`` and at most ``high`` percent of all in each of the ``chosen`` networks."""

    def evidence(result: Result) -> Evidence | None:
        rows = list(filter(chosen, runs_of(Pairs, result)))
        if not rows:
            return None
        shares = [100 * row.found.same_pattern.count / max(1, row.found.same_pattern.total) for row in rows]
        right = [100 * row.found.accuracy for row in rows]
        numbers = f"percent of all pairs of one class {spread(shares, '.2g')}; "
        numbers += f"accuracy of the {len(rows)} networks {spread(right, '.1f')}"
        return Evidence(len(rows), sum(not low < share <= high for share in shares), numbers)

    return Fact(text, evidence)


def _largest(result: Result) -> list[Run[Verdicts]]:
    """The rows of the largest network for each set of data."""
    last = {recipe["data"]: recipe["name"] for recipe in result["recipes"]}
    return [row for row in runs_of(Verdicts, result) if row.name in last.values()]


def _changed(head: str, changed: str, count: str = "mixtures") -> Column:
    return Column(head, lambda row: f"{getattr(row.found, changed):,}/{getattr(row.found, count):,}")


OF_PAIRS = (*RUN, count("equal patterns", "same_pattern"), _changed("interpolants changed", "changed", "interpolants"))
MIXED = _changed("convex changed", "convex_changed"), _changed("conic changed", "conic_changed")
OF_GROUPS = (*RUN, Column("groups", at("found", "groups")), *MIXED)


def figures(result: Result) -> list[Figure]:
    """The paper's grid of images: the outer ones are real, those between are mixtures."""
    drawings = []
    for picture in records_of(Picture, result, "pictures"):
        title = f"{picture.name}, classified {'right' if picture.right else 'wrong'}"
        images = [np.frombuffer(b64decode(row.base64), np.uint8).reshape(row.shape) for row in picture.rows]
        # With a white line between images.
        lined = [np.pad(row, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=255) for row in images]
        with blank(f"{result['reproduction']}-{title}") as sheet:
            grid = np.vstack([np.hstack(list(row.transpose(0, 2, 3, 1))) for row in lined])
            sheet.axes.imshow(grid, cmap="gray", interpolation="nearest")
            sheet.axes.axis("off")
        caption = "Left and right: test images of one activation pattern and predicted class. Between: their mixtures."
        drawings.append(Figure(sheet.svg, title, caption))
    return drawings


TINY = replace(MNIST_FCN, name="MNIST, 30 units", widths=(10, 10, 10), epochs=1, batch_size=128, probes=())
TINY = replace(TINY, optim="adam", lr=1e-3)
WIDE = replace(TINY, name="MNIST, 128-128 units", widths=(128, 128), epochs=5)
GROWING = (TINY, replace(TINY, name="MNIST, 64 units", widths=(64,), epochs=3), WIDE)
TINY_CIFAR = replace(TINY, name="CIFAR-10, 30 units", data="cifar10", widths=(15, 15), lr=3e-4, epochs=2)
ALL = both(*GROWING, TINY_CIFAR, replace(WIDE, name="CIFAR-10, 128-128 units", data="cifar10"))
OF_PAIRS_AT = [{"pairs": pairs, "interpolated": some} for pairs, some in ((20, 3), (2000, 200), (10_000, 1000))]
THEOREM_2 = "Theorem 2: between inputs of one activation pattern and class the class does not change"
THEOREM_3 = "Theorem 3: convex combinations of inputs of one pattern and class keep the class"
CONIC = "Without biases non-negative combinations of inputs of one pattern and class keep it too"
INTERPOLATION = Reproduction(
    name="zero_bias/interpolation",
    title="Images between images: equal patterns, interpolants and proofs",
    where="Theorem 2 (3 in the workshop version), Section 3, Figures 3, 7 and 8",
    scales=settings((both(smoke(TINY)), ALL), OF_PAIRS_AT),
    measure=measure_pairs,
    claims=(
        Fact(THEOREM_2, partial(_keep_the_class, Interpolation, "changed", "interpolants", BOTH)),
        _shares("With 30 units many pairs of one pattern are found", lambda row: "30 units" in row.name, MANY, 100),
        _shares(
            "Around 80% accuracy a few pairs are still found", lambda row: 0.75 <= row.found.accuracy <= 0.9, 0, MANY
        ),
        _shares("Over 90% accuracy no pairs are found", lambda row: row.found.accuracy > 0.9, -inf, 0),
        proved("Such guarantees are rare in larger and more accurate networks", "random pairs", Below(MOST), _largest),
    ),
    tables=one_table((*OF_PAIRS, *PROVED), rows=partial(runs_of, Interpolation)),
    figures=figures,
    criteria=(
        f"Many pairs are more than {MANY:g}% of all with one predicted class, few are some and no more. Guarantees are rare "
        f"if less than {MOST:g}% of random pairs of one class, both classified right, are proved to keep it between."
    ),
    departs=(
        "The paper gives neither depth nor training of its networks and looks at equal patterns only. On MNIST its 30 "
        "units are 32% right, ours 82 to 87%; so ours of around 80% are smaller. Of each network up to 200 random pairs of "
        "one pattern are interpolated. On CIFAR-10 three layers of 10 die without biases (two of three seeds), so there "
        "are two of 15. Pool winners are part of a pattern: without them the theorem is false."
    ),
)
GROUPS = {"groups": 100, "mixtures": 200, "certificates": 60, "points": 4, "bounds": 2000, "cone": False}
FEW_GROUPS = GROUPS | {"groups": 5, "mixtures": 20, "certificates": 3, "bounds": 200}
MANY_GROUPS = GROUPS | {"groups": 1000, "mixtures": 1000, "certificates": 500, "bounds": 20_000}
CONVEX_REGION = Reproduction(
    name="zero_bias/convex_region",
    title="Convex mixtures of several images",
    where="Theorem 3 (4 in the workshop version)",
    scales=settings((both(smoke(TINY)), both(*GROWING)), (FEW_GROUPS, GROUPS, MANY_GROUPS)),
    measure=regions,
    claims=(
        Fact(THEOREM_3, partial(_keep_the_class, Mixed, "convex_changed", "mixtures", ["zero_bias"])),
        Fact("Such guarantees hardly exist in networks with biases (Theorem 3)", _guaranteed_with_biases),
    ),
    tables=one_table((*OF_GROUPS, *PROVED), rows=partial(runs_of, Mixed)),
    criteria="One mixture of another class refutes the theorem; with biases the guarantee exists if there is none.",
    departs="The paper proves it and shows no numbers; biased networks stand beside, where convexity holds as well.",
)
CONE = replace(
    CONVEX_REGION,
    name="zero_bias/cone",
    title="Non-negative mixtures of several images",
    where="beyond Theorem 3",
    scales={scale: replace(one, options={**one.options, "cone": True}) for scale, one in CONVEX_REGION.scales.items()},
    claims=[
        Fact(CONIC, partial(_keep_the_class, Mixed, "conic_changed", "mixtures", ["zero_bias"]), beyond_paper=True)
    ],
    criteria=f"Weights of random combinations are up to {10 ** (2 * SPAN):,.0f} to 1.",
    departs=(
        "Not in the paper: without biases its convex region is a cone. A cone is certified by its hull and by scores that "
        "scale with the image, so biased networks, which have no cone, stand in the table as open."
    ),
)
MIXTURES = (INTERPOLATION, CONVEX_REGION, CONE)
