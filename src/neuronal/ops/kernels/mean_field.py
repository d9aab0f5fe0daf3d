"""The implicit-bias equation on a GPU: which rows the kernels take, and how they are launched."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from neuronal.ops import dispatch
from neuronal.ops.kernels.launch import on_its_device

# Rows of up to so many units are summed pair by pair, longer ones by way of nodes.
FEW = 64
MOST = 16_384
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Below this the error of half precision in the sums is too large a part of the tolerance.
_FINEST = 5e-5
_PAIRS = 2048
_PAIR_WARPS = 1
# Programs of a launch that keep a GPU busy.
_MANY = 528
_WIDE_WARPS = 8
# What was fastest on an H200. Units of a row that are taken at a time on their way to the nodes, and back.
_GRID = {"W": 8, "V": 32, "num_warps": 4, "num_stages": 1}
_GRADIENT = {"NODES": 256, "AGAIN": False, "C": 32, "num_warps": 2, "num_stages": 1}
# Not timed: what spilled least.
_WIDER_GRADIENT = {"NODES": 1024, "AGAIN": True, "C": 32, "num_warps": 4, "num_stages": 1}


def covers(a: Tensor, tolerance: float, units: int = 0) -> bool:
    """Whether the kernels solve such rows, of so many units if ``a`` is not ``(rows, N)``; else plain torch does."""
    if not (dispatch.HAS_TRITON and dispatch.is_cuda(a) and a.dtype in _DTYPES and a.numel()):
        return False
    return tolerance >= _FINEST and 2 <= (units or a.shape[1]) <= MOST


def are_called(a: Tensor, tolerance: float, units: int = 0) -> bool:
    """Whether the kernels solve such rows and nobody looks on, so that they are called without an operator around them."""
    watched = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    # Tangents pass through operations of torch only.
    watched = watched or forward_ad._current_level >= 0
    return not watched and type(a) in (Tensor, nn.Parameter) and covers(a, tolerance, units)


def _packed(units: int) -> dict[str, int]:
    """Rows per program, the power of two their units are padded to, and warps."""
    padded = max(8, 1 << (units - 1).bit_length())
    return {"R": max(1, _PAIRS // padded**2), "N": padded, "num_warps": _PAIR_WARPS}


def _programs(groups: int) -> int:
    """Programs that look for wide rows: few, since there are few such rows; but each solves its groups one by one."""
    from neuronal.ops.kernels.device_functions import GROUPS

    return min(groups, max(_MANY, -(-groups // GROUPS)))


class Found(NamedTuple):
    """What a launch finds, row by row."""

    value: Tensor
    """z, of the shape of a."""
    kept: Tensor
    """z again, for the gradient: what follows may work in place."""
    residual: Tensor
    steps: Tensor
    converged: Tensor


@on_its_device
def solve(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int, units: int = 0) -> Found:
    """Solves all rows; nothing is waited for. Row r has coupling r % len(coupling), and slope likewise.

    Of long rows, those that 256 nodes are not enough for have 1,024, and what is still open is summed pair by pair.

    Args:
        units: Length of a row, if ``a`` is not ``(rows, N)``.
    """
    from neuronal.ops.kernels import grid, pairs, wide
    from neuronal.ops.kernels.launch import Launch, start
    from neuronal.ops.kernels.tables import tables

    a, coupling, slope = a.contiguous(), coupling.contiguous(), slope.contiguous()
    units = units or a.shape[1]
    rows, couplings, slopes = a.numel() // units, coupling.numel(), slope.numel()
    z, kept = torch.empty_like(a), torch.empty_like(a)
    residual = torch.empty(rows, dtype=a.dtype, device=a.device)
    steps = torch.empty(rows, dtype=torch.long, device=a.device)
    converged = torch.empty(rows, dtype=torch.bool, device=a.device)
    given: tuple[Any, ...]
    if units <= FEW:
        options = _packed(units)
        given = (a, coupling, slope, z, kept, residual, steps, converged, rows, couplings, slopes, units)
        pairs.forward[(-(-rows // options["R"]),)](*given, tolerance, max_steps, **options)
    else:
        given = (a, coupling, slope, z, kept, residual, steps)
        numbers = (rows, couplings, slopes, tolerance, max_steps, units)
        programs = _programs(rows)
        space = torch.empty(programs * wide.SPACES * units, dtype=a.dtype, device=a.device)
        # 16 rows share the nodes of a program; of those that need more nodes 4 do.
        on_nodes, by_pairs = (*given, *tables(a.device), *numbers), (*given, converged, space, *numbers)
        launches = [
            Launch(grid.forward, -(-rows // 16), on_nodes, {"ROWS": 16, "AGAIN": False, **_GRID}),
            Launch(grid.forward, _programs(-(-rows // 4)), on_nodes, {"ROWS": 4, "AGAIN": True, **_GRID}),
            Launch(wide.forward, programs, by_pairs, {"num_warps": _WIDE_WARPS}),
        ]
        start(("forward", a.device, units), launches)
    return Found(z, kept, residual, steps, converged)


@on_its_device
def vjp(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool, units: int = 0
) -> tuple[Tensor, Tensor]:
    """Gradients for a, and for coupling and slope of every row, ``(2, rows)``."""
    from neuronal.ops.kernels import gradient, pairs, wide
    from neuronal.ops.kernels.launch import Launch, start

    g, z, coupling, slope = g.contiguous(), z.contiguous(), coupling.contiguous(), slope.contiguous()
    units = units or z.shape[1]
    rows, couplings, slopes = z.numel() // units, coupling.numel(), slope.numel()
    v, of_rows = torch.empty_like(z), torch.empty((2, rows), dtype=z.dtype, device=z.device)
    given: tuple[Any, ...]
    options: dict[str, Any]
    if units <= FEW:
        options = _packed(units)
        given = (g, z, coupling, slope, v, of_rows, of_rows[1], rows, couplings, slopes, units)
        pairs.backward[(-(-rows // options["R"]),)](*given, WITH_SLOPE=with_slope, **options)
        return v, of_rows
    programs = _programs(rows)
    # What one kernel works in, the other can.
    space = torch.empty(max(programs * wide.SPACES, rows) * units, dtype=z.dtype, device=z.device)
    given, numbers = (g, z, coupling, slope, v), (rows, couplings, slopes)
    on_nodes, by_pairs = (*given, space, *of_rows, *numbers), (*given, *of_rows, space, *numbers, units)
    options = {"units": units, "WITH_COUPLING": with_coupling, "WITH_SLOPE": with_slope}
    launches = [
        Launch(gradient.backward, rows, on_nodes, options | _GRADIENT),
        Launch(gradient.backward, programs, on_nodes, options | _WIDER_GRADIENT),
        Launch(wide.backward, programs, by_pairs, {"WITH_SLOPE": with_slope, "num_warps": _WIDE_WARPS}),
    ]
    start(("backward", z.device, units, with_coupling, with_slope), launches)
    return v, of_rows
