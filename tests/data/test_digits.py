import hashlib

import torch

from neuronal.data.catalogue import load
from neuronal.data.digits import NUM_TRAIN


def test_the_images_are_the_published_ones():
    data = load("digits")
    x, y = torch.cat([data.train.x, data.test.x]), torch.cat([data.train.y, data.test.y])
    assert x.shape == (1797, 1, 8, 8)
    # Counts per class as the UCI repository states them for this file.
    assert y.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # The first image, a zero, pixel by pixel.
    assert (16 * x[0, 0]).int().tolist()[:2] == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]
    pixels = (16 * x).to(torch.uint8).numpy().tobytes()
    assert hashlib.sha256(pixels).hexdigest() == "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"


def test_the_split_is_fixed_and_values_are_plain_fractions_of_sixteen():
    data, again = load("digits"), load("digits")
    assert (len(data.train), len(data.test)) == (NUM_TRAIN, 500)
    assert torch.equal(data.train.x, again.train.x)
    assert data.train.x.min() == 0
    assert data.train.x.max() == 1
    assert torch.equal(data.train.x * 16, (data.train.x * 16).round())
    assert data.test.y.bincount().min() >= 40
    assert (data.in_chans, data.img_size, len(data.classes)) == (1, 8, 10)
    assert "CC BY 4.0" in data.source
