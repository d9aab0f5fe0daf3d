import json
import struct
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import neuronal
from neuronal.convert import convert, load_model, save_model, sources
from neuronal.convert.sources import from_source, input_shape
from neuronal.names import UnknownName


def small():
    return neuronal.create_model("cnn", "standard", num_classes=3, in_chans=1, img_size=8, widths=(4, 6, 5))


def make():
    """A model of the user's own, for ``module:function``."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))


def not_a_model():
    return 3


def wants_a_depth(depth):
    return nn.Linear(depth, depth)


def breaks():
    return nn.Linear({}["heads"], 3)


def test_modules_of_the_current_folder_are_found(tmp_path):
    """Also by the installed command, which python does not look there for."""
    (tmp_path / "my_own_models.py").write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n")
    program = "import sys; sys.path[:] = sys.path[1:]\nfrom neuronal.cli.app import main\nsys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program, "convert", "my_own_models:make", "--to", "geometric", "--shape", "3"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_download_that_fails_says_so_and_other_files_are_named(monkeypatch):
    def unreachable(name, arguments):
        raise OSError("<urlopen error no route>")

    monkeypatch.setitem(sources._PACKAGES, "timm", unreachable)
    with pytest.raises(
        ValueError, match=r"timm:resnet18: its weights cannot be downloaded \(<urlopen error no route>\)"
    ):
        from_source("timm:resnet18")
    with pytest.raises(ValueError, match=r"reads_a_file, called without arguments, fails: FileNotFoundError: .*'mine'"):
        from_source(f"{__name__}:reads_a_file")


def reads_a_file():
    raise FileNotFoundError(2, "No such file", "mine")


def test_a_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(small(), path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged \(its checksum does not fit its contents\)"):
        load_model(path)


def test_files_of_before_there_were_checksums_are_read(tmp_path):
    path, model = tmp_path / "model.safetensors", small()
    save_model(model, path)
    with safe_open(path, framework="pt") as file:
        header, tensors = file.metadata()["neuronal"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, metadata={"neuronal": header})
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in load_model(path).state_dict().items())


def test_a_file_takes_no_options(tmp_path):
    save_model(small(), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="says itself how its model is made: leave width out"):
        from_source(str(tmp_path / "model.safetensors"), width=3)


@pytest.mark.parametrize("family", [None, "geometric", "zero_bias", "farkas", "implicit_bias"])
def test_a_model_comes_back_as_it_was(tmp_path, family):
    model = small() if family is None else convert(small(), family, where=lambda path, _: path != "head").model
    path = tmp_path / "folder" / "model.safetensors"
    save_model(model, path)
    again = load_model(path)
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(again(x), model.eval()(x))
    assert again.state_dict().keys() == model.state_dict().keys()
    assert not again.training
    assert list(path.parent.iterdir()) == [path]
    # And once more, from what was loaded.
    save_model(again, path)
    assert torch.equal(load_model(path)(x), model(x))


def test_options_and_several_conversions_come_back(tmp_path):
    model = convert(convert(small(), "geometric").model, "implicit_bias", coupling=-0.2, slope=5.0).model
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(again(x), model.eval()(x))
    assert again.features[0].initial_slope == 5.0


def test_tensors_that_are_shared_are_written_once(tmp_path):
    model = small()
    model.features[3].bias = nn.Parameter(torch.zeros(6))
    model.features[3].weight.data = model.features[3].weight.data
    tied = model.features[3]
    model.extra = tied
    model.recipe = {**model.recipe}
    path = tmp_path / "m.safetensors"
    save_model(model, path)
    length = struct.unpack("<Q", path.read_bytes()[:8])[0]
    header = json.loads(path.read_bytes()[8 : 8 + length])
    same = json.loads(header["__metadata__"]["neuronal"])["same"]
    assert same == {"extra.weight": "features.3.weight", "extra.bias": "features.3.bias"}


def test_a_model_without_a_recipe_says_so(tmp_path):
    with pytest.raises(ValueError, match="Linear has no recipe to be rebuilt from"):
        save_model(nn.Linear(2, 2), tmp_path / "m.safetensors")


def test_a_recipe_that_cannot_be_written_says_so(tmp_path):
    model = small()
    model.recipe = {**model.recipe, "odd": object()}
    with pytest.raises(ValueError, match="recipe cannot be written down: Object of type object"):
        save_model(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_such_model_get_one_clear_line(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "m.safetensors"
    with pytest.raises(ValueError, match=r"m\.safetensors: no such file"):
        load_model(path)
    save_model(small(), path)
    whole = path.read_bytes()
    for damaged in (b"", b"not a model", whole[:100], whole[: len(whole) // 2], b"\x80\x04" + whole):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"m\.safetensors is not a whole safetensors file") as said:
            load_model(path)
        assert "\n" not in str(said.value)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match="no 'neuronal' in its header"):
        load_model(path)
    for header, reason in (
        ("{", "cannot be read"),
        (json.dumps({"format": 9, "recipe": {}, "same": {}}), "is of format 9"),
    ):
        save_file({"a": torch.zeros(2)}, path, metadata={"neuronal": header})
        with pytest.raises(ValueError, match=reason):
            load_model(path)
    wrong = {"format": 1, "recipe": small().recipe, "same": {}}
    save_file({"a": torch.zeros(2)}, path, metadata={"neuronal": json.dumps(wrong)})
    with pytest.raises(ValueError, match="does not fit the model its header describes"):
        load_model(path)


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


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("resnet1008", "Unknown model 'resnet1008'"),
        ("no.such.module:f", "needs a module and a function in it"),
        (f"{__name__}:nothing", "needs a module and a function in it"),
        (f"{__name__}:not_a_model", "needs to return a torch module, got int"),
        (
            f"{__name__}:wants_a_depth",
            r"called without arguments, fails: TypeError: .*'depth'.* \(\w+\.py, line \d+\)\.$",
        ),
        (f"{__name__}:breaks", r"fails: KeyError: 'heads' \(test_checkpoint\.py, line \d+\)\.$"),
    ],
)
def test_sources_that_are_none(source, reason):
    with pytest.raises(ValueError, match=reason):
        from_source(source)
    assert issubclass(UnknownName, ValueError)


def test_a_module_that_cannot_be_imported_is_named_with_the_place(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "half_written.py").write_text("x = 1\ny = 1 / 0\n")
    with pytest.raises(
        ValueError, match=r"half_written cannot be imported: ZeroDivisionError: .* \(half_written\.py, line 2\)"
    ):
        from_source("half_written:make")
    (tmp_path / "typed_wrong.py").write_text("def make(:\n")
    with pytest.raises(ValueError, match=r"typed_wrong cannot be imported: SyntaxError: ") as told:
        from_source("typed_wrong:make")
    assert "\n" not in str(told.value)


def test_a_model_is_not_written_over_a_folder(tmp_path):
    with pytest.raises(IsADirectoryError) as told:
        save_model(small(), tmp_path)
    assert told.value.filename == str(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_shape_of_an_input_is_what_the_model_says():
    assert input_shape(small()) == (1, 8, 8)
    assert input_shape(nn.Linear(2, 2)) == (3, 224, 224)


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


def test_a_file_cannot_name_code_or_other_files(tmp_path, monkeypatch):
    from safetensors.torch import save_file

    (tmp_path / "evil.py").write_text("import torch\ndef go(**_):\n    raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "m.safetensors"
    recipe = {"model": "evil:go", "neuron": "standard", "num_classes": 2, "in_chans": 1, "img_size": 8}
    save_file(
        {"a": torch.zeros(1)}, path, metadata={"neuronal": json.dumps({"format": 1, "recipe": recipe, "same": {}})}
    )
    with pytest.raises(UnknownName, match="Unknown model 'evil:go'"):
        load_model(path)
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    "recipe",
    [None, {"model": "cnn"}, {"source": "timm:resnet18"}, {"model": "cnn", "neuron": "standard", "converted": [{}]}],
)
def test_odd_headers_get_one_clear_line(tmp_path, recipe):
    from safetensors.torch import save_file

    path = tmp_path / "m.safetensors"
    save_file(
        {"a": torch.zeros(1)}, path, metadata={"neuronal": json.dumps({"format": 1, "recipe": recipe, "same": {}})}
    )
    with pytest.raises(ValueError, match="has a header that cannot be read") as said:
        load_model(path)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_dtype_comes_back(tmp_path, dtype):
    model = convert(small().to(dtype), "geometric").model
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.state_dict().items())


def test_a_folded_model_comes_back(tmp_path):
    model = neuronal.fold_batch_norm(neuronal.create_model("vgg6", img_size=8, widths=(4, 6, 8)).eval())
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    save_model(model, tmp_path / "m.safetensors")
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(load_model(tmp_path / "m.safetensors")(x), model(x))


def test_what_was_done_with_an_example_cannot_be_done_again_and_is_not_saved(tmp_path):
    x = torch.randn(2, 3, 8, 8)
    model = convert(neuronal.create_model("vgg6", img_size=8, widths=(4, 6, 8)), "zero_bias", example=x).model
    with pytest.raises(ValueError, match="has no recipe to be rebuilt from"):
        save_model(model, tmp_path / "m.safetensors")
