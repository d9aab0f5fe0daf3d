"""The implicit-bias equation on a GPU: which rows the kernels take, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

# Rows of up to so many units are summed pair by pair, longer ones by way of nodes.
FEW = 64
MOST = 16_384
# Below this the error of half precision in the sums is too large a part of the tolerance.
_FINEST = 5e-5
_PAIRS = 2048


@dataclass(frozen=True)
class Launch:
    """How a kernel for long rows is cut: warps, and registers per thread at most (None: no limit)."""

    warps: int
    registers: int | None = None


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None


def covers(a: Tensor, tolerance: float, sigma: str) -> bool:
    """Whether the kernels solve such rows; else plain torch does."""
    return (
        a.is_cuda
        and a.dtype == torch.float32
        and sigma == "tanh"
        and tolerance >= _FINEST
        and 2 <= a.shape[1] <= MOST
        and a.shape[0] > 0
        and _triton_is_there()
    )


def launch_for(units: int, *, backward: bool) -> Launch:
    """What was fastest on an H200."""
    return Launch(warps=2)


def _packed(units: int) -> tuple[int, int]:
    """Rows per program and the power of two their units are padded to."""
    padded = max(8, 1 << (units - 1).bit_length())
    return max(1, _PAIRS // padded**2), padded


def solve(
    a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, residual and steps; the residual is infinite or NaN where a row is for plain torch."""
    from neuronal.ops.kernels import grid, pairs

    a, coupling, slope = a.contiguous(), coupling.contiguous(), slope.contiguous()
    rows, units = a.shape
    z, residual = torch.empty_like(a), torch.empty_like(coupling)
    steps = torch.empty(rows, dtype=torch.long, device=a.device)
    given: tuple[Any, ...]
    options: dict[str, Any]
    if units <= FEW:
        together, padded = _packed(units)
        given = (a, coupling, slope, z, residual, steps, rows, units, tolerance, max_steps)
        pairs.forward[(-(-rows // together),)](*given, R=together, N=padded, num_warps=1)
    else:
        cut = launch_for(units, backward=False)
        given = (a, coupling, slope, z, torch.empty_like(a), residual, steps, tolerance, max_steps)
        options = {"num_warps": cut.warps, "num_stages": 1, "maxnreg": cut.registers}
        grid.forward[(rows,)](*given, units=units, C=32 * cut.warps, **options)
    return z, residual, steps


def vjp(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients for a, coupling and slope, and which rows they are right for; None if for all."""
    from neuronal.ops.kernels import grid, pairs

    g, z, coupling, slope = g.contiguous(), z.contiguous(), coupling.contiguous(), slope.contiguous()
    rows, units = z.shape
    v, d_coupling, d_slope = torch.empty_like(z), torch.empty_like(coupling), torch.zeros_like(slope)
    given: tuple[Any, ...]
    options: dict[str, Any]
    if units <= FEW:
        together, padded = _packed(units)
        given = (g, z, coupling, slope, v, d_coupling, d_slope, rows, units)
        options = {"R": together, "N": padded, "num_warps": 1}
        pairs.backward[(-(-rows // together),)](*given, WITH_SLOPE=with_slope, **options)
        return v, d_coupling, d_slope, None
    cut = launch_for(units, backward=True)
    covered = torch.empty(rows, dtype=torch.bool, device=z.device)
    given = (g, z, coupling, slope, v, torch.empty_like(z), d_coupling, d_slope, covered)
    options = {"num_warps": cut.warps, "num_stages": 1, "maxnreg": cut.registers, "C": 32 * cut.warps}
    grid.backward[(rows,)](*given, units=units, WITH_COUPLING=with_coupling, WITH_SLOPE=with_slope, **options)
    return v, d_coupling, d_slope, covered
