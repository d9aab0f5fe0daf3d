"""Tables, spacings and sums over nodes of the kernels for long rows, against direct evaluation in float64."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton")
tl = triton.language

from neuronal.ops.kernels import tables as t  # noqa: E402
from neuronal.ops.kernels.nodes import ALL, SIZE, product_of_tanh, to_rows  # noqa: E402
from neuronal.ops.kernels.spread import cell_of, read, units_of, weighed  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHUNK = 64
# Rows of a program, and how many cells of theirs units can be in.
SIZES = {16: 238, 4: 1006}
_SIZE, _ALL = tl.constexpr(SIZE), tl.constexpr(ALL)


def whole(spacing, kind):
    """A table and its rest, put together: a function of the differences of -127 to 127 nodes."""
    rounded, rest = t.tables(torch.device("cpu"))[1][spacing, kind.value].double()
    both = (rounded + rest).reshape(3 * CHUNK, CHUNK)
    # The same difference stands in many places.
    source, target = torch.arange(3 * CHUNK).unsqueeze(1) - CHUNK, torch.arange(CHUNK)
    found = torch.full((2 * 127 + 1,), torch.nan, dtype=torch.float64)
    found[(source - target + 127).flatten()] = both.flatten()
    assert (found[source - target + 127] == both).all()
    return found


@pytest.mark.parametrize("spacing", [0, 13, 31])
def test_tables_hold_their_functions(spacing):
    c = t.tables(torch.device("cpu"))[0][spacing].double()
    x = c * torch.arange(-127, 128)
    for kind, true in ((t.TANH, x.tanh()), (t.SECH2, 1 - x.tanh() ** 2)):
        # Half precision twice has 22 digits, but for numbers so small that they do not matter.
        torch.testing.assert_close(whole(spacing, kind), true, rtol=3e-7, atol=6e-8)


@pytest.mark.parametrize("spacing", [0, 20, 31])
def test_splines_go_through_the_nodes(spacing):
    c = t.tables(torch.device("cpu"))[0][spacing].double()
    inverse = whole(spacing, t.INVERSE)
    values = torch.sin(c * torch.arange(-300, 301, dtype=torch.float64))
    coefficients = torch.nn.functional.conv1d(values.view(1, 1, -1), inverse.view(1, 1, -1)).flatten()
    back = (coefficients[:-2] + 4 * coefficients[1:-1] + coefficients[2:]) / 6
    # The series ends at the fourth power of the second difference, over 6.
    assert (back - values[128:-128]).abs().max() <= 1.1 * (c * c / 6) ** 5 + 1e-6


@triton.jit
def _spacings(width_ptr, index_ptr, needed_ptr, holds_ptr, NODES: tl.constexpr, N: tl.constexpr):
    n = tl.arange(0, N)
    width = tl.load(width_ptr + n)
    least = t.needed(width, NODES)
    tl.store(needed_ptr + n, least)
    tl.store(holds_ptr + n, t.holds(width, NODES))
    tl.store(index_ptr + n, t.spacing_index(least))


@pytest.mark.parametrize(("rows", "cells"), SIZES.items())
def test_a_spacing_is_as_coarse_as_needed_and_hardly_coarser(rows, cells):
    width = torch.logspace(-3, 3, 256, device=DEVICE)
    index, least = torch.empty(256, dtype=torch.int32, device=DEVICE), torch.empty(256, device=DEVICE)
    holds = torch.empty(256, dtype=torch.bool, device=DEVICE)
    _spacings[(1,)](width, index, least, holds, NODES=4096 // rows, N=256)
    assert torch.equal(holds, width <= 0.5 * cells)
    width, least, index = (of_all[holds].cpu() for of_all in (width, least, index))
    c = t.tables(torch.device("cpu"))[0][index]
    # A row stays between the margins, and one of a chunk's width in a chunk.
    assert (width <= 1.001 * cells * c).all()
    assert ((c >= t.FINEST.value) | (width <= 1.001 * 48 * c)).all()
    assert (c <= 1.001 * 2 ** (1 / 8) * least.clamp_min(t.LEAST.value)).all()


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
