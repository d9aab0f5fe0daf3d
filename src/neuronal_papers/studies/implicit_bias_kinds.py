"""Kinds of the implicit-bias neuron: one iteration, couplings and slopes that are learnt, and transformers of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from torch import nn

from neuronal.attacks import Ball
from neuronal.data import Split, load
from neuronal.experiments import Recipe, Record, Work, environment, network
from neuronal.ops.objective import loss_for, loss_of
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal.train import captured, side_by_side
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import LEARNT, NAMES, OVER_SEEDS, Row, at, by_network, dots, pairs, percents
from neuronal_papers.implicit_bias.jacobian import couplings
from neuronal_papers.implicit_bias.networks import ATTACK, CHOSEN, CIFAR, CUT, FEW, fixed, kind, pair, scales
from neuronal_papers.implicit_bias.white_box import on_the_device, test_images, white_box
from neuronal_papers.judge import Above, Case, Claim, Result, Within, paired
from neuronal_papers.tuning import TUNING, measured

SAME = 1.0
"""Points of accuracy under attack within which one iteration counts as as good as a solve: ten of a thousand images."""
ONCE = ", one iteration"
"""What names of kinds end with that take one iteration in the place of a solve."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: accuracy, accuracy under the white-box attack, couplings and slopes; and what steps cost.

    ``options``: ``norm``, ``epsilon``, ``images``, ``steps``, ``restarts`` and, if need be, ``batch_size``; ``rates`` and
    ``tuning_seeds`` as for :func:`neuronal_papers.tuning.tuned`.
    """
    options = setting.options
    how = {name: options[name] for name in ("steps", "restarts", "batch_size") if name in options}

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = test_images(record.recipe).rows(slice(options["images"]))
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
    """What forward and backward of every other kind cost, as trained, beside the standard neuron.

    Of one seed each, on the machine that measures: how long a training took says little where others ran beside it.
    """
    kinds = tuple(replace(one, seeds=one.seeds[:1]) for one in setting.recipes if one.family != "standard")
    tuning = {name: value for name, value in setting.options.items() if name in TUNING}
    facts = environment()
    machine = facts["gpu"] if facts["gpu"] != "none" else facts["processor"]

    def timed(record: Record, model: nn.Module) -> dict[str, Any]:
        recipe = record.recipe
        work.say(f"time of a step of {recipe.name}, {recipe.family}")
        data = load(recipe.data).scaled(recipe.scaling)
        standard = network(replace(recipe, family="standard", neuron_options=()), data, record.seed)
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


def leads(result: Result, key: str) -> list[Case]:
    """Points above the standard neuron, of every kind but the paper's own, which is judged where its claims are."""
    every = pairs(result)
    chosen = [one for one in every if one.kind != LEARNT] or every
    return [Case(one.label, one.differences(at(key)), note=one.rates()) for one in chosen]


def behind(result: Result) -> list[Case]:
    """Points under attack by which networks with one iteration are above those whose equation is solved."""
    every = pairs(result)
    found = {(one.standard["name"], one.kind): one for one in every}
    cases = []
    for (data, name), one in found.items():
        kind = name.removesuffix(ONCE)
        solved = found.get((data, LEARNT if kind == "learnt" else kind))
        if kind != name and solved:
            own, other = ({run["seed"]: run["robust"] for run in p.own["runs"]} for p in (one, solved))
            cases.append(Case(one.label.removesuffix(ONCE), paired(own, other, 100)))
    return cases


def learnt(network: Row) -> str:
    """The range of couplings and slopes over layers and seeds."""
    values = [value for run in network["runs"] for layer in run["couplings"] for value in layer]
    steep = [value for run in network["runs"] for value in run["slopes"]]
    if not values:
        return "no couplings"
    return f"couplings {min(values):+.3f} to {max(values):+.3f}, slopes {min(steep):.1f} to {max(steep):.1f}"


def tables(result: Result) -> list[Table]:
    costs = {(one["name"], one["neuron"]): one for one in result["result"].get("costs", ())}

    def cost(network: Row) -> str:
        one = costs.get((network["name"], network["neuron"]))
        return f"{one['ratio']:.2f} ({one['ratio_low']:.2f} to {one['ratio_high']:.2f})" if one else "1"

    columns = [
        *NAMES,
        percents("accuracy (%)", at("accuracy")),
        percents(f"at epsilon {result['result']['epsilon']:g} (%)", at("robust")),
        Column("couplings and slopes", learnt),
        *([Column("time of a step", cost)] if costs else []),
    ]
    timed = "; time of a step: of the first seed's network, in turn with a standard one's" * bool(costs)
    return [table(title_of(result), columns, by_network(result["result"]["rows"]), OVER_SEEDS + timed)]


