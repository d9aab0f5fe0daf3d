"""CONTRIBUTING's way to add a neuron, followed to the letter in a copy of the package."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from neuronal.nn.families import FAMILIES
from tests.conftest import ROOT

BLOCKS = re.findall(r"```python\n# src/neuronal/(.*?)\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The package with the described neuron: a file that is not there is made, to one that is there the block is added."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src" / "neuronal", folder / "neuronal", ignore=shutil.ignore_patterns("__pycache__"))
    for file, block in BLOCKS:
        with (folder / "neuronal" / file).open("a") as opened:
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
    assert "half_bias" in python(copied, "-m", "neuronal", "neurons")


def test_the_described_neuron_does_what_it_says(copied):
    code = """
import torch
from neuronal.nn.families import FAMILIES
family = FAMILIES["half_bias"]
for kind, layer in (("Linear", family.Linear(3, 2)), ("Conv1d", family.Conv1d(1, 2, 3)),
                    ("Conv2d", family.Conv2d(1, 2, 3)), ("Conv3d", family.Conv3d(1, 2, 3))):
    zeros = torch.zeros(1, *layer.weight.shape[1:])
    assert torch.equal(layer(zeros).flatten(), layer.bias / 2), kind
"""
    python(copied, "-c", code)


def test_the_described_code_is_clean(copied):
    python(copied, "-m", "ruff", "check", "--isolated", "neuronal/nn/half_bias.py")
