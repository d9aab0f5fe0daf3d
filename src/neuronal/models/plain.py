"""Plain feed-forward networks: ``fcn`` (fully connected) and ``cnn`` (convolutions, then one hidden layer)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from neuronal.models.classifier import Classifier
from neuronal.models.registry import register_model
from neuronal.nn.families import Family


@register_model
def fcn(
    layers: Family, *, num_classes: int, in_chans: int, img_size: int, widths: Sequence[int] = (256, 128)
) -> Classifier:
    """Fully connected: flatten, then one hidden layer per width, ReLU after each."""
    features: list[nn.Module] = [nn.Flatten()]
    size = in_chans * img_size * img_size
    for width in widths:
        features += [layers.Linear(size, width), nn.ReLU()]
        size = width
    return Classifier(layers, nn.Sequential(*features), size, num_classes, in_chans)


@register_model
def cnn(
    layers: Family, *, num_classes: int, in_chans: int, img_size: int, widths: Sequence[int] = (16, 32, 64)
) -> Classifier:
    """Small convolutional: per width but the last a 3x3 convolution, ReLU and 2x2 max-pooling; then a hidden layer."""
    *channels, hidden = widths
    side = img_size // 2 ** len(channels)
    if side < 1:
        raise ValueError(
            f"cnn with widths {tuple(widths)} halves the image {len(channels)} times and needs "
            f"img_size >= {2 ** len(channels)}, got {img_size}. Give fewer widths."
        )
    features: list[nn.Module] = []
    size = in_chans
    for width in channels:
        features += [layers.Conv2d(size, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        size = width
    features += [nn.Flatten(), layers.Linear(size * side * side, hidden), nn.ReLU()]
    return Classifier(layers, nn.Sequential(*features), hidden, num_classes, in_chans)
