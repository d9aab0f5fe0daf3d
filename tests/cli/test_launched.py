"""The commands under a launcher: two processes over gloo, one terminal, one set of files."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import accuracy
from tests.launch import launched


def together(words, **more):
    """Output and errors of the first, where both end well and the second is silent."""
    first, second = launched(words, **more)
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert second[1:] == ("", "")
    return first[1:]


def test_compare_trains_together_and_speaks_once():
    words = "neuronal compare --model fcn --widths 8 --epochs 1 --neurons standard,zero_bias --seeds 0"
    out, err = together(words)
    assert "fcn on digits, 1 seed" in out
    assert "zero_bias seed 0: " in err
    files = sorted(file.name.split("-")[0] for file in Path("runs/digits-fcn").rglob("*") if file.is_file())
    assert files == ["costs.json", "report.html", "standard", "study.json", "zero_bias"]
    # A damaged record is set aside once, and both processes train its cell again.
    (record,) = Path("runs/digits-fcn/cells").glob("zero_bias*")
    record.write_text("{ half")
    out, err = together(f"{words} --json")
    assert json.loads(out)["comparison"]
    assert err.count("kept from before") == 1
    assert len(list(Path("runs/digits-fcn/cells").glob("*.damaged1"))) == 1


def test_sweep_says_where_its_cells_go():
    words = "neuronal sweep digits --grid lr=0.1,0.01 --grid seeds=0 --grid model=fcn --grid epochs=1"
    first, second = launched(words)
    assert first[0] == second[0] == 2
    assert "without torchrun" in first[2]
    assert first[2].count("\n") == 1
    assert second[2].startswith("neuronal, process 1: ")
    out, _ = together(f"{words} --engine here")
    assert "held-out accuracy" in " ".join(out.split())


@pytest.mark.parametrize("spread", ["false", "true"])
def test_train_writes_one_model_and_one_log(spread):
    """With a copy of the network in each process, and with the network spread over both."""
    words = "neuronal train digits --set model=fcn --set epochs=2 --set protocol=published --json"
    answer = json.loads(together(words, ACCELERATE_USE_FSDP=spread)[0])
    assert len(Path("runs/digits-standard/log.jsonl").read_text().splitlines()) == 2
    assert accuracy(answer["model"]) == pytest.approx(answer["metrics"]["accuracy"])


@pytest.mark.parametrize("name", ["accuracy", "areas"])
def test_reproduce_trains_together_and_speaks_once(name):
    for _ in range(2):
        out, _ = together(f"tests.neuronal_papers.toy reproduce toy/{name} --scale smoke")
        assert f"result: results/toy/{name}.smoke.json" in out
