"""Plain feed-forward networks: layer, ReLU, sometimes pooling, and no way around a layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from neuronal.models.classifier import Classifier
from neuronal.models.norm import Parts
from neuronal.models.registry import register_model
from neuronal.models.start import started
from neuronal.nn.families import Family


@register_model
def fcn(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    widths: Sequence[int] = (256, 128),
    norm: str | None = "none",
    start: str = "usual",
    outside: bool = False,
) -> Classifier:
    """Fully connected: flatten, then one hidden layer per width, ReLU after each.

    Args:
        start: One of ``STARTS``.
        outside: See :class:`Parts`.
    """
    parts = Parts(layers, norm, outside=outside)
    features: list[nn.Module] = [nn.Flatten()]
    size = in_chans * img_size * img_size
    for number, width in enumerate(widths):
        features += parts.linear(size, width, first=number == 0)
        size = width
    return started(Classifier(layers, nn.Sequential(*features), size, num_classes, in_chans), start)


@register_model
def mlp1(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    width: int = 100,
    norm: str | None = "none",
    start: str = "usual",
    outside: bool = False,
) -> Classifier:
    """One hidden layer of 100 units; with img_size=1 the channels are the columns of a table."""
    shape = {"num_classes": num_classes, "in_chans": in_chans, "img_size": img_size}
    return fcn(layers, **shape, widths=(width,), norm=norm, start=start, outside=outside)


@register_model
def cnn(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    widths: Sequence[int] = (16, 32, 64),
    norm: str | None = "none",
) -> Classifier:
    """Small convolutional: per width but the last a 3x3 convolution, ReLU and 2x2 max-pooling; then a hidden layer."""
    parts = Parts(layers, norm)
    *channels, hidden = widths
    side = img_size // 2 ** len(channels)
    if side < 1:
        raise ValueError(
            f"cnn with widths {tuple(widths)} halves the image {len(channels)} times and needs "
            f"img_size >= {2 ** len(channels)}, got {img_size}. Give fewer widths."
        )
    features: list[nn.Module] = []
    size = in_chans
    for number, width in enumerate(channels):
        features += [*parts.conv(size, width, 3, padding=1, first=number == 0), nn.MaxPool2d(2)]
        size = width
    features += [nn.Flatten(), *parts.linear(size * side * side, hidden, first=not channels)]
    return Classifier(layers, nn.Sequential(*features), hidden, num_classes, in_chans)


@register_model
def vgg6(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    widths: Sequence[int] = (128, 256, 512),
    norm: str | None = None,
    start: str = "usual",
    outside: bool = False,
) -> Classifier:
    """VGG of six 3x3 convolutions: two per width, then 2x2 max-pooling; the mean over positions; the head.

    Reference:
        Chen & Ge, arXiv:2305.15912, Section 5 (ImageNet32).
    """
    parts = Parts(layers, norm, outside=outside)
    if img_size < 2 ** len(widths):
        raise ValueError(
            f"vgg6 halves the image {len(widths)} times and needs img_size >= {2 ** len(widths)}, got {img_size}."
        )
    features: list[nn.Module] = []
    size = in_chans
    for number, width in enumerate(widths):
        features += parts.conv(size, width, 3, padding=1, first=number == 0)
        features += [*parts.conv(width, width, 3, padding=1), nn.MaxPool2d(2)]
        size = width
    features += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return started(Classifier(layers, nn.Sequential(*features), size, num_classes, in_chans), start)


@register_model
def ucn(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    depth: int = 2,
    width: int = 3,
    norm: str | None = None,
) -> Classifier:
    """Uniform convolutional: equal layers that keep the image's size, ReLU and then batch norm; flatten; the head.

    Args:
        depth: Number of layers.
        width: Channels of each.

    Reference:
        Mohedano, Bertalmío and others, Updating the standard neuron model in artificial neural networks: kernels are
        0.15 times as wide as the image. Depth and width are those of the authors' published example.
    """
    parts = Parts(layers, norm, batch_after_relu=True)
    kernel = max(1, round(0.15 * img_size))
    features: list[nn.Module] = []
    size = in_chans
    for number in range(depth):
        features += parts.conv(size, width, kernel, padding="same", first=number == 0)
        size = width
    return Classifier(layers, nn.Sequential(*features, nn.Flatten()), size * img_size * img_size, num_classes, in_chans)
