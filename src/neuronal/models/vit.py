"""A vision transformer whose two-layer perceptrons are made of the family's units."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.models.classifier import Classifier
from neuronal.models.registry import register_model
from neuronal.names import unknown
from neuronal.nn.families import Family


class Tokens(nn.Module):
    """An image as a row of vectors: one per patch, a learnt one for the class before them, and a position added."""

    def __init__(self, in_chans: int, img_size: int, patch: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(in_chans, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, 1 + (img_size // patch) ** 2, width))
        nn.init.trunc_normal_(self.positions, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(x.shape[0], -1, -1), patches], dim=1) + self.positions


class Attention(nn.Module):
    """Every token looks at all tokens: softmax attention with several heads."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        y: Tensor = self.projection(seen.transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    """Attention, then a perceptron of the family's units, each behind a layer norm and beside a skip."""

    def __init__(self, layers: Family, width: int, num_heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width, eps=1e-6), Attention(width, num_heads))
        perceptron = [layers.Linear(width, 4 * width), nn.GELU(), layers.Linear(4 * width, width)]
        self.perceptron = nn.Sequential(nn.LayerNorm(width, eps=1e-6), *perceptron)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        y: Tensor = x + self.perceptron(x)
        return y


class FirstToken(nn.Module):
    """Of all tokens that of the class."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


@register_model
def vit_tiny(
    layers: Family,
    *,
    num_classes: int,
    in_chans: int,
    img_size: int,
    patch: int | None = None,
    width: int = 192,
    depth: int = 12,
    num_heads: int = 3,
    norm: str | None = None,
) -> Classifier:
    """Vision transformer, tiny: 12 blocks of width 192 with 3 heads; the perceptrons are of the neuron.

    Args:
        patch: Side of a patch; 16 for images of 128 and more, else 4.
        width: Size of a token.
        depth: Number of blocks.
        num_heads: Heads of the attention.
        norm: ``"layer"`` or ``None``, which mean the same: layer norm is part of a transformer.

    Reference:
        Dosovitskiy and others, An Image is Worth 16x16 Words, ICLR 2021, arXiv:2010.11929; the tiny size is that of
        Touvron and others, arXiv:2012.12877.

    Departs:
        Layers start as torch or the neuron start them, not from a truncated normal of 0.02; positions do.
    """
    if layers.name == "zero_bias":
        raise ValueError(
            "vit_tiny does not go with neuron 'zero_bias': layer norm and attention do not scale with the image, so the "
            "class would depend on contrast. Use a resnet or vgg6."
        )
    if norm not in (None, "layer"):
        raise ValueError(unknown("norm of vit_tiny", norm, ["layer"]))
    patch = patch or (16 if img_size >= 128 else 4)
    if img_size % patch:
        raise ValueError(
            f"vit_tiny needs img_size to be a multiple of patch, got {img_size} and {patch}. Give another patch."
        )
    if width % num_heads:
        raise ValueError(f"vit_tiny needs width to be a multiple of num_heads, got {width} and {num_heads}.")
    blocks = [Block(layers, width, num_heads) for _ in range(depth)]
    tokens = Tokens(in_chans, img_size, patch, width)
    features = nn.Sequential(tokens, *blocks, nn.LayerNorm(width, eps=1e-6), FirstToken())
    return Classifier(layers, features, width, num_classes, in_chans)
