"""Images between two images: pairs of one activation pattern, and what certificates prove (Figures 3, 7 and 8)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.data.catalogue import load
from neuronal.experiments.pairs import Share, examine, same_class_pairs
from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.pattern import group_by_pattern
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

STEPS = 1000
"""Interpolants per pair, as in the paper."""
RARE = 1e-4
"""Pairs of equal patterns that are a smaller share of all are called rare, where the paper says that there are none."""
ROWS = 3
"""Pairs in a picture."""
SHOWN = 7
"""Images in a row of the picture, both ends included."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network: its accuracy, pairs of equal patterns and their interpolants, and certificates of random pairs."""
    options = setting.options
    rows, pictures = [], []
    for recipe in setting.recipes:
        for seed in recipe.seeds:
            record, model = work.network(recipe, seed)
            work.say(f"pairs of {recipe.name}, {recipe.family}, seed {seed}")
            found = examine(model, recipe, recipe.family, seed, pairs=options["pairs"], crossings=options["crossings"])
            test = load(recipe.data).scaled(recipe.scaling).test
            x = test.x
            predicted = outputs(model, x).argmax(1).cpu()
            count = min(options["interpolated"], found.same_pattern.count)
            alike = pairs_of_equal_pattern(model, x, predicted, count, torch.Generator().manual_seed(seed))
            changed = interpolants_that_differ(model, x, predicted, alike)
            rows.append(
                {
                    "name": recipe.name,
                    "neuron": recipe.family,
                    "seed": seed,
                    "data": recipe.data,
                    "accuracy": record.metrics["accuracy"],
                    "same_pattern": found.same_pattern.to_json(),
                    "interpolated": len(alike),
                    "interpolants": STEPS * len(alike),
                    "changed": changed,
                    "certified": found.certified.to_json(),
                    "refuted": found.refuted,
                    "unknown": found.unknown,
                    "crossing": found.crossing.to_json(),
                }
            )
            if recipe.family == "zero_bias" and seed == recipe.seeds[0]:
                pictures += _pictures(recipe.name, x, predicted == test.y, alike)
    return {"rows": rows, "pictures": pictures}


def pairs_of_equal_pattern(
    model: nn.Module, x: Tensor, predicted: Tensor, count: int, generator: torch.Generator
) -> list[tuple[int, int]]:
    """``count`` random pairs with one pattern and one predicted class, less those whose images are the same."""
    if not count:
        return []
    kinds = torch.empty_like(predicted)
    for number, group in enumerate(group_by_pattern(model, x)):
        kinds[torch.as_tensor(group)] = number
    # One number for each pattern and class.
    kinds = kinds * (int(predicted.max()) + 1) + predicted
    a, b = same_class_pairs(kinds, torch.ones_like(kinds, dtype=torch.bool), count, generator)
    return [(i, j) for i, j in zip(a.tolist(), b.tolist(), strict=True) if not torch.equal(x[i], x[j])]


def interpolants_that_differ(
    model: nn.Module, x: Tensor, predicted: Tensor, pairs: Sequence[tuple[int, int]], *, steps: int = STEPS
) -> int:
    """How many of ``steps`` evenly spaced images between the two of each pair have another class."""
    t = torch.linspace(0, 1, steps).view(-1, *[1] * (x.dim() - 1))
    different = 0
    for i, j in pairs:
        between = torch.lerp(x[i].expand(steps, *x.shape[1:]), x[j].expand(steps, *x.shape[1:]), t)
        different += int((outputs(model, between).argmax(1).cpu() != predicted[i]).sum())
    return different


