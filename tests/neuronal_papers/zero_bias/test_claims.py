"""Claims of the zero-bias paper on made-up results: which hold, which fail, and what leaves them open."""

import pytest

from neuronal_papers.registry import reproductions


def outcomes(name, result, recipes=(), reported=None, options=None):
    """Outcomes of all claims, in order."""
    one = reproductions()[f"zero_bias/{name}"]
    whole = {"result": result, "recipes": recipes, "reported": reported or {}, "options": options or {}}
    return [f.outcome for f in one.findings({**whole, "reproduction": one.name, "command": ""})]


def contrast(zero, standard, reported=None, failed=0):
    """Of networks with these accuracies at full contrast, one per seed, and a tenth of them below; ``failed`` more runs."""
    recipes, rows = [], []
    for neuron, own, low in (("zero_bias", zero, 1.0), ("standard", standard, 0.1)):
        recipes.append({"name": "net", "data": "mnist", "seeds": list(range(len(own) + failed))})
        curves = [[value, *[low * value] * 10] for value in own]
        rows.append({"name": "net", "neuron": neuron, "seeds": list(range(len(own))), "accuracy": curves})
        rows[-1] |= {"failed": {str(len(own) + run): "not finite" for run in range(failed)}}
    return outcomes("table1_mnist_fcn", {"rows": rows}, recipes, reported)


NEAR = ((0.9, 0.91, 0.92), (0.901, 0.9105, 0.9205))


@pytest.mark.parametrize(
    ("zero", "standard", "similar"),
    [
        (*NEAR, "holds"),
        ((0.9, 0.9, 0.9), (0.95, 0.91, 0.84), "inconclusive"),
        ((0.9, 0.91, 0.92), (0.95, 0.96, 0.975), "fails"),
        ((0.9,), (0.9,), "inconclusive"),
    ],
)
def test_accuracies_with_and_without_biases_are_compared_seed_by_seed(zero, standard, similar):
    assert contrast(zero, standard) == ["holds", "holds" if len(zero) > 1 else "inconclusive", similar]


def test_a_failed_run_is_one_at_chance():
    """Both fail alike, so they are still similar; but accuracy of that run does not fall, which leaves that open."""
    assert contrast(*NEAR, failed=1) == ["holds", "inconclusive", "holds"]


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


def test_accuracy_that_depends_on_contrast_without_biases_is_a_counterexample():
    for change, expected in ((0.004, "holds"), (0.006, "false as stated")):
        rows = [
            {"name": "net", "neuron": neuron, "seeds": [0], "failed": {}, "accuracy": [[0.9] * 10 + [0.9 - change]]}
            for neuron in ("zero_bias", "standard")
        ]
        recipes = [{"name": "net", "data": "mnist", "seeds": [0]}]
        assert outcomes("table1_mnist_fcn", {"rows": rows}, recipes)[0] == expected


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
    rows = [
        {"name": name, "neuron": neuron, "seeds": [0, 1, 2], "failed": {}, "accuracy": curves}
        for name, neuron, curves in (
            ("net", "zero_bias", [[0.9] * 11, [0.901] * 11, [0.902] * 11]),
            ("net", "standard", [[0.9] + [0.1] * 10] * 3),
            ("augmented", "standard", [[value + 0.001 * seed for value in augmented] for seed in range(3)]),
        )
    ]
    recipes = [{"name": name, "data": "fashion_mnist", "seeds": [0, 1, 2]} for name in ("net", "augmented")]
    assert outcomes("augmented", {"rows": rows}, recipes) == expected


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.04, 1.05, 1.06), "holds"), ((1.2, 1.21, 1.22), "fails"), ((1.01, 1.05, 1.3), "inconclusive")],
)
def test_losses_are_close_or_not_whatever_two_seeds_do(factors, expected):
    curves = {"zero_bias": {}, "standard": {}}
    for seed, factor in enumerate(factors):
        curves["zero_bias"][str(seed)], curves["standard"][str(seed)] = [1.0, 2.0], [factor, 2 * factor]
    network = {"name": "net", "curves": curves}
    assert outcomes("training_curves", {"networks": [network]}) == [expected]


