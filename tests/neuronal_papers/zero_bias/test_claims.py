"""Claims of the zero-bias paper on made-up results: which hold, which fail, and what leaves them open."""

from itertools import product

import pytest

from neuronal.core.records import to_json
from neuronal_papers.registry import reproductions
from neuronal_papers.zero_bias.ntk import Limit


def outcomes(name, result, recipes=(), reported=None, options=None):
    """Outcomes of all claims, in order."""
    one = reproductions()[f"zero_bias/{name}"]
    whole = {"result": result, "recipes": recipes, "reported": reported or {}, "options": options or {}}
    return [f.outcome for f in one.findings({**whole, "reproduction": one.name, "command": ""})]


def accuracies(name, *networks, reported=None):
    """Outcomes for networks of a name, a neuron, a curve over contrasts for each seed, and how many more runs failed."""
    rows = [
        {"name": network, "neuron": neuron, "seeds": list(range(len(curves))), "accuracy": curves}
        | {"failed": {str(len(curves) + run): "not finite" for run in range(failed)}}
        for network, neuron, curves, failed in networks
    ]
    return outcomes(name, {"rows": rows}, [{"name": row["name"], "data": "mnist"} for row in rows], reported)


def contrast(zero, standard, reported=None, failed=0):
    """Of networks with these accuracies at full contrast, one per seed, and a tenth of them below; ``failed`` more runs."""
    without, biased = ([[value, *[low * value] * 10] for value in own] for own, low in ((zero, 1.0), (standard, 0.1)))
    networks = ("net", "zero_bias", without, failed), ("net", "standard", biased, failed)
    return accuracies("table1_mnist_fcn", *networks, reported=reported)


@pytest.mark.parametrize(
    ("zero", "standard", "failed", "expected"),
    [
        ((0.9, 0.91, 0.92), (0.901, 0.9105, 0.9205), 0, ["holds", "holds", "holds"]),
        ((0.9, 0.9, 0.9), (0.95, 0.91, 0.84), 0, ["holds", "holds", "inconclusive"]),
        ((0.9, 0.91, 0.92), (0.95, 0.96, 0.975), 0, ["holds", "holds", "fails"]),
        ((0.9,), (0.9,), 0, ["holds", "inconclusive", "inconclusive"]),
        # A failed run is at chance: both fail alike, but accuracy of that run does not fall.
        ((0.9, 0.91, 0.92), (0.901, 0.9105, 0.9205), 1, ["holds", "inconclusive", "holds"]),
    ],
)
def test_accuracies_with_and_without_biases_are_compared_seed_by_seed(zero, standard, failed, expected):
    assert contrast(zero, standard, failed=failed) == expected


def test_a_network_whose_pair_is_not_finished_is_compared_with_nothing():
    curves = [[0.9] * 11, [0.91] * 11]
    assert accuracies("table1_mnist_fcn", ("net", "zero_bias", curves, 0)) == ["holds", "not measured", "not measured"]


@pytest.mark.parametrize(
    ("mean", "low", "expected"), [(0.91, 0.09, ["holds", "holds"]), (0.8, 0.5, ["fails", "fails"])]
)
def test_accuracies_and_curves_are_compared_with_the_papers(mean, low, expected):
    reported = {"zero_bias": [mean], "standard": [mean, *[low] * 10]}
    near = (0.91, 0.911, 0.912)
    *_, accuracy, curve, variances = contrast(near, near, reported)
    assert [accuracy, curve] == expected
    assert variances == "holds"
    assert contrast((0.8, 0.9, 1.0), near, reported)[-1] == "false as stated"


@pytest.mark.parametrize(("change", "expected"), [(0.004, "holds"), (0.006, "false as stated")])
def test_accuracy_that_depends_on_contrast_without_biases_is_a_counterexample(change, expected):
    curves = [[0.9] * 10 + [0.9 - change]]
    networks = ("net", "zero_bias", curves, 0), ("net", "standard", curves, 0)
    assert accuracies("table1_mnist_fcn", *networks)[0] == expected


