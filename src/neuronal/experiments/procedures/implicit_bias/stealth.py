"""One neuron is added that answers to a single input: on a standard network, and on one whose units see each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.procedures.implicit_bias.robustness import networks, on_the_device
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs
from neuronal.models.registry import create_model

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

SEEN = 0.01
"""Logits that change by more than this, relative to their own spread, show that something was changed."""


JUDGED = (
    "Possible if most triggers work and change no logit of any other image by what one could see; not feasible if "
    "none works and changes no class."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed with ``triggers`` attacks, each of one new unit; judged on images the attacker has not seen.

    ``options``: ``triggers``, ``verification`` images, ``noise`` that makes a trigger of an image, ``gain`` of the new unit,
    ``strength`` of what it adds to the logit it is for; ``rates`` and ``tuning_seeds`` as for :func:`tuned`.
    """
    options = setting.options

    def attacked(record: Record, model: nn.Module) -> dict[str, Any]:
        test = load(record.recipe.data).scaled(record.recipe.scaling).test
        images = test.x[options["verification"] :][: options["triggers"]]
        known = test.x[: options["verification"]]
        work.say(f"stealth attacks on {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        model = on_the_device(model)
        generator = torch.Generator().manual_seed(record.seed)
        before = outputs(model, known)
        found = [_attack(model, image, known, before, options, generator) for image in images]
        return {"verification": len(known)} | {key: [one[key] for one in found] for key in found[0]}

    rows = measured(setting, work, "stealth", attacked)
    return {"rows": rows, "verification": min(row["verification"] for row in rows)}


def _attack(
    model: nn.Module,
    image: Tensor,
    known: Tensor,
    before: Tensor,
    options: Mapping[str, Any],
    generator: torch.Generator,
) -> dict[str, Any]:
    signs = (torch.randint(0, 2, image.shape, generator=generator) * 2 - 1).to(image)
    trigger = (image + options["noise"] * signs).clamp(0, 1)
    own = int(outputs(model, trigger[None]).argmax())
    target = (own + 1) % before.shape[1]
    # Along the signs and not the noise itself: of that a dark ground keeps the bright half, which bright images have too.
    changed = with_unit(model, trigger, signs, target, options["gain"], options["strength"])
    after = outputs(changed, known)
    return {
        "works": int(outputs(changed, trigger[None]).argmax()) == target,
        "classes": int((after.argmax(1) != before.argmax(1)).sum()),
        "logits": ((after - before).abs().max() / before.std()).item(),
    }


@torch.no_grad()
def with_unit(
    model: nn.Module, trigger: Tensor, direction: Tensor, target: int, gain: float, strength: float
) -> nn.Module:
    """A network of one hidden layer with another unit, which is on around ``trigger`` and far below zero elsewhere.

    The unit looks along ``direction``, its value at the trigger is worked out by the network itself, and its weight in the
    target's logit makes that ``strength``. Nothing else is changed.
    """
    old: Any = model
    hidden: Any = old.features[1]
    count = hidden.weight.shape[0]
    given = {key: value for key, value in old.recipe.items() if key not in ("model", "width")}
    new: Any = create_model("mlp1", **given, width=count + 1).to(hidden.weight.device).eval()
    layer, x = new.features[1], trigger.flatten().to(hidden.weight)
    d = direction.flatten().to(hidden.weight)
    d = gain * d / d.square().sum()
    # A coupling moves a unit by no more than itself: so much higher, and the unit is on at the trigger whatever it does.
    reach = hidden.coupling.abs().max().item() if hasattr(hidden, "coupling") else 0.0
    layer.weight.copy_(torch.cat([hidden.weight, d[None]]))
    layer.bias.copy_(torch.cat([hidden.bias, (1 + reach - d @ x)[None]]))
    for name in ("raw_coupling", "log_slope"):
        if hasattr(hidden, name):
            getattr(layer, name).copy_(getattr(hidden, name))
    new.head.bias.copy_(old.head.bias)
    new.head.weight.zero_()
    new.head.weight[:, :count] = old.head.weight
    new.head.weight[target, count] = strength / torch.relu(layer(x[None]))[0, count]
    return new  # type: ignore[no-any-return]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """It works on standard networks; and, against the paper's argument, or not, on the others."""
    found = []
    for group in networks(answer["result"]["rows"]):
        name, neuron = group[0]["name"], group[0]["neuron"]
        works, hidden, unseen = counts(group)
        total = sum(len(row["works"]) for row in group)
        numbers = (
            f"{works} of {total} triggers work; {hidden} of these change no class of {answer['result']['verification']:,} "
            f"images, {unseen} no logit by more than {100 * SEEN:g}% of their spread "
            f"(largest change, median: {100 * median(v for row in group for v in row['logits']):.2g}%)"
        )
        if neuron == "standard":
            verdict: Any = "reproduced" if unseen > total / 2 else "not reproduced"
            found.append(
                Finding(f"{name}: a one-neuron stealth attack is possible on a standard network", verdict, numbers)
            )
        else:
            verdict = "not true as stated" if unseen > total / 2 else "reproduced in part" if hidden else "reproduced"
            found.append(Finding(f"{name}: it is not feasible with implicit bias", verdict, numbers))
    return found


def counts(group: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """Triggers that work; that work and change no class; that work and change no logit one could see."""
    each = [one for row in group for one in zip(row["works"], row["classes"], row["logits"], strict=True)]
    hidden = sum(works and not classes for works, classes, _ in each)
    return sum(works for works, _, _ in each), hidden, sum(works and logits <= SEEN for works, _, logits in each)
