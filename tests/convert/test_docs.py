import re

from tests.conftest import ROOT
from tests.vision import vision


def test_the_page_does_what_it_says(capsys):
    vision()
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/convert.md").read_text(), re.DOTALL)
    found = {}
    exec(compile(code, "docs/convert.md", "exec"), found)
    out = capsys.readouterr().out
    assert "conv1 Conv2d -> GeometricConv2d exact" in out
    assert not any("neuronal" in type(module).__module__ for module in found["plain"].modules())
