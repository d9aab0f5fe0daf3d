"""Geng, Xu, Ye & Si: Scalar Invariant Networks with Zero Bias (arXiv:2211.08486); tables and figures by their place.

The papers leave open the layers and widths of FCN, CNN and ResNet9, the scaling of the inputs and most of Figures 5 and 6;
what is chosen here is in the recipes, and why in ``departs``.
"""

from dataclasses import replace

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting

BOTH = ("zero_bias", "standard")


def _both(recipe: Recipe) -> tuple[Recipe, ...]:
    """Without and with biases, everything else the same."""
    return tuple(replace(recipe, family=family) for family in BOTH)


# Table 1

MNIST_FCN = Recipe(
    name="MNIST FCN",
    model="fcn",
    data="mnist",
    optim="adadelta",
    lr=0.01,
    epochs=20,
    batch_size=512,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=("contrast", "zero_image"),
)
FASHION_CNN = replace(MNIST_FCN, name="Fashion-MNIST CNN", model="cnn", data="fashion_mnist", batch_size=128)
CIFAR_RESNET18 = Recipe(
    name="CIFAR-100 ResNet18",
    model="resnet18",
    norm="fixup",
    data="cifar100",
    optim="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=1e-4,
    schedule="cosine",
    mixup=0.7,
    epochs=40,
    batch_size=128,
    crop=4,
    flip=True,
    holdout=0.0,
    scalar_lr=0.1,
    precision="bf16",
    channels_last=True,
    seeds=(0, 1, 2),
    probes=("contrast", "zero_image"),
)
IMAGENET_RESNET50 = replace(
    CIFAR_RESNET18, name="ImageNet ResNet50", model="resnet50", data="imagenet", epochs=100, batch_size=256, crop=0
)


def _smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a fifth of them."""
    return replace(
        recipe, data="digits", epochs=1, fraction=0.2, batch_size=64, precision="no", channels_last=False, seeds=(0,)
    )


TABLE1_MNIST_FCN = Reproduction(
    name="zero_bias/table1_mnist_fcn",
    title="Accuracy over contrasts, fully connected network on MNIST",
    where="Table 1, rows 1 and 2",
    procedure="contrast_table",
    scales={
        "smoke": Setting(_both(_smoke(MNIST_FCN))),
        "small": Setting(_both(MNIST_FCN)),
        "paper": Setting(_both(MNIST_FCN)),
    },
    reported={
        "standard": {
            "mean": 0.8812,
            "curve": [0.8812, 0.8707, 0.8446, 0.8257, 0.7952, 0.7476, 0.6582, 0.4284, 0.1634, 0.1028, 0.1028],
        },
        "zero_bias": {"mean": 0.8827, "curve": [0.8827] * 11},
    },
    departs="Hidden layers of 256 and 128 units and inputs in [0, 1] are our choice: the paper says neither.",
)
TABLE1_FASHION_CNN = Reproduction(
    name="zero_bias/table1_fashion_cnn",
    title="Accuracy over contrasts, convolutional network on Fashion-MNIST",
    where="Table 1, rows 3 and 4",
    procedure="contrast_table",
    scales={
        "smoke": Setting(_both(_smoke(FASHION_CNN))),
        "small": Setting(_both(FASHION_CNN)),
        "paper": Setting(_both(FASHION_CNN)),
    },
    reported={
        "standard": {
            "mean": 0.8910,
            "curve": [0.8910, 0.6710, 0.4012, 0.3252, 0.2416, 0.1791, 0.1246, 0.1012, 0.1, 0.1, 0.1],
        },
        "zero_bias": {"mean": 0.8902, "curve": [0.8902] * 11},
    },
    departs="Two convolutions of 16 and 32 channels and a hidden layer of 64 are our choice: the paper says none of it.",
)

REPRODUCTIONS = (TABLE1_MNIST_FCN, TABLE1_FASHION_CNN)
