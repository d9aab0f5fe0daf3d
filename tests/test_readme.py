"""What the README shows is what happens."""

import re

from tests.conftest import ROOT

TEXT = (ROOT / "README.md").read_text()


def test_the_python_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    exec(example, {})
    out = capsys.readouterr().out
    (accuracy,) = re.findall(r"^(\d\.\d+) [\[(]", out, re.MULTILINE)
    assert 0.3 < float(accuracy) <= 1
    assert "cnn on digits, 2 seeds" in out
    assert (tmp_path / "runs/digits-cnn/report.html").is_file()


def test_the_two_commands_come_first():
    first = TEXT.index("```sh\n./run ")
    assert TEXT.index("./run test") > first
    assert first < TEXT.index("##")


def test_the_table_of_neurons_is_the_table_in_the_code():
    from neuronal.nn.families import FAMILIES

    shown = re.findall(r"^\| `(\w+)` \| (.*?) \|", TEXT, re.MULTILINE)
    assert shown[: len(FAMILIES)] == [(family.name, family.unit) for family in FAMILIES.values()]
