import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import neuronal
from neuronal.cli.app import main
from neuronal.convert import convert, load_model, save_model, sources
from neuronal.convert.sources import from_source, input_shape


def small():
    return neuronal.create_model("cnn", "standard", num_classes=3, in_chans=1, img_size=8, widths=(4, 6, 5))


def make():
    """A model of the user's own, for ``module:function``."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))


def test_modules_of_the_current_folder_are_found(tmp_path, monkeypatch):
    """Also by the installed command, which python does not look there for."""
    (tmp_path / "my_own_models.py").write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", ".", str(tmp_path))])
    assert main(["convert", "my_own_models:make", "--to", "geometric", "--shape", "3"]) == 0
    del sys.modules["my_own_models"]


def test_files_of_before_there_were_checksums_are_read(tmp_path):
    path, model = tmp_path / "model.safetensors", small()
    save_model(model, path)
    with safe_open(path, framework="pt") as file:
        header, tensors = file.metadata()["neuronal"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata={"neuronal": header})
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in load_model(path).state_dict().items())


def test_tensors_that_are_shared_are_written_once(tmp_path):
    model = small()
    model.extra = model.features[3]
    save_model(model, tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        same = json.loads(file.metadata()["neuronal"])["same"]
        assert not same.keys() & set(file.keys())
    assert same == {"extra.weight": "features.3.weight", "extra.bias": "features.3.bias"}


def test_a_family_of_ones_own_needs_the_model_to_be_handed_in(tmp_path):
    mine = replace(neuronal.FAMILIES["zero_bias"], name="mine")
    options = {"num_classes": 3, "in_chans": 1, "img_size": 8, "widths": (4, 6, 5)}
    model = neuronal.create_model("cnn", mine, **options).eval()
    save_model(model, tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"a family that is not in FAMILIES; hand in the model"):
        load_model(tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors", make=lambda: neuronal.create_model("cnn", mine, **options))
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(again(x), model(x))


def test_a_function_is_named_by_the_user_and_never_by_a_file(tmp_path):
    source = f"{__name__}:make"
    model = from_source(source)
    assert model.recipe == {"source": source, "arguments": {}}
    path = tmp_path / "m.safetensors"
    save_model(convert(model, "geometric").model, path)
    with pytest.raises(ValueError, match=r"was made from .*:make; hand that in: load_model\(path, make=\.\.\.\)"):
        load_model(path)
    x = torch.randn(2, 12)
    torch.testing.assert_close(load_model(path, make=make)(x), model(x))


def test_an_exported_network_runs_without_this_library(tmp_path):
    model = convert(small(), "geometric").model.eval()
    x = torch.randn(2, 1, 8, 8)
    exported = torch.export.export(neuronal.to_standard(model), (x,))
    torch.export.save(exported, tmp_path / "m.pt2")
    torch.save({"x": x, "y": model(x).detach()}, tmp_path / "xy.pt")
    code = f"""
import sys
sys.modules["neuronal"] = None
import torch
found = torch.load({str(tmp_path / "xy.pt")!r})
y = torch.export.load({str(tmp_path / "m.pt2")!r}).module()(found["x"])
torch.testing.assert_close(y, found["y"], rtol=1e-4, atol=1e-5)
print("same")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr


