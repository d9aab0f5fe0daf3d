"""Theorem 3: mixtures of several images, convex ones and, without biases, all non-negative ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify import Budget, certify_cone, certify_hull
from neuronal.data import load
from neuronal.experiments import Recipe, Record, Share, Work
from neuronal.geometry import group_by_pattern, outputs
from neuronal.report import Column, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Above, Case, Claim, Evidence, Fact, Result
from neuronal_papers.studies.pairs import MOST, certified
from neuronal_papers.tuning import measured
from neuronal_papers.zero_bias.interpolation import GROWING, TINY
from neuronal_papers.zero_bias.networks import both, smoke

SPAN = 3.0
"""Weights of non-negative combinations are powers of ten from minus this to this."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network: random mixtures of groups that share a pattern and a class, and certificates for random groups.

    ``options``: ``mixtures`` per group, ``groups`` to mix, ``certificates`` to try, ``points`` in each, ``cone`` or not.
    """
    options = setting.options

    def mixed(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe, seed = record.recipe, record.seed
        work.say(f"mixtures of {recipe.name}, {recipe.family}, seed {seed}")
        test = load(recipe.data).scaled(recipe.scaling).test
        x, y = test.x, test.y
        predicted = outputs(model, x).argmax(1).cpu()
        groups = groups_of_equal_pattern(model, x, predicted, options["groups"])
        generator = torch.Generator().manual_seed(seed)
        convex = mixtures_that_differ(model, x, predicted, groups, options["mixtures"], generator, cone=False)
        conic = mixtures_that_differ(model, x, predicted, groups, options["mixtures"], generator, cone=True)
        verdicts = _certified(model, x, y, predicted, options, generator)
        return {
            "accuracy": record.metrics["accuracy"],
            "groups": len(groups),
            "largest_group": max(map(len, groups), default=0),
            "mixtures": options["mixtures"] * len(groups),
            "convex_changed": convex,
            "conic_changed": conic,
            "certified": Share(verdicts.count("certified"), len(verdicts)).to_json(),
            "refuted": verdicts.count("refuted"),
            "unknown": verdicts.count("unknown"),
        }

    rows = measured(setting, work, "regions", mixed)
    return {"rows": rows, "cone": options["cone"], "points": options["points"]}


def groups_of_equal_pattern(model: nn.Module, x: Tensor, predicted: Tensor, count: int) -> list[Tensor]:
    """The largest groups of three or more inputs with one pattern and one predicted class."""
    found = []
    for group in group_by_pattern(model, x):
        members = torch.as_tensor(group)
        found += [members[predicted[members] == label] for label in predicted[members].unique()]
    large = [group for group in found if len(group) >= 3]
    return sorted(large, key=len, reverse=True)[:count]


def mixtures_that_differ(
    model: nn.Module,
    x: Tensor,
    predicted: Tensor,
    groups: Sequence[Tensor],
    count: int,
    generator: torch.Generator,
    *,
    cone: bool,
) -> int:
    """How many of ``count`` random mixtures of each group have another class than its members."""
    different = 0
    for group in groups:
        weights = torch.rand(count, len(group), generator=generator)
        weights = 10 ** (SPAN * (2 * weights - 1)) if cone else -(1 - weights).log()
        if not cone:
            weights = weights / weights.sum(1, keepdim=True)
        mixed = (weights @ x[group].flatten(1)).view(count, *x.shape[1:])
        different += int((outputs(model, mixed).argmax(1).cpu() != predicted[group[0]]).sum())
    return different


def _certified(
    model: nn.Module, x: Tensor, y: Tensor, predicted: Tensor, options: Mapping[str, Any], generator: torch.Generator
) -> list[str]:
    """Verdicts for random groups of one class, all classified right, whatever their patterns."""
    certify = certify_cone if options["cone"] else certify_hull
    right = (predicted == y).nonzero().flatten()
    verdicts: list[str] = []
    while len(verdicts) < options["certificates"]:
        label = y[right[int(torch.randint(len(right), (), generator=generator))]]
        members = right[y[right] == label]
        chosen = members[torch.randperm(len(members), generator=generator)[: options["points"]]]
        verdicts.append(certify(model, x[chosen], budget=Budget(bounds=options["bounds"])).verdict)
    return verdicts


# What the claims are about


def _mixed(result: Result, neuron: str) -> tuple[list[Mapping[str, Any]], str]:
    """The networks of a neuron in which there are groups to mix, and how many mixtures had another class."""
    own = [row for row in result["result"]["rows"] if row["neuron"] == neuron]
    rows = [row for row in own if row["mixtures"]]
    kind = "conic" if result["result"]["cone"] else "convex"
    changed, count = sum(row[f"{kind}_changed"] for row in rows), sum(row["mixtures"] for row in rows)
    return (
        rows,
        f"{changed:,} of {count:,} random ones differ; groups of one pattern in {len(rows)} of {len(own)} networks",
    )


def _keep_the_class(result: Result) -> Evidence:
    rows, numbers = _mixed(result, "zero_bias")
    kind = "conic" if result["result"]["cone"] else "convex"
    return Evidence(sum(row["mixtures"] for row in rows), sum(row[f"{kind}_changed"] for row in rows), numbers)


def _guaranteed_with_biases(result: Result) -> Evidence:
    """Biased networks with groups whose mixtures all keep the class contradict that such guarantees hardly exist."""
    rows, numbers = _mixed(result, "standard")
    return Evidence(len(rows), sum(not row["convex_changed"] for row in rows), numbers)


def _cone_left_with_biases(result: Result) -> Evidence:
    """That none was found in a network is no proof that there is none."""
    rows, numbers = _mixed(result, "standard")
    return Evidence(len(rows), 0, numbers, undecided=sum(not row["conic_changed"] for row in rows))


def _proved(result: Result) -> list[Case]:
    """Percent of random groups that are certified; of cones without biases only, as certificates need scores that scale."""
    cone = result["result"]["cone"]
    return certified([row for row in result["result"]["rows"] if row["neuron"] == "zero_bias" or not cone])


COLUMNS = (
    Column("network", "name", is_text=True),
    Column("neuron", "neuron", is_text=True),
    Column("seed", "seed"),
    Column("accuracy (%)", lambda row: 100 * row["accuracy"], ".1f"),
    Column("groups", "groups"),
    Column("convex changed", lambda row: f"{row['convex_changed']:,}/{row['mixtures']:,}"),
    Column("conic changed", lambda row: f"{row['conic_changed']:,}/{row['mixtures']:,}"),
    Column("certified", lambda row: f"{row['certified']['count']}/{row['certified']['total']}"),
    Column("refuted", "refuted"),
    Column("open", "unknown"),
)


def tables(result: Result) -> list[Table]:
    return [table(title_of(result), COLUMNS, result["result"]["rows"])]


def _most(what: str) -> Claim:
    text = f"Most {what} of 4 random inputs of one class can be certified, whatever their patterns"
    return Claim(text, _proved, Above(MOST), unit=f"% of {what}", digits=".1f", beyond_paper=True)


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
        Fact("Theorem 3: convex combinations of inputs of one pattern and class keep the class", _keep_the_class),
        Fact("Such guarantees hardly exist in networks with biases (Theorem 3)", _guaranteed_with_biases),
        _most("hulls"),
    ),
    tables=tables,
    criteria=(
        "One mixture of another class would refute the theorem. With biases the same guarantee exists in a network if it "
        f"has inputs of one pattern and class, and no mixture has another class. Most is more than {MOST:g}%."
    ),
    departs="The paper proves it and shows no numbers; biased networks stand beside, where convexity holds as well.",
)
CONE = Reproduction(
    name="zero_bias/cone",
    title="Non-negative mixtures of several images",
    where="beyond Theorem 3",
    scales={
        scale: replace(setting, options={**setting.options, "cone": True})
        for scale, setting in CONVEX_REGION.scales.items()
    },
    measure=measure,
    claims=(
        Fact(
            "Without biases non-negative combinations of inputs of one pattern and class keep it too",
            _keep_the_class,
            beyond_paper=True,
        ),
        Fact(
            "With biases some non-negative combination of them leaves the class",
            _cone_left_with_biases,
            beyond_paper=True,
        ),
        _most("cones"),
    ),
    tables=tables,
    criteria=(
        f"Weights of random combinations are up to {10 ** (2 * SPAN):,.0f} to 1. With biases one combination of another "
        f"class is looked for in every network. Most is more than {MOST:g}%."
    ),
    departs=(
        "Not in the paper: without biases its convex region is a cone, which biased networks do not have. A cone is "
        "certified by its hull and by scores that scale with the image, so biased networks have no such certificate and "
        "stand in the table as open."
    ),
)
