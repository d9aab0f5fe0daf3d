"""Whether a dataset is what it should be, by reading all of it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neuronal.data.arrays import Arrays
from neuronal.data.cache import checksum, kept
from neuronal.data.catalogue import label_of, load, locate
from neuronal.data.entry import DATASETS, Entry


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
        made = load(name)
        train, test = made.train, made.test
        arrays = (train.stored.numpy(), train.y.numpy(), test.stored.numpy(), test.y.numpy())
        return tuple(_against(entry, Arrays(*arrays, made.classes)))
    found = locate(name, root)
    read = found.read()
    findings = [Finding(f"{len(found.files):,} files read at {found.place}", True)]
    if found.is_images:
        same = checksum(kept(label_of(name), found.files, lambda: read)) == checksum(read)
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
    digest = checksum(read)
    if entry and entry.sha256:
        known = digest == entry.sha256
        beside = (
            "that of the copy tested with" if known else "not that of the copy tested with: another order or encoding"
        )
        yield Finding(f"checksum: {digest[:16]}, {beside}", True if known else None)
    else:
        yield Finding(f"checksum: {digest[:16]}", None)
