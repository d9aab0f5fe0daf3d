"""What our layers share with the plain torch layer they stand in for."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
Plain = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d

_ARGUMENTS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: ("in_features", "out_features"),
    **dict.fromkeys(
        (nn.Conv1d, nn.Conv2d, nn.Conv3d),
        ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"),
    ),
}


def arguments(layer: nn.Module) -> dict[str, Any]:
    """Constructor arguments, all but ``bias``, that rebuild ``layer``: shape, device and dtype."""
    for kind, names in _ARGUMENTS.items():
        if isinstance(layer, kind):
            weight = layer.weight
            return {name: getattr(layer, name) for name in names} | {"device": weight.device, "dtype": weight.dtype}
    known = ", ".join(f"nn.{kind.__name__}" for kind in _ARGUMENTS)
    raise TypeError(f"needs one of {known}, got {type(layer).__name__}.")


def copied(parameter: Tensor) -> nn.Parameter:
    """The same values in a parameter of their own, frozen if the first was."""
    return nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
