import re
import runpy

from neuronal.train.log import read_log
from tests.conftest import ROOT


def test_the_script_in_the_docs_runs_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), re.S)
    (tmp_path / "mine.py").write_text(code.replace("epochs=3", "epochs=1"))
    first = runpy.run_path("mine.py")
    assert len(read_log("runs/script/log.jsonl")) == 1
    # It is finished: what is printed again comes from the checkpoint.
    second = runpy.run_path("mine.py")
    assert first["fitted"] == second["fitted"]
    assert capsys.readouterr().out.count("Epoch(number=1") == 2
