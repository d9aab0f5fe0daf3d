"""CONTRIBUTING's way to add a neuron, followed to the letter."""

import json
import re

import pytest

from neuronal import cli
from neuronal.nn import families
from tests.conftest import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)


@pytest.fixture
def half_bias():
    layers, entry = (block for block in BLOCKS if "half_bias" in block)
    names = dict(vars(families))
    exec(layers, names)
    exec(entry, names)
    yield names
    del families.FAMILIES["half_bias"]


def test_a_neuron_added_as_described_is_found_by_everything(half_bias, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--widths", "4,4,8", "--epochs", "1", "--seeds", "0", "--json"]
    assert cli.main(["compare", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["family"] for row in answer["comparison"]["rows"]] == [*families.FAMILIES]
    assert len(answer["costs"]["steps"]) == len(families.FAMILIES)
    page = (tmp_path / "runs/digits-cnn/report.html").read_text()
    assert "half_bias" in page
    assert "w·x + b/2" in page
    assert cli.main(["neurons"]) == 0
    assert "half_bias" in capsys.readouterr().out


def test_the_described_neuron_does_what_it_says(half_bias):
    import torch

    linear, conv = half_bias["HalfBiasLinear"](3, 2), half_bias["HalfBiasConv2d"](1, 2, 3)
    assert torch.equal(linear(torch.zeros(1, 3))[0], linear.bias / 2)
    assert torch.equal(conv(torch.zeros(1, 1, 3, 3)).flatten(), conv.bias / 2)
