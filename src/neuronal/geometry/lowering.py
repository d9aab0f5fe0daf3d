"""Any module made of piecewise-linear parts -> its :class:`Program`.

The model runs once, in evaluation mode, on two rows; every operation that touches the input is written down as steps.
What depends on parameters alone (a geometric layer's directions, a Farkas layer's last row) is computed by the model
itself and enters as a constant. Afterwards the program is compared with the model on other inputs.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn

from neuronal.core.inference import call_on_copy, check_finite, evaluating
from neuronal.core.precision import all_digits
from neuronal.geometry.program import Program, Step
from neuronal.geometry.recorder import ROWS, NotPiecewiseLinear, Recorder
from neuronal.geometry.rules.affine import AFFINE
from neuronal.geometry.rules.bend import BEND
from neuronal.geometry.rules.copy import COPY
from neuronal.geometry.rules.smooth import SMOOTH

__all__ = ["NotPiecewiseLinear", "as_batch", "lower", "own_kind"]
RULES = AFFINE | COPY | BEND


def lower(model: nn.Module, x: Tensor, *, smooth: bool = False) -> Program:
    """The program of ``model`` for inputs shaped like the rows of ``x``; constants are held in float64.

    Costs five forward passes of a few rows. The real-valued network the program stands for has the weights the model
    uses, as it computes them in its own precision. With ``smooth``, parts that are not piecewise linear, but stretch
    distances by a known constant, become steps too (:class:`~neuronal.geometry.program.Smooth`).

    Raises:
        NotPiecewiseLinear: A part is not supported; the message names the module and what is supported.
        ValueError: A weight is NaN or infinite.
    """
    check_finite(model)
    if x.dim() < 2 or not len(x):
        raise ValueError(f"Inputs need a batch dimension in front and at least one row, got shape {tuple(x.shape)}.")
    rows = _rows(model, x)
    own = rows.clone()  # the model may change it
    recorder = Recorder(model, own, RULES | SMOOTH if smooth else RULES)
    # A network whose products are shortened is too far from the one its weights stand for.
    with all_digits(rows.device), evaluating(model):
        with recorder.watching():
            result = model(own)
        number = recorder.returned(result)
        program = Program(_with_frees(recorder.steps, number), number, tuple(rows.shape[1:]), rows.dtype, rows.device)
        _compare(model, program.to(torch.float64), rows)
    return program.to(torch.float64)


def as_batch(model: nn.Module, x: Tensor) -> Tensor:
    """One input with its batch dimension of 1, which it has already or not; the model knows. Costs a forward pass."""
    if x.dim() < 2 or len(x) != 1:
        return x.unsqueeze(0)
    try:
        with evaluating(model):
            model(_rows(model, x))
    except Exception:  # whatever the model raises, a batch is not what it was
        return x.unsqueeze(0)
    return x


def own_kind(model: nn.Module, x: Tensor) -> Tensor:
    """``x`` in the precision and on the device of the model, where it has any."""
    x = x.detach() if x.is_floating_point() else x.to(torch.get_default_dtype())
    own = (t for t in chain(model.parameters(), model.buffers()) if t.is_floating_point())
    return x.to(next(own, x))


def _rows(model: nn.Module, x: Tensor) -> Tensor:
    """The first row of ``x``, several times, as the model takes it."""
    return own_kind(model, x[:1]).repeat(ROWS, *[1] * (x.dim() - 1))


def _compare(model: nn.Module, program: Program, rows: Tensor) -> None:
    """Our own mistakes only: a program that says something else than the model must never leave this file."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(ROWS + 1, *rows.shape[1:], generator=generator, dtype=torch.float64)
    size = max(rows.abs().max().item(), 1e-3)
    # Both ways: where a ReLU makes the outputs of a point 0, those of the point opposite may not be.
    x = (torch.cat([noise, -noise]) * size).to(rows)
    want, again = (call_on_copy(model, x) for _ in range(2))
    # One row alone is a case of its own: solvers stop when all rows are done, and a model may ask how many there are. Each
    # row is looked at, since the outputs of a single one may be all 0.
    alone = torch.cat([call_on_copy(model, row) for row in x.split(1)])
    got = program(x.double())
    got_alone = torch.cat([program(row.double()) for row in x.split(1)])
    eps, size = torch.finfo(x.dtype).eps, max(want.double().abs().max().item(), got.abs().max().item(), 1e-30)

    def agree(outputs: tuple[Tensor, Tensor], digits: float) -> bool:
        return all(
            one.shape == other.shape and bool((one.double() - other).abs().max() <= digits * eps * size)
            for one, other in zip(outputs, (got, got_alone), strict=True)
        )

    understood = torch.equal(want, again)
    if torch.finfo(x.dtype).bits < 32:
        # So short numbers differ from the program's by themselves; those of the same weights in float64 may not.
        wide = deepcopy(model).double()
        rows_alone = [call_on_copy(wide, row) for row in x.double().split(1)]
        precise = call_on_copy(wide, x.double()), torch.cat(rows_alone)
        understood &= agree(precise, 16) and agree((want, alone), 64)
    else:
        understood &= agree((want, alone), 1e3)
    if not understood:
        raise NotPiecewiseLinear(
            f"{type(model).__name__} was not understood: its steps, put together again, give another output. A module "
            "that keeps state between calls, draws random numbers, treats one input in another way than several, or "
            "computes with rounded numbers of its own does that.",
            path="",
            operation="",
        )


def _with_frees(steps: list[Step], output: int) -> tuple[Step, ...]:
    """Steps in order, without those nobody reads, each with the values that are not needed after it."""
    needed, kept = {output}, []
    for step in reversed(steps):
        if step.output in needed:
            frees = tuple(i for i in dict.fromkeys(step.inputs) if i not in needed)
            needed.update(step.inputs)
            kept.append(replace(step, frees=frees))
    return tuple(reversed(kept))
