"""Audits: sections against the probes themselves, parts that do not apply, models that do not fit."""

import copy
import re

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binomtest
from torch import nn

from neuronal.data.catalogue import load
from neuronal.experiments.audit import Network, Scaling, Segments, measure, same_class_pairs
from neuronal.experiments.compare import Share
from neuronal.experiments.environment import environment
from neuronal.experiments.subject import chosen_rows, from_files, subject
from neuronal.models.registry import create_model
from neuronal.probes.boundary_distance import BoundaryDistance
from neuronal.probes.contrast import Contrast
from neuronal.probes.dead_units import DeadUnits
from neuronal.probes.score import score
from neuronal.report.audit import Audit, audit_page, audit_sentences
from neuronal.report.render_html import render_html

SHAPE = {"num_classes": 10, "in_chans": 1, "img_size": 8}


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def small(neuron="standard", **options):
    torch.manual_seed(0)
    return create_model("cnn", neuron, widths=(4, 8), **SHAPE, **options)


@pytest.mark.parametrize("neuron", ["standard", "zero_bias", "geometric", "farkas"])
def test_every_section_of_a_piecewise_linear_network(digits, neuron):
    model = small(neuron)
    before = copy.deepcopy(model.state_dict())
    found = measure(model, digits, rows=40, pairs=4).sections
    assert not [name for name, one in found.items() if getattr(one, "why", None) and name != "segments"]
    assert found["score"] != {}
    assert found["model"].inputs == 40
    assert (found["scaling"].verdict == "certified") == (neuron == "zero_bias")
    assert found["scaling"].breaks or neuron == "zero_bias"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training


def test_numbers_are_those_of_the_probes(digits):
    model = small()
    found = measure(model, digits, rows=10_000, pairs=0).sections
    assert found["score"] == score(model, digits.test)


def test_what_does_not_apply_says_why(digits):
    found = measure(small("implicit_bias"), digits, rows=20).sections
    assert "ImplicitBias" in found["activity"].why
    assert found["contrast"].accuracy
    sentences = audit_sentences(found, "digits")
    assert any(sentence.startswith("Not measured: activity") for sentence in sentences)


def test_models_that_do_not_fit(digits):
    with pytest.raises(ValueError, match="does not take inputs"):
        measure(create_model("cnn", "standard", num_classes=10, in_chans=3, img_size=8), digits)
    with pytest.raises(ValueError, match="10 classes"):
        measure(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), digits)
    with pytest.raises(ValueError, match="regression"):
        measure(small(), load("levy"))
    with pytest.raises(ValueError, match="with parameters, got a Flatten without any"):
        measure(nn.Flatten(), digits)
    with pytest.raises(ValueError, match="at least 1 of rows and 0 of pairs, got 0 and 200"):
        measure(small(), digits, rows=0)


def test_sentences_follow_the_numbers():
    sections = {
        "model": Network(parameters=1, layers={}, inputs=50),
        "score": {"accuracy": 0.5, "loss": 1.0},
        "contrast": Contrast((1.0, 0.1), (0.5, 0.5), (1.0, 1.0)),
        "scaling": Scaling("certified", "", 1.0, ()),
        "dead_units": DeadUnits(10, 2, ()),
        "segments": Segments(Share(9, 10), refuted=1, unknown=0),
        "boundary_distance": BoundaryDistance(unit=0.0, other=0.3, binding=1.0, rows=5),
    }
    text = "\n".join(audit_sentences(sections, "x"))
    facts = ("50.0% of 50", "every input has the same class", "power 1", "2 of 10", "two winners", "0.3", "90.0%")
    assert [fact for fact in facts if fact not in text] == []
    sections["contrast"] = Contrast((1.0, 0.1), (0.5, 0.2), (1.0, 0.4))
    assert "40.0% of the inputs" in "\n".join(audit_sentences(sections, "x"))


def test_the_page_holds_everything_and_escapes(digits):
    found = measure(small(), digits, rows=20, pairs=0)
    made = Audit("<b>net</b>", "digits", digits.classes, found.sections, found.seconds, environment())
    page = render_html(audit_page(made))
    assert "<b>net</b>" not in page
    assert "&lt;b&gt;net" in page
    assert page.count("<svg") == 2
    assert "what would repair it" in page
    assert not re.search(r'(src|href)="http', page)


def test_subjects_and_their_inputs(digits, tmp_path):
    one = subject("cnn", "digits", "unit", {"neuron": "zero_bias"})
    assert one.model(digits.test.rows(slice(0, 1)).x).shape == (1, 10)
    torch.testing.assert_close(chosen_rows(digits, [3, 1], "test")[1], digits.test.rows(torch.tensor([1])).x[0])
    with pytest.raises(ValueError, match="there is no 500"):
        chosen_rows(digits, [500], "test")


def test_arrays_and_images_are_read_as_inputs(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((1, 8, 8), dtype=np.float32))
    assert from_files([tmp_path / "a.npy"], (1, 8, 8)).shape == (1, 1, 8, 8)
    Image.fromarray(np.full((8, 8), 51, dtype=np.uint8)).save(tmp_path / "a.png")
    torch.testing.assert_close(from_files([tmp_path / "a.png"], (1, 8, 8)), torch.full((1, 1, 8, 8), 0.2))
    np.save(tmp_path / "b.npy", np.ones((3, 8), dtype=np.float32))
    (tmp_path / "c.npy").write_bytes(b"no array")
    for name, reason in {"b.npy": "the model takes", "c.npy": "not an array", "d.npy": "no such file"}.items():
        with pytest.raises(ValueError, match=reason):
            from_files([tmp_path / name], (1, 8, 8))


def test_wilson_intervals_are_scipys():
    for count, n in ((0, 10), (3, 10), (10, 10), (991, 1000)):
        assert Share(count, n).interval == pytest.approx(binomtest(count, n).proportion_ci(method="wilson"))
    assert Share(0, 0).interval == (0.0, 1.0)


def test_pairs_are_of_one_class_both_right_and_different():
    y = torch.tensor([0, 0, 0, 1, 1, 2, 0])
    right = torch.tensor([True, True, False, True, True, True, True])
    every = {(0, 1), (0, 6), (1, 6), (3, 4)}
    a, b = same_class_pairs(y, right, 100, torch.Generator().manual_seed(0))
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == every
    a, b = same_class_pairs(y, right, 3, torch.Generator().manual_seed(0))
    drawn = list(zip(a.tolist(), b.tolist(), strict=True))
    assert len(set(drawn)) == 3
    assert set(drawn) <= every
    assert len(same_class_pairs(y[2:4], right[:2], 5, torch.Generator())[0]) == 0


def test_every_pair_is_as_likely_as_any_other():
    """Classes of 3 and of 2 make 3 pairs and 1: a quarter of the draws is the latter."""
    y, right = torch.tensor([0, 0, 0, 1, 1]), torch.ones(5, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    hits = [int(same_class_pairs(y, right, 1, generator)[0][0]) == 3 for _ in range(2000)]
    assert sum(hits) / 2000 == pytest.approx(0.25, abs=0.04)
