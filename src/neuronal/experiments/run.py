"""One recipe and one seed to one record: the only place where names become objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from time import perf_counter

import torch
from torch import nn

from neuronal.core.records import Json
from neuronal.core.words import one_line
from neuronal.data.augment import Augment
from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset, Split
from neuronal.data.training_set import fraction, redrawn, with_wrong_labels
from neuronal.experiments.environment import environment
from neuronal.experiments.recipe import PROTOCOLS, Recipe
from neuronal.experiments.record import Failure, Record
from neuronal.models.registry import create_model
from neuronal.names import find
from neuronal.ops.objective import loss_for
from neuronal.probes.boundary_distance import boundary_distance
from neuronal.probes.contrast import contrast
from neuronal.probes.curvature import curvature
from neuronal.probes.dead_units import dead_units
from neuronal.probes.hinge_motion import HingeMotion
from neuronal.probes.jacobian import jacobian
from neuronal.probes.score import score
from neuronal.probes.zero_image import zero_image
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.engine import is_spread, whole
from neuronal.train.loop import Diverged, Epoch, Fit, Step, fit
from neuronal.train.optim import Plan
from neuronal.train.seed import seeded

PROBES: dict[str, Callable[[nn.Module, Split], object]] = {
    "contrast": contrast,
    "zero_image": zero_image,
    "dead_units": dead_units,
    "jacobian": jacobian,
    "curvature": curvature,
    "boundary_distance": boundary_distance,
}

WATCHERS = {"hinge_motion": HingeMotion}
"""Probes that watch every step of the training: one that goes on from a checkpoint would have missed the first."""

TABLE_MODELS = ("fcn", "mlp1")
"""Networks that take rows of a table as well as images."""
CLASS_PROBES = ("contrast", "zero_image", "curvature", "boundary_distance")
"""What is measured of classes only."""


def check(recipe: Recipe) -> None:
    """``ValueError``, in one line, for a recipe that :func:`run` could not run; costs no training."""
    _probes(recipe)
    find(PROTOCOLS, recipe.protocol, "protocol")
    if recipe.protocol == "clean" and recipe.part(Plan).needs_validation and not recipe.holdout:
        raise ValueError("cut_after, stop_after and keep_best go by held-out images, got holdout 0.")
    data = load(recipe.data).scaled(recipe.scaling)
    _check_task(recipe, data)
    if not 0 <= recipe.redrawn <= 1:
        raise ValueError(f"redrawn needs to be in [0, 1], got {recipe.redrawn:g}.")
    if not 0 < recipe.fraction <= 1 or not 0 <= recipe.wrong_labels <= 1:
        got = f"{recipe.fraction:g} and {recipe.wrong_labels:g}"
        raise ValueError(f"fraction needs to be in (0, 1] and wrong_labels in [0, 1], got {got}.")
    if not len(data.test):
        raise ValueError(
            f"{data.name} has nothing to test on: {len(data.train):,} rows are too few to keep a fifth back."
        )
    if not len(data.train.held_out(recipe.holdout, 0)[0]):
        raise ValueError(f"holdout {recipe.holdout:g} of {len(data.train):,} training images leaves none to train on.")
    # On the meta device a network costs no memory, whatever its size.
    with torch.device("meta"):
        network(recipe, data, seed=0)


def _check_task(recipe: Recipe, data: Dataset) -> None:
    """What a recipe asks for has to make sense for images or tables, classes or numbers, whichever the data are."""
    if len(data.shape) == 1 and recipe.part(Augment).needs_images:
        raise ValueError(f"crops, flip and cutout change images, and {data.name} is a table. Leave them out.")
    loss_for(data.train.answers, recipe.loss)
    if data.task == "classification":
        if len(data.classes) < 2:
            raise ValueError(f"{data.name} has only the class {data.classes[0]!r}: there is nothing to learn.")
        return
    for_classes = [name for name in recipe.probes if name in CLASS_PROBES]
    for_classes += ["wrong_labels"] if recipe.wrong_labels else []
    for_classes += ["monitor accuracy"] if recipe.monitor == "accuracy" else []
    if for_classes:
        raise ValueError(
            f"{data.name} is for regression: it has no classes, which {' and '.join(for_classes)} would need. "
            "Leave that out, or start from the recipe levy."
        )


def _probes(recipe: Recipe) -> dict[str, Callable[[nn.Module, Split], object]]:
    """Those that measure the trained network; ``ValueError`` for a name that is no probe at all."""
    for name in recipe.probes:
        find({**PROBES, **WATCHERS}, name, "probe")
    return {name: PROBES[name] for name in recipe.probes if name in PROBES}


def network(recipe: Recipe, data: Dataset, seed: int) -> nn.Module:
    """The untrained network of a cell."""
    if len(data.shape) == 1 and recipe.model not in TABLE_MODELS:
        raise ValueError(f"{recipe.model} reads images, {data.name} is a table. Use {' or '.join(TABLE_MODELS)}.")
    given = {"widths": recipe.widths, "norm": recipe.norm}
    options: Json = {name: value for name, value in given.items() if value}
    shape = data.network_shape
    further = dict(recipe.model_options)
    if twice := sorted(further.keys() & (options.keys() | shape.keys())):
        raise ValueError(f"model option {twice[0]} is decided already, by the recipe's own field or the data.")
    of_units = dict(recipe.neuron_options)
    with seeded(seed):
        try:
            return create_model(recipe.model, recipe.family, **shape, **options, neuron_options=of_units, **further)
        except (TypeError, RuntimeError) as wrong:
            if not further and not of_units:
                raise
            # What the layers say of a value they cannot use.
            raise ValueError(f"{recipe.model} cannot be made with {further | of_units} ({one_line(wrong)}).") from wrong


def run(recipe: Recipe, seed: int, *, on_epoch: Callable[[Epoch], None] | None = None) -> Record:
    """Trains and measures one cell. A loss that stops being finite gives a record that says so."""
    return trained(recipe, seed, on_epoch=on_epoch)[0]


def drawn(source: Dataset, recipe: Recipe, seed: int) -> Dataset:
    """The data of a cell, split by its seed if the recipe says so, and scaled."""
    return (redrawn(source, recipe.redrawn, seed) if recipe.redrawn else source).scaled(recipe.scaling)


def training_data(recipe: Recipe, data: Dataset, seed: int) -> tuple[Split, Split]:
    """What a cell is trained on, and what is held out: with all labels right, whatever becomes of the others."""
    train, held = data.train.held_out(recipe.holdout, seed)
    if recipe.fraction < 1:
        train = fraction(train, recipe.fraction, seed)
    if recipe.wrong_labels:
        train = with_wrong_labels(train, recipe.wrong_labels, len(data.classes), seed)
    return train, held


def trained(
    recipe: Recipe,
    seed: int,
    *,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> tuple[Record, nn.Module]:
    """Trains and measures one cell: its record, and the network, whole in every process.

    Args:
        recipe: What to train.
        seed: Fixes everything random.
        on_epoch: Told of every epoch as it ends.
        on_step: Told now and then how it goes.
        checkpoints: Where the state is kept; a folder that has one is gone on from.
    """
    source, chosen = load(recipe.data), _probes(recipe)
    data = drawn(source, recipe, seed)
    started, checksum = perf_counter(), source.checksum()
    train, held = training_data(recipe, data, seed)
    model, how, changes = network(recipe, data, seed), recipe.part(Plan), recipe.part(Augment)
    watchers = {name: WATCHERS[name](model) for name in recipe.probes if name in WATCHERS}
    ways = {"clean": (held, "validation"), "published": (data.test, "test"), "training": (train, "training")}
    followed, called = ways[recipe.protocol]
    if checkpoints:
        # What is measured afterwards is free to change; the data, with what is held out, are compared by contents.
        same = {name: value for name, value in recipe.chosen().items() if name != "probes"} | {"data": checksum}
        checkpoints = replace(checkpoints, of={**checkpoints.of, **same})

    def follow(model: nn.Module, step: int) -> Mapping[str, float]:
        return {f"holdout_{name}": value for name, value in score(model, held).items()}

    metrics: dict[str, float] = {}
    probes: dict[str, object] = {}
    failure = None
    step_seconds, fitted = 0.0, Fit((), 0.0)
    with seeded(seed):
        try:
            fitted = fit(
                model,
                train,
                how,
                seed=seed,
                validation=followed if how.needs_validation else None,
                validation_name=called,
                augment=changes.apply if changes != Augment() else None,
                probes=[*([follow] if len(held) else []), *watchers.values()],
                on_step=on_step,
                on_epoch=on_epoch,
                checkpoints=checkpoints,
            )
            step_seconds = fitted.step_seconds
            metrics = _metrics(model, data) | ({"best_epoch": fitted.best_epoch} if fitted.best_epoch else {})
            if not isfinite(metrics["loss"]):
                # The last step itself can be the one that goes wrong: no training loss comes after it.
                raise Diverged(fitted.epochs[-1].steps, fitted.epochs[-1].lr, metrics["loss"])
            probes = {name: probe(model, data.test) for name, probe in chosen.items()}
        except Diverged as diverged:
            metrics = {}
            failure = Failure(diverged.step, diverged.lr, str(diverged))
            fitted = diverged.before or fitted
    if how.compile or how.replay:
        # torch keeps what it compiled of a class, and gives up compiling after a few models of one.
        torch.compiler.reset()
    # Before a checkpoint this went on from, nobody here has taken the time.
    started -= fitted.step_seconds * fitted.began_at
    seen = {name: watcher.close() for name, watcher in watchers.items()}
    probes = {} if failure else probes | seen
    if is_spread(model):
        # In one piece again; all processes take part, each gets a copy.
        state = {name: whole(value) for name, value in model.state_dict().items()}
        model = network(recipe, data, seed)
        model.load_state_dict(state)
    record = Record(
        recipe=recipe,
        seed=seed,
        metrics=metrics,
        epochs=tuple(_row(epoch) for epoch in fitted.epochs),
        probes=probes,
        failure=failure,
        seconds=perf_counter() - started,
        step_seconds=step_seconds,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment(),
        data=checksum,
    )
    return record, model


def _metrics(model: nn.Module, data: Dataset) -> dict[str, float]:
    return {**score(model, data.test), "parameters": sum(p.numel() for p in model.parameters())}


def _row(epoch: Epoch) -> dict[str, float]:
    row = {name: getattr(epoch, name) for name in ("steps", "loss", "accuracy", "lr")} | dict(epoch.measured)
    # JSON has no NaN: a measurement on the way that was not a number is left out of its row.
    return {"epoch": epoch.number} | {n: value for n, value in row.items() if value is not None and isfinite(value)}
