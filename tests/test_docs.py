"""Every example in the documentation runs as it stands, and prints what its page says."""

import re
import runpy

import pytest

from neuronal.train.log import read_log
from tests.conftest import ROOT
from tests.vision import vision

CODE = {page.name: re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) for page in ROOT.glob("docs/*.md")}
PRINTS = {
    "attacks.md": ["black-box never beats white-box"],
    "certify.md": [
        r"certified \| Proved",
        r" to 1 at t = 0\.",
        r"'certified': [1-9]",
        r"certified \| f\(s x\) = s f\(x\)",
        "refuted at s =",
        r"Conv2d at 'features\.0' has a bias",
        "checked in rationals",
        r"refuted torch\.Size\(\[1, 784\]\)",
        "certified confirmed",
        r"class is \d for every input within",
    ],
    "convert.md": [
        "conv1 Conv2d -> GeometricConv2d exact",
        "class independent of contrast: certified: ",
        r"1 SiLU \| computes silu, which does not scale \| put nn.ReLU\(\) in its place",
        r"3 LayerNorm \| divides by the size of its input",
        r"^certified$",
    ],
    "geometry.md": [
        r"at t = 0\.\d+ class 4 gives way to class \d",
        r"torch\.Size\(\[1, 10, 1, 8, 8\]\)",
        r"of total area (1\.0|0\.99999)",
    ],
    "implicit_bias.md": [],
    "python.md": [
        "fcn on digits, 2 seeds",
        r"^\{'neuron': 'standard', 'seed': 0, 'loss': ",
        r"^runs/mine/report\.html$",
        r"^0\.\d+ True$",
        r"of 200 test inputs of digits are classified right",
        r"^certified$",
    ],
}


@pytest.mark.parametrize("page", sorted(name for name, code in CODE.items() if code and name != "training.md"))
def test_a_page_does_what_it_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page == "convert.md":
        vision()
    names = {}
    for code in CODE[page]:
        exec(compile(code, page, "exec"), names)
    out = capsys.readouterr().out
    assert [pattern for pattern in PRINTS[page] if not re.search(pattern, out, re.MULTILINE)] == []
    if page == "convert.md":
        assert not any("neuronal" in type(module).__module__ for module in names["plain"].modules())
    if page == "geometry.md":
        assert abs(names["regions"].areas().sum() - 1) < 1e-12


def test_the_script_on_training_runs_and_is_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = CODE["training.md"]
    (tmp_path / "mine.py").write_text(code.replace("epochs=3", "epochs=1"))
    first = runpy.run_path("mine.py")
    assert len(read_log("runs/script/log.jsonl")) == 1
    # It is finished: what is printed again comes from the checkpoint.
    second = runpy.run_path("mine.py")
    assert first["fitted"] == second["fitted"]
    assert capsys.readouterr().out.count("Epoch(number=1") == 2


def test_the_figures_of_the_pages_are_there_and_shown(tmp_path):
    figures = runpy.run_path(str(ROOT / "docs/figures.py"))
    figures["main"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    shown = {
        name for page in (ROOT / "docs").glob("*.md") for name in re.findall(r"\]\((\w+\.svg)\)", page.read_text())
    }
    assert drawn == shown == {path.name for path in (ROOT / "docs").glob("*.svg")}
    for strength in figures["COUPLINGS"]:
        assert f"λ = {strength:g}" in (tmp_path / "implicit_bias_distribution.svg").read_text()
