"""Gives every result below ``results/`` a checksum: ``python tools/seal_results.py``, for files that have none.

A line is added and nothing else in the file is touched. A checksum that does not fit is an error; where a file was merged
by hand and is right as it is, ``--again`` writes another.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from neuronal_papers.reproduce import with_checksum

RESULTS = Path(__file__).parents[1] / "results"
END = re.compile(r'(,\n "sha256": "[0-9a-f]{64}")?\n}\n\Z')


def sealed(text: str, again: bool) -> str:
    """The text of a result with a line for its checksum, the last one; ``ValueError`` for one that does not fit."""
    result = json.loads(text)
    new = with_checksum(result)["sha256"]
    if result.get("sha256", new) != new and not again:
        raise ValueError("its checksum does not fit its contents")
    return END.sub(lambda _: f',\n "sha256": "{new}"\n}}\n', text)


def main(words: list[str] | None = None, results: Path = RESULTS) -> int:
    """How many files were left because their checksum does not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="Replace checksums that do not fit.")
    given, wrong = parser.parse_args(words), 0
    for file in sorted(results.rglob("*.json")):
        text = file.read_text(encoding="utf-8")
        if "reproduction" not in json.loads(text):
            continue
        try:
            new = sealed(text, given.again)
        except ValueError as unfit:
            print(f"{file}: {unfit}")
            wrong += 1
            continue
        if new != text:
            file.write_text(new, encoding="utf-8")
            print(f"sealed {file}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
