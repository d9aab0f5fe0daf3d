"""Chen & Ge (arXiv:2305.15912), the networks for images: Tables 1 and 2, Figure 4."""

from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting
from neuronal.recipes.geometric.methods import HALF, RATES, by

# Table 2 and Figure 4

SIX = ("SP", "WN", "WN+MBN", "BN", "GmP", "GmP+IMN")
VGG6 = Recipe(
    name="",
    data="imagenet32",
    model="vgg6",
    model_options={"start": "glorot"},
    flip=True,
    holdout=0.0,
    protocol="published",
    optim="sgd",
    momentum=0.9,
    epochs=90,
    monitor="accuracy",
    cut_after=5,
    stop_after=10,
    precision="bf16",
    channels_last=True,
    replay=True,
    seeds=(0, 1, 2),
    probes=(),
)
# An epoch of CIFAR-10 has 49 steps of 1,024 images, one of ImageNet32 has 1,250: a network without norms that has not
# left its start after some epochs would be taken for one that gets no better. The rate falls by itself instead.
IN_SHORT: dict[str, Any] = {"schedule": "cosine", "cut_after": 0, "stop_after": 0, "keep_best": True}
CIFAR_VGG6 = replace(
    VGG6,
    **IN_SHORT | {"model_options": {"start": "glorot", "widths": (64, 128, 256)}},
    data="cifar10",
    epochs=6,
)
SMOKE_IMAGES: dict[str, Any] = {
    "data": "digits",
    "epochs": 1,
    "fraction": 0.2,
    "precision": "no",
    "channels_last": False,
    "flip": False,
}


SMALL_VGG6 = {"start": "glorot", "widths": (4, 4, 4)}


def _batches(recipe: Recipe) -> tuple[Recipe, ...]:
    sizes = (256, 512, 1024)
    return tuple(one for size in sizes for one in by(replace(recipe, name=str(size), batch_size=size), *SIX))


IMAGES = {"best": "GmP+IMN", "rates": RATES, "holdout": 0.1, "tuning_seeds": 1, "clean_seeds": 10}
FIGURE4 = IMAGES | {"curves": True}
TABLE2 = Reproduction(
    name="geometric/vgg6",
    title="VGG-6 with six methods and three batch sizes",
    where="Table 2, Figure 4",
    procedure="protocol_table",
    scales={
        "smoke": Setting(
            by(
                replace(VGG6, name="64", **SMOKE_IMAGES | {"model_options": SMALL_VGG6}, batch_size=64, seeds=(0,)),
                *SIX,
            ),
            FIGURE4 | {"rates": (0.01,), "clean_seeds": 2},
        ),
        "small": Setting(_batches(CIFAR_VGG6), FIGURE4 | {"rates": RATES[1:], "tuning_batch": 512}),
        "paper": Setting(_batches(VGG6), FIGURE4 | {"tuning_seeds": 3}),
    },
    reported={
        "256": {
            "SP": (0.3831, 0.0013),
            "WN": (0.3913, 0.0010),
            "WN+MBN": (0.4222, 0.0001),
            "BN": (0.4279, 0.0003),
            "GmP": (0.4076, 0.0009),
            "GmP+IMN": (0.4314, 0.0005),
        },
        "512": {
            "SP": (0.3699, 0.0011),
            "WN": (0.3792, 0.0012),
            "WN+MBN": (0.4096, 0.0002),
            "BN": (0.4190, 0.0019),
            "GmP": (0.4165, 0.0009),
            "GmP+IMN": (0.4362, 0.0008),
        },
        "1024": {
            "SP": (0.3502, 0.0003),
            "WN": (0.3617, 0.0003),
            "WN+MBN": (0.3933, 0.0007),
            "BN": (0.4139, 0.0002),
            "GmP": (0.4129, 0.0008),
            "GmP+IMN": (0.4270, 0.0015),
        },
        "top5": {
            "256": {
                "SP": (0.6248, 0.0014),
                "WN": (0.6328, 0.0002),
                "WN+MBN": (0.6604, 0.0007),
                "BN": (0.6717, 0.0008),
                "GmP": (0.6508, 0.0008),
                "GmP+IMN": (0.6736, 0.0005),
            },
            "512": {
                "SP": (0.6071, 0.0018),
                "WN": (0.6193, 0.0009),
                "WN+MBN": (0.6508, 0.0003),
                "BN": (0.6650, 0.0025),
                "GmP": (0.6576, 0.0005),
                "GmP+IMN": (0.6776, 0.0009),
            },
            "1024": {
                "SP": (0.5814, 0.0039),
                "WN": (0.6016, 0.0018),
                "WN+MBN": (0.6332, 0.0008),
                "BN": (0.6589, 0.0006),
                "GmP": (0.6549, 0.0006),
                "GmP+IMN": (0.6698, 0.0018),
            },
        },
    },
    comparable=("paper",),
    departs=(
        "The mean is taken off the input of every convolution; the authors' code takes it off before "
        "max-pooling, after which inputs have none of zero, and before the head too. Its running mean takes in a hundredth "
        "of every batch, as theirs; batch norm is torch's, which takes in a tenth. WN+MBN has the bias its authors give it, "
        "which the code leaves out; the head is plain for every method, theirs has weight norm with WN. Cuts and stops by "
        "the top-1 accuracy of the paper's text; the code has top-5, and 500 epochs for 90. Figure 4 shows the top-5 "
        "accuracy on training images, here it is the top-1. Images are in [0, 1], and only norms take their mean off; "
        "autocast to bfloat16. Published has three seeds, as the paper, and clean ten, with a tenth of the training images "
        "held out. Small: CIFAR-10, half the channels (64, "
        "128, 256), 6 epochs; the rate falls along a cosine in place of being cut when the accuracy gets no better, as so "
        "short a training has no plateaus but that at its start, and the weights of the best epoch are taken. So short a "
        "training leaves networks without norms far from trained, and with the paper's rates, those of 90 epochs of "
        "ImageNet32, WN+MBN too: published rows say as much of rates as of methods. Batches of 1,024 make fewer than 300 "
        "steps, in which running means of a hundredth lag behind: GmP+IMN and WN+MBN do worse there on images followed than "
        "on those trained with, which have the means of their batch, and what is found for 1,024 is found of that too. "
        "Clean tries all rates of Table 3 but the least, with one seed and batches of 512, for all batch sizes; at the "
        "paper's scale all, each batch size "
        f"for itself, three seeds. {HALF}"
    ),
)

