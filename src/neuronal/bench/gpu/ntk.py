"""Tangent kernels on the device: both methods, in chunks that keep to a memory, beside plain Jacobians of all inputs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.row import Row
from neuronal.bench.kernel import DTYPES, PLAIN, Case, Timed, measure_case

CASES: tuple[tuple[Case, tuple[torch.dtype, ...]], ...] = (
    (Case("fcn", {"widths": (512, 512)}, (1, 28), 256, 2**36, ("jacobian", "structured")), DTYPES),
    # The same in less memory: chunk against chunk, some Jacobians more than once.
    (Case("fcn", {"widths": (512, 512)}, (1, 28), 256, 2**33), DTYPES),
    (Case("resnet18", {"width": 16, "norm": "batch"}, (3, 32), 32, 2**36), (torch.float32,)),
)


def rows(setting: Setting) -> Iterator[Row]:
    """Every case in its precisions."""
    rounds = max(2, setting.rounds // 3)
    for case, dtypes in CASES:
        for dtype in dtypes:
            for timed in measure_case(case, dtype, setting.device, rounds=rounds):
                yield row(timed)
            if setting.is_gpu:
                torch.cuda.empty_cache()


def row(timed: Timed) -> Row:
    """The line of the table."""
    memory = timed.case.memory / 2**30
    shown: dict[str, float | str] = {
        "ms": 1e3 * timed.time.seconds,
        "difference": f"{timed.difference:.0e}",
        "peak GiB": timed.peak / 2**30,
        "allowed GiB": "" if timed.method == PLAIN else memory,
    }
    name = f"{timed.case}, {memory:g} GiB, {timed.dtype}: {timed.method}"
    return Row(name, timed.time.ratio, "x torch.func", shown=shown, data={"kernel": timed.to_json()})
