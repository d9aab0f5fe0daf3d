"""Residual networks: ``resnet9`` and the ResNets of 18 to 152 layers, for small and for large images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn

from neuronal.models.classifier import Classifier
from neuronal.models.norm import Parts
from neuronal.models.registry import register_model
from neuronal.models.start import started
from neuronal.nn.families import Family
from neuronal.nn.residual import Multiplier, ScaledResidual, fixup_, he_
from neuronal.nn.standard import Plain, StandIn

Stem = Literal["cifar", "imagenet"]
Block = Literal["basic", "bottleneck"]
_EXPANSION: dict[Block, int] = {"basic": 1, "bottleneck": 4}


class Residual(nn.Module):
    """relu(shortcut(x) + branch(x)); without a shortcut x itself is kept."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut, self.relu = branch, shortcut, nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.shortcut is None else self.shortcut(x)
        y: Tensor = self.relu(kept + self.branch(x))
        return y


class Stages:
    """Makes stages of blocks one after the other, in the order of layers the norm asks for.

    With norm ``"nf"`` the activation stands before the branch and what runs along the skips is not activated; with any
    other it stands behind the sum. So a network puts ``enter()`` between a layer and its first stage, ``leave()`` behind
    its last, and one of them is a ReLU.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._scaled = parts.norm == "nf"
        self._variance = 1.0

    def enter(self) -> list[nn.Module]:
        self._variance = 1.0
        return [] if self._scaled else [nn.ReLU()]

    def leave(self) -> list[nn.Module]:
        return [nn.ReLU()] if self._scaled else []

    def stage(self, block: Block, depth: int, inputs: int, width: int, stride: int = 1) -> nn.Sequential:
        """``depth`` blocks; the first halves the image if ``stride`` is 2."""
        outputs = width * _EXPANSION[block]
        branches = [self._branch(block, inputs, width, stride)]
        branches += [self._branch(block, outputs, width, 1) for _ in range(depth - 1)]
        shortcut = None
        if stride > 1 or inputs != outputs:
            shortcut = nn.Sequential(*self.parts.conv(inputs, outputs, 1, stride=stride, relu=False))
        if not self._scaled:
            return nn.Sequential(*(Residual(b, None if i else shortcut) for i, b in enumerate(branches)))
        blocks = ScaledResidual.stage(branches, variance=self._variance, shortcut=shortcut)
        self._variance = blocks[-1].out_variance
        return nn.Sequential(*blocks)

    def _branch(self, block: Block, inputs: int, width: int, stride: int) -> nn.Sequential:
        conv = self.parts.conv
        if block == "basic":
            layers = conv(inputs, width, 3, stride=stride, padding=1) + conv(width, width, 3, padding=1, relu=False)
        else:
            layers = conv(inputs, width, 1) + conv(width, width, 3, stride=stride, padding=1)
            layers += conv(width, 4 * width, 1, relu=False)
        return nn.Sequential(*layers, *([Multiplier()] if self.parts.norm == "fixup" else []))


def _classifier(
    parts: Parts, features: nn.Sequential, num_features: int, num_classes: int, in_chans: int
) -> Classifier:
    is_fixup = parts.norm == "fixup"
    if is_fixup:
        _fixup_all_(features)
    return Classifier(parts.layers, features, num_features, num_classes, in_chans, zero_head=is_fixup)


def _fixup_all_(features: nn.Module) -> None:
    """Fixup's start: He's for every layer, and in the branches what :func:`neuronal.nn.residual.fixup_` does."""

    def layers(module: nn.Module) -> list[nn.Module]:
        return [part for part in module.modules() if isinstance(part, Plain | StandIn)]

    for layer in layers(features):
        he_(layer)
    branches = [part.branch for part in features.modules() if isinstance(part, Residual)]
    for branch in branches:
        fixup_(layers(branch), len(branches))


@register_model
def resnet9(
    layers: Family, *, num_classes: int, in_chans: int, img_size: int, width: int = 64, norm: str | None = None
) -> Classifier:
    """Residual network of nine layers for small images: four convolutions, a residual block behind every other one.

    Args:
        width: Channels of the first layer; the others have 2, 4 and 8 times as many.

    Departs:
        A residual block is that of the larger ResNets, relu(x + conv(relu(conv(x)))). Networks of this name often have a
        ReLU at the end of the branch instead, through which a branch that starts at zero gets no gradient.
    """
    parts = Parts(layers, norm, residual=True)
    if img_size < 8:
        raise ValueError(f"resnet9 halves the image three times and needs img_size >= 8, got {img_size}.")
    stages = Stages(parts)
    two, four, eight = 2 * width, 4 * width, 8 * width
    # Max-pooling before the ReLU computes what it does behind it.
    features = nn.Sequential(
        *parts.conv(in_chans, width, 3, padding=1, first=True),
        *[*parts.conv(width, two, 3, padding=1, relu=False), nn.MaxPool2d(2)],
        *[*stages.enter(), stages.stage("basic", 1, two, two), *stages.leave()],
        *[*parts.conv(two, four, 3, padding=1), nn.MaxPool2d(2)],
        *[*parts.conv(four, eight, 3, padding=1, relu=False), nn.MaxPool2d(2)],
        *[*stages.enter(), stages.stage("basic", 1, eight, eight), *stages.leave()],
        *[nn.AdaptiveMaxPool2d(1), nn.Flatten()],
    )
    return _classifier(parts, features, eight, num_classes, in_chans)


def _stem(parts: Parts, stem: Stem | None, in_chans: int, img_size: int, width: int) -> nn.Sequential:
    """The first layer, without its ReLU: max-pooling before the ReLU computes what it does behind it."""
    if stem not in (None, "cifar", "imagenet"):
        raise ValueError(f"stem needs to be 'cifar', 'imagenet' or None, got {stem!r}.")
    if stem == "cifar" or (stem is None and img_size < 128):
        return nn.Sequential(*parts.conv(in_chans, width, 3, padding=1, relu=False, first=True))
    first = parts.conv(in_chans, width, 7, stride=2, padding=3, relu=False, first=True)
    return nn.Sequential(*first, nn.MaxPool2d(3, stride=2, padding=1))


def _resnet(number: int, block: Block, depths: Sequence[int]) -> Callable[..., Classifier]:
    """Registers the ResNet with that number of layers: blocks per stage in ``depths``, widths that double."""

    def resnet(
        layers: Family,
        *,
        num_classes: int,
        in_chans: int,
        img_size: int,
        width: int = 64,
        depths: Sequence[int] = depths,
        stem: Stem | None = None,
        norm: str | None = None,
        start: str = "usual",
    ) -> Classifier:
        parts = Parts(layers, norm, residual=True)
        if norm == "fixup" and start != "usual":
            raise ValueError(f"norm 'fixup' has a start of its own, got start {start!r}. Leave one out.")
        stages = Stages(parts)
        features: OrderedDict[str, nn.Module] = OrderedDict(stem=_stem(parts, stem, in_chans, img_size, width))
        features["enter"] = nn.Sequential(*stages.enter())
        size = width
        for i, depth in enumerate(depths):
            features[f"stage{i + 1}"] = stages.stage(block, depth, size, width * 2**i, stride=2 if i else 1)
            size = width * 2**i * _EXPANSION[block]
        features["leave"] = nn.Sequential(*stages.leave(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return started(_classifier(parts, nn.Sequential(features), size, num_classes, in_chans), start)

    resnet.__name__ = f"resnet{number}"
    resnet.__doc__ = f"""Residual network of {number} layers{"" if block == "basic" else ", with bottlenecks"}.

    Args:
        width: Channels of the first stage.
        depths: Blocks per stage, {", ".join(map(str, depths))} if left out.
        stem: ``"cifar"``: 3x3, no pooling. ``"imagenet"``: 7x7 of stride 2 and max-pooling. ``None``: by image size.
        norm: One of :data:`neuronal.models.norm.NORMS`.
        start: One of :data:`neuronal.models.start.STARTS`.

    Reference:
        He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, CVPR 2016, arXiv:1512.03385. With norm
        ``"fixup"``: Zhang, Dauphin & Ma, arXiv:1901.09321. With ``"nf"``: Brock, De & Smith, arXiv:2101.08692.

    Departs:
        Bottlenecks have their stride in the 3x3 convolution. Fixup has the biases of the layers, where the neuron has
        any, in the place of its scalar ones. In ``"nf"`` the shortcut of a transition is a 1x1 convolution with stride
        and no average pooling, which keeps the variance.
    """
    return register_model(resnet)


resnet18 = _resnet(18, "basic", (2, 2, 2, 2))
resnet34 = _resnet(34, "basic", (3, 4, 6, 3))
resnet50 = _resnet(50, "bottleneck", (3, 4, 6, 3))
resnet101 = _resnet(101, "bottleneck", (3, 4, 23, 3))
resnet152 = _resnet(152, "bottleneck", (3, 8, 36, 3))
