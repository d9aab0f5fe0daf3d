"""Segments: against exact fractions, exact breakpoints and networks made to mislead; for samples see tests/soundness."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuronal.certify.branch import Budget
from neuronal.certify.segment import certify_segment, certify_segments
from neuronal.geometry.segment import segment_pieces
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from tests.certify.networks import NETWORKS, inputs, network, same_class_pairs, spike
from tests.certify.rational import exact, lowest_margin
from tests.geometry.networks import linear


@pytest.mark.parametrize("name", NETWORKS)
def test_verdicts_are_those_of_the_exact_breakpoints(name):
    model = network(name, seed=1)
    a, b = same_class_pairs(model, inputs(name, 20, seed=1), 30)
    verdicts = []
    for c in certify_segments(model, a, b):
        pieces = segment_pieces(model.double(), c.evidence.a.double().unsqueeze(0), c.evidence.b.double().unsqueeze(0))
        model.float()
        others = pieces.outputs.clone()
        others[:, c.evidence.label] = -torch.inf
        lowest = (pieces.outputs[:, c.evidence.label] - others.amax(1)).min()
        verdicts.append(c.verdict)
        assert c.verdict == ("certified" if lowest > 0 else "refuted")
    assert "certified" in verdicts


def test_an_end_of_many_segments_is_asked_about_alone_once():
    """Every pair of four inputs, of which two differ in one last bit."""
    images = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    images[3] = images[0]
    images[3, 2] = images[0, 2].nextafter(torch.tensor(9.0))
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(4))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    calls = []
    handle = model.register_forward_hook(lambda _, given, y: calls.append(given[0].clone()))
    found = certify_segments(model, images[pairs[:, 0]], images[pairs[:, 1]])
    handle.remove()
    alone = [x for x in calls if len(x) == 1]
    # The steps of the model were read off the first one.
    assert [sum(torch.equal(x[0], image) for x in alone) for image in images] == [2, 1, 1, 1]
    labels = model(images).argmax(1)
    assert all(
        c.evidence.label == labels[i] for c, i in zip(found, pairs[:, 0], strict=True) if c.verdict == "certified"
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_exact_fractions_agree(seed):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    for p in model.parameters():
        p.data = torch.randint(-4, 5, p.shape, generator=generator) / 4
    a, b = torch.randint(-8, 9, (2, 2), generator=generator) / 4
    c = certify_segment(model, a, b)
    lowest = lowest_margin(model, exact(a), exact(b), c.evidence.label)
    if c.verdict == "certified":
        assert lowest > 0
    elif c.verdict == "refuted":
        assert lowest <= 0
    else:  # a tie, or as good as one
        assert abs(lowest) < 1e-6


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
def test_a_hidden_narrow_counterexample_is_found(width, promise):
    model = spike(width, at=0.61803398)
    c = certify_segment(model, torch.tensor([0.0]), torch.tensor([1.0]), promise=promise)
    assert c.verdict == "refuted"
    assert abs(c.evidence.t - 0.61803398) < width


@pytest.mark.parametrize(("height", "verdict"), [(0.999, "certified"), (1.0, "unknown"), (1.001, "refuted")])
def test_a_spike_is_certified_until_it_touches(height, verdict):
    c = certify_segment(spike(0.25, at=0.5, height=height), torch.tensor([0.0]), torch.tensor([1.0]))
    assert c.verdict == verdict
    assert ("margin" in c.reason) == (verdict == "unknown")


def test_rounding_that_changes_the_deployed_class_is_not_certified():
    """In real numbers the first score is x[1] = 0.5; in float32 it is 0 or 0.5, as the order of summation has it."""
    model = linear([[2.0**25, 1.0, -(2.0**25)], [0.0, 0.0, 0.0]], [0.0, 0.25])
    a, b = torch.tensor([1.0, 0.5, 1.0]), torch.tensor([1.5, 0.5, 1.5])
    assert certify_segment(model, a, b, promise="float32").verdict != "certified"
    c = certify_segment(model.double(), a.double(), b.double())
    assert (c.verdict, c.evidence.label) == ("certified", 0)


def test_a_float64_model_is_not_silently_shortened():
    """A lead of 1e-9, which float32 weights do not have."""
    model = linear([[1.0 + 1e-9, 1.0], [1.0, 1.0]], [0.0, 0.0], torch.float64)
    ends = torch.ones(2, dtype=torch.float64), torch.full((2,), 2.0, dtype=torch.float64)
    c = certify_segment(model, *ends)
    assert (c.verdict, c.evidence.label) == ("certified", 0)
    with torch.no_grad():
        model.weight[0, 0] = 1.0 - 1e-9
    assert certify_segment(model, *ends).evidence.label == 1
    assert certify_segment(model, *ends, promise="float32").verdict == "unknown"


@pytest.mark.parametrize("name", ["relu", "residual", "pooled"])
def test_exact_breakpoints_take_over_when_bounds_are_not_allowed_to_cut(name):
    model = network(name, seed=4)
    a, b = same_class_pairs(model, inputs(name, 24), 40)
    want = [c.verdict for c in certify_segments(model, a, b)]
    exact_only = certify_segments(model, a, b, budget=Budget(bounds=1))
    assert [c.verdict for c in exact_only] == want
    assert any("exact" in c.reason for c in exact_only)
    none = certify_segments(model, a, b, budget=Budget(bounds=1, exact=False))
    assert "unknown" in {c.verdict for c in none}
    assert any("budget" in c.reason for c in none)
    late = certify_segments(model, a, b, budget=Budget(bounds=1, seconds=0))
    assert any("seconds" in c.reason for c in late if c.verdict == "unknown")


def test_values_that_may_overflow_are_never_certified():
    model = linear([[1.0, 1.0], [-1.0, -1.0]])
    for promise in ("real", "float32"):
        c = certify_segment(model, torch.full((2,), 1e37), torch.full((2,), 2e37), promise=promise)
        assert c.verdict == ("certified" if promise == "real" else "unknown")
    assert "overflow" in c.reason


def test_an_implicit_bias_network_is_unknown_and_named():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), ImplicitBiasLinear(8, 3))
    c = certify_segment(model, torch.zeros(4), torch.ones(4))
    assert c.verdict == "unknown"
    assert "ImplicitBiasLinear at '2'" in c.reason


@pytest.mark.parametrize(
    ("model", "a", "promise", "message"),
    [
        (nn.Linear(5, 2), torch.zeros(4), "real", "one shape"),
        (nn.Linear(4, 2), torch.zeros(5), "real", "does not take inputs of shape"),
        (nn.Linear(5, 2), torch.full((5,), torch.nan), "real", "finite"),
        (nn.Linear(5, 2), torch.zeros(5, dtype=torch.long), "real", "floating-point"),
        (nn.Linear(5, 2), torch.ones(5), "exact", "promise needs to be one of real, float32"),
        (nn.Identity(), torch.ones(5), "real", "returns its input"),
        (nn.Linear(5, 1), torch.ones(5), "real", "two or more classes"),
    ],
)
def test_what_cannot_be_asked_is_named(model, a, promise, message):
    with pytest.raises(ValueError, match=message) as error:
        certify_segment(model, a, torch.zeros(5), promise=promise)
    assert "\n" not in str(error.value)
