"""Accuracy at lower and lower contrast: Table 1; networks without batch norm (Section 2.4); augmentation (Section 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, variance
from typing import Any

from neuronal.core.words import counted
from neuronal.data import DATASETS
from neuronal.experiments import Point, Recipe, Work, estimate
from neuronal.probes import MULTIPLIERS as FACTORS
from neuronal.probes import Contrast
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.core import Reproduction, Setting, settings, title_of
from neuronal_papers.drawing import Line, chart, every_seed, legend_below, mean_band
from neuronal_papers.judge import Above, Below, Case, Claim, Evidence, Fact, Result, Within, paired
from neuronal_papers.seeds import NAMES, at, groups, records_of, with_error
from neuronal_papers.tuning import END_OF_LIST, at_best, choices, end_of_list, runs_of

BOTH = ("zero_bias", "standard")


def both(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Each without and with biases, everything else the same."""
    return tuple(replace(recipe, family=family) for recipe in recipes for family in BOTH)


MNIST_FCN = Recipe(name="MNIST FCN", model="fcn", data="mnist", optim="adadelta", lr=0.01, epochs=20, batch_size=512)
MNIST_FCN = replace(MNIST_FCN, holdout=0.0, seeds=(0, 1, 2), probes=("contrast", "zero_image"))
FASHION_CNN = replace(MNIST_FCN, name="Fashion-MNIST CNN", model="cnn", data="fashion_mnist", batch_size=128)
FASHION_CNN_2 = replace(FASHION_CNN, name="Fashion-MNIST CNN, twice as wide", model_options={"widths": (32, 64, 128)})
FASHION_CNN_4 = replace(FASHION_CNN, name="Fashion-MNIST CNN, 4 x as wide", model_options={"widths": (64, 128, 256)})
CIFAR_RESNET18 = replace(MNIST_FCN, name="CIFAR-100 ResNet18", model="resnet18", norm="fixup", data="cifar100")
CIFAR_RESNET18 = replace(CIFAR_RESNET18, optim="sgd", lr=0.1, momentum=0.9, weight_decay=1e-4, schedule="cosine")
CIFAR_RESNET18 = replace(CIFAR_RESNET18, mixup=0.7, epochs=40, batch_size=128, crop=4, flip=True, scalar_lr=0.1)
CIFAR_RESNET18 = replace(CIFAR_RESNET18, precision="bf16", channels_last=True)
SMALL_RESNET18 = replace(CIFAR_RESNET18, name="CIFAR-10 ResNet18", data="cifar10", epochs=20, batch_size=256)
IMAGENET_RESNET50 = replace(CIFAR_RESNET18, name="ImageNet ResNet50", model="resnet50", data="imagenet", epochs=100)
IMAGENET_RESNET50 = replace(IMAGENET_RESNET50, batch_size=256, crop=0, resized_crop=(0.08, 1.0))


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a fifth of them."""
    recipe = replace(recipe, data="digits", epochs=1, fraction=0.2, batch_size=64, seeds=(0,))
    return replace(recipe, precision="no", channels_last=False)


# Points of accuracy, as the next three. Smaller changes over contrasts are none: rounding decides a few near-ties.
FLAT = 0.5
# Accuracies no further apart are similar: the largest difference in Table 1, whose rows the paper calls so.
SIMILAR = 1.55
# Two networks no further apart are comparable; the paper gives no number.
ALIKE = 3.0
# A clear difference: of a fall, of a curve from the reported one, of a network that lags.
CLEAR = 5.0
# In squared points, over three runs: the paper says that all of its own are below.
VARIANCE = 0.5


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Accuracy of a network at each contrast, seed by seed; why others failed; its rate, and what was tried."""

    name: str
    neuron: str
    seeds: tuple[int, ...]
    failed: Mapping[str, str]
    rate: float | None = None
    tuning: tuple[Point, ...] | None = None
    accuracy: tuple[tuple[float, ...], ...]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.neuron}"


