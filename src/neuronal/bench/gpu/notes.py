"""What was tried where a limit is not kept: text by section and row, written by hand, shown below the table."""

from __future__ import annotations

from collections.abc import Mapping

_SOLVE = (
    "arithmetic on chip, not memory, is what the solve takes: 256 nodes a row, each summed over a window of the others at "
    "every round. Tried: 16 rows a program (slower, registers spill), 8 warps (slower), 128 nodes with splines of the fifth "
    "order (do not reach over the widths that occur)"
)
NOTES: Mapping[str, Mapping[str, str]] = {
    "implicit": {
        **{f"UCN {channels} channels {side}x{side}": _SOLVE for side in (28, 32) for channels in (16, 32, 64)},
        **{f"ResNet-18 stage {stage}": _SOLVE for stage in (1, 2, 3, 4)},
    },
}
"""``{"implicit": {"ResNet-18 stage 4": "why, and what was tried"}}``; a row is named as in the table."""
