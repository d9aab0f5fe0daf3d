import pytest

from neuronal.models.registry import create_model


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_parameters_of_fcn_by_hand():
    by_hand = (64 * 20 + 20) + (20 * 10 + 10) + (10 * 3 + 3)
    assert count(create_model("fcn", num_classes=3, in_chans=1, img_size=8, widths=(20, 10))) == by_hand


def test_parameters_of_cnn_by_hand():
    by_hand = (2 * 4 * 9 + 4) + (4 * 6 * 9 + 6) + (6 * 2 * 2 * 5 + 5) + (5 * 3 + 3)
    assert count(create_model("cnn", num_classes=3, in_chans=2, img_size=8, widths=(4, 6, 5))) == by_hand


def test_zero_bias_has_as_many_parameters_less_one_per_unit():
    standard = create_model("cnn", "standard", num_classes=3, widths=(4, 6, 5))
    assert count(standard) - count(create_model("cnn", "zero_bias", num_classes=3, widths=(4, 6, 5))) == 4 + 6 + 5 + 3


def test_an_image_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="needs img_size >= 4, got 3"):
        create_model("cnn", img_size=3)