@dataclass(frozen=True, kw_only=True)
class Network(Curves):
    """The same beside the paper's: ``curves`` by seed, runs that failed being at chance; ``note`` names these."""

    curves: Mapping[int, Sequence[float]]
    note: str
    beside: Sequence[float]


def measure(setting: Setting, work: Work) -> Mapping[str, list[Curves]]:
    """Trains every recipe with every seed: accuracy at each contrast, seed by seed, and what failed.

    ``options``: those of :func:`neuronal_papers.tuning.tuned` where each network is to have a rate of its own.
    """
    chosen, rows = choices(setting, work), []
    runs = runs_of(at_best(setting.recipes, chosen), work)
    for (recipe, trained, failed), choice in zip(runs, chosen, strict=True):
        curves = Curves(
            name=recipe.name,
            neuron=recipe.family,
            seeds=tuple(one.seed for one in trained),
            failed=failed,
            rate=recipe.lr if choice else None,
            tuning=choice.curve if choice else None,
            accuracy=tuple(one.probe(Contrast).accuracy for one in trained),
        )
        rows.append(curves)
    return {"rows": rows}


def _networks(result: Result) -> list[Network]:
    """The paper's curve is ``beside`` the first network of each neuron: several sizes stand beside one row of the paper."""
    data = {recipe["name"]: DATASETS[recipe["data"]] for recipe in result["recipes"]}
    beside = dict(result["reported"])
    networks = []
    for row in records_of(Curves, result):
        chance = (1 / data[row.name].num_classes,) * len(FACTORS)
        curves = dict(zip(row.seeds, row.accuracy, strict=True)) | dict.fromkeys(map(int, row.failed), chance)
        note = f"failed, at chance: {row.title}, seed {', '.join(row.failed)}" if row.failed else ""
        networks.append(Network(**vars(row), curves=curves, note=note, beside=beside.pop(row.neuron, ())))
    return networks


def _less(own: Network, other: Network, label: str = "", place: int = 0) -> Case:
    """The one's accuracy less the other's at one of the contrasts, the full one as a rule; in points, seed by seed."""
    mine, others = ({seed: curve[place] for seed, curve in one.curves.items()} for one in (own, other))
    return Case(label, paired(mine, others, 100), note="; ".join(filter(None, (own.note, other.note))))


def _similar(result: Result) -> list[Case]:
    pairs = groups(_networks(result), "name").items()
    # Of a table that is not finished one may be there alone.
    return [_less(pair[0], pair[1], name) for (name,), pair in pairs if len(pair) == len(BOTH)]


def _cases(number: Callable[..., float], neurons: Sequence[str], result: Result) -> list[Case]:
    """A case for every network of these neurons: a number of each seed's curve, and of the reported one, in points."""
    cases = []
    for one in (one for one in _networks(result) if one.neuron in neurons):
        reported = result["reported"].get(one.neuron, ())
        values = [100 * number(curve, reported) for curve in one.curves.values()]
        cases.append(Case(one.title, values, note=one.note))
    return cases


def _changes(result: Result) -> Evidence:
    curves = [curve for row in records_of(Curves, result) if row.neuron == "zero_bias" for curve in row.accuracy]
    changes = [100 * abs(value - curve[0]) for curve in curves for value in curve[1:]]
    data = ", ".join(dict.fromkeys(recipe["data"] for recipe in result["recipes"]))
    largest = max(changes, default=0)
    numbers = f"largest of {len(changes)} changes {largest:.2f} points, in {len(curves)} networks on {data}"
    return Evidence(len(changes), sum(change > FLAT for change in changes), numbers)


def _variances(result: Result) -> Evidence:
    rows = [row for row in records_of(Curves, result) if len(row.seeds) > 1]
    variances = [1e4 * variance(column) for row in rows for column in zip(*row.accuracy, strict=True)]
    below = sum(value < VARIANCE for value in variances)
    numbers = f"{below} of {len(variances)} are below; the largest is {max(variances, default=0):.2f}"
    return Evidence(len(variances), len(variances) - below, numbers)


