"""Any model in another neuron: a new model, and a list of what became of every layer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from neuronal.convert.fold import batch_norms, fold_batch_norm, foldable, folded, scale_and_shift, without_norm
from neuronal.convert.promise import Promise, promise_of
from neuronal.convert.replace import PLAIN, has_own_weight, kind, replaced, without_parametrisation
from neuronal.core.decay import no_weight_decay
from neuronal.core.inference import call_on_copy, check_module, evaluating
from neuronal.names import find
from neuronal.nn.families import FAMILIES, Family
from neuronal.nn.implicit_bias import ImplicitBiasLayer
from neuronal.nn.norm import ChannelScale
from neuronal.nn.standard import Options

BatchNorm = Literal["fold", "scale_only", "drop"]
Where = Callable[[str, nn.Module], bool]
_NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    nn.RMSNorm,
)
_HEADS = ("fc", "classifier", "head", "heads")
"""What models without ``get_classifier`` call their head; an ``nn.Identity`` there means that there is none."""


@dataclass(frozen=True)
class Change:
    """What became of one layer."""

    path: str
    """Where it is in the model; empty for the model itself."""
    before: str
    after: str
    """The name of the class; the same as before for a layer that was left alone."""
    exact: bool
    """Whether it computes the same function as before, up to rounding (a batch norm: as before in evaluation)."""
    note: str


@dataclass(frozen=True)
class Conversion:
    """A converted model and what was done to it."""

    model: nn.Module
    changes: tuple[Change, ...]
    family: str
    example: Tensor | None = field(default=None, repr=False)
    """An input, where one was given: ``promise`` is measured on inputs like it."""

    @property
    def exact(self) -> bool:
        """Whether the whole model computes the same function as before."""
        return all(change.exact for change in self.changes)

    @cached_property
    def promise(self) -> Promise:
        """What the neuron promises, and whether this model keeps it: certified, measured, or what breaks it.

        Found when first asked for, for the weights the model has then. For ``zero_bias`` the model is run, in evaluation,
        on a few inputs; for the others layers are looked at.
        """
        return promise_of(self.model, self.family, self.changes, self.example)


def convert(
    model: nn.Module,
    family: str | Family,
    *,
    where: Where | None = None,
    batch_norm: BatchNorm = "fold",
    example: Tensor | None = None,
    **options: Any,
) -> Conversion:
    """A new model with the neurons of ``family``; the old one stays as it is.

    ``geometric`` computes the same function; ``implicit_bias`` adds a coupling to the same weights (``coupling=-0.5``, say:
    the paper's transfer mode); ``farkas`` replaces the last unit of every layer; ``zero_bias`` drops the biases and does
    away with batch norms; ``standard`` goes back to plain torch layers. Modules used in several places, or that share
    parameters, go on doing so. The new model's ``no_weight_decay()`` names what weight decay is to spare, for timm.

    Args:
        model: Any module, a single layer too. Plain linear and convolutional layers are converted, and ours of another
            family; subclasses and quantised layers are left alone. Everything is listed in ``changes``.
        family: A name in ``FAMILIES`` or a ``Family`` of your own.
        where: ``where(path, layer)`` says which layers to convert. Without it all are, but for the output layer where the
            family has a plain head.
        batch_norm: For ``zero_bias``: ``"fold"`` into the layer before (and drop the bias that makes), ``"scale_only"``, or
            ``"drop"``.
        example: An input, for folding in models that ``torch.fx`` cannot read, and for measuring the promise.
        options: Those of the family's layers.

    Raises:
        UnknownName: No such family, or no such way with batch norms.
        TypeError, ValueError: Options the family's layers refuse.
    """
    check_module(model)
    target = find(FAMILIES, family, "neuron") if isinstance(family, str) else family
    find(dict.fromkeys(get_args(BatchNorm)), batch_norm, "way with batch norms")
    if target.name == "standard" and options:
        raise TypeError(f"standard layers have no options, got {', '.join(options)}.")
    norms = _Norms(model, batch_norm, example) if target.name == "zero_bias" else None
    plan = _Plan(target, options, norms, _shared_parameters(model))
    keeps_output = target.Head is nn.Linear and target.name != "standard"
    outputs = _output_layers(model) if keeps_output and not where else set()
    for path, module in model.named_modules():
        if where and _is_layer(module):
            plan.consider(path, module, "" if where(path, module) else "not chosen")
        else:
            plan.consider(path, module, "the output layer, whose outputs are logits" if module in outputs else "")
    if plan.refusals and not plan.converted:
        # Not one layer that could not be converted, but options none of them takes.
        raise plan.refusals[0]
    result: Any = replaced(model, plan.others)
    # Where timm's optimisers look for it. A partial, which copies and pickles with its model.
    result.no_weight_decay = partial(no_weight_decay, result)
    _write_down(model, result, target, plan.changes, batch_norm, options, example)
    return Conversion(result, tuple(plan.changes), target.name, example)


class _Plan:
    """What is put where, and what is to be said of it."""

    def __init__(self, target: Family, options: Options, norms: _Norms | None, tied: set[int]) -> None:
        self.target, self.options, self.tied = target, options, tied
        self.norms = norms or _Norms.none()
        self.others: dict[nn.Module, nn.Module] = {}
        self.changes: list[Change] = []
        self.refusals: list[ValueError] = []
        self.converted = 0

    def consider(self, path: str, module: nn.Module, reason: str) -> None:
        """Decides on one module; ``reason`` is why it is to stay as it is, if it is."""
        if module in self.norms.instead:
            new, note = self.norms.instead[module]
            self._put(path, module, new, note)
        elif module in self.norms.in_the_way:
            self._leave(path, module, "does not scale with its input, so neither does the network")
        elif _is_ours(module) or (_is_layer(module) and self.target.name != "standard"):
            self._layer(path, module, reason)

    def _layer(self, path: str, module: nn.Module, reason: str) -> None:
        norm = self.norms.behind.get(module)
        folded_in = None if norm is None else folded(module, norm)
        reason = reason or _why_not(module, self.target, self.tied)
        if not reason:
            plain = _plain(module) if folded_in is None else folded_in
            try:
                new, departs = _made(plain, self.target, self.options)
            except ValueError as refused:
                self.refusals.append(type(refused)(f"{path}: {refused}" if path else str(refused)))
                reason = str(refused)
            else:
                self.converted += 1
                lost = _lost(module)
                with_norm = "batch norm folded in" if folded_in is not None else ""
                note = ", ".join(filter(None, (with_norm, lost, departs)))
                self._put(path, module, new, note, exact=not (lost or departs))
                return
        if folded_in is not None:
            self._put(path, module, folded_in, f"batch norm folded in; {reason}", exact=True)
        else:
            self._leave(path, module, reason)

    def _put(self, path: str, before: nn.Module, after: nn.Module, note: str, exact: bool | None = None) -> None:
        self.others[before] = after
        same = not note if exact is None else exact
        self.changes.append(Change(path, kind(before).__name__, type(after).__name__, same, note))

    def _leave(self, path: str, module: nn.Module, reason: str) -> None:
        name = type(module).__name__
        self.changes.append(Change(path, name, name, True, f"left alone: {reason}"))


@torch.no_grad()
def largest_difference(before: nn.Module, after: nn.Module, x: Tensor) -> float:
    """Largest difference of two models' outputs for ``x`` in evaluation, relative to the largest output.

    Of models that return tuples or dictionaries, over all numbers in these.
    """
    outputs = []
    for model in (before, after):
        with evaluating(model):
            outputs.append(_numbers_in(call_on_copy(model, x)))
    want, got = outputs
    return float((got - want).abs().max() / want.abs().max().clamp_min(torch.finfo(want.dtype).tiny))


def _numbers_in(output: Any) -> Tensor:
    """All floats of an output, one behind the other."""
    found = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    if not found:
        raise TypeError(f"it returns no numbers, but {type(output).__name__}")
    return torch.cat([leaf.flatten() for leaf in found])


def to_standard(model: nn.Module) -> nn.Module:
    """A copy of ``model`` with plain torch layers that compute the same function: for export, or use without this library.

    A coupling of implicit-bias units becomes a fixed number of steps behind the plain layer, exact to a hundredth of the
    layer's tolerance, at O(N^2) per row.

    Raises:
        ValueError: A coupling so strong that more than 1000 steps are needed.
    """
    check_module(model)
    coupled: dict[nn.Module, nn.Module] = {}
    for path, module in model.named_modules():
        if isinstance(module, ImplicitBiasLayer) and module.coupling.count_nonzero():
            try:
                coupled[module] = module.unrolled()
            except ValueError as refused:
                raise ValueError(f"{path}: {refused}" if path else str(refused)) from None
    return convert(replaced(model, coupled) if coupled else model, "standard").model


def _made(plain: Any, target: Family, options: Options) -> tuple[nn.Module, str]:
    """The layer of the target family in the place of a plain one, and what it computes differently."""
    if target.name == "standard":
        return plain, ""
    cls: Any = getattr(target, type(plain).__name__)
    new = cls.from_standard(plain, **options)
    return new, new.departure(plain) if hasattr(new, "departure") else "as its from_standard makes it"


def _is_ours(module: nn.Module) -> bool:
    return hasattr(module, "to_standard") and hasattr(type(module), "from_standard")


def _is_layer(module: nn.Module) -> bool:
    """Whether the module maps linearly what comes in: ours, torch's, or a subclass or a quantised form of those."""
    torchs = isinstance(module, (nn.Linear, nn.modules.conv._ConvNd, nn.Bilinear, nn.RNNBase))
    return torchs or _is_ours(module) or _quantised(module)


def _quantised(module: nn.Module) -> bool:
    return "quantized" in type(module).__module__ and hasattr(module, "weight")


def _why_not(module: nn.Module, target: Family, tied: set[int]) -> str:
    """Why a layer is left alone; empty if it is not."""
    name = type(module).__name__
    if _is_ours(module):
        own = {getattr(target, plain.__name__) for plain in PLAIN}
        ours = {getattr(family, plain.__name__) for family in FAMILIES.values() for plain in PLAIN} - set(PLAIN)
        base = next((base.__name__ for base in type(module).__mro__[1:] if base in ours), None)
        return "is one already" if type(module) in own else f"{name} is a subclass of {base}" if base else ""
    if _quantised(module):
        return f"{name} is quantised"
    if kind(module) not in PLAIN:
        base = next((plain.__name__ for plain in PLAIN if isinstance(module, plain)), None)
        return f"{name} is a subclass of nn.{base}" if base else f"there is no such layer for {name}"
    if "forward" in vars(module):
        return f"this {name} has a forward of its own"
    if not has_own_weight(module):
        return "its weight is made by a hook; torch.nn.utils.parametrizations has the same without"
    keeps = target.name in ("zero_bias", "implicit_bias")
    if not keeps and any(id(parameter) in tied for parameter in module.parameters(recurse=False)):
        return "its parameters are shared with another module"
    return ""


def _plain(module: nn.Module) -> Any:
    if _is_ours(module):
        return module.to_standard()  # type: ignore[operator]
    return without_parametrisation(module)


def _lost(module: nn.Module) -> str:
    """What a layer of ours computes that the plain one in between does not."""
    coupling = getattr(module, "coupling", None)
    if not _is_ours(module) or not isinstance(coupling, Tensor) or coupling.is_meta or not coupling.count_nonzero():
        return ""
    return f"its coupling of {float(coupling.detach().flatten()[0]):.2g} is lost"


def _shared_parameters(model: nn.Module) -> set[int]:
    """Parameters that belong to more than one module."""
    seen: set[int] = set()
    shared: set[int] = set()
    for module in model.modules():
        own = {id(parameter) for parameter in module.parameters(recurse=False)}
        shared |= own & seen
        seen |= own
    return shared


def _output_layers(model: nn.Module) -> set[nn.Module]:
    """The layers whose outputs are the model's: the last of each head it names, and its like; else the last of several.

    A model without classes, such as timm's with ``num_classes=0``, gives features and has none.
    """
    if getattr(model, "num_classes", None) == 0:
        return set()
    heads: Any = next((head for name in _HEADS if isinstance(head := getattr(model, name, None), nn.Identity)), None)
    with suppress(AttributeError):  # some of timm's own fail here
        heads = model.get_classifier()  # type: ignore[operator]
    several = (nn.ModuleList, nn.ModuleDict)
    heads = [list(head.children()) if isinstance(head, several) else head for head in tree_leaves(heads)]
    named = [head for head in tree_leaves(heads) if isinstance(head, nn.Module)]
    if named:
        layers = [[m for m in head.modules() if _is_layer(m)] for head in named]
        if any(layers) or all(isinstance(head, nn.Identity) for head in named):
            classes = getattr(model, "num_classes", None)
            return {m for own in layers for m in own if m is own[-1] or _sizes(m) == (_sizes(own[-1])[0], classes)}
    every = [module for module in model.modules() if _is_layer(module)]
    return {every[-1]} if len(every) > 1 else set()


def _sizes(layer: nn.Module) -> tuple[object, ...]:
    """What tells two layers that give classes from the same features from a hidden one and the output."""
    return getattr(layer, "in_features", None), getattr(layer, "out_features", "several")


class _Norms:
    """What becomes of the norms of a network that is to scale with its input."""

    def __init__(self, model: nn.Module, way: BatchNorm, example: Tensor | None) -> None:
        self.behind: dict[nn.Module, nn.Module] = {}
        """The batch norm to fold into a layer."""
        self.instead: dict[nn.Module, tuple[nn.Module, str]] = {}
        """Other modules in the place of batch norms, with a note."""
        norms = batch_norms(model)
        self.in_the_way = {m for m in model.modules() if isinstance(m, _NORMS)} - norms
        if way == "fold":
            if example is not None:
                # Raises if folding would change the output on the example.
                fold_batch_norm(model, example)
            for layer, norm in foldable(model, example):
                self.behind[layer] = norm
                self.instead[norm] = without_norm(norm), ""
        for norm in norms - self.instead.keys():
            self.instead[norm] = _without_shift(norm, way)

    @classmethod
    def none(cls) -> _Norms:
        return cls(nn.Identity(), "drop", None)


def _without_shift(norm: Any, way: BatchNorm) -> tuple[nn.Module, str]:
    """What scales with its input in the place of a batch norm that is not folded."""
    if way == "drop":
        return without_norm(norm), "dropped"
    if norm.running_mean is None:
        return without_norm(norm), "dropped: it has no running statistics to take a scale from"
    why = "no convolution before it to fold it into: " if way == "fold" else ""
    return without_norm(norm, ChannelScale(scale_and_shift(norm)[0])), f"{why}scale kept, shift dropped"


def _write_down(
    model: nn.Module,
    result: Any,
    target: Family,
    changes: list[Change],
    batch_norm: str,
    options: Options,
    example: Tensor | None,
) -> None:
    """How to make the new model from the old one's recipe, if that has one, for :func:`save_model`."""
    recipe = getattr(model, "recipe", None)
    if not isinstance(recipe, dict) or not recipe:
        return
    if example is not None:
        # Without it, this cannot be done again.
        result.recipe = {}
        return
    paths = [change.path for change in changes if change.before != change.after]
    step = {"family": target.name, "paths": paths, "batch_norm": batch_norm, "options": dict(options)}
    result.recipe = {**recipe, "converted": [*recipe.get("converted", []), step]}
