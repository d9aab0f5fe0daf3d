"""Theorem 3: mixtures of several images, convex ones and, without biases, all non-negative ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify import Budget, certify_cone, certify_hull
from neuronal.experiments import Recipe, Record, Work
from neuronal.report import Column
from neuronal_papers.core import Reproduction, Setting, one_table
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import Row
from neuronal_papers.studies.pairs import PROVED, RUN, classified, counts, kinds
from neuronal_papers.tuning import measured
from neuronal_papers.zero_bias.interpolation import GROWING, TINY, count_changed
from neuronal_papers.zero_bias.table1 import both, smoke

SPAN = 3.0
"""Weights of non-negative combinations are powers of ten from minus this to this."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network: random mixtures of groups that share a pattern and a class, and certificates for random groups.

    ``options``: ``mixtures`` per group, ``groups`` to mix, ``certificates`` to try, ``points`` in each, ``cone`` or not.
    """
    options = setting.options

    def mixed(record: Record, model: nn.Module) -> dict[str, Any]:
        work.say(f"mixtures of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        x, y, predicted = classified(model, record.recipe)
        groups = groups_of_equal_pattern(model, x, predicted, options["groups"])
        generator = torch.Generator().manual_seed(record.seed)
        changed = {}
        for kind, cone in (("convex", False), ("conic", True)):
            weights = [random_weights(options["mixtures"], len(group), generator, cone=cone) for group in groups]
            changed[f"{kind}_changed"] = count_changed(model, x, predicted, groups, weights)
        certify, budget = certify_cone if options["cone"] else certify_hull, Budget(bounds=options["bounds"])
        chosen = [_random_group(y, predicted, options["points"], generator) for _ in range(options["certificates"])]
        return {
            "accuracy": record.metrics["accuracy"],
            "groups": len(groups),
            "mixtures": options["mixtures"] * len(groups),
            **changed,
            **counts([certify(model, x[group], budget=budget).verdict for group in chosen]),
        }

    return {"rows": measured(setting, work, "regions", mixed)}


def groups_of_equal_pattern(model: nn.Module, x: Tensor, predicted: Tensor, count: int) -> list[Tensor]:
    """The largest groups of three or more inputs with one pattern and one predicted class."""
    numbers = kinds(model, x, predicted)
    found, sizes = numbers.unique(return_counts=True)
    groups = [(numbers == kind).nonzero().flatten() for kind in found[sizes >= 3]]
    return sorted(groups, key=len, reverse=True)[:count]


def random_weights(count: int, members: int, generator: torch.Generator, *, cone: bool) -> Tensor:
    """Of ``count`` mixtures, one row each: non-negative ones, or convex ones, which are uniform in the simplex."""
    uniform = torch.rand(count, members, generator=generator)
    if cone:
        return 10 ** (SPAN * (2 * uniform - 1))
    weights = -(1 - uniform).log()
    return weights / weights.sum(1, keepdim=True)


def _random_group(y: Tensor, predicted: Tensor, points: int, generator: torch.Generator) -> Tensor:
    """Places of images of one class, all classified right, whatever their patterns."""
    right = (predicted == y).nonzero().flatten()
    label = y[right[int(torch.randint(len(right), (), generator=generator))]]
    members = right[y[right] == label]
    return members[torch.randperm(len(members), generator=generator)[:points]]


# What the claims are about


def _mixed(result: Result, neuron: str, changed: str) -> tuple[list[Row], str]:
    """The networks of a neuron in which there are groups to mix, and how many mixtures had another class."""
    own = [row for row in result["result"]["rows"] if row["neuron"] == neuron]
    rows = [row for row in own if row["mixtures"]]
    different, count = (sum(row[key] for row in rows) for key in (changed, "mixtures"))
    numbers = (
        f"{different:,} of {count:,} random ones differ; groups of one pattern in {len(rows)} of {len(own)} networks"
    )
    return rows, numbers


def _keep_the_class(changed: str, result: Result) -> Evidence:
    rows, numbers = _mixed(result, "zero_bias", changed)
    return Evidence(sum(row["mixtures"] for row in rows), sum(row[changed] for row in rows), numbers)


def _guaranteed_with_biases(result: Result) -> Evidence:
    """Biased networks with groups whose mixtures all keep the class contradict that such guarantees hardly exist."""
    rows, numbers = _mixed(result, "standard", "convex_changed")
    return Evidence(len(rows), sum(not row["convex_changed"] for row in rows), numbers)


def _cone_left_with_biases(result: Result) -> Evidence:
    """That none was found in a network is no proof that there is none."""
    rows, numbers = _mixed(result, "standard", "conic_changed")
    return Evidence(len(rows), 0, numbers, undecided=sum(not row["conic_changed"] for row in rows))


COLUMNS = (
    *RUN,
    Column("groups", "groups"),
    Column("convex changed", lambda row: f"{row['convex_changed']:,}/{row['mixtures']:,}"),
    Column("conic changed", lambda row: f"{row['conic_changed']:,}/{row['mixtures']:,}"),
    *PROVED,
)


def _setting(*recipes: Recipe, **options: int) -> Setting:
    return Setting(both(*recipes), {**options, "cone": False})


CONVEX_REGION = Reproduction(
    name="zero_bias/convex_region",
    title="Convex mixtures of several images",
    where="Theorem 3 (4 in the workshop version)",
    scales={
        "smoke": _setting(smoke(TINY), groups=5, mixtures=20, certificates=3, points=3, bounds=200),
        "small": _setting(*GROWING, groups=100, mixtures=200, certificates=60, points=4, bounds=2000),
        "paper": _setting(*GROWING, groups=1000, mixtures=1000, certificates=500, points=4, bounds=20_000),
    },
    measure=measure,
    claims=(
        Fact(
            "Theorem 3: convex combinations of inputs of one pattern and class keep the class",
            partial(_keep_the_class, "convex_changed"),
        ),
        Fact("Such guarantees hardly exist in networks with biases (Theorem 3)", _guaranteed_with_biases),
    ),
    tables=one_table(COLUMNS),
    criteria=(
        "One mixture of another class would refute the theorem. With biases the same guarantee exists in a network if it "
        "has inputs of one pattern and class, and no mixture has another class."
    ),
    departs="The paper proves it and shows no numbers; biased networks stand beside, where convexity holds as well.",
)
CONE = replace(
    CONVEX_REGION,
    name="zero_bias/cone",
    title="Non-negative mixtures of several images",
    where="beyond Theorem 3",
    scales={
        scale: replace(setting, options={**setting.options, "cone": True})
        for scale, setting in CONVEX_REGION.scales.items()
    },
    claims=(
        Fact(
            "Without biases non-negative combinations of inputs of one pattern and class keep it too",
            partial(_keep_the_class, "conic_changed"),
            beyond_paper=True,
        ),
        Fact(
            "With biases some non-negative combination of them leaves the class",
            _cone_left_with_biases,
            beyond_paper=True,
        ),
    ),
    criteria=(
        f"Weights of random combinations are up to {10 ** (2 * SPAN):,.0f} to 1. With biases one combination of another "
        "class is looked for in every network."
    ),
    departs=(
        "Not in the paper: without biases its convex region is a cone, which biased networks do not have. A cone is "
        "certified by its hull and by scores that scale with the image, so biased networks have no such certificate and "
        "stand in the table as open."
    ),
)
