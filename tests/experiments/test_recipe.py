import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronal.data.augment import Augment
from neuronal.experiments.recipe import DataChoice, ModelChoice, Named, Recipe
from neuronal.names import UnknownName
from neuronal.train.optim import Plan

options = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
    max_size=3,
)
recipes = st.builds(
    Recipe,
    name=st.text(max_size=9),
    family=st.text(max_size=9),
    widths=st.lists(st.integers(1, 99), max_size=3).map(tuple),
    model_options=options,
    neuron_options=options,
    lr=st.floats(1e-9, 1e9) | st.integers(1, 9),
    epochs=st.integers(1, 99),
    seeds=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True).map(tuple),
)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 1.5}, {"batch_size": 2.0}, {"widths": (4.5,)}, {"seeds": (True,)}], ids=str
)
def test_what_is_counted_is_whole(wrong):
    with pytest.raises(ValueError, match="whole number"):
        Recipe("r", **wrong).part(Plan)


@given(recipes)
def test_a_recipe_survives_json_unchanged(recipe):
    again = Recipe.from_json(json.loads(json.dumps(recipe.to_json())))
    assert again == recipe
    assert again.fingerprint() == recipe.fingerprint()


@pytest.mark.parametrize("kind", [Plan, Augment])
def test_a_part_has_the_values_of_the_recipe(kind):
    recipe = Recipe("r", **SOUND)
    part = recipe.part(kind)
    assert type(part) is kind
    assert {field.name for field in fields(kind)} <= {field.name for field in fields(Recipe)}
    assert all(getattr(part, field.name) == getattr(recipe, field.name) for field in fields(kind))
    same = {field.name for field in fields(kind) if getattr(part, field.name) == getattr(Recipe("r"), field.name)}
    assert same <= {"accumulate"}, "replay is refused with it; everything else needs a value in SOUND"


def test_a_field_of_a_part_is_a_field_of_the_recipe():
    """What a part declares, the recipe takes: only the name and how it is measured are its own."""
    assert Recipe.__bases__ == (Plan, Augment, DataChoice, ModelChoice, Named)
    own = set(Recipe.__annotations__)
    assert own == {"epochs", "batch_size", "optim", "lr", "protocol", "seeds", "probes"}
    inherited = {field.name: field.default for kind in Recipe.__bases__ for field in fields(kind)}
    recipe = {field.name: field.default for field in fields(Recipe)}
    assert recipe.keys() == inherited.keys() | own
    assert all(recipe[name] == default for name, default in inherited.items() if name not in own)


CHANGED = {"family": "x", "model": "x", "widths": (1,), "data": "x", "holdout": 0.5, "epochs": 7, "batch_size": 7}
CHANGED |= {"norm": "x", "model_options": {"depth": 3}, "neuron_options": {"coupling": -0.5}, "scaling": "x"}
CHANGED |= {"fraction": 0.5, "wrong_labels": 0.1, "resized_crop": (0.5, 1.0), "crop": 1, "flip": True, "cutout": 2}
CHANGED |= {"contrast": (0.5, 1.5), "cutout_fill": "mean", "redrawn": 0.5}
CHANGED |= {"optim": "x", "lr": 7.0, "momentum": 0.7, "weight_decay": 0.7, "schedule": "x", "probes": ()}
CHANGED |= {"warmup": 0.5, "decay_weights_only": True, "scalar_lr": 0.1, "standard_epochs": 1, "monitor": "accuracy"}
CHANGED |= {"cut_after": 7, "cut": 0.7, "stop_after": 7, "mixup": 0.7, "clip": 0.7, "accumulate": 7, "precision": "x"}
CHANGED |= {"compile": True, "channels_last": True, "replay": True, "loss": "x", "keep_best": True}
CHANGED |= {"protocol": "published"}
SOUND = {name: value for name, value in CHANGED.items() if value != "x"}
SOUND |= {"optim": "sgd", "schedule": "cosine", "precision": "bf16", "loss": "cross_entropy", "accumulate": 1}


@pytest.mark.parametrize("field", CHANGED)
def test_what_changes_training_changes_the_fingerprint(field):
    assert replace(Recipe("a"), **{field: CHANGED[field]}).fingerprint() != Recipe("a").fingerprint()


def test_name_and_seeds_do_not_count_and_equal_numbers_are_equal():
    assert {*CHANGED, "name", "seeds"} == {field.name for field in fields(Recipe)}
    assert replace(Recipe("a"), name="b", seeds=(7,)).fingerprint() == Recipe("a").fingerprint()
    assert Recipe("a", lr=1).fingerprint() == Recipe("a", lr=1.0).fingerprint()
    assert Recipe("a", widths=[1, 2]).widths == (1, 2)


def test_model_options_are_frozen_pairs_in_any_order():
    one = Recipe("a", model_options={"width": 3, "depth": [1, [2]]})
    other = Recipe("a", model_options={"depth": (1, (2,))})
    assert one.model_options == (("depth", (1, (2,))), ("width", 3))
    assert one.to_json()["model_options"] == {"depth": [1, [2]], "width": 3}
    assert replace(other, model_options={"width": 3, **dict(other.model_options)}) == one
    assert hash(one) == hash(replace(one, model_options=one.model_options))
    for kind in ("model", "neuron"):
        with pytest.raises(ValueError, match=rf"{kind} option width needs numbers, text, .* got <object"):
            Recipe("a", **{f"{kind}_options": {"width": object()}})


def test_wrong_recipes_are_refused():
    with pytest.raises(ValueError, match="at least one seed"):
        Recipe("a", seeds=())
    with pytest.raises(ValueError, match="each seed once, got 1, 1"):
        Recipe("a", seeds=(1, 1))
    with pytest.raises(UnknownName, match=r"Unknown field of a recipe 'epoch'. Did you mean 'epochs'\?"):
        Recipe.from_json({"name": "a", "epoch": 3})
