"""Mixtures of several images: convex ones (Theorem 3) and, without biases, all non-negative ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.certify.branch import Budget
from neuronal.certify.simplex import certify_cone, certify_hull
from neuronal.data.catalogue import load
from neuronal.experiments.compare import Share
from neuronal.experiments.procedures.finding import BEYOND, Finding, seeds_said
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.pattern import group_by_pattern
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.record import Record
    from neuronal.experiments.work import Work

SPAN = 3.0
"""Weights of non-negative combinations are powers of ten from minus this to this."""
JUDGED = (
    "One mixture of another class would refute the theorem. With biases the same guarantee exists if no mixture has "
    "another class there either. Intervals are Wilson's at 95%, over random groups in these networks."
)


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

    made = iter(work.rows(setting.recipes, {"procedure": "regions", **options}, mixed))
    rows = [
        {"name": recipe.name, "neuron": recipe.family, "seed": seed, **next(made)}
        for recipe in setting.recipes
        for seed in recipe.seeds
    ]
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


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Convexity holds with biases too; only the cone is special."""
    rows, cone = answer["result"]["rows"], answer["result"]["cone"]
    found = []
    mixed = [row for row in rows if row["mixtures"]]
    for neuron in dict.fromkeys(row["neuron"] for row in mixed):
        own = [row for row in mixed if row["neuron"] == neuron]
        total = sum(row["mixtures"] for row in own)
        changed = sum(row["conic_changed" if cone else "convex_changed"] for row in own)
        numbers = f"{neuron}: {changed:,} of {total:,} random ones differ ({_networks(own)})"
        found.append(_conic(neuron, changed, numbers) if cone else _convex(neuron, changed, numbers))
    for neuron in dict.fromkeys(row["neuron"] for row in rows):
        if cone and neuron != "zero_bias":
            # The certificate of a cone asks for scores that scale with the image: there is nothing to measure.
            continue
        shares = [row["certified"] for row in rows if row["neuron"] == neuron]
        share = Share(sum(s["count"] for s in shares), sum(s["total"] for s in shares))
        found.append(_proofs(neuron, share, answer["result"]["points"], cone=cone))
    return found


def _networks(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"{len(rows)} networks, {seeds_said(len({row['seed'] for row in rows}))}"


def _convex(neuron: str, changed: int, numbers: str) -> Finding:
    if neuron != "zero_bias":
        claim = "Such guarantees hardly exist in networks with biases (Theorem 3)"
        return Finding(claim, "reproduced" if changed else "not true as stated", numbers)
    claim = "Theorem 3: convex combinations of inputs of one pattern and class keep the class"
    return Finding(claim, "not reproduced" if changed else "reproduced", numbers)


def _conic(neuron: str, changed: int, numbers: str) -> Finding:
    numbers += f"; weights over {10 ** (2 * SPAN):,.0f} to 1"
    if neuron != "zero_bias":
        claim = f"{BEYOND}with biases non-negative combinations of them need not keep the class"
        return Finding(claim, "shown" if changed else "not shown", numbers)
    claim = f"{BEYOND}without biases non-negative combinations of inputs of one pattern and class keep it too"
    return Finding(claim, "not shown" if changed else "shown", numbers)


def _proofs(neuron: str, share: Share, points: int, *, cone: bool) -> Finding:
    low, high = share.interval
    return Finding(
        f"{BEYOND}most {'cones' if cone else 'hulls'} of {points} random inputs of one class can be certified, whatever "
        "their patterns",
        "shown" if low > 0.5 else "not shown",
        f"{neuron}: {share.count} of {share.total} certified ({100 * low:.0f} to {100 * high:.0f}%)",
    )
