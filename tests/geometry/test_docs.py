import re

from tests.conftest import ROOT


def test_the_page_does_what_it_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/geometry.md").read_text(), re.DOTALL)
    found = {}
    exec(compile(code, "docs/geometry.md", "exec"), found)
    out = capsys.readouterr().out
    assert re.search(r"at t = 0\.\d+ class 4 gives way to class \d", out)
    assert "torch.Size([1, 10, 1, 8, 8])" in out
    assert abs(found["regions"].areas().sum() - 1) < 1e-12
    assert "of total area 1.0" in out or "of total area 0.99999" in out
