"""What only reproductions of the zero-bias paper do."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.cli.app import main
from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.procedures.zero_bias.interpolation import pairs_of_equal_pattern
from neuronal.experiments.reproduce import read_result, reproduce
from neuronal.experiments.reproduction import Setting
from neuronal.recipes import REPRODUCTIONS
from tests.vision import vision


def test_pairs_of_equal_pattern_are_drawn_from_all():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[2].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    # One pattern and two classes in the first quadrant; the last two are the same image.
    x = torch.tensor([[2.0, 1.0], [3.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0], [-1.0, -1.0], [1.0, 4.0]])
    predicted = model(x).argmax(1)

    def drawn(count, seed=0):
        return pairs_of_equal_pattern(model, x, predicted, count, torch.Generator().manual_seed(seed))

    assert sorted(drawn(100)) == [(0, 1), (2, 3), (2, 4), (2, 6), (3, 4), (3, 6)]
    assert drawn(0) == []
    assert len({pair for seed in range(20) for pair in drawn(1, seed)}) > 2


def test_models_by_name_at_the_zero_image(tmp_path, capsys, monkeypatch):
    vision()
    monkeypatch.chdir(tmp_path)
    names = ["timm:resnet18", "torchvision:squeezenet1_1"]
    words = [word for name in names for word in ("--model", name)]
    assert main(["reproduce", "zero_bias/zero_image", "--scale", "smoke", *words]) == 0
    capsys.readouterr()
    answer = read_result(tmp_path / "results" / "zero_bias" / "zero_image.smoke.json")
    assert answer["command"].endswith(" --scale smoke --model timm:resnet18 --model torchvision:squeezenet1_1")
    rows = {row["name"]: row for row in answer["result"]["rows"]}
    for name in names:
        assert rows[name]["classes"] == 1000
    # The last layer's bias is all that is left of an untrained one at zero, and it is nearly uniform.
    assert rows["timm:resnet18"]["entropy"] > 0.99
    assert main(["reproduce", "zero_bias/table1_mnist_fcn", "--scale", "smoke", "--model", "timm:resnet18"]) == 2
    assert "takes no model, got timm:resnet18" in capsys.readouterr().err
    assert main(["reproduce", "zero_bias/zero_image", "--scale", "smoke", "--pretrained"]) == 2
    assert "--pretrained is about models named with --model" in capsys.readouterr().err


def test_published_weights_are_asked_for_in_each_librarys_words(tmp_path, monkeypatch):
    asked = {}

    def made(source, **arguments):
        asked[source] = arguments
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 2))

    monkeypatch.setattr("neuronal.experiments.procedures.zero_bias.zero_image.from_source", made)
    one, names = REPRODUCTIONS["zero_bias/zero_image"], ["timm:a", "torchvision:b", "c.safetensors"]
    reproduce(one, "smoke", runs=tmp_path, results=tmp_path, models=names, pretrained=True)
    assert asked == {"timm:a": {"pretrained": True}, "torchvision:b": {"weights": "DEFAULT"}, "c.safetensors": {}}
    asked.clear()
    reproduce(one, "smoke", runs=tmp_path, results=tmp_path, models=names)
    assert asked == {name: {} for name in names}


def test_a_wrong_model_is_found_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="Unknown model 'resnet81'"):
        reproduce(REPRODUCTIONS["zero_bias/zero_image"], "smoke", runs=tmp_path, results=tmp_path, models=["resnet81"])
    assert not list(tmp_path.rglob("*.json"))


def test_wide_networks_are_near_their_limit(tmp_path):
    """At width 512 within a third: inputs and weights drawn from one stream were five times as far."""
    one = REPRODUCTIONS["zero_bias/ntk"]
    options = {**one.scales["smoke"].options, "data": ("normal",), "widths": (16, 512), "inputs": 10, "seeds": (0, 1)}
    small = replace(one, scales={"small": Setting(options=options)})
    answer = read_result(reproduce(small, "small", runs=tmp_path, results=tmp_path))
    for row in answer["result"]["approach"]:
        assert row["to_own_limit"]["mean"] < (0.33 if row["width"] == 512 else 2)
    assert [one.verdict for one in PROCEDURES["ntk"].findings(answer)] == [
        "reproduced",
        "not true as stated",
        "reproduced",
    ]