FLATNESS = Fact("Without biases accuracy does not depend on contrast", _changes)
FALL = partial(_cases, lambda curve, _: curve[0] - min(curve), ["standard"])
FROM_REPORTED = partial(_cases, lambda curve, reported: curve[0] - reported[0], BOTH)
FROM_CURVE = partial(
    _cases,
    lambda curve, reported: fmean(abs(a - b) for a, b in zip(curve[1:], reported[1:], strict=True)),
    ["standard"],
)
CLAIMS = (
    FLATNESS,
    Claim("With biases accuracy falls as contrast does", FALL, Above(CLEAR)),
    Claim("Accuracies with and without biases are similar at full contrast", _similar, Within(SIMILAR)),
    Claim("At full contrast accuracies are those of the paper", FROM_REPORTED, Within(SIMILAR)),
    Claim("With biases the curve over contrasts is that of the paper", FROM_CURVE, Below(CLEAR)),
    Fact(f"Variances over three runs are below {VARIANCE:g} squared points", _variances),
)


def claims(result: Result) -> tuple[Claim | Fact, ...]:
    """Those of Table 1; the last three, against its numbers, only where they are of the same data."""
    return CLAIMS if result["reported"] else CLAIMS[:3]


def _lags(lowest: float, highest: float, result: Result) -> list[Case]:
    """Accuracy of the augmented network less that of the zero-bias one, a case for each contrast; open if undertrained."""
    zero_bias, biased, augmented = _networks(result)
    places = [place for place, factor in enumerate(FACTORS) if lowest <= factor <= highest]
    cases = [_less(augmented, zero_bias, f"at {FACTORS[place]:g}", place) for place in places]
    if fmean(_less(biased, augmented).values) <= ALIKE:
        return cases
    return [replace(case, label=f"{case.label} (undertrained)", is_open=True) for case in cases]


def tables(result: Result) -> list[Table]:
    """One line per contrast, measured and reported side by side; what held-out images say of every rate tried."""
    columns, seeds = [("contrast", [f"{factor:g}" for factor in FACTORS])], set()
    for row in filter(at("accuracy"), _networks(result)):
        seeds |= set(row.seeds)
        estimates = [estimate(values) for values in zip(*row.accuracy, strict=True)]
        columns.append((f"{row.title} (%)", [with_error(e.mean, e.standard_error) or "" for e in estimates]))
        if row.beside:
            columns.append(("reported (%)", [f"{100 * value:.2f}" for value in row.beside]))
    head, cells = zip(*columns, strict=True)
    caption = f"mean ± standard error over {counted(len(seeds), 'seed')}"
    return [Table(title_of(result), head, tuple(zip(*cells, strict=True)), 0, caption), *_tried(result)]


def _best(row: Curves) -> str | None:
    return None if row.rate is None else f"{row.rate:g}{end_of_list(row.rate, [one.value for one in row.tuning or ()])}"


def _accuracy_at(rate: float, row: Curves) -> str | None:
    (point,) = (one for one in row.tuning or () if one.value == rate)
    return "failed" if point.failed else with_error(point.mean, None)


def _tried(result: Result) -> list[Table]:
    rows = [row for row in records_of(Curves, result) if row.tuning]
    rates = [one.value for one in rows[0].tuning or ()] if rows else []
    columns = [*NAMES, Column("its rate", _best), *(Column(f"{rate:g}", partial(_accuracy_at, rate)) for rate in rates)]
    caption = f"accuracy (%) on held-out images by learning rate{END_OF_LIST}"
    return [table("Rates tried", columns, rows, caption)] if rows else []


def figures(result: Result) -> list[Figure]:
    def draw(axes: Any, line: Line) -> None:
        (mean_band if line.style == "-" else every_seed)(axes, line)

    lines = []
    for number, row in enumerate(filter(at("accuracy"), _networks(result))):
        percent = [[100 * value for value in curve] for curve in (*row.accuracy, row.beside)]
        lines.append(Line(number, row.title, FACTORS, percent[:-1]))
        if row.beside:
            lines.append(Line(number, f"reported, {row.neuron}", FACTORS, percent[-1:], ":"))
    axes = {"xscale": "log", "xlim": (1.6, 6.3e-5), "ylim": (0, 102)}
    axes |= {"xlabel": "contrast multiplier", "ylabel": "test accuracy (%)"}
    caption = "Full contrast on the left. Lines are means over seeds, bands reach from the lowest to the highest seed."
    name = f"{result['reproduction']}-contrast"
    return [chart(name, result["title"], lines, axes, caption, draw=draw, legend=legend_below)]


