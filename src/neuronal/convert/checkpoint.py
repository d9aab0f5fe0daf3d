"""Models as files: safetensors, with what rebuilds the model in the header. Nothing is ever unpickled."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.convert.convert import convert
from neuronal.convert.fold import fold_batch_norm
from neuronal.convert.sources import from_source
from neuronal.core.files import parse_json, read_tensors, write_tensors
from neuronal.core.records import Json
from neuronal.core.words import one_line
from neuronal.models.registry import create_model

_KEY = "neuronal"
_FORMAT = 1


def save_model(model: nn.Module, path: str | Path) -> None:
    """Writes the model: all of its state, and the recipe that rebuilds it.

    The recipe is on models of :func:`neuronal.create_model` and of ``neuronal convert``, and ``convert`` carries it on.

    Raises:
        ValueError: The model has no recipe, or one that cannot be written down.
        OSError: The file cannot be written, for want of space, say; one of before is as it was.
    """
    recipe = getattr(model, "recipe", None)
    if not isinstance(recipe, dict) or not recipe:
        raise ValueError(
            f"{type(model).__name__} has no recipe to be rebuilt from. Make it with neuronal.create_model or convert such a "
            "model, or save its state_dict() yourself."
        )
    tensors, same = _without_copies(model)
    try:
        header = json.dumps({"format": _FORMAT, "recipe": recipe, "same": same})
    except TypeError as odd:
        raise ValueError(f"the model's recipe cannot be written down: {odd}. Save its state_dict() instead.") from odd
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder, and a file is to be written", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, _KEY, header, tensors)


def load_model(path: str | Path, make: Callable[[], nn.Module] | None = None) -> nn.Module:
    """The model in a file of :func:`save_model`, on the CPU and in evaluation mode.

    Args:
        path: The file.
        make: Makes the model before its conversions, in the place of the recipe: needed for models that came from a function
            (``package.module:function``), because a file does not get to name code to run.

    Raises:
        ValueError: Not such a file, or a damaged one, or one of a model that cannot be made here; in one line.
    """
    recipe, same, tensors = _read(Path(path))
    try:
        state = {**tensors, **{copy: tensors[kept] for copy, kept in same.items()}}
        if make is None:
            _check_size(recipe, path, sum(tensor.numel() for tensor in state.values()))
        model = _rebuilt(recipe, path, make)
    except (KeyError, TypeError, AttributeError, OverflowError, RuntimeError) as odd:
        raise ValueError(f"{path} has a header that cannot be read ({type(odd).__name__}: {one_line(odd)}).") from odd
    try:
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if name in state and state[name].dtype != tensor.dtype:
                tensor.data = tensor.data.to(state[name].dtype)
        model.load_state_dict(state)
    except RuntimeError as wrong:
        raise ValueError(f"{path} does not fit the model its header describes: {one_line(wrong)}.") from wrong
    model.recipe = recipe
    found: nn.Module = model.eval()
    return found


def _check_size(recipe: Json, path: str | Path, given: int) -> None:
    """``ValueError`` for a recipe of ours that asks for far more memory than the tensors in the file fill."""
    if "source" in recipe:
        return
    # On the meta device a network costs no memory. A conversion drops biases, say, but never most of the numbers.
    with torch.device("meta"):
        needed = sum(parameter.numel() for parameter in _base(recipe, path).parameters())
    if needed > 8 * given:
        raise ValueError(
            f"{path} does not fit the model its header describes: it needs {needed:,} numbers, got {given:,}."
        )


def _rebuilt(recipe: Json, path: str | Path, make: Callable[[], nn.Module] | None) -> Any:
    """The model as the recipe says, with whatever weights."""
    model: Any = make() if make else _base(recipe, path)
    for step in recipe.get("converted", []):
        if step.get("fold"):
            model = fold_batch_norm(model)
            continue
        paths = set(step["paths"])
        model = convert(
            model,
            step["family"],
            where=lambda place, _, paths=paths: place in paths,  # type: ignore[misc]
            batch_norm=step["batch_norm"],
            **step["options"],
        ).model
    return model


def _base(recipe: Json, path: str | Path) -> nn.Module:
    """The model before its conversions. A file names models of known packages, and neither code nor other files."""
    source = recipe.get("source")
    if source is None:
        given = {key: value for key, value in recipe.items() if key not in ("model", "converted")}
        if given["neuron"] is None:
            raise ValueError(
                f"{path} was made with a family that is not in FAMILIES; hand in the model: load_model(path, make=...)."
            )
        return create_model(recipe["model"], **given)
    if source.partition(":")[0] not in ("timm", "torchvision"):
        raise ValueError(f"{path} was made from {source}; hand that in: load_model(path, make=...).")
    harmless = {
        key: value
        for key, value in recipe["arguments"].items()
        if not any(word in key for word in ("pretrained", "weights", "checkpoint", "path", "cache", "url", "file"))
    }
    return from_source(source, **harmless)


def _read(path: Path) -> tuple[Json, dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file.")
    header, tensors = read_tensors(path, _KEY, old=True)
    try:
        content = parse_json(header)
        version, recipe, same = content["format"], dict(content["recipe"]), dict(content["same"])
    except (ValueError, KeyError, TypeError) as odd:
        raise ValueError(f"{path} has a header that cannot be read ({odd}).") from odd
    if version != _FORMAT:
        raise ValueError(f"{path} is of format {version}; this version reads {_FORMAT}. Update neuronal.")
    return recipe, same, tensors


def _without_copies(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The state, and which names stand for a tensor that is there under another."""
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for name, value in model.state_dict().items():
        key = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and key in first:
            same[name] = first[key]
        else:
            first[key] = name
            tensors[name] = value.detach().contiguous()
    return tensors, same
