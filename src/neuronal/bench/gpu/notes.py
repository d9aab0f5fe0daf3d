"""What was tried where a limit is not kept: text by section and row, written by hand, shown below the table."""

from __future__ import annotations

from collections.abc import Mapping

_NODES = (
    "arithmetic on chip, not memory: a row is solved on 256 nodes, with sums over all of them in every round. Tried: 16 "
    "rows a program for the gradient (slower, registers spill), 8 warps (slower), 128 nodes with splines of the fifth order "
    "(do not reach over the widths that occur), half and twice as many units at a time (slower; for the gradient half as "
    "many are faster, and taken)"
)
_CLOSE = f"{_NODES}; 2.49 to 2.53 in five runs"
_WIDE_ROWS = (
    f"{_NODES}; a row of units of variance 1 that spans 9.7 or more is too wide for 256 nodes and is solved on 1,024 behind "
    "the others, in the few batches that have one"
)
_PAIRS = (
    "all 4,096 pairs of a row are in the registers of one warp, 254 a thread: only eight rows are under way at a time. "
    "Tried: two and four warps a program, and more rows in one (slower)"
)
_ONE_BY_ONE = (
    "twenty small kernels, one behind the other: the next layer's weights cannot be made while the last ones are used. "
    "Tried: larger and smaller blocks (slower), a third of the instructions (no faster)."
)
NOTES: Mapping[str, Mapping[str, str]] = {
    "implicit": {
        **{f"UCN {channels} channels {side}x{side}": _NODES for side in (28, 32) for channels in (16, 32, 64)},
        "UCN 64 channels 28x28": _CLOSE,
        "ResNet-18 stage 1": _WIDE_ROWS,
        "ResNet-18 stage 2": _NODES,
        "ResNet-18 stage 3": _PAIRS,
    },
    "networks": {
        "resnet18 32x32, batch 512, norm batch: geometric": _ONE_BY_ONE,
        "resnet18 32x32, batch 512, norm none: farkas": _ONE_BY_ONE,
    },
}
"""``{"implicit": {"ResNet-18 stage 4": "why, and what was tried"}}``; a row is named as in the table."""
