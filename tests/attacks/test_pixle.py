"""Pixle: pixels move and nothing else, and a network that looks at one pixel falls when that pixel is hit."""

import pytest
import torch
from torch import nn

from neuronal.attacks import pixle
from neuronal.attacks.pixle import MAPPINGS, _Patches


class OnePixel(nn.Module):
    """Class 1 where the pixel in the middle is bright, class 0 elsewhere."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        middle = x[:, :, 4, 4].mean(1)
        return torch.stack([torch.zeros_like(middle), self.scale * (middle - 0.5)], 1)


def dark_with_one_bright_pixel(channels=1):
    x = torch.zeros(6, channels, 9, 9)
    x[:, :, 4, 4] = 1
    return x, torch.ones(6, dtype=torch.long)


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_the_one_pixel_is_found(channels, mapping):
    x, y = dark_with_one_bright_pixel(channels)
    found = pixle(OnePixel(), x, y, restarts=20, iterations=20, mapping=mapping)
    assert found.success.all()
    assert (found.adversarial[:, :, 4, 4] == 0).all()


def test_pixels_that_are_all_alike_do_not_help():
    # All pixels are alike: moving them changes nothing.
    x, y = torch.full((4, 3, 9, 9), 0.8), torch.ones(4, dtype=torch.long)
    found = pixle(OnePixel(), x, y, restarts=3, iterations=3)
    assert not found.success.any()
    assert found.adversarial.equal(x)
    assert found.queries.tolist() == [2 + 9] * 4


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_every_pixel_is_one_of_the_image(mapping):
    torch.manual_seed(0)
    x = torch.rand(5, 3, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    y = model(x).argmax(1)
    found = pixle(model, x, y, restarts=4, iterations=5, mapping=mapping)
    for before, after in zip(x.flatten(2), found.adversarial.flatten(2), strict=True):
        assert (before[:, :, None] == after[:, None, :]).all(0).any(0).all()
    assert (model(found.adversarial).argmax(1) != y).equal(found.success)
    assert not found.adversarial.equal(x)


def test_the_label_never_becomes_more_probable():
    torch.manual_seed(1)
    x = torch.rand(8, 1, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    y = model(x).argmax(1)
    last = model(x).softmax(1).gather(1, y[:, None])
    for restarts in (1, 2, 4):
        found = pixle(model, x, y, restarts=restarts, iterations=5)
        now = model(found.adversarial).softmax(1).gather(1, y[:, None])
        # Found so far, or found wrong, where the climb ended before.
        assert ((now <= last + 1e-6) | found.success[:, None]).all()
        last = now


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_patches_are_moved_as_a_loop_would(mapping):
    torch.manual_seed(2)
    x = torch.rand(7, 2, 6, 5)
    patches = _Patches(x, (1, 4), torch.Generator().manual_seed(0))
    chance = torch.rand(patches.valid.shape)
    moved = patches.moved(x, torch.arange(7), chance, MAPPINGS[mapping])
    for i in range(7):
        image, expected = x[i].flatten(1), x[i].flatten(1).clone()
        for slot in range(patches.valid.shape[1]):
            if not patches.valid[i, slot]:
                continue
            pixel = image[:, patches.source[i, slot]]
            distance = (image - pixel[:, None]).norm(dim=0)
            weights = torch.where(distance > 0, 1 / (1 + distance), 0.0)
            if mapping == "random":
                place = int(chance[i, slot] * image.shape[1])
            elif mapping == "similarity":
                place = int(weights.argmax())
            else:
                place = int((weights.cumsum(0) <= chance[i, slot] * weights.sum()).sum())
            expected[:, place] = pixel
        assert moved[i].flatten(1).equal(expected)
    sizes = patches.valid.sum(1)
    assert sizes.min() >= 1
    assert sizes.max() <= 16


def test_the_seed_decides_and_the_batch_does_not():
    x, y = dark_with_one_bright_pixel()
    run = {"restarts": 2, "iterations": 3}
    one = pixle(OnePixel(), x, y, seed=1, **run)
    parts = pixle(OnePixel(), x, y, seed=1, batch_size=2, **run)
    assert one.adversarial.equal(parts.adversarial)
    assert not one.adversarial.equal(pixle(OnePixel(), x, y, seed=2, **run).adversarial)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda x, y: pixle(OnePixel(), x[:, 0], y),
            r"images of shape \(n, channels, height, width\), got \(6, 9, 9\)",
        ),
        (lambda x, y: pixle(OnePixel(), x, y, patch=(3, 2)), r"smallest and a largest side from 1, got \(3, 2\)"),
        (lambda x, y: pixle(OnePixel(), x, y, mapping="nearby"), "Unknown mapping of pixle 'nearby'"),
    ],
)
def test_what_cannot_be_asked_for(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong(*dark_with_one_bright_pixel())
