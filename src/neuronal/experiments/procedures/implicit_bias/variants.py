"""Kinds of one neuron beside the standard one: what each gives, what it costs per step, and where its couplings go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from torch import nn

from neuronal.attacks.ball import Ball
from neuronal.data.catalogue import load
from neuronal.data.dataset import Split
from neuronal.experiments.environment import environment
from neuronal.experiments.procedures.finding import Finding, ours
from neuronal.experiments.procedures.implicit_bias.robustness import (
    called,
    in_pairs,
    networks,
    on_the_device,
    rival_of,
    white_box,
)
from neuronal.experiments.procedures.implicit_bias.sensitivity import couplings
from neuronal.experiments.procedures.tuned import TUNING, measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import network
from neuronal.nn.families import STANDARD
from neuronal.ops.objective import loss_for, loss_of
from neuronal.train.recording import captured
from neuronal.train.timing import side_by_side

if TYPE_CHECKING:
    from neuronal.experiments.work import Work


Group = Sequence[Mapping[str, Any]]
ONCE, LEARNT = ", one iteration", ", learnt"
"""What names of kinds end with that take one iteration in the place of a solve, and of those whose coupling is learnt."""
JUDGED = "Shown if ahead in every seed, paired by number."


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: accuracy, accuracy under the white-box attack, couplings and slopes; and what steps cost.

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
            "couplings": couplings(model),
            "slopes": slopes(model),
        }

    rows = measured(setting, work, "variants", attacked)
    found = {"epsilon": options["epsilon"], "images": options["images"]}
    return {"rows": rows, "costs": step_costs(setting, work), **found}


def step_costs(setting: Setting, work: Work) -> list[dict[str, Any]]:
    """What forward and backward of every other kind cost, as trained, beside the standard neuron: see :class:`StepTime`.

    Of one seed each, on the machine that measures: how long a training took says little where others ran beside it.
    """
    kinds = tuple(replace(one, seeds=one.seeds[:1]) for one in setting.recipes if one.family != STANDARD.name)
    tuning = {name: value for name, value in setting.options.items() if name in TUNING}
    facts = environment()
    machine = facts["gpu"] if facts["gpu"] != "none" else facts["processor"]

    def timed(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe = record.recipe
        work.say(f"time of a step of {recipe.name}, {recipe.family}")
        data = load(recipe.data).scaled(recipe.scaling)
        standard = network(replace(recipe, family=STANDARD.name, neuron_options=()), data, record.seed)
        both = {"standard": on_the_device(standard), "own": on_the_device(model)}
        device = next(model.parameters()).device
        batch = data.train.rows(slice(recipe.batch_size)).to(device)
        steps = {name: _step(one.train(), batch) for name, one in both.items()}
        if recipe.replay:
            steps = {name: captured(step, device) for name, step in steps.items()}
        times = side_by_side(steps, "standard", rounds=40, warmup=5, cuda=device.type == "cuda")
        return {**asdict(times["own"]), "machine": machine}

    work.alone()
    # What was timed on another machine is not taken for this one's.
    how = Setting(kinds, {**tuning, "machine": machine})
    return measured(how, work, "step costs", timed)


def _step(model: nn.Module, batch: Split) -> Callable[[], None]:
    """Forward and backward over one batch."""
    x, y = batch.x, batch.y

    def once() -> None:
        model.zero_grad()
        loss_of(model(x), y, loss_for(y, "")).backward()

    return once


def slopes(model: nn.Module) -> list[float]:
    """Of every implicit-bias layer."""
    layers: list[Any] = [module for module in model.modules() if hasattr(module, "log_slope")]
    return [layer.slope.item() for layer in layers]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Every kind against the standard network of the same data, and every iteration against its solve: all of it ours."""
    groups = networks(answer["result"]["rows"])
    rivals = [(group, rival) for group in groups if (rival := rival_of(group, groups)) is not None]
    # The paper's own neuron is judged where its claims are; here it is what the other kinds are kinds of.
    kinds = [(group, rival) for group, rival in rivals if group[0]["name"] != rival[0]["name"]] or rivals
    found = []
    for group, rival in kinds:
        cost = cost_of(answer, group)
        for key, what in (("accuracy", "more accurate"), ("robust", f"more robust at {answer['result']['epsilon']:g}")):
            gaps = [a[key] - b[key] for a, b in in_pairs(group, rival)]
            numbers = f"{100 * median(gaps):+.2f} points ({100 * min(gaps):+.2f} to {100 * max(gaps):+.2f})"
            found.append(
                Finding(
                    f"{called(group, rival)}: {what} than the standard neuron",
                    "reproduced" if min(gaps) > 0 else "not reproduced",
                    "; ".join([numbers, *([f"{cost} times as long per step"] if cost else []), learnt(group)]),
                )
            )
    return [ours(one) for one in found + _iterations(answer, groups, kinds)]


def _iterations(
    answer: Mapping[str, Any], groups: Sequence[Group], kinds: Sequence[tuple[Group, Group]]
) -> list[Finding]:
    """How much of the robustness that solves give their first iteration gives."""
    found = []
    by_name = {group[0]["name"]: group for group in groups if group[0]["neuron"] != STANDARD.name}
    for group, rival in kinds:
        name = group[0]["name"].removesuffix(ONCE)
        solved = by_name.get(name.removesuffix(LEARNT)) if name != group[0]["name"] else None
        if solved:
            once, whole = (
                100 * median(a["robust"] - b["robust"] for a, b in in_pairs(one, rival)) for one in (group, solved)
            )
            behind = [a["robust"] - b["robust"] for a, b in in_pairs(group, solved)]
            found.append(
                Finding(
                    f"{name}: one iteration is as robust as a solve, within a point",
                    "reproduced" if min(behind) > -0.01 else "not reproduced",
                    f"{once:+.1f} points against the standard neuron at {answer['result']['epsilon']:g}, a solve "
                    f"{whole:+.1f} (medians over seeds); seed by seed {100 * min(behind):+.1f} to "
                    f"{100 * max(behind):+.1f} between the two",
                )
            )
    return found


def cost_of(answer: Mapping[str, Any], group: Sequence[Mapping[str, Any]]) -> str:
    """Its step against the standard one's: median and quartiles; nothing if it was not timed."""
    for one in answer["result"].get("costs", ()):
        if (one["name"], one["neuron"]) == (group[0]["name"], group[0]["neuron"]):
            return f"{one['ratio']:.2f} ({one['ratio_low']:.2f} to {one['ratio_high']:.2f})"
    return ""


def learnt(group: Sequence[Mapping[str, Any]]) -> str:
    """The range of couplings and slopes over layers and seeds."""
    values = [value for row in group for layer in row["couplings"] for value in layer]
    steep = [value for row in group for value in row["slopes"]]
    if not values:
        return "no couplings"
    return f"couplings {min(values):+.3f} to {max(values):+.3f}, slopes {min(steep):.1f} to {max(steep):.1f}"
