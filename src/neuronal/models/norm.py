"""What keeps the signals of a network in range: one name, and the layers with the norm in its place around them."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from neuronal.names import find
from neuronal.nn.families import Family
from neuronal.nn.norm import InputMeanNorm, MeanOnlyBatchNorm
from neuronal.nn.residual import RELU_GAIN, ScaledStandardisedConv2d, ScaledStandardisedLinear
from neuronal.nn.standard import Options

NORMS = {
    "batch": "batch norm after every layer",
    "none": "nothing",
    "fixup": "residual branches that start at zero and have a learnt scale",
    "nf": "weight-standardised layers, residual branches between fixed scales",
    "input_mean": "the mean taken off the input of every layer",
    "weight": "weight norm on every layer, the mean taken off its output",
    "weight_alone": "weight norm on every layer, and nothing else",
    "weight_input_mean": "weight norm on every layer, the mean taken off its input",
}
"""The norms, and what each puts into the network."""

Kind = Literal["Linear", "Conv2d"]
# Norms that make the weights themselves, and the neurons that have nothing against it.
_NEURONS = {name: ("standard",) for name in NORMS if name.startswith("weight")} | {"nf": ("standard", "zero_bias")}
_BATCH_NORM = {"Linear": nn.BatchNorm1d, "Conv2d": nn.BatchNorm2d}
_STANDARDISED: dict[Kind, Any] = {"Linear": ScaledStandardisedLinear, "Conv2d": ScaledStandardisedConv2d}


class Parts:
    """What a network is built of: the layers of a family, each with norm and ReLU around it.

    Args:
        layers: The neuron.
        norm: One of ``NORMS``; ``None`` takes the usual one, batch norm where the neuron can have it.
        residual: Whether the network has residual branches, which ``"fixup"`` is about.
        batch_after_relu: Puts batch norm after the ReLU instead of before it.
        outside: Geometric units with their scale behind the ReLU, as published; it matters once a scale is negative.
    """

    def __init__(
        self,
        layers: Family,
        norm: str | None,
        *,
        residual: bool = False,
        batch_after_relu: bool = False,
        outside: bool = False,
    ) -> None:
        def why_not(norm: str) -> str | None:
            return _why_not(layers.name, norm, residual, batch_after_relu)

        if norm is None:
            norm = "none" if why_not("batch") else "batch"
            if layers.name == "zero_bias" and residual:
                norm = "fixup"
        find(NORMS, norm, "norm")
        if why := why_not(norm):
            possible = ", ".join(repr(name) for name in NORMS if not why_not(name))
            raise ValueError(f"norm {norm!r} does not go with neuron {layers.name!r} here: {why}. Use {possible}.")
        if outside and (layers.name != "geometric" or norm == "batch"):
            raise ValueError(f"outside is for geometric units without batch norm, got {layers.name!r}, norm {norm!r}.")
        self.layers, self.norm, self.outside = layers, norm, outside
        self.batch_after_relu = batch_after_relu and norm == "batch"

    def conv(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        stride: int = 1,
        padding: int | str = 0,
        relu: bool = True,
        first: bool = False,
    ) -> list[nn.Module]:
        """A convolution with norm and, if asked for, ReLU; ``first`` if its input does not come out of a ReLU."""
        pads: list[nn.Module] = []
        if padding == "same" and kernel_size % 2 == 0:
            # One more zero after than before, as torch's "same" does with a warning that it makes a copy.
            before, after = (kernel_size - 1) // 2, kernel_size // 2
            pads, padding = [nn.ZeroPad2d((before, after, before, after))], 0
        shape: Options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        shape |= {"activation": "relu"} if self.outside and relu else {}
        layer, norm = self._layer("Conv2d", in_channels, out_channels, shape, first)
        return self._in_order(in_channels, [*pads, layer], norm, relu)

    def linear(self, in_features: int, out_features: int, *, first: bool = False) -> list[nn.Module]:
        """A fully connected layer with norm and ReLU; ``first`` as for :meth:`conv`."""
        shape = {"activation": "relu"} if self.outside else {}
        layer, norm = self._layer("Linear", in_features, out_features, shape, first)
        return self._in_order(in_features, [layer], norm, True)

    def _layer(
        self, kind: Kind, inputs: int, outputs: int, shape: Options, first: bool
    ) -> tuple[nn.Module, list[nn.Module]]:
        """The layer, and the norm of its outputs, if there is one."""
        make = getattr(self.layers, kind)
        if self.norm == "nf":
            own = {"bias": self.layers.name != "zero_bias", "gain": 1.0 if first else RELU_GAIN}
            return _STANDARDISED[kind](inputs, outputs, **shape, **own), []
        # A norm right behind the layer has a bias of its own and would cancel the layer's.
        if self.norm == "weight":
            return weight_norm(make(inputs, outputs, **shape, bias=False)), [MeanOnlyBatchNorm(outputs)]
        if self.norm in ("weight_alone", "weight_input_mean"):
            return weight_norm(make(inputs, outputs, **shape)), []
        if self.norm == "batch":
            bias = {} if self.batch_after_relu else {"bias": False}
            return make(inputs, outputs, **shape, **bias), [_BATCH_NORM[kind](outputs)]
        return make(inputs, outputs, **shape), []

    def _in_order(self, inputs: int, layer: list[nn.Module], norm: list[nn.Module], relu: bool) -> list[nn.Module]:
        centre = [InputMeanNorm(inputs)] if self.norm.endswith("input_mean") else []
        activation = [nn.ReLU()] if relu and not self.outside else []
        after = [*activation, *norm] if self.batch_after_relu else [*norm, *activation]
        return [*centre, *layer, *after]


def _why_not(neuron: str, norm: str, residual: bool, batch_after_relu: bool) -> str | None:
    """Why the norm does not go with the neuron, if so."""
    if norm == "fixup" and not residual:
        return "it is about residual branches, and this network has none"
    if neuron == "zero_bias" and norm in ("batch", "input_mean", "weight"):
        return "means and offsets do not scale with the image, so the class would depend on contrast"
    if neuron == "farkas" and norm == "batch" and not batch_after_relu:
        return "between unit and ReLU it undoes the promise of an active unit; the farkasnets have it after the ReLU"
    if norm in _NEURONS and neuron not in _NEURONS[norm]:
        return "it makes the layer's weights in a way of its own, as this neuron does"
    return None
