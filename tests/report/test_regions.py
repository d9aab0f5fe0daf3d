"""What is drawn are the regions there are."""

import torch
from matplotlib.collections import LineCollection, PolyCollection
from torch import nn

from neuronal.geometry.regions import regions_2d
from neuronal.report import regions as drawn


def test_every_region_and_every_line_of_the_boundary_is_drawn(axes):
    model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 3)).double()
    found = regions_2d(model, *(6 * torch.randn(3, 3, dtype=torch.float64)), domain="parallelogram")
    drawing = drawn.regions_drawing(found, names=("one", "two", "three"), classes=("cat", "dog", "cow"))
    fills, edges = (c for c in axes[0].collections if isinstance(c, PolyCollection))
    (boundary,) = (c for c in axes[0].collections if isinstance(c, LineCollection))
    assert len(fills.get_paths()) == len(found.classes())
    assert len(edges.get_paths()) == found.count
    assert len(boundary.get_segments()) == len(found.decision_boundary()) > 0
    assert f"{found.count} linear regions" in drawing.caption
    assert {"one", "two", "three"} <= {text.get_text() for text in axes[0].texts}
    names = {text.get_text() for text in axes[0].get_legend().get_texts()}
    assert names == {("cat", "dog", "cow")[part.predicted] for part in found.classes()}
    assert drawing.svg.startswith("<svg")


def test_many_regions_become_a_picture(axes, monkeypatch):
    monkeypatch.setattr(drawn, "VECTORS", 2)
    model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 3)).double()
    found = regions_2d(model, *(6 * torch.randn(3, 3, dtype=torch.float64)))
    assert "data:image/png" in drawn.regions_drawing(found).svg
