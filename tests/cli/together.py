"""Commands one after the other in each process of a launcher: python -m tests.cli.together OUT, in a folder of its own."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from torch import distributed

from neuronal.cli import app
from neuronal.train.engine import is_first_process
from neuronal_papers import registry
from tests.neuronal_papers import toy

COMPARE = "compare --model fcn --widths 8 --epochs 1 --neurons standard,zero_bias --seeds 0"
SWEEP = "sweep digits --grid lr=0.1,0.01 --grid seeds=0 --grid model=fcn --grid epochs=1"
TRAIN = "train digits --set model=fcn --set epochs=2 --set protocol=published --json --name"
REPRODUCE = "reproduce --scale smoke"


def damage():
    """Half of a record is left."""
    (record,) = Path("runs/digits-fcn/cells").glob("zero_bias*")
    record.write_text("{ half")


def spread():
    os.environ["ACCELERATE_USE_FSDP"] = "true"


def only_toys():
    sys.modules["neuronal_papers.toy"], registry.PAPERS = toy, ("toy",)


STEPS = {
    "compare": COMPARE,
    "damage": damage,
    "compare again": f"{COMPARE} --json",
    "sweep": f"{SWEEP} --workers 2",
    "sweep alone": SWEEP,
    "train": f"{TRAIN} copied",
    "only toys": only_toys,
    **{f"{name} {time}": f"{REPRODUCE} toy/{name}" for name in ("accuracy", "areas") for time in ("first", "again")},
    "spread": spread,
    "train spread": f"{TRAIN} spread",
}


def main(place: Path) -> None:
    """Exit code, standard output and standard error of each command, into a file of this process."""
    answers, leave = {}, app._leave_group
    # Processes stay together until the last command.
    app._leave_group = lambda: None
    for name, step in STEPS.items():
        if callable(step):
            if step is not damage or is_first_process():
                step()
        else:
            with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
                code = app.main(step.split())
            answers[name] = code, out.getvalue(), err.getvalue()
        distributed.barrier()
    (place / f"{distributed.get_rank()}.json").write_text(json.dumps(answers))
    leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
