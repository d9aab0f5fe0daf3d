import re

from tests.conftest import ROOT


def test_the_page_does_what_it_says(capsys):
    found = {}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs/certify.md").read_text(), re.DOTALL):
        exec(compile(code, "docs/certify.md", "exec"), found)
    out = capsys.readouterr().out
    assert "certified | Proved" in out
    assert " to 1 at t = 0." in out
    assert re.search(r"'certified': [1-9]", out)
    assert "certified | f(s x) = s f(x), so the largest output stays the largest" in out
    assert "refuted at s =" in out
    assert "Conv2d at 'features.0' has a bias: use bias=False, or neuronal.convert(model, 'zero_bias')" in out
    assert "By construction" in out
    assert "checked in rationals" in out
    assert "refuted torch.Size([1, 784])" in out
    assert "certified True" in out
    assert re.search(r"class \d for every input within", out)
