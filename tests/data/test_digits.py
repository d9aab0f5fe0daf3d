import hashlib

import torch

from neuronal.data.catalogue import load


def test_the_images_are_the_published_ones():
    data = load("digits")
    x, y = torch.cat([data.train.x, data.test.x]), torch.cat([data.train.y, data.test.y])
    assert x.shape == (1797, 1, 8, 8)
    # Counts per class as the UCI repository states them for this file.
    assert y.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    pixels = (16 * x).to(torch.uint8).numpy().tobytes()
    assert hashlib.sha256(pixels).hexdigest() == "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
