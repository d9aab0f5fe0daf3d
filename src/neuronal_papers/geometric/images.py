"""Tables 1 and 2, Figure 4: residual networks and VGG-6 on images, with several methods and batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from neuronal.experiments import Recipe
from neuronal.report import Figure
from neuronal_papers.core import Options, settings
from neuronal_papers.drawing import Line, in_panels, mean_band
from neuronal_papers.geometric import comparison
from neuronal_papers.geometric.comparison import BOTH, EVERY, METHODS, PUBLISHED, RATES, TUNED, WEAK, by
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired
from neuronal_papers.seeds import Row, at_chance, groups, rows_of

ON_GPU: Options = {"precision": "bf16", "channels_last": True, "replay": True}
IMAGES = replace(PUBLISHED, flip=True, optim="sgd", monitor="accuracy", **ON_GPU)
VGG6 = replace(IMAGES, data="imagenet32", model="vgg6", epochs=90, cut_after=5, stop_after=10)
# So short a training has no plateau but that at its start: the rate falls by itself instead.
BY_ITSELF = replace(VGG6, data="cifar10", schedule="cosine", cut_after=0, stop_after=0, keep_best=True)
SMALL_VGG = replace(BY_ITSELF, model_options={"start": "glorot", "widths": (64, 128, 256)}, epochs=6)
RESIDUAL: Options = {"model_options": {"start": "he"}, "batch_size": 256, "weight_decay": 1e-4}
RESNET50 = replace(VGG6, **RESIDUAL, name="ImageNet", data="imagenet", model="resnet50", resized_crop=(0.08, 1.0))
SMALL_RESNET = replace(BY_ITSELF, **RESIDUAL, name="CIFAR-10", model="resnet18", crop=4, epochs=5)
ON_DIGITS: Options = {"data": "digits", "epochs": 1, "fraction": 0.2, "batch_size": 64, "seeds": (0,)}
ON_CPU: Options = {**ON_DIGITS} | {"precision": "no", "channels_last": False, "flip": False}
SMOKE_VGG = replace(VGG6, **ON_CPU, name="64", model_options={"start": "glorot", "widths": (4, 4, 4)})
SMOKE_RESNET = replace(SMALL_RESNET, **ON_CPU, name="digits", model_options={"width": 4, "start": "he"}, crop=1)
OPTIONS = {"rates": RATES, "holdout": 0.1, "tuning_seeds": 1, "clean_seeds": 10}
FEW, MANY = OPTIONS | {"rates": (0.01,), "clean_seeds": 2}, OPTIONS | {"tuning_seeds": 3}
ON_CIFAR = OPTIONS | {"rates": RATES[1:], "tuning_batch": 512}
SIZES = (256, 512, 1024)
"""Of batches; Figure 4 shows the largest."""
BEST = "GmP+IMN"
# A curve is there once it has this share of the best mean accuracy of all methods but the paper's.
NEAR = 0.99


def batches(recipe: Recipe, *methods: str) -> tuple[Recipe, ...]:
    """The recipe with every batch size and method."""
    return tuple(one for size in SIZES for one in by(replace(recipe, name=str(size), batch_size=size), *methods))


def _three(recipe: Recipe) -> tuple[Recipe, ...]:
    """All at rate 0.1, as the paper found best; residual networks have no scale outside."""
    return by(recipe, "WN+MBN", "BN", BEST, rate=0.1, outside=False)


def leads_by_batch(result: Result) -> list[Case]:
    """How much larger the lead over each other neuron is with the largest batches than with the smallest, seed by seed."""
    rows = rows_of(result, protocol="clean")
    seeds = set().union(*map(_seeds, rows))
    # A run that failed is at chance, so that all seeds are there; or the network is not finished.
    whole = [row for row in rows if _seeds(row) == seeds]
    ends = (comparison.leads([row for row in whole if row["batch"] == size], BEST) for size in SIZES[::2])
    small, large = ({case.label: case.values for case in own} for own in ends)
    cases = []
    for other in (name for name in METHODS if small.get(name) and large.get(name) and name != "GmP"):
        note = f"leads {fmean(small[other]):+.2f} and {fmean(large[other]):+.2f}"
        cases.append(Case(other, [b - a for a, b in zip(small[other], large[other], strict=True)], note=note))
    return cases


def _seeds(row: Row) -> set[int]:
    return {*row["seeds"], *map(int, row["failed"])}


def epochs_needed(result: Result) -> list[Case]:
    """Figure 4: by how many epochs less than each other method the paper's needs to nearly the best accuracy, seed by seed.

    A seed that never gets there, or failed, has one epoch more than the longest training.
    """
    largest = rows_of(result, protocol="clean", batch=SIZES[-1])
    rows = {row["method"]: row for row in largest if "curves" in row and row["method"] in METHODS}
    if BEST not in rows or len(rows) == 1:
        return []
    curves = {name: as_long(row["curves"]["followed_accuracy"]) for name, row in rows.items()}
    level = NEAR * max(fmean(epoch) for name, own in curves.items() if name != BEST for epoch in zip(*own, strict=True))
    never = 1 + max(len(own[0]) for own in curves.values())
    epochs = {}
    for name, row in rows.items():
        reached = [next((i for i, one in enumerate(c, 1) if one >= level), never) for c in curves[name]]
        epochs[name] = at_chance(dict(zip(row["seeds"], reached, strict=True)), map(int, row["failed"]), never)
    own = epochs.pop(BEST)
    return [
        Case(name, paired(own, other), note=f"{fmean(own.values()):.1f} and {fmean(other.values()):.1f} epochs")
        for name, other in epochs.items()
    ]


def as_long(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """All as long as the longest; one that stopped early stays at its last value."""
    length = max(map(len, curves))
    return [[*curve, *[curve[-1]] * (length - len(curve))] for curve in curves]


BANDS = "means over seeds, bands from the lowest to the highest. A seed that stopped early stays at its last value."
# From top to bottom, training on the left: curve, label with the name of the data followed, and factor.
PANELS = (
    ("accuracy", "training accuracy (%)", 100),
    ("followed_accuracy", "{} accuracy (%)", 100),
    ("loss", "training loss", 1),
    ("followed_top5", "{} top-5 accuracy (%)", 100),
)


def figures(result: Result) -> list[Figure]:
    """All methods side by side; Figure 4 per protocol and batch size, training on the left, data followed on the right."""
    drawings = comparison.figures(result)
    rows = [row for row in result["result"]["rows"] if "curves" in row]
    for (batch, protocol), own in groups(rows, "batch", "protocol").items():
        followed, whose = ("test", "published") if protocol == "published" else ("held-out", "tuned")
        title = f"Convergence, {protocol}, batches of {batch}"
        caption = f"Epoch by epoch, every method at its {whose} rate: {BANDS}"
        draw = partial(_panel, rows=own, followed=followed)
        name = f"{result['reproduction']}-{protocol}-{batch}-epochs"
        drawings.append(in_panels(name, title, caption, PANELS, draw, (3.2, 2.5), legend=6, sharex=True))
    return drawings


def _panel(axes: Any, panel: tuple[str, str, float], rows: Sequence[Row], followed: str) -> None:
    key, label, factor = panel
    for row in rows:
        curves = [[factor * value for value in curve] for curve in as_long(row["curves"][key])]
        number, epochs = list(EVERY).index(row["method"]), range(1, len(curves[0]) + 1)
        mean_band(axes, Line(number, row["method"], epochs, curves, has_markers=len(epochs) == 1))
    axes.set(ylabel=label.format(followed), xlabel="epoch" * axes.get_subplotspec().is_last_row())
    axes.xaxis.get_major_locator().set_params(integer=True)


def _percent(means: Sequence[float], errors: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Reported means and errors in the order of the methods, in percent."""
    return {m: (mean / 100, error / 100) for m, mean, error in zip(METHODS, means, errors, strict=True)}


