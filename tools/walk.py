"""Functions and files of ours that a main job visits in one process: ``python tools/walk.py [compare|reproduce]``.

Distinct functions of ``src/`` count that run on the second round, when all is imported. Lambdas, comprehensions and the
bodies of classes and modules are no functions. Runs and results go to a folder that is removed.
"""

from __future__ import annotations

import argparse
import inspect
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

SRC = str(Path(__file__).parents[1] / "src") + os.sep


def compare() -> None:
    """What ``./run`` does, on less: the table, and the page."""
    import neuronal

    seeds, neurons = (0, 1), ("standard", "zero_bias")
    comparison = neuronal.compare("digits", "cnn", neurons, seeds, epochs=2)
    print(comparison, comparison.write_page())


def reproduce() -> None:
    """A table of a paper in seconds, and the page of what holds."""
    from neuronal.cli.app import main

    for words in ("reproduce zero_bias/table1_mnist_fcn --scale smoke", "findings zero_bias --out page.md"):
        if code := main(words.split()):
            raise RuntimeError(f"neuronal {words} ended with code {code}")


WALKS = {"compare": compare, "reproduce": reproduce}


@contextmanager
def visited() -> Iterator[set[CodeType]]:
    """The code of ours that runs inside, in this thread."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        ours = {code for code in seen if code.co_filename.startswith(SRC) and code.co_filename.endswith(".py")}
        seen.intersection_update(
            code for code in ours if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        )


def walk(name: str) -> set[CodeType]:
    """The functions that are visited on the way, without a trace on the terminal or the disk."""
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        # What the first round imports, or keeps for the process, does not count.
        WALKS[name]()
        shutil.rmtree(folder)
        os.mkdir(folder)
        os.chdir(folder)
        with visited() as seen:
            WALKS[name]()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("walk", nargs="?", choices=WALKS, help="both if left out")
    parser.add_argument("--list", action="store_true", help="print every function")
    words = parser.parse_args()
    for name in [words.walk] if words.walk else WALKS:
        found = walk(name)
        print(f"{name}: {len(found)} functions in {len({code.co_filename for code in found})} files")
        if words.list:
            print("\n".join(sorted(f"  {code.co_filename.removeprefix(SRC)}:{code.co_qualname}" for code in found)))


if __name__ == "__main__":
    main()