def pairs_rows(accuracy, equal, proved, neuron="zero_bias", name="30 units"):
    return [
        {"name": name, "neuron": neuron, "seed": seed, "accuracy": accuracy}
        | {"same_pattern": {"count": equal, "total": 1000}, "interpolants": 1000, "changed": 0}
        | {"certified": {"count": proved + seed, "total": 100}}
        for seed in range(3)
    ]


def test_what_equal_patterns_and_proofs_show():
    def found(*networks):
        recipes = [{"name": "30 units", "data": "mnist"}, {"name": "large", "data": "mnist"}]
        return outcomes("interpolation", {"rows": [row for of in networks for row in of]}, recipes)[1:]

    few = [pairs_rows(0.95, 0, 5, neuron, "large") for neuron in ("zero_bias", "standard")]
    many = [pairs_rows(0.95, 1, 80, neuron, "large") for neuron in ("zero_bias", "standard")]
    assert found(pairs_rows(0.32, 200, 90), pairs_rows(0.8, 5, 90, name="large"), *few) == ["holds"] * 5
    refuted = found(pairs_rows(0.32, 5, 90), pairs_rows(0.8, 200, 90, name="large"), *many)
    assert refuted == ["false as stated"] * 3 + ["fails"] * 2


@pytest.mark.parametrize("name", ["convex_region", "cone"])
def test_what_mixtures_show(name):
    def found(changed):
        rows = [
            {"neuron": neuron, "mixtures": 10, "convex_changed": changed, "conic_changed": changed}
            for neuron in ("zero_bias", "standard")
        ]
        return outcomes(name, {"rows": rows})

    assert found(0) == ["holds", "inconclusive" if name == "cone" else "false as stated"]
    assert found(3) == ["false as stated", "holds"]


def test_fits_are_looked_for():
    def found(fitted):
        rows = [
            {"task": task, "neuron": neuron, "fitted": count, "points": 2, "scales": True}
            for (task, neuron), count in fitted.items()
        ]
        return outcomes("expressiveness", {"rows": rows})

    paper = {("Dir 1", "zero_bias"): 1, ("Dir 1", "standard"): 2, ("Dir 2", "zero_bias"): 2, ("Dir 2", "standard"): 2}
    assert found(paper) == ["holds"] * 3
    none = dict.fromkeys(paper, 1) | {("Dir 1", "zero_bias"): 2}
    assert found(none) == ["false as stated", "inconclusive", "inconclusive"]


def test_published_models_are_not_measured_without_their_weights():
    def found(entropies, *, pretrained):
        rows = [{"name": name, "neuron": "", "entropy": e, "largest": 0.5, "classes": 9} for name, e in entropies]
        return outcomes("zero_image", {"rows": rows}, options={"pretrained": pretrained})[-1]

    names = ("timm:efficientnet_b0", "timm:resnet18", "timm:vit_base")
    assert found(zip(names, (0.9, 0.8, 0.5), strict=True), pretrained=True) == "holds"
    assert found(zip(names, (0.7, 0.8, 0.5), strict=True), pretrained=True) == "false as stated"
    assert found([(names[1], 0.8)], pretrained=True) == "not measured"
    assert found([(names[1], 0.8)], pretrained=False) == "not measured"


def test_kernels_shrink_with_width_and_share_a_limit_or_not():
    def found(wide, change):
        def rows(key):
            values = {64: [1.0, 1.1, 0.9], 256: wide}
            return [{"beta": 0.1, "width": width, key: {"values": of}} for width, of in values.items()]

        limits = [{"beta": 0.1, "change": change, "alignment": 1.0}]
        return outcomes("ntk", {"limits": limits, "approach": rows("to_own_limit"), "training": rows("change")})

    assert found([0.3, 0.31, 0.32], 0.001) == ["holds", "holds", "holds"]
    assert found([3.0, 3.1, 3.2], 0.5) == ["fails", "false as stated", "fails"]
