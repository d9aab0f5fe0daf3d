"""Faults of the machine and hostile files: one line, an exit code that is not 0, nothing lost."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from neuronal.certify.certificate import Confirmation
from neuronal.convert.checkpoint import load_model, save_model
from neuronal.core.files import read_sealed, write_sealed, write_tensors
from neuronal.models.registry import create_model
from tests.data.made_up import write_set

COMPARE = "compare --model fcn --widths 4 --epochs 1 --neurons standard,zero_bias --seeds 0"


def one_line(called, *words):
    code, _, err = called
    assert code != 0
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("neuronal: ")
    for word in words:
        assert word in last
    return last


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished comparison."""
    from neuronal.cli.app import main

    folder = tmp_path_factory.mktemp("finished")
    assert main([*COMPARE.split(), "--out", str(folder)]) == 0
    return folder / "digits-fcn"


@pytest.fixture
def run_folder(finished, tmp_path):
    subprocess.run(["cp", "-r", finished, tmp_path / "run"], check=True)
    return tmp_path / "run"


def cell_of(folder):
    return next(folder.glob("cells/standard*.json"))


@pytest.mark.parametrize("file", ["cells/standard*.json", "study.json", "costs.json"])
@pytest.mark.parametrize("how", ["deep", "pipe"])
def test_lists_without_end_and_pipes_in_the_place_of_files(run_folder, call, file, how):
    """A command in a process of its own would wait for ever at a pipe."""
    (path,) = run_folder.glob(file)
    path.unlink()
    path.write_text("[" * 200_000) if how == "deep" else os.mkfifo(path)
    code, _, err = call(f"report {run_folder}")
    assert "Traceback" not in err
    assert code == (2 if file == "study.json" else 0)
    # It is not in the way of the next training.
    assert call(f"{COMPARE} --out {run_folder.parent} --name run")[0] == 0
    assert read_sealed(path)


FORGED = [
    {"metrics": {}},
    {"metrics": {"accuracy": "0.5", "parameters": 3}},
    {"metrics": {"accuracy": None, "parameters": 3}},
    {"metrics": 5},
    {"probes": 5},
    {"probes": {"contrast": {"accuracy": [0.5]}}},
    {"probes": {"contrast": {"accuracy": [], "multipliers": []}}},
    {"probes": {"contrast": {"accuracy": [0.5, 0.6], "multipliers": [1.0]}}},
    {"probes": {"zero_image": {"probabilities": "x", "entropy": 1.0, "uniform_entropy": 1.0}}},
    {"probes": {"dead_units": {"units": "3", "dead": 1, "layers": []}}},
    {"epochs": 5},
    {"epochs": [{"loss": "x"}]},
    {"epochs": [{"holdout_accuracy": 10**30}]},
    {"seconds": None},
    {"step_seconds": None},
    {"step_seconds": 10**400},
    {"finished": 5},
    {"finished": "\x1b]0;title\x07"},
    {"environment": []},
    {"environment": {"torch": 5}},
    {"failure": {"step": 1, "lr": 0.1, "reason": 5}},
    {"failure": {"step": 1, "lr": 0.1}},
    {"failure": "x"},
    {"seed": "0"},
    {"data": 5},
    {"recipe": 5},
    {"recipe": {"name": "a", "optim": None}},
    {"recipe": {"name": "a", "family": 10**30}},
]


@pytest.mark.parametrize("change", FORGED, ids=str)
def test_a_record_with_a_right_checksum_and_wrong_contents_is_set_aside(run_folder, call, change):
    cell = cell_of(run_folder)
    write_sealed(cell, read_sealed(cell) | change)
    code, out, err = call(f"report {run_folder}")
    assert code == 0, err
    assert "1 of 2 cells are not finished" in out
    assert [file.name for file in cell.parent.glob("*.damaged1")] == [f"{cell.stem}.damaged1"]


ZEROS = [
    {"zero_image": {"probabilities": [1.0] * 10, "entropy": 1.0, "uniform_entropy": 0}},
    {"dead_units": {"units": 0, "dead": 0, "layers": [{"name": "a", "units": 0, "dead": 0}]}},
]


@pytest.mark.parametrize("probes", ZEROS, ids=str)
def test_nothing_is_divided_by_the_zeros_of_a_record(run_folder, call, probes):
    for cell in run_folder.glob("cells/*.json"):
        write_sealed(cell, read_sealed(cell) | {"probes": probes})
    code, _, err = call(f"report {run_folder}")
    assert (code, "Traceback" in err) == (0, False)