OPTIONS = {"coupling": -0.5, "slope": 4.0, "learn_coupling": False}
MODELS = {
    "plain": small,
    "float64": lambda: convert(small().double(), "geometric").model,
    "bfloat16": lambda: convert(small().bfloat16(), "geometric").model,
    "options of neurons": lambda: neuronal.create_model("ucn", "implicit_bias", img_size=8, neuron_options=OPTIONS),
    "folded": lambda: neuronal.fold_batch_norm(neuronal.create_model("vgg6", img_size=8, widths=(4, 6, 8)).eval()),
    "twice": lambda: convert(convert(small(), "geometric").model, "implicit_bias", coupling=-0.2, slope=5.0).model,
    **{
        family: lambda family=family: convert(small(), family, where=lambda path, _: path != "head").model
        for family in ("geometric", "zero_bias", "farkas", "implicit_bias")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_as_it_was(tmp_path, name):
    model = MODELS[name]().eval()
    path = tmp_path / "folder" / "model.safetensors"
    save_model(model, path)
    again = load_model(path)
    dtype = next(model.parameters()).dtype
    x = torch.randn(2, *input_shape(model)).to(dtype)
    assert torch.equal(again(x), model(x))
    assert again.state_dict().keys() == model.state_dict().keys()
    assert json.dumps(again.recipe) == json.dumps(model.recipe)
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert not again.training
    assert list(path.parent.iterdir()) == [path]
    # And once more, from what was loaded.
    save_model(again, path)
    assert torch.equal(load_model(path)(x), model(x))


def header(recipe, form=1):
    return json.dumps({"format": form, "recipe": recipe, "same": {}})


def test_a_damaged_file_is_noticed(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(ValueError, match=r"m\.safetensors: no such file"):
        load_model(path)
    save_model(small(), path)
    whole = path.read_bytes()
    flipped = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
    for damaged in (b"", b"not a model", whole[:100], whole[: len(whole) // 2], b"\x80\x04" + whole, flipped):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"m\.safetensors is (not a whole safetensors file|damaged)") as said:
            load_model(path)
        assert "\n" not in str(said.value)


EVIL = {"model": "evil:go", "neuron": "standard", "num_classes": 2, "in_chans": 1, "img_size": 8}
HEADERS = [
    (None, "no 'neuronal' in its header"),
    ("{", "cannot be read"),
    (header({}, form=9), "is of format 9"),
    (header(small().recipe), "does not fit the model its header describes"),
    (header(None), "has a header that cannot be read"),
    (header({"model": "cnn"}), "has a header that cannot be read"),
    (header({"source": "timm:resnet18"}), "has a header that cannot be read"),
    (header({"model": "cnn", "neuron": "standard", "converted": [{}]}), "has a header that cannot be read"),
    (header(EVIL), "Unknown model 'evil:go'"),
]


@pytest.mark.parametrize(("text", "reason"), HEADERS)
def test_a_header_that_is_not_ours_is_one_line_and_runs_nothing(tmp_path, monkeypatch, text, reason):
    (tmp_path / "evil.py").write_text("import torch\ndef go(**_):\n    raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "m.safetensors"
    save_file({"a": torch.zeros(10**5)}, path, metadata=None if text is None else {"neuronal": text})
    with pytest.raises(ValueError, match=reason) as said:
        load_model(path)
    assert "\n" not in str(said.value)
    assert "evil" not in sys.modules


def with_an_odd_recipe():
    model = small()
    model.recipe = {**model.recipe, "odd": object()}
    return model


def with_an_example():
    model = neuronal.create_model("vgg6", img_size=8, widths=(4, 6, 8))
    return convert(model, "zero_bias", example=torch.randn(2, 3, 8, 8)).model


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Linear(2, 2), "Linear has no recipe to be rebuilt from"),
        (with_an_odd_recipe, "recipe cannot be written down: Object of type object"),
        (with_an_example, "has no recipe to be rebuilt from"),
    ],
)
def test_a_model_that_could_not_be_rebuilt_is_not_saved(tmp_path, make, reason):
    with pytest.raises(ValueError, match=reason):
        save_model(make(), tmp_path / "m.safetensors")
    with pytest.raises(IsADirectoryError):
        save_model(small(), tmp_path)
    assert not list(tmp_path.iterdir())


MODULES = {
    "makers": "def number():\n    return 3\ndef deep(depth):\n    return depth\ndef breaks():\n    return {}['heads']\n"
    "def opens():\n    return open('no file')\n",
    "half_written": "x = 1\ny = 1 / 0\n",
    "typed_wrong": "def make(:\n",
}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("resnet1008", "Unknown model 'resnet1008'"),
        ("no.such.module:f", "needs a module and a function in it"),
        ("makers:nothing", "needs a module and a function in it"),
        ("makers:number", "needs to return a torch module, got int"),
        ("makers:deep", r"TypeError: .*'depth'.* \(\w+\.py, line \d+\)\.$"),
        ("makers:breaks", r"fails: KeyError: 'heads' \(makers\.py, line 6\)\.$"),
        ("makers:opens", "FileNotFoundError: .*'no file'"),
        ("half_written:make", r"ZeroDivisionError: .* \(half_written\.py, line 2\)"),
        ("typed_wrong:make", "typed_wrong cannot be imported: SyntaxError: "),
        ("timm:resnet18", r"cannot be downloaded \(<urlopen error no route>\)"),
    ],
)
def test_sources_that_are_none(tmp_path, monkeypatch, source, reason):
    def unreachable(name, arguments):
        raise OSError("<urlopen error no route>")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sources._PACKAGES, "timm", unreachable)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(ValueError, match=reason) as told:
        from_source(source)
    assert "\n" not in str(told.value)
