"""Kinds of one neuron beside the standard one: what each gives, what it costs per step, and where its couplings go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import nn

from neuronal.attacks.ball import Ball
from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.procedures.implicit_bias.robustness import networks, on_the_device, rival_of, white_box
from neuronal.experiments.procedures.implicit_bias.sensitivity import couplings
from neuronal.experiments.procedures.implicit_bias.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work


JUDGED = "Ahead in every seed, paired by number; in most is a part."


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: accuracy, accuracy under the white-box attack, time per step, couplings and slopes.

    ``options``: ``norm``, ``epsilon``, ``images``, ``steps``, ``restarts`` and, if need be, ``batch_size``; ``rates`` and
    ``tuning_seeds`` as for :func:`tuned`.
    """
    options = setting.options
    how = {name: options[name] for name in ("steps", "restarts", "batch_size") if name in options}

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test.rows(slice(options["images"]))
        work.say(f"attack on {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        model, ball = on_the_device(model), Ball(options["norm"], options["epsilon"])
        return {
            "accuracy": record.metrics["accuracy"],
            "robust": white_box(model, test.x, test.y, ball, **how).robust_accuracy,
            "parameters": record.metrics["parameters"],
            "step_seconds": record.step_seconds,
            "couplings": couplings(model),
            "slopes": slopes(model),
        }

    rows = measured(setting, work, "variants", attacked)
    return {"rows": rows, "epsilon": options["epsilon"], "images": options["images"]}


def slopes(model: nn.Module) -> list[float]:
    """Of every implicit-bias layer."""
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "log_slope")]
    return [layer.slope.item() for layer in layers]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Every kind against the standard network of the same data, seed by seed."""
    groups = networks(answer["result"]["rows"])
    found = []
    for group in groups:
        rival = rival_of(group, groups)
        if rival is None:
            continue
        cost = median(costs(group, rival))
        for key, what in (("accuracy", "more accurate"), ("robust", f"more robust at {answer['result']['epsilon']:g}")):
            gaps = [a[key] - b[key] for a, b in zip(group, rival, strict=False)]
            numbers = f"{100 * median(gaps):+.2f} points ({100 * min(gaps):+.2f} to {100 * max(gaps):+.2f}); "
            found.append(
                Finding(
                    f"{group[0]['name']}: {what} than the standard neuron",
                    _verdict(gaps),
                    numbers + f"{cost:.2f} times as long per step; {learnt(group)}",
                )
            )
    return found


def costs(group: Sequence[Mapping[str, Any]], rival: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds per step against those of the standard network, seed by seed."""
    return [a["step_seconds"] / b["step_seconds"] for a, b in zip(group, rival, strict=False)]


def learnt(group: Sequence[Mapping[str, Any]]) -> str:
    """The range of couplings and slopes over layers and seeds."""
    values = [value for row in group for layer in row["couplings"] for value in layer]
    steep = [value for row in group for value in row["slopes"]]
    if not values:
        return "no couplings"
    return f"couplings {min(values):+.3f} to {max(values):+.3f}, slopes {min(steep):.1f} to {max(steep):.1f}"


def _verdict(gaps: Sequence[float]) -> Any:
    ahead = sum(gap > 0 for gap in gaps)
    return "reproduced" if ahead == len(gaps) else "reproduced in part" if ahead > len(gaps) / 2 else "not reproduced"