@pytest.mark.parametrize(
    "steps",
    [5, [], {"a": 5}, *({"a": {"seconds": s, "ratio": 1, "ratio_low": 1, "ratio_high": 1}} for s in ("x", 10**400))],
    ids=lambda steps: str(steps)[:40],
)
def test_forged_costs_are_measured_again(run_folder, call, steps):
    costs = run_folder / "costs.json"
    write_sealed(costs, read_sealed(costs) | {"steps": steps})
    assert call(f"report {run_folder}")[0] == 0
    assert len(read_sealed(costs)["steps"]) == 2


@pytest.mark.parametrize(
    "change",
    [
        5,
        [],
        {"families": 5},
        {"families": [-1]},
        {"recipe": 5},
        {"recipe": {"name": "a", "fraction": -(10**400)}},
        {"recipe": {"name": "a", "seeds": [10**30]}},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_forged_study_is_one_line_that_names_the_file(run_folder, call, change):
    file = run_folder / "study.json"
    write_sealed(file, read_sealed(file) | change if isinstance(change, dict) else change)
    line = one_line(call(f"report {run_folder}"), "study.json is damaged: ", "writes it anew.")
    assert ".." not in line.replace(str(file), "")


LARGE = {"widths": [200_000, 200_000]}
RECIPE = {"model": "fcn", "neuron": "standard", "num_classes": 10, "in_chans": 1, "img_size": 8, "widths": [4]}


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        (LARGE, "does not fit the model its header describes: it needs 40,0"),
        (
            {"converted": [{"family": "zero_bias", "paths": [], "batch_norm": "fold", "options": {}}]} | LARGE,
            "it needs",
        ),
        ({"num_classes": 10**30}, "has a header that cannot be read"),
        ({"num_classes": -1}, "has a header that cannot be read"),
    ],
)
def test_a_model_file_whose_recipe_asks_for_too_much(tmp_path, recipe, reason):
    header = json.dumps({"format": 1, "recipe": RECIPE | recipe, "same": {}})
    write_tensors(tmp_path / "m.safetensors", "neuronal", header, {"a": torch.zeros(3)})
    with pytest.raises(ValueError, match=reason) as raised:
        load_model(tmp_path / "m.safetensors")
    assert "\n" not in str(raised.value)


def test_a_model_file_of_whole_numbers_or_of_lists_without_end(tmp_path):
    tensors = {name: value.to(torch.int8) for name, value in create_model(**named(RECIPE)).state_dict().items()}
    for recipe, reason in ((json.dumps(RECIPE), "does not fit"), ("[" * 200_000, "header that cannot be read")):
        header = f'{{"format": 1, "recipe": {recipe}, "same": {{}}}}'
        save_file(tensors, tmp_path / "m.safetensors", metadata={"neuronal": header})
        with pytest.raises(ValueError, match=reason) as raised:
            load_model(tmp_path / "m.safetensors")
        assert "\n" not in str(raised.value)


def named(recipe):
    return {"name" if key == "model" else key: value for key, value in recipe.items()}


def test_the_same_model_is_the_same_file(tmp_path):
    """safetensors' own order of the two entries of its metadata changes from file to file."""
    model = create_model(**named(RECIPE))
    for number in range(8):
        save_model(model, tmp_path / f"{number}.safetensors")
    assert len({file.read_bytes() for file in tmp_path.glob("*.safetensors")}) == 1
    assert load_model(tmp_path / "0.safetensors").recipe["widths"] == [4]


@pytest.mark.parametrize("question", ["hull", "cone", "segment", "ball", "scaling", "activity"])
def test_nothing_is_said_of_a_network_with_nan(tmp_path, call, question):
    model = create_model(**named(RECIPE))
    next(model.parameters()).data[0, 0] = torch.nan
    save_model(model, tmp_path / "nan.safetensors")
    points = {"ball": "--indices 0", "hull": "--indices 0,1", "cone": "--indices 0,1", "segment": "--indices 0,1"}
    words = f"certify {question} nan.safetensors --data digits {points.get(question, '')} --check"
    one_line(call(words), "has NaN or infinity in it")