@pytest.mark.parametrize(
    ("augmented", "expected"),
    [
        ([0.89] + [0.88] * 8 + [0.1] * 2, ["holds", "holds", "holds"]),
        ([0.905] + [0.8] * 8 + [0.9] * 2, ["fails", "fails", "fails"]),
        # Ten points behind itself without augmentation.
        ([0.8] + [0.7] * 8 + [0.1] * 2, ["inconclusive"] * 3),
    ],
)
def test_augmented_networks_decide_only_when_they_are_trained(augmented, expected):
    networks = (
        ("net", "zero_bias", [[0.9] * 11, [0.901] * 11, [0.902] * 11], 0),
        ("net", "standard", [[0.9] + [0.1] * 10] * 3, 0),
        ("augmented", "standard", [[value + 0.001 * seed for value in augmented] for seed in range(3)], 0),
    )
    assert accuracies("augmented", *networks) == expected


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.04, 1.05, 1.06), "holds"), ((1.2, 1.21, 1.22), "fails"), ((1.01, 1.05, 1.3), "inconclusive")],
)
def test_losses_are_close_or_not(factors, expected):
    without, biased = ({str(seed): [by, 2 * by] for seed, by in enumerate(own)} for own in ([1.0] * 3, factors))
    networks = [{"name": "net", "curves": {"zero_bias": without, "standard": biased}}]
    assert outcomes("training_curves", {"networks": networks}) == [expected]


def test_what_equal_patterns_and_proofs_show():
    def found(*networks):
        rows = [
            {"name": name, "neuron": "standard", "seed": seed, "accuracy": accuracy, "interpolants": 1000, "changed": 0}
            | {"same_pattern": {"count": equal, "total": 1000}, "certified": {"count": proved + seed, "total": 100}}
            | {"refuted": 0, "unknown": 0}
            for name, accuracy, equal, proved in networks
            for seed in range(3)
        ]
        recipes = [{"name": name, "data": "mnist"} for name, *_ in networks]
        return outcomes("interpolation", {"rows": rows}, recipes)

    shown = found(("30 units", 0.32, 200, 90), ("middle", 0.8, 5, 90), ("large", 0.95, 0, 5))
    assert shown == ["holds"] * 5
    refuted = found(("30 units", 0.32, 5, 90), ("middle", 0.8, 200, 90), ("large", 0.95, 1, 80))
    assert refuted == ["holds"] + ["false as stated"] * 3 + ["fails"]


@pytest.mark.parametrize(
    ("changed", "convex", "conic"),
    [(0, ["holds", "false as stated"], ["holds"]), (3, ["false as stated", "holds"], ["false as stated"])],
)
def test_what_mixtures_show(changed, convex, conic):
    row = {"mixtures": 10, "convex_changed": changed, "conic_changed": changed, "groups": 1, "accuracy": 0.9}
    row |= {"certified": {"count": 0, "total": 0}, "refuted": 0, "unknown": 0, "name": "net", "seed": 0}
    rows = [row | {"neuron": neuron} for neuron in ("zero_bias", "standard")]
    assert (outcomes("convex_region", {"rows": rows}), outcomes("cone", {"rows": rows})) == (convex, conic)


def test_fits_are_looked_for():
    def found(*fitted):
        rows = [
            {"task": task, "neuron": neuron, "fitted": count, "points": 2, "scales": True}
            | {"seed": 0, "along": {"radius": [], "score": []}}
            for (task, neuron), count in zip(
                product(("Dir 1", "Dir 2"), ("zero_bias", "standard")), fitted, strict=True
            )
        ]
        return outcomes("expressiveness", {"rows": rows})

    assert found(1, 2, 2, 2) == ["holds"] * 3
    assert found(2, 1, 1, 1) == ["false as stated", "inconclusive", "inconclusive"]


def test_published_models_are_not_measured_without_their_weights():
    def found(*entropies, pretrained=True):
        names = ("timm:efficientnet_b0", "timm:resnet18", "timm:vit_base")
        belief = {"neuron": "", "seed": 0, "probabilities": [], "largest": 0.5, "classes": 1000}
        rows = [belief | {"name": name, "entropy": e} for name, e in zip(names, entropies, strict=False)]
        return outcomes("zero_image", {"rows": rows}, options={"pretrained": pretrained})[-1]

    assert found(0.9, 0.8, 0.5) == "holds"
    assert found(0.7, 0.8, 0.5) == "false as stated"
    assert found(0.9, 0.8) == found(0.9, 0.8, 0.5, pretrained=False) == "not measured"


def test_kernels_shrink_with_width_and_share_a_limit_or_not():
    def found(wide, change):
        def rows(*keys):
            values = {64: [1.0, 1.1, 0.9], 256: wide}
            estimated = {"mean": 0.0, "standard_error": None, "num_seeds": 3}
            return [
                {"beta": 0.1, "width": width} | {key: estimated | {"values": of} for key in keys}
                for width, of in values.items()
            ]

        limits = [Limit("normal", 2, 2.0, 0.1, change, 0.0, 1.0)]
        near = rows("to_own_limit", "to_limit_without_biases")
        return outcomes("ntk", {"limits": to_json(limits), "approach": near, "training": rows("change")})

    assert found([0.3, 0.31, 0.32], 0.001) == ["holds", "holds", "holds"]
    assert found([3.0, 3.1, 3.2], 0.5) == ["fails", "false as stated", "fails"]
