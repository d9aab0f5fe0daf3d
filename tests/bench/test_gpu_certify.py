"""Segments of residual networks at a tiny size, the CPU in the place of the device."""

import json

import pytest
import torch

from neuronal.bench.gpu import certify
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.certify import Walked, reach


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    changes = {
        "SMALL": 1,
        "LARGE": 2,
        "SIDE": 8,
        "CPU_SECONDS": 0.05,
        "FIRST": 0.1,
        "ENOUGH": 0.001,
        "SECONDS": 0.05,
        "PROOF_SECONDS": 5.0,
        "PROVED": 4,
    }
    for name, value in changes.items():
        monkeypatch.setattr(certify, name, value)


def test_both_devices_walk_the_same_segment():
    rows = list(certify.rows(Setting(torch.device("cpu"), 2)))
    assert [row.name for row in rows] == [
        "width 1, exact pieces",
        "width 1, certificate",
        "width 2, exact pieces",
        "width 2, certificate",
    ]
    assert all(row.shown["parts"] > 0 for row in rows)
    assert rows[0].data["cpu"]["work"] == rows[0].data["device"]["work"]
    assert rows[0].note == ""
    assert (rows[2].limit, rows[2].unit) == (8.0, "GiB")
    assert rows[3].shown["verdict"] in ("certified", "refuted", "unknown")
    json.dumps([row.to_json() for row in rows])


def test_other_answers_are_told():
    row = certify._beside("", Walked(100, 1.0, 0, "certified"), Walked(50, 0.5, 0, "unknown"), 0.5)
    assert row.note == "CPU: 100 certified"
    assert row.measured == 2


@pytest.mark.parametrize(("per_way", "share"), [(100.0, 0.04), (1.0, 1.0), (3.2, 1.0), (1e4, 4e-4)])
def test_how_far_to_go(per_way, share, monkeypatch):
    """Time grows with the way, and some of it goes into any way: 4 seconds beyond that, at most all of the way."""
    monkeypatch.setattr(certify, "FIRST", 1e-6)
    monkeypatch.setattr(certify, "exact", lambda model, a, b, share, memory: Walked(1, 0.7 + per_way * share, 0))
    assert reach(None, None, None, 1, 4.0) == pytest.approx(share, rel=0.2)


def test_the_network_is_evaluated_with_statistics():
    model = certify.network(1)
    assert not model.training
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert any(not torch.equal(norm.running_var, torch.ones_like(norm.running_var)) for norm in norms)
