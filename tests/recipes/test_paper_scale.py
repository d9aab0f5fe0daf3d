"""The papers' own settings: two steps of every training on made-up files of the real shapes, by the way a run takes."""

from dataclasses import replace

import pytest

from neuronal.data.catalogue import DATASETS
from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.reproduce import read_result, reproduce
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import check, run
from neuronal.recipes import REPRODUCTIONS
from tests.data.made_up import pixels, write_parquet
from tests.vision import vision

BATCH = 2
"""Instead of 128 to 512 images."""


def short(recipe):
    """Two steps of it; recipes that differ in rate, batch or length alone are then the same."""
    made = DATASETS[recipe.data].make is not None
    # An image of 224 x 224 through ResNet-50 and back is a second or two of one core; a set that is made has its own size.
    batch = 1 if recipe.data == "imagenet" else 25 if made else BATCH
    share = 1.0 if recipe.redrawn else 0.0
    return replace(recipe, epochs=1, standard_epochs=0, batch_size=batch, seeds=(0,), lr=0.01, redrawn=share)


DISTINCT = {
    replace(short(recipe), scaling="unit").fingerprint(): recipe
    for one in REPRODUCTIONS.values()
    for recipe in one.scales["paper"].recipes
}
"""Every training of any reproduction, once; of those that differ in rate, length or scaling alone, one."""


def case(recipe):
    """The deepest networks take more than a few seconds."""
    deep = recipe.model.endswith(("101", "152")) or (recipe.data == "imagenet" and recipe.name.startswith("Farkas"))
    return pytest.param(recipe, id=f"{recipe.name}, {recipe.family}", marks=[pytest.mark.slow] if deep else [])


def write_table(file, entry, count):
    """A csv file of so many rows: a fifth of them is for testing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [[(7 * i * (j + 1)) % 11 / 11 for j in range(entry.shape[0])] for i in range(count)]
    answers = [i % entry.num_classes if entry.num_classes else i / 3 for i in range(count)]
    file.write_text("\n".join(",".join(map(str, [*row, y])) for row, y in zip(rows, answers, strict=True)))


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Files of a named set, as its entry says they look: two batches to train on and one to test."""
    monkeypatch.setenv("NEURONAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / "cache"))

    def write(name, batch=BATCH, held=0):
        entry = DATASETS[name]
        if entry.make:
            return
        if entry.place.endswith(".csv"):
            write_table(tmp_path / "data" / entry.place, entry, 5 * batch // 2 + held)
            return
        for split, count in (("train", 2 * batch), (entry.test_splits[0], batch)):
            labels = [(7 * i) % entry.num_classes for i in range(count)]
            file = tmp_path / "data" / entry.place / f"{split}-00000-of-00001.parquet"
            write_parquet(file, pixels(count, entry.shape), labels)

    return write


@pytest.mark.parametrize("recipe", [case(recipe) for recipe in DISTINCT.values()])
def test_two_steps_of_every_training(recipe, made_up):
    two_steps = short(recipe)
    # Of six rows one is for testing and one is held out.
    made_up(recipe.data, two_steps.batch_size, held=int(recipe.holdout > 0))
    check(two_steps)
    record = run(two_steps, 0)
    assert record.failure is None
    assert record.epochs[0]["steps"] == 2
    assert set(record.probes) == set(recipe.probes)


SHORT = {
    "farkas/born_dead": {"epochs": 2, "seeds": (0,)},
    "farkas/cutoff": {"seeds": (0,)},
    "implicit_bias/boundary_2d": {"couplings": (-0.5,), "slopes": (3.0,), "epochs": 1, "grid": 15, "seeds": (0,)},
    "implicit_bias/energy": {
        "products": (-1.0, 0.25, 0.75, 1.5),
        "slopes": (10.0,),
        "starts": 3,
        "steps": 20,
        "units": 8,
    },
    "zero_bias/expressiveness": {"epochs": 2, "seeds": (0,)},
    "zero_bias/ntk": {"inputs": 3, "widths": (64,), "steps": 2, "seeds": (0,)},
    "zero_bias/zero_image": {"pretrained": False},
    "geometric/perturbation": {"units": 5},
    "geometric/boundary_1d": {},
    "geometric/boundary_2d": {},
}
"""What is cut short of the reproductions that have options and no recipes; all else is as it would be."""


@pytest.mark.parametrize("name", [name for name, one in REPRODUCTIONS.items() if not one.scales["paper"].recipes])
def test_a_short_run_of_what_has_no_recipe(name, made_up, tmp_path):
    one = REPRODUCTIONS[name]
    paper = one.scales["paper"]
    if paper.options.get("models"):
        vision()
    made_up("mnist", 4)
    short = replace(one, scales={"paper": Setting(options={**paper.options, **SHORT[name]})})
    answer = read_result(reproduce(short, "paper", runs=tmp_path, results=tmp_path))
    assert PROCEDURES[one.procedure].findings(answer)