# Table 1

RESNET50 = replace(
    VGG6,
    data="imagenet",
    model="resnet50",
    model_options={"start": "he"},
    batch_size=256,
    resized_crop=(0.08, 1.0),
    weight_decay=1e-4,
)
THREE = ("WN+MBN", "BN", "GmP+IMN")


def _residual(recipe: Recipe) -> tuple[Recipe, ...]:
    """The three methods, all at rate 0.1 as the paper found best; residual networks have no scale outside."""
    every = by(recipe, *THREE, rates=(0.1, 0.1))
    return tuple(replace(one, model_options=recipe.model_options) for one in every)


RESNET18 = replace(
    RESNET50,
    **IN_SHORT,
    name="CIFAR-10",
    data="cifar10",
    model="resnet18",
    resized_crop=(),
    crop=4,
    epochs=5,
)
TABLE1 = Reproduction(
    name="geometric/resnet50",
    title="Residual networks with three methods",
    where="Table 1",
    procedure="protocol_table",
    scales={
        "smoke": Setting(
            _residual(
                replace(
                    RESNET18,
                    **SMOKE_IMAGES | {"crop": 1},
                    name="digits",
                    model_options={"width": 4, "start": "he"},
                    batch_size=64,
                    seeds=(0,),
                )
            ),
            IMAGES | {"rates": (0.1,), "clean_seeds": 1},
        ),
        "small": Setting(_residual(RESNET18), IMAGES | {"rates": RATES[2:]}),
        "paper": Setting(_residual(replace(RESNET50, name="ImageNet")), IMAGES),
    },
    reported={
        "imagenet": {"WN+MBN": (0.7258, 0.0016), "BN": (0.7363, 0.0009), "GmP+IMN": (0.7557, 0.0012)},
        "top5": {"imagenet": {"WN+MBN": (0.9077, 0.0012), "BN": (0.9111, 0.0005), "GmP+IMN": (0.9268, 0.0011)}},
    },
    comparable=("paper",),
    departs=(
        "There is no code for it: where the norms stand inside a block is our choice (before, or behind, every "
        "convolution, the shortcut's too). Random resized crops of squares in place of resizing to 256-480 and cropping, "
        "no colours changed; tested on squares of 224. Weight decay is that of He and others, whose setup the paper says "
        "it follows. The scale of a geometric unit is inside the ReLU. Weights start as He's, those of geometric units on"
        " the whole sphere with scale 1. Images are in [0, 1]; autocast to bfloat16; norms are those of Table 2. "
        "Published has three seeds and clean ten, with a tenth of the training images held out. "
        "Small: ResNet-18 on CIFAR-10, crops of images padded by 4, 5 epochs, after which no method is "
        "near the end of its training; the rate falls along a cosine in place of being cut when the accuracy gets no "
        "better, and the weights of the best epoch are taken. Clean tries the rates of Table 3 from 0.01 on with one "
        "seed; at the paper's scale all."
    ),
)
