"""The networks of Table 1, which other tables and figures use too, and how they are trained."""

from dataclasses import replace

from neuronal.experiments.recipe import Recipe

BOTH = ("zero_bias", "standard")


def both(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Each without and with biases, everything else the same."""
    return tuple(replace(recipe, family=family) for recipe in recipes for family in BOTH)


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
FASHION_CNN_2 = replace(FASHION_CNN, name="Fashion-MNIST CNN, twice as wide", model_options={"widths": (32, 64, 128)})
FASHION_CNN_4 = replace(FASHION_CNN, name="Fashion-MNIST CNN, 4 x as wide", model_options={"widths": (64, 128, 256)})
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
    CIFAR_RESNET18,
    name="ImageNet ResNet50",
    model="resnet50",
    data="imagenet",
    epochs=100,
    batch_size=256,
    crop=0,
    resized_crop=(0.08, 1.0),
)


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a fifth of them."""
    return replace(
        recipe, data="digits", epochs=1, fraction=0.2, batch_size=64, precision="no", channels_last=False, seeds=(0,)
    )
