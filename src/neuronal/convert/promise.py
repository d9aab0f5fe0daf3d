"""Whether a converted model keeps what its neuron promises: proved where that is possible, else measured."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from neuronal.certify.degrees import ONE
from neuronal.certify.evidence import Break
from neuronal.certify.layer_activity import by_construction
from neuronal.certify.scaling import certify_scaling, degree_and_breaks, departure
from neuronal.certify.units import units_of
from neuronal.convert.fold import batch_norms
from neuronal.convert.replace import replaced
from neuronal.convert.sources import input_shape
from neuronal.core.inference import call_on_copy, evaluating
from neuronal.nn.farkas import FarkasLayer

if TYPE_CHECKING:
    from neuronal.convert.convert import Change

ROWS, SHOWN = 8, 8
CONTRASTS = (0.25, 0.25**2, 2.0**-10)
TOLERANCE = 1e-6
_WORDS = {"measured": "measured, not certified", "broken": "not kept", "unknown": "not known"}
_CONTRAST = "class independent of contrast"


@dataclass(frozen=True)
class Promise:
    """What a neuron promises of the converted model, and whether the model keeps it."""

    promised: str
    verdict: Literal["certified", "exact", "measured", "broken", "unknown"]
    """``certified``: proved. ``exact``: the same weights in another form. ``measured``: it held on the inputs tried."""
    reason: str
    breaks: tuple[Break, ...] = ()
    """What breaks it or stands in the way of a proof. A repair is named if it was tried on this model and worked."""

    def __str__(self) -> str:
        groups: dict[tuple[str, ...], list[Break]] = {}
        for one in self.breaks:
            groups.setdefault((one.module, re.sub(r"[\d.e+-]+", "", one.reason), one.repair), []).append(one)
        lines = [f"{self.promised}: {_WORDS.get(self.verdict, self.verdict)}: {self.reason}"]
        for alike in list(groups.values())[:SHOWN]:
            lines.append(f"  {alike[0]}" + f" ({len(alike)} like this)" * (len(alike) > 1))
        return "\n".join(lines + [f"  and {len(groups) - SHOWN} other kinds"] * (len(groups) > SHOWN))


def promise_of(model: nn.Module, family: str, changes: Sequence[Change], example: Tensor | None) -> Promise:
    """The promise of the family, checked on the converted model."""
    if family == "zero_bias":
        try:
            return _contrast(model, example)
        except Exception as unfit:  # whatever code of the model's raises
            reason = str(unfit).partition("\n")[0] or type(unfit).__name__
            return Promise(
                _CONTRAST, "unknown", f"not measured ({reason}); convert(..., example=x) says what inputs look like"
            )
    if family == "farkas":
        return _activity(model, changes)
    if family in ("standard", "geometric", "implicit_bias"):
        return _sameness(changes)
    return Promise(f"what {family} promises", "unknown", "there is no check for this neuron")


def _contrast(model: nn.Module, example: Tensor | None) -> Promise:
    shape = input_shape(model) if example is None else example.shape[1:]
    x = torch.randn(ROWS, *shape, generator=torch.Generator().manual_seed(1))
    # In float64 a departure that is small beside float32's rounding is still seen.
    precise = copy.deepcopy(model).double()
    x = x.to(next(precise.parameters(), x))
    if example is not None:
        x = torch.cat([example.to(x), x * example.abs().max().to(x)])[:ROWS]
    with evaluating(precise):
        outputs = [tree_leaves(call_on_copy(precise, x * s))[0].flatten(1) for s in (1.0, *CONTRASTS)]
    found = certify_scaling(precise, x[:1])
    classes = torch.stack([y.argmax(1) for y in outputs])
    changed = int((classes != classes[0]).any(0).sum())
    reason = f"{changed} of {ROWS} classes change at contrasts down to {CONTRASTS[-1]:.1g}"
    if found.verdict == "certified":
        zeros = ", ".join(found.evidence.zeros[:3])
        note = f"; only as long as constants that are 0 now stay so: {zeros}" if zeros else ""
        return Promise(_CONTRAST, "certified", f"{found.statement}; {reason}{note}")
    size = max(departure(*rows) for rows in zip(*outputs[:3], strict=True))
    size = max(size, found.evidence.deviation or 0.0)
    verdict: Any = "broken" if changed or size > TOLERANCE or found.verdict == "refuted" else "measured"
    reason = f"f(s x) departs from multiples of f(x) by {size:.0e}; {reason}"
    if not outputs[0].any():
        verdict, reason = "unknown", "all outputs are 0, of which nothing can be told"
    breaks = found.evidence.breaks
    reason += "" if breaks else f"; {found.reason}"
    repairs = _repairs(model, x[:1], breaks)
    if repairs and certify_scaling(_repaired(model, breaks, repairs), x[:1]).verdict == "certified":
        reason += "; repaired as below it is certified"
    named = tuple(replace(one, repair=repairs.get(one.module, "")) for one in breaks)
    return Promise(_CONTRAST, verdict, reason, named)


def _repairs(model: nn.Module, x: Tensor, breaks: Sequence[Break]) -> dict[str, str]:
    """By the class of a module what takes all its breaks away, as tried on a copy, without others or a higher degree."""
    worked: dict[str, str] = {}
    highest = max(ONE, degree_and_breaks(model, x)[0])
    first = {one.module: one.path for one in reversed(breaks)}
    for name, path in first.items():
        others = {one.path for one in breaks if one.module != name}
        for words in _candidates(model.get_submodule(path)):
            with suppress(Exception):  # the model may not run with it
                degree, left = degree_and_breaks(_repaired(model, breaks, {name: words}), x)
                if name not in worked and degree <= highest and {one.path for one in left} <= others:
                    worked[name] = words
    return worked


def _repaired(model: nn.Module, breaks: Sequence[Break], repairs: Mapping[str, str]) -> nn.Module:
    broken = [(model.get_submodule(one.path), repairs[one.module]) for one in breaks if one.module in repairs]
    return replaced(model, {module: _candidates(module)[words] for module, words in broken})


def _candidates(module: nn.Module) -> dict[str, nn.Module]:
    """What may stand in the place of a module that breaks scaling; nothing for one that has modules in it."""
    if next(module.children(), None) is not None:
        return {}
    unbiased, exact = copy.deepcopy(module), copy.deepcopy(module)
    unbiased.bias, exact.eps = None, 0.0  # type: ignore[assignment]
    # Without an activation the network would be another; what has parameters is none.
    is_function = next(module.parameters(), None) is None
    last: Any = {"put nn.ReLU() in its place": nn.ReLU()} if is_function else {"leave it out": nn.Identity()}
    return {"set its bias to None": unbiased, "set its eps to 0": exact, **last}


def _activity(model: nn.Module, changes: Sequence[Change]) -> Promise:
    layers = [(c, model.get_submodule(c.path)) for c in changes if "the output layer" not in c.note]
    breaks = []
    for change, layer in layers:
        if not isinstance(layer, FarkasLayer):
            breaks.append(Break(change.path, change.before, change.note, ""))
        elif by_construction(units_of(layer), layer.balance.cutoff) is None:
            breaks.append(Break(change.path, change.after, "has no bias, so all units may be at 0", ""))
    reason = f"{len(layers) - len(breaks)} of {len(layers)} layers certified"
    if norms := len(batch_norms(model)):
        # The statement is about what layers put out, and stays true.
        reason += f"; {norms} batch norms move it before a ReLU sees it: use fold_batch_norm first"
    verdict: Any = "broken" if breaks else "certified"
    return Promise(
        "an output above the cutoff in every converted layer, for every input", verdict, reason, tuple(breaks)
    )


def _sameness(changes: Sequence[Change]) -> Promise:
    breaks = tuple(Break(c.path, c.after, c.note, "") for c in changes if not c.exact)
    reason = f"{len(breaks)} of {len(changes)} layers depart" if breaks else "the same weights in another form"
    return Promise("the same function", "broken" if breaks else "exact", reason, breaks)
