"""The table of named datasets: what is known of each before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neuronal.data import digits, generated
from neuronal.data.dataset import Dataset, Task


@dataclass(frozen=True)
class Hub:
    """Where the Hugging Face hub has a set: the repository, and the folder of its parquet files there."""

    repository: str
    folder: str


@dataclass(frozen=True)
class Entry:
    """A named dataset; counts are those its authors state.

    Args:
        shape: Of one input.
        num_train: Training examples.
        num_test: Test examples.
        num_classes: 0 for regression.
        source: Where the data come from and under which licence.
        place: Where its files lie below the data folder; empty for a set that needs none.
        make: Makes a set that needs no files.
        classes: Their names; empty where the files carry them.
        test_splits: What the test split may be called in parquet files, best first.
        hub: Where ``neuronal data fetch`` gets it.
        sha256: Checksum of the decoded arrays of the copy this library is tested with.
        fitted: Its images have all sizes: the shorter side is scaled to that of ``shape``, and the middle cut out.
    """

    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    source: str
    place: str = ""
    make: Callable[[], Dataset] | None = None
    classes: tuple[str, ...] = ()
    test_splits: tuple[str, ...] = ("test",)
    hub: Hub | None = None
    sha256: str = ""
    fitted: bool = False

    @property
    def task(self) -> Task:
        return "classification" if self.num_classes else "regression"


def _table(place: str, features: int, rows: int, num_classes: int, source: str) -> Entry:
    # Tables come without a test split and get one of a fifth of their rows.
    num_test = round(rows / 5)
    return Entry((features,), rows - num_test, num_test, num_classes, source, place=place)


_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_UCI = "UCI Machine Learning Repository, under the licence stated there."

DATASETS: dict[str, Entry] = {
    "digits": Entry((1, 8, 8), 1297, 500, 10, "UCI Machine Learning Repository, CC BY 4.0.", make=digits.load),
    "levy": Entry((1,), 50, 201, 0, generated.SOURCE, make=generated.levy),
    "moons": Entry((2,), 1000, 1000, 2, generated.SOURCE, make=generated.moons),
    "arrows": Entry((2,), 1000, 1000, 2, generated.SOURCE, make=generated.arrows),
    "mnist": Entry(
        (1, 28, 28),
        60000,
        10000,
        10,
        "LeCun, Cortes & Burges, The MNIST database of handwritten digits. Licence: as its authors state.",
        place="mnist",
        classes=tuple("0123456789"),
        sha256="b017cc9d74b03b706fdfc1da0d5083505121b239e6e053ed197b2b97d16c7f93",
        hub=Hub("ylecun/mnist", "mnist"),
    ),
    "fashion_mnist": Entry(
        (1, 28, 28),
        60000,
        10000,
        10,
        "Xiao, Rasul & Vollgraf, Fashion-MNIST, arXiv:1708.07747. MIT licence.",
        place="fashion_mnist",
        classes=_CLOTHES,
        sha256="57bd9741ad51930cede91bee2510baf999cb56213282540ff2c649c2edf08f4a",
        hub=Hub("zalando-datasets/fashion_mnist", "fashion_mnist"),
    ),
    "cifar10": Entry(
        (3, 32, 32),
        50000,
        10000,
        10,
        "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009. No licence stated.",
        place="cifar10",
        classes=_CIFAR10,
        sha256="be384f092c11b38d3ab6060c816be722722bf4549e437415fec9bf8b9be29923",
        hub=Hub("uoft-cs/cifar10", "plain_text"),
    ),
    "cifar100": Entry(
        (3, 32, 32),
        50000,
        10000,
        100,
        "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009. No licence stated.",
        place="cifar100",
        hub=Hub("uoft-cs/cifar100", "cifar100"),
    ),
    "svhn": Entry(
        (3, 32, 32),
        73257,
        26032,
        10,
        "Netzer and others, Reading Digits in Natural Images, 2011. For non-commercial use.",
        place="svhn",
        classes=tuple("0123456789"),
        hub=Hub("ufldl-stanford/svhn", "cropped_digits"),
    ),
    "imagenet32": Entry(
        (3, 32, 32),
        1281167,
        50000,
        1000,
        "Chrabaszcz, Loshchilov & Hutter, A Downsampled Variant of ImageNet, arXiv:1707.08819. For research only.",
        place="imagenet32",
        # The labels of ImageNet's own test split are not public.
        test_splits=("validation", "test"),
        hub=Hub("benjamin-paine/imagenet-1k-32x32", "data"),
    ),
    "imagenet": Entry(
        (3, 224, 224),
        1281167,
        50000,
        1000,
        "Russakovsky and others, ImageNet Large Scale Visual Recognition Challenge, 2015. For research only.",
        place="imagenet",
        test_splits=("validation", "test"),
        hub=Hub("ILSVRC/imagenet-1k", "data"),
        fitted=True,
    ),
    "banana": _table("banana.csv", 2, 5300, 2, "The banana set of the KEEL repository. Licence: as stated there."),
    "boston": _table("uci/boston.csv", 13, 506, 0, f"Boston housing, {_UCI}"),
    "concrete": _table("uci/concrete.csv", 8, 1030, 0, f"Concrete compressive strength, {_UCI}"),
    "energy": _table("uci/energy.csv", 8, 768, 0, f"Energy efficiency, heating load, {_UCI}"),
    "power": _table("uci/power.csv", 4, 9568, 0, f"Combined cycle power plant, {_UCI}"),
    "wine": _table("uci/wine.csv", 11, 1599, 0, f"Red wine quality, {_UCI}"),
    "yacht": _table("uci/yacht.csv", 6, 308, 0, f"Yacht hydrodynamics, {_UCI}"),
}
