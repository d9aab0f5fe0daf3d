"""Models by name, in timm's manner: ``register_model``, ``create_model``, ``list_models``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar, cast

import torch
from torch import nn

from neuronal.names import UnknownName, find, unknown
from neuronal.nn.families import FAMILIES, Family, family

# A file listed here is imported when a model is first looked up; its @register_model functions fill the table.
_FILES = ("plain", "resnet", "farkasnet", "vit")
_MODELS: dict[str, Callable[..., nn.Module]] = {}

Maker = TypeVar("Maker", bound=Callable[..., nn.Module])


def register_model(make: Maker) -> Maker:
    """Adds a function ``make(layers, *, num_classes, in_chans, img_size, ...)`` to the registry under its name."""
    if make.__name__ in _MODELS:
        raise ValueError(f"a model called {make.__name__!r} is registered already. Choose another name.")
    _MODELS[make.__name__] = make
    return make


def _models() -> dict[str, Callable[..., nn.Module]]:
    for file in _FILES:
        import_module(f"neuronal.models.{file}")
    return _MODELS


def create_model(
    name: str,
    neuron: str | Family = "standard",
    *,
    num_classes: int = 10,
    in_chans: int = 3,
    img_size: int = 32,
    neuron_options: Any = None,
    **options: Any,
) -> nn.Module:
    """A new network called ``name`` whose units are of the family ``neuron``.

    Args:
        name: One of :func:`list_models`.
        neuron: A name in ``FAMILIES``, or a ``Family`` of your own.
        num_classes: Outputs of the head; 0 for features only.
        in_chans: Channels of the images.
        img_size: Side of the (square) images; only models that flatten positions depend on it.
        neuron_options: Those of the neuron's layers, such as ``{"coupling": -0.5}``.
        options: The model's own, such as ``widths`` or ``norm``; an unknown one is an error that lists them.

    Returns:
        The network. Its ``recipe`` holds these arguments, for JSON, to build it again; a family of your own is ``None``
        there.
    """
    # Of any type to a type checker, which compares unpacked options with it.
    of_units: Mapping[str, Any] = neuron_options or {}
    make = find(_models(), name, "model")
    own = [p for p in signature(make).parameters if p not in ("layers", "num_classes", "in_chans", "img_size")]
    for option in options:
        if option not in own:
            raise UnknownName(unknown(f"option of model {name!r}", option, own))
        if option in _COUNTS:
            _check_counts(name, option, options[option])
    layers = family(neuron) if isinstance(neuron, str) else neuron
    shape = {"num_classes": num_classes, "in_chans": in_chans, "img_size": img_size}
    model: Any = make(layers.with_options(**of_units) if of_units else layers, **shape, **options)
    known = layers.name if FAMILIES.get(layers.name) is layers else None
    model.recipe = {"model": name, "neuron": known, **shape, **options}
    if of_units:
        model.recipe["neuron_options"] = dict(of_units)
    return cast(nn.Module, model)


_LISTS = ("widths", "depths")
_COUNTS = (*_LISTS, "width", "depth", "num_heads")
"""Options of models that are numbers of something: several, or one."""


def _check_counts(model: str, option: str, given: Any) -> None:
    """``ValueError``, in one line, for what torch would stumble over much later."""
    is_list = isinstance(given, list | tuple)
    counts = given if is_list else [given]
    if is_list != (option in _LISTS) or not all(type(count) is int and count >= 1 for count in counts):
        needed = "whole numbers of at least 1, such as [4,4]" if option in _LISTS else "a whole number of at least 1"
        raise ValueError(f"{option} of {model} needs to be {needed}, got {given!r}.")


def list_models(filter: str = "*") -> list[str]:
    """Names of the registered models that match a shell pattern, sorted."""
    return sorted(name for name in _models() if fnmatch(name, filter))


def is_model(name: str) -> bool:
    return name in _models()


def describe(name: str) -> str:
    """The first line of what the model says of itself."""
    return (find(_models(), name, "model").__doc__ or "").strip().partition("\n")[0]


def num_parameters(name: str) -> int:
    """Parameters of the model for 32x32 colour images and 10 classes, with standard units unless it has its own."""
    neuron = getattr(find(_models(), name, "model"), "own_neuron", "standard")
    # On the meta device a network costs no memory and no random numbers.
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in create_model(name, neuron).parameters())
