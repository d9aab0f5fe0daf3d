"""One recipe and one seed to one record: the only place where names become objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from math import isfinite
from time import perf_counter
from typing import Any

import torch
from torch import nn

from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset, Split
from neuronal.experiments.environment import environment
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Failure, Record
from neuronal.models.registry import create_model
from neuronal.names import find
from neuronal.probes.contrast import contrast
from neuronal.probes.dead_units import dead_units
from neuronal.probes.score import score
from neuronal.probes.zero_image import zero_image
from neuronal.train.loop import Diverged, Epoch, fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded

PROBES: dict[str, Callable[[nn.Module, Split], dict[str, Any]]] = {
    "contrast": contrast,
    "zero_image": zero_image,
    "dead_units": dead_units,
}

TABLE_MODELS = ("fcn", "mlp1")
"""Networks that take rows of a table as well as images."""


def check(recipe: Recipe) -> None:
    """``ValueError``, in one line, for a recipe that :func:`run` could not run; costs no training."""
    _probes(recipe)
    if plan(recipe).needs_validation and not recipe.holdout:
        raise ValueError("cut_after and stop_after go by held-out images, got holdout 0.")
    data = load(recipe.data)
    if not len(data.train.held_out(recipe.holdout, 0)[0]):
        raise ValueError(f"holdout {recipe.holdout:g} of {len(data.train):,} training images leaves none to train on.")
    # On the meta device a network costs no memory, whatever its size.
    with torch.device("meta"):
        network(recipe, data, seed=0)


def _probes(recipe: Recipe) -> dict[str, Callable[[nn.Module, Split], dict[str, Any]]]:
    return {name: find(PROBES, name, "probe") for name in recipe.probes}


def plan(recipe: Recipe) -> Plan:
    return Plan(**{field.name: getattr(recipe, field.name) for field in fields(Plan)})


def network(recipe: Recipe, data: Dataset, seed: int) -> nn.Module:
    """The untrained network of a cell."""
    if data.task != "classification":
        raise ValueError(f"{data.name} is for regression; only classification can be trained so far.")
    if len(data.shape) == 1 and recipe.model not in TABLE_MODELS:
        raise ValueError(f"{recipe.model} reads images, {data.name} is a table. Use {' or '.join(TABLE_MODELS)}.")
    options: dict[str, Any] = {"widths": recipe.widths} if recipe.widths else {}
    shape = {"num_classes": data.num_outputs, "in_chans": data.in_chans, "img_size": data.img_size}
    with seeded(seed):
        return create_model(recipe.model, recipe.family, **shape, **options)


def run(recipe: Recipe, seed: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> Record:
    """Trains and measures one cell. A loss that stops being finite gives a record that says so."""
    data, chosen = load(recipe.data), _probes(recipe)
    started = perf_counter()
    train, held = data.train.held_out(recipe.holdout, seed)
    model, how = network(recipe, data, seed), plan(recipe)
    epochs: list[Epoch] = []

    def keep(epoch: Epoch) -> None:
        epochs.append(epoch)
        if on_epoch:
            on_epoch(epoch)

    def follow(model: nn.Module, step: int) -> Mapping[str, float]:
        return {f"holdout_{name}": value for name, value in score(model, held).items()}

    metrics: dict[str, float] = {}
    probes: dict[str, Any] = {}
    failure = None
    step_seconds = 0.0
    with seeded(seed):
        try:
            fitted = fit(
                model,
                train,
                how,
                seed=seed,
                validation=held if how.needs_validation else None,
                probes=[follow] if len(held) else [],
                on_epoch=keep,
            )
            step_seconds = fitted.step_seconds
            metrics = _metrics(model, data)
            if not isfinite(metrics["loss"]):
                # The last step itself can be the one that goes wrong: no training loss comes after it.
                raise Diverged(epochs[-1].steps, epochs[-1].lr, metrics["loss"])
            probes = {name: probe(model, data.test) for name, probe in chosen.items()}
        except Diverged as diverged:
            metrics = {}
            failure = Failure(diverged.step, diverged.lr, str(diverged))
    return Record(
        recipe=recipe,
        seed=seed,
        metrics=metrics,
        epochs=tuple(_row(epoch) for epoch in epochs),
        probes=probes,
        failure=failure,
        seconds=perf_counter() - started,
        step_seconds=step_seconds,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment(),
    )


def _metrics(model: nn.Module, data: Dataset) -> dict[str, float]:
    return {**score(model, data.test), "parameters": sum(p.numel() for p in model.parameters())}


def _row(epoch: Epoch) -> dict[str, float]:
    row = {name: getattr(epoch, name) for name in ("steps", "loss", "accuracy", "lr")} | dict(epoch.measured)
    # JSON has no NaN: a measurement on the way that was not a number is left out of its row.
    return {"epoch": epoch.number} | {name: value for name, value in row.items() if isfinite(value)}
