"""What our layers share with the plain torch layers they stand in for: constructor, shapes, the linear map itself."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import signature
from math import prod
from operator import index
from typing import Any, ClassVar, Literal, Self, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.names import unknown

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
Options = dict[str, Any]
"""Keyword arguments of a layer, or of what is made of layers."""
Plain = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
Device = torch.device | str | None
Dtype = torch.dtype | None
Size = int | tuple[int, ...]
"""One number for all dimensions, or one for each."""

_CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_ARGUMENTS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("in_features", "out_features"),
    nn.Conv1d: _CONV,
    nn.Conv2d: _CONV,
    nn.Conv3d: _CONV,
}


def arguments(layer: nn.Module) -> Options:
    """Constructor arguments, all but ``bias``, that rebuild a plain layer: shape, device and dtype."""
    for kind, names in _ARGUMENTS.items():
        if isinstance(layer, kind):
            weight = layer.weight
            return {name: getattr(layer, name) for name in names} | {"device": weight.device, "dtype": weight.dtype}
    known = ", ".join(f"nn.{kind.__name__}" for kind in _ARGUMENTS)
    raise TypeError(f"needs one of {known}, got {type(layer).__name__}.")


def copied(parameter: Tensor) -> nn.Parameter:
    """The same values in a parameter of their own, frozen if the first was."""
    return nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)


def order_of(weight: Tensor) -> torch.memory_format:
    """How a weight lies in memory: with the channels last, in two dimensions or three, or as usual."""
    for dims, order in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if weight.dim() == dims and not weight.is_contiguous() and weight.is_contiguous(memory_format=order):
            return order
    return torch.contiguous_format


def put(parameter: Tensor, values: Tensor) -> None:
    """Copies ``values`` into a parameter, also into one that is spread over processes, where the first one's count."""
    if hasattr(parameter, "device_mesh"):
        from torch.distributed.tensor import distribute_tensor

        where: Any = parameter
        values = distribute_tensor(values.to(where.device), where.device_mesh, where.placements)
    parameter.copy_(values)


def named(wrong: RuntimeError, layer: nn.Module) -> RuntimeError:
    """torch's error about a wrong input, with the layer it was meant for."""
    message = f"{type(layer).__name__}({layer.extra_repr()}): {wrong}"
    # Out of memory stays out of memory; an error made of other parts becomes a plain one.
    return type(wrong)(message) if type(wrong) in (RuntimeError, torch.OutOfMemoryError) else RuntimeError(message)


def check_sizes(layer: type, *sizes: object) -> None:
    """One line for numbers of features or channels that are none; the class of the error is torch's."""
    for size in sizes:
        if not isinstance(size, SupportsIndex) or index(size) < 0:
            wrong = RuntimeError if isinstance(size, SupportsIndex) else TypeError
            raise wrong(f"sizes of {layer.__name__} need to be whole numbers from 0, got {size!r}.")


