"""The papers' own settings, on made-up files of the real shapes: every network can be made, every kind takes two steps."""

from dataclasses import replace

import pytest

from neuronal.data.catalogue import DATASETS, load
from neuronal.experiments import check, drawn, run, training_data
from neuronal_papers.core import SCALES, Setting
from neuronal_papers.registry import reproductions
from neuronal_papers.reproduce import read_result, reproduce
from tests.data.made_up import pixels, write_parquet
from tests.vision import vision

ROWS = 40
"""Of a table."""
IMAGES, FEW = 12, 4
"""Of a set; few of 224 x 224, of which one through ResNet-50 and back is a second of one core."""


@pytest.fixture(scope="module", autouse=True)
def made_up(tmp_path_factory):
    """Small files of all named sets, as their entries say they look; two classes, so that some of each can be held out."""
    folder = tmp_path_factory.mktemp("data")
    for entry in DATASETS.values():
        if entry.make:
            continue
        if entry.place.endswith(".csv"):
            (folder / entry.place).parent.mkdir(parents=True, exist_ok=True)
            rows = [[(7 * i * (j + 1)) % 11 / 11 for j in range(entry.shape[0])] for i in range(ROWS)]
            last = [i % entry.num_classes if entry.num_classes else i / 3 for i in range(ROWS)]
            text = "\n".join(",".join(map(str, [*row, y])) for row, y in zip(rows, last, strict=True))
            (folder / entry.place).write_text(text)
        else:
            count = FEW if entry.shape[-1] > 64 else IMAGES
            for split in ("train", entry.test_splits[0]):
                file = folder / entry.place / f"{split}-00000-of-00001.parquet"
                write_parquet(file, pixels(count, entry.shape), [i % 2 for i in range(count)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURONAL_DATA", str(folder))
        patch.setenv("NEURONAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("name", reproductions())
def test_every_one_has_the_papers_own_setting(name):
    one = reproductions()[name]
    # ImageNet is out of reach of what is called small, and the same networks on CIFAR-10 say what CIFAR-100 would; what
    # is in a table at scale small already is not there again.
    out_of_reach = "imagenet" in name or name.endswith(("cifar100", "farkas/starts"))
    assert set(one.scales) == set(SCALES) - ({"small"} if out_of_reach else set())
    for setting in one.scales.values():
        names = [(recipe.name, recipe.family) for recipe in setting.recipes]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [name for name, one in reproductions().items() if one.scales["paper"].recipes])
def test_every_network_can_be_made_and_trained(name):
    for recipe in reproductions()[name].scales["paper"].recipes:
        check(recipe)


def kinds():
    """Of every kind of network and data the recipe that asks for most, besides the options of its table."""
    recipes = [recipe for one in reproductions().values() for recipe in one.scales["paper"].recipes]
    recipes.sort(key=lambda recipe: (len(recipe.probes), len(recipe.chosen())))
    for recipe in {(r.model, r.family, r.norm, DATASETS[r.data].shape): r for r in recipes}.values():
        # The deepest networks take more than a few seconds.
        deep = recipe.model.endswith(("101", "152")) or (recipe.data == "imagenet" and recipe.name.startswith("Farkas"))
        yield pytest.param(recipe, id=f"{recipe.name}, {recipe.family}", marks=[pytest.mark.slow] if deep else [])


@pytest.mark.parametrize("recipe", list(kinds()))
def test_two_steps_of_every_kind(recipe):
    short = replace(recipe, epochs=1, standard_epochs=0, fraction=1.0, seeds=(0,), lr=0.01)
    train, _ = training_data(short, drawn(load(short.data), short, 0), 0)
    short = replace(short, batch_size=-(-len(train) // 2))
    record = run(short, 0)
    assert record.failure is None
    assert record.epochs[0]["steps"] == 2
    assert set(record.probes) == set(recipe.probes)


def holds_names(value):
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(one, str) for one in value))


@pytest.mark.parametrize("name", [name for name, one in reproductions().items() if not one.scales["paper"].recipes])
def test_a_short_run_of_what_has_no_recipe(name, tmp_path):
    """Names, of networks and data say, are the paper's, all sizes those of the smallest scale."""
    one = reproductions()[name]
    paper, smoke = one.scales["paper"].options, one.scales["smoke"].options
    if "models" in paper:
        vision()
    options = {key: value if holds_names(value) else smoke.get(key, value) for key, value in paper.items()}
    options |= {"pretrained": False} if "pretrained" in paper else {}
    short = replace(one, scales={"paper": Setting(options=options)})
    result = read_result(reproduce(short, "paper", runs=tmp_path, results=tmp_path))
    assert one.findings(result)
