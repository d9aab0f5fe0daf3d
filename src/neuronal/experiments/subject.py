"""A model and inputs that somebody names: what an audit or a certificate is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from neuronal.convert.sources import from_source
from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset
from neuronal.data.image import decode
from neuronal.models.registry import is_model
from neuronal.nn.standard import Options


@dataclass(frozen=True, eq=False)
class Subject:
    """The model, and the data it is asked about, if any were named."""

    model: nn.Module
    data: Dataset | None


def subject(
    source: str | nn.Module, data: str | Dataset | None, scaling: str = "unit", options: Options | None = None
) -> Subject:
    """The model ``source`` is or names; one of our architectures is made, untrained, for the shape of the data."""
    found = load(data) if isinstance(data, str) else data
    if found is not None and (isinstance(data, str) or scaling != "unit"):
        found = found.scaled(scaling)
    if isinstance(source, nn.Module):
        if options:
            raise ValueError(f"a model that is made already takes no options, got {', '.join(options)}.")
        return Subject(source, found)
    given = dict(options or {})
    if found is not None and is_model(source):
        given = found.network_shape | given
    return Subject(from_source(source, **given), found)


def chosen_rows(data: Dataset, indices: Sequence[int], split: str) -> Tensor:
    """Rows of the test or training data, in the order asked for."""
    part = data.train if split == "train" else data.test
    for i in indices:
        if not 0 <= i < len(part):
            raise ValueError(f"{data.name} has {len(part):,} {split} inputs, numbered from 0; there is no {i}.")
    return part.rows(torch.tensor(indices, dtype=torch.long)).x


def from_files(paths: Sequence[Path], shape: Sequence[int]) -> Tensor:
    """One input per file: a ``.npy`` array as it is, or an image as numbers in [0, 1]; each of ``shape``."""
    return torch.stack([_from_file(path, shape) for path in paths])


def _from_file(path: Path, shape: Sequence[int]) -> Tensor:
    if not path.is_file():
        raise ValueError(f"{path}: no such file.")
    if path.suffix == ".npy":
        try:
            # Mapped, so that a header cannot ask for more memory than the file is long.
            values = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False)).float()
        except (ValueError, TypeError, EOFError, OSError) as wrong:
            raise ValueError(f"{path}: not an array of numbers ({wrong}).") from wrong
    else:
        values = torch.from_numpy(decode(path, str(path), shape[0] if len(shape) == 3 else 3).copy()).float() / 255
    if tuple(values.shape) != tuple(shape):
        raise ValueError(f"{path} has shape {tuple(values.shape)}, the model takes {tuple(shape)}.")
    return values
