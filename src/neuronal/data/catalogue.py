"""Datasets by name, or by path: what is known of each before it is loaded, loading, and checking it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from neuronal.core.folders import data_root, expanded
from neuronal.core.records import Json
from neuronal.core.words import times
from neuronal.data.arrays import Arrays
from neuronal.data.cache import array_checksum, contents, kept, stamps
from neuronal.data.dataset import Dataset
from neuronal.data.digits import load as digits
from neuronal.data.errors import MissingData
from neuronal.data.files import Entry, Found, Hub, download, found_at, found_by_name
from neuronal.data.generated import SOURCE, arrows, levy, moons
from neuronal.data.parquet import count_rows
from neuronal.names import find


def _table(place: str, features: int, rows: int, num_classes: int, source: str) -> Entry:
    # Tables come without a test split and get one of a fifth of their rows.
    num_test = round(rows / 5)
    return Entry((features,), rows - num_test, num_test, num_classes, source, place=place)


_CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_UCI = "UCI Machine Learning Repository, under the licence stated there."
_KRIZHEVSKY = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009. No licence stated."
_MNIST = partial(Entry, (1, 28, 28), 60000, 10000, 10)
_CIFAR = partial(Entry, (3, 32, 32), 50000, 10000, source=_KRIZHEVSKY)
# The labels of ImageNet's own test split are not public.
_IMAGENET = partial(Entry, num_train=1281167, num_test=50000, num_classes=1000, test_splits=("validation", "test"))

DATASETS: dict[str, Entry] = {
    "digits": Entry((1, 8, 8), 1297, 500, 10, "UCI Machine Learning Repository, CC BY 4.0.", make=digits),
    "levy": Entry((1,), 50, 201, 0, SOURCE, make=levy),
    "moons": Entry((2,), 1000, 1000, 2, SOURCE, make=moons),
    "arrows": Entry((2,), 1000, 1000, 2, SOURCE, make=arrows),
    "mnist": _MNIST(
        "LeCun, Cortes & Burges, The MNIST database of handwritten digits. Licence: as its authors state.",
        place="mnist",
        classes=tuple("0123456789"),
        sha256="b017cc9d74b03b706fdfc1da0d5083505121b239e6e053ed197b2b97d16c7f93",
        contents="a1b683fcd613997a64ed684fa4b752a186e2fd4f4fcb6f7c769b4e34f472d8f9",
        hub=Hub("ylecun/mnist", "mnist"),
    ),
    "fashion_mnist": _MNIST(
        "Xiao, Rasul & Vollgraf, Fashion-MNIST, arXiv:1708.07747. MIT licence.",
        place="fashion_mnist",
        classes=_CLOTHES,
        sha256="57bd9741ad51930cede91bee2510baf999cb56213282540ff2c649c2edf08f4a",
        contents="106feff8713ee114576d0fd71dd55d104c0a33e0b84a6c97c8428c6526bca6dd",
        hub=Hub("zalando-datasets/fashion_mnist", "fashion_mnist"),
    ),
    "cifar10": _CIFAR(
        num_classes=10,
        place="cifar10",
        classes=_CIFAR10,
        sha256="be384f092c11b38d3ab6060c816be722722bf4549e437415fec9bf8b9be29923",
        contents="2992176d398a7313daf0613edabb6777b89ea5c3219756ec7cb12534a6df8428",
        hub=Hub("uoft-cs/cifar10", "plain_text"),
    ),
    "cifar100": _CIFAR(num_classes=100, place="cifar100", hub=Hub("uoft-cs/cifar100", "cifar100")),
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
    "imagenet32": _IMAGENET(
        (3, 32, 32),
        source="Chrabaszcz, Loshchilov & Hutter, A Downsampled Variant of ImageNet, arXiv:1707.08819. For research only.",
        place="imagenet32",
        hub=Hub("benjamin-paine/imagenet-1k-32x32", "data"),
    ),
    "tiny_imagenet100": Entry(
        (3, 32, 32),
        50000,
        5000,
        100,
        "100 classes of Tiny ImageNet (Stanford, CS231n), each pixel the mean of 2 x 2, WebP. For research only.",
        place="tiny_imagenet100",
        sha256="e15b1701a8bcd003744390a9396ee5a32f3ba45ae4cb1ce3f5c01f8c1d5949e9",
        contents="67e15f0678aa8d04280b9883d57464ddd2d28a7c3c7b772e5bee22919f67f6e4",
    ),
    "imagenet": _IMAGENET(
        (3, 224, 224),
        source="Russakovsky and others, ImageNet Large Scale Visual Recognition Challenge, 2015. For research only.",
        place="imagenet",
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


def load(name: str, root: str | Path | None = None) -> Dataset:
    """The dataset called ``name``, or the one at the path ``name``.

    Args:
        name: One of ``DATASETS``; or a folder (``train/<class>/*.png`` and ``test/<class>/*.png``, or one level of
            class folders, or ``train-*.parquet`` and ``test-*.parquet``); or a csv table with the answer in its last
            column.
        root: The folder of the named sets; if left out, ``NEURONAL_DATA``, or the user's cache folder.

    Raises:
        ValueError: One line: an unknown name with those that exist, where a missing set was looked for and how to get
            it, or which file is damaged and why.
    """
    entry = DATASETS.get(name)
    if entry and entry.make:
        make, files = entry.make, stamps(())
    else:
        found = locate(name, root)
        make, files = partial(_read, name, found), stamps(found.files)
    # See Note [Loaded once].
    key = (name, entry, torch.get_default_dtype(), files)
    with _LOADING:
        data, version = _LOADED.pop(key, (None, 0))
        if data is None or data.version != version:
            with torch.inference_mode(False):
                data = make()
        _LOADED[key] = data, data.version
        while len(_LOADED) > 1 and sum(held.nbytes for held, _ in _LOADED.values()) > ROOM:
            del _LOADED[next(iter(_LOADED))]
    return data


def _read(name: str, found: Found) -> Dataset:
    label = label_of(name)
    arrays = kept(label, found.files, found.read) if found.is_images else found.read()
    source = DATASETS[name].source if name in DATASETS else f"Own data, {label}."
    return arrays.dataset(label, source)


# Note [Loaded once]
# A comparison asks for its data for every trial, and reading and hashing an image set takes as long as a short training.
# So a process keeps what it loaded, until its files have another size or time or its tensors were written to. What was
# asked for last stays whatever its size; older ones as long as all of them together fit into ROOM, which all sets of the
# four papers but ImageNet do. (Image sets are mapped from the cache: what they hold the system can take back.)
ROOM = 2**30
_LOADED: dict[Any, tuple[Dataset, int]] = {}
_LOADING = Lock()


def locate(name: str, root: str | Path | None = None) -> Found:
    """The files of a set that has files; errors as :func:`load`."""
    if name not in DATASETS and is_path(name):
        return found_at(expanded(name))
    return found_by_name(name, find(DATASETS, name, "dataset"), data_root(root))


def is_path(name: str) -> bool:
    """Whether ``name``, which is no dataset's, means a file or folder."""
    looks_so = os.sep in name or "/" in name or name.endswith(".csv") or name in (".", "..")
    return name not in DATASETS and (looks_so or (name != "" and Path(name).exists()))


def label_of(name: str) -> str:
    """What a dataset is called in titles and names of folders: its name, or the last part of its path."""
    return name if name in DATASETS else expanded(name).resolve().name.removesuffix(".csv") or "data"


def fetch(name: str, root: str | Path | None = None) -> list[Path]:
    """Downloads the files of a named set; errors as :func:`neuronal.data.files.download`."""
    entry = find(DATASETS, name, "dataset")
    return download(name, entry, data_root(root), partial(_wrong_in, entry))


def _wrong_in(entry: Entry, found: Found) -> list[str]:
    """What differs from the table of datasets; where it knows no checksum, the rows are counted and not read."""
    if entry.sha256:
        return [finding.text for finding in _against(entry, found.read()) if finding.is_right is False]
    rows, expected = count_rows(found.files), entry.num_train + entry.num_test
    return [] if rows == expected else [f"{rows:,} rows, expected {expected:,}"]


def summary(root: str | Path | None = None) -> list[Json]:
    """One row per named set; reads no data."""
    return [
        {
            "data": name,
            "shape": times(entry.shape),
            "train": entry.num_train,
            "test": entry.num_test,
            "classes": entry.num_classes,
            "where": _where(name, entry, root),
        }
        for name, entry in DATASETS.items()
    ]


def about(name: str, root: str | Path | None = None) -> Json:
    """Everything known of one set; of one whose files are not there, what its authors state and how to get it."""
    entry = None if is_path(name) else find(DATASETS, name, "dataset")
    facts: tuple[Any, ...]
    try:
        where = "built in" if entry and entry.make else str(locate(name, root).place)
        data = load(name, root)
        counts = len(data.train), len(data.test), list(data.classes) or 0
        facts = data.name, data.task, times(data.shape), *counts, data.source, where
    except MissingData as gone:
        if entry is None:
            raise
        counts = entry.num_train, entry.num_test, list(entry.classes) or entry.num_classes
        facts = name, entry.task, times(entry.shape), *counts, entry.source, str(gone)
    return dict(zip(("data", "task", "shape", "train", "test", "classes", "source", "where"), facts, strict=True))


def _where(name: str, entry: Entry, root: str | Path | None) -> str:
    if entry.make:
        return "built in"
    try:
        return str(locate(name, root).place)
    except MissingData:
        return "not here, can be fetched" if entry.hub else "not here"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``is_right`` is None when there is nothing to compare it with."""

    text: str
    is_right: bool | None


def verify(name: str, root: str | Path | None = None) -> tuple[Finding, ...]:
    """Reads every file of a set, or makes it, and compares counts, shape, classes and checksums.

    Raises:
        ValueError: It is not there, or a file of it cannot be read.
    """
    entry = DATASETS.get(name)
    if entry and entry.make:
        made = entry.make()
        train, test = made.train, made.test
        arrays = (train.stored.numpy(), train.y.numpy(), test.stored.numpy(), test.y.numpy())
        return tuple(_against(entry, Arrays(*arrays, made.classes)))
    found = locate(name, root)
    read = found.read()
    findings = [Finding(f"{len(found.files):,} files read at {found.place}", True)]
    if found.is_images:
        same = array_checksum(kept(label_of(name), found.files, lambda: read)) == array_checksum(read)
        findings.append(Finding("the cached arrays are those in the files", same))
    return (*findings, *_against(entry, read))


def _against(entry: Entry | None, read: Arrays) -> Iterator[Finding]:
    """What was read, beside what the table of datasets says; a user's own data have nothing beside them."""

    def compare(what: str, got: object, expected: object) -> Finding:
        if entry is None or got == expected:
            return Finding(f"{what}: {got}", None if entry is None else True)
        return Finding(f"{what}: {got}, expected {expected}", False)

    yield compare("training examples", len(read.train_x), entry and entry.num_train)
    yield compare("test examples", len(read.test_x), entry and entry.num_test)
    yield compare("shape", read.train_x.shape[1:], entry and entry.shape)
    yield compare("classes", len(read.classes), entry and entry.num_classes)
    digest = array_checksum(read)
    if entry and entry.sha256:
        tested, is_right = "that of the copy tested with", digest == entry.sha256
        if is_right or contents(read) != entry.contents:
            yield Finding(f"checksum: {digest[:16]}, {'' if is_right else 'not '}{tested}", is_right)
        else:
            # Another training, but no damage.
            yield Finding(f"checksum: {digest[:16]}, not {tested}: the same rows in another order", None)
    else:
        yield Finding(f"checksum: {digest[:16]}", None)