def test_an_answer_that_is_not_confirmed_ends_with_1(tmp_path, call, monkeypatch):
    save_model(create_model(**named(RECIPE)), tmp_path / "m.safetensors")
    words = "certify hull m.safetensors --data digits --indices 0,0 --check"
    assert call(words)[0] == call(f"{words} --json")[0] == 0
    monkeypatch.setattr(sys.modules["neuronal.certify.check"], "check", lambda *_: Confirmation("of this test."))
    for more in ("", " --json"):
        assert call(words + more)[0] == 1


def test_what_may_not_be_read_is_said_so(run_folder, call, monkeypatch):
    """Root may read everything, so the system's answer is ours."""
    save_model(create_model(**named(RECIPE)), "m.safetensors")
    real = Path.open

    def refused(self, *words, **named):
        if self.name in ("m.safetensors", cell.name):
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *words, **named)

    cell = cell_of(run_folder)
    monkeypatch.setattr(Path, "open", refused)
    for words in (f"report {run_folder}", "certify scaling m.safetensors"):
        line = one_line(call(words), "Permission denied", "Give the right to read it")
        assert "--out" not in line
    assert cell.exists()


def limited(words, gigabytes, **environment):
    """The command in a process of its own with so much address space."""
    done = subprocess.run(
        [sys.executable, "-m", "neuronal", *words.split()],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 2**30),) * 2),
        timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


TOO_LARGE = [
    "compare --model fcn --widths 30000,30000 --neurons standard --seeds 0 --epochs 1 --workers 1",
    "sweep digits --grid model=fcn --grid widths=30000,30000 --grid epochs=1 --grid seeds=0 --workers 1",
]


@pytest.mark.parametrize("words", TOO_LARGE)
def test_without_memory_a_training_says_what_is_kept(words):
    one_line(limited(words, 4), "out of memory", "0 of 1 trials are finished and kept")


def test_a_header_cannot_ask_for_more_memory_than_the_file_is_long(tmp_path, call):
    save_model(create_model(**named(RECIPE)), tmp_path / "m.safetensors")
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,), }".ljust(117) + "\n"
    (tmp_path / "big.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    one_line(call("certify ball m.safetensors --file big.npy"), "big.npy: not an array of numbers")


def test_errors_and_warnings_have_no_codes_for_the_terminal(call):
    assert "\x1b" not in one_line(call("report", "\x1b[31mred"), "red")


def test_without_a_home_folder(call, monkeypatch):
    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    for name in ("NEURONAL_DATA", "NEURONAL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    for words in ("data", "data info mnist", "data info ~nobody/x.csv"):
        one_line(call(words), "Set HOME")


BLOCKED = {
    "accelerate": ("import neuronal; neuronal.run", "compare"),
    "scipy": ("import neuronal.experiments.compare", "compare"),
    "matplotlib": ("import neuronal.report.figures", "compare"),
    "safetensors": ("from neuronal import *; save_model(create_model('mlp1'), 'm')", "compare"),
    "rich": ("import neuronal.report", "compare"),
    "typer": ("", "compare"),
    "pyarrow": ("from neuronal.data import load; load('./set')", "data info ./set"),
    "PIL": ("from neuronal.data import load; load('./set')", "data info ./set"),
}
# What needs none of the packages is imported once; each package is missing in a copy of that process.
WITHOUT = """
import os, sys
import neuronal.attacks, neuronal.certify, neuronal.models, neuronal.probes

class Gone:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for package, code, words, file in CASES:
    if os.fork() == 0:
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 2)
        sys.meta_path.insert(0, Gone())
        sys.argv[1:] = words
        exec(code)
        sys.exit("nothing was missing")
    # Flushed: what is left in the buffer would be written by the next copy too.
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def test_a_missing_package_is_named_with_the_extra_that_brings_it(tmp_path):
    write_set(tmp_path, "set")
    command, cases = "from neuronal.__main__ import main\nmain()", []
    for package, (python, words) in BLOCKED.items():
        python = f"try: {python}\nexcept ModuleNotFoundError as missing: sys.exit(str(missing))" if python else ""
        for code in filter(None, (python, command)):
            cases.append((package, code, words.split(), str(tmp_path / f"{package} {len(cases)}")))
    started = [sys.executable, "-c", f"CASES = {cases!r}\n{WITHOUT}"]
    done = subprocess.run(started, capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["1"] * len(cases), done
    for package, *_, file in cases:
        (line,) = Path(file).read_text().strip().splitlines()
        assert {"PIL": "pillow"}.get(package, package) in line
        assert "pip install 'neuronal[lab]'" in line
