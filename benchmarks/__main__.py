"""The command line: ``python -m benchmarks SUITE [--device cuda] [--rounds N] [--only WORDS] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

SUITE_NAMES = ("layers", "implicit", "networks", "train", "certify")


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns 0; 1 if some case failed, 2 for a wrong word."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure what the neurons cost.")
    parser.add_argument("suite", choices=SUITE_NAMES)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="rounds per case; the median is shown")
    parser.add_argument("--only", default="", metavar="WORDS", help="cases with these words in their name")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder for the numbers")
    chosen = parser.parse_args(words)
    if chosen.device == "cpu":
        # The training loop would take a GPU that it sees.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""

    from rich.console import Console

    from benchmarks.run import run
    from benchmarks.tables import suite_table
    from neuronal.report import rich_table

    try:
        result = run(chosen.suite, chosen.device, chosen.rounds, chosen.out, chosen.only)
    except (ValueError, OSError) as wrong:
        print(f"benchmarks: {wrong}", file=sys.stderr)
        return 2
    # What is no terminal has no width of its own; the tables are wide.
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(rich_table(suite_table(result)))
    print(f"numbers: {chosen.out / f'{chosen.suite}_{chosen.device}.json'}")
    failed = [row["name"] for row in result["rows"] if row["error"]]
    if failed:
        print(f"benchmarks: {len(failed)} of {len(result['rows'])} rows failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