def figures(result: Result) -> list[Drawing]:
    every, found = by_network(result["result"]["rows"]), []
    for data in (one["name"] for one in every if one["neuron"] == "standard"):
        with blank(f"{result['reproduction']}-{data}-kinds") as sheet:
            for number, one in enumerate(one for one in every if one["name"].startswith(data)):
                x, y = ([100 * run[key] for run in one["runs"]] for key in ("robust", "accuracy"))
                plain = "standard" if one["neuron"] == "standard" else LEARNT
                dots(sheet.axes, number, x, y, one["name"].removeprefix(data).removeprefix(", ") or plain)
            attacked = f"accuracy under attack, epsilon {result['result']['epsilon']:g} (%)"
            sheet.axes.set(xlabel=attacked, ylabel="test accuracy (%)")
            # Points are everywhere, so the names are below.
            sheet.axes.legend(fontsize=6, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        found.append(Drawing(sheet.svg, data, "Accuracy with and without attack. Every seed a point."))
    return found


def _lite(recipe: Recipe) -> tuple[Recipe, ...]:
    solved = (fixed(recipe), fixed(recipe, -0.05))
    once = (
        replace(one, name=f"{one.name}{ONCE}", neuron_options={**dict(one.neuron_options), "steps": 1})
        for one in solved
    )
    return (*pair(recipe), *solved, kind(recipe, f"learnt{ONCE}", steps=1), *once)


def _learnt(recipe: Recipe) -> tuple[Recipe, ...]:
    return (
        *pair(recipe),
        kind(recipe, "coupling per channel", per_channel=True),
        kind(recipe, "slope learnt", learn_slope=True),
        kind(recipe, "both", per_channel=True, learn_slope=True),
    )


ONE: Mapping[str, Any] = {**ATTACK, "epsilon": 0.02}
FEW_ONE: Mapping[str, Any] = {**FEW, "epsilon": 0.05}
LEADS = tuple(
    Claim(f"{words} than the standard neuron", partial(leads, key=key), Above(), beyond_paper=True)
    for key, words in (("accuracy", "More accurate"), ("robust", "More robust under a white-box attack"))
)
ALIKE = Claim("One iteration is as robust as a solve, within a point", behind, Within(SAME), beyond_paper=True)
LITE = Reproduction(
    name="implicit_bias/lite",
    title="One iteration in the place of a solve",
    where="the authors' published code",
    scales=scales(_lite, ONE, smoke=FEW_ONE, paper={"images": 10_000}),
    measure=measure,
    claims=(*LEADS, ALIKE),
    tables=tables,
    figures=figures,
    departs=f"{CHOSEN} {CUT}",
)
LEARNED = Reproduction(
    name="implicit_bias/learned",
    title="Where couplings and slopes go when they are learnt",
    where="Discussion (future work)",
    scales=scales(_learnt, ONE, smoke=FEW_ONE, paper={"images": 10_000}),
    measure=measure,
    claims=LEADS,
    tables=tables,
    figures=figures,
    departs=f"{CHOSEN} A learnt coupling cannot go beyond 0.9 / slope, which is +0.09 at slope 10. {CUT}",
)
TRANSFORMER = replace(
    CIFAR,
    name="CIFAR-10 transformer",
    model="vit_tiny",
    model_options={"depth": 6},
    optim="adamw",
    lr=5e-4,
    weight_decay=0.05,
    schedule="cosine",
    warmup=0.1,
    standard_epochs=1,
    epochs=20,
    crop=4,
    flip=True,
)
SHORT_TRANSFORMER = replace(
    TRANSFORMER,
    name="Fashion-MNIST transformer",
    data="fashion_mnist",
    model_options={"depth": 3},
    fraction=0.25,
    epochs=10,
    batch_size=256,
)
TINY_TRANSFORMER = replace(
    TRANSFORMER,
    name="digits transformer",
    data="digits",
    model_options={"depth": 1, "width": 12, "num_heads": 2},
    epochs=2,
    fraction=0.2,
    crop=0,
    flip=False,
    seeds=(0,),
)
BLOCKS: Mapping[str, Any] = {"rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,), "batch_size": 250}
TRANSFORMERS = Reproduction(
    name="implicit_bias/transformer",
    title="Implicit bias in the perceptrons of a vision transformer",
    where="Discussion (future work)",
    scales={
        "smoke": Setting(pair(TINY_TRANSFORMER), FEW_ONE),
        "small": Setting(pair(SHORT_TRANSFORMER), {**ONE, **BLOCKS}),
        "paper": Setting(pair(replace(TRANSFORMER, model_options=(), epochs=100)), {**ONE, **BLOCKS}),
    },
    measure=measure,
    claims=LEADS,
    tables=tables,
    figures=figures,
    departs=(
        "The paper suggests it and does not try. Small: Fashion-MNIST in the place of CIFAR-10 and a quarter of its "
        "training images, three blocks in the place of twelve, 10 epochs in the place of 100, batches of 256 in the "
        "place of 128."
    ),
)
