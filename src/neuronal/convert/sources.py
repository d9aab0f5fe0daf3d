"""Models by where they come from: our registry, timm, torchvision, a function of yours, a file."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from neuronal.certify.scaling import shape_of_input
from neuronal.core.limits import extras
from neuronal.models.registry import create_model, is_model
from neuronal.names import UnknownName
from neuronal.nn.standard import Options

Maker = Callable[[str, Options], nn.Module]


def from_source(source: str, **arguments: Any) -> nn.Module:
    """The model that ``source`` names, with a ``recipe`` to make it again.

    Args:
        source: ``resnet18`` (ours), ``timm:resnet18``, ``torchvision:resnet18``, ``package.module:function``, or the path of
            a file written by :func:`neuronal.convert.save_model`.
        arguments: Handed to what makes the model.

    Raises:
        ValueError: No such model, file or function; in one line.
        ModuleNotFoundError: timm or torchvision is not installed.
    """
    if source.endswith(".safetensors") or Path(source).is_file():
        from neuronal.convert.checkpoint import load_model

        if arguments:
            raise ValueError(f"{source} says itself how its model is made: leave {', '.join(arguments)} out.")
        return load_model(source)
    where, colon, name = source.partition(":")
    if not colon:
        if not is_model(source):
            raise UnknownName(
                f"Unknown model {source!r}. Give a name of `neuronal models`, timm:NAME, torchvision:NAME, "
                "package.module:function, or a .safetensors file."
            )
        return create_model(source, **arguments)
    make: Maker = _PACKAGES.get(where) or _function(where)
    try:
        model = make(name, arguments)
    except OSError as unreachable:
        reason = str(unreachable).splitlines()[0]
        raise ValueError(f"{source}: its weights cannot be downloaded ({reason}). Is there a network?") from unreachable
    model.recipe = {"source": source, "arguments": arguments}  # type: ignore[assignment]
    return model


def _timm(name: str, arguments: Options) -> nn.Module:
    timm = _package("timm")
    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), n=4))
        raise UnknownName(f"timm has no model {name!r}." + (f" There are {near}." if near else ""))
    model: nn.Module = timm.create_model(name, **arguments)
    return model


def _torchvision(name: str, arguments: Options) -> nn.Module:
    models = _package("torchvision.models")
    if name not in models.list_models():
        raise UnknownName(f"torchvision has no model {name!r}. torchvision.models.list_models() lists them.")
    if "weights_backbone" in signature(models.get_model_builder(name)).parameters:
        # Detection and segmentation download those unless told not to.
        arguments = {"weights": None, "weights_backbone": None} | arguments
    model: nn.Module = models.get_model(name, **arguments)
    return model


def _package(name: str) -> Any:
    try:
        with extras():
            return import_module(name)
    except RuntimeError as unfit:
        raise ValueError(
            f"{name.partition('.')[0]} does not fit this torch ({unfit}). Install a matching version."
        ) from unfit


_PACKAGES: dict[str, Maker] = {"timm": _timm, "torchvision": _torchvision}


def _function(module: str) -> Maker:
    def make(name: str, arguments: Options) -> nn.Module:
        if "" not in sys.path and os.getcwd() not in sys.path:
            # As with python -m, which the installed command is not: modules of the current folder are found.
            sys.path.insert(0, os.getcwd())
        try:
            function = getattr(import_module(module), name)
        except (ModuleNotFoundError, AttributeError, ValueError) as missing:
            raise ValueError(f"{module}:{name} needs a module and a function in it: {missing}.") from missing
        except Exception as wrong:
            raise ValueError(f"{module} cannot be imported: {_where_it_fails(wrong)}.") from wrong
        try:
            made = function(**arguments)
        except Exception as wrong:
            # Whatever code of the user's raises; that code, and not ours, is what the line is to point to.
            given = f"with {', '.join(arguments)}" if arguments else "without arguments"
            raise ValueError(f"{module}:{name}, called {given}, fails: {_where_it_fails(wrong)}.") from wrong
        if not isinstance(made, nn.Module):
            raise ValueError(f"{module}:{name} needs to return a torch module, got {type(made).__name__}.")
        return made

    return make


def _where_it_fails(wrong: Exception) -> str:
    """``KeyError: 'depth' (models.py, line 12)``: in one line, with the last place it passed."""
    *_, last = traceback.extract_tb(wrong.__traceback__)
    reason = traceback.format_exception_only(wrong)[-1].strip()
    return f"{reason} ({Path(last.filename).name}, line {last.lineno})"


def input_shape(model: nn.Module) -> tuple[int, ...]:
    """The shape of one input the model is made for: what it says, else 3 channels of 224 x 224."""
    return shape_of_input(model) or (3, 224, 224)
