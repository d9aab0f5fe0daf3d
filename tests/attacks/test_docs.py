import re

from tests.conftest import ROOT


def test_the_example_of_the_documentation_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/attacks.md").read_text(), re.DOTALL)
    exec(compile(code, "docs/attacks.md", "exec"), {})
    assert "black-box never beats white-box" in capsys.readouterr().out
