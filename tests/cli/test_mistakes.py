"""A mistake is one line that names it, and exit code 2, before anything is trained.

What else recipes, models and data refuse is tested beside them."""

import pytest
import torch

from neuronal.convert.checkpoint import save_model
from neuronal.experiments import trial
from neuronal.models.registry import create_model

BAD = {
    "compar": "Unknown command 'compar'. Did you mean 'compare'? There are: ",
    "certify": "Missing command",
    "compare --data digit": "Unknown dataset 'digit'. Did you mean 'digits'? There are: ",
    "compare --model cnm": "Unknown model 'cnm'. Did you mean 'cnn'? There are: ",
    "compare --neurons zerobias": "Unknown neuron 'zerobias'. Did you mean 'zero_bias'? There are: ",
    "compare --recipe digit": "Unknown recipe 'digit'. Did you mean 'digits'?",
    "compare --epoch 3": "Unknown option of neuronal compare '--epoch'. Did you mean '--epochs'?",
    "compare --epochs many": "'--epochs'",
    "compare --seeds a": "--seeds needs whole numbers such as 0,1,2 or 0-9, got 'a'",
    "compare --seeds 0-99999999999": "--seeds takes at most",
    "compare --widths 0 --model fcn": "widths need",
    "compare --holdout 0.999": "holdout 0.999 of 1,297",
    "compare --name .": "name needs to be that of a folder below out, got '.'",
    "compare --name \udcff": "name needs to be that of a folder below out",
    "compare --data mnist": "neuronal data fetch mnist",
    "report nowhere": "study.json",
    "train digits --set resized_crop=null,1": "--set resized_crop needs numbers",
    "train digits --set flip=maybe": "--set flip needs true or false, got 'maybe'",
    "train digits --set fraction=2": "fraction needs",
    "train digits --set lr=0.1,0.2": "one value",
    "train digits --set seed=3": "--seed",
    "train digits --set model_options=3": "--model-option name=value",
    "train digits --model-option norm=3": "norm",
    "train digits --model-option widht=3 --set model=mlp1": "Unknown option of model 'mlp1' 'widht'",
    "train digits --set model=vit_tiny --model-option depth=-1": "depth of vit_tiny needs",
    "train digits --set model=fcn --model-option widths=4,4": "such as [4,4], got '4,4'",
    "train digits --seed -1": "seeds need",
    "train digits --every 0": "every",
    "train digits --set data=few.csv --set model=fcn": "nothing to test on",
    "sweep digits --grid lr": "--grid needs field=value, got 'lr'",
    "sweep digits --grid lr=fast": "--grid lr needs numbers, got 'fast'",
    "sweep digits --grid lr=0.1 --grid holdout=0": "held-out data",
    "sweep digits --grid seed=0-4 --grid seed=1": "--grid seed is given twice",
    "sweep digits --grid lr=0.1 --workers 0": "--workers needs to be from 1",
    "sweep digits --grid lr=0.1 --choose l": "Unknown field to choose 'l'. Did you mean 'lr'?",
    "sweep digits --grid lr=0.1 --memory nan": "--memory needs",
    "sweep digits --grid lr=0.1 --threads 0": "--threads needs to be from 1",
    "convert cnn --to geometrical": "Unknown neuron 'geometrical'. Did you mean 'geometric'?",
    "convert cnn --to geometric --option speed=3": "Unknown option of GeometricConv2d 'speed'",
    "convert cnn --to zero_bias --batch-norm keep": "Unknown way with batch norms 'keep'",
    "data info mnst": "Unknown dataset 'mnst'. Did you mean 'mnist'?",
    "data lst": "Unknown command 'lst'. Did you mean 'list'?",
    "data fetch wine": "cannot be fetched",
    "certify segment net.safetensors --data digits --indices 0": "two ends",
    "certify segment net.safetensors --indices 0,1": "give inputs",
    "certify segment net.safetensors --data digits --indices 0,1 --promise bf16": "promise",
    "certify segment net.safetensors --data digits --indices 0,1 --part valid": "test or train",
    "certify ball net.safetensors --data digits --indices 0,1": "one centre",
    "certify hull net.safetensors --file none.npy --file none.npy": "no such file",
    "certify scaling net.safetensors --model-option width=3": "leave width out",
    "certify activity net.safetensors --data levy": "shape (1,)",
    "certify scaling broken.safetensors": "NaN",
    "audit broken.safetensors --data digits": "NaN",
    "audit net.safetensors --data digits --rows 0": "at least 1 of rows",
}
SHAPE = {"num_classes": 10, "in_chans": 1, "img_size": 8}


@pytest.mark.usefixtures("own_data")
@pytest.mark.parametrize(("words", "key"), BAD.items(), ids=BAD)
def test_a_mistake_is_one_line_and_exit_code_2(call, monkeypatch, tmp_path, words, key):
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    (tmp_path / "few.csv").write_text("a,b,word\n1,2,yes\n3,4,no\n5,6,yes\n7,8,no\n")
    if ".safetensors" in words:
        model = create_model("fcn", "zero_bias", widths=(8,), **SHAPE)
        save_model(model, tmp_path / "net.safetensors")
        with torch.no_grad():
            next(model.parameters())[0, 0] = float("nan" if "scaling" in words else "inf")
        save_model(model, tmp_path / "broken.safetensors")
    code, out, err = call(words)
    assert (code, out) == (2, "")
    assert err.startswith("neuronal: ")
    assert err.count("\n") == 1
    assert key in err


@pytest.mark.parametrize("words", [["compare", "--name", ""], ["compare", "--recipe", ""]])
def test_an_empty_word_is_a_mistake_too(call, words):
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("words", [["--help"], ["report", "--help"], []])
def test_help_is_no_mistake(call, words):
    code, out, err = call(*words) if words else call("")
    assert (code, err) == (0, "")
    assert "Usage: neuronal" in out


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_no_write_access_is_said_before_training(call, monkeypatch, tmp_path, place):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    code, _, err = call("compare", "--out", place)
    assert code == 1
    assert err.startswith(f"neuronal: cannot use {place}")
    assert "--out" in err
    assert err.count("\n") == 1
