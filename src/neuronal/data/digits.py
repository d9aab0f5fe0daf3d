"""1,797 real 8x8 images of handwritten digits, shipped inside the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch

from neuronal.data.dataset import Dataset, Split

NUM_TRAIN = 1297


def load() -> Dataset:
    """The first 1,297 images for training, the last 500 for testing.

    The images come writer by writer, so the cut tests mostly on writers the network has not seen.
    Values are in [0, 1] with the background at exactly 0: no mean is subtracted, because that would turn a change of
    contrast into something else.
    """
    with files("neuronal.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        images = torch.from_numpy(arrays["images"]).float().div_(16).unsqueeze_(1)
        labels = torch.from_numpy(arrays["labels"]).long()
        # Attribution and licence travel with the images.
        source = str(arrays["source"])
    return Dataset(
        name="digits",
        train=Split(images[:NUM_TRAIN], labels[:NUM_TRAIN]),
        test=Split(images[NUM_TRAIN:], labels[NUM_TRAIN:]),
        classes=tuple("0123456789"),
        source=source,
    )
