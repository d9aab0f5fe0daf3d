"""FarkasNets: residual networks in which, for every image, every layer and every sum has an active unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from torch import nn

from neuronal.models.classifier import Classifier
from neuronal.models.registry import register_model
from neuronal.names import unknown
from neuronal.nn.families import Family
from neuronal.nn.farkas import Aggregate, FarkasConv2d, Rule
from neuronal.nn.farkas_block import FarkasBasicBlock, FarkasBottleneck, Norm

_NORMS: dict[str | None, Norm | None] = {
    None: None,
    "none": None,
    "batch": lambda channels: nn.BatchNorm2d(channels, affine=False),
}
Block = type[FarkasBasicBlock] | type[FarkasBottleneck]
Stem = Literal["cifar", "imagenet"]


class Size(NamedTuple):
    """Blocks per stage, and channels of the first one; each stage has twice as many as the one before."""

    depths: Sequence[int]
    width: int


def _activated(conv: nn.Module, channels: int, norm: Norm | None) -> list[nn.Module]:
    return [conv, nn.ReLU(), *([norm(channels)] if norm else [])]


def _features(
    in_chans: int,
    block: Block,
    depths: Sequence[int],
    width: int,
    norm: Norm | None,
    stem: Stem,
    balance: dict[str, Any],
    **blocks: Any,
) -> tuple[nn.Sequential, int]:
    """Stem, stages and the mean over positions; and the number of channels at the end."""
    size = width
    if stem == "cifar":
        features = _activated(FarkasConv2d(in_chans, size, 3, padding=1, **balance), size, norm)
    else:
        features = _activated(FarkasConv2d(in_chans, size, 7, stride=2, padding=3, **balance), size, norm)
        features.append(nn.MaxPool2d(3, stride=2, padding=1))
    for number, depth in enumerate(depths):
        if number:
            wider = width * 2**number
            features += _activated(FarkasConv2d(size, wider, 1, **balance), wider, norm)
            features.append(nn.AvgPool2d(2))
            size = wider
        for _ in range(depth):
            made = block(size, norm=norm, **balance, **blocks)
            features.append(made)
            size = made.out_channels
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten()), size


def _farkasnet(number: int, block: Block, *, ours: Size, theirs: Size) -> Callable[..., Classifier]:
    """Registers a FarkasNet in two sizes: matched to the ResNet of that number of layers, and as published."""
    name = f"farkasnet{number}"

    def farkasnet(
        layers: Family,
        *,
        num_classes: int,
        in_chans: int,
        img_size: int,
        width: int | None = None,
        norm: str | None = None,
        aggregate: Aggregate = "sum",
        rule: Rule = "softplus",
        zero_last: bool = False,
        published: bool = False,
        stem: Stem | None = None,
    ) -> Classifier:
        if layers.name != "farkas":
            raise ValueError(
                f"{name} is made of Farkas blocks, got neuron {layers.name!r}. Use resnet{number} with it."
            )
        if norm not in _NORMS:
            raise ValueError(unknown(f"norm of {name}", str(norm), [known for known in _NORMS if known]))
        if stem not in (None, "cifar", "imagenet"):
            raise ValueError(f"stem needs to be 'cifar', 'imagenet' or None, got {stem!r}.")
        chosen: Stem = stem or ("cifar" if img_size < 128 else "imagenet")
        size = theirs if published else ours
        halvings = len(size.depths) - 1 + (2 if chosen == "imagenet" else 0)
        if img_size < 2**halvings:
            raise ValueError(
                f"{name} halves the image {halvings} times and needs img_size >= {2**halvings}, got {img_size}."
            )
        features, num_features = _features(
            in_chans,
            block,
            size.depths,
            width or size.width,
            _NORMS[norm],
            chosen,
            {"aggregate": aggregate, "rule": rule},
            widen=published,
            zero_last=zero_last,
        )
        return Classifier(layers, features, num_features, num_classes, in_chans)

    farkasnet.__name__ = name
    farkasnet.__doc__ = _DOC.format(number=number, ours=ours, theirs=theirs)
    farkasnet.only_neuron = "farkas"  # type: ignore[attr-defined]
    return register_model(farkasnet)


_DOC = """Farkas network with the depth and the parameters of resnet{number}; for Farkas neurons only.

    Stages of Farkas blocks, with a 1x1 Farkas convolution and average pooling between them; stem, transitions, blocks and
    head have {number} layers with weights along the path.

    Args:
        width: Channels of the first stage; by default chosen so that there are as many parameters as in resnet{number}
            with the CIFAR stem and norm ``"none"``, to 2%: {ours.width}, with {ours.depths} blocks per stage.
        norm: ``"none"`` (the default) or ``"batch"``: batch norm without parameters, after every ReLU.
        aggregate: How the last unit of a layer balances the others, ``"sum"`` or ``"mean"``.
        rule: ``"max"`` for the paper's own bias, which may leave all units of a layer at 0.
        zero_last: Starts the last convolution of every branch at zero.
        published: The authors' network instead: {theirs.depths} blocks, each of which widens by one channel, and width
            {theirs.width}.
        stem: ``"cifar"``: 3x3, no pooling. ``"imagenet"``: 7x7 of stride 2 and max-pooling. ``None``: by image size.

    Law:
        Before every ReLU some channel is positive, at every position and for every image (tests/models/test_farkasnet.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Algorithm 2 and Section 4.

    Departs:
        The bias is strict. Their networks are compared with ResNets of another depth and size; ours are matched, and
        their blocks keep the width. With 3 input channels and 10 classes ``published=True`` has exactly the 304,255 (18)
        and 525,864 (34) parameters of their code; 1,519,862 (50) and 2,826,408 (101) agree with its 1.520 and 2.826
        million. There is no published 152; it follows the same rule.
    """

farkasnet18 = _farkasnet(18, FarkasBasicBlock, ours=Size((2, 3, 2), 116), theirs=Size((3, 3, 3), 16))
farkasnet34 = _farkasnet(34, FarkasBasicBlock, ours=Size((5, 5, 5), 106), theirs=Size((5, 5, 5), 16))
farkasnet50 = _farkasnet(50, FarkasBottleneck, ours=Size((3, 4, 5, 3), 260), theirs=Size((3, 4, 6, 3), 64))
farkasnet101 = _farkasnet(101, FarkasBottleneck, ours=Size((3, 4, 22, 3), 256), theirs=Size((3, 4, 23, 3), 64))
farkasnet152 = _farkasnet(152, FarkasBottleneck, ours=Size((3, 8, 35, 3), 256), theirs=Size((3, 8, 36, 3), 64))
