"""Every transform of a batch against a loop over its images in numpy, with the same random numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.data.augment import Augment, boxes, contrasted, cropped, cut_out, flipped, stretched

shapes = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
seeds = st.integers(0, 2**32)


def batch(shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)


def draws(seed):
    return torch.Generator().manual_seed(seed)


def whole(end, count, generator):
    return torch.randint(end, (count,), generator=generator).tolist()


@settings(max_examples=40, deadline=None)
@given(shapes, seeds, st.integers(0, 5))
def test_crop(shape, seed, padding):
    x = batch(shape)
    got = cropped(x, padding, draws(seed))
    generator = draws(seed)
    tops, lefts = (whole(2 * padding + 1, len(x), generator) for _ in range(2))
    for image, result, top, left in zip(x.numpy(), got.numpy(), tops, lefts, strict=True):
        padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
        assert np.array_equal(result, padded[:, top : top + shape[2], left : left + shape[3]])


@settings(max_examples=40, deadline=None)
@given(shapes, seeds)
def test_flip(shape, seed):
    x = batch(shape)
    got = flipped(x, draws(seed))
    for image, result, mirror in zip(x.numpy(), got.numpy(), whole(2, len(x), draws(seed)), strict=True):
        assert np.array_equal(result, np.stack([np.fliplr(channel) for channel in image]) if mirror else image)


@settings(max_examples=40, deadline=None)
@given(shapes, seeds, st.integers(1, 12), st.sampled_from(["zero", "mean"]))
def test_cutout(shape, seed, side, fill):
    x = batch(shape)
    got = cut_out(x, side, draws(seed), fill=fill)
    generator = draws(seed)
    rows, columns = (whole(length, len(x), generator) for length in shape[2:])
    for image, result, row, column in zip(x.numpy(), got.numpy(), rows, columns, strict=True):
        expected = image.copy()
        top, left = row - side // 2, column - side // 2
        for channel in expected:
            patch = channel[max(top, 0) : top + side, max(left, 0) : left + side]
            patch[:] = 0 if fill == "zero" else patch.mean()
        # Means of the same numbers, summed in another order.
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(shapes, seeds, st.lists(st.floats(0, 2), min_size=2, max_size=11))
def test_contrast_between_two_factors_or_of_given_ones(shape, seed, factors):
    factors = sorted(factors)
    x = batch(shape)
    got = contrasted(x, factors, draws(seed))
    if len(factors) == 2:
        shares = torch.rand(len(x), generator=draws(seed)).double()
        chosen = (factors[0] + (factors[1] - factors[0]) * shares).tolist()
    else:
        chosen = [factors[place] for place in whole(len(factors), len(x), draws(seed))]
    for image, result, factor in zip(x.numpy(), got.numpy(), chosen, strict=True):
        np.testing.assert_allclose(result, image * factor, rtol=1e-9, atol=1e-12)


def interpolated(channel, y, x):
    """Between the four pixels around a place, whose middles are at whole numbers; beyond the edge the edge goes on."""
    places = [np.clip(place, 0, length - 1) for place, length in zip((y, x), channel.shape, strict=True)]
    (top, left), (down, right) = ([int(f(p)) for p in places] for f in (np.floor, np.ceil))
    v, u = places[0] - top, places[1] - left
    above = (1 - u) * channel[top, left] + u * channel[top, right]
    below = (1 - u) * channel[down, left] + u * channel[down, right]
    return (1 - v) * above + v * below


@settings(max_examples=25, deadline=None)
@given(shapes, seeds)
def test_stretched_boxes(shape, seed):
    x = batch(shape)
    _, channels, height, width = shape
    given_boxes = boxes(x, 0.2, 1.0, draws(seed))
    got = stretched(x, given_boxes)
    for image, result, (top, left, h, w) in zip(x.numpy(), got.numpy(), given_boxes.tolist(), strict=True):
        for c in range(channels):
            for i in range(height):
                for j in range(width):
                    y, at = top + (i + 0.5) * h / height - 0.5, left + (j + 0.5) * w / width - 0.5
                    assert result[c, i, j] == pytest.approx(interpolated(image[c], y, at), abs=1e-9)


def test_the_box_of_the_whole_image_changes_nothing():
    x = batch((3, 2, 7, 7))
    # Nothing but squares has the whole area, and their ratio is never drawn exactly.
    torch.testing.assert_close(Augment(resized_crop=(1, 1)).apply(x, draws(0)), x, rtol=0, atol=1e-12)


def test_areas_and_shapes_of_boxes_are_evenly_distributed():
    """Up to half of the area every box fits, so no try is thrown away: means of 20,000 within five deviations."""
    x = torch.empty(20_000, 1, 32, 32)
    top, left, h, w = boxes(x, 0.08, 0.5, draws(0)).double().T
    share, log_ratio = h * w / 32**2, (w / h).log() / np.log(4 / 3)
    assert 0.0799 < share.min() < share.max() < 0.5001
    assert share.mean() == pytest.approx(0.29, abs=5 * 0.42 / np.sqrt(12 * 20_000))
    assert -1.0001 < log_ratio.min() < log_ratio.max() < 1.0001
    assert log_ratio.mean() == pytest.approx(0, abs=5 * 2 / np.sqrt(12 * 20_000))
    for start, size in ((top, h), (left, w)):
        assert start.min() >= 0
        assert (start + size).max() < 32.001
        assert (start / (32 - size)).mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * 20_000))
    # With large areas some first tries do not fit, and what counts instead is inside as well.
    top, left, h, w = boxes(x, 0.9, 1.0, draws(0)).double().T
    assert (top + h).max() < 32.001
    assert (left + w).max() < 32.001
    # A try fits if the ratio is nearer to 1 than the area's logarithm says: 18% do, and 13.8% of the images have no luck.
    fits = 1 + (0.9 * np.log(0.9) / 0.1)
    none = (1 - fits / np.log(4 / 3)) ** 10
    found = ((h == 32) & (w == 32)).double().mean()
    assert found == pytest.approx(none, abs=5 * np.sqrt(none / 20_000))


EVERYTHING = Augment(resized_crop=(0.3, 1.0), crop=2, flip=True, cutout=3, cutout_fill="mean", contrast=(0.2, 1.0))


def test_apply_is_resized_crop_crop_flip_cutout_contrast_in_this_order():
    x, one, other = batch((5, 3, 8, 8)), draws(4), draws(4)
    before = x.clone()
    expected = flipped(cropped(stretched(x, boxes(x, 0.3, 1.0, one)), 2, one), one)
    expected = contrasted(cut_out(expected, 3, one, fill="mean"), (0.2, 1.0), one)
    assert EVERYTHING.apply(x, other).equal(expected)
    assert x.equal(before)
    assert one.get_state().equal(other.get_state())


def test_nothing_asked_for_is_nothing_done():
    x, generator = batch((2, 1, 3, 3)), draws(0)
    before = generator.get_state()
    assert Augment().apply(x, generator) is x
    assert generator.get_state().equal(before)


def test_lists_and_tuples_are_the_same_description():
    assert hash(Augment(contrast=[0, 1])) == hash(Augment(contrast=(0.0, 1.0)))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"crop": -1}, "crop needs to be 0 or more, got -1"),
        ({"cutout": float("nan")}, "cutout needs to be 0 or more, got nan"),
        ({"contrast": (1.0, 0.5)}, "contrast needs a smallest and a largest factor"),
        ({"contrast": (1.0,)}, "contrast needs a smallest and a largest factor"),
        ({"contrast": (1.0, 0.5, -0.1)}, "or more than two factors"),
        ({"cutout_fill": "means"}, "Unknown fill of cutout 'means'. Did you mean 'mean'"),
        ({"resized_crop": (0.0, 1.0)}, "resized_crop needs a smallest and a largest share"),
        ({"resized_crop": (0.5,)}, "resized_crop needs a smallest and a largest share"),
    ],
)
def test_a_description_that_makes_no_sense(values, reason):
    with pytest.raises(ValueError, match=reason):
        Augment(**values)


def test_rows_of_a_table_cannot_be_cropped():
    with pytest.raises(ValueError, match=r"need a batch of images, got shape \(4, 2\)"):
        Augment(flip=True).apply(torch.zeros(4, 2), draws(0))
    assert Augment(contrast=(0.5, 0.5)).apply(torch.ones(4, 2), draws(0)).equal(torch.full((4, 2), 0.5))


@pytest.mark.gpu
def test_a_cpu_generator_gives_the_same_batch_on_a_gpu():
    x = batch((5, 3, 8, 8)).float()
    torch.testing.assert_close(EVERYTHING.apply(x.cuda(), draws(7)).cpu(), EVERYTHING.apply(x, draws(7)))
