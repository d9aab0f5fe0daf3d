"""FarkasNets: residual networks in which, for every image, every layer and every sum has an active unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from torch import nn

from neuronal.models.classifier import Classifier
from neuronal.models.registry import register_model
from neuronal.models.resnet import Residual
from neuronal.models.start import started
from neuronal.names import unknown
from neuronal.nn.families import Family
from neuronal.nn.farkas import Aggregate, FarkasConv2d, Rule
from neuronal.nn.farkas_block import FarkasBasicBlock, FarkasBottleneck, Norm
from neuronal.nn.standard import Options

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


class _Makers(NamedTuple):
    """How the parts are made: a convolution with ReLU and norm, and a block and the number of its channels."""

    conv: Callable[..., list[nn.Module]]
    block: Callable[[int], tuple[list[nn.Module], int]]


def _after(channels: int, norm: Norm | None) -> list[nn.Module]:
    return [norm(channels)] if norm else []


def _of_farkas(block: Block, norm: Norm | None, balance: Options, options: Options) -> _Makers:
    def conv(inputs: int, outputs: int, kernel_size: int, **shape: Any) -> list[nn.Module]:
        made = FarkasConv2d(inputs, outputs, kernel_size, **shape, **balance)
        return [made, nn.ReLU(), *_after(outputs, norm)]

    def residual(channels: int) -> tuple[list[nn.Module], int]:
        made = block(channels, norm=norm, **balance, **options)
        return [made], made.out_channels

    return _Makers(conv, residual)


def _of_standard(block: Block, norm: Norm | None, zero_last: bool) -> _Makers:
    """The same without the units that balance the others: what a FarkasNet is to be compared with."""

    def conv(inputs: int, outputs: int, kernel_size: int, **shape: Any) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, kernel_size, **shape), nn.ReLU(), *_after(outputs, norm)]

    def residual(channels: int) -> tuple[list[nn.Module], int]:
        if block is FarkasBasicBlock:
            branch = [*conv(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)]
        else:
            inner = channels // 4
            if not inner:
                raise ValueError(
                    f"bottlenecks have a quarter of their channels inside and need 4 or more, got {channels}."
                )
            first = [*conv(channels, inner, 1), *conv(inner, inner, 3, padding=1)]
            branch = [*first, nn.Conv2d(inner, channels, 1)]
        if zero_last:
            for parameter in branch[-1].parameters():
                nn.init.zeros_(parameter)
        return [Residual(nn.Sequential(*branch)), *_after(channels, norm)], channels

    return _Makers(conv, residual)


def _features(in_chans: int, depths: Sequence[int], width: int, stem: Stem, make: _Makers) -> tuple[nn.Sequential, int]:
    """Stem, stages and the mean over positions; and the number of channels at the end."""
    size = width
    if stem == "cifar":
        features = make.conv(in_chans, size, 3, padding=1)
    else:
        features = [*make.conv(in_chans, size, 7, stride=2, padding=3), nn.MaxPool2d(3, stride=2, padding=1)]
    for number, depth in enumerate(depths):
        if number:
            wider = width * 2**number
            features += [*make.conv(size, wider, 1), nn.AvgPool2d(2)]
            size = wider
        for _ in range(depth):
            block, size = make.block(size)
            features += block
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
        depths: Sequence[int] | None = None,
        norm: str | None = None,
        aggregate: Aggregate = "mean",
        rule: Rule = "softplus",
        zero_last: bool = False,
        published: bool = False,
        stem: Stem | None = None,
        start: str = "usual",
    ) -> Classifier:
        if layers.name not in ("farkas", "standard"):
            raise ValueError(
                f"{name} has Farkas or standard units, got neuron {layers.name!r}. Use resnet{number} with it."
            )
        if layers.name == "standard" and (published or (aggregate, rule) != ("mean", "softplus")):
            raise ValueError(f"aggregate, rule and published of {name} are about Farkas units, got neuron 'standard'.")
        if start != "usual" and (zero_last or published):
            raise ValueError(f"zero_last and published have a start of their own, got start {start!r}. Leave one out.")
        if norm not in _NORMS:
            raise ValueError(unknown(f"norm of {name}", str(norm), [known for known in _NORMS if known]))
        if stem not in (None, "cifar", "imagenet"):
            raise ValueError(f"stem needs to be 'cifar', 'imagenet' or None, got {stem!r}.")
        chosen: Stem = stem or ("cifar" if img_size < 128 else "imagenet")
        size = theirs if published else ours
        size = Size(size.depths if depths is None else depths, width or size.width)
        halvings = len(size.depths) - 1 + (2 if chosen == "imagenet" else 0)
        if img_size < 2**halvings:
            raise ValueError(
                f"{name} halves the image {halvings} times and needs img_size >= {2**halvings}, got {img_size}."
            )
        if layers.name == "farkas":
            options = {"widen": published, "zero_last": zero_last, "published": published}
            make = _of_farkas(block, _NORMS[norm], {"aggregate": aggregate, "rule": rule}, options)
        else:
            make = _of_standard(block, _NORMS[norm], zero_last)
        features, num_features = _features(in_chans, size.depths, size.width, chosen, make)
        return started(Classifier(layers, features, num_features, num_classes, in_chans), start)

    farkasnet.__name__ = name
    farkasnet.__doc__ = _DOC.format(number=number, ours=ours, theirs=theirs)
    farkasnet.own_neuron = "farkas"  # type: ignore[attr-defined]
    return register_model(farkasnet)


_DOC = """Farkas network with the depth and the parameters of resnet{number}; with standard units the same without balance.

    Stages of Farkas blocks, with a 1x1 Farkas convolution and average pooling between them; stem, transitions, blocks and
    head have {number} layers with weights along the path. With neuron ``"standard"`` every unit that balances the others is
    a plain one, and everything else stays, to 2% of the parameters: the network a FarkasNet is to be compared with.

    Args:
        width: Channels of the first stage; by default chosen so that there are as many parameters as in resnet{number}
            with the CIFAR stem and norm ``"none"``, to 2%: {ours.width}, with {ours.depths} blocks per stage.
        depths: Blocks per stage, each of which but the first halves the image and doubles the channels.
        norm: ``"none"`` (the default) or ``"batch"``: batch norm without parameters, after every ReLU.
        aggregate: How the last unit of a layer balances the others, ``"mean"`` or the paper's ``"sum"``.
        rule: ``"max"`` for the paper's own bias, which may leave all units of a layer at 0.
        zero_last: Starts the last convolution of every branch, and the biases behind it, at zero.
        published: The authors' network instead: {theirs.depths} blocks, each of which widens by one channel, width
            {theirs.width}, and their start of the last convolution of a bottleneck.
        stem: ``"cifar"``: 3x3, no pooling. ``"imagenet"``: 7x7 of stride 2 and max-pooling. ``None``: by image size.
        start: One of :data:`neuronal.models.start.STARTS`.

    Law:
        Before every ReLU some channel is positive, at every position and for every image (tests/models/test_farkasnet.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Algorithm 2 and Section 4.

    Departs:
        The bias is strict. Their networks are compared with ResNets of another depth and size; ours are matched, and
        their blocks keep the width. With 3 input channels and 10 classes ``published=True`` has exactly the 304,255 (18)
        and 525,864 (34) parameters of their code; 1,519,862 (50) and 2,826,408 (101) agree with its 1.520 and 2.826
        million. There is no published 152; it follows the same rule. In their bottlenecks zeros of the last convolution
        are overwritten; here ``zero_last`` holds for both kinds of blocks.
    """

farkasnet18 = _farkasnet(18, FarkasBasicBlock, ours=Size((2, 3, 2), 116), theirs=Size((3, 3, 3), 16))
farkasnet34 = _farkasnet(34, FarkasBasicBlock, ours=Size((5, 5, 5), 106), theirs=Size((5, 5, 5), 16))
farkasnet50 = _farkasnet(50, FarkasBottleneck, ours=Size((3, 4, 5, 3), 260), theirs=Size((3, 4, 6, 3), 64))
farkasnet101 = _farkasnet(101, FarkasBottleneck, ours=Size((3, 4, 22, 3), 256), theirs=Size((3, 4, 23, 3), 64))
farkasnet152 = _farkasnet(152, FarkasBottleneck, ours=Size((3, 8, 35, 3), 256), theirs=Size((3, 8, 36, 3), 64))
