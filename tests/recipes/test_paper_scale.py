"""The papers' own settings: two steps of every training on made-up files of the real shapes, by the way a run takes."""

from dataclasses import replace

import pytest

from neuronal.data.entry import DATASETS
from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.reproduce import read_result, reproduce
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import check, run
from neuronal.recipes import REPRODUCTIONS
from tests.data.made_up import pixels, write_parquet
from tests.vision import vision

BATCH = 2
"""Instead of 128 to 512 images."""

DISTINCT = {
    replace(recipe, lr=1.0, scaling="unit").fingerprint(): recipe
    for one in REPRODUCTIONS.values()
    for recipe in one.scales["paper"].recipes
}
"""Every training of any reproduction, once; of those that differ in rate or scaling alone, one."""


def case(recipe):
    """The deepest networks take more than a few seconds."""
    deep = recipe.model.endswith(("101", "152")) or (recipe.data == "imagenet" and recipe.name.startswith("Farkas"))
    return pytest.param(recipe, id=f"{recipe.name}, {recipe.family}", marks=[pytest.mark.slow] if deep else [])


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Files of a named set, as its entry says they look: two batches to train on and one to test."""
    monkeypatch.setenv("NEURONAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / "cache"))

    def write(name, batch=BATCH):
        entry = DATASETS[name]
        for split, count in (("train", 2 * batch), (entry.test_splits[0], batch)):
            labels = [(7 * i) % entry.num_classes for i in range(count)]
            file = tmp_path / "data" / entry.place / f"{split}-00000-of-00001.parquet"
            write_parquet(file, pixels(count, entry.shape), labels)

    return write


@pytest.mark.parametrize("recipe", [case(recipe) for recipe in DISTINCT.values()])
def test_two_steps_of_every_training(recipe, made_up):
    # An image of 224 x 224 through ResNet-50 and back is a second or two of one core.
    batch = 1 if recipe.data == "imagenet" else BATCH
    made_up(recipe.data, batch)
    short = replace(recipe, epochs=1, standard_epochs=0, batch_size=batch, seeds=(0,))
    check(short)
    record = run(short, 0)
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
