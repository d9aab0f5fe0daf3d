"""The training loop, read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random
from time import perf_counter

import torch
from torch import Tensor, nn

from neuronal.core.inference import check_module
from neuronal.data.dataset import Split, shuffled_batches
from neuronal.ops.objective import loss_for, loss_of, num_right
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.engine import Engine, accelerator_for
from neuronal.train.mixup import mixed, mixed_loss, share_at
from neuronal.train.optim import Plan
from neuronal.train.progress import Diverged, Epoch, Fit, Losses, Progress, Step
from neuronal.train.schedule import Plateau
from neuronal.train.snapshot import Snapshots
from neuronal.train.unconverged import Unconverged
from neuronal.train.validation import validate

__all__ = ["Augment", "Diverged", "Epoch", "Fit", "Probe", "Step", "fit"]

Probe = Callable[[nn.Module, int], Mapping[str, float]]
"""A measurement taken while training: (model, steps done) -> named numbers."""
Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes a batch of images at random, on their device: (images, generator on that device) -> images."""


def fit(
    model: nn.Module,
    train: Split,
    plan: Plan,
    *,
    seed: int = 0,
    validation: Split | None = None,
    validation_name: str = "validation",
    augment: Augment | None = None,
    probes: Sequence[Probe] = (),
    on_step: Callable[[Step], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoints: Checkpoints | Path | str | None = None,
) -> Fit:
    """Trains ``model`` in place on the devices Accelerate chooses, one schedule step per batch.

    Args:
        model: Inputs to logits, or to one column where the answers are numbers. Afterwards it is on that device, in
            training mode (and spread over the processes still, if they were launched with FSDP).
        train: All training data; it is moved to the device once.
        plan: Epochs, batches, optimiser, learning rate.
        seed: Fixes the order of the images and all that is random about them, for any model the same.
        validation: Data the plan's ``cut_after``, ``stop_after`` and ``keep_best`` go by; its ``validation_loss``,
            ``validation_accuracy`` and, of more than five classes, ``validation_top5`` end up in ``Epoch.measured``.
        validation_name: What stands before those instead of ``validation``.
        augment: Called with the images of every batch.
        probes: Called after every epoch, in every process; their numbers end up in ``Epoch.measured``.
        on_step: Told now and then how it goes, by the first process; see :class:`Step`.
        on_epoch: Told of every epoch as it ends, by the first process. A training that goes on from a checkpoint tells
            only of what it does itself.
        checkpoints: Where and how often the state is kept. A folder that has one already is gone on from.

    Raises:
        Diverged: The loss became NaN or infinite; the last checkpoint is of before.
        ValueError: A plan that does not go with the data or the processes, or (OtherTraining) checkpoints of another
            training.
    """
    check_module(model)
    accelerator = accelerator_for(plan)
    loss_name, numbers = loss_for(train.answers, plan.loss), train.answers.is_floating_point()
    rank, world, device = accelerator.process_index, accelerator.num_processes, accelerator.device
    _check(plan, train, validation, world)
    snapshots = Snapshots(checkpoints, accelerator, model, train, validation, plan, seed)
    progress, began_at = snapshots.progress, snapshots.progress.step
    engine = Engine(accelerator, model, plan, standard=progress.epoch <= plan.standard_epochs)
    train, validation = train.to(device), validation and validation.to(device)
    count = len(train) // world * world
    per_epoch = ceil(count / plan.batch_size)
    order = torch.Generator().manual_seed(seed)
    losses, correct = Losses(accelerator), torch.zeros((), dtype=torch.long, device=device)
    snapshots.restore(engine, order, losses, correct)
    with closing(engine), closing(Unconverged(model)) as unconverged, progress.noted(began_at):
        while progress.epoch <= plan.epochs and not _is_enough(progress, plan):
            if engine.standard and progress.epoch > plan.standard_epochs:
                engine.start_anew()
                progress.plateau = Plateau()
            engine.train()
            order_before, started = order.get_state(), perf_counter() - progress.seconds
            for index in islice(shuffled_batches(count, plan.batch_size, order, device), progress.batch, None):
                lr = _rate(plan, progress, progress.step, per_epoch)
                loss, right = _gradients(engine, train, index[rank::world], augment, seed, progress.step)
                engine.step(lr)
                correct += right
                progress.step, progress.batch = progress.step + 1, progress.batch + 1
                progress.seconds = perf_counter() - started
                seen = losses.add(loss, progress.step, lr)
                if seen is not None and on_step and accelerator.is_main_process:
                    images = min(progress.batch * plan.batch_size, count)
                    share = None if numbers else correct.item() * world / images
                    speed = images / progress.seconds
                    on_step(Step(progress.step, plan.epochs * per_epoch, progress.epoch, seen, share, lr, speed))
                snapshots.save_when_due(engine, order_before, losses, correct)
            mean_loss = losses.mean()
            accuracy = None if numbers else accelerator.reduce(correct).item() / count
            progress.step_seconds.append((perf_counter() - started) / per_epoch)
            lr = _rate(plan, progress, progress.step - 1, per_epoch)
            measured = {name: value for probe in probes for name, value in probe(engine.bare, progress.step).items()}
            if validation:
                valid = validate(engine.bare, validation, plan.batch_size, loss_name)
                measured |= {f"{validation_name}_{name}": value for name, value in valid.items()}
                progress.plateau = progress.plateau.after(valid[plan.monitor], plan.monitor, plan.cut_after)
                if plan.ends_with_best and not progress.plateau.since_best:
                    engine.keep_best()
            unconverged.warn(progress.epoch)
            progress.epochs.append(Epoch(progress.epoch, progress.step, mean_loss, accuracy, lr, measured))
            progress.epoch, progress.batch, progress.seconds = progress.epoch + 1, 0, 0.0
            correct.zero_()
            if on_epoch and accelerator.is_main_process:
                on_epoch(progress.epochs[-1])
        snapshots.save_at_end(engine, order.get_state(), losses, correct)
        engine.put_best()
    best = len(progress.epochs) - progress.plateau.since_best if engine.best else None
    return progress.so_far(began_at, best)


def _check(plan: Plan, train: Split, validation: Split | None, world: int) -> None:
    if plan.batch_size % world:
        raise ValueError(f"batch_size needs to be a multiple of the {world} processes, got {plan.batch_size}.")
    if plan.needs_validation and not validation:
        raise ValueError("cut_after, stop_after and keep_best need validation data to go by, got none.")
    if plan.needs_validation and plan.monitor == "accuracy" and train.answers.is_floating_point():
        raise ValueError("monitor 'accuracy' needs answers that are classes, got numbers. Use 'loss'.")


def _gradients(
    engine: Engine, train: Split, rows: Tensor, augment: Augment | None, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """Forward and backward over one batch, in as many parts as the plan says: the loss, and the number of right answers."""
    engine.zero_grad()
    share = share_at(engine.plan.mixup, seed, step) if engine.plan.mixup else 1.0
    losses, right = [], []
    parts = rows.tensor_split(min(engine.plan.accumulate, len(rows)))
    for number, part in enumerate(parts):
        batch = train.rows(part)
        x, y = batch.x, batch.y
        if augment:
            x = augment(x, _generator(engine, f"augment {seed} {step} {engine.rank} {number}"))
        if engine.plan.mixup:
            x = mixed(x, share)
        with engine.alone(number, len(parts)):
            loss, good = _forward_backward(engine, engine.input(x), y, share, len(part) / len(rows))
        losses.append(loss)
        right.append(good)
    return (losses[0], right[0]) if len(parts) == 1 else (torch.stack(losses).sum(), torch.stack(right).sum())


def _forward_backward(engine: Engine, x: Tensor, y: Tensor, share: float, weight: float) -> tuple[Tensor, Tensor]:
    """One part of a batch: its share of the loss, and the number of right answers."""
    logits = engine.network(x)
    name = loss_for(y, engine.plan.loss)
    loss = mixed_loss(logits, y, name, share) if engine.plan.mixup else loss_of(logits, y, name)
    if weight != 1:
        loss = loss * weight
    engine.backward(loss)
    return loss.detach(), num_right(logits.detach(), y)


def _generator(engine: Engine, purpose: str) -> torch.Generator:
    # Made of its purpose, so that there is no state to keep, and no two processes draw the same.
    return torch.Generator(engine.device).manual_seed(Random(purpose).getrandbits(63))


def _rate(plan: Plan, progress: Progress, step: int, per_epoch: int) -> float:
    """Learning rate of a step; the schedule runs once over the standard epochs and once over the others."""
    change = plan.standard_epochs * per_epoch
    first, last = (0, change) if step < change else (change, plan.epochs * per_epoch)
    return plan.lr_at(step - first, last - first) * plan.cut**progress.plateau.cuts


def _is_enough(progress: Progress, plan: Plan) -> bool:
    """Whether the validation data say that more training does not help."""
    is_standard = progress.epoch <= plan.standard_epochs + 1
    return bool(plan.stop_after) and not is_standard and progress.plateau.since_best >= plan.stop_after
