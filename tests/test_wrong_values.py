"""Values of another kind than the one that is asked for: one line that says what is needed."""

import numpy as np
import pytest
import torch

import neuronal
from neuronal import attacks, certify, geometry, kernel, nn, probes, train
from neuronal.data import Augment, Split, load
from neuronal.experiments.audit import measure

X, Y = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
SPLIT, BALL = Split(X, Y), attacks.Ball("inf", 0.1)
TAKE_A_MODEL = {
    "audit": lambda model: measure(model, load("digits")),
    "convert": lambda model: neuronal.convert(model, "zero_bias"),
    "fold": neuronal.fold_batch_norm,
    "to_standard": neuronal.to_standard,
    "fit": lambda model: train.fit(model, SPLIT, train.Plan(1, 2, "sgd", 0.1)),
    "ntk": lambda model: kernel.empirical_ntk(model, X),
    "pgd": lambda model: attacks.pgd(model, X, Y, BALL),
    "apgd": lambda model: attacks.apgd(model, X, Y, BALL),
    "pixle": lambda model: attacks.pixle(model, X, Y),
    "lower": lambda model: geometry.lower(model, X),
    "outputs": lambda model: geometry.outputs(model, X),
    "pattern": lambda model: geometry.activation_pattern(model, X),
    "affine_map": lambda model: geometry.affine_map(model, X[:1]),
    "segment_pieces": lambda model: geometry.segment_pieces(model, X[0], X[1]),
    "certify_activity": lambda model: certify.certify_activity(model, (X[0], X[0])),
    "certify_ball": lambda model: certify.certify_ball(model, X[0]),
    "certify_hull": lambda model: certify.certify_hull(model, X),
    "certify_lipschitz_ball": lambda model: certify.certify_lipschitz_ball(model, X[0]),
    "certify_scaling": certify.certify_scaling,
    "certify_segment": lambda model: certify.certify_segment(model, X[0], X[1]),
    "lipschitz_bound": lambda model: certify.lipschitz_bound(model, X),
    **{
        name: lambda model, name=name: getattr(probes, name)(model, SPLIT)
        for name in (
            "boundary_distance",
            "contrast",
            "curvature",
            "dead_units",
            "jacobian",
            "score",
            "silence",
            "zero_image",
        )
    },
}


@pytest.mark.parametrize("model", [5, "cnn", torch.relu], ids=["number", "text", "function"])
@pytest.mark.parametrize("name", TAKE_A_MODEL)
def test_what_is_no_module_is_named(name, model):
    with pytest.raises(TypeError, match=f"needs a torch module, got {type(model).__name__}"):
        TAKE_A_MODEL[name](model)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("optim", None),
        ("family", 10**30),
        ("accumulate", float("nan")),
        ("epochs", 3.0),
        ("epochs", True),
        ("flip", 1),
        ("lr", "fast"),
        ("lr", None),
        ("probes", "contrast"),
        ("probes", (3,)),
        ("contrast", 0.5),
        ("widths", 3),
    ],
)
def test_a_recipe_has_fields_of_their_types(field, value):
    with pytest.raises(ValueError, match=f"{field} needs? .*, got") as raised:
        neuronal.Recipe("a", **{field: value})
    assert "\n" not in str(raised.value)


def test_numbers_are_numbers_whoever_made_them():
    assert neuronal.Recipe("a", lr=np.float32(0.5), weight_decay=1) == neuronal.Recipe("a", lr=0.5, weight_decay=1.0)


@pytest.mark.parametrize("values", [{"cutout": 2**63}, {"crop": 1.5}, {"crop": "2"}, {"cutout": True}])
def test_changes_of_images_go_by_whole_pixels(values):
    with pytest.raises(ValueError, match=r"needs to be 0 or more, got .* Give a whole number"):
        Augment(**values)


@pytest.mark.parametrize("values", [{"iterations": 2**31}, {"iterations": 10**30}, {"restarts": 0}, {"restarts": 1.5}])
def test_pixle_does_not_begin_what_has_no_end(values):
    with pytest.raises(ValueError, match="needs to be a whole number from 1 to 100,000"):
        attacks.pixle(torch.nn.Flatten(), X, Y, **values)


@pytest.mark.parametrize("size", [-1, "a", 1.5, None], ids=str)
@pytest.mark.parametrize("family", ["ZeroBias", "Geometric", "ImplicitBias", "Farkas"])
def test_sizes_of_layers_are_whole_numbers(family, size):
    linear, conv = getattr(nn, f"{family}Linear"), getattr(nn, f"{family}Conv2d")
    kind, words = RuntimeError if size == -1 else TypeError, "need to be whole numbers from 0"
    for make in (lambda: linear(size, 3), lambda: linear(3, size), lambda: conv(size, 3, 1), lambda: conv(3, size, 1)):
        with pytest.raises(kind, match=rf"sizes of {family}\w+ {words}, got {size!r}"):
            make()
