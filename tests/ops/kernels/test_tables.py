"""Sums over nodes of the kernels for long rows, by tables, against direct evaluation in float64."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton")
tl = triton.language

from neuronal.ops.kernels import tables as t  # noqa: E402
from neuronal.ops.kernels.nodes import ALL, SIZE, product_of_tanh, to_rows  # noqa: E402
from neuronal.ops.kernels.spread import cell_of, read, units_of, weighed  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Rows of a program, and how many cells of theirs units can be in.
SIZES = {16: 238, 4: 1006}
_SIZE, _ALL = tl.constexpr(SIZE), tl.constexpr(ALL)


@triton.jit
def _mean_tanh(
    x_ptr, out_ptr, low_ptr, error_ptr, spacing_ptr, tables_ptr, index, units, ROWS: tl.constexpr, V: tl.constexpr
):
    row = tl.arange(0, ROWS)
    at, there = row * units, row >= 0
    c = tl.load(spacing_ptr + index)
    table_ptr = tables_ptr + index * (t.KINDS * t.TABLE) + t.TANH_SPLINE * t.TABLE
    low = tl.load(low_ptr + row)
    weights = weighed(x_ptr, at, there, 0 * low, 0 * low + 1, low, c, units, 8)
    means = to_rows(product_of_tanh(weights, table_ptr, ROWS, True), ROWS) * (1 / _SIZE)
    n = tl.arange(0, V)
    first, f = cell_of(units_of(x_ptr, at, n, there, units), low, c)
    tl.store(out_ptr + at[:, None] + n[None, :], read(means, first, f), mask=(n < units)[None, :])
    tl.store(error_ptr, t.error(c, _ALL // ROWS))


@pytest.mark.parametrize("index", [0, 8, 16, 20, 24, 28, 31])
@pytest.mark.parametrize(("rows", "cells"), SIZES.items())
def test_the_error_of_a_mean_tanh_is_within_its_bound(index, rows, cells):
    units = 37
    spacings, tables = t.tables(torch.device(DEVICE))
    cells = cells if spacings[index] >= t.FINEST.value else 48.0
    x = spacings[index] * cells * torch.rand(rows, units, device=DEVICE)
    # Lone units and crowds, where errors do not cancel.
    x[0], x[1], x[2, 1:] = x[0, 0], x[1].sort().values, x[2, 1]
    x -= x.amin(1, keepdim=True)
    out, error = torch.empty_like(x), torch.empty(1, device=DEVICE)
    _mean_tanh[(1,)](x, out, x.amin(1), error, spacings, tables, index, units, ROWS=rows, V=64)
    true = (x.double().unsqueeze(1) - x.double().unsqueeze(2)).tanh().mean(2)
    assert (out.double() - true).abs().max() <= error.item()
