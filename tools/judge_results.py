"""Judges all results again: ``python tools/judge_results.py``, after a change of claims or of the rules.

Every file below ``results/`` of a reproduction records its outcomes and the rules' version; numbers do not change.
"""

from __future__ import annotations

from pathlib import Path

from neuronal_papers.registry import reproductions
from neuronal_papers.reproduce import read_result, result_file, write_result

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    for name, reproduction in reproductions().items():
        for scale in reproduction.scales:
            if (file := result_file(name, scale, RESULTS)).is_file():
                write_result(file, reproduction, read_result(file))
                print(f"judged {file.relative_to(RESULTS.parent)}")


if __name__ == "__main__":
    main()