class StandIn(nn.Module):
    """A layer that takes the arguments of a plain torch layer and applies a linear map made of other parameters.

    A neuron is a subclass with ``_setup`` (which makes its parameters, and whose keyword-only arguments are the
    neuron's options), ``reset_parameters``, ``_take`` (which reads a plain layer), ``weight`` and ``bias`` (those of the
    plain layer with the same map; :class:`neuronal.nn.computed.ComputedMap` has them for neurons that store others),
    ``departure`` and ``forward``; combined with one of the four shapes below it is a layer.
    """

    _plain: ClassVar[type[Plain]]
    decayed: ClassVar[tuple[str, ...]] = ("weight",)
    """The parameters that hold the size of the weights: what weight decay is for (:func:`decay_groups`)."""
    undecayable: ClassVar[tuple[str, ...]] = ()
    """Those that do not become smaller by decay, but something else."""
    _takes_complex: ClassVar[bool] = True

    def __init__(self, *sizes: int) -> None:
        if not hasattr(self, "_plain"):
            raise TypeError(
                f"{type(self).__name__} is the base class of layers, and no layer itself. Use one of those."
            )
        super().__init__()
        check_sizes(type(self), *sizes)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Shows the neuron's own options in the signature, where the shape's constructor only hands them on."""
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "_plain") and cls._setup is not StandIn._setup:
            shape = [a for a in signature(cls.__init__).parameters.values() if a.kind is not Argument.VAR_KEYWORD]
            own = [a for a in signature(cls._setup).parameters.values() if a.kind is Argument.KEYWORD_ONLY]
            cls.__signature__ = signature(cls.__init__).replace(parameters=shape[1:] + own)  # type: ignore[attr-defined]

    def _build(self, plain: Plain, bias: bool, device: Device, dtype: Dtype, options: Options) -> None:
        """Takes over the shape of ``plain``, which lives on the meta device: torch has checked the arguments by then."""
        self._check_dtype(plain.weight.dtype)
        for name in _ARGUMENTS[self._plain]:
            setattr(self, name, getattr(plain, name))
        if not isinstance(plain, nn.Linear):
            self.transposed, self.output_padding = plain.transposed, plain.output_padding
            self._reversed_padding_repeated_twice = plain._reversed_padding_repeated_twice
        self._weight_shape = tuple(plain.weight.shape)
        known = [a.name for a in signature(self._setup).parameters.values() if a.kind is Argument.KEYWORD_ONLY]
        for name in options:
            if name not in known:
                raise TypeError(unknown(f"option of {type(self).__name__}", name, known))
        self._setup(bias, device, dtype, **options)
        self.reset_parameters()

    def _setup(self, bias: bool, device: Device, dtype: Dtype) -> None:
        raise NotImplementedError

    def _take(self, plain: Plain) -> None:
        raise NotImplementedError

    def reset_parameters(self) -> None:
        raise NotImplementedError

    def _check_dtype(self, dtype: torch.dtype) -> None:
        if dtype.is_complex and not self._takes_complex:
            raise TypeError(f"{type(self).__name__} compares its units and needs a real dtype, got {dtype}.")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._check_dtype(next(self.parameters()).dtype)
        return self

    @property
    def num_units(self) -> int:
        """Outputs of the plain layer: features or channels."""
        return self._weight_shape[0]

    @property
    def fan_in(self) -> int:
        """Inputs a unit sees."""
        return prod(self._weight_shape[1:])

    def _map(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The plain layer's map with the given weight and bias; torch's error for a wrong input, with our name."""
        try:
            if self._plain is nn.Linear:
                return F.linear(x, weight, bias)
            forward: Any = self._plain._conv_forward  # type: ignore[union-attr]
            y: Tensor = forward(self, x, weight, bias)
            return y
        except RuntimeError as wrong:
            raise named(wrong, self) from wrong

    @classmethod
    def from_standard(cls, layer: Plain, **options: Any) -> Self:
        """This neuron in the place of ``layer``: same device, dtype, training and gradient flags.

        Whether it computes the same function is the neuron's affair, and said in its docstring.
        """
        if not isinstance(layer, cls._plain):
            needed, got = cls._plain.__name__, type(layer).__name__
            raise TypeError(f"{cls.__name__}.from_standard needs an nn.{needed}, got {got}.")
        # Made without memory first: what is overwritten need not be filled. No random number of the caller's is used up.
        shape = {**arguments(layer), "device": "meta"}
        new = cls(**shape, bias=layer.bias is not None, **options).to_empty(device=layer.weight.device)  # type: ignore[call-arg]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            new._take(layer)
        for name, parameter in new.named_parameters():
            is_bias = name.split(".")[-1] in ("bias", "offset", "offsets", "last")
            source = layer.bias if is_bias and layer.bias is not None else layer.weight
            parameter.requires_grad_(source.requires_grad)
        order = order_of(layer.weight)
        if order != torch.contiguous_format:
            new.to(memory_format=order)  # type: ignore[call-overload]
        return new.train(layer.training)

    def departure(self, plain: Plain) -> str:
        """What this layer computes differently from ``plain``, which it was made from; empty if nothing."""
        raise NotImplementedError

    def _plain_with(self, weight: Tensor, bias: Tensor | None) -> Plain:
        """The plain torch layer of this shape with copies of the given weight and bias."""
        shape: Any = {name: getattr(self, name) for name in _ARGUMENTS[self._plain]}
        plain = self._plain(**shape, bias=bias is not None, device="meta", dtype=weight.dtype)
        plain.weight = copied(weight)
        plain.bias = None if bias is None else copied(bias)
        return plain.train(self.training)

    def extra_repr(self) -> str:
        return self._plain.extra_repr(self)  # type: ignore[arg-type]


class LinearShape(StandIn):
    """Constructor of ``nn.Linear``."""

    _plain = nn.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features)
        plain = nn.Linear(in_features, out_features, bias, device="meta", dtype=dtype)
        self._build(plain, bias, device, dtype, options)


class ConvShape(StandIn):
    """Constructor of ``nn.Conv1d``, ``nn.Conv2d`` and ``nn.Conv3d``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: Dtype = None,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels)
        plain: Any = self._plain
        shape = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
        self._build(plain(*shape, device="meta", dtype=dtype), bias, device, dtype, options)


class Conv1dShape(ConvShape):
    _plain = nn.Conv1d


class Conv2dShape(ConvShape):
    _plain = nn.Conv2d


class Conv3dShape(ConvShape):
    _plain = nn.Conv3d
