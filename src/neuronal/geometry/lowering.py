"""Any module made of piecewise-linear parts -> its :class:`Program`.

The model runs in evaluation mode on two rows and on one alone; every operation that touches the input is written down as
steps, which must be the same both times. What depends on parameters alone (a geometric layer's directions, a Farkas layer's
last row) is computed by the model itself and enters as a constant. Afterwards the program is compared with the model on
other inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor, nn

from neuronal.core.inference import call_on_copy, check_finite, evaluating
from neuronal.core.precision import all_digits
from neuronal.geometry.equality import are_equal
from neuronal.geometry.program import Program, Step
from neuronal.geometry.recorder import NotPiecewiseLinear, Recorder, Rule
from neuronal.geometry.rules.affine import AFFINE
from neuronal.geometry.rules.bend import BEND
from neuronal.geometry.rules.copy import COPY
from neuronal.geometry.rules.smooth import SMOOTH

__all__ = ["NotPiecewiseLinear", "as_batch", "lower", "own_kind"]
RULES = AFFINE | COPY | BEND


def lower(model: nn.Module, x: Tensor, *, smooth: bool = False) -> Program:
    """The program of ``model`` for inputs shaped like the rows of ``x``; constants are held in float64.

    Costs eight forward passes of a few rows. The real-valued network the program stands for has the weights the model
    uses, as it computes them in its own precision. With ``smooth``, parts that are not piecewise linear, but stretch
    distances by a known constant, become steps too (:class:`~neuronal.geometry.program.Smooth`).

    Raises:
        NotPiecewiseLinear: A part is not supported; the message names the module and what is supported.
        ValueError: A weight is NaN or infinite.
    """
    check_finite(model)
    if x.dim() < 2 or not len(x):
        raise ValueError(f"Inputs need a batch dimension in front and at least one row, got shape {tuple(x.shape)}.")
    rules = RULES | SMOOTH if smooth else RULES
    row = own_kind(model, x[:1])
    # A network whose products are shortened is too far from the one its weights stand for.
    with all_digits(row.device), evaluating(model):
        # Two rows show what mixes them, and one row alone is what every statement is about.
        program, alone = (_record(model, row.repeat(count, *[1] * (x.dim() - 1)), rules) for count in (2, 1))
        if not are_equal(program, alone):
            raise _not_understood(model)
        program = program.to(torch.float64)
        _compare(model, program, row)
    return program


def _record(model: nn.Module, rows: Tensor, rules: Mapping[str, Rule]) -> Program:
    """What the model does with inputs like these, which it may change."""
    recorder = Recorder(model, rows, rules)
    with recorder.watching():
        result = model(rows)
    number = recorder.returned(result)
    return Program(_with_frees(recorder.steps, number), number, tuple(rows.shape[1:]), rows.dtype, rows.device)


def as_batch(model: nn.Module, x: Tensor) -> Tensor:
    """One input with its batch dimension of 1, which it has already or not; the model knows. Costs a forward pass."""
    if x.dim() < 2 or len(x) != 1:
        return x.unsqueeze(0)
    try:
        with evaluating(model):
            model(own_kind(model, x).repeat(2, *[1] * (x.dim() - 1)))
    except Exception:  # whatever the model raises, a batch is not what it was
        return x.unsqueeze(0)
    return x


def own_kind(model: nn.Module, x: Tensor) -> Tensor:
    """``x`` in the precision and on the device of the model, where it has any."""
    x = x.detach() if x.is_floating_point() else x.to(torch.get_default_dtype())
    own = (t for t in chain(model.parameters(), model.buffers()) if t.is_floating_point())
    return x.to(next(own, x))


def _compare(model: nn.Module, program: Program, row: Tensor) -> None:
    """Our own mistakes only: a program that says something else than the model must never leave this file."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, *row.shape[1:], generator=generator, dtype=torch.float64)
    size = max(row.abs().max().item(), 1e-3)
    # Both ways: where a ReLU makes the outputs of a point 0, those of the point opposite may not be.
    x = (torch.cat([noise, -noise]) * size).to(row)
    want, again = (call_on_copy(model, x) for _ in range(2))
    alone = call_on_copy(model, x[:1])
    got, got_alone = program(x.double()), program(x[:1].double())  # solvers stop when all rows are done
    eps, size = torch.finfo(x.dtype).eps, max(want.double().abs().max().item(), got.abs().max().item(), 1e-30)

    def agree(whole: Tensor, first: Tensor, digits: float) -> bool:
        return all(
            one.shape == other.shape and bool((one.double() - other).abs().max() <= digits * eps * size)
            for one, other in ((whole, got), (first, got_alone))
        )

    understood = torch.equal(want, again)
    if torch.finfo(x.dtype).bits < 32:
        # So short numbers differ from the program's by themselves; those of the same weights in float64 may not.
        wide = deepcopy(model).double()
        understood &= agree(call_on_copy(wide, x.double()), call_on_copy(wide, x[:1].double()), 16)
        understood &= agree(want, alone, 64)
    else:
        understood &= agree(want, alone, 1e3)
    if not understood:
        raise _not_understood(model)


def _not_understood(model: nn.Module) -> NotPiecewiseLinear:
    return NotPiecewiseLinear(
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