def _pictures(name: str, x: Tensor, right: Tensor, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Pairs both classified right (Figure 7), and pairs both classified wrong (Figure 8), where there are any."""
    found = []
    for wanted in (True, False):
        chosen = [(i, j) for i, j in pairs if bool(right[i]) == bool(right[j]) == wanted]
        if chosen:
            rows = [_row(x[i], x[j]) for i, j in _apart(x, chosen)[:ROWS]]
            found.append({"name": name, "right": wanted, "rows": rows})
    return found


def _apart(x: Tensor, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs that look most different first: those are worth a picture."""
    return sorted(pairs, key=lambda pair: -(x[pair[0]] - x[pair[1]]).norm().item())


def _row(a: Tensor, b: Tensor) -> dict[str, Any]:
    """A few images from ``a`` to ``b``, as bytes in text: (images, channels, height, width)."""
    t = torch.linspace(0, 1, SHOWN).view(-1, *[1] * a.dim())
    images = torch.lerp(a.expand(SHOWN, *a.shape), b.expand(SHOWN, *b.shape), t)
    pixels = (images * 255).round().clamp(0, 255).to(torch.uint8)
    return {"shape": list(pixels.shape), "base64": b64encode(pixels.numpy().tobytes()).decode()}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Theorem 2 on equal patterns, that these die out as accuracy grows, and that proofs do not."""
    every = answer["result"]["rows"]
    # A network that died in training gives all classes the same score everywhere.
    rows = [row for row in every if row["unknown"] < row["certified"]["total"]]
    if not rows:
        return [Finding("Theorem 2", "not measured", f"all {len(every)} networks died in training")]
    checked = [row for row in rows if row["interpolants"]]
    found = []
    if checked:
        wrong = sum(row["changed"] for row in checked)
        count = sum(row["interpolants"] for row in checked)
        found.append(
            Finding(
                "Theorem 2: between inputs of one activation pattern and class the class does not change",
                "reproduced" if not wrong else "not reproduced",
                f"{wrong} of {count:,} interpolants differ, zero-bias and biased networks alike",
            )
        )
    best = [row for row in rows if row["accuracy"] > 0.9] or [max(rows, key=lambda row: row["accuracy"])]
    equal = _total(row["same_pattern"] for row in best)
    proved = _total(row["certified"] for row in best)
    lowest = min(row["accuracy"] for row in best)
    found.append(
        Finding(
            "In accurate networks no pairs of one activation pattern are found",
            _none_or_few(equal),
            f"{equal.count:,} of {equal.total:,} pairs in networks of at least {100 * lowest:.1f}%",
        )
    )
    low, high = proved.interval
    found.append(
        Finding(
            "So the guarantee is lost in accurate networks (no free lunch)",
            "not true as stated" if proved.count > 0.5 * proved.total else "reproduced",
            f"exact methods prove {100 * proved.count / max(1, proved.total):.1f}% ({100 * low:.1f} to {100 * high:.1f}) of "
            f"{proved.total:,} random pairs of one class in these networks",
        )
    )
    found += _without_biases(rows)
    if len(rows) < len(every):
        dead = ", ".join(f"{r['name']} ({r['neuron']}, seed {r['seed']})" for r in every if r not in rows)
        found.append(
            Finding("Networks of this size train", "reproduced in part", f"these died and do not count: {dead}")
        )
    return found


def _none_or_few(found: Share) -> Verdict:
    if not found.count:
        return "reproduced"
    return "reproduced in part" if found.count <= RARE * found.total else "not reproduced"


def _without_biases(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    shares = {
        neuron: _total(row["certified"] for row in rows if row["neuron"] == neuron)
        for neuron in ("zero_bias", "standard")
    }
    if not all(share.total for share in shares.values()):
        return []
    (zero_low, zero_high), (low, high) = shares["zero_bias"].interval, shares["standard"].interval
    apart = zero_low > high or zero_high < low
    numbers = "; ".join(
        f"{name} {100 * share.count / share.total:.2f}% ({100 * share.interval[0]:.2f} to {100 * share.interval[1]:.2f})"
        for name, share in shares.items()
    )
    return [
        Finding(
            "Such guarantees hardly exist in networks with biases",
            "not true as stated" if not (apart and zero_low > high) else "reproduced",
            f"certified segments: {numbers}",
        )
    ]


def _total(shares: Any) -> Share:
    many = list(shares)
    return Share(sum(s["count"] for s in many), sum(s["total"] for s in many))
