"""Runs the cases of a suite one after the other; what is measured is in the file at once."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from rich.console import Console

from benchmarks.cases import Case, Row
from benchmarks.suites import certify, implicit, layers, networks, train
from benchmarks.tables import suite_table
from benchmarks.timing import FEWEST, Setting
from neuronal.core.files import make_writable, plain_json, write_whole
from neuronal.core.words import one_line
from neuronal.experiments import environment
from neuronal.report import rich_table

SUITES: Mapping[str, tuple[str, Mapping[str, Sequence[Case]]]] = {
    "layers": ("3x3 convolutions, forward and backward", layers.CASES),
    "implicit": ("implicit-bias convolutions, forward and backward", implicit.CASES),
    "networks": ("training steps of whole networks", networks.CASES),
    "train": ("the training loop", train.CASES),
    "certify": ("certificates and exact segments", certify.CASES),
}


def main(words: Sequence[str] | None = None) -> int:
    """Measures a suite and prints its table; returns 0, or 1 if some row failed, or 2 for a wrong word."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure what the neurons cost.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="rounds per case; the median is shown")
    parser.add_argument("--only", default="", metavar="WORDS", help="cases with these words in their name")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for the numbers")
    chosen = parser.parse_args(words)
    if chosen.device == "cpu":
        # The training loop would take a GPU that it sees.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        result = run(chosen.suite, chosen.device, chosen.rounds, chosen.out, chosen.only)
    except (ValueError, OSError) as wrong:
        print(f"benchmarks: {wrong}", file=sys.stderr)
        return 2
    # What is no terminal has no width of its own; the tables are wide.
    Console(width=None if sys.stdout.isatty() else 200).print(rich_table(suite_table(result)))
    failed = [row["name"] for row in result["rows"] if row["error"]]
    if failed:
        print(f"benchmarks: {len(failed)} of {len(result['rows'])} rows failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(suite: str, device: str, rounds: int, out: Path, only: str = "") -> dict[str, Any]:
    """Measures every case of a suite whose name contains ``only``; returns what ``out/SUITE_DEVICE.json`` says then.

    A case that fails is a row with its error, and the next one goes on.

    Raises:
        ValueError: Too few rounds, no such device, or no such case.
        OSError: The file cannot be written.
    """
    if rounds < FEWEST:
        raise ValueError(f"--rounds needs to be at least {FEWEST} for a 95% interval, got {rounds}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda needs a CUDA device, and there is none.")
    about, cases = SUITES[suite]
    chosen = [case for case in cases[device] if only in case.name]
    if not chosen:
        names = "; ".join(case.name for case in cases[device])
        raise ValueError(f"no case of {suite} on {device} has {only!r} in its name. There are: {names}.")
    make_writable(out)
    rows: list[dict[str, Any]] = []
    result = {"suite": suite, "device": device, "about": about, "rounds": rounds, "only": only, "seconds": 0.0}
    result |= {"environment": environment(), "rows": rows}
    started = perf_counter()
    for case in chosen:
        print(f"benchmarks: {case.name}", file=sys.stderr, flush=True)
        for row in _measured(case, Setting(torch.device(device), rounds)):
            rows.append(row.to_json())
            result["seconds"] = perf_counter() - started
            write_whole(out / f"{suite}_{device}.json", plain_json(result) + "\n")
        # What was compiled and taken on the device is given back, so that the next case finds it as it was.
        torch.compiler.reset()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
    return result


def _measured(case: Case, setting: Setting) -> Iterator[Row]:
    torch.manual_seed(0)
    try:
        yield from case.rows(setting)
    except Exception as error:  # whatever it is, the other cases go on
        yield Row(case.name, None, "", error=f"{type(error).__name__}: {one_line(error)}")