def _reported(zero_bias: float, *standard: float) -> dict[str, Sequence[float]]:
    """The paper's accuracies: without biases the same at every contrast."""
    return {"standard": standard, "zero_bias": [zero_bias] * len(FACTORS)}


TABLE1_MNIST_FCN = Reproduction(
    name="zero_bias/table1_mnist_fcn",
    title="Accuracy over contrasts, fully connected network on MNIST",
    where="Table 1, rows 1 and 2",
    scales=settings((both(smoke(MNIST_FCN)), both(MNIST_FCN))),
    reported=_reported(0.8827, 0.8812, 0.8707, 0.8446, 0.8257, 0.7952, 0.7476, 0.6582, 0.4284, 0.1634, 0.1028, 0.1028),
    measure=measure,
    claims=claims,
    tables=tables,
    figures=figures,
    criteria=(
        f"Accuracy does not depend on contrast if it changes by at most {FLAT:g} points, and falls if by more than "
        f"{CLEAR:g}. Accuracies are similar within {SIMILAR:g} points, the largest difference in Table 1. A curve is the "
        f"paper's if it is within {CLEAR:g} in the mean over the ten lower contrasts. Variances are read as squared points."
    ),
    departs=(
        "Hidden layers (256 and 128 units) and inputs in [0, 1] are our choice. At low contrast biases alone decide: the "
        "spread over seeds is far larger than the paper's, and means of three are uncertain by several points."
    ),
)
TABLE1_FASHION_CNN = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/table1_fashion_cnn",
    title="Accuracy over contrasts, convolutional network on Fashion-MNIST",
    where="Table 1, rows 3 and 4",
    scales=settings((both(smoke(FASHION_CNN)), both(FASHION_CNN, FASHION_CNN_2, FASHION_CNN_4))),
    reported=_reported(0.8902, 0.8910, 0.6710, 0.4012, 0.3252, 0.2416, 0.1791, 0.1246, 0.1012, 0.1, 0.1, 0.1),
    departs=(
        "Our choice: two convolutions, each with a ReLU and a 2 x 2 pool, a hidden layer, inputs in [0, 1], and three "
        "sizes (16, 32 and 64 units, twice and 4 x as many). At Adadelta's rate of 0.01 training is far from its end after "
        "20 epochs (Figure 5). Wider networks come further, none to the 89% of the paper, whose network must be another."
    ),
)

NARROW_RESNET18 = replace(smoke(CIFAR_RESNET18), model_options={"width": 4}, crop=1)
TABLE1_CIFAR_RESNET18 = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/table1_cifar_resnet18",
    title="Accuracy over contrasts, ResNet-18 without batch norm on CIFAR",
    where="Table 1, rows 5 and 6",
    scales=settings((both(NARROW_RESNET18), both(SMALL_RESNET18), both(CIFAR_RESNET18))),
    reported=_reported(0.6733, 0.6762, 0.1986, 0.0820, 0.0611, 0.0416, 0.0258, 0.0169, 0.0106, 0.0101, 0.0101, 0.0101),
    comparable=("paper",),
    departs=(
        "Small: CIFAR-10, 20 epochs, batches of 256; the paper has CIFAR-100, 67.62% with biases and 67.33% without. It "
        "leaves batch norm out and names no substitute: here it is Fixup, with biases of the layers instead of scalar "
        "ones; they and its scales learn at a tenth of the rate. Crops, flips, inputs in [0, 1], bfloat16: our choice."
    ),
)
NARROW_RESNET50 = replace(smoke(IMAGENET_RESNET50), model_options={"width": 4})
TABLE1_IMAGENET_RESNET50 = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/table1_imagenet_resnet50",
    title="Accuracy over contrasts, ResNet-50 with Fixup on ImageNet",
    where="Table 1, rows 7 and 8",
    scales={"smoke": Setting(both(NARROW_RESNET50)), "paper": Setting(both(IMAGENET_RESNET50))},
    reported=_reported(0.7382, 0.7537, 0.6672, 0.5784, 0.5362, 0.4727, 0.3761, 0.2181, 0.0339, 0.0021, 0.001, 0.001),
    departs=(
        "Images are cut to squares of 224 once (193 GB of memory, then of disk), for tests, where 224 out of 256 is usual, "
        "and for random resized crops. Inputs are in [0, 1]; the code the paper points to subtracts a mean, after which "
        "less contrast is no multiple. The learning rate follows a cosine, as the paper says; that code makes one and "
        "never steps it. A branch has one multiplier, as in Fixup; the paper has one before every layer and activation. "
        "Biases are the layers'; they and the multipliers learn at a tenth of the rate. Training is in bfloat16."
    ),
)


