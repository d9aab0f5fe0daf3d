r"""Rows that some program has to look at again: each looks at several at once, and takes those that are open one by one.

A launch goes over all rows and leaves those alone that are done; nobody has to ask on the host whether there are others.
Where rows are solved in groups, what is said of rows here is meant of groups.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.settled import settle

# Rows, or groups of them, that a program looks at.
GROUPS = 64
TURNS = tl.constexpr(GROUPS)


@triton.jit
def looked_at():
    """The rows of this program, so far apart that neighbours are worked on at the same time."""
    return tl.program_id(0) + tl.num_programs(0) * tl.arange(0, TURNS)


@triton.jit
def any_of(is_open):
    return tl.max(is_open.to(tl.int32), 0) > 0


@triton.jit
def row_of(turn):
    return (tl.program_id(0) + tl.num_programs(0) * turn).to(tl.int64)


@triton.jit
def has_turn(is_open, turn):
    return any_of(is_open & (tl.arange(0, TURNS) == turn))


settle(globals())
