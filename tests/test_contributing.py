"""CONTRIBUTING's ways to add a neuron and a table, followed to the letter in a copy of the packages."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from neuronal.nn.families import FAMILIES
from tests.conftest import ROOT

BLOCKS = re.findall(r"```python\n# src/(.*?)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The packages with what is described: a new file is written, to an existing one the block is appended."""
    folder = tmp_path_factory.mktemp("copy")
    for package in ("neuronal", "neuronal_papers"):
        shutil.copytree(ROOT / "src" / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, block in BLOCKS:
        with (folder / file).open("a") as opened:
            opened.write("\n" + block)
    return folder


def python(copied, *words):
    environment = {**os.environ, "PYTHONPATH": str(copied), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=copied, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_neuron_added_as_described_is_found_by_everything(copied):
    words = ["--widths", "4,4,8", "--epochs", "1", "--seeds", "0", "--json"]
    answer = json.loads(python(copied, "-m", "neuronal", "compare", *words))
    assert [row["family"] for row in answer["comparison"]["rows"]] == [*FAMILIES, "half_bias"]
    assert len(answer["costs"]["steps"]) == len(FAMILIES) + 1
    page = (copied / "runs/digits-cnn/report.html").read_text()
    assert "half_bias" in page
    assert "w·x + b/2" in page


def test_the_described_neuron_and_table_are_found_do_what_they_say_and_are_shown(copied):
    """All in one process, which takes seconds to start."""
    code = """
import torch
from neuronal.cli.app import main
from neuronal.nn.families import FAMILIES

family = FAMILIES["half_bias"]
for kind, layer in (("Linear", family.Linear(3, 2)), ("Conv1d", family.Conv1d(1, 2, 3)),
                    ("Conv2d", family.Conv2d(1, 2, 3)), ("Conv3d", family.Conv3d(1, 2, 3))):
    zeros = torch.zeros(1, *layer.weight.shape[1:])
    assert torch.equal(layer(zeros).flatten(), layer.bias / 2), kind
for words in ("neurons", "reproduce --list", "reproduce zero_bias/few_units --seeds 0,1 --results results --out runs",
              "findings zero_bias"):
    assert main(words.split()) == 0, words
    print(chr(12), flush=True)
"""
    neurons, listed, run, findings, _ = python(copied, "-c", code).split("\f\n")
    assert "half_bias" in neurons
    assert "zero_bias/few_units" in listed.split()
    assert "Accuracy with eight hidden units" in run
    assert "2 seeds" in run
    assert "## Accuracy with eight hidden units" in findings


def test_the_described_code_is_clean(copied):
    new = ("neuronal/nn/half_bias.py", "neuronal_papers/zero_bias/few_units.py")
    python(copied, "-m", "ruff", "check", "--isolated", "--line-length", "120", *new)


def test_a_table_takes_two_files_in_one_folder():
    files = [file for file, _ in BLOCKS if file.startswith("neuronal_papers/")]
    assert len(files) == 2
    assert len({file.rpartition("/")[0] for file in files}) == 1
