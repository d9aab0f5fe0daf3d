import numpy as np
import pytest
import torch

from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset, Split
from neuronal.data.scaling import Scaling
from neuronal.names import UnknownName


def made_up(x, test):
    labels = [torch.zeros(len(part), dtype=torch.long) for part in (x, test)]
    return Dataset("made up", Split(x, labels[0]), Split(test, labels[1]), ("one",), "")


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(5000, 3, 4, 4), (5000, 7)])
def test_standardise_takes_the_training_mean_and_deviation_of_each_channel(shape, kind):
    random = np.random.default_rng(0)
    raw = [(random.integers(0, 256, (count, *shape[1:])) // 2).astype(kind) for count in (shape[0], 10)]
    data = made_up(*map(torch.from_numpy, raw)).scaled("standardise")
    for channel in range(shape[1]):
        train, test = (part[:, channel].astype(np.float64) / (255 if kind is np.uint8 else 1) for part in raw)
        for part, plain in ((data.train, train), (data.test, test)):
            expected = (plain - train.mean()) / train.std()
            # float32 of numbers of size 1.
            np.testing.assert_allclose(part.x[:, channel].numpy(), expected, atol=1e-5)


def test_unit_is_how_data_come_and_the_way_back():
    data = load("digits")
    assert data.scaled("unit").train.x.equal(data.train.x)
    assert data.scaled("standardise").scaled("unit").test.x.equal(data.test.x)
    with pytest.raises(UnknownName, match=r"Unknown scaling 'standardize'. Did you mean 'standardise'"):
        data.scaled("standardize")


def test_answers_that_are_numbers_are_standardised_by_the_training_data_and_back():
    data = load("levy")
    y, test = (part.answers.numpy().astype(np.float64) for part in (data.train, data.test))
    scaled = data.scaled("standardise")
    # float32 of numbers of size 1.
    np.testing.assert_allclose(scaled.train.y.numpy(), (y - y.mean()) / y.std(), atol=1e-6)
    np.testing.assert_allclose(scaled.test.y.numpy(), (test - y.mean()) / y.std(), atol=1e-5)
    np.testing.assert_allclose(scaled.test.y * scaled.test.answer_unit + y.mean(), test, atol=1e-5)
    assert scaled.train.rows(slice(3)).y.equal(scaled.train.y[:3])
    inputs = data.scaled("standardise_inputs")
    assert inputs.train.x.equal(scaled.train.x)
    assert inputs.train.y.equal(data.train.answers)
    assert inputs.train.answer_unit == 1
    assert scaled.scaled("unit").train.y.equal(data.train.answers)
    assert load("digits").scaled("standardise").train.y.equal(load("digits").train.y)


def test_a_constant_channel_is_only_centred():
    data = made_up(torch.full((4, 2), 3.0), torch.tensor([[3.0, 4.0]])).scaled("standardise")
    assert data.train.x.tolist() == [[0, 0]] * 4
    assert data.test.x.tolist() == [[0, 1]]
    tenths = torch.full((7, 1), 0.1)
    assert made_up(tenths, tenths + 1).scaled("standardise").test.x.tolist() == [[1]] * 7
    dark = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    assert made_up(dark, dark + 255).scaled("standardise").test.x.eq(1).all()


def test_scaling_stays_with_rows_and_parts():
    split = Split(torch.tensor([[0], [255]], dtype=torch.uint8), torch.tensor([0, 1]), Scaling((0.5,), (0.25,)))
    assert split.x.tolist() == [[-2], [2]]
    assert split.rows(slice(1, 2)).x.tolist() == [[2]]
    assert split.to(torch.device("cpu")).x.tolist() == [[-2], [2]]
    assert split.held_out(0.0, 0)[0].x.tolist() == [[-2], [2]]