HIGHEST = f"VGG-6: {BEST} has the highest accuracy with every batch size"
LARGE_BATCHES = (
    Claim(f"VGG-6: {BEST} is further ahead at batches of 1,024 than 256 (clean)", leads_by_batch, Above()),
    Claim(f"VGG-6: {BEST} converges fastest at batches of 1,024 (clean)", epochs_needed, Below(), "epochs", "+.1f"),
)
IN_BATCHES = (
    f"{BOTH} Further ahead: the lead with the largest batches less that with the smallest, over every neuron but GmP. "
    f"Fastest: fewest epochs to {NEAR:.0%} of the best mean accuracy of all methods but the paper's on held-out images; "
    "a seed that never gets there counts with one epoch more than the longest training."
)
_table = partial(comparison.compared, figures=figures, comparable=("paper",))
TABLE2 = _table(
    name="geometric/vgg6",
    title="VGG-6 with six methods and three batch sizes",
    where="Table 2, Figure 4",
    scales=settings(
        (by(SMOKE_VGG, *METHODS), batches(SMALL_VGG, *METHODS), batches(VGG6, *METHODS)), (FEW, ON_CIFAR, MANY)
    ),
    claims=(
        *comparison.is_best(BEST, HIGHEST),
        *LARGE_BATCHES,
    ),
    criteria=IN_BATCHES,
    reported={
        "256": _percent((38.31, 39.13, 42.22, 42.79, 40.76, 43.14), (0.13, 0.10, 0.01, 0.03, 0.09, 0.05)),
        "512": _percent((36.99, 37.92, 40.96, 41.90, 41.65, 43.62), (0.11, 0.12, 0.02, 0.19, 0.09, 0.08)),
        "1024": _percent((35.02, 36.17, 39.33, 41.39, 41.29, 42.70), (0.03, 0.03, 0.07, 0.02, 0.08, 0.15)),
        "top5": {
            "256": _percent((62.48, 63.28, 66.04, 67.17, 65.08, 67.36), (0.14, 0.02, 0.07, 0.08, 0.08, 0.05)),
            "512": _percent((60.71, 61.93, 65.08, 66.50, 65.76, 67.76), (0.18, 0.09, 0.03, 0.25, 0.05, 0.09)),
            "1024": _percent((58.14, 60.16, 63.32, 65.89, 65.49, 66.98), (0.39, 0.18, 0.08, 0.06, 0.06, 0.18)),
        },
    },
    departs=(
        "The mean is taken off the input of every convolution; the authors' code does so before max-pooling, after "
        "which it is no longer zero, and before the head too. Running means take in a hundredth of every batch, as "
        "theirs; batch norm's, as torch's, a tenth. WN+MBN has the bias its authors give it, which the code leaves out; "
        "the head is plain, theirs has weight norm with WN. Cuts and stops go by top-1 accuracy, as the text says (the "
        "code: top-5; 500 epochs, not 90); curves of training images show top-1, Figure 4 top-5. Pixels are in [0, 1], "
        "and only norms centre them; autocast to bfloat16. Published: three seeds, as the paper, and stops on test "
        "images. Clean: ten seeds, a tenth of the training images held out. Small: CIFAR-10, half the channels (64, "
        "128, 256), 6 epochs; the rate falls along a cosine, as so short a training has no plateau but that of its "
        "start, and the best epoch's weights are taken. Weak: networks without norms, and WN+MBN at the paper's rates "
        "(for 90 epochs of ImageNet32), stay far from trained, so published rows say as much of rates as of methods. In "
        "fewer than 300 steps of 1,024 images running means of a hundredth lag behind: what is found there is found of "
        "that too, as GmP+IMN and WN+MBN do worse on images followed than on those trained with, which have the means "
        "of their batch. Clean rates are from 0.003 on, tried with one seed and batches of 512 for all sizes; at the "
        f"paper's scale all, with three seeds, size by size. {WEAK}"
    ),
)
RESIDUAL_BEST = f"Residual networks: {BEST} has the highest accuracy"
AT_ONE_RATE, LARGE_RATES = OPTIONS | {"rates": (0.1,), "clean_seeds": 1}, OPTIONS | {"rates": RATES[2:]}
RESNETS = [_three(one) for one in (SMOKE_RESNET, SMALL_RESNET, RESNET50)]
TABLE1 = _table(
    name="geometric/resnet50",
    title="Residual networks with three methods",
    where="Table 1",
    scales=settings(RESNETS, (AT_ONE_RATE, LARGE_RATES, OPTIONS)),
    claims=comparison.is_best(BEST, RESIDUAL_BEST),
    criteria=BOTH,
    reported={
        "imagenet": {"WN+MBN": (0.7258, 0.0016), "BN": (0.7363, 0.0009), "GmP+IMN": (0.7557, 0.0012)},
        "top5": {"imagenet": {"WN+MBN": (0.9077, 0.0012), "BN": (0.9111, 0.0005), "GmP+IMN": (0.9268, 0.0011)}},
    },
    departs=(
        "There is no code for it: where norms stand is our choice (before or behind every convolution, the shortcut's "
        "too). The scale of a geometric unit is inside the ReLU. Random resized crops of squares in place of resizing "
        "to 256-480 and cropping, no colours changed; tested on squares of 224. Weight decay is that of He and others, "
        "whose setup the paper says it follows. Weights start as He's, those of geometric units on the whole sphere "
        "with scale 1. The rest is as in Table 2. Small: ResNet-18 on CIFAR-10, crops of images padded by 4, rate and "
        "weights as in Table 2. Weak: 5 epochs without warm-up, far from the end of a training, show who learns faster, "
        "not who ends higher; batch norm, known to get above 90% on these images, is at 76.7% at its tuned rate. Clean "
        f"tries the rates from 0.01 on with one seed; at the paper's scale all. {TUNED}"
    ),
)
