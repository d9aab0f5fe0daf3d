import re
import runpy

import pytest

from neuronal.report.explain import coupling_and_distribution, coupling_and_two_groups
from tests.conftest import ROOT


@pytest.mark.parametrize("draw", [coupling_and_distribution, coupling_and_two_groups])
def test_the_coupling_is_drawn_for_every_strength(draw):
    drawing = draw((0.0, -0.3, 0.05))
    for strength in ("0", "-0.3", "0.05"):
        assert f"λ = {strength}" in drawing.svg
    assert "density of units" in drawing.svg


def test_the_figures_of_the_docs_are_there_and_shown(tmp_path):
    runpy.run_path(str(ROOT / "docs/figures.py"))["main"](tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    shown = {
        name for page in (ROOT / "docs").glob("*.md") for name in re.findall(r"\]\((\w+\.svg)\)", page.read_text())
    }
    assert drawn == shown == {path.name for path in (ROOT / "docs").glob("*.svg")}
