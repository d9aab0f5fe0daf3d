import pytest
import torch

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


def test_parameters_of_mlp1_by_hand():
    assert count(create_model("mlp1", num_classes=1, in_chans=13, img_size=1)) == 13 * 100 + 100 + 100 + 1


def test_parameters_of_vgg6_by_hand():
    convs = [(3, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
    head = 512 * 10 + 10
    assert count(create_model("vgg6")) == sum(9 * i * o + 2 * o for i, o in convs) + head
    assert count(create_model("vgg6", norm="none")) == sum(9 * i * o + o for i, o in convs) + head


@pytest.mark.parametrize(("img_size", "kernel"), [(32, 5), (28, 4), (8, 1)])
def test_parameters_of_ucn_by_hand(img_size, kernel):
    layers = (1 * 6 * kernel**2 + 6 + 12) + 2 * (6 * 6 * kernel**2 + 6 + 12)
    net = create_model("ucn", in_chans=1, img_size=img_size, depth=3, width=6)
    assert count(net) == layers + 6 * img_size**2 * 10 + 10


def test_batch_norm_stands_after_the_activation_in_ucn():
    net = create_model("ucn", img_size=28)
    kinds = [type(module).__name__ for module in net.features]
    assert kinds == 2 * ["ZeroPad2d", "Conv2d", "ReLU", "BatchNorm2d"] + ["Flatten"]
    features = net.forward_features(torch.randn(8, 3, 28, 28)).unflatten(1, (3, -1))
    torch.testing.assert_close(features.mean([0, 2]), torch.zeros(3), atol=1e-5, rtol=0)


def test_the_default_of_the_small_networks_is_no_norm():
    for model in ("fcn", "mlp1", "cnn"):
        assert not [m for m in create_model(model, img_size=8).modules() if "Norm" in type(m).__name__]


def test_an_image_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="needs img_size >= 4, got 3"):
        create_model("cnn", img_size=3)
    with pytest.raises(ValueError, match="vgg6 halves the image 3 times and needs img_size >= 8, got 7"):
        create_model("vgg6", img_size=7)
