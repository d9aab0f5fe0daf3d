"""``neuronal certify`` and ``neuronal audit`` as typed."""

import json

import pytest
import torch

from neuronal.cli.app import main
from neuronal.convert.checkpoint import save_model
from neuronal.models.registry import create_model

SHAPE = {"num_classes": 10, "in_chans": 1, "img_size": 8}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    save_model(create_model("fcn", "zero_bias", widths=(8,), **SHAPE), path)
    return str(path)


def answer(capsys, *words):
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


INPUTS = ["--data", "digits", "--indices", "0,0"]


@pytest.mark.parametrize("kind", ["segment", "hull", "cone"])
def test_certificates_of_one_point_hold_and_are_checked(file, kind, capsys):
    found = answer(capsys, "certify", kind, file, *INPUTS, "--check")
    assert (found["kind"], found["verdict"], found["checked"]) == (kind, "certified", True)


def test_a_refuted_segment_shows_where_the_class_changes(file, capsys):
    from neuronal.convert.checkpoint import load_model
    from neuronal.data.catalogue import load

    with torch.no_grad():
        predicted = load_model(file).eval()(load("digits").test.x).argmax(1)
    other = int((predicted != predicted[0]).nonzero()[0])
    found = answer(capsys, "certify", "segment", file, "--data", "digits", "--indices", f"0,{other}")
    assert found["verdict"] == "refuted"
    assert found["switches"][0]["from"] == int(predicted[0])
    assert found["switches"][-1]["to"] == int(predicted[other])
    assert main(["certify", "segment", file, "--data", "digits", "--indices", f"0,{other}"]) == 0
    assert "switches" in capsys.readouterr().out


def test_scaling_ball_and_activity(file, capsys):
    assert answer(capsys, "certify", "scaling", file, "--check")["verdict"] == "certified"
    ball = answer(capsys, "certify", "ball", file, "--data", "digits", "--indices", "1", "--norm", "inf")
    assert ball["radius"] > 0
    activity = answer(capsys, "certify", "activity", file, "--data", "digits")
    assert activity["layers"][0]["units"] == 8


def test_models_of_ours_are_made_for_the_data(capsys):
    words = ["certify", "scaling", "cnn", "--data", "digits", "--model-option", "neuron=standard"]
    found = answer(capsys, *words)
    assert found["verdict"] == "refuted"
    assert "bias=False" in found["breaks"][0]["repair"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["segment", "FILE", "--data", "digits", "--indices", "0"], "two ends"),
        (["segment", "FILE", "--indices", "0,1"], "give inputs as"),
        (["segment", "FILE", "--data", "digits", "--indices", "0,1", "--promise", "bf16"], "promise"),
        (["segment", "FILE", "--data", "digits", "--indices", "0,1", "--part", "valid"], "test or train"),
        (["ball", "FILE", "--data", "digits", "--indices", "0,1"], "one centre"),
        (["hull", "FILE", "--file", "none.npy", "--file", "none.npy"], "no such file"),
        (["scaling", "nothing"], "Unknown model"),
        (["activity", "FILE", "--data", "levy"], "the model does not take inputs of shape (1,)"),
        (["scaling", "FILE", "--model-option", "width=3"], "says itself how its model is made: leave width out."),
    ],
)
def test_mistakes_are_one_line(file, words, message, capsys):
    assert main(["certify", *(file if word == "FILE" else word for word in words)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_is_shown_of_weights_that_are_no_numbers(tmp_path, capsys, value):
    model = create_model("fcn", "zero_bias", widths=(8,), **SHAPE)
    with torch.no_grad():
        next(model.parameters())[0, 0] = value
    broken = str(tmp_path / "broken.safetensors")
    save_model(model, broken)
    for words in (
        ["certify", "scaling", broken],
        ["certify", "activity", broken],
        ["audit", broken, "--data", "digits"],
    ):
        assert main(words) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        assert "has NaN or infinity in it" in lines[0]


def test_an_audit_prints_sentences_and_writes_a_page(file, tmp_path, capsys):
    assert main(["audit", file, "--data", "digits", "--rows", "30", "--pairs", "3", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "does not depend on contrast" in out.replace("\n", " ")
    pages = list((tmp_path / "audit").glob("*.html"))
    assert len(pages) == 1
    assert "net-digits" in pages[0].name
    assert json.loads(pages[0].with_suffix(".json").read_text())["sections"]["scaling"]["verdict"] == "certified"


def test_an_audit_of_nothing_is_refused(file, capsys):
    assert main(["audit", file, "--data", "digits", "--rows", "0"]) == 2
    assert "--rows" in capsys.readouterr().err
