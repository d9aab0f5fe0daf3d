"""Images between two images: pairs of one activation pattern, and what certificates prove (Figures 3, 7 and 8)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.data.catalogue import load
from neuronal.experiments.audit import same_class_pairs
from neuronal.experiments.compare import Share
from neuronal.experiments.pairs import examine
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.pattern import group_by_pattern
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.record import Record
    from neuronal.experiments.work import Work

STEPS = 1000
"""Interpolants per pair, as in the paper."""
MANY = 0.01
"""Pairs of equal patterns that are a larger share of all of one class are called many; the paper gives no number."""
JUDGED = (
    f"Many pairs are more than {MANY:.0%} of all with one predicted class, few are some and no more. Guarantees are neither "
    "rare nor hardly there if exact methods prove most of random pairs of one class, both classified right, to have it all "
    "the way between. Intervals are Wilson's at 95%, over the pairs of these networks; they say nothing of other trainings."
)
ROWS = 3
"""Pairs in a picture."""
SHOWN = 7
"""Images in a row of the picture, both ends included."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network: its accuracy, pairs of equal patterns and their interpolants, and certificates of random pairs."""
    options = setting.options

    def looked_at(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe, seed = record.recipe, record.seed
        work.say(f"pairs of {recipe.name}, {recipe.family}, seed {seed}")
        found = examine(model, recipe, recipe.family, seed, pairs=options["pairs"], crossings=options["crossings"])
        test = load(recipe.data).scaled(recipe.scaling).test
        x = test.x
        predicted = outputs(model, x).argmax(1).cpu()
        count = min(options["interpolated"], found.same_pattern.count)
        alike = pairs_of_equal_pattern(model, x, predicted, count, torch.Generator().manual_seed(seed))
        row = {
            "accuracy": record.metrics["accuracy"],
            "same_pattern": found.same_pattern.to_json(),
            "interpolated": len(alike),
            "interpolants": STEPS * len(alike),
            "changed": interpolants_that_differ(model, x, predicted, alike),
            "certified": found.certified.to_json(),
            "refuted": found.refuted,
            "unknown": found.unknown,
            "crossing": found.crossing.to_json(),
        }
        return {"row": row, "pictures": _pictures(x, predicted == test.y, alike)}

    made = iter(work.rows(setting.recipes, {"procedure": "interpolation", **options}, looked_at))
    rows, pictures = [], []
    for recipe in setting.recipes:
        for seed in recipe.seeds:
            one = next(made)
            named = {"name": recipe.name, "neuron": recipe.family, "seed": seed, "data": recipe.data}
            rows.append(named | one["row"])
            if recipe.family == "zero_bias" and seed == recipe.seeds[0]:
                pictures += [{"name": recipe.name, **picture} for picture in one["pictures"]]
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


def _pictures(x: Tensor, right: Tensor, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Pairs both classified right (Figure 7), and pairs both classified wrong (Figure 8), where there are any."""
    found = []
    for wanted in (True, False):
        chosen = [(i, j) for i, j in pairs if bool(right[i]) == bool(right[j]) == wanted]
        if chosen:
            rows = [_row(x[i], x[j]) for i, j in _apart(x, chosen)[:ROWS]]
            found.append({"right": wanted, "rows": rows})
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
                f"{wrong} of {count:,} interpolants differ, zero-bias and biased networks alike ({_networks(checked)})",
            )
        )
    found += _equal_patterns(rows, answer["recipes"])
    found += _larger(rows)
    found += _without_biases(rows)
    if len(rows) < len(every):
        dead = ", ".join(f"{r['name']} ({r['neuron']}, seed {r['seed']})" for r in every if r not in rows)
        found.append(
            Finding("Networks of this size train", "reproduced in part", f"these died and do not count: {dead}")
        )
    return found


def _equal_patterns(rows: Sequence[Mapping[str, Any]], recipes: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """The paper's three sizes: 30 units, networks of around 80%, and of over 90%."""
    units = {(recipe["name"], recipe["family"]): sum(recipe["widths"]) for recipe in recipes}
    found = []
    if small := [row for row in rows if units[row["name"], row["neuron"]] == 30]:
        many = sum(_share(row) > MANY for row in small)
        found.append(
            Finding(
                "In networks of 30 units (32.27% right on MNIST, 29.6% on CIFAR-10) many pairs of one pattern are found",
                "reproduced" if many == len(small) else "reproduced in part" if many else "not reproduced",
                f"{_span(small)}; these networks are {_accuracies(small)} right",
            )
        )
    if middle := [row for row in rows if 0.75 <= row["accuracy"] <= 0.9]:
        some = all(row["same_pattern"]["count"] for row in middle)
        few = some and max(map(_share, middle)) <= MANY
        found.append(
            Finding(
                "In networks of around 80% a few pairs are still found",
                "reproduced" if few else "reproduced in part" if some else "not reproduced",
                f"{'a few' if few else 'many, not a few' if some else 'not in all'}: {_span(middle)}",
            )
        )
    if best := [row for row in rows if row["accuracy"] > 0.9]:
        have = [row for row in best if row["same_pattern"]["count"]]
        numbers = f"none in {len(best) - len(have)} of {_networks(best)}"
        if have:
            most = max(have, key=_share)
            numbers += (
                f"; up to {most['same_pattern']['count']:,} of {most['same_pattern']['total']:,} in the others, "
                f"in {most['name']} of {100 * most['accuracy']:.1f}%"
            )
        found.append(
            Finding(
                "In networks of over 90% no pairs are found",
                "reproduced" if not have else "reproduced in part" if len(have) < len(best) else "not reproduced",
                numbers,
            )
        )
    return found


def _share(row: Mapping[str, Any]) -> float:
    return float(row["same_pattern"]["count"] / max(1, row["same_pattern"]["total"]))


def _span(rows: Sequence[Mapping[str, Any]]) -> str:
    counts, shares = [row["same_pattern"]["count"] for row in rows], [100 * _share(row) for row in rows]
    return f"{min(counts):,} to {max(counts):,} ({min(shares):.2g} to {max(shares):.2g}%) in {_networks(rows)}"


def _networks(rows: Sequence[Mapping[str, Any]]) -> str:
    seeds = len({row["seed"] for row in rows})
    return f"{len(rows)} network{'' if len(rows) == 1 else 's'}, {seeds} seed{'' if seeds == 1 else 's'}"


def _accuracies(rows: Sequence[Mapping[str, Any]]) -> str:
    spans = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [100 * row["accuracy"] for row in rows if row["data"] == data]
        spans.append(f"{min(own):.1f} to {max(own):.1f}% on {data}")
    return " and ".join(spans)


def _larger(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Proofs by other means than equal patterns, from the least accurate network of a dataset to the most."""
    spans, shares = [], []
    for data in dict.fromkeys(row["data"] for row in rows):
        names = dict.fromkeys(row["name"] for row in rows if row["data"] == data)
        own = [_total(row["certified"] for row in rows if row["name"] == name) for name in names]
        shares.append(own[-1])
        spans.append(" to ".join(_proved(share) for share in (own[0], own[-1])[: len(own)]) + f" on {data}")
    return [
        Finding(
            "Such guarantees are rarely identified in larger and more accurate networks",
            "not true as stated" if all(share.interval[0] > 0.5 for share in shares) else "reproduced",
            f"equal patterns are, guarantees are not: proved of random pairs of one class, from the smallest to the largest "
            f"network, {'; '.join(spans)}",
        )
    ]


def _proved(share: Share) -> str:
    low, high = share.interval
    return f"{100 * share.count / max(1, share.total):.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def _without_biases(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    shares = {
        neuron: _total(row["certified"] for row in rows if row["neuron"] == neuron)
        for neuron in ("zero_bias", "standard")
    }
    if not all(share.total for share in shares.values()):
        return []
    numbers = "; ".join(f"{name} {_proved(share)}" for name, share in shares.items())
    return [
        Finding(
            "Such guarantees hardly exist in networks with biases",
            "not true as stated" if shares["standard"].interval[0] > 0.5 else "reproduced",
            f"proved of random pairs of one class: {numbers} ({_networks(rows)})",
        )
    ]


def _total(shares: Any) -> Share:
    many = list(shares)
    return Share(sum(s["count"] for s in many), sum(s["total"] for s in many))