def _norms(recipe: Recipe) -> tuple[Recipe, ...]:
    """Both ways to leave batch norm out, everything else the same; without biases."""
    recipe = replace(recipe, family="zero_bias")
    return tuple(replace(recipe, name=f"{recipe.name}, {norm}", norm=norm) for norm in ("fixup", "nf"))


NARROW_RESNET9 = replace(smoke(SMALL_RESNET18), name="ResNet9", model="resnet9", model_options={"width": 8}, crop=1)
FIXUP_OR_NF = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/fixup_vs_nf",
    title="Two scale-invariant ResNets: Fixup and normaliser-free",
    where="Section 2.4",
    scales=settings((_norms(NARROW_RESNET9), _norms(SMALL_RESNET18), _norms(CIFAR_RESNET18))),
    claims=(FLATNESS,),
    reported={},
    criteria=f"Accuracy does not depend on contrast if it changes by at most {FLAT:g} points.",
    departs=(
        "The paper names both ways and compares neither. Both are trained as in Table 1, where Fixup's networks are from, "
        "with Fixup's own budget, learning rate and changes of images; gradients are not clipped."
    ),
)

AUGMENTED = replace(FASHION_CNN, name="Fashion-MNIST CNN, augmented", contrast=FACTORS)
AUGMENTATION = replace(
    TABLE1_MNIST_FCN,
    name="zero_bias/augmented",
    title="Biased networks trained on images of all contrasts, against zero-bias ones trained without",
    where="Section 2.5",
    scales=settings(((*both(smoke(FASHION_CNN)), smoke(AUGMENTED)), (*both(FASHION_CNN), AUGMENTED))),
    claims=(
        Claim("Augmented networks are still poor at contrasts up to 0.001", partial(_lags, 0, 0.001), Below(-CLEAR)),
        Claim("From 0.25 to 0.01 they are comparable to zero-bias ones", partial(_lags, 0.01, 0.25), Within(ALIKE)),
        Claim("Zero-bias networks need less data: they are ahead at full contrast too", partial(_lags, 1, 1), Below()),
    ),
    reported={},
    criteria=(
        f"Poor is more than {CLEAR:g} points behind, comparable within {ALIKE:g}. Augmented networks are undertrained "
        "if at full contrast they are not comparable to themselves without augmentation; then all claims are open."
    ),
    departs=(
        "The paper augments the data of both networks and gives no numbers; here those without biases see full contrast "
        "only. An image gets one of the test's eleven factors each time it is seen; the paper names neither networks nor "
        "data, nor if its sets are eleven times as large. The 20 epochs of Table 1 at a rate of 0.01 are too few here."
    ),
)
TABLE1 = (TABLE1_MNIST_FCN, TABLE1_FASHION_CNN, TABLE1_CIFAR_RESNET18, TABLE1_IMAGENET_RESNET50)
CONTRASTS = (*TABLE1, FIXUP_OR_NF, AUGMENTATION)
