"""Downloads from the Hugging Face hub: the only place that ever touches the network, and only when asked to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from neuronal.data.entry import DATASETS
from neuronal.data.errors import one_line
from neuronal.data.place import data_root
from neuronal.names import find


def fetch(name: str, root: str | Path | None = None) -> list[Path]:
    """Downloads the parquet files of a named set to ``<root>/<name>``; returns them.

    Raises:
        ValueError: In one line, why not: no place to get it from, no ``huggingface_hub``, no network.
    """
    entry = find(DATASETS, name, "dataset")
    if entry.make:
        raise ValueError(f"dataset {name!r} needs no files: it is part of neuronal.")
    folder = data_root(root) / entry.place
    if not entry.hub:
        raise ValueError(f"dataset {name!r} cannot be fetched: put its table at {folder} by hand.")
    by_hand = f"Or put its parquet files into {folder} by hand."
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as gone:
        raise ValueError(
            f"fetching {name!r} needs huggingface_hub: pip install 'neuronal[vision]'. {by_hand}"
        ) from gone
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise ValueError(
            f"cannot write to {folder} ({refused.strerror}). Name another folder with NEURONAL_DATA."
        ) from refused
    wanted = [f"{entry.hub.folder}/{split}-*.parquet" for split in ("train", entry.test_splits[0])]
    # Beside the place they go to, so that moving a file there is a rename: it is never seen half copied.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        try:
            snapshot_download(entry.hub.repository, repo_type="dataset", allow_patterns=wanted, local_dir=temporary)
        # Without a network the hub's client raises errors of several libraries with no common base.
        except Exception as refused:
            raise ValueError(
                f"cannot fetch {name!r} from huggingface.co/datasets/{entry.hub.repository}: is there a network? "
                f"({type(refused).__name__}: {one_line(refused)}). {by_hand}"
            ) from refused
        files = sorted((Path(temporary) / entry.hub.folder).glob("*.parquet"))
        if not files:
            raise ValueError(f"huggingface.co/datasets/{entry.hub.repository} has no {' or '.join(wanted)}. {by_hand}")
        return [_moved(file, folder / file.name) for file in files]


def _moved(file: Path, place: Path) -> Path:
    os.replace(file, place)
    return place
