"""What commands print and leave behind."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import neuronal
from neuronal.cli.app import main
from neuronal.convert.checkpoint import load_model, save_model
from neuronal.data.catalogue import load
from neuronal.experiments import trial
from neuronal.experiments.recipe import Recipe
from neuronal.models.registry import create_model
from neuronal.nn import ZeroBiasLinear
from neuronal.nn.families import FAMILIES
from neuronal.train.log import read_log
from neuronal.train.loop import Diverged
from tests.data.made_up import write_folders, write_set

QUICK = "--model fcn --widths 8 --epochs 1 --seeds 0"
TWO = f"compare {QUICK} --neurons standard,zero_bias"
TRAIN = "train digits --set model=fcn --set widths=16 --set epochs=3 --neuron zero_bias"


def accuracy(model):
    data = load("digits").test
    return (load_model(model)(data.x).argmax(1) == data.y).float().mean().item()


def test_compare_prints_the_table_and_writes_the_page(call):
    code, out, err = call(f"{TWO} --seeds 0,1")
    assert code == 0
    assert "fcn on digits, 2 seeds" in out
    assert all(name in out for name in ("standard", "zero_bias", "Highest mean test accuracy"))
    assert out.rstrip().endswith("report: runs/digits-fcn/report.html")
    assert Path("runs/digits-fcn/report.html").read_text().startswith("<!doctype html>")
    assert err.count("right (") == 4
    _, again, err = call(f"{TWO} --seeds 0-1")
    assert again == out
    assert err.count("kept from before") == 4


def test_the_default_is_the_digits_recipe_with_every_neuron(monkeypatch):
    sweep = Mock(side_effect=SystemExit)
    monkeypatch.setattr("neuronal.api.sweep", sweep)
    with pytest.raises(SystemExit):
        main(["compare"])
    study, folder = sweep.call_args.args
    assert study.families == tuple(FAMILIES)
    assert (study.recipe.data, study.recipe.model, study.recipe.seeds) == ("digits", "cnn", (0, 1, 2))
    assert folder == Path("runs/digits-cnn")


def test_every_option_reaches_the_recipe_and_json_is_one_document(call):
    words = "compare --recipe digits --model fcn --widths 4,5 --epochs 2 --batch-size 500 --optim sgd --lr 0.5 "
    words += (
        "--momentum 0.1 --weight-decay 0.01 --schedule cosine --holdout 0.2 --seeds 4 --neurons zero_bias --name a/b"
    )
    code, out, _ = call(f"{words} --json")
    assert code == 0
    answer = json.loads(out)
    expected = {"optim": "sgd", "lr": 0.5, "momentum": 0.1, "weight_decay": 0.01, "schedule": "cosine", "seeds": (4,)}
    expected |= {"model": "fcn", "widths": (4, 5), "epochs": 2, "batch_size": 500, "holdout": 0.2, "name": "a/b"}
    assert Recipe.from_json(answer["study"]["recipe"]) == Recipe(**expected)
    assert [row["family"] for row in answer["comparison"]["rows"]] == ["zero_bias"]
    assert answer["findings"]
    assert answer["report"] == "runs/a/b/report.html"
    assert Path(answer["report"]).exists()


def test_a_diverging_neuron_is_in_the_table_and_the_rest_goes_on(call, monkeypatch):
    run_module = sys.modules["neuronal.experiments.run"]
    real = run_module.fit

    def fails_for_zero_bias(model, *arguments, **options):
        if isinstance(model.head, ZeroBiasLinear):
            raise Diverged(7, 0.1, float("nan"))
        return real(model, *arguments, **options)

    monkeypatch.setattr(run_module, "fit", fails_for_zero_bias)
    code, out, _ = call(TWO)
    assert code == 0
    assert "zero_bias (1 failed)" in out
    assert "step 7" in out


def test_report_draws_again_without_training(call, monkeypatch):
    call(TWO)
    page = Path("runs/digits-fcn/report.html")
    before = page.read_text()
    page.unlink()
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    assert call("report runs/digits-fcn")[0] == 0
    assert page.read_text() == before
    next(Path("runs/digits-fcn/cells").glob("zero_bias*")).unlink()
    code, out, _ = call("report runs/digits-fcn")
    assert code == 0
    assert "1 of 2 cells are not finished" in out
    next(Path("runs/digits-fcn/cells").glob("standard*")).write_text("{")
    _, _, err = call("report runs/digits-fcn")
    assert "not JSON" in err
    assert "no finished cell" in err
    Path("runs/digits-fcn/study.json").write_text("{")
    code, _, err = call("report runs/digits-fcn")
    assert code == 2
    assert "study.json is damaged" in err


@pytest.mark.parametrize("command", ["neurons", "models", "data"])
def test_lists(call, command):
    rows = json.loads(call(f"{command} --json")[1])
    code, out, _ = call(command)
    assert code == 0
    assert rows
    assert all(next(iter(row.values())) in out for row in rows)


def test_a_reader_that_stops_reading_is_no_error():
    command = f"{sys.executable} -m neuronal models | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_still_gets_its_table(encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = subprocess.run([sys.executable, "-m", "neuronal", "neurons"], capture_output=True)
    assert done.returncode == 0
    assert b"zero_bias" in done.stdout


def test_convert_lists_changes_measures_and_writes(call):
    code, out, _ = call("convert cnn --to geometric --out cnn.safetensors")
    assert code == 0
    assert "GeometricConv2d" in out
    assert "2x3x32x32" in out
    answer = json.loads(call("convert cnn.safetensors --to implicit_bias --option coupling=-0.2 --json")[1])
    assert answer["largest_difference"] > 0
    assert "-0.2" in answer["changes"][0]["note"]


def test_convert_ends_with_what_becomes_of_the_promise(call):
    _, out, _ = call("convert cnn --to geometric")
    assert out.splitlines()[-1] == "the same function: exact: the same weights in another form"
    _, out, _ = call("convert cnn --to zero_bias --out cnn.safetensors")
    last = out.splitlines()[-1]
    assert last.startswith("class independent of contrast: certified: f(s x) = s f(x)")
    assert "shape (3, 32, 32); 0 of 8 classes change" in last
    assert load_model("cnn.safetensors").recipe["converted"]
    promise = json.loads(call("convert vit_tiny --to zero_bias --json")[1])["promise"]
    assert promise["verdict"] == "broken"
    assert {"path", "module", "reason", "repair"} == set(promise["breaks"][0])
    assert "LayerNorm" in {broken["module"] for broken in promise["breaks"]}


def test_sweep_trains_a_grid_and_chooses(call):
    words = "sweep digits --grid epochs=1 --grid lr=0.0001,0.01 --grid neuron=standard,zero_bias --grid seed=0"
    words += " --grid model=fcn --workers 2"
    code, out, _ = call(words)
    assert code == 0
    assert "zero_bias" in out
    assert "*" in out
    assert len(list(Path("runs/digits-grid/cells").glob("*.json"))) == 4
    choices = json.loads(call(f"{words} --json")[1])["choices"]
    assert [(choice["family"], choice["best"]) for choice in choices] == [("standard", 0.01), ("zero_bias", 0.01)]
    code, _, err = call("report runs/digits-grid")
    assert code == 2
    assert "grid" in err


def test_train_leaves_a_model_a_record_and_a_log(call):
    _, out, err = call(f"{TRAIN} --json")
    answer = json.loads(out)
    assert "epoch 3 of 3: loss" in err
    assert accuracy(answer["model"]) == pytest.approx(answer["metrics"]["accuracy"])
    folder = Path("runs/digits-zero_bias")
    assert [epoch.number for epoch in read_log(folder / "log.jsonl")] == [1, 2, 3]
    (record,) = folder.glob("zero_bias-seed0-*.json")
    assert json.loads(record.read_text())


def test_a_training_of_another_recipe_is_not_taken_for_this_one(call):
    words = "train --set model=vit_tiny --model-option width=12 --model-option depth=1 --set epochs=1 --name one"
    words += " --set fraction=0.1 --set probes=dead_units"
    assert call(words)[0] == 0
    for field, value in (("crop", "2"), ("contrast", "0.1,1"), ("scaling", "standardise"), ("protocol", "published")):
        code, _, err = call(f"{words} --set {field}={value}")
        assert code == 2
        assert f" has {field} = nothing, this one's" in err
    # Other heads have the same tensors.
    code, _, err = call(f"{words} --model-option num_heads=2")
    assert code == 2
    assert "model_options" in err
    # What is measured afterwards may change, and the training be found finished.
    assert call(words.replace("dead_units", "contrast"))[0] == 0
    assert len(list(Path("runs/one").glob("standard-seed0-*.json"))) == 2


def test_model_options_are_taken_by_every_command_that_trains(call):
    more = "--model-option width=7 --json"
    answer = json.loads(call(f"train digits --set model=mlp1 --set epochs=1 {more}")[1])
    assert neuronal.load_model(answer["model"]).head.in_features == 7
    answer = json.loads(call(f"sweep digits --grid model=mlp1 --grid epochs=1 {more}")[1])
    assert answer["grid"]["recipe"]["model_options"] == {"width": 7}
    answer = json.loads(call(f"compare --model mlp1 --epochs 1 --neurons standard --seeds 0 {more}")[1])
    parameters = answer["comparison"]["rows"][0]["estimates"]["parameters"]["mean"]
    assert parameters == 64 * 7 + 7 + 7 * 10 + 10


def test_the_board_is_told_of_every_epoch(call, monkeypatch):
    board = Mock()
    monkeypatch.setattr("neuronal.train.board.Board", board)
    assert call(f"{TRAIN} --board")[0] == 0
    board.assert_called_once_with(Path("runs/digits-zero_bias/board"))
    assert [told.args[0].number for told in board.return_value.call_args_list] == [1, 2, 3]


def test_data_are_listed_described_and_verified(call, own_data):
    assert call("data list") == call("data")
    assert {row["data"] for row in json.loads(call("data list --json")[1])} >= {"digits", "mnist", "arrows", "wine"}
    _, out, _ = call("data info digits")
    lines = [line.split(":")[0] for line in out.splitlines()]
    assert lines == ["data", "task", "shape", "train", "test", "classes", "source", "where"]
    assert "1,297" in out
    code, out, err = call("data verify arrows")
    assert (code, err) == (0, "")
    assert out.count("right") == 4
    write_set(own_data)
    assert json.loads(call("data info mnist --json")[1])["train"] == 12
    code, out, err = call("data verify mnist")
    assert code == 1
    assert out.count("WRONG") == 3
    assert "3 of 7" in err


def test_the_doctor_has_a_line_for_everything_and_fails_where_compare_would(call, own_data, monkeypatch):
    monkeypatch.setattr("neuronal.core.doctor.EXTRAS", {"lab": ("rich", "typer"), "vision": ("no_such_package",)})
    code, out, err = call("doctor")
    assert (code, err) == (0, "")
    told = {line.split()[1]: line for line in out.splitlines()}
    assert told["lab:"].startswith("ok     lab:          rich ")
    assert told["vision:"] == "-      vision:       no_such_package not installed. pip install 'neuronal[vision]'."
    code, out, _ = call("doctor --json")
    assert code == 0
    assert [f"{fact['name']}:".split()[0] for fact in json.loads(out)] == list(told)
    code, out, err = call("doctor --out /proc/nowhere")
    assert code == 1
    assert "BROKEN runs:         /proc/nowhere cannot be written to (" in out
    assert err == "neuronal: neuronal compare cannot run: see runs.\n"


def test_a_warning_is_one_line_too(call, own_data, monkeypatch, recwarn):
    warnings.simplefilter("default")
    write_set(own_data)
    monkeypatch.setenv("NEURONAL_CACHE", "/proc/nowhere")
    code, _, err = call("data info mnist")
    assert code == 0
    assert err.startswith("neuronal: /proc/nowhere: ")
    assert err.count("\n") == 1


def test_compare_takes_folders_tables_and_points(call, tmp_path):
    write_folders(tmp_path / "my data/pets", per_class=20)
    quick = ["--neurons", "zero_bias", *QUICK.split()]
    for path in ("my data/pets", str(tmp_path / "my data/pets")):
        code, out, err = call("compare", "--data", path, *quick)
        assert code == 0, err
        assert "fcn on pets, 1 seed" in out
    assert load("my data/pets").classes == ("cat", "dog")
    Path("mine.csv").write_text("a,b,class\n" + "".join(f"{n},{-n},{n % 2}\n" for n in range(40)))
    for data in ("mine.csv", "arrows"):
        assert call("compare", "--data", data, *quick)[0] == 0


@pytest.mark.parametrize("path", ["./mine", "my data/mine", "absolute"])
def test_a_folder_of_parquet_files_is_a_dataset_wherever_one_is_asked_for(call, tmp_path, path):
    path = str(tmp_path / "mine") if path == "absolute" else path
    _, _, images, _ = write_set(tmp_path, path, num_train=100, num_test=20, shape=(1, 8, 8))
    assert load(path).test.stored.numpy().tolist() == images.tolist()
    assert json.loads(call("data", "info", path, "--json")[1])["train"] == 100
    fields = [f"data={path}", "model=fcn", "widths=8", "epochs=1"]
    for words in (
        ["data", "verify", path],
        ["compare", "--data", path, "--neurons", "zero_bias", *QUICK.split()],
        ["train", "digits", "--name", "one", *(word for field in fields for word in ("--set", field))],
        ["sweep", "digits", *(word for field in fields for word in ("--grid", field))],
        ["audit", "runs/one/model.safetensors", "--data", path, "--rows", "4", "--pairs", "2"],
    ):
        code, _, err = call(*words)
        assert code == 0, err


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    save_model(create_model("fcn", "zero_bias", widths=(8,), num_classes=10, in_chans=1, img_size=8), path)
    return path


def answer(call, words):
    code, out, err = call(f"{words} --json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("kind", ["segment", "hull", "cone"])
def test_certificates_of_one_point_hold_and_are_checked(file, kind, call):
    found = answer(call, f"certify {kind} {file} --data digits --indices 0,0 --check")
    assert (found["kind"], found["verdict"], found["checked"]) == (kind, "certified", True)


def test_a_refuted_segment_shows_where_the_class_changes(file, call):
    with torch.no_grad():
        predicted = load_model(file).eval()(load("digits").test.x).argmax(1)
    other = int((predicted != predicted[0]).nonzero()[0])
    words = f"certify segment {file} --data digits --indices 0,{other}"
    found = answer(call, words)
    assert found["verdict"] == "refuted"
    assert found["switches"][0]["from"] == int(predicted[0])
    assert found["switches"][-1]["to"] == int(predicted[other])
    assert "switches" in call(words)[1]


def test_scaling_ball_and_activity(file, call):
    assert answer(call, f"certify scaling {file} --check")["verdict"] == "certified"
    assert answer(call, f"certify ball {file} --data digits --indices 1 --norm inf")["radius"] > 0
    assert answer(call, f"certify activity {file} --data digits")["layers"][0]["units"] == 8
    # Models of ours are made for the data.
    found = answer(call, "certify scaling cnn --data digits --model-option neuron=standard")
    assert found["verdict"] == "refuted"
    assert "bias=False" in found["breaks"][0]["repair"]


def test_an_audit_prints_sentences_and_writes_a_page(file, call):
    code, out, _ = call(f"audit {file} --data digits --rows 30 --pairs 3 --out audits")
    assert code == 0
    assert "contrast" in out
    (page,) = Path("audits/audit").glob("*.html")
    assert "net-digits" in page.name
    assert json.loads(page.with_suffix(".json").read_text())["sections"]["scaling"]["verdict"] == "certified"
